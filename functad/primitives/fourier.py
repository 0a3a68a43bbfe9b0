"""The discrete Fourier transform over the last axes, as `fft`: of complex numbers, and of real ones their half.

Knows NumPy's transforms; norms, lengths and other axes are the business of the layers above.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad import machine_model
from functad.dtypes import kind_of
from functad.errors import DTypeError, ShapeError
from functad.ir import Aval, Example, OwnDerivative, Primitive
from functad.lowering_rules import Loops
from functad.primitives.arithmetic import complex as complex_of
from functad.primitives.arithmetic import conj, div, floor, mul, real, sub
from functad.primitives.common import broadcast_in_dim, convert_element_type, full, move_axis, normal, scalar_like
from functad.primitives.joining import concatenate
from functad.primitives.loops import fourier as loops
from functad.primitives.loops import fourier_long, fourier_passes
from functad.primitives.reduction import slice_along
from functad.primitives.structure import iota, pad, rev
from functad.primitives.transcendental import cos, sin
from functad.tracing import bind


class FftType(enum.IntEnum):
    """Which transform: Σ x_n e^(−2πi kn/N), its inverse, or these between real arrays and half spectra.

    >>> import functad.numpy as jnp
    >>> from functad import lax
    >>> lax.fft(jnp.ones(4), lax.FftType.RFFT, (4,)).shape
    (3,)
    """

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3

    __str__ = int.__repr__  # parameters are printed as JAX prints them


def fft(x: Any, fft_type: FftType, fft_lengths: Sequence[int]) -> Any:
    """Transform the last axes, as many as there are lengths; they are those of the array, or of the real one."""
    return bind(fft_p, x, fft_type=FftType(fft_type), fft_lengths=tuple(fft_lengths))


_PARTS: dict[str, np.dtype] = {"complex64": np.dtype("float32"), "complex128": np.dtype("float64")}
_WHOLES: dict[str, np.dtype] = {"float32": np.dtype("complex64"), "float64": np.dtype("complex128")}


def _abstract_eval(x: Aval, *, fft_type: FftType, fft_lengths: tuple[int, ...]) -> Aval:
    name, count = fft_type.name.lower(), len(fft_lengths)
    if x.dtype.name not in (_WHOLES if fft_type is FftType.RFFT else _PARTS):
        wanted = "float32 or float64" if fft_type is FftType.RFFT else "complex64 or complex128"
        raise DTypeError(f"fft: {name} takes {wanted}, but was given {x.str_short()}; functad.numpy.fft converts")
    if not 0 < count <= x.ndim or any(n <= 0 for n in fft_lengths):
        raise ShapeError(
            f"fft: fft_lengths={fft_lengths} must be the positive sizes of the last axes of {x.str_short()}"
        )
    kept, half = x.shape[:-count], (*fft_lengths[:-1], fft_lengths[-1] // 2 + 1)
    if x.shape[-count:] != (half if fft_type is FftType.IRFFT else fft_lengths):
        expected = half if fft_type is FftType.IRFFT else fft_lengths
        raise ShapeError(
            f"fft: for {name} with fft_lengths={fft_lengths} the last axes must be {expected}, but x is {x.str_short()}"
        )
    if fft_type is FftType.RFFT:
        return Aval((*kept, *half), _WHOLES[x.dtype.name])
    return Aval((*kept, *fft_lengths), _PARTS[x.dtype.name] if fft_type is FftType.IRFFT else x.dtype)


_OF_ONE_AXIS = {FftType.FFT: "fft", FftType.IFFT: "ifft", FftType.RFFT: "rfft", FftType.IRFFT: "irfft"}


def fourier_transform(x: np.ndarray, *, fft_type: FftType, fft_lengths: tuple[int, ...]) -> np.ndarray:
    name = _OF_ONE_AXIS[fft_type]
    if len(fft_lengths) == 1:
        found: np.ndarray = getattr(np.fft, name)(x, fft_lengths[0])
        return found
    axes = range(-len(fft_lengths), 0)
    return getattr(np.fft, f"{name}n")(x, fft_lengths, axes)  # type: ignore[no-any-return]


def _transpose(ct: Any, x: Any, *, fft_type: FftType, fft_lengths: tuple[int, ...]) -> list[Any]:
    # The matrix of a transform is symmetric. A half spectrum stands for the other half too, conjugated: all but the
    # first and, of an even length, the last element of the last axis count twice.
    if fft_type in (FftType.FFT, FftType.IFFT):
        return [fft(ct, fft_type, fft_lengths)]
    size = math.prod(fft_lengths)
    if fft_type is FftType.RFFT:
        return [mul(fft(conj(_over_counts(ct, fft_lengths)), FftType.IRFFT, fft_lengths), scalar_like(x, size))]
    half = fft(ct, FftType.RFFT, fft_lengths)
    return [conj(mul(half, div(_counts(half, fft_lengths), scalar_like(x, size))))]


def _counts(half: Any, fft_lengths: tuple[int, ...]) -> Any:
    """How often each element of a half spectrum occurs in the whole one."""
    counts = np.full(half.shape[-1], 2, half.dtype)
    counts[0] = 1
    if fft_lengths[-1] % 2 == 0:
        counts[-1] = 1
    return broadcast_in_dim(counts, shape=half.shape, broadcast_dimensions=(len(half.shape) - 1,))


def _over_counts(half: Any, fft_lengths: tuple[int, ...]) -> Any:
    return div(half, _counts(half, fft_lengths))


def _in_kernel(n: int) -> bool:
    return n <= machine_model.FFT_IN_KERNEL and fourier_passes.radices(n) is not None


def _axis_by_axis(x: Aval, *, fft_type: FftType, fft_lengths: tuple[int, ...]) -> Callable[[Any], Any] | None:
    """Several axes one after another, each as the last, where a kernel does one; half spectra first, or at the end."""
    if len(fft_lengths) == 1 or not (x.size and all(n == 1 or _in_kernel(n) or by_chirp(n) for n in fft_lengths)):
        return None
    first = x.ndim - len(fft_lengths)
    whole = FftType.IFFT if fft_type in (FftType.IFFT, FftType.IRFFT) else FftType.FFT

    def others(x: Any) -> Any:
        for axis, n in enumerate(fft_lengths[:-1], first):
            if n > 1:
                last = len(x.shape) - 1
                x = move_axis(fft(move_axis(x, axis, last), whole, (n,)), last, axis)
        return x

    def transform(x: Any) -> Any:
        if fft_type is FftType.IRFFT:
            return fft(others(x), fft_type, fft_lengths[-1:])
        return others(fft(x, fft_type, fft_lengths[-1:]))

    return transform


def by_chirp(n: int) -> bool:
    """Whether a transform of that length is made of transforms of a longer one, which kernels do."""
    return fourier_passes.radices(n) is None and 1 < n <= machine_model.FFT_BY_CHIRP


def _chirped(x: Aval, *, fft_type: FftType, fft_lengths: tuple[int, ...]) -> Callable[[Any], Any]:
    """A transform as a convolution: nk = (n² + k² − (k − n)²) / 2, so X = w* · (x w* ∗ w) with w_n = e^(πi n²/N).

    Source: Bluestein, "A linear filtering approach to the computation of discrete Fourier transform" (1970).
    """
    n, whole = fft_lengths[-1], x.dtype if kind_of(x.dtype) == "c" else _WHOLES[x.dtype.name]
    longer = next(m for m in itertools.count(2 * n - 1) if _of_2_3_5(m))

    def forward(x: Any) -> Any:
        last, shape = len(x.shape) - 1, x.shape
        wave = _wave(n, whole)
        mirrored = rev(slice_along(wave, 0, 1, n), (0,))
        nothing = full((longer - 2 * n + 1,), whole.type(0))
        response = concatenate([wave, nothing, mirrored], 0)
        filtered = fft(response, FftType.FFT, (longer,))
        against = repeated(conj(slice_along(response, 0, 0, n)), shape)  # so that no wave is computed again
        room = [(0, 0, 0)] * last + [(0, longer - n, 0)]
        moved = fft(pad(mul(x, against), whole.type(0), room), FftType.FFT, (longer,))
        found = fft(mul(moved, repeated(filtered, moved.shape)), FftType.IFFT, (longer,))
        return mul(slice_along(found, last, 0, n), against)

    def repeated(vector: Any, shape: tuple[int, ...]) -> Any:
        return broadcast_in_dim(vector, shape=shape, broadcast_dimensions=(len(shape) - 1,))

    def transform(x: Any) -> Any:
        last = len(x.shape) - 1
        if fft_type is FftType.RFFT:
            return slice_along(forward(convert_element_type(x, whole)), last, 0, n // 2 + 1)
        if fft_type is FftType.FFT:
            return forward(x)
        if fft_type is FftType.IRFFT:
            x = _whole_spectrum(x, n)
        found = div(conj(forward(conj(x))), whole.type(n))
        return real(found) if fft_type is FftType.IRFFT else found

    return transform


def _wave(n: int, whole: np.dtype) -> Any:
    """e^(πi k²/n) for k = 0 … n − 1, by angles below one turn."""
    steps = iota(np.float64, (n,), 0)
    squares, turn = mul(steps, steps), np.float64(2 * n)  # whole numbers that float64 has
    angle = mul(sub(squares, mul(floor(div(squares, turn)), turn)), np.float64(math.pi / n))
    part = _PARTS[whole.name]
    return complex_of(convert_element_type(cos(angle), part), convert_element_type(sin(angle), part))


def _of_2_3_5(n: int) -> bool:
    return set(fourier_passes.radices(n) or [0]) <= {2, 3, 4, 5}


def _whole_spectrum(half: Any, n: int) -> Any:
    """All n elements of the spectrum of real numbers; the imaginary parts of what stands for itself are taken as 0."""
    last = len(half.shape) - 1
    first = convert_element_type(real(slice_along(half, last, 0, 1)), half.dtype)
    middle = slice_along(half, last, 1, (n + 1) // 2)
    alone = [] if n % 2 else [convert_element_type(real(slice_along(half, last, n // 2, n // 2 + 1)), half.dtype)]
    return concatenate([first, middle, *alone, rev(conj(middle), (last,))], last)


def _composite(x: Aval, **params: Any) -> Callable[[Any], Any] | None:
    lengths = params["fft_lengths"]
    if len(lengths) == 1 and x.size and by_chirp(lengths[0]):
        return _chirped(x, **params)
    return _axis_by_axis(x, **params)


def _rule(
    target: Any, ins: Sequence[Any], outs: Sequence[Any], *, fft_type: FftType, fft_lengths: tuple[int, ...]
) -> None:
    """A kernel for one axis of a length that is not large, and has small prime factors; else a call of NumPy.

    Others that are not large are taken apart before: see `_chirped`.
    """
    (x,), (out,), n = ins, outs, fft_lengths[-1]
    if len(fft_lengths) == 1 and x.size and _in_kernel(n):
        part, real = np.zeros(0, x.dtype).real.dtype, fft_type in (FftType.RFFT, FftType.IRFFT)
        rows = math.prod(x.shape[:-1])
        is_long = fourier_long.is_long(n, rows, part, real)
        rule = fourier_long.long_fourier_rule if is_long else loops.fourier_rule
        rule(target, x, out, n, fft_type in (FftType.IFFT, FftType.IRFFT))
    else:
        target.call(fourier_transform, ins, outs, fft_type=fft_type, fft_lengths=fft_lengths)


def _batch(axis_size: int, args: Any, dims: Any, *, fft_type: FftType, fft_lengths: tuple[int, ...]) -> tuple[Any, int]:
    ((x,), (dim,)) = args, dims
    if dim >= len(x.shape) - len(fft_lengths):
        x, dim = move_axis(x, dim, 0), 0
    return fft(x, fft_type, fft_lengths), dim


def _examples() -> list[Example]:
    def complex_normal(*shape: int) -> np.ndarray:
        return (normal(*shape) + 1j * normal(*shape, seed=1)).astype(np.complex64)

    shown: list[tuple[np.ndarray, FftType, tuple[int, ...]]] = []
    places: list[tuple[tuple[int, ...], int]] = [((8,), 1), ((2, 5), 1), ((2, 3, 4), 2), ((2, 3, 5), 3), ((1,), 1)]
    for shape, count in [*places, ((0, 3), 1)]:
        lengths, half = shape[-count:], (*shape[:-1], shape[-1] // 2 + 1)
        shown += [(complex_normal(*shape), kind, lengths) for kind in (FftType.FFT, FftType.IFFT)]
        shown += [(normal(*shape), FftType.RFFT, lengths), (complex_normal(*half), FftType.IRFFT, lengths)]
    return [Example(args=(x,), params={"fft_type": kind, "fft_lengths": lengths}) for x, kind, lengths in shown]


fft_p = Primitive(
    name="fft",
    doc="The discrete Fourier transform over the last axes.",
    multiple_results=False,
    abstract_eval=_abstract_eval,
    impl=fourier_transform,
    jvp=OwnDerivative(),
    transpose=_transpose,
    batch=_batch,
    lower=Loops(_rule, composite=_composite),
    examples=_examples,
)
