"""`python -m benchmarks`: run, print tables with ratios, and keep the numbers as JSON.

Knows which benchmarks there are; how each is measured is in its own file. `python -m benchmarks gradbench`, which runs
the evals of another project, and those of `roofline`, `tuning` and `machine-code` have options of their own.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module

from benchmarks import (
    ablation,
    compiling,
    eager,
    memory,
    operations_table,
    optimizers,
    report,
    roofline,
    stepping,
    training,
    tuning,
)
from benchmarks.frameworks import FRAMEWORKS
from benchmarks.gradbench import runner as gradbench
from benchmarks.record import Options, Section
from benchmarks.workloads import CALLS, CONVOLUTIONS, FAMILIES, LOOPS, STEPS


def _operations(name: str, options: Options) -> list[Section]:
    return list(operations_table.measure([name], options))


# Name → what measures it, in one table or several.
BENCHMARKS: dict[str, Callable[[Options], list[Section]]] = {
    **{name: partial(stepping.measure, name) for name in (*STEPS, *LOOPS, *CONVOLUTIONS, *CALLS)},
    **{name: partial(_operations, name) for name in FAMILIES},
    "compile": compiling.cold_and_warm,
    "cold": compiling.cold,
    "curve": compiling.curve,
    "memory": memory.measure,
    "optimizers": optimizers.measure,
    **{name: partial(training.measure, name) for name in training.JOBS},
    "eager": eager.unjitted,
    "import": eager.importing,
    "trace": eager.tracing,
    **{f"ablate-{name}": partial(ablation.measure, name) for name in (*STEPS, *LOOPS)},
}
GROUPS = {
    "steps": list(STEPS),
    "loops": list(LOOPS),
    "conv": list(CONVOLUTIONS),
    "calls": list(CALLS),
    "operations": list(FAMILIES),
    "language": [name for name in training.JOBS if name.startswith("language-")],
    "ablate": [name for name in BENCHMARKS if name.startswith("ablate-")],
}
_DEFAULT = [name for name in BENCHMARKS if name not in GROUPS["ablate"]]


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line asks for; returns the exit code: 1 where functad itself failed."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["gradbench"]:
        return gradbench.main(arguments[1:])
    if arguments[:1] == ["roofline"]:
        return roofline.main(arguments[1:])
    if arguments[:1] == ["machine-code"]:
        return int(import_module("benchmarks.machine_code").main(arguments[1:]))  # asks for Numba's package of CUDA
    if arguments[:1] == ["tuning"]:
        return tuning.main(arguments[1:])
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = ", ".join([*GROUPS, *BENCHMARKS])
    parser.add_argument("names", nargs="*", metavar="name", help=f"which to run: {names} (default: all but ablate)")
    parser.add_argument("--save", action="store_true", help="keep the results under benchmarks/results/")
    parser.add_argument("--markdown", action="store_true", help="print the tables of benchmarks/speed.md at the end")
    parser.add_argument("--frameworks", default=",".join(FRAMEWORKS), help="which compete (default: %(default)s)")
    parser.add_argument("--rounds", type=int, help="bursts of each framework (default: 15, of single operations 5)")
    parser.add_argument("--seconds", type=float, help="length of a burst (default: 0.25, of single operations 0.05)")
    parser.add_argument("--elements", help="sizes of single operations, such as 1000,100000 (default: all)")
    parser.add_argument("--threads", type=int, default=2, help="threads of each framework (default: %(default)s)")
    parser.add_argument("--epochs", type=int, help="of whole trainings (default: 3 of W1, 5 of the others)")
    given = parser.parse_args(arguments)
    chosen = [name for group in given.names or _DEFAULT for name in GROUPS.get(group, [group])]
    for kind, wanted, known in (
        ("benchmark", chosen, BENCHMARKS),
        ("framework", given.frameworks.split(","), FRAMEWORKS),
    ):
        if unknown := sorted(set(wanted) - set(known)):
            parser.error(f"no {kind} named {', '.join(unknown)}; there are {', '.join(known)}")
    short = set(chosen) <= set(FAMILIES)
    options = Options(
        [f for f in FRAMEWORKS if f in given.frameworks],
        given.rounds or (5 if short else 15),
        given.seconds or (0.05 if short else 0.25),
        given.threads,
        given.epochs,
        given.elements and tuple(map(int, given.elements.split(","))),
    )
    sections: list[Section] = []
    chosen = list(dict.fromkeys(chosen))
    if short:  # in the same processes, so that frameworks are imported once
        sections, chosen = list(operations_table.measure(chosen, options)), []
    for name in chosen:
        for section in BENCHMARKS[name](options):
            sections.append(section)
            print(report.text(section), flush=True)
    results = report.record(sections, options)
    if short:
        print(operations_table.text(results))
    if given.markdown:
        print(report.markdown(results))
    if given.save:
        print(f"\nkept in {report.save(results, 'operations' if short else '')}")
    return int(any("functad" in section.failures for section in sections))


if __name__ == "__main__":
    sys.exit(main())
