"""Runs the test suites of libraries written for JAX, with `jax` read as functad, and prints how many tests pass.

python -m tests.ecosystem FOLDER [NAME …]       in an environment that has the libraries, but no JAX
python -m tests.ecosystem FOLDER --jax PYTHON   beside them, what real JAX passes in another environment
python -m tests.ecosystem FOLDER --every 10     one test in ten

FOLDER has the unpacked source distributions, or checkouts where these have no tests, `optax-0.2.8` and so on.
`excluded.txt` lists the tests that are left out, `README.md` what was measured.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
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
COUNTS = ("passed", "failed", "errors", "skipped", "subtests passed")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.ecosystem", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help=f"which of {', '.join(LIBRARIES)}; by default all that are there")
    parser.add_argument("--jax", help="the Python of an environment with JAX, whose numbers stand beside ours")
    parser.add_argument("--every", type=int, default=1, help="run one test in so many, the same ones on both sides")
    parser.add_argument("--minutes", type=float, default=20, help="the most for one library")
    options = parser.parse_args()
    print("| library | with | " + " | ".join(COUNTS) + " |\n|" + " --- |" * (len(COUNTS) + 2))
    for name in options.names or LIBRARIES:
        (source, *_) = [*sorted(options.folder.glob(f"{name}-*/")), None]
        if source is None:
            print(f"{name}: no folder {name}-* in {options.folder}", file=sys.stderr)
            continue
        pythons = {"functad": sys.executable} | ({"JAX": options.jax} if options.jax else {})
        for what, python in pythons.items():
            output = run(python, source, name, what == "functad", 60 * options.minutes, options.every)
            print(f"| {source.name} | {what} | " + " | ".join(map(str, counts_of(output))) + " |", flush=True)
            for error, count in errors_of(output)[:8]:
                print(f"    {count:4d}  {error}", file=sys.stderr)
    return 0


def run(python: str, source: Path, library: str, as_functad: bool, seconds: float, every: int = 1) -> str:
    """What pytest prints of one in `every` of a library's tests, without those of `excluded.txt`."""
    paths = [str(HERE), str(HERE.parents[1])] if as_functad else [str(HERE)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "EINOPS_TEST_BACKENDS": "numpy,jax"}
    arguments = ["-q", "--no-header", "--continue-on-collection-errors", "-p", "no:cacheprovider"]
    plugins = [*(["-p", "as_jax"] if as_functad else []), "-p", "excluded", "--library", library, f"--every={every}"]
    command = [python, "-m", "pytest", *plugins, *arguments, *LIBRARIES.get(library, ["."])]
    try:
        done = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired as stopped:
        return f"{(stopped.stdout or b'').decode()}\nstopped after {seconds:.0f} s"
    return done.stdout


def counts_of(output: str) -> list[int]:
    """How many tests passed, failed, and so on, by pytest's last line."""
    last = next((line for line in reversed(output.splitlines()) if re.search(r"\d+ (passed|failed|error)", line)), "")
    found = {name.replace("error", "errors").replace("errorss", "errors"): int(n) for n, name in _SUMMARY.findall(last)}
    return [found.get(name, 0) for name in COUNTS]


_SUMMARY = re.compile(r"(\d+) (subtests passed|passed|failed|errors?|skipped)")


def errors_of(output: str) -> list[tuple[str, int]]:
    """The errors that stopped tests, the most frequent first."""
    lines = re.findall(r"^E +((?:[\w.]+)?(?:Error|Exception)\b.*)$", output, flags=re.M)
    return Counter(line[:150] for line in lines).most_common()


if __name__ == "__main__":
    sys.exit(main())
