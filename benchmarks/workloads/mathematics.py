"""Single operations of linear algebra, transforms, search and random numbers, small and large: more rows of the table.

Knows each in functad's and JAX's words, which are the same, and in PyTorch's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.task import Arrays
from benchmarks.workloads.operations import Operation, integers, normal, together


def positive_definite(*shape: int) -> Callable[[], tuple[Any, ...]]:
    def make() -> tuple[Any, ...]:
        a = np.random.default_rng(0).normal(size=shape)
        return ((a @ np.swapaxes(a, -1, -2) / shape[-1] + np.eye(shape[-1])).astype(np.float32),)

    return make


def ascending(count: int) -> Callable[[], tuple[Any, ...]]:
    return lambda: (np.sort(np.random.default_rng(3).normal(size=count)).astype(np.float32),)


def key() -> tuple[Any, ...]:
    return (np.zeros(2, np.uint32),)


def shapes(arrays: Arrays) -> Arrays:
    """Of random numbers, which nobody else has the same of."""
    return {name: np.array(value.shape) for name, value in arrays.items()}


def rebuilt(values: Any, vectors: Any) -> Any:
    """The diagonal of V Λ Vᵀ: what does not depend on the signs of vectors."""
    return (vectors * vectors * values[..., None, :]).sum(-1)


def torch_interp(torch: Any, x: Any, xp: Any, fp: Any) -> Any:
    i = torch.clip(torch.searchsorted(xp, x, right=True), 1, len(xp) - 1)
    inside = fp[i - 1] + (x - xp[i - 1]) * (fp[i] - fp[i - 1]) / (xp[i] - xp[i - 1])
    return torch.where(x < xp[0], fp[0], torch.where(x > xp[-1], fp[-1], inside))


MATHEMATICS = {
    **{
        f"sort-{n}": Operation(
            f"sort of {n:,}",
            normal((n,)),
            lambda np_, _: np_.sort,
            lambda torch: lambda x: torch.sort(x)[0],
            numpy=True,
        )
        for n in (1_000, 1_000_000, 10_000_000)
    },
    "top-k": Operation(
        "the 10 largest of each row of (1,000, 1,000)",
        normal((1_000, 1_000)),
        lambda _, module: lambda x: module.lax.top_k(x, 10)[0],
        lambda torch: lambda x: torch.topk(x, 10)[0],
    ),
    **{
        f"take-{n}": Operation(
            f"x[i], {n:,} of {n:,}",
            together(normal((n,)), integers((n,), high=n)),
            lambda np_, _: lambda x, i: x[i],
            lambda torch: lambda x, i: x[i],
            indices=(1,),
            numpy=True,
        )
        for n in (1_000, 1_000_000, 10_000_000)
    },
    **{
        f"segment-sum-{n}": Operation(
            f"segment sum of {n:,} numbers, 100 segments",
            together(normal((n,)), integers((n,), high=100)),
            lambda _, module: lambda x, i: module.ops.segment_sum(x, i, 100),
            lambda torch: lambda x, i: torch.zeros(100).index_add_(0, i, x),
            indices=(1,),
        )
        for n in (1_000, 10_000_000)
    },
    **{
        f"cumsum-{n}": Operation(
            f"cumsum of {n:,}",
            normal((n,)),
            lambda np_, _: np_.cumsum,
            lambda torch: lambda x: torch.cumsum(x, 0),
            numpy=True,
        )
        for n in (1_000, 10_000_000)
    },
    "cumulative-max": Operation(
        "running maximum along rows of (1,000, 1,000)",
        normal((1_000, 1_000)),
        lambda _, module: lambda x: module.lax.cummax(x, 1),
        lambda torch: lambda x: torch.cummax(x, 1)[0],
    ),
    "product-chain": Operation(
        "einsum('ij,jk,kl->il'), 1,000×10, 10×1,000, 1,000×10",
        normal((1_000, 10), (10, 1_000), (1_000, 10)),
        lambda np_, _: lambda *x: np_.einsum("ij,jk,kl->il", *x),
        lambda torch: lambda *x: torch.einsum("ij,jk,kl->il", *x),
        numpy=True,
    ),
    **{
        f"solve-{'-'.join(map(str, shape))}": Operation(
            f"solve, {title}",
            together(positive_definite(*shape), normal((*shape[:-1], 1))),
            lambda np_, _: np_.linalg.solve,
            lambda torch: torch.linalg.solve,
            numpy=True,
        )
        for shape, title in (((500, 500), "500 unknowns"), ((10_000, 4, 4), "10,000 times 4 unknowns"))
    },
    **{
        f"cholesky-{'-'.join(map(str, shape))}": Operation(
            f"cholesky, {title}",
            positive_definite(*shape),
            lambda np_, _: np_.linalg.cholesky,
            lambda torch: torch.linalg.cholesky,
            numpy=True,
        )
        for shape, title in (((500, 500), "500×500"), ((10_000, 4, 4), "10,000 times 4×4"))
    },
    **{
        f"eigh-{'-'.join(map(str, shape))}": Operation(
            f"eigenvalues and vectors, symmetric, {title}",
            positive_definite(*shape),
            lambda np_, _: lambda a: rebuilt(*np_.linalg.eigh(a)),
            lambda torch: lambda a: rebuilt(*torch.linalg.eigh(a)),
            numpy=True,
        )
        for shape, title in (((200, 200), "200×200"), ((1_000, 4, 4), "1,000 times 4×4"))
    },
    **{
        f"fft-{n}": Operation(
            f"fft of {n:,}", normal((n,)), lambda np_, _: np_.fft.fft, lambda torch: torch.fft.fft, numpy=True
        )
        for n in (1_024, 10_007, 1_000_000)
    },
    **{
        f"{name}-{n}": Operation(
            f"{n:,} {name} random numbers",
            key,
            lambda _, module, name=name, n=n: lambda key: getattr(module.random, name)(key, (n,)),
            lambda torch, name=torch_name, n=n: lambda key: getattr(torch, name)(n),
            shapes,
        )
        for name, torch_name in (("uniform", "rand"), ("normal", "randn"))
        for n in (1_000, 1_000_000)
    },
    "histogram": Operation(
        "histogram of 1,000,000, 100 bins",
        normal((1_000_000,)),
        lambda np_, _: lambda x: np_.histogram(x, 100, (-4, 4))[0].astype("float32"),
        lambda torch: lambda x: torch.histc(x, 100, -4, 4),
        numpy=True,
    ),
    "searchsorted": Operation(
        "searchsorted, 1,000,000 among 10,000",
        together(ascending(10_000), normal((1_000_000,))),
        lambda np_, _: np_.searchsorted,
        lambda torch: torch.searchsorted,
        numpy=True,
    ),
    "interp": Operation(
        "interp of 1,000,000 between 1,000 points",
        together(normal((1_000_000,)), ascending(1_000), normal((1_000,))),
        lambda np_, _: np_.interp,
        lambda torch: lambda x, xp, fp: torch_interp(torch, x, xp, fp),
        numpy=True,
    ),
}
