"""The memory of dead arrays stays with the process for the next ones, up to a limit.

glibc gives the end of its heap back to the system as soon as a little of it is free. The next large results then take
a page fault for each 4 KiB, call by call, which can cost ten times what computing them does.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache

from functad import machine_model

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # <malloc.h>
_LARGEST_OF_THE_HEAP = 32 << 20  # what is larger always has a mapping of its own
_SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


@cache
def keep_freed_memory() -> bool:
    """Ask glibc to keep what is freed; once a process.

    Returns whether it does: not with another C library, nor where the user's environment has settings of its own
    (`MALLOC_TRIM_THRESHOLD_`, `MALLOC_MMAP_THRESHOLD_`, `GLIBC_TUNABLES`).
    """
    if os.name != "posix" or any(name in os.environ for name in _SETTINGS):
        return False
    library = ctypes.CDLL(None)
    if not (hasattr(library, "mallopt") and hasattr(library, "gnu_get_libc_version")):
        return False
    # Either one alone would end glibc's own adaptation of both.
    kept = library.mallopt(_M_TRIM_THRESHOLD, machine_model.KEPT_FREED_BYTES)
    return bool(kept and library.mallopt(_M_MMAP_THRESHOLD, _LARGEST_OF_THE_HEAP))
