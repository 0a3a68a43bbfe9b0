"""The kernels of convolutions against the implementation: every way to compute one, in every layout."""

from __future__ import annotations

import itertools
import re

import loops_tools
import numpy as np
import pytest
from convolution_tools import (
    CHANNELS_LAST,
    WAYS,
    force,
    kernels,
    numbers,
    parameters,
    random_cases,
    zeros,
)
from loops_tools import check_loops, record, run_plain

import functad.primitives.loops.convolution as convolution
from functad import dtypes, machine_model
from functad.primitives.convolution import conv_general_dilated_p
from functad.primitives.loops import (
    convolution_windows,
)

pytestmark = pytest.mark.generated(every=3)  # tables of shapes, dtypes and ways


@pytest.mark.parametrize("example", conv_general_dilated_p.examples())
def test_examples(example):
    check_loops(conv_general_dilated_p, example.args, example.params, tolerance=1e-6)


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
