"""functad's own product of matrices read where they lie, for processors with AVX-512: in which order tiles are made.

Written in the language of `compile.integer_compiler`, like `gemm_panels`. It must not know how a tile is made: that is
in `gemm_vectors`, whose functions it calls by address.

Nothing is packed, so it begins at once: that pays where one operand stays in a core's second cache, or comes into it in
time. A tile of C is low and wide, so that few elements of A are read for each vector of B.
"""

# ruff: noqa: F821
# mypy: ignore-errors
from __future__ import annotations

from functad import machine_model
from functad.backends.cpu.runtime import layout as w

EXPORTS = ("multiply_direct",)
# A tile of C, which the processor keeps in 24 of its 32 registers: 6 rows of four vectors of 64 bytes.
ROWS, TILE_BYTES = machine_model.OWN_DIRECT_TILE_ROWS, machine_model.OWN_DIRECT_TILE_BYTES
# Any number of rows from LEAST_ROWS on is a sum of heights from LEAST_HEIGHT to ROWS, as even as can be.
LEAST_HEIGHT, LEAST_ROWS = machine_model.OWN_DIRECT_HEIGHT, machine_model.OWN_DIRECT_LEAST_ROWS
SLAB_BYTES = machine_model.OWN_DIRECT_SLAB_BYTES

# The words of a handle (`blas.handle`) go on with those of its table:
OTHERS = w.GEMM_HANDLE_SIZE  # address of the handle of who computes what fills no tile
FUNCTIONS = w.GEMM_HANDLE_SIZE + 1  # addresses of functions of `gemm_vectors`, for heights from LEAST_HEIGHT on


def multiply_direct(
    table, ta, tb, m, n, k,
    alpha, a, lda, b, ldb, beta, c, ldc,
) -> None:  # fmt: skip
    """C[m, n] = alpha op(A)[m, k] B[k, n] + beta C as `gemm_runtime.gemm`; k must not be 0, and tb must be 0."""
    item = table[w.GEMM_ITEM]
    a_right = item if ta == 1 else item * lda
    a_down = item if ta == 0 else item * lda
    columns = TILE_BYTES // item
    wide = n // columns * columns if m >= LEAST_ROWS else 0
    # So many terms that as many rows of B, and of A if it is transposed, stay in the cache: equal parts of them all.
    pitch = (max(ldb, lda) if ta == 1 else ldb) * item
    parts = up(k * pitch, SLAB_BYTES)
    depth = up(k, parts)
    down = ldb * item
    factor = beta
    p = 0
    while p < k and wide > 0:
        deep = min(depth, k - p)
        j = 0
        while j < wide * item:
            # What is multiplied next: the columns beside these, or the first ones of the next terms. A smaller B is
            # in the cache, if it was used before.
            following = b + p * down + j + TILE_BYTES
            ahead = deep
            if j + TILE_BYTES >= wide * item:
                following = b + (p + deep) * down
                ahead = min(depth, k - p - deep)
            if k * down < SLAB_BYTES:
                ahead = 0
            columns_of_tiles(
                table, m, deep, a + p * a_down, a_right, a_down, b + p * down + j, down,
                alpha, factor, c + j, ldc * item, following, ahead,
            )  # fmt: skip
            j += TILE_BYTES
        factor = table + 8 * w.GEMM_ONE
        p += deep
    if wide < n:
        others = table[OTHERS]
        call_gemm(
            others[w.GEMM_ENTRY], others, ta, 0, m, n - wide, k,
            alpha, a, lda, b + wide * item, ldb, beta, c + wide * item, ldc,
        )  # fmt: skip


def columns_of_tiles(
    table, m, depth, a, a_right, a_down, b, b_pitch, alpha, beta, c, c_pitch, following, ahead,
) -> None:  # fmt: skip
    """As many columns of C as a tile has. Meanwhile `ahead` rows of B from `following` on come into the cache."""
    tiles = up(m, ROWS)
    while tiles > 0:
        rows = up(m, tiles)
        fetched = min(depth, up(ahead, tiles))
        function = table[FUNCTIONS + rows - LEAST_HEIGHT]
        call_twelve(function, depth, a, a_right, a_down, b, b_pitch, alpha, beta, c, c_pitch, following, fetched)
        a += rows * a_right
        c += rows * c_pitch
        m -= rows
        following += fetched * b_pitch
        ahead -= fetched
        tiles -= 1


def up(x, y) -> int:
    """x / y, rounded up."""
    return (x + y - 1) // y
