"""Matrix products: which equations one product can take in, and how operands lie in memory as matrices.

Knows no BLAS and no target: a product is `out = start_factor · start + alpha · lhs · rhs`. A scaling is taken in where
its factors are at most 1: so no part of a sum of products overflows that did not do so unscaled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from functad.dtypes import finfo, kind_of
from functad.ir import Atom, Eqn, Literal, Program, Var, definitions
from functad.lowering.nests.affine import Affine
from functad.lowering_rules import Indexed
from functad.primitives.arithmetic import add_p, mul_p, neg_p, sub_p
from functad.primitives.common import add_any_p
from functad.primitives.contraction import dot_general_p

DTYPES = ("float32", "float64", "complex64", "complex128")  # what a BLAS multiplies


@dataclass(eq=False)
class Product:
    """A `dot_general` with the equations that it takes in: a scaling, and a sum with an array that is there already."""

    members: list[int]
    lhs: Atom
    rhs: Atom
    dimension_numbers: tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]]
    out: Var
    alpha: float = 1.0
    start: Atom | None = None
    start_factor: float = 0.0
    precision: str | None = None

    def operands(self) -> list[Var]:
        atoms = (self.lhs, self.rhs, self.start)
        return [a for a in atoms if isinstance(a, Var)]


def find_products(program: Program, only_user: Callable[[Var], int | None]) -> dict[int, Product]:
    """The products of a Program, by the position of their last equation. Later ones take in first.

    only_user: the position of the one equation that reads a variable, if that may be taken in.
    """
    return _ProductFinder(program, only_user).run()


class _ProductFinder:
    def __init__(self, program: Program, only_user: Callable[[Var], int | None]) -> None:
        self.eqns, self._only_user = program.eqns, only_user
        self.external = {*program.invars, *program.constvars}
        self.definitions = definitions(program)
        self.found: dict[int, Product] = {}
        self.taken: set[int] = set()

    def run(self) -> dict[int, Product]:
        for i in range(len(self.eqns) - 1, -1, -1):
            eqn = self.eqns[i]
            if eqn.primitive is dot_general_p and _is_blas(eqn):
                lhs, rhs = eqn.invars
                product = Product([i], lhs, rhs, eqn.params["dimension_numbers"], eqn.outvars[0])
                product.precision = eqn.params["precision"]
                self._take_in(product)
                self.taken.update(product.members)
                self.found[product.members[-1]] = product
        by_result = {p.out: p for p in self.found.values()}
        starts = {p.start for p in self.found.values() if isinstance(p.start, Var)}
        for product in [p for p in self.found.values() if p.out not in starts]:  # the last ones of the sums
            self._distribute(product, by_result)
        return self.found

    def _scaled(self, product: Product, factor: float) -> tuple[list[int], float, Var]:
        """The scalings, one behind the other, that follow a product scaled so far; what all come to; their result."""
        members: list[int] = []
        var = product.out
        while (j := self._only_user(var)) is not None and j not in self.taken:
            more = _factor(self.eqns[j], var, factor)
            if more is None:
                break
            factor *= more
            members.append(j)
            (var,) = self.eqns[j].outvars
        return members, factor, var

    def _take_in(self, product: Product) -> None:
        """Let a product take in the scalings that follow, and a sum behind them."""
        members, product.alpha, product.out = self._scaled(product, product.alpha)
        product.members += members
        j = self._only_user(product.out)
        if j is not None and j not in self.taken:
            _take_sum(product, self.eqns[j], j, self.definitions)

    def _distribute(self, last: Product, by_result: dict[Var, Product]) -> None:
        """`p − c·(A₁B₁ + A₂B₂ + …)` becomes products that are added to `p` one by one: no sum, no pass to update `p`.

        A sum of products followed by a scaling and the sum with an input: the scaling goes into every product.
        """
        chain = [last]
        while (start := chain[-1].start) is not None:
            earlier = by_result.get(start) if isinstance(start, Var) else None
            if earlier is None or not isinstance(start, Var) or chain[-1].start_factor != 1.0:
                return
            if self._only_user(start) is None:
                return
            chain.append(earlier)
        members, factor, var = self._scaled(last, 1.0)
        j = self._only_user(var)
        if j is None:
            return
        total = Product([], last.lhs, last.rhs, last.dimension_numbers, var)
        _take_sum(total, self.eqns[j], j, {})
        if total.start not in self.external or total.start_factor != 1.0 or (len(chain) == 1 and not members):
            return
        if not all(_can_scale(factor, p.alpha, var.aval.dtype) for p in chain):
            return
        chain[-1].start, chain[-1].start_factor = total.start, 1.0
        for product in chain:
            product.alpha *= factor * total.alpha
        del self.found[last.members[-1]], by_result[last.out]
        last.members += [*members, *total.members]
        last.out = total.out
        self.found[last.members[-1]] = by_result[last.out] = last


def _is_blas(eqn: Eqn) -> bool:
    """Whether a library may compute a product: a complex one of a single term it may give with a wrong sign of zero."""
    dtype = eqn.outvars[0].aval.dtype
    (contracted, _), _ = eqn.params["dimension_numbers"]
    if kind_of(dtype) == "c" and all(eqn.invars[0].aval.shape[i] == 1 for i in contracted):
        return False
    sizes = [v.aval.size for v in (*eqn.invars, *eqn.outvars)]
    return dtype.name in DTYPES and all(a.aval.dtype == dtype for a in eqn.invars) and all(sizes)


def _factor(eqn: Eqn, var: Var, so_far: float) -> float | None:
    """The number by which an equation scales a variable, if a product that is scaled already can be scaled by it too.

    No product takes in a 0: a matrix library would not compute what it multiplies, and would lose NaN and infinity.
    Nor does it take in a factor above 1: `(x·1e30)·1e-30` may overflow, and so may parts of `1e30·(x₁y₁ + x₂y₂)` of
    which the sum is small.
    """
    aval = eqn.outvars[0].aval
    if kind_of(aval.dtype) == "c":
        return None
    if eqn.primitive is neg_p:
        return -1.0
    if eqn.primitive is mul_p:
        other = eqn.invars[1] if eqn.invars[0] is var else eqn.invars[0]
        if isinstance(other, Literal) and _can_scale(float(other.value), so_far, aval.dtype):
            return float(other.value)
    return None


def _can_scale(factor: float, so_far: float, dtype: np.dtype) -> bool:
    """Whether a product that is scaled already can be scaled by a factor: by at most 1, and both keep their digits."""
    return bool(abs(factor) <= 1.0 and finfo(dtype).tiny <= abs(factor * so_far))


def _take_sum(product: Product, eqn: Eqn, position: int, known: Mapping[Atom, Eqn]) -> None:
    if eqn.primitive not in (add_p, add_any_p, sub_p):
        return
    is_first = eqn.invars[0] is product.out
    other = eqn.invars[1] if is_first else eqn.invars[0]
    if not isinstance(other, Var) or other is product.out or other.aval.shape != product.out.aval.shape:
        return
    origin = known.get(other)
    if origin is not None and isinstance(origin.primitive.lower, Indexed):
        return  # a bias, say: adding it belongs with what follows
    product.start, product.start_factor = other, 1.0
    if eqn.primitive is sub_p:
        product.alpha = product.alpha if is_first else -product.alpha
        product.start_factor = -1.0 if is_first else 1.0
    product.members.append(position)
    product.out = eqn.outvars[0]


@dataclass(frozen=True)
class Matrices:
    """An operand as a batch of matrices in memory: element (b, r, c) lies at `offset + b·batch + r·row + c·column`."""

    offset: int
    batch: int
    row: int
    column: int


def as_matrices(
    position: Affine, index: Sequence[Affine], groups: tuple[Sequence[int], Sequence[int], Sequence[int]]
) -> Matrices | None:
    """The layout of an operand whose element at `index` lies at `position`, if its axes group into matrices."""
    own = {i.terms[0][0] for i in index if i.terms}
    if any(s not in own for s, _ in position.terms):
        return None
    steps = []
    for group in groups:
        step = _common_step(position, index, group)
        if step is None:
            return None
        steps.append(step)
    return Matrices(position.constant, *steps)


def _common_step(position: Affine, index: Sequence[Affine], group: Sequence[int]) -> int | None:
    """The stride of several axes taken as one, or None if they do not lie one behind another."""
    step, size = 0, 1
    for d in reversed(group):
        if not index[d].terms:
            continue
        symbol = index[d].terms[0][0]
        stride = position.coefficient(symbol)
        if size == 1:
            step = stride
        elif stride != step * size:
            return None
        size *= symbol.extent
    return step
