"""Which processor this is: what tells it from those that other machine code is for.

This file must not import Numba, nor LLVM where the system says it, too: with a warm cache a process does without them.
"""

from __future__ import annotations

import platform
import sys
from functools import cache

from functad.system.once import imported

# The lines that Linux has for one core. How fast it runs just now is none of them.
_NAMES = ("vendor_id", "cpu family", "model", "stepping")
_CORE_BYTES = 1 << 14


@cache
def processor() -> tuple[str, str]:
    """A name of the processor at hand and its features, such as `"+avx2,+fma"`."""
    return _of_linux() or imported("functad.backends.cpu.compile.target").host()


def is_x86() -> bool:
    """Whether it is one of Intel's and AMD's kind."""
    return platform.machine().lower() in ("x86_64", "amd64", "i386", "i686")


def _of_linux() -> tuple[str, str] | None:
    if sys.platform != "linux" or not is_x86():
        return None
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            lines = file.read(_CORE_BYTES).decode("ascii", "replace").split("\n\n")[0].splitlines()
    except OSError:
        return None
    facts = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    flags = facts.get("flags", "").split()
    if not flags or any(name not in facts for name in _NAMES):
        return None
    return " ".join(facts[name] for name in _NAMES), ",".join(f"+{flag}" for flag in flags)
