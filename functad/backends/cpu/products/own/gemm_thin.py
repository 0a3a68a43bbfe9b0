"""functad's own products of few terms, and of packed weights, for processors with AVX2 and no longer vectors.

In which order tiles are made, written in the language of `compile.integer_compiler`, like `gemm_panels`. It must not
know how a tile is made: that is in `gemm_vectors`, whose functions it calls by address.

Where there are few terms, most of the time goes into writing C. Tiles stay in registers, and rows of C are written one
after another. B is packed: its rows may lie so far apart that they push each other out of the cache. A weight that a
loop reads in each step was packed before it (`kernels.weights`).
"""

# ruff: noqa: F821
# mypy: ignore-errors
from __future__ import annotations

from functad import machine_model
from functad.backends.cpu.runtime import layout as w

EXPORTS = ("multiply_thin", "multiply_weights")
# A tile of C, which the processor keeps in 12 of its 16 registers: 6 rows of two vectors of 32 bytes.
ROWS, TILE_BYTES = machine_model.OWN_DIRECT_TILE_ROWS, machine_model.THIN_TILE_BYTES
# Any number of rows is a sum of such heights, as even as can be.
HEIGHTS = range(1, ROWS + 1)
PACKED_BYTES = machine_model.THIN_PACKED_BYTES
PACKED_WORDS = PACKED_BYTES // 8
WEIGHT_BYTES = machine_model.PACKED_WEIGHT_BYTES
SQUARE = machine_model.PANEL_DEPTH_UNIT  # elements of a row of the squares that `transpose` turns around

# The words of a handle (`blas.handle`) go on with those of its table:
OTHERS = w.GEMM_HANDLE_SIZE  # address of the handle of who computes what fills no tile
TRANSPOSE = w.GEMM_HANDLE_SIZE + 1  # addresses of functions of `gemm_vectors`
COPY_ANY = w.GEMM_HANDLE_SIZE + 2
FUNCTIONS = w.GEMM_HANDLE_SIZE + 3  # one for each height


def multiply_thin(
    table, ta, tb, m, n, k,
    alpha, a, lda, b, ldb, beta, c, ldc,
) -> None:  # fmt: skip
    """C[m, n] = alpha op(A)[m, k] op(B)[k, n] + beta C as `gemm_runtime.gemm`; there are 1 to THIN_TERMS terms."""
    item = table[w.GEMM_ITEM]
    columns = TILE_BYTES // item
    # C is only written if beta is 0. Then the last tile may compute some columns of the one before it once more.
    zero = flags(beta) if item == 4 else beta[0]
    wide = n if zero == 0 else n // columns * columns
    if m < machine_model.THIN_ROWS or n < columns:
        wide = 0
    # A large C passes by the caches, if its rows are whole cache lines.
    beside = (c | item * ldc | item * n) & (TILE_BYTES - 1)
    streamed = 1 if zero == 0 and beside == 0 and m * n * item >= machine_model.THIN_STREAMED_BYTES else 0
    packed = room(PACKED_WORDS)
    b_down = item if tb == 1 else item * ldb
    b_right = item if tb == 0 else item * ldb
    most = PACKED_BYTES // (k * TILE_BYTES) * columns
    start = 0
    while start < wide:
        size = min(most, wide - start)
        if size < columns:
            start = wide - columns
            size = columns
        pack_columns(table, item, size, k, b + b_right * start, b_down, b_right, packed)
        rows_of_tiles(
            table, item * size, m, k, a, item if ta == 1 else item * lda, item if ta == 0 else item * lda,
            packed, alpha, beta, c + item * start, item * ldc, streamed,
        )  # fmt: skip
        start += size
    if wide < n:
        others = table[OTHERS]
        call_gemm(
            others[w.GEMM_ENTRY], others, ta, tb, m, n - wide, k,
            alpha, a, lda, b + wide * b_right, ldb, beta, c + wide * item, ldc,
        )  # fmt: skip


def multiply_weights(
    table, ta, tb, m, n, k,
    alpha, a, lda, b, ldb, beta, c, ldc,
) -> None:  # fmt: skip
    """The same, where B is packed: panels of as many columns as a tile has, of which n is a multiple."""
    item = table[w.GEMM_ITEM]
    columns = TILE_BYTES // item
    most = max(1, WEIGHT_BYTES // (k * TILE_BYTES)) * columns
    start = 0
    while start < n:
        size = min(most, n - start)
        rows_of_tiles(
            table, item * size, m, k, a, item if ta == 1 else item * lda, item if ta == 0 else item * lda,
            b + item * k * start, alpha, beta, c + item * start, item * ldc, 0,
        )  # fmt: skip
        start += size


def pack_columns(table, item, width, k, b, down, right, packed) -> None:
    """Columns of B, as many as a tile has at a time; the last ones end with the width."""
    columns = TILE_BYTES // item
    turned = k // SQUARE * SQUARE
    start = 0
    while start < width:
        source = b + min(start, width - columns) * right
        if right == item:
            for _i in range(k):
                copy(packed, source, TILE_BYTES)
                packed += TILE_BYTES
                source += down
        else:
            call_six(table[TRANSPOSE], turned // SQUARE, columns // SQUARE, source, right, packed, TILE_BYTES)
            call_eight(
                table[COPY_ANY], k - turned, columns, k, source + turned * down, down, right,
                packed + turned * TILE_BYTES, TILE_BYTES,
            )  # fmt: skip
            packed += k * TILE_BYTES
        start += columns


def rows_of_tiles(table, size, m, depth, a, a_right, a_down, packed, alpha, beta, c, c_pitch, streamed) -> None:
    """`size` bytes of each row of C, for which B stays in the cache: as many rows at a time as a tile has."""
    tiles = (m + ROWS - 1) // ROWS
    while tiles > 0:
        rows = (m + tiles - 1) // tiles
        function = table[FUNCTIONS + rows - 1]
        call_eleven(function, size, depth, a, a_right, a_down, packed, alpha, beta, c, c_pitch, streamed)
        a += rows * a_right
        c += rows * c_pitch
        m -= rows
        tiles -= 1
