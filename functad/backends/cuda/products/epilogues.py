"""Which nests a matrix product takes in: what is computed of each of its results, where that has just been summed.

Knows steps and where they read and write; no text. So a layer's bias, activation and mask are the product's kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import takewhile

from functad import machine_model
from functad.backends.cpu.kernels.small_loops import touched_by
from functad.backends.cuda.kernels.finishing import may_pass
from functad.backends.cuda.kernels.rows import RowGroup, rows_behind
from functad.backends.cuda.kernels.vectors import PLAIN_MEMORY
from functad.backends.cuda.products.kernels import COLUMN, ROW
from functad.lowering.memory.buffers import Buffer, Storage
from functad.lowering.nests.affine import Affine, Symbol, delinear, linear, loop
from functad.lowering.nests.nest import PRE, Load, Nest, Statement, Store
from functad.lowering.nests.reductions import at_point, store_at
from functad.lowering.steps import CallStep, ControlStep, GemmStep, NestStep, Step, written_by


@dataclass(eq=False)
class JoinedProduct:
    """A sum of products, and the nests that are computed of its results, whose loops are those of its rows and columns.

    products: each but the first adds to what those before it have come to. is_kept: whether somebody else reads the
    sum. is_own: whether functad's own kernel computes it, also where there is a library. rows: what its blocks do of
    whole rows behind that.
    """

    products: list[GemmStep]
    nests: list[NestStep]
    is_kept: bool
    is_own: bool = True
    rows: Sequence[NestStep] = ()


def joined_products(
    steps: Sequence[Step],
    outside: Set[Storage],
    is_own: Callable[[GemmStep, int], bool],
    shared_for_rows: Callable[[Sequence[GemmStep]], tuple[int, int] | None],
) -> Iterator[JoinedProduct | list[Step]]:
    """The steps in order: products with the nests that they take in, and between them lists of all others.

    outside: memory that others use, too. is_own: whether functad's own kernel computes a product, with so many steps
    that follow. shared_for_rows: the threads of a block that has whole rows of products, and its bytes of shared
    memory; None if none does.
    """
    between: list[Step] = []
    gathered = _gathered(steps, is_own)
    own = {s: count for s, count in touched_by(steps).items() if s not in outside}
    k = 0
    while k < len(gathered):
        step = gathered[k]
        k += 1
        if not isinstance(step, list):
            between.append(step)
            continue
        if between:
            yield between
            between = []
        joined = joined_with(step, gathered[k:], own)
        if not joined.nests and (n := _reader(step, gathered, k)) is not None:
            joined = joined_with(step, [gathered[n]], own)
            if joined.nests:
                gathered.insert(k, gathered.pop(n))
        if len(step) == 1 and not is_own(step[0], len(joined.nests)):
            joined = JoinedProduct(step, [], True, False)
        k += len(joined.nests)
        shared = shared_for_rows(joined.products) if joined.is_own else None
        group = _rows_of(joined, gathered[k:], *shared) if shared is not None else None
        if group is not None:
            joined.rows = group.steps
            k += len(group.steps)
            between += group.behind
        yield joined
    if between:
        yield between


def _reader(products: Sequence[GemmStep], steps: Sequence[Step | list[GemmStep]], k: int) -> int | None:
    """Where the first nest is that reads a sum of products, if it may as well be the k-th step."""
    memory, between = products[0].c.storage.memory, list[Step]()
    for n in range(k, min(k + machine_model.CUDA_WAITED_STEPS, len(steps))):
        step = steps[n]
        own = step if isinstance(step, list) else [step]
        if isinstance(step, ControlStep | CallStep):
            return None
        if memory in touched_by(own):
            return n if isinstance(step, NestStep) and may_pass(step.nest, between) else None
        between += own
    return None


def _rows_of(
    joined: JoinedProduct, after: Sequence[Step | list[GemmStep]], threads: int, shared: int
) -> RowGroup | None:
    """What blocks that have whole rows of a product go on with."""
    product, rows = joined.products[0], joined.products[0].batch * joined.products[0].m
    if rows < 2 or not _is_plain(product):
        return None
    index = (loop(ROW, rows), loop(COLUMN, product.n))
    loops = [s for one in index for s, _ in one.terms]
    reads: list[Statement] = [Load("at", b, Affine(0), PRE) for p in joined.products for b in (p.a, p.b)]
    sums = Nest(loops, [False] * len(loops), reads)
    sums.stores = [Store(product.c, linear(index, (rows, product.n)), "value", PRE)]
    steps = [step for step in takewhile(lambda step: isinstance(step, NestStep), after) if isinstance(step, NestStep)]
    return rows_behind([sums, *(nest.nest for nest in joined.nests)], steps, rows, threads, shared)


def _is_plain(product: GemmStep) -> bool:
    """Whether the rows of all results lie one after the other."""
    plain = product.c_offset == 0 and product.ldc == product.n
    return plain and (product.batch == 1 or product.c_batch == product.m * product.n)


def _gathered(steps: Sequence[Step], is_own: Callable[[GemmStep, int], bool]) -> list[Step | list[GemmStep]]:
    """The steps in order, where products that are added up are one list, in the place of the last one."""
    found: list[Step | list[GemmStep]] = []
    for step in steps:
        if not isinstance(step, GemmStep):
            found.append(step)
            continue
        earlier = _earlier_sum(found, step)
        if earlier is None or not all(is_own(product, 0) for product in (*earlier, step)):
            found.append([step])
        else:
            found.remove(earlier)
            found.append([*earlier, step])
    return found


def _earlier_sum(found: Sequence[Step | list[GemmStep]], step: GemmStep) -> list[GemmStep] | None:
    """The products to which one adds its own, if they may as well be computed where that is."""
    after: list[Step] = []
    for item in reversed(found):
        if isinstance(item, list) and item[-1].c.storage is step.c.storage:
            return item if _is_one_sum(item, step) and _may_wait(item, after) else None
        if isinstance(item, ControlStep | CallStep) or len(after) > machine_model.CUDA_WAITED_STEPS:
            return None
        after += item if isinstance(item, list) else [item]
    return None


def _is_one_sum(products: Sequence[GemmStep], step: GemmStep) -> bool:
    first = products[0]
    sizes = [(p.batch, p.m, p.n, p.ta, p.tb, p.ldc, p.c_offset, p.c_batch, p.alpha) for p in (first, step)]
    apart = all(operand.storage is not step.c.storage for operand in (step.a, step.b))
    return sizes[0] == sizes[1] and step.beta == 1 and apart and len(products) < machine_model.CUDA_SUMMED_PRODUCTS


def _may_wait(products: Sequence[GemmStep], after: Sequence[Step]) -> bool:
    """Whether products may be computed after other steps, which neither use their sum nor write to what they read."""
    if not after:
        return True
    used = {b.storage for p in products for b in (p.a, p.b, p.c)}
    touched, written = set(touched_by(after)), set().union(*map(written_by, after))
    plain = all(s.kind in PLAIN_MEMORY and s.whole is None for s in (*used, *touched))
    return plain and products[0].c.storage not in touched and written.isdisjoint(used)


def joined_with(
    products: list[GemmStep], after: Sequence[Step | list[GemmStep]], touched: Mapping[Storage, int]
) -> JoinedProduct:
    """Products, of one sum, with the nests after them that they take in.

    touched: how many places use each piece of memory that is nobody else's.
    """
    group = _ResultGroup(products)
    for step in after:
        if not isinstance(step, NestStep) or not group.takes(step):
            break
    storage = products[0].c.storage
    first = next((nest for nest in group.nests if _reads_or_writes(nest.nest, storage)), None)
    overwritten = first is not None and any(store.buffer.storage is storage for store in first.nest.stores)
    users = touched_by([*products, *group.nests])[storage.memory]
    is_private = storage.kind == "arena" and users == touched.get(storage.memory)
    return JoinedProduct(products, group.nests, not (group.nests and (overwritten or is_private)))


def _reads_or_writes(nest: Nest, storage: Storage) -> bool:
    return any(buffer.storage is storage for buffer, _, _ in nest.accesses())


class _ResultGroup:
    """Products with the nests so far. What one of them writes, others touch at the same result only."""

    def __init__(self, products: Sequence[GemmStep]) -> None:
        product = products[0]
        self.product = product
        self.operands = {b.storage for p in products for b in (p.a, p.b)}
        self.nests: list[NestStep] = []
        rows = product.batch * product.m
        self.index = (loop(ROW, rows), loop(COLUMN, product.n))
        self.extents = (rows, product.n)
        self.place = linear(self.index, self.extents)
        self._touched: dict[Storage, list[tuple[Buffer, Affine, bool]]] = {}

    def takes(self, step: NestStep) -> bool:
        """Whether one more nest fits to those before; it is one of the group then."""
        nest = self._at_results(step.nest)
        if nest is None:
            return False
        touched = {storage: list(found) for storage, found in self._touched.items()}
        for buffer, offset, is_written in nest.accesses():
            if buffer.storage.kind not in PLAIN_MEMORY or buffer.storage.whole is not None:
                return False
            touched.setdefault(buffer.storage, []).append((buffer, offset, is_written))
        product = self.product.c.storage
        if product not in touched:
            return False
        touched[product].append((self.product.c, self.place, True))
        for storage, found in touched.items():
            if any(is_written for _, _, is_written in found):
                places = {(buffer.dtype, offset) for buffer, offset, _ in found}
                if len(places) > 1 or not self._is_own(found[0][1]) or storage in self.operands:
                    return False
        self._touched = touched
        self.nests.append(replace(step, nest=nest))
        return True

    def _is_own(self, offset: Affine) -> bool:
        """Whether no two results have one position."""
        rest = offset - self.place
        return rest.is_constant()

    def _at_results(self, nest: Nest) -> Nest | None:
        """The nest at result i, j; None if it is not computed point by point, or of other points."""
        special = nest.accumulators or nest.across or nest.carries or nest.update or nest.ordered or nest.segments
        if not _is_plain(self.product) or special or any(nest.reduced) or any(s.level != PRE for s in nest.stores):
            return None
        if nest.points != self.extents[0] * self.extents[1]:
            return None
        at: dict[Symbol, Affine] = dict(zip(nest.loops, delinear(self.place, [s.extent for s in nest.loops])))
        return replace(
            nest,
            loops=[s for index in self.index for s, _ in index.terms],
            reduced=[False for index in self.index for _ in index.terms],
            statements=[at_point(s, at, {}) for s in nest.statements],
            stores=[store_at(s, at, {}) for s in nest.stores],
        )
