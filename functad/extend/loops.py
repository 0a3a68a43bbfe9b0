"""A primitive of one's own as loops: `Indexed` and `Reduction` rules, which `jit` fuses with what stands around them.

Knows which texts and indices a rule may give; not how they become kernels.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, NoReturn

from functad.dtypes import kind_of
from functad.errors import CustomRuleError
from functad.extend.scalars import unknown_word, words_in
from functad.ir import Aval, Eqn
from functad.lowering.nests.affine import Affine
from functad.lowering_rules import Indexed, Reduction
from functad.primitives.loops.moving import clamped
from functad.primitives.loops.text import rounding

_KINDS = {"sum": "fciu", "prod": "fciu", "max": "bfiu", "min": "bfiu", "and": "biu", "or": "biu", "xor": "biu"}


class OwnIndexed(Indexed):
    """An `Indexed` rule of a user's: what it says is checked where it is used."""

    def element(self, context: Any, index: Sequence[Affine], eqn: Eqn, result: int) -> str:
        """The text of an element.

        Raises:
            CustomRuleError: it is no expression of words that kernels know, or of elements that lie inside.
        """
        name = eqn.primitive.name
        if len(eqn.outvars) != 1:
            raise CustomRuleError(
                f"the Indexed rule of `{name}` at {eqn.source}: it says what one result is, but there are "
                f"{len(eqn.outvars)}; make a primitive for each, or say what `jit` compiles by lower_fun"
            )
        elements = OperandElements(context, name, eqn)
        text = self.rule(elements, tuple(index), **eqn.params)
        elements.check(text)
        aval = eqn.outvars[0].aval
        return text if elements.dtypes.get(text) == aval.dtype else f"{rounding(aval.dtype)}({text})"


class OperandElements:
    """What an `Indexed` rule of a user's may ask for: elements of its operands, and names for numbers.

    Attributes:
        avals: the types of the operands, each with `shape` and `dtype`.
        out: the type of the result.
    """

    def __init__(self, context: Any, name: str, eqn: Eqn) -> None:
        self._context, self._name, self._eqn = context, name, eqn
        self._known: set[str] = set()
        self.dtypes: dict[str, Any] = {}
        self.avals: list[Aval] = context.avals
        self.out: Aval = context.out

    def read(self, k: int, index: Sequence[Any]) -> str:
        """The text of an element of operand k, at an index which must lie inside of it."""
        if not 0 <= k < len(self.avals):
            self._fail(f"reads operand {k}, but there are {len(self.avals)}, from 0 on")
        shape, index = self.avals[k].shape, tuple(index)
        if len(index) != len(shape):
            self._fail(f"reads operand {k} at {len(index)} indices, but it has {len(shape)} axes")
        checked = [self._inside(k, axis, i, n) for axis, (i, n) in enumerate(zip(index, shape))]
        text = self._noted(self._context.read(k, checked))
        self.dtypes[text] = self.avals[k].dtype
        return text

    def clamp(self, value: Any, low: int, high: int) -> Affine:
        """The nearest index within `low..high`."""
        found: Affine = self._context.clamp(self._index(value), low, high)
        return found

    def place(self, text: str, dtype: Any, size: int) -> Affine:
        """A whole number, the text of one element of a dtype, as an index of an axis of a size: clamped to inside."""
        self.check(text)
        number = self._context.let(clamped(text, dtype, size - 1))
        found: Affine = self._context.index(self._noted(number), 0, size - 1)
        return found

    def text(self, value: Any) -> str:
        """The text of an index, as a whole number of 64 bits."""
        return self._noted(self._context.text(self._index(value)))

    def let(self, text: str) -> str:
        """A name for the value of an expression, which is then computed once."""
        self.check(text)
        return self._noted(self._context.let(text))

    def check(self, text: Any) -> None:
        """Raise CustomRuleError unless a text is an expression of what has been read and of words that kernels know."""
        try:
            tree = ast.parse(text, mode="eval")
        except (SyntaxError, TypeError, ValueError):
            self._fail(f"gives {text!r}, but must give the text of one expression of Python, such as '{{x}} + 1'")
        if problem := unknown_word(tree, self._known):
            self._fail(f"gives {text!r}, but {problem}")

    def _noted(self, text: str) -> str:
        """Remember the names in a text as known ones."""
        self._known.update(words_in(ast.parse(text, mode="eval")))
        return text

    def _index(self, value: Any) -> Affine:
        numbers = (value.constant, *(c for _, c in value.terms)) if isinstance(value, Affine) else (value,)
        if not all(isinstance(n, int) for n in numbers):
            self._fail(
                f"uses {value!r} as an index; an index is made of `index` and of whole numbers by +, -, *, // and %, "
                "or of an element by context.place(text, dtype, size)"
            )
        return value if isinstance(value, Affine) else Affine(value)

    def _inside(self, k: int, axis: int, value: Any, size: int) -> Affine:
        index = self._index(value)
        if self.out.size and not (index.low >= 0 and index.high < size):
            self._fail(
                f"reads operand {k} along axis {axis} from {index.low} to {index.high}, but there it has {size} "
                f"elements; context.clamp(index, 0, {size - 1}) moves an index inside"
            )
        return index

    def _fail(self, problem: str) -> NoReturn:
        raise CustomRuleError(f"the Indexed rule of `{self._name}` at {self._eqn.source}: it {problem}")


class OwnReduction(Reduction):
    """A `Reduction` rule of a user's: whether it fits is checked where it is used."""

    def axes(self, eqn: Eqn) -> tuple[int, ...]:
        """The axes over which it goes.

        Raises:
            CustomRuleError: it has no such parameter, or types are not those of a reduction.
        """
        said = f"the Reduction rule of `{eqn.primitive.name}` at {eqn.source}:"
        if len(eqn.invars) != 1 or len(eqn.outvars) != 1:
            raise CustomRuleError(
                f"{said} it takes one operand to one result, but there are {len(eqn.invars)} and {len(eqn.outvars)}"
            )
        operand, out = eqn.invars[0].aval, eqn.outvars[0].aval
        axes = eqn.params.get("axes")
        if not isinstance(axes, tuple) or any(type(d) is not int or not 0 <= d < operand.ndim for d in axes):
            raise CustomRuleError(
                f"{said} it goes over the parameter `axes`, a tuple of numbers from 0 to {operand.ndim - 1}, but "
                + ("there is no such parameter" if axes is None else f"that is {axes!r}")
            )
        if kind_of(operand.dtype) not in _KINDS[self.kind]:
            raise CustomRuleError(f"{said} {self.kind!r} does not combine elements of {operand.dtype}")
        wanted = Aval([n for d, n in enumerate(operand.shape) if d not in axes], operand.dtype)
        if not wanted.same_type(out):
            raise CustomRuleError(
                f"{said} over axes {axes} it makes {wanted.str_short()} of {operand.str_short()}, but the shape rule "
                f"says {out.str_short()}"
            )
        return axes


def checked_indexed(name: str, rule: Indexed) -> OwnIndexed:
    """The rule of a primitive of that name.

    Raises:
        CustomRuleError: it says of itself what only functad's own rules may say.
    """
    if rule.free or rule.same_memory:
        raise CustomRuleError(
            f"the Indexed rule of `{name}` is said to be free, or to share memory, which cannot be checked: leave "
            "`free` and `same_memory` out, or make it of functad.numpy by lower_fun"
        )
    return OwnIndexed(rule.rule, once=rule.once)


def checked_reduction(name: str, rule: Reduction) -> OwnReduction:
    """The rule of a primitive of that name.

    Raises:
        CustomRuleError: nothing is combined in that way.
    """
    if rule.kind not in _KINDS:
        raise CustomRuleError(
            f"the Reduction rule of `{name}` is of kind {rule.kind!r}; there are {', '.join(map(repr, _KINDS))}"
        )
    return OwnReduction(rule.kind)
