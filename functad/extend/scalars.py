"""A primitive of one's own as one expression of scalars, which `jit` fuses with what stands around it.

Knows which words expressions may have; not how they become kernels.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator
from functools import lru_cache
from typing import Any

from functad.errors import CustomRuleError, close_names
from functad.lowering_rules import Scalar
from functad.system.once import imported

_NUMBERS = ("inf", "nan")
_PLACES = 100  # operands whose places a template may name


class OwnScalar(Scalar):
    """A `Scalar` rule of a user's: what it says is checked where it is used."""

    def text(self, eqn: Any) -> str:
        """The template for an equation.

        Raises:
            CustomRuleError: it has a word that kernels do not know, or the equation is not element-wise.
        """
        shapes = {atom.aval.shape for atom in (*eqn.invars, *eqn.outvars) if atom.aval.shape}
        if len(shapes) > 1:
            raise CustomRuleError(
                f"the Scalar rule of `{eqn.primitive.name}` at {eqn.source}: it goes element by element, but shapes "
                f"are {', '.join(str(list(shape)) for shape in sorted(shapes))}; broadcast operands first, or say what "
                "`jit` compiles by lower_fun"
            )
        template = super().text(eqn)
        check_template(eqn.primitive.name, template, len(eqn.invars))
        return template


@lru_cache(maxsize=1000)
def check_template(name: str, template: str, operands: int = _PLACES) -> None:
    """Raise CustomRuleError unless a template is an expression of operands and of words that kernels know.

    operands: how many there are.

    >>> check_template("twice", "{0} + {0}")
    >>> check_template("wave", "sine({0})")
    Traceback (most recent call last):
        ...
    functad.errors.CustomRuleError: the Scalar rule of `wave` is 'sine({0})', but kernels do not know `sine`; ...
    """
    said = f"the Scalar rule of `{name}` is {template!r}, but"
    try:
        text = template.format(*[f"x{k}" for k in range(operands)], T="f32", R="f32")
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, KeyError, IndexError, ValueError) as problem:
        raise CustomRuleError(
            f"{said} it must be one expression of Python, in which {{0}}, {{1}}, … stand for the operands, {{T}} for "
            f"the cast to the first one's dtype and {{R}} for that to the result's ({problem})"
        ) from None
    if unknown := unknown_word(tree, {f"x{k}" for k in range(operands)}):
        raise CustomRuleError(f"{said} {unknown}")


def unknown_word(tree: ast.AST, known: Container[str]) -> str:
    """What to say of the first word of an expression that is neither known nor one of kernels; "" if there is none."""
    vocabulary = imported("functad.backends.cpu.kernels.generate").VOCABULARY
    for word in dotted_names(tree):
        if word not in vocabulary and word not in _NUMBERS and word not in known:
            close = close_names(word, vocabulary)
            meant = f"; did you mean {' or '.join(f'`{c}`' for c in close)}?" if close else ""
            return (
                f"kernels do not know `{word}`{meant or ';'} they know operators, and the functions of "
                "functad.backends.cpu.scalars, such as exp, log, sqrt and tanh"
            )
    return ""


def dotted_names(tree: ast.AST) -> Iterator[str]:
    """The names in an expression, those with dots whole."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield ast.unparse(node)
