"""How equations become a loop nest: a builder writes them into one, rule by rule.

Knows lowering rules and index arithmetic; no target, and no memory but which buffer a variable lies in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad import machine_model
from functad.dtypes import compute_dtype, is_narrow_float, kind_of
from functad.ir import Atom, Aval, Eqn, Literal, Var
from functad.lowering.memory.buffers import Buffer
from functad.lowering.nests.affine import Affine, data, delinear, linear
from functad.lowering.nests.names import variables_in
from functad.lowering.nests.nest import (
    ACROSS,
    POST,
    PRE,
    Accumulator,
    Carried,
    CarriedAxis,
    IndexLet,
    Let,
    Load,
    Nest,
    Place,
    Store,
    Update,
    fresh,
    goes_across,
    typed_literal,
)
from functad.lowering.nests.pieces import Box, Cuts, index_in, whole
from functad.lowering_rules import Indexed, Loops, Reduction, Running, Scalar, Scattered
from functad.primitives.loops.text import cast, rounding

LOOP_NAMES = "ijklmnopqrst"

# Numbers that allow other instructions than those for any number, or are so frequent that they say what is computed.
_IN_TEXT = {0.0, 0.5, 1.0, 2.0, float("inf")}


class NestBuilder:
    """Writes equations into a nest. Values flow through names; what is not computed here is loaded.

    definition: the equation that makes a variable to be computed where it is used, or None for one in a buffer.
    buffer: the buffer of a variable. name: the variable's name in the printed Program. box: the part of the domain over
    which the nest runs; all of it if None. direction: along which values are carried, if any are.
    """

    def __init__(
        self,
        shape: Sequence[int],
        axes: Sequence[int],
        definition: Callable[[Var], Eqn | None],
        buffer: Callable[[Var], Buffer],
        name: Callable[[Var], str],
        box: Box | None = None,
        direction: CarriedAxis | None = None,
    ) -> None:
        self.shape = tuple(shape)
        names = [LOOP_NAMES[min(d, 11)] + ("" if d < 12 else str(d)) for d in range(len(shape))]
        box = whole(shape) if box is None else box
        if direction is not None and direction.reverse:
            box = tuple([r.backwards() if d == direction.axis else r for d, r in enumerate(box)])
        self.index = index_in(box, names)
        self.cuts = Cuts(self.index)
        loops = [i.terms[0][0] for i in self.index if i.terms]
        reduced = [d in axes for d, i in enumerate(self.index) if i.terms]
        self.nest = Nest(loops, reduced)
        if direction is not None and self.index[direction.axis].terms:
            self.nest.carried = self.index[direction.axis].terms[0][0]
        self.position = linear(self.index, self.shape)
        self.outer_shape = tuple(n for d, n in enumerate(shape) if d not in axes)
        self.outer_index = tuple(i for d, i in enumerate(self.index) if d not in axes)
        self.outer_position = linear(self.outer_index, self.outer_shape)
        columns = [d for d in range(len(shape)) if d in axes]
        self._positions = {
            PRE: self.position,
            POST: self.outer_position,
            ACROSS: linear([self.index[d] for d in columns], [shape[d] for d in columns]),
        }
        self._axes = axes
        self._definition, self._buffer, self._name = definition, buffer, name
        self._local: dict[Var, tuple[str, int]] = {}
        self._memo: dict[Any, str] = {}
        self._taken: set[str] = {s.name for s in loops}
        self.loaded: list[tuple[Var, Affine]] = []  # every variable read from outside, and where

    # --- equations ---------------------------------------------------------------------------------------

    def add_pointwise(self, eqn: Eqn, level: int) -> None:
        """An element-wise or element-moving equation whose result has one element for each point of the level."""
        position = self.position if level == PRE else self.outer_position
        domain = self.shape if level == PRE else self.outer_shape
        index = self.index if level == PRE else self.outer_index
        shape = eqn.outvars[0].aval.shape
        if shape != domain:
            index = delinear(position, shape)
        self.nest.eqns.append(eqn)
        if isinstance(eqn.primitive.lower, Scalar):
            names = self._scalar(eqn.primitive.lower, eqn, index, level)
        else:
            names = [self._compute(eqn, index, level, 0)]
        for var, name in zip(eqn.outvars, names):
            self._local[var] = (name, level)

    def add_reduction(self, eqn: Eqn) -> None:
        """A reduction of the loops that the nest reduces, or of all the others."""
        rule = eqn.primitive.lower
        assert isinstance(rule, Reduction)
        operand, out = eqn.invars[0], eqn.outvars[0]
        index = self.index if operand.aval.shape == self.shape else delinear(self.position, operand.aval.shape)
        # What has no elements is not read: the read could move out of the loops that never run.
        value = self.value(operand, index, PRE) if operand.aval.size else typed_literal(0, operand.aval.dtype)
        name = self._fresh(f"{_identifier(eqn.primitive.name.removeprefix('reduce_'))}_{self._name(out)}")
        self.nest.eqns.append(eqn)
        if goes_across(rule.axes(eqn), self._axes):
            self.nest.across.append(Accumulator(name, rule.kind, out.aval.dtype, value, eqn))
            self._local[out] = (name, ACROSS)
            return
        terms = self.nest.points // max(self.nest.outer_points, 1)
        few = terms <= machine_model.MOST_SUMMED_IN_ORDER
        self.nest.accumulators.append(Accumulator(name, rule.kind, out.aval.dtype, value, eqn, few))
        self._local[out] = (self._total(name, eqn), POST)

    def add_running(self, eqn: Eqn) -> None:
        """A running combination along the carried loop; of one element it is that element."""
        rule = eqn.primitive.lower
        assert isinstance(rule, Running)
        dtype, out = eqn.outvars[0].aval.dtype, eqn.outvars[0]
        index = self.index if out.aval.shape == self.shape else delinear(self.position, out.aval.shape)
        value = self.value(eqn.invars[0], index, PRE)
        self.nest.eqns.append(eqn)
        if self.nest.carried is not None:
            wide, name = rule.kept_in(dtype), self._fresh_for(eqn, 0)
            if wide == dtype:
                self.nest.statements.append(Carried(name, rule.kind, wide, value, eqn))
            else:
                widened, total = self._fresh(f"wide_{name}"), self._fresh(f"total_{name}")
                text, rounded = f"{cast(wide)}({value})", f"{rounding(dtype)}({total})"
                self.nest.statements.append(Let((widened,), text, variables_in(text, self._taken), PRE, eqn))
                self.nest.statements.append(Carried(total, rule.kind, wide, widened, eqn))
                self.nest.statements.append(Let((name,), rounded, (total,), PRE, eqn))
            value = name
        self._local[out] = (value, PRE)

    def add_contraction(self, eqn: Eqn) -> None:
        """A `dot_general` as a reduction over a domain of batch, free and contracted axes, in this order."""
        (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = eqn.params["dimension_numbers"]
        rank = eqn.outvars[0].aval.ndim
        batch, free, contracted = (
            self.index[: len(lhs_batch)],
            iter(self.index[len(lhs_batch) : rank]),
            self.index[rank:],
        )
        texts = []
        out = eqn.outvars[0].aval.dtype
        to_out = cast(out)
        for atom, own_batch, own_contract in zip(eqn.invars, (lhs_batch, rhs_batch), (lhs_contract, rhs_contract)):
            known = {**dict(zip(own_batch, batch)), **dict(zip(own_contract, contracted))}
            index = [known[d] if d in known else next(free) for d in range(atom.aval.ndim)]
            name = self.value(atom, index, PRE) if atom.aval.size else typed_literal(0, atom.aval.dtype)
            texts.append(name if atom.aval.dtype == out else f"{to_out}({name})")
        text = f"{texts[0]} & {texts[1]}" if kind_of(out) == "b" else f"term({texts[0]}, {texts[1]})"
        name = self._fresh(f"product_{self._name(eqn.outvars[0])}")
        text = f"{to_out}({text})" if kind_of(out) in "iu" else text
        self.nest.statements.append(Let((name,), text, variables_in(text, self._taken), PRE, eqn))
        total = self._fresh(f"sum_{self._name(eqn.outvars[0])}")
        self.nest.eqns.append(eqn)
        self.nest.accumulators.append(Accumulator(total, "or" if kind_of(out) == "b" else "sum", out, name, eqn))
        self._local[eqn.outvars[0]] = (self._total(total, eqn), POST)

    def add_update(self, eqn: Eqn, buffer: Callable[[NestBuilder], Buffer]) -> None:
        """Updates, over the loops that their rule names, of a buffer that is asked for when all others are known."""
        rule = eqn.primitive.lower
        assert isinstance(rule, Scattered)
        place, guard, value = rule.rule(Context(self, eqn, PRE), self.index, **eqn.params)
        self.nest.eqns.append(eqn)
        offset = linear(place, eqn.outvars[0].aval.shape)
        self.nest.stores.append(Update(buffer(self), offset, value, PRE, rule.kind, guard))

    def _total(self, name: str, eqn: Eqn) -> str:
        """What an accumulator has become, as a value of the result's dtype: narrow floats are kept in float32."""
        dtype = eqn.outvars[0].aval.dtype
        if not is_narrow_float(dtype):
            return name
        rounded = self._fresh(f"rounded_{name}")
        self.nest.statements.append(Let((rounded,), f"{rounding(dtype)}({name})", (name,), POST, eqn))
        return rounded

    def store(self, var: Var, buffer: Buffer, place: Place | None = None) -> None:
        """Store a variable of this nest; `place` tells where in the buffer its element at a position lies."""
        name, level = self._local[var]
        position = self._positions[level]
        self.nest.stores.append(Store(buffer, place(position) if place else position, name, level))

    def copy(self, source: Atom, buffer: Buffer, place: Place | None = None) -> None:
        """Store a value computed elsewhere, element by element."""
        self.copy_element(self.value(source, self.index, PRE), buffer, place)

    def copy_element(self, value: str, buffer: Buffer, place: Place | None = None) -> None:
        self.nest.stores.append(Store(buffer, place(self.position) if place else self.position, value, PRE))

    def level(self, var: Var) -> int:
        """At which level a variable of this nest is known."""
        return self._local[var][1]

    def literal(self, value: Any, dtype: np.dtype) -> str:
        """A constant: the name under which the nest is given it, or its text if it is a special or a whole number."""
        if kind_of(dtype) != "f" or value != value or abs(float(value)) in _IN_TEXT:
            return typed_literal(value, dtype)
        key = (dtype, float(value))
        if key not in self._memo:
            name = self._memo[key] = self._fresh(f"c_{len(self.nest.constants) + 1}")
            self.nest.constants[name] = compute_dtype(dtype).type(value)
        return self._memo[key]

    # --- values ------------------------------------------------------------------------------------------

    def value(self, atom: Atom, index: Sequence[Affine], level: int) -> str:
        """The name, or the text if it is a constant, of one element of an operand."""
        if isinstance(atom, Literal):
            return self.literal(atom.value, atom.aval.dtype)
        position = linear(index, atom.aval.shape)
        if atom in self._local:
            name, own_level = self._local[atom]
            own = self.position if own_level == PRE else self.outer_position
            # What is cut into pieces, which are written instead, reads at its own point in those.
            assert position == own or self.cuts.first is not None, "not at its own point"
            return name
        key = (atom, position, level)
        found = self._memo.get(key)
        if found is None:
            eqn = self._definition(atom)
            if eqn is None:
                found = self._load(atom, position, level)
            else:
                found = self._compute(eqn, index, level, eqn.outvars.index(atom))
                self.nest.eqns.append(eqn)
            self._memo[key] = found
        return found

    def _load(self, var: Var, position: Affine, level: int) -> str:
        self.loaded.append((var, position))
        name = self._fresh(f"at_{self._name(var)}")
        self.nest.statements.append(Load(name, self._buffer(var), position, level))
        return name

    def _compute(self, eqn: Eqn, index: Sequence[Affine], level: int, result: int) -> str:
        rule: Any = eqn.primitive.lower
        if isinstance(rule, Scalar):
            return self._scalar(rule, eqn, index, level)[result]
        rule = rule.indexed if isinstance(rule, Loops) else rule
        assert isinstance(rule, Indexed), f"{eqn.primitive.name} has no rule for loop nests"
        context = Context(self, eqn, level)
        text = rule.element(context, index, eqn, result)
        return self._named(text, eqn, result, level)

    def _scalar(self, rule: Scalar, eqn: Eqn, index: Sequence[Affine], level: int) -> list[str]:
        operands = [
            typed_literal(a.value, a.aval.dtype)
            if isinstance(a, Literal) and k in rule.kept
            else self.value(a, index if a.aval.shape else (), level)
            for k, a in enumerate(eqn.invars)
        ]
        template = rule.text(eqn)
        out_dtype, own_dtype = eqn.outvars[0].aval.dtype, eqn.invars[0].aval.dtype if eqn.invars else None
        casts = {"R": cast(out_dtype), "T": "" if own_dtype is None else cast(own_dtype)}
        text = template.format(*operands, **casts)
        if len(eqn.outvars) > 1:
            names = tuple(self._fresh_for(eqn, i) for i in range(len(eqn.outvars)))
            self.nest.statements.append(Let(names, text, tuple(operands), level, eqn))
            return list(names)
        if template == "{0}" and out_dtype == own_dtype:
            return [operands[0]]
        if kind_of(out_dtype) in "iu":
            text = f"{casts['R']}({text})"
        elif is_narrow_float(out_dtype):
            text = f"{rounding(out_dtype)}({text})"
        name = self._fresh_for(eqn, 0)
        self.nest.statements.append(Let((name,), text, tuple(operands), level, eqn))
        return [name]

    def _named(self, text: str, eqn: Eqn, result: int, level: int) -> str:
        operands = variables_in(text, self._taken)
        if text in self._taken or not operands:
            return text
        name = self._fresh_for(eqn, result)
        self.nest.statements.append(Let((name,), text, operands, level, eqn))
        return name

    def _fresh_for(self, eqn: Eqn, result: int) -> str:
        return self._fresh(f"{_identifier(eqn.primitive.name)}_{self._name(eqn.outvars[result])}")

    def _fresh(self, wanted: str) -> str:
        return fresh(wanted, self._taken)


class Context:
    """What an `Indexed` rule may ask for: its operands' elements and index arithmetic."""

    def __init__(self, builder: NestBuilder, eqn: Eqn, level: int) -> None:
        self._builder = builder
        self._eqn = eqn
        self._level = level
        self.avals: list[Aval] = [a.aval for a in eqn.invars]
        self.out: Aval = eqn.outvars[0].aval
        self.source = eqn.source

    def read(self, k: int, index: Sequence[Affine]) -> str:
        """The element of operand k at an index, which must lie inside of it."""
        return self._builder.value(self._eqn.invars[k], tuple(index), self._level)

    def flat(self, index: Sequence[Affine]) -> Affine:
        """The row-major position of an index of the result."""
        return linear(index, self.out.shape)

    def read_flat(self, k: int, position: Affine) -> str:
        """The element of operand k at a row-major position."""
        return self.read(k, delinear(position, self.avals[k].shape))

    def let(self, text: str) -> str:
        """A name for the value of an expression."""
        builder = self._builder
        name = builder._fresh(f"{_identifier(self._eqn.primitive.name)}_step")
        builder.nest.statements.append(Let((name,), text, variables_in(text, builder._taken), self._level, self._eqn))
        return name

    def less(self, value: Affine, bound: int) -> bool | None:
        """Whether an index lies below a bound: everywhere, nowhere (False), or at some points (None) of this piece."""
        return self._builder.cuts.less(value, bound)

    def multiple(self, value: Affine, divisor: int) -> bool | None:
        """Whether an index is a multiple of a number: everywhere, nowhere, or at some points of this piece."""
        return self._builder.cuts.multiple(value, divisor)

    def index(self, name: str, low: int, high: int) -> Affine:
        """A whole number under a name, as an index that lies in `low..high`."""
        return data(name, low, high)

    def text(self, value: Affine) -> str:
        """A name, or the digits, of an index."""
        if value.is_constant():
            return str(value.constant)
        builder = self._builder
        key = (value, self._level)
        if key not in builder._memo:
            name = builder._fresh("at")
            builder.nest.statements.append(IndexLet(name, value, self._level))
            builder._memo[key] = name
        return builder._memo[key]

    def clamp(self, value: Affine, low: int, high: int) -> Affine:
        """The nearest index within `low..high`."""
        if low <= value.low and value.high <= high:
            return value
        text = self.text(value)
        if value.high > high:
            text = f"min({text}, {high})"
        if value.low < low:
            text = f"max({text}, {low})"
        return data(self.let(text), low, high)


def _identifier(name: str) -> str:
    return name.replace("-", "_")
