"""Checks of kernels on CUDA: dtypes, reductions, vectors, rows, products, and kernels by text.

The interpreter is the reference.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Any

import numpy as np
from cuda_check_tools import agree, checks_of, layer_norm, numbers, run, softmax
from fuzz.check import changed
from primitive_form_tools import Together

import functad
import functad.numpy as jnp
from functad import lax
from functad.backends.cuda.lowering import THREADS
from functad.backends.cuda.products.tiles import tile_for
from functad.backends.cuda.scalars.registry import SIMULATED
from functad.dtypes import as_dtype


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


def check_long_reductions_keep_all_blocks_busy() -> None:
    """Threads share a row, or columns side by side, and so do blocks; the last one puts parts together each time."""
    x = numbers("float32", 4, 96).astype(np.float32)

    def mapping(fun: Any, x: np.ndarray) -> str:
        (kernel,) = functad.jit(fun, backend="cuda").lower(x)._lowered.generated.kernels.values()
        return str(kernel.mapping)

    for steps in (0, 1 << 12):
        with changed({"CUDA_PART_TERMS": 8, "CUDA_BUSY_THREADS": 1 << 9, "CUDA_ONE_STEP_BLOCKS": steps}):
            for fun in (
                jnp.sum,
                lambda x: jnp.max(x, 0),
                lambda x: jnp.sum(x * x, 1),
                lambda x: (x.T.min(0), x.T.sum(1)),
            ):
                agree(fun, x)
            agree(lambda x: (x.sum((0, 2)), jnp.exp(x).max((0, 2)), x.sum(1)), x.reshape(8, 6, 8))
            if SIMULATED:  # blocks of four threads
                assert "block: i < 4; thread: j_by_four < 24; 4 threads for each" in mapping(lambda x: x.sum(1), x)
                parts = mapping(jnp.sum, x)
                assert "thread: i_by_four < 96; 4 threads for each, 4 parts" in parts, parts
            with changed({"CUDA_FEWEST_ROWS": 4}):
                assert "_parts" not in str(functad.jit(softmax, backend="cuda").lower(x).kernels)
    with changed(
        {"CUDA_BUSY_THREADS": 512, "CUDA_PART_TERMS": 80}
    ):  # several results a block, of which the last has few
        for shape in ((7, 5), (2, 9), (40, 3), (3, 2)):
            y = numbers("float32", *shape).astype(np.float32)
            agree(lambda y: (y.sum(0), (y + y[0]).sum(1), y.max(0), y.min(1), jnp.any(y > 0, 0)), y)
        few = mapping(lambda y: y.sum(1), numbers("float32", 7, 5))
        assert not SIMULATED or "2 results a block, 2 threads for each" in few, few


def check_squares_in_shared_memory() -> None:
    """What is read along other loops than it is written; with edges, of all widths, and in place."""
    for vectors, rows, columns in ((1 << 20, 7, 11), (1, 8, 12)):
        with changed({"CUDA_SQUARE_POINTS": 1, "CUDA_VECTOR_POINTS": vectors}):
            for dtype in ("float16", "float32", "complex64", "bool", "int8"):
                _check_squares((np.arange(rows * columns) % 5).reshape(rows, columns).astype(dtype))
            x, y = (numbers("float32", *shape).astype(np.float32) for shape in ((rows, columns), (columns, rows)))
            for fun in (
                lambda x, y: x.T * y + x.T[0],
                lambda x, y: (x + y.T, (x + y.T).T),
                lambda x, y: functad.grad(lambda x: (jnp.sin(x.T) * y).sum())(x),
                lambda x, y: x[::-1].T + y[::-1] + jnp.arange(len(x)),
            ):
                agree(fun, x, y)
            step = functad.jit(lambda x, y: x.T + y, donate_argnums=1, backend="cuda")
            kernels = str(step.lower(x, y).kernels)
            if SIMULATED:  # squares of four rows
                assert "square_at_a = cuda.shared.array(20, float32)" in kernels, kernels
                assert ("if i < 11 and j < 7:" in kernels) is (vectors > 1)
                assert ("load4(input_b" in kernels) is ("store4(input_b" in kernels) is (vectors == 1), kernels
            assert np.array_equal(step(x, y), x.T + y)


def _check_squares(x: np.ndarray) -> None:
    for fun in (
        lambda x: x.T,
        lambda x: (x[1:, ::-1].T, x.T[:, 2:]),
        lambda x: jnp.transpose(x[:6].reshape(2, 3, -1), (2, 0, 1)),
        lambda x: jnp.transpose(jnp.stack([x, x]), (0, 2, 1)),
    ):
        agree(fun, x)


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
        for length in (9, 15, 30):  # what is left over has a thread each
            odd = functad.jit(lambda x: (x * 0.5 + 1, jnp.arange(len(x)) - x, x[::-1]), backend="cuda")
            assert "elif i_by_four <" in str(odd.lower(x[0, :length]).kernels)
            agree(odd, x[0, :length])
        odd = functad.jit(lambda x: x[:, 1:] * 0.5 + 1, backend="cuda").lower(x[:3, :5])
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


def kernels_of(fun: Any, *args: Any) -> list[str]:
    """The names of a function's kernels on CUDA."""
    return re.findall(r"^def (\w+)", str(functad.jit(fun, backend="cuda").lower(*args).kernels), re.MULTILINE)


def check_products_and_what_follows() -> None:
    """What is computed of each result is the product's kernel; sums of products are one, with what follows."""
    x, w, v = (numbers("float32", *s).astype(np.float32) for s in ((6, 9), (9, 8), (8, 5)))
    b, rate = numbers("float32", 8).astype(np.float32), np.float32(0.1)

    def layer(x: Any, w: Any, b: Any) -> Any:
        y = x @ w + b
        return jnp.where(y <= 0, 0, y), y <= 0

    def recurrent(x: Any, w: Any, v: Any, h: Any) -> Any:
        return jnp.tanh(x @ w + h @ v) * 2

    def loss(w: Any, v: Any, x: Any) -> Any:
        return (jnp.tanh(x @ w) @ v).sum()

    def both(x: Any, w: Any) -> Any:
        y = x @ w
        return y, jnp.tanh(y)

    def transposed(x: Any, w: Any) -> Any:
        return jnp.tanh((x @ w).T)

    def twice(x: Any, w: Any, b: Any) -> Any:
        y = jnp.tanh(x @ w) + b
        return (y.sum(0), y * 2)

    h = numbers("float32", 6, 5).astype(np.float32)
    stack = numbers("float32", 3, 6, 9).astype(np.float32)
    cases: list[tuple[Any, tuple[Any, ...], int]] = [
        (layer, (x, w, b), 1), (recurrent, (x, w, v.T, h), 1), (both, (x, w), 1), (transposed, (x, w), 1),
        (layer, (stack, w, b), 1), (lambda x, w, y: y - rate * (x @ w), (x, w, x[:, :8]), 2),
        (lambda x, w: jnp.tanh(x @ w) + x[:, :8], (x, w), 1), (twice, (x, w, b), 2),
    ]  # fmt: skip
    with changed({"LARGEST_SMALL_PRODUCT": 0}):
        for fun, args, count in cases:
            agree(fun, *args)
            names = kernels_of(fun, *args)
            assert len(names) == count, names
        agree(functad.grad(loss, (0, 1)), w, v, x)


def check_products_in_parts() -> None:
    """Terms that many blocks sum, and the last one adds up, with what follows; terms that fill no round."""
    x, w, b = (numbers("float32", *s).astype(np.float32) for s in ((3, 37), (37, 5), (5,)))
    costs = {"CUDA_GATHER_CLOCKS": -1e9, "LARGEST_SMALL_PRODUCT": 0}
    tile_for.cache_clear()
    with changed(costs):
        fun = functad.jit(lambda x, w, b: jnp.tanh(x @ w + b), backend="cuda")
        agree(lambda x, w, b: jnp.tanh(x @ w + b), x, w, b)
        agree(lambda x, w: x @ w, np.stack([x, x + 1]), w + 1j)
        assert "cuda.atomic.inc(tickets" in str(fun.lower(x, w, b).kernels)
    tile_for.cache_clear()


def check_rows_by_block() -> None:
    """Softmax, its gradient and layer norm are one kernel each; what does not lie in rows apart is not joined."""
    x = numbers("float32", 4, 3 * THREADS).astype(np.float32)

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
        labels = np.array([[2], [0], [1], [-1]])
        for length in (12, 3):
            loss = functad.value_and_grad(
                lambda x, at: (jnp.log(jnp.exp(x).sum(1)) - jnp.take_along_axis(x, at, 1)[:, 0]).mean()
            )
            lowered = functad.jit(loss, backend="cuda").lower(x[:, :length], labels)
            assert [i.n for i in lowered._lowered.generated.instructions][1:] == [1], lowered.kernels  # the mean
            agree(loss, x[:, :length], labels)
        agree(lambda x: (softmax(x).sum(), (softmax(x) * x.max(1)[0]).max(), softmax(x) + x.sum()), x)
        for fun, args in (
            (lambda x: softmax(x)[::-1] + x.sum(1, keepdims=True), (x,)),  # reads other rows
            (lambda x: (x - x.max(1, keepdims=True)).sum(0), (x,)),  # sums over all rows
            (functad.grad(lambda x: layer_norm(x, x[0], x[1]).sum()), (x,)),
            (attention, (x, x + 1, x)),
            (lambda x: lax.scan(lambda c, r: (softmax(c + r), c.sum(-1)), x[:2], jnp.stack([x[:2], x[2:]])), (x,)),
        ):
            agree(fun, *args)


def check_what_follows_from_reductions() -> None:
    """An update of a bias is the kernel that sums its gradient; what reads other results, or meanwhile, is not."""
    x, b, c = (numbers("float32", *shape).astype(np.float32) for shape in ((9, 8), (8,), (8, 9)))

    def names(fun: Any, *args: Any, **options: Any) -> list[str]:
        lowered = functad.jit(fun, backend="cuda", **options).lower(*args)._lowered
        return [i.function for i in lowered.generated.instructions]

    def update(b: Any, x: Any) -> Any:
        return b - 0.5 * (x * x).sum(0)

    def updates(b: Any, c: Any, x: Any, y: Any) -> Any:
        return b - 0.5 * x.sum(0) - 2 * (y * y).sum(0), c + 3 * y.max(0)

    step = functad.jit(updates, donate_argnums=(0, 1), backend="cuda")
    assert len(step.lower(b, b, x, x + 1)._lowered.generated.instructions) == 1
    agree(lambda *args: step(*[a * 1 for a in args]), b, b + 1, x, x + 1)
    agree(lambda b, x: (x.sum(0)[0] + x.max(0), (x - x.sum(0)).max(0), jnp.exp(x).prod(0)), b, x)
    for changes in ({}, {"CUDA_VECTOR_POINTS": 1}, {"CUDA_PART_TERMS": 2, "CUDA_BUSY_THREADS": 1 << 11}):
        with changed(changes):
            assert len(names(update, b, x, donate_argnums=0)) == 1
            agree(update, b, x)
            agree(lambda b, x: functad.jit(update, donate_argnums=0)(b * 1, x), b, x)
            for fun in (
                lambda b, x: (x.sum(0), update(b, x), (x + b).max(0) * b),
                lambda b, x: (b[::-1] + x.sum(0), x.sum(0)[::-1] * b, x.sum() * 2 + b[0]),
                lambda b, x: (update(b, x), update(b, x[::-1]) + x.max(0), jnp.exp(x).sum(0)),
                lambda b, x: (x.astype(jnp.float16).sum(0) * 3 + b, (x > 0).any(0) & (b > 0)),
                lambda b, x: (b + x.sum(1)[:8], c.sum(1) + b * x.sum(0)),
            ):
                agree(fun, b, x)


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


CHECKS = checks_of(globals())
