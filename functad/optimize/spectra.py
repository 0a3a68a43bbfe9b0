"""Rules for Fourier transforms: that of real numbers needs half of the work."""

from __future__ import annotations

from typing import Any

from functad.dtypes import kind_of
from functad.editing.rewriting import View, spliced
from functad.ir import Eqn
from functad.primitives.arithmetic import conj
from functad.primitives.common import convert_element_type_p
from functad.primitives.fourier import FftType, fft
from functad.primitives.joining import concatenate
from functad.primitives.reduction import slice_along
from functad.primitives.structure import rev


def of_real(eqn: Eqn, view: View) -> list[Eqn] | None:
    """The half spectrum of real numbers, of an even count, and the other half: its conjugate from the end."""
    kind, lengths = eqn.params["fft_type"], eqn.params["fft_lengths"]
    converted = view.definition(eqn.invars[0], convert_element_type_p)
    if kind is not FftType.FFT or not converted or len(lengths) > 1 or lengths[0] % 2:
        return None
    (x,), out, n = converted.invars, eqn.outvars[0].aval, lengths[0]
    if kind_of(x.aval.dtype) != "f" or 2 * x.aval.dtype.itemsize != out.dtype.itemsize:
        return None

    def spectrum(x: Any) -> list[Any]:
        last = len(x.shape) - 1
        half = fft(x, FftType.RFFT, lengths)
        return [concatenate([half, conj(rev(slice_along(half, last, 1, n // 2), (last,)))], last)]

    return spliced(spectrum, [x], eqn)
