"""Checks of what has an order on CUDA: values that are carried along, updates of one place, and sorts.

The interpreter is the reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any
from unittest.mock import patch

import numpy as np
from cuda_check_tools import agree, check_modes, checks_of, numbers, rng, run
from fuzz.check import changed
from primitive_form_tools import Together, compare

import functad
import functad.numpy as jnp
from functad import lax
from functad.backends.cuda.kernels import sorting
from functad.backends.cuda.lowering import THREADS
from functad.dtypes import as_dtype


def check_what_is_carried() -> None:
    """Along rows, columns and an axis between, both ways, and with what is computed before and after."""
    x = numbers("float32", 3, 5, 2).astype(np.float32)
    together = Together()
    for axis in range(3):
        together.add(f"before and after, {axis}", lambda x, a=axis: [jnp.cumsum(x * 2, a) + 1], [x])
        together.add(f"from the end, {axis}", lambda x, a=axis: [lax.cummax(x, a, reverse=True)], [x])
    together.add("complex", lambda x: [jnp.cumprod(x, 0)], [np.array([np.inf, 1, 2 - 1j], np.complex64)])
    together.add("zeros", lambda x: [1 / jnp.cumsum(x)], [np.full(3, -0.0, np.float32)])
    run(together)


def check_unique_indices_need_no_owners() -> None:
    """Each update is a thread's of its own where they are said not to meet; not where they are moved into bounds."""
    x, at = numbers("float32", 12).astype(np.float32), np.array([3, 0, 11, 7, 40], np.int32)
    with changed({"ELEMENTS_WORTH_THREADS": 1, "CUDA_PIECES": 4}):
        for mode, is_apart in (("drop", True), ("clip", False)):
            for unique in (False, True):

                def put(x: Any, at: Any, mode: str = mode, unique: bool = unique) -> Any:
                    return x.at[at].add(x[:5] + 1, mode=mode, unique_indices=unique)

                agree(put, x, at)
                kernels = str(functad.jit(put, backend="cuda").lower(x, at).kernels)
                looked_at_by_all = "owner_here" in kernels or "cuda.shared.array" in kernels
                assert looked_at_by_all is not (unique and is_apart), kernels


def check_updates_in_any_order() -> None:
    """Of whole numbers, which come to the same, and of floats where that is asked for; all threads share them."""
    at, rows = np.array([3, 0, 3, 7, 40, 0], np.int32), np.arange(12).reshape(6, 2)

    def kernels(kind: str, x: np.ndarray, r: np.ndarray) -> str:
        def put(x: Any, r: Any) -> Any:
            return getattr(x.at[at], kind)(r)

        with changed({"ELEMENTS_WORTH_THREADS": 1, "CUDA_PIECES": 4}):
            agree(put, x, r)
            return str(functad.jit(put, backend="cuda").lower(x, r).kernels)

    for dtype in ("int32", "uint64", "int8", "float32", "float64", "float16"):
        values = rows.astype(dtype)
        for kind in ("add", "min", "max", "multiply", "set"):
            text = kernels(kind, np.full((9, 2), 7, dtype), values - values.dtype.type(kind != "set"))
            whole = dtype in ("int32", "uint64") and kind in ("add", "min", "max")
            owned = not whole and (kind == "add" or kind in ("min", "max") and dtype != "float16")
            assert ("cuda.atomic." in text) is whole and ("cuda.shared." in text) is owned, text
            with changed({"CUDA_OWNED_LOOKS": 0}):
                text = kernels(kind, np.full((9, 2), 7, dtype), values)
            assert ("owner_here" in text) is not whole, text
            with functad.config.context(cuda_atomics=True):
                text = kernels(kind, np.full((9, 2), 7, dtype), values)
            assert ("cuda.atomic." in text) is (whole or "float" in dtype and kind == "add"), text


def check_updates_of_owned_rows() -> None:
    """Several looks at updates, copies of rows, rows longer than a block; numbers that are no rows; ends of groups."""
    x, at = numbers("float32", 9, 5).astype(np.float32), rng.integers(-12, 12, 40).astype(np.int32)
    rows, sixes = (numbers("float32", 40, n).astype(np.float32) for n in (5, 6))
    wide, wider = (numbers("float32", n, 3 * THREADS).astype(np.float32) for n in (7, 40))
    with changed({"CUDA_OWNED_ITEMS": 3, "CUDA_OWNED_THREADS": 1, "CUDA_OWNED_LISTED": 4, "CUDA_UPDATES_AT_ONCE": 2}):
        for fun, args in (
            (lambda x, r: x.at[at].add(r * 2), (x, rows)),
            (lambda x, r: x.at[at].max(r[:, :1] * jnp.ones(5)), (x, rows)),
            (lambda x, r: x[:, 0].at[at].min(r[:, 0]), (x, rows)),
            (lambda x, r: x.at[at.reshape(8, 5)].add(r.reshape(8, 5, 5)), (x, rows)),
            (lambda x, r: (x + 1j).at[at].add(r * 1j), (x, rows)),
            (lambda x, r: x.astype(jnp.float16).at[at].add(r.astype(jnp.float16)), (x, rows)),
            (lambda x, r: x.at[at].add(r), (wide, wider)),
            (lambda x, r: x.reshape(9, 5, 1).at[at].add(r[:, :, None]), (x, rows)),
            (lambda x, r: jnp.zeros((9, 2, 3)).at[at].add(r.reshape(40, 3, 2).transpose(0, 2, 1)), (x, sixes)),
            (
                lambda x, r: jnp.zeros((9, 1, 2, 3)).at[at].max(r.reshape(40, 3, 2, 1).T.transpose(3, 0, 1, 2)),
                (x, sixes),
            ),
            (lambda x, r: jnp.zeros((3, 2)).at[at % 3, at % 2].add(r[:, 0]), (x, rows)),
            (functad.grad(lambda x, r: (x[at] * r).sum()), (x, rows)),
        ):
            agree(fun, *args)
            assert "found = cuda.shared" in str(functad.jit(fun, backend="cuda").lower(*args).kernels)


def check_rows_that_lie_side_by_side_are_shared_among_blocks() -> None:
    """Some rows side by side to each block, and then others farther on; the last block has fewer, or none."""
    at = rng.integers(-12, 12, 40).astype(np.int32)
    with changed({"CUDA_CORES": 1, "CUDA_OWNED_BLOCKS": 3}):
        for rows, length in ((9, 5), (12, 1), (7, 40), (33, 2)):
            x, r = (numbers("float32", n, length).astype(np.float32) for n in (rows, 40))
            for at_rows in (at, at % rows, np.full(40, rows - 1, np.int32)):
                agree(lambda x, r, at_rows=at_rows: x.at[at_rows].add(r), x, r)


def check_what_follows_updates_is_their_kernel() -> None:
    """With what lies there before; where others read it, too; where more is written than one."""
    at = np.array([3, 0, 3, 8, -1, 20, 3, 5, 5], np.int32)
    x, m, r = (numbers("float32", n, 5).astype(np.float32) for n in (9, 9, 9))

    def momentum(x: Any, m: Any, r: Any) -> Any:
        gradient = jnp.zeros_like(x).at[at].add(jnp.sin(r))
        rate = 0.1 / (1 + jnp.sum(r))
        m = 0.9 * m + gradient
        return x - rate * m, m

    def is_kept(x: Any, m: Any, r: Any) -> Any:
        y = x.at[at].max(r)
        return jnp.tanh(y) * m, y.sum(0)

    def embedding(x: Any, m: Any, r: Any) -> Any:
        return x - 0.1 * functad.grad(lambda x: jnp.sum(jnp.sin(x[at]) * r))(x)

    def is_overwritten(x: Any, m: Any, r: Any) -> Any:
        y = x.at[at].add(r) * 2
        return y.at[at].add(r) + 1, y.sum()

    for fun in (momentum, is_kept, embedding, is_overwritten):
        for donated in ((), (0, 1)):
            step = functad.jit(fun, backend="cuda", donate_argnums=donated)
            lowered = step.lower(x, m, r)
            text = str(lowered.kernels)
            assert text.count("\ndef ") == 2 + (fun is is_overwritten) and "start" in text or donated, text
            check_modes(lowered._lowered.generated)
            expected = functad.jit(fun, backend="interpreter")(x, m, r)
            got = step(x.copy(), m.copy(), r)
            for e, g in zip(*map(functad.tree_util.tree_leaves, (expected, got)), strict=True):
                compare(np.asarray(e), np.asarray(g), str(fun))


def check_updates_do_not_wait_for_what_reads_them_behind_convolutions() -> None:
    """Nor for what takes the memory of what they read."""
    at = np.array([3, 0, 3, 8, -1, 20, 3, 5, 5], np.int32)
    x, r, image, weights = (numbers("float32", *s).astype(np.float32) for s in ((9, 5), (9, 5), (1, 2, 9), (5, 2, 3)))

    def is_read(x: Any, r: Any, image: Any) -> Any:
        y = jnp.zeros_like(x).at[at].add(r)
        z = jnp.tanh(lax.conv_general_dilated(image, weights, (1,), "SAME")) + y.reshape(1, 5, 9)
        return z, y * jnp.sin(z[0, ::2, 1::3]).sum()

    def is_taken(x: Any, r: Any, image: Any) -> Any:
        z = jnp.tanh(lax.conv_general_dilated(image, weights, (1,), "SAME")) * r.reshape(1, 5, 9)
        return jnp.zeros_like(x).at[at].add(r) * z[0, ::2, 1::3].sum(), z

    for fun in (is_read, is_taken):
        expected = functad.jit(fun, backend="interpreter")(x, r, image)
        got = functad.jit(fun, backend="cuda", donate_argnums=(0, 1))(x.copy(), r.copy(), image)
        for e, g in zip(expected, got, strict=True):
            compare(np.asarray(e), np.asarray(g), str(fun))


def check_what_is_carried_by_many_blocks() -> None:
    """In one pass: both ways, all kinds, several loops, a last part that is short, more parts than a group has."""
    with changed({"CUDA_CARRIED_ITEMS": 2}):
        for n in (4 * THREADS, 5 * THREADS + 1, 10 * THREADS, 19 * THREADS + 1):
            x = numbers("float32", 2, n).astype(np.float32)
            whole = np.arange(-3, n - 3, dtype=np.int32)
            for fun, args in (
                (lambda x: jnp.cumsum(x[0] * 2) + x[1], (x,)),
                (lambda x: jnp.cumsum(x, 1), (x,)),
                (lambda x: (lax.cummax(x, 1, reverse=True), lax.cummin(jnp.sin(x[1]))), (x,)),
                (lambda x: lax.cumlogsumexp(x[1]), (x,)),
                (lambda w: (jnp.cumsum(w), jnp.cumprod(w)), (whole,)),
                (lambda x: jnp.cumsum(jnp.cumsum(x[0])), (x,)),
                (lambda x: jnp.cumsum(x[0].astype(jnp.float16)), (x,)),
                (lambda x: jnp.cumsum(x[0] + 1j * x[1]), (x,)),
                (lambda x: 1 / jnp.cumsum(x[0] * -0.0), (abs(x),)),
                (functad.grad(lambda x: (jnp.cumsum(x[0]) ** 2).sum()), (x,)),
            ):
                agree(fun, *args)
        n = 10 * THREADS
        kernels = str(functad.jit(jnp.cumsum, backend="cuda").lower(np.ones(n, np.float32)).kernels)
        assert "def clear_" in kernels and f"block: part < 5; thread: i < {n}" in kernels, kernels


def check_updates_that_are_sorted() -> None:
    """In their order by row, of all kinds, with what is computed in the nest, out of bounds, and in a loop."""
    x, rows = numbers("float32", 6, 3).astype(np.float32), numbers("float32", 8, 3).astype(np.float32)
    at, pairs = np.array([3, 0, 3, 5, 40, 0, -1, 3], np.int32), np.array([[0, 1], [5, 2], [0, 1], [9, 0]], np.int32)
    with changed({"CUDA_OWNED_LOOKS": 0, "CUDA_SORTED_UPDATES": 2, "CUDA_SORT_TILE": 4, "CUDA_SORT_ITEMS": 1}):
        for kind in ("add", "multiply", "min", "set"):
            agree(lambda x, r, k=kind: getattr(x.at[at], k)(jnp.sin(r) * 2), x, rows)
            agree(lambda x, r, k=kind: getattr(x[:, 0].at[at], k)(r[:, 1]), x, rows)
        agree(lambda x, r: x.at[pairs[:, 0], pairs[:, 1]].add(r[:4, 0], mode="clip"), x, rows)
        agree(lambda x, r: x.astype(jnp.float16).at[at].add(r), x, rows)
        agree(lambda x, r: x.at[at.reshape(2, 4)].add(r.reshape(2, 4, 3)), x, rows)
        agree(functad.grad(lambda x, r: (x[at] * r).sum()), x, rows)
        agree(lambda x, r: lax.fori_loop(0, 3, lambda k, c: c.at[at].add(r * 0.5), x), x, rows)
        kernels = str(functad.jit(lambda x, r: x.at[at].add(r), backend="cuda").lower(x, rows).kernels)
        assert "row_here" in kernels and "sort_tiles" in kernels and "owner_here" not in kernels, kernels


def check_many_updates_of_one_element() -> None:
    """Of segments of all lengths and places, longer than parts, parts of parts, and half of them."""
    lengths = [1, 2, 3, 4, 5, 8, 9, 17, 1, 23, 16, 3, 70]
    many = np.repeat(np.arange(len(lengths)), lengths).astype(np.int32)
    many = many[np.random.default_rng(0).permutation(many.size)]
    x, rows = numbers("float32", 14, 2).astype(np.float32), numbers("float32", many.size, 2).astype(np.float32)
    x[0], rows[3] = -0.0, np.nan
    tiny = {"CUDA_SORT_TILE": 64, "CUDA_SORT_ITEMS": 4, "CUDA_SEGMENT_PART": 4, "CUDA_SEGMENT_STEPS": 4}
    together = Together()
    for kind in ("add", "set"):
        together.add(f"rows, {kind}", lambda x, r, k=kind: [getattr(x.at[many], k)(r * 2)], [x, rows])
    for kind in ("add", "max", "multiply"):
        together.add(kind, lambda x, r, k=kind: [getattr(x.at[many], k)(r)], [x[:, 0], rows[:, 1]])
    together.add("complex", lambda x, r: [(x + 1j).at[many[:99]].add(r * 1j)], [x[:, 0], rows[:99, 1]])
    together.add("one element", lambda x, r: [x.astype(jnp.float16).at[many[:33] * 0].add(r)], [x[:, 0], rows[:33, 1]])
    with changed({"CUDA_OWNED_LOOKS": 0, "CUDA_SORTED_UPDATES": 2, **tiny}):
        run(together)
        kernels = str(functad.jit(lambda x, r: x.at[many].add(r), backend="cuda").lower(x, rows).kernels)
    assert kernels.count("def sum_parts_") == 3, kernels


def check_long_rows() -> None:
    """What many blocks share, compared with NumPy: of a million elements on a GPU; the same each time."""
    is_small = functad.devices("cuda")[0].driver.is_simulated
    n = 60 if is_small else 1 << 20
    x, whole = rng.normal(size=n).round(2).astype(np.float32), rng.integers(-9, 9, n).astype(np.int32)
    places = rng.integers(0, n, n).astype(np.int32)
    fun = functad.jit(
        lambda x, w, p: (
            jnp.sort(x), jnp.argsort(w, stable=True), jnp.sort(x[: n // 8].astype(jnp.float64)), jnp.cumsum(w),
            jnp.cumsum(x), lax.cummax(x, reverse=True), jnp.zeros(n, jnp.int32).at[p].add(w),
            jnp.zeros(n, jnp.float32).at[p].set(x), jnp.zeros(n, jnp.float32).at[p].add(w.astype(jnp.float32)),
        ),
        backend="cuda",
    )  # fmt: skip
    tiny = {
        "CUDA_OWNED_LOOKS": 0,
        "CUDA_SORTED_UPDATES": 2,
        "CUDA_CARRIED_ITEMS": 2,
        "CUDA_RADIX_BITS": 4,
        "CUDA_RADIX_ITEMS": 3,
        "CUDA_SORT_TILE": 8,
    }
    with changed(tiny if is_small else {}), functad.config.context(enable_x64=True):
        got, again = ([np.asarray(a) for a in fun(x, whole, places)] for _ in range(2))
    counts = np.zeros(n, np.int32)
    np.add.at(counts, places, whole)
    last = np.zeros(n, np.float32)
    last[places] = x
    expected = [
        np.sort(x), np.argsort(whole, kind="stable"), np.sort(x[: n // 8].astype(np.float64)), np.cumsum(whole),
        np.cumsum(x.astype(np.float64)), np.maximum.accumulate(x[::-1])[::-1], counts,
        last, counts.astype(np.float32),
    ]  # fmt: skip
    for k, (e, g, h) in enumerate(zip(expected, got, again, strict=True)):
        assert np.array_equal(g, h), f"result {k} differs from call to call"
        assert np.array_equal(e, g) if k != 4 else np.allclose(e, g, atol=1e-3 * n**0.5), f"result {k}"


# What is equal, or has no order of its own, and what lies at the ends of the order.
EDGES = [np.nan, 0.0, -0.0, 1.0, -np.inf, -0.0, 0.0, np.inf, 1.0, -np.nan, 2.0, -1.0]
SORTED = "bool int8 uint8 int16 int32 uint32 int64 uint64 float16 float32 float64 complex64 complex128".split()


def row_of(dtype: str, length: int) -> np.ndarray:
    """Numbers with ties, and where the dtype has them, zeros of both signs, infinities and NaN."""
    found = np.empty(length, as_dtype(dtype))
    if found.dtype.kind in "biu":
        found[:] = rng.integers(0, 5, length)
        found[:2] = (False, True) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        return found
    values = np.array([*EDGES, *rng.normal(size=length).round(1)])[:length]
    if found.dtype.kind == "c":
        found.real, found.imag = values, values[::-1]
        return found
    return values.astype(found.dtype)


def check_sorts_by_merges() -> None:
    """Of all dtypes: rows that lie side by side in a tile, and rows that are made of many, which are merged."""
    brain = ["bfloat16"] if find_spec("ml_dtypes") else []
    together, narrow = sorts_of([*SORTED, *brain], 29), Together()
    x, w = row_of("float32", 29), rng.normal(size=29)
    wide = (w[:8] > 0).astype(float)
    narrow.add("wide keys", lambda w: lax.sort([w, w, w, -w, jnp.arange(8)], num_keys=4), [wide])
    narrow.add("narrow keys", lambda x: [jnp.argsort(x)], [x])
    for length in (1, 2, 7, 8, 9, 16, 17):
        together.add(f"{length} elements", lambda x: [jnp.argsort(x)], [x[:length]])
    for count in (1, 3, 20, 27):
        together.add(f"largest {count}", lambda x, n=count: [*lax.top_k(x, n)], [np.stack([x[:27], -x[:27]])])
    with changed({"CUDA_SORT_TILE": 8, "CUDA_SORT_ITEMS": 3}):
        with patch.object(sorting, "radix_sort", lambda step, threads: []):
            run(together, signs=True)
    with changed({"CUDA_SHARED_BYTES": 100}):  # no room for as many elements as a block has threads
        run(narrow)


def by_digits(together: Together) -> None:
    with changed({"CUDA_RADIX_BITS": 3, "CUDA_RADIX_SPLIT_BITS": 2, "CUDA_RADIX_ITEMS": 3}):
        with patch.object(sorting, "merge_sort", lambda step, threads: []):
            run(together, signs=True)


def check_sorts_by_digits() -> None:
    """Whole tiles and parts, several rows, and what is kept of them."""
    together, x = Together(), row_of("float32", 26).reshape(2, 13)
    together.add("largest", lambda x: [*lax.top_k(x, 5)], [x])
    for length in (1, 12, 13):
        together.add(f"{length} elements", lambda x: [jnp.argsort(x)], [x[0, :length]])
    by_digits(together)


def check_sorts_by_several_keys_and_digits() -> None:
    together = Together()
    add_sorts_of_several(together, 15)
    by_digits(together)


def sorts_of_a_dtype(dtype: str) -> None:
    """Of digits of one word, or of two."""
    together = Together()
    add_sorts(together, dtype, 15)
    by_digits(together)


def sorts_of(dtypes: Sequence[str], length: int) -> Together:
    together = Together()
    for dtype in dtypes:
        add_sorts(together, dtype, length)
    add_sorts_of_several(together, length)
    return together


def add_sorts(together: Together, dtype: str, length: int) -> None:
    row = row_of(dtype, length)
    together.add(f"{dtype}, sorted", lambda x: [jnp.sort(x)], [row])
    together.add(f"{dtype}, places", lambda x: [jnp.argsort(x, stable=True)], [row])
    together.add(f"{dtype}, short rows", lambda x: [jnp.sort(x, 0)], [row[:15].reshape(3, 5)])


def add_sorts_of_several(together: Together, length: int) -> None:
    x, k, w = row_of("float32", length), rng.integers(0, 3, length).astype(np.int32), rng.normal(size=length)
    together.add("downwards", lambda x: [jnp.sort(x, descending=True), jnp.argsort(x, descending=True)], [x])
    for keys in (1, 2, 3):
        together.add(f"{keys} keys", lambda k, x, w, n=keys: lax.sort((k, x, w, x), num_keys=n), [k, x, w])
    together.add("empty", lambda x: [jnp.sort(x, 0), jnp.sort(x, 1)], [np.zeros((0, 3), np.float32)])
    together.add("columns", lambda x: [jnp.sort(x, 1)], [np.stack([x, x[::-1]], 1).reshape(1, length, 2)])


CHECKS = checks_of(globals())
BY_DIGITS = ("bool", "int8", "uint32", "float32", "float64", "complex64")
CHECKS |= {f"sorts_by_digits of {dtype}": partial(sorts_of_a_dtype, dtype) for dtype in BY_DIGITS}
