"""Normalisation layers: values brought to mean 0 and variance 1 over some axes, then scaled and shifted.

Means and variances are taken in float32 at least, whatever the input: the squares of float16 overflow from 256 on. The
result has the dtype to which input and params promote.

Knows nothing of other layers.
"""

from __future__ import annotations

import math
from typing import Any

from functad import numpy as jnp
from functad.errors import ArgumentError, ShapeError, check_int
from functad.nn.layer import Buffered, Layer, check_floats, check_one_array, check_params, struct_of


def LayerNorm(axis: int | tuple[int, ...] = -1, epsilon: float = 1e-5, use_bias: bool = True) -> Layer:
    """Normalise each example over some axes (Ba et al. 2016).

    Args:
        axis: the axis or axes over which mean and variance are taken.
        epsilon: added to the variance.
        use_bias: whether to shift what was scaled.

    Returns:
        A layer that keeps the shape. Its params are a dict: "scale" of the shape of these axes, ones at first, and with
        `use_bias` "bias", zeros.

    Raises:
        ShapeError: the input lacks such an axis, or it is given twice. DTypeError: it holds no floats. TreeError: the
            params are not those of such a layer.

    >>> import functad, functad.numpy as jnp
    >>> layer = LayerNorm()
    >>> x = jnp.array([[1., 3.], [10., 10.]])
    >>> layer.apply(layer.init(functad.random.key(0), x), x).round(3)
    Array([[-1.,  1.],
           [ 0.,  0.]], dtype=float32)
    """
    axes = axis if isinstance(axis, tuple) else (axis,)
    return _over_axes("LayerNorm", axes, epsilon, use_bias, centred=True)


def RMSNorm(axis: int | tuple[int, ...] = -1, epsilon: float = 1e-6) -> Layer:
    """Divide each example by the root of its mean square over some axes (Zhang & Sennrich 2019).

    Args:
        axis: the axis or axes over which the mean is taken.
        epsilon: added to the mean square.

    Returns:
        A layer that keeps the shape. Its params are a dict: "scale" of the shape of these axes, ones at first.

    Raises:
        ShapeError, DTypeError, TreeError: as `LayerNorm`.

    >>> import functad, functad.numpy as jnp
    >>> layer = RMSNorm()
    >>> x = jnp.array([[3., 4.]])
    >>> layer.apply(layer.init(functad.random.key(0), x), x).round(4)
    Array([[0.8485, 1.1314]], dtype=float32)
    """
    axes = axis if isinstance(axis, tuple) else (axis,)
    return _over_axes("RMSNorm", axes, epsilon, use_bias=False, centred=False)


def GroupNorm(groups: int, axis: int = 1, epsilon: float = 1e-5) -> Layer:
    """Normalise each example over groups of channels and all of space (Wu & He 2018).

    Args:
        groups: how many; they divide the channels.
        axis: that of the channels; 0 is the batch.
        epsilon: added to the variance.

    Returns:
        A layer that keeps the shape. Its params are a dict: "scale", ones at first, and "bias", zeros, of shape
        (channels,).

    Raises:
        ArgumentError: `groups` is no positive int. ShapeError: it does not divide the channels, or the input lacks the
            axis. DTypeError, TreeError: as `LayerNorm`.

    >>> import functad, functad.numpy as jnp
    >>> layer = GroupNorm(2)
    >>> x = jnp.arange(8.).reshape(1, 4, 2)
    >>> layer.apply(layer.init(functad.random.key(0), x), x)[0, 0].round(3)
    Array([-1.342, -0.447], dtype=float32)
    """
    groups = check_int(groups, "GroupNorm: groups", low=1)
    return _grouped(f"GroupNorm({groups})", groups, axis, epsilon)


def InstanceNorm(axis: int = 1, epsilon: float = 1e-5) -> Layer:
    """Normalise each channel of each example over space (Ulyanov et al. 2016): `GroupNorm` with one channel a group.

    Args:
        axis: that of the channels; 0 is the batch.
        epsilon: added to the variance.

    Returns:
        A layer that keeps the shape, with the params of `GroupNorm`.

    Raises:
        ShapeError, DTypeError, TreeError: as `LayerNorm`.

    >>> import functad, functad.numpy as jnp
    >>> layer = InstanceNorm()
    >>> x = jnp.array([[[1., 3.], [0., 100.]]])
    >>> layer.apply(layer.init(functad.random.key(0), x), x).round(3)
    Array([[[-1.,  1.],
            [-1.,  1.]]], dtype=float32)
    """
    return _grouped("InstanceNorm()", None, axis, epsilon)


def BatchNorm(axis: int = 1, momentum: float = 0.9, epsilon: float = 1e-5) -> Layer:
    """Normalise each channel over the batch and all of space (Ioffe & Szegedy 2015).

    In training by the mean and variance of the batch; else by running means of both, which are the buffers of the layer
    (see `Buffered`): `apply(params, x, buffers=buffers, train=True)` gives `(y, new_buffers)`. The running variance is
    that of a sample, divided by n - 1, as PyTorch's.

    Args:
        axis: that of the channels.
        momentum: how much of the running means is kept at each step. PyTorch calls 1 minus this so.
        epsilon: added to the variance.

    Returns:
        A layer that keeps the shape. Its params are a dict: "scale", ones at first, and "bias", zeros, of shape
        (channels,); its buffers a dict: "mean", zeros at first, and "var", ones, of the same shape, float32 for inputs
        of 16 bits.

    Raises:
        ArgumentError: `momentum` is not between 0 and 1, buffers are missing, or there is at most one value a channel
            to learn from.
        ShapeError, DTypeError, TreeError: as `LayerNorm`.

    >>> import functad, functad.numpy as jnp
    >>> layer = BatchNorm()
    >>> x = jnp.array([[1., 10.], [3., 30.]])
    >>> params, buffers = layer.init(functad.random.key(0), x), layer.buffers(x)
    >>> y, buffers = layer.apply(params, x, buffers=buffers, train=True)
    >>> y.round(3), buffers["mean"]
    (Array([[-1., -1.],
           [ 1.,  1.]], dtype=float32), Array([0.2, 2. ], dtype=float32))
    """
    name = "BatchNorm()"
    if not 0 <= momentum <= 1:
        raise ArgumentError(f"BatchNorm: momentum must be between 0 and 1, got {momentum!r}")

    def buffers(x: Any) -> dict[str, Any]:
        shape, dtype = (_size(x, axis, name),), _wide(struct_of(x).dtype)
        return {"mean": jnp.zeros(shape, dtype), "var": jnp.ones(shape, dtype)}

    def init(key: Any, x: Any) -> dict[str, Any]:
        return _scale_and_bias(x, (_size(x, axis, name),), name, use_bias=True)

    def apply(params: Any, x: Any, *, buffers: Any = None, key: Any = None, train: bool = False) -> Any:
        x = _checked(x, name)
        size = _size(x, axis, name)
        check_params(params, {"scale": (size,), "bias": (size,)}, name)
        _check_buffers(buffers, name)
        shape = tuple(size if i == axis % x.ndim else 1 for i in range(x.ndim))
        if not train:
            mean, var = buffers["mean"], buffers["var"]
        else:
            axes = tuple(i for i in range(x.ndim) if i != axis % x.ndim)
            count = math.prod(x.shape[i] for i in axes)
            if count < 2:
                number = "one value" if count else "no value"
                raise ArgumentError(
                    f"{name}: an input of shape {x.shape} has {number} a channel; train on more at once"
                )
            wide = x.astype(_wide(x.dtype))
            mean, var = wide.mean(axes), wide.var(axes)
            new = {"mean": mean, "var": var * (count / (count - 1))}
            buffers = {k: (momentum * buffers[k] + (1 - momentum) * new[k]).astype(buffers[k].dtype) for k in new}
        y = (x - mean.reshape(shape)) / jnp.sqrt(var.reshape(shape) + epsilon)
        y = y * params["scale"].reshape(shape) + params["bias"].reshape(shape)
        return y.astype(jnp.result_type(x, *params.values())), buffers

    return Buffered(init, apply, buffers, name)


def _over_axes(kind: str, axes: tuple[int, ...], epsilon: float, use_bias: bool, centred: bool) -> Layer:
    name = f"{kind}()"

    def init(key: Any, x: Any) -> dict[str, Any]:
        return _scale_and_bias(x, tuple(_sizes(x, axes, name).values()), name, use_bias)

    def apply(params: Any, x: Any, *, key: Any = None, train: bool = False) -> Any:
        x = _checked(x, name)
        sizes = _sizes(x, axes, name)
        wanted: dict[str, tuple[int | None, ...]] = {"scale": tuple(sizes.values())}
        if use_bias:
            wanted["bias"] = wanted["scale"]
        check_params(params, wanted, name)
        order = sorted(sizes)
        places = [list(sizes).index(axis) for axis in order]
        shape = tuple(sizes.get(i, 1) for i in range(x.ndim))
        y = _normalised(x, axes, epsilon, centred) * jnp.transpose(params["scale"], places).reshape(shape)
        if use_bias:
            y = y + jnp.transpose(params["bias"], places).reshape(shape)
        return y.astype(jnp.result_type(x, *params.values()))

    return Layer(init, apply, name)


def _grouped(name: str, groups: int | None, axis: int, epsilon: float) -> Layer:
    def init(key: Any, x: Any) -> dict[str, Any]:
        return _scale_and_bias(x, (_size(x, axis, name),), name, use_bias=True)

    def apply(params: Any, x: Any, *, key: Any = None, train: bool = False) -> Any:
        x = _checked(x, name)
        size, at = _size(x, axis, name), axis % x.ndim
        check_params(params, {"scale": (size,), "bias": (size,)}, name)
        count = size if groups is None else groups
        if at == 0 or (count and size % count):
            raise ShapeError(
                f"{name}: the {size} channels on axis {axis} of shape {x.shape} do not part into {groups} groups"
            )
        parts = x.reshape(*x.shape[:at], count, size // max(count, 1), *x.shape[at + 1 :])
        axes = tuple(i for i in range(1, parts.ndim) if i != at)
        y = _normalised(parts, axes, epsilon, centred=True).reshape(x.shape)
        shape = tuple(size if i == at else 1 for i in range(x.ndim))
        y = y * params["scale"].reshape(shape) + params["bias"].reshape(shape)
        return y.astype(jnp.result_type(x, *params.values()))

    return Layer(init, apply, name)


def _normalised(x: Any, axes: tuple[int, ...], epsilon: float, centred: bool) -> Any:
    """Over the root of the mean square over some axes, in float32 at least."""
    x = x.astype(_wide(x.dtype))
    if centred:
        x = x - x.mean(axes, keepdims=True)
    return x / jnp.sqrt(jnp.mean(jnp.real(x * jnp.conj(x)), axes, keepdims=True) + epsilon)


def _wide(dtype: Any) -> Any:
    return jnp.promote_types(dtype, "float32")


def _scale_and_bias(x: Any, shape: tuple[int, ...], name: str, use_bias: bool) -> dict[str, Any]:
    check_floats(x, name)
    dtype = struct_of(x).dtype
    params = {"scale": jnp.ones(shape, dtype)}
    return {**params, "bias": jnp.zeros(shape, dtype)} if use_bias else params


def _checked(x: Any, name: str) -> Any:
    check_one_array(x, name)
    x = jnp.asarray(x)
    check_floats(x, name)
    return x


def _size(x: Any, axis: int, name: str) -> int:
    check_one_array(x, name)
    if not -len(x.shape) <= axis < len(x.shape):
        raise ShapeError(f"{name}: the input has shape {tuple(x.shape)}, which has no axis {axis}")
    return x.shape[axis]


def _sizes(x: Any, axes: tuple[int, ...], name: str) -> dict[int, int]:
    """The size of each of some axes, by its number from 0."""
    sizes = {axis % max(len(x.shape), 1): _size(x, axis, name) for axis in axes}
    if len(sizes) < len(axes):
        raise ShapeError(f"{name}: the axes {axes} of an input of shape {tuple(x.shape)} name one of them twice")
    return sizes


def _check_buffers(buffers: Any, name: str) -> None:
    if not isinstance(buffers, dict) or set(buffers) != {"mean", "var"}:
        raise ArgumentError(
            f"{name}: the running means are missing; make them with buffers = network.buffers(x), give and take them:\n"
            "    y, buffers = network.apply(params, x, buffers=buffers, train=True)"
        )
