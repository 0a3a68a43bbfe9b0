"""Factorisations by LAPACK, matrix by matrix, beside NumPy's in double precision, and the dtypes they compute in."""

from __future__ import annotations

import numpy as np
import pytest

from functad.primitives.kernels import factorisations, spectra
from functad.system import lapack

DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
SHAPES = [(1, 1), (5, 5), (3, 7, 4), (3, 4, 7), (2, 3, 6, 6), (100, 70), (300, 3, 3)]
SQUARE = [shape for shape in SHAPES if shape[-1] == shape[-2]]


def matrices(shape, dtype):
    rng = np.random.default_rng(0)
    x = rng.normal(size=shape) + (1j * rng.normal(size=shape) if dtype.startswith("complex") else 0)
    return x.astype(dtype)


def close(found, wanted, like):
    assert found.dtype == wanted.dtype or found.dtype == like.real.dtype
    assert found.shape == wanted.shape
    tolerance = 1e-3 if like.real.dtype == np.float32 else 1e-11
    np.testing.assert_allclose(found, wanted, atol=tolerance * np.abs(wanted).max(), rtol=tolerance)


def positive(shape, dtype):
    """Positive definite matrices with eigenvalues apart from one another."""
    q, _ = np.linalg.qr(matrices(shape, dtype).astype(np.complex128 if "complex" in dtype else np.float64))
    n = shape[-1]
    return ((q * (1 + np.arange(n))) @ np.swapaxes(q, -1, -2).conj()).astype(dtype)


@DTYPES
@pytest.mark.parametrize("shape", SQUARE)
def test_cholesky_reads_the_lower_triangle(shape, dtype):
    a = positive(shape, dtype)
    noise = a + np.triu(matrices(shape, dtype), 1)
    close(factorisations.cholesky(noise), np.linalg.cholesky(a), a)


@DTYPES
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("shape", SQUARE)
def test_eigenvectors_read_one_triangle(shape, lower, dtype):
    a, noise = positive(shape, dtype), matrices(shape, dtype)
    read = a + (np.triu(noise, 1) if lower else np.tril(noise, -1))
    v, w = spectra.eigh(read, lower=lower)
    close(w, np.linalg.eigvalsh(a), a)
    close((v * w[..., None, :]) @ np.swapaxes(v, -1, -2).conj(), a, a)


@DTYPES
@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_singular_values_and_qr(shape, full, dtype):
    a, k = matrices(shape, dtype), min(shape[-2:])
    s, u, vt = spectra.svd(a, full_matrices=full, compute_uv=True)
    wanted = np.linalg.svd(a, full_matrices=full)
    assert u.shape == wanted[0].shape and vt.shape == wanted[2].shape and u.dtype == vt.dtype == a.dtype
    close(s, wanted[1], a)
    close((u[..., :k] * s[..., None, :]) @ vt[..., :k, :], a, a)
    close(
        np.swapaxes(u, -1, -2).conj() @ u,
        np.broadcast_to(np.eye(u.shape[-1], dtype=a.dtype), (*shape[:-2], *2 * u.shape[-1:])),
        a,
    )
    close(spectra.svd(a, full_matrices=full, compute_uv=False)[0], wanted[1], a)
    for found, other in zip(
        factorisations.qr(a, full_matrices=full), np.linalg.qr(a, "complete" if full else "reduced"), strict=True
    ):
        close(found, other, a)


@pytest.mark.parametrize("spoilt", [np.nan, np.inf])
def test_one_spoilt_matrix_leaves_the_others_as_they_are(spoilt):
    a = np.stack([np.eye(5), np.full((5, 5), spoilt), 2 * np.eye(5)]).astype(np.float32)
    others = a[[0, 2]]
    for function, params in [
        (factorisations.qr, {"full_matrices": True}),
        (spectra.eigh, {"lower": True}),
        (spectra.svd, {"full_matrices": True, "compute_uv": True}),
    ]:
        for found, wanted in zip(function(a, **params), function(others, **params), strict=True):
            np.testing.assert_array_equal(found[[0, 2]], wanted)
            assert not np.isfinite(found[1]).any() or function is factorisations.qr and np.isnan(found[1]).any()
    a[1] = -np.eye(5)
    found = factorisations.cholesky(a)
    assert np.isnan(found[1][np.tril_indices(5)]).all() and np.isfinite(found[[0, 2]]).all()
    assert not np.triu(found, 1).any()


@pytest.mark.parametrize("name", ["cholesky", "eigh", "qr", "svd"])
def test_float32_is_computed_in_float32(name, monkeypatch):
    """NumPy's functions convert to float64 and back, which takes twice the time."""
    called, apply = [], lapack.apply
    monkeypatch.setattr(lapack, "apply", lambda *args, **kwargs: called.append(args[:2]) or apply(*args, **kwargs))
    a = positive((6, 6), "float32")
    getattr(spectra if name in ("eigh", "svd") else factorisations, name)(a, **PARAMS.get(name, {}))
    assert called and {np.dtype(dtype) for _, dtype in called} == {np.dtype(np.float32)}


PARAMS = {"eigh": {"lower": True}, "qr": {"full_matrices": False}, "svd": {"full_matrices": False, "compute_uv": True}}


@pytest.mark.parametrize("count", [1, 16, 17, 50])
def test_orders_of_rows_are_those_of_exchanges(count):
    pivots = np.random.default_rng(1).integers(0, 9, (count, 6))
    for row, found in zip(pivots, factorisations.permutation_of(pivots, 9), strict=True):
        order = np.arange(9)
        for j, other in enumerate(row):
            order[[j, other]] = order[[other, j]]
        np.testing.assert_array_equal(found, order)
