"""Python integers outside of the range of the arrays that they meet: taken modulo 2ⁿ, as traced integers are."""

from __future__ import annotations

import numpy as np
import pytest
from python_integer_cases import CASES, REFUSED

import functad
import functad.numpy as jnp
from functad.errors import DTypeError, RangeError

X = np.array([0, 1, 5], np.uint8)


def all_cases(x, k):
    return {name: case(functad, x, k) for name, case in CASES.items()}


@pytest.fixture(scope="module", params=[-3, 300])
def found(request):
    return request.param, all_cases(jnp.asarray(X), request.param)


def same(found, expected, at=...):
    for name, value in expected.items():
        assert found[name].dtype == value.dtype, name
        np.testing.assert_allclose(np.asarray(found[name])[at], value, rtol=1e-6, err_msg=name)


def test_a_python_integer_is_like_an_array_of_rank_0(found):
    k, values = found
    same(values, all_cases(jnp.asarray(X), jnp.asarray(k)))


def test_compiled_it_is_the_same(found):
    k, values = found
    same(functad.jit(lambda x: all_cases(x, k))(X), values)
    same(functad.jit(all_cases)(X, k), values)


def test_mapped_it_is_the_same(found):
    k, values = found
    same(functad.vmap(lambda x: all_cases(x, k))(np.stack([X[::-1], X])), values, at=1)


def test_values_are_those_modulo_a_power_of_2():
    x = jnp.array([0, 1, 5], "uint32")
    assert (x + (-1)).tolist() == [2**32 - 1, 0, 4] and (x == -1).tolist() == [False] * 3
    assert (x + (2**32 - 1)).tolist() == [2**32 - 1, 0, 4]
    assert jnp.full(2, -1, "uint8").tolist() == [255, 255] and (jnp.zeros(1, "int8") + 200).tolist() == [-56]
    assert jnp.where(x > 1, x, -1).tolist() == [2**32 - 1, 2**32 - 1, 5]
    assert (x / -2).tolist() == [0, -0.5, -2.5]
    with functad.enable_x64(True):
        assert (x + (2**40 + 1)).tolist() == [1, 2, 6] and jnp.full(1, -1, "uint64").tolist() == [2**64 - 1]


@pytest.mark.parametrize("name", REFUSED)
def test_where_a_dtype_is_named_it_must_fit(name):
    with pytest.raises(RangeError, match="does not fit in") as info:
        REFUSED[name](functad)
    assert isinstance(info.value, OverflowError) and isinstance(info.value, DTypeError)
