"""Slices of stacks that a scan computes itself, where others would have computed them from whole stacks before.

Knows `scan` equations by their parts. Inputs that are scaled first, or the derivative of a squared error at every step,
are cheap to compute so: nobody makes the stack. So are products of few terms, where no cache would hold it. And nothing
but loops can take stacks of unknown length when a Program is compiled; what transforms do with them, such as adding up
two cotangents, goes into the loops that read the result.
"""

from __future__ import annotations

from dataclasses import replace

from functad import machine_model
from functad.editing.partial_evaluation import may_move
from functad.editing.substitution import Substitution
from functad.ir import Atom, Aval, Eqn, Literal, Var
from functad.lowering_rules import Contraction, Indexed, Reduction, Scalar
from functad.optimize.loops.parts import LOOPS, Scan, take_apart
from functad.optimize.loops.products import is_thin, parts_of_one
from functad.optimize.products import operations
from functad.primitives.contraction import dot_general_p
from functad.primitives.cost import operations_of


def sink(scan: Scan) -> None:
    """Compute in the body what is cheap to compute slice by slice, and whose results nobody else reads.

    >>> import functad, functad.numpy as jnp
    >>> from functad import lax
    >>> from functad.optimize.pipeline import simplify
    >>> def total(xs, scale):
    ...     return lax.scan(lambda s, x: (s + jnp.sin(x), None), jnp.zeros(100), scale * xs)[0]
    >>> types = [functad.ShapeDtypeStruct(shape, "float32") for shape in ((50, 100), ())]
    >>> (scan,) = [e for e in simplify(functad.make_jaxpr(total)(*types)).eqns if e.primitive.name == "scan"]
    >>> [e.primitive.name for e in scan.params["jaxpr"].eqns]
    ['mul', 'sin', 'add']
    """
    for operand, var in list(scan.xs):
        if var.aval.size >= machine_model.SMALLEST_SUNK_SLICE and var not in scan.given:
            _compute(scan, operand, var, cheap=True)


def compute_inside(scan: Scan) -> None:
    """Replace stacks that are computed, and those that hold the same number in all slices, by equations in the body."""
    for operand, var in list(scan.xs):
        _compute(scan, operand, var, cheap=False)
    numbers = Substitution((v, n) for a, v in scan.xs if (n := _stacked_number(scan.view.definition(a), a)) is not None)
    lengths = [(a, Var(v.aval)) for a, v in scan.xs[:1]]  # one must tell the number of steps
    scan.xs = [(a, v) for a, v in scan.xs if v not in numbers] or lengths
    scan.substitute(numbers)
    scan.replace_body(scan.simplify(scan.body()))


def _stacked_number(eqn: Eqn | None, stack: Atom) -> Literal | None:
    """The number that a loop stacks in each step."""
    if eqn is None or eqn.primitive not in LOOPS:
        return None
    given = next((a for a, v in take_apart(eqn).ys if v is stack), None)
    return given if isinstance(given, Literal) else None


def _compute(scan: Scan, stack: Atom, var: Var, cheap: bool) -> None:
    """Let the body compute `var`, its slices of a stack.

    cheap: only at next to no cost, and if nothing more need be stored for that.
    """
    chain = _Slicing(scan, cheap)
    if not (chain.compute(stack, var) and chain.pays):
        return
    xs = [*((a, v) for a, v in scan.xs if v is not var), *chain.more_xs]
    made = replace(scan, eqns=[*chain.eqns, *scan.eqns], xs=xs, consts=[*scan.consts, *chain.more_consts])
    if not cheap or chain.products <= parts_of_one(made):
        scan.eqns, scan.xs, scan.consts = made.eqns, made.xs, made.consts


class _Slicing:
    """The equations of a body that compute slices of a stack.

    more_xs, more_consts: what the scan has to read for that. pays: whether all stacks among it lie in memory anyway.
    """

    def __init__(self, scan: Scan, cheap: bool) -> None:
        self.view, self.cheap = scan.view, cheap
        self.eqns: list[Eqn] = []
        self.more_xs: list[tuple[Atom, Var]] = []
        self.more_consts: list[tuple[Atom, Var]] = []
        self.slices, self.consts = dict(scan.xs), dict(scan.consts)  # the variables of the body, by operands
        self.pays = True
        self.products: set[Var] = set()  # that are cheap only as parts of one product

    def compute(self, stack: Atom, var: Var) -> bool:
        """Add the equations for a slice, unless they mix slices; cheap ones are for nobody else."""
        eqn = self.view.definition(stack)
        if eqn is None or not may_move(eqn) or (self.cheap and not self._is_cheap(eqn)):
            return False
        rule, is_product = eqn.primitive.lower, eqn.primitive is dot_general_p
        sliced = rule.of_slices(eqn) if isinstance(rule, Scalar | Indexed | Reduction | Contraction) else None
        if sliced is None:
            return False
        params, is_cut = sliced
        invars = [self._read(a, cut, is_product) if isinstance(a, Var) else a for a, cut in zip(eqn.invars, is_cut)]
        if is_product and not _is_thin(eqn, is_part=False):
            self.products.add(var)
        self.eqns.append(eqn.replace(invars=invars, outvars=[var], params=params))
        return True

    def _is_cheap(self, eqn: Eqn) -> bool:
        cost = operations_of(eqn)
        is_quick = cost <= 1 + machine_model.QUOTIENT_OPERATIONS
        if eqn.primitive is dot_general_p:
            is_quick = _is_thin(eqn, is_part=True)
        return cost == 0 or is_quick and self.view.uses[eqn.outvars[0]] == 1

    def _read(self, operand: Var, is_stack: bool, of_product: bool) -> Var:
        """The variable of the body for an operand that is a stack, or that is the same for all slices."""
        known, aval = (self.slices if is_stack else self.consts), operand.aval
        if operand not in known:
            known[operand] = var = Var(Aval(aval.shape[1:], aval.dtype, aval.weak_type) if is_stack else aval)
            if not is_stack:
                self.more_consts.append((operand, var))
            elif not self.compute(operand, var):
                self.more_xs.append((operand, var))
                # A thin product has a small operand, whoever makes it.
                self.pays = self.pays and (not self.cheap or of_product or self._is_stored(operand))
        return known[operand]

    def _is_stored(self, stack: Atom) -> bool:
        """Whether a stack lies in memory even if the scan does not read it, and is not in the cache by chance.

        What follows a product or moves of elements is done with them, chunk by chunk.
        """
        eqn = self.view.definition(stack)
        if eqn is None:
            return True
        rule = eqn.primitive.lower
        if isinstance(rule, Indexed):
            return rule.same_memory and self._is_stored(eqn.invars[0])
        return not (isinstance(rule, Scalar | Contraction) and self.view.uses[eqn.outvars[0]] == 1)


def _is_thin(eqn: Eqn, is_part: bool) -> bool:
    return is_thin(eqn.outvars[0].aval, operations(eqn), is_part)
