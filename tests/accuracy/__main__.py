"""The command line: the error of every function, as a table for people and as an exit status for machines.

python -m tests.accuracy                            all 2^32 float32 numbers: two to three minutes a function and core
python -m tests.accuracy --sample 1000000           so many of them, at equal distances, and the hard cases
python -m tests.accuracy --sample 1000000 --output ACCURACY.md
python -m tests.accuracy --output ACCURACY.md --resume       goes on where it was stopped, or with more operands
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
COLUMNS = ("un-jitted", "compiled", "NumPy", "JAX", "operands")
DOUBLES = 1 << 22  # operands of each kind where there are too many to try all
OTHERS = 1 << 24  # operands at equal distances for NumPy's and JAX's functions of float32
_OUTPUT = """# Accuracy

The largest errors found, in units in the last place (ulp) of the result's dtype: ½ is the best that can be had. The ulp
of a subnormal result is the least subnormal number. Un-jitted, functions that NumPy has are NumPy's.

Measured by `python -m tests.accuracy`. The last column says at how many operands of each kind, besides hard cases;
`all` is all 2³² (for NumPy's and JAX's functions 2²⁴). `!` marks what is beyond the bound that the tests hold it to,
`~` exact values that are themselves good to an ulp or two of float64 only. Near its zeros the errors of float64
`logaddexp` are absolute; those of `lgamma` and `digamma` of negative float64 are in ulp of the larger
of the two numbers whose difference the result is by reflection, or of 1: near their negative roots they are absolute,
as SciPy's are. `LEAST` in `tests/accuracy/functions.py` has the sizes. JAX's CPU backend takes subnormal numbers for 0.

Compiled float32 functions of more than 1 ulp are left so for their speed: `logistic` with all its roundings corrected
has 0.78 ulp and takes 1.7 times as long, with its quotient corrected 1.45 and 1.45 times; `expm1` has 1.07 at 1.25
times. `atan2`, `erf`, `tanh`, `log2` and `hypot` have one rounding too many in the same way, a quotient's or a last
product's. `pow` has less than 1.1 but for numbers within 1/32 of 1 to powers of thousands: up to 2, and 0.9 in
float64, where it has less than 0.6 elsewhere. `erf_inv` makes random normals, whose bits stay as they are. Of float64,
`erfc`, `lgamma`, `digamma`, the Bessel functions and `logaddexp2` are above 2: they are series and fits in plain
float64, as SciPy's are; more digits take two numbers each.
"""


def main() -> int:
    options = _options()
    chosen = [e for e in functions.entries(with_jax=not options.no_jax) if not options.only or e.name in options.only]
    page = Path(options.output) if options.output else None
    rows = _rows_of(page.read_text(encoding="utf-8")) if page and options.resume and page.exists() else {}
    failed = []
    for dtype in (d for d in DTYPES if options.dtype in (None, d.name)):
        print(_head(dtype), flush=True)
        for entry in chosen:
            key, count = (dtype.name, entry.name), _count(entry, dtype, options.sample)
            if count > _count_of(rows.get(key, "")):
                rows[key], exceeds = measured(entry, dtype, options.sample, options.threads)
                failed += [f"{entry.name} of {dtype.name}: {text}" for text in exceeds]
                if page:
                    page.write_text(_page(rows), encoding="utf-8")
            print(rows[key], flush=True)
    print("\n".join(failed), file=sys.stderr)
    return 1 if failed else 0


def measured(entry: Entry, dtype: np.dtype, sample: int | None, threads: int = 1) -> tuple[str, list[str]]:
    """The row of one function in the table, and what exceeds its bounds."""
    ours = [entry.ours, functad.jit(entry.ours)]
    others = [f for f in (entry.numpy, entry.jax and _of_jax(entry.jax)) if f]
    least = functions.LEAST.get(entry.name, {}).get(dtype.name, 0.0)
    quick = functad.jit(entry.ours) if entry.name in functions.QUICK else None
    count = _count(entry, dtype, sample)

    def worst_of(several: Sequence[Callable[..., Any]], count: int) -> list[measure.Worst]:
        return measure.worst_errors(several, entry.exact, operands(entry, dtype, count), threads, least, quick)

    if count > OTHERS and others:
        worst = worst_of(ours, count) + worst_of(others, OTHERS)
    else:
        worst = worst_of([*ours, *others], count)
    bounds = BOUNDS[entry.name][dtype.name]
    cells = [_shown(w.ulp) + " !" * (w.ulp > b) for w, b in zip(worst, bounds)]
    modes = zip(("un-jitted", "compiled"), worst, bounds)
    exceeds = [f"{mode} {w.ulp:.4g} ulp at {w.at}, bound {b}" for mode, w, b in modes if w.ulp > b]
    remaining = iter(worst[2:])
    cells += [_shown(next(remaining).ulp) if f else "–" for f in (entry.numpy, entry.jax)]
    cells.append("all" if count == 1 << 32 else f"{count:,}")
    mark = " ~" if entry.name in functions.ONLY_DOUBLE and dtype == np.float64 else ""
    return f"| `{entry.name}`{mark} | {' | '.join(cells)} |", exceeds


def _count(entry: Entry, dtype: np.dtype, sample: int | None) -> int:
    return sample or (DOUBLES if entry.operands == 2 or dtype == np.float64 else 1 << 32)


def _count_of(row: str) -> int:
    text = row.rpartition(" | ")[2].rstrip(" |").replace(",", "")
    return 1 << 32 if text == "all" else int(text or 0)


def _head(dtype: np.dtype) -> str:
    return f"\n## {dtype.name}\n\n| function | {' | '.join(COLUMNS)} |\n{'| --- ' * (1 + len(COLUMNS))}|"


def _page(rows: dict[tuple[str, str], str]) -> str:
    """The rows by the order of functions, in a table for each dtype."""
    lines = [_OUTPUT.rstrip()]
    for dtype in DTYPES:
        lines += [_head(dtype), *(rows[dtype.name, name] for name in BOUNDS if (dtype.name, name) in rows)]
    return "\n".join(lines) + "\n"


def _rows_of(page: str) -> dict[tuple[str, str], str]:
    """The rows of a page that was written before."""
    tables = {part.partition("\n")[0]: part for part in page.split("\n## ")[1:]}
    return {(name, row.split("`")[1]): row for name in tables for row in tables[name].split("\n") if row[:3] == "| `"}


def operands(entry: Entry, dtype: np.dtype, count: int) -> Iterator[tuple[np.ndarray, ...]]:
    if entry.operands == 2:
        return measure.pairs(dtype, count)
    return measure.single_operands(count) if dtype == np.float32 else measure.double_operands(count)


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


def _options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.accuracy", description=__doc__.partition("\n")[0])
    parser.add_argument("--sample", type=int, metavar="N", help="operands of each kind, instead of all float32 numbers")
    parser.add_argument("--only", nargs="+", metavar="FUNCTION", help="measure these functions")
    parser.add_argument("--dtype", choices=[d.name for d in DTYPES], help="measure functions of this dtype alone")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--no-jax", action="store_true", help="do not compare with JAX, even if it is installed")
    parser.add_argument("--output", metavar="FILE", help="also write the tables there, after each row")
    parser.add_argument("--resume", action="store_true", help="keep rows of FILE that are of as many operands")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
