"""A process of its own for `test_interrupts.py`: functions that would run for ever, stopped by signals.

`python -m tests.tools.interrupted_program PART`: prints a line for each function that was stopped as it should be.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import functad
import functad.numpy as jnp
from functad import lax
from functad.config import config

jit = functad.jit
EVER = 1 << 45
SMALL = np.ones((64, 64), np.float32)
ROWS = np.ones((4096, 64), np.float32)


def of_length(step: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: lax.scan(lambda c, _: (step(c), None), x, None, length=EVER)[0]


def without_end(step: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: lax.while_loop(lambda c: jnp.sum(c) >= 0, step, x)


def up_to_a_number(x: Any) -> Any:
    """A loop that counts to a number that only a run knows."""
    end = jnp.asarray(np.asarray(EVER, np.int64)) + x.astype("int64")
    return lax.while_loop(lambda c: c[0] < end, lambda c: (c[0] + 1, c[1] * 0.5 + 1), (np.asarray(0, np.int64), x))[1]


def sometimes_for_ever(x: Any) -> Any:
    """A loop of many steps that hold a loop of few, in a loop without end."""
    inner = lambda c: lax.while_loop(lambda d: d < 0, lambda d: d + 1, lax.fori_loop(0, 3, lambda i, d: d * 0.5, c))  # noqa: E731
    return lax.while_loop(lambda c: c >= 0, of_length(inner), x)


def few_steps(x: Any) -> Any:
    """A loop that ends soon, which no type tells, in a kernel."""
    count = lax.while_loop(lambda c: c < 10_000 + 0 * x[0, 0], lambda c: c * 1.0 + 1, x[0, 0] * 0)
    return x * 0 + count


FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "a counted loop that is a kernel": (of_length(lambda c: c * 0.5 + 1), np.float32(1)),
    "a while loop that is a kernel": (without_end(lambda c: c * 0.5 + 1), np.float32(1)),
    "a loop up to a number": (up_to_a_number, np.float32(1)),
    "loops in loops in a kernel": (sometimes_for_ever, np.float32(1)),
    "a counted loop on the tape": (of_length(lambda c: jnp.sin(c @ c) * 0.5), SMALL),
    "a while loop on the tape": (without_end(lambda c: jnp.abs(jnp.sin(c @ c))), SMALL),
    "a loop of products": (of_length(lambda c: c @ c), SMALL),
    "a loop of loops on the tape": (of_length(lambda c: few_steps(c @ c)), SMALL),
    "a loop by rows": (of_length(lambda c: jnp.sin(c) * 0.5), ROWS),
    "a sum": (lambda x: jnp.broadcast_to(x, (1 << 31, 1 << 30)).sum(), np.float32(1)),
    "a sum over rows": (lambda x: jnp.sum(jnp.broadcast_to(x, (1 << 40, 64)) * 2, 0), np.ones(64, np.float32)),
    "many rows": (lambda x: jnp.max(jnp.broadcast_to(x, (64, 1 << 40)), 1), np.ones((64, 1), np.float32)),
}


def when_compiled(then: Callable[[], None]) -> None:
    """Call a function in a thread, a moment after the next Program has been compiled."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage().startswith("compiled"):
                logging.getLogger("functad").removeHandler(self)
                config.update("log_compiles", False)
                later(0.2, then)

    logger = logging.getLogger("functad")
    logger.propagate = False
    logger.addHandler(Handler())
    config.update("log_compiles", True)


def later(seconds: float, then: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, then)
    timer.daemon = True  # the process does not wait for it
    timer.start()


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def stopped(name: str, call: Callable[[], Any], wanted: type[BaseException] = KeyboardInterrupt) -> None:
    """Call what only a signal ends, and then something else."""
    try:
        call()
    except wanted:
        doubled = jit(lambda x: (x @ x).sum() * 2)(SMALL)
        assert float(doubled) == 2.0 * 64**3, doubled
        print(f"stopped {name}", flush=True)
    else:
        print(f"{name} came to an end", flush=True)


def loops() -> None:
    for name, (function, x) in FUNCTIONS.items():
        when_compiled(interrupt)
        stopped(name, lambda f=function, x=x: jit(f)(x))  # type: ignore[misc]


def unjitted() -> None:
    later(0.5, interrupt)
    stopped("a sum without jit", lambda: jnp.broadcast_to(jnp.float32(1), (64, 1 << 50)).sum(1))


def handler() -> None:
    """What a handler of the user's raises comes through; a handler that raises nothing stops nothing."""
    seen = []
    total = jit(lambda x: x.sum())
    total(ROWS)

    def on_alarm(number: int, frame: Any) -> None:
        seen.append(float(total(ROWS)))  # within another call
        if len(seen) == 3:
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise TimeoutError("three times")

    signal.signal(signal.SIGALRM, on_alarm)
    when_compiled(lambda: signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1))
    function, x = FUNCTIONS["a loop by rows"]
    stopped("by a handler", lambda: jit(function)(x), TimeoutError)
    assert seen == [4096.0 * 64] * 3, seen


def callback() -> None:
    """Ctrl-C while Python functions are called from a compiled loop, wherever they are just then."""

    def step(c: Any) -> Any:
        return jnp.sin(functad.pure_callback(lambda x: x + 1, functad.ShapeDtypeStruct(c.shape, c.dtype), c))

    when_compiled(interrupt)
    stopped("a loop of callbacks", lambda: jit(of_length(step))(SMALL))


def donation() -> None:
    step = jit(of_length(lambda c: jnp.sin(c) * 0.5), donate_argnums=0)
    given = jnp.asarray(ROWS) + 1
    when_compiled(interrupt)
    stopped("a donating loop", lambda: step(given))
    try:
        assert (np.asarray(given) == 2).all(), "changed"
        print("intact", flush=True)
    except functad.errors.DonatedArrayError:
        print("gone", flush=True)


def threads() -> None:
    """Only the main thread is stopped: what others compute meanwhile is right."""
    x = np.linspace(0, 1, 1 << 16, dtype=np.float32)
    wanted = float(np.sin(x).sum())
    function = jit(lambda x: jnp.sum(jnp.sin(x)))
    function(x)
    ended, wrong = threading.Event(), []

    def others() -> None:
        while not ended.is_set():
            found = float(function(x))
            if abs(found - wanted) > 1e-3 * wanted:
                wrong.append(found)

    started = [threading.Thread(target=others) for _ in range(3)]
    for t in started:
        t.start()
    try:
        loops()
    finally:  # or the process would never end
        ended.set()
        for t in started:
            t.join()
    assert not wrong, wrong


def at_exit() -> None:
    """A daemon thread is in a loop without end, on all threads, when the process ends; then comes Ctrl-C again."""
    function, x = FUNCTIONS["a loop by rows"]
    when_compiled(interrupt)
    threading.Thread(target=lambda: jit(function)(x), daemon=True).start()
    stopped("the main thread", lambda: time.sleep(100))
    later(0.01, interrupt)
    print("ends", flush=True)


if __name__ == "__main__":
    # What a shell starts in the background ignores Ctrl-C, and so do its children.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.update("num_threads", 2)
    globals()[sys.argv[1]]()
