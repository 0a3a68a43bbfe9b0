"""Programs that tests trace are printed and read again, one of each structure; of others each kind of equation.

A plugin of pytest, which `conftest.py` loads. A structure is what a Program is up to names, shapes and numbers: which
operation reads which results, with the types of all of them and of its parameters' values. Of what passes of the
optimiser make, and of long Programs, those with a new kind of equation are taken; `--every-program` leaves out none
that prints differently. Programs are printed at once, for tests look at how long they live, and read after the test:
the body of a loop or call with the Program that it is in, if that is printed before.
Examples of docstrings run as a user's, and each equation of theirs must have one of their lines.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

import functad
from functad.all_primitives import registry
from functad.array import ArrayImpl, DonatedArray
from functad.ir import Aval, Eqn, Literal, Program, memoised, subprograms
from functad.observing import Observer, watching

SHORT = 100  # how many equations Programs have at most of which one of each structure is read
MOST_EQUATIONS = 300  # larger Programs have no other kinds of equations
MOST_NUMBERS = 1000  # of constants that are written


class Printed(NamedTuple):
    text: str
    consts: Sequence[Aval]  # the types of constants that it only names
    constants: bool  # whether others are written


class RoundTrips(Observer):
    """Prints Programs that are new; `read` reads them."""

    def __init__(self) -> None:
        self.every = False
        self.structures: set[int] = set()
        self.kinds: set[int] = set()
        self.texts: set[int] = set()  # hashes of what has been printed, of every Program
        self.printed: dict[int, list[Printed]] = {}  # what waits to be read, by structures
        self.count = 0
        self.file = ""  # how the name of the file begins whose lines equations should have
        self.without_line: list[Eqn] = []

    def traced(self, program: Program, variables: Any) -> None:
        self.note(program)

    def passed(self, name: str, reason: str, before: Program, after: Program) -> None:
        if after is not before:
            self.note(after, before)

    def note(self, program: Program, before: Program | None = None) -> None:
        """Print a Program that is new. before: what a pass made it of."""
        if self.file:
            self.without_line += [eqn for eqn in program.eqns if not has_line(eqn, self.file)]
        if not self.every and len(program.eqns) > MOST_EQUATIONS:
            return
        structure = structure_of(program, before)
        if before is None and structure.equations <= SHORT:
            is_new = structure.whole not in self.structures
        else:
            is_new = not self.kinds.issuperset(structure.kinds.values())
        if not (self.every or is_new) or not all(map(are_functads, program.eqns)):
            return
        self.structures.add(structure.whole)
        self.kinds.update(structure.kinds.values())
        text = str(program)
        if self.every and hash(text) in self.texts:
            return
        self.texts.add(hash(text))
        if not self.every:
            for inner in structure.within:  # whose lines stand in this text
                self.printed.pop(structure_of(inner).whole, None)
        waiting = self.printed.setdefault(structure.whole, [])
        waiting.append(Printed(text, [v.aval for v in program.constvars], False))
        if 0 < sum(sizes_of_constants(program)) <= MOST_NUMBERS:
            named = [v.aval for v, c in zip(program.constvars, program.consts) if not has_numbers(c)]
            waiting.append(Printed(functad.program_to_text(program, constants=True), named, True))

    @property
    def waiting(self) -> list[Printed]:
        return [*itertools.chain.from_iterable(self.printed.values())]

    def read(self) -> None:
        """Read what has been printed, and print it anew."""
        waiting, self.printed = self.waiting, {}
        for printed in waiting:
            check_round_trip(printed)
            self.count += 1


def has_line(eqn: Eqn, file: str) -> bool:
    """Whether an equation has a line of a file."""
    source = eqn.source
    return source is not None and bool(source.text) and source.code.co_filename.startswith(file)


def check_round_trip(printed: Printed) -> None:
    """Raise unless a text is read as a Program that prints alike."""
    read = functad.parse_program(printed.text, printed.consts)
    assert functad.program_to_text(read, constants=printed.constants) == printed.text


class Structure(NamedTuple):
    """What a Program is up to names, shapes and numbers, as hashes."""

    whole: int
    kinds: Mapping[int, int]  # of each equation, by its identity
    within: tuple[Program, ...]  # the Programs in its parameters, and in theirs, in their order
    equations: int  # how many there are, with those of Programs within


def structure_of(program: Program, before: Program | None = None) -> Structure:
    """The structure of a Program, kept as long as it lives. before: what a pass made it of."""
    kept = before.cache.get(_KEPT) if before is not None else None
    return memoised(program, _KEPT, lambda: _structure_of(program, kept.kinds if kept else {}))


_KEPT = ("structure",)


def _structure_of(program: Program, known: Mapping[int, int]) -> Structure:
    numbers: dict[Any, int] = {}  # of variables
    parts: list[Hashable] = [len(program.constvars)]
    kinds: dict[int, int] = {}
    within: list[Program] = []
    for var in (*program.constvars, *program.invars):
        numbers[var] = len(numbers)
        parts += (var.aval.dtype, not var.aval.shape)
    for eqn in program.eqns:
        kind = known.get(id(eqn))
        kinds[id(eqn)] = kind = kind_of(eqn) if kind is None else kind
        parts += (kind, *[numbers.get(atom, -1) for atom in eqn.invars])
        for var in eqn.outvars:
            numbers[var] = len(numbers)
        for inner in subprograms(eqn.params):
            within += (inner, *structure_of(inner).within)
    parts += [numbers.get(atom, -1) for atom in program.outvars]
    order: dict[int, int] = {}  # which of those within are one
    parts += [order.setdefault(id(inner), len(order)) for inner in within]
    count = len(program.eqns) + sum(len(inner.eqns) for inner in within)
    return Structure(hash(tuple(parts)), kinds, tuple(within), count)


def kind_of(eqn: Eqn) -> int:
    """What kind an equation is of: an operation with the types of its atoms and of its parameters' values."""
    atoms = tuple([(isinstance(a, Literal), a.aval.dtype, not a.aval.shape) for a in (*eqn.invars, *eqn.outvars)])
    params = tuple([(name, *types_of(value)) for name, value in sorted(eqn.params.items())])
    inner = tuple([structure_of(program).whole for program in subprograms(eqn.params)])
    return hash((eqn.primitive.name, len(eqn.invars), atoms, params, inner))


def types_of(value: Any) -> Iterator[str]:
    """The names of the types in a parameter's value."""
    yield type(value).__name__
    if isinstance(value, tuple):
        yield from sorted({name for v in value for name in types_of(v)})


def are_functads(eqn: Eqn) -> bool:
    """Whether its primitive, and those within it, are functad's own: a test's may have gone when a text is read."""
    return registry.get(eqn.primitive.name) is eqn.primitive and all(
        are_functads(e) for p in subprograms(eqn.params) for e in p.eqns
    )


def sizes_of_constants(program: Program) -> Iterator[int]:
    """How many numbers each constant has, those of Programs within, too."""
    yield from (v.aval.size for v in program.constvars)
    for eqn in program.eqns:
        for inner in subprograms(eqn.params):
            yield from sizes_of_constants(inner)


def has_numbers(constant: Any) -> bool:
    """Whether the value of a constant can be written: it is neither traced nor donated."""
    return isinstance(constant, (ArrayImpl, np.ndarray)) and not isinstance(constant, DonatedArray)


ROUND_TRIPS = RoundTrips()


def pytest_configure(config: pytest.Config) -> None:
    ROUND_TRIPS.every = config.getoption("--every-program")
    type(watching).observer = ROUND_TRIPS  # of all threads that have no other


@pytest.fixture(autouse=True)
def _programs_can_be_read_again(request: pytest.FixtureRequest) -> Iterator[None]:
    example = getattr(request.node, "dtest", None)
    ROUND_TRIPS.file = "<doctest " if example is not None else ""
    if example is not None:
        example.globs["__name__"] = "__main__"  # else its lines were the module's own, which are none of a user's
    yield
    ROUND_TRIPS.file, lost = "", ROUND_TRIPS.without_line
    ROUND_TRIPS.without_line = []
    assert not lost, f"these equations have no line of the example: {lost}"
    ROUND_TRIPS.read()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    structures, kinds = len(ROUND_TRIPS.structures), len(ROUND_TRIPS.kinds)
    what = f"{structures:,} structures, with {kinds:,} kinds of equations"
    terminalreporter.write_line(f"{ROUND_TRIPS.count:,} Programs of {what}, were printed and read again")
