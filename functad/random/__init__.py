"""Random numbers from explicit keys, by JAX's names and with JAX's numbers.

A key is typed, of dtype `key<fry>`, or raw, its two words in a uint32 array. The same key gives the same numbers for
ever; `split` makes new ones.

Args:
    key: a key, typed or raw.
    shape: the shape of the result.
    dtype: the dtype of the result.

Shapes:
    A key has shape (), a raw one (2,); parameters broadcast to the shape of the result.

Raises:
    ShapeError: parameters do not broadcast to the shape, or there are several keys.
    DTypeError: the dtype is not of the kind that is drawn, or the key is none.
    ArgumentError: a shape or an option that there is not.
    TooLargeError: there would be more elements than an array can have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from functad.absent import absent
from functad.random.continuous import (
    cauchy,
    exponential,
    gumbel,
    laplace,
    logistic,
    normal,
    truncated_normal,
    uniform,
)
from functad.random.counts import (
    binomial,
    multinomial,
    poisson,
)
from functad.random.discrete import bernoulli, categorical, choice, permutation, rademacher, randint
from functad.random.gammas import (
    ball,
    beta,
    chisquare,
    dirichlet,
    f,
    gamma,
    generalized_normal,
    loggamma,
    t,
)
from functad.random.keys import PRNGKey, bits, clone, fold_in, key, key_data, key_dtype, key_impl, split, wrap_key_data
from functad.random.transformed import (
    double_sided_maxwell,
    geometric,
    lognormal,
    maxwell,
    pareto,
    rayleigh,
    triangular,
    wald,
    weibull_min,
)
from functad.random.vectors import (
    multivariate_normal,
    orthogonal,
)
from functad.system.once import imported

__all__ = [
    "PRNGKey",
    "ball",
    "bernoulli",
    "beta",
    "binomial",
    "bits",
    "categorical",
    "cauchy",
    "chisquare",
    "choice",
    "clone",
    "dirichlet",
    "double_sided_maxwell",
    "exponential",
    "f",
    "fold_in",
    "gamma",
    "generalized_normal",
    "geometric",
    "gumbel",
    "key",
    "key_data",
    "key_dtype",
    "key_impl",
    "laplace",
    "loggamma",
    "logistic",
    "lognormal",
    "maxwell",
    "multinomial",
    "multivariate_normal",
    "normal",
    "orthogonal",
    "pareto",
    "permutation",
    "poisson",
    "rademacher",
    "randint",
    "rayleigh",
    "split",
    "t",
    "triangular",
    "truncated_normal",
    "uniform",
    "wald",
    "weibull_min",
    "wrap_key_data",
]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__, found=lambda name: imported("functad.lax.composed").random_primitive(name))


def __dir__() -> list[str]:
    return __all__
