"""Whether Numba is here, and whether it is to be used; without importing it.

Knows where Python finds packages, and Numba's own variable that switches it off.
"""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec


@cache
def is_installed() -> bool:
    """Whether Python finds Numba; in a browser, for one, it does not."""
    return find_spec("numba") is not None


def is_switched_off() -> bool:
    """Whether `NUMBA_DISABLE_JIT=1` asks for functions that Numba would compile as plain Python."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
