"""Time to the first result: with an empty cache, with a warm one, and against the length of the Program.

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
from benchmarks.workloads import EQUATIONS, SIZES

_WORKLOADS = ("W1", "W2", "W3")
_REPEATS = 3
# What compiling needs but is no compiling; with a warm cache functad must do without it.
# `import numba` leaves most of Numba for its first compilation to import; that belongs to the import, too.
_IMPORTED_BEFORE = {
    "functad": [
        "numba",
        "numba.core.inline_closurecall",
        "numba.core.typing.arraydecl",
        "numba.core.typing.cmathdecl",
        "numba.cpython.charseq",
        "numba.cpython.randomimpl",
        "numba.cpython.unicode",
        "numba.experimental.jitclass.base",
        "numba.misc.cffiimpl",
        "numba.np.arraymath",
        "numba.np.linalg",
        "numba.np.npdatetime",
        "numba.np.npyimpl",
        "numba.np.polynomial",
        "numba.np.random.generator_methods",
        "numba.typed.typeddict",
        "numba.typed.typedlist",
        "numba.typed.typedset",
    ]
}


def cold_and_warm(options: Options) -> list[Section]:
    """Milliseconds from before the trace to the first result, in a new process, cache empty and cache warm."""
    return [section for name in _WORKLOADS for section in _cold_and_warm(name, options)]


def _cold_and_warm(workload: str, options: Options) -> Iterator[Section]:
    samples: dict[str, dict[str, list[float]]] = {"cold": {}, "warm": {}}
    numba_import: list[float] = []
    warm_imports_numba = False
    failures: dict[str, str] = {}
    compilers = [f for f in options.frameworks if f != "torch"]  # which runs eagerly
    for framework in [f for f in compilers for _ in range(min(_REPEATS, options.rounds))]:
        reason = absent(framework) or failures.get(framework)
        if reason is not None:
            failures[framework] = reason
            continue
        try:
            with _cache() as variables:
                for state in ("cold", "warm"):
                    with worker(framework, workload, options.threads, variables) as process:
                        process.ask("load")
                        before = _IMPORTED_BEFORE.get(framework, []) if state == "cold" else []
                        answer = process.ask("first", before=before)
                    samples[state].setdefault(framework, []).append(1e3 * answer["first"])
                    if framework == "functad" and state == "cold":
                        numba_import.append(1e3 * answer["before"])
                    elif framework == "functad":
                        warm_imports_numba |= answer["numba"]
        except WorkerError as problem:
            failures[framework] = str(problem)
    for state in ("cold", "warm"):
        notes: list[str] = []
        if numba_import and state == "cold":
            milliseconds = summary(numba_import).median
            notes.append(f"import of numba, with what its first compilation loads, not counted: {milliseconds:.0f} ms")
        elif warm_imports_numba:
            notes.append("functad imported numba although its cache was warm; that is counted")
        figures = {framework: summary(s) for framework, s in samples[state].items()}
        title = f"{workload}: first result, {state} cache"
        yield compared(Section(f"compile-{workload}-{state}", title, "ms", figures, failures=failures, notes=notes))


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
                    answer = process.ask("first", before=_IMPORTED_BEFORE.get(framework, []))
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
