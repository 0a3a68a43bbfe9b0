"""What is said of compiling that takes long: how many equations, and whether they are a loop that Python has unrolled.

Knows Programs and standard error; nothing of backends.
"""

from __future__ import annotations

import os
import threading
from time import process_time
from typing import TYPE_CHECKING

from functad.config import config
from functad.ir import Program, all_eqns, equation_count, subprograms
from functad.system.once import imported

if TYPE_CHECKING:
    from functad.editing.repetition import RepeatedSteps

_PATIENCE = 1.0  # seconds of the clock, and of the processor: on a busy machine the least Program takes long
_SHORTEST = 0.05  # seconds between two looks at the processor's time
_LEAST = 100  # equations that a loop has together, to be spoken of


class Announcement:
    """Entered while a Program is compiled. `begin` starts the clock: what comes from the disk says nothing."""

    def __init__(self, program: Program, patience: float = _PATIENCE) -> None:
        # Let go of at the end: executables, which Programs keep, may keep this.
        self._program: Program | None = program if config.announce_compiles else None
        self._patience = patience
        self._timer: threading.Timer | None = None

    def __enter__(self) -> Announcement:
        return self

    def __exit__(self, *exc: object) -> None:
        self._program = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def begin(self) -> None:
        """There is something to compile."""
        if self._program is not None and self._timer is None:
            self._wait(self._patience, process_time())

    def _wait(self, seconds: float, begun: float) -> None:
        """Speak after some seconds, if the processor has worked for it long enough by then.

        begun: the processor's time at the beginning.
        """
        timer = threading.Timer(seconds, self._speak, (begun,))
        timer.daemon = True
        try:
            timer.start()
        except RuntimeError:  # there are no threads in a browser, or no more of them here
            return
        self._timer = timer

    def _speak(self, begun: float) -> None:
        program = self._program
        if program is None:
            return
        missing = self._patience - (process_time() - begun)
        if missing > 0:
            self._wait(max(missing, _SHORTEST), begun)
        else:
            imported("functad.system.progress").say(announcement(program))


def announcement(program: Program) -> str:
    """What is said of a Program.

    >>> import functad, functad.numpy as jnp
    >>> def f(x):
    ...     for _ in range(100):
    ...         x = jnp.sin(x) * x
    ...     return x
    >>> announcement(functad.make_jaxpr(f)(1.))  # doctest: +ELLIPSIS
    'functad: compiling f, 200 equations …; a loop of 100 equal steps (...): lax.scan compiles one'
    """
    programs = [program, *(inner for e in all_eqns(program.eqns) for inner in subprograms(e.params))]
    count = equation_count(program)
    text = f"functad: compiling {program.name or 'a Program'}, {count:,} equation{'s' if count != 1 else ''} …"
    loops = [(p, run) for p in programs for run in imported("functad.editing.repetition").repeated_steps(p)]
    if not loops:
        return text
    largest = max(_size(run) for _, run in loops)
    if largest < _LEAST:
        return text
    # A way back has steps with more equations, but lacks the first or the last: the loop is the way forward.
    owner, loop = max((found for found in loops if 2 * _size(found[1]) >= largest), key=lambda found: found[1].steps)
    return f"{text}; a loop of {loop.steps:,} equal steps{_place(owner, loop)}: lax.scan compiles one"


def _size(run: RepeatedSteps) -> int:
    return run.length * run.steps


def _place(program: Program, run: RepeatedSteps) -> str:
    source = program.eqns[run.start].source
    return f" ({os.path.basename(source.code.co_filename)}:{source.line})" if source is not None else ""
