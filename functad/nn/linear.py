"""The dense layer: every output is a weighted sum of all inputs.

Knows matrix products; nothing of other layers.
"""

from __future__ import annotations

from typing import Any

from functad import numpy as jnp
from functad import random
from functad.errors import ShapeError, check_int
from functad.nn.initializers import DEFAULT_KERNEL_INIT, Initializer, zeros
from functad.nn.layer import Layer, check_floats, check_one_array, check_params, struct_of


def Dense(
    features: int,
    use_bias: bool = True,
    kernel_init: Initializer = DEFAULT_KERNEL_INIT,
    bias_init: Initializer = zeros,
) -> Layer:
    """The layer `x @ kernel + bias`.

    Args:
        features: the size of the last axis of the output.
        use_bias: whether to add a bias.
        kernel_init, bias_init: called as `init(key, shape, dtype)`.

    Returns:
        A layer from inputs of shape (…, inputs) to (…, features). Its params are a dict: "kernel" of shape
        (inputs, features) and, with `use_bias`, "bias" of shape (features,), both of the dtype of the input.

    Raises:
        ArgumentError: `features` is no positive int, or the input is no single array.
        ShapeError: the input has no axes, or its last one is not that of the kernel.
        DTypeError: the input holds no floats.
        TreeError: the params are not those of such a layer.

    >>> import functad, functad.numpy as jnp
    >>> layer = Dense(4)
    >>> x = jnp.ones((2, 3))
    >>> params = layer.init(functad.random.key(0), x)
    >>> params["kernel"].shape, params["bias"].shape, layer.apply(params, x).shape
    ((3, 4), (4,), (2, 4))
    """
    name = f"Dense({features})"
    features = check_int(features, "Dense: features", low=1)
    wanted: dict[str, tuple[int | None, ...]] = {"kernel": (None, features)}
    if use_bias:
        wanted["bias"] = (features,)

    def init(key: Any, x: Any) -> dict[str, Any]:
        x = struct_of(x)
        check_floats(x, name)
        if x.ndim < 1:
            raise ShapeError(f"{name}: the input must have shape (…, inputs), but is a scalar")
        kernel_key, bias_key = random.split(key)
        params = {"kernel": kernel_init(kernel_key, (x.shape[-1], features), x.dtype)}
        if use_bias:
            params["bias"] = bias_init(bias_key, (features,), x.dtype)
        return params

    def apply(params: Any, x: Any, *, key: Any = None, train: bool = False) -> Any:
        check_params(params, wanted, name)
        check_one_array(x, name)
        x = jnp.asarray(x)
        check_floats(x, name)
        kernel = params["kernel"]
        if x.ndim < 1 or x.shape[-1] != kernel.shape[0]:
            raise ShapeError(
                f"{name}: the input has shape {x.shape}, but the kernel of shape {kernel.shape} takes (…, "
                f"{kernel.shape[0]}); is a Flatten() missing before, or were the params made for other "
                "inputs?"
            )
        y = x @ kernel
        return y + params["bias"] if use_bias else y

    return Layer(init, apply, name)
