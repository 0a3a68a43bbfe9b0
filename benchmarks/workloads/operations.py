"""Single operations, of the sizes at which their kernels count: a table of what a program is made of.

Knows each in functad's and JAX's words, which are the same, and in PyTorch's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from benchmarks.task import Arrays, Calling, Form


class Operation(NamedTuple):
    """One row of the table.

    Attributes:
        title: what it is called.
        arguments: makes them. Integers that are indices have 32 bits; for PyTorch they are widened, which needs 64.
        functional: `(numpy, module)` → the function, in functad's and JAX's words.
        torch: `(torch,)` → the same function.
        restore: what of a result is compared.
        indices: which arguments are indices.
        numpy: whether `functional` is NumPy's function, too, given its module.
    """

    title: str
    arguments: Callable[[], tuple[Any, ...]]
    functional: Callable[[Any, Any], Callable[..., Any]]
    torch: Callable[[Any], Callable[..., Any]]
    restore: Callable[[Arrays], Arrays] = lambda arrays: arrays
    indices: tuple[int, ...] = ()
    numpy: bool = False

    def task(self) -> Calling:
        arguments = self.arguments()
        wide = any(getattr(x, "dtype", None) == np.float64 for x in arguments)

        def functional(name: str) -> Callable[..., Any]:
            module = import_module(name)
            if name == "jax" and wide:
                module.config.update("jax_enable_x64", True)
            return self.functional(import_module(f"{name}.numpy"), module)

        def with_wide_indices(*given: Any) -> tuple[Any, ...]:
            return tuple(x.astype(np.int64) if k in self.indices else x for k, x in enumerate(given))

        forms = {name: Form(partial(functional, name), restore=self.restore) for name in ("functad", "jax")}
        forms["torch"] = Form(lambda: self.torch(import_module("torch")), restore=self.restore, batch=with_wide_indices)
        if self.numpy:
            forms["numpy"] = Form(lambda: self.functional(np, np), restore=self.restore)
        return Calling(arguments, forms)


def normal(*shapes: tuple[int, ...], dtype: str = "float32") -> Callable[[], tuple[Any, ...]]:
    """Makes one array of each shape."""
    return lambda: tuple(np.random.default_rng(k).normal(size=s).astype(dtype) for k, s in enumerate(shapes))


def integers(*shapes: tuple[int, ...], high: int) -> Callable[[], tuple[Any, ...]]:
    """Makes one array of int32 in `0..high - 1` of each shape."""
    return lambda: tuple(np.random.default_rng(k).integers(0, high, s).astype(np.int32) for k, s in enumerate(shapes))


def together(*makers: Callable[[], tuple[Any, ...]]) -> Callable[[], tuple[Any, ...]]:
    return lambda: tuple(x for make in makers for x in make())


def distinct(high: int, count: int) -> Callable[[], tuple[Any, ...]]:
    return lambda: (np.random.default_rng(7).permutation(high)[:count].astype(np.int32),)


def sorted_values(arrays: Arrays) -> Arrays:
    return {name: np.sort(value) for name, value in arrays.items()}


def float64(name: str, torch_name: str, x: Callable[[], tuple[Any, ...]]) -> Operation:
    """A function of a million float64."""

    def functional(np_: Any, module: Any) -> Callable[..., Any]:
        return getattr(np_, name, None) or getattr(module.lax, name)

    return Operation(f"{name} of 1,000,000 float64", x, functional, lambda torch: getattr(torch, torch_name))


def positive(*shapes: tuple[int, ...]) -> Callable[[], tuple[Any, ...]]:
    return lambda: tuple(np.random.default_rng(k).uniform(0.5, 5, s) for k, s in enumerate(shapes))


def heat(roll: Callable[..., Any], u: Any) -> Any:
    """Ten explicit steps of the heat equation on a ring."""
    for _ in range(10):
        u = u + 0.1 * (roll(u, 1) - 2.0 * u + roll(u, -1))
    return u


def pairs(sum_of: Callable[..., Any], x: Any, y: Any) -> Any:
    """Σⱼ 1 / (1 + (xᵢ − yⱼ)²)."""
    return sum_of(1.0 / (1.0 + (x[:, None] - y[None, :]) ** 2), 1)


_SCATTERED = together(normal((1_000_000,)), integers((1_000_000,), high=100_000))
_SEGMENTS = together(normal((100_000, 16)), integers((100_000,), high=1_000))
_PLACES = together(normal((1_000_000,), (100_000,)), distinct(1_000_000, 100_000))

OPERATIONS = {
    "argmax": Operation(
        "argmax along rows of (10,000, 100)",
        normal((10_000, 100)),
        lambda np_, _: lambda x: np_.argmax(x, 1),
        lambda torch: lambda x: torch.argmax(x, 1),
        numpy=True,
    ),
    "integer-product": Operation(
        "int32 product 256²",
        integers((256, 256), (256, 256), high=1_000),
        lambda np_, _: lambda a, b: a @ b,
        lambda torch: lambda a, b: a @ b,
        numpy=True,
    ),
    "scatter-add": Operation(
        "scatter-add of 1,000,000 into 100,000",
        _SCATTERED,
        lambda np_, _: lambda x, i: np_.zeros(100_000, x.dtype).at[i].add(x),
        lambda torch: lambda x, i: torch.zeros(100_000).index_add_(0, i, x),
        indices=(1,),
    ),
    "bincount": Operation(
        "bincount of 1,000,000 in 100,000",
        integers((1_000_000,), high=100_000),
        lambda np_, _: lambda i: np_.bincount(i, length=100_000),
        lambda torch: lambda i: torch.bincount(i, minlength=100_000),
    ),
    "segment-sum": Operation(
        "segment sum of rows (100,000, 16), 1,000 segments",
        _SEGMENTS,
        lambda np_, _: lambda x, i: np_.zeros((1_000, 16), x.dtype).at[i].add(x),
        lambda torch: lambda x, i: torch.zeros(1_000, 16).index_add_(0, i, x),
        indices=(1,),
    ),
    "set": Operation(
        "x.at[i].set(v), 100,000 of 1,000,000",
        _PLACES,
        lambda np_, _: lambda x, v, i: x.at[i].set(v),
        lambda torch: lambda x, v, i: torch.index_put(x, (i,), v),
        indices=(2,),
    ),
    "window-add": Operation(
        "u.at[1:-1, 1:-1].add(v), 1,000²",
        normal((1_000, 1_000), (998, 998)),
        lambda np_, _: lambda u, v: u.at[1:-1, 1:-1].add(v),
        lambda torch: lambda u, v: (w := u.clone(), w[1:-1, 1:-1].add_(v))[0],
    ),
    "sort-rows": Operation(
        "sort of rows of (10,000, 100)",
        normal((10_000, 100)),
        lambda np_, _: lambda x: np_.sort(x, 1),
        lambda torch: lambda x: torch.sort(x, 1)[0],
        numpy=True,
    ),
    "permutation": Operation(
        "permutation of 1,000,000",
        lambda: (np.zeros(2, np.uint32),),
        lambda np_, module: lambda key: module.random.permutation(key, 1_000_000),
        lambda torch: lambda key: torch.randperm(1_000_000),
        sorted_values,
    ),
    **{
        f"dot-{n}": Operation(f"dot of {n:,}", normal((n,), (n,)), lambda np_, _: np_.dot, lambda torch: torch.dot)
        for n in (100_000, 1_000_000, 10_000_000)
    },
    "repeat": Operation(
        "repeat of 1,000,000, four times each",
        normal((1_000_000,)),
        lambda np_, _: lambda x: np_.repeat(x, 4),
        lambda torch: lambda x: torch.repeat_interleave(x, 4),
        numpy=True,
    ),
    "pad": Operation(
        "pad of 1,000² by one",
        normal((1_000, 1_000)),
        lambda np_, _: lambda x: np_.pad(x, 1),
        lambda torch: lambda x: torch.nn.functional.pad(x, (1, 1, 1, 1)),
        numpy=True,
    ),
    "tile": Operation(
        "tile of 1,000², twice each way",
        normal((1_000, 1_000)),
        lambda np_, _: lambda x: np_.tile(x, (2, 2)),
        lambda torch: lambda x: torch.tile(x, (2, 2)),
        numpy=True,
    ),
    "row-dots": Operation(
        "einsum('ij,ij->i') of (100,000, 10)",
        normal((100_000, 10), (100_000, 10)),
        lambda np_, _: lambda a, b: np_.einsum("ij,ij->i", a, b),
        lambda torch: lambda a, b: torch.einsum("ij,ij->i", a, b),
        numpy=True,
    ),
    "small-products": Operation(
        "10,000 products 3×3",
        normal((10_000, 3, 3), (10_000, 3, 3)),
        lambda np_, _: lambda a, b: a @ b,
        lambda torch: lambda a, b: a @ b,
        numpy=True,
    ),
    "mapped-dot": Operation(
        "vmap of dot of 3-vectors, 31,843 rows",
        normal((31_843, 3), (31_843, 3)),
        lambda np_, module: module.vmap(np_.dot),
        lambda torch: torch.vmap(torch.dot),
    ),
    "isin": Operation(
        "isin, 1,000,000 among 100",
        together(integers((1_000_000,), high=10_000), integers((100,), high=10_000)),
        lambda np_, _: np_.isin,
        lambda torch: torch.isin,
    ),
    **{
        f"sum-last-{n}": Operation(
            f"sum over the last axis of (1,000,000, {n})",
            normal((1_000_000, n)),
            lambda np_, _: lambda x: np_.sum(x, 1),
            lambda torch: lambda x: torch.sum(x, 1),
            numpy=True,
        )
        for n in (2, 3)
    },
    "power": float64("power", "pow", positive((1_000_000,), (1_000_000,))),
    "lgamma": float64("lgamma", "lgamma", positive((1_000_000,))),
    "sin": float64("sin", "sin", normal((1_000_000,), dtype="float64")),
    "tanh": float64("tanh", "tanh", normal((1_000_000,), dtype="float64")),
    "heat": Operation(
        "heat equation with roll, 100,000, 10 steps",
        normal((100_000,)),
        lambda np_, _: partial(heat, np_.roll),
        lambda torch: partial(heat, torch.roll),
        numpy=True,
    ),
    "cumsum": Operation(
        "cumsum of 1,000,000",
        normal((1_000_000,)),
        lambda np_, _: np_.cumsum,
        lambda torch: lambda x: torch.cumsum(x, 0),
        numpy=True,
    ),
    "pairs": Operation(
        "all pairs of 2,000, summed",
        normal((2_000,), (2_000,)),
        lambda np_, _: partial(pairs, np_.sum),
        lambda torch: partial(pairs, torch.sum),
        numpy=True,
    ),
}
