"""`python -m functad doctor --measure`: the facts of `machine_model`, measured on this machine.

Knows how to measure each; what is decided by it stands in `functad/machine_model/`. Writes nothing but a table.
"""

from __future__ import annotations

import ast
import importlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import functad
import functad.numpy as jnp
from functad import execution, machine_model
from functad.config import config
from functad.errors import ArgumentError
from functad.records import NamedTuple

_HEAD = "from functad.backends.cpu.scalars.elementary import exp\n\n\n"
NEAR = 2.5  # a fact that differs by no more than this factor is right: limits lie where times hardly change


class Measurement(NamedTuple):
    """A line of the table: a number of `machine_model`, or, without a name, something else that helps to judge one.

    model: what stands there, if it is not the number itself, but a part of it.
    """

    name: str
    what: str
    here: float
    model: float | None = None


def measured_lines(names: Sequence[str] = ()) -> Iterator[str]:
    """The lines of the table, each as soon as it is known; `names`: only what gives these numbers.

    Raises:
        ArgumentError: there is no such number, or nothing measures it.
    """
    measured = [name for group in MEASUREMENTS for name in group]
    for name in names:
        if name not in measured:
            problem = "is not measured" if hasattr(machine_model, name) else "is no number of machine_model"
            raise ArgumentError(f"{name} {problem}; these are: {', '.join(measured)}")
    units = {name: text.split()[0].rstrip(".") for name, text in descriptions().items()}
    yield f"{'number':<24}{'':<28}{'model':>12}{'here':>12}  {'unit':<12}{'ratio':>6}"
    for group, measure in MEASUREMENTS.items():
        if names and not set(names) & set(group):
            continue
        try:
            for row in measure():
                yield _line(row, units)
        # What cannot be measured here must not hide the rest.
        except Exception as problem:
            yield f"{group[0]:<24}cannot be measured here: {type(problem).__name__}: {problem}"
    yield ""
    yield f"Ratios between {1 / NEAR} and {NEAR} change little. Beyond: set the number in functad/machine_model/,"
    yield "which says what it decides, and compare `python -m benchmarks` before and after; on a machine at rest."


def _line(row: Measurement, units: dict[str, str]) -> str:
    model = row.model if row.model is not None else getattr(machine_model, row.name, None)
    head = f"{row.name:<24}{row.what:<28}"
    if model is None:
        return f"{head}{'':>12}{row.here:>12.4g}"
    ratio = row.here / model
    advice = "" if 1 / NEAR <= ratio <= NEAR else "  try it"
    return f"{head}{model:>12.4g}{row.here:>12.4g}  {units[row.name]:<12}{ratio:>6.2f}{advice}"


def descriptions() -> dict[str, str]:
    """What stands below each number of `machine_model`."""
    found = {}
    for path in sorted(Path(machine_model.__path__[0]).glob("*.py")):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        for number, text in zip(body, body[1:]):
            if isinstance(number, ast.Assign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                found[ast.unparse(number.targets[0])] = str(text.value.value)
    return found


# ---- memory


def _caches() -> Iterator[Measurement]:
    folder = Path("/sys/devices/system/cpu/cpu0/cache")
    levels = {}
    for index in sorted(folder.glob("index*")):
        keys = ("level", "type", "size", "coherency_line_size")
        level, kind, size, line = ((index / key).read_text().strip() for key in keys)
        if kind != "Instruction":
            levels[int(level)] = 1024 * float(size.removesuffix("K")), float(line)
    if not levels:
        raise OSError(f"the system does not say; it would in {folder}")
    yield Measurement("CACHE_LINE", "", levels[1][1])
    yield Measurement("FIRST_CACHE", "", levels[1][0])
    yield Measurement("SECOND_CACHE", "", levels[2][0])
    if 3 in levels:
        yield Measurement("", "third cache, bytes", levels[3][0])


def _vectors() -> Iterator[Measurement]:
    _, features = _backend("compile.target").host()
    yield Measurement("VECTOR_BYTES", "", 64 if "+avx512f" in features.split(",") else 32 if "+avx" in features else 16)


def _bandwidth() -> Iterator[Measurement]:
    first, second = machine_model.FIRST_CACHE, machine_model.SECOND_CACHE
    cache, memory = _speed(second // 4, second // 2), _speed(1 << 26, 1 << 27)
    yield Measurement("BYTES_PER_NS", "between cache and memory", math.sqrt(cache * memory))
    yield Measurement("", "within the first, bytes a ns", _speed(first // 4, first // 2))
    yield Measurement("", "within the second", cache)
    yield Measurement("", "8 MB", _speed(1 << 22, 1 << 23))
    yield Measurement("", "128 MB", memory)


def _speed(fewer: int, more: int) -> float:
    """Bytes that a kernel reads and writes in a ns, half of them each, by what more of them take."""
    ns = [_kernel_ns(lambda x: x + x, np.ones(nbytes // 8, np.float32)) for nbytes in (fewer, more)]
    return (more - fewer) / max(ns[1] - ns[0], 1.0)


# ---- arithmetic


def _arithmetic() -> Iterator[Measurement]:
    x = np.linspace(0.5, 1.5, 4096, dtype=np.float32)

    def several(one: Callable[[Any], Any], times: int) -> Callable[[Any], Any]:
        def f(x: Any) -> Any:
            for _ in range(times):
                x = one(x)
            return x

        return f

    def each(one: Callable[[Any], Any], times: int = 8) -> float:
        """ns of one operation for one element: what `times` more of them take."""
        few, many = (_kernel_ns(several(one, n), x) for n in (1, 1 + times))
        return (many - few) / (times * x.size)

    operation = each(lambda x: x * np.float32(0.75) + np.float32(0.3), 16) / 2

    def function_ns(function: Callable[[Any], Any]) -> float:
        return each(lambda x: function(x) * np.float32(0.125) + np.float32(0.75), 4) - 2 * operation

    quotient = each(lambda x: np.float32(1.5) / (x + np.float32(0.25))) - operation
    root = each(lambda x: jnp.sqrt(x + np.float32(0.25))) - operation
    yield Measurement("OPERATION_NS", "sum, product", operation)
    exp = function_ns(jnp.exp)
    yield Measurement("FUNCTION_NS", "exp", exp)
    for name in ("sin", "tanh", "log"):
        yield Measurement("FUNCTION_NS", name, function_ns(getattr(jnp, name)))
    yield Measurement("FUNCTION_OPERATIONS", "exp", exp / operation)
    yield Measurement("QUOTIENT_OPERATIONS", "quotient", quotient / operation)
    yield Measurement("QUOTIENT_OPERATIONS", "square root", root / operation)


def _kernel_ns(f: Callable[..., Any], *args: np.ndarray) -> float:
    """The least time of all kernels of a function, on one thread."""
    program = functad.make_jaxpr(f)(*args)
    with config.context(num_threads=1):
        made: Any = execution.executable(program)
        return float(sum(ns for _, _, ns in made.measure(args, repeats=40)))


# ---- matrix products


def _products() -> Iterator[Measurement]:
    n = 384
    speeds = {}
    for dtype in machine_model.PRODUCT_COST:
        a = np.ones((n, n), dtype)
        speeds[dtype] = 2.0 * n**3 / _product_ns(a, repeats=9)
    peak = speeds["float32"]
    yield Measurement("PRODUCT_FLOPS_PER_NS", "float32, 384 by 384", peak)
    for dtype, cost in machine_model.PRODUCT_COST.items():
        if dtype != "float32":
            yield Measurement("PRODUCT_COST", dtype, peak / speeds[dtype], cost)
    yield Measurement("PRODUCT_CALL_NS", "4 by 4", _product_ns(np.ones((4, 4), np.float32), repeats=1000))


def _product_ns(a: np.ndarray, repeats: int) -> float:
    tape, gemm = _backend("runtime.tape"), _backend("products.gemm")
    n, b, c = len(a), a.copy(), a.copy()
    slots = np.array([x.ctypes.data for x in (a, b, c)], np.int64)
    instruction = gemm.gemm_instruction(a.dtype, *(gemm.Matrix(slot, n) for slot in range(3)), m=n, n=n, k=n)
    block, times = tape.TapeBlock(n, [instruction], n), max(1, 64 // n)
    return _least_call([block] * times, slots, repeats) / times


def _least_call(blocks: Sequence[Any], slots: np.ndarray, repeats: int) -> float:
    tape, report = _backend("runtime.tape"), _backend("report")
    run = tape.Tape(blocks).bind(slots, 0)
    tape.settle(run([]))
    return float(report.least_time(lambda: run([]), repeats))


# ---- threads


class _TimedWork(NamedTuple):
    """Some 20 µs of work on one thread, cut in parts."""

    kernels: Any
    x: np.ndarray

    def call(self, parts: int, release_gil: bool = False) -> Callable[[], object]:
        tape = _backend("runtime.tape")
        kernel = tape.TapeInstruction(self.kernels["f"], np.zeros(1, np.int64))
        block = tape.TapeBlock(self.x.size, [kernel], self.x.size // parts)
        run = tape.Tape([block], release_gil=release_gil).bind(np.array([self.x.ctypes.data], np.int64), 0)
        tape.settle(run([]))
        return lambda: run([])


def _work() -> _TimedWork:
    text = _HEAD + "def f(x, start, stop):\n    for i in range(start, stop):\n        x[i] = exp(x[i]) * 0.125 + 0.75\n"
    compiled = _backend("compile.machine").compile_kernels(text, "doctor", {"f": [np.dtype(np.float32)]})
    return _TimedWork(_backend("compile.loader").load_object(compiled, ["f"]), np.ones(1 << 14, np.float32))


def _handover() -> Iterator[Measurement]:
    """How much longer than half the time two threads take for the work of one."""
    if config.num_threads < 2:
        raise OSError("there is one thread")
    work = _work()
    together = work.call(2)
    half = _least(work.call(1), 0.3) / 2
    yield Measurement("HANDOVER_NS", "to a helper that is awake", _least(together, 0.6) - half)
    yield Measurement("", "to one that sleeps, ns", _median(together, 5 * machine_model.SPIN_SECONDS) - half)


def _lock() -> Iterator[Measurement]:
    """How long a call that has let go of the interpreter's lock waits for it in the end."""
    work = _work()
    keeps, releases = work.call(1), work.call(1, release_gil=True)
    least = _least(keeps, 0.2)
    yield Measurement("", "the lock: nobody wants it, ns", _least(releases, 0.2) - least)
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            sum(range(1000))

    thread = threading.Thread(target=busy, daemon=True)
    thread.start()
    try:
        yield Measurement("LOCK_NS", "another thread runs Python", _median(releases) - least)
    finally:
        stop.set()
        thread.join()


def _median(run: Callable[[], object], pause: float = 0.0) -> float:
    """The median time in ns of runs, with a pause before each."""
    took = []
    for _ in range(41):
        time.sleep(pause)
        started = time.perf_counter()
        run()
        took.append(1e9 * (time.perf_counter() - started))
    return sorted(took)[20]


def _python_call() -> Iterator[Measurement]:
    x = np.float32(1)
    shape = functad.ShapeDtypeStruct((), "float32")
    calls = functad.jit(lambda x: functad.pure_callback(lambda x: x, shape, x))
    without = functad.jit(lambda x: x + np.float32(1))
    ns = [_least(partial(f, x), 0.2) for f in (calls, without)]
    yield Measurement("PYTHON_CALL_NS", "pure_callback", ns[0] - ns[1])


# ---- compiling


def _compiling() -> Iterator[Measurement]:
    simple, function = "    y = y * 1.25 + x[{0}]\n", "    y = exp(y) + x[{0}]\n"
    statement = _ns_of_statement(simple)
    yield Measurement("STATEMENT_NS", "a sum and a product", statement)
    yield Measurement("STATEMENTS_OF_FUNCTION", "exp", _ns_of_statement(function) / statement)


def _ns_of_statement(line: str) -> float:
    machine = _backend("compile.machine")

    def compiled(count: int) -> float:
        text = (
            f"{_HEAD}def f(x, start, stop):\n    y = x[0]\n"
            + "".join(line.format(k % 16) for k in range(count))
            + "    x[0] = y\n"
        )
        started = time.process_time()
        machine.compile_kernels(text, "doctor", {"f": [np.dtype(np.float32)]})
        return time.process_time() - started

    compiled(1)
    return 1e9 * (min(compiled(160) for _ in range(2)) - min(compiled(32) for _ in range(2))) / 128


def _least(run: Callable[[], object], seconds: float) -> float:
    """The least time in ns of as many runs as fit."""
    run()
    least, end = float("inf"), time.perf_counter() + seconds
    while (started := time.perf_counter()) < end or least == float("inf"):
        run()
        least = min(least, time.perf_counter() - started)
    return 1e9 * least


def _backend(name: str) -> Any:
    return importlib.import_module(f"functad.backends.cpu.{name}")


MEASUREMENTS: dict[tuple[str, ...], Callable[[], Iterator[Measurement]]] = {
    ("CACHE_LINE", "FIRST_CACHE", "SECOND_CACHE"): _caches,
    ("VECTOR_BYTES",): _vectors,
    ("BYTES_PER_NS",): _bandwidth,
    ("OPERATION_NS", "FUNCTION_NS", "FUNCTION_OPERATIONS", "QUOTIENT_OPERATIONS"): _arithmetic,
    ("PRODUCT_FLOPS_PER_NS", "PRODUCT_COST", "PRODUCT_CALL_NS"): _products,
    ("HANDOVER_NS",): _handover,
    ("LOCK_NS",): _lock,
    ("PYTHON_CALL_NS",): _python_call,
    ("STATEMENT_NS", "STATEMENTS_OF_FUNCTION"): _compiling,
}
