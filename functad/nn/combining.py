"""Networks out of layers: one after another, side by side, and around.

Knows layers only as pairs of functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from functad import numpy as jnp
from functad import random
from functad.api import eval_shape
from functad.errors import ArgumentError, ShapeError, TreeError
from functad.nn.layer import (
    Layer,
    applied,
    check_keys,
    check_layers,
    check_one_array,
    combination,
    first_buffers,
    struct_of,
)
from functad.records import NamedTuple


def serial(*layers: Layer, **named: Layer) -> Layer:
    """Layers one after another: the output of each is the input of the next.

    Args:
        layers: the layers; none gives the identity.
        named: the layers with names instead, which then stand in the key paths of the params.

    Returns:
        A layer whose params are a tuple, one entry a layer, or a dict by their names; so are its buffers, if a layer
        has some. A `key` is split among the layers.

    Raises:
        ArgumentError: an argument is no layer, or some layers have names and others have not.

    >>> import functad, functad.numpy as jnp
    >>> from functad import nn
    >>> network = serial(nn.Dense(84, use_bias=False), nn.Relu(), nn.Dense(10))
    >>> params = network.init(functad.random.key(0), functad.ShapeDtypeStruct((8, 1014), "float32"))
    >>> functad.tree.map(jnp.shape, params)
    ({'kernel': (1014, 84)}, (), {'bias': (10,), 'kernel': (84, 10)})
    >>> network.apply(params, jnp.ones((8, 1014))).shape
    (8, 10)
    >>> network = serial(hidden=nn.Dense(4), relu=nn.Relu(), out=nn.Dense(1, use_bias=False))
    >>> params = network.init(functad.random.key(0), jnp.ones((2, 3)))
    >>> [functad.tree_util.keystr(path) for path, _ in functad.tree_util.tree_leaves_with_path(params)]
    ["['hidden']['bias']", "['hidden']['kernel']", "['out']['kernel']"]
    """
    layers, names = _named("serial", layers, named)

    def init(key: Any, x: Any) -> Any:
        x, params = struct_of(x), []
        for layer, layer_key in zip(layers, split_key(key, len(layers)), strict=True):
            params.append(layer.init(layer_key, x))
            x = _shape_after(layer, params[-1], x, first_buffers(layer, x))
        return _packed(params, names)

    def buffers(x: Any) -> Any:
        x, found = struct_of(x), []
        for layer in layers:
            found.append(first_buffers(layer, x))
            params = eval_shape(lambda x, layer=layer: layer.init(random.key(0), x), x)
            x = _shape_after(layer, params, x, found[-1])
        return _packed(found, names)

    def run(params: Any, x: Any, buffers: Any, key: Any, train: bool) -> tuple[Any, Any]:
        new = []
        for share in _shares("serial", layers, names, params, buffers, key):
            x, after = share.applied(x, train)
            new.append(after)
        return x, _packed(new, names)

    return combination("serial", layers, init, run, buffers)


def parallel(*layers: Layer, join: Callable[[tuple[Any, ...]], Any] = lambda outputs: outputs, **named: Layer) -> Layer:
    """Layers side by side: each gets the same input.

    Args:
        layers: the layers.
        join: makes the output of the tuple of outputs, for example `sum`, or a function that concatenates
            them; by default the tuple itself.
        named: the layers with names instead, as in `serial`.

    Returns:
        A layer whose params are a tuple, one entry a layer, or a dict by their names; so are its buffers, if a layer
        has some. A `key` is split among the layers.

    Raises:
        ArgumentError: an argument is no layer, or some layers have names and others have not.

    >>> import functad, functad.numpy as jnp
    >>> from functad import nn
    >>> network = parallel(nn.Identity(), nn.Relu(), join=lambda ys: jnp.concatenate(ys, axis=1))
    >>> network.apply(((), ()), jnp.array([[-1., 2.]]))
    Array([[-1.,  2.,  0.,  2.]], dtype=float32)
    """
    layers, names = _named("parallel", layers, named)

    def init(key: Any, x: Any) -> Any:
        keys = split_key(key, len(layers))
        return _packed([layer.init(layer_key, x) for layer, layer_key in zip(layers, keys, strict=True)], names)

    def buffers(x: Any) -> Any:
        return _packed([first_buffers(layer, x) for layer in layers], names)

    def run(params: Any, x: Any, buffers: Any, key: Any, train: bool) -> tuple[Any, Any]:
        pairs = [share.applied(x, train) for share in _shares("parallel", layers, names, params, buffers, key)]
        return join(tuple(y for y, _ in pairs)), _packed([new for _, new in pairs], names)

    return combination("parallel", layers, init, run, buffers)


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

    def run(params: Any, x: Any, buffers: Any, key: Any, train: bool) -> tuple[Any, Any]:
        check_one_array(x, "residual")
        y, new = applied(layer, None, params, x, buffers, key, train)
        check_one_array(y, "residual, adding the output of its layer")
        x, y = jnp.asarray(x), jnp.asarray(y)
        if y.shape != x.shape:
            raise ShapeError(
                f"residual: the layer turns an input of shape {x.shape} into {y.shape}, so they cannot be "
                "added; choose features and padding that keep the shape (padding='SAME', strides 1)"
            )
        return x + y, new

    return combination("residual", (layer,), layer.init, run, partial(first_buffers, layer))


def split_key(key: Any, count: int) -> list[Any]:
    """A key for each of so many layers; None for each if there is none."""
    if key is None or count == 0:
        return [None] * count
    return list(random.split(key, count))


def _named(name: str, layers: tuple[Layer, ...], named: dict[str, Layer]) -> tuple[tuple[Layer, ...], tuple[str, ...]]:
    """The layers in their order, and their names, if they have some."""
    if layers and named:
        raise ArgumentError(
            f"{name}: {len(layers)} layers have no name, but {', '.join(map(repr, named))} have; name all or none"
        )
    layers = layers or tuple(named.values())
    check_layers(layers, name)
    return layers, tuple(named)


def _packed(entries: list[Any], names: tuple[str, ...]) -> Any:
    return dict(zip(names, entries, strict=True)) if names else tuple(entries)


def _entries(params: Any, layers: tuple[Layer, ...], names: tuple[str, ...], name: str) -> list[Any]:
    if not names:
        check_entries(params, layers, name)
        return list(params)
    check_keys(params, names, name)
    return [params[each] for each in names]


class _LayerShare(NamedTuple):
    """A layer with its key in the params, and what it gets of them, of the buffers and of the random key."""

    layer: Layer
    part: Any
    params: Any
    buffers: Any
    key: Any

    def applied(self, x: Any, train: bool) -> tuple[Any, Any]:
        return applied(self.layer, self.part, self.params, x, self.buffers, self.key, train)


def _shares(
    name: str, layers: tuple[Layer, ...], names: tuple[str, ...], params: Any, buffers: Any, key: Any
) -> Iterator[_LayerShare]:
    entries, keys = _entries(params, layers, names, name), split_key(key, len(layers))
    return map(_LayerShare, layers, names or range(len(layers)), entries, _buffers_of(buffers, layers, names), keys)


def _buffers_of(buffers: Any, layers: tuple[Layer, ...], names: tuple[str, ...]) -> list[Any]:
    """Those of each layer; None where there are none, of which the layer that needs them tells."""
    if names:
        return [buffers.get(each) if isinstance(buffers, dict) else None for each in names]
    if isinstance(buffers, (tuple, list)) and len(buffers) == len(layers):
        return list(buffers)
    return [None] * len(layers)


def _shape_after(layer: Layer, params: Any, x: Any, buffers: Any) -> Any:
    """The shapes and dtypes of the output of a layer."""
    return eval_shape(lambda params, x: applied(layer, None, params, x, buffers, None, False)[0], params, x)


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
