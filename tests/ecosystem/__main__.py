"""Runs the test suites of libraries written for JAX, with `jax` read as functad, and tells how many tests pass.

python -m tests.ecosystem FOLDER [NAME …]       in an environment that has the libraries, but no JAX
python -m tests.ecosystem FOLDER --jax PYTHON   beside them, what real JAX passes in another environment
python -m tests.ecosystem FOLDER --every 10     one test in ten
python -m tests.ecosystem FOLDER --failed --jax PYTHON   over JAX, what has failed over functad
python -m tests.ecosystem FOLDER --save         writes what has been measured into results.json and README.md

FOLDER has the unpacked source distributions, or checkouts where these have no tests, `optax-0.2.8` and so on. Outcomes
are kept in FOLDER/records: a run that was stopped, or had used up its seconds, goes on where it was. Environments need
pytest-timeout. `excluded.txt` lists the tests that are left out, `failures.txt` says why others fail.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.ecosystem.excluded import LIST, is_taken, reasons_of
from tests.ecosystem.recording import outcomes_of

HERE = Path(__file__).parent
RESULTS, README, FAILURES = HERE / "results.json", HERE / "README.md", HERE / "failures.txt"
# Where the tests lie in a source distribution.
LIBRARIES = {
    "einops": ["einops/tests"],
    "optax": ["optax"],
    "chex": ["chex"],
    "haiku": ["haiku"],
    "flax": ["tests/core", "tests/linen"],
    "equinox": ["tests"],
    "jaxopt": ["tests"],
    "blackjax": ["tests"],
    "distrax": ["distrax"],
    "diffrax": ["test"],
}
SIDES = ("functad", "JAX")
FAILED = "JAX-failed"  # the record of what was run over JAX because it fails over functad
ENDED = ("passed", "failed")


class Options(NamedTuple):
    """How much of a suite is run."""

    every: int = 1
    seconds: float = 1200
    timeout: float = 60


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.ecosystem", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help=f"which of {', '.join(LIBRARIES)}; by default all that are there")
    parser.add_argument("--jax", help="the Python of an environment with JAX, whose numbers stand beside ours")
    parser.add_argument("--only-jax", action="store_true", help="run nothing over functad")
    parser.add_argument("--failed", action="store_true", help="run over JAX the tests that have failed over functad")
    parser.add_argument("--every", type=int, default=1, help="run one test in so many, the same ones on both sides")
    parser.add_argument("--seconds", type=float, default=1200, help="the most for one run of one library on one side")
    parser.add_argument("--timeout", type=float, default=60, help="the most for one test, in seconds")
    parser.add_argument("--save", action="store_true", help="run nothing; write results.json and the table")
    options = parser.parse_args()
    if options.failed and not options.jax:
        parser.error("--failed runs tests over JAX: it needs --jax PYTHON")
    results = json.loads(RESULTS.read_text()) if options.save and RESULTS.exists() else {}
    limits = Options(options.every, options.seconds, options.timeout)
    for name in options.names or LIBRARIES:
        (source, *_) = [*sorted(options.folder.glob(f"{name}-*/")), None]
        if source is None:
            print(f"{name}: no folder {name}-* in {options.folder}", file=sys.stderr)
            continue
        if options.failed:
            run(options.jax, source, name, FAILED, limits._replace(every=1), failed_tests(source, name))
        elif not options.save:
            pythons = {} if options.only_jax else {"functad": sys.executable}
            for side, python in (pythons | ({"JAX": options.jax} if options.jax else {})).items():
                run(python, source, name, side, limits)
        results[name] = result_of(source, name, options.every)
    if options.save:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        README.write_text(with_table(README.read_text(), table_of(results)))
    print(table_of(results))
    return 0


def record_of(source: Path, library: str, side: str) -> Path:
    """The file of a library's outcomes on one side."""
    return source.parent / "records" / f"{library}.{side}.jsonl"


def failed_tests(source: Path, library: str) -> list[str]:
    """The tests of a library that fail over functad, or did not end there."""
    outcomes = outcomes_of(record_of(source, library, "functad").read_text(encoding="utf-8"))
    return [test for test, (outcome, _) in outcomes.items() if outcome not in ("passed", "skipped")]


def run(python: str, source: Path, library: str, side: str, limits: Options, tests: Sequence[str] = ()) -> str:
    """What pytest prints of the tests of one in `every` of a library, without those that its record has."""
    record = record_of(source, library, side)
    record.parent.mkdir(exist_ok=True)
    paths = [str(HERE)] + ([str(HERE.parents[1])] if side == "functad" else [])
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "EINOPS_TEST_BACKENDS": "numpy,jax",
        "JAX_PLATFORMS": "cpu",
    }
    arguments = [
        "-q",
        "--no-header",
        "--continue-on-collection-errors",
        "-p",
        "no:cacheprovider",
        "--tb=short",
        "--rootdir=.",
    ]
    arguments += [f"--timeout={limits.timeout:g}"] if limits.timeout else []
    plugins = [*(["-p", "as_jax"] if side == "functad" else []), "-p", "excluded", "--library", library]
    plugins += [f"--every={limits.every}", "-p", "recording", "--record", str(record.resolve())]
    command = [python, "-m", "pytest", *plugins, *arguments, *(tests or LIBRARIES.get(library, ["."]))]
    start = time.monotonic()
    try:
        done = subprocess.run(
            command, cwd=source, env=environment, capture_output=True, text=True, timeout=limits.seconds
        )
        output = done.stdout + done.stderr
        ending = f"ended after {time.monotonic() - start:.0f} s"
    except subprocess.TimeoutExpired as stopped:
        output = (stopped.stdout or b"").decode()
        ending = f"stopped after {limits.seconds:g} s; another run goes on"
    record.with_suffix(".log").write_text(output)
    print(f"{library} over {side}: {ending}", file=sys.stderr)
    return output


def result_of(source: Path, library: str, every: int) -> dict[str, Any]:
    """The numbers of one library, from its records."""
    sides, days, excluded = {}, [], LIST.read_text(encoding="utf-8")
    for side in (*SIDES, FAILED):
        record = record_of(source, library, side)
        outcomes = outcomes_of(record.read_text(encoding="utf-8")) if record.exists() else {}
        sides[side] = {
            test: outcome
            for test, outcome in outcomes.items()
            if ("::" not in test or side == FAILED or is_taken(test, every)) and not reasons_of(excluded, library, test)
        }
        days += [record.stat().st_mtime] if record.exists() else []
    ours, theirs, asked = sides.values()
    asked |= theirs
    both = [test for test in ours if {ours[test][0], theirs.get(test, ("", ""))[0]} <= {*ENDED}]
    failed = {test: error for test, (outcome, error) in sorted(ours.items()) if outcome == "failed"}
    return {
        "version": source.name.rpartition("-")[2],
        "date": str(datetime.date.fromtimestamp(max(days, default=0))),
        "every": every,
        "functad": _counted(ours),
        "JAX": _counted(theirs),
        "both": {side: sum(sides[side][test][0] == "passed" for test in both) for side in SIDES} | {"tests": len(both)},
        "failed": dict(Counter(asked.get(test, ("not run", ""))[0] for test in failed)),
        "failures": {test: error for test, error in failed.items() if asked.get(test, ("", ""))[0] != "failed"},
    }


def _counted(outcomes: dict[str, tuple[str, str]]) -> dict[str, int]:
    return dict(Counter(outcome for outcome, _ in outcomes.values()))


HEADINGS = (
    "| library | measured | tests | functad | of failures: JAX passes | not run | of both: functad | JAX "
    "| did not end: functad | JAX |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
)


def table_of(results: dict[str, Any]) -> str:
    """The table of README.md."""
    return HEADINGS + "".join(_row(name, results[name]) for name in LIBRARIES if name in results)


def _row(name: str, result: dict[str, Any]) -> str:
    counts, both = result["functad"], result["both"]
    total = sum(counts.get(outcome, 0) for outcome in ENDED)
    cells = [
        f"{name} {result['version']}",
        result["date"],
        "all" if result["every"] == 1 else f"one in {result['every']}",
    ]
    cells += [f"{counts.get('passed', 0):,} of {total:,}"]
    cells += [str(result["failed"].get(outcome, 0)) for outcome in ("passed", "not run")]
    cells += [f"{both[side]:,} of {both['tests']:,}" for side in SIDES]
    cells += [str(sum(result[side].get(outcome, 0) for outcome in ("timeout", "stopped"))) for side in SIDES]
    return "| " + " | ".join(cells) + " |\n"


_TABLE = re.compile(r"^\| library \|.*?\n(?!\|)", flags=re.M | re.S)


def with_table(text: str, table: str) -> str:
    """A text in whose place for it the table stands."""
    if not _TABLE.search(text):
        raise ValueError("README.md has no table of libraries: a line that begins with `| library |`")
    return _TABLE.sub(lambda _: table, text, count=1)


def unexplained(results: dict[str, Any], reasons: str) -> list[str]:
    """The tests that fail over functad, but not over JAX, and of which no line of `failures.txt` says why."""
    return [
        f"{name} {test}: {error}"
        for name, result in results.items()
        for test, error in result["failures"].items()
        if not reasons_of(reasons, name, test)
    ]


if __name__ == "__main__":
    sys.exit(main())
