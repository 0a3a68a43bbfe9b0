"""Checks of what slides windows over arrays on CUDA: convolutions by tiles of all kinds, and pooling.

The interpreter is the reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from cuda_check_tools import agree, checks_of, numbers, run
from fuzz.check import changed
from primitive_form_tools import Together

import functad
import functad.numpy as jnp
from functad import lax
from functad.backends.cuda.lowering import THREADS
from functad.backends.cuda.products import convolution
from functad.backends.cuda.products.convolution_tiles import Tiling

CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "plain": ((1, 3, 4, 3), (5, 3, 3, 2), {"padding": "SAME", "window_strides": (1, 1)}),
    "strides and dilation": (
        (1, 4, 5, 4),
        (4, 2, 3, 2),
        {
            "padding": [(1, 2), (0, 1)],
            "window_strides": (2, 1),
            "rhs_dilation": (1, 2),
            "lhs_dilation": (1, 2),
            "feature_group_count": 2,
        },
    ),
    "features last": (
        (2, 6, 5),
        (3, 5, 3),
        {"padding": "VALID", "window_strides": (1,), "dimension_numbers": ("NWC", "WIO", "NWC")},
    ),
}


def _tilings() -> Iterator[Tiling]:
    """Tiles whose threads lie along places, outputs or terms, with parts, and without."""
    half = THREADS // 2
    yield Tiling(1, 1, 1, 1, THREADS, THREADS)
    yield Tiling(2, 1, 2, 1, half, max(half, 8), 2)
    yield Tiling(4, 4, half, 2, 1, 8, 3)


@contextmanager
def _tiled(tiling: Tiling) -> Iterator[None]:
    """A context in which convolutions are done by these tiles."""
    chosen = convolution.best_tiling
    try:
        vars(convolution)["best_tiling"] = lambda sums, threads: tiling
        yield
    finally:
        vars(convolution)["best_tiling"] = chosen


def _with_gradients(dtype: str, names: Sequence[str] = tuple(CONVOLUTIONS)) -> Together:
    together = Together()
    for name in names:
        lhs, rhs, params = CONVOLUTIONS[name]
        x, w = (numbers("float32", *shape).astype(dtype) for shape in (lhs, rhs))

        def both(x: Any, w: Any, params: dict[str, Any] = params) -> list[Any]:
            out, transposed = functad.vjp(lambda x, w: lax.conv_general_dilated(x, w, **params), x, w)
            return [out, *transposed(out)]

        together.add(f"{name}, {dtype}", both, [x, w])
    return together


def check_convolutions_by_all_tiles() -> str:
    tilings = list(_tilings())
    examples = (("float32", [*CONVOLUTIONS]), ("complex64", ["features last"]), ("float64", ["strides and dilation"]))
    for tiling, (dtype, names) in zip(tilings, examples, strict=True):
        with _tiled(tiling):
            run(_with_gradients(dtype, names))
    return f"{len(tilings)} tilings"


def check_convolutions_without_tiles() -> None:
    """Few terms and outputs: each thread goes through all of them."""
    with changed({"CUDA_CORES": 0, "CUDA_DIRECT_TERMS": 1 << 20, "CUDA_DIRECT_OUTPUTS": 1 << 20}):
        run(_with_gradients("float32"))


def check_what_follows_a_convolution() -> None:
    """Bias, activation and mask are its kernel's, with tiles and without, whether its own result is needed or not."""
    x, w = (numbers("float32", *shape).astype(np.float32) for shape in ((2, 2, 4, 3), (3, 2, 2, 2)))
    bias = numbers("float32", 3, 1, 1).astype(np.float32)

    def layer(x: Any, w: Any, bias: Any) -> Any:
        return jnp.maximum(lax.conv(x, w, (1, 1), "SAME") + bias, 0)

    def kept(x: Any, w: Any, bias: Any) -> Any:
        out = lax.conv(x, w, (1, 1), "SAME")
        return out, jnp.sin(out) * bias

    for direct in (0, 1 << 20):
        with changed({"CUDA_CORES": 1, "CUDA_DIRECT_TERMS": direct}):
            for fun in (layer, kept, functad.grad(lambda *a: (layer(*a) ** 2).sum(), (0, 1, 2))):
                agree(fun, x, w, bias)
            for fun in (layer, kept):
                assert str(functad.jit(fun, backend="cuda").lower(x, w, bias).kernels).count("\ndef ") == 1


def check_what_follows_pooling() -> None:
    """Each element looks for its window's selected one, in one kernel with the mask of an activation before it."""
    x = numbers("float32", 2, 4, 6, 3).astype(np.float32)
    x[0, 0, 0, :] = np.nan
    x[1, :2, :2] = 0.5
    padding = ((0, 0), (0, 0), (0, 0), (0, 0))

    def pooled(x: Any, sizes: tuple[int, ...], chosen: Any = lax.max) -> Any:
        start = -jnp.inf if chosen is lax.max else jnp.inf
        return lax.reduce_window(jnp.maximum(x, -1), start, chosen, sizes, sizes, padding)

    for sizes in ((1, 2, 2, 1), (1, 1, 3, 3), (1, 4, 1, 1)):
        for chosen in (lax.max, lax.min):
            agree(functad.grad(lambda x, s=sizes, c=chosen: (pooled(x, s, c) * 2).sum()), x)
    half = x.astype(np.float16)
    agree(functad.grad(lambda x: (pooled(x, (1, 2, 2, 1)) * 2).sum()), half)
    kernels = str(functad.jit(functad.grad(lambda x: pooled(x, (1, 2, 2, 1)).sum()), backend="cuda").lower(x).kernels)
    assert "def select_and_scatter" in kernels and "k0 < 2" in kernels, kernels
    with changed({"CUDA_WINDOW_GATHERED": 0}):
        agree(functad.grad(lambda x: (pooled(x, (1, 2, 2, 1)) * 2).sum()), x)


def check_convolutions_of_integers() -> None:
    together = Together()
    x, w = (numbers("int8", *shape) for shape in ((2, 3, 4, 4), (2, 3, 2, 2)))
    together.add("int8", lambda x, w: [lax.conv(x, w, (1, 1), "SAME")], [x, w])
    run(together)


CHECKS = checks_of(globals())
