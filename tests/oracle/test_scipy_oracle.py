"""`functad.scipy` against JAX: values, dtypes and first derivatives; un-jitted and compiled."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

import functad  # noqa: E402

WAVE = np.sin(np.arange(20, dtype=np.float32)).reshape(4, 5)
WIDE = np.linspace(-3.3, 7.6, 24, dtype=np.float32).reshape(2, 3, 4)
POINTS = np.random.default_rng(0).standard_normal((7, 3)).astype(np.float32)

# module, function, arrays, options, and the tolerance relative to the largest number
CASES = [
    ("integrate", "trapezoid", (WAVE,), {}),
    ("integrate", "trapezoid", (WAVE, np.float32([0, 1, 3, 4, 9])), {}),
    ("integrate", "trapezoid", (WAVE.astype(np.int32),), {"dx": 0.5, "axis": 0}),
    ("cluster.vq", "vq", (POINTS, POINTS[:3] + 1), {}),
    ("cluster.vq", "vq", (POINTS[:, 0], POINTS[:2, 1]), {"check_finite": False}),
]
CASES += [
    ("ndimage", "map_coordinates", (WAVE, list(WIDE)), {"order": order, "mode": mode, "cval": 2.5})
    for order in (0, 1)
    for mode in ("constant", "nearest", "wrap", "mirror", "reflect")
]
CASES += [
    ("ndimage", "map_coordinates", (np.arange(9, dtype=np.int32), [WIDE[0]]), {"order": order}) for order in (0, 1)
]


def modules_of(name):
    return importlib.import_module(f"functad.scipy.{name}"), importlib.import_module(f"jax.scipy.{name}")


def assert_same(found, expected, tolerance):
    for a, b in zip(functad.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        finite = np.abs(b[np.isfinite(b)]).max(initial=0) if b.dtype.kind in "fc" else 0
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * finite)


def derivatives(package, f, args, options):
    """The derivatives of the sum of the floating results in all floating arguments."""
    floats = [i for i, a in enumerate(args) if getattr(a, "dtype", np.dtype(int)).kind == "f"]
    if not floats:
        return ()

    def total(*chosen):
        full = list(args)
        for i, a in zip(floats, chosen):
            full[i] = a
        outs = package.tree.leaves(f(*full, **options))
        return sum((o * o).sum() for o in outs if o.dtype.kind == "f")

    return package.grad(total, tuple(range(len(floats))))(*(args[i] for i in floats))


@pytest.mark.parametrize("module, name, args, options", CASES)
def test_functions(module, name, args, options):
    ours, theirs = (getattr(m, name) for m in modules_of(module))
    expected = theirs(*args, **options)
    assert_same(ours(*args, **options), expected, 1e-5)
    assert_same(functad.jit(lambda *a: ours(*a, **options))(*args), expected, 1e-5)
    found = derivatives(functad, ours, args, options)
    assert_same(found, derivatives(jax, theirs, args, options), 1e-4)
