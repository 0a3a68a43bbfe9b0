"""Derivatives of first to third order along a direction, in either mode, un-jitted, jitted and mapped.

Knows the transforms; no function that is differentiated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import functad
from functad import numpy as jnp
from functad.dtypes import kind_of

MODES = ("fff", "rrr", "frf", "rfr")  # the innermost derivative comes first: forward or reverse
WAYS: dict[str, Callable[..., Any]] = {
    "un-jitted": lambda fun, *args: fun(*args),
    "jitted": lambda fun, *args: functad.jit(fun)(*args),
    "mapped": lambda fun, *args: [x[1] for x in functad.vmap(fun)(*[np.stack([a, a]) for a in args])],
}


def derivative(fun: Callable[..., Any], along: Sequence[Any], mode: str) -> Callable[..., Any]:
    """The function of the slope of a scalar function along a direction; None stands for an argument that is kept."""
    moving = [i for i, v in enumerate(along) if v is not None]
    tangents = [along[i] for i in moving]

    def partly(args: Sequence[Any]) -> tuple[Callable[..., Any], list[Any]]:
        def of_moving(*given: Any) -> Any:
            values = dict(zip(moving, given))
            return fun(*[values.get(i, a) for i, a in enumerate(args)])

        return of_moving, [args[i] for i in moving]

    def forward(*args: Any) -> Any:
        of_moving, point = partly(args)
        return functad.jvp(of_moving, point, tangents)[1]

    def reverse(*args: Any) -> Any:
        of_moving, point = partly(args)
        gradients = functad.grad(of_moving, tuple(range(len(point))))(*point)
        return sum(jnp.sum(jnp.where(v != 0, g, 0) * v) for g, v in zip(gradients, tangents))

    return forward if mode == "f" else reverse


def derivatives(fun: Callable[..., Any], along: Sequence[Any], modes: str) -> Callable[..., list[Any]]:
    """The function of the derivatives along a direction, as many as modes are named: of order 1, 2, …"""
    orders = []
    for mode in modes:
        fun = derivative(fun, along, mode)
        orders.append(fun)
    return lambda *args: [f(*args) for f in orders]


def scalar_valued(fun: Callable[..., Any]) -> Callable[..., Any]:
    """The sum of the real parts of a function's float results, the elements of each with weights 1, 2, 3, …"""

    def weighted(*args: Any) -> Any:
        results = [jnp.real(r) for r in functad.tree.leaves(fun(*args)) if kind_of(r.dtype) in "fc"]
        return sum(jnp.sum(r * np.arange(1, r.size + 1, dtype=r.dtype).reshape(r.shape)) for r in results)

    return weighted


def assert_agreed(found: Sequence[Any], agreed: Sequence[float], label: str, tolerance: float = 1e-5) -> None:
    got = [float(x) for x in found]
    assert len(got) == len(agreed), f"{label}: {len(got)} derivatives, {len(agreed)} are agreed on"
    assert np.allclose(got, agreed, rtol=tolerance, atol=tolerance, equal_nan=True), (
        f"{label}: the derivatives of order 1, 2, 3 are {got}, agreed on are {list(agreed)}"
    )
