"""L-BFGS: steps along a quasi-Newton direction that a few differences of gradients tell, as far as a line search says.

Knows pytrees, gradients, and the line search of `functad.scipy.optimize`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functad import lax
from functad import numpy as jnp
from functad.api import value_and_grad
from functad.errors import ArgumentError, DTypeError, check_int
from functad.numpy.promotion import widened
from functad.optim.gradients import check_state, scale_by_learning_rate
from functad.optim.optimizer import Optimizer, SearchingOptimizer, chain, check_number, map_leaves
from functad.optim.schedules import StepSizes
from functad.records import NamedTuple
from functad.scipy.optimize.line_search import Point, line_search
from functad.tree_util import tree_leaves, tree_map


class ScaleByLBFGSState(NamedTuple):
    """The steps so far, an int32 scalar; params and gradient of the last; and of the last few steps what they changed.

    diff_params_memory, diff_updates_memory: how params and gradients changed, like the params, with an axis in front;
        step i lies at i modulo its size.
    weights_memory: the inverses of the products of both; 0 where there is no step yet, or one to leave out.
    """

    count: Any
    params: Any
    updates: Any
    diff_params_memory: Any
    diff_updates_memory: Any
    weights_memory: Any


class ScaleByZoomLinesearchState(NamedTuple):
    """How far the last step went, and the value and gradient that were found where it ended."""

    learning_rate: Any
    value: Any
    grad: Any


def scale_by_lbfgs(memory_size: int = 10, scale_init_precond: bool = True) -> Optimizer:
    """The gradient times an estimate of the inverse Hessian; see `lbfgs` for the arguments.

    Raises:
        ArgumentError: `memory_size` is no int of at least 1.
        DTypeError: a param is complex, in `init`.

    >>> import functad.numpy as jnp
    >>> link = scale_by_lbfgs()
    >>> state, hessian = link.init(jnp.zeros(2)), jnp.array([1., 4.])
    >>> for x in (jnp.array([1., 1.]), jnp.array([0., 1.]), jnp.array([0., 0.5])):
    ...     direction, state = link.update(hessian * x, state, x)
    >>> direction.round(4)  # that of Newton's method
    Array([0. , 0.5], dtype=float32)
    """
    memory_size = check_int(memory_size, "scale_by_lbfgs: memory_size", low=1)

    def init(params: Any) -> ScaleByLBFGSState:
        if any(jnp.iscomplexobj(leaf) for leaf in tree_leaves(params)):
            raise DTypeError("scale_by_lbfgs takes real params; give real and imaginary parts as arrays of their own")
        zeros = tree_map(jnp.zeros_like, params)
        memory = tree_map(lambda z: jnp.zeros((memory_size, *z.shape), z.dtype), zeros)
        weights = jnp.zeros((memory_size,), _dot(zeros, zeros).dtype)
        return ScaleByLBFGSState(jnp.zeros((), "int32"), zeros, zeros, memory, memory, weights)

    def update(grads: Any, state: ScaleByLBFGSState, params: Any = None) -> tuple[Any, ScaleByLBFGSState]:
        check_state(state, ScaleByLBFGSState, "scale_by_lbfgs")
        if params is None:
            raise ArgumentError("scale_by_lbfgs needs the params: call update(grads, state, params)")
        moved = map_leaves(lambda p, old: p - old, params=params, state=state.params)
        turned = map_leaves(lambda old, g: g - old, state=state.updates, gradients=grads)
        curvature, size = _dot(moved, turned), _dot(turned, turned)
        # Of a step that the function does not curve up along, nothing is to be learned; the first is none.
        usable = (state.count > 0) & (curvature > jnp.finfo(curvature.dtype).tiny)
        weight = jnp.where(usable, 1 / jnp.where(usable, curvature, 1), 0)
        at = (state.count - 1) % memory_size

        def kept(memory: Any, row: Any) -> Any:
            return memory.at[at].set(row)

        memory = _Pairs(
            tree_map(kept, state.diff_params_memory, moved),
            tree_map(kept, state.diff_updates_memory, turned),
            kept(state.weights_memory, weight),
        )
        scale = jnp.ones_like(curvature)
        if scale_init_precond:
            first = 1 / jnp.maximum(jnp.sqrt(_dot(grads, grads)), 1)
            scale = jnp.where(usable, curvature / jnp.where(usable, size, 1), jnp.where(state.count > 0, 1, first))
        newest_first = (at - jnp.arange(memory_size)) % memory_size
        direction = _direction(grads, memory, newest_first, scale)
        return direction, ScaleByLBFGSState(state.count + 1, params, grads, *memory)

    return Optimizer(init, update)


class _Pairs(NamedTuple):
    moved: Any
    turned: Any
    weights: Any


def _direction(grads: Any, memory: _Pairs, newest_first: Any, scale: Any) -> Any:
    """The inverse Hessian times the gradient, by two loops over the memory (Nocedal and Wright 2006, algorithm 7.4)."""

    def pair(i: Any) -> tuple[Any, Any, Any]:
        return tree_map(lambda m: m[i], memory.moved), tree_map(lambda m: m[i], memory.turned), memory.weights[i]

    def back(direction: Any, i: Any) -> tuple[Any, Any]:
        moved, turned, weight = pair(i)
        share = weight * _dot(moved, direction)
        return _plus(direction, -share, turned), share

    def forth(direction: Any, step: Any) -> tuple[Any, None]:
        i, share = step
        moved, turned, weight = pair(i)
        return _plus(direction, share - weight * _dot(turned, direction), moved), None

    direction, shares = lax.scan(back, grads, newest_first)
    direction = tree_map(lambda d: d * scale.astype(d.dtype), direction)
    return lax.scan(forth, direction, (newest_first, shares), reverse=True)[0]


def scale_by_zoom_linesearch(
    max_linesearch_steps: int,
    *,
    slope_rtol: float = 1e-4,
    curv_rtol: float = 0.9,
    initial_guess_strategy: str = "keep",
) -> SearchingOptimizer:
    """Makes updates as long as a line search finds good: the strong Wolfe conditions hold (Nocedal and Wright 2006).

    `update` takes three keywords more, and gives what a loss takes besides the params on to it:

        update(updates, state, params, value=value, grad=gradient, value_fn=loss, **others)

    Where no step makes the loss smaller, the update is zero.

    Args:
        max_linesearch_steps: so many steps are tried at most until one is too long, and so many between.
        slope_rtol: by how much of what the slope promises the loss must fall at least.
        curv_rtol: how much of the slope may be left at the end.
        initial_guess_strategy: what is tried first: "one", the update as it is, or "keep", as far as the last step
            went.

    >>> import functad, functad.numpy as jnp
    >>> from functad import optim
    >>> optimizer = optim.chain(optim.sgd(1.), scale_by_zoom_linesearch(15))
    >>> def loss(x):
    ...     return 50. * jnp.sum(x ** 2)
    >>> x = jnp.array([3., 4.])
    >>> value, gradient = functad.value_and_grad(loss)(x)
    >>> updates, state = optimizer.update(gradient, optimizer.init(x), x, value=value, grad=gradient, value_fn=loss)
    >>> bool(loss(optim.apply_updates(x, updates)) < value)
    True
    """
    check_number(slope_rtol, "scale_by_zoom_linesearch: slope_rtol", low=0.0, high=1.0)
    check_number(curv_rtol, "scale_by_zoom_linesearch: curv_rtol", low=0.0, high=1.0)
    if initial_guess_strategy not in ("one", "keep"):
        raise ArgumentError(
            f'scale_by_zoom_linesearch: initial_guess_strategy={initial_guess_strategy!r} must be "one" or "keep"'
        )

    def init(params: Any) -> ScaleByZoomLinesearchState:
        zeros = tree_map(jnp.zeros_like, params)
        scalar = _dot(zeros, zeros)
        return ScaleByZoomLinesearchState(jnp.ones_like(scalar), jnp.full_like(scalar, jnp.inf), zeros)

    def update(
        grads: Any,
        state: ScaleByZoomLinesearchState,
        params: Any = None,
        *,
        value: Any = None,
        grad: Any = None,
        value_fn: Callable[..., Any] | None = None,
        **others: Any,
    ) -> tuple[Any, ScaleByZoomLinesearchState]:
        check_state(state, ScaleByZoomLinesearchState, "scale_by_zoom_linesearch")
        if params is None or value is None or grad is None or value_fn is None:
            raise ArgumentError(
                "a line search needs the loss: update(grads, state, params, value=value, grad=grads, value_fn=loss)"
            )
        dtype = state.learning_rate.dtype

        def at(length: Any) -> Point:
            there, gradient = value_and_grad(value_fn)(_plus(params, length, grads), **others)
            return Point(length, there.astype(dtype), _dot(gradient, grads).astype(dtype), gradient)

        start = Point(
            jnp.zeros((), dtype),
            jnp.asarray(value, dtype),
            _dot(grad, grads).astype(dtype),
            tree_map(jnp.asarray, grad),
        )
        kept = jnp.where(state.learning_rate > 0, state.learning_rate, 1)
        first = kept if initial_guess_strategy == "keep" else jnp.ones((), dtype)
        found = line_search(
            at, start, first.astype(dtype), max_linesearch_steps,
            decrease=slope_rtol, curvature=curv_rtol, narrowings=max_linesearch_steps,
        ).low  # fmt: skip
        updates = tree_map(lambda u: u * found.step.astype(u.dtype), grads)
        return updates, ScaleByZoomLinesearchState(found.step, found.value, found.gradient)

    return SearchingOptimizer(init, update)


_SEARCH = scale_by_zoom_linesearch(20, initial_guess_strategy="one")


def lbfgs(
    learning_rate: float | StepSizes | None = None,
    memory_size: int = 10,
    scale_init_precond: bool = True,
    linesearch: Optimizer | None = _SEARCH,
) -> Optimizer:
    """L-BFGS (Liu & Nocedal 1989): for losses without noise, whose gradients tell how they curve.

    `update` takes three keywords more, for the line search (see `scale_by_zoom_linesearch`), which ends with the value
    and gradient of the next step: `value_and_grad_from_state` gives them without computing them again.

    Args:
        learning_rate: a number, or a function of the step number; None: 1.
        memory_size: how many steps the direction is made of.
        scale_init_precond: begin with steps of the size that the last one suggests, and at most 1 for the first.
        linesearch: the last link; None leaves it out, and the keywords, too.

    Raises:
        ArgumentError: a number that makes no sense; `update` was called without what the line search needs.

    >>> import functad, functad.numpy as jnp
    >>> from functad import optim
    >>> def rosenbrock(x):
    ...     return jnp.sum(100. * (x[1:] - x[:-1] ** 2) ** 2 + (1. - x[:-1]) ** 2)
    >>> optimizer, value_and_grad = lbfgs(), optim.value_and_grad_from_state(rosenbrock)
    >>> @functad.jit
    ... def step(x, state):
    ...     value, gradient = value_and_grad(x, state=state)
    ...     updates, state = optimizer.update(gradient, state, x, value=value, grad=gradient, value_fn=rosenbrock)
    ...     return optim.apply_updates(x, updates), state
    >>> x = jnp.array([-1.2, 1.])
    >>> state = optimizer.init(x)
    >>> for _ in range(40):
    ...     x, state = step(x, state)
    >>> x.round(2)
    Array([1., 1.], dtype=float32)
    """
    rate = scale_by_learning_rate(1.0 if learning_rate is None else learning_rate)
    links = [scale_by_lbfgs(memory_size, scale_init_precond), rate]
    return chain(*links) if linesearch is None else chain(*links, linesearch)


def value_and_grad_from_state(value_fn: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
    """`value_and_grad` of a loss that takes both from the state of a line search, if that has found them already.

    Only for losses that depend on nothing but the params: of other data there are other values.

    Returns:
        A function `(params, *args, state, **kwargs) -> (value, gradient)`.

    Raises:
        ArgumentError: no line search keeps its state there.

    >>> import functad.numpy as jnp
    >>> from functad import optim
    >>> x, optimizer = jnp.array(3.), optim.lbfgs()
    >>> value_and_grad_from_state(jnp.square)(x, state=optimizer.init(x))
    (Array(9., dtype=float32), Array(6., dtype=float32))
    """

    def from_state(params: Any, *args: Any, state: Any, **kwargs: Any) -> tuple[Any, Any]:
        found = [s for s in tree_leaves(state, is_leaf=_is_search) if _is_search(s)]
        if len(found) != 1:
            raise ArgumentError(
                f"value_and_grad_from_state: the state holds {len(found)} states of a line search, but must hold one; "
                "pass what optim.lbfgs().init(params) or update gave"
            )
        (search,) = found

        def computed() -> tuple[Any, Any]:
            value, gradient = value_and_grad(value_fn)(params, *args, **kwargs)
            return value.astype(search.value.dtype), tree_map(lambda g, s: g.astype(s.dtype), gradient, search.grad)

        return lax.cond(jnp.isfinite(search.value), lambda: (search.value, search.grad), computed)

    return from_state


def _is_search(x: Any) -> bool:
    return isinstance(x, ScaleByZoomLinesearchState)


def _dot(a: Any, b: Any) -> Any:
    """The product of two pytrees as vectors, in float32 at least."""
    products = [jnp.sum(widened(x) * widened(y)) for x, y in zip(tree_leaves(a), tree_leaves(b), strict=True)]
    return sum(products[1:], start=products[0]) if products else jnp.zeros((), "float32")


def _plus(a: Any, factor: Any, b: Any) -> Any:
    """`a + factor * b` in the dtypes of a."""
    return tree_map(lambda x, y: (x + factor.astype(x.dtype) * y).astype(x.dtype), a, b)
