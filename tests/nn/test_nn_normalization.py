"""Normalisation layers against their formulas, and layers with buffers in combinations."""

from __future__ import annotations

import numpy as np
import pytest
from bfloat16_tools import BFLOAT16, needs_bfloat16

import functad
import functad.numpy as jnp
from functad import nn, random
from functad.errors import ArgumentError, DTypeError, ShapeError, TreeError

rng = np.random.default_rng(0)
X = rng.normal(2, 3, size=(4, 6, 5, 3)).astype(np.float32)


def filled(layer, x):
    """Params other than ones and zeros."""
    params = layer.init(random.key(0), x)
    return functad.tree.map(lambda p: jnp.asarray(rng.normal(size=p.shape).astype(np.float32)), params)


def normal(x, axes, epsilon):
    x = x.astype(np.float64)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def along(p, axis, ndim=4):
    shape = [1] * ndim
    shape[axis] = -1
    return np.asarray(p, np.float64).reshape(shape)


def close(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("axis", [-1, 1, (1, 3), (-1, 1), (1, 2, 3)])
def test_layer_norm(axis):
    layer = nn.LayerNorm(axis, 1e-3)
    params = filled(layer, X)
    axes = axis if isinstance(axis, tuple) else (axis,)
    assert params["scale"].shape == params["bias"].shape == tuple(X.shape[a] for a in axes)

    def spread(p):
        """In the order of the axes given, put where they are."""
        p = np.asarray(p, np.float64).reshape(p.shape + (1,) * (4 - p.ndim))
        return np.moveaxis(p, range(len(axes)), axes)

    close(
        layer.apply(params, X),
        normal(X, tuple(a % 4 for a in axes), 1e-3) * spread(params["scale"]) + spread(params["bias"]),
    )


def test_layer_norm_without_bias_and_rms_norm():
    layer = nn.LayerNorm(use_bias=False)
    params = filled(layer, X)
    close(layer.apply(params, X), normal(X, -1, 1e-5) * along(params["scale"], 3))
    layer = nn.RMSNorm(epsilon=1e-2)
    params = filled(layer, X)
    x = X.astype(np.float64)
    wanted = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-2) * along(params["scale"], 3)
    close(layer.apply(params, X), wanted)
    assert set(params) == {"scale"}


@pytest.mark.parametrize("axis", [1, -1, 3])
def test_group_and_instance_norm(axis):
    channels = X.shape[axis]
    x = np.moveaxis(X, axis, 1)
    for layer, groups in ((nn.GroupNorm(3, axis), 3), (nn.InstanceNorm(axis), channels), (nn.GroupNorm(1, axis), 1)):
        params = filled(layer, X)
        parts = normal(x.reshape(4, groups, -1), 2, 1e-5).reshape(x.shape)
        wanted = parts * along(params["scale"], 1) + along(params["bias"], 1)
        close(layer.apply(params, X), np.moveaxis(wanted, 1, axis))


@pytest.mark.parametrize("axis", [1, -1])
def test_batch_norm_in_training_and_after(axis):
    layer = nn.BatchNorm(axis, momentum=0.8, epsilon=1e-4)
    params, buffers = filled(layer, X), layer.buffers(X)
    axes = tuple(i for i in range(4) if i != axis % 4)
    mean, var = np.zeros(X.shape[axis]), np.ones(X.shape[axis])
    for k in range(3):
        x = X + np.float32(k)
        y, buffers = functad.jit(lambda p, b, x: layer.apply(p, x, buffers=b, train=True))(params, buffers, x)
        close(y, normal(x, axes, 1e-4) * along(params["scale"], axis) + along(params["bias"], axis))
        mean = 0.8 * mean + 0.2 * x.astype(np.float64).mean(axes)
        var = 0.8 * var + 0.2 * x.astype(np.float64).var(axes, ddof=1)
    close(buffers["mean"], mean)
    close(buffers["var"], var)
    y, after = layer.apply(params, X, buffers=buffers)
    assert after is buffers
    wanted = (X - along(mean, axis)) / np.sqrt(along(var, axis) + 1e-4)
    close(y, wanted * along(params["scale"], axis) + along(params["bias"], axis))


LAYERS = {
    "LayerNorm": nn.LayerNorm(),
    "RMSNorm": nn.RMSNorm(),
    "GroupNorm": nn.GroupNorm(2),
    "BatchNorm": nn.BatchNorm(),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("dtype", ["float16", BFLOAT16])
def test_squares_of_16_bits_do_not_overflow(name, dtype):
    layer, x = LAYERS[name], jnp.asarray(X[:, :, 0, 0] * 1000 + 5000, dtype)

    def applied(x, train):
        params = layer.init(random.key(0), x)
        if name != "BatchNorm":
            return layer.apply(params, x), ()
        return layer.apply(params, x, buffers=layer.buffers(x), train=train)

    for train in (True, False):
        y, buffers = applied(x, train)
        wanted, wanted_buffers = applied(x.astype("float32"), train)
        assert y.dtype == x.dtype and wanted.dtype == jnp.float32
        assert [b.dtype for b in functad.tree.leaves(buffers)] == [jnp.float32] * (2 if name == "BatchNorm" else 0)
        np.testing.assert_array_equal(np.asarray(y, "float32"), np.asarray(wanted.astype(dtype), "float32"))
        functad.tree.map(np.testing.assert_array_equal, buffers, wanted_buffers)
        mixed = layer.apply(layer.init(random.key(0), X[:, :, 0, 0]), x, **({"buffers": buffers} if buffers else {}))
        assert (mixed[0] if buffers else mixed).dtype == jnp.float32


@pytest.mark.parametrize("shape, text", [((0, 3), "has no value a channel"), ((1, 3), "has one value a channel")])
def test_too_few_to_learn_from(shape, text):
    layer, x = nn.BatchNorm(), jnp.ones(shape)
    params, buffers = layer.init(random.key(0), x), layer.buffers(x)
    with pytest.raises(ArgumentError, match=text):
        layer.apply(params, x, buffers=buffers, train=True)
    assert layer.apply(params, x, buffers=buffers)[0].shape == shape


@pytest.mark.parametrize(
    "layer, axes", [(nn.LayerNorm(), -1), (nn.RMSNorm(), -1), (nn.GroupNorm(1), (1, 2)), (nn.InstanceNorm(), 2)]
)
def test_complex_values_have_a_mean_square_of_magnitudes(layer, axes):
    x = (X[..., 0] + 1j * X[..., 1] - 2).astype(np.complex64)
    y = np.asarray(layer.apply(layer.init(random.key(0), x), x))
    assert y.dtype == np.complex64
    np.testing.assert_allclose((np.abs(y) ** 2).mean(axes), 1, rtol=1e-4)


def test_an_axis_given_twice():
    layer, x = nn.LayerNorm((-1, 1)), jnp.ones((2, 3))
    for call in (lambda: layer.init(random.key(0), x), lambda: layer.apply({}, x)):
        with pytest.raises(
            ShapeError, match=r"the axes \(-1, 1\) of an input of shape \(2, 3\) name one of them twice"
        ):
            call()


def test_no_channels_at_all():
    layer, x = nn.BatchNorm(), jnp.ones((4, 0))
    y, buffers = layer.apply(layer.init(random.key(0), x), x, buffers=layer.buffers(x), train=True)
    assert y.shape == (4, 0) and buffers["mean"].shape == (0,)
    layer, x = nn.InstanceNorm(), jnp.ones((4, 3, 0))
    assert layer.apply(layer.init(random.key(0), x), x).shape == (4, 3, 0)


@needs_bfloat16
def test_running_means_of_16_bits_follow_small_steps():
    layer, x = nn.BatchNorm(momentum=0.999), jnp.asarray([[1.0], [3.0]], "bfloat16")
    params, buffers = layer.init(random.key(0), x), layer.buffers(x)
    for _ in range(50):
        buffers = layer.apply(params, x, buffers=buffers, train=True)[1]
    np.testing.assert_allclose(buffers["mean"], 2 * (1 - 0.999**50), rtol=1e-5)
    np.testing.assert_allclose(buffers["var"], 2 - 0.999**50, rtol=1e-5)


def test_the_gradient_goes_through_the_statistics():
    layer = nn.BatchNorm()
    x = X[:, :, 0, 0].astype(np.float64)
    params, buffers = layer.init(random.key(0), x), layer.buffers(x)

    def loss(x):
        return (layer.apply(params, x, buffers=buffers, train=True)[0] ** 3).sum()

    functad.test_util.check_grads(loss, (x,), order=2, modes=("fwd", "rev"), atol=1e-4, rtol=1e-4)


class TestCombinations:
    x = X.reshape(4, -1)

    def network(self):
        side = nn.parallel(nn.serial(nn.Dense(3), nn.BatchNorm()), nn.Dense(3), join=sum)
        return nn.serial(hidden=nn.Dense(3), around=nn.residual(nn.serial(nn.BatchNorm(), nn.Tanh())), side=side)

    def test_buffers_are_carried_through(self):
        network = self.network()
        params, buffers = network.init(random.key(0), self.x), network.buffers(self.x)
        assert buffers["hidden"] == () and set(buffers["around"][0]) == {"mean", "var"} and buffers["around"][1] == ()
        y, new = network.apply(params, self.x, buffers=buffers, train=True)
        assert y.shape == (4, 3) and functad.tree.structure(new) == functad.tree.structure(buffers)
        changed = functad.tree.map(lambda a, b: bool((a != b).any()), new, buffers)
        assert all(functad.tree.leaves(changed)) and len(functad.tree.leaves(changed)) == 4
        again, same = network.apply(params, self.x, buffers=new)
        assert functad.tree.leaves(functad.tree.map(lambda a, b: bool((a == b).all()), same, new)) == [True] * 4

    def test_training_with_fit(self):
        network = nn.serial(nn.Dense(8), nn.BatchNorm(), nn.Relu(), nn.Dense(1))
        target = self.x[:, :1] * 2

        def loss(params, buffers, batch, key):
            y, buffers = network.apply(params, batch[0], buffers=buffers, train=key is not None)
            return ((y - batch[1]) ** 2).mean(), {}, buffers

        history = functad.train.fit(
            loss, network.init(random.key(0), self.x), functad.optim.adam(0.05), (self.x, target), until=30,
            batch_size=4, key=random.key(1), state=network.buffers(self.x), test=(self.x, target),
        )  # fmt: skip
        assert history["loss"][-1] < 0.05 * history["loss"][0]
        assert history["test loss"][-1] < history["test loss"][0]

    def test_each_step(self):
        layer = nn.each_step(nn.BatchNorm(-1))
        x = nn.Ragged(jnp.asarray(X[:, :, :, 0]), jnp.array([6, 5, 4, 3]))
        params, buffers = layer.init(random.key(0), x), layer.buffers(x)
        y, buffers = layer.apply(params, x, buffers=buffers, train=True)
        assert isinstance(y, nn.Ragged) and buffers["mean"].shape == (5,)

    def test_without_buffers_the_error_says_how(self):
        network = self.network()
        params = network.init(random.key(0), self.x)
        with pytest.raises(ArgumentError, match="buffers = network.buffers"):
            network.apply(params, self.x, train=True)

    def test_a_layer_without_any_is_a_plain_layer(self):
        assert type(nn.serial(nn.Dense(2), nn.LayerNorm())) is nn.Layer
        assert isinstance(self.network(), nn.Buffered)


def test_names_are_for_all_layers_or_none():
    with pytest.raises(ArgumentError, match="1 layers have no name, but 'out' have"):
        nn.serial(nn.Relu(), out=nn.Dense(1))
    network = nn.serial(a=nn.Dense(2), b=nn.Dense(1))
    params = network.init(random.key(0), X)
    with pytest.raises(TreeError, match="returned, a dict with 'a' and 'b'"):
        network.apply((params["a"], params["b"]), X)
    np.testing.assert_array_equal(
        network.apply(params, X), nn.serial(nn.Dense(2), nn.Dense(1)).apply((params["a"], params["b"]), X)
    )


@pytest.mark.parametrize(
    ("layer", "x", "error", "text"),
    [
        (nn.LayerNorm(4), X, ShapeError, "has no axis 4"),
        (nn.LayerNorm(), np.arange(3), DTypeError, "takes floats"),
        (nn.GroupNorm(4), X, ShapeError, "do not part into 4 groups"),
        (nn.BatchNorm(), X[:1, :, :1, :1], ArgumentError, "one value a channel"),
    ],
)
def test_wrong_inputs(layer, x, error, text):
    with pytest.raises(error, match=text):
        params = layer.init(random.key(0), x)
        options = {"buffers": layer.buffers(x), "train": True} if isinstance(layer, nn.Buffered) else {}
        layer.apply(params, x, **options)


def test_wrong_arguments():
    with pytest.raises(ArgumentError, match="momentum must be between 0 and 1"):
        nn.BatchNorm(momentum=2)
    with pytest.raises(ArgumentError, match="groups must be an int"):
        nn.GroupNorm(0)


@pytest.mark.parametrize("kind", [1, 2, 3])
@pytest.mark.parametrize(
    "options", [{}, {"strides": 2}, {"strides": 3, "padding": 1}, {"padding": "SAME", "strides": 2}]
)
def test_conv_transpose_is_the_transpose_of_conv(kind, options):
    window = (3, 2, 4)[:kind]
    x = rng.normal(size=(2, 3, *(6, 5, 4)[:kind])).astype(np.float32)
    layer = nn.ConvTranspose(4, window, use_bias=False, **options)
    params = layer.init(random.key(0), x)
    y = layer.apply(params, x)
    forward = nn.Conv(3, window, use_bias=False, **options)
    kernel = jnp.swapaxes(params["kernel"], -1, -2)

    def conv(y):
        return forward.apply({"kernel": kernel}, y)

    wanted = functad.linear_transpose(conv, functad.ShapeDtypeStruct(y.shape, "float32"))(jnp.asarray(x))[0]
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4)


def test_conv_transpose_has_a_bias_and_layouts():
    x = rng.normal(size=(2, 5, 3)).astype(np.float32)
    layer = nn.ConvTranspose(4, (2,), strides=2, layout="NWC")
    params = filled(layer, x)
    plain = nn.ConvTranspose(4, (2,), strides=2, use_bias=False)
    wanted = plain.apply({"kernel": params["kernel"]}, x.transpose(0, 2, 1)).transpose(0, 2, 1) + params["bias"]
    np.testing.assert_allclose(layer.apply(params, x), wanted, rtol=1e-5, atol=1e-5)
    with pytest.raises(ShapeError, match="has 5 channels"):
        layer.apply(params, x.transpose(0, 2, 1))
