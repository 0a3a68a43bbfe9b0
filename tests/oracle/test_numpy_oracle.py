"""`functad.numpy` compared with `jax.numpy`: value, shape, dtype and weak type of the same call."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from numpy_cases import CASES

import functad
import functad.numpy as fnp

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")
import jax.numpy as jnp  # noqa: E402

# --- the comparison ---------------------------------------------------------------------------------

TOLERANCES = {"float16": 5e-3, "float32": 2e-5, "complex64": 2e-5}
# JAX forgets here that an integer array and a Python float make a weak float, as they do in `x + 2.5`.
FORGETS_WEAK = ("logaddexp2-int32[3, 4]-float", "hypot-int32[3, 4]-float", "heaviside-int32[3, 4]-float")
FORGETS_WEAK += ("operator-floordiv", "floor_divide-int32[3, 4]-float", "floor_divide-float-int")  # up to 0.10.1


CHUNK = 64


@functools.cache
def expected_chunk(first):
    """What JAX gives for the cases from `first` on: those that can be traced in one compiled function."""
    results, traced = {}, []
    for number, parameters in enumerate(CASES[first : first + CHUNK], first):
        function, args = parameters.values
        arrays = [a for a in args if isinstance(a, np.ndarray)]
        try:
            jax.eval_shape(lambda *xs, f=function, args=args: array_leaves(f, args, xs)[0], *arrays)
            traced.append((number, function, args, arrays))
        except (TypeError, jax.errors.JAXTypeError, jax.errors.JAXIndexError):
            results[number] = jax.tree.leaves(function(jnp, *args))
    others = {}

    def run(inputs):
        outputs = []
        for (number, function, args, _), arrays in zip(traced, inputs):
            found, others[number] = array_leaves(function, args, arrays)
            outputs.append(found)
        return outputs

    outputs = jax.jit(run)([arrays for *_, arrays in traced])
    for (number, *_), found in zip(traced, outputs):
        rest = iter(found)
        results[number] = [next(rest) if leaf is None else leaf for leaf in others[number]]
    return results


def array_leaves(function, args, arrays):
    """The array leaves of a result, and all leaves with None in their place."""
    given = iter(arrays)
    leaves = jax.tree.leaves(function(jnp, *[next(given) if isinstance(a, np.ndarray) else a for a in args]))
    return (
        [x for x in leaves if isinstance(x, jax.Array)],
        [None if isinstance(x, jax.Array) else x for x in leaves],
    )


def describe(x):
    if isinstance(x, (fnp.ndarray, jax.Array)):
        weak = bool(x.weak_type) and x.dtype != bool  # a weak bool promotes like any other
        return x.shape, np.dtype(x.dtype).name, weak
    return type(x).__name__


@pytest.mark.parametrize(("function", "args"), CASES)
def test_like_jax(function, args, request):
    number = int(request.node.callspec.id.partition("-")[0])
    expected = expected_chunk(number - number % CHUNK)[number]
    found = functad.tree.leaves(function(fnp, *args))
    types, expected_types = ([describe(x) for x in leaves] for leaves in (found, expected))
    if request.node.callspec.id.endswith(FORGETS_WEAK):
        types, expected_types = ([t[:2] for t in ts] for ts in (types, expected_types))
    assert types == expected_types
    for ours, theirs in zip(found, expected):
        if not isinstance(theirs, jax.Array):
            assert ours == theirs
            continue
        theirs = np.asarray(theirs)
        tolerance = TOLERANCES.get(theirs.dtype.name, 0)
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=tolerance, atol=tolerance)
