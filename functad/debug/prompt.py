"""`debug.breakpoint`: a prompt with the values of the enclosing Python frames, also while compiled code runs.

Knows Python's frames; the equation that stops is a `debug_callback`.
"""

from __future__ import annotations

import cmd
import linecache
import pprint
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from functad.api.callbacks import flat_callback
from functad.array import Array
from functad.errors import ArgumentError
from functad.primitives.callback import debug_callback
from functad.tracing import Tracer
from functad.tree_util import PyTreeDef, tree_flatten, tree_unflatten

_LINES_AROUND = 5
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


@dataclass
class _Local:
    """A local variable as a pytree; traced leaves are numbers of operands."""

    tree: PyTreeDef
    leaves: list[Any]

    def value(self, arrays: tuple[Any, ...]) -> Any:
        return tree_unflatten(self.tree, [arrays[x] if type(x) is _TracedValue else x for x in self.leaves])


@dataclass
class _StackFrame:
    filename: str
    line: int
    name: str
    globals: dict[str, Any]
    locals: dict[str, Any]

    def place(self) -> str:
        return f"{self.filename}({self.line}){self.name}()"

    def source(self) -> str:
        return linecache.getline(self.filename, self.line).strip()


def _captured(frame: FrameType, operands: list[Any]) -> _StackFrame:
    """A frame with its local variables; traced values are added to the operands."""
    variables = {name: _local(value, operands) for name, value in frame.f_locals.items()}
    return _StackFrame(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name, frame.f_globals, variables)


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

    def __init__(self, frames: list[_StackFrame], stdin: TextIO | None, stdout: TextIO | None) -> None:
        self.frames = frames
        self.stdin = stdin
        self.stdout = stdout

    def __call__(self, *arrays: Any) -> None:
        frames = []
        for f in self.frames:
            known = {k: v.value(arrays) if isinstance(v, _Local) else v for k, v in f.locals.items()}
            frames.append(replace(f, locals=known))
        _Prompt(frames, self.stdin, self.stdout).cmdloop()


class _Prompt(cmd.Cmd):
    """Reads commands until one of them goes on. `frames` begins with the innermost."""

    prompt = "(fdb) "

    def __init__(self, frames: list[_StackFrame], stdin: TextIO | None, stdout: TextIO | None) -> None:
        super().__init__(stdin=stdin, stdout=stdout)
        self.use_rawinput = stdin is None
        self.frames = frames
        self.at = 0

    def preloop(self) -> None:
        self._show()

    def emptyline(self) -> bool:
        return False

    def default(self, line: str) -> None:
        if line == "EOF":
            sys.exit(0)
        self.do_p(line)

    def do_p(self, expression: str) -> None:
        """p expression: print its value."""
        self._print(expression, repr)

    def do_pp(self, expression: str) -> None:
        """pp expression: print its value over several lines."""
        self._print(expression, pprint.pformat)

    def do_vars(self, _: str) -> None:
        """vars: list the local variables that hold arrays."""
        for name, value in self.frames[self.at].locals.items():
            if any(isinstance(x, Array) for x in tree_flatten(value)[0]):
                self._write(f"{name} = {value!r}")

    def do_l(self, _: str) -> None:
        """l: list the source around the current line."""
        frame = self.frames[self.at]
        for number in range(max(frame.line - _LINES_AROUND, 1), frame.line + _LINES_AROUND + 1):
            text = linecache.getline(frame.filename, number).rstrip("\n")
            if text:
                self._write(f"{'->' if number == frame.line else '  '} {number:4d}  {text}")

    do_list = do_l

    def do_w(self, _: str) -> None:
        """w: show the calls, the innermost last."""
        for number, frame in reversed(list(enumerate(self.frames))):
            self._write(f"{'>' if number == self.at else ' '} {frame.place()}\n  -> {frame.source()}")

    do_where = do_bt = do_w

    def do_u(self, _: str) -> None:
        """u: go to the caller."""
        self._go(self.at + 1)

    do_up = do_u

    def do_d(self, _: str) -> None:
        """d: go back to what it called."""
        self._go(self.at - 1)

    do_down = do_d

    def do_c(self, _: str) -> bool:
        """c: go on."""
        return True

    do_continue = do_cont = do_c

    def do_q(self, _: str) -> None:
        """q: end the program."""
        sys.exit(0)

    do_quit = do_exit = do_q

    def _go(self, to: int) -> None:
        if not 0 <= to < len(self.frames):
            self._write("*** there is no frame further on")
            return
        self.at = to
        self._show()

    def _show(self) -> None:
        frame = self.frames[self.at]
        self._write(f"> {frame.place()}\n-> {frame.source()}")

    def _print(self, expression: str, shown: Any) -> None:
        frame = self.frames[self.at]
        try:
            # One dict for both, because comprehensions see globals only.
            self._write(shown(eval(expression, {**frame.globals, **frame.locals})))
        except Exception as problem:  # it is the user's expression; the prompt goes on
            self._write(f"*** {type(problem).__name__}: {problem}")

    def _write(self, text: str) -> None:
        self.stdout.write(text + "\n")
