"""Sorts on CUDA: by merges or by digits, whichever moves less.

Knows what kernels move; nothing of Programs. An element is compared as words that hold its keys and, behind them, its
position. So no two are equal: every sort is stable, and the same each time.
"""

from __future__ import annotations

from collections.abc import Sequence

from functad import machine_model
from functad.backends.cuda.kernels.merge_sort import merge_sort
from functad.backends.cuda.kernels.radix_sort import radix_sort
from functad.backends.cuda.kernels.sort_words import SortKernel
from functad.lowering.steps import SortStep


def emit_sort(step: SortStep, threads: int) -> list[SortKernel]:
    """The kernels of a sort for blocks of `threads`, in their order."""
    found = [kernels for kernels in (merge_sort(step, threads), radix_sort(step, threads)) if kernels]
    return min(found, key=_bytes_of)


def _bytes_of(kernels: Sequence[SortKernel]) -> float:
    """How many bytes kernels move, and could in the time that it takes to start them."""
    return sum(kernel.nbytes + machine_model.CUDA_LAUNCH_BYTES for kernel in kernels)
