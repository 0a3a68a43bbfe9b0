"""The layers: shapes, layouts, params, gradients, randomness, and what wrong inputs are told."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

import functad
from functad import nn, random
from functad import numpy as jnp
from functad.errors import ArgumentError, DTypeError, ShapeError, TreeError

KEY = random.key(0)
RNG = np.random.default_rng(0)


def images(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def shapes(params):
    return functad.tree.map(lambda leaf: leaf.shape, params)


# --- the pair -----------------------------------------------------------------------------------------


def test_a_layer_is_a_pair():
    init, apply = nn.Dense(2)
    assert apply(init(KEY, np.ones((1, 3), np.float32)), np.ones((1, 3), np.float32)).shape == (1, 2)


def test_init_needs_only_shape_and_dtype_and_is_deterministic():
    network = nn.serial(nn.Conv(2, (3, 3)), nn.Relu(), nn.MaxPool((2, 2)), nn.Flatten(), nn.Dense(3))
    x = images(4, 1, 8, 8)
    from_array = network.init(KEY, x)
    from_struct = network.init(KEY, functad.ShapeDtypeStruct(x.shape, x.dtype))
    assert functad.tree.all(
        functad.tree.map(lambda a, b: (np.asarray(a) == np.asarray(b)).all(), from_array, from_struct)
    )
    abstract = functad.eval_shape(network.init, KEY, x)
    assert shapes(abstract) == shapes(from_array)
    jitted = functad.jit(network.init)(KEY, x)
    for a, b in zip(functad.tree.leaves(jitted), functad.tree.leaves(from_array), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5)


def test_init_says_what_an_example_input_is():
    with pytest.raises(
        ArgumentError, match=r"example input is 'x' of type str; pass an array or a functad.ShapeDtypeStruct"
    ):
        nn.Dense(2).init(KEY, "x")


def test_params_take_the_dtype_of_the_input():
    assert nn.Dense(2).init(KEY, np.ones((1, 3)))["kernel"].dtype == np.float64
    assert nn.Conv(2, (1,)).init(KEY, np.ones((1, 3, 4), np.float16))["bias"].dtype == np.float16


# --- Dense --------------------------------------------------------------------------------------------


def test_dense_is_a_product_and_a_sum():
    x = images(4, 5, 3)
    layer = nn.Dense(2, bias_init=nn.initializers.constant(0.5))
    params = layer.init(KEY, x)
    expected = x @ np.asarray(params["kernel"]) + 0.5
    np.testing.assert_allclose(np.asarray(layer.apply(params, x)), expected, rtol=1e-5, atol=1e-6)
    assert set(nn.Dense(2, use_bias=False).init(KEY, x)) == {"kernel"}


def test_dense_errors():
    layer = nn.Dense(2)
    params = layer.init(KEY, np.ones((1, 3)))
    with pytest.raises(ShapeError, match=r"Dense\(2\): the input has shape \(1, 4\), but the kernel of shape \(3, 2\)"):
        layer.apply(params, np.ones((1, 4)))
    with pytest.raises(ShapeError, match=r"Dense\(2\): .* is a scalar"):
        layer.init(KEY, 1.0 * np.ones(()))
    with pytest.raises(ArgumentError, match="Dense: features must be an int of at least 1, got 0"):
        nn.Dense(0)


# --- Conv ---------------------------------------------------------------------------------------------


def _slow_convolution(x, kernel, strides, pads, dilation, groups):
    """Channels last, any rank, by summing shifted products."""
    x = np.pad(x, [(0, 0), *pads, (0, 0)])
    window, out = kernel.shape[:-2], kernel.shape[-1]
    sizes = [
        (n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[1:-1], window, strides, dilation, strict=True)
    ]
    y = np.zeros((x.shape[0], *sizes, out))
    per_in, per_out = kernel.shape[-2], out // groups
    for tap in np.ndindex(*window):
        starts = [t * d for t, d in zip(tap, dilation, strict=True)]
        part = x[
            (
                slice(None),
                *[slice(a, a + s * (n - 1) + 1, s) for a, s, n in zip(starts, strides, sizes, strict=True)],
            )
        ]
        for g in range(groups):
            ins, outs = slice(g * per_in, (g + 1) * per_in), slice(g * per_out, (g + 1) * per_out)
            y[..., outs] += part[..., ins] @ kernel[tap][:, outs]
    return y


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(
    ("strides", "padding", "dilation", "groups"),
    [(1, "VALID", 1, 1), (2, 1, 1, 1), (1, ((2, 0),), 2, 2), (2, (1,), 1, 4)],
)
@pytest.mark.parametrize("use_bias", [True, False])
def test_convolution_in_both_layouts(rank, strides, padding, dilation, groups, use_bias):
    if isinstance(padding, tuple):
        padding = padding * rank
    pads = (
        [(0, 0)] * rank if padding == "VALID" else [p if isinstance(p, tuple) else (p, p) for p in _each(padding, rank)]
    )
    x = images(2, *range(6, 6 + rank), 4)
    options = dict(strides=strides, padding=padding, dilation=dilation, groups=groups, use_bias=use_bias)
    options["bias_init"] = nn.initializers.normal(1.0)
    last = nn.Conv(8, (3,) * rank, layout={1: "NWC", 2: "NHWC", 3: "NDHWC"}[rank], **options)
    first = nn.Conv(8, (3,) * rank, **options)
    params = last.init(KEY, x)
    assert shapes(params) == shapes(first.init(KEY, np.moveaxis(x, -1, 1)))
    expected = _slow_convolution(x, np.asarray(params["kernel"]), (strides,) * rank, pads, (dilation,) * rank, groups)
    if use_bias:
        expected = expected + np.asarray(params["bias"])
    np.testing.assert_allclose(np.asarray(last.apply(params, x)), expected, rtol=1e-4, atol=1e-5)
    turned = first.apply(params, np.moveaxis(x, -1, 1))
    np.testing.assert_allclose(np.moveaxis(np.asarray(turned), 1, -1), expected, rtol=1e-4, atol=1e-5)


def _each(padding, rank):
    return (padding,) * rank if isinstance(padding, int) else padding


@pytest.mark.parametrize("size", [5, 6])
@pytest.mark.parametrize("strides", [1, 2])
def test_same_padding_keeps_the_size_over_the_stride(size, strides):
    layer = nn.Conv(3, (3, 2), strides=strides, padding="same")
    x = images(1, 2, size, size)
    out = math.ceil(size / strides)
    assert layer.apply(layer.init(KEY, x), x).shape == (1, 3, out, out)


def test_convolution_maps_over_a_batch_of_batches():
    layer = nn.Conv(3, (3, 3))
    x = images(5, 2, 1, 6, 6)
    params = layer.init(KEY, x[0])
    mapped = functad.vmap(lambda x: layer.apply(params, x))(x)
    one_by_one = np.stack([np.asarray(layer.apply(params, part)) for part in x])
    np.testing.assert_allclose(np.asarray(mapped), one_by_one, rtol=1e-5, atol=1e-6)


def test_convolution_errors():
    layer = nn.Conv(6, (3, 3))
    params = layer.init(KEY, np.ones((1, 1, 8, 8)))
    with pytest.raises(
        ShapeError,
        match=r"Conv\(6, \(3, 3\)\): the input has shape \(8, 8, 8\), 3 axes, but layout NCHW has 4",
    ):
        layer.apply(params, np.ones((8, 8, 8)))
    with pytest.raises(ShapeError, match=r"add them with x\[:, None\], if the batch is missing, with x\[None\]"):
        layer.init(KEY, np.ones((8, 8, 8)))
    with pytest.raises(
        ShapeError,
        match=r"shape \(1, 8, 8, 1\) has 8 channels \(axis 1 of layout NCHW\).* takes 1; is the layout",
    ):
        layer.apply(params, np.ones((1, 8, 8, 1)))
    with pytest.raises(ArgumentError, match="groups=4 must divide the 6 output channels"):
        nn.Conv(6, (3, 3), groups=4)
    with pytest.raises(ShapeError, match="groups=2 does not divide the 3 channels"):
        nn.Conv(6, (3, 3), groups=2).init(KEY, np.ones((1, 3, 8, 8)))
    with pytest.raises(ArgumentError, match=r"Conv\(6, 3\): the window 3 does not say how many axes"):
        nn.Conv(6, 3)
    with pytest.raises(ArgumentError, match=r"the window \(3, 3\) has 2 axes, but layout 'NWC' has 1"):
        nn.Conv(6, (3, 3), layout="NWC")
    with pytest.raises(ArgumentError, match="layout='HWCN' must be one of NCW"):
        nn.Conv(6, (3, 3), layout="HWCN")
    with pytest.raises(ArgumentError, match="padding='valid-ish' must be"):
        nn.Conv(6, (3, 3), padding="valid-ish")
    with pytest.raises(ArgumentError, match=r"padding=\(1, 2, 3\) must be"):
        nn.Conv(6, (3, 3), padding=(1, 2, 3))
    with pytest.raises(ArgumentError, match="strides=0 must be a positive integer"):
        nn.Conv(6, (3, 3), strides=0)
    with pytest.raises(ArgumentError, match="must have 1, 2 or 3 axes"):
        nn.Conv(6, (3, 3, 3, 3))


def test_an_integer_window_takes_its_rank_from_the_layout():
    x = images(1, 6, 6, 2)
    assert nn.Conv(4, 3, layout="NHWC").init(KEY, x)["kernel"].shape == (3, 3, 2, 4)
    assert nn.MaxPool(2, layout="NHWC").apply((), x).shape == (1, 3, 3, 2)


# --- pooling ------------------------------------------------------------------------------------------


def test_pooling_by_hand():
    x = images(2, 3, 4, 6)
    blocks = x.reshape(2, 3, 2, 2, 3, 2)
    np.testing.assert_allclose(np.asarray(nn.MaxPool((2, 2)).apply((), x)), blocks.max((3, 5)))
    np.testing.assert_allclose(np.asarray(nn.AvgPool((2, 2)).apply((), x)), blocks.mean((3, 5)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", [nn.MaxPool, nn.AvgPool])
@pytest.mark.parametrize(("window", "options"), [((3,), {}), ((3, 2), {"strides": (2, 1), "padding": "SAME"})])
def test_pooling_layouts_agree(make, window, options):
    x = images(2, *range(7, 7 + len(window)), 3)
    last = make(window, layout={1: "NWC", 2: "NHWC"}[len(window)], **options).apply((), x)
    first = make(window, **options).apply((), np.moveaxis(x, -1, 1))
    np.testing.assert_allclose(np.moveaxis(np.asarray(first), 1, -1), np.asarray(last), rtol=1e-6)


def test_padding_neither_wins_nor_counts():
    x = -np.ones((1, 1, 3), np.float32)
    assert nn.MaxPool((2,), strides=1, padding=1).apply((), x).tolist() == [[[-1, -1, -1, -1]]]
    assert nn.AvgPool((2,), strides=1, padding="SAME").apply((), x).tolist() == [[[-1, -1, -1]]]
    assert nn.AvgPool((3,), strides=2, padding=((1, 1),)).apply((), x).tolist() == [[[-1, -1]]]


def test_max_pooling_of_integers():
    x = np.arange(-4, 4, dtype=np.int8).reshape(1, 1, 8)
    pooled = nn.MaxPool((2,), padding=((1, 1),)).apply((), x)
    assert pooled.dtype == np.int8 and pooled.tolist() == [[[-4, -2, 0, 2, 3]]]


def test_pooling_errors():
    with pytest.raises(ShapeError, match=r"MaxPool\(\(2, 2\)\): the input has shape \(4, 4\), 2 axes, but layout NCHW"):
        nn.MaxPool((2, 2)).apply((), np.ones((4, 4)))
    with pytest.raises(DTypeError, match=r"AvgPool\(\(2,\)\): the input has dtype int32; the mean needs floats"):
        nn.AvgPool((2,)).apply((), np.ones((1, 1, 4), np.int32))


# --- gradients ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "layer",
    [
        nn.Dense(3),
        nn.Conv(4, (3, 2), strides=(1, 2), padding="SAME", groups=2),
        nn.Conv(3, (2, 2), dilation=2, layout="NHWC"),
        nn.MaxPool((2, 2)),
        nn.AvgPool((3, 2), strides=1, padding=1),
        nn.serial(nn.Flatten(), nn.Dense(4), nn.Tanh(), nn.residual(nn.serial(nn.Dense(4), nn.Softplus()))),
        nn.parallel(nn.Dense(2), nn.Tanh(), join=lambda ys: jnp.concatenate(ys, axis=-1)),
    ],
)
def test_gradients_match_differences(layer):
    x = np.random.default_rng(3).normal(size=(2, 4, 6, 5))
    params = layer.init(KEY, x)
    direction = functad.tree.map(lambda p: np.cos(np.arange(p.size)).reshape(p.shape), (params, x))

    def loss(params, x):
        return jnp.sum(jnp.sin(layer.apply(params, x)))

    grads = functad.grad(loss, argnums=(0, 1))(params, x)
    products = functad.tree.map(lambda g, d: float(jnp.sum(g * d)), grads, direction)
    h = 1e-6
    ahead, behind = (
        loss(*functad.tree.map(lambda p, d, s=sign: p + s * h * d, (params, x), direction)) for sign in (1, -1)
    )
    assert sum(functad.tree.leaves(products)) == pytest.approx(
        (float(ahead) - float(behind)) / (2 * h), rel=1e-6, abs=1e-7
    )


# --- the rest -----------------------------------------------------------------------------------------


def test_flatten():
    assert nn.Flatten().apply((), np.ones((2, 3, 4))).shape == (2, 12)
    assert nn.Flatten().apply((), np.ones(2)).shape == (2, 1)
    assert nn.Flatten().apply((), np.ones((0, 3, 4))).shape == (0, 12)
    with pytest.raises(ShapeError, match="Flatten"):
        nn.Flatten().apply((), 1.0)


def test_dropout_drops_the_share_and_keeps_the_mean():
    x = np.ones((200, 200), np.float32)
    layer = nn.Dropout(0.25)
    y = np.asarray(functad.jit(lambda key: layer.apply((), x, key=key, train=True))(KEY))
    assert abs((y == 0).mean() - 0.25) < 0.01 and np.unique(y).tolist() == pytest.approx([0, 4 / 3])
    other = np.asarray(layer.apply((), x, key=random.key(1), train=True))
    assert (other != y).any()
    assert (np.asarray(layer.apply((), x, key=KEY)) == x).all()
    assert (np.asarray(nn.Dropout(0.0).apply((), x, train=True)) == x).all()


def test_dropout_needs_a_key_to_train():
    network = nn.serial(nn.Dense(2), nn.Dropout(0.5))
    params = network.init(KEY, np.ones((1, 3)))
    with pytest.raises(ArgumentError, match=r"Dropout\(0\.5\): training needs a random key"):
        network.apply(params, np.ones((1, 3)), train=True)
    with pytest.raises(ArgumentError, match="rate must be at least 0 and less than 1"):
        nn.Dropout(1.0)


def test_serial_gives_each_layer_its_own_key():
    network = nn.parallel(nn.Dropout(0.5), nn.Dropout(0.5))
    a, b = network.apply(((), ()), np.ones(100), key=KEY, train=True)
    assert (np.asarray(a) != np.asarray(b)).any()
    kernels = nn.serial(nn.Dense(3), nn.Dense(3)).init(KEY, np.ones((1, 3)))
    assert (np.asarray(kernels[0]["kernel"]) != np.asarray(kernels[1]["kernel"])).any()


@pytest.mark.parametrize(
    ("make", "function"),
    [
        (nn.Relu, nn.relu),
        (nn.Relu6, nn.relu6),
        (nn.LeakyRelu, nn.leaky_relu),
        (nn.Elu, nn.elu),
        (nn.Celu, nn.celu),
        (nn.Selu, nn.selu),
        (nn.Gelu, nn.gelu),
        (nn.Silu, nn.silu),
        (nn.Mish, nn.mish),
        (nn.Softplus, nn.softplus),
        (nn.Sigmoid, nn.sigmoid),
        (nn.Tanh, nn.tanh),
        (nn.Identity, nn.identity),
        (nn.Softmax, nn.softmax),
        (nn.LogSoftmax, nn.log_softmax),
    ],
)
def test_activation_layers(make, function):
    x = images(2, 3)
    layer = make()
    assert layer.init(KEY, x) == ()
    assert (np.asarray(layer.apply((), x)) == np.asarray(function(x))).all()


def test_activation_layers_take_their_options():
    x = images(2, 3)
    assert nn.LeakyRelu(0.5).apply((), -1.0) == -0.5
    assert (np.asarray(nn.Softmax(axis=0).apply((), x)) == np.asarray(nn.softmax(x, axis=0))).all()
    assert (np.asarray(nn.Activation(jnp.sin).apply((), x)) == np.asarray(jnp.sin(x))).all()


def test_what_is_no_layer_is_told_how_to_become_one():
    with pytest.raises(ArgumentError, match=r"serial: argument 1 is .*which is no layer; call it .*Relu\(\.\.\.\)"):
        nn.serial(nn.Dense(2), nn.Relu)
    with pytest.raises(ArgumentError, match=r"Activation\(relu\)"):
        nn.parallel(nn.relu)
    with pytest.raises(ArgumentError, match="residual: argument 0 is 3, which is no layer; a layer is Layer"):
        nn.residual(3)
    with pytest.raises(ArgumentError, match="no function of an array"):
        nn.Activation(nn.Relu())


def test_combinations_check_params_and_shapes():
    network = nn.serial(nn.Dense(2), nn.Relu())
    params = network.init(KEY, np.ones((1, 3)))
    with pytest.raises(ShapeError, match="params have 1 entries, but there are 2 layers"):
        network.apply(params[:1], np.ones((1, 3)))
    around = nn.residual(nn.Dense(2))
    with pytest.raises(ShapeError, match=r"turns an input of shape \(1, 3\) into \(1, 2\)"):
        around.apply(around.init(KEY, np.ones((1, 3))), np.ones((1, 3)))


def test_empty_serial_is_the_identity():
    network = nn.serial()
    assert network.apply(network.init(KEY, np.ones(2)), np.ones(2)).tolist() == [1, 1]


def test_initializer_errors():
    with pytest.raises(ArgumentError, match="mode='fan' must be one of"):
        nn.initializers.variance_scaling(1.0, "fan", "normal")
    with pytest.raises(ArgumentError, match="distribution='cauchy' must be one of"):
        nn.initializers.variance_scaling(1.0, "fan_in", "cauchy")
    with pytest.raises(
        ShapeError, match=r"shape \(3,\) has no axis -2 for in_axis=-2; give a shape of at least two axes"
    ):
        nn.initializers.he_normal()(KEY, (3,))


@pytest.mark.parametrize(
    "name", ["glorot_uniform", "glorot_normal", "lecun_uniform", "lecun_normal", "he_uniform", "he_normal"]
)
def test_initializers_have_the_variance_they_promise(name):
    values = np.asarray(getattr(nn.initializers, name)()(KEY, (400, 200)))
    wanted = {"glorot": 2 / 600, "lecun": 1 / 400, "he": 2 / 400}[name.split("_")[0]]
    assert values.var() == pytest.approx(wanted, rel=0.02) and abs(values.mean()) < 0.001


# --- misuse -------------------------------------------------------------------------------------------

DENSE = {"kernel": np.ones((3, 4), np.float32), "bias": np.zeros(4, np.float32)}
ROW = np.ones((1, 3), np.float32)


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({}, TreeError, r"Dense\(4\): params are a dict with no keys; pass what init\(key, x\).* 'kernel' and 'bias'"),
        (None, TreeError, r"Dense\(4\): params are None"),
        ((DENSE,), TreeError, r"Dense\(4\): params are a tuple of 1"),
        ({"kernel": DENSE["kernel"]}, TreeError, r"params are a dict with 'kernel'; "),
        ({**DENSE, "bias": None}, TreeError, r"params\['bias'\] is of type NoneType, no array"),
        ({**DENSE, "bias": np.zeros(5)}, ShapeError, r"params\['bias'\] has shape \(5,\), but the layer takes \(4,\)"),
        ({**DENSE, "kernel": np.zeros((3, 5))}, ShapeError, r"has shape \(3, 5\), but the layer takes \(…, 4\)"),
    ],
)
def test_wrong_params_are_named(params, error, message):
    with pytest.raises(error, match=message):
        nn.Dense(4).apply(params, ROW)


def test_wrong_params_of_networks_are_named():
    for combine, name in ((nn.serial, "serial"), (nn.parallel, "parallel")):
        network = combine(nn.Dense(4), nn.Relu())
        with pytest.raises(TreeError, match=rf"{name}: params are a dict with 'kernel' and 'bias', .* tuple of 2"):
            network.apply(DENSE, ROW)
        with pytest.raises(TreeError, match=f"{name}: params are None"):
            network.apply(None, ROW)
    with pytest.raises(TreeError, match=r"Conv\(2, \(3, 3\)\): params are a dict with no keys"):
        nn.Conv(2, (3, 3)).apply({}, np.ones((1, 1, 4, 4), np.float32))
    with pytest.raises(ShapeError, match=r"params\['kernel'\] has shape \(3, 4\), but the layer takes \(3, 3, …, 4\)"):
        nn.Conv(4, (3, 3)).apply(DENSE, np.ones((1, 1, 4, 4), np.float32))


def test_lists_of_params_are_taken():
    network = nn.serial(nn.Dense(4), nn.Relu())
    np.testing.assert_array_equal(np.asarray(network.apply([DENSE, []], ROW)), np.full((1, 4), 3, np.float32))


@pytest.mark.parametrize(
    ("layer", "params"),
    [
        (nn.Dense(4), DENSE),
        *[(layer, ()) for layer in (nn.Relu(), nn.Softmax(), nn.Flatten(), nn.MaxPool((2, 2)), nn.Dropout(0.5))],
    ],
)
def test_a_tuple_is_no_input(layer, params):
    with pytest.raises(ArgumentError, match="the input is of type tuple, but the layer takes one array"):
        layer.apply(params, (ROW, ROW))
    with pytest.raises(ArgumentError, match="the input is of type tuple, but the layer takes one array"):
        nn.parallel(layer).apply((params,), (ROW, ROW))
    with pytest.raises(ArgumentError, match="residual: the input is of type tuple"):
        nn.residual(layer).apply(params, (ROW, ROW))


def test_a_tuple_is_no_example_input():
    with pytest.raises(ArgumentError, match=r"Dense\(4\): the input is of type tuple, but the layer takes one array"):
        nn.parallel(nn.Dense(4)).init(KEY, (ROW, ROW))


def test_an_activation_may_join_a_tuple():
    network = nn.serial(nn.parallel(nn.Identity(), nn.Relu()), nn.Activation(lambda pair: pair[0] + pair[1]))
    np.testing.assert_array_equal(np.asarray(network.apply((((), ()), ()), ROW)), 2 * ROW)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.Dense("4"), "Dense: features must be an int of at least 1, got '4'"),
        (lambda: nn.Dense(True), "features must be an int .* got True"),
        (lambda: nn.Conv(4.0, (3, 3)), "Conv: features must be an int of at least 1, got 4.0"),
        (lambda: nn.Conv(4, (3, 3), groups="2"), "groups must be an int of at least 1, got '2'"),
        (lambda: nn.Conv(4, 3.5), "window=3.5 must be a positive integer"),
        (lambda: nn.Conv(4, (3, 3), strides=None), "strides=None must be a positive integer"),
        (lambda: nn.Conv(4, (3, 3), padding=1.5), "padding=1.5 must be an integer"),
        (lambda: nn.Dropout("0.5"), r"Dropout\('0.5'\): rate must be at least 0"),
    ],
)
def test_arguments_of_the_wrong_type_are_named(call, message):
    with pytest.raises(ArgumentError, match=message):
        call()


@pytest.mark.parametrize("layer", [nn.Dense(4), nn.Conv(4, (3, 3))])
def test_pixels_that_are_no_floats_are_told_how_to_become_some(layer):
    pixels = np.zeros((2, 1, 8, 8), np.uint8)
    message = r"the input has dtype uint8, but the layer takes floats; .*x\.astype\('float32'\), and divide .* by 255"
    with pytest.raises(DTypeError, match=message):
        layer.init(KEY, pixels)
    params = layer.init(KEY, pixels.astype(np.float32))
    with pytest.raises(DTypeError, match=message):
        layer.apply(params, pixels)


SMALL_IMAGE = np.ones((1, 1, 4, 4), np.float32)


@pytest.mark.parametrize("pool", [nn.MaxPool, nn.AvgPool])
def test_a_window_larger_than_the_input_of_a_pool(pool):
    message = (
        r"Pool\(\(20, 20\)\): the input of shape \(1, 1, 4, 4\) \(layout NCHW\) is smaller than the window \(20, 20\)"
    )
    with pytest.raises(ShapeError, match=message):
        pool((20, 20)).apply((), SMALL_IMAGE)
    assert pool((20, 20), padding="SAME").apply((), SMALL_IMAGE).shape == (1, 1, 1, 1)
    assert pool((20, 20), padding=8).apply((), SMALL_IMAGE).shape == (1, 1, 1, 1)


def test_a_window_larger_than_the_input_of_a_convolution():
    message = (
        r"Conv\(4, \(5, 5\)\): the input of shape \(1, 1, 4, 4\) .* smaller than the window \(5, 5\), so no output"
    )
    with pytest.raises(ShapeError, match=message):
        nn.Conv(4, (5, 5)).init(KEY, SMALL_IMAGE)
    with pytest.raises(ShapeError, match=message):
        nn.Conv(4, (5, 5)).apply(
            {"kernel": np.ones((5, 5, 1, 4), np.float32), "bias": np.zeros(4, np.float32)}, SMALL_IMAGE
        )
    with pytest.raises(ShapeError, match=r"window \(3, 3\), which spans \(5, 5\) with dilation \(2, 2\), so no output"):
        nn.Conv(4, (3, 3), dilation=2).init(KEY, SMALL_IMAGE)
    with pytest.raises(ShapeError, match=r"padded by \(\(0, 0\), \(1, 1\)\) is smaller than the window \(5, 5\)"):
        nn.Conv(4, (5, 5), padding=(0, 1)).init(KEY, SMALL_IMAGE)


# --- orthogonal initializers --------------------------------------------------------------------------


@pytest.mark.parametrize("shape, column_axis", [((3, 3), -1), ((2, 5), -1), ((5, 2), 0), ((2, 3, 4), 1)])
def test_orthogonal_under_transforms(shape, column_axis):
    init = partial(nn.initializers.orthogonal(2.0, column_axis), shape=shape)
    expected = init(KEY)
    np.testing.assert_allclose(functad.jit(init)(KEY), expected, atol=1e-6)
    np.testing.assert_allclose(functad.vmap(init)(KEY[None])[0], expected, atol=1e-6)
    assert functad.eval_shape(init, KEY).shape == shape
    centre = partial(nn.initializers.delta_orthogonal(), shape=(3, 2, 3))
    np.testing.assert_allclose(functad.jit(centre)(KEY), centre(KEY), atol=1e-6)
    assert nn.initializers.orthogonal()(KEY, (2, 2), "float16").dtype == "float16"


def test_orthogonal_refuses_shapes_that_do_not_fit():
    with pytest.raises(ShapeError, match=r"orthogonal: a parameter of shape \(3,\) has no rows and columns"):
        nn.initializers.orthogonal()(KEY, (3,))
    with pytest.raises(ArgumentError, match="column_axis=2 is no axis"):
        nn.initializers.orthogonal(column_axis=2)(KEY, (3, 3))
    for shape in ((3, 3), (3, 4, 2)):
        with pytest.raises(ShapeError, match="delta_orthogonal: a kernel of shape .* does not fit"):
            nn.initializers.delta_orthogonal()(KEY, shape)


def test_layers_take_orthogonal_initializers():
    dense = nn.Dense(4, kernel_init=nn.initializers.orthogonal(2.0)).init(KEY, np.ones((1, 6), np.float32))["kernel"]
    np.testing.assert_allclose(np.asarray(dense.T @ dense), 4 * np.eye(4), atol=1e-5)
    half = nn.initializers.orthogonal()(KEY, (3, 3), "float16")
    assert half.dtype == np.float16
    kernel = nn.initializers.delta_orthogonal()(KEY, (3, 3, 2, 4))
    assert float(jnp.abs(kernel).sum()) == float(jnp.abs(kernel[1, 1]).sum())


def test_nested_networks_ask_a_layer_for_its_buffers_no_more_than_twice_a_level():
    asked, base, x = [], nn.BatchNorm(), jnp.ones((2, 3))
    network = nn.Buffered(base.init, base.apply, lambda x: asked.append(x) or base.buffers(x))
    for depth in range(1, 5):
        network = nn.serial(network, nn.Relu())
        for made in (partial(network.init, KEY), network.buffers):
            asked.clear()
            made(x)
            assert len(asked) <= 2 ** (depth - 1)


@pytest.mark.parametrize("kind", [np.int64, np.uint8])
def test_sizes_may_be_integers_of_numpy(kind):
    x, two = images(1, 2, 8, 8), kind(2)
    network = nn.serial(nn.Conv(two, (two, two), strides=two), nn.MaxPool((two, two)), nn.Flatten(), nn.Dense(two))
    params = network.init(KEY, x)
    assert network.apply(params, x).shape == (1, 2)
    assert nn.top_k_accuracy(np.eye(3), np.arange(3), two) == 1
