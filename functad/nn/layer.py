"""What a layer is: a pair of pure functions, and the helpers that all layers share.

This file must not know any particular layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from functad.api import ShapeDtypeStruct
from functad.array import Array
from functad.dtypes import kind_of
from functad.errors import ArgumentError, DTypeError, ShapeError, TreeError
from functad.records import NamedTuple
from functad.tree_util import is_tree_node, tree_map


class _Functions(NamedTuple):
    init: Callable[[Any, Any], Any]
    apply: Callable[..., Any]


class Layer(_Functions):
    """A layer of a network, as a pair of pure functions.

    Attributes:
        init: `init(key, x)` gives the parameters (a pytree, `()` where there are none) for inputs like `x`,
            an array or a `ShapeDtypeStruct`; of `x` only the shape and dtype are used.
        apply: `apply(params, x, *, key=None, train=False)` gives the output. `key` feeds the layers that draw
            random numbers while training, `train` says that this is training.
        name: what it is called where it is printed, such as "Dense(10)"; by default as the function that made it.

    >>> import functad, functad.numpy as jnp
    >>> from functad import nn
    >>> scale = nn.Layer(lambda key, x: jnp.ones(()), lambda params, x, *, key=None, train=False: params * x)
    >>> scale.apply(scale.init(functad.random.key(0), jnp.ones(2)), jnp.array([1., 2.]))
    Array([1., 2.], dtype=float32)
    >>> nn.Dense(10)
    <Layer Dense(10)>
    """

    name: str

    def __new__(cls, init: Callable[[Any, Any], Any], apply: Callable[..., Any], name: str | None = None) -> Any:
        layer = super().__new__(cls, init, apply)
        layer.name = name or _name_of(init)
        return layer

    def __repr__(self) -> str:
        return f"<Layer {self.name}>"


class Buffered(Layer):
    """A layer that keeps more than params, such as the running means of `BatchNorm`: its buffers, which are no secret.

    `apply` takes and gives them: `y, buffers = apply(params, x, buffers=buffers, train=True)`. Without `train`
    they stay as they are. Combinations of such layers with others are such layers, too.

    Attributes:
        buffers: `buffers(x)` gives what there is at first for inputs like `x`, a pytree.

    >>> import functad, functad.numpy as jnp
    >>> from functad import nn
    >>> network = nn.serial(nn.Dense(4), nn.BatchNorm(), nn.Dense(1))
    >>> x = jnp.ones((8, 3))
    >>> params, buffers = network.init(functad.random.key(0), x), network.buffers(x)
    >>> y, buffers = network.apply(params, x, buffers=buffers, train=True)
    >>> y.shape, functad.tree.map(jnp.shape, buffers)
    ((8, 1), ((), {'mean': (4,), 'var': (4,)}, ()))
    """

    buffers: Callable[[Any], Any]

    def __new__(
        cls,
        init: Callable[[Any, Any], Any],
        apply: Callable[..., Any],
        buffers: Callable[[Any], Any],
        name: str | None = None,
    ) -> Buffered:
        layer: Buffered = super().__new__(cls, init, apply, name)
        layer.buffers = buffers
        return layer


def _name_of(init: Callable[[Any, Any], Any]) -> str:
    """That of the function around: `Dense.<locals>.init` is of Dense."""
    *around, _ = getattr(init, "__qualname__", "").split(".<locals>.")
    return around[-1].lstrip("_") if around else "Layer"


class PartCall(NamedTuple):
    """A layer applied as a part of the one around it, of which `part` is its key in the params; None: it has all."""

    layer: Layer
    part: Any
    params: Any
    x: Any
    options: dict[str, Any]

    def run(self) -> Any:
        return self.layer.apply(self.params, self.x, **self.options)


_watcher: ContextVar[Callable[[PartCall], Any] | None] = ContextVar("watcher", default=None)


@contextmanager
def watching(watcher: Callable[[PartCall], Any]) -> Iterator[None]:
    """Let a function see, and make, the calls of parts of layers."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def apply_part(layer: Layer, part: Any, params: Any, x: Any, **options: Any) -> Any:
    """`layer.apply(params, x, **options)` by the layer that it is a part of, of that key in the params."""
    watcher = _watcher.get()
    if watcher is None:
        return layer.apply(params, x, **options)
    return watcher(PartCall(layer, part, params, x, options))


def first_buffers(layer: Layer, x: Any) -> Any:
    """The buffers of any layer for inputs like x: `()` of a layer that has none."""
    return layer.buffers(x) if isinstance(layer, Buffered) else ()


def applied(
    layer: Layer, part: Any, params: Any, x: Any, buffers: Any, key: Any, train: bool, **options: Any
) -> tuple[Any, Any]:
    """What `apply_part` gives of any layer, and its new buffers: `()` of one without."""
    if isinstance(layer, Buffered):
        return apply_part(layer, part, params, x, buffers=buffers, key=key, train=train, **options)
    return apply_part(layer, part, params, x, key=key, train=train, **options), ()


def combination(
    name: str,
    layers: tuple[Layer, ...],
    init: Callable[[Any, Any], Any],
    run: Callable[[Any, Any, Any, Any, bool], tuple[Any, Any]],
    buffers: Callable[[Any], Any],
) -> Layer:
    """The layer made of others: `run(params, x, buffers, key, train)` gives its output and the new buffers.

    It has buffers if one of the others has.
    """

    def apply(params: Any, x: Any, *, key: Any = None, train: bool = False) -> Any:
        return run(params, x, None, key, train)[0]

    def apply_buffered(params: Any, x: Any, *, buffers: Any = None, key: Any = None, train: bool = False) -> Any:
        return run(params, x, buffers, key, train)

    if any(isinstance(layer, Buffered) for layer in layers):
        return Buffered(init, apply_buffered, buffers, name)
    return Layer(init, apply, name)


def without_params(function: Callable[[Any], Any], name: str, one_array: bool = True) -> Layer:
    """The layer of a function of the input alone, which must be one array unless it says otherwise."""

    def init(key: Any, x: Any) -> tuple[()]:
        return ()

    def apply(params: Any, x: Any, *, key: Any = None, train: bool = False) -> Any:
        if one_array:
            check_one_array(x, name)
        return function(x)

    return Layer(init, apply, name)


def check_one_array(x: Any, name: str) -> None:
    """Raise if the input of a layer is a pytree, which would be stacked into an array of more axes."""
    if is_tree_node(type(x)):
        raise ArgumentError(
            f"{name}: the input is of type {type(x).__name__}, but the layer takes one array; make one of it with "
            "jnp.array or jnp.concatenate, after `parallel` with its argument join; put a layer for Ragged inputs into "
            "each_step(…)"
        )


def check_floats(x: Any, name: str) -> None:
    """Raise unless the input of a layer with params, an array or its shape and dtype, is one array of floats."""
    check_one_array(x, name)
    if kind_of(x.dtype) not in "fc":
        raise DTypeError(
            f"{name}: the input has dtype {x.dtype.name}, but the layer takes floats; convert it with "
            "x.astype('float32'), and divide pixels of 0 to 255 by 255"
        )


def check_params(params: Any, wanted: dict[str, tuple[int | None, ...]], name: str) -> None:
    """Raise unless params are a dict of arrays as the `init` of a layer makes it.

    Args:
        params: what was given to `apply`.
        wanted: the shape of each array, None where any size will do.
        name: the layer, for messages.

    Raises:
        TreeError: another structure. ShapeError: an array of another shape.
    """
    check_keys(params, wanted, name)
    hint = _as_made(wanted)
    for key, sizes in wanted.items():
        if not hasattr(params[key], "shape"):
            raise TreeError(f"{name}: params[{key!r}] is of type {type(params[key]).__name__}, no array{hint}")
        shape = tuple(params[key].shape)
        if len(shape) != len(sizes) or any(size not in (None, n) for size, n in zip(sizes, shape, strict=True)):
            text = ", ".join("…" if size is None else str(size) for size in sizes)
            comma = "," if len(sizes) == 1 else ""
            raise ShapeError(f"{name}: params[{key!r}] has shape {shape}, but the layer takes ({text}{comma}){hint}")


def check_keys(params: Any, keys: Iterable[str], name: str) -> None:
    """Raise unless params are a dict with these keys."""
    if not isinstance(params, dict):
        kind = f"a {type(params).__name__} of {len(params)}" if isinstance(params, (tuple, list)) else repr(params)
        raise TreeError(f"{name}: params are {kind:.80}{_as_made(keys)}")
    if set(params) != set(keys):
        found = " and ".join(sorted(map(repr, params))) or "no keys"
        raise TreeError(f"{name}: params are a dict with {found}{_as_made(keys)}")


def _as_made(keys: Iterable[str]) -> str:
    return f"; pass what init(key, x) of this very layer returned, a dict with {' and '.join(map(repr, keys))}"


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
