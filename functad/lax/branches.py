"""`cond` and `switch`: one of several functions runs, under JAX's names.

Knows pytrees and errors; the equation and its derivatives are in `functad.control`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad import dtypes
from functad.api.arguments import check_callable
from functad.api.bodies import Body, as_knowns, check_same_tree, explained_call, flat_operand, of_dtype, trace_body
from functad.config import config
from functad.control.conditional import clamped_index, closed_together
from functad.control.forwarding import bind_cond
from functad.dtypes import kind_of
from functad.errors import ArgumentError, BodyError
from functad.evaluation import aval_of
from functad.ir import Aval, Program, memoised
from functad.primitives.common import convert_element_type, scalar_like
from functad.primitives.logic import ne
from functad.primitives.ordering import clamp_p
from functad.tracing import bind, eval_program, has_value, trace_to_program
from functad.tree_util import keystr, tree_flatten_with_path, tree_unflatten

_MISSING = object()


def cond(
    pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any, operand: Any = _MISSING
) -> Any:
    """`true_fun(*operands) if pred else false_fun(*operands)`, also where pred is traced.

    Only the chosen function runs (under `vmap` with a mapped pred both run, and each example takes its own).

    Args:
        pred: one bool, or a number that is compared with 0.
        true_fun, false_fun: functions of the operands that return the same structure, shapes and dtypes.
        operands: pytrees of arrays. `operand=x` is the older form for one, and
            `cond(pred, x, true_fun, y, false_fun)` that with an operand for each function.

    Raises:
        BodyError: the functions return different structures, shapes or dtypes.
        ArgumentError: pred is no scalar, or a function is none.

    >>> cond(True, lambda x: x + 1., lambda x: x * 2., 3.)
    Array(4., dtype=float32, weak_type=True)
    """
    if len(operands) == 2 and not callable(true_fun) and callable(false_fun) and callable(operands[1]):
        # The older form: (pred, operand of true_fun, true_fun, operand of false_fun, false_fun).
        operands, taken, other = ((true_fun, operands[0]),), false_fun, operands[1]
        true_fun, false_fun = (lambda both: taken(both[0])), (lambda both: other(both[1]))
    for name, fun in (("true_fun", true_fun), ("false_fun", false_fun)):
        if not callable(fun):
            raise ArgumentError(
                f"cond: {name} must be a function of the operands, but is {fun!r:.80}. Write cond(pred, true_fun, "
                "false_fun, *operands), or, with an operand for each, cond(pred, x, true_fun, y, false_fun)"
            )
    operands = _operands("cond", operands, operand)
    index = _scalar(pred, "cond", "pred")
    if kind_of(aval_of(index).dtype) == "c":
        raise ArgumentError("cond: pred must be a bool or a real number, but is complex; compare it (`z != 0`)")
    if config.disable_jit and has_value(index):  # under `vmap` it may have one only when the whole is run
        return _run("cond", true_fun if bool(index) else false_fun, operands)
    if aval_of(index).dtype != bool:
        index = ne(index, scalar_like(index, 0))
    index = convert_element_type(index, np.dtype(np.int32))
    return _branch("cond", index, [true_fun, false_fun], ["true_fun", "false_fun"], operands)


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any, operand: Any = _MISSING) -> Any:
    """`branches[index](*operands)`, also where the index is traced; an index out of range is clamped.

    Args:
        index: one integer.
        branches: functions of the operands that return the same structure, shapes and dtypes; at least one.
        operands: pytrees of arrays. `operand=x` is the older form for one.

    Raises:
        BodyError: the functions return different structures, shapes or dtypes.
        ArgumentError: index is no integer scalar, or there is no branch.

    >>> switch(7, [lambda x: x, lambda x: x + 1, lambda x: x * 10], 5)
    Array(50, dtype=int32, weak_type=True)
    """
    operands = _operands("switch", operands, operand)
    if not branches:
        raise ArgumentError("switch needs at least one branch")
    index = _scalar(index, "switch", "index")
    if kind_of(aval_of(index).dtype) not in "iu":
        raise ArgumentError(f"switch: index must be an integer, but has type {aval_of(index).str_short()}")
    if len(branches) == 1:
        return _run("switch", branches[0], operands)
    if config.disable_jit and has_value(index):
        return _run("switch", branches[min(max(int(index), 0), len(branches) - 1)], operands)
    index = _as_int32(index, len(branches))
    return _branch("switch", index, list(branches), [f"branches[{i}]" for i in range(len(branches))], operands)


def _operands(transform: str, operands: tuple[Any, ...], operand: Any) -> tuple[Any, ...]:
    if operand is _MISSING:
        return operands
    if operands:
        raise ArgumentError(f"{transform}: give operands by position, or one as `operand=`, but not both")
    return (operand,)


def _run(transform: str, branch: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """The branch as Python."""
    check_callable(branch, transform)
    knowns = as_knowns(operands, "operands", transform)
    with explained_call(branch, len(knowns), transform):
        result = branch(*knowns)
    return as_knowns(result, "the result", transform)


def _scalar(x: Any, transform: str, name: str) -> Any:
    if callable(x):
        raise ArgumentError(f"{transform}: the first argument, {name}, must be a scalar, but is the function {x!r}")
    value = flat_operand(x, name, transform)
    if value.tree.num_nodes != 1 or not value.leaves or value.avals[0].shape != ():
        shown = value.rebuilt([a.str_short() for a in value.avals])
        raise ArgumentError(
            f"{transform}: {name} must be one scalar, but is {shown}; use functad.numpy.where to choose element "
            "by element, .all() or .any() to make one condition of many, or vmap to choose for every example"
        )
    return value.leaves[0]


def _as_int32(index: Any, count: int) -> Any:
    """The index clamped, before its dtype changes where that could wrap a large one around."""
    dtype = aval_of(index).dtype
    if dtype.itemsize >= 4 and dtype != np.int32:
        return convert_element_type(clamped_index(index, count), np.dtype(np.int32))
    index = convert_element_type(index, np.dtype(np.int32))
    return bind(clamp_p, np.int32(0), index, np.int32(count - 1))


def _branch(
    transform: str, index: Any, funs: Sequence[Callable[..., Any]], names: Sequence[str], operands: Sequence[Any]
) -> Any:
    given = [flat_operand(x, f"operands[{i}]", transform) for i, x in enumerate(operands)]
    trees = [g.tree for g in given]
    avals = [a for g in given for a in g.avals]
    bodies = [trace_body(f, trees, avals, transform) for f in funs]
    first = bodies[0]
    for body, name in zip(bodies[1:], names[1:]):
        check_same_tree(body.out_tree, first.out_tree, f"the result of {name}", f"that of {names[0]}", transform)
    programs, values = closed_together(_of_one_type(transform, bodies, names), [x for g in given for x in g.leaves])
    outs = bind_cond(programs[::-1] if transform == "cond" else programs, index, values)  # False, 0, runs false_fun
    return tree_unflatten(first.out_tree, outs)


def _of_one_type(transform: str, bodies: Sequence[Body], names: Sequence[str]) -> list[Program]:
    """The Programs of the branches, with weak results converted where another branch has another dtype; or an error."""
    programs = [b.program for b in bodies]
    wanted = [_wanted(found) for found in zip(*(p.out_avals for p in programs))]
    if not all(_fits(a, w) for p in programs for a, w in zip(p.out_avals, wanted)):
        raise BodyError(
            f"{transform}: all branches must return the same types, but\n"
            + "\n".join(_differences(bodies, names, wanted))
        )
    return [_converted(p, wanted) for p in programs]


def _wanted(found: Sequence[Aval]) -> Aval:
    """The type of a result: the first that is not weak (not from Python numbers), or the widest weak one."""
    strong = [a for a in found if not a.weak_type]
    return strong[0] if strong else max(found, key=lambda a: "biufc".index(kind_of(a.dtype)))


def _fits(found: Aval, wanted: Aval) -> bool:
    adapts = found.weak_type and dtypes.lattice_join((found.dtype, True), (wanted.dtype, False))[0] == wanted.dtype
    return found.shape == wanted.shape and (found.dtype == wanted.dtype or adapts)


def _differences(bodies: Sequence[Body], names: Sequence[str], wanted: Sequence[Aval]) -> list[str]:
    """A line for each result that does not fit, with what it should be and a fix."""
    tree = bodies[0].out_tree
    paths = [keystr(path) for path, _ in tree_flatten_with_path(tree_unflatten(tree, range(tree.num_leaves)))[0]]
    lines = []
    for i, (path, w) in enumerate(zip(paths, wanted)):
        avals = [b.program.out_avals[i] for b in bodies]
        other = names[avals.index(w)]
        for a, name in zip(avals, names):
            if _fits(a, w):
                continue
            fix = (
                f"convert one of them, `.astype('{w.dtype.name}')`"
                if a.shape == w.shape
                else "shapes must be equal; check for broadcasting or a missing reduction"
            )
            at = f" at `{path}`" if path else ""
            lines.append(f"  the result of {name}{at} has type {a.str_short()}, that of {other} {w.str_short()}: {fix}")
    return lines


def _converted(program: Program, wanted: Sequence[Aval]) -> Program:
    if all(a.dtype == w.dtype for a, w in zip(program.out_avals, wanted)):
        return program
    return memoised(program, ("converted", *wanted), lambda: _convert(program, wanted))


def _convert(program: Program, wanted: Sequence[Aval]) -> Program:
    def fun(*args: Any) -> list[Any]:
        outs = eval_program(program, args[len(program.consts) :], args[: len(program.consts)])
        return [of_dtype(o, w.dtype) if aval_of(o).dtype != w.dtype else o for o, w in zip(outs, wanted)]

    avals = [v.aval for v in (*program.constvars, *program.invars)]
    made = trace_to_program(fun, avals, name=program.name)
    count = len(program.consts)
    return made.replace(
        invars=made.invars[count:],
        constvars=[*made.invars[:count], *made.constvars],
        consts=[*program.consts, *made.consts],
    )
