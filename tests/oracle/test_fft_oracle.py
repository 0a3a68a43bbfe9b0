"""`functad.numpy.fft` and `lax.fft` against JAX: values, dtypes, and derivatives in both modes."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

import jax.numpy as jax_numpy  # noqa: E402

import functad  # noqa: E402
import functad.numpy as functad_numpy  # noqa: E402

REAL = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32)
COMPLEX = (REAL + 1j * REAL[::-1]).astype(np.complex64)
OF_REALS = ("rfft", "ihfft", "rfft2", "rfftn")

CALLS = [
    (name, {"n": n, "axis": a}) for name in "fft ifft rfft irfft hfft ihfft".split() for n, a in ((None, 0), (7, 1))
]
CALLS += [(name, {"norm": "ortho"}) for name in "fft ifft rfft irfft hfft ihfft fft2 ifft2 rfft2 irfft2".split()]
CALLS += [(name, {"s": (6, 3), "axes": (2, 0)}) for name in "fftn ifftn rfftn irfftn".split()]
CALLS += [(name, {}) for name in "fftn ifftn rfftn irfftn fftshift ifftshift".split()]


def both(use):
    """What a function of the package, its namespace and nothing else gives here and in JAX."""
    found, expected = use(functad, functad_numpy), jax.jit(lambda: use(jax, jax_numpy))()
    for a, b in zip(functad.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5 * max(1, np.abs(b).max(initial=0)))


@pytest.mark.parametrize("name, options", CALLS)
def test_transforms(name, options):
    for x in (REAL,) if name in OF_REALS else (COMPLEX, REAL, REAL.astype(np.int32)):
        both(lambda m, n, x=x: getattr(n.fft, name)(x, **options))

    def derivatives(m, n, x):
        outs, pull = m.vjp(lambda x: getattr(n.fft, name)(x, **options), x)
        return outs, pull(outs * 0.5), m.jvp(lambda x: getattr(n.fft, name)(x, **options), (x,), (x * 2,))

    x = REAL if name in OF_REALS else COMPLEX
    both(lambda m, n: derivatives(m, n, x))
    both(lambda m, n: m.jit(lambda x: derivatives(m, n, x))(x))
    both(lambda m, n: m.vmap(lambda x: derivatives(m, n, x), in_axes=1, out_axes=1)(np.stack([x, x * 2], 1)))


@pytest.mark.parametrize(
    "kind, lengths", [("FFT", (5,)), ("IFFT", (4, 5)), ("RFFT", (3, 4, 5)), ("IRFFT", (8,)), ("FFT", ())]
)
def test_the_primitive(kind, lengths):
    x = REAL if kind == "RFFT" else COMPLEX
    both(lambda m, n: m.lax.fft(x, m.lax.FftType[kind], lengths))
    both(lambda m, n: m.lax.fft(x, kind, lengths))


def test_frequencies():
    for count in (1, 4, 5):
        both(
            lambda m, n, count=count: (
                n.fft.fftfreq(count, 0.3),
                n.fft.rfftfreq(count),
                n.fft.fftfreq(count, dtype="float16"),
            )
        )


def test_a_real_loss_of_a_spectrum():
    both(lambda m, n: m.grad(lambda x: n.sum(n.abs(n.fft.rfft(x * x)) ** 2))(REAL))
    both(lambda m, n: m.grad(lambda z: n.sum(n.abs(n.fft.fft2(z * z))))(COMPLEX))
    both(lambda m, n: m.hessian(lambda x: n.sum(n.abs(n.fft.rfft(x)) ** 4))(REAL[0, 0]))
