"""Simulations step by step: gradients through a map and through an ODE solver, and bodies under gravity.

Knows them in each framework; nothing of timing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import functad
import functad.numpy as jnp
from benchmarks.task import Calling, Form
from functad import lax

STEPS = 1000
BODIES, BODY_STEPS, DT = 64, 500, np.float32(1e-3)


def logistic() -> Calling:
    """The gradient of the mean of `x ← r x (1 − x)` over 1,000 steps, in the start and in r."""

    def forms(lax: Any, grad: Any, module: Any) -> Any:
        def mean(start: Any, r: Any) -> Any:
            def step(x: Any, _: Any) -> Any:
                x = r * x * (1 - x)
                return x, x

            return lax.scan(step, start, None, length=STEPS)[1].mean()

        return grad(mean, (0, 1))

    def of_torch() -> Any:
        import torch

        def gradient(start: Any, r: Any) -> Any:
            start, r = start.requires_grad_(), r.requires_grad_()
            x, states = start, []
            for _ in range(STEPS):
                x = r * x * (1 - x)
                states.append(x)
            return torch.autograd.grad(torch.stack(states).mean(), (start, r))

        return gradient

    return Calling((np.float32(0.3), np.float32(3.2)), _forms(forms, of_torch))


def oscillator() -> Calling:
    """The gradient of the squared end of 1,000 Runge-Kutta steps of van der Pol's equation, in start and stiffness."""

    def forms(lax: Any, grad: Any, module: Any) -> Any:
        def end(start: Any, stiffness: Any) -> Any:
            def slope(state: Any) -> Any:
                x, v = state
                return v, stiffness * (1 - x * x) * v - x

            state, _ = lax.scan(lambda s, _: (_runge_kutta(slope, s), None), (start[0], start[1]), None, length=STEPS)
            return state[0] * state[0] + state[1] * state[1]

        return grad(end, (0, 1))

    def of_torch() -> Any:
        import torch

        def gradient(start: Any, stiffness: Any) -> Any:
            start, stiffness = start.requires_grad_(), stiffness.requires_grad_()
            state = start[0], start[1]
            for _ in range(STEPS):
                state = _runge_kutta(lambda s: (s[1], stiffness * (1 - s[0] * s[0]) * s[1] - s[0]), state)
            return torch.autograd.grad(state[0] * state[0] + state[1] * state[1], (start, stiffness))

        return gradient

    return Calling((np.array([2, 0], np.float32), np.float32(0.5)), _forms(forms, of_torch))


def bodies() -> Calling:
    """Positions and velocities of 64 bodies after 0.5 time units of a leapfrog loop that ends when the time is up."""

    def forms(lax: Any, grad: Any, module: Any) -> Any:
        def simulate(positions: Any, velocities: Any) -> Any:
            def advance(state: Any) -> Any:
                time, x, v = state
                v = v + DT * _pull(module, x)
                return time + 1, x + DT * v, v

            return lax.while_loop(lambda s: s[0] < BODY_STEPS, advance, (np.int32(0), positions, velocities))[1:]

        return simulate

    def of_torch() -> Any:
        import torch

        def simulate(x: Any, v: Any) -> Any:
            for _ in range(BODY_STEPS):
                v = v + float(DT) * _pull(torch, x)
                x = x + float(DT) * v
            return x, v

        return simulate

    rng = np.random.default_rng(0)
    start = tuple(rng.standard_normal((BODIES, 3), np.float32) for _ in range(2))
    return Calling(start, _forms(forms, of_torch))


def _pull(module: Any, x: Any) -> Any:
    """The acceleration of bodies of equal mass, softened."""
    away = x[None, :, :] - x[:, None, :]
    squared = (away * away).sum(-1) + 0.05
    return (away / (squared * module.sqrt(squared))[:, :, None]).sum(1) / BODIES


def _runge_kutta(slope: Any, state: Any, h: float = 0.005) -> Any:
    """One step of the classic method of order 4."""

    def moved(by: Any, size: float) -> Any:
        return state[0] + size * by[0], state[1] + size * by[1]

    k1 = slope(state)
    k2 = slope(moved(k1, h / 2))
    k3 = slope(moved(k2, h / 2))
    k4 = slope(moved(k3, h))
    return tuple(s + h / 6 * (a + 2 * b + 2 * c + d) for s, a, b, c, d in zip(state, k1, k2, k3, k4))


def _forms(forms: Any, of_torch: Any) -> dict[str, Form]:
    def of_jax() -> Any:
        import jax

        return forms(jax.lax, jax.grad, jax.numpy)

    # A loop of so many steps, unrolled by torch.compile, takes minutes to compile.
    return {
        "functad": Form(lambda: forms(lax, functad.grad, jnp)),
        "torch": Form(of_torch),
        "jax": Form(of_jax),
    }
