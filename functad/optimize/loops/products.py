"""Many products of a loop become one: before it, of what all steps read, after it, of what they stack, or at each step.

Knows `scan` equations by their parts; each pass gives the same results up to the order of sums.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from functad import machine_model
from functad.dtypes import is_narrow_float, kind_of
from functad.editing.dead_code import eliminate_dead_code
from functad.editing.partial_evaluation import may_move
from functad.editing.rewriting import spliced
from functad.editing.substitution import Substitution
from functad.ir import Absent, Atom, Aval, Eqn, Literal, Primitive, Program, Var, definitions
from functad.optimize.algebra import is_any_zeros
from functad.optimize.loops.devices import is_for_gpu, stays_in_loop
from functad.optimize.loops.parts import Carry, Scan
from functad.optimize.products import operations
from functad.primitives.arithmetic import add, add_p
from functad.primitives.common import add_any_p, reduce_sum, reduce_sum_p
from functad.primitives.contraction import dot_general_p
from functad.primitives.cost import functions_in
from functad.primitives.joining import concatenate
from functad.records import NamedTuple
from functad.tracing import bind

_ROWS_TIMES_MATRIX = tuple((((1,), (axis,)), ((), ())) for axis in (0, 1))  # which may be transposed


def hoist_products(scan: Scan) -> None:
    """Compute small products of what the loop reads, not of what it carries, for all steps at once.

    But those of few terms, which each step had better compute.
    """
    slices = {v for _, v in scan.xs}
    parts = parts_of_one(scan)
    known = slices | {v for _, v in scan.consts}
    chosen: list[Eqn] = []
    computed: list[Eqn] = []
    for eqn in scan.eqns:
        variables = [a for a in eqn.invars if isinstance(a, Var)]
        if eqn.primitive.multiple_results or not known.issuperset(variables) or not may_move(eqn):
            continue
        (out,) = eqn.outvars
        if not slices.isdisjoint(variables):
            stack = Aval((scan.length, *out.aval.shape), out.aval.dtype)
            if _bytes(scan, out.aval) > machine_model.MOST_EXTRA_BYTES:
                continue  # nor is anything that is computed from it
            slices.add(out)
            if eqn.primitive is dot_general_p and not stays_in_loop(eqn):
                is_small = operations(eqn) <= machine_model.LARGEST_HOISTED_PRODUCT
                if is_small and not is_thin(stack, scan.length * operations(eqn), out in parts):
                    chosen.append(eqn)
        known.add(out)
        computed.append(eqn)
    wanted = [e.outvars[0] for e in chosen]
    inputs = [v for _, v in (*scan.consts, *scan.xs)]
    products = eliminate_dead_code(Program(inputs, (), (), computed, wanted, f"products_{scan.name}"))
    found = scan.for_all_steps(products, inputs) if chosen else None
    if found is not None and all(found.stacked):
        scan.eqns = [e for e in scan.eqns if e not in chosen]
        scan.xs += zip(scan.before(found.run, found.operands), wanted)


def is_thin(stack: Aval, operations: float, is_part: bool) -> bool:
    """Whether a product for all steps, `stack`, takes less time step by step than it takes to write and read that.

    is_part: of one product, so that it has no call of its own.
    """
    few = operations <= 2 * machine_model.THIN_PRODUCT_TERMS * stack.size
    is_large = stack.size * stack.dtype.itemsize >= machine_model.LARGE_STACK
    return few and (is_part or (is_large and operations >= machine_model.SMALLEST_SUNK_PRODUCT * stack.shape[0]))


def _bytes(scan: Scan, aval: Aval) -> float:
    return scan.length * aval.size * aval.dtype.itemsize


def join_products(scan: Scan) -> None:
    """Let products with weights whose results are added be one: `x @ u + h @ w` is `[x, h] @ [u; w]`.

    Weights are joined before the loop, and rows in each step, if that moves fewer elements than to write the result of
    one product for the next, and to read it there.

    >>> import functad, functad.numpy as jnp
    >>> from functad import lax
    >>> def step(h, x, u, w):
    ...     return jnp.tanh((x + h[:, :8]) @ u + h @ w)[:, :16], None
    >>> def last(u, w, xs):
    ...     return lax.scan(lambda h, x: step(h, x, u, w), jnp.zeros((10, 16)), xs)[0]
    >>> types = [functad.ShapeDtypeStruct(shape, "float32") for shape in ((8, 64), (16, 64), (50, 10, 8))]
    >>> (scan,) = [e for e in functad.jit(last).lower(*types).optimized.eqns if e.primitive.name == "scan"]
    >>> [e.outvars[0].aval.shape for e in scan.params["jaxpr"].eqns if e.primitive.name == "dot_general"]
    [(10, 64)]
    >>> [a.aval.shape for a in scan.invars[:1]]
    [(24, 64)]
    """
    weights: dict[Atom, Atom] = {v: a for a, v in scan.consts}
    joints = _joints(scan)
    for total, products, others in joints:
        (_, (axis,)), _ = products[0].params["dimension_numbers"]
        (weight,) = scan.before(lambda *w, d=axis: [concatenate(w, d)], [weights[e.invars[1]] for e in products])
        scan.consts.append((weight, Var(weight.aval)))
        operands = [scan.consts[-1][1], *(e.invars[0] for e in products), *others]
        place = next(i for i, e in enumerate(scan.eqns) if total in e.outvars)
        scan.eqns[place : place + 1] = spliced(partial(_sum_of_joined, products), operands, scan.eqns[place])
    if joints:
        scan.replace_body(eliminate_dead_code(scan.body()))
        uses = scan.uses()
        scan.consts = [(a, v) for a, v in scan.consts if v not in weights or uses[v]]


def parts_of_one(scan: Scan) -> set[Atom]:
    """The products that had better be parts of one product."""
    return {e.outvars[0] for joint in _joints(scan) for e in joint.products}


class _Joint(NamedTuple):
    """A sum, products with weights among what is added, and what else is."""

    total: Atom
    products: list[Eqn]
    others: list[Atom]


def _joints(scan: Scan) -> list[_Joint]:
    """The sums whose products had better be one."""
    weights, uses = {v for _, v in scan.consts}, scan.uses()
    products: dict[Atom, Eqn] = {}  # with weights, for one reader
    sums: dict[Atom, list[Atom]] = {}  # what is added, also in sums of which this one is the only reader
    for out, eqn in definitions(scan.body()).items():
        if eqn.primitive in (add_p, add_any_p):
            sums[out] = [term for a in eqn.invars for term in (sums.pop(a, [a]) if uses[a] == 1 else [a])]
        elif uses[out] == 1 and _is_of_weight(eqn, weights):
            products[out] = eqn
    found = []
    for total, terms in sums.items():
        factors = [products[a] for a in terms if a in products]
        factors = [e for e in factors if e.params == factors[0].params]
        if len(factors) > 1 and _joining_pays(scan, factors):
            joined = {e.outvars[0] for e in factors}
            found.append(_Joint(total, factors, [a for a in terms if a not in joined]))
    return found


def _is_of_weight(eqn: Eqn, weights: Collection[Atom]) -> bool:
    """Whether an equation is a product of rows of floats and a matrix, the same in all steps."""
    if eqn.primitive is not dot_general_p or eqn.params["dimension_numbers"] not in _ROWS_TIMES_MATRIX:
        return False
    (x, weight), dtype = eqn.invars, eqn.outvars[0].aval.dtype
    plain = kind_of(dtype) in "fc" and not is_narrow_float(dtype) and x.aval.dtype == weight.aval.dtype == dtype
    return plain and weight in weights and x.aval.ndim == weight.aval.ndim == 2


def _joining_pays(scan: Scan, products: Sequence[Eqn]) -> bool:
    """Whether fewer elements are moved: those of rows in each step, and of the weights once; each written and read."""
    rows, columns = products[0].outvars[0].aval.shape
    terms = sum(e.invars[0].aval.shape[1] for e in products)
    return (len(products) - 1) * rows * columns * scan.length > terms * (rows * scan.length + columns)


def _sum_of_joined(products: Sequence[Eqn], weight: Any, *operands: Any) -> list[Any]:
    """The sum of products of rows with their weights, which are joined, and of what else is given."""
    count, first = len(products), products[0]
    product = bind(first.primitive, concatenate(operands[:count], 1), weight, **first.params)
    return [reduce(add, operands[count:], product)]


def sink_sums(scan: Scan) -> None:
    """A sum of products that the loop only carries along is one product of what all steps stack.

    `total += transpose(dot_general(a, b))` becomes the product of the stacked a and b, summed over the steps, too:
    the gradient of a weight. Sums over axes of something that is stacked anyway (of a bias) are treated alike.
    """
    _sink(scan, dot_general_p, lambda eqn: machine_model.MOST_EXTRA_BYTES)
    _sink(scan, reduce_sum_p, lambda eqn: 0)


def sink_products(scan: Scan) -> None:
    """As `sink_sums`, of products that could be computed before the loop, where their results take more bytes to stack.

    But not where that copies operands which are larger than the results, as a matrix is than its products with vectors.
    On a GPU their results' bytes do not count: to add these up would be a launch for each step.
    """
    _sink(scan, dot_general_p, partial(_most_instead_of_results, scan))


def _most_instead_of_results(scan: Scan, product: Eqn) -> float:
    """How many bytes of operands may be stacked for a product, that its results need not be; less than 0 for never."""
    out = product.outvars[0].aval
    if is_for_gpu():
        return machine_model.MOST_EXTRA_BYTES
    if any(a.aval.size > out.size for a in _transposed_if_joint(product)):
        return -1
    return min(machine_model.MOST_EXTRA_BYTES, _bytes(scan, out) - 1)


def _transposed_if_joint(product: Eqn) -> list[Atom]:
    """The operands that are transposed for the sum over all steps: others than summed axes come before those."""
    summed, _ = product.params["dimension_numbers"]
    return [a for a, axes in zip(product.invars, summed) if any(d not in axes for d in range(max(axes, default=0)))]


def _sink(scan: Scan, primitive: Primitive, most: Callable[[Eqn], float]) -> None:
    """Take sums of what a primitive gives out of a loop. most: bytes that it may stack for one."""
    for one in sums_over_steps(scan, partial(is_sum, largest=machine_model.LARGEST_HOISTED_PRODUCT)):
        source = one.source
        if source.primitive is primitive and not stays_in_loop(source):
            if extra_bytes(scan, source.invars) <= most(source):
                finish_sum(scan, one)


class SumOverSteps(NamedTuple):
    """What each step adds to a carry that only adds up, maybe among others: what an equation gives, behind moves."""

    carry: Carry
    addend: Atom
    eqns: list[Eqn]

    @property
    def source(self) -> Eqn:
        return self.eqns[0]


def sums_over_steps(scan: Scan, is_source: Callable[[Eqn], bool]) -> list[SumOverSteps]:
    """What is added to carries and comes from such equations.

    A sum of float16 has zeros to start from: without what else is added it could leave the range that all stay in.
    """
    defined, uses = definitions(scan.body()), scan.uses()
    sums = []
    for carry in scan.carries:
        if carry.read.aval.dtype == np.float16 and not is_any_zeros(carry.init, scan.view):
            continue
        for addend in addends(carry, defined, uses):
            chain = linear_chain(addend, defined, uses, is_source)
            sums += [SumOverSteps(carry, addend, chain)] if chain else []
    return sums


def is_sum(eqn: Eqn, largest: float = math.inf) -> bool:
    """Whether an equation is a sum, or a product of so many operations at most."""
    return eqn.primitive is reduce_sum_p or eqn.primitive is dot_general_p and operations(eqn) <= largest


def addends(carry: Carry, defined: Mapping[Atom, Eqn], uses: Counter[Atom]) -> list[Atom]:
    """What a step adds to a carry; nothing if more becomes of it than a sum."""
    found, waiting = [], [carry.given]
    while waiting:
        atom = waiting.pop()
        eqn = defined.get(atom)
        if eqn is not None and uses[atom] == 1 and _adds_alike(eqn, carry):
            waiting += reversed(eqn.invars)
        else:
            found.append(atom)
    if found.count(carry.read) != 1 or uses[carry.read] != 1:
        return []
    return [a for a in found if a is not carry.read]


def _adds_alike(eqn: Eqn, carry: Carry) -> bool:
    """Whether an equation is a sum that is a carry's sum without any one of its operands, but the carry."""
    if eqn.primitive not in (add_p, add_any_p):
        return False
    return carry.read in eqn.invars or all(a.aval.shape == carry.read.aval.shape for a in eqn.invars)


def linear_chain(
    term: Atom, defined: Mapping[Atom, Eqn], uses: Counter[Atom], is_source: Callable[[Eqn], bool]
) -> list[Eqn]:
    """The equation that a term comes from, and the moves after it, each used only here; or nothing."""
    chain: list[Eqn] = []
    while uses[term] == 1 and (eqn := defined.get(term)) is not None:
        chain.insert(0, eqn)
        if is_source(eqn):
            return chain
        if not _is_move(eqn):
            break
        term = eqn.invars[0]
    return []


def _is_move(eqn: Eqn) -> bool:
    """Whether an equation is linear in its one operand, and loses no digits: those of a sum over all steps count."""
    dtype, primitive = eqn.outvars[0].aval.dtype, eqn.primitive
    if any(isinstance(rule, Absent) for rule in (primitive.transpose, primitive.batch)):
        return False
    if primitive.multiple_results or functions_in(eqn):
        return False  # what runs Programs has a rule, too, whether these are linear or not; a function rounds
    return len(eqn.invars) == 1 and kind_of(dtype) == "f" and np.can_cast(dtype, eqn.invars[0].aval.dtype)


def extra_bytes(scan: Scan, atoms: Collection[Atom]) -> float:
    """The bytes that stacking atoms for all steps adds; none for what is stacked, or read, already."""
    consts = {v for _, v in scan.consts}
    if any(isinstance(a, Literal) or a in consts for a in atoms):
        return math.inf  # it is the same in all steps
    return sum(_bytes(scan, a.aval) for a in atoms if scan.stack_of(a) is None)


def finish_sum(scan: Scan, one: SumOverSteps) -> None:
    """Take an addend out of the loop: compute it afterwards from stacked values, and add what the carry is without."""
    source, *moves = one.eqns
    (total,) = (e for e in scan.eqns if one.addend in e.invars)
    compute = _joint_product if source.primitive is dot_general_p else _joint_sum

    def run(others: Any, *args: Any) -> list[Any]:
        value = compute(source, *args)
        for eqn in moves:
            value = bind(eqn.primitive, value, **eqn.params)
        return [bind(total.primitive, others, value)]

    carry, stacks = one.carry, [scan.stacked(a) for a in source.invars]
    (rest,) = (a for a in total.invars if a is not one.addend)
    scan.eqns = [e for e in scan.eqns if e is not total and e not in one.eqns]
    scan.substitute(Substitution([(total.outvars[0], rest)]))
    others, result = carry.init, carry.result
    if carry.given is carry.read:
        scan.carries.remove(carry)
    else:
        others = carry.result = Var(result.aval)
    scan.after.append((run, [others, *stacks], [result]))


def _joint_product(eqn: Eqn, a: Any, b: Any) -> Any:
    """The sum over all steps of a product, of its stacked operands."""
    contract, batch = ([[d + 1 for d in dims] for dims in pair] for pair in eqn.params["dimension_numbers"])
    numbers = tuple((0, *dims) for dims in contract), tuple(map(tuple, batch))
    return bind(eqn.primitive, a, b, **{**eqn.params, "dimension_numbers": numbers})


def _joint_sum(eqn: Eqn, x: Any) -> Any:
    """The sum over all steps of a sum, of its stacked operand."""
    return reduce_sum(x, axes=(0, *(d + 1 for d in eqn.params["axes"])))
