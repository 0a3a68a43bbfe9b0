"""`debug.breakpoint`: a prompt with the values of the enclosing Python frames, also while compiled code runs.

Knows Python's frames; the equation that stops is a `debug_callback`.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from functad.api.callbacks import flat_callback
from functad.errors import ArgumentError
from functad.primitives.callback import debug_callback
from functad.records import Record
from functad.system.once import imported
from functad.tracing import Tracer
from functad.tree_util import PyTreeDef, tree_flatten, tree_unflatten

_OWN_FILES = str(Path(__file__).parent.parent)


def breakpoint(
    *,
    backend: str | None = None,
    filter_frames: bool = True,
    num_frames: int | None = None,
    ordered: bool = False,
    token: None = None,
    stdin: TextIO | None = None,
    stdout: TextIO | None = None,
) -> None:
    """Stop each time the function around it runs, also within compiled loops, and read commands from a prompt.

    The local variables of the function, and of its callers, can be printed and used in expressions; those that were
    traced have the values of this run. They are a look from outside: assigning to them changes nothing. Under `vmap` it
    stops for one example after another, under `grad` in the forward pass.

    Commands: `p` and `pp` print an expression, `vars` lists the local variables that hold arrays, `l` lists the source,
    `w` shows the calls, `u` and `d` go to the caller and back, `c` goes on, `q` ends the program. Anything else is
    taken for an expression.

    Args:
        backend: accepted for JAX's sake: None or "cli".
        filter_frames: leave out the frames of functad itself.
        num_frames: the number of frames to keep, from the innermost; all by default.
        ordered, token: accepted for JAX's sake.
        stdin, stdout: where commands come from and answers go to; the standard streams by default.

    Raises:
        ArgumentError: there is no such backend.

    >>> import functad, io, sys
    >>> @functad.jit
    ... def f(x):
    ...     y = x * 2
    ...     functad.debug.breakpoint(stdin=io.StringIO("p x + y\\nc\\n"), stdout=sys.stdout, num_frames=1)
    ...     return y
    >>> f(3.)  # doctest: +ELLIPSIS
    > ...f()
    -> functad.debug.breakpoint(...)
    (fdb) Array(9., dtype=float32)
    (fdb) Array(6., dtype=float32, weak_type=True)
    """
    if backend not in (None, "cli"):
        raise ArgumentError(f'debug.breakpoint: backend must be None or "cli", but is {backend!r}')
    operands: list[Any] = []
    frames = [_captured(f, operands) for f in _frames(sys._getframe(1), filter_frames, num_frames)]
    pause = _Breakpoint(frames, stdin, stdout)
    flat, values = flat_callback(pause, tuple(operands), {}, "debug.breakpoint")
    debug_callback(flat, values, bool(ordered))


def _frames(frame: FrameType | None, filtered: bool, count: int | None) -> list[FrameType]:
    def walk(frame: FrameType | None) -> Iterator[FrameType]:
        while frame is not None:
            if not (filtered and frame.f_code.co_filename.startswith(_OWN_FILES)):
                yield frame
            frame = frame.f_back

    return list(walk(frame))[:count]


class _TracedValue(int):
    """Stands for a traced value: its number among the operands."""


class _Local(Record):
    """A local variable as a pytree; traced leaves are numbers of operands."""

    tree: PyTreeDef
    leaves: list[Any]

    def value(self, arrays: tuple[Any, ...]) -> Any:
        return tree_unflatten(self.tree, [arrays[x] if type(x) is _TracedValue else x for x in self.leaves])


class PausedFrame(Record):
    """A call of a function that is shown, and its local variables."""

    filename: str
    line: int
    name: str
    globals: dict[str, Any]
    locals: dict[str, Any]

    def place(self) -> str:
        return f"{self.filename}({self.line}){self.name}()"

    def source(self) -> str:
        return linecache.getline(self.filename, self.line).strip()


def _captured(frame: FrameType, operands: list[Any]) -> PausedFrame:
    """A frame with its local variables; traced values are added to the operands."""
    variables = {name: _local(value, operands) for name, value in frame.f_locals.items()}
    return PausedFrame(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name, frame.f_globals, variables)


def _local(value: Any, operands: list[Any]) -> Any:
    try:
        leaves, tree = tree_flatten(value)
    except Exception:  # whatever the user's own classes raise: the variable is shown as it is
        return value
    if not any(isinstance(x, Tracer) for x in leaves):
        return value
    return _Local(tree, [_leaf(x, operands) for x in leaves])


def _leaf(x: Any, operands: list[Any]) -> Any:
    if not isinstance(x, Tracer):
        return x
    if not x.owner.alive:
        return "<a traced value whose function has returned>"
    known = [i for i, other in enumerate(operands) if other is x]
    if not known:
        operands.append(x)
    return _TracedValue(known[0] if known else len(operands) - 1)


class _Breakpoint:
    """What a breakpoint calls: the prompt, for frames whose traced values are given."""

    __name__ = "breakpoint"

    def __init__(self, frames: list[PausedFrame], stdin: TextIO | None, stdout: TextIO | None) -> None:
        self.frames = frames
        self.stdin = stdin
        self.stdout = stdout

    def __call__(self, *arrays: Any) -> None:
        frames = []
        for f in self.frames:
            known = {k: v.value(arrays) if isinstance(v, _Local) else v for k, v in f.locals.items()}
            frames.append(replace(f, locals=known))
        imported("functad.debug.console").Prompt(frames, self.stdin, self.stdout).cmdloop()
