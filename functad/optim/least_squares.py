"""Nonlinear least squares: the method of Levenberg and Marquardt, as one compiled loop.

Knows pytrees, Jacobians and QR; nothing of other optimizers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functad import lax
from functad import numpy as jnp
from functad.api import eval_shape
from functad.api.jacobians import jacfwd, jacrev
from functad.dtypes import kind_of
from functad.errors import ArgumentError, DTypeError, check_int
from functad.flatten_util import ravel_pytree
from functad.optim.optimizer import check_number
from functad.records import NamedTuple
from functad.scipy.linalg import solve_triangular

_FIRST_DAMPING = 1e-3  # Madsen, Nielsen and Tingleff 2004, section 3.2: for a start that is not far off
_LEAST_GAIN = 1e-4  # a step is taken if the sum falls by this part of what the linear model says


class LeastSquaresResults(NamedTuple):
    """What a least-squares fit gives.

    params: where the sum of squares is least, like the first params.
    residuals: the residuals there, as the function gives them.
    value: half the sum of their squares.
    optimality: the largest cosine of the residuals and a column of the Jacobian, 0 at a minimum.
    success: whether the params are such a minimum, within `tol`.
    status: 0 with success; 1 after `maxiter` steps; 2 where values or derivatives are not finite.
    nit: how many steps were tried.

    >>> import functad.numpy as jnp
    >>> found = levenberg_marquardt(lambda x: x - 3., jnp.zeros(2))
    >>> bool(found.success), int(found.status)
    (True, 0)
    """

    params: Any
    residuals: Any
    value: Any
    optimality: Any
    success: Any
    status: Any
    nit: Any


class _Model(NamedTuple):
    """The residuals near x, r + J d: of the factors of J = Q R, R and the part Qᵀ r of r that steps can reach."""

    triangle: Any
    reached: Any
    gradient: Any  # Jᵀ r
    norms: Any  # of the columns of J


class _Fit(NamedTuple):
    x: Any
    residuals: Any
    value: Any
    model: _Model
    scales: Any  # of the params: the largest norms so far of the columns of J
    damping: Any
    growth: Any  # by what the damping is multiplied if the next step is not taken
    optimality: Any
    done: Any
    steps: Any


def levenberg_marquardt(
    residuals: Callable[..., Any],
    params: Any,
    args: tuple[Any, ...] = (),
    *,
    maxiter: int = 200,
    tol: float | None = None,
    damping: float = _FIRST_DAMPING,
) -> LeastSquaresResults:
    """Params whose residuals have the least sum of squares, near the first ones.

    Steps are those of Gauss and Newton, damped: they solve the least-squares problem of the residuals' linear model and
    of the step's length, in units of the params that the Jacobian's columns tell (Moré 1978), by a QR decomposition, so
    that columns that depend on each other do no harm; the damping follows how well the model predicts (Nielsen 1999).

    Args:
        residuals: takes params and `args`; gives a pytree of float arrays, of any number of elements in all.
        params: where to start, a pytree of float arrays. The Jacobian is kept as a matrix, by columns where there are
            no more params than residuals, else by rows: this is for hundreds of params, not millions.
        args: what `residuals` takes besides.
        maxiter: the most steps.
        tol: how small a step must be beside the params, or the cosine of residuals and Jacobian, or the square root of
            what a step gains beside the sum. None: ε^(2/3) of the dtype, 2e-5 for float32 and 4e-11 for float64.
        damping: of the first step; small for a good start.

    Returns:
        `LeastSquaresResults`; `success` says whether there is a result. Nothing is raised for values, as within `jit`
        nothing can be.

    Raises:
        ArgumentError: a number that makes no sense, or params or residuals are empty. DTypeError: params or residuals
            are not float32 or float64.

    >>> import functad.numpy as jnp
    >>> def residuals(params, t, y):
    ...     return params["a"] * jnp.exp(-params["rate"] * t) - y
    >>> t = jnp.linspace(0., 4., 20)
    >>> first = {"a": jnp.array(1.), "rate": jnp.array(1.)}
    >>> found = levenberg_marquardt(residuals, first, (t, 3. * jnp.exp(-0.5 * t)))
    >>> {name: float(value.round(3)) for name, value in found.params.items()}
    {'a': 3.0, 'rate': 0.5}
    """
    maxiter = check_int(maxiter, "levenberg_marquardt: maxiter", low=0)
    check_number(damping, "levenberg_marquardt: damping", low=0.0)
    x, unravel = ravel_pytree(params)
    _check(x, "params")

    def flat(x: Any) -> Any:
        r = ravel_pytree(residuals(unravel(x), *args))[0]
        _check(r, "residuals")
        return r

    dtypes = x.dtype, eval_shape(flat, x).dtype
    if tol is None:
        tol = max(float(jnp.finfo(dtype).eps) for dtype in dtypes) ** (2 / 3)
    check_number(tol, "levenberg_marquardt: tol", low=0.0)
    end = _minimised(flat, jnp.asarray(x, jnp.promote_types(*dtypes)), maxiter, tol, damping)
    found = unravel(end.x)
    finite = jnp.isfinite(end.value) & jnp.isfinite(end.optimality)
    status = jnp.where(finite, jnp.where(end.done, 0, 1), 2).astype("int32")
    return LeastSquaresResults(
        found, residuals(found, *args), end.value, end.optimality, status == 0, status, end.steps
    )


def _minimised(flat: Callable[[Any], Any], x: Any, maxiter: int, tol: float, damping: float) -> _Fit:
    def unfinished(fit: _Fit) -> Any:
        return ~fit.done & (fit.steps < maxiter) & jnp.isfinite(fit.optimality)

    def step(fit: _Fit) -> _Fit:
        moved = _damped_step(fit.model, fit.damping, fit.scales)
        x = fit.x + moved
        residuals = flat(x)
        value = _half_square(residuals)
        weighted = fit.scales * moved
        # What the linear model says that half the sum falls by (Nielsen 1999, equation 2.14).
        predicted = (fit.damping * jnp.vdot(weighted, weighted) - jnp.vdot(moved, fit.model.gradient)) / 2
        gain = (fit.value - value) / predicted
        taken = (gain > _LEAST_GAIN) & jnp.isfinite(value)
        model = lax.cond(taken, lambda: _model(flat, x, residuals), lambda: fit.model)
        scales = jnp.maximum(fit.scales, model.norms)
        optimality = jnp.where(taken, _optimality(model, value), fit.optimality)
        small = jnp.linalg.norm(weighted) <= tol * jnp.linalg.norm(fit.scales * fit.x)
        eps = jnp.finfo(value.dtype).eps
        settled = jnp.maximum(predicted, fit.value - value) <= jnp.maximum(tol * tol, eps) * fit.value
        easier = jnp.maximum(1 / 3, 1 - (2 * jnp.clip(gain, 0, 1) - 1) ** 3)
        return _Fit(
            x=jnp.where(taken, x, fit.x),
            residuals=jnp.where(taken, residuals, fit.residuals),
            value=jnp.where(taken, value, fit.value),
            model=model,
            scales=scales,
            damping=fit.damping * jnp.where(taken, easier, fit.growth),
            growth=jnp.where(taken, 2, 2 * fit.growth).astype(fit.growth.dtype),
            optimality=optimality,
            done=small | (settled & (predicted >= 0)) | (optimality <= tol),
            steps=fit.steps + 1,
        )

    residuals = flat(x)
    model, value = _model(flat, x, residuals), _half_square(residuals)
    scales = jnp.where(model.norms > 0, model.norms, 1)
    optimality = _optimality(model, value)
    number = jnp.asarray(damping, x.dtype)
    start = _Fit(
        x, residuals, value, model, scales, number, jnp.full_like(number, 2), optimality, optimality <= tol,
        jnp.zeros((), "int32"),
    )  # fmt: skip
    return lax.while_loop(unfinished, step, start)


def _model(flat: Callable[[Any], Any], x: Any, residuals: Any) -> _Model:
    jacobian = (jacfwd if x.size <= residuals.size else jacrev)(flat)(x)
    q, triangle = jnp.linalg.qr(jacobian)
    return _Model(triangle, q.T @ residuals, jacobian.T @ residuals, jnp.sqrt(jnp.sum(jacobian * jacobian, 0)))


def _damped_step(model: _Model, damping: Any, scales: Any) -> Any:
    """The d of least |r + J d|² + damping |scales d|²; the second term makes it one, whatever the rank of J."""
    rows, n = model.triangle.shape
    q, r = jnp.linalg.qr(jnp.concatenate([model.triangle, jnp.diag(jnp.sqrt(damping) * scales)]))
    return -solve_triangular(r, q[:rows].T @ model.reached)


def _optimality(model: _Model, value: Any) -> Any:
    """The largest cosine of the residuals and a column of the Jacobian; 0 where there are no residuals."""
    lengths = model.norms * jnp.sqrt(2 * value)
    return jnp.max(jnp.where(lengths == 0, 0, jnp.abs(model.gradient) / jnp.where(lengths == 0, 1, lengths)))


def _half_square(residuals: Any) -> Any:
    return jnp.vdot(residuals, residuals) / 2


def _check(vector: Any, what: str) -> None:
    if vector.size == 0:
        raise ArgumentError(f"levenberg_marquardt: the {what} have no elements")
    if kind_of(vector.dtype) != "f" or vector.dtype.itemsize < 4:
        raise DTypeError(
            f"levenberg_marquardt: the {what} have dtype {vector.dtype.name}, but must be float32 or float64; convert "
            "them with x.astype('float32'), and complex numbers to their real and imaginary parts"
        )
