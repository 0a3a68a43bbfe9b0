"""The frameworks to compare with, as far as they are installed.

Knows how each differentiates a scalar function; nothing of timing.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

import functad
import functad.numpy as jnp

CHAIN = 10


def installed(names: list[str]) -> list[str]:
    return [n for n in names if find_spec(n)]


def chain_of_sines() -> dict[str, Callable[[], object]]:
    """The un-jitted gradient of sin(sin(…(x))), ten times, of a scalar."""
    contenders: dict[str, Callable[[], object]] = {}

    def chain(sin: Callable[[object], object]) -> Callable[[object], object]:
        def f(x: object) -> object:
            for _ in range(CHAIN):
                x = sin(x)
            return x

        return f

    gradient = functad.grad(chain(jnp.sin))
    x = jnp.float32(0.5)
    contenders["functad"] = lambda: gradient(x)
    if find_spec("autograd"):
        autograd, autograd_numpy = import_module("autograd"), import_module("autograd.numpy")
        gradient_a = autograd.grad(chain(autograd_numpy.sin))
        contenders["autograd"] = lambda: gradient_a(0.5)
    if find_spec("jax"):
        jax, jax_numpy = import_module("jax"), import_module("jax.numpy")
        gradient_j, x_j = jax.grad(chain(jax_numpy.sin)), jax_numpy.float32(0.5)
        contenders["jax"] = lambda: gradient_j(x_j).block_until_ready()
    if find_spec("torch"):
        torch = import_module("torch")

        def gradient_t() -> object:
            leaf = torch.tensor(0.5, requires_grad=True)
            chain(torch.sin)(leaf).backward()  # type: ignore[attr-defined]
            return leaf.grad

        contenders["torch"] = gradient_t
    return contenders
