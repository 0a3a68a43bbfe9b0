"""Checks of arrays on devices that several threads use at a time, for the simulator's process.

Each has its threads meet at one place, by events: where copies to the host, or kernels, have begun.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

import functad
import functad.numpy as jnp
from functad.backends.cuda.runtime.running import Stretch
from functad.device_arrays import memory_of
from functad.errors import DonatedArrayError, TooLargeError

X = np.arange(6, dtype=np.float32)

READERS: dict[str, Callable[[Any], Any]] = {
    "NumPy": np.asarray,
    "numbers of Python": lambda x: np.array(x.tolist()),
    "DLPack": lambda x: x.__dlpack__(max_version=(1, 0)),
    "a copy": copy.copy,
    "an operation": lambda x: -jnp.negative(x),
    "a jitted function": functad.jit(lambda x: x + 0),
    "whoever donates it, too": lambda x: step_of("long")(x, X) - X,
}


def gpu() -> Any:
    return functad.devices("cuda")[0]


def on_gpu(x: Any) -> Any:
    return functad.device_put(x, gpu())


def step_of(way: str) -> Callable[[Any, Any], Any]:
    """w + x in the memory of w; by compiled code, or where an argument is NumPy's by Python."""
    step = functad.jit(lambda w, x: w + x, donate_argnums=0)
    return step if way == "direct" else lambda w, x: step(w, np.asarray(x))


class Other:
    """What another thread does."""

    def __init__(self, action: Callable[[], Any]) -> None:
        self._action = action
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.found: Any = None
        self._thread.start()

    def _run(self) -> None:
        try:
            self.found = self._action()
        except BaseException as problem:
            self.found = problem

    def end(self) -> Any:
        """What it gave, or raised."""
        self._thread.join(20)
        assert not self._thread.is_alive()
        return self.found


def check_a_donated_array_is_not_read_while_kernels_change_it() -> None:
    """By Python or compiled code, other threads get its elements, or learn that it was donated; the result is right."""
    for way in ("direct", "long"):
        for name, reader in READERS.items():
            step, x = step_of(way), on_gpu(X)
            step(on_gpu(X), x)  # which compiles it
            reader(on_gpu(X))
            w = on_gpu(X)
            result, others = _with_a_reader_at_the_kernels(lambda: step(w, x), lambda: reader(w))  # noqa: B023
            np.testing.assert_array_equal(np.asarray(result), 2 * X, f"{way}, {name}")
            assert others and all(isinstance(o, DonatedArrayError) for o in others), (way, name, others)


def _with_a_reader_at_the_kernels(call: Callable[[], Any], reader: Callable[[], Any]) -> tuple[Any, list[Any]]:
    """What a call gives, and what another thread found before, and after, its kernels were started."""
    found: list[Any] = []

    def read() -> None:
        found.append(Other(reader).end())

    with _around_kernels(read, read):
        return call(), found


@contextmanager
def _around_kernels(before: Callable[[], None], after: Callable[[], None]) -> Iterator[None]:
    """Something is done before, and after, kernels are started by this thread."""
    start, caller = Stretch.start, threading.get_ident()

    def interrupted(stretch: Stretch, bases: tuple[int, ...]) -> None:
        if threading.get_ident() == caller:
            before()
            start(stretch, bases)
            after()
        else:
            start(stretch, bases)

    with patch.object(Stretch, "start", interrupted):
        yield


class SlowReader:
    """Another thread that asks for the elements of an array, and has a copy of them, but not done with it."""

    def __init__(self, array: Any) -> None:
        self._begun, self._go, self._download = threading.Event(), threading.Event(), gpu().driver.download
        with patch.object(gpu().driver, "download", self._slowly):
            self._other = Other(lambda: self._read(array))
            assert self._begun.wait(20)

    def _read(self, array: Any) -> Any:
        try:
            return np.asarray(array)
        finally:
            self._begun.set()

    def _slowly(self, array: np.ndarray, address: int) -> None:
        self._download(array, address)
        self._begun.set()
        assert self._go.wait(20)

    def end(self) -> Any:
        self._go.set()
        return self._other.end()


def check_what_is_being_read_when_it_is_donated_is_read_to_its_end() -> None:
    """A copy to the host has begun: the call takes other memory."""
    for way in ("direct", "long"):
        step, x, w = step_of(way), on_gpu(X), on_gpu(X)
        step(on_gpu(X), x)
        reader = SlowReader(w)
        result = step(w, x)
        np.testing.assert_array_equal(reader.end(), X, way)
        np.testing.assert_array_equal(np.asarray(result), 2 * X, way)


def check_a_copy_of_a_donated_array_is_not_taken_for_the_results() -> None:
    """Whoever comes when the call is under way, and ends after it, leaves nothing in the memory that the result has."""
    for way in ("direct", "long"):
        step, x, w = step_of(way), on_gpu(X), on_gpu(X)
        step(on_gpu(X), x)
        readers: list[SlowReader] = []
        with _around_kernels(lambda: readers.append(SlowReader(w)), lambda: None):  # noqa: B023
            result = step(w, x)
        assert isinstance(readers[0].end(), DonatedArrayError), way
        np.testing.assert_array_equal(np.asarray(result), 2 * X, way)


def check_of_a_call_without_memory_donated_arrays_are_left() -> None:
    """Nothing was started, so nothing was changed."""
    for way in ("direct", "long"):
        step = functad.jit(lambda w, x: (w + x, jnp.cumsum(x)), donate_argnums=0)
        x = on_gpu(X) if way == "direct" else X
        step(on_gpu(X), x)
        w = on_gpu(X)
        place = memory_of(w).address
        with patch.object(gpu().pool, "take_all", _no_memory):
            try:
                step(w, x)
            except TooLargeError as problem:
                assert str(problem) == "none"
            else:
                raise AssertionError("there was memory")
        np.testing.assert_array_equal(np.asarray(w), X)
        assert memory_of(step(w, x)[0]).address == place


def _no_memory(requests: Any) -> Any:
    raise TooLargeError("none")


CHECKS: dict[str, Callable[[], None]] = {
    f"threads, {name.removeprefix('check_').replace('_', ' ')}": value
    for name, value in list(globals().items())
    if name.startswith("check_")
}
