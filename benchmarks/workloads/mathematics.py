"""Single operations of the table: sorting, search, linear algebra, Fourier transforms, random numbers.

Knows each in functad's and JAX's words, which are the same, in NumPy's and in PyTorch's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.workloads.operation import (
    Family,
    Maker,
    all_of,
    distribution,
    fixed,
    integers,
    key,
    normal,
    of_samples,
    rows,
    sorted_values,
    square,
    stacked,
    together,
)

_PRIMES = {1_000: 1_009, 10_000: 10_007, 100_000: 100_003, 1_000_000: 1_000_003, 10_000_000: 10_000_019}


def positive_definite(shape: Callable[[int], tuple[int, ...]]) -> Maker:
    def make(n: int) -> tuple[Any, ...]:
        a = np.random.default_rng(0).normal(size=shape(n)).astype(np.float32)
        return (a @ np.swapaxes(a, -1, -2) / np.float32(a.shape[-1]) + np.eye(a.shape[-1], dtype=np.float32),)

    return make


def right_hand(shape: Callable[[int], tuple[int, ...]]) -> Callable[[int], tuple[int, ...]]:
    """One column for each matrix."""
    return lambda n: (*shape(n)[:-1], 1)


def ascending(count: int) -> Maker:
    return lambda n: (np.sort(np.random.default_rng(3).normal(size=count)).astype(np.float32),)


def rebuilt(values: Any, vectors: Any) -> Any:
    """The diagonal of V Λ Vᵀ: what does not depend on the signs of vectors."""
    return (vectors * vectors * values[..., None, :]).sum(-1)


def torch_interp(torch: Any, x: Any, xp: Any, fp: Any) -> Any:
    i = torch.clip(torch.searchsorted(xp, x, right=True), 1, len(xp) - 1)
    inside = fp[i - 1] + (x - xp[i - 1]) * (fp[i] - fp[i - 1]) / (xp[i] - xp[i - 1])
    return torch.where(x < xp[0], fp[0], torch.where(x > xp[-1], fp[-1], inside))


def drawing(numpy: Any, name: str, *arguments: Any) -> Callable[[Any], Any]:
    """A method of one generator of NumPy's, which needs no key."""
    draw = getattr(numpy.random.default_rng(0), name)
    return lambda key: draw(*arguments)


def largest(x: Any) -> Any:
    """The ten largest numbers of each row, the largest first."""
    return np.sort(np.partition(x, -10)[..., -10:])[..., ::-1]


SEARCH = {
    "sort": Family("sort", normal(all_of), lambda np_, _, n: np_.sort, lambda torch, n: lambda x: torch.sort(x)[0]),
    "sort-rows": Family(
        "sort of rows of 100",
        normal(rows(100)),
        lambda np_, _, n: lambda x: np_.sort(x, 1),
        lambda torch, n: lambda x: torch.sort(x, 1)[0],
    ),
    "argsort": Family(
        "argsort, stable",
        normal(all_of),
        lambda np_, _, n: np_.argsort,
        lambda torch, n: lambda x: torch.argsort(x, stable=True),
        lambda np_, n: lambda x: np_.argsort(x, kind="stable"),
    ),
    "top-k": Family(
        "the 10 largest of each row of 1,000",
        normal(rows(1_000)),
        lambda _, module, n: lambda x: module.lax.top_k(x, 10)[0],
        lambda torch, n: lambda x: torch.topk(x, 10)[0],
        lambda np_, n: largest,
    ),
    "isin": Family(
        "isin among 100",
        together(integers(all_of, high=lambda n: 10_000), integers(fixed(100), high=lambda n: 10_000)),
        lambda np_, _, n: np_.isin,
        lambda torch, n: torch.isin,
    ),
    "histogram": Family(
        "histogram of 100 bins",
        normal(all_of),
        lambda np_, _, n: lambda x: np_.histogram(x, 100, (-4, 4))[0].astype("float32"),
        lambda torch, n: lambda x: torch.histc(x, 100, -4, 4),
    ),
    "searchsorted": Family(
        "searchsorted among 10,000",
        together(ascending(10_000), normal(all_of)),
        lambda np_, _, n: np_.searchsorted,
        lambda torch, n: torch.searchsorted,
    ),
    "interp": Family(
        "interp between 1,000 points",
        together(normal(all_of), ascending(1_000), normal(fixed(1_000))),
        lambda np_, _, n: np_.interp,
        lambda torch, n: lambda x, xp, fp: torch_interp(torch, x, xp, fp),
    ),
}

LINEAR_ALGEBRA = {
    **{
        f"solve{suffix}": Family(
            f"solve, {title}",
            together(positive_definite(shape), normal(right_hand(shape))),
            lambda np_, _, n: np_.linalg.solve,
            lambda torch, n: torch.linalg.solve,
        )
        for suffix, title, shape in (("", "one system", square), ("-4", "systems of 4", stacked(4)))
    },
    **{
        f"cholesky{suffix}": Family(
            f"cholesky, {title}",
            positive_definite(shape),
            lambda np_, _, n: np_.linalg.cholesky,
            lambda torch, n: torch.linalg.cholesky,
        )
        for suffix, title, shape in (("", "one matrix", square), ("-4", "matrices 4×4", stacked(4)))
    },
    **{
        f"eigh{suffix}": Family(
            f"eigenvalues and vectors, symmetric, {title}",
            positive_definite(shape),
            lambda np_, _, n: lambda a: rebuilt(*np_.linalg.eigh(a)),
            lambda torch, n: lambda a: rebuilt(*torch.linalg.eigh(a)),
            sizes=(1_000, 10_000, 100_000, 1_000_000),
        )
        for suffix, title, shape in (("", "one matrix", square), ("-4", "matrices 4×4", stacked(4)))
    },
}

TRANSFORMS = {
    "fft": Family("fft", normal(all_of), lambda np_, _, n: np_.fft.fft, lambda torch, n: torch.fft.fft),
    "fft-prime": Family(
        "fft of a prime number",
        normal(lambda n: (_PRIMES[n],)),
        lambda np_, _, n: np_.fft.fft,
        lambda torch, n: torch.fft.fft,
    ),
}

RANDOM = {
    **{
        name: Family(
            f"{name} random numbers",
            key,
            lambda _, module, n, name=name: lambda key: getattr(module.random, name)(key, (n,)),
            lambda torch, n, name=torch_name: lambda key: getattr(torch, name)(n),
            lambda np_, n, name=numpy_name: drawing(np_, name, n, np_.float32),
            restore=distribution,
            tolerance=of_samples,
        )
        for name, torch_name, numpy_name in (("uniform", "rand", "random"), ("normal", "randn", "standard_normal"))
    },
    "permutation": Family(
        "permutation",
        key,
        lambda np_, module, n: lambda key: module.random.permutation(key, n),
        lambda torch, n: lambda key: torch.randperm(n),
        lambda np_, n: drawing(np_, "permutation", n),
        restore=sorted_values,
    ),
}
