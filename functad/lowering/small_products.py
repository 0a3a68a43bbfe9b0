"""Matrix products of a few elements as loop nests: a call of a matrix library would take longer than they do.

Knows steps and nests; no target.
"""

from __future__ import annotations

import numpy as np

from functad import machine_model
from functad.dtypes import kind_of
from functad.lowering.nests.affine import loop
from functad.lowering.nests.nest import POST, PRE, Accumulator, Let, Load, Nest, Statement, Store, typed_literal
from functad.lowering.steps import ControlStep, GemmStep, NestStep, PlainStep, Step, with_changed


def without_small_products(step: ControlStep) -> ControlStep:
    """A loop or branch in which nests have taken the place of small products."""
    return with_changed(step, _written_out)


def _written_out(step: PlainStep) -> Step:
    if not isinstance(step, GemmStep) or step.panel:
        return step
    is_small = step.m * step.n * step.k * step.batch <= machine_model.LARGEST_SMALL_PRODUCT
    return NestStep(step.name, product_nest(step), step.eqns) if is_small else step


def product_nest(step: GemmStep) -> Nest:
    """The loops over batch, rows, columns and what is summed up."""
    extents = {"i": step.batch, "j": step.m, "k": step.n, "l": step.k}
    q, row, column, inner = (loop(name, extent) for name, extent in extents.items())
    a_at = inner * step.lda + row if step.ta else row * step.lda + inner
    b_at = column * step.ldb + inner if step.tb else inner * step.ldb + column
    c_at = q * step.c_batch + row * step.ldc + column + step.c_offset
    eqn = step.eqns[0] if step.eqns else None
    statements: list[Statement] = [
        Load("at_a", step.a, q * step.a_batch + a_at + step.a_offset, PRE),
        Load("at_b", step.b, q * step.b_batch + b_at + step.b_offset, PRE),
        Let(("product",), "term(at_a, at_b)", ("at_a", "at_b"), PRE, eqn),
    ]
    dtype, value = step.c.dtype, "total"
    constants: dict[str, np.generic] = {}

    def factor(name: str, number: complex) -> str:
        if kind_of(dtype) != "f":
            return typed_literal(number, dtype)
        constants[name] = dtype.type(number)
        return name

    if step.alpha != 1:
        alpha = factor("alpha", step.alpha)
        statements.append(Let(("scaled",), f"{alpha} * {value}", (alpha, value), POST, eqn))
        value = "scaled"
    if step.beta:
        beta = typed_literal(1, dtype) if step.beta == 1 else factor("beta", step.beta)
        statements.append(Load("before", step.c, c_at, POST))
        statements.append(Let(("updated",), f"{beta} * before + {value}", (beta, "before", value), POST, eqn))
        value = "updated"
    loops = [(x.terms[0][0], x is inner) for x in (q, row, column, inner) if x.terms]
    nest = Nest([symbol for symbol, _ in loops], [reduced for _, reduced in loops], statements, constants=constants)
    nest.accumulators.append(Accumulator("total", "sum", dtype, "product", eqn))  # type: ignore[arg-type]
    nest.stores.append(Store(step.c, c_at, value, POST))
    return nest
