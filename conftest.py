"""What all tests share: where they compile to, `--sample`, and how two processes divide the tests (`--share`).

Tests keep what they compile in the repository's own folder, not in the user's cache. `python -m tests` runs them in
two processes; `python -m pytest` in one, without a sample.
"""

from __future__ import annotations

import gc
import itertools
import os
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

Thing = TypeVar("Thing")

os.environ.setdefault("FUNCTAD_CHECK_PROGRAMS", "1")  # every pass is held to the contract of its stage
os.environ.setdefault("FUNCTAD_ANNOUNCE_COMPILES", "0")  # what programs say does not depend on how fast a machine is
os.environ.setdefault("FUNCTAD_CACHE_DIR", str(Path(__file__).parent / ".pytest_cache" / "functad"))

# Searches for garbage find little here, and take their time.
gc.set_threshold(50_000, 20, 20)

# The files that take more than three seconds of CPU time, the longest first. They begin first; and of their test
# functions a sample runs the first, and of the others one in so many.
LONGEST = [
    f"test_{name}.py"
    for name in (
        "cuda cpu_fourier cuda_sanitizer cpu_primitives stats control_nesting cpu_movement gpu_session scipy_special "
        "numpy_values concatenate_lowering cpu_small_loops primitives fuzz linear_loops random_modes running "
        "benchmarks cpu_plain cpu_control plain_numpy cpu_convolution cuda_failures tuning cpu_windows cpu_order "
        "cpu_convolution_compiled linear_loops_range compile_growth checkpoint_memory cpu_while_gradients "
        "train_text checkpoint accuracy numpy_fft odeint control_flow interrupts numba_primitive "
        "cuda_machine_code key_reuse benchmarks_gradbench autodiff cuda_graphs readme scalar_promotion rotations "
        "reductions calls train cpu_signed_zeros sums cpu_elementwise nn_recurrent numpy_gradients cpu_tiles "
        "switches typed_keys cpu_fused cpu_counters nn_multi_head small_matrices cpu_largest notebooks "
        "gathered_products cpu_sorts cpu_math rewrites fuzz_found sparse_linalg lowering_plan cpu_questions "
        "equal_values train_rnn factorising cpu_optional_products imports kinks ecosystem doctor numpy_methods "
        "optimize checkpoints cpu_machine api_dispatch shifted_stacks cpu_concurrency optim_least_squares "
        "cpu_runtime lowering_fuse loop_passes report numpy_calls lowering_products cache_files debug reference "
        "explanation nn_attention namespaces without_numba mnist cpu_objects fitting cpu_blas augment deep_trees "
        "crossed cpu_range nn_recurrent_combining stacks synthetic_digits loop_layout optim_lbfgs "
        "cpu_random_programs nn_layers loader nn_normalization registered_passes cuda_users explanation_browser "
        "graph_browser"
    ).split()
]
LONGEST += [
    f"test_{name}_oracle.py"
    for name in (
        "kinks special_names bfloat16 stats random_distributions nn scipys_ufuncs primitives control_flow api complex "
        "custom_rules weak_types numpy_options image dtypes checkpoint linalg benchmarks numpy signal fft "
        "random scipy_linalg structure odeint optim implicit convolution kernels typed_keys window fuzz attention "
        "lax_names optimize rotations key_reuse sparse_linalg collectives numpy_dtypes nn_recurrent checkify "
        "scipy"
    ).split()
]
OF_THE_LONGEST = 6


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("functad")
    group.addoption("--sample", action="store_true", help="of the tests that take long or are generated run a part")
    group.addoption("--every-program", action="store_true", help="read back all Programs, not one of each structure")
    group.addoption("--share", metavar="FOLDER", help="run only files that no other process with this folder has begun")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--share"):
        config.pluginmanager.register(_Share(config), "share")
    # Not in conftest.py files of folders: all of these would be modules of this one's name.
    for plugin in ("round_trips", "mirrors", "jax_contexts"):
        if (config.rootpath / "tests" / "tools" / f"{plugin}.py").exists():
            config.pluginmanager.import_plugin(plugin)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--sample"):
        chosen = {id(item) for _, tests in itertools.groupby(items, lambda i: i.path) for item in _sample(list(tests))}
        config.hook.pytest_deselected(items=[item for item in items if id(item) not in chosen])
        items[:] = [item for item in items if id(item) in chosen]


def pytest_collection_finish() -> None:
    """What is there before a file's tests, no search for garbage of theirs looks through: some ask for hundreds."""
    gc.collect()
    gc.freeze()


def _sample(tests: list[pytest.Item]) -> Iterator[pytest.Item]:
    """Of the tests of one file a fixed part: of its functions and of the cases of each, as far as they are many."""
    functions = [list(cases) for _, cases in itertools.groupby(tests, lambda item: item.nodeid.partition("[")[0])]
    if tests[0].path.name in LONGEST:
        functions = [
            functions[0],
            *_one_in(OF_THE_LONGEST, functions[1:], lambda cases: cases[0].nodeid.partition("[")[0]),
        ]
    for cases in functions:
        mark = cases[0].get_closest_marker("generated")
        yield from _one_in(mark.kwargs["every"], cases, lambda item: item.nodeid) if mark else cases


def _one_in(every: int, things: list[Thing], name_of: Callable[[Thing], str]) -> list[Thing]:
    """So many of them, rounded up, that a hash of names chooses: always the same."""
    return sorted(things, key=lambda thing: zlib.crc32(name_of(thing).encode()))[: -(-len(things) // every)]


class _Share:
    """Collects and runs the files that this process is the first to claim; prints a line for each when it is finished.

    A file is imported by one process only. Those that take longest come first: the processes end at about one time.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.claims = Path(config.getoption("--share"))
        self.counts: Counter[str] = Counter()
        self.claimed: Path | None = None
        self.begun = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> bool | None:
        """Nothing is collected before the run, but to be listed."""
        return None if self.begun or self.config.option.collectonly else True

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        claimed = self.claimed or collection_path
        return None if claimed.is_relative_to(collection_path) or collection_path.is_relative_to(claimed) else True

    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if self.config.option.collectonly:
            return None  # as pytest does it
        self.begun, collected = True, 0
        parts = _parts(self.config)
        whole = sum(part.weight for part in parts)
        for i, part in enumerate(parts):
            try:
                (self.claims / f"{i}.{part.weight}").touch(exist_ok=False)
            except FileExistsError:
                continue
            self.config.args, self.claimed = [part.argument], part.path
            start = time.monotonic()
            self.counts.clear()
            self.config.hook.pytest_collection(session=session)
            collected += len(session.items)
            _stop_if_asked(session)
            self._run(session)
            if self.counts:
                begun, seconds = sum(int(c.suffix[1:]) for c in self.claims.iterdir()), time.monotonic() - start
                counts = ", ".join(f"{n} {outcome}" for outcome, n in self.counts.items())
                _say(self.config, f"{begun / whole:4.0%}  {seconds:5.1f} s  {part.name}: {counts}")
        session.testscollected = collected
        return True

    def _run(self, session: pytest.Session) -> None:
        for item, following in zip(session.items, [*session.items[1:], None]):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            _stop_if_asked(session)

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> Any:
        """No letter for each test: two processes print to one terminal."""
        category, _, word = yield
        return category, "", "" if report.passed else word

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            self.counts[report.outcome] += 1
        if report.failed:
            _say(self.config, f"FAILED {report.nodeid}")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if not report.passed:
            self.counts[report.outcome] += 1
        if report.failed:
            _say(self.config, f"FAILED {report.nodeid}")


def _say(config: pytest.Config, line: str) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    assert reporter is not None
    reporter.ensure_newline()
    reporter.write(f"{line}\n", flush=True)  # at once: another process writes to the same terminal


def _stop_if_asked(session: pytest.Session) -> None:
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)


class _Part(NamedTuple):
    argument: str  # of pytest
    path: Path  # what of it is collected
    name: str

    @property
    def weight(self) -> int:
        return 10 if self.path.name in LONGEST else 1


def _parts(config: pytest.Config) -> list[_Part]:
    """What processes share: the files and packages that are asked for, those that take longest first."""
    parts, folder = [], config.invocation_params.dir
    for argument in config.args:
        paths = _files_and_packages(folder / argument.partition("::")[0])
        parts += [_Part(argument, p, os.path.relpath(p, folder).replace(os.sep, "/")) for p in paths]
    order = {name: i for i, name in enumerate(LONGEST)}
    return sorted(parts, key=lambda part: order.get(part.path.name, len(LONGEST)))


def _files_and_packages(path: Path) -> list[Path]:
    """What is in a folder, at any depth; of the folders in it, those that are packages as a whole."""
    if not path.is_dir():
        return [path]
    found: list[Path] = []
    for p in sorted(path.iterdir()):
        if p.is_dir() and not (p / "__init__.py").exists():
            found += _files_and_packages(p)
        elif p.suffix == ".py" or any(p.rglob("*.py")):
            found.append(p)
    return found
