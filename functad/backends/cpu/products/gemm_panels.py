"""functad's own matrix product for processors with AVX-512: in which order panels are packed and multiplied.

Written in the language of `compile.integer_compiler`, like `runtime.compiled`; all parameters are words. It must not
know how a panel is packed or multiplied: that is in `gemm_vectors`, whose functions it calls by address.

C has a longer and a shorter side. The operand of the shorter one is packed, in parts that stay in a core's second
cache; the operand of the longer one passes by, panel after panel. While a panel is multiplied, the next one is fetched
from memory and packed, slice by slice: so no time is spent waiting for a large matrix. A panel whose rows lie in memory
as they are multiplied is packed by the first tile that reads it, at no cost.
"""

# ruff: noqa: F821
# mypy: ignore-errors
from __future__ import annotations

from functad import machine_model
from functad.backends.cpu.runtime import layout as w

EXPORTS = ("multiply_packed", "multiply_or_pass")
# A tile of C, which the processor keeps in 24 of its 32 registers: 12 rows of two vectors of 64 bytes.
ROWS, TILE_BYTES = machine_model.TILE_ROWS, machine_model.TILE_BYTES
# A tile with fewer rows is made in parts of so many.
FEW_ROWS = machine_model.FEW_TILE_ROWS
# So many elements of a sum at a time, and always a multiple of the unit (zeros are added at the end).
DEPTH, DEPTH_UNIT = machine_model.PANEL_DEPTH, machine_model.PANEL_DEPTH_UNIT
RESIDENT_BYTES, PANEL_BYTES = machine_model.RESIDENT_BYTES, machine_model.PANEL_BYTES
NEAR_BYTES = machine_model.NEAR_BYTES

# What a caller needs room for: the resident operand (rounded up to a panel), two panels that pass by, a tile.
ROOM_PANELS = RESIDENT_BYTES + PANEL_BYTES
ROOM_TILE = ROOM_PANELS + 2 * PANEL_BYTES
ROOM_BYTES = ROOM_TILE + 4096

# The words of a handle (`blas.handle`) go on with those of its table:
TABLE = w.GEMM_HANDLE_SIZE
COLUMNS = TABLE  # of a tile
YIELD = TABLE + 1  # address of void yield()
ZERO = TABLE + 2  # 0 as an element
MULTIPLY_ROWS = TABLE + 3  # addresses of functions of `gemm_vectors`
MULTIPLY_AND_PACK = TABLE + 4  # the same, and pack the panel of B
MULTIPLY_HALF = TABLE + 5  # as many rows, but half the columns
MULTIPLY_FEW_ROWS = TABLE + 6
COPY_ROWS = TABLE + 7
COPY_COLUMNS = TABLE + 8
COPY_PART_ROWS = TABLE + 9
COPY_PART_COLUMNS = TABLE + 10
TRANSPOSE = TABLE + 11
COPY_ANY = TABLE + 12
MERGE = TABLE + 13
OTHERS = TABLE + 14  # address of the handle of who computes what has a short side
ROOM = TABLE + 15  # address of the first room
ROOMS = TABLE + 16  # how many there are
TAKEN = TABLE + 17  # then for each room: 1 if somebody uses it


def multiply_or_pass(
    table, ta, tb, m, n, k,
    alpha, a, lda, b, ldb, beta, c, ldc,
) -> None:  # fmt: skip
    """A product of any size: as `multiply_packed`, or by somebody else if that is faster."""
    if min(m, min(n, k)) >= machine_model.OWN_PRODUCT_EXTENT:
        multiply_packed(table, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
    else:
        others = table[OTHERS]
        call_gemm(others[w.GEMM_ENTRY], others, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)


def multiply_packed(
    table, ta, tb, m, n, k,
    alpha, a, lda, b, ldb, beta, c, ldc,
) -> None:  # fmt: skip
    """C[m, n] = alpha op(A)[m, k] op(B)[k, n] + beta C as `gemm_runtime.gemm`; k must not be 0."""
    item = table[w.GEMM_ITEM]
    # Element p of the sums' j-th row or column lies p down + j right from where the operand begins.
    a_down = item if ta == 0 else item * lda
    a_right = item if ta == 1 else item * lda
    b_down = item if tb == 1 else item * ldb
    b_right = item if tb == 0 else item * ldb
    depth = rounded(up(k, up(k, DEPTH)), DEPTH_UNIT)
    tall = 1 if m >= n else 0
    extent = min(m, n)
    part = rounded(up(extent, up(extent * depth * item, RESIDENT_BYTES)), table[COLUMNS] if tall == 1 else ROWS)
    number = take_room(table)
    room = table[ROOM] + number * ROOM_BYTES
    start = 0
    while start < extent:
        size = min(part, extent - start)
        factor = beta
        p = 0
        while p < k:
            left = a + p * a_down
            right = b + p * b_down
            deep = min(depth, k - p)
            if tall == 1:
                right += start * b_right
                sweep(
                    table, room, 1, deep, alpha, factor, c + item * start, item * ldc,
                    size, right, b_down, b_right, m, left, a_down, a_right,
                )  # fmt: skip
            else:
                left += start * a_right
                sweep(
                    table, room, 0, deep, alpha, factor, c + item * ldc * start, item * ldc,
                    size, left, a_down, a_right, n, right, b_down, b_right,
                )  # fmt: skip
            factor = table + 8 * w.GEMM_ONE
            p += depth
        start += part
    store(table, TAKEN + number, 0)


def sweep(
    table, room, tall, depth, alpha, beta, c, pitch,
    size, resident, resident_down, resident_right, length, passing, down, right,
) -> None:  # fmt: skip
    """Add `depth` products to `size` columns (tall) or rows of C, which are `length` long."""
    item = table[w.GEMM_ITEM]
    padded = rounded(depth, DEPTH_UNIT)
    width = table[COLUMNS] if tall == 1 else ROWS
    step = ROWS if tall == 1 else table[COLUMNS]
    # Whether strips of A are read where they lie, and whether panels of B are packed by the first tile: if they have
    # all rows or columns, side by side, and no zeros are to be added.
    full = 1 if padded == depth else 0
    lies = full if a_lies(tall, item, resident_down, resident_right, down, right) == 1 else 0
    itself = full if tall == 0 and right == item and size >= ROWS else 0
    # What lies there is packed only where a strip is not full.
    packed = size // ROWS * ROWS if tall == 0 and lies == 1 else 0
    pack_strips(table, width, packed, depth, size, resident, resident_down, resident_right, room)
    slice = rounded(up(padded, up(size, width)), DEPTH_UNIT)
    panel = room + ROOM_PANELS
    spare = panel + PANEL_BYTES
    # Other panels are packed before anything is multiplied with them: the first one at once, each of the others during
    # the one before it.
    i = 0 - step
    while i < length:
        wide = min(step, length - i - step)
        source = passing + (i + step) * right
        packed = padded if wide <= 0 or (wide == step and (itself == 1 or (tall == 1 and lies == 1))) else 0
        fetched = 0 if wide > 0 else padded
        j = 0
        while j < size:
            if i >= 0:
                fetch = source + fetched * down if fetched < padded else room
                fetch_pitch = down + right - item if fetched < padded else 0
                rows = min(step, length - i) if tall == 1 else min(width, size - j)
                columns = min(width, size - j) if tall == 1 else min(step, length - i)
                strip = room + item * padded * j
                left = panel if tall == 1 else strip
                left_pitch = ROWS * item
                if lies == 1 and rows == ROWS:
                    left = passing + i * right if tall == 1 else resident + j * resident_right
                    left_pitch = down if tall == 1 else resident_down
                target = c + i * pitch + j * item if tall == 1 else c + j * pitch + i * item
                if itself == 1 and j == 0 and columns == step:
                    call_twelve(
                        table[MULTIPLY_AND_PACK], padded, left, left_pitch, passing + i * right, alpha, beta,
                        target, pitch, fetch, fetch_pitch, down, panel,
                    )  # fmt: skip
                else:
                    multiply_tile(
                        table, rows, columns, padded, alpha, left, left_pitch, strip if tall == 1 else panel,
                        beta, target, pitch, fetch, fetch_pitch, room + ROOM_TILE,
                    )  # fmt: skip
            if packed < padded:
                pack(table, step, packed, min(packed + slice, padded), depth, wide, source, down, right, spare)
            packed += slice
            fetched += slice
            j += width
        other = spare
        spare = panel
        panel = other
        i += step


def pack_strips(table, width, start, depth, size, source, down, right, room) -> None:
    """The operand that stays, from element `start` of its `size` on, in strips of `width`."""
    padded = rounded(depth, DEPTH_UNIT)
    while start < size:
        target = room + table[w.GEMM_ITEM] * padded * start
        pack(table, width, 0, padded, depth, min(width, size - start), source + start * right, down, right, target)
        start += width


def a_lies(tall, item, resident_down, resident_right, down, right) -> int:
    """Whether A's strips lie in memory so that a tile may read them there: its rows side by side, not far apart."""
    if tall == 1:
        return 1 if right == item and down <= NEAR_BYTES else 0
    return 1 if resident_right == item and resident_down <= NEAR_BYTES else 0


def multiply_tile(table, rows, columns, depth, alpha, a, a_pitch, b, beta, c, pitch, fetch, fetch_pitch, edge) -> None:
    """One tile of C, or the part of it that lies within C."""
    width = table[COLUMNS]
    function = table[MULTIPLY_ROWS]
    height = ROWS
    if rows <= 2 * FEW_ROWS:
        function = table[MULTIPLY_FEW_ROWS]
        height = FEW_ROWS
    elif columns <= width // 2:
        function = table[MULTIPLY_HALF]
        width = width // 2
    while rows > 0:
        if rows >= height and columns == width:
            call_ten(function, depth, a, a_pitch, b, alpha, beta, c, pitch, fetch, fetch_pitch)
        else:
            # What would lie beyond C is computed elsewhere.
            call_ten(function, depth, a, a_pitch, b, alpha, table + 8 * ZERO, edge, TILE_BYTES, fetch, fetch_pitch)
            call_six(table[MERGE], min(rows, height), columns, edge, beta, c, pitch)
        a += height * table[w.GEMM_ITEM]
        c += height * pitch
        rows -= height


def pack(table, width, start, stop, depth, wide, source, down, right, panel) -> None:
    """Rows `start..stop` of a panel, which has `depth` rows of `wide` elements; rows below them are zero.

    What lies right of them is zero, too, as far as a tile reads it. Nobody stores what it makes, but processors take
    a hundred times as long for a product of denormal numbers, which memory may hold.
    """
    item = table[w.GEMM_ITEM]
    row = item * width
    rows = min(stop, depth) - start
    if rows > 0 and right != item:
        read = width
        if width == ROWS and wide <= 2 * FEW_ROWS:
            read = rounded(wide, FEW_ROWS)
        if wide < read:
            beyond = panel + start * row + wide * item
            call_eight(table[COPY_ANY], rows, read - wide, 0, source, down, right, beyond, row)
    if rows > 0 and right == item:
        if wide == width:
            copy = table[COPY_ROWS] if width == ROWS else table[COPY_COLUMNS]
            call_kernel(copy, rows, source + start * down, down, panel + start * row)
        else:
            copy = table[COPY_PART_ROWS] if width == ROWS else table[COPY_PART_COLUMNS]
            call_five(copy, rows, wide, source + start * down, down, panel + start * row)
        start += rows
    elif rows > 0 and down == item:
        squares = rows // DEPTH_UNIT
        strips = wide // DEPTH_UNIT
        call_six(table[TRANSPOSE], squares, strips, source + start * down, right, panel + start * row, row)
        if strips * DEPTH_UNIT < wide:
            call_eight(
                table[COPY_ANY], squares * DEPTH_UNIT, wide - strips * DEPTH_UNIT, depth - start,
                source + start * down + strips * DEPTH_UNIT * right, down, right,
                panel + start * row + strips * DEPTH_UNIT * item, row,
            )  # fmt: skip
        start += squares * DEPTH_UNIT
    if start < stop:
        call_eight(
            table[COPY_ANY], stop - start, wide, depth - start, source + start * down, down, right,
            panel + start * row, row,
        )  # fmt: skip


def take_room(table) -> int:
    """Wait for a room that nobody uses, and take it."""
    while 1 == 1:
        for number in range(table[ROOMS]):
            if load(table, TAKEN + number) == 0 and claim(table, TAKEN + number, 0, 1) == 1:
                return number
        call_nothing(table[YIELD])


def up(x, y) -> int:
    """x / y, rounded up."""
    return (x + y - 1) // y


def rounded(x, unit) -> int:
    """The first multiple of the unit from x on."""
    return up(x, unit) * unit
