"""The calls of `numpy_cases` without JAX: the values are NumPy's, and the same under `jit`."""

from __future__ import annotations

import numpy as np
import pytest
from numpy_cases import CASES

import functad
import functad.numpy as jnp
from functad.errors import ConcretizationError

# Where JAX, and so functad, decides otherwise than NumPy.
DIFFERS_FROM_NUMPY = {
    "floor_divide-uint8[3, 4]-int8[3, 4]": "an integer divided by zero",
    "divmod-int32[3, 4]-int32[3, 4]": "an integer divided by zero",
    "polydiv-float32[4]-float32[2]": "the remainder is as long as what is divided",
    "cumsum-float16[3, 4]": "NumPy rounds each partial sum",
    "nancumsum-float16[3, 4]": "NumPy rounds each partial sum",
    "nanpercentile-float32[2, 4]-float-axis=0": "between infinities",
    "unique_values-int32[10]": "NumPy does not sort",
    "method-sort": "NumPy's method sorts in place and returns nothing",
}
# What only NumPy's or only functad's arrays have: .at, mT, size=, mode="fill", keywords of JAX, …
ABSENT_IN_NUMPY = (AttributeError, TypeError, ValueError)


def name_of(case):
    return case.id.partition("-")[2]


def numpy_result(case):
    function, args = case.values
    with np.errstate(all="ignore"):
        return functad.tree.leaves(function(np, *args))


def comparable(case):
    if name_of(case) in DIFFERS_FROM_NUMPY:
        return False
    try:
        numpy_result(case)
    except ABSENT_IN_NUMPY:
        return False
    return True


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::DeprecationWarning")
def test_values_are_numpys():
    compared = 0
    for case in CASES:
        if not comparable(case):
            continue
        function, args = case.values
        found, expected = functad.tree.leaves(function(jnp, *args)), numpy_result(case)
        assert len(found) == len(expected), case.id
        for ours, theirs in zip(found, expected):
            if isinstance(theirs, np.dtype):
                continue
            ours = np.asarray(ours)
            tolerance = 5e-3 if np.float16 in (ours.dtype, np.asarray(theirs).dtype) else 1e-4
            np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance, err_msg=case.id)
        compared += 1
    assert compared > 1500


# Their results have shapes that depend on values, or are no arrays, so they cannot be traced.
NEEDS_VALUES = (
    "repeat-", "where-bool[3, 4]", "nonzero-bool[3, 4]", "flatnonzero-", "argwhere-bool[3, 4]", "compress-", "extract-",
    "delete-", "insert-", "unique", "union1d-", "intersect1d-", "setdiff1d-", "setxor1d-", "bincount-", "trim_zeros-",
    "polymul-float32[3]", "polydiv-float32[3]", "roots",
    "method-item", "method-tolist", "method-contains", "method-nonzero",
)  # fmt: skip
NO_ARRAYS = ("result_type-", "promote_types-")


@pytest.mark.generated(every=24)
@pytest.mark.parametrize(("function", "args"), [c for c in CASES if not name_of(c).startswith(NO_ARRAYS)])
def test_jit_gives_the_same(function, args, request):
    arrays = [a for a in args if isinstance(a, np.ndarray)]

    def run(*xs):
        given = iter(xs)
        return function(jnp, *[next(given) if isinstance(a, np.ndarray) else a for a in args])

    expected = functad.tree.leaves(run(*arrays))
    try:
        found = functad.tree.leaves(functad.jit(run)(*arrays))
    except ConcretizationError:
        assert request.node.callspec.id.partition("-")[2].startswith(NEEDS_VALUES)
        return
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected):
        if isinstance(theirs, jnp.ndarray):
            assert ours.aval == theirs.aval
        np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-5, atol=1e-6)
