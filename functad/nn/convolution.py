"""The convolution layers, over one, two or three axes.

Knows layouts and kernels; the sums are those of `lax.conv_general_dilated`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functad import lax, random
from functad import numpy as jnp
from functad.errors import ArgumentError, ShapeError, check_int
from functad.nn.initializers import DEFAULT_KERNEL_INIT, Initializer, zeros
from functad.nn.layer import Layer, check_floats, check_one_array, check_params, struct_of
from functad.nn.layout import PaddingArgument, check_input, check_window, checked_padding, per_axis, window_and_layout

# The kernel of every layout: space, input channels, output channels, as initializers expect it.
_KERNEL_LAYOUTS = {1: "WIO", 2: "HWIO", 3: "DHWIO"}


def Conv(
    features: int,
    kernel_size: int | Sequence[int],
    strides: int | Sequence[int] = 1,
    padding: PaddingArgument = "VALID",
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    use_bias: bool = True,
    layout: str | None = None,
    kernel_init: Initializer = DEFAULT_KERNEL_INIT,
    bias_init: Initializer = zeros,
) -> Layer:
    """Convolve images or sequences with learned kernels (not flipped, as is usual in neural networks).

    Args:
        features: the number of output channels.
        kernel_size: the window along each spatial axis; its length tells the rank: (3,), (3, 3) or (3, 3, 3).
            An integer needs a `layout`.
        strides: how far the window moves, along all axes or along each.
        padding: "VALID" (none), "SAME" (so that stride 1 keeps the size), an integer, or for each spatial
            axis an integer or a (low, high) pair.
        dilation: the distance between the taps of the window.
        groups: split the channels into this many groups that do not mix; it must divide both channel counts.
        use_bias: whether to add a bias to each output channel.
        layout: "NCW", "NCHW" or "NCDHW" (the default: channels first), or "NWC", "NHWC", "NDHWC", of input
            and output.
        kernel_init, bias_init: called as `init(key, shape, dtype)`.

    Returns:
        A layer. Its params are a dict: "kernel" of shape (*kernel_size, input channels / groups, features)
        whatever the layout and, with `use_bias`, "bias" of shape (features,).

    Raises:
        ArgumentError: arguments that do not fit together.
        ShapeError: an input of the wrong rank, smaller than the window, or with channels that are not those
            of the kernel or of the groups.
        DTypeError: the input holds no floats.
        TreeError: the params are not those of such a layer.

    >>> import functad, functad.numpy as jnp
    >>> layer = Conv(6, (3, 3))
    >>> x = jnp.ones((8, 1, 28, 28))
    >>> params = layer.init(functad.random.key(0), x)
    >>> params["kernel"].shape, layer.apply(params, x).shape
    ((3, 3, 1, 6), (8, 6, 26, 26))
    """
    name = f"Conv({features}, {kernel_size})"
    window, layout = window_and_layout(kernel_size, layout, name)
    rank = len(window)
    strides_ = per_axis(strides, rank, "strides", name)
    dilation_ = per_axis(dilation, rank, "dilation", name)
    padding_ = checked_padding(padding, rank, name)
    features = check_int(features, "Conv: features", low=1)
    groups = check_int(groups, f"{name}: groups", low=1)
    if features % groups:
        raise ArgumentError(f"{name}: groups={groups} must divide the {features} output channels")
    wanted_params: dict[str, tuple[int | None, ...]] = {"kernel": (*window, None, features)}
    if use_bias:
        wanted_params["bias"] = (features,)
    dimension_numbers = (layout, _KERNEL_LAYOUTS[rank], layout)

    def init(key: Any, x: Any) -> dict[str, Any]:
        x = struct_of(x)
        check_floats(x, name)
        check_input(x.shape, layout, name)
        channels = _channels_of_group(x.shape, layout, groups, name)
        check_window(x.shape, layout, window, dilation_, padding_, name)
        return _first_params(key, (*window, channels, features), x.dtype, kernel_init, bias_init if use_bias else None)

    def apply(params: Any, x: Any, *, key: Any = None, train: bool = False) -> Any:
        check_params(params, wanted_params, name)
        check_one_array(x, name)
        x = jnp.asarray(x)
        check_floats(x, name)
        check_input(x.shape, layout, name)
        _check_channels(x.shape, layout, params["kernel"].shape, groups, name)
        check_window(x.shape, layout, window, dilation_, padding_, name)
        y = lax.conv_general_dilated(
            x, params["kernel"], strides_, padding_, rhs_dilation=dilation_, dimension_numbers=dimension_numbers,
            feature_group_count=groups,
        )  # fmt: skip
        return _with_bias(y, params, layout)

    return Layer(init, apply, name)


def _first_params(
    key: Any, shape: tuple[int, ...], dtype: Any, kernel_init: Initializer, bias_init: Initializer | None
) -> dict[str, Any]:
    kernel_key, bias_key = random.split(key)
    params = {"kernel": kernel_init(kernel_key, shape, dtype)}
    return params if bias_init is None else {**params, "bias": bias_init(bias_key, shape[-1:], dtype)}


def _with_bias(y: Any, params: Any, layout: str) -> Any:
    """The output with the bias of each channel, if the layer has one."""
    if "bias" not in params:
        return y
    return y + jnp.reshape(params["bias"], tuple(-1 if axis == "C" else 1 for axis in layout))


def _channels_of_group(shape: tuple[int, ...], layout: str, groups: int, name: str) -> int:
    axis = layout.index("C")
    if shape[axis] % groups:
        raise ShapeError(
            f"{name}: groups={groups} does not divide the {shape[axis]} channels (axis {axis} of layout {layout}) of "
            f"the input of shape {shape}"
        )
    return shape[axis] // groups


def _check_channels(shape: tuple[int, ...], layout: str, kernel_shape: tuple[int, ...], groups: int, name: str) -> None:
    axis, wanted = layout.index("C"), kernel_shape[-2] * groups
    if shape[axis] != wanted:
        raise ShapeError(
            f"{name}: the input of shape {shape} has {shape[axis]} channels (axis {axis} of layout {layout}), but the "
            f"kernel of shape {kernel_shape} takes {wanted}; is the layout right, or were the params made for other "
            "inputs?"
        )


def ConvTranspose(
    features: int,
    kernel_size: int | Sequence[int],
    strides: int | Sequence[int] = 1,
    padding: PaddingArgument = "VALID",
    use_bias: bool = True,
    layout: str | None = None,
    kernel_init: Initializer = DEFAULT_KERNEL_INIT,
    bias_init: Initializer = zeros,
) -> Layer:
    """The transpose of a convolution: what enlarges by its strides, each input spread by the kernel.

    Args:
        features: the number of output channels.
        kernel_size, strides, layout, use_bias, kernel_init, bias_init: as in `Conv`.
        padding: that of the convolution whose transpose this is, as in PyTorch: "VALID" (none), "SAME" (sizes times
            strides), an integer, or for each spatial axis an integer or a (low, high) pair: so much is cut off.

    Returns:
        A layer. Its params are a dict: "kernel" of shape (*kernel_size, input channels, features) and, with
        `use_bias`, "bias" of shape (features,). Of no padding, an axis of n becomes (n - 1) stride + kernel size.

    Raises:
        ArgumentError, ShapeError, DTypeError, TreeError: as `Conv`.

    >>> import functad, functad.numpy as jnp
    >>> layer = ConvTranspose(3, (2, 2), strides=2)
    >>> x = jnp.ones((1, 5, 4, 4))
    >>> layer.apply(layer.init(functad.random.key(0), x), x).shape
    (1, 3, 8, 8)
    """
    name = f"ConvTranspose({features}, {kernel_size})"
    window, layout = window_and_layout(kernel_size, layout, name)
    rank = len(window)
    strides_ = per_axis(strides, rank, "strides", name)
    padding_ = checked_padding(padding, rank, name)
    features = check_int(features, "ConvTranspose: features", low=1)
    wanted: dict[str, tuple[int | None, ...]] = {"kernel": (*window, None, features)}
    if use_bias:
        wanted["bias"] = (features,)
    dimension_numbers = (layout, _KERNEL_LAYOUTS[rank], layout)

    def init(key: Any, x: Any) -> dict[str, Any]:
        x = struct_of(x)
        check_floats(x, name)
        check_input(x.shape, layout, name)
        shape = (*window, x.shape[layout.index("C")], features)
        return _first_params(key, shape, x.dtype, kernel_init, bias_init if use_bias else None)

    def apply(params: Any, x: Any, *, key: Any = None, train: bool = False) -> Any:
        check_params(params, wanted, name)
        check_one_array(x, name)
        x = jnp.asarray(x)
        check_floats(x, name)
        check_input(x.shape, layout, name)
        _check_channels(x.shape, layout, params["kernel"].shape, 1, name)
        # The transpose of a convolution reads the kernel from its end.
        kernel = jnp.flip(params["kernel"], tuple(range(rank)))
        y = lax.conv_transpose(
            x, kernel, strides_, padding_, dimension_numbers=dimension_numbers, use_consistent_padding=True
        )
        return _with_bias(y, params, layout)

    return Layer(init, apply, name)
