"""Functions that several programs are made of.

Knows functad's public names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import functad.numpy as jnp
from functad import lax, nn


def lorenz(x: Any, steps: int = 20) -> Any:
    def slope(s: Any) -> Any:
        return jnp.stack([10.0 * (s[1] - s[0]), s[0] * (28.0 - s[2]) - s[1], s[0] * s[1] - 2.7 * s[2]])

    for _ in range(steps):
        a = slope(x)
        b = slope(x + 0.005 * a)
        c = slope(x + 0.005 * b)
        x = x + 0.01 / 6 * (a + 2.0 * b + 2.0 * c + slope(x + 0.01 * c))
    return x


def last_state(step: Callable[[Any], Any], length: int) -> Callable[[Any], Any]:
    return lambda c: lax.scan(lambda c, _: (step(c), None), c, length=length)[0]


def convolution(x: Any, w: Any, stride: int = 1, padding: Any = "VALID", layout: str = "NCHW", **others: Any) -> Any:
    kernel = "OIHW" if layout == "NCHW" else "HWIO"
    strides = (stride,) * 2
    return lax.conv_general_dilated(x, w, strides, padding, dimension_numbers=(layout, kernel, layout), **others)


def convolution_of_last(x: Any, w: Any, **others: Any) -> Any:
    return convolution(x, w, layout="NHWC", **others)


def softmax(x: Any) -> Any:
    return nn.softmax(x, -1)


def times_transposed(x: Any, w: Any) -> Any:
    return x @ w.T


def product(a: Any, b: Any) -> Any:
    return a @ b


def updated(x: Any, i: Any, u: Any) -> Any:
    return x.at[i].add(u)


def cholesky(size: int, x: Any) -> Any:
    return jnp.linalg.cholesky(x @ jnp.matrix_transpose(x) + 9.0 * jnp.eye(size))
