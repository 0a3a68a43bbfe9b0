"""`functad.scipy.fft` and `functad.scipy.signal` against JAX: values, dtypes and gradients."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

jax_scipy = importlib.import_module("jax.scipy")
for _part in ("fft", "signal"):
    importlib.import_module(f"jax.scipy.{_part}")

import functad  # noqa: E402
import functad.scipy.fft  # noqa: E402
import functad.scipy.signal  # noqa: E402

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 40)).astype(np.float32)
Y = RNG.standard_normal((3, 40)).astype(np.float32)
A, B = X[:, :9], Y[:2, 5:8]
Z = (X[:, :10] + 1j * Y[:, :10]).astype(np.complex64)

MODES = ("full", "same", "valid")

# Of the scipy package: a function of arrays, and the arrays.
CASES = {
    **{f"dct-{norm}": (lambda s, x, norm=norm: s.fft.dct(x, norm=norm), X) for norm in (None, "ortho")},
    **{f"idct-{norm}": (lambda s, x, norm=norm: s.fft.idct(x, axis=0, norm=norm), X) for norm in (None, "ortho")},
    "dct-n": (lambda s, x: s.fft.dct(x, n=5), X),
    "dct-complex": (lambda s, x: s.fft.dct(x), Z),
    "dctn": (lambda s, x: s.fft.dctn(x, s=(4, 6)), X),
    "idctn": (lambda s, x: s.fft.idctn(x, axes=(0, 1), norm="ortho"), X),
    **{f"convolve-{m}": (lambda s, x, y, m=m: s.signal.convolve(x, y, m), A, B) for m in MODES},
    **{f"convolve-swapped-{m}": (lambda s, x, y, m=m: s.signal.convolve(y, x, m), A, B) for m in MODES},
    **{f"correlate-{m}": (lambda s, x, y, m=m: s.signal.correlate(x, y, m), A, B) for m in MODES},
    **{f"correlate2d-{m}": (lambda s, x, y, m=m: s.signal.correlate2d(x, y, m), A, B) for m in MODES},
    **{f"correlate2d-complex-{m}": (lambda s, x, y, m=m: s.signal.correlate2d(y, x, m), Z, Z[:2, 3:6] * 2j)
       for m in ("full", "valid")},
    **{f"fftconvolve-{m}": (lambda s, x, y, m=m: s.signal.fftconvolve(x, y, m), A, B) for m in MODES},
    "fftconvolve-axes": (lambda s, x, y: s.signal.fftconvolve(x, y, axes=1), A, Y[:, 5:8]),
    "fftconvolve-complex": (lambda s, x, y: s.signal.convolve(x, y, method="fft"), Z, Z),
    "detrend": (lambda s, x: s.signal.detrend(x, bp=[7, 20]), X),
    "detrend-constant": (lambda s, x: s.signal.detrend(x, axis=0, type="constant"), X),
    "stft": (lambda s, x: s.signal.stft(x, 2.0, nperseg=16), X),
    "stft-even": (lambda s, x: s.signal.stft(x, nperseg=9, noverlap=3, nfft=12, boundary="even", padded=False), X),
    "stft-odd": (lambda s, x: s.signal.stft(x.T, nperseg=8, detrend="linear", boundary="odd", axis=0), X),
    "stft-twosided": (lambda s, x: s.signal.stft(x, nperseg=8, return_onesided=False, boundary="constant"), X),
    "stft-window": (lambda s, x: s.signal.stft(x, window=np.linspace(1, 2, 8, dtype=np.float32), nperseg=8), X),
    "welch": (lambda s, x: s.signal.welch(x, 4.0, nperseg=8), X),
    "welch-median": (lambda s, x: s.signal.welch(x, nperseg=8, average="median", scaling="spectrum"), X),
    "csd": (lambda s, x, y: s.signal.csd(x, y, nperseg=8, detrend="linear"), X, Y),
    "csd-shorter": (lambda s, x, y: s.signal.csd(x, y, nperseg=8, nfft=9), X, Y[:, :30]),
    "csd-median": (lambda s, x, y: s.signal.csd(x, y, nperseg=8, average="median"), X, Y),
    "istft": (lambda s, x: s.signal.istft(x, nperseg=4)[1], Z[:, None, :] * np.ones((3, 1), np.float32)),
    "istft-vector": (lambda s, x: s.signal.istft(x, 2.0, nperseg=4, boundary=False), Z[:, :7]),
    "istft-twosided": (lambda s, x: s.signal.istft(x, input_onesided=False, noverlap=2), Z),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_like_jax(name):
    fun, *args = CASES[name]
    expected = fun(jax_scipy, *map(jax.numpy.asarray, args))
    _check(fun(functad.scipy, *map(functad.numpy.asarray, args)), expected)
    _check(functad.jit(lambda *a: fun(functad.scipy, *a))(*args), expected)

    def loss(scipy, tree, np_):
        return lambda *a: sum(np_.sum(np_.abs(leaf) ** 2) for leaf in tree.leaves(fun(scipy, *a)))

    positions = tuple(range(len(args)))
    found = functad.grad(loss(functad.scipy, functad.tree, functad.numpy), positions)(*args)
    _check(found, jax.jit(jax.grad(loss(jax_scipy, jax.tree, jax.numpy), positions))(*args))


def _check(found, expected):
    for a, b in zip(functad.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5 * max(1, np.abs(b).max()))
