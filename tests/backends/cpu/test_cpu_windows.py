"""The kernels of windows against the implementations: hard configurations and random ones, plain and compiled."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from kernel_ir import optimized_kernels
from loops_tools import check_loops, record

import functad
from functad import tracing
from functad.evaluation import implementation
from functad.primitives.window import reduce_window_max_p, reduce_window_min_p, reduce_window_sum_p
from functad.primitives.window_geometry import dilated, window_parameters, windows_shape
from functad.primitives.window_select import select_and_gather_add_p, select_and_scatter_add_p

pytestmark = pytest.mark.generated(every=3)  # tables of shapes, dtypes and ways

PRIMITIVES = {
    p.name: p
    for p in (
        reduce_window_max_p,
        reduce_window_min_p,
        reduce_window_sum_p,
        select_and_gather_add_p,
        select_and_scatter_add_p,
    )
}
SELECTING = ("select_and_gather_add", "select_and_scatter_add")


def case(name, rng, shape, dtype="float32", select_prim="ge", special=False, **windows):
    """Operands and parameters of one primitive: few different numbers, so that many are equal."""
    params = window_parameters(len(shape), **windows)
    x = numbers(rng, shape, dtype, special)
    if name not in SELECTING:
        return (x,), params
    if name == "select_and_gather_add":
        return (numbers(rng, shape, dtype, special), x), {"select_prim": select_prim, **params}
    source = numbers(rng, windows_shape("", tuple(shape), **params), dtype, special)
    assert set(params.pop("base_dilation")) | set(params.pop("window_dilation")) <= {1}
    return (source, x), {"select_prim": select_prim, **params}


def numbers(rng, shape, dtype, special=False):
    kind = np.dtype(dtype).kind
    x = rng.integers(0 if kind in "bu" else -3, 2 if kind == "b" else 4, shape)
    if kind not in "fc":
        return x.astype(dtype)
    x = x.astype(dtype)
    for value in (np.nan, -np.inf, np.inf) if special else ():
        x = np.where(rng.random(shape) < 0.15, np.dtype(dtype).type(value), x)
    return x


def check(name, args, params, compiled=False):
    adds = name in ("reduce_window_sum", "select_and_scatter_add")
    tolerance = {"float16": 2e-3}.get(args[0].dtype.name, 1e-6) if adds and args[0].dtype.kind in "fc" else 0.0
    check_loops(PRIMITIVES[name], args, params, tolerance=tolerance, compiled=compiled)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", PRIMITIVES)
def test_examples(name, compiled):
    for example in PRIMITIVES[name].examples():
        check(name, example.args, example.params, compiled)


POOLS = {
    "2x2": ((2, 2, 4, 6), {"window_dimensions": (1, 1, 2, 2), "window_strides": (1, 1, 2, 2)}),
    "2x2 with rests": ((2, 1, 7, 5), {"window_dimensions": (1, 1, 2, 2), "window_strides": (1, 1, 2, 2)}),
    "width 8, channels last": ((2, 16, 8), {"window_dimensions": (1, 8, 1), "window_strides": (1, 8, 1)}),
    "3x3 stride 2": ((1, 2, 5, 37), {"window_dimensions": (1, 1, 3, 3), "window_strides": (1, 1, 2, 2)}),
    "3x3 stride 2, padded": (
        (2, 1, 6, 22),
        {
            "window_dimensions": (1, 1, 3, 3),
            "window_strides": (1, 1, 2, 2),
            "padding": ((0, 0), (0, 0), (1, 1), (1, 1)),
        },
    ),
    "3x3 stride 2, padded, channels last": (
        (2, 5, 6, 5),
        {
            "window_dimensions": (1, 3, 3, 1),
            "window_strides": (1, 2, 2, 1),
            "padding": ((0, 0), (0, 1), (1, 1), (0, 0)),
        },
    ),
    "gaps between windows": ((2, 11, 10), {"window_dimensions": (1, 2, 2), "window_strides": (1, 3, 4)}),
    "global": ((2, 2, 6, 6), {"window_dimensions": (1, 1, 6, 6)}),
    "global, channels last": ((2, 6, 6, 3), {"window_dimensions": (1, 6, 6, 1)}),
    "large and overlapping": ((2, 9, 12), {"window_dimensions": (1, 6, 8), "window_strides": (1, 1, 2)}),
    "long": ((2, 50), {"window_dimensions": (1, 30), "window_strides": (1, 5), "padding": ((0, 0), (10, 29))}),
    "cropped": ((2, 9, 9), {"window_dimensions": (1, 2, 3), "padding": ((0, 0), (-2, -1), (-1, 1))}),
    "all padding": ((2, 3), {"window_dimensions": (1, 2), "padding": ((0, 0), (-5, 6))}),
    "no axes": ((), {"window_dimensions": ()}),
    "windows of one element": ((5, 3), {"window_dimensions": (1, 1)}),
    "strides only": ((2, 9, 5), {"window_dimensions": (1, 1, 1), "window_strides": (1, 2, 3)}),
    "no elements, padded": ((0, 3), {"window_dimensions": (1, 2), "padding": ((1, 1), (0, 0))}),
    "no windows": ((2, 3), {"window_dimensions": (1, 4)}),
}


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("name", PRIMITIVES)
def test_pools(name, pool):
    shape, windows = POOLS[pool]
    args, params = case(name, np.random.default_rng(len(pool)), shape, special=True, **windows)
    with np.errstate(invalid="ignore"):
        check(name, args, params)


COMPILED = ["2x2", "width 8, channels last", "3x3 stride 2, padded", "global", "large and overlapping"]


@pytest.mark.parametrize("pool", COMPILED)
@pytest.mark.parametrize("name", PRIMITIVES)
def test_compiled_pools(name, pool):
    shape, windows = POOLS[pool]
    args, params = case(name, np.random.default_rng(0), shape, select_prim="le", special=True, **windows)
    with np.errstate(invalid="ignore"):
        check(name, args, params, compiled=True)


REALS = ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64", "float16", "float64"]
DTYPES = [(name, dtype) for name in PRIMITIVES for dtype in REALS]
DTYPES += [("reduce_window_sum", "complex64"), ("reduce_window_sum", "complex128")]
DTYPES += [("reduce_window_max", "bool"), ("reduce_window_min", "bool")]


@pytest.mark.parametrize(("name", "dtype"), DTYPES)
def test_dtypes(name, dtype):
    for pool in ("2x2 with rests", "large and overlapping", "global"):
        shape, windows = POOLS[pool]
        args, params = case(name, np.random.default_rng(0), shape, dtype, **windows)
        check(name, args, params)
        if pool == "2x2 with rests" and dtype in ("bool", "int8", "uint64", "float16", "complex64"):
            check(name, args, params, compiled=True)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64", "float16", "float64"])
def test_extreme_values_win_over_padding(dtype):
    limits = np.finfo(dtype) if dtype.startswith("f") else np.iinfo(dtype)
    x = np.array([limits.min, limits.min, limits.max, limits.max], dtype)
    windows = {"window_dimensions": (2,), "padding": ((1, 1),)}
    params = window_parameters(1, **windows)
    for name in PRIMITIVES:
        if name == "reduce_window_sum":
            continue
        args, selecting = case(name, np.random.default_rng(0), (4,), dtype, **windows)
        for compiled in (False, True):
            check(name, (*args[:-1], x), selecting if name in SELECTING else params, compiled)


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 4, 5, 3)])
@pytest.mark.parametrize(("window", "stride"), [(2, 2), (3, 2), (2, 3), (3, 1)])
def test_the_transpose_of_a_sum(shape, window, stride):
    """The windows of a cotangent: holes between its elements where the pool had strides."""
    spatial = (2, 3) if shape[1] == 3 else (1, 2)
    size = [dilated(n, stride) + window - 1 if i in spatial else n for i, n in enumerate(shape)]
    at = lambda value, other: tuple(value if i in spatial else other for i in range(4))  # noqa: E731
    args, params = case(
        "reduce_window_sum",
        np.random.default_rng(0),
        shape,
        window_dimensions=at(window, 1),
        base_dilation=at(stride, 1),
        padding=at((window - 1, window - 1), (0, 0)),
    )
    assert windows_shape("", shape, **params) == tuple(size)
    check("reduce_window_sum", args, params)
    check("reduce_window_sum", args, params, compiled=True)


@pytest.mark.parametrize("seed", range(10))
def test_random_windows(seed):
    rng = np.random.default_rng(seed)
    for name in PRIMITIVES:
        shape, windows = random_windows(rng, dilates=name != "select_and_scatter_add")
        dtype = str(rng.choice(["float32", "float64", "int32"]))
        args, params = case(name, rng, shape, dtype, str(rng.choice(["ge", "le"])), special=bool(seed % 2), **windows)
        with np.errstate(invalid="ignore"):
            check(name, args, params, compiled=bool(seed % 3 == 0))


def random_windows(rng, dilates):
    """A small shape, and windows on it of which there is at least one."""
    while True:
        ndim = int(rng.integers(1, 5))
        shape = [int(n) for n in rng.choice([1, 2, 3, 5, 8, 13, 18], ndim)]
        window = [int(n) for n in rng.choice([1, 1, 2, 3, 4, 7], ndim)]
        pads = [(int(low), int(high)) for low, high in rng.integers(-1, 3, (ndim, 2)) * rng.integers(0, 2, (ndim, 1))]
        windows = {
            "window_dimensions": window,
            "window_strides": window if rng.random() < 0.4 else [int(n) for n in rng.integers(1, 4, ndim)],
            "padding": pads,
        }
        if dilates and rng.random() < 0.6:
            windows["base_dilation"] = [int(n) for n in rng.integers(1, 4, ndim)]
            windows["window_dilation"] = [int(n) for n in rng.integers(1, 4, ndim)]
        count = math.prod(windows_shape("", tuple(shape), **window_parameters(ndim, **windows)))
        if 0 < count * math.prod(window) < 2000 and math.prod(shape) < 500:
            return shape, windows


def test_windows_that_share_nothing_need_one_pass():
    """No zeros are written before, and none of the kernels waits for another."""
    _, windows = POOLS["2x2"]
    args, params = case("select_and_scatter_add", np.random.default_rng(0), (5, 2, 4, 4), **windows)
    recorded = record(select_and_scatter_add_p, args, params)
    (kernel,) = recorded.instructions
    assert kernel.n == 10 and kernel.rows and kernel.row_reads == ("ct", "x")
    assert kernel.body.count("out[") == 4 and kernel.buffers["out"][1] == "w"


@pytest.mark.parametrize("pool", ["2x2", "width 8, channels last", "3x3 stride 2"])
def test_many_windows_are_compared_at_once(pool):
    shape, windows = POOLS[pool]
    shape = (*shape[:-1], 2 * shape[-1])
    args, params = case("select_and_gather_add", np.random.default_rng(0), shape, **windows)
    (kernel,) = record(select_and_gather_add_p, args, params).instructions
    words = "f32, i64, minimum, where"
    source = f"from functad.backends.cpu.scalars.elementary import {words}\n\n{kernel.source()}\n"
    dtypes = [buffer.dtype for buffer, _ in kernel.buffers.values()]
    module = optimized_kernels(source, "<kernel>", {kernel.name: dtypes})
    assert re.search(r"fcmp [a-z ]*oge <\d+ x float>", str(module))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "uint8"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(
    ("name", "select_prim"),
    [
        ("reduce_window_max", "ge"), ("reduce_window_min", "ge"), ("reduce_window_sum", "ge"),
        ("select_and_scatter_add", "ge"), ("select_and_scatter_add", "le"),
    ],
)  # fmt: skip
def test_windows_that_are_cut_off_are_slices(name, select_prim, stride, dtype):
    rng = np.random.default_rng(stride)
    windows = {"window_dimensions": (1, 3, 2, 1), "window_strides": (1, stride, stride, 1)}
    special = name != "reduce_window_sum" and dtype[0] == "f"
    for padding in (((0, 0), (1, 1), (1, 0), (0, 0)), ((0, 0), (2, -1), (0, 3), (0, 0))):
        args, params = case(name, rng, (2, 6, 5, 3), dtype, select_prim, special, padding=padding, **windows)
        args = [
            np.where(rng.random(a.shape) < 0.2, -a, a) if dtype[0] == "f" else a for a in args
        ]  # zeros of both signs
        if name == "select_and_scatter_add":
            args[0] = np.where(np.isfinite(args[0]), args[0], np.ones((), dtype))
        jitted = functad.jit(lambda *args, params=params: tracing.bind(PRIMITIVES[name], *args, **params))
        wanted = implementation(PRIMITIVES[name], [a.dtype for a in args])(*args, **params)
        found = np.asarray(jitted(*args))
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found)[found == 0], np.signbit(wanted)[wanted == 0])
        adds = name in ("reduce_window_sum", "select_and_scatter_add")
        by_kernel = adds and dtype == "float16"  # which rounds once
        assert ("= slice " in jitted.lower(*args).kernels) is not by_kernel
