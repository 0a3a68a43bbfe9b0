"""Loops that are linear in the few numbers they carry, with a shorter chain of operations from step to step.

Knows `scan` equations by their parts, and which primitives are linear; nothing of what the numbers mean.

A loop over numbers takes as long as those operations of a step that wait for one another. The backward loop of a
gradient is linear in what it carries: `ct ← (ct + p)·(1 − x)·r − (ct + p)·(r·x)` is `ct ← c·ct + d`, where c and d need
no ct. They are computed before the loop, for all steps at once, so that a step waits for a product and a sum. Where all
carries but a few are sums that are only added to, two steps become one: `ct ← (c₂·c₁)·ct + (c₂·d₁ + d₂)`.

Only loops that a transform made for tangents or cotangents are looked at (`linear`, a parameter of a scan), and the
results differ from those of the steps as they were written by rounding alone. `(ct·a)·b` becomes `ct·(a·b)`, so
products could leave the range of the dtype in one way of computing and not in the other. The new loop finds whether
they do (`loop_ranges.py`); then a `cond` runs the loop as it was written.

A `select_n` that drops a carry drops its NaN; a product with 0 would not. Such a loop stays as it is, unless the other
cases use the carry in another term of the same sum, as the derivative of `where(done, x, f(x))` does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from functad import machine_model
from functad.control import cond_p
from functad.editing.splicing import splice
from functad.ir import UNKNOWN, Atom, Aval, Eqn, Literal, Program, Var
from functad.lowering_rules import Scalar
from functad.optimize.loops.parts import Carry, Scan
from functad.optimize.loops.ranges import Watched, bound_of_steps, to_measure
from functad.primitives.arithmetic import abs as abs_
from functad.primitives.arithmetic import add, div, mul, neg
from functad.primitives.common import broadcast_in_dim_p, convert_element_type, move_axis, reshape
from functad.primitives.logic import select_n
from functad.primitives.reduction import reduce_max
from functad.primitives.structure import slice_
from functad.tracing import bind, eval_program, trace_to_program
from functad.transforms.programs import batch_program
from functad.user_source import set_source, transforming

_FLAG = np.dtype(np.int32)  # of what is safe: the type of the index of a `cond`


class _NotLinearError(Exception):
    """A body is not linear in what it carries, or not in a way that is known here."""


class _Linear(NamedTuple):
    """A sum of carries, by their numbers, times factors, and of a constant, if there is one.

    dropped: for carries that a `select_n` drops in some cases: its predicate, and those cases.
    """

    factors: dict[int, Any]
    constant: Any = None
    dropped: dict[int, tuple[Atom, frozenset[int]]] = {}


class _Slot(NamedTuple):
    """Which output of the Program of coefficients a factor or constant is."""

    number: int


def shorten_chains(
    scan: Scan,
    before: list[Eqn],
    after: list[Eqn],
    results: dict[Var, Atom],
    simplify: Callable[[Program], Program],
) -> None:
    """Rewrite a scan of tangents or cotangents that are a few numbers, as above, if that shortens its chain.

    before, after: the equations in front of the loop and behind it; those of the coefficients, and the choice of the
    loop as it was written, are added. results: the atoms that replace results of the loop; those of results that need
    no carry are added.
    """
    if scan.length == UNKNOWN or not scan.origin.params["linear"] or not _is_of_numbers(scan):
        return
    try:
        forms, program = _coefficients(scan)
    except _NotLinearError:
        return
    program = simplify(program)
    atoms = program.outvars
    chain = [i for i in range(len(scan.carries)) if not _is_sum(i, forms, atoms)]
    if program.consts or not chain:
        return
    saved = _longest_path(scan, chain) - max(_operations(forms[i], atoms) for i in chain)
    if saved * scan.length < machine_model.LEAST_SAVED:
        return
    all_steps = _AllSteps(scan, program)
    few = len(all_steps.stacked) <= machine_model.MOST_COEFFICIENT_STACKS
    if few and all_steps.nbytes <= machine_model.LARGEST_COEFFICIENT_STACKS:
        scan.origin = scan.origin.replace(params={**scan.origin.params, "linear": False})  # it is looked at once
        bound = all_steps.compute(before)
        forms = _without_known(scan, forms, all_steps, results)
        as_written = replace(scan, carries=[replace(c) for c in scan.carries])
        _rewrite(scan, forms, all_steps, before, chain)
        after[:0] = _unless_safe(scan, as_written, chain, bound)


def _is_of_numbers(scan: Scan) -> bool:
    """Whether a body is made of operations on single numbers, and carries floats of one dtype."""
    dtypes = {c.read.aval.dtype for c in scan.carries}
    numbers = [*(c.read for c in scan.carries), *(v for e in scan.eqns for v in e.outvars)]
    return (
        dtypes in ({np.dtype(np.float32)}, {np.dtype(np.float64)})
        and not any(v.aval.shape for v in numbers)
        and all(_is_of_one_number(e) for e in scan.eqns)
    )


def _is_of_one_number(eqn: Eqn) -> bool:
    return len(eqn.outvars) == 1 and (isinstance(eqn.primitive.lower, Scalar) or _repeats(eqn))


def _repeats(eqn: Eqn) -> bool:
    """Whether an equation repeats a number, which to a shape of one element changes nothing."""
    return eqn.primitive is broadcast_in_dim_p


# --- what a body gives, as sums of products ---------------------------------------------------------------


def _coefficients(scan: Scan) -> tuple[list[_Linear], Program]:
    """The forms of all that a body gives, with slots for factors and constants, and the Program of the latter.

    Its inputs are the constants and slices of the scan. Its last results are what has to be measured.
    """
    inputs = [v for _, v in (*scan.consts, *scan.xs)]
    forms: list[_Linear] = []

    def run(*args: Any) -> list[Any]:
        values: dict[Var, Any] = dict(zip(inputs, args))
        for i, carry in enumerate(scan.carries):
            values[carry.read] = _Linear({i: carry.read.aval.dtype.type(1)})

        def read(atom: Atom) -> Any:
            return atom.value if isinstance(atom, Literal) else values[atom]

        with transforming():
            for eqn in scan.eqns:
                set_source(eqn.source)
                operands = [read(a) for a in eqn.invars]
                if _repeats(eqn):
                    made = operands[0]
                elif any(isinstance(x, _Linear) for x in operands):
                    made = _apply(eqn, operands)
                else:
                    made = bind(eqn.primitive, *operands, **eqn.params)
                values[eqn.outvars[0]] = made
        outs: list[Any] = []

        def slot(value: Any) -> _Slot:
            outs.append(value)
            return _Slot(len(outs) - 1)

        for atom in [*(c.given for c in scan.carries), *(a for a, _ in scan.ys)]:
            form = _as_linear(read(atom))
            if form.dropped:
                raise _NotLinearError
            forms.append(_map(slot, form))
        with transforming():
            measured = [(read(m.var), m.inverted) for m in to_measure(scan)]
            return [*outs, *(abs_(div(x.dtype.type(1), x) if inverted else x) for x, inverted in measured)]

    program = trace_to_program(run, [v.aval for v in inputs], name=f"coefficients_{scan.name}")
    return forms, program


def _apply(eqn: Eqn, operands: Sequence[Any]) -> _Linear:
    """The result of an equation of which some operands are linear."""
    name = eqn.primitive.name
    first, *others = operands
    if name in ("add", "add_any"):
        return _sum(_as_linear(first), _as_linear(others[0]))
    if name == "sub":
        return _sum(_as_linear(first), _map(neg, _as_linear(others[0])))
    if name == "neg":
        return _map(neg, first)
    if name == "mul" and not all(isinstance(x, _Linear) for x in operands):
        form, factor = operands if isinstance(first, _Linear) else operands[::-1]
        return _map(partial(_product, factor), form)
    if name == "div" and not isinstance(others[0], _Linear):
        return _map(lambda a: div(a, others[0]), first)
    if name == "select_n" and not isinstance(first, _Linear):
        zero = eqn.outvars[0].aval.dtype.type(0)
        return _selected(eqn.invars[0], first, [_as_linear(x) for x in others], zero)
    raise _NotLinearError


def _as_linear(value: Any) -> _Linear:
    return value if isinstance(value, _Linear) else _Linear({}, value)


def _map(fun: Callable[[Any], Any], form: _Linear) -> _Linear:
    factors = {i: fun(f) for i, f in form.factors.items()}
    return _Linear(factors, None if form.constant is None else fun(form.constant), form.dropped)


def _product(a: Any, b: Any) -> Any:
    return b if _is_one(a) else a if _is_one(b) else mul(a, b)


def _is_one(x: Any) -> bool:
    return isinstance(x, np.generic) and bool(x == 1)


def _sum(x: _Linear, y: _Linear) -> _Linear:
    factors, dropped = {**x.factors, **y.factors}, {**x.dropped, **y.dropped}
    for i in x.factors.keys() & y.factors.keys():
        factors[i] = add(x.factors[i], y.factors[i])
        dropped.pop(i, None)
        if i in x.dropped and i in y.dropped:  # by both, if the cases of both are dropped
            (which, cases), (other, others) = x.dropped[i], y.dropped[i]
            cases = cases & others if which is other else cases
            dropped.update({i: (which, cases)} if cases else {})
    constants = [form.constant for form in (x, y) if form.constant is not None]
    constant = add(*constants) if len(constants) == 2 else constants[0] if constants else None
    return _Linear(factors, constant, dropped)


def _selected(predicate: Atom, which: Any, cases: Sequence[_Linear], zero: Any) -> _Linear:
    if any(case.dropped for case in cases):
        raise _NotLinearError
    factors, dropped = {}, {}
    for i in dict.fromkeys(i for case in cases for i in case.factors):
        factors[i] = select_n(which, *(case.factors.get(i, zero) for case in cases))
        without = frozenset(k for k, case in enumerate(cases) if i not in case.factors)
        dropped.update({i: (predicate, without)} if without else {})
    constants = [zero if case.constant is None else case.constant for case in cases]
    any_constant = any(case.constant is not None for case in cases)
    return _Linear(factors, select_n(which, *constants) if any_constant else None, dropped)


# --- what it costs ----------------------------------------------------------------------------------------


def _is_sum(number: int, forms: Sequence[_Linear], atoms: Sequence[Atom]) -> bool:
    """Whether a carry is only added to, and nothing else depends on it."""
    own = forms[number].factors.get(number)
    factor = None if own is None else atoms[own.number]
    is_one = isinstance(factor, Literal) and bool(factor.value == 1)
    return is_one and not any(number in form.factors for i, form in enumerate(forms) if i != number)


def _longest_path(scan: Scan, chain: Sequence[int]) -> int:
    """The most operations of a step that wait for one another, from these carries to these carries."""
    depths: dict[Atom, int] = {scan.carries[i].read: 0 for i in chain}
    for eqn in scan.eqns:
        found = [depths[a] for a in eqn.invars if a in depths]
        if found:
            depths[eqn.outvars[0]] = max(found) + 1
    return max(depths.get(scan.carries[i].given, 0) for i in chain)


def _operations(form: _Linear, atoms: Sequence[Atom]) -> int:
    """The same for a sum of products, in the order in which `_value` computes it."""
    factors = [atoms[f.number] for f in form.factors.values()]
    products = any(not isinstance(f, Literal) or f.value != 1 for f in factors)
    return products + len(factors) - 1 + (form.constant is not None)


# --- the loop that remains --------------------------------------------------------------------------------


class _AllSteps:
    """The coefficients of all steps, computed before the loop.

    atoms: by the numbers of slots. stacked: those that differ from step to step. values: what holds them.
    """

    def __init__(self, scan: Scan, program: Program) -> None:
        self.scan = scan
        self.asked = to_measure(scan)
        count = len(program.outvars) - len(self.asked)
        self.atoms, sizes = program.outvars[:count], program.outvars[count:]
        self.computed = list(dict.fromkeys(a for a in self.atoms if isinstance(a, Var)))
        dims = (*[None] * len(scan.consts), *[0] * len(scan.xs))
        self.batched = batch_program(program.replace(outvars=[*self.computed, *sizes]), scan.length, dims)
        self.stacked = {v for v, d in zip(self.computed, self.batched.out_dims) if d is not None}
        self.nbytes = scan.length * sum(v.aval.dtype.itemsize for v in self.stacked)
        self.values: dict[Var, Atom] = {}

    def compute(self, before: list[Eqn]) -> Atom:
        """Add the equations. Returns the bound of two steps."""

        def run(*args: Any) -> list[Any]:
            outs = zip(eval_program(self.batched.program, args), self.batched.out_dims)
            made = [o if d is None else move_axis(o, d, 0) for o, d in outs]
            found, sizes = made[: len(self.computed)], made[len(self.computed) :]
            largest = [reduce_max(x, axes=(0,)) if x.ndim else x for x in sizes]
            return [*found, bound_of_steps(self.scan, dict(zip(self.asked, largest)).__getitem__)]

        made, (*found, bound) = splice(run, [a for a, _ in (*self.scan.consts, *self.scan.xs)], self.scan.origin)
        before += made
        self.values = dict(zip(self.computed, found))
        return bound


def _without_known(scan: Scan, forms: list[_Linear], all_steps: _AllSteps, results: dict[Var, Atom]) -> list[_Linear]:
    """Drop stacked results that need no carry: they are coefficients themselves. Returns the forms of the others."""
    count = len(scan.carries)
    ys, kept = [], forms[:count]
    for form, (given, result) in zip(forms[count:], scan.ys):
        atom = None if form.factors or form.constant is None else all_steps.atoms[form.constant.number]
        if isinstance(atom, Var) and atom in all_steps.stacked:
            results[result] = all_steps.values[atom]
        else:
            ys.append((given, result))
            kept.append(form)
    scan.ys = ys
    return kept


def _rewrite(scan: Scan, forms: list[_Linear], all_steps: _AllSteps, before: list[Eqn], chain: Sequence[int]) -> None:
    """Let the body be the forms, of two steps at once if the chain has few carries, none of them stacks anything and
    their number is even. The last carries are what is watched.
    """
    atoms, values, count = all_steps.atoms, all_steps.values, len(scan.carries)
    slots = [slot for form in forms for slot in (*form.factors.values(), form.constant) if slot is not None]
    read = list(dict.fromkeys(a for slot in slots if isinstance(a := atoms[slot.number], Var)))
    consts, xs = [v for v in read if v not in all_steps.stacked], [v for v in read if v in all_steps.stacked]
    stacks = [values[v] for v in xs]
    steps: list[int | None] = [None]
    if len(chain) <= machine_model.MOST_IN_PAIRS and not scan.ys and scan.length % 2 == 0:
        params = {**scan.origin.params, "length": scan.length // 2}
        scan.origin = scan.origin.replace(params=params)
        steps = [1, 0] if params["reverse"] else [0, 1]
        made, stacks = splice(lambda *args: [reshape(a, (scan.length, 2)) for a in args], stacks, scan.origin)
        before += made

    def run(*args: Any) -> list[Any]:
        carries = args[len(consts) : len(consts) + count]
        watched = Watched(*args[len(consts) + count : len(consts) + count + 2])
        slices = args[len(consts) + count + 2 :]
        outs = [_Linear({i: c.dtype.type(1)}) for i, c in enumerate(carries)]
        with transforming():
            set_source(scan.origin.source)
            for k in steps:
                given = dict(zip([*consts, *xs], [*args[: len(consts)], *(_element(x, k) for x in slices)]))
                here = [a.value if isinstance(a, Literal) else given.get(a) for a in atoms]
                of, outs = outs, [_composed(form, here, outs) for form in forms]
            numbers = [_value(form, carries) for form in outs]
            read = {i: abs_(carries[i]) for i in chain}
            read |= {count + i: abs_(c) for i in chain if (c := of[i].constant) is not None}  # the step between
            gives = []
            for i in (*chain, *range(count, len(forms))):
                sizes = [read[k] for k in (*outs[i].factors, *(count + k for k in forms[i].factors)) if k in read]
                gives += [(numbers[i], sizes)] if sizes else []
            return [*numbers[:count], *watched.after(read.values(), gives), *numbers[count:]]

    for start in Watched.start(scan.carries[0].read.aval.dtype):
        var = Var(Aval((), start.dtype))
        scan.carries.append(Carry(Literal(start, var.aval), var, var, Var(var.aval)))
    avals = [a.aval for a in (*consts, *(c.read for c in scan.carries))]
    avals += [Aval(a.aval.shape[1:], a.aval.dtype) for a in stacks]
    body = trace_to_program(run, avals, name=scan.name)
    reads, gives = body.invars, body.outvars
    scan.consts = list(zip([values[v] for v in consts], reads))
    scan.xs = list(zip(stacks, reads[len(consts) + len(scan.carries) :]))
    scan.ys = [(given, result) for given, (_, result) in zip(gives[len(scan.carries) :], scan.ys)]
    for carry, var, given in zip(scan.carries, reads[len(consts) :], gives):
        carry.read, carry.given = var, given
    scan.eqns = list(body.eqns)


def _element(x: Any, k: int | None) -> Any:
    return x if k is None else reshape(slice_(x, (k,), (k + 1,)), ())


def _composed(form: _Linear, coefficients: Sequence[Any], of: Sequence[_Linear]) -> _Linear:
    """A form whose slots are these coefficients, of values that are forms of the carries."""
    total = _Linear({}, None if form.constant is None else coefficients[form.constant.number])
    for i, slot in form.factors.items():
        total = _sum(total, _map(partial(_product, coefficients[slot.number]), of[i]))
    return total


def _value(form: _Linear, carries: Sequence[Any]) -> Any:
    """A form as a number. What is only added comes last, so that the next step waits for one addition."""
    products = [_product(f, carries[i]) for i, f in form.factors.items() if not _is_one(f)]
    sums = [carries[i] for i, f in form.factors.items() if _is_one(f)]
    constants = [] if form.constant is None else [form.constant]
    return reduce(add, [*products[:1], *constants, *products[1:], *sums])


# --- the choice of a loop ----------------------------------------------------------------------------------


def _unless_safe(scan: Scan, as_written: Scan, chain: Sequence[int], bound: Atom) -> list[Eqn]:
    """The results of a loop, or those of the loop as it was written; the former gets other variables for its own."""
    carries, watched = scan.carries[:-2], [c.result for c in scan.carries[-2:]]
    results = [*(c.result for c in carries), *(v for _, v in scan.ys)]
    fresh = {v: Var(v.aval) for v in results}
    for carry in carries:
        carry.result = fresh[carry.result]
    scan.ys = [(a, fresh[v]) for a, v in scan.ys]

    def run(total: Any, least: Any, bound: Any, *args: Any) -> list[Any]:
        starts, sums = args[: len(args) // 2], args[len(args) // 2 :]
        return [convert_element_type(Watched(total, least).safe(as_written, bound, starts, sums), _FLAG)]

    sums = [c for i, c in enumerate(carries) if i not in chain]
    made, (safe,) = splice(run, [*watched, bound, *(c.init for c in sums), *(c.result for c in sums)], scan.origin)
    loop = as_written.eqn()
    operands = list(dict.fromkeys(a for a in loop.invars if isinstance(a, Var)))

    def branch(name: str, eqns: Sequence[Eqn], outs: Sequence[Var]) -> Program:
        inner = {v: Var(v.aval) for v in [*operands, *fresh.values(), *results]}
        eqns = [
            e.replace(
                invars=[inner[a] if isinstance(a, Var) else a for a in e.invars], outvars=[inner[v] for v in e.outvars]
            )
            for e in eqns
        ]
        return Program([inner[v] for v in [*operands, *fresh.values()]], (), (), eqns, [inner[v] for v in outs], name)

    branches = branch(scan.name, [loop], results), branch(f"safe_{scan.name}", [], list(fresh.values()))
    invars = [safe, *operands, *fresh.values()]
    return [*made, Eqn(cond_p, invars, {"branches": branches}, results, scan.origin.source)]
