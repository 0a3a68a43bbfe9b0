"""A large convolution, 3×3, 64→64 channels, 56×56, batch 32, padded to the same size; and both its gradients.
Also gradients of convolutions of other geometries, of which it is asked how long they take to compile.

Knows them in each framework; nothing of timing. The arrays of the large one's task have the channels first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import functad
from benchmarks.task import Arrays, Calling, Form
from functad import lax

BATCH, CHANNELS, SIZE = 32, 64, 56
_IMAGES = (BATCH, CHANNELS, SIZE, SIZE)
_KERNEL = (CHANNELS, CHANNELS, 3, 3)
_LAST = ("NHWC", "HWIO", "NHWC")


def forward() -> Calling:
    """`(images, kernel) -> images`."""
    return _calling((_images(0), _kernel()), "forward")


def input_gradient() -> Calling:
    """`(cotangent, kernel) -> images`."""
    return _calling((_images(1), _kernel()), "input")


def kernel_gradient() -> Calling:
    """`(images, cotangent) -> kernel`."""
    return _calling((_images(0), _images(1)), "kernel")


class Geometry(NamedTuple):
    """A convolution of images (height = width = `size`) with a square window; both padded to the same size or not."""

    size: int
    window: int
    features: int
    outputs: int
    stride: int = 1
    padding: str = "SAME"
    batch: int = 8


GEOMETRIES = {
    "8x8-stride-4": Geometry(84, 8, 4, 32, stride=4, padding="VALID"),
    "7x7-stride-2": Geometry(56, 7, 3, 64, stride=2),
    "5x5": Geometry(28, 5, 1, 32),
    "3x3": Geometry(28, 3, 32, 64),
    "1x1": Geometry(14, 1, 64, 128),
}


def both_gradients(geometry: Geometry) -> Calling:
    """`(images, kernel) -> gradients of both`, of the mean of squares of a convolution."""
    rng = np.random.default_rng(0)
    size, window, features, outputs, stride, padding, batch = geometry
    images = rng.standard_normal((batch, size, size, features), np.float32)
    kernel = rng.standard_normal((window, window, features, outputs), np.float32) / np.float32(window)

    def gradients(lax: Any, grad: Any) -> Any:
        def loss(images: Any, kernel: Any) -> Any:
            x = lax.conv_general_dilated(images, kernel, (stride, stride), padding, dimension_numbers=_LAST)
            return (x * x).mean()

        return grad(loss, argnums=(0, 1))

    forms = {"functad": Form(lambda: gradients(lax, functad.grad)), "jax": Form(lambda: _jax_gradients(gradients))}
    return Calling((images, kernel), forms)


def _jax_gradients(gradients: Any) -> Any:
    import jax

    return gradients(jax.lax, jax.grad)


def _images(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(_IMAGES, np.float32)


def _kernel() -> np.ndarray:
    return np.random.default_rng(2).standard_normal(_KERNEL, np.float32) / np.float32(24)


def _calling(arguments: tuple[np.ndarray, ...], which: str) -> Calling:
    torch_form = Form(lambda: _torch(which), batch=_torch_channels_last)
    restore = _restored(which)
    forms = {
        "functad": Form(lambda: _functad(which), restore=restore, batch=_channels_last),
        "torch": torch_form,
        "torch.compile": torch_form,
        "jax": Form(lambda: _jax(which), restore=restore, batch=_channels_last),
    }
    return Calling(arguments, forms)


def _functad(which: str) -> Any:
    return _with(lax, which, functad.linear_transpose, functad.ShapeDtypeStruct)


def _jax(which: str) -> Any:
    import jax

    return _with(jax.lax, which, jax.linear_transpose, jax.ShapeDtypeStruct)


def _with(lax: Any, which: str, linear_transpose: Any, struct: Any) -> Any:
    def convolve(images: Any, kernel: Any) -> Any:
        return lax.conv_general_dilated(images, kernel, (1, 1), "SAME", dimension_numbers=_LAST)

    images = (BATCH, SIZE, SIZE, CHANNELS)
    kernel = (3, 3, CHANNELS, CHANNELS)
    return _wanted(which, convolve, linear_transpose, struct, images, kernel)


def _wanted(which: str, convolve: Any, linear_transpose: Any, struct: Any, images: Any, kernel: Any) -> Any:
    if which == "forward":
        return convolve
    if which == "input":
        return lambda cotangent, kernel: linear_transpose(
            lambda x: convolve(x, kernel), struct(images, np.dtype("float32"))
        )(cotangent)[0]
    return lambda x, cotangent: linear_transpose(lambda k: convolve(x, k), struct(kernel, np.dtype("float32")))(
        cotangent
    )[0]


def _torch(which: str) -> Any:
    import torch.nn.functional as F
    from torch.nn import grad

    return {
        "forward": lambda images, kernel: F.conv2d(images, kernel, padding=1),
        "input": lambda cotangent, kernel: grad.conv2d_input(_IMAGES, kernel, cotangent, padding=1),
        "kernel": lambda images, cotangent: grad.conv2d_weight(images, _KERNEL, cotangent, padding=1),
    }[which]


def _torch_channels_last(*arrays: np.ndarray) -> tuple[Any, ...]:
    import torch

    return tuple(torch.tensor(a).contiguous(memory_format=torch.channels_last) for a in arrays)


def _channels_last(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    moved = (a.transpose(0, 2, 3, 1) if a.shape == _IMAGES else a.transpose(2, 3, 1, 0) for a in arrays)
    return tuple(np.ascontiguousarray(a) for a in moved)


def _restored(which: str) -> Any:
    axes = (3, 2, 0, 1) if which == "kernel" else (0, 3, 1, 2)

    def restore(results: Arrays) -> Arrays:
        return {name: result.transpose(axes) for name, result in results.items()}

    return restore
