"""Linear recurrences: loops that are linear in the few numbers they carry, with a shorter chain from step to step.

Knows `scan` equations by their parts, and which primitives are linear; nothing of what the numbers mean.

A loop over numbers takes as long as those operations of a step that wait for one another. The backward loop of a
gradient is linear in what it carries: `ct ← (ct + p)·(1 − x)·r − (ct + p)·(r·x)` is `ct ← c·ct + d`, where c and d need
no ct. They are computed before the loop, for all steps at once, so that a step waits for a product and a sum. Where all
carries but a few are sums that are only added to, two steps become one: `ct ← (c₂·c₁)·ct + (c₂·d₁ + d₂)`.
Whether that pays, and how many steps are taken at once, is decided by what a step takes: the chain, or all operations.

Only loops that a transform made for tangents or cotangents are looked at (`linear`, a parameter of a scan), and the
results differ from those of the steps as they were written by rounding alone. `(ct·a)·b` becomes `ct·(a·b)`, so
products could leave the range of the dtype in one way of computing and not in the other. The new loop finds whether
they do (`ranges.py`); then a `cond` runs the loop as it was written.

A `select_n` that drops a carry makes the factor of it 0 in some steps, and a result of 0 proves nothing. Such a loop
stays as it is, unless the other cases use the carry in another term of the same sum, as the derivative of
`where(done, x, f(x))` does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from functad import machine_model
from functad.control.conditional import either
from functad.control.scan import scan as scan_loop
from functad.control.scan import scan_p
from functad.ir import Atom, Aval, Eqn, Literal, Program, Var
from functad.lowering_rules import Indexed, Scalar
from functad.optimize.loops.parts import AllSteps, Scan
from functad.optimize.loops.ranges import Watched, bound_of_step, to_measure
from functad.primitives.arithmetic import abs as abs_
from functad.primitives.arithmetic import add, add_p, div, div_p, mul, mul_p, neg, neg_p, sub_p
from functad.primitives.common import add_any_p, reshape
from functad.primitives.cost import latency_of, operations_of
from functad.primitives.logic import select_n, select_n_p
from functad.primitives.reduction import reduce_max
from functad.primitives.structure import slice_
from functad.records import NamedTuple
from functad.tracing import bind, trace_to_program
from functad.user_source import set_source, transforming

Form = dict[int | None, Any]
"""A sum of carries, by their numbers, times factors, and of a constant, under None."""


class _NotLinearError(Exception):
    """A body is not linear in what it carries, or not in a way that is known here."""


def rewrite_linear_recurrence(scan: Scan) -> None:
    """Let the results of a scan of tangents or cotangents that are a few numbers be those of a shorter chain."""
    if not _is_of_numbers(scan):
        return
    try:
        forms, computed, program = _coefficients(scan)
    except _NotLinearError:
        return
    count = len(scan.carries)
    chain = [i for i in range(count) if not _is_sum(i, forms[:count])]
    if not chain or _may_vanish(forms, program):
        return
    steps = scan.for_all_steps(program, [v for _, v in (*scan.consts, *scan.xs)])
    if steps is None:
        return
    recurrence = _Recurrence(scan, chain, forms, computed, steps)
    pace, together = recurrence.fastest()
    saved = _pace(scan.eqn()) - pace - len(recurrence.stacks) * machine_model.COEFFICIENT_OPERATIONS
    if saved * scan.length < machine_model.LEAST_SAVED:
        return
    if scan.length * sum(v.aval.dtype.itemsize for v in recurrence.stacks) <= machine_model.LARGEST_COEFFICIENT_STACKS:
        scan.is_linear = False  # it is looked at once
        scan.after.append((partial(recurrence.run, together), scan.operands, scan.results))


def _is_of_numbers(scan: Scan) -> bool:
    """Whether a body is made of operations on single numbers, and carries floats of one dtype."""
    dtypes = {c.read.aval.dtype for c in scan.carries}
    numbers = [*(c.read for c in scan.carries), *scan.given, *(v for e in scan.eqns for v in e.outvars)]
    return (
        dtypes in ({np.dtype(np.float32)}, {np.dtype(np.float64)})
        and not any(v.aval.shape for v in numbers)
        and all(len(e.outvars) == 1 and (isinstance(e.primitive.lower, Scalar) or _repeats(e)) for e in scan.eqns)
    )


def _repeats(eqn: Eqn) -> bool:
    """Whether an equation repeats a number, which to a shape of one element changes nothing."""
    return isinstance(eqn.primitive.lower, Indexed) and eqn.primitive.lower.repeats


# --- what a body gives, as sums of products ---------------------------------------------------------------


def _coefficients(scan: Scan) -> tuple[list[Form], list[Var], Program]:
    """The forms of all that a body gives, the variables among their factors and constants, and the Program of these.

    Its inputs are the constants and slices of the scan. Its last results are sizes, for the bound of a step.
    """
    inputs = [v for _, v in (*scan.consts, *scan.xs)]
    one = scan.carries[0].read.aval.dtype.type(1)
    asked = to_measure(scan)
    keys: list[list[int | None]] = []  # of each form

    def run(*args: Any) -> list[Any]:
        values: dict[Var, Any] = dict(zip(inputs, args))
        values.update((carry.read, {i: one}) for i, carry in enumerate(scan.carries))

        def read(atom: Atom) -> Any:
            return atom.value if isinstance(atom, Literal) else values[atom]

        with transforming():
            for eqn in scan.eqns:
                set_source(eqn.source)
                values[eqn.outvars[0]] = _applied(eqn, [read(a) for a in eqn.invars])
            forms = [_as_form(read(a)) for a in scan.given]
            keys.extend(map(list, forms))
            sizes = [(read(m.atom), m.inverted) for m in asked]
            sizes = [abs_(div(one, x) if inverted else x) for x, inverted in sizes]
            return [*(x for form in forms for x in form.values()), *sizes]

    program = scan.simplify(trace_to_program(run, [v.aval for v in inputs], name=f"coefficients_{scan.name}"))
    atoms = iter(program.outvars)
    forms = [{i: next(atoms) for i in form} for form in keys]
    computed = dict.fromkeys(a for form in forms for a in form.values() if isinstance(a, Var))
    return forms, list(computed), program.replace(outvars=[*computed, *atoms])


def _applied(eqn: Eqn, operands: Sequence[Any]) -> Any:
    """The result of an equation, a form if one of the operands is."""
    primitive, (first, *others) = eqn.primitive, operands
    is_form = [isinstance(x, dict) for x in operands]
    if _repeats(eqn):
        return first
    if not any(is_form):
        return bind(primitive, *operands, **eqn.params)
    if primitive in (add_p, add_any_p):
        return _sum(*map(_as_form, operands))
    if primitive is sub_p:
        return _sum(_as_form(first), _map(neg, _as_form(others[0])))
    if primitive is neg_p:
        return _map(neg, first)
    if primitive is mul_p and not all(is_form):
        form, factor = operands if is_form[0] else operands[::-1]
        return _map(partial(_product, factor), form)
    if primitive is div_p and not is_form[1]:
        return _map(lambda a: div(a, others[0]), first)
    if primitive is select_n_p and not is_form[0]:
        zero, cases = eqn.outvars[0].aval.dtype.type(0), [_as_form(x) for x in others]
        numbers = dict.fromkeys(i for case in cases for i in case)
        return {i: select_n(first, *(case.get(i, zero) for case in cases)) for i in numbers}
    raise _NotLinearError


def _as_form(value: Any) -> Form:
    return value if isinstance(value, dict) else {None: value}


def _map(fun: Callable[[Any], Any], form: Form) -> Form:
    return {i: fun(f) for i, f in form.items()}


def _product(a: Any, b: Any) -> Any:
    return b if _is_one(a) else a if _is_one(b) else mul(a, b)


def _is_one(x: Any) -> bool:
    return isinstance(x, np.generic) and bool(x == 1)


def _sum(x: Form, y: Form) -> Form:
    return {i: add(x[i], y[i]) if i in x and i in y else x.get(i, y.get(i)) for i in (x | y)}


def _may_vanish(forms: Sequence[Form], program: Program) -> bool:
    """Whether a choice makes a factor of a carry 0 in some case: the factor, and all that is added to it."""
    cases: dict[Atom, frozenset[Any]] = {}  # pairs of a predicate and a case, in which a number is 0
    for eqn in program.eqns:
        found = [cases.get(a, frozenset()) for a in eqn.invars]
        if eqn.primitive in (add_p, add_any_p, sub_p):
            cases[eqn.outvars[0]] = frozenset.intersection(*found)
            continue
        zeros = [(eqn.invars[0], k) for k, a in enumerate(eqn.invars[1:]) if isinstance(a, Literal) and a.value == 0]
        cases[eqn.outvars[0]] = frozenset(zeros if eqn.primitive is select_n_p else ()).union(*found)
    return any(cases.get(a) for form in forms for i, a in form.items() if i is not None)


# --- what it costs ----------------------------------------------------------------------------------------


def _is_sum(number: int, forms: Sequence[Form]) -> bool:
    """Whether a carry is only added to, and nothing else depends on it."""
    factor = forms[number].get(number)
    is_one = isinstance(factor, Literal) and bool(factor.value == 1)
    return is_one and not any(number in form for i, form in enumerate(forms) if i != number)


def _pace(loop: Eqn) -> float:
    """How many additions, one behind another, take as long as a step: what waits from step to step, or all there is."""
    body, first, count = (loop.params[name] for name in ("jaxpr", "num_consts", "num_carry"))
    depths: dict[Atom, float] = dict.fromkeys(body.invars[first : first + count], 0.0)
    ends = []
    for _ in range(2 * _STEPS_WALKED):
        reached = dict(depths)
        for eqn in body.eqns:
            found = [reached[a] for a in eqn.invars if a in reached]
            if found:
                reached[eqn.outvars[0]] = max(found) + latency_of(eqn)
        given = [reached.get(a, 0.0) for a in body.outvars[:count]]
        depths = dict(zip(body.invars[first : first + count], given))
        ends.append(max(given))
    waiting = (ends[-1] - ends[_STEPS_WALKED - 1]) / _STEPS_WALKED
    operations = sum(operations_of(e) for e in body.eqns if isinstance(e.primitive.lower, Scalar))
    return max(waiting, operations / machine_model.OPERATIONS_MEANWHILE)


_STEPS_WALKED = 12  # a multiple of the lengths of all cycles through up to four carries


# --- the loop that remains --------------------------------------------------------------------------------


class _Recurrence(NamedTuple):
    """A loop as sums of products. scan: as it was written. computed: what `steps` gives before sizes of numbers."""

    scan: Scan
    chain: Sequence[int]
    forms: Sequence[Form]
    computed: Sequence[Atom]
    steps: AllSteps

    @property
    def stacks(self) -> list[Atom]:
        """The coefficients that differ from step to step."""
        return [v for v, is_stacked in zip(self.computed, self.steps.stacked) if is_stacked]

    @property
    def places(self) -> list[int]:
        """Which of the forms each step computes: stacked results that need no carry are coefficients themselves."""
        count, stacks = len(self.scan.carries), self.stacks
        return [k for k, form in enumerate(self.forms) if k < count or [*form] != [None] or form[None] not in stacks]

    def run(self, together: int, *args: Any) -> list[Any]:
        """The results of the loop, from its operands: in the new way, or as it was written where that is not safe.

        together: how many steps are taken at once.
        """
        first, count, written = len(self.scan.consts), len(self.scan.carries), self.scan.eqn().params
        starts = args[first : first + count]
        found = self.steps.run(*args[:first], *args[first + count :])
        values, sizes = found[: len(self.computed)], found[len(self.computed) :]
        sizes = [reduce_max(x, axes=(0,)) if x.ndim else x for x in sizes]
        bound = bound_of_step(self.scan, dict(zip(to_measure(self.scan), sizes)).__getitem__)
        *results, total, least = self._loop(together, *starts, *values)
        sums = [i for i in range(count) if i not in self.chain]
        safe = Watched(total, least).safe(self.scan, bound, [starts[i] for i in sums], [results[i] for i in sums])

        def as_written(*inner: Any) -> Any:
            return bind(scan_p, *inner[: len(args)], **written)

        def as_found(*inner: Any) -> Any:
            return inner[len(args) :]

        return either(safe, as_found, as_written, [*args, *results])

    def fastest(self) -> tuple[float, int]:
        """How long a step takes, and how many are best taken at once.

        Two are one if the chain has few carries, none of them stacks anything and their number is even.
        """
        few = len(self.chain) <= machine_model.MOST_IN_PAIRS and len(self.places) == len(self.scan.carries)
        return min((self._time_of_step(n), n) for n in ((1, 2) if few and self.scan.length % 2 == 0 else (1,)))

    def _time_of_step(self, together: int) -> float:
        avals, stacks = [v.aval for v in self.computed], self.stacks
        avals = [a.update(shape=(self.scan.length,)) if v in stacks else a for v, a in zip(self.computed, avals)]
        starts = [c.read.aval for c in self.scan.carries]
        program = trace_to_program(partial(self._loop, together), [*starts, *avals])
        return next(_pace(e) for e in program.eqns if e.primitive is scan_p) / together

    def _loop(self, together: int, *args: Any) -> list[Any]:
        """The last carries, what is stacked, and what is watched, from the first carries and the coefficients."""
        count, length, reverse = len(self.scan.carries), self.scan.length, self.scan.origin.params["reverse"]
        values, places = dict(zip(self.computed, args[count:])), self.places
        ready = {k: values[form[None]] for k, form in enumerate(self.forms) if k not in places}
        order: Sequence[int | None] = (None,)
        if together == 2:
            length, order = length // 2, (1, 0) if reverse else (0, 1)
        used = dict.fromkeys(a for k in places for a in self.forms[k].values() if a in self.stacks)
        xs = [reshape(values[v], (length, 2)) if together == 2 else values[v] for v in used]
        carry = [*args[:count], *Watched.start(args[0].dtype)]

        def step(*inner: Any) -> list[Any]:
            slices = dict(zip(used, inner[len(carry) :]))
            here = [{**values, **{v: _element(x, k) for v, x in slices.items()}} for k in order]
            return self._step(inner[:count], Watched(*inner[count : len(carry)]), here)

        avals = [*(Aval(x.shape, x.dtype) for x in carry), *(Aval(x.shape[1:], x.dtype) for x in xs)]
        body = trace_to_program(step, avals, name=self.scan.name)
        last, ys = scan_loop(body, [], carry, xs, length=length, reverse=reverse)
        stacked = {**ready, **dict(zip(places[count:], ys))}
        return [*last[:count], *(stacked[k] for k in range(count, len(self.forms))), *last[count:]]

    def _step(self, carries: Sequence[Any], watched: Watched, values: Sequence[dict[Atom, Any]]) -> list[Any]:
        """One step or two of the new loop. values: of the coefficients in each."""
        count, places = len(carries), self.places
        outs: list[Form] = [{i: c.dtype.type(1)} for i, c in enumerate(carries)]
        for here in values:
            before, outs = outs, [_composed(self.forms[k], here, outs) for k in places]
        numbers = [_value(form, carries) for form in outs]
        read = {i: abs_(carries[i]) for i in self.chain}
        read |= {count + i: abs_(before[i][None]) for i in self.chain if None in before[i]}  # the step between
        gives = []
        for i in (*self.chain, *range(count, len(outs))):
            own = (count + k for k in self.forms[places[i]] if k is not None)
            sizes = [read[k] for k in (*outs[i], *own) if k in read]
            gives += [(numbers[i], sizes)] if sizes else []
        return [*numbers[:count], *watched.after(read.values(), gives), *numbers[count:]]


def _element(x: Any, k: int | None) -> Any:
    return x if k is None else reshape(slice_(x, (k,), (k + 1,)), ())


def _composed(form: Form, values: dict[Atom, Any], of: Sequence[Form]) -> Form:
    """A form with these coefficients, of numbers that are forms of the carries."""
    total: Form = {}
    for i, atom in form.items():
        factor = atom.value if isinstance(atom, Literal) else values[atom]
        total = _sum(total, {None: factor} if i is None else _map(partial(_product, factor), of[i]))
    return total


def _value(form: Form, carries: Sequence[Any]) -> Any:
    """A form as a number. What is only added comes last, so that the next step waits for one addition."""
    terms = [(f, carries[i]) for i, f in form.items() if i is not None]
    products = [mul(f, c) for f, c in terms if not _is_one(f)]
    sums = [c for f, c in terms if _is_one(f)]
    constants = [form[None]] if None in form else []
    return reduce(add, [*products[:1], *constants, *products[1:], *sums])
