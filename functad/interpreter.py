"""The NumPy interpreter: runs a Program equation by equation, freeing each value after its last use.

Knows the NumPy implementations of the primitives; nothing of tracing or of transforms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from functad.array import value_of
from functad.evaluation import implementation
from functad.ir import Atom, Literal, Program, Var, dead_variables


def compile_program(
    program: Program, donated: Sequence[bool] = (), optimized: Callable[[Program], Program] = lambda program: program
) -> Callable[[Sequence[np.ndarray]], list[np.ndarray]]:
    """Resolve all names of a Program to slots of a list, once; running it is then a plain loop."""
    program = optimized(program)
    slots: dict[Var, int] = {}
    initial: list[np.ndarray | None] = []

    def slot_of(atom: Atom) -> int:
        if isinstance(atom, Literal):
            initial.append(atom.value)
            return len(initial) - 1
        if atom not in slots:
            slots[atom] = len(initial)
            initial.append(None)
        return slots[atom]

    for var, const in zip(program.constvars, program.consts):
        initial[slot_of(var)] = value_of(const)
    in_slots = [slot_of(v) for v in program.invars]
    steps = []
    for eqn, dead in zip(program.eqns, dead_variables(program)):
        run = implementation(eqn.primitive, [a.aval.dtype for a in eqn.invars])
        run = partial(run, **eqn.params) if eqn.params else run
        reads = [slot_of(a) for a in eqn.invars]
        writes = [slot_of(v) for v in eqn.outvars]
        steps.append((run, reads, writes, eqn.primitive.multiple_results, [slots[v] for v in dead]))
    out_slots = [slot_of(a) for a in program.outvars]
    const_owners = [_owner(value) for value in initial if isinstance(value, np.ndarray)]

    def run_program(args: Sequence[np.ndarray]) -> list[np.ndarray]:
        values = initial.copy()
        for slot, arg in zip(in_slots, args):
            values[slot] = arg
        with np.errstate(all="ignore"):
            for run, reads, writes, multiple, frees in steps:
                result = run(*[values[i] for i in reads])
                if multiple:
                    for slot, r in zip(writes, result):
                        values[slot] = r
                else:
                    values[writes[0]] = result
                for slot in frees:
                    values[slot] = None
        return _fresh([values[i] for i in out_slots], [*map(_owner, args), *const_owners])

    return run_program


def _owner(array: np.ndarray | np.generic) -> object:
    """The array that owns the memory behind a view."""
    while isinstance(array, np.ndarray) and array.base is not None:
        array = array.base
    return array


def _fresh(results: Sequence[np.ndarray | None], foreign: Sequence[object]) -> list[np.ndarray]:
    """The results as contiguous arrays of their own: no two share memory, none keeps an input or a large buffer."""
    taken = {id(owner) for owner in foreign}
    fresh = []
    for result in results:
        array = np.asarray(result)
        owner = _owner(array)
        small_view = isinstance(owner, np.ndarray) and 2 * array.nbytes < owner.nbytes
        if id(owner) in taken or small_view or not array.flags.c_contiguous:
            array = array.copy(order="C")
            owner = array
        taken.add(id(owner))
        fresh.append(array)
    return fresh
