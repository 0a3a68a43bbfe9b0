"""`functad.scipy.stats`: SciPy's distributions, as far as JAX has them, and statistics of samples.

Knows the names of its parts: each distribution is a module, `functad.scipy.stats.norm.logpdf`, loaded at first use.
Between integers distributions of counts are what JAX's are: `poisson` and `bernoulli` have probability 0 there,
`betabinom` takes the integer below, and `binom`, `nbinom` and `geom` go on by their formula.

Args:
    x: where the distribution is asked, an array or a number.
    loc: by how much the distribution is moved.
    scale: by what it is stretched, positive.
    df: its degrees of freedom, positive.
    a, b, c, p, n, mu, beta, kappa, alpha: its parameters, arrays or numbers.

Shapes:
    Arguments are arrays or numbers that broadcast, and the result has their common shape.

Raises:
    ShapeError: arguments do not broadcast.
    DTypeError: an argument is no array of real numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from functad.absent import absent
from functad.scipy.stats.kde import gaussian_kde
from functad.scipy.stats.ranks import mode, rankdata, sem

if TYPE_CHECKING:
    from functad.scipy.stats import bernoulli as bernoulli
    from functad.scipy.stats import beta as beta
    from functad.scipy.stats import betabinom as betabinom
    from functad.scipy.stats import binom as binom
    from functad.scipy.stats import cauchy as cauchy
    from functad.scipy.stats import chi2 as chi2
    from functad.scipy.stats import dirichlet as dirichlet
    from functad.scipy.stats import expon as expon
    from functad.scipy.stats import gamma as gamma
    from functad.scipy.stats import gennorm as gennorm
    from functad.scipy.stats import geom as geom
    from functad.scipy.stats import gumbel_l as gumbel_l
    from functad.scipy.stats import gumbel_r as gumbel_r
    from functad.scipy.stats import laplace as laplace
    from functad.scipy.stats import logistic as logistic
    from functad.scipy.stats import multinomial as multinomial
    from functad.scipy.stats import multivariate_normal as multivariate_normal
    from functad.scipy.stats import nbinom as nbinom
    from functad.scipy.stats import norm as norm
    from functad.scipy.stats import pareto as pareto
    from functad.scipy.stats import poisson as poisson
    from functad.scipy.stats import t as t
    from functad.scipy.stats import truncnorm as truncnorm
    from functad.scipy.stats import uniform as uniform
    from functad.scipy.stats import vonmises as vonmises
    from functad.scipy.stats import wrapcauchy as wrapcauchy

_DISTRIBUTIONS = (
    "bernoulli",
    "beta",
    "betabinom",
    "binom",
    "cauchy",
    "chi2",
    "dirichlet",
    "expon",
    "gamma",
    "gennorm",
    "geom",
    "gumbel_l",
    "gumbel_r",
    "laplace",
    "logistic",
    "multinomial",
    "multivariate_normal",
    "nbinom",
    "norm",
    "pareto",
    "poisson",
    "t",
    "truncnorm",
    "uniform",
    "vonmises",
    "wrapcauchy",
)

__all__ = [*_DISTRIBUTIONS, "gaussian_kde", "mode", "rankdata", "sem"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__, _DISTRIBUTIONS)


def __dir__() -> list[str]:
    return __all__
