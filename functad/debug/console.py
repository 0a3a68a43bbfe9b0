"""The prompt of `debug.breakpoint`: its commands.

Knows frames whose values are there; imported when a program stops.
"""

from __future__ import annotations

import cmd
import linecache
import pprint
import sys
from typing import Any, TextIO

from functad.array import Array
from functad.debug.prompt import PausedFrame
from functad.tree_util import tree_flatten

_LINES_AROUND = 5


class Prompt(cmd.Cmd):
    """Reads commands until one of them goes on. `frames` begins with the innermost."""

    prompt = "(fdb) "

    def __init__(self, frames: list[PausedFrame], stdin: TextIO | None, stdout: TextIO | None) -> None:
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
