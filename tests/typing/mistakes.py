"""Mistakes that a type checker finds before the program runs: the code of each error stands in a comment."""

from __future__ import annotations

import functad
import functad.numpy as jnp
from functad import Array


@functad.jit
def scaled(x: Array, factor: float) -> Array:
    return x * factor


def main(x: Array) -> None:
    scaled(x)  # E: call-arg
    scaled(x, "2")  # E: arg-type
    scaled(x, factor=2.0, other=1)  # E: call-arg
    functad.grad(scaled)(x)  # E: call-arg
    functad.vmap(scaled)("x", 2.0)  # E: arg-type
    functad.grad(3)  # E: call-overload
    x.summ()  # E: attr-defined
    x + "1"  # E: operator
    x.at[0].put(1.0)  # E: attr-defined
    jnp.simm(x)  # E: attr-defined
    jnp.sum(x, axes=0)  # E: call-arg
    name: str = x.sum()  # E: assignment
    print(name)
