"""`python -m benchmarks gradbench`: GradBench's own evals with functad and with the tools of a checkout of GradBench.

The evals make the inputs and validate every result as they do for the scoreboard: most against the hand-written C++,
which must have been built (`make -C cpp`, `make -C tools/manual` in the checkout). Of each evaluation's runs the first,
which may compile, is kept apart.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benchmarks import report
from benchmarks.gradbench.conversation import ToolError, converse
from benchmarks.gradbench.evals import EVALS
from benchmarks.measure import Timing, summary
from benchmarks.record import Options, Section

_HERE, _ROOT = Path(__file__).parent, Path(__file__).parents[2]
_CPP = ["python/gradbench/gradbench/cpp.py", "manual"]
# Tool → row of the table → what an interpreter is given to run it as; where there are two, the faster counts.
TOOLS: dict[str, dict[str, list[str]]] = {
    "functad": {"functad": ["-m", "benchmarks.gradbench"]},
    "jax": {"jax": [f"{_HERE}/waiting.py", "python/gradbench/gradbench/tools/jax/run.py", "--multithreaded"]},
    "pytorch": {"pytorch": [f"{_HERE}/waiting.py", "python/gradbench/gradbench/tools/pytorch/run.py"]},
    "manual": {"manual": _CPP, "manual, OpenMP": [*_CPP, "--multithreaded"]},
}
# Eval → what makes it try small and middle sizes only.
_SMALL = {
    "ba": "--max 2",
    "det": "-l 5 7 9",
    "gmm": "-d 2 10 32 -k 5 25",
    "ht": "--max 4 --model small",
    "kmeans": "-k 10 100 -n 1000 10000 -d 8",
    "llsq": "-n 16 128 1024 8196",
    "lse": "-n 2500 40000 640000",
    "lstm": "-l 2 4 -c 1024",
    "ode": "-n 1000 10000 -s 1 10 100",
}


def main(arguments: list[str]) -> int:
    """Run what the command line asks for; returns the exit code: 1 where a result of functad's is not valid."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks gradbench", description=__doc__)
    parser.add_argument("--checkout", type=Path, required=True, help="folder of GradBench")
    parser.add_argument("--evals", default=",".join(EVALS), help="which to run (default: %(default)s)")
    parser.add_argument("--tools", default=",".join(TOOLS), help="which compete (default: %(default)s)")
    parser.add_argument(
        "--python", default=sys.executable, help="interpreter that has the evals' and the peers' packages"
    )
    parser.add_argument(
        "--sizes", choices=["small", "all"], default="small", help="which inputs (default: %(default)s)"
    )
    parser.add_argument("--runs", type=int, default=5, help="at least so many of each (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=0.3, help="and for so long (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="threads of each tool (default: %(default)s)")
    parser.add_argument("--save", action="store_true", help="keep the results under benchmarks/results/")
    given = parser.parse_args(arguments)
    given.checkout = given.checkout.resolve()  # processes run in it
    evals, tools = given.evals.split(","), given.tools.split(",")
    for kind, wanted, known in (("eval", evals, EVALS), ("tool", tools, TOOLS)):
        if unknown := sorted(set(wanted) - set(known)):
            parser.error(f"no {kind} named {', '.join(unknown)}; there are {', '.join(known)}")
    sections: list[Section] = []
    print(_line("eval", "function", "size", "functad", *(f"/ {tool}" for tool in tools if tool != "functad")))
    for name in evals:
        for section in measured(name, tools, given):
            sections.append(section)
            print(row(section, tools), flush=True)
    if given.save:
        results = report.record(sections, Options(tools, given.runs, given.seconds, given.threads))
        print(f"\nkept in {report.save(results)}")
    return int(any("functad" in section.failures for section in sections))


def measured(name: str, tools: list[str], given: argparse.Namespace) -> list[Section]:
    """A section for each function and size of an eval."""
    sections: dict[str, Section] = {}
    for tool in tools:
        for label, command in TOOLS[tool].items():
            interpreter = sys.executable if tool == "functad" else given.python
            try:
                found = converse(_eval(name, given), [interpreter, *command], given.checkout, _variables(given))
            except ToolError as error:
                print(f"{name}: no {label}: {error}", flush=True)
                continue
            for evaluation in found:
                title = f"{name} {evaluation.function} {evaluation.size}".strip()
                section = sections.setdefault(title, Section(f"gradbench {title}", title, "ms", {}))
                if evaluation.problem:
                    section = section._replace(failures=section.failures | {label: evaluation.problem})
                if evaluation.seconds and not evaluation.problem:
                    figures = section.figures | {label: summary([1e3 * second for second in evaluation.seconds])}
                    first = f"first call of {label}: {1e3 * evaluation.first:.4g} ms"
                    section = section._replace(figures=figures, notes=[*section.notes, first])
                sections[title] = section
    return list(sections.values())


def row(section: Section, tools: list[str]) -> str:
    """One line of the table: functad's time, and its ratio to the best of each other tool."""
    best = {tool: _best(section.figures, tool) for tool in tools}
    ours = best.get("functad")
    cells = [
        f"{ours / theirs:.3g}" if ours is not None and theirs is not None else "–"
        for tool, theirs in best.items()
        if tool != "functad"
    ]
    name, function, size = (*section.title.split(" ", 2), "")[:3]
    problems = [f"  {label}: {problem.strip().splitlines()[-1]}" for label, problem in section.failures.items()]
    return "\n".join([_line(name, function, size, "–" if ours is None else f"{ours:.4g} ms", *cells), *problems])


def _best(figures: dict[str, Timing], tool: str) -> float | None:
    return min((figures[label].median for label in TOOLS[tool] if label in figures), default=None)


def _line(name: str, function: str, size: str, ours: str, *ratios: str) -> str:
    return f"{name:9}{function:10}{size:28}{ours:>12}" + "".join(f"{ratio:>12}" for ratio in ratios)


def _eval(name: str, given: argparse.Namespace) -> list[str]:
    script = f"python/gradbench/gradbench/evals/{name}/run.py"
    size = _SMALL.get(name, "").split() if given.sizes == "small" else []
    # `hello` has no sizes and no options.
    runs = [] if name == "hello" else ["--min-runs", str(given.runs), "--min-seconds", str(given.seconds)]
    return [given.python, script, *size, *runs]


def _variables(given: argparse.Namespace) -> dict[str, str]:
    """Where each process finds modules, and how many threads it may use."""
    folders = [
        str(given.checkout / "python" / "gradbench"),
        str(_ROOT),
        *os.environ.get("PYTHONPATH", "").split(os.pathsep),
    ]
    threads = {name: str(given.threads) for name in ("OMP_NUM_THREADS", "FUNCTAD_NUM_THREADS")}
    return {"PYTHONPATH": os.pathsep.join(filter(None, folders)), **threads}
