"""What the table-driven tests do not cover of convolution: known values, messages, the Programs of rules."""

from __future__ import annotations

import numpy as np
import pytest

import functad
from functad.array import ArrayImpl
from functad.errors import ArgumentError, DTypeError, ShapeError
from functad.ir import Aval, check_program
from functad.primitives.convolution import ConvDimensionNumbers, conv_dimension_numbers, conv_general_dilated
from functad.primitives.window_geometry import padtype_to_pads
from functad.tracing import trace_to_program
from functad.transforms.batching import batch_flat
from functad.transforms.programs import linearize_program, transpose_program
from functad.transforms.reverse import linearize_flat

F32 = np.dtype("float32")


def conv(lhs, rhs, **changes):
    rank = lhs.ndim - 2
    params = {
        "window_strides": (1,) * rank,
        "padding": ((0, 0),) * rank,
        "lhs_dilation": (1,) * rank,
        "rhs_dilation": (1,) * rank,
        "dimension_numbers": conv_dimension_numbers(lhs.shape, rhs.shape, None),
    }
    return conv_general_dilated(lhs, rhs, **{**params, **changes})


def array(values, *shape):
    return ArrayImpl(np.array(values, np.float32).reshape(shape))


def ones(*shape):
    return ArrayImpl(np.ones(shape, np.float32))


def test_the_kernel_is_not_flipped():
    out = conv(array([1, 2, 3, 4], 1, 1, 4), array([1, 10], 1, 1, 2))
    np.testing.assert_array_equal(out, [[[21, 32, 43]]])


def test_strides_dilations_and_padding():
    x, w = array([1, 2, 3], 1, 1, 3), array([1, 10], 1, 1, 2)
    np.testing.assert_array_equal(conv(x, w, window_strides=(2,)), [[[21]]])
    np.testing.assert_array_equal(conv(x, w, rhs_dilation=(2,)), [[[31]]])
    np.testing.assert_array_equal(conv(x, w, lhs_dilation=(2,)), [[[1, 20, 2, 30]]])
    np.testing.assert_array_equal(conv(x, w, padding=((1, 1),)), [[[10, 21, 32, 3]]])
    np.testing.assert_array_equal(conv(x, w, padding=((-1, 1),)), [[[32, 3]]])


def test_feature_groups_see_their_own_features():
    x, w = array([1, 2, 10, 20], 1, 2, 2), array([1, 2], 2, 1, 1)
    np.testing.assert_array_equal(conv(x, w, feature_group_count=2), [[[1, 2], [20, 40]]])


def test_batch_groups_see_their_own_images():
    x, w = array([1, 2, 10, 20], 2, 1, 2), array([1, 2], 2, 1, 1)
    np.testing.assert_array_equal(conv(x, w, batch_group_count=2), [[[1, 2], [20, 40]]])


def test_no_spatial_axis_is_a_matrix_product():
    x, w = array(range(6), 2, 3), array(range(12), 4, 3)
    np.testing.assert_array_equal(conv(x, w), np.asarray(x) @ np.asarray(w).T)


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"lhs": (1, 3, 4)}, ShapeError, r"input has 3 features, but the kernel takes 2 .* that is 2"),
        ({"lhs": (1, 2)}, ShapeError, r"of one rank, but was given shapes \(1, 2\) and \(3, 2, 2\)"),
        ({"window_strides": (0,)}, ArgumentError, r"window_strides=\(0,\) must be at least 1"),
        ({"rhs_dilation": (1, 1)}, ArgumentError, r"rhs_dilation=\(1, 1\) must have 1 entries"),
        ({"feature_group_count": 2, "batch_group_count": 2}, ArgumentError, "and one of them 1"),
        (
            {"feature_group_count": 2, "lhs": (1, 4, 4)},
            ShapeError,
            "3 output features cannot be divided into 2",
        ),
        ({"batch_group_count": 3, "lhs": (2, 2, 4)}, ShapeError, "batch of 2 cannot be divided into"),
        (
            {"dimension_numbers": ConvDimensionNumbers((0, 1, 1), (0, 1, 2), (0, 1, 2))},
            ArgumentError,
            r"lhs_spec=\(0, 1, 1\) must name each of the axes 0..2 once",
        ),
        ({"preferred_element_type": np.dtype("int32")}, DTypeError, "int32 cannot hold sums of float32"),
    ],
)
def test_errors_name_the_argument(changes, error, text):
    lhs = np.zeros(changes.pop("lhs", (1, 2, 4)), np.float32)
    changes.setdefault("dimension_numbers", conv_dimension_numbers((1, 2, 4), (3, 2, 2), None))
    params = {
        "window_strides": (1,),
        "padding": ((0, 0),),
        "lhs_dilation": (1,),
        "rhs_dilation": (1,),
        **changes,
    }
    in_avals = [Aval(lhs.shape, F32), Aval((3, 2, 2), F32)]
    with pytest.raises(error, match=text):
        trace_to_program(lambda x, w: [conv_general_dilated(x, w, **params)], in_avals)


def test_operands_of_two_dtypes():
    with pytest.raises(DTypeError, match=r"was given f32\[1,2,4\] and i32\[3,2,2\]; convert one"):
        trace_to_program(lambda x, w: [conv(x, w)], [Aval((1, 2, 4), F32), Aval((3, 2, 2), np.dtype("int32"))])


@pytest.mark.parametrize("layouts", [("NCH", "OIHW", "NCHW"), ("NCHW", "OIHW", "NCHH"), ("NXHW", "OIHW", "NCHW")])
def test_layouts_that_do_not_fit(layouts):
    with pytest.raises(ArgumentError, match="layout .* must consist of the 4 letters of"):
        conv_dimension_numbers((1, 2, 3, 4), (2, 2, 3, 3), layouts)


def test_ranks_that_do_not_fit():
    with pytest.raises(ShapeError, match="must have one rank"):
        conv_dimension_numbers((1, 2, 3, 4), (2, 2, 3), None)


def test_an_unknown_padding():
    with pytest.raises(ArgumentError, match="'REFLECT' is unknown: use VALID, SAME, SAME_LOWER"):
        padtype_to_pads((4,), (2,), (1,), "REFLECT")


def test_gradients_are_convolutions():
    program = trace_to_program(lambda x, w: [conv(x, w)], [Aval((2, 3, 8, 8), F32), Aval((4, 3, 3, 3), F32)])
    linear = linearize_program(program, (True, True)).linear
    backward = transpose_program(linear, (False, False, True, True), (True,)).program
    check_program(backward)
    names = [e.primitive.name for e in backward.eqns]
    assert sorted(names) == ["conv_general_dilated", "conv_general_dilated", "rev"]


@pytest.mark.parametrize(
    ("dims", "feature_groups"), [((0, None), 1), ((None, 0), 1), ((0, 0), 5)], ids=["input", "kernel", "both"]
)
def test_a_mapped_convolution_is_one_convolution(dims, feature_groups):
    shapes = [(5, 2, 3, 8) if dims[0] == 0 else (2, 3, 8), (5, 4, 3, 3) if dims[1] == 0 else (4, 3, 3)]

    def mapped(x, w):
        outs, _ = batch_flat(lambda x, w: [conv(x, w)], 5, [x, w], dims)
        return outs

    program = trace_to_program(mapped, [Aval(s, F32) for s in shapes])
    (eqn,) = [e for e in program.eqns if e.primitive.name == "conv_general_dilated"]
    assert eqn.params["feature_group_count"] == feature_groups


def test_gradients_of_half_precision_stay_half_precision():
    x, w = (ArrayImpl(np.ones(s, np.float16)) for s in [(1, 1, 4), (1, 1, 2)])
    outs, linear = linearize_flat(lambda x, w: [conv(x, w, preferred_element_type=F32)], [x, w], [True, True])
    assert outs[0].dtype == F32
    assert [g.dtype for g in linear.transpose([ones(1, 1, 3)])] == [np.float16, np.float16]


@pytest.mark.parametrize("wide, narrow", [("uint64", "int64"), ("int64", "uint64"), ("uint64", "int32")])
def test_sums_of_integers_keep_all_their_bits(wide, narrow):
    x, w = np.full((1, 1, 1), 2**53 + 1, wide), np.ones((1, 1, 1), wide)

    def fun(x, w):
        return conv(x, w, preferred_element_type=np.dtype(narrow))

    for way in (fun, functad.jit(fun)):
        np.testing.assert_array_equal(np.asarray(way(x, w)), x.astype(narrow))
