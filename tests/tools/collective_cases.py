"""Functions that use collectives over the axis "i": functions of (modules, row of an array of shape (4, 4))."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Modules(NamedTuple):
    """functad's, or JAX's."""

    np: Any
    lax: Any
    grad: Any
    jit: Any
    vmap: Any
    checkpoint: Any


def _cumulated(m: Modules, x: Any) -> Any:
    def step(c: Any, _: Any) -> Any:
        return c * 0.5 + m.lax.psum(x, "i"), m.lax.pmean(c, "i")

    return m.lax.scan(step, x, None, length=3)


def _second_derivative(m: Modules, x: Any) -> Any:
    first = m.grad(lambda x: m.np.sum(m.lax.psum(x**3, "i")))
    return m.grad(lambda x: m.np.sum(first(x)))(x)


_TURN = [(0, 1), (1, 2), (2, 3), (3, 0)]

CASES: dict[str, Callable[[Modules, Any], Any]] = {
    "psum": lambda m, x: m.lax.psum(x, "i"),
    "psum of integers": lambda m, x: m.lax.psum(x.astype("int32"), "i"),
    "psum of a tree": lambda m, x: m.lax.psum({"a": x, "b": [x * 2]}, "i"),
    "psum of a number": lambda m, x: x / m.lax.psum(1, "i"),
    "psum of what is not mapped": lambda m, x: m.lax.psum(m.np.ones(3), "i") + x[:3],
    "pmean": lambda m, x: x - m.lax.pmean(x, "i"),
    "pmax": lambda m, x: m.lax.pmax(x, "i"),
    "pmin": lambda m, x: m.lax.pmin(x, "i"),
    "axis_index": lambda m, x: x[m.lax.axis_index("i")],
    "axis_size": lambda m, x: x * m.lax.axis_size("i"),
    "all_gather": lambda m, x: m.lax.all_gather(x, "i") * x,
    "all_gather along 1": lambda m, x: m.lax.all_gather(x, "i", axis=1),
    "all_gather tiled": lambda m, x: m.lax.all_gather(x, "i", tiled=True),
    "all_gather tiled along 1": lambda m, x: m.lax.all_gather(m.np.reshape(x, (2, 2)), "i", axis=1, tiled=True),
    "psum_scatter": lambda m, x: m.lax.psum_scatter(x, "i"),
    "psum_scatter tiled": lambda m, x: m.lax.psum_scatter(m.np.tile(x, 2), "i", tiled=True),
    "all_to_all": lambda m, x: m.lax.all_to_all(x, "i", 0, 0),
    "all_to_all along others": lambda m, x: m.lax.all_to_all(m.np.outer(x, x[:3]), "i", 0, 1),
    "all_to_all tiled": lambda m, x: m.lax.all_to_all(m.np.tile(x, 2), "i", 0, 0, tiled=True),
    "pswapaxes": lambda m, x: m.lax.pswapaxes(m.np.outer(x[:3], x), "i", 1),
    "ppermute": lambda m, x: m.lax.ppermute(x, "i", [(0, 1), (3, 0), (2, 2), (1, 3)]),
    "pshuffle": lambda m, x: m.lax.pshuffle(x, "i", [2, 0, 3, 1]),
    "within jit": lambda m, x: m.jit(lambda x: x / m.lax.psum(x, "i"))(x),
    "within scan": _cumulated,
    "within cond": lambda m, x: m.lax.cond(x[0] > 0, lambda x: x + m.lax.psum(x, "i") * 0, lambda x: -x, x),
    "within vmap": lambda m, x: m.vmap(lambda e: e + m.lax.psum(e, "i"))(x),
    "two axes": lambda m, x: m.vmap(lambda e: e / m.lax.psum(e, ("i", "j")), axis_name="j")(x),
    "index along two axes": lambda m, x: m.vmap(lambda e: e * m.lax.axis_index(("i", "j")), axis_name="j")(x),
    "inner axis": lambda m, x: m.vmap(lambda e: e / m.lax.psum(e, "j") + m.lax.pmax(e, "i"), axis_name="j")(x),
    "batch norm": lambda m, x: (x - m.lax.pmean(x, "i")) / m.np.sqrt(m.lax.pmean(x**2, "i") - m.lax.pmean(x, "i") ** 2),
    "grad of psum": lambda m, x: m.grad(lambda x: m.lax.psum(m.np.sum(x**2), "i"))(x),
    "grad of pmean": lambda m, x: m.grad(lambda x: m.np.sum(m.lax.pmean(x**2, "i") * x))(x),
    "grad of all_gather": lambda m, x: m.grad(lambda x: m.np.sum(m.lax.all_gather(x**2, "i") * x))(x),
    "grad of ppermute": lambda m, x: m.grad(lambda x: m.np.sum(m.lax.ppermute(x**2, "i", _TURN) * x))(x),
    "grad of a jitted mean": lambda m, x: m.grad(m.jit(lambda x: m.np.sum(m.lax.pmean(x**3, "i"))))(x),
    "grad of scan": lambda m, x: m.grad(lambda x: m.np.sum(_cumulated(m, x)[0] ** 2))(x),
    "second derivative": _second_derivative,
    "checkpointed": lambda m, x: m.grad(m.checkpoint(lambda x: m.np.sum(m.np.sin(m.lax.psum(x, "i")))))(x),
}
