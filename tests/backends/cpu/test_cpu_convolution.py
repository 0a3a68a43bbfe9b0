"""The kernels of convolutions against the implementation: every way to compute one, in every layout."""

from __future__ import annotations

import itertools
import re

import loops_tools
import numpy as np
import pytest
from fuzz.kernels import OpenExecutable
from loops_tools import check_loops, record, run_plain

import functad
import functad.numpy as jnp
import functad.primitives.loops.convolution as convolution
from functad import dtypes, interpreter, lax, machine_model
from functad.backends.cpu.products.blas import columns_of_places, lanes_of_windows
from functad.config import config
from functad.evaluation import aval_of
from functad.ir import Aval
from functad.optimize.pipeline import simplify
from functad.primitives.convolution import ConvDimensionNumbers, conv_general_dilated_p
from functad.primitives.loops import (
    convolution_direct,
    convolution_places,
    convolution_products,
    convolution_weight_products,
    convolution_weight_windows,
    convolution_weights,
    convolution_windows,
)
from functad.tracing import bind, trace_to_program
from functad.transforms.reverse import linearize_flat

pytestmark = pytest.mark.generated(every=3)  # tables of shapes, dtypes and ways

CHANNELS_LAST = ConvDimensionNumbers((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))


def parameters(rank, dimension_numbers=None, **changes):
    axes = tuple(range(rank + 2))
    return {
        "window_strides": (1,) * rank,
        "padding": ((0, 0),) * rank,
        "lhs_dilation": (1,) * rank,
        "rhs_dilation": (1,) * rank,
        "dimension_numbers": ConvDimensionNumbers(*(dimension_numbers or (axes, axes, axes))),
        "feature_group_count": 1,
        "batch_group_count": 1,
        "preferred_element_type": None,
        **changes,
    }


def numbers(shape, dtype="float32", seed=0):
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape) if dtype.kind == "c" else values).astype(dtype)


def random_case(rng, dtype="float32"):
    """Operands and parameters of any rank and layout; half of them have windows larger than what comes out."""
    rank = int(rng.integers(0, 4))
    feature_groups, batch_groups = [(1, 1), (int(rng.integers(2, 4)), 1), (1, int(rng.integers(2, 4)))][rng.integers(3)]
    batch, features, outputs = (int(n) for n in rng.integers(1, 5 if rank < 3 else 3, 3))

    def each(low, high):
        return tuple(int(n) for n in rng.integers(low, high, rank))

    sizes, windows = each(1, 9 - rank), each(1, 5)
    if rng.random() < 0.3:
        sizes, windows = windows, sizes
    axes = tuple(range(rank + 2))
    layouts = [tuple(int(a) for a in rng.permutation(rank + 2)) for _ in range(3)]
    kind = rng.integers(3)
    if kind == 0:
        layouts = [axes] * 3
    elif kind == 1:
        layouts = [(0, rank + 1, *axes[1:-1]), (rank + 1, rank, *axes[:-2]), (0, rank + 1, *axes[1:-1])]
        features, outputs = (features, outputs) if rng.random() < 0.5 else (1, 1)
    lhs_shape, rhs_shape = [0] * (rank + 2), [0] * (rank + 2)
    for axis, size in zip(layouts[0], (batch * batch_groups, features * feature_groups, *sizes), strict=True):
        lhs_shape[axis] = size
    groups = feature_groups * batch_groups
    for axis, size in zip(layouts[1], (outputs * groups, features, *windows), strict=True):
        rhs_shape[axis] = size
    ones = (1,) * rank
    params = parameters(
        rank,
        layouts,
        window_strides=each(1, 4) if rng.random() < 0.5 else ones,
        padding=tuple(zip(each(-1, 4), each(-1, 4), strict=True)) if rng.random() < 0.7 else ((0, 0),) * rank,
        lhs_dilation=each(1, 4) if rng.random() < 0.4 else ones,
        rhs_dilation=each(1, 3) if rng.random() < 0.4 else ones,
        feature_group_count=feature_groups,
        batch_group_count=batch_groups,
    )
    return numbers(lhs_shape, dtype), numbers(rhs_shape, dtype, seed=1), params


def random_cases(count, seed, dtype="float32"):
    """So many, none of them large: the kernels run as plain Python."""
    rng = np.random.default_rng(seed)
    cases = []
    while len(cases) < count:
        lhs, rhs, params = random_case(rng, dtype)
        out = conv_general_dilated_p.abstract_eval(Aval(lhs.shape, lhs.dtype), Aval(rhs.shape, rhs.dtype), **params)
        if max(lhs.size, rhs.size, out.size) <= 250:
            cases.append((lhs, rhs, params))
    return cases


@pytest.mark.parametrize("example", conv_general_dilated_p.examples())
def test_examples(example):
    check_loops(conv_general_dilated_p, example.args, example.params, tolerance=1e-6)


def plain_rows(conv):
    return bool(conv.axes) and conv.axes[-1].out_step == conv.axes[-1].lhs_step == 1 and conv.taps <= 64


def plain_groups(conv):
    return conv.lhs_steps[1] == conv.rhs_steps[0] == conv.out_steps[1] == 1


def plain_cotangent(conv):
    """Rows of the window follow each other in memory."""
    if len(conv.axes) not in (1, 2) or conv.axes[-1].rhs_step != 1:
        return False
    return all(axis.rhs_step == conv.axes[1].window for axis in conv.axes[:-1])


def always(conv):
    return True


def plain_places(conv):
    return convolution_places.suits_places(conv, np.dtype("float32"), 1)


def plain_windows(conv):
    return convolution_windows.time_of_windows(conv, 2) < np.inf


def plain_weight_windows(conv):
    return convolution_weight_windows.time_of_weight_windows(conv, 4, 2) < np.inf


WAYS = {
    "any": (convolution_direct.any_convolution, always),
    "rows": (convolution_direct.rows, plain_rows),
    "groups": (convolution_direct.all_groups, plain_groups),
    "few weights": (convolution_weights.few_weights, plain_cotangent),
    "places": (convolution_places.places, plain_places),
    "windows": (convolution_windows.window_products, plain_windows),
    "products": (convolution_products.products, always),
    "weight windows": (convolution_weight_windows.weight_windows, plain_weight_windows),
    "weight products": (convolution_weight_products.weight_products, always),
}


def force(monkeypatch, name, places=6):
    """Compute every convolution that it can serve in the named way; returns the list of those it did."""
    way, suits = WAYS[name]
    used = []

    def strategy(conv, dtype, of_weights, target):
        if not suits(conv):
            return convolution_direct.any_convolution
        used.append(conv)
        return way

    monkeypatch.setattr(convolution, "_strategy", strategy)
    kinds = itertools.cycle(["unrolled", "shifted", "summed"])

    def way_of_products(conv):
        kind = next(kinds)
        return "shifted" if kind == "summed" and any(axis.stride > 1 for axis in conv.axes) else kind

    monkeypatch.setattr(convolution_products, "way_of_products", way_of_products)
    monkeypatch.setattr(machine_model, "CONVOLUTION_BLOCK_PLACES", places)
    monkeypatch.setattr(machine_model, "WIDE_ROW", 2)
    monkeypatch.setattr(machine_model, "MOST_PARTS", 3)
    monkeypatch.setattr(loops_tools, "PLACE_COLUMNS", dict.fromkeys(["float32", "float64"], 1))
    monkeypatch.setattr(loops_tools, "WINDOW_LANES", dict.fromkeys(["float32", "float64"], 2))
    monkeypatch.setattr(machine_model, "WINDOW_BLOCK_BYTES", 60 * places)
    monkeypatch.setattr(machine_model, "WINDOW_BLOCKS", 2)
    monkeypatch.setattr(machine_model, "WINDOW_COPY_TERMS", 1)
    monkeypatch.setattr(machine_model, "PLACE_HEIGHTS", (3, 2))
    monkeypatch.setattr(machine_model, "MOST_EXTRA_WORK", 2)
    monkeypatch.setattr(machine_model, "FEATURES_UNIT", 1)
    monkeypatch.setattr(machine_model, "PLACES_PRODUCTS", 0)
    return used


@pytest.mark.generated(every=3)
@pytest.mark.parametrize("name, places", [*((name, 6) for name in WAYS), ("products", 24), ("weight products", 24)])
def test_every_way_on_random_configurations(name, places, monkeypatch):
    used = force(monkeypatch, name, places)
    for lhs, rhs, params in random_cases(40, seed=len(name) + places):
        check_loops(conv_general_dilated_p, [lhs, rhs], params, tolerance=3e-6)
    assert used
    if name == "windows":  # in rows and across them
        assert {convolution_windows._vectors(conv, 2).across for conv in used} == {False, True}


@pytest.mark.parametrize("name", ["any", "rows", "products", "places", "windows"])
def test_holes_in_the_input_are_left_out(name, monkeypatch):
    monkeypatch.setattr(machine_model, "DILATION_WORTH_SPLITTING", 0)
    used = force(monkeypatch, name)
    for lhs, rhs, params in random_cases(25, seed=8):
        params["lhs_dilation"] = tuple(b + 1 for b in params["lhs_dilation"])
        params["window_strides"] = (1,) * len(params["lhs_dilation"])
        check_loops(conv_general_dilated_p, [lhs, rhs], params, tolerance=3e-6)
    assert any(conv.out_start for conv in used)


def test_parts_without_holes_are_no_gradients_of_weights(monkeypatch):
    """A part of the outputs may have more taps than places, where the whole has as many of both."""
    monkeypatch.setattr(machine_model, "DILATION_WORTH_SPLITTING", 0)
    for windows, dilation in (((5,), (2,)), ((5, 3), (3, 1)), ((3, 5), (2, 2))):
        args = [numbers((2, 3, *(3 for _ in windows))), numbers((4, 3, *windows), seed=1)]
        padding = tuple((b - 1, 2 * k - 3 * b - 1) for k, b in zip(windows, dilation, strict=True))
        params = parameters(len(windows), lhs_dilation=dilation, padding=padding)
        check_loops(conv_general_dilated_p, args, params, tolerance=3e-6)


@pytest.mark.parametrize(
    "name, shapes", [("products", [(1, 3, 5), (2, 3, 1)]), ("weight products", [(4, 1, 5), (2, 1, 5)])]
)
def test_what_is_one_matrix_product_in_every_layout(name, shapes, monkeypatch):
    monkeypatch.setattr(convolution, "_strategy", lambda conv, dtype, of_weights, target: WAYS[name][0])
    arrays = [numbers(shape, seed=i) for i, shape in enumerate(shapes)]
    alone = 0
    for layout in itertools.product(itertools.permutations(range(3)), repeat=3):
        specs = [np.argsort(spec) for spec in layout[:2]]
        args = [np.ascontiguousarray(x.transpose(spec)) for x, spec in zip(arrays, specs, strict=True)]
        params = parameters(1, layout)
        check_loops(conv_general_dilated_p, args, params, tolerance=1e-6)
        steps = record(conv_general_dilated_p, args, params).instructions
        alone += len(steps) == 1 and not hasattr(steps[0], "body")
    assert alone > 20


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64", "float16", "float64", "complex64", "complex128"])
def test_dtypes(dtype):
    tolerance = {"float16": 1e-3, "float64": 1e-14, "complex64": 3e-6, "complex128": 1e-14}.get(dtype, 0)
    for lhs, rhs, params in random_cases(8, seed=3, dtype=dtype):
        check_loops(conv_general_dilated_p, [lhs, rhs], params, tolerance=tolerance)


@pytest.mark.parametrize(
    "dtype, preferred",
    [("int8", "int32"), ("int32", "float32"), ("float16", "float32"), ("float32", "float16"), ("float32", "complex64")],
)
def test_preferred_element_types(dtype, preferred):
    lhs, rhs = numbers((2, 3, 6), dtype), numbers((4, 3, 2), dtype, seed=1)
    params = parameters(1, preferred_element_type=dtypes.as_dtype(preferred))
    check_loops(conv_general_dilated_p, [lhs, rhs], params, tolerance=1e-3 if preferred == "float16" else 1e-6)


def test_an_input_convolved_with_itself():
    x = numbers((3, 3, 4))
    check_loops(conv_general_dilated_p, [x, x], parameters(1, padding=((2, 1),)), tolerance=1e-6)


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_infinities_and_nan_reach_what_they_should(name, value, monkeypatch):
    force(monkeypatch, name)
    layout = ((1, 0, 2, 3), (1, 0, 2, 3), (1, 0, 2, 3))
    for place in ((0, 0, 0, 0), (1, 1, 2, 4), (2, 0, 5, 5)):
        lhs, rhs = numbers((3, 2, 6, 6)), numbers((3, 2, 4, 4), seed=1)
        lhs[place] = value
        check_loops(conv_general_dilated_p, [lhs, rhs], parameters(2, layout), tolerance=3e-6)


@pytest.mark.parametrize("name", ["few weights", "weight products", "weight windows", "products", "places", "windows"])
def test_threads_change_no_bit(name, monkeypatch):
    used = force(monkeypatch, name)
    shapes, layouts = [(7, 2, 6, 6), (7, 3, 4, 4)], ((1, 0, 2, 3),) * 3
    if name == "places":
        shapes, layouts = [(7, 6, 6, 2), (3, 3, 2, 4)], CHANNELS_LAST
    args = [numbers(shape, seed=i) for i, shape in enumerate(shapes)]
    recorded = record(conv_general_dilated_p, args, parameters(2, layouts))
    assert used
    results = []
    for pieces in (1, 2, 7):
        values = recorded.values(args)
        run_plain(recorded, values, pieces=pieces)
        results.append(values[recorded.outs[0]])
    assert np.array_equal(results[0], results[1]) and np.array_equal(results[0], results[2])


# --- the choice ---------------------------------------------------------------------------------------------


def zeros(shape):
    return np.broadcast_to(np.float32(0), shape)


def kernels(lhs_shape, rhs_shape, params):
    args = [zeros(lhs_shape), zeros(rhs_shape)]
    return [step.name for step in record(conv_general_dilated_p, args, params).instructions if hasattr(step, "body")]


CHOICES = {
    "few channels": (
        (100, 1, 28, 28),
        (3, 3, 1, 6),
        parameters(2, ((0, 1, 2, 3), (3, 2, 0, 1), (0, 1, 2, 3))),
        ["convolution_rows"],
    ),
    "few channels, weights": (
        (100, 1, 28, 28),
        (100, 6, 26, 26),
        parameters(2, ((1, 0, 2, 3), (1, 0, 2, 3), (2, 3, 0, 1))),
        ["weights_of_rows", "add_parts"],
    ),
    "few channels, weights, images too large to copy": (
        (1, 1, 4096, 4096),
        (1, 8, 4094, 4094),
        parameters(2, ((1, 0, 2, 3), (1, 0, 2, 3), (2, 3, 0, 1))),
        ["weights_unrolled", "add_parts"],
    ),
    "512 windows, weights": (
        (16, 16, 28, 28),
        (16, 32, 24, 24),
        parameters(2, ((1, 0, 2, 3), (1, 0, 2, 3), (1, 0, 2, 3))),
        ["weights_of_rows", "add_parts"],
    ),
    "one channel, input": (
        (16, 32, 28, 28),
        (32, 1, 5, 5),
        parameters(2, ((0, 1, 2, 3), (1, 0, 2, 3), (0, 1, 2, 3)), padding=((2, 2), (2, 2))),
        ["convolution_rows"],
    ),
    "text": (
        (64, 130, 50),
        (3, 50, 8),
        parameters(1, ((0, 2, 1), (2, 1, 0), (0, 2, 1))),
        ["order_weights", "convolution_summed"],
    ),
    "text, input": (
        (64, 128, 8),
        (3, 50, 8),
        parameters(1, ((0, 2, 1), (1, 2, 0), (0, 2, 1)), padding=((2, 2),)),
        ["order_weights", "convolution_unrolled"],
    ),
    "text, weights": (
        (64, 130, 50),
        (64, 128, 8),
        parameters(1, ((2, 0, 1), (2, 0, 1), (1, 2, 0))),
        ["weights_summed", "add_parts"],
    ),
    "many channels": (
        (32, 56, 56, 64),
        (3, 3, 64, 64),
        parameters(2, CHANNELS_LAST, padding=((1, 1), (1, 1))),
        ["kernel_panels", "convolution_places"],
    ),
    "many channels first": (
        (32, 64, 56, 56),
        (64, 64, 3, 3),
        parameters(2, padding=((1, 1), (1, 1))),
        ["order_weights", "convolution_shifted"],
    ),
    "not as many as a vector": (
        (32, 56, 56, 60),
        (3, 3, 60, 60),
        parameters(2, CHANNELS_LAST, padding=((1, 1), (1, 1))),
        ["convolution_shifted"],
    ),
    "depthwise, channels last": (
        (8, 56, 56, 64),
        (3, 3, 1, 64),
        parameters(2, CHANNELS_LAST, padding=((1, 1), (1, 1)), feature_group_count=64),
        ["convolution_groups"],
    ),
    "of one pixel": ((8, 28, 28, 256), (1, 1, 256, 64), parameters(2, CHANNELS_LAST), []),
    "tiny": ((1, 1, 4), (1, 1, 2), parameters(1), ["convolution_unrolled"]),
}


def test_without_vectors_for_places(monkeypatch):
    monkeypatch.setattr(loops_tools, "PLACE_COLUMNS", {})
    lhs_shape, rhs_shape, params, _ = CHOICES["many channels"]
    assert kernels(lhs_shape, rhs_shape, params) == ["convolution_shifted"]


@pytest.mark.parametrize(
    "shapes, changes, name",
    [
        ([(16, 16, 28, 28), (32, 16, 5, 5)], {"padding": ((2, 2), (2, 2))}, "windows"),
        ([(16, 64, 56, 56), (64, 64, 3, 3)], {"padding": ((1, 1), (1, 1)), "window_strides": (2, 2)}, "windows"),
        ([(16, 8, 28, 28), (8, 8, 3, 3)], {}, "windows"),
        ([(16, 32, 28, 28), (1, 32, 5, 5)], {"padding": ((2, 2), (2, 2))}, "rows"),  # its sums would wait
        ([(16, 128, 9, 9), (128, 128, 3, 3)], {"padding": ((1, 1), (1, 1))}, "unrolled"),  # too much is not wanted
        ([(16, 8, 784), (8, 8, 9)], {}, "rows"),  # one axis
    ],
)
def test_vectors_of_windows_where_that_takes_less_time(shapes, changes, name, monkeypatch):
    monkeypatch.setattr(loops_tools, "PLACE_COLUMNS", {})
    monkeypatch.setattr(loops_tools, "WINDOW_LANES", {"float32": 8, "float64": 4})
    assert kernels(*shapes, parameters(len(shapes[0]) - 2, **changes))[-1] == f"convolution_{name}"
    last = (0, *range(2, len(shapes[0])), 1), (*range(2, len(shapes[0])), 1, 0)
    shapes = [tuple(shape[axis] for axis in axes) for shape, axes in zip(shapes, last, strict=True)]
    if len(shapes[0]) == 4:
        assert "convolution_windows" not in kernels(*shapes, parameters(2, CHANNELS_LAST, **changes))


def weights_of(lhs_shape, cotangent_shape, **changes):
    """The gradient of a convolution's weights as a convolution, channels first."""
    return kernels(lhs_shape, cotangent_shape, parameters(2, ((1, 0, 2, 3),) * 3, **changes))


HALVED = {"padding": ((2, 1), (2, 1)), "rhs_dilation": (2, 2)}


@pytest.mark.parametrize(
    "shapes, changes, name",
    [
        ([(16, 32, 28, 28), (16, 32, 28, 28)], {"padding": ((1, 1), (1, 1))}, "windows"),
        ([(16, 32, 28, 28), (16, 32, 14, 14)], HALVED, "windows"),
        ([(16, 3, 112, 112), (16, 64, 56, 56)], {"padding": ((3, 2), (3, 2)), "rhs_dilation": (2, 2)}, "windows"),
        ([(16, 3, 64, 64), (16, 32, 64, 64)], {"padding": ((1, 1), (1, 1))}, "of_rows"),  # 3 of 8 lanes
        ([(16, 3, 28, 28), (16, 256, 28, 28)], {"padding": ((1, 1), (1, 1))}, "unrolled"),
        ([(16, 16, 28, 28), (16, 32, 28, 28)], {"padding": ((1, 1), (1, 1))}, "of_rows"),
        ([(16, 8, 28, 28), (16, 16, 14, 14)], HALVED, "windows"),  # less is copied, element by element
        ([(16, 3, 64, 64), (16, 16, 32, 32)], {"padding": ((1, 0), (1, 0)), "rhs_dilation": (2, 2)}, "of_rows"),
        ([(16, 16, 28, 28), (16, 24, 28, 28)], {"padding": ((1, 1), (1, 1))}, "windows"),  # too many sums at a time
        ([(8, 8, 56, 56), (8, 8, 56, 56)], {"padding": ((3, 3), (3, 3))}, "windows"),  # 7 taps are read one by one
    ],
)
def test_weights_by_vectors_of_windows_where_that_takes_less_time(shapes, changes, name, monkeypatch):
    monkeypatch.setattr(loops_tools, "WINDOW_LANES", {"float32": 8, "float64": 4})
    assert weights_of(*shapes, **changes) == [f"weights_{name}", "add_parts"]
    monkeypatch.setattr(loops_tools, "WINDOW_LANES", {})
    assert "weights_windows" not in weights_of(*shapes, **changes)


def test_few_outputs_whose_input_is_read_where_it_lies_are_no_vectors_of_windows(monkeypatch):
    monkeypatch.setattr(loops_tools, "WINDOW_LANES", {"float32": 8, "float64": 4})
    lhs_shape, rhs_shape, params, expected = CHOICES["text, weights"]
    assert kernels(lhs_shape, rhs_shape, params) == expected
    padded = [(16, 64, 28, 28), (16, 16, 28, 28)]
    assert weights_of(*padded, padding=((1, 1), (1, 1)))[0] == "weights_windows"


@pytest.mark.parametrize("case", CHOICES)
def test_choice(case):
    lhs_shape, rhs_shape, params, expected = CHOICES[case]
    assert kernels(lhs_shape, rhs_shape, params) == expected


STRIDED_WEIGHTS = parameters(
    2, ((1, 0, 2, 3), (1, 0, 2, 3), (1, 0, 2, 3)), rhs_dilation=(2, 2), padding=((2, 1), (2, 1))
)


@pytest.mark.parametrize(
    "shapes, params, name",
    [
        ([(2, 32, 28, 28), (16, 32, 5, 5)], parameters(2, padding=((2, 2), (2, 2))), "convolution_unrolled"),
        ([(2, 32, 28, 28), (2, 32, 14, 14)], STRIDED_WEIGHTS, "weights_unrolled"),
    ],
)
def test_borders_are_looked_for_once_and_not_for_each_tap(shapes, params, name):
    kernel = next(
        step
        for step in record(conv_general_dilated_p, [zeros(shape) for shape in shapes], params).instructions
        if step.name == name
    )
    copying = kernel.body[kernel.body.index("for c in range") :]
    assert "padded, " in copying and "lhs, " not in copying
    assert not re.search(r"first\d|last\d|clear", copying)


@pytest.mark.parametrize(
    "shapes, changes",
    [
        ([(2, 3, 64, 64), (32, 3, 8, 8)], {"window_strides": (8, 8)}),
        ([(1, 64, 33, 33), (64, 64, 3, 3)], {"rhs_dilation": (24, 24), "padding": ((24, 24), (24, 24))}),
    ],
    ids=["no overlap", "far apart"],
)
def test_windows_that_hardly_overlap_are_copied_at_once(shapes, changes):
    """A padded copy would be larger than those of the taps."""
    kernel = record(conv_general_dilated_p, list(map(zeros, shapes)), parameters(2, **changes)).instructions[-1]
    assert kernel.name == "convolution_unrolled" and "padded" not in kernel.buffers


@pytest.mark.parametrize(
    "order, row",
    [
        ((1, 0, 2, 3), r"n \* 25 \+ i0 \* 5 \+ i1\] = sums.* n \* 25 \+ i0 \* 5 \+ i1\]"),
        ((2, 3, 0, 1), r" o\] = sums.* o\]"),
    ],
)
def test_sums_of_weights_lie_as_the_weights_do(order, row):
    """Channels first all weights of an output are one row of both, channels last those of a tap and feature."""
    layouts = ((1, 0, 2, 3), (1, 0, 2, 3), order)
    shapes = [(2, 32, 28, 28), (2, 32, 14, 14)]
    params = parameters(2, layouts, rhs_dilation=(2, 2), padding=((2, 1), (2, 1)))
    *_, add_parts = record(conv_general_dilated_p, [zeros(shape) for shape in shapes], params).instructions
    assert (add_parts.name, add_parts.n) == ("add_parts", 32)
    assert re.search(row, add_parts.body.splitlines()[-1])


# --- compiled -----------------------------------------------------------------------------------------------


def with_gradients(params):
    """The convolution and both its gradients, with its own output as the cotangent."""

    def fun(lhs, rhs):
        outs, linear = linearize_flat(
            lambda *xs: [bind(conv_general_dilated_p, *xs, **params)], [lhs, rhs], [True, True]
        )
        return [*outs, *linear.transpose(outs)]

    return fun


COMPILED = {
    "few channels": ((10, 1, 28, 28), (6, 1, 3, 3), {}),
    "few channels, padded": ((3, 2, 17, 19), (4, 2, 3, 3), {"padding": ((1, 1), (2, 1))}),
    "one channel, large windows": ((2, 1, 14, 20), (32, 1, 5, 5), {"padding": ((2, 2), (2, 2))}),
    "512 windows": ((2, 16, 14, 20), (32, 16, 5, 5), {"padding": ((2, 2), (2, 2))}),
    "many channels": ((2, 32, 15, 20), (48, 32, 3, 3), {"padding": ((1, 1), (1, 1))}),
    "strides": ((2, 8, 15, 20), (20, 8, 3, 5), {"padding": ((1, 1), (2, 2)), "window_strides": (2, 3)}),
    "groups": ((2, 32, 9, 18), (48, 8, 3, 3), {"feature_group_count": 4}),
    "depthwise": ((2, 16, 12, 20), (16, 1, 3, 3), {"feature_group_count": 16, "padding": ((1, 1), (1, 1))}),
    "dilated": ((2, 20, 15, 20), (24, 20, 3, 3), {"rhs_dilation": (2, 1), "padding": ((0, 2), (1, 1))}),
    "one pixel": ((4, 40, 7, 9), (30, 40, 1, 1), {}),
    "places": ((2, 32, 15, 20), (64, 32, 3, 3), {"padding": ((1, 1), (1, 1))}),
    "places, odd rows": ((3, 20, 9, 13), (32, 20, 3, 4), {"padding": ((2, 0), (3, 1))}),
    "places, strides": ((2, 32, 15, 27), (32, 32, 3, 5), {"padding": ((1, 1), (2, 2)), "window_strides": (2, 3)}),
    "places, groups": ((2, 64, 9, 18), (64, 32, 3, 3), {"feature_group_count": 2}),
    "places, dilated": ((2, 20, 15, 20), (32, 20, 3, 3), {"rhs_dilation": (2, 1), "padding": ((0, 2), (1, 1))}),
    "windows": ((2, 5, 11, 13), (7, 5, 3, 3), {"padding": ((1, 1), (1, 1))}),
    "windows across rows": ((2, 8, 21, 17), (40, 8, 3, 3), {"padding": ((1, 1), (2, 1))}),
    "windows, 300 terms": ((2, 12, 20, 24), (17, 12, 5, 5), {"padding": ((2, 2), (2, 2))}),
    "windows, three axes": ((2, 4, 5, 7, 9), (6, 4, 2, 3, 3), {"padding": ((1, 0), (1, 1), (1, 1))}),
    "windows, groups": ((2, 12, 16, 21), (18, 4, 3, 3), {"feature_group_count": 3}),
    "windows, strides": ((2, 6, 25, 37), (9, 6, 3, 5), {"padding": ((1, 1), (2, 2)), "window_strides": (2, 3)}),
    "windows, dilated": ((2, 6, 20, 25), (10, 6, 3, 3), {"rhs_dilation": (2, 3), "padding": ((2, 2), (3, 3))}),
    "large strides": ((3, 3, 40, 40), (40, 3, 7, 7), {"window_strides": (2, 2), "padding": ((3, 3), (3, 3))}),
}


@pytest.mark.generated(every=8)
@pytest.mark.parametrize("layout", ["channels first", "channels last"])
@pytest.mark.parametrize("case", COMPILED)
def test_compiled_with_both_gradients(case, layout, monkeypatch):
    monkeypatch.setattr(machine_model, "DILATION_WORTH_SPLITTING", 1 << 20)
    lhs_shape, rhs_shape, changes = COMPILED[case]
    lhs, rhs = numbers(lhs_shape), numbers(rhs_shape, seed=1)
    params = parameters(len(lhs_shape) - 2, **changes)
    if layout == "channels last":
        places = range(2, len(lhs_shape))
        numbering = [np.argsort((0, *places, 1)), np.argsort((*places, 1, 0))]
        params["dimension_numbers"] = ConvDimensionNumbers(*(tuple(map(int, numbering[k])) for k in (0, 1, 0)))
        lhs, rhs = (
            np.ascontiguousarray(lhs.transpose(0, *places, 1)),
            np.ascontiguousarray(rhs.transpose(*places, 1, 0)),
        )
    program = simplify(trace_to_program(with_gradients(params), [aval_of(lhs), aval_of(rhs)]))
    expected = interpreter.compile_program(program)([lhs, rhs])
    got = OpenExecutable(program)([lhs, rhs])
    for name, e, g in zip(("result", "input's gradient", "kernel's gradient"), expected, got, strict=True):
        scale = np.max(np.abs(np.asarray(e)))
        np.testing.assert_allclose(g, np.asarray(e), rtol=0, atol=5e-6 * scale, err_msg=name)


@pytest.mark.skipif(not columns_of_places("float32"), reason="the processor has no vectors for products of places")
@pytest.mark.parametrize("case", [case for case in COMPILED if case.startswith("places")])
def test_places_are_what_is_compiled(case):
    program, lhs, rhs = channels_last(case)
    executable = OpenExecutable(program)
    assert "gemm_places_f32" in executable.kernels
    results = []
    for threads in (1, 2):
        with config.context(num_threads=threads):
            results.append(executable([lhs, rhs])[0])
    assert np.array_equal(*results)


@pytest.mark.skipif(not lanes_of_windows("float32"), reason="the processor has no vectors for products of windows")
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("case", [case for case in COMPILED if case.startswith("windows")])
def test_windows_are_what_is_compiled(case, dtype):
    lhs_shape, rhs_shape, changes = COMPILED[case]
    args = [numbers(lhs_shape).astype(dtype), numbers(rhs_shape, seed=1).astype(dtype)]
    params = parameters(len(lhs_shape) - 2, **changes)
    program = trace_to_program(lambda *xs: [bind(conv_general_dilated_p, *xs, **params)], [aval_of(x) for x in args])
    executable = OpenExecutable(program)
    assert "gemm_windows_f" in executable.kernels
    results = []
    for threads in (1, 2):
        with config.context(num_threads=threads):
            results.append(executable(args)[0])
    assert np.array_equal(*results)
    expected = np.asarray(interpreter.compile_program(program)(args)[0])
    tolerance = {"float16": 1e-3, "float64": 1e-13}.get(dtype, 5e-6) * np.max(np.abs(expected))
    np.testing.assert_allclose(results[0], expected, rtol=0, atol=tolerance)


@pytest.mark.skipif(not lanes_of_windows("float32"), reason="the processor has no vectors for products of windows")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", ["channels first", "channels last"])
@pytest.mark.parametrize(
    "case", ["strides", "large strides", *(case for case in COMPILED if case.startswith("windows"))]
)
def test_weights_by_windows_are_what_is_compiled(case, layout, dtype, monkeypatch):
    monkeypatch.setattr(convolution_weights, "suits_few_weights", lambda conv, itemsize: False)
    lhs_shape, rhs_shape, changes = COMPILED[case]
    places = range(2, len(lhs_shape))
    axes = (0, *places, 1) if layout == "channels last" else range(len(lhs_shape))
    lhs = np.ascontiguousarray(numbers(lhs_shape, dtype).transpose(axes))
    spec = tuple(map(int, np.argsort(axes)))
    params = parameters(len(places), (spec, range(len(spec)), spec), **changes)
    kernel = Aval(rhs_shape, lhs.dtype)
    out = conv_general_dilated_p.abstract_eval(aval_of(lhs), kernel, **params)
    cotangent = numbers(out.shape, dtype, seed=1)

    def weights(lhs, cotangent):
        _, linear = linearize_flat(
            lambda rhs: [bind(conv_general_dilated_p, lhs, rhs, **params)], [np.zeros(rhs_shape, dtype)], [True]
        )
        return linear.transpose([cotangent])

    program = simplify(trace_to_program(weights, [aval_of(lhs), aval_of(cotangent)]))
    executable = OpenExecutable(program)
    assert "weights_windows" in executable.kernels
    results = []
    for threads in (1, 2):
        with config.context(num_threads=threads):
            results.append(executable([lhs, cotangent])[0])
    assert np.array_equal(*results)
    expected = np.asarray(interpreter.compile_program(program)([lhs, cotangent])[0])
    tolerance = {"float64": 1e-13}.get(dtype, 5e-6) * np.max(np.abs(expected))
    np.testing.assert_allclose(results[0], expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_what_is_not_finite_in_places(value):
    """An infinite weight makes NaN of padding, an infinite pixel reaches only the windows that hold it."""
    program, lhs, rhs = channels_last("places")
    for x, place in ((lhs, (1, 4, 5, 6)), (lhs, (0, 0, 0, 0)), (rhs, (0, 1, 2, 3))):
        args = [x.copy() if x is y else y for y in (lhs, rhs)]
        args[0 if x is lhs else 1][place] = value
        with np.errstate(invalid="ignore"):
            expected = np.asarray(interpreter.compile_program(program)(args)[0])
        np.testing.assert_allclose(OpenExecutable(program)(args)[0], expected, rtol=0, atol=1e-4)


def channels_last(case):
    lhs_shape, rhs_shape, changes = COMPILED[case]
    params = {**parameters(2, **changes), "dimension_numbers": CHANNELS_LAST}
    lhs, rhs = numbers(lhs_shape), numbers(rhs_shape, seed=1)
    lhs, rhs = np.ascontiguousarray(lhs.transpose(0, 2, 3, 1)), np.ascontiguousarray(rhs.transpose(2, 3, 1, 0))
    convolve = lambda *xs: [bind(conv_general_dilated_p, *xs, **params)]  # noqa: E731
    return trace_to_program(convolve, [aval_of(lhs), aval_of(rhs)]), lhs, rhs


def test_the_phases_of_an_input_gradient_share_kernels():
    # 8×8 in strides of 4 are 16 phases, which begin at different elements of the weights and of the result.
    def loss(x, kernel):
        y = lax.conv_general_dilated(x, kernel, (4, 4), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return jnp.sum(jnp.tanh(y))

    x, kernel = jnp.ones((8, 84, 84, 4)), jnp.ones((8, 8, 4, 32))
    text = str(functad.jit(functad.grad(loss)).lower(x, kernel).kernels)
    functions = re.findall(r"^def (order_weights|convolution_summed)", text, re.MULTILINE)
    assert 1 <= functions.count("order_weights") <= 2
    assert 1 <= functions.count("convolution_summed") <= 5


def test_convolutions_of_other_sizes_share_kernels():
    shapes = [((2, 12, 12, 16), (3, 3, 16, 32)), ((1, 8, 16, 32), (3, 3, 32, 64)), ((3, 9, 10, 64), (3, 3, 64, 32))]
    keys = functad.random.split(functad.random.key(0), 2 * len(shapes))
    xs = [functad.random.normal(key, shape) for key, (shape, _) in zip(keys, shapes, strict=False)]
    kernels = [functad.random.normal(key, shape) for key, (_, shape) in zip(keys[len(shapes) :], shapes, strict=True)]

    def loss(xs, kernels):
        pairs = zip(xs, kernels, strict=True)
        ys = [
            lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            for x, kernel in pairs
        ]
        return sum(jnp.sum(jnp.tanh(y)) for y in ys)

    step = functad.jit(functad.grad(loss, argnums=(0, 1)))
    names = re.findall(r"^def ([a-z_]+?)(?:_\d+)?\(", str(step.lower(xs, kernels).kernels), re.MULTILINE)
    (way,) = {name for name in names if name.startswith("weights_")}
    assert names.count(way) <= 2  # with rows of an image, and with images as rows
    assert names.count("add_parts") <= 2  # of three: with 32 columns, and with 64
    assert names.count("convolution_places") <= 2  # of five: with one row of outputs at a time, and with several
    for found, expected in zip(step(xs, kernels), functad.grad(loss, argnums=(0, 1))(xs, kernels), strict=True):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)
    alone = step(xs[1:2], kernels[1:2])  # the numbers stand in the text
    for (found,), expected in zip(alone, step(xs, kernels), strict=True):
        np.testing.assert_array_equal(found, expected[1])
