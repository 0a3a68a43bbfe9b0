"""Kernels of small matrices, and calls of LAPACK from compiled code: the same as un-jitted, in every process."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import functad
from functad import lax, machine_model
from functad.primitives.kernels import factorisations, systems
from functad.system import lapack

RNG = np.random.default_rng(3)
LIMIT = machine_model.SMALL_MATRIX
PROGRAMS = {
    "cholesky": lambda a, b: lax.linalg.cholesky(a @ a.mT.conj() + functad.numpy.eye(a.shape[-1], dtype=a.dtype)),
    "lu": lambda a, b: lax.linalg.lu(a),
    "solve": lambda a, b: functad.numpy.linalg.solve(a, b),
    "from the right": lambda a, b: lax.linalg.triangular_solve(a + 9, b.mT, transpose_a=True, lower=True),
    "eigenvalues": lambda a, b: functad.numpy.linalg.eigvalsh(a),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("n", [1, 2, 5, LIMIT, LIMIT + 1])
@pytest.mark.parametrize("name", PROGRAMS)
def test_jitted_is_un_jitted(name, n, dtype):
    a, b = (RNG.normal(size=(3, n, k)) + 1j * RNG.normal(size=(3, n, k)) for k in (n, 2))
    a, b = (functad.numpy.asarray(x if dtype == "complex64" else x.real, dtype) for x in (a, b))
    found = functad.tree.leaves(functad.jit(PROGRAMS[name])(a, b))
    tolerance = 1e-9 if dtype == "float64" else 2e-2
    for one, other in zip(found, functad.tree.leaves(PROGRAMS[name](a, b)), strict=True):
        one, other = np.asarray(one), np.asarray(other)
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * np.abs(other).max())


@pytest.mark.parametrize("rows, columns", [(4, 2), (2, 4), (1, 3)])
def test_lu_of_matrices_that_are_not_square(rows, columns):
    a = RNG.normal(size=(6, rows, columns))
    for one, other in zip(functad.jit(lax.linalg.lu)(a), lax.linalg.lu(a), strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-12)


ODD = {
    "not positive": [[1.0, 2.0], [2.0, 1.0]],
    "zero": [[0.0, 0.0], [0.0, 0.0]],
    "NaN at the end": [[1.0, 0.0], [0.0, np.nan]],
    "NaN": [[4.0, np.nan], [np.nan, 9.0]],
    "infinite": [[4.0, 2.0], [2.0, np.inf]],
    "zero pivot": [[0.0, 1.0], [2.0, 3.0]],
    "equal pivots": [[1.0, 2.0], [-1.0, 3.0]],
}


@pytest.mark.parametrize("name", ODD)
def test_odd_matrices_are_the_same_jitted(name):
    a, b = np.array(ODD[name]), np.array([[1.0], [2.0]])
    for fun in (
        lambda x: lax.linalg.cholesky(x, symmetrize_input=False),
        lax.linalg.lu if "NaN" not in name else lambda x: x,
        lambda x: lax.linalg.triangular_solve(x, b, left_side=True, lower=True),
    ):
        for one, other in zip(functad.tree.leaves(functad.jit(fun)(a)), functad.tree.leaves(fun(a)), strict=True):
            np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-12)


def test_without_a_library_numpy_factorises_side_by_side(monkeypatch):
    a, b = RNG.normal(size=(2, 5, 5)), RNG.normal(size=(2, 5, 3))
    flags = {"lower": True, "transpose_a": True, "conjugate_a": False, "unit_diagonal": False}
    calls = {
        "lu": lambda: factorisations.lu(a),
        "left": lambda: systems.triangular_solve(a, b, left_side=True, **flags),
        "right": lambda: systems.triangular_solve(a, b.swapaxes(-1, -2), left_side=False, **flags),
        "reflections": lambda: factorisations.householder_product(*factorisations.geqrf(b)),
        "tridiagonal": lambda: systems.tridiagonal_solve(a[:, 0], a[:, 1] + 4, a[:, 2], b),
    }
    expected = {name: call() for name, call in calls.items()}
    monkeypatch.setattr(lapack, "has", lambda name, dtype=None: False)
    for name, call in calls.items():
        for one, other in zip(call(), expected[name], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, err_msg=name)


def test_another_process_finds_the_plan_of_a_program_that_calls_lapack(tmp_path):
    program = (
        "import functad, functad.numpy as jnp, numpy as np, sys\n"
        "a = jnp.asarray(np.random.default_rng(0).normal(size=(40, 40)))\n"
        "print(functad.jit(lambda x: jnp.linalg.eigvalsh(x) + jnp.linalg.solve(x, x[0]))(a).sum())\n"
        "print('functad.backends.cpu.lowering' in sys.modules)\n"
    )

    environment = {**os.environ, "FUNCTAD_CACHE_DIR": str(tmp_path), "FUNCTAD_CHECK_PROGRAMS": "0"}
    runs = [
        subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    (first, compiled), (second, compiled_again) = (run.stdout.split() for run in runs)
    assert first == second and (compiled, compiled_again) == ("True", "False")
