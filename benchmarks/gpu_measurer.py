"""A process that measures on a GPU, one thing after another: what crashes or hangs there takes only it along.

Knows how names go there and answers come back; not what is measured.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

LONGEST = 60.0  # seconds, after which a measurement counts as one that hangs
_ANSWER = "answer "  # how lines begin that are no words of a library
# How libraries say that a kernel has gone wrong: after that their process has no GPU any more.
_FAULTS = (
    "DeviceFaultError",
    "CUDA error",
    "CUDA_ERROR_ILLEGAL",
    "CUDA_ERROR_LAUNCH",
    "illegal memory",
    "illegal address",
)


class MeasuringError(Exception):
    """A measurement gave no result; the message says why."""


class Measurer:
    """Asks a process for measurements by name, and starts another one where it has ended or lost its GPU."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[str] | None = None

    def ask(self, name: str, seconds: float) -> dict[str, float]:
        """The result, if there is one within so many seconds.

        Raises:
            MeasuringError: it failed, its process ended, or it took longer.
        """
        process = self._process or subprocess.Popen(
            self._command, text=True, encoding="utf-8", stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._process = process
        limit = min(seconds, LONGEST)
        late = threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(limit, end)
        timer.start()
        answer = _answer(process, name)
        timer.cancel()
        if late.is_set() or answer is None:
            status = self._end()
            raise MeasuringError(f"no result after {limit:.0f} s" if late.is_set() else f"its process ended: {status}")
        if "error" not in answer:
            found: dict[str, float] = answer["result"]
            return found
        if any(fault in answer["error"] for fault in _FAULTS):
            self._end()
        raise MeasuringError(answer["error"])

    def close(self) -> None:
        if self._process is not None:
            self._end()

    def _end(self) -> int:
        process, self._process = self._process, None
        assert process is not None and process.stdin is not None and process.stdout is not None
        process.kill()
        process.stdout.close()
        try:
            process.stdin.close()
        except BrokenPipeError:  # a name that it never read
            pass
        return process.wait()


def _answer(process: subprocess.Popen[str], name: str) -> dict[str, Any] | None:
    """What the process says of a measurement; None if it ends before."""
    assert process.stdin is not None and process.stdout is not None
    try:
        print(name, file=process.stdin, flush=True)
    except BrokenPipeError:
        return None
    for line in process.stdout:
        if line.startswith(_ANSWER):
            found: dict[str, Any] = json.loads(line.removeprefix(_ANSWER))
            return found
        print(line, end="", flush=True)
    return None


def serve(measurements: Mapping[str, Callable[[], dict[str, float]]]) -> None:
    """Answer names with results, as long as there are some."""
    for line in sys.stdin:
        try:
            answer: dict[str, Any] = {"result": measurements[line.rstrip("\n")]()}
        except Exception as problem:
            answer = {"error": f"{type(problem).__name__}: {problem}"}
        print(f"\n{_ANSWER}{json.dumps(answer)}", flush=True)
