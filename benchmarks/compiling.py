"""Time until something is trained: with an empty cache, with a warm one, and against the length of the Program.

Knows how each framework is told where its cache lies; every measurement is a process of its own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.frameworks import absent
from benchmarks.measure import Timing, summary
from benchmarks.processes import WorkerError, worker
from benchmarks.record import Options, Section, compared
from benchmarks.workloads import COLD, EQUATIONS, SIZES

_WORKLOADS = ("W1", "W2", "W3")
_REPEATS = 3
_STEPS = 5


def cold_and_warm(options: Options) -> list[Section]:
    """Milliseconds from the import to the end of the fifth step, in a new process, cache empty and cache warm."""
    return [section for name in _WORKLOADS for section in _first(name, name, options, _STEPS, ("cold", "warm"))]


def cold(options: Options) -> list[Section]:
    """Milliseconds from the import to the end of the first step of what takes long to compile, cache empty."""
    options = options._replace(frameworks=[f for f in ("functad", "jax") if f in options.frameworks])
    return [s for name, workload in COLD.items() for s in _first(name, workload.title, options, 1, ("cold",))]


def _first(workload: str, title: str, options: Options, steps: int, states: tuple[str, ...]) -> Iterator[Section]:
    samples: dict[str, dict[str, list[float]]] = {state: {} for state in states}
    imports: dict[str, list[float]] = {}
    warm_imports_numba = False
    failures: dict[str, str] = {}
    for framework in options.frameworks * min(_REPEATS, options.rounds):
        reason = absent(framework) or failures.get(framework)
        if reason is not None:
            failures[framework] = reason
            continue
        try:
            with _cache() as variables:
                for state in states:
                    with worker(framework, workload, options.threads, variables) as process:
                        imported = 1e3 * process.ask("load")["import"]
                        answer = process.ask("first", steps=steps)
                    samples[state].setdefault(framework, []).append(imported + 1e3 * answer["first"])
                    imports.setdefault(framework, []).append(imported)
                    if framework == "functad" and state == "warm":
                        warm_imports_numba |= answer["numba"]
        except WorkerError as problem:
            failures[framework] = str(problem)
    counted = ", ".join(f"{framework} {summary(times).median:.0f} ms" for framework, times in imports.items())
    what = "first step" if steps == 1 else f"first {steps} steps"
    for state in states:
        notes = [f"imports, which are counted: {counted}"] if counted else []
        if state == "warm" and warm_imports_numba:
            notes.append("functad imported numba although its cache was warm")
        figures = {framework: summary(s) for framework, s in samples[state].items()}
        heading = f"{title}: import and {what}, {state} cache"
        yield compared(Section(f"compile-{workload}-{state}", heading, "ms", figures, failures=failures, notes=notes))


def curve(options: Options) -> list[Section]:
    """Milliseconds to the first result, cache empty, against the number of equations, or the length of a loop."""
    return [_curve(kind, options) for kind in dict.fromkeys(name.split("-")[0] for name in EQUATIONS)]


def _curve(kind: str, options: Options) -> Section:
    figures: dict[str, Timing] = {}
    failures: dict[str, str] = {}
    counts: list[str] = []
    for framework in [f for f in ("functad", "jax") if f in options.frameworks]:
        reason = absent(framework)
        if reason is not None:
            failures[framework] = reason
            continue
        for size in SIZES:
            try:
                with _cache() as variables, worker(framework, f"{kind}-{size}", options.threads, variables) as process:
                    process.ask("load")
                    answer = process.ask("first", steps=1)
                    if framework == "functad":
                        counts.append(str(process.ask("equations")["count"]))
            except WorkerError as problem:
                failures[framework] = f"at {size}: {problem}"
                break
            figures[f"{framework} {size}"] = summary([1e3 * answer["first"]])
    title = EQUATIONS[f"{kind}-{SIZES[0]}"].title.rsplit(", ", 1)[0]
    notes = [f"equations of functad's optimised Programs: {', '.join(counts)}"] if counts else []
    return Section(f"curve-{kind}", f"first result, cold cache, {title}", "ms", figures, failures=failures, notes=notes)


@contextmanager
def _cache() -> Iterator[dict[str, str]]:
    """The variables that send every framework's cache to a new, empty folder."""
    with tempfile.TemporaryDirectory(prefix="functad-bench-") as folder:
        yield {
            "FUNCTAD_CACHE_DIR": f"{folder}/functad",
            "TORCHINDUCTOR_CACHE_DIR": f"{folder}/torch",
            "TRITON_CACHE_DIR": f"{folder}/triton",
            "JAX_COMPILATION_CACHE_DIR": f"{folder}/jax",
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
