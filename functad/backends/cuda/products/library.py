"""Matrix products by a library: what it is told of a step. functad's own are in `kernels`.

Knows where matrices lie in memory; no Programs.
"""

from __future__ import annotations

from functad.backends.cuda.runtime.launching import ArrayPlace, LibraryProduct
from functad.lowering.steps import GemmStep


def has_numbers_for(step: GemmStep) -> bool:
    """Whether the sizes of a product are numbers of 32 bits, as which the library takes them."""
    return max(step.m, step.n, step.k, step.lda, step.ldb, step.ldc, step.batch) < 1 << 31


def library_product(
    step: GemmStep, precision: str | None, a: ArrayPlace, b: ArrayPlace, c: ArrayPlace
) -> LibraryProduct:
    """The start of one product by a library. precision: of those that have none of their own."""

    def moved(place: ArrayPlace, elements: int) -> ArrayPlace:
        return place._replace(offset=place.offset + elements * place.dtype.itemsize)

    return LibraryProduct(
        step.name, moved(a, step.a_offset), moved(b, step.b_offset), moved(c, step.c_offset), bool(step.ta),
        bool(step.tb), step.m, step.n, step.k, step.lda, step.ldb, step.ldc, step.batch, step.a_batch, step.b_batch,
        step.c_batch, step.alpha, step.beta, step.precision or precision,
    )  # fmt: skip
