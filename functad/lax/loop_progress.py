"""A progress bar for loops, which also moves while compiled code runs.

The loop is cut into blocks, and Python is called between two of them: steps within a block stay as fast as they are.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from functad.api.callbacks import flat_callback
from functad.control.forwarding import bind_scan
from functad.ir import Aval, Program, memoised
from functad.primitives.arithmetic import add_p
from functad.primitives.callback import debug_callback
from functad.primitives.common import reshape
from functad.primitives.joining import concatenate
from functad.primitives.reduction import slice_along
from functad.system.progress import Progress
from functad.tracing import bind, eval_program, trace_to_program

MOST_UPDATES = 100


def scan_with_progress(
    body: Program, carry: Sequence[Any], xs: Sequence[Any], *, length: int, reverse: bool, unroll: int, label: str
) -> tuple[list[Any], list[Any]]:
    """`bind_scan`, which calls Python at most `MOST_UPDATES` times, and once before and after."""
    size = -(-length // MOST_UPDATES)
    if not size:
        return bind_scan(body, carry, xs, length=length, reverse=reverse, unroll=unroll)
    key = ("progress", label, length, reverse, unroll)
    loop = memoised(body, key, lambda: _BlockedScan(body, len(carry), size, length, reverse, unroll, label))
    return loop(carry, xs)


class _BlockedScan:
    """A scan cut into blocks of `size` steps, and a rest."""

    def __init__(
        self, body: Program, num_carry: int, size: int, length: int, reverse: bool, unroll: int, label: str
    ) -> None:
        self.size = size
        self.blocks, self.rest = divmod(length, size)
        self.num_carry = num_carry
        self.options: dict[str, Any] = {"reverse": reverse, "unroll": unroll}
        self.tell, _ = flat_callback(_Bar(label, length), (0,), {}, "the progress bar of scan")
        count = Aval((), np.dtype(np.int32))
        self.step = trace_to_program(
            lambda done, *args: [bind(add_p, done, np.int32(1)), *eval_program(body, args)],
            [count, *body.in_avals],
            name=body.name,
        )
        blocks = [Aval((size, *a.shape), a.dtype, a.weak_type) for a in body.in_avals[num_carry:]]
        self.block = trace_to_program(self._block, [count, *body.in_avals[:num_carry], *blocks], name=body.name)

    def __call__(self, carry: Sequence[Any], xs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        first = self.rest if self.options["reverse"] else 0
        cut = self.blocks * self.size
        debug_callback(self.tell, [np.int32(0)])
        whole = [reshape(x, (self.blocks, self.size, *x.shape[1:])) for x in _rows(xs, first, first + cut)]
        state = [np.int32(0), *carry]
        state, ys = bind_scan(self.block, state, whole, length=self.blocks, **{**self.options, "unroll": 1})
        parts = [[reshape(y, (cut, *y.shape[2:])) for y in ys]]
        if self.rest:
            start = 0 if self.options["reverse"] else cut
            state, ys = bind_scan(
                self.step, state, _rows(xs, start, start + self.rest), length=self.rest, **self.options
            )
            debug_callback(self.tell, state[:1])
            parts.insert(0 if self.options["reverse"] else 1, ys)
        return state[1:], [concatenate(list(ys), 0) if self.rest else ys[0] for ys in zip(*parts)]

    def _block(self, *args: Any) -> list[Any]:
        count = 1 + self.num_carry
        state, ys = bind_scan(self.step, args[:count], args[count:], length=self.size, **self.options)
        debug_callback(self.tell, state[:1])
        return [*state, *ys]


def _rows(xs: Sequence[Any], start: int, stop: int) -> list[Any]:
    if all(x.shape[0] == stop - start for x in xs):
        return list(xs)
    return [slice_along(x, 0, start, stop) for x in xs]


class _Bar:
    """Shows how many steps of a loop are done; 0 starts a new bar. Each thread that runs the loop has its own."""

    __name__ = "bar"

    def __init__(self, label: str, total: int) -> None:
        self.label = label
        self.total = total
        self.shown = threading.local()

    def __call__(self, done: Any) -> None:
        count = int(done)
        if count == 0:
            self.shown.progress = Progress(self.total, self.label)
            return
        progress: Progress = self.shown.progress
        progress.update(count - progress.count)
        if count == self.total:
            progress.__exit__(None, None, None)


def stepped(steps: range, label: str | None) -> Iterator[int]:
    """The numbers of the steps, with a bar if there is a label."""
    if label is None:
        yield from steps
        return
    with Progress(len(steps), label) as progress:
        for i in steps:
            yield i
            progress.update()
