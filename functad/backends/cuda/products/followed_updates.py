"""Updates of rows that blocks own, with what lies in these rows before, and what is computed of each element behind.

Knows steps and where they read and write; no text. So the gradient of a table of embeddings needs neither zeros nor
memory where the step of an optimiser follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from functad import machine_model
from functad.backends.cpu.kernels.small_loops import touched_by
from functad.backends.cuda.kernels.vectors import PLAIN_MEMORY
from functad.backends.cuda.products.epilogues import joined_with
from functad.backends.cuda.products.points import place_of
from functad.lowering.memory.buffers import Storage
from functad.lowering.nests.nest import Load, Nest, Update
from functad.lowering.steps import CallStep, ControlStep, GemmStep, NestStep, Step, written_by


@dataclass(eq=False)
class FollowedUpdates(NestStep):
    """Updates of owned rows, and the nests that are computed of the elements of these.

    start: the nest that computes what lies there before, if that is not in memory. is_kept: whether somebody else reads
    the elements.
    """

    start: Nest | None = None
    nests: Sequence[NestStep] = ()
    is_kept: bool = True


def followed_updates(steps: Sequence[Step], touched: Mapping[Storage, int]) -> list[Step]:
    """The steps in order, where updates of owned rows take in the nest before them and those after them.

    touched: how many places of the whole Program use each piece of memory.
    """
    found: list[Step] = []
    rest = list(steps)
    while rest:
        step = rest.pop(0)
        if isinstance(step, NestStep) and step.nest.update is not None and _owns_all(step.nest, step.nest.update):
            start = _start(found[-1], step.nest, step.nest.update) if found else None
            if start is not None:
                found.pop()
            waited = _first_reader(step, start, rest)
            found += rest[:waited]
            step = _followed(step, start, rest[waited : waited + machine_model.CUDA_JOINED_NESTS], touched)
            rest = rest[waited + len(step.nests) :]
        found.append(step)
    return found


def _first_reader(step: NestStep, start: Nest | None, after: Sequence[Step]) -> int:
    """How many steps come before the first one that reads what is updated, if the update may wait for them; else 0."""
    memory = {store.buffer.storage.memory for store in step.nest.stores}
    needed = {s.memory for s in _loaded(step.nest) | (_loaded(start) if start else set())}
    for k, other in enumerate(after[: machine_model.CUDA_WAITED_STEPS]):
        if isinstance(other, ControlStep | CallStep):
            return 0
        if not memory.isdisjoint(touched_by([other])):
            return k
        if not needed.isdisjoint(written_by(other)):
            return 0
    return 0


def elements_of(step: NestStep, update: Update) -> GemmStep:
    """A product whose only row is the elements that are updated: what follows at each of them is told of it."""
    reads = [s.buffer for s in step.nest.statements if isinstance(s, Load)]
    size = update.buffer.size
    return GemmStep(step.name, reads[0], reads[-1], update.buffer, 0, 0, 1, size, 1, 1, size, size)


def _owns_all(nest: Nest, update: Update) -> bool:
    """Whether blocks own all elements, as rows."""
    owned, storage = nest.owned_rows, update.buffer.storage
    is_plain = storage.kind in PLAIN_MEMORY and storage.whole is None
    is_whole = owned is not None and owned.end * owned.length == update.buffer.size
    return is_whole and is_plain and bool(_loaded(nest))


def _start(before: Step, nest: Nest, update: Update) -> Nest | None:
    """The nest of a step, if it writes just what is updated then, and of it reads nothing."""
    if not isinstance(before, NestStep) or place_of(before.nest) is None:
        return None
    (store,), read = before.nest.stores, _loaded(before.nest)
    is_same = store.buffer.storage is update.buffer.storage and store.buffer.dtype == update.buffer.dtype
    fits = is_same and before.nest.points == update.buffer.size and store.buffer.storage not in read
    return before.nest if fits and store.buffer.storage not in _loaded(nest) else None


def _followed(
    step: NestStep, start: Nest | None, after: Sequence[Step], touched: Mapping[Storage, int]
) -> FollowedUpdates:
    update = step.nest.update
    assert update is not None
    read, memory = _loaded(step.nest) | (_loaded(start) if start else set()), update.buffer.storage.memory
    if start is not None:
        touched = {**touched, memory: touched[memory] - 1}
    apart = takewhile(lambda s: isinstance(s, NestStep) and read.isdisjoint(_written(s.nest)), after)
    joined = joined_with([elements_of(step, update)], [*apart], touched)
    eqns = list(dict.fromkeys([*step.eqns, *(eqn for nest in joined.nests for eqn in nest.eqns)]))
    name = "_".join([step.name, *(nest.name for nest in joined.nests[-1:])])
    return FollowedUpdates(name, step.nest, eqns, False, start, joined.nests, joined.is_kept)


def _loaded(nest: Nest) -> set[Storage]:
    """What a nest reads, but for what its update leaves."""
    return {s.buffer.storage for s in nest.statements if isinstance(s, Load)}


def _written(nest: Nest) -> set[Storage]:
    return {store.buffer.storage for store in nest.stores}
