"""Checks of every kind of kernel on CUDA at the edges of blocks, tiles, warps and vectors: sizes beside those numbers.

Sizes come from the number of threads in a block, which is small in the simulator. The interpreter is the reference; of
whole training steps the CPU.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from cuda_check_tools import NARROW, layer_norm, numbers, run, softmax
from fuzz.check import changed
from primitive_form_tools import Together, compare

import functad
import functad.numpy as jnp
from benchmarks.agreement import disagreement
from benchmarks.frameworks import contender
from benchmarks.workloads import CONVOLUTIONS, LOOPS, STEPS
from functad import lax, machine_model, nn
from functad.backends.cuda.scalars.registry import SIMULATED
from functad.dtypes import as_dtype
from functad.tree_util import tree_leaves

LENGTHS = (1, 3, 4, 5, 9, 17) if SIMULATED else (1, 2, 31, 32, 33, 127, 128, 129, 1000, 4097)
OTHERS = ("float64", *NARROW, "int32", "int8", "bool", "complex64")
VECTORS = {"CUDA_VECTOR_POINTS": 1}  # four elements at a time wherever they lie side by side

Shape = tuple[int, ...]


def scaled(*shape: int) -> Shape:
    """A shape that is written for blocks of 128 threads and tiles of 16, as small where these are 4 and 2."""
    return tuple([min(-(-n // 16) + n % 2, 24) if n > 4 else n for n in shape]) if SIMULATED else shape


def some(shapes: Sequence[Shape]) -> list[Shape]:
    """Shapes at the size of the target; in the simulator every other one of them, each once."""
    return list(dict.fromkeys(scaled(*s) for s in (shapes[::2] if SIMULATED else shapes)))


def array(dtype: str, *shape: int) -> np.ndarray:
    if dtype == "complex64":
        return numbers("float32", *shape).astype(np.complex64) + 1j * numbers("float32", *shape).astype(np.complex64)
    return numbers("float64", *shape).round(2).astype(as_dtype(dtype)) if dtype != "bool" else numbers("bool", *shape)


def floats(*shape: int) -> np.ndarray:
    return array("float32", *shape)


class Share(Together):
    """Functions of which every so many-th is tried: a GPU's checks are cut into parts, for all cores to compile."""

    which, parts = 0, 1

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    def add(self, label: str, fun: Callable[..., Sequence[Any]], args: Sequence[Any]) -> None:
        self._count += 1
        if self._count % Share.parts == Share.which:
            super().add(label, fun, args)


def part_of(check: Callable[[], Any], which: int, parts: int) -> Any:
    """One part of a check."""
    Share.which, Share.parts = which, parts
    try:
        return check()
    finally:
        Share.which, Share.parts = 0, 1


def both_ways(together: Share, forced: Mapping[str, Any] = VECTORS) -> None:
    """As the tuned numbers have it, and with kernels that such small arrays do not get."""
    run(together)
    known = {name: value for name, value in forced.items() if hasattr(machine_model, name)}
    with changed(known):
        run(together)


# --- element by element, and moves ------------------------------------------------------------------------


def check_lengths_of_maps() -> None:
    together = Share()
    for n in LENGTHS:
        together.add(f"{n} elements", lambda x, y: [x * 2 + y, jnp.exp(x)], [floats(n), floats(n)])
        together.add(f"{n} elements, a part", lambda x: [x[1:] - x[:-1], x[::-1] * 2], [floats(n + 1)])
    both_ways(together)


def check_dtypes_of_maps() -> None:
    together = Share()
    for dtype in OTHERS:
        for n in LENGTHS[4:6] + LENGTHS[-1:]:
            x, y = array(dtype, n), array(dtype, n)
            together.add(f"{n} × {dtype}", lambda x, y: [jnp.where(x == y, x, x * y), x != y], [x, y])
    both_ways(together)


def check_rows_and_columns_of_maps() -> None:
    """What is read along one axis, broadcast along another, or comes from several arrays."""
    together = Share()
    for m, n in some([(1, 300), (33, 129), (300, 1), (127, 4), (5, 1000), (128, 128)]):
        x, row, column = floats(m, n), floats(n), floats(m, 1)
        together.add(
            f"{m} × {n}", lambda x, r, c: [x * r + c, jnp.concatenate([x, x * c], 1), x[:, ::2]], [x, row, column]
        )
        together.add(f"{m} × {n}, padded", lambda x: [jnp.pad(x, ((1, 2), (3, 0))), jnp.tile(x, (2, 1))], [x])
    both_ways(together)


def check_transposes() -> None:
    together = Share()
    for m, n in some([(1, 33), (31, 65), (33, 1), (32, 32), (127, 130), (300, 7), (7, 300), (64, 96)]):
        x, y = floats(m, n), floats(n, m)
        together.add(f"{m} × {n}", lambda x, y: [x.T, x.T + y, jnp.exp(x).T * 2], [x, y])
    for dtype in OTHERS:
        x = array(dtype, *scaled(65, 40))
        together.add(f"{dtype}", lambda x: [x.T], [x])
    both_ways(together, {**VECTORS, "CUDA_SQUARE_POINTS": 1})


def check_permutations() -> None:
    together = Share()
    x = floats(*scaled(5, 33, 17))
    for axes in itertools.permutations(range(3)):
        together.add(f"{axes}", lambda x, axes=axes: [jnp.transpose(x, axes) * 2], [x])
    b = floats(*scaled(3, 4, 35, 16))
    together.add("heads", lambda b: [b.transpose(0, 2, 1, 3), b.transpose(0, 1, 3, 2) + 1], [b])
    together.add("gradient", lambda x: [functad.grad(lambda x: (x.T * x.sum(2).T).sum())(x)], [x])
    both_ways(together, {**VECTORS, "CUDA_SQUARE_POINTS": 1})


# --- reductions and rows ----------------------------------------------------------------------------------

REDUCED = [(1, 1000), (33, 129), (300, 32), (2, 4097), (4097, 2), (128, 31), (5, 1), (129, 1000)]


def check_sums() -> None:
    together = Share()
    for shape in some(REDUCED):
        together.add(f"{shape}", lambda x: [x.sum(0), x.sum(1), (x * x).sum()], [floats(*shape)])
    both_ways(together)


def check_extrema() -> None:
    together = Share()
    for shape in some(REDUCED):
        together.add(f"{shape}", lambda x: [x.max(0), x.min(1), jnp.abs(x).max(), x.argmax(1)], [floats(*shape)])
    both_ways(together)


def check_reductions_over_axes() -> None:
    together = Share()
    for shape in some([(3, 33, 70), (33, 2, 128), (129, 5, 4)]):
        x = floats(*shape)
        for axes in ((1,), (0, 2), (0, 1), (1, 2)):
            together.add(f"{shape} over {axes}", lambda x, a=axes: [x.sum(a), x.max(a)], [x])
        together.add(f"{shape}, statistics", lambda x: [x.mean(1), x.var((0, 2)), jnp.linalg.norm(x)], [x])
    both_ways(together)


def check_dtypes_of_reductions() -> None:
    together = Share()
    for dtype in OTHERS:
        x = array(dtype, *scaled(65, 300))
        if dtype == "bool":
            together.add(dtype, lambda x: [x.any(0), x.all(1), x.sum()], [x])
        elif dtype == "complex64":
            together.add(dtype, lambda x: [x.sum(0), x.sum(1), x.mean()], [x])
        else:
            together.add(dtype, lambda x: [x.sum(0), x.max(1), x.sum()], [x])
    x = floats(*scaled(40, 300))
    x[::3, ::7] = np.nan
    together.add("NaN", lambda x: [x.max(0), x.min(1), jnp.nanmax(x, 1)], [x])
    both_ways(together)


ROWS = [(1, 10), (100, 10), (3, 1), (128, 33), (300, 129), (2, 4097)]


def check_softmax() -> None:
    together = Share()
    for shape in some(ROWS):
        x = floats(*shape)
        together.add(f"{shape}", lambda x: [softmax(x), nn.log_softmax(x)], [x])
        together.add(f"{shape}, gradient", lambda x: [functad.grad(lambda x: (softmax(x) ** 2).sum())(x)], [x])
    both_ways(together)


def check_layer_norm() -> None:
    together = Share()
    for shape in some(ROWS[1::2]):
        given = [floats(*shape), floats(shape[1]), floats(shape[1])]
        gradient = functad.grad(lambda x, s, t: (layer_norm(x, s, t) ** 3).sum(), (0, 1, 2))
        together.add(f"{shape}", lambda *a: [layer_norm(*a)], given)
        together.add(f"{shape}, gradient", lambda *a, g=gradient: list(g(*a)), given)
    both_ways(together)


def cross_entropy(scores: Any, labels: Any) -> Any:
    return nn.softmax_cross_entropy_with_integer_labels(scores, labels).mean()


def check_cross_entropy() -> None:
    together = Share()
    for m, n in some([(1, 10), (100, 10), (64, 2), (129, 33), (300, 10), (33, 129)]):
        labels = np.arange(m, dtype=np.int32) * 7 % n
        fun: Any = functad.value_and_grad(cross_entropy)
        together.add(f"{m} × {n}", lambda x, k, f=fun: list(f(x, k)), [floats(m, n), labels])
    both_ways(together)


# --- products ---------------------------------------------------------------------------------------------

PRODUCTS = [
    (1, 1, 1), (3, 5, 7), (1, 128, 1), (17, 31, 33), (64, 64, 64), (65, 33, 129), (100, 784, 10), (100, 10, 784),
    (128, 100, 128), (129, 1, 64), (2, 300, 2), (257, 16, 5), (784, 100, 128), (31, 500, 17),
]  # fmt: skip


def check_products_of_odd_shapes(which: str = "functad") -> None:
    together = Share()
    for m, k, n in some(PRODUCTS):
        operands = floats(m, k), floats(k, n), floats(k, m), floats(n, k)
        # One result alone, whose terms may cancel, has no larger one beside it by which to measure its rounding.
        a, b, left, right = map(np.abs, operands) if m * n == 1 else operands
        together.add(f"{m} × {k} × {n}", lambda a, b: [a @ b], [a, b])
        together.add(f"{m} × {k} × {n}, transposed", lambda a, b: [a.T @ b], [left, right.T if m % 2 else b])
        together.add(f"{m} × {k} × {n}, on the right", lambda a, b: [a @ b.T], [a, right])
    with functad.config.context(cuda_products=which):
        run(together)


def check_products_by_cublas() -> None:
    """Where it is found."""
    check_products_of_odd_shapes("cublas")


def check_products_and_what_follows() -> None:
    """A bias, ReLU and its mask, an update in place, and sums over the result."""
    together = Share()
    for m, k, n in some([(100, 784, 128), (100, 128, 10), (33, 65, 31), (1, 100, 5), (129, 3, 64), (64, 17, 4)]):
        x, b, g = floats(m, k), floats(n), floats(m, n)
        w = (floats(k, n) / np.sqrt(k)).astype(np.float32)  # else tanh sees rounding errors of large sums
        together.add(f"{m} × {k} × {n}, bias", lambda x, w, b: [jax_like(x, w, b), jnp.tanh(x @ w + b)], [x, w, b])
        together.add(f"{m} × {k} × {n}, update", lambda x, w, g: [w - 0.1 * (x.T @ g), (g @ w.T) * (x > 0)], [x, w, g])
        together.add(f"{m} × {k} × {n}, sums", lambda x, w: [(x @ w).sum(0), nn.relu(x @ w).max(1)], [x, w])
    run(together)
    with functad.config.context(cuda_products="functad"):
        run(together)


def jax_like(x: Any, w: Any, b: Any) -> Any:
    return nn.relu(x @ w + b)


def check_dtypes_of_products() -> None:
    together = Share()
    for dtype in OTHERS:
        m, k, n = scaled(33, 47, 65)
        together.add(dtype, lambda a, b: [a @ b, b.T @ a.T], [array(dtype, m, k), array(dtype, k, n)])
    for m, k, n in some([(33, 17, 20), (1, 64, 64), (64, 64, 1)]):
        a, b = floats(3, m, k), floats(3, k, n)
        together.add(f"3 of {m} × {k} × {n}", lambda a, b: [a @ b, jnp.einsum("bmk,bkn->mbn", a, b)], [a, b])
    run(together)
    with functad.config.context(cuda_products="functad"):
        run(together)


# --- convolutions and windows -----------------------------------------------------------------------------

# batch, features, height, width; features out, height and width of the kernel; strides, padding, dilations, groups
CONVOLVED: list[tuple[Shape, Shape, dict[str, Any]]] = [
    ((3, 1, 28, 28), (6, 3, 3), {}),
    ((2, 5, 9, 7), (4, 3, 2), {"padding": ((1, 1), (0, 2))}),
    ((2, 16, 12, 12), (33, 3, 3), {"padding": "SAME"}),
    ((1, 64, 14, 14), (64, 3, 3), {"padding": "SAME"}),
    ((2, 6, 11, 10), (8, 3, 3), {"strides": (2, 2), "padding": "SAME"}),
    ((2, 4, 9, 8), (6, 2, 3), {"strides": (1, 2), "rhs_dilation": (2, 1)}),
    ((1, 3, 5, 6), (5, 3, 3), {"lhs_dilation": (2, 2), "padding": ((1, 1), (1, 2))}),
    ((2, 8, 8, 8), (12, 3, 3), {"feature_group_count": 4, "padding": "SAME"}),
    ((2, 9, 8, 8), (9, 3, 3), {"feature_group_count": 9}),
    ((4, 17, 1, 33), (31, 1, 5), {}),
    ((1, 2, 6, 6), (3, 6, 6), {}),
    ((5, 3, 7, 7), (7, 1, 1), {}),
]


def convolution(number: int) -> None:
    """A convolution and its two gradients; with ReLU behind it, too."""
    (batch, features, *sides), (out, *window), how = CONVOLVED[number]
    if SIMULATED:
        groups = how.get("feature_group_count", 1)
        batch, features, out = min(batch, 2), groups if groups > 1 else min(features, 3), groups if groups > 1 else 3
        sides = [min(s, 6) for s in sides]
    groups = how.get("feature_group_count", 1)
    x, w = floats(batch, features, *sides), floats(out, features // groups, *window)
    given = {"padding": "VALID", **how}
    strides, padding = given.pop("strides", (1, 1)), given.pop("padding")
    fun = partial(lax.conv_general_dilated, window_strides=strides, padding=padding, **given)
    ct = floats(*functad.eval_shape(fun, x, w).shape)
    together = Share()
    together.add("itself", lambda x, w: [fun(x, w), nn.relu(fun(x, w) + 1)], [x, w])
    together.add("gradients", lambda x, w, c: list(functad.vjp(fun, x, w)[1](c)), [x, w, ct])
    run(together)


def check_pooling() -> None:
    """Windows that meet and that do not, at borders, and their gradients."""
    together = Share()
    for shape in some([(2, 6, 24, 24), (1, 3, 9, 7)]):
        x = floats(*shape)
        for window, strides, padding in (
            ((2, 2), (2, 2), "VALID"),
            ((3, 3), (2, 2), "SAME"),
            ((2, 3), (1, 1), "VALID"),
        ):
            if shape[2] < window[0] or shape[3] < window[1]:
                continue
            for kind in (nn.MaxPool, nn.AvgPool):
                fun = partial(kind(window, strides, padding).apply, ())
                label = f"{kind.__name__} {window} {strides} {padding} of {shape}"
                together.add(label, lambda x, f=fun: [f(x), functad.grad(lambda x: (f(nn.relu(x)) ** 2).sum())(x)], [x])
    run(together)


# --- indices, order, loops --------------------------------------------------------------------------------


def check_gradients_of_embeddings() -> None:
    """Rows that come again and again, one of them most of the time, some never."""
    together = Share()
    for words, width, count in some([(7, 50, 33), (300, 3, 1000), (1000, 50, 5000), (2, 128, 129), (129, 1, 4200)]):
        at = (np.arange(count) * 7919 % (3 * words)).astype(np.int32)
        at[at >= words] = 0
        table, ct = floats(words, width), floats(count, width)
        gradient = functad.grad(lambda t, at, c: (jnp.tanh(t[at]) * c).sum())
        together.add(
            f"{count} of {words} × {width}", lambda t, at, c, g=gradient: [t[at] * 2, g(t, at, c)], [table, at, ct]
        )
    both_ways(together, {"CUDA_SORTED_UPDATES": 2})


def check_updates_of_many_places() -> None:
    together = Share()
    for n in LENGTHS[2::3]:
        at = (np.arange(n) * 31 % (n // 2 + 1) - 1).astype(np.int32)
        x, r = floats(n // 2 + 1), floats(n)
        for kind in ("add", "set", "max", "multiply"):
            signs = np.sign(r) if kind == "multiply" else r
            together.add(f"{n} × {kind}", lambda x, at, r, k=kind: [getattr(x.at[at], k)(r)], [x, at, signs])
        together.add(f"{n} whole", lambda x, at: [x.at[at].add(3), x.at[at].min(1)], [np.arange(n // 2 + 1), at])
    both_ways(together, {"CUDA_SORTED_UPDATES": 2})


def check_lengths_of_what_is_carried() -> None:
    together = Share()
    for n in LENGTHS:
        together.add(f"{n} elements", lambda x: [jnp.cumsum(x), lax.cummax(x, reverse=True)], [floats(n)])
    for shape in some([(3, 129), (129, 3), (33, 300)]):
        together.add(f"{shape}", lambda x: [jnp.cumsum(x, 0), jnp.cumsum(x, 1), lax.cummin(x, 1)], [floats(*shape)])
    both_ways(together, {"CUDA_CARRIED_ITEMS": 1})


def check_lengths_of_sorts() -> None:
    together = Share()
    for n in LENGTHS:
        together.add(f"{n} elements", lambda x: [jnp.sort(x), jnp.argsort(x)], [floats(n)])
    for m, n in some([(300, 33), (5, 1000), (33, 2)]):
        together.add(f"{m} × {n}", lambda x: [jnp.sort(x, 1), jnp.argsort(x, 0), *lax.top_k(x, 2)], [floats(m, n)])
    run(together)


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[-1] ** 0.5
    mask = jnp.tri(q.shape[2], dtype=bool)
    return jnp.einsum("bhqk,bhkd->bhqd", softmax(jnp.where(mask, scores, -jnp.inf)), v)


def check_attention() -> None:
    together = Share()
    for shape in some([(1, 1, 1, 1), (1, 2, 33, 8), (2, 3, 65, 16), (1, 1, 129, 64)]):
        given = [floats(*shape) for _ in range(3)]
        gradient = functad.grad(lambda *a: (attention(*a) ** 2).sum(), (0, 1, 2))
        together.add(f"{shape}", lambda *a: [attention(*a)], given)
        together.add(f"{shape}, gradient", lambda *a, g=gradient: list(g(*a)), given)
        by_head = [a.transpose(0, 2, 1, 3) for a in given]
        together.add(f"{shape}, of functad.nn", lambda *a: [nn.dot_product_attention(*a)], by_head)
    run(together)


def cell(params: Any, state: Any, x: Any) -> Any:
    h, c = state
    i, f, g, o = jnp.split(x @ params[0] + h @ params[1], 4, -1)
    c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
    h = nn.sigmoid(o) * jnp.tanh(c)
    return (h, c), h


def check_recurrent_networks() -> None:
    """An LSTM and its gradient, as a loop whose steps are launches."""
    for batch, width in some([(1, 5), (33, 32), (100, 33)]):
        params = [floats(7, 4 * width) * 0.1, floats(width, 4 * width) * 0.1]
        xs, zero = floats(5, batch, 7), np.zeros((batch, width), np.float32)

        def loss(w: Any, u: Any, xs: Any, zero: np.ndarray = zero) -> Any:
            return (lax.scan(lambda s, x: cell((w, u), s, x), (zero, zero), xs)[1] ** 2).sum()

        gradient = functad.value_and_grad(loss, (0, 1))
        expected = functad.jit(gradient, backend="interpreter")(*params, xs)
        got = functad.jit(gradient, backend="cuda")(*params, xs)
        for e, g in zip(tree_leaves(expected), tree_leaves(got), strict=True):
            compare(np.asarray(e), np.asarray(g), f"{batch} × {width}")


# --- training steps ---------------------------------------------------------------------------------------


def first_step(name: str) -> str:
    """A published workload at its own size, beside the same on the CPU."""
    task = {**STEPS, **LOOPS, **CONVOLUTIONS}[name].task()
    outcomes = []
    for device in (None, "cuda"):
        with functad.config.context(default_device=device):
            outcomes.append(contender("functad", task).outcome())
    difference, where = disagreement(*outcomes)
    assert difference < 2e-3, f"{where}: {difference:.1e} of the largest"
    return f"differs by {difference:.1e}"


TRIED = ("W1", "W2", "W3", "W5-128", "W5-512", "lstm", "W2-scan", *CONVOLUTIONS)
_WHOLE: dict[str, Callable[[], str | None]] = {
    f"edges, {name.removeprefix('check_').replace('_', ' ')}": value
    for name, value in list(globals().items())
    if name.startswith("check_")
}
PARTS = {"recurrent": 1, "sums": 4, "extrema": 4, "softmax": 4, "layer": 2, "lengths": 3, "products of": 3}
"""How many parts a check has on a GPU, by how its name begins."""


def _in_parts() -> dict[str, Callable[[], str | None]]:
    found: dict[str, Callable[[], str | None]] = {}
    for name, check in _WHOLE.items():
        known = [n for start, n in PARTS.items() if name.removeprefix("edges, ").startswith(start)]
        parts = (known or [2])[0]
        found |= {
            f"{name}{f', part {k + 1} of {parts}' if parts > 1 else ''}": partial(part_of, check, k, parts)
            for k in range(parts)
        }
    return found


CHECKS = {**_WHOLE, **{f"edges, convolution {k}": partial(convolution, k) for k in range(len(CONVOLVED))}}
ON_A_GPU = {**_in_parts(), **{f"edges, {name} at its own size": partial(first_step, name) for name in TRIED}}
INSTEAD = frozenset(_WHOLE)
"""What the parts of checks stand for on a GPU."""
