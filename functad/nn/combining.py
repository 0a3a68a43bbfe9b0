"""Networks out of layers: one after another, side by side, and around.

Knows layers only as pairs of functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functad import numpy as jnp
from functad import random
from functad.api import eval_shape
from functad.errors import ShapeError, TreeError
from functad.nn.layer import Layer, check_layers, check_one_array, struct_of


def serial(*layers: Layer) -> Layer:
    """Layers one after another: the output of each is the input of the next.

    Args:
        layers: the layers; none gives the identity.

    Returns:
        A layer whose params are a tuple, one entry a layer. A `key` is split among the layers.

    Raises:
        ArgumentError: an argument is no layer.

    >>> import functad, functad.numpy as jnp
    >>> from functad import nn
    >>> network = serial(nn.Dense(84, use_bias=False), nn.Relu(), nn.Dense(10))
    >>> params = network.init(functad.random.key(0), functad.ShapeDtypeStruct((8, 1014), "float32"))
    >>> functad.tree.map(jnp.shape, params)
    ({'kernel': (1014, 84)}, (), {'bias': (10,), 'kernel': (84, 10)})
    >>> network.apply(params, jnp.ones((8, 1014))).shape
    (8, 10)
    """
    check_layers(layers, "serial")

    def init(key: Any, x: Any) -> tuple[Any, ...]:
        x = struct_of(x)
        params = []
        for layer, layer_key in zip(layers, split_key(key, len(layers)), strict=True):
            params.append(layer.init(layer_key, x))
            x = eval_shape(layer.apply, params[-1], x)
        return tuple(params)

    def apply(params: Any, x: Any, *, key: Any = None, train: bool = False) -> Any:
        check_entries(params, layers, "serial")
        for layer, layer_params, layer_key in zip(layers, params, split_key(key, len(layers)), strict=True):
            x = layer.apply(layer_params, x, key=layer_key, train=train)
        return x

    return Layer(init, apply)


def parallel(*layers: Layer, join: Callable[[tuple[Any, ...]], Any] = lambda outputs: outputs) -> Layer:
    """Layers side by side: each gets the same input.

    Args:
        layers: the layers.
        join: makes the output of the tuple of outputs, for example `sum`, or a function that concatenates
            them; by default the tuple itself.

    Returns:
        A layer whose params are a tuple, one entry a layer. A `key` is split among the layers.

    Raises:
        ArgumentError: an argument is no layer.

    >>> import functad, functad.numpy as jnp
    >>> from functad import nn
    >>> network = parallel(nn.Identity(), nn.Relu(), join=lambda ys: jnp.concatenate(ys, axis=1))
    >>> network.apply(((), ()), jnp.array([[-1., 2.]]))
    Array([[-1.,  2.,  0.,  2.]], dtype=float32)
    """
    check_layers(layers, "parallel")

    def init(key: Any, x: Any) -> tuple[Any, ...]:
        return tuple(layer.init(k, x) for layer, k in zip(layers, split_key(key, len(layers)), strict=True))

    def apply(params: Any, x: Any, *, key: Any = None, train: bool = False) -> Any:
        check_entries(params, layers, "parallel")
        keys = split_key(key, len(layers))
        return join(
            tuple(
                layer.apply(layer_params, x, key=layer_key, train=train)
                for layer, layer_params, layer_key in zip(layers, params, keys, strict=True)
            )
        )

    return Layer(init, apply)


def residual(layer: Layer) -> Layer:
    """`x + layer(x)` (He et al. 2016).

    Raises:
        ShapeError: the layer changes the shape of its input.

    >>> import functad.numpy as jnp
    >>> from functad import nn
    >>> residual(nn.Relu()).apply((), jnp.array([-1., 2.]))
    Array([-1.,  4.], dtype=float32)
    """
    check_layers((layer,), "residual")

    def apply(params: Any, x: Any, *, key: Any = None, train: bool = False) -> Any:
        check_one_array(x, "residual")
        y = layer.apply(params, x, key=key, train=train)
        check_one_array(y, "residual, adding the output of its layer")
        x, y = jnp.asarray(x), jnp.asarray(y)
        if y.shape != x.shape:
            raise ShapeError(
                f"residual: the layer turns an input of shape {x.shape} into {y.shape}, so they cannot be "
                "added; choose features and padding that keep the shape (padding='SAME', strides 1)"
            )
        return x + y

    return Layer(layer.init, apply)


def split_key(key: Any, count: int) -> list[Any]:
    """A key for each of so many layers; None for each if there is none."""
    if key is None or count == 0:
        return [None] * count
    return list(random.split(key, count))


def check_entries(params: Any, layers: tuple[Layer, ...], name: str) -> None:
    """Raise unless params are a tuple of one entry for each layer."""
    if not isinstance(params, (tuple, list)):
        kind = f"a dict with {' and '.join(map(repr, params))}" if isinstance(params, dict) else repr(params)
        raise TreeError(
            f"{name}: params are {kind:.80}, but must be a tuple of {len(layers)}, one entry for each layer; pass what "
            "init(key, x) of this very network returned"
        )
    if len(params) != len(layers):
        raise ShapeError(
            f"{name}: params have {len(params)} entries, but there are {len(layers)} layers; were they made "
            "by the init of another network?"
        )
