"""The transforms as functions from Program to Program, memoised on the Program they start from.

Each runs the flat transform of its sibling file on `eval_program` and records the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from functad.editing.dead_code import eliminate_dead_code
from functad.ir import Aval, Program, UndefinedPrimal, Zero, memoised
from functad.records import NamedTuple
from functad.tracing import eval_program, trace_to_program
from functad.transforms.batching import batch_flat, place_batch_axis
from functad.transforms.forward import jvp_flat
from functad.transforms.named_axes import batched_axis
from functad.transforms.reverse import linearize_flat, transpose_flat


class JvpProgram(NamedTuple):
    program: Program  # (primals, active tangents) -> (outputs, active tangent outputs)
    out_active: tuple[bool, ...]


def jvp_program(program: Program, active: tuple[bool, ...]) -> JvpProgram:
    """The Program that pushes tangents of the active inputs along with the values."""
    return memoised(program, ("jvp", active), lambda: _jvp_program(program, active))


def _jvp_program(program: Program, active: tuple[bool, ...]) -> JvpProgram:
    out_active: list[bool] = []

    def fun(*args: Any) -> list[Any]:
        primals, given = args[: len(active)], iter(args[len(active) :])
        tangents = [next(given) if a else Zero(v.aval) for a, v in zip(active, program.invars)]
        outs, out_tangents = jvp_flat(partial(_eval, program), primals, tangents)
        out_active.extend(not isinstance(t, Zero) for t in out_tangents)
        return outs + [t for t in out_tangents if not isinstance(t, Zero)]

    avals = program.in_avals + [v.aval for v, a in zip(program.invars, active) if a]
    result = trace_to_program(fun, avals, name=f"jvp_{program.name}")
    return JvpProgram(result, tuple(out_active))


class LinearizedProgram(NamedTuple):
    forward: Program  # primals -> (outputs, residuals that are not inputs)
    linear: Program  # (residuals, active tangents) -> active tangent outputs
    out_active: tuple[bool, ...]
    residual_inputs: tuple[int | None, ...]  # for each residual: which input it is, or None


def linearize_program(program: Program, active: tuple[bool, ...]) -> LinearizedProgram:
    """Split a Program into one that computes values and residuals, and the linear one of the tangents."""
    return memoised(program, ("linearize", active), lambda: _linearize_program(program, active))


def _linearize_program(program: Program, active: tuple[bool, ...]) -> LinearizedProgram:
    linear: list[Program] = []
    out_active: list[bool] = []
    residual_inputs: list[int | None] = []

    def fun(*primals: Any) -> list[Any]:
        outs, linear_map = linearize_flat(partial(_eval, program), primals, active)
        out_active.extend(not isinstance(o, Zero) for o in linear_map.outs)
        linear_map.outs = [o for o in linear_map.outs if not isinstance(o, Zero)]
        split = eliminate_dead_code(linear_map.to_program(f"linear_{program.name}"))
        position = {id(p): i for i, p in enumerate(primals)}
        residual_inputs.extend(position.get(id(c)) for c in split.consts)
        linear.append(split.close())
        return outs + [c for c in split.consts if id(c) not in position]

    forward = eliminate_dead_code(trace_to_program(fun, program.in_avals, name=f"forward_{program.name}"))
    return LinearizedProgram(forward, linear[0], tuple(out_active), tuple(residual_inputs))


class TransposedProgram(NamedTuple):
    program: Program  # (known inputs, cotangents that are not zero) -> cotangents that are not zero
    out_active: tuple[bool, ...]  # of each linear input


def transpose_program(
    program: Program, linear: tuple[bool, ...], cotangent_active: tuple[bool, ...]
) -> TransposedProgram:
    """Transpose a Program that is linear in the inputs so marked."""
    return memoised(
        program,
        ("transpose", linear, cotangent_active),
        lambda: _transpose_program(program, linear, cotangent_active),
    )


def _transpose_program(
    program: Program, linear: tuple[bool, ...], cotangent_active: tuple[bool, ...]
) -> TransposedProgram:
    out_active: list[bool] = []
    known_avals = [v.aval for v, is_linear in zip(program.invars, linear) if not is_linear]
    ct_avals = [v.aval for v, a in zip(program.outvars, cotangent_active) if a]

    def fun(*args: Any) -> list[Any]:
        known, given = iter(args[: len(known_avals)]), iter(args[len(known_avals) :])
        primals = [UndefinedPrimal(v.aval) if li else next(known) for v, li in zip(program.invars, linear)]
        cts = [next(given) if a else Zero(v.aval) for v, a in zip(program.outvars, cotangent_active)]
        results = transpose_flat(partial(_eval, program), primals, lambda outs: cts)
        out_active.extend(not isinstance(r, Zero) for r in results)
        return [r for r in results if not isinstance(r, Zero)]

    result = eliminate_dead_code(trace_to_program(fun, known_avals + ct_avals, name=f"transpose_{program.name}"))
    return TransposedProgram(result, tuple(out_active))


def transpose_call(
    call: Callable[[Program, list[Any]], list[Any]], program: Program, cts: Sequence[Any], args: Sequence[Any]
) -> list[Any]:
    """The transpose rule of an equation that calls a Program: `call(transposed, its inputs)` calls the transposed one.

    Returns a cotangent for each argument, None where it is zero or the argument is known.
    """
    linear = tuple(isinstance(a, UndefinedPrimal) for a in args)
    arriving = tuple(not isinstance(ct, Zero) for ct in cts)
    transposed, out_active = transpose_program(program, linear, arriving)
    known = [a for a, li in zip(args, linear) if not li]
    found = iter(call(transposed, [*known, *(ct for ct, a in zip(cts, arriving) if a)]))
    leaving = iter([next(found) if a else None for a in out_active])
    return [next(leaving) if li else None for li in linear]


class BatchedProgram(NamedTuple):
    program: Program
    out_dims: tuple[int | None, ...]


def batch_program(program: Program, axis_size: int, dims: tuple[int | None, ...]) -> BatchedProgram:
    """Map a Program over one axis of its inputs; None marks an input, or output, that is not mapped."""
    key = ("batch", axis_size, dims, batched_axis())
    return memoised(program, key, lambda: _batch_program(program, axis_size, dims))


def _batch_program(program: Program, axis_size: int, dims: tuple[int | None, ...]) -> BatchedProgram:
    out_dims: list[int | None] = []

    def fun(*args: Any) -> list[Any]:
        outs, found = batch_flat(partial(_eval, program), axis_size, args, dims, axis_name=batched_axis())
        out_dims.extend(found)
        return outs

    avals = [_with_axis(v.aval, d, axis_size) for v, d in zip(program.invars, dims)]
    result = trace_to_program(fun, avals, name=f"batch_{program.name}")
    return BatchedProgram(result, tuple(out_dims))


def batch_in_front(program: Program, axis_size: int, dims: tuple[int | None, ...]) -> Program:
    """As `batch_program`, where the mapped axis is the first one of all results."""

    def make() -> Program:
        mapped, out_dims = batch_program(program, axis_size, dims)

        def fun(*args: Any) -> list[Any]:
            return [place_batch_axis(o, d, 0, axis_size) for o, d in zip(eval_program(mapped, args), out_dims)]

        return trace_to_program(fun, mapped.in_avals, name=program.name)

    return memoised(program, ("batch in front", axis_size, dims, batched_axis()), make)


def _with_axis(aval: Aval, dim: int | None, size: int) -> Aval:
    if dim is None:
        return aval
    return Aval((*aval.shape[:dim], size, *aval.shape[dim:]), aval.dtype, aval.weak_type)


def _eval(program: Program, *args: Any) -> list[Any]:
    return eval_program(program, args)
