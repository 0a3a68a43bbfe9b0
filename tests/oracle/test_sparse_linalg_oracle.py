"""`functad.scipy.sparse.linalg` against JAX's: signatures, steps, solutions, derivatives, dtypes and errors."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import functad

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")
import jax.scipy.sparse.linalg as theirs  # noqa: E402

import functad.scipy.sparse.linalg as ours  # noqa: E402

NAMES = ("cg", "bicgstab", "gmres")


def system(name, n=6, dtype=np.float32):
    rng = np.random.default_rng(5)
    a = rng.normal(size=(n, n))
    if np.issubdtype(dtype, np.complexfloating):
        a = a + 1j * rng.normal(size=(n, n))
    a = a @ a.conj().T / n + np.eye(n) if name == "cg" else a / n + np.eye(n)
    return a.astype(dtype), rng.normal(size=n).astype(dtype)


@pytest.mark.parametrize("name", NAMES)
def test_arguments_are_jaxs(name):
    first, second = (inspect.signature(getattr(m, name)).parameters.values() for m in (ours, theirs))
    assert [(p.name, p.kind, p.default) for p in first] == [(p.name, p.kind, p.default) for p in second]


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("name", NAMES)
def test_each_step_is_jaxs(name, dtype):
    a, b = system(name, dtype=dtype)
    closer = np.diag(1 / np.diag(a)).astype(dtype)
    for options in ({"maxiter": 2}, {"maxiter": 2, "M": closer}) if dtype == np.float32 else ({"tol": 1e-6},):
        if name == "gmres":
            options = {"restart": 2, **options}
        found, expected = (getattr(m, name)(a, b, np.ones_like(b), **options) for m in (ours, theirs))
        assert found[0].dtype == expected[0].dtype
        np.testing.assert_allclose(found[0], expected[0], rtol=2e-4, atol=2e-4, err_msg=str(options))


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_are_jaxs(name):
    a, b = system(name)

    def gradient(m, solve):
        return m.grad(lambda a, b: m.numpy.sum(solve(lambda x: a @ x, b, tol=1e-6)[0] ** 3), (0, 1))(
            m.numpy.asarray(a), m.numpy.asarray(b)
        )

    for found, expected in zip(gradient(functad, getattr(ours, name)), gradient(jax, getattr(theirs, name))):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("b", [1.0, np.float32(1), (1.0, np.ones(2, np.float32))])
def test_types_of_results_are_jaxs(name, b):
    found, expected = (getattr(m, name)(lambda x: x, b)[0] for m in (ours, theirs))
    types = [
        [(x.shape, x.dtype, x.weak_type) for x in m.tree.leaves(t)] for m, t in ((functad, found), (jax, expected))
    ]
    assert types[0] == types[1]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "call",
    [
        lambda f: f(np.ones((2, 3)), np.ones(2)),
        lambda f: f("A", np.ones(2)),
        lambda f: f(np.eye(2), np.ones(2), x0=(np.ones(2),)),
        lambda f: f(lambda x: x[:1], np.ones(2)),
    ],
)
def test_what_jax_refuses_is_refused(name, call):
    with pytest.raises((ValueError, TypeError)) as expected:
        call(getattr(theirs, name))
    with pytest.raises((ValueError, TypeError)) as found:
        call(getattr(ours, name))
    assert issubclass(found.type, expected.type)
