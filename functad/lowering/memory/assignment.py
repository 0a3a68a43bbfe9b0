"""Buffer assignment: the buffers of variables, and which result takes the memory of an operand not needed again.

Knows lifetimes; neither groups nor steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from functad.ir import Eqn, Program, Var
from functad.lowering.memory.buffers import Buffer, Storage, new_buffer
from functad.lowering.memory.lifetimes import NEVER, Lifetimes

SPARE = -1  # instead of the number of a result: any value that is no result may take the memory


class BufferAssignment:
    """Where the variables of one Program lie, as far as its steps are written.

    Args:
        buffers: those of its inputs and constants.
        takers: the inputs whose memory results may take, and the number of the result that may; None for any.
        names: of variables.

    Attributes:
        time: the number of the group whose steps are being written; the scheduler moves it on.
        outputs: where the results lie, as far as that is known.
    """

    def __init__(
        self,
        program: Program,
        buffers: Mapping[Var, Buffer],
        takers: Mapping[Storage, int | None],
        lifetimes: Lifetimes,
        names: Mapping[Var, str],
    ) -> None:
        self.time = 0
        self.outputs: list[Buffer | None] = [None] * len(program.outvars)
        self._outvars = program.outvars
        self._buffers = dict(buffers)
        self._takers = takers
        self._lifetimes = lifetimes
        self._names = names
        self._input_of = {buffers[v].storage: v for v in program.invars}
        self._last: dict[Storage, int] = {}  # when memory is read for the last time

    def find(self, var: Var) -> Buffer | None:
        """The buffer of a variable, if it has one."""
        return self._buffers.get(var)

    def place(self, var: Var, buffer: Buffer, last: int | None = None) -> None:
        """Let a variable lie in a buffer, whose memory is read for the last time at `last`."""
        self._buffers[var] = buffer
        if last is not None:
            self._last[buffer.storage] = last

    def buffer(self, var: Var) -> Buffer:
        if not var.aval.size and var not in self._buffers:  # nothing computes what has no elements
            self._buffers[var] = new_buffer(f"empty_{self._names[var]}", var.aval.shape, var.aval.dtype)
        return self._buffers[var]

    def result(self, var: Var, candidates: Sequence[Buffer], growing: bool = False) -> Buffer:
        """A buffer for a result: that of an operand which dies here and fits, else a new one.

        Memory of inputs is left for the results of the Program, unless this result is one that is still `growing`.
        """
        k = self._lifetimes.claims.get(var)
        ranked = sorted(candidates, key=lambda b: b.storage not in self._takers)
        own = self._lifetimes.own.get(k) if k is not None else None
        if own is not None and self._last_time(own.storage) < self.time:
            ranked = [*ranked, own] if growing else [own, *ranked]
        for other in ranked:
            fits = other.dtype == var.aval.dtype and other.size == var.aval.size
            if fits and self._can_take(other.storage, var, growing):
                result = other.view(var.aval.shape)
                break
        else:
            kind = "output" if k is not None else "arena"
            name = f"{'out' if k is not None else 'tmp'}_{self._names[var]}"
            result = new_buffer(name, var.aval.shape, var.aval.dtype, kind, -1 if k is None else k)
        self._buffers[var] = result
        self._last[result.storage] = self._lifetimes.last_use.get(var, NEVER)
        if k is not None:
            self.outputs[k] = result.view(self._outvars[k].aval.shape)
        return result

    def joined(self, eqn: Eqn) -> Buffer:
        """The buffer of the result of an equation that joins arrays, which the first nest that stores a part needs."""
        (var,) = eqn.outvars
        return self._buffers[var] if var in self._buffers else self.result(var, ())

    def _can_take(self, storage: Storage, var: Var, growing: bool) -> bool:
        claim = self._lifetimes.claims.get(var)
        if self._takers.get(storage, 0) == SPARE:
            return claim is None and self._last_time(storage) <= self.time
        if storage not in self._takers:
            if storage.kind != "arena" or self._last.get(storage, NEVER) != self.time:
                return False
            if claim is not None:
                storage.kind, storage.number = "output", claim
                storage.name = f"out_{storage.name.removeprefix('tmp_')}"
            return True
        if not growing and claim is None:
            return False
        taker = self._takers[storage]
        if taker is not None and (taker not in self._lifetimes.own or self._lifetimes.final_claim(var) != taker):
            return False
        return self._last_time(storage) <= self.time

    def _last_time(self, storage: Storage) -> int:
        """When an input's memory, or what has taken it, is read for the last time."""
        return self._last.get(storage, self._lifetimes.last_use.get(self._input_of[storage], -1))

    def dies_now(self, buffer: Buffer) -> bool:
        """Whether memory of the arena is read for the last time by the group that is being written."""
        return buffer.storage.kind == "arena" and self._last.get(buffer.storage, NEVER) == self.time
