"""Every method of every distribution, with arguments inside and outside of the support."""

from __future__ import annotations

import numpy as np

X = np.array([-2.5, -1.0, -0.3, 0.0, 0.2, 0.7, 1.0, 1.5, 3.0, 8.0])
Q = np.array([0.01, 0.2, 0.5, 0.77, 0.99])
K = np.array([-1, 0, 1, 2, 3, 7])
COV = np.array([[2.0, 0.5], [0.5, 1.0]])

# distribution: its shape arguments, and its methods besides logpdf and pdf
OF_REALS = {
    "norm": ((), "cdf logcdf sf logsf ppf isf"),
    "cauchy": ((), "cdf logcdf sf logsf ppf isf"),
    "expon": ((), "cdf logcdf sf logsf ppf"),
    "laplace": ((), "cdf"),
    "logistic": ((), "cdf sf ppf isf"),
    "gumbel_l": ((), "cdf logcdf sf logsf ppf"),
    "gumbel_r": ((), "cdf logcdf sf logsf ppf"),
    "uniform": ((), "cdf ppf"),
    "pareto": ((2.5,), "cdf logcdf sf logsf ppf"),
    "beta": ((2.5, 1.3), "cdf logcdf sf logsf"),
    "gamma": ((2.2,), "cdf logcdf sf logsf"),
    "chi2": ((3.0,), "cdf logcdf sf logsf"),
    "t": ((3.5,), ""),
    "truncnorm": ((-0.7, 1.6), "cdf logcdf sf logsf"),
}
WITHOUT_SCALE = {"gennorm": ((1.4,), "cdf"), "vonmises": ((1.7,), ""), "wrapcauchy": ((0.3,), "")}
OF_COUNTS = {
    "bernoulli": (0.3,),
    "binom": (5, 0.3),
    "nbinom": (2.5, 0.4),
    "geom": (0.35,),
    "betabinom": (5, 2.5, 0.7),
    "poisson": (2.3,),
}

# name, method, arguments
CASES: list[tuple[str, str, tuple]] = []
for name, (shape, methods) in OF_REALS.items():
    for method in ["logpdf", "pdf", *methods.split()]:
        x = Q if method in ("ppf", "isf") else X
        CASES += [(name, method, (x, *shape)), (name, method, (x, *shape, 0.4, 1.7))]
for name, (shape, methods) in WITHOUT_SCALE.items():
    CASES += [(name, method, (X, *shape)) for method in ["logpdf", "pdf", *methods.split()]]
for name, shape in OF_COUNTS.items():
    for method in ("logpmf", "pmf"):
        CASES += [(name, method, (K, *shape)), (name, method, (K, *shape, 1))]
CASES += [
    ("bernoulli", "cdf", (np.array([-1.0, 0.0, 0.5, 1.0, 2.0, np.nan]), 0.3)),
    ("bernoulli", "ppf", (np.array([0.0, 0.2, 0.7, 0.8, 1.0, 1.1]), 0.3)),
    ("poisson", "cdf", (K, 2.3)),
    ("poisson", "entropy", (np.array([0.0, 0.1, 2.3, 50.0, 99.0, 101.0, 5000.0]),)),
    ("dirichlet", "logpdf", (np.array([[0.2, 0.5], [0.3, 0.25], [0.5, 0.25]]), np.array([1.2, 0.7, 3.0]))),
    ("dirichlet", "pdf", (np.array([0.2, 0.3]), np.array([1.2, 0.7, 3.0]))),
    ("dirichlet", "logpdf", (np.array([0.2, 0.3, 0.9]), np.array([1.2, 0.7, 3.0]))),
    ("multinomial", "logpmf", (np.array([1, 2, 0]), 3, np.array([0.2, 0.5, 0.3]))),
    ("multinomial", "pmf", (np.array([1, 2, 1]), 3, np.array([0.2, 0.5, 0.3]))),
    (
        "multivariate_normal",
        "logpdf",
        (np.array([0.2, -1.0]), np.array([0.1, 0.3]), COV),
    ),
    ("multivariate_normal", "pdf", (np.ones((4, 2)), np.array([0.1, 0.3]), COV)),
    ("multivariate_normal", "logpdf", (np.array([0.2, -1.0]), np.array([0.1, 0.3]), 1.7)),
    ("multivariate_normal", "logpdf", (X, 0.5, 1.7)),
]
IDS = [f"{name}.{method}-{number}" for number, (name, method, _) in enumerate(CASES)]

# What makes no distribution.
INVALID = [
    ("gumbel_l", "logpdf", (0.5, 0.0, -1.0)),
    ("gumbel_r", "cdf", (0.5, 0.0, 0.0)),
    ("beta", "logpdf", (0.5, -1.0, 2.0)),
    ("betabinom", "logpmf", (1, -1, 1.0, 1.0)),
    ("vonmises", "logpdf", (0.5, -1.0)),
    ("wrapcauchy", "logpdf", (0.5, 1.5)),
    ("truncnorm", "logpdf", (0.5, 1.0, 0.0)),
    ("norm", "ppf", (1.5,)),
    ("uniform", "ppf", (-0.5,)),
    ("expon", "ppf", (np.nan,)),
]
