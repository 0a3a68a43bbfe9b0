"""Wrappers of layers that change what their weights are: spectral norm, weight norm, numbers of 16 bits.

Knows layers as pairs of functions, and that the features of a kernel are its last axis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functad import lax, random
from functad import numpy as jnp
from functad.api import eval_shape
from functad.dtypes import kind_of
from functad.errors import ArgumentError, check_int
from functad.nn.layer import Buffered, Layer, applied, apply_part, check_keys, check_layers, first_buffers, struct_of
from functad.numpy.promotion import widened
from functad.tree_util import keystr, tree_leaves_with_path, tree_map, tree_map_with_path

WeightChoice = Callable[[str], bool]


def is_kernel(path: str) -> bool:
    """Whether a key path is that of a kernel: those of `Dense`, `Conv`, recurrent layers, attention."""
    return "kernel" in path


def WeightNorm(layer: Layer, weights: WeightChoice = is_kernel) -> Layer:
    """A layer whose weights have a length and a direction of their own (Salimans & Kingma 2016).

    For each feature the weight is `scale * kernel / |kernel|`. At first that is the kernel itself.

    Args:
        layer: any layer.
        weights: tells of a key path, such as `"['kernel']"`, whether these are weights to take apart; their last axis
            are the features.

    Returns:
        A layer like the one given. Its params are a dict: "layer", those of the layer, and "scale", a dict with an
        array of shape (features,) for each of these weights, by key path.

    Raises:
        ArgumentError: the argument is no layer, or none of its params is chosen. TreeError: the params are not those of
            such a layer.

    >>> import functad, functad.numpy as jnp
    >>> from functad import nn
    >>> layer = WeightNorm(nn.Dense(4))
    >>> x = jnp.ones((2, 3))
    >>> params = layer.init(functad.random.key(0), x)
    >>> functad.tree.map(jnp.shape, params)
    {'layer': {'bias': (4,), 'kernel': (3, 4)}, 'scale': {"['kernel']": (4,)}}
    >>> jnp.allclose(layer.apply(params, x), nn.Dense(4).apply(params["layer"], x))
    Array(True, dtype=bool)
    """
    check_layers((layer,), "WeightNorm")

    def init(key: Any, x: Any) -> dict[str, Any]:
        params = layer.init(key, x)
        chosen = _chosen(params, weights, "WeightNorm")
        return {"layer": params, "scale": {path: _lengths(kernel) for path, kernel in chosen.items()}}

    def whole(params: Any) -> Any:
        check_keys(params, ("layer", "scale"), "WeightNorm")

        def weight(path: Any, kernel: Any) -> Any:
            scale = params["scale"].get(keystr(path))
            return kernel if scale is None else kernel * (scale / _lengths(kernel))

        return tree_map_with_path(weight, params["layer"])

    return _wrapped(layer, f"WeightNorm({layer.name})", "layer", init, whole)


def SpectralNorm(layer: Layer, steps: int = 1, epsilon: float = 1e-12, weights: WeightChoice = is_kernel) -> Buffered:
    """A layer whose weights are divided by their largest singular value: it enlarges no difference (Miyato 2018).

    A weight counts as a matrix with the features as columns. Its largest singular value is found by power iteration,
    which goes on from the vector of the step before: that is a buffer of the layer (see `Buffered`), and changes in
    training only. No gradient goes through the iteration. As in PyTorch, but that without `train` the value, too, is
    that of one more iteration, so that it is right whatever the params.

    Args:
        layer: any layer.
        steps: power iterations at each step of training.
        epsilon: norms are taken to be at least this.
        weights: tells of a key path, such as `"['kernel']"`, whether these are weights to divide; they have two axes or
            more, the last of features.

    Returns:
        A layer with the params of the one given. Its buffers are a dict: "layer", those of the layer, and "u", a dict
        with an array of shape (features,) for each of these weights, by key path.

    Raises:
        ArgumentError: the argument is no layer, none of its params is chosen, or buffers are missing.

    >>> import functad, functad.numpy as jnp
    >>> from functad import nn
    >>> layer, x = SpectralNorm(nn.Dense(2, use_bias=False)), jnp.ones((1, 2))
    >>> params, buffers = {"kernel": jnp.array([[4., 0.], [0., 1.]])}, layer.buffers(x)
    >>> for _ in range(10):
    ...     y, buffers = layer.apply(params, x, buffers=buffers, train=True)
    >>> y.round(3)
    Array([[1.  , 0.25]], dtype=float32)
    """
    check_layers((layer,), "SpectralNorm")
    steps = check_int(steps, "SpectralNorm: steps", low=1)

    def buffers(x: Any) -> dict[str, Any]:
        x = struct_of(x)
        params = eval_shape(lambda x: layer.init(random.key(0), x), x)
        chosen = _chosen(params, weights, "SpectralNorm", least=2)
        keys = random.split(random.key(0), len(chosen))
        u = {
            path: _unit(random.normal(key, kernel.shape[-1:], jnp.promote_types(kernel.dtype, "float32")), epsilon)
            for key, (path, kernel) in zip(keys, chosen.items())
        }
        return {"layer": first_buffers(layer, x), "u": u}

    def apply(params: Any, x: Any, *, buffers: Any = None, key: Any = None, train: bool = False, **options: Any) -> Any:
        if not isinstance(buffers, dict) or set(buffers) != {"layer", "u"}:
            raise ArgumentError(
                "SpectralNorm: the vectors of the power iteration are missing; make them with buffers = "
                "network.buffers(x), give and take them:\n"
                "    y, buffers = network.apply(params, x, buffers=buffers, train=True)"
            )
        found = {}

        def weight(path: Any, kernel: Any) -> Any:
            u = buffers["u"].get(keystr(path))
            if u is None:
                return kernel
            sigma, found[keystr(path)] = _largest_singular_value(kernel, u, steps if train else 1, epsilon)
            return kernel / _not_zero(sigma.astype(kernel.dtype))

        params = tree_map_with_path(weight, params)
        y, inner = applied(layer, None, params, x, buffers["layer"], key, train, **options)
        return y, {"layer": inner, "u": found if train else buffers["u"]}

    return Buffered(layer.init, apply, buffers, f"SpectralNorm({layer.name})")


def MixedPrecision(layer: Layer, dtype: Any = "bfloat16", output_dtype: Any = "float32") -> Layer:
    """A layer that computes with 16 bits and keeps its params as they are: float32 master weights (Micikevicius 2018).

    `apply` converts params and input, all of them that are floats, to `dtype`, and the output to `output_dtype`.
    Between them activations have 16 bits, in memory half the size; products, convolutions, sums and normalisations are
    computed in float32 and rounded once. The gradients in params have the params' dtype, so that optimizers add small
    updates to float32. Buffers stay as they are. With float16, multiply the loss by a factor (`optim.loss_scale`), as
    gradients below 6e-8 vanish; bfloat16 has float32's range and needs none.

    Args:
        layer: any layer; also a whole network.
        dtype: in which it computes.
        output_dtype: of its output; None leaves it as it comes.

    Returns:
        A layer like the one given, with the same params.

    Raises:
        ArgumentError: the argument is no layer.

    A step of training in float16, which leaves out those that overflow:

    >>> import functad, functad.numpy as jnp
    >>> from functad import nn, optim
    >>> network = MixedPrecision(nn.serial(nn.Dense(16), nn.Tanh(), nn.Dense(1)), "float16")
    >>> optimizer = optim.apply_if_finite(optim.adam(0.01), 1000)
    >>> x = jnp.linspace(-1., 1., 32)[:, None]
    >>> params = network.init(functad.random.key(0), x)
    >>> @functad.jit
    ... def step(params, state, factor):
    ...     def loss(params):
    ...         value = nn.l2_loss(network.apply(params, x), x ** 2).mean()
    ...         return factor.scale * value, value
    ...     grads, value = functad.grad(loss, has_aux=True)(params)
    ...     grads = optim.unscaled(grads, factor)
    ...     updates, state = optimizer.update(grads, state, params)
    ...     return optim.apply_updates(params, updates), state, optim.rescaled(factor, grads), value
    >>> state, factor, values = optimizer.init(params), optim.loss_scale(), []
    >>> for _ in range(100):
    ...     params, state, factor, value = step(params, state, factor)
    ...     values.append(float(value))
    >>> values[-1] < values[0] / 10, params[0]["kernel"].dtype
    (True, dtype('float32'))
    """
    check_layers((layer,), "MixedPrecision")

    def narrow(tree: Any) -> Any:
        return _floats_as(tree, dtype)

    name = f"MixedPrecision({layer.name})"
    return _wrapped(layer, name, None, layer.init, narrow, narrow, lambda y: _floats_as(y, output_dtype))


def _wrapped(
    layer: Layer,
    name: str,
    part: str | None,
    init: Callable[[Any, Any], Any],
    whole: Callable[[Any], Any],
    before: Callable[[Any], Any] = lambda x: x,
    after: Callable[[Any], Any] = lambda y: y,
) -> Layer:
    """A layer of the kind of another, which gets `whole` of the params, and input and output changed."""

    def apply(params: Any, x: Any, *, key: Any = None, train: bool = False, **options: Any) -> Any:
        return after(apply_part(layer, part, whole(params), before(x), key=key, train=train, **before(options)))

    def apply_buffered(
        params: Any, x: Any, *, buffers: Any = None, key: Any = None, train: bool = False, **options: Any
    ) -> Any:
        y, new = applied(layer, part, whole(params), before(x), buffers, key, train, **before(options))
        return after(y), new

    if isinstance(layer, Buffered):
        return Buffered(init, apply_buffered, layer.buffers, name)
    return type(layer)(init, apply, name)


def _chosen(params: Any, weights: WeightChoice, name: str, least: int = 1) -> dict[str, Any]:
    """The params that are weights, by key path, of at least so many axes."""
    paths = [(keystr(path), leaf) for path, leaf in tree_leaves_with_path(params)]
    chosen = {path: leaf for path, leaf in paths if weights(path)}
    if not chosen:
        raise ArgumentError(
            f"{name}: no params are chosen; there are {', '.join(path for path, _ in paths) or 'none'}. Pass "
            "weights=lambda path: ..., which tells those that are meant"
        )
    for path, leaf in chosen.items():
        if len(leaf.shape) < least:
            raise ArgumentError(
                f"{name}: the params at {path} have shape {tuple(leaf.shape)}, but weights have {least} axes or more"
            )
    return chosen


def _lengths(kernel: Any) -> Any:
    """The length of what leads to each feature, 1 of zeros, in float32 at least and rounded once."""
    wide = widened(kernel)
    return jnp.sqrt(_not_zero(jnp.sum(wide * wide, tuple(range(wide.ndim - 1))))).astype(kernel.dtype)


def _largest_singular_value(kernel: Any, u: Any, steps: int, epsilon: float) -> tuple[Any, Any]:
    """Of the matrix whose columns are the features, and the vector on their side."""
    matrix = widened(kernel).reshape(-1, kernel.shape[-1])
    fixed = lax.stop_gradient(matrix)
    for _ in range(steps):
        v = _unit(fixed @ u, epsilon)
        after = _unit(v @ fixed, epsilon)
        u = jnp.where(jnp.any(after != 0), after, u)  # from zero no iteration would come back
    return v @ matrix @ u, u


def _unit(x: Any, epsilon: float) -> Any:
    return x / jnp.maximum(jnp.linalg.norm(x), epsilon)


def _not_zero(x: Any) -> Any:
    """To divide by: zeros stay zeros when divided by 1."""
    return jnp.where(x == 0, jnp.ones_like(x), x)


def _floats_as(tree: Any, dtype: Any) -> Any:
    """The floats of a pytree in another dtype; what is no array of floats stays."""

    def converted(x: Any) -> Any:
        return x.astype(dtype) if hasattr(x, "astype") and kind_of(x.dtype) == "f" else x

    return tree if dtype is None else tree_map(converted, tree)
