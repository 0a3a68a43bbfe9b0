"""Tracing the functions that loops and branches take: bodies, conditions, branches.

Knows pytrees and errors; not what a body is used for.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import numpy as np

from functad.api.arguments import FlatFunction, LeafNames, as_known, as_value, check_callable, function_name
from functad.array import ArrayImpl
from functad.config import config
from functad.editing.placement import on_one_device
from functad.errors import BodyError
from functad.evaluation import aval_of
from functad.ir import Aval, Program, surroundings
from functad.primitives.common import convert_element_type
from functad.primitives.kernels.conversion import converted
from functad.records import NamedTuple
from functad.system.recent import Recent
from functad.tracing import Trace, Tracer, program_from_ops
from functad.tree_util import PyTreeDef, keystr, tree_flatten, tree_flatten_with_path, tree_map, tree_unflatten

T = TypeVar("T")


class Body(NamedTuple):
    """A traced function: its Program, whose constants are what it closes over, and the structure of its results."""

    program: Program
    out_tree: PyTreeDef


_MOST = 256  # kinds of arguments of a function
known_bodies: weakref.WeakKeyDictionary[Any, Recent[Body]] = weakref.WeakKeyDictionary()


class CalledFunction(NamedTuple):
    """The function of the user's that the one which a loop repeats calls: its name, and what it calls each leaf."""

    name: str
    leaf_name: Callable[[int], str]


def trace_body(
    fun: Callable[..., Any],
    arg_trees: Sequence[PyTreeDef],
    avals: Sequence[Aval],
    transform: str,
    user: CalledFunction | None = None,
) -> Body:
    """Trace `fun(*args)` for leaves of these types; the same Body again for the same function and types.

    arg_trees: the structure of each argument. avals: the types of all leaves. user: whom errors name, if not `fun`.
    """
    check_callable(fun, transform)
    key = (tuple([tree.exact_key() for tree in arg_trees]), tuple(avals), config.trace_settings, surroundings.axes)
    found = remembered(known_bodies, fun)
    body = found.find(key)
    if body is None:
        body, reusable = _trace(fun, arg_trees, avals, transform, user)
        if reusable:
            found.add(key, body)
    return body


def remembered(known: weakref.WeakKeyDictionary[Any, Recent[T]], fun: Callable[..., Any]) -> Recent[T]:
    """What was traced of this very object."""
    equality: Any = type(fun).__eq__
    if equality is not object.__eq__:  # what only equals it, as `Cell(1) == Cell(1.0)`, may do something else
        return Recent(_MOST)
    try:
        return known.setdefault(fun, Recent(_MOST))
    except TypeError:  # it cannot be referred to weakly, or has no hash
        return Recent(_MOST)


def _trace(
    fun: Callable[..., Any],
    arg_trees: Sequence[PyTreeDef],
    avals: Sequence[Aval],
    transform: str,
    user: CalledFunction | None,
) -> tuple[Body, bool]:
    name = function_name(fun) if user is None else user.name
    leaves = iter(range(len(avals)))
    args = [tree_unflatten(t, [next(leaves) for _ in range(t.num_leaves)]) for t in arg_trees]
    in_tree = tree_flatten((tuple(args), {}))[1]
    flat_fun = FlatFunction(fun, in_tree, transform=transform, name=name)
    leaf_name = LeafNames(fun, dict(enumerate(args))).__getitem__ if user is None else user.leaf_name
    origins = [partial(leaf_name, i) for i in range(len(avals))]
    with Trace(f"{transform} of {name}", records_all=True) as trace:
        inputs = [trace.new_input(a, o) for a, o in zip(avals, origins)]
        with explained_call(fun if user is None else None, len(arg_trees), transform):
            outs = flat_fun(*inputs)
    program = on_one_device(program_from_ops(trace, trace.take_ops(), inputs, outs, name))
    assert flat_fun.out_tree is not None
    reusable = not trace.depends_on_values and not any(isinstance(c, Tracer) for c in program.consts)
    return Body(program, flat_fun.out_tree), reusable


_CALLED = {
    "scan": "f(carry, x)",
    "fori_loop": "body_fun(i, value)",
    "map": "f(x), where several arrays are one tuple",
    "while_loop": "cond_fun(value) and body_fun(value), where several values are one tuple",
    "cond": "true_fun(*operands) or false_fun(*operands) of cond(pred, true_fun, false_fun, *operands)",
    "fit": "loss(params, batch, key), or loss(params, state, batch, key) where there is a state",
    "switch": "one of switch(index, branches, *operands) with the operands",
}


@contextmanager
def explained_call(fun: Callable[..., Any] | None, count: int, transform: str) -> Iterator[None]:
    """Where a loop or branch calls a function with so many arguments: an error that says so if it does not take them.

    Signatures are asked after that only: those of decorated functions may be what the decorator took the place of.
    """
    try:
        yield
    except TypeError:
        if fun is not None:
            _check_takes(fun, count, transform)
        raise


def _check_takes(fun: Callable[..., Any], count: int, transform: str) -> None:
    try:
        signature = inspect.signature(fun, follow_wrapped=False)
    except (TypeError, ValueError):  # one that is not written in Python
        return
    try:
        signature.bind(*range(count))
    except TypeError as problem:
        called = f": it calls {_CALLED[transform]}" if transform in _CALLED else ""
        raise BodyError(
            f"{transform}: {function_name(fun)}{signature} is called with {count} argument{'s' if count != 1 else ''}, "
            f"but cannot be ({problem}){called}"
        ) from None


class Operand(NamedTuple):
    """A pytree of arrays, flattened."""

    leaves: list[Any]
    tree: PyTreeDef
    paths: list[str]  # such as "['w'][0]"

    @property
    def avals(self) -> list[Aval]:
        return [aval_of(x) for x in self.leaves]

    def rebuilt(self, leaves: Sequence[Any]) -> Any:
        return tree_unflatten(self.tree, leaves)


def flat_operand(tree: Any, what: str, transform: str) -> Operand:
    """Flatten an argument of a loop or branch; leaves become Arrays or tracers."""
    pairs, treedef = tree_flatten_with_path(tree)
    paths = [keystr(path) for path, _ in pairs]
    leaves = [as_value(x, partial("{}: {}{}".format, transform, what, p)) for p, (_, x) in zip(paths, pairs)]
    return Operand(leaves, treedef, paths)


def as_arrays(tree: Any, what: str, transform: str) -> Any:
    """The same pytree with Arrays or tracers for leaves, where a function ran as Python."""
    value = flat_operand(tree, what, transform)
    return value.rebuilt(value.leaves)


def as_knowns(tree: Any, what: str, transform: str) -> Any:
    """As `as_arrays`, but Python's numbers stay what they are."""
    return tree_map(lambda x: as_known(x, lambda: f"{transform}: {what}"), tree)


def of_dtype(x: Any, dtype: np.dtype) -> Any:
    """A value converted to a dtype; a concrete one at once, without an equation."""
    if isinstance(x, Tracer):
        return convert_element_type(x, dtype)
    return ArrayImpl(converted(np.asarray(x), dtype))


def check_same_tree(got: PyTreeDef, wanted: PyTreeDef, got_name: str, wanted_name: str, transform: str) -> None:
    """Raise unless two structures are equal; the error names the leaves that only one of them has."""
    if got == wanted:
        return
    found, expected = _leaf_paths(got), _leaf_paths(wanted)
    only = [f"{got_name} has a leaf at `{p}`, {wanted_name} has none" for p in found if p not in expected]
    only += [f"{wanted_name} has a leaf at `{p}`, {got_name} has none" for p in expected if p not in found]
    raise BodyError(
        f"{transform}: {got_name} and {wanted_name} must have the same structure, but\n"
        f"  {got_name} is {got}\n  {wanted_name} is {wanted}\n"
        + "".join(f"  {line}\n" for line in only)
        + "Build both from the same containers (tuple, list, dict, …), with the same keys; None holds no leaf"
    )


def _leaf_paths(tree: PyTreeDef) -> list[str]:
    example = tree_unflatten(tree, range(tree.num_leaves))
    return [keystr(path) or "(the whole)" for path, _ in tree_flatten_with_path(example)[0]]


def check_same_types(
    got: Sequence[Aval], wanted: Sequence[Aval], paths: Sequence[str], got_name: str, wanted_name: str, transform: str
) -> None:
    """Raise unless the leaves of two pytrees have equal types; the error names each leaf that differs, and a fix."""
    problems = []
    for path, g, w in zip(paths, got, wanted):
        if g.same_type(w):
            continue
        problems.append(
            f"  {_at(got_name, path)} has type {_described(g)}, {_at(wanted_name, path)} has type {_described(w)}: "
            + _fix(g, w, wanted_name)
        )
    if problems:
        raise BodyError(
            f"{transform}: {got_name} and {wanted_name} must have the same types, but\n" + "\n".join(problems)
        )


def _at(name: str, path: str) -> str:
    return f"{name} at `{path}`" if path else name


def _described(aval: Aval) -> str:
    return aval.str_short() + (" (weak: from a Python number)" if aval.weak_type else "")


def _fix(got: Aval, wanted: Aval, wanted_name: str) -> str:
    if got.shape != wanted.shape:
        return "shapes must be equal; check for broadcasting, or for a reduction or `[None]` that is missing"
    if wanted.weak_type or got.weak_type:
        return f"start from an array of one dtype, functad.numpy.asarray(…, '{got.dtype.name}')"
    return f"convert one of them, `.astype('{wanted.dtype.name}')`, or {wanted_name} `.astype('{got.dtype.name}')`"
