"""Lets the one scan that reads a stack compute its slices where that is cheap: nobody makes the stack before the loop.

Knows `scan` equations by their parts. Inputs that are scaled first, or the derivative of a squared error at every step,
are such stacks: the loop reads slices of what they are computed from instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from functad import machine_model
from functad.control import scan_p
from functad.ir import UNKNOWN, Atom, Eqn, Program, Var
from functad.lowering_rules import Contraction, Indexed, Scalar
from functad.optimize.loops.parts import Scan, take_apart
from functad.optimize.loops.stacks import slice_aval, slice_of
from functad.primitives.common import broadcast_in_dim_p, reshape_p
from functad.primitives.cost import operations_of


def sink_into_scans(program: Program) -> Program:
    """Move cheap element-wise equations into the body of the one scan that reads their results.

    >>> import functad
    >>> import functad.numpy as jnp
    >>> from functad import lax
    >>> def total(xs, scale):
    ...     return lax.scan(lambda s, x: (s + jnp.sin(x), None), jnp.zeros(100), scale * xs)[0]
    >>> types = [functad.ShapeDtypeStruct(shape, "float32") for shape in ((50, 100), ())]
    >>> (scan,) = [e for e in sink_into_scans(functad.make_jaxpr(total)(*types)).eqns if e.primitive.name == "scan"]
    >>> [e.primitive.name for e in scan.params["jaxpr"].eqns]
    ['mul', 'sin', 'add']
    """
    reads = Counter(a for e in program.eqns for a in e.invars if isinstance(a, Var))
    reads.update(a for a in program.outvars if isinstance(a, Var))
    definitions = {v: e for e in program.eqns for v in e.outvars}
    eqns = []
    for eqn in program.eqns:
        if eqn.primitive is scan_p and eqn.params["length"] != UNKNOWN:
            scan = take_apart(eqn)
            sunk = [_sink(scan, a, v, definitions, reads) for a, v in list(scan.xs) if isinstance(a, Var)]
            eqn = scan.eqn() if any(sunk) else eqn
        eqns.append(eqn)
    return program.replace(eqns=eqns)


def _sink(scan: Scan, operand: Var, var: Var, definitions: Mapping[Var, Eqn], reads: Mapping[Var, int]) -> bool:
    """Let the body compute `var`, its slices of an operand, if nothing more need be stored for that."""
    given = [*(c.given for c in scan.carries), *(a for a, _ in scan.ys)]
    if var.aval.size < machine_model.SMALLEST_SUNK_SLICE or any(a is var for a in given):
        return False
    chain = _Chain(scan, definitions, reads)
    if not (chain.takes(operand) and chain.compute(operand, var) and chain.pays):
        return False
    scan.eqns = [*chain.eqns, *scan.eqns]
    scan.xs = [*((a, v) for a, v in scan.xs if v is not var), *chain.more_xs]
    scan.consts += chain.more_consts
    return True


class _Chain:
    """The equations of a body that compute slices of a stack.

    more_xs, more_consts: what the scan has to read for that. pays: whether all stacks among it lie in memory anyway.
    """

    def __init__(self, scan: Scan, definitions: Mapping[Var, Eqn], reads: Mapping[Var, int]) -> None:
        self.definitions, self.reads = definitions, reads
        self.eqns: list[Eqn] = []
        self.more_xs: list[tuple[Atom, Var]] = []
        self.more_consts: list[tuple[Atom, Var]] = []
        self.slices, self.consts = dict(scan.xs), dict(scan.consts)  # the variables of the body, by operands
        self.pays = True

    def takes(self, stack: Var) -> bool:
        """Whether slices of a stack can be computed at next to no cost, and are for nobody else."""
        eqn = self.definitions.get(stack)
        if eqn is None or eqn.primitive is broadcast_in_dim_p:
            return eqn is not None
        return operations_of(eqn) <= 1 + machine_model.QUOTIENT_OPERATIONS and self.reads[stack] == 1

    def compute(self, stack: Var, var: Var) -> bool:
        """Add the equations for a slice, unless they mix slices."""
        made = slice_of(self.definitions[stack], var, self._read)
        if made is not None:
            self.eqns.append(made)
        return made is not None

    def _read(self, operand: Var, is_stack: bool) -> Var:
        known = self.slices if is_stack else self.consts
        if operand not in known:
            known[operand] = var = Var(slice_aval(operand.aval) if is_stack else operand.aval)
            if not is_stack:
                self.more_consts.append((operand, var))
            elif not (self.takes(operand) and self.compute(operand, var)):
                self.more_xs.append((operand, var))
                self.pays = self.pays and self._is_stored(operand)
        return known[operand]

    def _is_stored(self, stack: Var) -> bool:
        """Whether a stack lies in memory even if the scan does not read it, and is not in the cache by chance.

        What follows a product or moves of elements is done with them, chunk by chunk.
        """
        eqn = self.definitions.get(stack)
        while eqn is not None and eqn.primitive is reshape_p and isinstance(eqn.invars[0], Var):
            stack = eqn.invars[0]
            eqn = self.definitions.get(stack)
        if eqn is None:
            return True
        is_made_for_this = isinstance(eqn.primitive.lower, Scalar | Contraction) and self.reads[stack] == 1
        return not (is_made_for_this or isinstance(eqn.primitive.lower, Indexed))
