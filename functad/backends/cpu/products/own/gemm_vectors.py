"""The inner loops of functad's own matrix product, as LLVM IR on vectors: packing panels, multiplying them.

A panel holds a strip of a matrix the way the multiplication reads it: for each p of the sum, the strip's elements side
by side. This file must not know in which order panels are made and multiplied (`gemm_panels`). It never imports Numba.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

from functad.backends.cpu.compile.target import emitted, target_machine
from functad.backends.cpu.products.own import gemm_direct, gemm_thin, gemm_windows
from functad.backends.cpu.products.own.gemm_code import BYTE_POINTER, VECTOR_BYTES, WORD, Code, word
from functad.backends.cpu.products.own.gemm_panels import DEPTH_UNIT, FEW_ROWS, ROWS, TILE_BYTES
from functad.backends.cpu.scalars.register_squares import columns_of_square

_VECTORS = TILE_BYTES // VECTOR_BYTES


def compile_vectors(dtype: np.dtype[Any]) -> bytes:
    """The object file of the functions that `gemm_panels` calls, for float32 or float64. Their parameters are words."""
    code = Code(ir.FloatType() if dtype == np.float32 else ir.DoubleType(), dtype.itemsize)
    # Unrolling takes time to compile: only the function that does most of the work is worth much of it.
    _multiply(code, "multiply_rows", ROWS, _VECTORS, unrolled=4)
    _multiply(code, "multiply_and_pack", ROWS, _VECTORS, unrolled=4, packs=True)
    _multiply(code, "multiply_half", ROWS, _VECTORS // 2, unrolled=2)
    _multiply(code, "multiply_few_rows", FEW_ROWS, _VECTORS, unrolled=2)
    _copy(code, "copy_rows", ROWS)
    _copy(code, "copy_columns", TILE_BYTES // dtype.itemsize)
    _copy_part(code, "copy_part_rows", ROWS)
    _copy_part(code, "copy_part_columns", TILE_BYTES // dtype.itemsize)
    _transpose(code)
    _copy_any(code)
    _merge(code)
    # It is written as the processor shall run it: LLVM's passes would find nothing to do but take their time.
    return emitted(target_machine(), llvm.parse_assembly(str(code.module)))


def compile_direct(dtype: np.dtype[Any]) -> bytes:
    """The object file of the functions that `gemm_direct` calls, one for each height of a tile."""
    code = Code(ir.FloatType() if dtype == np.float32 else ir.DoubleType(), dtype.itemsize)
    for rows in range(gemm_direct.LEAST_HEIGHT, gemm_direct.ROWS + 1):
        _multiply_direct(code, f"multiply_direct_{rows}", rows)
    return emitted(target_machine(), llvm.parse_assembly(str(code.module)))


def compile_thin(dtype: np.dtype[Any]) -> bytes:
    """The object file of the functions that `gemm_thin` calls, one for each height of a tile."""
    code = Code(ir.FloatType() if dtype == np.float32 else ir.DoubleType(), dtype.itemsize)
    for rows in gemm_thin.HEIGHTS:
        _multiply_thin(code, f"multiply_thin_{rows}", rows)
    _transpose(code)
    _copy_any(code)
    return emitted(target_machine(), llvm.parse_assembly(str(code.module)))


def compile_places(dtype: np.dtype[Any]) -> bytes:
    """The object file of `multiply_places`, through which kernel text calls `gemm_scalars.gemm_places`."""
    code = Code(ir.FloatType() if dtype == np.float32 else ir.DoubleType(), dtype.itemsize)
    _multiply_places(code)
    return emitted(target_machine(), llvm.parse_assembly(str(code.module)))


def compile_windows(dtype: np.dtype[Any]) -> bytes:
    """The object file of the functions that `gemm_windows` calls, one for each height of a tile."""
    scalar = ir.FloatType() if dtype == np.float32 else ir.DoubleType()
    code = Code(scalar, dtype.itemsize, gemm_windows.VECTOR_BYTES)
    for rows in range(1, gemm_windows.ROWS + 1):
        _multiply_windows(code, f"multiply_windows_{rows}", rows)
    return emitted(target_machine(), llvm.parse_assembly(str(code.module)))


def _multiply(code: Code, name: str, rows: int, vectors: int, unrolled: int, packs: bool = False) -> None:
    """A tile of C, or a part of it, from a panel of A and one of B: C = alpha A B + beta C; only written if beta is 0.

    It stays in registers while `depth` products are summed. Meanwhile the caches are told what comes next: the tile's
    rows in C, and rows of memory from `fetch` on that the caller will need soon.

    a_pitch: from one row of A's panel to the next; A may be a part of a matrix, too, which is read where it lies.
    packs: B is not a panel, its rows are `b_pitch` apart, and on the way they are written to `panel`.
    """
    parameters = "depth a a_pitch b alpha beta c c_pitch fetch fetch_pitch" + (" b_pitch panel" if packs else "")
    depth, a, a_pitch, b, alpha, beta, c, c_pitch, fetch, fetch_pitch, *packing = code.begin(name, parameters)
    builder, item = code.builder, code.item
    places = [c]
    for _ in range(rows - 1):
        places.append(builder.add(places[-1], c_pitch))

    def read(b: ir.Value, step: int, panel: Sequence[ir.Value]) -> list[ir.Value]:
        offsets = [(step * _VECTORS + v) * VECTOR_BYTES for v in range(vectors)]
        if not packs:
            return [code.load(code.offset(b, offset), code.vector, VECTOR_BYTES) for offset in offsets]
        row = builder.add(b, builder.mul(packing[0], word(step)))
        found = [code.load(code.offset(row, v * VECTOR_BYTES), code.vector) for v in range(vectors)]
        for offset, value in zip(offsets, found):
            code.store(value, code.offset(panel[0], offset))
        return found

    def body(
        i: ir.Value, a: ir.Value, b: ir.Value, fetch: ir.Value, row: ir.Value, *others: ir.Value
    ) -> list[ir.Value]:
        tile, panel = list(others[: rows * vectors]), others[rows * vectors :]
        code.prefetch(fetch, TILE_BYTES)
        code.prefetch(row, TILE_BYTES)
        for step in range(unrolled):
            rights = read(b, step, panel)
            for r in range(rows):
                left = code.everywhere(code.load(code.offset(a, r * item), code.scalar))
                for v in range(vectors):
                    tile[r * vectors + v] = code.fma(left, rights[v], tile[r * vectors + v])
            a = builder.add(a, a_pitch)
        # Below the tile the prefetching stays at its last row.
        down = builder.select(builder.icmp_signed("<", i, word(rows - 1)), c_pitch, word(0))
        b = builder.add(b, builder.mul(packing[0], word(unrolled)) if packs else word(unrolled * TILE_BYTES))
        next_panel = [code.offset(place, unrolled * TILE_BYTES) for place in panel]
        return [a, b, builder.add(fetch, fetch_pitch), builder.add(row, down), *tile, *next_panel]

    zero = ir.Constant(code.vector, [ir.Constant(code.scalar, 0.0)] * code.vector.count)
    steps = builder.udiv(depth, word(unrolled))
    sums = code.loop(steps, body, a, b, fetch, c, *[zero] * (rows * vectors), *packing[1:])[4:]
    targets = [code.offset(place, v * VECTOR_BYTES) for place in places for v in range(vectors)]
    _store_tile(code, sums, targets, alpha, code.load(beta, code.scalar))
    builder.ret_void()


def _store_tile(
    code: Code, sums: Sequence[ir.Value], targets: Sequence[ir.Value], alpha: ir.Value, factor: ir.Value
) -> None:
    """The vectors at the targets become alpha sums + factor C; they are only written if the factor is 0."""
    builder = code.builder
    alphas, betas = code.everywhere(code.load(alpha, code.scalar)), code.everywhere(factor)
    with builder.if_else(builder.fcmp_ordered("==", factor, ir.Constant(code.scalar, 0.0))) as (fresh, added):
        with fresh:
            for value, target in zip(sums, targets):
                code.store(builder.fmul(alphas, value), target)
        with added:
            for value, target in zip(sums, targets):
                old = builder.fmul(betas, code.load(target, code.vector))
                code.store(code.fma(alphas, value, old), target)


def _multiply_direct(code: Code, name: str, rows: int) -> None:
    """A tile of C from matrices where they lie: C = alpha A B + beta C; only written if beta is 0.

    Element p of A's row r lies p a_down + r a_right from where the tile's rows begin; row p of B lies p b_pitch down.
    Meanwhile, `fetched` rows of B from `fetch` on come into the second cache. The loops are short: unrolled, they took
    longer to begin, and no less for each term.
    """
    depth, a, a_right, a_down, b, b_pitch, alpha, beta, c, c_pitch, fetch, fetched = code.begin(
        name, "depth a a_right a_down b b_pitch alpha beta c c_pitch fetch fetched"
    )
    builder, offsets = code.builder, range(0, gemm_direct.TILE_BYTES, VECTOR_BYTES)
    lefts, places = [a], [c]
    for _ in range(rows - 1):
        lefts.append(builder.add(lefts[-1], a_right))
        places.append(builder.add(places[-1], c_pitch))
    targets = [code.offset(place, offset) for place in places for offset in offsets]
    factor = code.load(beta, code.scalar)
    # What is added to may lie in memory; what is only written need not be waited for.
    with builder.if_then(builder.fcmp_unordered("!=", factor, ir.Constant(code.scalar, 0.0))):
        for target in targets:
            code.prefetch_line(target, to_write=True)

    def body(_: ir.Value, down: ir.Value, b: ir.Value, *sums: ir.Value) -> list[ir.Value]:
        rights = [code.load(code.offset(b, offset), code.vector) for offset in offsets]
        tile = _with_term(code, lefts, down, rights, sums)
        return [builder.add(down, a_down), builder.add(b, b_pitch), *tile]

    def fetching(i: ir.Value, fetch: ir.Value, *others: ir.Value) -> list[ir.Value]:
        for offset in offsets:
            code.prefetch_line(code.offset(fetch, offset), cache=2)
        return [builder.add(fetch, b_pitch), *body(i, *others)]

    zero = ir.Constant(code.vector, [ir.Constant(code.scalar, 0.0)] * code.vector.count)
    values = code.loop(fetched, fetching, fetch, word(0), b, *[zero] * len(targets))[1:]
    sums = code.loop(builder.sub(depth, fetched), body, *values)[2:]
    _store_tile(code, sums, targets, alpha, factor)
    builder.ret_void()


def _with_term(
    code: Code, lefts: Sequence[ir.Value], down: ir.Value, rights: Sequence[ir.Value], sums: Sequence[ir.Value]
) -> list[ir.Value]:
    """The sums of a tile, row by row, and a term: elements `down` from the starts of rows, times vectors."""
    added = []
    for r, row in enumerate(lefts):
        left = code.everywhere(code.load(code.builder.add(row, down), code.scalar))
        added += [code.fma(left, right, sums[r * len(rights) + v]) for v, right in enumerate(rights)]
    return added


def _multiply_thin(code: Code, name: str, rows: int) -> None:
    """Rows of C, `size` bytes of each, tile by tile: C = alpha A B + beta C; only written if beta is 0.

    Element p of A's row r lies p a_down + r a_right from where the rows begin; B is packed, for one tile after another.
    The last tile ends where the rows do, wherever it begins. streamed: if not 0, tiles are cache lines of C, which is
    only written, past the caches.
    """
    size, depth, a, a_right, a_down, packed, alpha, beta, c, c_pitch, streamed = code.begin(
        name, "size depth a a_right a_down packed alpha beta c c_pitch streamed"
    )
    builder, tile_bytes = code.builder, gemm_thin.TILE_BYTES
    offsets = range(0, tile_bytes, VECTOR_BYTES)
    lefts, places = [a], [c]
    for _ in range(rows - 1):
        lefts.append(builder.add(lefts[-1], a_right))
        places.append(builder.add(places[-1], c_pitch))
    factor = code.load(beta, code.scalar)
    last = builder.sub(size, word(tile_bytes))
    zero = ir.Constant(code.vector, [ir.Constant(code.scalar, 0.0)] * code.vector.count)

    def term(_: ir.Value, down: ir.Value, b: ir.Value, *sums: ir.Value) -> list[ir.Value]:
        rights = [code.load(code.offset(b, offset), code.vector) for offset in offsets]
        added = _with_term(code, lefts, down, rights, sums)
        return [builder.add(down, a_down), code.offset(b, tile_bytes), *added]

    def tile(_: ir.Value, start: ir.Value, b: ir.Value) -> list[ir.Value]:
        along = builder.select(builder.icmp_signed("<", start, last), start, last)
        _, b, *sums = code.loop(depth, term, word(0), b, *[zero] * (rows * len(offsets)))
        targets = [code.offset(builder.add(place, along), offset) for place in places for offset in offsets]
        with builder.if_else(passes) as (past, through):
            with past:
                for value, target in zip(sums, targets):
                    code.stream(builder.fmul(alphas, value), target)
            with through:
                _store_tile(code, sums, targets, alpha, factor)
        return [code.offset(start, tile_bytes), b]

    passes, alphas = builder.icmp_signed("!=", streamed, word(0)), code.everywhere(code.load(alpha, code.scalar))
    tiles = builder.udiv(code.offset(size, tile_bytes - 1), word(tile_bytes))
    code.loop(tiles, tile, word(0), packed)
    with builder.if_then(passes):
        builder.call(code.declared("llvm.x86.sse.sfence", ir.VoidType(), []), [])
    builder.ret_void()


def _multiply_places(code: Code) -> None:
    """A tile of as many rows as there is a function for."""
    functions = {
        rows: _multiply_pixels(code, f"multiply_places_{rows}", rows, unrolled=4)
        for rows in (ROWS, 2 * FEW_ROWS, FEW_ROWS)
    }
    _, rows, _, *rest = code.begin(
        "multiply_places", "handle rows n taps features places pitch a zeros b c ldc ahead step"
    )
    builder = code.builder
    after = builder.append_basic_block()
    choice = builder.switch(rows, after)
    for height, function in functions.items():
        choice.add_case(word(height), block := builder.append_basic_block())
        builder.position_at_end(block)
        builder.call(function, rest)
        builder.branch(after)
    builder.position_at_end(after)
    builder.ret_void()


def _multiply_pixels(code: Code, name: str, rows: int, unrolled: int) -> ir.Function:
    """A tile of sums over taps and features, where row r of A for tap t begins at place t pitch + r; below 0 are zeros.

    As in `_multiply`, it stays in registers, and the caches are told what comes next.
    """
    taps, features, places, pitch, a, zeros, b, c, ldc, ahead, fetch_step = code.begin(
        name, "taps features places pitch a zeros b c ldc ahead step"
    )
    builder, item, vectors = code.builder, code.item, _VECTORS
    function = builder.function
    c_pitch = builder.mul(ldc, word(item))
    targets = [c]
    for _ in range(rows - 1):
        targets.append(builder.add(targets[-1], c_pitch))

    def tap(
        t: ir.Value, place: ir.Value, b: ir.Value, fetch: ir.Value, row: ir.Value, *sums: ir.Value
    ) -> list[ir.Value]:
        lefts = []
        for r in range(rows):
            number = code.load(code.offset(place, 8 * r), WORD, 8)
            there = builder.add(a, builder.mul(number, word(item)))
            chosen = builder.select(builder.icmp_signed("<", number, word(0)), zeros, there)
            lefts.append(builder.inttoptr(chosen, BYTE_POINTER))

        def body(
            i: ir.Value, along: ir.Value, b: ir.Value, fetch: ir.Value, row: ir.Value, *sums: ir.Value
        ) -> list[ir.Value]:
            tile = list(sums)
            code.prefetch_line(fetch)
            for v in range(vectors):
                code.prefetch_line(code.offset(row, v * VECTOR_BYTES), to_write=True)
            for step in range(unrolled):
                rights = [
                    code.load(code.offset(b, (step * vectors + v) * VECTOR_BYTES), code.vector) for v in range(vectors)
                ]
                for r in range(rows):
                    address = builder.gep(lefts[r], [code.offset(along, step * item)])
                    element = builder.load(builder.bitcast(address, code.scalar.as_pointer()), align=item)
                    left = code.everywhere(element)
                    for v in range(vectors):
                        tile[r * vectors + v] = code.fma(left, rights[v], tile[r * vectors + v])
            row = builder.select(builder.icmp_unsigned("<", row, targets[-1]), builder.add(row, c_pitch), row)
            return [
                code.offset(along, unrolled * item), code.offset(b, unrolled * TILE_BYTES),
                builder.add(fetch, fetch_step), row, *tile,
            ]  # fmt: skip

        steps = builder.udiv(features, word(unrolled))
        values = code.loop(steps, body, word(0), b, fetch, row, *sums)[1:]
        return [builder.add(place, builder.mul(pitch, word(8))), *values]

    zero = ir.Constant(code.vector, [ir.Constant(code.scalar, 0.0)] * code.vector.count)
    sums = code.loop(taps, tap, places, b, ahead, c, *[zero] * (rows * vectors))[4:]
    for r, target in enumerate(targets):
        for v in range(vectors):
            code.store(sums[r * vectors + v], code.offset(target, v * VECTOR_BYTES))
    builder.ret_void()
    return function


def _multiply_windows(code: Code, name: str, rows: int) -> None:
    """A tile of two vectors of C for `rows` rows of A: sums of elements of A times vectors of X, each as far as the
    table says of a term from where the windows of the vector begin. added: 0 if C is only written.

    Both vectors are read before they are written: they may have elements in common.
    """
    terms, table, first, second, a, a_pitch, c, other_c, c_pitch, added = code.begin(
        name, "terms table first second a a_pitch c other_c c_pitch added"
    )
    builder, item = code.builder, code.item
    lefts, downs = [a], [word(0)]
    for _ in range(rows - 1):
        lefts.append(builder.add(lefts[-1], a_pitch))
        downs.append(builder.add(downs[-1], c_pitch))

    def body(term: ir.Value, *sums: ir.Value) -> list[ir.Value]:
        place = builder.mul(code.load(builder.add(table, builder.mul(term, word(8))), WORD, 8), word(item))
        rights = [code.load(builder.add(start, place), code.vector) for start in (first, second)]
        return _with_term(code, lefts, builder.mul(term, word(item)), rights, sums)

    targets = [builder.add(start, down) for down in downs for start in (c, other_c)]
    zero = ir.Constant(code.vector, [ir.Constant(code.scalar, 0.0)] * code.vector.count)
    begin = builder.block
    with builder.if_then(builder.icmp_signed("!=", added, word(0))):
        old, there = [code.load(target, code.vector) for target in targets], builder.block
    starts = [builder.phi(code.vector) for _ in targets]
    for start, value in zip(starts, old):
        start.add_incoming(zero, begin)
        start.add_incoming(value, there)
    for value, target in zip(code.loop(terms, body, *starts), targets):
        code.store(value, target)
    builder.ret_void()


def _copy(code: Code, name: str, width: int) -> None:
    """`depth` rows of a panel of that width, which lie in memory as they lie in the panel."""
    depth, source, pitch, panel = code.begin(name, "depth source pitch panel")
    vector = code.vector if width % code.vector.count == 0 else ir.VectorType(code.scalar, width)
    size = vector.count * code.item

    def body(_: ir.Value, source: ir.Value, panel: ir.Value) -> list[ir.Value]:
        for place in range(0, width * code.item, size):
            code.store(code.load(code.offset(source, place), vector), code.offset(panel, place))
        return [code.builder.add(source, pitch), code.offset(panel, width * code.item)]

    code.loop(depth, body, source, panel)
    code.builder.ret_void()


def _transpose(code: Code) -> None:
    """`depth` * DEPTH_UNIT rows of a panel `width` * DEPTH_UNIT wide, whose columns are rows in memory."""
    size = DEPTH_UNIT
    depth, width, source, pitch, panel, panel_pitch = code.begin(
        "transpose", "depth width source pitch panel panel_pitch"
    )
    builder = code.builder
    square = ir.VectorType(code.scalar, size)

    def strip(_: ir.Value, source: ir.Value, panel: ir.Value) -> list[ir.Value]:
        rows = [source]
        for _row in range(size - 1):
            rows.append(builder.add(rows[-1], pitch))

        def body(_: ir.Value, along: ir.Value, place: ir.Value) -> list[ir.Value]:
            for row in columns_of_square(builder, [code.load(builder.add(row, along), square) for row in rows]):
                code.store(row, place)
                place = builder.add(place, panel_pitch)
            return [code.offset(along, size * code.item), place]

        code.loop(depth, body, word(0), panel)
        return [builder.add(rows[-1], pitch), code.offset(panel, size * code.item)]

    code.loop(width, strip, source, panel)
    builder.ret_void()


def _copy_any(code: Code) -> None:
    """`depth` rows of a strip of a panel: for p < `deep` the element at p down + j right, else zero."""
    depth, width, deep, source, down, right, panel, panel_pitch = code.begin(
        "copy_any", "depth width deep source down right panel panel_pitch"
    )
    builder = code.builder

    def row(p: ir.Value, source: ir.Value, panel: ir.Value) -> list[ir.Value]:
        inside = builder.icmp_signed("<", p, deep)

        def element(_: ir.Value, source: ir.Value, place: ir.Value) -> list[ir.Value]:
            with builder.if_else(inside) as (there, beyond):
                with there:
                    code.store(code.load(source, code.scalar), place)
                with beyond:
                    code.store(ir.Constant(code.scalar, 0.0), place)
            return [builder.add(source, right), code.offset(place, code.item)]

        code.loop(width, element, source, panel)
        return [builder.add(source, down), builder.add(panel, panel_pitch)]

    code.loop(depth, row, source, panel)
    builder.ret_void()


def _copy_part(code: Code, name: str, width: int) -> None:
    """As `_copy`, but of each row only the first `wide` elements are read; the rest is zero."""
    depth, wide, source, pitch, panel = code.begin(name, "depth wide source pitch panel")
    pieces = code.pieces(width)
    masks = [code.first_lanes(wide, start, count) for start, count in pieces]

    def body(_: ir.Value, source: ir.Value, panel: ir.Value) -> list[ir.Value]:
        for (start, _count), mask in zip(pieces, masks):
            place = start * code.item
            code.store(code.load_masked(code.offset(source, place), mask), code.offset(panel, place))
        return [code.builder.add(source, pitch), code.offset(panel, width * code.item)]

    code.loop(depth, body, source, panel)
    code.builder.ret_void()


def _merge(code: Code) -> None:
    """C = tile + beta C for the part of a tile that lies within C; C is only written if beta is 0."""
    rows, columns, tile, beta, c, c_pitch = code.begin("merge", "rows columns tile beta c c_pitch")
    builder = code.builder
    factor = code.load(beta, code.scalar)
    fresh = builder.fcmp_ordered("==", factor, ir.Constant(code.scalar, 0.0))
    factors = code.everywhere(factor)
    pieces = [(v * code.vector.count, code.vector.count) for v in range(_VECTORS)]
    masks = [code.first_lanes(columns, start, count) for start, count in pieces]

    def row(_: ir.Value, tile: ir.Value, c: ir.Value) -> list[ir.Value]:
        places = [(code.offset(tile, start * code.item), code.offset(c, start * code.item)) for start, _ in pieces]
        with builder.if_else(fresh) as (written, added):
            with written:
                for (source, target), mask in zip(places, masks):
                    code.store_masked(code.load(source, code.vector), target, mask)
            with added:
                for (source, target), mask in zip(places, masks):
                    old = code.load_masked(target, mask)
                    code.store_masked(code.fma(factors, old, code.load(source, code.vector)), target, mask)
        return [code.offset(tile, TILE_BYTES), builder.add(c, c_pitch)]

    code.loop(rows, row, tile, c)
    builder.ret_void()
