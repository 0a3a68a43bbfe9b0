"""Matrix products as steps: operands that lie as a matrix library takes them, or are copied so first.

Knows the layouts that a matrix library takes; no target and no addresses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any

from functad import machine_model
from functad.ir import Atom, Eqn, Var
from functad.lowering.fusion.products import Matrices, Product, as_matrices
from functad.lowering.memory.buffers import Buffer, new_buffer
from functad.lowering.memory.values import ReadingOrder, Values
from functad.lowering.nests.affine import Affine
from functad.lowering.nests.nest import PRE
from functad.lowering.steps import GemmStep

Groups = tuple[Sequence[int], Sequence[int], Sequence[int]]  # axes of batch, rows and columns


def write_product(values: Values, product: Product, eqns: list[Eqn]) -> None:
    """Add the steps of the matrix product that some equations are to those of their Program."""
    contract, (lhs_batch, rhs_batch) = product.dimension_numbers
    lhs_free = [d for d in range(product.lhs.aval.ndim) if d not in (*contract[0], *lhs_batch)]
    rhs_free = [d for d in range(product.rhs.aval.ndim) if d not in (*contract[1], *rhs_batch)]
    lhs_contract, rhs_contract = _contract_order(
        values, contract, lambda order: (product.lhs, (lhs_batch, lhs_free, order)),
        lambda order: (product.rhs, (rhs_batch, order, rhs_free)),
    )  # fmt: skip
    m, n, k, batch = (
        math.prod(atom.aval.shape[d] for d in dims)
        for atom, dims in (
            (product.lhs, lhs_free),
            (product.rhs, rhs_free),
            (product.lhs, lhs_contract),
            (product.lhs, lhs_batch),
        )
    )
    a, a_at, ta = _matrix(values, product.lhs, (lhs_batch, lhs_free, lhs_contract), (batch, m, k))
    b, b_at, tb = _matrix(values, product.rhs, (rhs_batch, rhs_contract, rhs_free), (batch, k, n))
    candidates = []
    start = None
    if product.start is not None:
        start = values.in_memory(product.start)
        if start.storage is not a.storage and start.storage is not b.storage:
            candidates.append(start)
    c = values.assignment.result(product.out, candidates, growing=True)
    if start is not None and c.storage is not start.storage:
        values.writer.add_buffer_copy(start, c, values.names[product.out])
    values.writer.steps.append(
        GemmStep(
            f"product_{values.names[product.out]}",
            a, b, c, ta, tb, m, n, k,
            lda=max(a_at.row if not ta else a_at.column, 1),
            ldb=max(b_at.row if not tb else b_at.column, 1),
            ldc=n,
            alpha=product.alpha,
            beta=product.start_factor,
            precision=product.precision,
            a_offset=a_at.offset,
            b_offset=b_at.offset,
            batch=batch,
            a_batch=a_at.batch,
            b_batch=b_at.batch,
            c_batch=m * n,
            eqns=eqns,
        )
    )  # fmt: skip


def _matrix(values: Values, atom: Atom, groups: Groups, sizes: tuple[int, int, int]) -> tuple[Buffer, Matrices, int]:
    """A buffer in which an operand lies as matrices that a BLAS takes, and whether they are transposed."""
    found = _matrix_in_place(values, atom, groups) or _packed_before(values, atom, groups, sizes)
    if found is not None:
        return found
    _, rows, columns = sizes
    permutation = [d for group in groups for d in group]
    shape = [atom.aval.shape[d] for d in permutation]
    name = values.names[atom] if isinstance(atom, Var) else "literal"
    buffer = new_buffer(f"packed_{name}", shape, atom.aval.dtype)
    builder = values.nest(shape)
    index: list[Affine] = [Affine(0)] * len(permutation)
    for i, d in zip(builder.index, permutation):
        index[d] = i
    builder.copy_element(builder.value(atom, index, PRE), buffer)
    values.writer.add_nest(builder, f"pack_{name}")
    order = _reading_order(values, atom, permutation)
    if order is not None and buffer.nbytes <= machine_model.MOST_EXTRA_BYTES:
        values.packed[order] = buffer
    return buffer, Matrices(0, rows * columns, columns, 1), 0


def _packed_before(
    values: Values, atom: Atom, groups: Groups, sizes: tuple[int, int, int]
) -> tuple[Buffer, Matrices, int] | None:
    """The same, if another product needed the operand packed, or its transpose."""
    batch, row, column = groups
    _, rows, columns = sizes
    found = values.packed.get(_reading_order(values, atom, [*batch, *row, *column]))
    if found is not None:
        return found, Matrices(0, rows * columns, columns, 1), 0
    found = values.packed.get(_reading_order(values, atom, [*batch, *column, *row]))
    return None if found is None else (found, Matrices(0, rows * columns, 1, rows), 1)


def _reading_order(values: Values, atom: Atom, permutation: Sequence[int]) -> ReadingOrder | None:
    """In which order the elements of one buffer are read to pack an operand; None if it is computed."""
    builder = values.nest(atom.aval.shape)
    builder.value(atom, builder.index, PRE)
    if len(builder.nest.statements) != 1 or len(builder.loaded) != 1:
        return None
    ((var, position),) = builder.loaded
    symbols = [builder.index[d].terms[0][0] for d in permutation if builder.index[d].terms]
    if any(s not in symbols for s, _ in position.terms):
        return None
    return var, position.constant, tuple((s.extent, position.coefficient(s)) for s in symbols)


def _matrix_in_place(values: Values, atom: Atom, groups: Groups) -> tuple[Buffer, Matrices, int] | None:
    """The same, if the operand lies like that already."""
    _, rows, columns = (math.prod(atom.aval.shape[d] for d in group) for group in groups)
    found = _layout(values, atom, groups)
    if found is not None:
        buffer, layout = found
        row, column = layout.row, layout.column
        if (column == 1 or columns == 1) and (row >= columns or rows == 1):
            return buffer, Matrices(layout.offset, layout.batch, max(row, columns), 1), 0
        if (row == 1 or rows == 1) and (column >= rows or columns == 1):
            return buffer, Matrices(layout.offset, layout.batch, 1, max(column, rows)), 1
    return None


def _contract_order(
    values: Values,
    contract: tuple[Sequence[int], Sequence[int]],
    lhs: Callable[[Sequence[int]], tuple[Atom, Groups]],
    rhs: Callable[[Sequence[int]], tuple[Atom, Groups]],
) -> tuple[Sequence[int], Sequence[int]]:
    """The contracted axes of both operands in the order for which the fewest bytes must be moved first."""
    pairs = list(zip(*contract))
    if not 2 <= len(pairs) <= 3:
        return contract

    def moved(order: Sequence[tuple[int, int]]) -> int:
        sides = lhs([a for a, _ in order]), rhs([b for _, b in order])
        return sum(
            atom.aval.size * atom.aval.dtype.itemsize
            for atom, groups in sides
            if _matrix_in_place(values, atom, groups) is None
        )

    best = min(permutations(pairs), key=moved)
    return [a for a, _ in best], [b for _, b in best]


def _layout(values: Values, atom: Atom, groups: Any) -> tuple[Buffer, Matrices] | None:
    """Where an operand lies, if its elements are those of one buffer at regular distances."""
    builder = values.nest(atom.aval.shape)
    builder.value(atom, builder.index, PRE)
    if len(builder.nest.statements) != 1 or not builder.loaded:
        return None
    ((var, position),) = builder.loaded
    if var.aval.dtype != atom.aval.dtype:  # a load computes floats of 16 bits as float32
        return None
    layout = as_matrices(position, builder.index, groups)
    return None if layout is None else (values.assignment.buffer(var), layout)
