"""What the user calls the results of equations: the local variables that his lines assign.

Knows Python's instructions and Programs; not how Programs are printed.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator, MutableMapping
from functools import lru_cache
from itertools import count, groupby
from types import CodeType

from functad.ir import Program, Source, Var, subprograms


def add_local_names(program: Program, names: MutableMapping[Var, str]) -> None:
    """Name what the user's lines assign, `h = jnp.tanh(x)`, and all within; a second `h` is `h1`.

    A line may be several equations, of which the last gives what is assigned. What derivatives compute has no name.
    """
    taken = set(names.values())
    for var, name in _assigned(program):
        if var not in names:
            chosen = next(n for k in count() if (n := f"{name}{k or ''}") not in taken)
            taken.add(chosen)
            names[var] = chosen


def _assigned(program: Program) -> Iterator[tuple[Var, str]]:
    for source, run in groupby(program.eqns, lambda e: _key(e.source)):
        last = None
        for last in run:
            for inner in subprograms(last.params):
                yield from _assigned(inner)
        if source is not None and last is not None:
            given = names_assigned_after(*source)
            if len(given) == len(last.outvars):
                yield from ((var, name) for var, name in zip(last.outvars, given) if name != "_")


def _key(source: Source | None) -> tuple[CodeType, int] | None:
    return None if source is None or source.derived else (source.code, source.at)


@lru_cache(maxsize=10_000)
def names_assigned_after(code: CodeType, at: int) -> tuple[str, ...]:
    """The variables to which the result of an instruction goes at once: several, where it is a tuple that is unpacked.

    >>> def f(x):
    ...     y = -x
    ...     return y
    >>> at = next(i.offset for i in dis.get_instructions(f) if "NEGATIVE" in i.opname)
    >>> names_assigned_after(f.__code__, at)
    ('y',)
    """
    following = (i for i in dis.get_instructions(code) if i.offset > at)
    wanted, found = 1, []
    for instruction in following:
        if instruction.opname == "UNPACK_SEQUENCE" and wanted == 1:
            wanted = instruction.arg or 0
        elif instruction.opname.startswith("STORE_") and instruction.opname not in _INTO_OBJECTS:
            named = instruction.argval
            # Newer Pythons join instructions: then there are two names, the second of which may be read.
            both = isinstance(named, tuple)
            found += list(named[: 2 if instruction.opname == "STORE_FAST_STORE_FAST" else 1]) if both else [named]
        elif instruction.opname not in _WITHOUT_EFFECT:
            break
        if len(found) >= wanted:
            return tuple(found[:wanted])
    return ()


_WITHOUT_EFFECT = ("CACHE", "COPY", "DUP_TOP", "NOP", "EXTENDED_ARG", "PRECALL")
_INTO_OBJECTS = ("STORE_ATTR", "STORE_SLICE", "STORE_SUBSCR")
