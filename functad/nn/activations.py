"""Activation functions as layers, so that they can stand in `serial`.

Knows only how to wrap the functions of `functions.py`.

Shapes:
    The result has the shape of x; what sums along an axis drops it.

Raises:
    DTypeError: x is no array of numbers.
    AxisError: x has no such axis.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from functad.errors import ArgumentError
from functad.nn import functions
from functad.nn.functions import AxisArgument
from functad.nn.layer import Layer, without_params


def Activation(function: Callable[[Any], Any]) -> Layer:
    """The layer of any function of one input, also of a tuple from `parallel`.

    Raises:
        ArgumentError: it is not callable.

    >>> import functad.numpy as jnp
    >>> Activation(jnp.sin).apply((), jnp.zeros(2))
    Array([0., 0.], dtype=float32)
    """
    if isinstance(function, Layer) or not callable(function):
        raise ArgumentError(f"Activation: {function!r} is no function of an array; pass one such as nn.relu")
    return without_params(function, f"Activation({getattr(function, '__name__', '…')})", one_array=False)


def Relu() -> Layer:
    """The layer of `relu`.

    >>> import functad.numpy as jnp
    >>> Relu().apply((), jnp.array([-1., 2.]))
    Array([0., 2.], dtype=float32)
    """
    return without_params(functions.relu, "Relu")


def Relu6() -> Layer:
    """The layer of `relu6`.

    >>> import functad.numpy as jnp
    >>> Relu6().apply((), jnp.array([-1., 2.])).round(3)
    Array([0., 2.], dtype=float32)
    """
    return without_params(functions.relu6, "Relu6")


def LeakyRelu(negative_slope: float = 0.01) -> Layer:
    """The layer of `leaky_relu`.

    >>> import functad.numpy as jnp
    >>> LeakyRelu().apply((), jnp.array([-1., 2.])).round(3)
    Array([-0.01,  2.  ], dtype=float32)
    """
    return without_params(partial(functions.leaky_relu, negative_slope=negative_slope), "LeakyRelu")


def Elu(alpha: float = 1.0) -> Layer:
    """The layer of `elu`.

    >>> import functad.numpy as jnp
    >>> Elu().apply((), jnp.array([-1., 2.])).round(3)
    Array([-0.632,  2.   ], dtype=float32)
    """
    return without_params(partial(functions.elu, alpha=alpha), "Elu")


def Celu(alpha: float = 1.0) -> Layer:
    """The layer of `celu`.

    >>> import functad.numpy as jnp
    >>> Celu().apply((), jnp.array([-1., 2.])).round(3)
    Array([-0.632,  2.   ], dtype=float32)
    """
    return without_params(partial(functions.celu, alpha=alpha), "Celu")


def Selu() -> Layer:
    """The layer of `selu`.

    >>> import functad.numpy as jnp
    >>> Selu().apply((), jnp.array([-1., 2.])).round(3)
    Array([-1.111,  2.101], dtype=float32)
    """
    return without_params(functions.selu, "Selu")


def Gelu(approximate: bool = True) -> Layer:
    """The layer of `gelu`.

    >>> import functad.numpy as jnp
    >>> Gelu().apply((), jnp.array([-1., 2.])).round(3)
    Array([-0.159,  1.955], dtype=float32)
    """
    return without_params(partial(functions.gelu, approximate=approximate), "Gelu")


def Silu() -> Layer:
    """The layer of `silu`, also called swish.

    >>> import functad.numpy as jnp
    >>> Silu().apply((), jnp.array([-1., 2.])).round(3)
    Array([-0.269,  1.762], dtype=float32)
    """
    return without_params(functions.silu, "Silu")


def Mish() -> Layer:
    """The layer of `mish`.

    >>> import functad.numpy as jnp
    >>> Mish().apply((), jnp.array([-1., 2.])).round(3)
    Array([-0.303,  1.944], dtype=float32)
    """
    return without_params(functions.mish, "Mish")


def Softplus() -> Layer:
    """The layer of `softplus`.

    >>> import functad.numpy as jnp
    >>> Softplus().apply((), jnp.array([-1., 2.])).round(3)
    Array([0.313, 2.127], dtype=float32)
    """
    return without_params(functions.softplus, "Softplus")


def Sigmoid() -> Layer:
    """The layer of `sigmoid`.

    >>> import functad.numpy as jnp
    >>> Sigmoid().apply((), jnp.array([-1., 2.])).round(3)
    Array([0.269, 0.881], dtype=float32)
    """
    return without_params(functions.sigmoid, "Sigmoid")


def Tanh() -> Layer:
    """The layer of `tanh`.

    >>> import functad.numpy as jnp
    >>> Tanh().apply((), jnp.array([-1., 2.])).round(3)
    Array([-0.762,  0.964], dtype=float32)
    """
    return without_params(functions.tanh, "Tanh")


def Identity() -> Layer:
    """The layer that returns its input.

    >>> import functad.numpy as jnp
    >>> Identity().apply((), jnp.array([-1., 2.])).round(3)
    Array([-1.,  2.], dtype=float32)
    """
    return without_params(functions.identity, "Identity", one_array=False)


def Softmax(axis: AxisArgument = -1) -> Layer:
    """The layer of `softmax`. Losses take logits: do not put it before them.

    >>> import functad.numpy as jnp
    >>> Softmax().apply((), jnp.array([-1., 2.])).round(3)
    Array([0.047, 0.953], dtype=float32)
    """
    return without_params(partial(functions.softmax, axis=axis), "Softmax")


def LogSoftmax(axis: AxisArgument = -1) -> Layer:
    """The layer of `log_softmax`.

    >>> import functad.numpy as jnp
    >>> LogSoftmax().apply((), jnp.array([-1., 2.])).round(3)
    Array([-3.049, -0.049], dtype=float32)
    """
    return without_params(partial(functions.log_softmax, axis=axis), "LogSoftmax")
