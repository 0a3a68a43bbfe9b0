"""Puts questions whether to stop into the text of kernels that may run long: `if interrupted(token): return`.

Knows the form of kernel text: loops, and how many lines run in all. Nothing of what they compute. A loop whose number
of steps is known is cut into strips, with one question for each, so that its steps cost what they did. So are the steps
that are known to come next (`steps_left`) in a loop that goes on if they were not all. Loops without a known end, and
what is done under a condition only, are counted as they run. Matrix products take long beside a question: the loop
over a share of them asks at each step, whatever its sizes, so that kernels of other sizes have its text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import cached_property

from functad import machine_model
from functad.backends.cpu.products.routines import WORDS
from functad.backends.cpu.scalars import complex as complex_scalars
from functad.backends.cpu.scalars import special as special_scalars
from functad.backends.cpu.scalars.sorts import sort_numbers
from functad.backends.cpu.scalars.user_functions import is_user_function
from functad.lowering.nests.names import words_in
from functad.lowering.nests.nest import fresh
from functad.records import NamedTuple

_FOR = re.compile(r"for (\w+) in range\((.*)\):$")
_RANGE = re.compile(r"\b(?:start|stop)\b")
_OF_RANGE = re.compile(r"(\d+) \* start$")
_CALLED = re.compile(r"([A-Za-z_]\w*)\(")
_AHEAD = "steps_left("
_PRODUCT = "gemm_"
_SHARE = " // "
_AT_MOST = re.compile(r"^ *(\w+) = minimum\((\d+), ", re.MULTILINE)
_SLOW = {"remainder"} | {
    name
    for module in (special_scalars, complex_scalars)
    for name, value in vars(module).items()
    if getattr(value, "__module__", "") == module.__name__
}
_ROUTINES = {word.__name__ for word in (*WORDS, sort_numbers)}


class Polled(NamedTuple):
    """The text of a kernel's body.

    token: the parameter that it needs for its questions, or "". work: how many lines run for a step of its range,
    without those that it counts itself, of which at most `POLL_BUDGET`, or one strip, run without a question.
    """

    body: str
    token: str
    work: float


def with_polls(body: str, names: Iterable[str], *, is_long: bool = False) -> Polled:
    """The body of a kernel, with questions where more than `POLL_WORK` lines would run without one.

    names: the kernel's parameters. is_long: whether a step of the range is known to take long, as far as the text alone
    does not tell.
    """
    writer = _PollWriter(body, names, is_long)
    lines, work = writer.rewritten(0, len(writer.lines))
    if writer.has_budget:
        lines.insert(0, f"{writer.budget} = {machine_model.POLL_BUDGET}")
    return Polled("\n".join(lines) + "\n", writer.token if writer.asks else "", work)


class _PollWriter:
    def __init__(self, body: str, names: Iterable[str], is_long: bool) -> None:
        self.body, self.names = body, names
        self.lines = body.strip("\n").split("\n")
        self.depths = [_depth(line) if line.strip() else math.inf for line in self.lines]
        self.is_long = is_long
        self.has_products = _PRODUCT in body
        self.asks = self.has_budget = False

    @cached_property
    def taken(self) -> set[str]:
        return {*self.names, *words_in(self.body)}

    @cached_property
    def most(self) -> dict[str, int]:
        return {name: int(number) for name, number in _AT_MOST.findall(self.body)}

    @cached_property
    def token(self) -> str:
        return self.unique("token")

    @cached_property
    def budget(self) -> str:
        return self.unique("budget")

    @property
    def least_branch(self) -> int:
        """Lines under a condition that are counted where they run."""
        return machine_model.POLL_WORK if self.has_products else machine_model.LEAST_POLLED_BRANCH

    def unique(self, wanted: str) -> str:
        return fresh(wanted, self.taken)

    def rewritten(self, at: int, stop: int) -> tuple[list[str], float]:
        """Lines of one depth, from the first one to another one, and what stands in them; and how many run."""
        done: list[str] = []
        work, depths = 0.0, self.depths
        while at < stop:
            line, indent, after = self.lines[at], depths[at], at + 1
            while after < stop and depths[after] > indent:
                after += 1
            inside, inner_work = self.rewritten(at + 1, after) if after > at + 1 else ([], 0.0)
            text = line.strip()
            each = inner_work + _work(text)
            loop = _FOR.match(text)
            if loop and _AHEAD in loop.group(2):
                new = self.ahead(line, loop.group(2), inside, each)
                each = 0
            elif loop:
                new, steps = self.counted(line, loop.group(1), loop.group(2), inside, each)
                each *= steps
            elif text == "while True:":
                directly = [self.lines[k] for k in range(at + 1, after) if depths[k] == indent + 4]
                is_counted = any(_AHEAD in inner for inner in directly)
                new = [line, *([] if is_counted else self.spend(_depth(line) + 4, int(each))), *inside]
                each = 1
            elif text.startswith("if ") and inner_work > self.least_branch:
                new = [line, *self.spend(_depth(line) + 4, int(inner_work)), *inside]
                each -= inner_work
            else:
                new = [line, *inside]
                each *= machine_model.UNKNOWN_STEPS if text.startswith("while ") else 1
            done += new
            work += each
            at = after
        return done, work

    def counted(self, line: str, name: str, bounds: str, inside: list[str], each: float) -> tuple[list[str], int]:
        """A `for` whose steps run `each` lines; and how many steps it has, or may have."""
        first, last, step = _bounds(bounds)
        if _RANGE.search(bounds):
            each_step = _OF_RANGE.match(first)  # the range is run in pieces
            return [line, *inside], int(each_step.group(1)) if each_step else 1
        if first.isdigit() and last.isdigit():
            steps = len(range(int(first), int(last), step))
            asks = steps * each > machine_model.POLL_WORK
        elif self.has_products:
            steps = self.most.get(last, machine_model.UNKNOWN_STEPS)
            if _SHARE in bounds and any(_PRODUCT in inner for inner in inside):
                is_asked = any(f"({self.token})" in inner for inner in inside)
                return [line, *([] if is_asked else self.ask(_depth(line) + 4)), *inside], steps
            asks = steps * each > machine_model.POLL_WORK
        else:
            steps = machine_model.UNKNOWN_STEPS
            asks = self.is_long and each > machine_model.LEAST_POLLED_STEP
        if not asks or each > machine_model.POLL_WORK:  # what is inside asks
            return [line, *inside], steps
        depth, strip = _depth(line), 1 << (int(machine_model.POLL_WORK / each).bit_length() - 1)
        if strip == 1:
            return [line, *self.ask(depth + 4), *inside], steps
        piece, by = self.unique(f"{name}_piece"), f", {step}" if step > 1 else ""
        return [
            f"{' ' * depth}for {piece} in range({first}, {last}, {strip * step}):",
            *self.ask(depth + 4),
            f"{' ' * depth}    for {name} in range({piece}, min({piece} + {strip * step}, {last}){by}):",
            *(f"    {inner}" for inner in inside),
        ], steps

    def ask(self, depth: int) -> list[str]:
        self.asks = True
        return [f"{' ' * depth}if interrupted({self.token}):", f"{' ' * depth}    return"]

    def ahead(self, line: str, bounds: str, inside: list[str], each: float) -> list[str]:
        """A `for` of steps that are known to come, in a `while` that goes on if they were fewer."""
        depth, steps = _depth(line), self.unique("steps")
        indent = " " * depth
        return [
            f"{indent}{steps} = min({bounds}, {max(int(machine_model.POLL_WORK / each), 1)})",
            *self.spend(depth, f"{steps} * {min(int(each), machine_model.POLL_BUDGET)}"),
            f"{indent}{line.strip().replace(bounds, steps, 1)}",
            *inside,
        ]

    def spend(self, depth: int, work: int | str) -> list[str]:
        """Count work that runs nobody knows how often; all of it shares what may run without a question."""
        self.has_budget = True
        indent = " " * depth
        least = min(work, machine_model.POLL_BUDGET) if isinstance(work, int) else work
        return [
            f"{indent}{self.budget} = {self.budget} - {least}",
            f"{indent}if {self.budget} < 0:",
            f"{indent}    {self.budget} = {machine_model.POLL_BUDGET}",
            *self.ask(depth + 4),
        ]


def _work(line: str) -> int:
    """A line is one line, and each call another, of some functions many, of LAPACK and sorts most."""
    if not line or line.startswith("#"):
        return 0
    if "(" not in line:
        return 1
    called = _CALLED.findall(line)
    slow = sum(word in _SLOW or is_user_function(word) for word in called)
    routines = sum(word in _ROUTINES for word in called)
    return 1 + line.count("(") + machine_model.SLOW_WORK * slow + machine_model.ROUTINE_WORK * routines


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _bounds(text: str) -> tuple[str, str, int]:
    """The first, the last and the step, a positive number, of the arguments of `range`."""
    depth, arguments = 0, [""]
    for letter in text:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            arguments.append("")
        else:
            arguments[-1] += letter
    first, last, step = {1: ["0", *arguments, "1"], 2: [*arguments, "1"]}.get(len(arguments), arguments)
    return first.strip(), last.strip(), int(step)
