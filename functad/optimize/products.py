"""Rules for matrix products: of narrow floats, of transposed operands, of an array that repeats a number, tiny."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from functad import machine_model
from functad.dtypes import compute_dtype, is_narrow_float, kind_of
from functad.editing.rewriting import View, spliced
from functad.ir import Eqn
from functad.optimize.broadcasts import repeated_literal
from functad.optimize.pairs import are_pairs, would_be_pairs
from functad.primitives.arithmetic import add, mul
from functad.primitives.common import (
    broadcast_in_dim,
    convert_element_type,
    reduce_sum,
    reshape,
    scalar_like,
    transpose,
    transpose_p,
)
from functad.primitives.contraction import dot_general, dot_general_p


def operations(eqn: Eqn) -> float:
    """Of a product: a multiplication and an addition for each term."""
    (contract, _), _ = eqn.params["dimension_numbers"]
    return 2.0 * eqn.outvars[0].aval.size * math.prod(eqn.invars[0].aval.shape[d] for d in contract)


def of_narrow_floats(eqn: Eqn, view: View) -> list[Eqn] | None:
    """The product as float32, in which floats of 16 bits are multiplied and added, rounded once.

    But not where a matrix meets one vector along its rows: it is read once then, where it lies.
    """
    out, params = eqn.outvars[0].aval, eqn.params
    if not any(is_narrow_float(a.aval.dtype) for a in (*eqn.invars, *eqn.outvars)) or kind_of(out.dtype) != "f":
        return None
    contract, _ = params["dimension_numbers"]
    sizes = [math.prod(a.aval.shape[d] for d in free) for a, free in zip(eqn.invars, _frees(eqn))]
    if any(n == 1 and a.aval.ndim - 1 in axes for n, a, axes in zip(sizes[::-1], eqn.invars, contract)):
        return None
    dtype = compute_dtype(out.dtype)

    def product(*operands: Any) -> list[Any]:
        lhs, rhs = (convert_element_type(x, dtype) for x in operands)
        wide = dot_general(lhs, rhs, params["dimension_numbers"], dtype, params["precision"])
        return [convert_element_type(wide, out.dtype)]

    return spliced(product, eqn.invars, eqn)


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
    _, batch = eqn.params["dimension_numbers"]
    out = eqn.outvars[0].aval
    for i, repeated in enumerate(eqn.invars):
        number, other = repeated_literal(repeated, view), eqn.invars[1 - i]
        if number is None or batch != ((), ()) or other.aval.dtype != out.dtype or kind_of(out.dtype) not in "fi":
            continue
        return spliced(partial(_sums_of_one, eqn, 1 - i, number.value), [other], eqn)
    return None


def _sums_of_one(eqn: Eqn, side: int, number: Any, operand: Any) -> list[Any]:
    """A product whose other operand repeats a number. Terms of narrow floats are summed before they are rounded."""
    aval, out = eqn.invars[side].aval, eqn.outvars[0].aval
    axes = eqn.params["dimension_numbers"][0][side]
    kept = aval.ndim - len(axes)
    places = range(out.ndim - kept, out.ndim) if side else range(kept)
    wide = convert_element_type(operand, compute_dtype(out.dtype), aval.weak_type)
    total = reduce_sum(mul(scalar_like(wide, number), wide), axes=axes)
    total = convert_element_type(total, out.dtype, aval.weak_type)
    return [broadcast_in_dim(total, shape=out.shape, broadcast_dimensions=places)]


def as_sum(eqn: Eqn, view: View) -> list[Eqn] | None:
    """Sums of element-wise products, which fuse with what is around them: dots, tiny matrices, those for each pair.

    And outer products, which sum nothing: a matrix library would add each of them to +0, so that no −0 were left.
    """
    sizes = _sizes_of_sum(eqn)
    if sizes is None:
        return None
    rows, columns, terms = sizes
    is_small = rows * columns == 1 or rows * columns * terms <= machine_model.LARGEST_SMALL_PRODUCT
    is_outer = not eqn.params["dimension_numbers"][0][0]
    return _summed(eqn) if is_outer or is_small or _of_pairs(eqn, view, terms, (rows, columns)) else None


def of_vectors(eqn: Eqn, view: View) -> list[Eqn] | None:
    """On a GPU: sums that share a kernel with what is around them, where a matrix meets one vector, and outer products.

    All of these read or write one matrix once, so that nothing is gained by tiles.
    """
    sizes = _sizes_of_sum(eqn)
    return _summed(eqn) if sizes is not None and 1 in sizes else None


def _sizes_of_sum(eqn: Eqn) -> tuple[int, int, int] | None:
    """Rows, columns and terms of a product that may be written as sums; None for others."""
    contract, batch = eqn.params["dimension_numbers"]
    out = eqn.outvars[0].aval
    if out.dtype == np.bool_ or any(a.aval.dtype != out.dtype for a in eqn.invars):
        return None
    if contract[0] and (kind_of(out.dtype) not in "iuf" or is_narrow_float(out.dtype)):
        return None
    shapes = [a.aval.shape for a in eqn.invars]
    rows, columns = (math.prod(s[d] for d in free) for s, free in zip(shapes, _frees(eqn)))
    terms = math.prod(shapes[0][d] for d in contract[0])
    return (rows, columns, terms) if out.size and terms else None


def _frees(eqn: Eqn) -> list[list[int]]:
    """The axes of each operand that are those of the result alone."""
    contract, batch = eqn.params["dimension_numbers"]
    return [[d for d in range(a.aval.ndim) if d not in (*contract[i], *batch[i])] for i, a in enumerate(eqn.invars)]


def _summed(eqn: Eqn) -> list[Eqn]:
    """A product as sums of element-wise products. One term is added to +0, as a matrix library does."""
    contract, batch = eqn.params["dimension_numbers"]
    out, frees, shape = eqn.outvars[0].aval, _frees(eqn), eqn.invars[0].aval.shape
    extents = [shape[d] for d in contract[0]]
    extents = extents if math.prod(extents) > 1 else []
    full = (*out.shape, *extents)
    n, m = len(batch[0]), len(frees[0])
    places = (range(n + m), (*range(n), *range(n + m, out.ndim)))  # of the axes of each operand that are not summed
    summed = range(out.ndim, len(full))

    def sums(*operands: Any) -> list[Any]:
        repeated = []
        for i, operand in enumerate(operands):
            ordered = transpose(operand, (*batch[i], *frees[i], *contract[i]))
            if not summed:
                ordered = reshape(ordered, ordered.shape[: ordered.ndim - len(contract[i])])
            repeated.append(broadcast_in_dim(ordered, shape=full, broadcast_dimensions=(*places[i], *summed)))
        product = mul(*repeated)
        if summed:
            return [reduce_sum(product, axes=tuple(summed))]
        return [add(product, scalar_like(product, 0)) if contract[0] else product]

    return spliced(sums, eqn.invars, eqn)


def _of_pairs(eqn: Eqn, view: View, terms: int, free: tuple[int, int]) -> bool:
    """Whether a product is one of few terms for each pair of rows, or sums few columns over such pairs."""
    few, least = machine_model.MOST_SUMMED_AT_ONCE, machine_model.SMALLEST_RECOMPUTED
    if terms <= few and would_be_pairs(eqn.outvars[0].aval, eqn.invars, least):
        return True
    return any(others <= few and are_pairs(a, view, least) for a, others in zip(eqn.invars, reversed(free)))
