"""Programs of a given length, to see how the time to compile grows.

Knows one long element-wise chain, and the gradient of a recurrent network, unrolled or as a scan of growing length.
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
