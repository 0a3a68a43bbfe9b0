"""`functad.numpy.fft` against NumPy: called directly and through `numpy.fft`, jitted, mapped, and differentiated."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax
from functad.errors import ArgumentError, DTypeError, ShapeError
from functad.lax import FftType

ONE_AXIS = "fft ifft rfft irfft hfft ihfft".split()
SEVERAL = "fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn".split()
OF_REALS = ("rfft", "rfft2", "rfftn", "ihfft")

CALLS = [(name, {"n": n, "axis": axis}) for name in ONE_AXIS for n, axis in ((None, -1), (9, 1), (4, 0), (1, -1))]
CALLS += [(name, {"norm": norm}) for name in ONE_AXIS + SEVERAL for norm in ("backward", "ortho", "forward")]
CALLS += [(name, {"s": s, "axes": axes}) for name in SEVERAL for s, axes in (((3, 8), (0, -1)), (None, (2, 0)))]


def data(name, dtype=np.float64):
    x = np.random.default_rng(len(name)).standard_normal((3, 5, 6))
    return x.astype(dtype) if name in OF_REALS else (x + 1j * x[::-1, :, ::-1]).astype(np.result_type(dtype, "c8"))


@pytest.mark.parametrize("name, options", CALLS)
def test_transforms_are_numpys(name, options):
    x, call = data(name), getattr(jnp.fft, name)
    expected = getattr(np.fft, name)(x, **options)
    for found in (call(x, **options), functad.jit(lambda x: call(x, **options))(x)):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    through_numpy = functad.jit(lambda x: getattr(np.fft, name)(x, **options))(x)
    np.testing.assert_allclose(through_numpy, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 60, 97, 128, 1000, 1009])
@pytest.mark.parametrize("name", ONE_AXIS)
def test_all_lengths(name, n):
    x = data(name, np.float32)[0, 0, :2]
    expected = getattr(np.fft, name)(x.astype(np.result_type(x.dtype, "f8")), n)
    found = functad.jit(lambda x: getattr(jnp.fft, name)(x, n))(x)
    assert found.dtype == np.result_type(getattr(np.fft, name)(x, n).dtype)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int32", "float16", "float32", "complex64"])
def test_dtypes_of_results(dtype):
    x = jnp.ones(4, dtype)
    assert jnp.fft.fft(x).dtype == jnp.fft.ifftn(x).dtype == np.complex64 and jnp.fft.irfft(x).dtype == np.float32
    if dtype != "complex64":
        assert jnp.fft.rfft(x).dtype == np.complex64


DERIVATIVES = [(name, options) for name in ("fft", "ifft", "rfft", "irfft") for options in ({"n": 7}, {"n": 8})]
DERIVATIVES += [("hfft", {}), ("ihfft", {}), ("rfftn", {"axes": (0, 2)}), ("irfftn", {"s": (3, 4), "axes": (1, 0)})]


@pytest.mark.parametrize("wrap", [lambda f: f, functad.jit], ids=["plain", "jit"])
@pytest.mark.parametrize("name, options", DERIVATIVES)
def test_tangents_and_cotangents(name, options, wrap):
    x, t, fun = data(name), data(name)[::-1] * 0.5, getattr(jnp.fft, name)
    out, tangent = wrap(lambda x, t: functad.jvp(lambda x: fun(x, **options), (x,), (t,)))(x, t)
    np.testing.assert_allclose(tangent, getattr(np.fft, name)(t, **options), atol=1e-12)
    ct = np.asarray(out) * (0.5 - 1j if out.dtype.kind == "c" else 0.5)
    (pulled,) = wrap(lambda x, ct: functad.vjp(lambda x: fun(x, **options), x)[1](ct))(x, ct)
    assert pulled.dtype == x.dtype
    np.testing.assert_allclose(np.sum(ct * np.asarray(tangent)).real, np.sum(np.asarray(pulled) * t).real, rtol=1e-10)


def test_a_mapped_transform_is_that_of_each_example():
    x = data("rfft")
    for axis in range(3):
        found = functad.vmap(jnp.fft.rfft2, in_axes=axis)(x)
        np.testing.assert_allclose(found, np.fft.rfft2(np.moveaxis(x, axis, 0)), atol=1e-12)


def test_parseval():
    x = data("rfft")[0, 0]
    gradient = functad.grad(lambda x: jnp.sum(jnp.abs(jnp.fft.fft(x, norm="ortho")) ** 2))(x)
    np.testing.assert_allclose(gradient, 2 * x, atol=1e-12)


def test_frequencies_and_shifts():
    for n in (1, 4, 5):
        np.testing.assert_allclose(jnp.fft.fftfreq(n, 0.3), np.fft.fftfreq(n, 0.3), rtol=1e-6)
        np.testing.assert_allclose(jnp.fft.rfftfreq(n), np.fft.rfftfreq(n), rtol=1e-6)
    assert jnp.fft.fftfreq(4).dtype == np.float32 and jnp.fft.rfftfreq(4, dtype="float16").dtype == np.float16
    np.testing.assert_allclose(functad.grad(lambda d: jnp.fft.fftfreq(4, d)[1])(0.5), -1 / (4 * 0.25))
    x = data("rfft")
    for axes in (None, 1, (0, 2)):
        np.testing.assert_array_equal(jnp.fft.fftshift(x, axes), np.fft.fftshift(x, axes))
        np.testing.assert_array_equal(jnp.fft.ifftshift(x, axes), np.fft.ifftshift(x, axes))


def test_the_primitive_under_its_own_name():
    x = data("rfft", np.float32)
    np.testing.assert_array_equal(lax.fft(x, "rfft", (6,)), np.fft.rfft(x))
    np.testing.assert_array_equal(lax.fft(x, FftType.FFT, (5, 6)), np.fft.fftn(x.astype("c8"), axes=(1, 2)))
    assert lax.fft(np.int32([1, 2]), FftType.IFFT, (2,)).dtype == np.complex64
    assert "fft[fft_lengths=(6,) fft_type=2] a" in str(functad.make_jaxpr(jnp.fft.rfft)(x))


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: jnp.fft.rfft(1j * jnp.ones(3)), DTypeError, "fft.rfft takes real numbers"),
        (lambda: lax.fft(1j * jnp.ones(3), "RFFT", (3,)), DTypeError, "RFFT takes real numbers"),
        (lambda: lax.fft(jnp.ones(3), "DFT", (3,)), ArgumentError, "one of FFT, IFFT, RFFT, IRFFT"),
        (lambda: lax.fft(jnp.ones(3), "FFT", (4,)), ShapeError, r"the last axes must be \(4,\), but x is c64\[3\]"),
        (lambda: lax.fft(jnp.ones(3), "FFT", (3, 3)), ShapeError, "sizes of the last axes"),
        (lambda: jnp.fft.fft(jnp.ones(3), 0), ArgumentError, "one positive length"),
        (lambda: jnp.fft.fft(jnp.ones(3), axis=(0,)), ArgumentError, "fft.fft transforms one axis"),
        (lambda: jnp.fft.fft2(jnp.ones((3, 3)), axes=(0,)), ArgumentError, "use fftn"),
        (lambda: jnp.fft.fftn(jnp.ones((3, 3)), (3,), (0, 1)), ArgumentError, "one positive length for each"),
        (lambda: jnp.fft.fftn(jnp.ones((3, 3)), axes=(0, 0)), ArgumentError, "twice"),
        (lambda: jnp.fft.fft(jnp.ones(3), norm="no"), ArgumentError, "norm must be 'backward'"),
        (lambda: jnp.fft.fftfreq(0), ArgumentError, "positive integer"),
    ],
)
def test_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
