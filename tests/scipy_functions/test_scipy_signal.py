"""`functad.scipy.signal`: convolutions against sums, trends against least squares, spectra, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad.errors import ArgumentError, ShapeError
from functad.scipy import signal

RNG = np.random.default_rng(0)
LONG, SHORT = RNG.standard_normal(11), RNG.standard_normal(4)
A, B = RNG.standard_normal((6, 5)), RNG.standard_normal((3, 2))


def full(a, b):
    out = np.zeros([n + m - 1 for n, m in zip(a.shape, b.shape)], np.result_type(a, b))
    for place in np.ndindex(*a.shape):
        out[tuple(slice(i, i + m) for i, m in zip(place, b.shape))] += a[place] * b
    return out


def part(mode, a, b):
    whole = full(a, b)
    if mode == "full":
        return whole
    if mode == "same":
        return whole[tuple(slice((w - n) // 2, (w - n) // 2 + n) for w, n in zip(whole.shape, a.shape))]
    sizes = [(min(n, m) - 1, abs(n - m) + 1) for n, m in zip(a.shape, b.shape)]
    return whole[tuple(slice(start, start + length) for start, length in sizes)]


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("x, y", [(LONG, SHORT), (SHORT, LONG), (A, B), (B, A), (LONG * 1j, SHORT + 2j)])
def test_convolutions(mode, x, y):
    expected = part(mode, x, y)
    for call in (
        lambda x, y: signal.convolve(x, y, mode),
        lambda x, y: signal.convolve(x, y, mode, method="fft"),
        lambda x, y: signal.fftconvolve(x, y, mode),
        lambda x, y: signal.correlate(x, jnp.flip(jnp.conj(y)), mode),
    ):
        np.testing.assert_allclose(call(x, y), expected, atol=1e-12)
        np.testing.assert_allclose(functad.jit(call)(x, y), expected, atol=1e-12)
    if x.ndim == 2:
        np.testing.assert_allclose(signal.convolve2d(x, y, mode), expected, atol=1e-12)


def test_fftconvolve_along_some_axes():
    x, y = RNG.standard_normal((2, 5, 3, 4)), RNG.standard_normal((2, 2, 3, 6))
    found = signal.fftconvolve(x, y, axes=(1, -1))
    expected = np.stack([[full(x[i, :, j], y[i, :, j]) for j in range(3)] for i in range(2)])
    np.testing.assert_allclose(found, np.moveaxis(expected, 1, 2), atol=1e-12)


def test_fftconvolve_of_numbers_is_their_product():
    found = signal.fftconvolve(2.0, 3.0)
    assert (found.tolist(), found.dtype, found.shape) == (6.0, np.float32, ())
    found = signal.fftconvolve(np.ones((2, 1)), np.full((2, 1), 3.0), axes=())
    assert (found.tolist(), found.dtype) == ([[3.0], [3.0]], np.float64)


def test_a_convolution_is_differentiated_in_both():
    def loss(x, y):
        return jnp.sum(signal.fftconvolve(x, y) ** 2)

    gx, gy = functad.grad(loss, argnums=(0, 1))(LONG, SHORT)
    product = np.convolve(LONG, SHORT)
    np.testing.assert_allclose(gx, 2 * np.correlate(product, SHORT, "valid"))
    np.testing.assert_allclose(gy, 2 * np.correlate(product, LONG, "valid"))


def test_detrend():
    x = np.stack([LONG, LONG**2])
    np.testing.assert_allclose(signal.detrend(x, type="constant"), x - x.mean(-1, keepdims=True))
    lines = [np.polyval(np.polyfit(np.arange(11), row, 1), np.arange(11)) for row in x]
    np.testing.assert_allclose(signal.detrend(x), x - lines, atol=1e-12)
    np.testing.assert_allclose(signal.detrend(x.T, axis=0), (x - lines).T, atol=1e-12)
    in_two = np.concatenate([signal.detrend(LONG[:4]), signal.detrend(LONG[4:])])
    np.testing.assert_allclose(signal.detrend(LONG, bp=4), in_two, atol=1e-12)


def test_a_short_time_transform_is_that_of_each_piece():
    x, window = RNG.standard_normal(20), np.hanning(9)[:-1]
    frequencies, times, found = signal.stft(x, fs=2.0, nperseg=8, noverlap=6, boundary=None, padded=False)
    pieces = np.stack([x[i : i + 8] for i in range(0, 13, 2)])
    np.testing.assert_allclose(found, np.fft.rfft(pieces * window).T / window.sum(), atol=1e-7)
    np.testing.assert_allclose(frequencies, np.fft.rfftfreq(8, 0.5))
    np.testing.assert_allclose(times, np.arange(4, 17, 2) / 2)


@pytest.mark.parametrize("boundary", ["zeros", "even", "odd", "constant"])
@pytest.mark.parametrize("nperseg, noverlap", [(8, None), (8, 6), (7, 4), (10, 5)])
def test_the_inverse_gives_the_signal_back(nperseg, noverlap, boundary):
    x = RNG.standard_normal((3, 50))
    options = {"nperseg": nperseg, "noverlap": noverlap}
    z = signal.stft(x, boundary=boundary, **options)[2]
    np.testing.assert_allclose(signal.istft(z, **options)[1][:, :50], x, atol=1e-6)
    z = signal.stft(x.T, axis=0, return_onesided=False, **options)[2]
    back = signal.istft(z, time_axis=-1, freq_axis=0, input_onesided=False, **options)[1]
    np.testing.assert_allclose(back[:, :50], x, atol=1e-6)


def test_power_of_white_noise_and_of_a_tone():
    noise = RNG.standard_normal(4096)
    _, density = signal.welch(noise, fs=4.0, nperseg=256)
    np.testing.assert_allclose(np.mean(density), 0.5, rtol=0.1)  # variance 1 over frequencies up to 2
    _, middle = signal.welch(noise, fs=4.0, nperseg=256, average="median")
    np.testing.assert_allclose(np.mean(middle), 0.5, rtol=0.1)
    tone = np.sqrt(2) * np.sin(2 * np.pi * np.arange(4096) / 16)
    frequencies, power = signal.csd(tone, tone, nperseg=256, scaling="spectrum")
    assert frequencies[int(jnp.argmax(power.real))] == 1 / 16
    np.testing.assert_allclose(np.max(power.real), 1, rtol=1e-5)


def test_spectra_are_compiled_and_differentiated():
    x = RNG.standard_normal(64)
    for fun in (lambda x: jnp.sum(signal.welch(x, nperseg=16)[1] ** 2), lambda x: jnp.sum(signal.csd(x, x)[1].real)):
        gradient, step = functad.grad(fun)(x), 1e-6 * np.cos(np.arange(64))
        np.testing.assert_allclose(functad.jit(functad.grad(fun))(x), gradient, atol=1e-9)
        np.testing.assert_allclose(np.sum(gradient * step), (fun(x + step) - fun(x - step)) / 2, rtol=1e-4, atol=1e-12)


@pytest.mark.filterwarnings("ignore:stft. the signal is complex")
def test_complex_signals_have_all_frequencies():
    frequencies, _, z = signal.stft(LONG * 1j, nperseg=4)
    assert frequencies.shape == (4,) and z.shape[0] == 4


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: signal.convolve(A, B.T[:1], "no"), ArgumentError, "mode must be"),
        (lambda: signal.convolve(LONG, A), ShapeError, "arrays of one rank"),
        (lambda: signal.convolve(A, np.ones((7, 1))), ShapeError, "at least as large"),
        (lambda: signal.convolve(LONG, SHORT, method="no"), ArgumentError, "method must be"),
        (lambda: signal.convolve2d(A, B, boundary="wrap"), ArgumentError, "boundary must be 'fill'"),
        (lambda: signal.convolve2d(LONG, SHORT), ShapeError, "takes matrices"),
        (lambda: signal.fftconvolve(A, B, axes=0), ShapeError, "equal sizes"),
        (lambda: signal.detrend(LONG, type="square"), ArgumentError, "type must be"),
        (lambda: signal.detrend(LONG, bp=12), ArgumentError, "breakpoints"),
        (lambda: signal.stft(LONG, nperseg=4, noverlap=4), ArgumentError, "noverlap < nperseg"),
        (lambda: signal.stft(LONG, window="no"), ArgumentError, "one of hann, hamming"),
        (lambda: signal.stft(LONG, window=np.ones(3), nperseg=4), ShapeError, "window must have one axis"),
        (lambda: signal.stft(LONG, nperseg=4, boundary="no"), ArgumentError, "boundary must be"),
        (lambda: signal.stft(LONG, nperseg=4, detrend=True), ArgumentError, "detrend must be"),
        (lambda: signal.welch(LONG, scaling="no"), ArgumentError, "scaling must be"),
        (lambda: signal.welch(LONG, average="no"), ArgumentError, "average must be"),
        (lambda: signal.istft(A, time_axis=0, freq_axis=-2), ShapeError, "different axes"),
    ],
)
def test_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_spectra_of_two_signals_are_cut_by_the_longer_one():
    padded = np.concatenate([SHORT, np.zeros(7)])
    for given in ((SHORT, LONG), (LONG, SHORT)):
        whole = [padded if x is SHORT else x for x in given]
        np.testing.assert_array_equal(*(np.asarray(signal.csd(*x)[1]) for x in (given, whole)))


def test_errors_of_spectra_name_the_function():
    for name, call in (
        ("csd", lambda **o: signal.csd(LONG, LONG, **o)),
        ("welch", lambda **o: signal.welch(LONG, **o)),
    ):
        with pytest.raises(ArgumentError, match=f"^{name}: 0 <= noverlap"):
            call(nperseg=4, noverlap=5)
        with pytest.raises(ArgumentError, match=f"^{name}: average"):
            call(average="most")
