"""`minimize`: the method of Broyden, Fletcher, Goldfarb and Shanno, as one compiled loop.

Knows `line_search` and the gradient. Nocedal and Wright 2006, algorithm 6.1.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from functad import lax
from functad import numpy as jnp
from functad.api import value_and_grad
from functad.array import Array
from functad.dtypes import kind_of
from functad.errors import ArgumentError, DTypeError, ShapeError
from functad.numpy.promotion import promote_dtypes_inexact
from functad.records import NamedTuple
from functad.scipy.optimize.line_search import Point, line_search


class OptimizeResults(NamedTuple):
    """What a minimisation gives.

    x: the place, of shape (n,).
    success: whether the gradient there is small enough.
    status: 0 with success; 1 after `maxiter` steps; 3 where no step makes the function smaller within rounding; 5
        where it falls on and on along a direction.
    fun, jac: the value and the gradient at x.
    hess_inv: the estimate of the inverse of the matrix of second derivatives.
    nfev, njev: how often value and gradient were computed; nit: how many steps were made.

    >>> import functad.numpy as jnp
    >>> found = minimize(lambda x: jnp.sum((x - 3.) ** 2), jnp.zeros(2), method="BFGS")
    >>> bool(found.success), int(found.status)
    (True, 0)
    """

    x: Array
    success: Any
    status: Any
    fun: Array
    jac: Array
    hess_inv: Array | None
    nfev: Any
    njev: Any
    nit: Any


class _BfgsState(NamedTuple):
    x: Any
    value: Any
    gradient: Any
    inverse: Any
    value_before: Any
    failure: Any  # 0, or the status
    steps: Any
    evaluations: Any


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: tuple[Any, ...] = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """A local minimum of a scalar function of a vector.

    Args:
        fun: takes a vector of shape (n,), and `args`; gives a scalar. It has a gradient.
        x0: where to start, of shape (n,).
        args: what `fun` takes besides.
        method: "BFGS".
        tol: as the option `gtol`, unless that is given.
        options: `gtol`: how small the gradient must be, 1e-5 by default; `norm`: in which norm, infinity by default;
            `maxiter`: the most steps, 200 n by default; `line_search_maxiter`: how often one step is doubled, 10.

    Returns:
        `OptimizeResults`; `success` says whether there is a result. Nothing is raised, as within `jit` nothing can be.

    >>> import functad.numpy as jnp
    >>> minimize(lambda x: jnp.sum((x - 3.) ** 2), jnp.zeros(2), method="BFGS").x.round(3)
    Array([3., 3.], dtype=float32)
    """
    if not isinstance(args, tuple):
        raise ArgumentError(f"minimize: args must be a tuple, got {args!r}; one argument is (argument,)")
    if method.lower() != "bfgs":
        raise ArgumentError(f'minimize: method must be "BFGS", got {method!r}')
    (x,) = promote_dtypes_inexact(jnp.asarray(x0))
    if x.ndim != 1:
        raise ShapeError(f"minimize takes x0 of shape (n,), got {x.shape}; functad.flatten_util.ravel_pytree makes one")
    if kind_of(x.dtype) == "c":
        raise DTypeError("minimize takes a real x0; give real and imaginary parts as one vector")
    given = {"gtol": 1e-5 if tol is None else tol} | dict(options or {})
    if unknown := set(given) - set(_OPTIONS):
        raise ArgumentError(f"minimize: options are {', '.join(_OPTIONS)}; got {', '.join(map(repr, unknown))}")
    return _bfgs(lambda x: fun(x, *args), jnp.asarray(x, x.dtype), **given)


_OPTIONS = ("gtol", "norm", "maxiter", "line_search_maxiter")


def _bfgs(
    fun: Callable[[Any], Any],
    x: Any,
    maxiter: int | None = None,
    norm: Any = jnp.inf,
    gtol: float = 1e-5,
    line_search_maxiter: int = 10,
) -> OptimizeResults:
    most = 200 * x.size if maxiter is None else operator.index(maxiter)

    def evaluate(x: Any) -> tuple[Any, Any]:
        value, gradient = value_and_grad(fun)(x)
        return jnp.asarray(value, value.dtype), gradient

    def is_small(gradient: Any) -> Any:
        return jnp.linalg.norm(gradient, ord=norm) < gtol

    def unfinished(state: _BfgsState) -> Any:
        return ~is_small(state.gradient) & (state.failure == 0) & (state.steps < most)

    def step(state: _BfgsState) -> _BfgsState:
        along = -jnp.dot(state.inverse, state.gradient)

        def at(length: Any) -> Point:
            value, gradient = evaluate(state.x + length * along)
            return Point(length, value, jnp.dot(gradient, along), gradient)

        slope = jnp.dot(state.gradient, along)
        start = Point(jnp.zeros((), x.dtype), state.value, slope, state.gradient)
        found = line_search(at, start, _first_step(state, slope).astype(x.dtype), line_search_maxiter)
        best = found.low
        moved = best.step * along
        failure = jnp.where(found.done, 0, jnp.where(found.bracketed, 3, 5))
        return _BfgsState(
            x=state.x + moved,
            value=best.value,
            gradient=best.gradient,
            inverse=_updated(state.inverse, moved, best.gradient - state.gradient),
            value_before=state.value,
            failure=failure.astype("int32"),
            steps=state.steps + 1,
            evaluations=state.evaluations + found.doublings + found.narrowings,
        )

    value, gradient = evaluate(x)
    before = (value + jnp.linalg.norm(gradient) / 2).astype(value.dtype)
    none, one = jnp.asarray(0, "int32"), jnp.asarray(1, "int32")
    inverse = jnp.eye(x.size, dtype=x.dtype)
    end = lax.while_loop(unfinished, step, _BfgsState(x, value, gradient, inverse, before, none, none, one))
    success = is_small(end.gradient)
    status = jnp.where(success, 0, jnp.where(end.failure == 0, 1, end.failure))
    return OptimizeResults(
        end.x, success, status, end.value, end.gradient, end.inverse, end.evaluations, end.evaluations, end.steps
    )


def _first_step(state: _BfgsState, slope: Any) -> Any:
    """The whole step, or less: as if the function fell as much as before, along a parabola (equation 3.60)."""
    expected = 2.02 * (state.value - state.value_before) / slope
    return jnp.where((expected > 0) & (expected < 1), expected, 1.0)


def _updated(inverse: Any, moved: Any, turned: Any) -> Any:
    """The inverse after a step by `moved` that turned the gradient by `turned` (equation 6.17); positive definite."""
    curvature = jnp.dot(moved, turned)
    usable = curvature > jnp.finfo(curvature.dtype).tiny
    rho = 1 / jnp.where(usable, curvature, 1.0).astype(curvature.dtype)
    image = jnp.dot(inverse, turned)
    mixed = jnp.outer(image, moved)
    change = rho * ((1 + rho * jnp.dot(turned, image)) * jnp.outer(moved, moved) - mixed - mixed.T)
    return jnp.where(usable, inverse + change, inverse)
