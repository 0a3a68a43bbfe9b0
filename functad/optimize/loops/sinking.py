"""Lets the one scan that reads a stack compute its slices where that is cheap: nobody makes the stack before the loop.

Knows `scan` equations by their parts. Inputs that are scaled first, or the derivative of a squared error at every step,
are such stacks: the loop reads slices of what they are computed from instead.
"""

from __future__ import annotations

from functad import machine_model
from functad.control import scan_p
from functad.editing.rewriting import View
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
    view = View(program)
    for eqn in program.eqns:
        if eqn.primitive is scan_p and eqn.params["length"] != UNKNOWN:
            scan = take_apart(eqn, view)
            sunk = [_sink(scan, a, v) for a, v in list(scan.xs)]
            eqn = scan.eqn() if any(sunk) else eqn
        view.emit(eqn)
    return view.finish()


def _sink(scan: Scan, operand: Atom, var: Var) -> bool:
    """Let the body compute `var`, its slices of an operand, if nothing more need be stored for that."""
    if var.aval.size < machine_model.SMALLEST_SUNK_SLICE or var in scan.given:
        return False
    chain = _Chain(scan)
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

    def __init__(self, scan: Scan) -> None:
        self.view = scan.view
        self.eqns: list[Eqn] = []
        self.more_xs: list[tuple[Atom, Var]] = []
        self.more_consts: list[tuple[Atom, Var]] = []
        self.slices, self.consts = dict(scan.xs), dict(scan.consts)  # the variables of the body, by operands
        self.pays = True

    def takes(self, stack: Atom) -> bool:
        """Whether slices of a stack can be computed at next to no cost, and are for nobody else."""
        eqn = self.view.definition(stack)
        if eqn is None or eqn.primitive is broadcast_in_dim_p:
            return eqn is not None
        return operations_of(eqn) <= 1 + machine_model.QUOTIENT_OPERATIONS and self.view.uses[eqn.outvars[0]] == 1

    def compute(self, stack: Atom, var: Var) -> bool:
        """Add the equations for a slice, unless they mix slices."""
        eqn = self.view.definition(stack)
        made = None if eqn is None else slice_of(eqn, var, self._read)
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

    def _is_stored(self, stack: Atom) -> bool:
        """Whether a stack lies in memory even if the scan does not read it, and is not in the cache by chance.

        What follows a product or moves of elements is done with them, chunk by chunk.
        """
        while (eqn := self.view.definition(stack)) is not None and eqn.primitive is reshape_p:
            stack = eqn.invars[0]
        if eqn is None:
            return True
        is_made_for_this = isinstance(eqn.primitive.lower, Scalar | Contraction) and self.view.uses[eqn.outvars[0]] == 1
        return not (is_made_for_this or isinstance(eqn.primitive.lower, Indexed))
