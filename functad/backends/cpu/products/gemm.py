"""Matrix products as instructions of a tape: how they are described, and how they are cut for threads.

This file must not know who computes them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad import machine_model
from functad.backends.cpu.products.blas import element_words, handle_for
from functad.backends.cpu.runtime import layout as w
from functad.backends.cpu.runtime.tape import TapeBlock, TapeInstruction, runtime
from functad.errors import ArgumentError
from functad.options import available_cores
from functad.records import NamedTuple

_SPLITS = {"rows": w.SPLIT_ROWS, "columns": w.SPLIT_COLUMNS, "batch": w.SPLIT_BATCH}


class Matrix(NamedTuple):
    """Where a matrix, or a batch of them, lies.

    slot: of its buffer. offset: of its first element. pitch: from one row to the next. stride: from one matrix of
    the batch to the next. All in elements.
    """

    slot: int
    pitch: int
    offset: int = 0
    stride: int = 0


def gemm_block(
    dtype: Any, a: Matrix, b: Matrix, c: Matrix, *, m: int, n: int, k: int, batch: int = 1, **details: Any
) -> TapeBlock:
    """A block with one matrix product, or a batch of them, cut as is best; the arguments of `gemm_instruction`."""
    split, rows, chunk = best_split(dtype, m, n, k, batch)
    return TapeBlock(rows, [gemm_instruction(dtype, a, b, c, m=m, n=n, k=k, split=split, **details)], chunk)


def gemm_instruction(
    dtype: Any, a: Matrix, b: Matrix, c: Matrix, *, m: int, n: int, k: int, ta: bool = False, tb: bool = False,
    alpha: complex = 1.0, beta: complex = 0.0, split: str = "rows", token: int = -1, packed: bool = False,
) -> TapeInstruction:  # fmt: skip
    """C[m, n] = alpha op(A)[m, k] op(B)[k, n] + beta C, row-major, where op transposes if ta or tb.

    Args:
        dtype: float32, float64, complex64 or complex128.
        a, b, c: the matrices, as they lie in memory. Rows of A and of B may overlap (a pitch smaller than the row,
            but not 0).
        split: what the range of the instruction counts: `"rows"` of C (0..m), its `"columns"` (0..n), or the
            matrices of a `"batch"`.
        token: the slot of the cancellation token of the call, so that a large product stops when they say so; or -1.
        packed: B lies in panels (`blas.panel_columns`), whose columns are `b.pitch` elements apart, as if transposed.

    Raises:
        ArgumentError: rows of C overlap, or a pitch is 0.
    """
    dtype = np.dtype(dtype)
    if (m > 1 and c.pitch < n) or a.pitch < 1 or b.pitch < 1:
        raise ArgumentError(f"matrix product with pitches {a.pitch}, {b.pitch}, {c.pitch} for {m}x{k} times {k}x{n}")
    params = np.zeros(w.GEMM_PARAMS, np.int64)
    params[w.P_HANDLE], calls_blas = handle_for(dtype, m, n, k, ta=ta, tb=tb, ldb=b.pitch, ldc=c.pitch, packed=packed)
    params[w.P_SPLIT] = _SPLITS[split]
    for place, matrix in ((w.P_A_SLOT, a), (w.P_B_SLOT, b), (w.P_C_SLOT, c)):
        params[place : place + 2] = matrix.slot, matrix.offset * dtype.itemsize
    params[w.P_TA : w.P_K + 1] = ta, tb, m, n, k
    params[w.P_LDA : w.P_LDC + 1] = a.pitch, b.pitch, c.pitch
    params[w.P_ALPHA : w.P_ALPHA + 2] = element_words(dtype, alpha)
    params[w.P_BETA : w.P_BETA + 2] = element_words(dtype, beta)
    params[w.P_A_STRIDE : w.P_C_STRIDE + 1] = [matrix.stride * dtype.itemsize for matrix in (a, b, c)]
    params[w.P_CANCELLATION] = token
    steps = {"rows": m, "columns": n, "batch": 1}[split]
    return TapeInstruction(
        runtime().addresses["run_gemm"], params, blas=calls_blas,
        work=m * n * k / max(steps, 1) / machine_model.PRODUCTS_OF_A_LINE, asks=split != "batch",
    )  # fmt: skip


def best_split(dtype: Any, m: int, n: int, k: int, batch: int = 1) -> tuple[str, int, int]:
    """How to cut products for threads: split, extent of the range, and rows of a chunk (0: do not cut).

    That depends on the number of cores, but not on how many threads are in use: results do not either.
    """
    cores = available_cores()[0]
    most = int(2.0 * m * n * k * batch * machine_model.PRODUCT_COST[np.dtype(dtype).name] / machine_model.PRODUCT_CHUNK)
    if batch > 1:
        return "batch", batch, _chunk(batch, min(most, machine_model.PARTS_A_THREAD * cores), 1)
    split, extent, unit = ("rows", m, 1) if shares_rows(m, n) else ("columns", n, machine_model.FLOATS_OF_VECTOR)
    chunks = 2 * cores if extent >= 2 * cores * machine_model.PRODUCT_CHUNK_EXTENT else cores
    return split, extent, _chunk(extent, min(most, chunks), unit)


def shares_rows(m: int, n: int) -> bool:
    """Whether threads should share the rows of C rather than its columns.

    Each chunk of rows packs all of B once more, each chunk of columns all of A. Rows have the better kernels, so
    columns pay only where B is much larger.
    """
    return n < machine_model.ROWS_PACK_BETTER * m


def _chunk(extent: int, chunks: int, unit: int) -> int:
    chunk = -(-extent // max(chunks, 1))
    chunk = -(-chunk // unit) * unit
    return 0 if chunk >= extent else chunk
