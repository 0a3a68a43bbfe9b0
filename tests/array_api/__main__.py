"""Runs the public test suite of the Array API standard over `functad.numpy`, un-jitted, and prints what passes.

python -m tests.array_api FOLDER        a checkout of github.com/data-apis/array-api-tests with its submodule, in an
                                        environment with the extra `array-api`

`xfails.txt` lists the tests that must fail, with the reasons; `second_values.py` says what is checked where the
standard permits two values. Numbers have 64 bits by default, as the suite takes for granted in places.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
XFAILS = Path(__file__).with_name("xfails.txt")
COUNTS = ("passed", "failed", "xfailed", "xpassed", "skipped", "errors")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.array_api", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--examples", type=int, default=20, help="how many a property is tried on")
    parser.add_argument("--only", default="array_api_tests", help="a file or test of the suite")
    options = parser.parse_args()
    output = run(options.folder, options.examples, options.only)
    counts = counts_of(output)
    print("\n".join(line for line in output.splitlines() if line.startswith(("FAILED", "ERROR", "XPASS"))))
    print(", ".join(f"{count} {name}" for name, count in zip(COUNTS, counts)))
    if not sum(counts):
        print(output, file=sys.stderr)
    passed, failed, _, _, _, errors = counts
    return int(bool(failed or errors or not passed))


def run(folder: Path, examples: int, only: str) -> str:
    """What pytest prints of the suite in a folder."""
    settings = {
        "PYTHONPATH": str(ROOT),
        "ARRAY_API_TESTS_MODULE": "functad.numpy",
        "ARRAY_API_TESTS_VERSION": "2024.12",
        "FUNCTAD_ENABLE_X64": "1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-rfEX", "--no-header", "-p", "no:cacheprovider"]
    command += ["-p", "tests.array_api.second_values", only]
    command += ["--xfails-file", str(XFAILS), "--max-examples", str(examples), "--disable-deadline"]
    done = subprocess.run(command, cwd=folder, env=os.environ | settings, capture_output=True, text=True)
    return done.stdout + done.stderr


def counts_of(output: str) -> list[int]:
    """How many tests passed, failed, and so on, by pytest's last line."""
    last = next((line for line in reversed(output.splitlines()) if re.search(r"\d+ (passed|failed|error)", line)), "")
    found = {name.rstrip("s"): int(n) for n, name in re.findall(r"(\d+) (\w+)", last)}
    return [found.get(name.rstrip("s"), 0) for name in COUNTS]


if __name__ == "__main__":
    sys.exit(main())
