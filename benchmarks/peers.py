"""The frameworks to compare with, as far as they are installed, run without compiling functions.

Knows how each indexes, draws random numbers and differentiates; nothing of timing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

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


def single_operations() -> dict[str, dict[str, Callable[[], object]]]:
    """Un-jitted operations on small arrays, each in NumPy and all frameworks that have it."""
    rng = np.random.default_rng(0)
    x, places = rng.standard_normal((100, 100)).astype(np.float32), np.array([3, 1, 7, 50, 99])
    makers: dict[str, Callable[[np.ndarray], Any]] = {"functad": jnp.asarray, "numpy": np.asarray}
    if find_spec("jax"):
        makers["jax"] = import_module("jax.numpy").asarray
    if find_spec("torch"):
        makers["torch"] = import_module("torch").tensor
    operations: dict[str, Callable[[Any, Any], Any]] = {
        "x[3, 4]": lambda x, index: x[3, 4],
        "x[2:50]": lambda x, index: x[2:50],
        "float(x[2, 3])": lambda x, index: float(x[2, 3]),
        "x[index array]": lambda x, index: x[index],
        "x + x": lambda x, index: x + x,
    }
    found = {
        name: {framework: _waiting(partial(operation, make(x), make(places))) for framework, make in makers.items()}
        for name, operation in operations.items()
    }
    found["100 normal random numbers"] = _random_numbers()
    return found


def _waiting(call: Callable[[], Any]) -> Callable[[], object]:
    """The call, and the wait for its result where a framework has not finished when it returns."""
    if hasattr(call(), "block_until_ready"):
        return lambda: call().block_until_ready()
    return call


def _random_numbers() -> dict[str, Callable[[], object]]:
    key, generator = functad.random.key(0), np.random.default_rng(0)
    contenders: dict[str, Callable[[], object]] = {
        "functad": lambda: functad.random.normal(key, (100,)),
        "numpy": lambda: generator.standard_normal(100, np.float32),
    }
    if find_spec("jax"):
        random = import_module("jax").random
        contenders["jax"] = _waiting(partial(random.normal, random.key(0), (100,)))
    if find_spec("torch"):
        contenders["torch"] = partial(import_module("torch").randn, 100)
    return contenders


def perceptron() -> dict[str, Callable[[], object]]:
    """The un-jitted gradient of a 784-128-10 perceptron for 100 examples."""
    rng = np.random.default_rng(0)
    shapes = ((784, 128), (128,), (128, 10), (10,))
    params = [(0.05 * rng.standard_normal(s)).astype(np.float32) for s in shapes]
    x = rng.standard_normal((100, 784)).astype(np.float32)
    wanted = np.eye(10, dtype=np.float32)[rng.integers(0, 10, 100)]

    def loss(np_like: Any, params: Any, x: Any, wanted: Any) -> Any:
        w1, b1, w2, b2 = params
        logits = np_like.tanh(x @ w1 + b1) @ w2 + b2
        return np_like.mean(np_like.log(np_like.exp(logits).sum(1)) - (wanted * logits).sum(1))

    gradient = functad.grad(partial(loss, jnp))
    given = [jnp.asarray(p) for p in params], jnp.asarray(x), jnp.asarray(wanted)
    contenders: dict[str, Callable[[], object]] = {"functad": lambda: gradient(*given)}
    if find_spec("autograd"):
        numpy_a = import_module("autograd.numpy")
        gradient_a = import_module("autograd").grad(partial(loss, numpy_a))
        contenders["autograd"] = lambda: gradient_a(params, x, wanted)
    if find_spec("jax"):
        jax, jax_numpy = import_module("jax"), import_module("jax.numpy")
        gradient_j = jax.grad(partial(loss, jax_numpy))
        given_j = [jax_numpy.asarray(p) for p in params], jax_numpy.asarray(x), jax_numpy.asarray(wanted)
        contenders["jax"] = lambda: jax.block_until_ready(gradient_j(*given_j))
    if find_spec("torch"):
        torch = import_module("torch")
        x_t, wanted_t = torch.tensor(x), torch.tensor(wanted)
        leaves = [torch.tensor(p, requires_grad=True) for p in params]
        contenders["torch"] = lambda: torch.autograd.grad(loss(torch, leaves, x_t, wanted_t), leaves)
    return contenders
