"""A U-Net (Ronneberger et al. 2015) of four levels: two convolutions 3×3 and ReLUs each, joined by pooling 2×2 down and
transposed convolutions 2×2 up; 16 to 128 channels, 64×64 pixels, batch 4, two classes a pixel; SGD.

Knows the network in functad and JAX, which it is one text for; nothing of timing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import functad.nn as nn
import functad.numpy as jnp
from benchmarks.task import Arrays, Form, Sgd, Training
from functad import lax

BATCH, SIZE, CHANNELS, CLASSES = 4, 64, (16, 32, 64, 128), 2
_LAST = ("NHWC", "HWIO", "NHWC")


def task() -> Training:
    rng = np.random.default_rng(0)
    images = rng.standard_normal((BATCH, SIZE, SIZE, 1), np.float32)
    labels = (images[..., 0] > 0).astype(np.int32)
    forms = {"functad": Form(lambda: _loss(jnp, lax, nn.log_softmax)), "jax": Form(_jax_loss)}
    return Training(_params(rng), [(images, labels)], Sgd(0.1), forms)


def _params(rng: np.random.Generator) -> Arrays:
    shapes: dict[str, tuple[int, ...]] = {}
    given = 1
    for level, width in enumerate(CHANNELS):
        shapes |= {f"down {level} a": (3, 3, given, width), f"down {level} b": (3, 3, width, width)}
        given = width
    for level in reversed(range(len(CHANNELS) - 1)):
        width = CHANNELS[level]
        shapes |= {f"up {level}": (2, 2, 2 * width, width)}
        shapes |= {f"up {level} a": (3, 3, 2 * width, width), f"up {level} b": (3, 3, width, width)}
    shapes["scores"] = (1, 1, CHANNELS[0], CLASSES)
    params: Arrays = {}
    for name, shape in shapes.items():
        scale = np.float32(np.sqrt(2 / np.prod(shape[:3])))
        params[name] = rng.standard_normal(shape, np.float32) * scale
        params[f"{name} bias"] = np.zeros(shape[3], np.float32)
    return params


def _jax_loss() -> Any:
    import jax

    return _loss(jax.numpy, jax.lax, jax.nn.log_softmax)


def _loss(jnp: Any, lax: Any, log_softmax: Any) -> Any:
    def convolved(params: Any, name: str, x: Any) -> Any:
        x = lax.conv_general_dilated(x, params[name], (1, 1), "SAME", dimension_numbers=_LAST)
        return x + params[f"{name} bias"]

    def twice(params: Any, name: str, x: Any) -> Any:
        for part in ("a", "b"):
            x = jnp.maximum(convolved(params, f"{name} {part}", x), 0)
        return x

    def up(params: Any, name: str, x: Any) -> Any:
        x = lax.conv_transpose(x, params[name], (2, 2), "SAME", dimension_numbers=_LAST)
        return x + params[f"{name} bias"]

    def loss(params: Any, images: Any, labels: Any) -> Any:
        x, seen = images, []
        for level in range(len(CHANNELS)):
            x = twice(params, f"down {level}", x)
            if level < len(CHANNELS) - 1:
                seen.append(x)
                x = lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        for level in reversed(range(len(CHANNELS) - 1)):
            x = jnp.concatenate([seen[level], up(params, f"up {level}", x)], axis=-1)
            x = twice(params, f"up {level}", x)
        logs = log_softmax(convolved(params, "scores", x))
        return -jnp.take_along_axis(logs, labels[..., None], -1).mean()

    return loss
