"""Rewrites of a Program into one with less to compute or to move: transposes, broadcasts and scatters taken in.

Each pass is a function from Program to Program with the same results, NaN, infinities and signed zeros included.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.errors import FunctadError
from functad.ir import Atom, Aval, Eqn, Literal, Program, Var
from functad.lowering_rules import Scalar
from functad.primitives.arithmetic import add, mul
from functad.primitives.common import broadcast_in_dim, full, reduce_sum, reshape, scalar_like
from functad.primitives.dimension_numbers import GatherScatterMode
from functad.primitives.logic import eq, select_n
from functad.primitives.ordering import wide_indices
from functad.primitives.structure import iota
from functad.tracing import trace_to_program

LARGEST_ONE_HOT = 256  # positions; above, scattering one element is cheaper than choosing among all


def merge_transposes(program: Program) -> Program:
    """Take transposes before and after a `dot_general` into its dimension numbers.

    >>> import functad
    >>> from functad.transforms.dead_code import eliminate_dead_code
    >>> shape = functad.ShapeDtypeStruct((2, 3), "float32")
    >>> program = functad.make_jaxpr(lambda x, y: (x.T @ y).T)(shape, shape)
    >>> [e.primitive.name for e in eliminate_dead_code(merge_transposes(program)).eqns]
    ['dot_general']
    """
    uses = Counter(a for e in program.eqns for a in e.invars if isinstance(a, Var))
    uses.update(a for a in program.outvars if isinstance(a, Var))
    definitions: dict[Var, Eqn] = {}
    eqns: list[Eqn] = []
    for eqn in program.eqns:
        if eqn.primitive.name == "dot_general":
            eqn = _with_plain_operands(eqn, definitions)
        elif eqn.primitive.name == "transpose" and isinstance(eqn.invars[0], Var):
            product = definitions.get(eqn.invars[0])
            if product is not None and product.primitive.name == "dot_general" and uses[eqn.invars[0]] == 1:
                eqn = _swapped(product, eqn) or eqn
        eqns.append(eqn)
        definitions.update((v, eqn) for v in eqn.outvars)
    return program.replace(eqns=eqns)


def _with_plain_operands(eqn: Eqn, definitions: dict[Var, Eqn]) -> Eqn:
    contract, batch = (list(dims) for dims in eqn.params["dimension_numbers"])
    operands = list(eqn.invars)
    for i, atom in enumerate(operands):
        origin = definitions.get(atom) if isinstance(atom, Var) else None
        if origin is None or origin.primitive.name != "transpose":
            continue
        permutation = origin.params["permutation"]
        free = [permutation[d] for d in range(atom.aval.ndim) if d not in (*contract[i], *batch[i])]
        if free == sorted(free):
            contract[i] = tuple(permutation[d] for d in contract[i])
            batch[i] = tuple(permutation[d] for d in batch[i])
            operands[i] = origin.invars[0]
    if operands == list(eqn.invars):
        return eqn
    return eqn.replace(invars=operands, params={**eqn.params, "dimension_numbers": (tuple(contract), tuple(batch))})


def _swapped(product: Eqn, transpose: Eqn) -> Eqn | None:
    """The product with its operands exchanged, if that is what the transpose does."""
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = product.params["dimension_numbers"]
    batch, rank = len(lhs_batch), product.outvars[0].aval.ndim
    lhs_free = product.invars[0].aval.ndim - batch - len(lhs_contract)
    exchanged = (*range(batch), *range(batch + lhs_free, rank), *range(batch, batch + lhs_free))
    if transpose.params["permutation"] != exchanged:
        return None
    numbers = ((rhs_contract, lhs_contract), (rhs_batch, lhs_batch))
    return product.replace(
        invars=product.invars[::-1],
        outvars=transpose.outvars,
        params={**product.params, "dimension_numbers": numbers},
    )


def eliminate_broadcasts(program: Program) -> Program:
    """Give element-wise operations scalars instead of arrays that repeat them; compute with scalars first.

    >>> import functad, functad.numpy as jnp
    >>> from functad.transforms.dead_code import eliminate_dead_code
    >>> program = functad.make_jaxpr(lambda x: x * jnp.ones_like(x))(functad.ShapeDtypeStruct((3,), "float32"))
    >>> print(eliminate_dead_code(eliminate_broadcasts(program)))
    { lambda ; a:f32[3]. let b:f32[3] = mul a 1.0:f32[] in (b,) }
    """
    scalars: dict[Var, Atom] = {}  # a variable that repeats a scalar
    eqns: list[Eqn] = []
    for eqn in program.eqns:
        if eqn.primitive.name == "broadcast_in_dim":
            operand = eqn.invars[0]
            operand = scalars.get(operand, operand) if isinstance(operand, Var) else operand
            if operand.aval.shape == () and eqn.outvars[0].aval.shape:
                scalars[eqn.outvars[0]] = operand
        elif isinstance(eqn.primitive.lower, Scalar) and any(a in scalars for a in eqn.invars if isinstance(a, Var)):
            eqns += _of_scalars(eqn, scalars)
            continue
        eqns.append(eqn)
    return program.replace(eqns=eqns)


def _of_scalars(eqn: Eqn, scalars: dict[Var, Atom]) -> list[Eqn]:
    """An element-wise equation of scalars as far as it can have them."""
    operands = [scalars.get(a, a) if isinstance(a, Var) else a for a in eqn.invars]
    types = _types(eqn, operands)
    if types is None or len(types) != len(eqn.outvars):
        return [eqn]
    all_scalars = all(a.aval.shape == () for a in operands)
    if types[0].shape == eqn.outvars[0].aval.shape and eqn.primitive.name != "add_any":  # which takes equal shapes
        return [eqn.replace(invars=operands)]
    if not all_scalars or len(eqn.outvars) > 1:
        return [eqn]
    (out,) = eqn.outvars
    small = Var(types[0])
    scalars[out] = small
    repeat = broadcast_in_dim_eqn(small, out, eqn)
    return [eqn.replace(invars=operands, outvars=[small]), repeat]


def broadcast_in_dim_eqn(operand: Var, out: Var, like: Eqn) -> Eqn:
    """The equation that repeats a scalar."""
    trace = trace_to_program(
        lambda x: [broadcast_in_dim(x, shape=out.aval.shape, broadcast_dimensions=())], [operand.aval]
    )
    return trace.eqns[0].replace(invars=[operand], outvars=[out], source=like.source)


def _types(eqn: Eqn, operands: Sequence[Atom]) -> list[Aval] | None:
    try:
        types = eqn.primitive.abstract_eval(*[a.aval for a in operands], **eqn.params)
    except FunctadError:
        return None
    return list(types) if eqn.primitive.multiple_results else [types]


def multiply_repeated_numbers(program: Program) -> Program:
    """Turn the product of a matrix with one that holds a single number into sums: a loop that starts from zeros has it.

    >>> import functad, functad.numpy as jnp
    >>> program = functad.make_jaxpr(lambda w: jnp.zeros((4, 2)) @ w)(functad.ShapeDtypeStruct((2, 3), "float32"))
    >>> [e.primitive.name for e in multiply_repeated_numbers(program).eqns][1:]
    ['mul', 'reduce_sum', 'broadcast_in_dim']
    """
    definitions: dict[Var, Eqn] = {}
    eqns: list[Eqn] = []
    for eqn in program.eqns:
        sums = _sums_of_other_operand(eqn, definitions) if eqn.primitive.name == "dot_general" else None
        eqns += [eqn] if sums is None else sums
        definitions.update((v, eqn) for v in eqn.outvars)
    return program.replace(eqns=eqns)


def _sums_of_other_operand(eqn: Eqn, definitions: dict[Var, Eqn]) -> list[Eqn] | None:
    contract, batch = eqn.params["dimension_numbers"]
    out = eqn.outvars[0].aval
    for i, repeated in enumerate(eqn.invars):
        number, other = _repeated_literal(repeated, definitions), eqn.invars[1 - i]
        if number is None or batch != ((), ()) or other.aval.dtype != out.dtype or out.dtype.kind not in "fi":
            continue
        axes = tuple(contract[1 - i])
        kept = other.aval.ndim - len(axes)
        places = range(kept) if i == 1 else range(out.ndim - kept, out.ndim)

        def sums(other: Any, number: Any = number, axes: Any = axes, places: Any = places) -> list[Any]:
            total = reduce_sum(mul(scalar_like(other, number), other), axes=axes)
            return [broadcast_in_dim(total, shape=out.shape, broadcast_dimensions=tuple(places))]

        return spliced(sums, [other], eqn)
    return None


def _repeated_literal(atom: Atom, definitions: dict[Var, Eqn]) -> Any:
    """The number that an array repeats, if it is known."""
    eqn = definitions.get(atom) if isinstance(atom, Var) else None
    if eqn is None or eqn.primitive.name != "broadcast_in_dim" or not isinstance(eqn.invars[0], Literal):
        return None
    return eqn.invars[0].value


def scatter_into_zeros(program: Program) -> Program:
    """Turn the scatter of one element into each row of zeros into a choice: the derivative of picking a label's score.

    >>> import functad, functad.numpy as jnp
    >>> def picked(x, labels):
    ...     return jnp.take_along_axis(x, labels[:, None], 1).sum()
    >>> types = functad.ShapeDtypeStruct((4, 3), "float32"), functad.ShapeDtypeStruct((4,), "int32")
    >>> program = functad.jit(functad.grad(picked)).lower(*types).optimized
    >>> "scatter-add" in str(program)
    False
    """
    definitions = {v: e for e in program.eqns for v in e.outvars}
    if not any(e.primitive.name == "scatter-add" for e in program.eqns):
        return program
    eqns: list[Eqn] = []
    for eqn in program.eqns:
        chosen = _one_hot(eqn, definitions) if eqn.primitive.name == "scatter-add" else None
        eqns += [eqn] if chosen is None else chosen
    return program.replace(eqns=eqns)


def _one_hot(eqn: Eqn, definitions: dict[Var, Eqn]) -> list[Eqn] | None:
    operand, indices, updates = eqn.invars
    numbers = eqn.params["dimension_numbers"]
    shape, rows_at = operand.aval.shape, numbers.operand_batching_dims
    if not (
        is_zeros(operand, definitions)
        and len(numbers.inserted_window_dims) == 1
        and numbers.scatter_dims_to_operand_dims == numbers.inserted_window_dims
        and not numbers.update_window_dims
        and len(rows_at) == len(shape) - 1
        and updates.aval.size == indices.aval.size == math.prod(shape[d] for d in rows_at)  # one for each row
        and list(numbers.scatter_indices_batching_dims) == sorted(numbers.scatter_indices_batching_dims)
        and shape[numbers.inserted_window_dims[0]] <= min(LARGEST_ONE_HOT, np.iinfo(indices.aval.dtype).max)
        and eqn.params["mode"] is not GatherScatterMode.CLIP
    ):
        return None
    axis = numbers.inserted_window_dims[0]
    rows = tuple(shape[d] for d in rows_at)

    def choose(indices: Any, updates: Any) -> list[Any]:
        indices = wide_indices(indices, shape[axis])
        places = broadcast_in_dim(reshape(indices, rows), shape=shape, broadcast_dimensions=rows_at)
        values = add(reshape(updates, rows), scalar_like(updates, 0))  # 0 + −0 is 0
        values = broadcast_in_dim(values, shape=shape, broadcast_dimensions=rows_at)
        here = eq(iota(indices.dtype, shape, axis), places)
        return [select_n(here, full(shape, scalar_like(updates, 0)), values)]

    return spliced(choose, [indices, updates], eqn)


def is_zeros(atom: Atom, definitions: dict[Var, Eqn]) -> bool:
    """Whether an atom is an array of zeros, none of them negative."""
    eqn = definitions.get(atom) if isinstance(atom, Var) else None
    if eqn is None or eqn.primitive.name != "broadcast_in_dim" or not isinstance(eqn.invars[0], Literal):
        return False
    value = eqn.invars[0].value
    return bool(value == 0) and str(value)[0] != "-"


def spliced(fun: Any, operands: Sequence[Atom], eqn: Eqn) -> list[Eqn]:
    """The equations of a function in place of one equation."""
    program = trace_to_program(fun, [a.aval for a in operands])
    names: dict[Var, Atom] = dict(zip(program.invars, operands))
    for inner, outer in zip(program.outvars, eqn.outvars):
        assert isinstance(inner, Var)
        names[inner] = outer
    found = []
    for e in program.eqns:
        outs = [names.setdefault(v, Var(v.aval)) for v in e.outvars]
        ins = [names[a] if isinstance(a, Var) else a for a in e.invars]
        found.append(e.replace(invars=ins, outvars=outs, source=eqn.source))
    return found
