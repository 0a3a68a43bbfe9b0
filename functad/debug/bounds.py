"""`config.debug_index`: positions outside of an array raise, also those that only a run of compiled code knows.

Knows ranges of positions; what an index means, and the error, is known to those who ask.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad.api.callbacks import flat_callback
from functad.config import config
from functad.errors import OutOfBoundsError
from functad.primitives.callback import debug_callback
from functad.tracing import Tracer
from functad.user_source import user_source


def check_positions(index: Any, least: int, most: int, error: Callable[[int], OutOfBoundsError]) -> None:
    """With `config.debug_index` raise `error(position)` for one that is not within `least` to `most`: now if it is
    known, else each time that the traced function runs."""
    if not config.debug_index:
        return
    if not isinstance(index, Tracer):
        _check(np.asarray(index), least, most, error)
        return
    line = user_source()

    def check(positions: Any) -> None:
        try:
            _check(np.asarray(positions), least, most, error)
        except OutOfBoundsError as problem:
            raise OutOfBoundsError(f"{problem}\nYour line: {line}") from None

    flat, operands = flat_callback(check, (index,), {}, "config.debug_index", is_check=True)
    debug_callback(flat, operands, False)


def _check(positions: np.ndarray, least: int, most: int, error: Callable[[int], OutOfBoundsError]) -> None:
    outside = (positions < least) | (positions > most)
    if outside.any():
        raise error(int(positions[outside].flat[0]))
