"""The command line: the error of every function, as a table for people and as an exit status for machines.

python -m tests.accuracy                            all 2^32 float32 numbers: about three minutes a function and core
python -m tests.accuracy --sample 1000000           so many of them, at equal distances, and the hard cases
python -m tests.accuracy --sample 1000000 --output ACCURACY.md
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import functad

from . import functions, measure
from .functions import BOUNDS, Entry

DTYPES = (np.dtype(np.float32), np.dtype(np.float64))
_OUTPUT = """# Accuracy

The largest errors found, in units in the last place (ulp) of the result's dtype: ½ is the best that can be had. The ulp
of a subnormal result is the least subnormal number. Un-jitted, functions that NumPy has are NumPy's.

Measured by `python -m tests.accuracy{options}`: {what}. `!` marks what is beyond the bound that the tests hold it
to, `~` exact values that are themselves good to an ulp or two of float64 only. Near their zeros the errors of
`logaddexp` (nearer than 2⁻²⁷ in float32) and, in float64, of `lgamma` and `digamma` are absolute: `LEAST` in
`tests/accuracy/functions.py` says from where on. JAX's CPU backend takes subnormal numbers for 0.

"""


def main() -> int:
    options = _options()
    chosen = [e for e in functions.entries(with_jax=not options.no_jax) if not options.only or e.name in options.only]
    lines, failed = [], []
    for dtype in DTYPES:
        columns = ["un-jitted", "compiled", "NumPy", "JAX"]
        lines += [f"## {dtype.name}", "", f"| function | {' | '.join(columns)} |", "| --- " * 5 + "|"]
        print("\n".join(lines[-4:]), flush=True)
        for entry in chosen:
            row, exceeds = measured(entry, dtype, options.sample, options.threads)
            failed += [f"{entry.name} of {dtype.name}: {text}" for text in exceeds]
            lines.append(row)
            print(row, flush=True)
        lines.append("")
    if options.output:
        Path(options.output).write_text(_header(options.sample) + "\n".join(lines).rstrip() + "\n", encoding="utf-8")
    print("\n".join(failed), file=sys.stderr)
    return 1 if failed else 0


def measured(entry: Entry, dtype: np.dtype, sample: int | None, threads: int = 1) -> tuple[str, list[str]]:
    """The row of one function in the table, and what exceeds its bounds."""
    ours = [entry.ours, functad.jit(entry.ours)]
    others = [f for f in (entry.numpy, entry.jax and _of_jax(entry.jax)) if f]
    least = functions.LEAST.get(entry.name, {}).get(dtype.name, 0.0)
    worst = measure.worst_errors([*ours, *others], entry.exact, operands(entry, dtype, sample), threads, least)
    bounds = BOUNDS[entry.name][dtype.name]
    cells = [_shown(w.ulp) + " !" * (w.ulp > b) for w, b in zip(worst, bounds)]
    modes = zip(("un-jitted", "compiled"), worst, bounds)
    exceeds = [f"{mode} {w.ulp:.4g} ulp at {w.at}, bound {b}" for mode, w, b in modes if w.ulp > b]
    remaining = iter(worst[2:])
    cells += [_shown(next(remaining).ulp) if f else "–" for f in (entry.numpy, entry.jax)]
    mark = " ~" if entry.name in functions.ONLY_DOUBLE and dtype == np.float64 else ""
    return f"| `{entry.name}`{mark} | {' | '.join(cells)} |", exceeds


def operands(entry: Entry, dtype: np.dtype, sample: int | None) -> Iterator[tuple[np.ndarray, ...]]:
    if entry.operands == 2:
        return measure.pairs(dtype, sample or 1 << 24)
    return measure.single_operands(sample) if dtype == np.float32 else measure.double_operands(sample or 1 << 24)


def _of_jax(function: Callable[..., Any]) -> Callable[..., Any]:
    import_jax = functions._module("jax")

    def call(*arrays: np.ndarray) -> np.ndarray:
        with import_jax.enable_x64(True):
            return np.asarray(import_jax.jit(function)(*arrays))

    return call


def _shown(ulp: float) -> str:
    if ulp < 1000:
        return f"{ulp:.3g}" if ulp < 100 else f"{ulp:.0f}"
    return "∞" if np.isinf(ulp) else f"{ulp:.0e}".replace("e+0", "e").replace("e+", "e")


def _header(sample: int | None) -> str:
    what = "all float32 operands of functions of one number" if sample is None else f"{sample:,} operands of each kind"
    return _OUTPUT.format(options="" if sample is None else f" --sample {sample}", what=what + ", and hard cases")


def _options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.accuracy", description=__doc__.partition("\n")[0])
    parser.add_argument("--sample", type=int, metavar="N", help="operands of each kind, instead of all float32 numbers")
    parser.add_argument("--only", nargs="+", metavar="FUNCTION", help="measure these functions")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--no-jax", action="store_true", help="do not compare with JAX, even if it is installed")
    parser.add_argument("--output", metavar="FILE", help="also write the tables there")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
