"""A family of rows of the table of operations: one operation, from a thousand elements to ten million.

Knows how a family becomes tasks for all frameworks, and how to make its arguments; the operations are in other files.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from math import isqrt
from typing import Any, NamedTuple

import numpy as np

from benchmarks.task import Arrays, Calling, Form

SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
Maker = Callable[[int], tuple[Any, ...]]
Function = Callable[..., Any]


class Family(NamedTuple):
    """One operation, for several numbers of elements.

    Attributes:
        title: what it is called.
        arguments: number of elements → the arguments. Integers that are indices have 32 bits; PyTorch's are widened.
        functional: `(numpy, module, n)` → the function, in functad's and JAX's words.
        torch: `(torch, n)` → the same function; None where PyTorch has none.
        numpy: `(numpy, n)` → what all others must agree with; None where that is `functional` of NumPy's module.
        timed: whether NumPy's function is a peer: not where NumPy has none, and a loop of Python's stands for it.
        restore: what of a result is compared.
        indices: which arguments are indices.
        sizes: numbers of elements.
        tolerance: number of elements → how far results may differ, over the largest value.
    """

    title: str
    arguments: Maker
    functional: Callable[[Any, Any, int], Function]
    torch: Callable[[Any, int], Function] | None
    numpy: Callable[[Any, int], Function] | None = None
    timed: bool = True
    restore: Callable[[Arrays], Arrays] = lambda arrays: arrays
    indices: tuple[int, ...] = ()
    sizes: tuple[int, ...] = SIZES
    tolerance: Callable[[int], float] = lambda n: 1e-4

    def task(self, n: int) -> Calling:
        """The operation on `n` elements, each call waited for."""
        arguments = self.arguments(n)
        forms = {name: Form(partial(self._functional, name, arguments, n), restore=self.restore) for name in _LIKE_JAX}
        forms["numpy"] = Form(lambda: (self.numpy or self._numpys)(np, n), restore=self.restore)
        if self.torch is not None:
            torch = self.torch
            forms["torch"] = Form(
                lambda: torch(import_module("torch"), n), restore=self.restore, batch=self._with_wide_indices
            )
        return Calling(arguments, forms, waited_for=True)

    def _functional(self, name: str, arguments: tuple[Any, ...], n: int) -> Function:
        module = import_module(name)
        if name == "jax":
            module.config.update("jax_enable_x64", any(x.dtype == np.float64 for x in arguments))
        return self.functional(import_module(f"{name}.numpy"), module, n)

    def _numpys(self, numpy: Any, n: int) -> Function:
        return self.functional(numpy, numpy, n)

    def _with_wide_indices(self, *given: Any) -> tuple[Any, ...]:
        return tuple(x.astype(np.int64) if k in self.indices else x for k, x in enumerate(given))


_LIKE_JAX = ("functad", "jax")


# --- arguments ----------------------------------------------------------------------------------------


def normal(*shapes: Callable[[int], tuple[int, ...]], dtype: str = "float32") -> Maker:
    """Makes one array of each shape."""
    return lambda n: tuple(np.random.default_rng(k).normal(size=s(n)).astype(dtype) for k, s in enumerate(shapes))


def positive(*shapes: Callable[[int], tuple[int, ...]], dtype: str = "float64") -> Maker:
    """Makes one array of numbers from 0.5 to 5 of each shape."""
    return lambda n: tuple(np.random.default_rng(k).uniform(0.5, 5, s(n)).astype(dtype) for k, s in enumerate(shapes))


def integers(*shapes: Callable[[int], tuple[int, ...]], high: Callable[[int], int]) -> Maker:
    """Makes one array of int32 in `0..high - 1` of each shape."""
    return lambda n: tuple(
        np.random.default_rng(k).integers(0, high(n), s(n)).astype(np.int32) for k, s in enumerate(shapes)
    )


def together(*makers: Maker) -> Maker:
    return lambda n: tuple(x for make in makers for x in make(n))


def all_of(n: int) -> tuple[int, ...]:
    """n numbers in a row."""
    return (n,)


def fixed(*shape: int) -> Callable[[int], tuple[int, ...]]:
    """The same shape for every number of elements."""
    return lambda n: shape


def rows(length: int) -> Callable[[int], tuple[int, ...]]:
    """n numbers in rows of that length, as many as there are whole ones, one at least."""
    return lambda n: (max(n // length, 1), length)


def stacked(side: int) -> Callable[[int], tuple[int, ...]]:
    """n numbers in square matrices of that side."""
    return lambda n: (max(n // side**2, 1), side, side)


def square(n: int) -> tuple[int, ...]:
    """About n numbers in one square matrix."""
    return (isqrt(n), isqrt(n))


def key(n: int) -> tuple[Any, ...]:
    return (np.zeros(2, np.uint32),)


# --- what is compared ---------------------------------------------------------------------------------


def sorted_values(arrays: Arrays) -> Arrays:
    """Of a permutation, which everybody draws another of."""
    return {name: np.sort(value) for name, value in arrays.items()}


def distribution(arrays: Arrays) -> Arrays:
    """The shape and quantiles of random numbers, which everybody has others of."""
    found = {f"shape of {name}": np.array(value.shape) for name, value in arrays.items()}
    return found | {name: np.quantile(value, np.linspace(0.1, 0.9, 9)) for name, value in arrays.items()}


def of_samples(n: int) -> float:
    """How far quantiles of n random numbers may lie from each other."""
    return float(8 / n**0.5)
