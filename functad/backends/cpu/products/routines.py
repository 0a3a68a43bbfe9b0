"""The intrinsics of kernel text for routines of LAPACK, and what they do when kernel text runs as plain Python.

This file must not know what the routines compute, and never imports Numba.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from functad.system import lapack


def _word(name: str, info: bool = True) -> Callable[..., int]:
    def routine(handle: Any, *arguments: Any) -> int:
        """Call the routine, and return what it says of how that went: 0 if all went well.

        `handle` is that of `Target.lapack(name, dtype)`. The arguments are those of the Fortran routine without the
        last one, in which it says how it went: flat arrays, each followed by the element with which what is meant
        begins, and numbers. A letter is its code.
        """
        given = list(_given(arguments))
        dtype = next(x.dtype for x in given if isinstance(x, np.ndarray))
        return int(lapack.apply(name, dtype, 1, *given, info=info)[0])

    routine.__name__ = routine.__qualname__ = f"lapack_{name}"
    routine.has_info = info  # type: ignore[attr-defined]
    return routine


def _given(arguments: Sequence[Any]) -> Iterator[int | np.ndarray]:
    """The arguments as `lapack.apply` takes them."""
    rest = iter(arguments)
    for argument in rest:
        if isinstance(argument, np.ndarray):
            yield argument[next(rest) :]
        elif isinstance(argument, (int, np.integer)):
            yield int(argument)
        else:
            yield np.array([argument])


lapack_gesdd = _word("gesdd")
lapack_geqrf = _word("geqrf")
lapack_getrf = _word("getrf")
lapack_heevd = _word("heevd")
lapack_orgqr = _word("orgqr")
lapack_potrf = _word("potrf")
lapack_syevd = _word("syevd")
lapack_trsm = _word("trsm", info=False)
lapack_ungqr = _word("ungqr")

WORDS = (
    lapack_gesdd, lapack_geqrf, lapack_getrf, lapack_heevd, lapack_orgqr, lapack_potrf, lapack_syevd, lapack_trsm,
    lapack_ungqr,
)  # fmt: skip
