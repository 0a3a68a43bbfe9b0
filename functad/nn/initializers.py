"""How parameters begin: functions that make initializers, as in `jax.nn.initializers`, with the same numbers.

Knows shapes and random keys; no layers. An initializer is called as `init(key, shape, dtype)`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from functad import dtypes, random
from functad import numpy as jnp
from functad.array import Array
from functad.errors import ArgumentError, ShapeError

Axes = int | Sequence[int]

# The standard deviation of the standard normal distribution cut at -2 and 2.
_TRUNCATED_STDDEV = 0.87962566103423978

# The same of complex numbers cut at a distance of 2.
_TRUNCATED_COMPLEX_STDDEV = 0.95311164380491208

_MODES = ("fan_in", "fan_out", "fan_avg", "fan_geo_avg")
_DISTRIBUTIONS = ("truncated_normal", "normal", "uniform")


class Initializer(Protocol):
    """What makes the first values of a parameter: `init(key, shape, dtype=None)`."""

    def __call__(self, key: Any, shape: Sequence[int], dtype: Any = None) -> Any: ...


def zeros(key: Any, shape: Sequence[int], dtype: Any = None) -> Array:
    """Zeros; itself an initializer.

    >>> zeros(None, (2,))
    Array([0., 0.], dtype=float32)
    """
    return jnp.zeros(shape, _float_dtype(dtype))


def ones(key: Any, shape: Sequence[int], dtype: Any = None) -> Array:
    """Ones; itself an initializer.

    >>> ones(None, (2,))
    Array([1., 1.], dtype=float32)
    """
    return jnp.ones(shape, _float_dtype(dtype))


def constant(value: Any, dtype: Any = None) -> Initializer:
    """An initializer that fills with one value.

    >>> constant(0.5)(None, (2,))
    Array([0.5, 0.5], dtype=float32)
    """
    default = dtype

    def init(key: Any, shape: Sequence[int], dtype: Any = None) -> Any:
        return jnp.full(shape, value, _float_dtype(dtype, default))

    return init


def uniform(scale: Any = 0.01, dtype: Any = None) -> Initializer:
    """An initializer that draws evenly from [0, scale).

    >>> from functad import random
    >>> bool(uniform(2.)(random.key(0), (100,)).max() < 2.)
    True
    """
    default = dtype

    def init(key: Any, shape: Sequence[int], dtype: Any = None) -> Any:
        wanted = _float_dtype(dtype, default)
        return random.uniform(key, shape, wanted) * jnp.asarray(scale, wanted)

    return init


def normal(stddev: Any = 0.01, dtype: Any = None) -> Initializer:
    """An initializer that draws from a normal distribution with mean 0.

    >>> from functad import random
    >>> normal(2.)(random.key(0), (3, 4)).shape
    (3, 4)
    """
    default = dtype

    def init(key: Any, shape: Sequence[int], dtype: Any = None) -> Any:
        wanted = _float_dtype(dtype, default)
        return random.normal(key, shape, wanted) * jnp.asarray(stddev, wanted)

    return init


def truncated_normal(stddev: Any = 0.01, dtype: Any = None, lower: Any = -2.0, upper: Any = 2.0) -> Initializer:
    """An initializer that draws from the normal distribution cut at `lower` and `upper`, times `stddev`.

    >>> from functad import random
    >>> bool(abs(truncated_normal(1.)(random.key(0), (100,))).max() < 2.)
    True
    """
    default = dtype

    def init(key: Any, shape: Sequence[int], dtype: Any = None) -> Any:
        wanted = _float_dtype(dtype, default)
        return random.truncated_normal(key, lower, upper, shape, wanted) * jnp.asarray(stddev, wanted)

    return init


def variance_scaling(
    scale: Any,
    mode: str,
    distribution: str,
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: Any = None,
) -> Initializer:
    """An initializer whose variance is `scale / n`, so that signals keep their size from layer to layer.

    Args:
        scale: a positive number.
        mode: what `n` is: the number of inputs ("fan_in") or outputs ("fan_out") of a unit, or their
            arithmetic ("fan_avg") or geometric ("fan_geo_avg") mean.
        distribution: "truncated_normal" (cut at two standard deviations), "normal" or "uniform".
        in_axis, out_axis: the axes of the parameter over inputs and outputs. All other axes but `batch_axis`
            are a receptive field, and multiply both numbers.
        batch_axis: axes over independent copies.
        dtype: the dtype when the call names none.

    Raises:
        ArgumentError: an unknown mode or distribution.
        ShapeError: the shape has no such axes.

    >>> from functad import random
    >>> init = variance_scaling(2., "fan_in", "normal")
    >>> round(float(init(random.key(0), (1000, 50)).std()), 3), round((2 / 1000) ** 0.5, 3)
    (0.045, 0.045)
    """
    if mode not in _MODES:
        raise ArgumentError(f"variance_scaling: mode={mode!r} must be one of {', '.join(_MODES)}")
    if distribution not in _DISTRIBUTIONS:
        raise ArgumentError(
            f"variance_scaling: distribution={distribution!r} must be one of {', '.join(_DISTRIBUTIONS)}"
        )
    default = dtype

    def init(key: Any, shape: Sequence[int], dtype: Any = None) -> Any:
        wanted = _float_dtype(dtype, default)
        fan_in, fan_out = _fans(tuple(shape), in_axis, out_axis, batch_axis)
        n = {
            "fan_in": fan_in,
            "fan_out": fan_out,
            "fan_avg": (fan_in + fan_out) / 2,
            "fan_geo_avg": math.sqrt(fan_in * fan_out),
        }[mode]
        variance = jnp.asarray(scale / n, wanted)
        if np.dtype(wanted).kind == "c" and distribution != "normal":
            return _in_disk(key, tuple(shape), wanted, distribution == "uniform") * jnp.sqrt(variance)
        if distribution == "normal":
            return random.normal(key, shape, wanted) * jnp.sqrt(variance)
        if distribution == "uniform":
            # A uniform distribution on [-a, a] has the variance a^2 / 3.
            return random.uniform(key, shape, wanted, -1.0) * jnp.sqrt(3 * variance)
        stddev = jnp.sqrt(variance) / jnp.asarray(_TRUNCATED_STDDEV, wanted)
        return random.truncated_normal(key, -2, 2, shape, wanted) * stddev

    return init


def glorot_uniform(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """`variance_scaling(1, "fan_avg", "uniform")` (Glorot and Bengio 2010); also `xavier_uniform`.

    >>> from functad import random
    >>> bool(abs(glorot_uniform()(random.key(0), (4, 2))).max() <= 1.)
    True
    """
    return variance_scaling(1.0, "fan_avg", "uniform", in_axis, out_axis, batch_axis, dtype)


def glorot_normal(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """`variance_scaling(1, "fan_avg", "truncated_normal")` (Glorot and Bengio 2010); also `xavier_normal`."""
    return variance_scaling(1.0, "fan_avg", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def lecun_uniform(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """`variance_scaling(1, "fan_in", "uniform")` (LeCun et al. 1998)."""
    return variance_scaling(1.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def lecun_normal(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """`variance_scaling(1, "fan_in", "truncated_normal")` (LeCun et al. 1998)."""
    return variance_scaling(1.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def he_uniform(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """`variance_scaling(2, "fan_in", "uniform")`, for relu (He et al. 2015); also `kaiming_uniform`."""
    return variance_scaling(2.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def he_normal(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None) -> Initializer:
    """`variance_scaling(2, "fan_in", "truncated_normal")`, for relu (He 2015); also `kaiming_normal`."""
    return variance_scaling(2.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """An initializer whose rows or columns, whichever are fewer, are orthogonal and of length `scale` (Saxe 2014).

    Args:
        scale: the length.
        column_axis: the axis over the columns; all others together are the rows.
        dtype: the dtype when the call names none.

    Raises:
        ShapeError: the shape has fewer than two axes. ArgumentError: no such axis.

    >>> from functad import random
    >>> q = orthogonal()(random.key(0), (3, 3))
    >>> bool(abs(q.T @ q - jnp.eye(3)).max() < 1e-6)
    True
    """
    default = dtype

    def init(key: Any, shape: Sequence[int], dtype: Any = None) -> Any:
        return _orthogonal(key, tuple(shape), scale, column_axis, _float_dtype(dtype, default), "orthogonal")

    return init


def delta_orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """An initializer for kernels of convolutions: `orthogonal` at the central tap, zero elsewhere (Xiao 2018).

    Args:
        scale, column_axis, dtype: as in `orthogonal`.

    Raises:
        ShapeError: the shape is not (*kernel_size, inputs, outputs) over one to three spatial axes, or there are
            more inputs than outputs.

    >>> from functad import random
    >>> kernel = delta_orthogonal()(random.key(0), (3, 2, 4))
    >>> bool(abs(kernel[1] @ kernel[1].T - jnp.eye(2)).max() < 1e-6), float(abs(kernel[0]).max())
    (True, 0.0)
    """
    default = dtype

    def init(key: Any, shape: Sequence[int], dtype: Any = None) -> Any:
        shape, wanted = tuple(shape), _float_dtype(dtype, default)
        if len(shape) not in (3, 4, 5) or shape[-2] > shape[-1]:
            raise ShapeError(
                f"delta_orthogonal: a kernel of shape {shape} does not fit; it takes (*kernel_size, inputs, outputs) "
                "with one to three spatial axes and no more inputs than outputs"
            )
        matrix = _orthogonal(key, shape[-2:], scale, column_axis, wanted, "delta_orthogonal")
        centre = tuple((size - 1) // 2 for size in shape[:-2])
        return jnp.zeros(shape, wanted).at[centre].set(matrix)

    return init


xavier_uniform = glorot_uniform
xavier_normal = glorot_normal
kaiming_uniform = he_uniform
kaiming_normal = he_normal

DEFAULT_KERNEL_INIT: Initializer = lecun_normal()
"""What Dense and Conv begin with."""


# --- helpers ------------------------------------------------------------------------------------------


def _float_dtype(*wishes: Any) -> Any:
    """The first dtype that is named, or the default."""
    return next((wish for wish in wishes if wish is not None), dtypes.default_float_dtype())


def _orthogonal(key: Any, shape: tuple[int, ...], scale: Any, column_axis: int, dtype: Any, name: str) -> Any:
    if len(shape) < 2:
        raise ShapeError(f"{name}: a parameter of shape {shape} has no rows and columns; give at least two axes")
    if not -len(shape) <= column_axis < len(shape):
        raise ArgumentError(f"{name}: column_axis={column_axis} is no axis of a parameter of shape {shape}")
    columns = shape[column_axis]
    rest = math.prod(shape) // max(1, columns)
    drawn = random.normal(key, (max(columns, rest), min(columns, rest)), dtype)
    # QR takes no float16. The signs make the factorization unique, so the result evenly distributed.
    q, r = jnp.linalg.qr(drawn.astype(np.promote_types(drawn.dtype, np.float32)))
    q = q * jnp.sign(jnp.diagonal(r))[None]
    if rest < columns:
        q = q.T
    others = tuple(np.delete(shape, column_axis))
    return (scale * jnp.moveaxis(q.reshape(*others, columns), -1, column_axis)).astype(dtype)


def _in_disk(key: Any, shape: tuple[int, ...], dtype: Any, uniform: bool) -> Any:
    """Complex numbers of mean 0 and variance 1: uniform in a disk, or normal and cut at a distance of 2."""
    key_of_radius, key_of_angle = random.split(key)
    real = jnp.real(jnp.zeros((), dtype)).dtype
    drawn = random.uniform(key_of_radius, shape, real)
    if uniform:
        radius = jnp.sqrt(2 * drawn)
    else:  # the inverse of 1 − e^−r², cut at r = 2
        radius = jnp.sqrt(-jnp.log(1 - -math.expm1(-4.0) * drawn)) / _TRUNCATED_COMPLEX_STDDEV
    return radius * jnp.exp(1j * (2 * jnp.pi * random.uniform(key_of_angle, shape, real)))


def _fans(shape: tuple[int, ...], in_axis: Axes, out_axis: Axes, batch_axis: Axes) -> tuple[float, float]:
    """The number of inputs and of outputs of a unit."""
    inputs = _size(shape, in_axis, "in_axis")
    outputs = _size(shape, out_axis, "out_axis")
    copies = _size(shape, batch_axis, "batch_axis")
    receptive_field = math.prod(shape) / max(1, inputs * outputs * copies)
    fan_in, fan_out = inputs * receptive_field, outputs * receptive_field
    if fan_in == 0 or fan_out == 0:
        raise ShapeError(f"variance_scaling: a parameter of shape {shape} has no elements, so no variance to scale")
    return fan_in, fan_out


def _size(shape: tuple[int, ...], axes: Axes, name: str) -> int:
    numbers = tuple(axes) if isinstance(axes, Iterable) else (axes,)
    for axis in numbers:
        if not -len(shape) <= axis < len(shape):
            raise ShapeError(
                f"variance_scaling: a parameter of shape {shape} has no axis {axis} for {name}={axes}; give "
                "a shape of at least two axes, such as (inputs, outputs), or name its axes with in_axis and "
                "out_axis"
            )
    return math.prod(shape[axis] for axis in numbers)
