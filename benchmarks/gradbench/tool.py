"""GradBench's protocol: JSON messages, a line each, and the answers to them.

Knows messages; programs are in `evals/`, how they are timed is in `task`.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterable
from typing import Any, TextIO

from benchmarks.gradbench.evals import EVALS
from benchmarks.gradbench.task import run


def serve(messages: Iterable[str], answers: TextIO) -> None:
    """Answer every message until there are no more."""
    for line in messages:
        message = json.loads(line)
        print(json.dumps({"id": message["id"]} | answer(message)), file=answers, flush=True)


def answer(message: dict[str, Any]) -> dict[str, Any]:
    """The answer to one message, without its number."""
    match message["kind"]:
        case "start":
            return {"tool": "functad"}
        case "define":
            module = message["module"]
            return {"success": True} if module in EVALS else _failure(f"no eval named {module}")
        case "evaluate":
            try:
                return _evaluate(message)
            except Exception:  # what went wrong belongs into the answer: the eval goes on with its next message
                return _failure(traceback.format_exc())
    return {}


def _evaluate(message: dict[str, Any]) -> dict[str, Any]:
    found = run(EVALS[message["module"]][message["function"]], message["input"])
    timings = [("compile", found.first), *(("evaluate", nanoseconds) for nanoseconds in found.calls)]
    return {
        "success": True,
        "output": found.output,
        "timings": [{"name": name, "nanoseconds": nanoseconds} for name, nanoseconds in timings],
    }


def _failure(error: str) -> dict[str, Any]:
    return {"success": False, "error": error}
