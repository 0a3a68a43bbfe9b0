"""One eval of a checkout of GradBench with one tool: their messages to each other, and what the tool timed.

Knows processes and messages; which tools there are, and how figures are shown, is in `runner`.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple


class ToolError(Exception):
    """The tool does not have the eval, or ended before it was through; the message is its own."""


class Evaluation(NamedTuple):
    """What one message made the tool compute.

    Attributes:
        function: of the eval.
        size: the eval's description of the input.
        first: seconds of the first run, which may compile.
        seconds: of each run after it.
        problem: what the tool, or the eval's validation, says is wrong; None where the result is valid.
    """

    function: str
    size: str
    first: float
    seconds: list[float]
    problem: str | None


def converse(
    eval_command: list[str], tool_command: list[str], checkout: Path, variables: Mapping[str, str]
) -> list[Evaluation]:
    """Let them talk until the eval is through; raises ToolError where the tool has nothing to say."""
    found: dict[int, Evaluation] = {}
    with _process(eval_command, checkout, variables) as ours, _process(tool_command, checkout, variables) as tool:
        assert ours.stdin and ours.stdout and tool.stdin and tool.stdout
        for line in ours.stdout:
            message = json.loads(line)
            if message["kind"] == "analysis":
                problem = None if message["valid"] else message.get("error", "the result is not valid")
                found[message["of"]] = found[message["of"]]._replace(problem=problem)
            print(line, end="", file=tool.stdin, flush=True)
            answer = tool.stdout.readline()
            if not answer:
                raise ToolError(f"it ended at {message['kind']} {message.get('function', '')}".rstrip())
            response = json.loads(answer)
            if message["kind"] == "define" and not response["success"]:
                raise ToolError(str(response.get("error", "it does not have this eval")).strip().splitlines()[-1])
            if message["kind"] == "evaluate":
                found[message["id"]] = _evaluation(message, response)
            print(answer, end="", file=ours.stdin, flush=True)
        if ours.wait():
            raise ToolError(f"the eval itself ended with exit code {ours.returncode}")
    return list(found.values())


def _evaluation(message: Any, response: Any) -> Evaluation:
    times = [timing["nanoseconds"] / 1e9 for timing in response.get("timings") or [] if timing["name"] != "prepare"]
    # An analysis follows where the tool has answered.
    problem = "was not validated" if response["success"] else response.get("error", "the tool failed")
    first, following = (times[0], times[1:]) if times else (float("nan"), [])
    return Evaluation(message["function"], message.get("description") or "", first, following, problem)


@contextmanager
def _process(command: list[str], checkout: Path, variables: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A process that talks on its standard input and output, and is gone afterwards."""
    process = subprocess.Popen(
        command,
        cwd=checkout,
        env={**os.environ, **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # a pipe that nobody reads would fill
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
