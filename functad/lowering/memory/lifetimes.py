"""Lifetimes: until when each variable is read, and which variables are the results of a Program.

Knows groups and what they read; no buffers but those of inputs. Nothing here changes while steps are written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from functad.ir import Var
from functad.lowering.fusion.fuse import Fusion
from functad.lowering.fusion.groups import FusionGroup
from functad.lowering.memory.buffers import Buffer, Storage

NEVER = 1 << 60


class Lifetimes:
    """What buffer assignment must know of a Program that is cut into groups. A time is the number of a group.

    Args:
        inputs: the buffers of the Program's inputs.
        takers: the inputs whose memory results may take, and the number of the result that may; None for any.
        passes: so many leading results may lie wherever their value is.

    Attributes:
        early: the numbers of the results that are copied before the first group.
        last_use: for each variable in a buffer, when it is read for the last time.
        claims: the results whose buffer can be an output from the start: variable → number of the result.
        own: for the number of a result the input whose memory it alone may take.
    """

    def __init__(
        self, fusion: Fusion, inputs: Sequence[Buffer], takers: Mapping[Storage, int | None], passes: int
    ) -> None:
        self._fusion = fusion
        self._program = fusion.program
        self._inputs = inputs
        self._takers = takers
        self._passes = passes
        self.early = self._early_copies()
        self.last_use = self._last_uses()
        self.claims = self._claims()
        self.own = self._own_inputs()
        products = [g.product for g in fusion.groups if g.product is not None]
        self._next_of = {p.start: p.out for p in products if isinstance(p.start, Var)}  # what adds a product to it

    def grows(self, var: Var) -> bool:
        """Whether products are added to a variable until it is a result."""
        return var in self._next_of and self.final_claim(var) is not None

    def final_claim(self, var: Var) -> int | None:
        """The number of the result that a variable becomes when products have been added to it."""
        while var not in self.claims and var in self._next_of:
            var = self._next_of[var]
        return self.claims.get(var)

    def _early_copies(self) -> list[int]:
        """The results that are copies of an input whose memory another result may take."""
        taken = {v for v, b in zip(self._program.invars, self._inputs) if self._takers.get(b.storage) is not None}
        later = range(self._passes, len(self._program.outvars))
        return [
            k
            for k in later
            if isinstance(a := self._program.outvars[k], Var) and self._fusion.inlining.alias_root(a) in taken
        ]

    def _last_uses(self) -> dict[Var, int]:
        """For each variable in a buffer, the number of the group after which nobody reads it."""
        last: dict[Var, int] = {}
        for time, group in enumerate(self._fusion.groups):
            for var in group.reads:
                last[var] = time
            for var in self._direct_operands(group):
                for root in self._memory_roots(var):
                    last[root] = time
        for k, atom in enumerate(self._program.outvars):
            if isinstance(atom, Var) and k not in self.early:
                for root in self._memory_roots(atom):
                    last[root] = NEVER
        return last

    def _direct_operands(self, group: FusionGroup) -> list[Var]:
        if group.kind in ("loops", "scatter", "control", "call"):
            return [a for a in self._program.eqns[group.members[0]].invars if isinstance(a, Var)]
        return group.product.operands() if group.product is not None else []

    def _memory_roots(self, var: Var) -> list[Var]:
        """The variables whose buffers a reader of this one may read: its own, if it gets one, included."""
        return [var, self._fusion.inlining.alias_root(var), *self._fusion.inlining.roots(var)]

    def _claims(self) -> dict[Var, int]:
        """The results whose buffer can be an output from the start."""
        claims: dict[Var, int] = {}
        external = {*self._program.invars, *self._program.constvars}
        count = len(self._program.outvars)
        for k in (*range(self._passes, count), *range(self._passes)):
            atom = self._program.outvars[k]
            if isinstance(atom, Var):
                root = self._fusion.inlining.alias_root(atom)
                if (
                    root not in external
                    and root not in self._fusion.inlining.inline
                    and root not in claims
                    and root.aval.size
                ):
                    claims[root] = k
        return claims

    def _own_inputs(self) -> dict[int, Buffer]:
        """For the number of a result the input whose memory it alone may take, unless it is returned twice."""
        taken = {k: b for b in self._inputs if (k := self._takers.get(b.storage)) is not None}
        count = Counter(self._fusion.inlining.alias_root(a) for a in self._program.outvars if isinstance(a, Var))
        alone = {k for var, k in self.claims.items() if count[var] == 1}
        return {k: b for k, b in taken.items() if k in alone}
