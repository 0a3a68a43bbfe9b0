"""Loops that Python has unrolled: runs of equal steps among the equations of a Program.

Knows equations, their operands and the lines they came from; not what primitives compute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

import numpy as np

from functad.ir import Eqn, Literal, Program, Var
from functad.lowering_rules import Indexed
from functad.records import NamedTuple

_CANDIDATES = 12  # periods that are tried
_FEWEST_STEPS = 4  # steps that are worth a word


class RepeatedSteps(NamedTuple):
    """Equations of the numbers `start` to `start + length * steps`, `length` of them a step, all steps alike.

    What a step reads of the steps before it lies in each of them as far back.
    """

    start: int
    length: int
    steps: int

    @property
    def stop(self) -> int:
        return self.start + self.length * self.steps


def repeated_steps(program: Program) -> list[RepeatedSteps]:
    """The runs of at least four equal steps, in the order in which they stand; the longest are found first.

    >>> import functad
    >>> def f(x, w):
    ...     for _ in range(10):
    ...         x = functad.numpy.sin(x) * w
    ...     return x
    >>> repeated_steps(functad.make_jaxpr(f)(1., 2.))
    [RepeatedSteps(start=0, length=2, steps=10)]
    """
    kinds: dict[Hashable, int] = {}
    lines: dict[Hashable, int] = {}
    numbers = np.array([kinds.setdefault(_kind(eqn, lines), len(kinds)) for eqn in program.eqns], np.int64)
    made = {v: i for i, eqn in enumerate(program.eqns) for v in eqn.outvars}
    found: list[RepeatedSteps] = []
    waiting = [(0, len(numbers))]
    while waiting:
        start, stop = waiting.pop()
        if stop - start < 2 * _FEWEST_STEPS:
            continue
        for run in _runs(numbers[start:stop], start):
            if _is_alike(program.eqns, run, made):
                found.append(run)
                waiting += [(start, run.start), (run.stop, stop)]
                break
    return sorted(found)


def _kind(eqn: Eqn, lines: dict[Hashable, int]) -> Hashable:
    """What two equations have in common that may be those of two steps; what is moved where may differ."""
    source = eqn.source
    line: Hashable = None
    if source is not None:
        place = source.code, source.at  # an instruction that Python has specialised meanwhile is another place
        if place not in lines:
            lines[place] = source.line
        line = source.code, lines[place], source.transposed
    given: Hashable = None
    if not isinstance(eqn.primitive.lower, Indexed):
        given = tuple((name, id(v) if isinstance(v, Program) else str(v)) for name, v in eqn.params.items())
    values = tuple(str(a.value) if isinstance(a, Literal) else a.aval.shape for a in eqn.invars)
    return eqn.primitive, line, given, values, tuple((v.aval.shape, v.aval.dtype) for v in eqn.outvars)


def _runs(numbers: np.ndarray, offset: int) -> Iterator[RepeatedSteps]:
    """For each likely length of a step the longest run, those first that cover most."""
    last: dict[int, int] = {}
    distances: Counter[int] = Counter()
    for i, number in enumerate(numbers.tolist()):
        if number in last:
            distances[i - last[number]] += 1
        last[number] = i
    runs = []
    for length, _ in distances.most_common(_CANDIDATES):
        same = np.concatenate([[False], numbers[length:] == numbers[:-length], [False]])
        edges = np.flatnonzero(same[1:] != same[:-1])  # a run begins and ends, begins and ends
        starts, extents = edges[::2], edges[1::2] - edges[::2]
        at = int(np.argmax(extents))
        steps = int(extents[at]) // length + 1
        if steps >= _FEWEST_STEPS:
            runs.append(RepeatedSteps(int(starts[at]) + offset, length, steps))
    runs.sort(key=lambda run: (-run.length * run.steps, run.length))
    yield from runs


def _is_alike(eqns: Sequence[Eqn], run: RepeatedSteps, made: dict[Var, int]) -> bool:
    """Whether each step reads what the others read: what is made in the run lies equally far back."""
    for at in range(run.start, run.start + run.length):
        for k in range(len(eqns[at].invars)):
            back = set()
            for here in range(at, run.stop, run.length):
                atom = eqns[here].invars[k]
                there = made.get(atom, -1) if isinstance(atom, Var) else -1
                if there >= run.start:
                    back.add(here - there)
            if len(back) > 1:
                return False
    return True
