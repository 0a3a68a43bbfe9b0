"""A primitive of one's own as loops: rules of nests, which `jit` fuses with what stands around them.

Knows which texts and indices a rule may give; not how they become kernels.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np

from functad.dtypes import compute_dtype, kind_of
from functad.errors import CustomRuleError
from functad.extend.scalars import dotted_names, unknown_word
from functad.ir import Aval, Eqn
from functad.lowering.nests.affine import Affine
from functad.lowering_rules import Indexed, Reduction, Running, Scattered, UpdateLoops
from functad.primitives.loops.moving import clamped_text
from functad.primitives.loops.text import rounding

_KINDS = {"sum": "fciu", "prod": "fciu", "max": "bfiu", "min": "bfiu", "and": "biu", "or": "biu", "xor": "biu"}
_UPDATES = {"set": "bfciu", "add": "fciu", "mul": "fciu", "min": "bfiu", "max": "bfiu"}
_RUNNING = ("sum", "prod", "max", "min")


class OwnIndexed(Indexed):
    """An `Indexed` rule of a user's: what it says is checked where it is used."""

    def element(self, context: Any, index: Sequence[Affine], eqn: Eqn, result: int) -> str:
        """The text of an element.

        Raises:
            CustomRuleError: it is no expression of words that kernels know, or of elements that lie inside.
        """
        said = f"the Indexed rule of `{eqn.primitive.name}` at {eqn.source}:"
        if len(eqn.outvars) != 1:
            raise CustomRuleError(
                f"{said} it says what one result is, but there are {len(eqn.outvars)}; make a primitive for each, or "
                "say what `jit` compiles by lower_fun"
            )
        elements = OperandElements(context, said)
        text = self.rule(elements, tuple(index), **eqn.params)
        elements.check(text)
        return elements.rounded(text)


class OperandElements:
    """What an `Indexed` or a `Scattered` rule of a user's may ask for: elements of operands, and names for numbers.

    Attributes:
        avals: the types of the operands, each with `shape` and `dtype`.
        out: the type of the result.
    """

    def __init__(self, context: Any, said: str) -> None:
        self._context, self._said = context, said
        self._known: set[str] = set()
        self.dtypes: dict[str, Any] = {}
        self.avals: list[Aval] = context.avals
        self.out: Aval = context.out

    def read(self, k: int, index: Sequence[Any]) -> str:
        """The text of an element of operand k, at an index which must lie inside of it."""
        if not 0 <= k < len(self.avals):
            self._fail(f"reads operand {k}, but there are {len(self.avals)}, from 0 on")
        place = self.inside(f"reads operand {k}", index, self.avals[k].shape)
        text = self._noted(self._context.read(k, place))
        self.dtypes[text] = self.avals[k].dtype
        return text

    def clamp(self, value: Any, low: int, high: int) -> Affine:
        """The nearest index within `low..high`."""
        found: Affine = self._context.clamp(self._index(value), low, high)
        return found

    def place(self, text: str, dtype: Any, size: int) -> Affine:
        """A whole number, the text of one element of a dtype, as an index of an axis of a size: clamped to inside."""
        self.check(text)
        dtype = np.dtype(dtype)
        if kind_of(dtype) not in "iu":
            self._fail(f"uses {text!r}, of {dtype}, as an index; an index is a whole number, such as i64({text})")
        number = self._context.let(clamped_text(text, dtype, size - 1))
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

    def rounded(self, text: str) -> str:
        """A checked text as an element of the result."""
        return text if self.dtypes.get(text) == self.out.dtype else f"{rounding(self.out.dtype)}({text})"

    def inside(self, what: str, index: Any, shape: Sequence[int]) -> list[Affine]:
        """An index, if it lies inside of a shape; `what` tells what it is an index for."""
        if not isinstance(index, (tuple, list)):
            self._fail(f"{what} at {index!r}, but an index is a tuple, of one whole number for each axis")
        if len(index) != len(shape):
            self._fail(f"{what} at {len(index)} indices, but it has {len(shape)} axes")
        return [self._inside(f"{what} along axis {d}", i, n) for d, (i, n) in enumerate(zip(index, shape))]

    def _noted(self, text: str) -> str:
        """Remember the names in a text as known ones."""
        self._known.update(dotted_names(ast.parse(text, mode="eval")))
        return text

    def _index(self, value: Any) -> Affine:
        numbers = (value.constant, *(c for _, c in value.terms)) if isinstance(value, Affine) else (value,)
        if not all(isinstance(n, int) for n in numbers):
            self._fail(
                f"uses {value!r} as an index; an index is made of `index` and of whole numbers by +, -, *, // and %, "
                "or of an element by context.place(text, dtype, size)"
            )
        return value if isinstance(value, Affine) else Affine(value)

    def _inside(self, what: str, value: Any, size: int) -> Affine:
        index = self._index(value)
        if self.out.size and not (index.low >= 0 and index.high < size):
            self._fail(
                f"{what} from {index.low} to {index.high}, but there it has {size} elements; "
                f"context.clamp(index, 0, {size - 1}) moves an index inside"
            )
        return index

    def _fail(self, problem: str) -> NoReturn:
        raise CustomRuleError(f"{self._said} it {problem}")


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


class OwnRunning(Running):
    """A `Running` rule of a user's: whether it fits is checked where it is used."""

    def direction(self, eqn: Eqn) -> tuple[int, bool]:
        """The axis along which it goes, and whether from its end; from its beginning if no parameter says.

        Raises:
            CustomRuleError: it has no such parameter, or types are not those of a running combination.
        """
        said = f"the Running rule of `{eqn.primitive.name}` at {eqn.source}:"
        types = [v.aval for v in (*eqn.invars, *eqn.outvars)]
        if len(eqn.invars) != 1 or len(eqn.outvars) != 1 or not types[0].same_type(types[1]):
            raise CustomRuleError(
                f"{said} it takes one operand to one result of the same type, but types are "
                f"{', '.join(t.str_short() for t in types)}"
            )
        axis, reverse = eqn.params.get("axis"), eqn.params.get("reverse", False)
        if type(axis) is not int or not 0 <= axis < types[0].ndim:
            raise CustomRuleError(
                f"{said} it goes along the parameter `axis`, a number from 0 to {types[0].ndim - 1}, but "
                + ("there is no such parameter" if axis is None else f"that is {axis!r}")
            )
        if kind_of(types[0].dtype) not in _KINDS[self.kind]:
            raise CustomRuleError(f"{said} {self.kind!r} does not combine elements of {types[0].dtype}")
        return axis, bool(reverse)


def _own_update(
    name: str, rule: Scattered, context: Any, index: Sequence[Affine], **params: Any
) -> tuple[Sequence[Affine], str, str]:
    """Where a user's rule puts an update, under which condition, and the update.

    Raises:
        CustomRuleError: it does not say that, or puts it outside of the result.
    """
    said = f"the Scattered rule of `{name}` at {context.source}:"
    elements = OperandElements(context, said)
    if not context.avals[0].same_type(context.out):
        raise CustomRuleError(
            f"{said} its result is its first operand, updated, but they are {context.out.str_short()} and "
            f"{context.avals[0].str_short()}"
        )
    if kind_of(context.out.dtype) not in _UPDATES[rule.kind]:
        raise CustomRuleError(f"{said} {rule.kind!r} does not combine elements of {context.out.dtype}")
    found = rule.rule(elements, tuple(index), **params)
    if not isinstance(found, tuple) or len(found) != 3:
        raise CustomRuleError(
            f"{said} it gives {found!r}, but must give (place, condition, update): an index of the result, the text of "
            'a condition or "", and the text of the update'
        )
    place, condition, update = found
    checked = elements.inside("puts an update", place, context.out.shape)
    for text in (update, *([condition] if condition != "" else [])):
        elements.check(text)
    return checked, context.let(condition) if condition else "", elements.rounded(update)


def _own_update_loops(name: str, rule: Scattered, *avals: Aval, **params: Any) -> UpdateLoops:
    """The loops of a user's rule.

    Raises:
        CustomRuleError: they are none.
    """
    found = rule.loops(*avals, **params)
    try:
        shape, ordered = tuple(found[0]), tuple(found[1])
        fits = len(found) == 2 and len(shape) == len(ordered) and all(isinstance(n, int) and n >= 0 for n in shape)
    except (TypeError, IndexError):
        fits = False
    if not fits:
        raise CustomRuleError(
            f"the Scattered rule of `{name}`: its loops are {found!r}, but must be UpdateLoops(shape, ordered): how "
            "many steps each has, and for each whether its updates may meet at one place"
        )
    return UpdateLoops(shape, tuple(map(bool, ordered)))


def _own_accumulator(rule: Callable[..., Any] | None, *avals: Aval, **params: Any) -> np.dtype:
    """Where a user's rule says nothing, floats of 16 bits are combined with 32, as the implementation combines them."""
    return compute_dtype(avals[0].dtype) if rule is None else np.dtype(rule(*avals, **params))


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


def checked_running(name: str, rule: Running) -> OwnRunning:
    """The rule of a primitive of that name.

    Raises:
        CustomRuleError: nothing is combined in that way.
    """
    _check_kind(name, rule, _RUNNING)
    return OwnRunning(rule.kind)


def checked_scattered(name: str, rule: Scattered) -> Scattered:
    """The rule of a primitive of that name.

    Raises:
        CustomRuleError: nothing is put in that way.
    """
    _check_kind(name, rule, _UPDATES)
    return Scattered(
        partial(_own_update_loops, name, rule),
        partial(_own_update, name, rule),
        rule.kind,
        None if rule.kind == "set" else partial(_own_accumulator, rule.accumulator),
    )


def checked_reduction(name: str, rule: Reduction) -> OwnReduction:
    """The rule of a primitive of that name.

    Raises:
        CustomRuleError: nothing is combined in that way.
    """
    _check_kind(name, rule, _KINDS)
    return OwnReduction(rule.kind)


def _check_kind(name: str, rule: Reduction | Running | Scattered, kinds: Iterable[str]) -> None:
    if rule.kind not in kinds:
        raise CustomRuleError(
            f"the {type(rule).__name__} rule of `{name}` is of kind {rule.kind!r}; there are "
            f"{', '.join(map(repr, kinds))}"
        )
