"""Which results of Python's numbers and of weak arrays are weak, of all functions that take them: as JAX has it."""

from __future__ import annotations

import importlib
import inspect
import warnings
from typing import Any

import pytest

import functad

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

MODULES = ["numpy", "numpy.linalg", "lax", "nn", "scipy.special", "scipy.stats"]
OPERANDS = {
    "floats": lambda m: 0.5,
    "integers": lambda m: 2,
    "complex": lambda m: 0.5 + 1j,
    "array": lambda m: m.numpy.broadcast_to(m.numpy.asarray(0.5), (3,)),
}

# Comparisons of weak numbers are weak booleans in JAX, which means nothing: no dtype that they meet could change.
# JAX loses the weakness of these by the way in which it computes them, though not of others of their kind.
KEPT = {
    "numpy": "angle diagflat floor_divide divmod rint spacing",
    "nn": "gelu",
    "scipy.special": "multigammaln",
    "scipy.stats": "poisson.entropy uniform.cdf truncnorm.cdf truncnorm.sf truncnorm.pdf truncnorm.logcdf "
    "truncnorm.logpdf truncnorm.logsf",
}
# Here strong positions have the dtype of what they choose among, or something goes through strong steps.
LOST = {"numpy": "take unravel_index", "numpy.linalg": "tensorsolve", "lax": "conj igamma_grad_a"}
# The number of points is 0.5, which JAX takes for 0 and functad for 1; tokens have no type in JAX.
OTHER = {"numpy": "kaiser", "lax": "after_all create_token"}


def functions(module: str) -> list[tuple[str, Any, Any]]:
    """The functions of a module that JAX and functad have; of `scipy.stats` those of all distributions."""
    theirs, ours = (importlib.import_module(f"{m.__name__}.{module}") for m in (jax, functad))
    if module == "scipy.stats":
        names = [n for n in dir(theirs) if inspect.ismodule(getattr(theirs, n)) and n in dir(ours)]
        return [(f"{n}.{f}", a, b) for n in names for f, a, b in functions(f"{module}.{n}")]
    names = [n for n in dir(theirs) if not n.startswith("_") and n in dir(ours)]
    pairs = [(n, getattr(theirs, n), getattr(ours, n)) for n in names]
    return [(n, a, b) for n, a, b in pairs if callable(a) and callable(b) and not isinstance(a, type)]


@pytest.mark.parametrize("operand", OPERANDS)
@pytest.mark.parametrize("module", MODULES)
def test_weak_types(module, operand):
    kept, lost, other = ((table.get(module) or "").split() for table in (KEPT, LOST, OTHER))
    wrong = []
    for name, theirs, ours in functions(module):
        for count in (1, 2, 3) if module == "scipy.stats" else (1, 2):
            pair = both(theirs, ours, OPERANDS[operand], count)
            for found, expected in zip(*pair) if name not in other else ():
                may_be_weak = found.weak_type and (name in kept or operand == "array")
                may_differ = may_be_weak or expected.weak_type and name in lost or found.dtype == bool
                if (found.shape, found.dtype) != (expected.shape, expected.dtype):
                    wrong.append(f"{name} of {count}: {found}, in JAX {expected}")
                elif found.weak_type != expected.weak_type and not may_differ:
                    wrong.append(f"{name} of {count}: weak_type={found.weak_type}")
    assert not wrong, "\n".join(wrong)


def both(theirs: Any, ours: Any, operand: Any, count: int) -> tuple[list[Any], list[Any]]:
    """The types of the results, ours and theirs; none where one of them refuses such arguments."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = jax.tree.leaves(jax.eval_shape(lambda: theirs(*[operand(jax)] * count)))
            found = functad.tree.leaves(ours(*[operand(functad)] * count))
        except Exception:  # most functions take other numbers of arguments, or other ones
            return [], []
    return (found, expected) if all(isinstance(x, functad.Array) for x in found) else ([], [])


def test_weak_results_of_branches_are_those_of_the_first():
    """Of `cond` that is the branch of False: `eqx.error_if` counts on it."""

    def flags(m: Any) -> list[bool]:
        weak, strong, pred = m.numpy.asarray(1.0), m.numpy.float32(2), m.numpy.asarray(True)
        pairs = [(weak, strong), (strong, weak), (weak, weak)]
        out = [m.lax.cond(pred, lambda a=a: a, lambda b=b: b) for a, b in pairs]
        out += [m.jit(lambda p, a=a, b=b: m.lax.cond(p, lambda: a, lambda: b))(pred) for a, b in pairs]
        return [x.weak_type for x in (*out, *(m.lax.switch(1, [lambda a=a: a, lambda b=b: b]) for a, b in pairs))]

    assert flags(functad) == flags(jax)
