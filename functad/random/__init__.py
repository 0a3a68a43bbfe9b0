"""Random numbers from explicit keys, by JAX's names and with JAX's numbers.

A key is a uint32 array of shape (2,). The same key gives the same numbers for ever; `split` makes new ones.
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
from functad.random.discrete import bernoulli, categorical, choice, permutation, rademacher, randint
from functad.random.keys import PRNGKey, bits, clone, fold_in, key, key_data, split, wrap_key_data

__all__ = [
    "PRNGKey",
    "bernoulli",
    "bits",
    "categorical",
    "cauchy",
    "choice",
    "clone",
    "exponential",
    "fold_in",
    "gumbel",
    "key",
    "key_data",
    "laplace",
    "logistic",
    "normal",
    "permutation",
    "rademacher",
    "randint",
    "split",
    "truncated_normal",
    "uniform",
    "wrap_key_data",
]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)
