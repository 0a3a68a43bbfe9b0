"""Densities estimated from samples: a normal distribution around each.

Knows Cholesky factors and the normal distribution.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functad import numpy as jnp
from functad import random
from functad.array import Array
from functad.dtypes import kind_of
from functad.errors import ArgumentError, ShapeError
from functad.lax import linalg
from functad.scipy.special import logsumexp, ndtr
from functad.scipy.stats.shared import PI_TWICE_LOG
from functad.tree_util import register_pytree_node_class


@register_pytree_node_class
class gaussian_kde:  # noqa: N801
    """The density that samples suggest: the mean of normal densities around them.

    Args:
        dataset: real array of shape (d, n): n samples of d numbers; or (n,).
        bw_method: the width of each in units of the samples' own: "scott" (n^(−1/(d + 4)), the default),
            "silverman", a number, or a function of this object.
        weights: how much each sample counts, of shape (n,).

    >>> import functad.numpy as jnp
    >>> gaussian_kde(jnp.array([-1., 0., 1.])).pdf(jnp.array([0.]))
    Array([0.31815627], dtype=float32)
    """

    dataset: Array
    weights: Array
    covariance: Array
    inv_cov: Array
    neff: Array

    def __init__(
        self, dataset: Any, bw_method: str | float | Callable[[Any], Any] | None = None, weights: Any = None
    ) -> None:
        samples = jnp.atleast_2d(dataset)
        if kind_of(samples.dtype) == "c":
            raise ArgumentError("gaussian_kde: dataset must be real")
        samples = samples if kind_of(samples.dtype) == "f" else samples.astype(jnp.result_type(float))
        if samples.size < 2:
            raise ArgumentError("gaussian_kde: dataset must have at least two numbers")
        n = samples.shape[1]
        shares = jnp.full(n, 1 / n, samples.dtype) if weights is None else jnp.asarray(weights, samples.dtype)
        if shares.shape != (n,):
            raise ShapeError(f"gaussian_kde: weights have shape {shares.shape}, but there are {n} samples")
        self.dataset, self.weights = samples, shares / shares.sum()
        self.neff = 1 / jnp.sum(self.weights**2)
        own = jnp.atleast_2d(jnp.cov(samples, rowvar=True, bias=False, aweights=self.weights))
        factor = self._width(bw_method) ** 2
        self.covariance, self.inv_cov = own * factor, jnp.linalg.inv(own) / factor

    @property
    def d(self) -> int:
        """The numbers of a sample."""
        return self.dataset.shape[0]

    @property
    def n(self) -> int:
        """The number of samples."""
        return self.dataset.shape[1]

    def _width(self, bw_method: Any) -> Any:
        if bw_method is None or bw_method == "scott":
            return self.neff ** (-1.0 / (self.d + 4))
        if bw_method == "silverman":
            return (self.neff * (self.d + 2) / 4.0) ** (-1.0 / (self.d + 4))
        if isinstance(bw_method, str):
            raise ArgumentError(f"gaussian_kde: bw_method={bw_method!r} must be 'scott', 'silverman' or a number")
        return bw_method(self) if callable(bw_method) else bw_method

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        """The arrays, so that an estimate is a pytree."""
        return (self.neff, self.dataset, self.weights, self.covariance, self.inv_cov), None

    @classmethod
    def tree_unflatten(cls, aux_data: None, children: tuple[Any, ...]) -> gaussian_kde:
        """The estimate again."""
        made = cls.__new__(cls)
        made.neff, made.dataset, made.weights, made.covariance, made.inv_cov = children
        return made

    def evaluate(self, points: Any) -> Array:
        """The density at points of shape (d, m), or (m,): an array of shape (m,)."""
        return jnp.exp(self.logpdf(points))

    pdf = __call__ = evaluate

    def logpdf(self, x: Any) -> Array:
        """The logarithm of the density at points."""
        return _log_mixture(self.dataset, self.weights, self._points(x), self.covariance)

    def integrate_gaussian(self, mean: Any, cov: Any) -> Array:
        """The integral of the density times that of a normal distribution."""
        centre = jnp.atleast_1d(jnp.squeeze(mean))
        spread = jnp.atleast_2d(cov)
        if centre.shape != (self.d,) or spread.shape != (self.d, self.d):
            raise ShapeError(f"gaussian_kde: mean and cov must be of {self.d} numbers: {centre.shape}, {spread.shape}")
        found = _log_mixture(self.dataset, self.weights, centre[:, None], self.covariance + spread)
        return jnp.exp(found[0])

    def integrate_box_1d(self, low: Any, high: Any) -> Array:
        """The probability of a number between two bounds; for samples of one number."""
        if self.d != 1:
            raise ArgumentError(f"gaussian_kde: integrate_box_1d is for samples of one number, not of {self.d}")
        deviation = jnp.sqrt(self.covariance[0, 0])
        below, above = ((bound - self.dataset[0]) / deviation for bound in (low, high))
        return jnp.sum(self.weights * (ndtr(above) - ndtr(below)))

    def integrate_kde(self, other: gaussian_kde) -> Array:
        """The integral of the product of two such densities."""
        if self.d != other.d:
            raise ArgumentError(f"gaussian_kde: the samples have {self.d} and {other.d} numbers")
        covariance = self.covariance + other.covariance
        logs = _log_mixture(self.dataset, self.weights, other.dataset, covariance)
        return jnp.sum(jnp.exp(logs) * other.weights)

    def resample(self, key: Any, shape: tuple[int, ...] = ()) -> Array:
        """Random points of this density, of shape (d, *shape)."""
        which, around = random.split(key)
        chosen = random.choice(which, self.n, shape=shape, p=self.weights)
        noise = random.multivariate_normal(
            around, jnp.zeros(self.d, self.covariance.dtype), self.covariance, shape=shape, dtype=self.dataset.dtype
        )
        return self.dataset[:, chosen] + jnp.moveaxis(noise, -1, 0)

    def integrate_box(self, low_bounds: Any, high_bounds: Any, maxpts: Any = None) -> Array:
        """Not there: needs the normal distribution function of several numbers."""
        raise NotImplementedError("gaussian_kde.integrate_box: only integrate_box_1d is there; draw with resample")

    def set_bandwidth(self, bw_method: Any = None) -> None:
        """Not there: estimates are immutable."""
        raise NotImplementedError("gaussian_kde is immutable: make another with gaussian_kde(dataset, bw_method)")

    def _points(self, x: Any) -> Any:
        points = jnp.atleast_2d(x)
        if points.shape[0] != self.d:
            if points.shape[0] == 1 and points.shape[1] == self.d:
                return points.reshape(self.d, 1)
            raise ShapeError(f"gaussian_kde: points of shape {points.shape}, but the samples have {self.d} numbers")
        return points


def _log_mixture(centres: Any, weights: Any, points: Any, covariance: Any) -> Any:
    """The logarithm at points (d, m) of the weighted sum of normal densities around centres (d, n)."""
    factor = linalg.cholesky(covariance)

    def whitened(x: Any) -> Any:
        return linalg.triangular_solve(factor, jnp.asarray(x, factor.dtype), left_side=True, lower=True)

    distances = jnp.sum((whitened(points)[:, :, None] - whitened(centres)[:, None, :]) ** 2, 0)
    constant = 0.5 * centres.shape[0] * PI_TWICE_LOG + jnp.sum(jnp.log(jnp.diagonal(factor)))
    return logsumexp(-0.5 * distances - constant, axis=1, b=weights)
