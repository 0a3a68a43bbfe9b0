"""Images of another size: resampling along axes, by products with matrices of weights.

Knows the array functions; which axes are rows, columns or channels is the caller's business.

Raises:
    ShapeError: the shape has more or fewer sizes than the image has axes.
    ArgumentError: there is no such method.
    AxisError: the image has no such axis.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from functad import numpy as jnp
from functad.absent import absent
from functad.array import Array
from functad.errors import ArgumentError, ShapeError
from functad.numpy.promotion import canonical_axis, canonical_shape, promote_dtypes_inexact

__all__ = ["ResizeMethod", "resize", "scale_and_translate"]


class ResizeMethod(enum.Enum):
    """How pixels between pixels are made.

    NEAREST: the nearest pixel. LINEAR: of two neighbours along each axis. CUBIC: of four, by Keys' kernel;
    CUBIC_PYTORCH: the same, but without antialiasing by OpenCV's kernel, with edges repeated, as PyTorch does.
    LANCZOS3, LANCZOS5: of six and ten. AREA: the mean of what a new pixel covers.

    >>> import functad, functad.numpy as jnp
    >>> functad.image.resize(jnp.arange(4.), (2,), functad.image.ResizeMethod.AREA).tolist()
    [0.5, 2.5]
    """

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """The method of this name, such as "bilinear"."""
        if s not in _NAMES:
            raise ArgumentError(f"the resize method {s!r} is none of {', '.join(_NAMES)}")
        return _NAMES[s]


_NAMES = {
    "nearest": ResizeMethod.NEAREST,
    **dict.fromkeys(("linear", "bilinear", "trilinear", "triangle"), ResizeMethod.LINEAR),
    "lanczos3": ResizeMethod.LANCZOS3,
    "lanczos5": ResizeMethod.LANCZOS5,
    **dict.fromkeys(("cubic", "bicubic", "tricubic"), ResizeMethod.CUBIC),
    **dict.fromkeys(("cubic-pytorch", "bicubic-pytorch"), ResizeMethod.CUBIC_PYTORCH),
    "area": ResizeMethod.AREA,
}


def resize(
    image: Any, shape: Sequence[int], method: str | ResizeMethod, antialias: bool = True, precision: Any = "highest"
) -> Array:
    """An image of another shape, which shows the same.

    Args:
        image: of any number of axes.
        shape: as many sizes; along axes whose size stays nothing is done.
        method: a `ResizeMethod`, or its name.
        antialias: when the image becomes smaller, make pixels of all that they cover.
        precision: accepted for JAX's sake.

    >>> resize(jnp.arange(4.0), (2,), "linear", antialias=False)
    Array([0.5, 2.5], dtype=float32)
    """
    x, sizes, method = _arguments("resize", image, shape, method)
    axes = [d for d in range(x.ndim) if x.shape[d] != sizes[d]]
    if method is ResizeMethod.NEAREST:
        for d in axes:
            x = jnp.take(x, _nearest(x.shape[d], sizes[d]), axis=d)
        return x
    (x,) = promote_dtypes_inexact(x)
    for d in axes:
        scale = sizes[d] / x.shape[d] if sizes[d] else 1.0
        x = _along(x, d, _weights(x.shape[d], sizes[d], scale, 0.0, method, antialias))
    return x


def scale_and_translate(
    image: Any,
    shape: Sequence[int],
    spatial_dims: Sequence[int],
    scale: Any,
    translation: Any,
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = "highest",
) -> Array:
    """An image moved: what was at `p` (pixel i covers i to i + 1) is at `p * scale + translation`; 0 outside of it.

    Args:
        image: of any number of axes.
        shape: the result's shape.
        spatial_dims: the axes that are moved along.
        scale, translation: one number for each of them; the result is differentiable in both.
        method: a `ResizeMethod` (but NEAREST), or its name.
        antialias: when the image becomes smaller, make pixels of all that they cover.
        precision: accepted for JAX's sake.

    >>> scale_and_translate(jnp.arange(4.0), (4,), (0,), jnp.ones(1), jnp.ones(1), "linear")
    Array([0., 0., 1., 2.], dtype=float32)
    """
    x, sizes, method = _arguments("scale_and_translate", image, shape, method)
    if method is ResizeMethod.NEAREST:
        raise ArgumentError('scale_and_translate cannot take the nearest pixel; method="linear" is the next simple one')
    (x,) = promote_dtypes_inexact(x)
    scales, translations = promote_dtypes_inexact(jnp.asarray(scale), jnp.asarray(translation))
    if not scales.shape == translations.shape == (len(spatial_dims),):
        raise ShapeError(
            f"scale_and_translate: {len(spatial_dims)} axes need as many scales and translations, got shapes "
            f"{scales.shape} and {translations.shape}"
        )
    for i, axis in enumerate(spatial_dims):
        d = canonical_axis("scale_and_translate", axis, x.ndim)
        x = _along(x, d, _weights(x.shape[d], sizes[d], scales[i], translations[i], method, antialias))
    return x


def _arguments(name: str, image: Any, shape: Any, method: Any) -> tuple[Any, tuple[int, ...], ResizeMethod]:
    x, sizes = jnp.asarray(image), canonical_shape(name, shape)
    if len(sizes) != x.ndim:
        raise ShapeError(
            f"{name}: shape={sizes} must have as many sizes as the image has axes, whose shape is {x.shape}"
        )
    if isinstance(method, str):
        method = ResizeMethod.from_string(method)
    if not isinstance(method, ResizeMethod):
        raise ArgumentError(f"{name}: method must be a ResizeMethod or its name, got {method!r}")
    return x, sizes, method


def _nearest(size: int, new_size: int) -> np.ndarray:
    centres = (np.arange(new_size, dtype=np.float32) + np.float32(0.5)) * np.float32(size) / np.float32(new_size)
    return np.floor(centres).astype(np.int32)


def _along(x: Any, axis: int, weights: Any) -> Any:
    moved = jnp.tensordot(x, weights.astype(x.dtype), axes=(axis, 0))
    return jnp.moveaxis(moved, -1, axis)


# --- the matrix of weights ----------------------------------------------------------------------------


def _weights(size: int, new_size: int, scale: Any, translation: Any, method: ResizeMethod, antialias: bool) -> Any:
    """How much of each pixel (rows) each new one (columns) takes; columns sum to 1, or are 0 outside of the image."""
    scale, translation = promote_dtypes_inexact(jnp.asarray(scale), jnp.asarray(translation))
    dtype = scale.dtype
    step = 1 / scale
    centres = (jnp.arange(new_size, dtype=dtype) + 0.5) * step - translation * step - 0.5
    pixels = jnp.arange(size, dtype=dtype)
    if method is ResizeMethod.AREA:
        first = jnp.arange(new_size, dtype=dtype) * step - translation * step
        ends = jnp.minimum((first + step)[None, :], (pixels + 1)[:, None])
        weights = jnp.maximum(0.0, ends - jnp.maximum(first[None, :], pixels[:, None]))
    elif method is ResizeMethod.CUBIC_PYTORCH and not antialias:
        around = np.arange(-2, size + 2)
        weights = _opencv_cubic(jnp.abs(centres[None, :] - around.astype(dtype)[:, None]))
        inner = jnp.zeros((size, new_size), dtype).at[np.clip(around, 0, size - 1)].add(weights)
        return _normalized(inner)
    else:
        kernel = _KERNELS[method]
        stretch = jnp.maximum(step, 1.0) if antialias else 1.0
        weights = kernel(jnp.abs(centres[None, :] - pixels[:, None]) / stretch)
    inside = (centres >= -0.5) & (centres <= size - 0.5)
    return jnp.where(inside[None, :], _normalized(weights), 0)


def _normalized(weights: Any) -> Any:
    """Columns divided by their sums, which are not 1 where a part of the kernel lies outside of the image."""
    total = jnp.sum(weights, 0, keepdims=True)
    least = 1000 * float(np.finfo(np.float32).eps)
    return jnp.where(jnp.abs(total) > least, weights / jnp.where(total != 0, total, 1), 0)


# --- kernels: the weight at a distance ----------------------------------------------------------------


def _triangle(x: Any) -> Any:
    return jnp.maximum(0, 1 - jnp.abs(x))


def _lanczos(radius: float, x: Any) -> Any:
    waves = radius * jnp.sin(np.pi * x) * jnp.sin(np.pi * x / radius)
    inner = jnp.where(x > 1e-3, waves / jnp.where(x != 0, np.pi**2 * x**2, 1), 1)
    return jnp.where(x > radius, 0.0, inner)


def _keys_cubic(x: Any) -> Any:
    """Keys, Cubic convolution interpolation for digital image processing, 1981: equation 15, a = -1/2."""
    return _cubic(-0.5, x)


def _opencv_cubic(x: Any) -> Any:
    return _cubic(-0.75, x)


def _cubic(a: float, x: Any) -> Any:
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return jnp.where(x >= 2, 0.0, jnp.where(x >= 1, far, near))


_KERNELS: dict[ResizeMethod, Callable[[Any], Any]] = {
    ResizeMethod.LINEAR: _triangle,
    ResizeMethod.LANCZOS3: lambda x: _lanczos(3.0, x),
    ResizeMethod.LANCZOS5: lambda x: _lanczos(5.0, x),
    ResizeMethod.CUBIC: _keys_cubic,
    ResizeMethod.CUBIC_PYTORCH: _keys_cubic,
}

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
