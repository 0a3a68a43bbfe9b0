"""`cond_p`: run one of several Programs, chosen by an index.

Operands are the index (int32, clamped to the branches) and what every branch takes; all branches return the same types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.calls.common import body_function, check_operands, group, memoised_together
from functad.control.closing import closed_cond
from functad.control.guard import guarded
from functad.control.pruning import pruned_cond
from functad.errors import ProgramError
from functad.evaluation import aval_of
from functad.ir import Absent, Aval, Linearize, Primitive, Program, Var, Zero
from functad.lowering_rules import ControlFlow
from functad.primitives.common import convert_element_type, full_like, instantiate, is_linear, zeros_of
from functad.primitives.logic import eq_p, select_n
from functad.primitives.ordering import max_p, min_p
from functad.primitives.structure import broadcast_in_dim
from functad.records import NamedTuple
from functad.tracing import bind, eval_program, trace_to_program
from functad.transforms.batching import place_batch_axis
from functad.transforms.named_axes import batched_axis
from functad.transforms.programs import batch_program, linearize_program, transpose_program


def cond(branches: Sequence[Program], index: Any, operands: Sequence[Any]) -> list[Any]:
    """Bind a choice among Programs; their constants become operands of all."""
    branches, operands = closed_together(branches, operands)
    return bind(cond_p, index, *operands, branches=tuple(branches))


def either(usual: Any, if_usual: Callable[..., Any], if_not: Callable[..., Any], operands: Sequence[Any]) -> list[Any]:
    """The results of one of two functions of all operands, by a predicate."""
    avals = [aval_of(x) for x in operands]
    branches = [trace_to_program(f, avals, name=f.__name__) for f in (if_not, if_usual)]
    return cond(branches, convert_element_type(usual, np.dtype(np.int32)), operands)


def closed_together(branches: Sequence[Program], operands: Sequence[Any]) -> tuple[Sequence[Program], list[Any]]:
    """Branches without constants of their own, which all take those of all; a constant that several have is one."""
    if not any(b.consts for b in branches):
        return branches, list(operands)
    consts = list({id(c): c for b in branches for c in b.consts}.values())
    number = {id(c): i for i, c in enumerate(consts)}
    places = tuple(tuple(number[id(c)] for c in b.consts) for b in branches)
    closed = memoised_together(branches, ("closed", places), lambda: _close_together(branches, places))
    return closed, [*consts, *operands]


def _close_together(branches: Sequence[Program], places: Sequence[Sequence[int]]) -> list[Program]:
    """places: for each branch, which of all constants its own are."""
    avals = {i: v.aval for b, own in zip(branches, places) for i, v in zip(own, b.constvars)}
    made = []
    for branch, own in zip(branches, places):
        constvars = dict(zip(own, branch.constvars))
        invars = [constvars[i] if i in constvars else Var(avals[i]) for i in range(len(avals))]
        made.append(branch.replace(invars=[*invars, *branch.invars], constvars=(), consts=()))
    return made


def _abstract_eval(index: Aval, *avals: Aval, branches: Sequence[Program], **params: Any) -> list[Aval]:
    for branch in branches:
        check_operands("cond", avals, branch)
    first, *others = (b.out_avals for b in branches)
    for other in others:
        if len(other) != len(first) or not all(map(Aval.same_type, other, first)):
            raise ProgramError(f"cond: branches return {_types(first)} and {_types(other)}, which must be the same")
    return list(first)  # weak where the result of the first branch is, as in JAX


def _types(avals: Sequence[Aval]) -> str:
    return ", ".join(aval.str_short() for aval in avals) or "nothing"


def _impl(index: np.ndarray, *args: np.ndarray, branches: Sequence[Program]) -> list[np.ndarray]:
    chosen = branches[min(max(int(index), 0), len(branches) - 1)]
    return [np.asarray(out) for out in body_function(chosen)(args)]


# --- derivatives ------------------------------------------------------------------------------------------


class _LinearizedBranches(NamedTuple):
    """All branches taken apart. Residuals of equal type share a place among the results of the forward branches.

    forward: operands → (results, residuals). linear: (operands that are residuals, residuals, tangents) → tangents out.
    """

    forward: list[Program]
    linear: list[Program]
    out_active: tuple[bool, ...]
    inputs: tuple[int, ...]  # which operands are residuals


def _linearized(branches: Sequence[Program], active: tuple[bool, ...]) -> _LinearizedBranches:
    return memoised_together(branches, ("cond linearized", active), lambda: _linearize_branches(branches, active))


def _linearize_branches(branches: Sequence[Program], active: tuple[bool, ...]) -> _LinearizedBranches:
    parts = [linearize_program(b, active) for b in branches]
    count = len(branches[0].outvars)
    out_active = tuple(any(flags) for flags in zip(*(p.out_active for p in parts))) if count else ()
    inputs = sorted({i for p in parts for i in p.residual_inputs if i is not None})
    types: list[Aval] = []  # of the shared places
    places: list[list[int]] = []  # for each branch, that of each residual which is no operand
    for p in parts:
        own: list[int] = []
        for var in p.forward.outvars[count:]:
            aval = Aval(var.aval.shape, var.aval.dtype)
            fitting = [k for k, t in enumerate(types) if t == aval and k not in own]
            if not fitting:
                types.append(aval)
            own.append(fitting[0] if fitting else len(types) - 1)
        places.append(own)
    in_avals = branches[0].in_avals
    tangent_avals = group(active, in_avals)

    def forward(k: int) -> Program:
        def fun(*args: Any) -> list[Any]:
            outs = eval_program(parts[k].forward, args)
            stored = dict(zip(places[k], outs[count:]))
            return [*outs[:count], *(stored[j] if j in stored else zeros_of(t) for j, t in enumerate(types))]

        return trace_to_program(fun, in_avals, name=parts[k].forward.name)

    def linear(k: int) -> Program:
        def fun(*args: Any) -> list[Any]:
            given = dict(zip(inputs, args))
            shared = args[len(inputs) : len(inputs) + len(types)]
            own = iter(places[k])
            residuals = [shared[next(own)] if i is None else given[i] for i in parts[k].residual_inputs]
            found = iter(eval_program(parts[k].linear, [*residuals, *args[len(inputs) + len(types) :]]))
            outs = [next(found) if a else None for a in parts[k].out_active]
            return [
                zeros_of(v.aval) if o is None else o
                for o, v, wanted in zip(outs, branches[k].outvars, out_active)
                if wanted
            ]

        avals = [*(in_avals[i] for i in inputs), *types, *tangent_avals]
        return trace_to_program(fun, avals, name=parts[k].linear.name)

    numbers = range(len(branches))
    return _LinearizedBranches([forward(k) for k in numbers], [linear(k) for k in numbers], out_active, tuple(inputs))


def _linearize(
    primals: Sequence[Any], active: Sequence[bool], *, branches: Sequence[Program]
) -> tuple[list[Any], Callable[[Sequence[Any]], list[Any]]]:
    index, *operands = primals
    parts = _linearized(branches, tuple(active[1:]))
    results = cond(parts.forward, index, operands)
    count = len(branches[0].outvars)
    outs, residuals = results[:count], results[count:]

    def pushforward(tangents: Sequence[Any]) -> list[Any]:
        given = [instantiate(t) for t in group(active[1:], tangents[1:])]
        known = [operands[i] for i in parts.inputs]
        found = iter(cond(parts.linear, index, [*known, *residuals, *given]))
        return [next(found) if a else Zero(aval_of(o)) for a, o in zip(parts.out_active, outs)]

    return outs, pushforward


def _transpose(cts: Sequence[Any], index: Any, *args: Any, branches: Sequence[Program]) -> list[Any]:
    linear = tuple(is_linear(a) for a in args)
    arriving = tuple(not isinstance(ct, Zero) for ct in cts)
    key = ("cond transposed", linear, arriving)
    programs, out_active = memoised_together(branches, key, lambda: _transpose_branches(branches, linear, arriving))
    known = [a for a in args if not is_linear(a)]
    found = iter(cond(programs, index, [*known, *(ct for ct in cts if not isinstance(ct, Zero))]))
    leaving = iter([next(found) if a else None for a in out_active])
    return [None, *(next(leaving) if li else None for li in linear)]


def _transpose_branches(
    branches: Sequence[Program], linear: tuple[bool, ...], arriving: tuple[bool, ...]
) -> tuple[list[Program], tuple[bool, ...]]:
    parts = [transpose_program(b, linear, arriving) for b in branches]
    out_active = tuple(any(flags) for flags in zip(*(p.out_active for p in parts)))
    linear_avals = group(linear, branches[0].in_avals)

    def widened(k: int) -> Program:
        def fun(*args: Any) -> list[Any]:
            found = iter(eval_program(parts[k].program, args))
            outs = [next(found) if a else None for a in parts[k].out_active]
            return [zeros_of(t) if o is None else o for o, t, wanted in zip(outs, linear_avals, out_active) if wanted]

        return trace_to_program(fun, parts[k].program.in_avals, name=parts[k].program.name)

    return [widened(k) for k in range(len(branches))], out_active


# --- batching ---------------------------------------------------------------------------------------------


def _batch(
    axis_size: int, args: Sequence[Any], dims: Sequence[int | None], *, branches: Sequence[Program]
) -> tuple[list[Any], tuple[int | None, ...]]:
    index, *operands = args
    if dims[0] is not None:
        return _select_each(axis_size, index, operands, dims[1:], branches)
    key = ("cond batched", axis_size, tuple(dims[1:]), batched_axis())
    programs, out_dims = memoised_together(branches, key, lambda: _batch_branches(branches, axis_size, tuple(dims[1:])))
    return cond(programs, index, operands), out_dims


def _batch_branches(
    branches: Sequence[Program], size: int, dims: tuple[int | None, ...]
) -> tuple[list[Program], tuple[int | None, ...]]:
    parts = [batch_program(b, size, dims) for b in branches]
    mapped = [any(d is not None for d in found) for found in zip(*(p.out_dims for p in parts))]

    def placed(k: int) -> Program:
        def fun(*args: Any) -> list[Any]:
            outs = eval_program(parts[k].program, args)
            return [place_batch_axis(o, d, 0, size) if m else o for o, d, m in zip(outs, parts[k].out_dims, mapped)]

        return trace_to_program(fun, parts[k].program.in_avals, name=parts[k].program.name)

    return [placed(k) for k in range(len(branches))], tuple(0 if m else None for m in mapped)


def _select_each(
    size: int, index: Any, operands: Sequence[Any], dims: Sequence[int | None], branches: Sequence[Program]
) -> tuple[list[Any], tuple[int | None, ...]]:
    """Every example has an index of its own: all branches run, and each example takes the results of its branch."""
    results = []
    out_dims: Sequence[int | None]
    for number, branch in enumerate(branches):
        program, given, given_dims = branch, list(operands), tuple(dims)
        guard = guarded(branch)
        if guard is not None:
            takes = bind(eq_p, clamped_index(index, len(branches)), np.int32(number))
            program, given, given_dims = guard, [takes, *operands], (0, *dims)
        if all(d is None for d in given_dims):
            outs, out_dims = eval_program(program, given), [None] * len(branch.outvars)
        else:
            program, found = batch_program(program, size, given_dims)
            outs, out_dims = eval_program(program, given), found
        results.append([place_batch_axis(o, d, 0, size) for o, d in zip(outs, out_dims)])
    index = clamped(index, len(branches))
    chosen = [choose(index, cases) for cases in zip(*results)]
    return chosen, (0,) * len(chosen)


def clamped(index: Any, count: int) -> Any:
    """A mapped index of branches as `select_n` takes it: a bool for two, else within the range."""
    index = clamped_index(index, count)
    return convert_element_type(index, np.dtype(bool)) if count == 2 else index


def clamped_index(index: Any, count: int) -> Any:
    """An index clamped to `0..count - 1`."""
    dtype = aval_of(index).dtype
    last = min(count - 1, np.iinfo(dtype).max)
    return bind(min_p, bind(max_p, index, full_like(index, 0)), full_like(index, last))


def choose(which: Any, cases: Sequence[Any]) -> Any:
    """Of arrays with the mapped axis in front, each example that of its own case."""
    aval = aval_of(cases[0])
    if len(cases) == 1:
        return cases[0]
    wide = broadcast_in_dim(which, shape=aval.shape, broadcast_dimensions=(0,)) if aval.ndim > 1 else which
    return select_n(wide, *cases)


cond_p = Primitive(
    name="cond",
    doc="Run the one of several Programs that an index chooses.",
    multiple_results=True,
    abstract_eval=_abstract_eval,
    impl=_impl,
    jvp=Linearize(_linearize),
    transpose=_transpose,
    batch=_batch,
    lower=ControlFlow("cond", closed=closed_cond, pruned=pruned_cond),
    examples=Absent("it takes Programs; tests/control/ tests it under all transforms"),
)
