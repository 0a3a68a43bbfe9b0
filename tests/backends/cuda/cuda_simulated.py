"""Checks of the CUDA backend, for a process with NUMBA_ENABLE_CUDASIM=1: prints "ok" or "FAIL" for each.

The simulator runs every CUDA thread as a Python thread, so arrays are tiny. The interpreter is the reference.
"""

from __future__ import annotations

import random
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any
from unittest.mock import patch

import cuda_array_checks
import numpy as np
from fuzz.check import changed
from fuzz.forms import Trial, expected_of, forms_of
from fuzz.generator import random_program
from fuzz.rounding import every_equation
from fuzz.session import STEPS
from fuzz.thresholds import drawn
from primitive_checks import cases_of
from primitive_form_tools import Together, add_forms, compare

import functad
import functad.numpy as jnp
from functad import interpreter, lax
from functad.backends.cuda import executable as cuda_backend
from functad.backends.cuda import sorting
from functad.dtypes import as_dtype
from functad.errors import ArgumentError, FunctadError
from functad.experimental import io_callback
from functad.ir import Absent, registry
from functad.lowering.blocks import ControlPlan, Instruction
from functad.optimize.pipeline import simplify

NAMES = sorted(name for name, p in registry.items() if not isinstance(p.examples, Absent))


def check_examples(name: str) -> str:
    """All examples of a primitive, their derivatives, and mapped, as one Program."""
    together = Together()
    for case in cases_of(registry[name]):
        add_forms(together, case)
    run(together)
    return f"{len(together.functions)} functions"


def run(together: Together, signs: bool = False) -> None:
    """Compare what functions give with what the interpreter gives; signs: of zeros, too."""
    program = together.program()
    expected = interpreter.compile_program(program)(together.args)
    got = cuda_backend.compile_program(program)(together.args)
    for label, e, g in zip(together.labels, expected, got, strict=True):
        compare(e, g, label)
        if signs:
            zeros = [np.signbit(np.real(x)[e == 0].astype(float)) for x in (e, g)]
            assert np.array_equal(*zeros), f"{label}: signs of zeros"


# --- dtypes, and the forms of kernels ------------------------------------------------------------------

rng = np.random.default_rng(0)


def numbers(dtype: str, *shape: int) -> np.ndarray:
    values = rng.normal(size=shape) * 3
    return (
        (values > 0)
        if dtype == "bool"
        else values.astype(as_dtype(dtype))
        if dtype != "complex64"
        else values + 1j * values.T
    )


def check_dtypes() -> None:
    together = Together()
    brain = ["bfloat16"] if find_spec("ml_dtypes") else []  # the package that makes the dtype
    for dtype in (
        *brain,
        "float16",
        "float32",
        "float64",
        "int8",
        "uint8",
        "int32",
        "uint32",
        "int64",
        "bool",
        "complex64",
    ):
        x, y = (numbers(dtype, 3, 3).astype(as_dtype(dtype)) for _ in range(2))
        together.add(f"{dtype}, x * y + x", lambda x, y: [x * y + x], [x, y])
        together.add(f"{dtype}, sum", lambda x: [jnp.sum(x, axis=1)], [x])
        together.add(f"{dtype}, product", lambda x, y: [x @ y], [x, y])
        if dtype != "complex64":
            together.add(f"{dtype}, maximum", lambda x, y: [jnp.maximum(x, y).max(axis=0)], [x, y])
        if "float" in dtype:
            together.add(f"{dtype}, functions", lambda x: [jnp.tanh(jnp.exp(x)), jnp.where(x > 0, x, 0)], [x])
    run(together)


def check_special_values() -> None:
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0, 3e38], np.float32)
    together = Together()
    together.add("element-wise", lambda x: [jnp.exp(x), jnp.sqrt(x), jnp.maximum(x, 0), x + x, jnp.sign(x), 1 / x], [x])
    together.add("reductions with NaN", lambda x: [x.max(), x.min(), x.sum()], [x])
    together.add("reductions of infinities", lambda x: [x.max(), x.min(), x.sum()], [x[1:]])
    together.add("empty", lambda x: [x + 1, x.sum(0), x.sum(1)], [np.zeros((0, 3), np.float32)])
    run(together)


def check_forms_of_reductions() -> None:
    """By thread and by block, over rows, columns, both, and axes in the middle; several at once."""
    x = numbers("float32", 4, 3, 12).astype(np.float32)
    together = Together()
    for axes in ((0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)):
        together.add(f"sum over {axes}", lambda x, axes=axes: [jnp.sum(x, axes), jnp.max(jnp.abs(x), axes)], [x])
    together.add("mean and variance", lambda x: [x.mean(-1), x.var(-1), x.argsort(-1).shape[0] * x.any(-1)], [x])
    together.add(
        "of integers", lambda x: [x.sum(), x.prod(1), x.min(0)], [np.arange(40, dtype=np.int32).reshape(2, 20)]
    )
    together.add("half precision", lambda x: [x.sum(1)], [numbers("float16", 2, 20)])
    run(together)


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
                assert ("owner_here" not in kernels) is (unique and is_apart), kernels


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
            assert ("cuda.atomic." in text) is whole and ("owner_here" in text) is not whole, text
            with functad.config.context(cuda_atomics=True):
                text = kernels(kind, np.full((9, 2), 7, dtype), values)
            assert ("cuda.atomic." in text) is (whole or "float" in dtype and kind == "add"), text


def check_long_reductions_keep_all_blocks_busy() -> None:
    x = numbers("float32", 4, 96).astype(np.float32)
    with changed({"CUDA_PART_TERMS": 8, "CUDA_PIECES": 16}):
        for fun in (jnp.sum, lambda x: jnp.max(x, 0), lambda x: jnp.sum(x * x, 1), lambda x: (x.T.min(0), x.T.sum(1))):
            agree(fun, x)
        kernels = str(functad.jit(lambda x: jnp.sum(x, 1), backend="cuda").lower(x).kernels)
        assert "block: q < 4, i < 4; thread: r_by_four < 6" in kernels, kernels
        with changed({"CUDA_FEWEST_ROWS": 4}):
            assert "_parts" not in str(functad.jit(softmax, backend="cuda").lower(x).kernels)


def check_what_is_carried_by_many_blocks() -> None:
    """In one pass: both ways, all kinds, several loops, a last part that is short, and more parts than a block reads."""
    with changed({"CUDA_CARRIED_ITEMS": 2}):
        for n in (16, 21, 40, 77):
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
        kernels = str(functad.jit(jnp.cumsum, backend="cuda").lower(np.ones(40, np.float32)).kernels)
        assert "def clear_" in kernels and "block: part < 5; thread: i < 40" in kernels, kernels


def check_four_elements_at_a_time() -> None:
    """Loads and stores of neighbours, beside what is read elsewhere, of all dtypes, in place, and what does not fit."""
    small = {"CUDA_VECTOR_POINTS": 1, "CUDA_FEWEST_ROWS": 1, "CUDA_FEW_POINTS": 64}
    with changed(small):
        for dtype in ("float16", "float32", "float64", "int8", "int64"):
            x, y = numbers(dtype, 3, 16).astype(dtype), numbers(dtype, 16, 3).astype(dtype)
            for fun in (
                lambda x, y: x * 2 + x[0],
                lambda x, y: x + y.T,  # each element of y by itself
                lambda x, y: (x[:, 4:12] - x[:, 8:], x[:, 1:9] * 2, x[:, ::2] + 1),  # on a round place, and beside it
                lambda x, y: (x.reshape(12, 4) + y.reshape(12, 4), x > 0),
                lambda x, y: (x.sum(1), (x * x).max(1), x.reshape(-1).sum()),
                lambda x, y: x[jnp.array([2, 0])] + jnp.take(x[1], jnp.arange(16) // 2),
            ):
                agree(fun, x, y)
        x = numbers("float32", 4, 32).astype(np.float32)
        for fun in (softmax, functad.grad(lambda x: (softmax(x) ** 2).sum()), lambda x: layer_norm(x, x[0], x[1])):
            agree(fun, x)
        step = functad.jit(lambda x: x * 0.5 + 1, donate_argnums=0, backend="cuda")
        text = str(step.lower(x).kernels)
        assert text.count("load4(") == text.count("store4(") == 1 and "i_by_four < 32" in text, text
        odd = functad.jit(lambda x: x * 0.5 + 1, backend="cuda").lower(x[:3, :5])
        assert "load4" not in str(odd.kernels)
        beside = functad.jit(lambda x: x[:, 1:9] * 2, backend="cuda").lower(x)
        assert "load4" not in str(beside.kernels) and "store4" in str(beside.kernels)


def check_products() -> None:
    """Layouts, batches, scalings and sums with what is there already."""
    a, b, c = (numbers("float32", *s).astype(np.float32) for s in ((3, 5), (5, 4), (3, 4)))
    s, t = numbers("float32", 2, 3, 5).astype(np.float32), numbers("float32", 2, 5, 4).astype(np.float32)
    together = Together()
    together.add("plain", lambda a, b: [a @ b], [a, b])
    together.add("left transposed", lambda a, b: [a.T @ b], [np.ascontiguousarray(a.T), b])
    together.add("right transposed", lambda a, b: [a @ b.T], [a, np.ascontiguousarray(b.T)])
    together.add("both transposed", lambda a, b: [(b @ a).T], [np.ascontiguousarray(a.T), np.ascontiguousarray(b.T)])
    together.add("part of an array", lambda a, b: [a[1:, :3] @ b[2:]], [a, b])
    together.add("scaled, added", lambda a, b, c: [c - 0.5 * (a @ b)], [a, b, c])
    together.add("batch", lambda s, t: [s @ t, jnp.einsum("bij,bjk->ik", s, t)], [s, t])
    together.add("vectors", lambda a, b: [a[0] @ b[:, 0], a @ b[:, 1]], [a, b])
    together.add("double", lambda a, b: [a @ b], [a.astype(np.float64), b.astype(np.float64)])
    together.add("complex", lambda a, b: [(a + 1j) @ (b - 1j)], [a, b])
    together.add("whole numbers", lambda a, b: [a @ b], [a.astype(np.int32), b.astype(np.int32)])
    run(together)


def check_rows_by_block() -> None:
    """Softmax, its gradient and layer norm are one kernel each; what does not lie in rows apart is not joined."""
    x = numbers("float32", 4, 12).astype(np.float32)

    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.where(jnp.tri(4, dtype=bool), q @ k.T, -jnp.inf)
        return softmax(scores) @ v

    with changed({"CUDA_FEWEST_ROWS": 1}):
        for fun, args in (
            (softmax, (x,)),
            (functad.grad(lambda x: (softmax(x) ** 2).sum()), (x,)),
            (layer_norm, (x, x[0], x[1])),
            (lambda x: softmax(x.astype(jnp.float16)), (x,)),
        ):
            lowered = functad.jit(fun, backend="cuda").lower(*args)
            assert len(lowered._lowered.generated.instructions) == 1, lowered.kernels
            agree(fun, *args)
        for fun, args in (
            (lambda x: softmax(x)[::-1] + x.sum(1, keepdims=True), (x,)),  # reads other rows
            (lambda x: (x - x.max(1, keepdims=True)).sum(0), (x,)),  # sums over all rows
            (functad.grad(lambda x: layer_norm(x, x[0], x[1]).sum()), (x,)),
            (attention, (x, x + 1, x)),
            (lambda x: lax.scan(lambda c, r: (softmax(c + r), c.sum(-1)), x[:2], jnp.stack([x[:2], x[2:]])), (x,)),
        ):
            agree(fun, *args)


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


def check_sorts_by_digits() -> None:
    """Digits of one word and of two, whole tiles and parts, several rows, and what is kept of them."""
    together = sorts_of(["bool", "int8", "uint32", "float32", "float64", "complex64"], 15)
    x = row_of("float32", 26).reshape(2, 13)
    together.add("largest", lambda x: [*lax.top_k(x, 5)], [x])
    for length in (1, 12, 13):
        together.add(f"{length} elements", lambda x: [jnp.argsort(x)], [x[0, :length]])
    with changed({"CUDA_RADIX_BITS": 3, "CUDA_RADIX_SPLIT_BITS": 2, "CUDA_RADIX_ITEMS": 3}):
        with patch.object(sorting, "merge_sort", lambda step, threads: []):
            run(together, signs=True)


def sorts_of(dtypes: Sequence[str], length: int) -> Together:
    together = Together()
    for dtype in dtypes:
        row = row_of(dtype, length)
        together.add(f"{dtype}, sorted", lambda x: [jnp.sort(x)], [row])
        together.add(f"{dtype}, places", lambda x: [jnp.argsort(x, stable=True)], [row])
        together.add(f"{dtype}, short rows", lambda x: [jnp.sort(x, 0)], [row[:15].reshape(3, 5)])
    x, k, w = row_of("float32", length), rng.integers(0, 3, length).astype(np.int32), rng.normal(size=length)
    together.add("downwards", lambda x: [jnp.sort(x, descending=True), jnp.argsort(x, descending=True)], [x])
    for keys in (1, 2, 3):
        together.add(f"{keys} keys", lambda k, x, w, n=keys: lax.sort((k, x, w, x), num_keys=n), [k, x, w])
    together.add("empty", lambda x: [jnp.sort(x, 0), jnp.sort(x, 1)], [np.zeros((0, 3), np.float32)])
    together.add("columns", lambda x: [jnp.sort(x, 1)], [np.stack([x, x[::-1]], 1).reshape(1, length, 2)])
    return together


def check_parts_of_kernels_by_text() -> None:
    """What short rows are not enough for: blocks of Fourier transforms, convolutions beyond a tile."""
    x = numbers("float32", 2, 70).astype(np.float32)
    image, weight = numbers("float32", 1, 2, 5, 4).astype(np.float32), numbers("float32", 3, 2, 2, 3).astype(np.float32)
    together = Together()
    together.add("sort", lambda x: [jnp.sort(x), jnp.argsort(x), jnp.sort(jnp.round(x), 0)], [x])
    together.add("largest", lambda x: [*lax.top_k(x, 3), *lax.top_k(x, 50)], [x])
    together.add("Fourier transform", lambda x: [jnp.fft.rfft(x), jnp.fft.ifft2(x[:, :6])], [x])
    together.add(
        "convolution",
        lambda x, w: list(functad.vjp(lambda x, w: lax.conv(x, w, (2, 1), "SAME"), x, w)[1](jnp.ones((1, 3, 3, 4)))),
        [image, weight],
    )
    rows = numbers("float32", 9, 3).astype(np.float32)
    for kind in ("add", "min", "mul"):
        together.add(
            f"scatter-{kind}", lambda x, r, k=kind: [getattr(x[:, 0].at[jnp.int32(r[:, 0])], k)(r[:, 1])], [x, rows]
        )
        together.add(
            f"scatter-{kind}, rows", lambda x, r, k=kind: [getattr(x[:, :3].at[jnp.int32(r[:, 0])], k)(r)], [x, rows]
        )
    together.add("half precision", lambda x: [jnp.sort(x), lax.cumlogsumexp(x)], [x[:, :5].astype(np.float16)])
    with changed(
        {
            "CUDA_SORT_TILE": 8,
            "CUDA_SORT_ITEMS": 3,
            "COUNTED_ROW": 4,
            "NETWORK_ROW": 2,
            "KEPT_LARGEST": 8,
            "DIGIT_BITS": 4,
            "ELEMENTS_WORTH_THREADS": 4,
        }
    ):
        run(together)


# --- loops, branches, and calls of Python ----------------------------------------------------------------

A_LOOP = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


def recurrence(rows: Any) -> Any:
    return lax.scan(lambda c, row: (jnp.tanh(c * 0.9 + row), (c.sum(), c[::-1])), rows[0], rows, reverse=True)


def grown(x: Any) -> Any:
    """A loop of a length that only a run tells."""
    return lax.while_loop(lambda s: jnp.abs(s[0]).sum() < 20, lambda s: (s[0] * 1.5 + x, s[1] + 1), (x, 0))


def chosen(x: Any, k: Any) -> Any:
    return lax.switch(k, [jnp.sin, lambda x: x * 2, lambda x: jnp.sort(x)[::-1]], x)


def nested(x: Any) -> Any:
    def step(k: Any, c: Any) -> Any:
        return lax.cond(c.sum() > k, lambda c: lax.fori_loop(0, k, lambda _, d: d * 0.5 + x, c), lambda c: c + 1, c)

    return lax.fori_loop(0, 4, step, x)


def swapped(x: Any) -> Any:
    """Carries that change places, and one that is left as it is."""
    return lax.fori_loop(0, 5, lambda k, s: (s[1] + k, s[0] @ s[2], s[2]), (x[:3], x[1:], x[:3] * 0.1))


def check_loops() -> None:
    """As steps that are launched one by one, and, where a step is small, as one kernel."""
    with changed({"UNROLLED_STEPS": 0}):
        for longest in (0.0, 1e9):
            with changed({"CUDA_SMALL_STEP": longest}):
                agree(recurrence, A_LOOP)
                agree(grown, A_LOOP[0])
                agree(nested, A_LOOP[0])
                agree(swapped, A_LOOP)
                for k in (-1, 1, 5):
                    agree(chosen, A_LOOP[2], np.int32(k))
    agree(functad.vmap(chosen), A_LOOP, np.int32([0, 1, 2, 1]))
    agree(lambda x: lax.scan(lambda c, r: (c + r, c), x[0], x[:0]), A_LOOP)


def check_loops_that_come_again() -> None:
    """Replayed as parts of a graph; behind it, and in a loop that asks Python, pointers are where they were."""

    def between(x: Any) -> Any:
        carry, _ = lax.scan(lambda c, row: ((c[1] + row, c[0] * 0.5), None), (x[0], x[1]), x)
        more = lax.while_loop(lambda c: c[0].sum() < 40, lambda c: (c[0] + 9, recurrence(x + c[0])[0]), carry)
        return lax.scan(lambda c, row: (more[1] + c * row, c), more[0], x)

    driver = functad.devices("cuda")[0].driver
    with changed({"UNROLLED_STEPS": 0, "CUDA_SMALL_STEP": 0.0}):
        expected = functad.jit(between, backend="interpreter")(A_LOOP)
        x, jitted = functad.device_put(A_LOOP, "cuda"), functad.jit(between)
        graphs = len(driver._graphs)
        for k in range(4):
            for e, g in zip(*map(functad.tree_util.tree_leaves, (expected, jitted(x))), strict=True):
                compare(np.asarray(e), np.asarray(g), f"call {k}")
        assert len(driver._graphs) >= graphs + 3


def check_derivatives_of_loops() -> None:
    with changed({"UNROLLED_STEPS": 0}):
        for longest in (0.0, 1e9):
            with changed({"CUDA_SMALL_STEP": longest}):
                agree(functad.grad(lambda x: recurrence(x)[1][0].sum()), A_LOOP)
                agree(functad.grad(lambda x: nested(x).sum()), A_LOOP[0])
                agree(functad.grad(lambda x: grown(x)[0].sum()), A_LOOP[0])


def check_small_loops_are_one_kernel() -> None:
    lowered = functad.jit(lambda x: lax.fori_loop(0, 9, lambda k, c: c * 0.5 + k, x), backend="cuda").lower(0.5)
    (instruction,) = lowered._lowered.generated.instructions[-1:]
    assert isinstance(instruction, Instruction) and "for " in str(lowered.kernels), lowered.kernels
    lowered = functad.jit(recurrence, backend="cuda").lower(np.zeros((30, 100), np.float32))
    assert any(isinstance(i, ControlPlan) for i in lowered._lowered.generated.instructions)


def check_calls_of_python() -> None:
    seen: list[float] = []

    def noted(x: Any) -> Any:
        functad.debug.callback(lambda x: seen.append(float(x)), x[0], ordered=True)
        doubled = functad.pure_callback(lambda a: 2 * a, functad.ShapeDtypeStruct(x.shape, x.dtype), x + 1)
        return io_callback(lambda a: a + 1, functad.ShapeDtypeStruct(x.shape, x.dtype), doubled, ordered=True)

    def over(rows: Any) -> Any:
        return lax.scan(lambda c, row: (noted(c) * 0.1 + row, c), rows[0], rows)[0]

    expected = functad.jit(over, backend="interpreter")(A_LOOP)
    before, got = list(seen), functad.jit(over, backend="cuda")(A_LOOP)
    compare(np.asarray(expected), np.asarray(got), "callbacks in a loop")
    assert len(seen) == 8 and np.allclose(seen[4:], before), seen


@functad.numba_primitive(elementwise=True, jvp=[lambda t, out, x: t * 2 * x])
def own_square(x: Any) -> Any:
    return x * x


@functad.numba_primitive(out=lambda x: functad.ShapeDtypeStruct(x.shape[:1], x.dtype))
def row_sums(x: Any, out: Any) -> None:
    for i in range(x.shape[0]):
        out[i] = x[i, 0]
        for j in range(1, x.shape[1]):
            out[i] += x[i, j]


@functad.custom_vjp
def clipped(x: Any) -> Any:
    return x * 2


clipped.defvjp(lambda x: (clipped(x), x), lambda x, ct: (jnp.clip(ct * x, -1, 1),))


@functad.custom_jvp
def softened(x: Any) -> Any:
    return jnp.log1p(jnp.exp(x))


softened.defjvps(lambda t, out, x: t * lax.logistic(x))


def random_words(words: Any) -> Any:
    key, other = functad.random.split(functad.random.wrap_key_data(words))
    key = functad.random.clone(functad.random.fold_in(key, 7))
    return functad.random.normal(key, (5,)), functad.random.bits(other, (3,)), functad.random.key_data(other)


def solved(a: Any, b: Any) -> Any:
    return lax.custom_linear_solve(lambda v: a @ v, b, lambda _, b: jnp.linalg.solve(a, b), symmetric=True)


def called_back(x: Any) -> Any:
    functad.debug.callback(lambda a: None, x)
    y = functad.pure_callback(lambda a: 2 * a, functad.ShapeDtypeStruct(x.shape, x.dtype), x)
    return io_callback(lambda a: a + 1, functad.ShapeDtypeStruct(x.shape, x.dtype), y)


WORDS = np.array([0, 3], np.uint32)
# What has no examples of its own, and where it is compiled.
ELSEWHERE: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "scan": (recurrence, (A_LOOP,)),
    "while": (grown, (A_LOOP[0],)),
    "cond": (chosen, (A_LOOP[0], np.int32(1))),
    "closed_call": (functad.grad(lambda x: grown(x)[0].sum()), (A_LOOP[0],)),
    "jit": (lambda x: functad.jit(jnp.sin)(x), (A_LOOP,)),
    "remat2": (lambda x: functad.checkpoint(jnp.sin)(x), (A_LOOP,)),
    "custom_jvp_call": (softened, (A_LOOP,)),
    "custom_vjp_call": (clipped, (A_LOOP,)),
    "custom_linear_solve": (solved, (2 * np.eye(3, dtype=np.float32) + 0.1, A_LOOP[0])),
    "numba_elementwise": (lambda x: own_square(x) + 1, (A_LOOP,)),
    "numba_call": (lambda x: functad.vmap(row_sums)(jnp.stack([x, x])), (A_LOOP,)),
    **dict.fromkeys(("debug_callback", "pure_callback", "io_callback"), (called_back, (A_LOOP,))),
    **{name: (random_words, (WORDS,)) for name in sorted(registry) if name.startswith("random_")},
}


def check_what_has_no_examples(name: str) -> None:
    fun, args = ELSEWHERE[name]
    assert name in {eqn.primitive.name for eqn in every_equation(functad.make_jaxpr(fun)(*args).eqns)}
    agree(fun, *args)


# --- random programs ----------------------------------------------------------------------------------------


def check_random_programs(first: int) -> str:
    """Programs of the fuzzer, with thresholds of its choice, against its own expectation."""
    compared = 0
    for number in range(first, first + 20):
        label = f"cuda/{number}"
        choose = random.Random(label)
        program = random_program(label, STEPS)
        trial = Trial(program, choose.choice(forms_of(program)), number)
        with changed(
            {
                **drawn(choose),
                "CUDA_SMALL_STEP": choose.choice([0.0, 200.0, 1e9]),
                "CUDA_FEWEST_ROWS": choose.choice([1, 128]),
            }
        ):
            try:
                simplified = simplify(trial.traced)
            except FunctadError:  # a derivative that does not exist
                continue
            if sum(a.size for a in trial.args) <= 600:
                got = cuda_backend.compile_program(simplified)(trial.args)
                mismatch = trial.expected.mismatch(got, expected_of(simplified, trial.args))
                assert mismatch is None, f"{label}: {mismatch}"
                compared += 1
    assert compared >= 10
    return f"{compared} programs"


# --- whole functions, through jit -----------------------------------------------------------------------


def softmax(x: Any) -> Any:
    e = jnp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale + shift


def mlp_loss(params: Any, x: Any, targets: Any) -> Any:
    (w1, b1), (w2, b2) = params
    logits = jnp.tanh(x @ w1 + b1) @ w2 + b2
    shifted = logits - logits.max(-1, keepdims=True)
    log_probabilities = shifted - jnp.log(jnp.exp(shifted).sum(-1, keepdims=True))
    return -(log_probabilities * targets).sum(-1).mean()


X = rng.normal(size=(4, 12)).astype(np.float32)
PARAMS = [(rng.normal(size=(m, n)).astype(np.float32), np.zeros(n, np.float32)) for m, n in ((12, 5), (5, 3))]
TARGETS = np.eye(3, dtype=np.float32)[[0, 2, 1, 0]]


def check_functions() -> None:
    agree(softmax, X)
    agree(layer_norm, X, X[0], X[1])
    agree(mlp_loss, PARAMS, X, TARGETS)
    agree(functad.grad(mlp_loss), PARAMS, X, TARGETS)
    agree(functad.vmap(functad.grad(lambda x: jnp.sin(x).sum())), X)
    agree(lambda x: functad.jit(softmax)(x) * 2, X)
    agree(lambda x: (jnp.argmax(jnp.sin(x), 1), jnp.argmin(x, 1)), X)


def agree(fun: Callable[..., Any], *args: Any) -> None:
    expected = functad.jit(fun, backend="interpreter")(*args)
    got = functad.jit(fun, backend="cuda")(*args)
    again = functad.jit(fun, backend="cuda")(*args)
    for e, g, h in zip(*[functad.tree_util.tree_leaves(t) for t in (expected, got, again)], strict=True):
        compare(np.asarray(e), np.asarray(g), str(fun))
        compare(np.asarray(g), np.asarray(h), f"{fun}, second call")


def check_transforms_keep_the_backend() -> None:
    calls = []
    compile_program = cuda_backend.compile_program
    cuda_backend.compile_program = lambda *args: calls.append(args) or compile_program(*args)  # type: ignore[assignment]
    try:
        f = functad.jit(lambda x: (x * x).sum(), backend="cuda")
        compare(2 * X, np.asarray(functad.grad(f)(X)), "grad of a jitted function")
        assert len(calls) >= 2, "the gradient did not run on the function's backend"
        compare(np.asarray(f(X)), np.asarray(f.lower(X).compile()(X)), "compiled ahead of time")
        with functad.config.context(default_backend="cuda"):
            count = len(calls)
            compare(X + 1, np.asarray(functad.jit(lambda x: x + 1)(X)), "the default backend")
            assert len(calls) == count + 1
    finally:
        cuda_backend.compile_program = compile_program


def check_stages() -> None:
    lowered = functad.jit(lambda x: jnp.exp(softmax(x)), backend="cuda").lower(X)
    assert "cuda.grid(1)" in str(lowered.kernels) and "cuda.syncthreads()" in str(lowered.kernels)
    assert lowered.memory_plan.arena_bytes > 0 and lowered.cost.flops > 0


def check_errors() -> None:
    message = raised(ArgumentError, lambda: functad.jit(jnp.sin, backend="gpu"))
    assert "'gpu'" in message and "'cuda'" in message, message


def raised(kind: type[Exception], call: Callable[[], Any]) -> str:
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


CHECKS: dict[str, Callable[[], str | None]] = {
    **{name.removeprefix("check_"): f for name, f in list(globals().items()) if name.startswith("check_")},
    **cuda_array_checks.CHECKS,
    **{f"random programs {k}": (lambda k=k: check_random_programs(k)) for k in range(0, 60, 20)},  # type: ignore[misc]
    **{f"primitive {name}": (lambda name=name: check_what_has_no_examples(name)) for name in ELSEWHERE},  # type: ignore[misc]
    **{f"primitive {name}": (lambda name=name: check_examples(name)) for name in NAMES},  # type: ignore[misc]
}
for name in ("examples", "random_programs", "what_has_no_examples"):
    del CHECKS[name]


def main(names: Sequence[str]) -> None:
    for name in names or CHECKS:
        try:
            note = CHECKS[name]() or ""
        except Exception:
            print(f"FAIL {name}: {' | '.join(traceback.format_exc().splitlines()[-6:])}", flush=True)
        else:
            print(f"ok {name}: {note}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
