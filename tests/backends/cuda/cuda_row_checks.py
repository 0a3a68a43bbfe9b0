"""Checks of loops that are one kernel on CUDA, because blocks of threads have rows of their own: attention in blocks.

The interpreter is the reference.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
from cuda_check_tools import NARROW, agree, checks_of
from fuzz.check import changed

import functad
import functad.numpy as jnp
from functad import lax, nn
from functad.dtypes import as_dtype
from functad.lowering.blocks import ControlPlan
from functad.nn import attention

rng = np.random.default_rng(0)


def floats(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return rng.normal(size=shape).astype(dtype)


def loops_left(fun: Callable[..., Any], *args: Any) -> int:
    """How many loops of launches a function has on CUDA."""
    return len(strips_of(fun, *args))


def strips_of(fun: Callable[..., Any], *args: Any) -> list[int]:
    """The lengths of loops of launches."""
    made = functad.jit(fun, backend="cuda").lower(*args)._lowered.generated
    return [i.step.length for i in made.instructions if isinstance(i, ControlPlan)]


def check_attention_in_blocks() -> None:
    """Lengths that are no multiples of blocks, masks, weights of zero, NaN and infinities; other dtypes, too."""
    blocks = {"_LOGITS_BYTES": 0, "_QUERIES": 8, "_KEYS": 5}
    odd, even = [floats(1, n, 2, 4) for n in (13, 11, 11)], [floats(2, n, 3, 2, dtype=np.float64) for n in (16, 10, 10)]
    wild = [x.copy() for x in odd]
    wild[0][0, 3, 0, 1], wild[1][0, 5, 1, 2], wild[2][0, 10, 0, 0] = np.nan, np.inf, -np.inf
    hidden = floats(1, 2, 13, 11)
    hidden[0, 0, 4], hidden[0, 1, :, 3] = -np.inf, -np.inf
    few = [floats(2, 16, n, 2) for n in (4, 2, 2)]  # heads that share keys
    cases: list[tuple[list[np.ndarray], dict[str, Any]]] = [
        (wild, {"is_causal": True, "return_residual": True}),
        (odd, {"bias": hidden}),
        (few, {}),
        ([few[0][:1, :, :3], few[1][:1, :8, :1], few[2][:1, :8, :1]], {"is_causal": True}),
        *(([floats(1, n, 2, 4, dtype=as_dtype(t)) for n in (16, 10, 10)], {"is_causal": True}) for t in NARROW),
        (even, {"key_value_seq_lengths": np.array([0, 7], np.int32), "local_window_size": (3, 1)}),
    ]
    with patch.multiple(attention, **blocks), changed({"CUDA_KEPT_PRODUCT": 0.0}):
        for given, options in cases:

            def attend(q: Any, k: Any, v: Any, options: dict[str, Any] = options) -> Any:
                return nn.dot_product_attention(q, k, v, **options)

            assert loops_left(attend, *given) == 0, options
            agree(attend, *given)


def check_gradients_of_attention_in_blocks() -> None:
    """Strips of some steps, and of all; masks; heads that share keys, in batches, too."""
    alike, wide = (
        [floats(1, n, 2, 4) for n in (32, 10, 10)],
        [floats(1, n, 2, 4, dtype=np.float64) for n in (32, 10, 10)],
    )
    few = [floats(2, 16, n, 2) for n in (4, 2, 2)]  # heads that share keys
    hidden = floats(1, 2, 32, 10)
    hidden[0, 0, 4], hidden[0, 1, :, 3] = -np.inf, -np.inf
    cases: list[tuple[list[np.ndarray], dict[str, Any], int, int]] = [
        (alike, {}, 5000, 2),
        (alike, {"is_causal": True}, 1 << 20, 0),
        (wide, {"bias": hidden.astype(np.float64)}, 1 << 20, 0),
        (few, {}, 1 << 20, 0),
        ([few[0], few[1][:, :10], few[2][:, :10]], {"is_causal": True}, 1 << 20, 0),
        ([few[0][:1], few[1][:1, :, :1], few[2][:1, :, :1]], {}, 1 << 20, 0),
        # Sums of float16 that start from other sums stay in their loop, as without what is added they could overflow.
        *(([x.astype(as_dtype(name)) for x in alike], {}, 1 << 20, 4 * (name == "float16")) for name in NARROW),
    ]
    with patch.multiple(attention, _LOGITS_BYTES=0, _QUERIES=8, _KEYS=5), changed({"CUDA_KEPT_PRODUCT": 0.0}):
        for given, options, most, strips in cases:
            args = [*given, floats(*given[0].shape, dtype=given[0].dtype)]

            def attended(q: Any, k: Any, v: Any, weights: Any, options: Any = options) -> Any:
                return (nn.dot_product_attention(q, k, v, **options) * weights).sum()

            with changed({"CUDA_STRIP_BYTES": most, "UNROLLED_STEPS": 0}):
                gradient = functad.grad(attended, (0, 1, 2))
                left = strips_of(gradient, *args)
                assert left == ([strips] if strips else []), (options, left)
                agree(gradient, *args)


def check_weights_of_rows() -> None:
    """The gradients of what all steps read are products of what their rows leave, and sums, where steps add them up."""

    def summed(rows: Any, w: Any, b: Any, v: Any, scale: Any) -> Any:
        return lax.map(lambda x: jnp.tanh(jnp.tanh(x @ w + b) @ v) * scale, rows).sum()

    def tied(rows: Any, w: Any, b: Any, v: Any, scale: Any) -> Any:
        """Two products, and two sums of rows, are added up in one carry each."""
        return lax.map(lambda x: jnp.tanh(jnp.tanh(jnp.tanh(x @ w + b) @ w.T * scale) @ w + b), rows).sum()

    given = floats(9, 8, 5), floats(5, 6), floats(6), floats(6, 5), floats(5)
    numbers = {"CUDA_KEPT_PRODUCT": 0.0, "UNROLLED_STEPS": 0, "LARGEST_SMALL_PRODUCT": 0, "LARGEST_HOISTED_PRODUCT": 0}
    for fun, most, left in ((summed, 1 << 20, []), (summed, 3 * 8 * 22 * 4, [3]), (tied, 1 << 20, [])):
        with changed({**numbers, "CUDA_STRIP_BYTES": most}):

            def gradient(*given: Any, fun: Any = fun) -> Any:
                return functad.grad(fun, (0, 1, 2, 3, 4))(*given)

            found = strips_of(gradient, *given)
            assert found == left, found
            agree(gradient, *given)


def layers(rows: Any, w: Any, b: Any) -> Any:
    """A layer norm and a product, for each of some matrices in turn."""

    def one(x: Any) -> Any:
        x = (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return lax.fori_loop(0, 3, lambda k, x: jnp.maximum(x @ w, 0) * 0.5 + b * k, x), x.max(-1)

    return lax.map(one, rows)


def across(rows: Any, w: Any) -> Any:
    """What needs all rows of a matrix is no kernel of rows: all steps are done at once."""
    return lax.map(lambda x: (x @ w - x.mean(0)) @ w, rows)


def carried(rows: Any, w: Any) -> Any:
    """Nor is a loop whose steps need what the one before has left."""
    return lax.scan(lambda c, x: ((c + x) @ w, (x @ w).sum(-1)), rows[0], rows)


def check_rows_of_other_loops() -> None:
    rows, w, b = floats(9, 8, 5), floats(5, 5), floats(5)
    with changed({"UNROLLED_STEPS": 0, "LARGEST_SMALL_PRODUCT": 0, "LARGEST_HOISTED_PRODUCT": 0.0}):
        for fun, given, left, is_one in (
            (layers, (rows, w, b), 0, True),
            (across, (rows, w), 0, False),
            (carried, (rows, w), 1, False),
        ):
            assert loops_left(fun, *given) == left, fun.__name__
            kernels = functad.jit(fun, backend="cuda").lower(*given)._lowered.generated.kernels
            assert any("scan" in name for name in kernels) == is_one, fun.__name__
            # A number that one thread changes is read by no other meanwhile.
            alone = [re.search(r"if lane == 0:\n +at_\w+ = own_\d\[0\]", k.body) for k in kernels.values()]
            assert any(alone) == is_one, fun.__name__
            agree(fun, *given)


def check_rows_in_memory_of_their_blocks() -> None:
    """Where a block has more for itself than its shared memory holds, and where blocks have several rows in turn."""
    rows, w = floats(9, 8, 3), floats(3, 16)
    with changed({"CUDA_SHARED_BYTES": 400, "CUDA_CORES": 4, "LARGEST_HOISTED_PRODUCT": 0.0}):
        fun = lambda rows, w: lax.map(lambda x: jnp.exp(x @ w - (x @ w).max(-1, keepdims=True)) @ w.T, rows)  # noqa: E731
        made = functad.jit(fun, backend="cuda").lower(rows, w)._lowered
        (kernel,) = [k for name, k in made.generated.kernels.items() if "scan" in name]
        assert kernel.mapping.work == 8 and any(buffer.shape[0] == 8 for _, buffer, _ in kernel.parameters)
        agree(fun, rows, w)


def check_transposed_left_operands() -> None:
    """A block has its own rows side by side, nearer to one another than all rows are."""

    def transposed(rows: Any, scale: Any, weight: Any) -> Any:
        numbers = (((0,), (0,)), ((), ()))
        return lax.map(lambda x: lax.dot_general(jnp.exp(x) * scale, weight, numbers), rows)

    given = floats(3, 5, 16), floats(16), floats(5, 8)
    with changed({"UNROLLED_STEPS": 0, "LARGEST_SMALL_PRODUCT": 0, "LARGEST_HOISTED_PRODUCT": 0.0}):
        assert loops_left(transposed, *given) == 0
        agree(transposed, *given)


def check_rows_that_do_not_lie_equally_far_apart_and_products_of_several_dtypes() -> None:
    def split(rows: Any, w: Any) -> Any:
        return lax.map(lambda x: jnp.tanh(x.transpose(1, 0, 2).reshape(8, 5) @ w), rows)

    def shifted(rows: Any, w: Any) -> Any:
        return lax.map(lambda x: jnp.tanh(x.reshape(4, 10)[:, 1:9].T @ w[:4]), rows)

    def mixed(rows: Any, w: Any) -> Any:
        wide = w.astype("float64")
        return lax.map(lambda x: (jnp.tanh(x[0] @ w).astype("float64") @ wide.T).astype("float32"), rows)

    options = {
        "UNROLLED_STEPS": 0,
        "LARGEST_SMALL_PRODUCT": 0,
        "LARGEST_HOISTED_PRODUCT": 0.0,
        "CUDA_KEPT_PRODUCT": 0.0,
    }
    with changed(options):
        for fun in (split, shifted, mixed):
            agree(fun, floats(3, 2, 4, 5), floats(5, 6))


CHECKS = checks_of(globals())
