"""`scan`, `while_loop`, `fori_loop`, `map`: loops as single equations, under JAX's names.

Knows pytrees and errors; the equations and their derivatives are in `functad.control`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from functad import dtypes
from functad.api.arguments import LeafNames, as_value, check_callable, function_name
from functad.api.bodies import (
    Body,
    CalledFunction,
    Operand,
    as_arrays,
    check_same_tree,
    check_same_types,
    explained_call,
    flat_operand,
    of_dtype,
    trace_body,
)
from functad.api.mapping import vmap
from functad.array import ArrayImpl
from functad.config import config
from functad.control.forwarding import bind_scan, bind_while
from functad.control.while_loop import counting_steps
from functad.dtypes import kind_of
from functad.errors import ArgumentError, BodyError, ShapeError
from functad.evaluation import aval_of
from functad.ir import Aval
from functad.lax.loop_progress import scan_with_progress, stepped
from functad.primitives.arithmetic import ceil
from functad.primitives.common import convert_element_type, reshape
from functad.primitives.joining import concatenate
from functad.primitives.logic import lt
from functad.primitives.reduction import slice_along
from functad.pytrees.treedef import returned
from functad.records import NamedTuple
from functad.tracing import Tracer, has_value
from functad.tree_util import PyTreeDef, tree_flatten, tree_map, tree_unflatten


class _Said(NamedTuple):
    """What errors call a loop, what its function gives, and what it begins with: the user's words.

    user: the function of the user's that another one calls. inner: which part of the carry he knows; None: all.
    """

    loop: str
    result: str
    start: str
    user: CalledFunction | None = None
    inner: int | None = None

    def check_same_tree(self, got: PyTreeDef, start: Operand) -> None:
        given, wanted = (t if self.inner is None else t.children()[self.inner] for t in (got, start.tree))
        check_same_tree(given, wanted, self.result, self.start, self.loop)

    def check_same_types(self, got: Sequence[Aval], start: Operand) -> None:
        own = 0 if self.inner is None else start.tree.num_leaves - start.tree.children()[self.inner].num_leaves
        ahead = "" if self.inner is None else f"[{self.inner}]"
        paths = [path.removeprefix(ahead) for path in start.paths[own:]]
        check_same_types(got[own:], start.avals[own:], paths, self.result, self.start, self.loop)


_SCAN = _Said("scan", "the carry that f returns", "init")
_WHILE = _Said("while_loop", "what body_fun returns", "init_val")
_FORI = _Said("fori_loop", "what body_fun returns", "init_val")
_MAP = _Said("map", "the carry", "the first carry")  # it has none


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
    *,
    progress: str | None = None,
) -> tuple[Any, Any]:
    """Loop over the leading axis of arrays, carrying values along and stacking results.

    `carry, y = f(carry, x)` for every slice x of xs, in order; as Python:

        carry, ys = init, []
        for x in xs:
            carry, y = f(carry, x)
            ys.append(y)
        return carry, numpy.stack(ys)

    The loop is one equation: it is traced once, whatever its length. Under `grad` it stores what the backward loop
    needs from each step.

    Args:
        f: a function `(carry, x) → (carry, y)` of pytrees; the carry keeps its structure, shapes and dtypes.
        init: the first carry.
        xs: a pytree of arrays of equal leading size; None (with `length`) if f needs no slices.
        length: the number of steps, where xs does not tell.
        reverse: go through xs, and fill ys, from the end.
        unroll: 0, True, or no fewer than there are steps: the compiled loop is written out, one step after another.
            Other numbers change nothing: to take some steps at a time seldom makes these loops faster. Results are the
            same.
        _split_transpose: accepted for JAX's sake.
        progress: the label of a progress bar on standard error, which also moves while compiled code runs. Python is
            called at most about a hundred times, so short steps stay short.

    Returns:
        The last carry, and the stacked ys (leading axis: steps).

    Raises:
        BodyError: f does not return a pair, or the carry changes its structure, a shape or a dtype.
        ArgumentError: sizes do not agree, or the length is unknown.

    f is traced once for each combination of types, and not again while the function object lives: what it reads
    from elsewhere (a global) must not change.

    >>> import functad.numpy as jnp
    >>> scan(lambda total, x: (total + x, total * x), 0., jnp.array([1., 2., 3.]))
    (Array(6., dtype=float32), Array([0., 2., 9.], dtype=float32))
    """
    return _scan(f, init, xs, _SCAN, length, reverse, unroll, progress)


def _scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    said: _Said,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    progress: str | None = None,
) -> tuple[Any, Any]:
    start, arrays = flat_operand(init, said.start, said.loop), flat_operand(xs, "xs", said.loop)
    steps = _length(arrays, length, said.loop)
    if config.disable_jit:
        return _python_scan(f, start, arrays, steps, reverse, progress)
    slices = [Aval(a.shape[1:], a.dtype, a.weak_type) for a in arrays.avals]

    def trace(avals: Sequence[Aval]) -> Body:
        return trace_body(f, [start.tree, arrays.tree], [*avals, *slices], said.loop, said.user)

    body = trace(start.avals)
    carry_tree, ys_tree = _pair(f, body.out_tree)
    said.check_same_tree(carry_tree, start)
    n = len(start.leaves)
    start, body = _settled(start, body, lambda b: b.program.out_avals[:n], trace)
    said.check_same_types(body.program.out_avals[:n], start)
    loop: dict[str, Any] = {"length": steps, "reverse": bool(reverse), "unroll": _unroll(unroll, steps, said.loop)}
    bind = bind_scan if progress is None else partial(scan_with_progress, label=str(progress))
    last, ys = bind(body.program, start.leaves, arrays.leaves, **loop)
    return start.rebuilt(last), tree_unflatten(ys_tree, ys)


def _length(arrays: Operand, length: int | None, loop: str) -> int:
    for path, aval in zip(arrays.paths, arrays.avals):
        if not aval.shape:
            raise ShapeError(f"{loop}: xs{path} is a scalar; it needs a leading axis to loop over")
    sizes = {a.shape[0] for a in arrays.avals}
    if length is not None:
        try:
            wanted = operator.index(length)
        except TypeError:
            raise ArgumentError(f"{loop}: length must be an int, but is {length!r}") from None
        if wanted < 0:
            raise ArgumentError(f"{loop}: length must not be negative, but is {wanted}")
        if sizes - {wanted}:
            shown = ", ".join(f"xs{p} has {a.shape[0]}" for p, a in zip(arrays.paths, arrays.avals))
            raise ArgumentError(f"{loop}: length={wanted} does not fit the leading axes: {shown}")
        return wanted
    if not sizes:
        tells = "so `length` must tell" if loop == "scan" else "which would tell"
        raise ArgumentError(f"{loop}: xs holds no array, {tells} the number of steps")
    if len(sizes) > 1:
        shown = ", ".join(f"xs{p} has {a.shape[0]}" for p, a in zip(arrays.paths, arrays.avals))
        raise ArgumentError(f"{loop}: all arrays in xs must have leading axes of one size, but {shown}")
    return sizes.pop()


def _unroll(unroll: int | bool, steps: int, loop: str) -> int:
    if not isinstance(unroll, (bool, int, np.integer)) or unroll < 0:
        raise ArgumentError(f"{loop}: unroll must be a bool or an int that is not negative, but is {unroll!r}")
    if unroll is True or (unroll == 0 and unroll is not False):
        return max(steps, 1)
    return max(int(unroll), 1)


def _pair(f: Callable[..., Any], out_tree: PyTreeDef) -> tuple[PyTreeDef, PyTreeDef]:
    parts, node = out_tree.children(), out_tree.node_data()
    if not (node is not None and issubclass(node[0], (tuple, list)) and len(parts) == 2):
        raise BodyError(
            f"scan: {function_name(f)} must return a pair (carry, y), but it returned {returned(out_tree)}; "
            "return `carry, None` where no results are to be stacked"
        )
    return parts[0], parts[1]


def _settled(
    start: Operand, body: Body, carried: Callable[[Body], Sequence[Aval]], trace: Callable[[Sequence[Aval]], Body]
) -> tuple[Operand, Body]:
    """Let weak leaves of the first carry (Python numbers) take the dtypes that the body gives them."""
    while True:
        leaves = [_promoted(*leaf) for leaf in zip(start.leaves, start.avals, carried(body))]
        if all(a is b for a, b in zip(leaves, start.leaves)):
            return start, body
        start = start._replace(leaves=leaves)  # what was converted is weak no more, so this comes to an end
        body = trace(start.avals)


def _promoted(leaf: Any, given: Aval, found: Aval) -> Any:
    if not given.weak_type or given.dtype == found.dtype or given.shape != found.shape:
        return leaf
    dtype, _ = dtypes.lattice_join((given.dtype, True), (found.dtype, found.weak_type))
    return leaf if dtype == given.dtype else of_dtype(leaf, dtype)


def _python_scan(
    f: Any, start: Operand, arrays: Operand, steps: int, reverse: bool, progress: str | None
) -> tuple[Any, Any]:
    carry: Any = start.rebuilt(start.leaves)
    found: list[Any] = []
    for i in stepped(range(steps)[::-1] if reverse else range(steps), progress):
        carry, y = f(carry, arrays.rebuilt([x[i] for x in arrays.leaves]))
        found.append(y)
    if not found:
        raise ArgumentError(
            "scan of length 0 cannot run as Python (disable_jit): nothing tells the type of its results; "
            "leave disable_jit out, or do not call scan for an empty sequence"
        )
    if reverse:
        found.reverse()
    stacked = tree_map(lambda *ys: concatenate([_with_axis(y) for y in ys], 0), *found)
    return as_arrays(carry, "the carry that f returns", "scan"), stacked


def _with_axis(y: Any) -> Any:
    y = flat_operand(y, "y", "scan").leaves[0]
    return reshape(y, (1, *aval_of(y).shape))


# --- while_loop, fori_loop --------------------------------------------------------------------------------


def while_loop(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any, *, max_steps: int | None = None
) -> Any:
    """Apply a function as long as a condition holds: `while cond_fun(val): val = body_fun(val)`.

    It can be differentiated in reverse, too: for that, each step leaves what its derivative needs in memory that grows
    with the number of steps.

    Args:
        cond_fun: a function of the carry that returns one bool.
        body_fun: a function of the carry that returns the next one, of the same structure, shapes and dtypes.
        init_val: the first carry, a pytree of arrays.
        max_steps: take at most so many steps, and end there as if the condition held no longer. None: no limit.
            It bounds the time, and the memory of the derivative.

    Returns:
        The first carry for which the condition does not hold, or the one after `max_steps` steps.

    Raises:
        BodyError: the condition is no scalar bool, or the carry changes its structure, a shape or a dtype.
        ArgumentError: `max_steps` is no integer, or negative.
        MemoryError: the steps left more than there is memory for.

    >>> while_loop(lambda x: x < 100, lambda x: x * 2, 3)
    Array(192, dtype=int32, weak_type=True)
    >>> while_loop(lambda x: x < 100, lambda x: x * 2, 3, max_steps=4)
    Array(48, dtype=int32, weak_type=True)
    >>> from functad import grad
    >>> grad(lambda x: while_loop(lambda v: v < 100, lambda v: v * v, x))(3.)  # ((x²)²)² = x⁸
    Array(17496., dtype=float32, weak_type=True)
    """
    return _while_loop(cond_fun, body_fun, init_val, _WHILE, _max_steps(max_steps))


def _while_loop(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any, said: _Said, most: int | None = None
) -> Any:
    start = flat_operand(init_val, said.start, said.loop)
    check_callable(cond_fun, said.loop)
    if config.disable_jit:
        value, steps, ended = _python_while(cond_fun, body_fun, start, most)
        if ended:
            return value
        start, most = flat_operand(value, said.start, said.loop), None if most is None else most - steps

    def trace(avals: Sequence[Aval]) -> Body:
        return trace_body(body_fun, [start.tree], avals, said.loop, said.user)

    body = trace(start.avals)
    said.check_same_tree(body.out_tree, start)
    start, body = _settled(start, body, lambda b: b.program.out_avals, trace)
    said.check_same_types(body.program.out_avals, start)
    cond = trace_body(cond_fun, [start.tree], start.avals, said.loop)
    outs = cond.program.out_avals
    if len(outs) != 1 or outs[0].shape != () or outs[0].dtype != bool or cond.out_tree.num_nodes != 1:
        shown = tree_unflatten(cond.out_tree, [a.str_short() for a in outs])
        raise BodyError(
            f"while_loop: cond_fun must return one scalar bool, but it returned {shown}; "
            "compare (`x > 0`), or reduce with .all() or .any()"
        )
    programs = (cond.program, body.program)
    if most is None:
        return start.rebuilt(bind_while(*programs, start.leaves))
    _, *outs = bind_while(*counting_steps(*programs, most), [np.zeros((), np.int32), *start.leaves])
    return start.rebuilt(outs)


def _max_steps(max_steps: int | None) -> int | None:
    if max_steps is None:
        return None
    if isinstance(max_steps, bool) or not isinstance(max_steps, (int, np.integer)) or not 0 <= max_steps < 1 << 31:
        raise ArgumentError(
            f"while_loop: max_steps must be None or an int from 0 to 2**31 - 1, known when the function is traced, "
            f"but is {max_steps!r}"
        )
    return int(max_steps)


def _python_while(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], start: Operand, most: int | None
) -> tuple[Any, int, bool]:
    """Run a loop as Python: the carry, the steps, and whether it came to its end.

    It did not where a condition has a value only when all is run, as under `vmap`: an equation goes on from there.
    """
    value = start.rebuilt(start.leaves)
    steps = 0
    while most is None or steps < most:
        holds = cond_fun(value)
        if not has_value(holds):
            return value, steps, False
        if not holds:
            break
        value = as_arrays(body_fun(value), "what body_fun returns", "while_loop")
        steps += 1
    return value, steps, True


def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    *,
    unroll: Any = None,
    progress: str | None = None,
) -> Any:
    """Apply `val = body_fun(i, val)` for i in `range(lower, upper)`.

    With bounds known when the function is traced it is a `scan`, else a `while_loop`.

    Args:
        lower, upper: integers, or integer scalars, of any integer dtypes that one integer dtype can hold. Two
            floats count as the next whole numbers, so that i goes on as long as it is less than `upper`.
        body_fun: a function `(i, val) → val` that keeps structure, shapes and dtypes.
        init_val: the first val, a pytree of arrays.
        unroll, progress: as in `scan`; they need bounds that are known.

    Returns:
        The last val; `init_val` if there is nothing to do.

    Whether bounds are known or traced, i is like a Python integer: weakly typed, of 32 bits (64 with `enable_x64`).
    Only where these cannot hold the bounds (known values, or the dtype of traced ones) it has the bounds' dtype.
    With `disable_jit` and known bounds it is a Python integer.

    Raises:
        ArgumentError: bounds are neither integer scalars nor both floats, are not finite, or one does not fit in the
            dtype of the other.
        BodyError: the body returns what has another structure or other types than its argument.

    >>> fori_loop(0, 5, lambda i, total: total + i, 0)
    Array(10, dtype=int32, weak_type=True)
    """
    check_callable(body_fun, "fori_loop")
    if not isinstance(lower, (int, np.integer)):
        lower, upper = _whole_numbers(lower, upper)
    first, last = _bound(lower, "lower"), _bound(upper, "upper")
    dtype = _counter_dtype((lower, upper), (first, last))
    start, stop = (
        convert_element_type(b, dtype, dtype == dtypes.default_int_dtype())
        if isinstance(b, Tracer)
        else ArrayImpl(np.asarray(b, dtype), dtype == dtypes.default_int_dtype())
        for b in (first, last)
    )
    is_known = not isinstance(first, Tracer) and not isinstance(last, Tracer)
    if is_known and config.disable_jit:
        return _python_fori(body_fun, range(first, last), dtype, init_val, progress)
    value = as_arrays(init_val, "init_val", "fori_loop")

    def next_value(i: Any, value: Any) -> Any:
        with explained_call(body_fun, 2, "fori_loop"):
            result = body_fun(i, value)
        return as_arrays(result, _FORI.result, _FORI.loop)

    if is_known:
        (_, out), _ = _scan(
            lambda carry, _: ((carry[0] + 1, next_value(*carry)), None),
            (start, value),
            None,
            _FORI._replace(user=_counted_function(body_fun, value, ()), inner=1),
            max(last - first, 0),
            unroll=1 if unroll is None else unroll,
            progress=progress,
        )
        return out
    if unroll is not None and unroll is not False and unroll != 1:
        raise ArgumentError("fori_loop: unroll needs bounds that are known when the function is traced")
    if progress is not None:
        raise ArgumentError("fori_loop: progress needs bounds that are known when the function is traced")
    _, _, out = _while_loop(
        lambda carry: lt(carry[0], carry[1]),
        lambda carry: (carry[0] + 1, carry[1], next_value(carry[0], carry[2])),
        (start, stop, value),
        _FORI._replace(user=_counted_function(body_fun, value, ("upper",)), inner=2),
    )
    return out


def _counted_function(body_fun: Callable[[Any, Any], Any], value: Any, between: Sequence[str]) -> CalledFunction:
    """The function `(i, val) → val` as errors name it; between: what stands between both in the carry."""
    leaves, tree = tree_flatten(value)
    example = tree_unflatten(tree, range(len(leaves)))  # not the arrays, which would stay alive

    def leaf_name(k: int) -> str:
        i, *own = LeafNames(body_fun, {0: 0, 1: example}).all()
        return [i, *between, *own][k]

    return CalledFunction(function_name(body_fun), leaf_name)


def _python_fori(
    body_fun: Callable[[Any, Any], Any], counters: range, dtype: np.dtype, init_val: Any, progress: str | None
) -> Any:
    """Run a loop as Python: i is a Python integer, unless an Array of 64 bits stands for it in the loop."""
    value = as_arrays(init_val, "init_val", "fori_loop")
    for i in stepped(counters, progress):
        counter = i if dtype == dtypes.default_int_dtype() else ArrayImpl(np.asarray(i, dtype))
        value = as_arrays(body_fun(counter, value), "what body_fun returns", "fori_loop")
    return value


def _whole_numbers(lower: Any, upper: Any) -> tuple[Any, Any]:
    """The bounds, as the next whole numbers where both are floats."""
    avals = [
        as_value(x, partial("fori_loop: {}".format, name)).aval for x, name in ((lower, "lower"), (upper, "upper"))
    ]
    if any(aval.shape or kind_of(aval.dtype) != "f" for aval in avals):
        return lower, upper
    return _whole(lower, "lower"), _whole(upper, "upper")


def _whole(x: Any, name: str) -> Any:
    if isinstance(x, Tracer):
        return convert_element_type(ceil(x), dtypes.default_int_dtype(), True)
    if not np.isfinite(float(x)):
        raise ArgumentError(f"fori_loop: {name} must be finite, but is {float(x)}")
    return math.ceil(float(x))


def _bound(x: Any, name: str) -> Any:
    """A bound as an int where it is known."""
    if isinstance(x, (int, np.integer)) and not isinstance(x, bool):
        return int(x)
    aval = as_value(x, lambda: f"fori_loop: {name}").aval
    if aval.shape != () or kind_of(aval.dtype) not in "iu":
        raise ArgumentError(f"fori_loop: {name} must be an integer scalar, but has type {aval.str_short()}")
    return x if isinstance(x, Tracer) else int(np.asarray(x))


def _counter_dtype(given: Sequence[Any], bounds: Sequence[Any]) -> np.dtype:
    """The dtype that all values of the counter fit in: the default one where it will do, else that of the bounds."""
    default = dtypes.default_int_dtype()
    ranges = [np.iinfo(b.dtype) if isinstance(b, Tracer) else b for b in bounds]
    if all(_holds(default, r) for r in ranges):
        return default
    types = [dtypes.dtype_of(x) for x in given]
    strong = [dtype for dtype, weak in types if not weak] or [default]
    joint = np.promote_types(strong[0], strong[-1])
    for name, bound, r in zip(("lower", "upper"), bounds, ranges):
        if kind_of(joint) not in "iu" or not _holds(joint, r):
            both = " and ".join(d.name for d, _ in types)
            what = f"of type {bound.aval.str_short()}" if isinstance(bound, Tracer) else bound
            raise ArgumentError(
                f"fori_loop: {name} is {what}, the bounds have the dtypes {both}, and no counter "
                "of these takes all values between the bounds; convert both bounds to one dtype that does"
            )
    return joint


def _holds(dtype: np.dtype, values: Any) -> bool:
    """Whether an integer dtype has a value, or all values of an integer dtype."""
    own = np.iinfo(dtype)
    low, high = (values, values) if isinstance(values, int) else (values.min, values.max)
    return bool(own.min <= low and high <= own.max)


# --- map --------------------------------------------------------------------------------------------------


def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """Apply a function to every slice along the leading axis, one after another, and stack the results.

    Args:
        f: a function of one slice.
        xs: a pytree of arrays of equal leading size.
        batch_size: so many slices at a time, by `vmap`: faster, and takes more memory. 0: all at once.

    Returns:
        What f returns, each array with one more axis in front: n results of shape s have the shape (n, *s).

    Raises:
        ShapeError: an array is a scalar, or the leading sizes differ.
        ArgumentError: f is no function, or `batch_size` is negative or no int.

    >>> import functad.numpy as jnp
    >>> map(lambda x: x ** 2, jnp.arange(4))
    Array([0, 1, 4, 9], dtype=int32)
    """
    check_callable(f, "map")
    arrays = flat_operand(xs, "xs", "map")
    total = _length(arrays, None, "map")
    example = tree_unflatten(arrays.tree, range(len(arrays.leaves)))
    said = _MAP._replace(user=CalledFunction(function_name(f), LeafNames(f, {0: example}).__getitem__))

    def step(_: Any, x: Any) -> tuple[Any, Any]:
        with explained_call(f, 1, "map"):
            result = f(x)
        return (), as_arrays(result, "what f returns", "map")

    if batch_size is None:
        return _scan(step, (), arrays.rebuilt(arrays.leaves), said)[1]
    if not isinstance(batch_size, (int, np.integer)) or batch_size < 0:
        raise ArgumentError(f"map: batch_size must be an int that is not negative, but is {batch_size!r}")
    if batch_size == 0:
        return vmap(f)(xs)
    batches, rest = divmod(total, int(batch_size))
    done = batches * int(batch_size)
    parts = []
    if batches:
        heads = [reshape(slice_along(x, 0, 0, done), (batches, int(batch_size), *x.shape[1:])) for x in arrays.leaves]
        _, ys = scan(lambda _, x: ((), vmap(f)(x)), (), arrays.rebuilt(heads))
        parts.append(tree_map(lambda y: reshape(y, (done, *y.shape[2:])), ys))
    if rest or not batches:
        parts.append(vmap(f)(arrays.rebuilt([slice_along(x, 0, done, total) for x in arrays.leaves])))
    return parts[0] if len(parts) == 1 else tree_map(lambda *ys: concatenate(list(ys), 0), *parts)
