"""The log posterior of a Gaussian mixture with a Wishart prior on its precisions, and its gradient."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

import functad
import functad.numpy as jnp
from benchmarks.gradbench.task import Function


def log_posterior(parameters: dict[str, Any], points: Any, gamma: float, m: int) -> Any:
    """Of `alpha` (k,), `mu` (k, d), `q` (k, d), `l` (k, d (d − 1) / 2) given points (n, d)."""
    alpha, mu, q, below = (parameters[name] for name in ("alpha", "mu", "q", "l"))
    (n, d), k = points.shape, alpha.shape[0]
    columns, rows = np.triu_indices(d, 1)  # the columns below the diagonal, one after another
    diagonal = np.arange(d)
    factors = jnp.zeros((k, d, d), q.dtype).at[:, rows, columns].set(below).at[:, diagonal, diagonal].set(jnp.exp(q))
    # Q (x − μ) of all components as one product.
    spread = jnp.einsum("kij,nj->nki", factors, points) - jnp.einsum("kij,kj->ki", factors, mu)
    beta = alpha + jnp.sum(q, axis=1) - 0.5 * jnp.sum(spread**2, axis=2)
    likelihood = jnp.sum(_logsumexp(beta)) - n * (d / 2 * math.log(2 * math.pi) + _logsumexp(alpha))
    prior = m * jnp.sum(q) - gamma**2 / 2 * jnp.sum(factors**2)
    return likelihood + prior + k * _log_wishart_constant(d, gamma, d + m + 1)


def _logsumexp(v: Any) -> Any:
    largest = jnp.max(v, axis=-1, keepdims=True)
    return largest[..., 0] + jnp.log(jnp.sum(jnp.exp(v - largest), axis=-1))


def _log_wishart_constant(d: int, gamma: float, n: int) -> float:
    """The part of the log density, with `n` degrees of freedom, that does not depend on the precision."""
    log_multigamma = d * (d - 1) / 4 * math.log(math.pi) + sum(math.lgamma((n - j) / 2) for j in range(d))
    return n * d * math.log(gamma / math.sqrt(2)) - log_multigamma


def _prepare(given: dict[str, Any]) -> tuple[Any, ...]:
    d, k = given["d"], given["k"]
    shapes = {"alpha": (k,), "mu": (k, d), "q": (k, d), "l": (k, d * (d - 1) // 2)}
    parameters = {name: np.array(given[name], np.float64).reshape(shape) for name, shape in shapes.items()}
    return parameters, np.array(given["x"]), given["gamma"], given["m"]


_jit = partial(functad.jit, static_argnums=(2, 3))
FUNCTIONS = {
    "objective": Function(_prepare, _jit(log_posterior)),
    "jacobian": Function(_prepare, _jit(functad.grad(log_posterior))),
}
