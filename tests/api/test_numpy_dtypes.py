"""The option `numpy_dtypes`: whether NumPy's 64-bit values are cut to 32 bits where they come in."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad.config import config
from functad.errors import ArgumentError

WIDE = np.array([1.5, 1e300])


def test_the_default_keeps_64_bits():
    assert config.numpy_dtypes == "keep"
    assert jnp.asarray(WIDE).dtype == np.float64
    with pytest.raises(ArgumentError, match="'numpy_dtypes' .* takes 'keep' or 'jax', got 'cut'"):
        config.update("numpy_dtypes", "cut")


def test_a_jitted_function_is_traced_anew_for_another_value_of_the_option():
    constant = functad.jit(lambda: WIDE)
    double = functad.jit(lambda x: x * 2)
    for _ in range(2):
        for value, dtype in (("keep", np.float64), ("jax", np.float32)):
            with config.context(numpy_dtypes=value):
                for _ in range(2):  # the first by the long way, then by the short one
                    assert double(WIDE).dtype == dtype
                    assert constant().dtype == dtype
    assert np.isinf(double(WIDE)[1]) == np.False_
    with config.context(numpy_dtypes="jax"):
        assert double(WIDE).tolist() == [3.0, np.inf]
        assert double(np.array([1.0, 3.0])).tolist() == [2.0, 6.0]


def test_integers_wrap_and_scalars_are_no_longer_weak():
    with config.context(numpy_dtypes="jax"):
        assert jnp.asarray(np.array([2**40 + 3])).tolist() == [3]
        assert (jnp.ones(2, "float16") * np.float64(2)).dtype == np.float32
        assert not jnp.asarray(np.float64(2)).weak_type


def test_arrays_keep_64_bits_and_dtypes_that_are_asked_for_are_cut():
    wide = jnp.asarray(WIDE)
    asked = {
        "asarray": lambda: jnp.asarray(WIDE, dtype="float64"),
        "zeros": lambda: jnp.zeros(2, np.int64),
        "astype": lambda: jnp.ones(2).astype("complex128"),
        "sum": lambda: jnp.sum(jnp.ones(2), dtype="float64"),
        "scalar type": lambda: jnp.float64(2),
        "lax": lambda: functad.lax.full((2,), 1, "uint64"),
        "random": lambda: functad.random.normal(functad.random.key(0), (2,), "float64"),
        "shape": lambda: functad.eval_shape(lambda x: x, functad.ShapeDtypeStruct((2,), "float64")),
        "jit": lambda: functad.jit(lambda x: x.astype("float64"))(jnp.ones(2)),
    }
    with config.context(numpy_dtypes="jax"):
        assert (wide * 2).dtype == np.float64
        assert {name: f().dtype.itemsize for name, f in asked.items()} == dict.fromkeys(asked, 4) | {"astype": 8}
        with functad.enable_x64(True):
            assert {name: f().dtype.itemsize for name, f in asked.items()} == dict.fromkeys(asked, 8) | {"astype": 16}
    assert jnp.zeros(2, "float64").dtype == jnp.float64(2).dtype == np.float64


def test_the_users_array_is_untouched():
    given = WIDE.copy()
    with config.context(numpy_dtypes="jax"):
        functad.jit(lambda x: x + 1)(given)
        jnp.asarray(given)
    assert given.dtype == np.float64 and given.flags.writeable and given.tolist() == WIDE.tolist()
