"""The kernels of convolutions as machine code, with those of their gradients, in every layout."""

from __future__ import annotations

import re

import numpy as np
import pytest
from convolution_tools import (
    CHANNELS_LAST,
    numbers,
    parameters,
)
from fuzz.kernels import OpenExecutable

import functad
import functad.numpy as jnp
from functad import interpreter, lax, machine_model
from functad.backends.cpu.products.blas import columns_of_places, lanes_of_windows
from functad.config import config
from functad.evaluation import aval_of
from functad.ir import Aval
from functad.optimize.pipeline import simplify
from functad.primitives.convolution import ConvDimensionNumbers, conv_general_dilated_p
from functad.primitives.loops import (
    convolution_weights,
)
from functad.tracing import bind, trace_to_program
from functad.transforms.reverse import linearize_flat

pytestmark = pytest.mark.generated(every=3)  # tables of shapes, dtypes and ways


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
