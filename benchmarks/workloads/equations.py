"""Programs of a given length, to see how the time to compile grows.

Knows element-wise chains, alike and unlike, many results, many inputs, and the gradient of a recurrent network,
unrolled or as a scan of growing length.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import functad
import functad.numpy as jnp
from benchmarks.task import Calling, Form
from functad import lax

# Equations that one round adds to the chain, and one step to the gradient of the network.
_PER_ROUND, _PER_STEP = 4, 13


def chain(size: int) -> Calling:
    """x → sin(x) · c + x / (1 + x²)-like rounds, all with constants of their own."""

    def forms(module: Any) -> Any:
        def function(x: Any) -> Any:
            for i in range(size // _PER_ROUND):
                x = module.sin(x * (1.0 + i / size)) * 0.5 + x
            return x

        return function

    return Calling(
        (np.linspace(-1, 1, 1000, dtype=np.float32),),
        {"functad": Form(lambda: forms(jnp)), "jax": Form(lambda: forms(_jax().numpy))},
    )


def sines(size: int) -> Calling:
    """sin(sin(… x))."""

    def forms(module: Any) -> Any:
        def function(x: Any) -> Any:
            for _ in range(size):
                x = module.sin(x)
            return x

        return function

    return _of_vector(forms)


def unlike(size: int) -> Calling:
    """A chain without a pattern: sums, products and functions of what was computed before, chosen at random."""

    def forms(module: Any) -> Any:
        unary = (
            module.sin,
            module.cos,
            module.tanh,
            module.exp,
            module.sqrt,
            abs,
            lambda x: x * 1.5,
            lambda x: x + 0.3,
        )

        def function(x: Any) -> Any:
            rng = np.random.default_rng(0)
            values = [x, x + 1.5]
            for _ in range(size // 2):
                one, other = values[-1 - rng.integers(min(5, len(values)))], values[rng.integers(len(values))]
                chosen = rng.integers(len(unary))
                values.append(unary[chosen](one) + other)
            return values[-5:]

        return function

    return _of_vector(forms)


def results(size: int) -> Calling:
    """A list of products of one vector and different numbers."""
    return _of_vector(lambda module: lambda x: [x * (1.0 + k) for k in range(size)])


def inputs(size: int) -> Calling:
    """The sum of a list of vectors."""
    vectors = tuple(np.full(100, k, np.float32) for k in range(size))

    def function(*xs: Any) -> Any:
        return sum(xs)

    return Calling(vectors, {"functad": Form(lambda: function), "jax": Form(lambda: function)})


def _of_vector(forms: Any) -> Calling:
    return Calling(
        (np.linspace(0, 1, 1000, dtype=np.float32),),
        {"functad": Form(lambda: forms(jnp)), "jax": Form(lambda: forms(_jax().numpy))},
    )


def recurrent(size: int) -> Calling:
    """The gradient of a tanh network, as many steps as it takes."""
    steps = max(1, size // _PER_STEP)
    rng = np.random.default_rng(0)
    weights = (rng.standard_normal((32, 32)) / 8).astype(np.float32)
    inputs = rng.standard_normal((steps, 20, 32)).astype(np.float32)

    def forms(module: Any, grad: Any) -> Any:
        def loss(weights: Any, inputs: Any) -> Any:
            state = inputs[0]
            for t in range(steps):
                state = module.tanh(state @ weights + inputs[t])
            return (state * state).sum()

        return grad(loss)

    return Calling(
        (weights, inputs),
        {
            "functad": Form(lambda: forms(jnp, functad.grad)),
            "jax": Form(lambda: forms(_jax().numpy, _jax().grad)),
        },
    )


def scanned(steps: int) -> Calling:
    """The gradient of the same network, written with `scan`."""
    rng = np.random.default_rng(0)
    weights = (rng.standard_normal((32, 32)) / 8).astype(np.float32)
    inputs = rng.standard_normal((steps, 20, 32)).astype(np.float32)

    def forms(module: Any, scan: Any, grad: Any) -> Any:
        def loss(weights: Any, inputs: Any) -> Any:
            state, _ = scan(lambda h, x: (module.tanh(h @ weights + x), None), inputs[0], inputs)
            return (state * state).sum()

        return grad(loss)

    return Calling(
        (weights, inputs),
        {
            "functad": Form(lambda: forms(jnp, lax.scan, functad.grad)),
            "jax": Form(lambda: forms(_jax().numpy, _jax().lax.scan, _jax().grad)),
        },
    )


def _jax() -> Any:
    import jax

    return jax
