"""The oracle that JAX is: the lines of a program run with its modules in the place of functad's.

Knows how to call JAX; nothing of what programs compute. Without JAX there is no such oracle.
"""

from __future__ import annotations

import importlib
import importlib.util
import random
from functools import cache
from typing import Any

import numpy as np

from .forms import Skipped, Trial
from .program import NAMES
from .rounding import every_equation

WRONG_VERSIONS = ("0.10.2",)  # a mapped product, then a reduction, is wrong on CPUs
# Where functad says something else on purpose, or JAX leaves open what happens.
OTHER = ("searchsorted", "sort(", "argsort", "bessel", "igamma", "polygamma", "zeta", "lgamma", "digamma")
# Parameters that JAX's primitives have besides.
MORE: dict[str, dict[str, Any]] = {
    "reduce_sum": {"out_sharding": None},
    "broadcast_in_dim": {"sharding": None},
    "reshape": {"dimensions": None, "sharding": None},
    **dict.fromkeys(("dot_general", "conv_general_dilated"), {"precision": None, "out_sharding": None}),
    **dict.fromkeys("exp exp2 log log1p expm1 tanh logistic sin cos tan sqrt rsqrt cbrt".split(), {"accuracy": None}),
}


@cache
def names() -> dict[str, Any]:
    """The names of a program's lines, as JAX's.

    Raises:
        Skipped: there is no JAX here that is right.
    """
    if importlib.util.find_spec("jax") is None:
        raise Skipped("JAX is not installed")
    jax = importlib.import_module("jax")
    if jax.__version__ in WRONG_VERSIONS:
        raise Skipped(f"JAX {jax.__version__} computes wrong results")
    lax, nn = jax.lax, importlib.import_module("jax.nn")

    def bind(name: str, /, *args: Any, **params: Any) -> Any:
        if name.startswith("scatter"):  # JAX's primitives hold a function besides
            return getattr(lax, name.replace("-", "_"))(*args, **params)
        primitive = getattr(lax, name.replace("-", "_") + "_p", None)
        if primitive is None:
            raise Skipped("JAX has other primitives")
        return primitive.bind(*args, **MORE.get(name, {}), **params)

    found = {name: getattr(jax, name) for name in NAMES if hasattr(jax, name)}
    found.update({name: getattr(lax, name) for name in NAMES if hasattr(lax, name)})
    found["enable_x64"] = jax.enable_x64
    return {**found, "np": np, "jnp": jax.numpy, "lax": lax, "nn": nn, "bind": bind, "dtype": np.dtype}


def jax_agrees(trial: Trial, choose: random.Random) -> str | None:
    """JAX computes the same, up to rounding and to signs of zeros."""
    program: Any = trial.program
    text = program.function.source() if hasattr(program, "function") else ""
    if not text or any(word in text for word in OTHER):
        raise Skipped("JAX says something else on purpose")
    if any(_has_subnormal(a) for a in program.args):
        raise Skipped("XLA takes subnormal numbers for zero")
    itself = Trial(program, "itself")
    equations = every_equation(itself.traced.eqns)
    if any(e.primitive.name == "pow" and e.outvars[0].aval.dtype.kind == "c" for e in equations):
        raise Skipped("JAX's complex powers of 0 are NaN")
    run = program.function.compiled(names())
    try:
        with names()["enable_x64"](True):  # not for good: other tests run in this process
            theirs = [np.asarray(x) for x in names()["jit"](run)(*map(names()["jnp"].asarray, program.args))]
    except Skipped:
        raise
    except Exception as error:  # JAX lacks what functad has
        raise Skipped(f"JAX raises {type(error).__name__}") from error
    ours = itself.expected
    if any(a.shape == b.shape and a.dtype != b.dtype for a, b in zip(ours.results, theirs)):
        raise Skipped("other promotion with x64")
    return ours.mismatch([_unflushed(a, b) for a, b in zip(ours.results, theirs)], signs=False)


def _has_subnormal(x: np.ndarray) -> bool:
    if x.dtype.kind != "f":
        return False
    return bool(np.any((x != 0) & (np.abs(x) < np.finfo(x.dtype).tiny)))


def _unflushed(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """JAX's result with ours where XLA took a subnormal number for zero."""
    if ours.shape != theirs.shape or ours.dtype.kind != "f":
        return theirs
    return np.where((theirs == 0) & (np.abs(ours) < np.finfo(ours.dtype).tiny), ours, theirs)
