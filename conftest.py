"""What all tests share: where they compile to, `--sample`, and how two processes divide the tests (`--share`).

Tests keep what they compile in the repository's own folder, not in the user's cache. `python -m tests` runs them in
two processes; `python -m pytest` in one, without a sample.
"""

from __future__ import annotations

import itertools
import os
import time
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("FUNCTAD_CACHE_DIR", str(Path(__file__).parent / ".pytest_cache" / "functad"))


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("functad")
    group.addoption("--sample", action="store_true", help="of tests marked `generated(every=n)` run one in n")
    group.addoption("--share", metavar="FOLDER", help="run only files that no other process with this folder has begun")
    group.addoption("--backwards", action="store_true", help="begin with the last file")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--share"):
        config.pluginmanager.register(_Share(config), "share")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--sample"):
        chosen = {id(item) for _, cases in itertools.groupby(items, _function) for item in _sample(list(cases))}
        config.hook.pytest_deselected(items=[item for item in items if id(item) not in chosen])
        items[:] = [item for item in items if id(item) in chosen]


def _function(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _sample(cases: list[pytest.Item]) -> list[pytest.Item]:
    """One in so many cases of a test function as its mark says, rounded up; by a hash of names, so always the same."""
    mark = cases[0].get_closest_marker("generated")
    if mark is None:
        return cases
    by_hash = sorted(cases, key=lambda item: zlib.crc32(item.nodeid.encode()))
    return by_hash[: -(-len(cases) // mark.kwargs["every"])]


class _Share:
    """Runs the files that this process is the first to claim, and prints a line for each when it is finished."""

    def __init__(self, config: pytest.Config) -> None:
        self.claims = Path(config.getoption("--share"))
        self.backwards = config.getoption("--backwards")
        self.counts: Counter[str] = Counter()

    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed or session.config.option.collectonly:
            return None  # as pytest does it
        files = [list(items) for _, items in itertools.groupby(session.items, _file)]
        for items in reversed(files) if self.backwards else files:
            try:
                (self.claims / f"{_file(items[0]).replace('/', '+')}.{len(items)}").touch(exist_ok=False)
            except FileExistsError:
                continue
            self._run(session, items)
        return True

    def _run(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        start = time.monotonic()
        self.counts.clear()
        for item, following in zip(items, [*items[1:], None]):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
        begun = sum(int(claim.suffix[1:]) for claim in self.claims.iterdir())
        seconds = time.monotonic() - start
        counts = ", ".join(f"{n} {outcome}" for outcome, n in self.counts.items())
        _say(session, f"{begun / len(session.items):4.0%}  {seconds:5.1f} s  {_file(items[0])}: {counts}")

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> Any:
        """No letter for each test: two processes print to one terminal."""
        category, _, word = yield
        return category, "", "" if report.passed else word

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            self.counts[report.outcome] += 1

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Any:
        report = yield
        if report.failed:
            _say(item.session, f"FAILED {item.nodeid}")
        return report


def _say(session: pytest.Session, line: str) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    assert reporter is not None
    reporter.write_line(line)
    reporter.flush()


def _file(item: pytest.Item) -> str:
    """The file of a test; for the docstrings of a package its folder."""
    path = item.nodeid.partition("::")[0]
    return "/".join(path.split("/")[:2]) if path.startswith("functad/") else path
