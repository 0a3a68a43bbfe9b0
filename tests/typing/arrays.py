"""A user's arithmetic: what a type checker says of it stands in comments."""

from __future__ import annotations

import numpy as np

import functad.numpy as jnp
from functad import Array, lax, nn, random


def norms(x: Array, y: np.ndarray) -> Array:
    z = x + 1
    z = 2 * z - x / 3.0
    z = z @ x.T
    z = -z
    z = z[0, 1:].reshape(-1, 1).astype("float32")
    z = z.at[0].set(1.0).at[1:].add(z[1:] * y)
    z = jnp.where(z > 0, z, 0.0)
    z = jnp.concatenate([z, z], axis=0)
    return jnp.sqrt(jnp.sum(jnp.square(z), axis=-1))


def rows(x: Array) -> list[float]:
    return [float(row.sum()) for row in x]


def parts(x: Array) -> tuple[Array, Array]:
    first, second = jnp.split(x, 2)
    return first, second


def sizes(x: Array) -> int:
    return len(x) + x.ndim + x.size + x.shape[0]


def noise(key: Array, shape: tuple[int, ...]) -> Array:
    first, second = random.split(key)
    return random.normal(first, shape) + random.uniform(second, shape, minval=-1.0)


def activations(x: Array) -> Array:
    return nn.relu(x) + nn.softmax(x, axis=-1) + lax.exp(x) + jnp.maximum(x, 0)


def main() -> None:
    x = jnp.arange(6.0).reshape(2, 3)
    reveal_type(x.shape)  # R: tuple[int, ...]
    reveal_type(x.T)  # R: functad.array.Array
    reveal_type(x[0])  # R: functad.array.Array
    reveal_type(x > 1)  # R: functad.array.Array
    reveal_type(x == 1)  # R: functad.array.Array
    reveal_type(x.at[0].set(1.0))  # R: functad.array.Array
    reveal_type(x.sum(axis=0))  # R: functad.array.Array
    reveal_type(jnp.sum(x))  # R: functad.array.Array
    reveal_type(jnp.sin(x))  # R: functad.array.Array
    reveal_type(jnp.linalg.norm(x))  # R: functad.array.Array
    reveal_type(lax.dot(x, x.T))  # R: functad.array.Array
    reveal_type(random.key(0))  # R: functad.array.Array
    print(norms(x, np.ones(3)), rows(x), parts(x), sizes(x), noise(random.key(0), (3,)), activations(x))
