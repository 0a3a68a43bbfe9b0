"""Typed keys against JAX: values, shapes and dtypes under all transforms, printed forms, and what raises."""

from __future__ import annotations

import numpy as np
import pytest

import functad
from functad import random

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

from tests.tools.key_cases import CASES, REFUSED, REFUSED_OF_VALUES  # noqa: E402


def _plain(m, x):
    """The type of a value and its elements, words of keys."""
    x = m.numpy.asarray(x)
    is_key = m.dtypes.issubdtype(x.dtype, m.dtypes.prng_key)
    return str(x.dtype), x.shape, np.asarray(m.random.key_data(x) if is_key else x)


def _assert_same(ours, theirs):
    ours, theirs = functad.tree.leaves(ours), jax.tree.leaves(theirs)
    for a, b in zip(ours, theirs, strict=True):
        (dtype, shape, values), (wanted, wanted_shape, expected) = _plain(functad, a), _plain(jax, b)
        assert (dtype, shape) == (wanted, wanted_shape)
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(values, expected, rtol=2e-6, atol=1e-6)
        else:
            np.testing.assert_array_equal(values, expected)


def _arguments(m):
    key = m.random.key(3)
    return key, m.random.split(key, 3), np.float32(2)


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_programs_with_keys(name, jitted):
    found = []
    for m in (functad, jax):
        fun = lambda k, ks, x, m=m: CASES[name](m, k, ks, x)  # noqa: E731
        found.append((m.jit(fun) if jitted else fun)(*_arguments(m)))
    _assert_same(*found)


@pytest.mark.parametrize("name", [*REFUSED, *REFUSED_OF_VALUES])
def test_both_refuse(name):
    case = {**REFUSED, **REFUSED_OF_VALUES}[name]
    for m in (functad, jax):
        key, keys, _ = _arguments(m)
        with pytest.raises((TypeError, ValueError, AssertionError, NotImplementedError)):
            case(m, key, keys)


@pytest.mark.parametrize("fun", [repr, str, "{}".format, lambda k: str(k.dtype), lambda k: k.dtype.name])
def test_what_is_printed(fun):
    for shape in ((), (3,), (3, 1), (0,)):
        assert fun(random.split(random.key(0), shape)) == fun(jax.random.split(jax.random.key(0), shape))


@pytest.mark.parametrize("fun", [
    lambda m: lambda k: m.random.split(k),
    lambda m: lambda k: m.random.fold_in(k, 1),
    lambda m: lambda k: m.random.bits(k, (2,)),
    lambda m: lambda k: m.random.bits(m.random.key_data(k)),
    lambda m: lambda k: m.random.clone(k),
])  # fmt: skip
def test_printed_programs(fun):
    ours, theirs = (str(m.make_jaxpr(fun(m))(m.random.key(0))) for m in (functad, jax))
    assert ours == theirs


def test_types_without_values():
    for m in (functad, jax):
        key = m.ShapeDtypeStruct((), m.random.key(0).dtype)
        out = m.eval_shape(lambda k, m=m: (m.random.split(k), m.random.normal(k, (2,))), key)
        assert (out[0].shape, str(out[0].dtype), out[1].shape) == ((2,), "key<fry>", (2,))


@pytest.mark.parametrize("kind", ["prng_key", "extended"])
def test_kinds_of_dtypes(kind):
    for m in (functad, jax):
        wanted = getattr(m.dtypes, kind)
        for issubdtype in (m.numpy.issubdtype, m.dtypes.issubdtype):
            assert issubdtype(m.random.key(0).dtype, wanted)
            assert not issubdtype(np.dtype("uint32"), wanted)
            assert not issubdtype(m.random.key(0).dtype, np.number)


def test_generators():
    for m in (functad, jax):
        assert m.random.key_impl(m.random.key(0)) == m.random.key_impl(m.random.PRNGKey(0)) == "threefry2x32"
        same = m.random.key(3, impl=m.random.key_impl(m.random.key(0)))
        assert bool(same == m.random.key(3, dtype=same.dtype))
