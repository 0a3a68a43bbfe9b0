"""A user's transforms: what a type checker says of them stands in comments."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import functad
import functad.numpy as jnp
from functad import Array


class Params(NamedTuple):
    w: Array
    b: Array


def predict(params: Params, x: Array) -> Array:
    return jnp.tanh(x @ params.w + params.b)


def loss(params: Params, x: Array, y: Array) -> Array:
    return jnp.mean((predict(params, x) - y) ** 2)


@functad.jit
def step(params: Params, x: Array, y: Array, rate: float = 0.1) -> Params:
    gradient = functad.grad(loss)(params, x, y)
    return Params(params.w - rate * gradient.w, params.b - rate * gradient.b)


@functad.jit(static_argnums=1)
def power(x: Array, n: int) -> Array:
    return x**n


def with_aux(x: Array) -> tuple[Array, dict[str, Array]]:
    return jnp.sum(x), {"x": x}


class Model:
    @functad.jit
    def double(self, x: Array) -> Array:
        return x * 2


@functad.custom_jvp
def clipped(x: Array) -> Array:
    return jnp.clip(x, -1.0, 1.0)


@functad.custom_vjp
def identity(x: Array, scale: float) -> Array:
    return x


def main() -> None:
    params = Params(jnp.zeros((3, 2)), jnp.zeros(2))
    x, y = jnp.ones((10, 3)), jnp.asarray(np.zeros((10, 2)))
    params = step(params, x, y, rate=0.2)
    reveal_type(step(params, x, y))  # R: tuple[functad.array.Array, functad.array.Array, fallback=Params]
    reveal_type(step.lower(params, x, y))  # R: functad.api.stages.Lowered
    reveal_type(power(x, 3))  # R: functad.array.Array
    reveal_type(functad.grad(loss)(params, x, y))  # R: tuple[functad.array.Array, functad.array.Array, fallback=Params]
    value, gradient = functad.value_and_grad(loss)(params, x, y)
    reveal_type(value)  # R: functad.array.Array
    reveal_type(gradient)  # R: tuple[functad.array.Array, functad.array.Array, fallback=Params]
    (total, aux), slope = functad.value_and_grad(with_aux, has_aux=True)(x)
    reveal_type(aux)  # R: dict[str, functad.array.Array]
    reveal_type(slope)  # R: functad.array.Array
    reveal_type(functad.vmap(predict, (None, 0))(params, x))  # R: functad.array.Array
    reveal_type(functad.checkpoint(predict)(params, x))  # R: functad.array.Array
    reveal_type(clipped(x))  # R: functad.array.Array
    reveal_type(identity(x, 2.0))  # R: functad.array.Array
    reveal_type(Model().double(x))  # R: functad.array.Array
    jacobian: Array = functad.jacrev(clipped)(x)
    print(total, jacobian)
