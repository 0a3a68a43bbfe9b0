"""Spectra of pieces of signals: short-time Fourier transforms, their inverse, and averaged power spectra.

Knows the public array functions. Source: Welch, "The use of fast Fourier transform for the estimation of power
spectra", 1967; Griffin and Lim, "Signal estimation from modified short-time Fourier transform", 1984.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import functad.numpy as jnp
from functad import lax
from functad.dtypes import kind_of, lattice_join
from functad.errors import ArgumentError, ShapeError
from functad.numpy.promotion import promote_dtypes_inexact
from functad.records import NamedTuple
from functad.scipy.signal.trends import detrend as without_trend

# --- public functions -------------------------------------------------------------------------------


def stft(
    x: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
) -> tuple[Any, Any, Any]:
    """The short-time Fourier transform: spectra of pieces of a signal that overlap.

    Args:
        x: array of numbers.
        fs: samples per unit of time.
        window: what pieces are multiplied by: "hann", "hamming", "blackman", "bartlett", "boxcar", or an array.
        nperseg: the length of a piece, at most that of the signal; with a window that is an array its length.
        noverlap: how many elements a piece shares with the next, by default half.
        nfft: the length of the transform, by default nperseg; pieces are filled with zeros.
        detrend: "constant" or "linear" as in `detrend`, a function of the pieces, or False.
        return_onesided: of a real signal leave out negative frequencies.
        boundary: how half a piece is added at both ends: "zeros", "even", "odd", "constant" or None.
        padded: fill the end with zeros, so that nothing is left over.
        axis: the axis of the signal.

    Returns:
        Frequencies, times of the pieces, and the spectra: frequencies along `axis`, pieces along a new last axis.

    >>> import functad.numpy as jnp
    >>> frequencies, times, spectra = stft(jnp.ones(8), nperseg=4)
    >>> spectra.shape, jnp.round(spectra[0].real, 3).tolist()
    ((3, 5), [0.75, 1.0, 1.0, 1.0, 0.25])
    """
    cut = _Pieces.of("stft", window, nperseg, noverlap, nfft, [_operand("stft", x)], axis)
    return _spectra("stft", x, None, fs, cut, detrend, return_onesided, "spectrum", axis, boundary, padded)


def csd(
    x: Any,
    y: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Any, Any]:
    """The cross power spectrum of two signals by Welch's method: an average over pieces.

    Args:
        x, y: arrays of numbers; the shorter one is filled with zeros. y may be None for x.
        scaling: "density", power per frequency, or "spectrum", power.
        average: "mean" or "median" over the pieces.
        fs, window, nperseg, noverlap, nfft, detrend, return_onesided, axis: as for `stft`.

    Returns:
        Frequencies, and the spectrum along `axis`.

    >>> import functad.numpy as jnp
    >>> frequencies, spectrum = csd(jnp.arange(8.), jnp.arange(8.), nperseg=4, detrend=False)
    >>> spectrum.shape, spectrum.dtype
    ((3,), dtype('complex64'))
    """
    given = (fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average)
    return _averaged("csd", x, y, *given)


def welch(
    x: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Any, Any]:
    """The power spectrum of a signal by Welch's method; arguments as for `csd`.

    >>> import functad.numpy as jnp
    >>> frequencies, spectrum = welch(jnp.array([1., -1.] * 4), nperseg=4, window="boxcar")
    >>> jnp.round(spectrum, 3).tolist()
    [0.0, 0.0, 4.0]
    """
    given = (fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average)
    frequencies, power = _averaged("welch", x, None, *given)
    return frequencies, jnp.real(power)


def istft(
    Zxx: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
) -> tuple[Any, Any]:
    """The signal of a short-time Fourier transform: pieces added up where they overlap, and divided by the windows.

    Args:
        Zxx: spectra, as `stft` returns them.
        input_onesided: whether negative frequencies are left out.
        boundary: whether half a piece was added at both ends.
        time_axis, freq_axis: the axes of the pieces and of the frequencies.
        fs, window, nperseg, noverlap, nfft: as given to `stft`.

    Returns:
        Times, and the signal, along the axis of the pieces.

    >>> import functad.numpy as jnp
    >>> times, signal = istft(stft(jnp.arange(8.), nperseg=4)[2], nperseg=4)
    >>> print(jnp.round(signal, 3))
    [0. 1. 2. 3. 4. 5. 6. 7.]
    """
    z = _operand("istft", Zxx)
    if z.ndim < 2 or time_axis % z.ndim == freq_axis % z.ndim:
        raise ShapeError(
            f"istft takes spectra with different axes of frequencies and times, got freq_axis={freq_axis}, "
            f"time_axis={time_axis} and shape {z.shape}"
        )
    bins = z.shape[freq_axis]
    default = 2 * (bins - 1) if input_onesided else bins
    nperseg = operator.index(nperseg) if nperseg else default
    odd = input_onesided and nperseg == default + 1
    nfft = default + odd if nfft is None else operator.index(nfft)
    cut = _Pieces(_window(window, nperseg, z.dtype), nperseg, _overlap(noverlap, nperseg), nfft).checked("istft")
    pieces = jnp.moveaxis(z, (time_axis, freq_axis), (-2, -1))
    pieces = (jnp.fft.irfft if input_onesided else jnp.fft.ifft)(pieces, nfft)[..., :nperseg]
    window = cut.window.astype(pieces.dtype)
    signal = _added_up(pieces * jnp.broadcast_to(window * jnp.sum(window), pieces.shape), cut.step)
    norm = _added_up(jnp.broadcast_to(window * jnp.conj(window), pieces.shape[-2:]), cut.step)
    if boundary:
        inside = slice(nperseg // 2, signal.shape[-1] - nperseg // 2)
        signal, norm = signal[..., inside], norm[..., inside]
    signal = signal / jnp.where(jnp.abs(norm) > 1e-10, norm, 1)
    times = np.arange(signal.shape[-1]).astype(jnp.real(signal).dtype) / fs
    behind = time_axis % z.ndim - (freq_axis % z.ndim < time_axis % z.ndim)
    return jnp.asarray(times), jnp.moveaxis(signal, -1, behind)


# --- pieces -----------------------------------------------------------------------------------------


class _Pieces(NamedTuple):
    """How a signal is cut: the window, the length of a piece, of its overlap, and of its transform."""

    window: Any
    nperseg: int
    noverlap: int
    nfft: int

    @classmethod
    def of(
        cls, name: str, window: Any, nperseg: Any, noverlap: Any, nfft: Any, signals: list[Any], axis: int
    ) -> _Pieces:
        length = max(x.shape[axis] for x in signals)
        if isinstance(window, (str, tuple)):
            nperseg = min(256 if nperseg is None else operator.index(nperseg), length)
        elif nperseg is None:
            nperseg = np.shape(window)[0]
        n = operator.index(nperseg)
        made = _window(window, n, signals[0].dtype)
        return cls(made, n, _overlap(noverlap, n), n if nfft is None else operator.index(nfft)).checked(name)

    def checked(self, name: str) -> _Pieces:
        if not 0 <= self.noverlap < self.nperseg <= self.nfft:
            raise ArgumentError(
                f"{name}: 0 <= noverlap < nperseg <= nfft must hold, but noverlap={self.noverlap}, "
                f"nperseg={self.nperseg} and nfft={self.nfft}"
            )
        return self

    @property
    def step(self) -> int:
        return self.nperseg - self.noverlap


def _overlap(noverlap: Any, nperseg: int) -> int:
    return nperseg // 2 if noverlap is None else operator.index(noverlap)


_WINDOWS: dict[str, Callable[[int], np.ndarray]] = {
    "hann": np.hanning,
    "hamming": np.hamming,
    "blackman": np.blackman,
    "bartlett": np.bartlett,
    "boxcar": np.ones,
}


def _window(window: Any, n: int, dtype: np.dtype) -> Any:
    """The window as an array of the real dtype; those with a name are periodic: the first element comes again."""
    real = np.zeros(0, dtype).real.dtype
    if not isinstance(window, (str, tuple)):
        made = jnp.asarray(window)
        if made.shape != (n,):
            raise ShapeError(f"the window must have one axis of nperseg={n} elements, got shape {made.shape}")
        return made if kind_of(made.dtype) == "c" else made.astype(real)
    if window not in _WINDOWS:
        raise ArgumentError(
            f"window={window!r} must be an array (as scipy.signal.get_window makes), or one of {', '.join(_WINDOWS)}"
        )
    return jnp.asarray(_WINDOWS[window](n + 1)[:-1] if n > 1 else np.ones(n), real)


def _places(length: int, n: int, step: int) -> np.ndarray:
    """Where the elements of the pieces lie in the signal: a row for each piece."""
    starts: np.ndarray = np.arange(0, length - n + 1, step)
    return starts[:, None] + np.arange(n)


def _added_up(pieces: Any, step: int) -> Any:
    """The signal of which these are pieces, summed where they overlap."""
    count, n = pieces.shape[-2:]
    length = step * (count - 1) + n
    signal = jnp.zeros((*pieces.shape[:-2], length), pieces.dtype)
    return signal.at[..., _places(length, n, step)].add(pieces)


# --- spectra of the pieces --------------------------------------------------------------------------


def _spectra(
    name: str, x: Any, y: Any, fs: Any, cut: _Pieces, detrend: Any, onesided: bool, scaling: str, axis: int,
    boundary: str | None, padded: bool,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Frequencies, times, and the spectra of the pieces (`stft`) or their products (`csd`)."""
    signals = [jnp.moveaxis(_operand(name, s), axis, -1) for s in (x, y) if s is not None]
    length = max(s.shape[-1] for s in signals)
    signals = [_extended(name, _with_zeros(s, length), cut, boundary, padded) for s in signals]
    is_complex = any(kind_of(s.dtype) == "c" for s in (*signals, cut.window))
    if is_complex and onesided:
        warnings.warn(f"{name}: the signal is complex, so all frequencies are returned", stacklevel=3)
    halves = onesided and not is_complex
    found = [_of_pieces(s, cut, _detrending(name, detrend), halves) for s in signals]
    scale = _scale(name, scaling, cut.window, fs)
    real = np.zeros(0, found[0].dtype).real.dtype
    if name == "stft":
        result = _product(found[0], jnp.sqrt(scale))
    else:
        products = jnp.conj(found[0]) * found[-1]
        result = _product(products, jnp.broadcast_to(scale * _counts(cut.nfft, halves, real), products.shape))
        result = jnp.real(result) if y is None else result
    frequencies = (jnp.fft.rfftfreq if halves else jnp.fft.fftfreq)(cut.nfft, 1 / fs, dtype=real)
    middle, width = cut.nperseg / 2, signals[0].shape[-1]
    begin = 0.0 if boundary is None else middle
    times = jnp.asarray((np.arange(middle, width - middle + 1, cut.step) - begin).astype(real)) / fs
    return frequencies, times, jnp.moveaxis(result, -1, axis % (result.ndim - 1))


def _averaged(
    name: str, x: Any, y: Any, fs: Any, window: Any, nperseg: Any, noverlap: Any, nfft: Any, detrend: Any,
    onesided: bool, scaling: str, axis: int, average: str,
) -> tuple[Any, Any]:  # fmt: skip
    """Frequencies, and the mean or median over the pieces of the products of their spectra."""
    signals = [_operand(name, s) for s in (x, y) if s is not None]
    cut = _Pieces.of(name, window, nperseg, noverlap, nfft, signals, axis)
    frequencies, _, power = _spectra(name, x, y, fs, cut, detrend, onesided, scaling, axis, None, False)
    if average not in ("mean", "median"):
        raise ArgumentError(f"{name}: average must be 'mean' or 'median', got {average!r}")
    if average == "mean":
        return frequencies, jnp.mean(power, -1)
    bias = _bias_of_median(power.shape[-1])
    if kind_of(power.dtype) != "c":
        return frequencies, jnp.median(power, -1) / bias
    return frequencies, lax.complex(*(jnp.median(part, -1) / bias for part in (power.real, power.imag)))


def _of_pieces(x: Any, cut: _Pieces, detrended: Callable[[Any], Any], halves: bool) -> Any:
    pieces = detrended(x[..., _places(x.shape[-1], cut.nperseg, cut.step)])
    pieces = _product(pieces, jnp.broadcast_to(cut.window, pieces.shape))
    return (jnp.fft.rfft if halves else jnp.fft.fft)(pieces, cut.nfft)


def _product(x: Any, y: Any) -> Any:
    """x * y in the dtype of both, also where dtypes may not be mixed."""
    dtype, _ = lattice_join((x.dtype, False), (y.dtype, False))
    return x.astype(dtype) * y.astype(dtype)


def _operand(name: str, x: Any) -> Any:
    x = jnp.asarray(x)
    if x.ndim == 0 or x.size == 0:
        raise ShapeError(f"{name} takes a signal with elements, got shape {x.shape}")
    return promote_dtypes_inexact(x)[0]


def _detrending(name: str, detrend: Any) -> Callable[[Any], Any]:
    if callable(detrend):
        return detrend
    if isinstance(detrend, str):
        return lambda pieces: without_trend(pieces, type=detrend)
    if detrend:
        raise ArgumentError(f"{name}: detrend must be 'constant', 'linear', a function or False, got {detrend!r}")
    return lambda pieces: pieces


def _scale(name: str, scaling: str, window: Any, fs: Any) -> Any:
    if scaling == "density":
        return 1.0 / (fs * jnp.sum(window * window))
    if scaling == "spectrum":
        return 1.0 / jnp.sum(window) ** 2
    raise ArgumentError(f"{name}: scaling must be 'density' or 'spectrum', got {scaling!r}")


def _counts(nfft: int, halves: bool, dtype: np.dtype) -> np.ndarray:
    """How many frequencies an element stands for: without negative ones two, but 0 and an even length's last."""
    if not halves:
        return np.ones(1, dtype)
    counts = np.full(nfft // 2 + 1, 2, dtype)
    counts[0] = 1
    if nfft % 2 == 0:
        counts[-1] = 1
    return counts


def _bias_of_median(n: int) -> float:
    """The expected median of n exponentially distributed numbers of mean 1, for odd n."""
    evens = 2.0 * np.arange(1.0, (n - 1) // 2 + 1)
    return float(1 + np.sum(1 / (evens + 1) - 1 / evens))


# --- the ends of a signal ---------------------------------------------------------------------------


def _with_zeros(x: Any, length: int) -> Any:
    return jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, length - x.shape[-1])])


def _extended(name: str, x: Any, cut: _Pieces, boundary: str | None, padded: bool) -> Any:
    width = [(0, 0)] * (x.ndim - 1) + [(cut.nperseg // 2,) * 2]
    if boundary == "odd":
        x = 2 * jnp.pad(x, width, "edge") - jnp.pad(x, width, "reflect")
    elif boundary in _BOUNDARIES:
        x = jnp.pad(x, width, _BOUNDARIES[boundary])
    elif boundary is not None:
        raise ArgumentError(
            f"{name}: boundary must be 'odd', None or one of {', '.join(_BOUNDARIES)}, got {boundary!r}"
        )
    rest = -(x.shape[-1] - cut.nperseg) % cut.step if padded else 0
    return _with_zeros(x, x.shape[-1] + rest)


_BOUNDARIES = {"zeros": "constant", "even": "reflect", "constant": "edge"}
