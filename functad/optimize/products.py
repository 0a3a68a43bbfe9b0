"""Rules for matrix products: of transposed operands, themselves transposed, of an array that repeats a number, tiny."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functad import machine_model
from functad.dtypes import is_narrow_float, kind_of
from functad.editing.rewriting import View, spliced
from functad.ir import Eqn
from functad.optimize.broadcasts import repeated_literal
from functad.optimize.pairs import are_pairs, would_be_pairs
from functad.primitives.arithmetic import mul
from functad.primitives.common import broadcast_in_dim, reduce_sum, scalar_like, transpose, transpose_p
from functad.primitives.contraction import dot_general_p


def operations(eqn: Eqn) -> float:
    """Of a product: a multiplication and an addition for each term."""
    (contract, _), _ = eqn.params["dimension_numbers"]
    return 2.0 * eqn.outvars[0].aval.size * math.prod(eqn.invars[0].aval.shape[d] for d in contract)


def of_transposed(eqn: Eqn, view: View) -> Eqn | None:
    """The product of what was transposed, where that keeps the order of the axes that are not summed."""
    contract, batch = (list(dims) for dims in eqn.params["dimension_numbers"])
    operands = list(eqn.invars)
    for i, atom in enumerate(operands):
        origin = view.definition(atom, transpose_p)
        if origin is None:
            continue
        permutation = origin.params["permutation"]
        free = [permutation[d] for d in range(atom.aval.ndim) if d not in (*contract[i], *batch[i])]
        if free == sorted(free):
            contract[i] = tuple(permutation[d] for d in contract[i])
            batch[i] = tuple(permutation[d] for d in batch[i])
            operands[i] = origin.invars[0]
    if operands == list(eqn.invars):
        return None
    return eqn.replace(invars=operands, params={**eqn.params, "dimension_numbers": (tuple(contract), tuple(batch))})


def transposed_product(transpose: Eqn, view: View) -> Eqn | None:
    """The product with its operands exchanged, if that is what the transpose does, and nobody else reads it."""
    product = view.definition(transpose.invars[0], dot_general_p)
    if product is None or view.uses[product.outvars[0]] != 1:
        return None
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


def with_repeated_number(eqn: Eqn, view: View) -> list[Eqn] | None:
    """Sums of the other operand: a loop that starts from zeros has such products."""
    contract, batch = eqn.params["dimension_numbers"]
    out = eqn.outvars[0].aval
    for i, repeated in enumerate(eqn.invars):
        number, other = repeated_literal(repeated, view), eqn.invars[1 - i]
        if number is None or batch != ((), ()) or other.aval.dtype != out.dtype or kind_of(out.dtype) not in "fi":
            continue
        axes = tuple(contract[1 - i])
        kept = other.aval.ndim - len(axes)
        places = range(kept) if i == 1 else range(out.ndim - kept, out.ndim)

        def sums(other: Any, number: Any = number.value, axes: Any = axes, places: Any = places) -> list[Any]:
            total = reduce_sum(mul(scalar_like(other, number), other), axes=axes)
            return [broadcast_in_dim(total, shape=out.shape, broadcast_dimensions=tuple(places))]

        return spliced(sums, [other], eqn)
    return None


def as_sum(eqn: Eqn, view: View) -> list[Eqn] | None:
    """Sums of element-wise products, which fuse with what is around them: dots, tiny matrices, those for each pair.

    And outer products, which sum nothing: a matrix library would add each of them to +0, so that no −0 were left.
    """
    contract, batch = eqn.params["dimension_numbers"]
    out = eqn.outvars[0].aval
    if out.dtype == np.bool_ or any(a.aval.dtype != out.dtype for a in eqn.invars):
        return None
    if contract[0] and (kind_of(out.dtype) not in "iuf" or is_narrow_float(out.dtype)):
        return None
    shapes = [a.aval.shape for a in eqn.invars]
    frees = [[d for d in range(len(s)) if d not in (*contract[i], *batch[i])] for i, s in enumerate(shapes)]
    rows, columns = (math.prod(s[d] for d in free) for s, free in zip(shapes, frees))
    terms = math.prod(shapes[0][d] for d in contract[0])
    is_small = rows * columns == 1 or rows * columns * terms <= machine_model.LARGEST_SMALL_PRODUCT
    if not out.size or not terms or (contract[0] and not is_small and not _of_pairs(eqn, view, terms, (rows, columns))):
        return None
    full = (*out.shape, *[shapes[0][d] for d in contract[0]])
    n, m = len(batch[0]), len(frees[0])
    places = (range(n + m), (*range(n), *range(n + m, out.ndim)))  # of the axes of each operand that are not summed
    summed = range(out.ndim, len(full))

    def sums(*operands: Any) -> list[Any]:
        repeated = []
        for i, operand in enumerate(operands):
            ordered = transpose(operand, (*batch[i], *frees[i], *contract[i]))
            repeated.append(broadcast_in_dim(ordered, shape=full, broadcast_dimensions=(*places[i], *summed)))
        return [reduce_sum(mul(*repeated), axes=tuple(summed)) if summed else mul(*repeated)]

    return spliced(sums, eqn.invars, eqn)


def _of_pairs(eqn: Eqn, view: View, terms: int, free: tuple[int, int]) -> bool:
    """Whether a product is one of few terms for each pair of rows, or sums few columns over such pairs."""
    few, least = machine_model.MOST_SUMMED_AT_ONCE, machine_model.SMALLEST_RECOMPUTED
    if terms <= few and would_be_pairs(eqn.outvars[0].aval, eqn.invars, least):
        return True
    return any(others <= few and are_pairs(a, view, least) for a, others in zip(eqn.invars, reversed(free)))
