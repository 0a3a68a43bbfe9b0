"""functad's own product of windows, for processors with AVX2: in which order tiles are made.

Written in the language of `compile.integer_compiler`, like `gemm_panels`. It must not know how a tile is made: that is
in `gemm_vectors`, whose functions it calls by address.
"""

# ruff: noqa: F821
# mypy: ignore-errors
from __future__ import annotations

from functad import machine_model
from functad.backends.cpu.runtime import layout as w

EXPORTS = ("multiply_windows",)
# A tile of C, which the processor keeps in 12 of its 16 registers: 6 rows of two vectors of 32 bytes.
ROWS, VECTOR_BYTES = machine_model.WINDOW_TILE_ROWS, machine_model.WINDOW_VECTOR_BYTES
# So many terms at a time.
DEPTH = machine_model.PANEL_DEPTH

# The words of a handle (`blas.handle`) go on with those of its table:
FUNCTIONS = w.GEMM_HANDLE_SIZE  # addresses of functions of `gemm_vectors`, for heights from 1 to ROWS


def multiply_windows(handle, rows, vectors, terms, table, places, x, a, lda, added, c, ldc) -> None:
    """C = A times windows of X, as `in_kernels.gemm_windows_f32`, for so many terms at a time that they stay near."""
    item = handle[w.GEMM_ITEM]
    parts = up(terms, DEPTH)
    depth = up(terms, parts)
    t = 0
    while t < terms:
        rows_of_windows(
            handle, rows, vectors, min(depth, terms - t), table + 8 * t, places, x, a + item * t, item * lda,
            c, item * ldc, added + t,
        )  # fmt: skip
        t += depth


def rows_of_windows(handle, rows, vectors, depth, table, places, x, a, a_pitch, c, c_pitch, added) -> None:
    """Tiles as even as can be, each with all vectors; added: 0 if their sums begin here."""
    item = handle[w.GEMM_ITEM]
    tiles = up(rows, ROWS)
    while tiles > 0:
        height = up(rows, tiles)
        function = handle[FUNCTIONS + height - 1]
        v = 0
        while v < vectors:
            # The last of an odd number is computed twice.
            other = min(v + 1, vectors - 1)
            call_ten(
                function, depth, table, x + item * places[2 * v], x + item * places[2 * other], a, a_pitch,
                c + item * places[2 * v + 1], c + item * places[2 * other + 1], c_pitch, added,
            )  # fmt: skip
            v += 2
        a += height * a_pitch
        c += height * c_pitch
        rows -= height
        tiles -= 1


def up(x, y) -> int:
    """x / y, rounded up."""
    return (x + y - 1) // y
