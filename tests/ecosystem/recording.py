"""A pytest plugin that writes the outcome of each test as it ends: `-p recording --record FILE`.

A test that the file has is not run again, so a suite that was stopped goes on where it was. One during which it was
stopped is tried once more; then it counts as `stopped`.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

TRIES = 2
# The worse one of several outcomes of a test: of its phases and subtests.
_WORSE = ("passed", "skipped", "failed", "timeout")


def outcomes_of(text: str) -> dict[str, tuple[str, str]]:
    """The outcome of each test and its error, from the lines of a record."""
    started: Counter[str] = Counter()
    ended: dict[str, tuple[str, str]] = {}
    for line in text.splitlines():
        entry = json.loads(line)
        if "outcome" in entry:
            ended[entry["test"]] = (entry["outcome"], entry["error"])
        else:
            started[entry["test"]] += 1
    stopped = {test: ("stopped", "") for test, times in started.items() if times >= TRIES and test not in ended}
    return stopped | ended


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--record", default="", help="the file of the outcomes")


def pytest_configure(config: Any) -> None:
    if config.getoption("--record"):
        config.pluginmanager.register(_Recorder(Path(config.getoption("--record"))))


class _Recorder:
    """Leaves out what the file has, and adds to it."""

    def __init__(self, file: Path):
        self.file = file
        self.done = outcomes_of(file.read_text(encoding="utf-8") if file.exists() else "")
        self.current: dict[str, tuple[str, str]] = {}

    def write(self, **entry: str) -> None:
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        items[:] = [item for item in items if item.nodeid not in self.done]

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed and report.nodeid not in self.done:
            self.write(test=report.nodeid, outcome="failed", error=_error_of(report))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.write(test=nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        error = _error_of(report) if report.failed else ""
        outcome = "timeout" if "Timeout (>" in error else report.outcome
        before = self.current.get(report.nodeid, ("passed", ""))
        if _WORSE.index(outcome) > _WORSE.index(before[0]):
            self.current[report.nodeid] = (outcome, error)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        outcome, error = self.current.pop(nodeid, ("passed", ""))
        self.write(test=nodeid, outcome=outcome, error=error)


def _error_of(report: Any) -> str:
    """The first line of the error of a failed report."""
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = (crash.message if crash else str(report.longrepr)).strip().splitlines() or [""]
    return str(lines[0] if crash else lines[-1])[:200]
