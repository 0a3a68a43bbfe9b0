"""Kernels that call LAPACK: the same as un-jitted, without Python, one matrix whatever becomes of the others."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax, machine_model
from functad.backends.cpu.kernels.polls import with_polls
from functad.backends.cpu.products import blas
from functad.lowering.python_functions import NumpyFunction
from functad.system import lapack

RNG = np.random.default_rng(5)
DTYPES = ("float32", "float64", "complex64", "complex128")
MEDIUM = machine_model.SMALL_MATRIX + 1
needs_lapack = pytest.mark.skipif(
    not blas.has_routine("potrf", np.float64), reason="compiled code multiplies by a library that is not NumPy's LAPACK"
)


def _solved(a, **params):
    return lax.linalg.triangular_solve(a, a[..., :3, :].mT, left_side=True, **params)


PROGRAMS = {
    "potrf": lambda a: lax.linalg.cholesky(a @ a.mT.conj()),
    "getrf": lax.linalg.lu,
    "trsm": lambda a: [
        _solved(a),
        _solved(a, lower=True, transpose_a=True, unit_diagonal=True),
        _solved(a, conjugate_a=True),
        lax.linalg.triangular_solve(a, a[..., :3, :], transpose_a=True, conjugate_a=True),
    ],
    "geqrf": lambda a: [*lax.linalg.geqrf(a), *lax.linalg.qr(a, full_matrices=False)],
    "gqr": lambda a: lax.linalg.householder_product(*lax.linalg.geqrf(a)),
    "evd": lambda a: [*lax.linalg.eigh(a), *lax.linalg.eigh(a, lower=False)],
    "gesdd": lambda a: [lax.linalg.svd(a, compute_uv=False), *lax.linalg.svd(a)],
}


def numbers(dtype, *shape):
    x = RNG.normal(size=shape) + 1j * RNG.normal(size=shape)
    return jnp.asarray((x if np.dtype(dtype).kind == "c" else x.real).astype(dtype))


def assert_the_same(fun, x):
    found, wanted = (functad.tree.leaves(f(x)) for f in (functad.jit(fun), fun))
    tolerance = 2e-4 if np.finfo(x.dtype).bits == 32 else 1e-11
    for one, other in zip(found, wanted, strict=True):
        one, other = np.asarray(one), np.asarray(other)
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * np.nanmax(np.abs(other), initial=1))


@needs_lapack
@pytest.mark.parametrize(
    ("name", "dtype"), [(name, dtype) for name in PROGRAMS for dtype in DTYPES[:: 1 if name == "potrf" else 3]]
)
def test_no_python_runs(name, dtype, monkeypatch):
    a = numbers(dtype, 2, MEDIUM, MEDIUM) + 9 * jnp.eye(MEDIUM, dtype=dtype)
    wanted, jitted = PROGRAMS[name](a), functad.jit(PROGRAMS[name])
    assert f"{name}(" in jitted.lower(a).kernels

    def fail(*args, **kwargs):
        raise AssertionError("Python runs")

    monkeypatch.setattr(NumpyFunction, "run", fail)
    monkeypatch.setattr(lapack, "apply", fail)
    for one, other in zip(functad.tree.leaves(jitted(a)), functad.tree.leaves(wanted), strict=True):
        tolerance = 2e-4 if np.finfo(a.dtype).bits == 32 else 1e-11
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * float(abs(other).max()))


@pytest.mark.parametrize("shape", [(35, 33), (2, 33, 35), (1, 3)])
@pytest.mark.parametrize("name", ["getrf", "geqrf", "gesdd"])
def test_matrices_that_are_not_square(name, shape):
    assert_the_same(PROGRAMS[name], numbers("float64", *shape))
    if name == "geqrf":
        assert_the_same(lambda a: lax.linalg.qr(a, full_matrices=True), numbers("complex64", *shape))


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
@pytest.mark.parametrize("name", ["cholesky", "eigh", "svd"])
def test_a_matrix_without_a_factorisation_is_nan_and_leaves_the_others(name, dtype):
    fun = {"cholesky": lambda a: lax.linalg.cholesky(a, symmetrize_input=False)}.get(name, getattr(lax.linalg, name))
    a = np.array(numbers(dtype, 3, MEDIUM, MEDIUM))
    a = a @ np.swapaxes(a, -1, -2).conj()
    a[1] = -np.eye(MEDIUM) if name == "cholesky" else np.nan
    for one, other in zip(functad.tree.leaves(functad.jit(fun)(a)), functad.tree.leaves(fun(a)), strict=True):
        one, other = np.asarray(one), np.asarray(other)
        np.testing.assert_array_equal(np.isnan(one), np.isnan(other))
        assert np.isnan(one[1]).any() and np.isfinite(one[[0, 2]]).all()
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-4 * np.nanmax(np.abs(other)))


@needs_lapack
def test_a_routine_that_is_gone_is_an_error(monkeypatch):
    """A plan on disk may name one that another library had."""
    monkeypatch.setattr(lapack, "routine_address", lambda name, dtype: 0)
    with pytest.raises(functad.errors.NoRuleError, match="gesvx for float64 is a routine of LAPACK"):
        blas.named_handle("gesvx_float64")


def test_singular_and_empty_matrices():
    assert_the_same(lax.linalg.lu, jnp.ones((MEDIUM, MEDIUM)))
    with np.errstate(all="ignore"):
        found = functad.jit(_solved)(jnp.zeros((MEDIUM, MEDIUM)) + jnp.eye(MEDIUM)[0])
    np.testing.assert_array_equal(found, _solved(jnp.zeros((MEDIUM, MEDIUM)) + jnp.eye(MEDIUM)[0]))
    assert functad.jit(lax.linalg.qr)(jnp.zeros((0, 3)))[1].shape == (0, 3)


@pytest.mark.parametrize("changed", ["has_routine", "ROUTINE_BYTES", "ONE_THREAD_MATRIX"])
def test_python_calls_where_kernels_cannot_or_shall_not(changed, monkeypatch):
    if changed == "has_routine":
        monkeypatch.setattr(lapack, "has", lambda name, dtype=None: False)
    else:
        monkeypatch.setattr(machine_model, changed, 32)
    a = numbers("float32", 33, 33)
    assert "lapack_" not in functad.jit(PROGRAMS["evd"]).lower(a).kernels
    assert_the_same(lambda a: lax.linalg.eigh(a + 1), a)


def test_loops_and_threads_give_what_one_thread_gives():
    def fun(a):
        steps = lax.fori_loop(0, 3, lambda k, x: jnp.linalg.solve(a + 30 * jnp.eye(a.shape[-1]), x), a)
        return [steps, *jnp.linalg.eigh(a)]

    a = numbers("float64", 8, 40, 40)
    assert_the_same(fun, a)
    alone = list(map(functad.jit(fun), a))
    for k, together in enumerate(functad.jit(functad.vmap(fun))(a)):
        np.testing.assert_allclose(together, np.stack([x[k] for x in alone]), rtol=0, atol=1e-9)


def test_a_call_counts_as_long_so_that_signals_are_seen_between_a_few():
    text = "for r in range(start, stop):\n    info = lapack_potrf(potrf, 85, 40, out, 1600 * r, 40)\n"
    assert with_polls(text, ["potrf", "out"]).work >= machine_model.POLL_WORK / 8
