"""What a layer is: a pair of pure functions, and the helpers that all layers share.

This file must not know any particular layer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from functad.api import ShapeDtypeStruct
from functad.array import Array
from functad.errors import ArgumentError
from functad.tree_util import tree_map


class Apply(Protocol):
    """The second half of a layer: `apply(params, x, *, key=None, train=False)`."""

    def __call__(self, params: Any, x: Any, *, key: Any = None, train: bool = False) -> Any: ...


class Layer(NamedTuple):
    """A layer of a network, as a pair of pure functions.

    Attributes:
        init: `init(key, x)` gives the parameters (a pytree, `()` where there are none) for inputs like `x`,
            an array or a `ShapeDtypeStruct`; of `x` only the shape and dtype are used.
        apply: `apply(params, x, *, key=None, train=False)` gives the output. `key` feeds the layers that draw
            random numbers while training, `train` says that this is training.

    >>> import functad, functad.numpy as jnp
    >>> from functad import nn
    >>> scale = nn.Layer(lambda key, x: jnp.ones(()), lambda params, x, *, key=None, train=False: params * x)
    >>> scale.apply(scale.init(functad.random.key(0), jnp.ones(2)), jnp.array([1., 2.]))
    Array([1., 2.], dtype=float32)
    """

    init: Callable[[Any, Any], Any]
    apply: Apply


def without_params(function: Callable[[Any], Any]) -> Layer:
    """The layer of a function of the input alone."""

    def init(key: Any, x: Any) -> tuple[()]:
        return ()

    def apply(params: Any, x: Any, *, key: Any = None, train: bool = False) -> Any:
        return function(x)

    return Layer(init, apply)


def check_layers(layers: tuple[Any, ...], name: str) -> None:
    """Raise unless every argument of a combination is a layer."""
    for i, layer in enumerate(layers):
        if isinstance(layer, Layer):
            continue
        called = getattr(layer, "__name__", None)
        hint = (
            f"call it if it makes a layer, {called}(...), or wrap it, Activation({called}), if it is a "
            "function of arrays"
            if callable(layer)
            else "a layer is Layer(init, apply), as made by Dense, Conv, …"
        )
        raise ArgumentError(f"{name}: argument {i} is {layer!r}, which is no layer; {hint}")


def struct_of(x: Any) -> Any:
    """The shapes and dtypes of an example input, an array or a pytree of them."""
    return tree_map(_leaf_struct, x)


def _leaf_struct(x: Any) -> ShapeDtypeStruct:
    if isinstance(x, (Array, ShapeDtypeStruct)) or (hasattr(x, "shape") and hasattr(x, "dtype")):
        return ShapeDtypeStruct(x.shape, x.dtype)
    raise ArgumentError(
        f"init: the example input is {x!r} of type {type(x).__name__}; pass an array or a "
        "functad.ShapeDtypeStruct(shape, dtype) with the shape of a batch"
    )
