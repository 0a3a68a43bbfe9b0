"""Loops and branches as steps: where their carries lie, and which pointers move from one step of a loop to the next.

Knows the operands of `scan`, `while` and `cond`; no target. The Program of a body becomes steps on the memory around
it: its constants are the buffers of the loop's operands, its slices and carries are pointers that move.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from functad.editing.dead_code import eliminate_dead_code
from functad.editing.inlining import inline_calls
from functad.errors import NoRuleError
from functad.ir import UNKNOWN, Atom, Eqn, Literal, Program, Var, definitions, memoised
from functad.lowering.counters import counters_of
from functad.lowering.memory.assignment import SPARE
from functad.lowering.memory.buffers import Buffer, Storage, new_buffer
from functad.lowering.memory.shifted_stacks import shift_stacks
from functad.lowering.memory.values import Values
from functad.lowering.steps import (
    BranchStep,
    CountedBy,
    GemmStep,
    LoopStep,
    Move,
    NestStep,
    Stack,
    Step,
    UnlessSameStep,
    written_by,
)
from functad.lowering.target import StepWriter
from functad.lowering_rules import ControlFlow, Indexed
from functad.records import NamedTuple


class Scheduled(NamedTuple):
    """The steps of a Program, and where its results lie."""

    steps: list[Step]
    outputs: list[Buffer]


# (program, its inputs, the inputs whose memory a result may take, how many results may lie anywhere) → steps
ScheduleBody = Callable[[Program, Sequence[Buffer], Mapping[Storage, int | None], int], Scheduled]


def write_control(around: Values, eqn: Eqn, schedule: ScheduleBody) -> None:
    """Add the steps of a loop or branch to those around it."""
    rule = eqn.primitive.lower
    assert isinstance(rule, ControlFlow)
    {"scan": _scan, "while": _while, "cond": _cond}[rule.kind](around, eqn, schedule)


def _scan(around: Values, eqn: Eqn, schedule: ScheduleBody) -> None:
    body = _inlined(eqn.params["jaxpr"])
    length, n_consts, n_carry = (eqn.params[name] for name in ("length", "num_consts", "num_carry"))
    consts, inits = eqn.invars[:n_consts], eqn.invars[n_consts : n_consts + n_carry]
    if not length:
        for init, var in zip(inits, eqn.outvars):
            around.copy_into(init, around.assignment.result(var, ()), around.names[var])
        for var in eqn.outvars[n_carry:]:
            around.assignment.result(var, ())
        return
    given = [around.in_memory(a) for a in consts]
    arrays = [around.in_memory(a) for a in eqn.invars[n_consts + n_carry :]]
    carries = _pointers("carry", body.invars[n_consts : n_consts + n_carry], around)
    slices = _pointers("slice", body.invars[n_consts + n_carry :], around)
    takers = {c.storage: k for k, c in enumerate(carries)}
    present = [b.storage for a in eqn.invars if (b := around.present(a)) is not None]
    for a_slice, array in zip(slices, arrays):
        if around.assignment.dies_now(array) and present.count(array.storage) <= 1:
            takers[a_slice.storage] = SPARE  # nobody else reads the array, and a slice is read in one step only
    body, ys, shifted = shift_stacks(around, eqn, body)
    steps, outs = schedule(body, [*given, *carries, *slices], takers, n_carry)
    stacked = [out.storage for out in outs[n_carry:]]
    for storage in stacked:
        storage.kind = "pointer"
    loop = _OpenLoop(around, eqn, carries, outs[:n_carry], [b.storage for b in (*given, *slices)] + stacked)
    loop.carry(inits, eqn.outvars, [*given, *arrays])
    if length == UNKNOWN:
        if any(array.storage not in around.shared.stacks for array in arrays):
            raise NoRuleError(
                "what is computed from arrays whose length only a run tells can be compiled within loops alone: "
                "apply functad.optimize.pipeline.simplify to the Program first"
            )
        stacks = [around.shared.stacks[array.storage] for array in arrays]
        loop.count = stacks[0].steps
        for a_slice, stack in zip(slices, stacks):
            loop.slide_along(a_slice.storage, stack, eqn.params["reverse"])
        loop.stack(stacked, ys, slides=True, backwards=eqn.params["reverse"])
        around.writer.steps.append(loop.step(None, (), None, steps))
        return
    for pair in shifted:
        pair.lay_out(around, inits[pair.carry], eqn.params["reverse"])
    results = [around.assignment.find(var) or around.assignment.result(var, ()) for var in ys]
    for pointer, whole in zip([*(s.storage for s in slices), *stacked], [*arrays, *results]):
        loop.slide(pointer, whole, length, eqn.params["reverse"])
    step = loop.step(length, (), None, steps)
    if not shifted:
        step.unread = _unread_steps(steps, loop.read_later(eqn.outvars) | {s.memory for s in stacked})
    around.writer.steps.append(step)


def _unread_steps(body: Sequence[Step], read_later: set[Storage]) -> int:
    """How many steps at the end of a body write nothing that is read after the loop."""
    count = 0
    for step in reversed(body):
        if not isinstance(step, NestStep | GemmStep) or written_by(step) & read_later:
            break
        count += 1
    return count


def _while(around: Values, eqn: Eqn, schedule: ScheduleBody) -> None:
    cond, body = _inlined(eqn.params["cond_jaxpr"]), _inlined(eqn.params["body_jaxpr"])
    n_cond = eqn.params["cond_nconsts"]
    n_consts = n_cond + eqn.params["body_nconsts"]
    inits = eqn.invars[n_consts:]
    given = [around.in_memory(a) for a in eqn.invars[:n_consts]]
    carries = _pointers("carry", body.invars[n_consts - n_cond :], around)
    condition, (predicate,) = schedule(cond, [*given[:n_cond], *carries], {}, 1)
    if predicate.storage.kind == "output" and predicate.storage not in [b.storage for b in given]:
        predicate.storage.kind = "arena"
    takers = {c.storage: k for k, c in enumerate(carries)}
    steps, outs = schedule(body, [*given[n_cond:], *carries], takers, len(carries))
    stacked = [out.storage for out in outs[len(carries) :]]
    for storage in stacked:
        storage.kind = "pointer"
    next_carry = [_apart(out, stacked, steps) for out in outs[: len(carries)]]  # stacks move when they grow
    loop = _OpenLoop(around, eqn, carries, next_carry, [b.storage for b in given])
    loop.carry(inits, eqn.outvars, given)
    if stacked:
        loop.count = Storage(f"count_{_name(around, eqn)}", 0, "pointer", -1)
        loop.stack(stacked, eqn.outvars[len(carries) :], slides=False, backwards=False)
    step = loop.step(None, condition, predicate, steps)
    buffers = dict(zip(cond.invars, [*given[:n_cond], *carries]))
    step.counters = [
        CountedBy(buffers[c.number], c.limit.value if isinstance(c.limit, Literal) else buffers[c.limit], c.step)
        for c in counters_of(cond, n_cond, body, n_consts - n_cond)
    ]
    around.writer.steps.append(step)


def _cond(around: Values, eqn: Eqn, schedule: ScheduleBody) -> None:
    index, *operands = [around.in_memory(a) for a in eqn.invars]
    programs = [_inlined(branch) for branch in eqn.params["branches"]]
    kept = _kept_operands(programs, [b.storage for b in (index, *operands)])
    results = [around.assignment.result(v, [operands[kept[k]]] if k in kept else ()) for k, v in enumerate(eqn.outvars)]
    takers = {results[k].storage: k for k, j in kept.items() if results[k].storage is operands[j].storage}
    branches = []
    for program in programs:
        steps, outs = schedule(program, operands, takers, len(results))
        own = {out.storage for out in outs} - {b.storage for b in operands}
        branches.append([*steps, *_delivered(outs, results, takers, own)])
    holds = list(dict.fromkeys(b.storage for b in (index, *operands, *results)))
    around.writer.steps.append(BranchStep(_name(around, eqn), index, branches, holds, [eqn]))


def _kept_operands(branches: Sequence[Program], storages: Sequence[Storage]) -> dict[int, int]:
    """For results that some branch passes on from an operand, that operand: the result may lie in its memory.

    storages: of the index and of the operands. No branch makes another result of the operand by moving its elements.
    """
    moved = [[_moved(branch, atom) for atom in branch.outvars] for branch in branches]
    kept = {}
    for k in range(len(branches[0].outvars)):
        for j in range(len(storages) - 1):
            passes = any(branch.outvars[k] is branch.invars[j] for branch in branches)
            used = {i for branch, roots in zip(branches, moved) for i, of in enumerate(roots) if branch.invars[j] in of}
            if passes and used == {k} and storages.count(storages[j + 1]) == 1:
                kept[k] = j
    return kept


def _moved(program: Program, atom: Atom) -> set[Atom]:
    """What an atom's elements are those of when moves are followed back."""
    found: set[Atom] = set()
    pending = [atom]
    while pending:
        one = pending.pop()
        eqn = definitions(program).get(one)
        if eqn is not None and isinstance(eqn.primitive.lower, Indexed):
            pending += eqn.invars
        elif isinstance(one, Var):
            found.add(one)
    return found


def _delivered(
    outs: Sequence[Buffer], results: Sequence[Buffer], takers: Mapping[Storage, int | None], own: set[Storage]
) -> list[Step]:
    """Copies at the end of a branch, of results that do not lie in their place; those over operands come last.

    own: the storages that the branch has made. The first result in each of them needs no copy.
    """
    early, late = StepWriter(), StepWriter()
    for k, (out, result) in enumerate(zip(outs, results)):
        storage = out.storage
        if storage in own and storage.kind == "output" and storage.number == k and result.storage not in takers:
            storage.kind, storage.origin = "same", result.storage
        elif storage.memory is not result.storage.memory and out.size:
            writer = late if result.storage in takers else early
            writer.add_buffer_copy(out, result.view(out.shape), f"{result.name}")
    for storage in own:
        if storage.kind == "output":
            storage.kind = "arena"
    return [*early.steps, *late.steps]


def _apart(out: Buffer, stacked: Sequence[Storage], steps: list[Step]) -> Buffer:
    """A result of a body, copied if it lies in a slice of a stack."""
    if out.storage not in stacked:
        return out
    copy, writer = new_buffer(f"next_{out.name}", out.shape, out.dtype), StepWriter()
    writer.add_buffer_copy(out, copy, out.name)
    steps += writer.steps
    return copy


def _inlined(program: Program) -> Program:
    """The Program of a body without calls."""
    return memoised(program, ("without calls",), lambda: eliminate_dead_code(inline_calls(program)))


def _pointers(kind: str, variables: Sequence[Var], around: Values) -> list[Buffer]:
    around.shared.name_all(variables)
    return [new_buffer(f"{kind}_{around.names[v]}", v.aval.shape, v.aval.dtype, "pointer") for v in variables]


def _name(around: Values, eqn: Eqn) -> str:
    return f"{eqn.primitive.name}_{around.names[eqn.outvars[0]]}" if eqn.outvars else eqn.primitive.name


@dataclass(eq=False)
class _OpenLoop:
    """A loop that is being written.

    carries: the pointers that the body reads the carry from. outs: where the body leaves it.
    given: what pointers may point to that the loop never writes to, slices of stacked results excepted.
    """

    around: Values
    eqn: Eqn
    carries: list[Buffer]
    outs: list[Buffer]
    given: list[Storage]
    starts: list[Move] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    after: StepWriter = field(default_factory=StepWriter)
    holds: dict[Storage, None] = field(default_factory=dict)
    count: Storage | None = None
    stacks: list[Stack] = field(default_factory=list)

    def carry(self, inits: Sequence[Atom], results: Sequence[Var], others: Sequence[Buffer]) -> None:
        """Lay out the carry: where it starts, how its pointers move, and how it gets to the results.

        others: the loop's other operands, whose memory no result may take.
        """
        pointers = [c.storage for c in self.carries]
        sources = [o.storage if o.size else p for o, p in zip(self.outs, pointers)]
        homes = self._fresh_memory(sources)
        readers: dict[Storage, list[int]] = {}  # which carries take over a pointer after each step
        for k, (source, pointer) in enumerate(zip(sources, pointers)):
            if source is not pointer:
                readers.setdefault(source, []).append(k)
        present = [self.around.present(a) for a in inits]
        count = [b.storage for b in (*present, *others) if b is not None]
        self.holds.update((b.storage, None) for b in others)
        for k, (init, var, pointer, source) in enumerate(zip(inits, results, pointers, sources)):
            found = present[k]
            alone = source is pointer or (source in homes and readers[source] == [k] and pointer not in readers)
            if alone:
                free = [found] if found is not None and count.count(found.storage) == 1 else []
                result = self.around.assignment.result(var, free)
                self._start(pointer, init, result)
                if source is not pointer:
                    self._copy_back(self.carries[k], result, only_if_moved=True)
                continue
            # Memory of several carries is in play, or memory that is not to be written to: results stay apart.
            if source in self.given:
                first = self.around.in_memory(init)
                self.starts.append(Move(pointer, first.storage))
                self.holds[first.storage] = None
            else:
                first = new_buffer(f"home_{pointer.name}", self.carries[k].shape, self.carries[k].dtype)
                self._start(pointer, init, first)
            if var in self.around.lifetimes.last_use:  # somebody reads it
                self._copy_back(self.carries[k], self.around.assignment.result(var, ()), only_if_moved=False)
        assignments = {p: s for p, s in zip(pointers, sources) if s is not p}
        for fresh, home in homes.items():
            self.starts.append(Move(fresh, home))
            self.holds[home] = None
            assignments[fresh] = pointers[_last_reader(fresh, readers, pointers)]
        self.moves += in_sequence(assignments)

    def _fresh_memory(self, sources: Sequence[Storage]) -> dict[Storage, Storage]:
        """For each storage that the body makes itself: it becomes a pointer, which starts at memory in the arena."""
        known = {c.storage for c in self.carries} | set(self.given)
        homes = {}
        for source in dict.fromkeys(sources):
            if source not in known:
                source.kind = "pointer"
                homes[source] = Storage(f"home_{source.name}", source.nbytes, "arena", -1)
        return homes

    def _start(self, pointer: Storage, init: Atom, buffer: Buffer) -> None:
        self.around.copy_into(init, buffer, f"start_{pointer.name}")
        self.starts.append(Move(pointer, buffer.storage))
        self.holds[buffer.storage] = None

    def _copy_back(self, carry: Buffer, result: Buffer, only_if_moved: bool) -> None:
        self.holds[result.storage] = None
        if not result.size:
            return
        name = result.name
        if not only_if_moved:
            self.after.add_buffer_copy(carry, result, name)
            return
        copy = StepWriter()
        copy.add_buffer_copy(carry, result, name)
        self.after.steps.append(UnlessSameStep(f"copy_{name}", carry.storage, result.storage, copy.steps, []))

    def read_later(self, results: Sequence[Var]) -> set[Storage]:
        """Where the body leaves those carries that somebody reads after the loop."""
        last_use = self.around.lifetimes.last_use
        return {out.storage.memory for out, var in zip(self.outs, results) if var in last_use}

    def slide(self, pointer: Storage, whole: Buffer, length: int, reverse: bool) -> None:
        """Let a pointer go over the slices of an array."""
        self.holds[whole.storage] = None
        stride = whole.nbytes // length
        self.starts.append(Move(pointer, whole.storage, (length - 1) * stride if reverse else 0))
        self.moves.append(Move(pointer, pointer, -stride if reverse else stride))

    def slide_along(self, pointer: Storage, stack: Stack, reverse: bool) -> None:
        """Let a pointer go over the slices of a stack."""
        ascends = reverse == stack.backwards
        self.starts.append(Move(pointer, stack.memory) if ascends else Move(pointer, stack.pointer, -stack.past))
        self.moves.append(Move(pointer, pointer, pointer.nbytes if ascends else -pointer.nbytes))

    def stack(self, pointers: Sequence[Storage], results: Sequence[Var], slides: bool, backwards: bool) -> None:
        """Let pointers go along memory that grows, which holds the results. slides: by moves after each step."""
        assert self.count is not None
        for pointer, var in zip(pointers, results):
            memory = Storage(f"stack_{self.around.names[var]}", 0, "stack", -1)
            self.around.assignment.place(var, Buffer(memory, var.aval.shape, var.aval.dtype))
            stack = Stack(memory, pointer, self.count, pointer.nbytes if slides else 0, backwards)
            self.around.shared.stacks[memory] = stack
            self.stacks.append(stack)
            if slides:
                self.moves.append(Move(pointer, pointer, pointer.nbytes))

    def step(
        self, length: int | None, condition: Sequence[Step], predicate: Buffer | None, body: list[Step]
    ) -> LoopStep:
        name = _name(self.around, self.eqn)
        after, holds = self.after.steps, list(self.holds)
        return LoopStep(
            name, length, self.starts, [*condition], predicate, body, self.moves, after, holds, [self.eqn], self.count,
            self.stacks,
        )  # fmt: skip


def _last_reader(fresh: Storage, readers: Mapping[Storage, list[int]], pointers: Sequence[Storage]) -> int:
    """The carry that a value reaches last on its way through others, from step to step: its memory is free then."""
    level = readers[fresh]
    while True:
        after = [j for k in level for j in readers.get(pointers[k], ())]
        if not after:
            return level[0]
        level = after


def in_sequence(assignments: Mapping[Storage, Storage]) -> list[Move]:
    """Assignments of pointers that happen at once, as moves one after the other."""
    moves: list[Move] = []
    pending = dict(assignments)
    while pending:
        free = [t for t in pending if t not in pending.values()]
        if free:
            moves += [Move(t, pending.pop(t)) for t in free]
            continue
        target = next(iter(pending))  # all others go round in circles
        spare = Storage(f"old_{target.name}", 0, "pointer", -1)
        moves.append(Move(spare, target))
        pending = {t: spare if source is target else source for t, source in pending.items()}
    return moves
