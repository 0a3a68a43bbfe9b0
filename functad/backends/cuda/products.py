"""Matrix products on CUDA: by a library, or one kernel for all sizes and layouts, by tiles in shared memory.

Knows matrices as flat arrays with strides; nothing of Programs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, no_type_check

import numba
import numpy as np
from numba import cuda

from functad.backends.cuda.launching import ArrayPlace, LibraryProduct
from functad.lowering.steps import GemmStep


def product_kernel(dtype: np.dtype, tile: int) -> Callable[..., None]:
    """The kernel `c = beta · c + alpha · a · b`, a batch of matrices, for blocks of tile × tile threads.

    Element (i, k) of matrix q of `a` lies at `a_at + q·a_batch + i·a_row + k·a_column`, and so on; rows of `c` lie
    `c_row` apart. With `beta` 0, `c` is only written.
    """
    kind = getattr(numba, dtype.name)

    @no_type_check
    def product(
        a, b, c, batch, rows, columns, terms, alpha, beta, a_at, a_batch, a_row, a_column,
        b_at, b_batch, b_row, b_column, c_at, c_batch, c_row,
    ):  # fmt: skip
        a_tile = cuda.shared.array((tile, tile), kind)
        b_tile = cuda.shared.array((tile, tile), kind)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        for q in range(cuda.blockIdx.z, batch, cuda.gridDim.z):
            for row in range(cuda.blockIdx.x * tile, rows, cuda.gridDim.x * tile):
                for column in range(cuda.blockIdx.y * tile, columns, cuda.gridDim.y * tile):
                    i, j = row + y, column + x
                    total = kind(0)
                    for first in range(0, terms, tile):
                        a_tile[y, x] = kind(0)
                        b_tile[y, x] = kind(0)
                        if i < rows and first + x < terms:
                            a_tile[y, x] = a[a_at + q * a_batch + i * a_row + (first + x) * a_column]
                        if j < columns and first + y < terms:
                            b_tile[y, x] = b[b_at + q * b_batch + (first + y) * b_row + j * b_column]
                        cuda.syncthreads()
                        for k in range(tile):
                            total += a_tile[y, k] * b_tile[k, x]
                        cuda.syncthreads()
                    if i < rows and j < columns:
                        at = c_at + q * c_batch + i * c_row + j
                        if beta == 0:
                            c[at] = alpha * total
                        else:
                            c[at] = alpha * total + beta * c[at]

    kernel: Callable[..., None] = cuda.jit(product)
    return kernel


def product_launcher(kernel: Any, step: GemmStep, tile: int, most_blocks: int) -> Callable[..., Any]:
    """A function of the device arrays a, b, c that runs one product."""
    number = step.a.dtype.type
    grid = (_blocks(step.m, tile, most_blocks), _blocks(step.n, tile, most_blocks), min(step.batch, most_blocks))
    a_row, a_column = (1, step.lda) if step.ta else (step.lda, 1)
    b_row, b_column = (1, step.ldb) if step.tb else (step.ldb, 1)
    configured = kernel[grid, (tile, tile)]
    numbers = (
        step.batch, step.m, step.n, step.k, number(step.alpha), number(step.beta),
        step.a_offset, step.a_batch, a_row, a_column,
        step.b_offset, step.b_batch, b_row, b_column,
        step.c_offset, step.c_batch, step.ldc,
    )  # fmt: skip
    return lambda a, b, c: configured(a, b, c, *numbers)


def library_product(step: GemmStep, a: ArrayPlace, b: ArrayPlace, c: ArrayPlace) -> LibraryProduct:
    """The start of one product by a library."""

    def moved(place: ArrayPlace, elements: int) -> ArrayPlace:
        return place._replace(offset=place.offset + elements * place.dtype.itemsize)

    return LibraryProduct(
        step.name, moved(a, step.a_offset), moved(b, step.b_offset), moved(c, step.c_offset), bool(step.ta),
        bool(step.tb), step.m, step.n, step.k, step.lda, step.ldb, step.ldc, step.batch, step.a_batch, step.b_batch,
        step.c_batch, step.alpha, step.beta,
    )  # fmt: skip


def _blocks(size: int, tile: int, most: int) -> int:
    return min(-(-size // tile), most)
