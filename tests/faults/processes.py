"""Processes to be killed: forked from this one, which has imported everything, so that each takes milliseconds."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable

HANG = 120.0  # s


class Fault(Exception):
    """What must not happen: a wrong value, a hang, a crash, a lost file."""


def start(work: Callable[[], None]) -> int:
    """A child that does the work; its exit status says whether it could."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        faulthandler.register(signal.SIGUSR1)  # says where it hangs
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    return child


def finish(child: int, what: str, *, killed: bool = False, limit: float = HANG) -> None:
    """Wait for a child. Raise Fault unless it could do its work, or died of SIGKILL if it was `killed`."""
    end = time.monotonic() + limit
    while (found := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > end:
            os.kill(child, signal.SIGUSR1)
            time.sleep(1)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise Fault(f"{what}: it hangs")
        time.sleep(0.002)
    code = os.waitstatus_to_exitcode(found[1])
    if code < 0 and not (killed and code == -signal.SIGKILL):
        raise Fault(f"{what}: it died of {signal.Signals(-code).name}")
    if code > 0:
        raise Fault(f"{what}: it failed, as it says above")


def run(work: Callable[[], None], what: str, *, limit: float = HANG) -> None:
    finish(start(work), what, limit=limit)
