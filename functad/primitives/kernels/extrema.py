"""Maxima and minima as IEEE 754-2019 has them: +0 is larger than -0, in whatever order the two meet.

It must not know tracing or derivatives. NumPy takes the zeros for equal, and keeps on x86 the second operand (of
float16 the first), in reductions whichever its vectors meet last; compiled kernels follow the standard.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.dtypes import kind_of


def maximum(x: Any, y: Any) -> Any:
    """The larger of x and y, element by element; NaN if either is."""
    return _pairs(np.maximum, x, y)


def minimum(x: Any, y: Any) -> Any:
    """The smaller of x and y, element by element; NaN if either is."""
    return _pairs(np.minimum, x, y)


def reduce(ufunc: np.ufunc, x: np.ndarray, axes: Sequence[int], initial: Any) -> Any:
    """`ufunc`, `np.maximum` or `np.minimum`, of `initial` and all elements along the axes, which are dropped."""
    return folded(ufunc, lambda f, x, initial: f.reduce(x, axis=tuple(axes), initial=initial), x, initial)


def folded(ufunc: np.ufunc, fold: Callable[..., Any], *operands: Any) -> np.ndarray:
    """`fold(ufunc, *operands)` with the right zeros, where `fold` combines its operands by the ufunc it is given.

    The sign of a maximum is negative if all signs are, that of a minimum if any is, and so the same fold of the
    signs decides. It is seldom needed: the result is one of the operands, and can only be wrong where it is the
    zero that loses against the other.
    """
    out: np.ndarray = fold(ufunc, *operands)
    if kind_of(out.dtype) != "f" or out.size == 0:
        return out
    words, loser, fold_of_signs = _LOSERS[ufunc, out.itemsize]
    patterns = out.view(words)
    if patterns.min() != loser:
        return out
    negative = fold(fold_of_signs, *map(np.signbit, operands))
    wrong = (patterns == loser) & (negative != (loser < 0))
    return np.where(wrong, -out, out) if wrong.any() else out


def _pairs(ufunc: np.ufunc, x: Any, y: Any) -> Any:
    if (np.ndim(x) == 0 and bool(x)) or (np.ndim(y) == 0 and bool(y)):
        return ufunc(x, y)  # no two zeros meet
    return folded(ufunc, _at_once, x, y)


def _at_once(ufunc: np.ufunc, x: Any, y: Any) -> Any:
    return ufunc(x, y)


# By the bytes of a float, words whose lowest value is the pattern of the zero that loses, that value, and what
# combines signs: of signed words the lowest is -0, of unsigned ones +0.
_LOSERS: dict[tuple[np.ufunc, int], tuple[np.dtype, int, np.ufunc]] = {
    **{(np.maximum, n): (np.dtype(f"i{n}"), -(2 ** (8 * n - 1)), np.logical_and) for n in (2, 4, 8)},
    **{(np.minimum, n): (np.dtype(f"u{n}"), 0, np.logical_or) for n in (2, 4, 8)},
}
