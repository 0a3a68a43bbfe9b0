"""Groups of programs that come to no end: says where they hang, and ends the process.

Knows no programs. In a module of its own, because other processes import it by name.
"""

from __future__ import annotations

import faulthandler
import os
import threading
from collections.abc import Callable
from functools import partial

from .session import GROUP, Report, try_group

HANGS = 1800.0  # seconds for a group, which takes some; making failures small takes a minute each


def guarded(seed: int, only: str | None, patience: float, number: int) -> Report:
    """`try_group` within so many seconds."""
    again = f"--seed {seed} --program {number * GROUP}"
    return or_end(partial(try_group, seed, number, only=only), again, patience)


def or_end(run: Callable[[], Report], again: str, seconds: float) -> Report:
    """What `run` gives. Where it never does, say where it hangs and end the process."""

    def end() -> None:
        print(f"\n=== no end after {seconds:.0f} s; again: python -m tests.fuzz {again}", flush=True)
        faulthandler.dump_traceback()
        os._exit(1)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        return run()
    finally:
        timer.cancel()
