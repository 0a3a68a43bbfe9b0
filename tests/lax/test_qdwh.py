"""The polar decomposition by iterations."""

from __future__ import annotations

import numpy as np
import pytest

import functad
from functad import lax
from functad.errors import DTypeError, ShapeError


@pytest.mark.parametrize("dtype, steps", [(np.float32, 4), (np.float64, 6), (np.complex128, 6)])
def test_factors(dtype, steps):
    random = np.random.default_rng(0)
    a = random.normal(size=(6, 4)) + (1j * random.normal(size=(6, 4)) if dtype == np.complex128 else 0)
    a, tolerance = a.astype(dtype), 1e-5 if dtype == np.float32 else 1e-13
    u, h, count, is_converged = functad.jit(lax.linalg.qdwh)(a)
    assert int(count) == steps and bool(is_converged)
    np.testing.assert_allclose(u @ h, a, atol=tolerance)
    np.testing.assert_allclose(np.conj(u).T @ u, np.eye(4), atol=tolerance)
    np.testing.assert_array_equal(np.asarray(h), np.conj(h).T)
    assert (np.linalg.eigvalsh(h) > 0).all()


def test_a_padded_matrix_and_few_iterations():
    a = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)
    padded = np.full((6, 4), 9, np.float32)
    padded[:5, :3] = a
    u, h, *_ = lax.linalg.qdwh(padded, dynamic_shape=(5, 3))
    np.testing.assert_allclose(u[:5, :3], lax.linalg.qdwh(a)[0], atol=1e-5)
    assert not np.asarray(u)[:, 3].any() and not np.asarray(h)[3].any()
    *_, count, is_converged = lax.linalg.qdwh(a, max_iterations=2)
    assert int(count) == 2 and not bool(is_converged)


@pytest.mark.parametrize("size", [1e25, 1e-25])
def test_large_and_small_numbers(size):
    a = np.random.default_rng(2).normal(size=(4, 4)).astype(np.float32)
    u, h, *_ = lax.linalg.qdwh(a * np.float32(size))
    np.testing.assert_allclose(u, lax.linalg.qdwh(a)[0], atol=1e-5)
    np.testing.assert_allclose(h / np.float32(size), lax.linalg.qdwh(a)[1], atol=1e-5)


def test_errors():
    with pytest.raises(ShapeError, match="at least as many rows as columns"):
        lax.linalg.qdwh(np.ones((2, 3), np.float32))
    with pytest.raises(DTypeError, match="takes floats"):
        lax.linalg.qdwh(np.ones((2, 2), np.int32))
