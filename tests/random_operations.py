"""Operations from which random programs are made: each picks operands and tells what it knows of the result.

Knows `lax`; not how many operations a program has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from functad import lax
from functad.lax import GatherDimensionNumbers, ScatterDimensionNumbers

LARGEST_VALUE = 600  # elements of one value
LARGEST_BOUND = 48  # of whole numbers; above, they are clamped


@dataclass(frozen=True, eq=False)
class Value:
    """A traced value with what is known of it.

    exact: computed without rounding. bound: of its magnitude.
    """

    x: Any
    exact: bool
    bound: float

    def but(self, **changes: Any) -> Value:
        return replace(self, **changes)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.x.shape)

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(self.x.dtype)


def fits(small: tuple[int, ...], large: tuple[int, ...]) -> tuple[int, ...] | None:
    """Axes of a larger array to which those of a smaller one may belong."""
    dims, d = [], 0
    for n in small:
        while d < len(large) and large[d] != n and n != 1:
            d += 1
        if d == len(large):
            return None
        dims.append(d)
        d += 1
    return tuple(dims)


def size(shape: Sequence[int]) -> int:
    return int(np.prod(shape, dtype=np.int64))


# --- element by element ------------------------------------------------------------------------------------


def binary(c: Any) -> Value | None:
    v = c.pick()
    if v is None:
        return None
    w = c.like(v)
    if v.dtype.kind == "b":
        op = c.choose.choice([lax.bitwise_and, lax.bitwise_or, lax.bitwise_xor])
        return Value(op(v.x, w.x), True, 1)
    ops = [(lax.add, v.bound + w.bound), (lax.sub, v.bound + w.bound), (lax.mul, v.bound * w.bound)]
    if v.dtype.kind != "c" and (v.exact and w.exact) and not c.of.smooth:
        ops += [(lax.max, max(v.bound, w.bound)), (lax.min, max(v.bound, w.bound))]
    op, bound = c.choose.choice(ops)
    a, b = (v, w) if c.choose.random() < 0.7 else (w, v)
    return Value(op(a.x, b.x), v.exact and w.exact and bound < 4000, bound)


def unary(c: Any) -> Value | None:
    v = c.pick("f")
    if v is None:
        return None
    smooth = [lax.sin, lax.tanh, lax.cos, lax.logistic, lax.erf]
    if c.choose.random() < 0.5:
        x = c.choose.choice(smooth)(v.x)
        return Value(x, False, 1.0)
    op = c.choose.choice([lax.neg, lax.square] if c.of.smooth or not v.exact else [lax.neg, lax.abs, lax.floor])
    return Value(op(v.x), v.exact, v.bound if op is not lax.square else v.bound**2)


def select(c: Any) -> Value | None:
    v = c.pick()
    if v is None:
        return None
    w = c.like(v)
    masks = [m for m in c.values if m.dtype.kind == "b" and m.shape == v.shape]
    if masks:
        mask = c.choose.choice(masks).x
    elif v.shape and size(v.shape):
        axis = c.choose.randrange(len(v.shape))
        mask = lax.lt(lax.broadcasted_iota(np.int32, v.shape, axis), np.int32(v.shape[axis] // 2))
    else:
        return None
    other = w.x if w.shape == v.shape else lax.full(v.shape, w.x)
    return Value(lax.select(mask, v.x, other), v.exact and w.exact, max(v.bound, w.bound))


def compare(c: Any) -> Value | None:
    v = c.pick("biuf", exact=True)
    w = v and c.like(v)
    if v is None or w is None or not w.exact:
        return None
    return Value(c.choose.choice([lax.lt, lax.ge, lax.eq, lax.ne])(v.x, w.x), True, 1)


def convert(c: Any) -> Value | None:
    v = c.pick("biuf", exact=True)
    if v is None:
        return None
    choices = ["float32", "float32", "int32", "float16", "bool", "float64", "int8", "complex64"]
    if c.of.special and v.dtype.kind == "f":
        choices = ["float32", "float64", "float16"]
    return Value(lax.convert_element_type(v.x, np.dtype(c.choose.choice(choices))), True, v.bound)


# --- moving ------------------------------------------------------------------------------------------------


def reshape(c: Any) -> Value | None:
    v = c.pick(rank=1)
    if v is None:
        return None
    shape = list(v.shape)
    kind = c.choose.random()
    if kind < 0.4 and len(shape) > 1:
        d = c.choose.randrange(len(shape) - 1)
        shape[d : d + 2] = [shape[d] * shape[d + 1]]
    elif kind < 0.6:
        shape.insert(c.choose.randint(0, len(shape)), 1)
    else:
        d = c.choose.randrange(len(shape))
        divisors = [k for k in (2, 3, 4) if shape[d] and shape[d] % k == 0]
        if divisors:
            k = c.choose.choice(divisors)
            shape[d : d + 1] = [shape[d] // k, k]
        else:
            shape = [size(shape)]
    return v.but(x=lax.reshape(v.x, shape)) if len(shape) < 6 else None


def transpose(c: Any) -> Value | None:
    v = c.pick(rank=2)
    if v is None:
        return None
    permutation = list(range(len(v.shape)))
    c.choose.shuffle(permutation)
    return v.but(x=lax.transpose(v.x, permutation))


def broadcast(c: Any) -> Value | None:
    v = c.pick()
    if v is None or len(v.shape) > 3:
        return None
    shape, dims = list(v.shape), list(range(len(v.shape)))
    at = c.choose.randint(0, len(shape))
    shape.insert(at, c.choose.choice(c.of.sizes))
    dims = [d if d < at else d + 1 for d in dims]
    for d in dims:
        if shape[d] == 1 and c.choose.random() < 0.5:
            shape[d] = 3
    return v.but(x=lax.broadcast_in_dim(v.x, shape, dims)) if size(shape) <= LARGEST_VALUE else None


def cut(c: Any) -> Value | None:
    v = c.pick(rank=1)
    if v is None:
        return None
    low = [c.choose.randint(0, max(n - 1, 0)) if c.choose.random() < 0.5 else 0 for n in v.shape]
    high = [c.choose.randint(a, n) if c.choose.random() < 0.5 else n for a, n in zip(low, v.shape)]
    if not c.of.sizes.count(0):
        high = [max(h, a + 1) for a, h in zip(low, high)]
    steps = [c.choose.choice([1, 1, 1, 2]) for _ in low]
    return v.but(x=lax.slice(v.x, low, high, steps))


def pad(c: Any) -> Value | None:
    v = c.pick(rank=1)
    if v is None:
        return None
    config = [
        (c.choose.choice([0, 0, 1, 2, -1]), c.choose.choice([0, 0, 1, -1]), c.choose.choice([0, 0, 1])) for _ in v.shape
    ]
    shape = [low + n + high + max(n - 1, 0) * inner for n, (low, high, inner) in zip(v.shape, config)]
    if min(shape) < (0 if c.of.sizes.count(0) else 1) or size(shape) > LARGEST_VALUE:
        return None
    return v.but(x=lax.pad(v.x, v.dtype.type(c.choose.choice([0, 0, 1])), config))


def rev(c: Any) -> Value | None:
    v = c.pick(rank=1)
    return None if v is None else v.but(x=lax.rev(v.x, c.axes(v)))


def concatenate(c: Any) -> Value | None:
    v = c.pick(rank=1)
    if v is None:
        return None
    w = c.like(v)
    if w.shape != v.shape or size(v.shape) > LARGEST_VALUE // 3:
        return None
    exact, bound = v.exact and w.exact, max(v.bound, w.bound)
    parts = [v.x, w.x, v.x][: c.choose.randint(2, 3)]
    return Value(lax.concatenate(parts, c.choose.randrange(len(v.shape))), exact, bound)


def dynamic_slice(c: Any) -> Value | None:
    v = c.pick(rank=1)
    if v is None:
        return None
    sizes = [c.choose.randint(min(n, 1), n) for n in v.shape]
    return v.but(x=lax.dynamic_slice(v.x, [starts(c, n, k) for n, k in zip(v.shape, sizes)], sizes))


def dynamic_update(c: Any) -> Value | None:
    v = c.pick(rank=1)
    if v is None:
        return None
    sizes = [c.choose.randint(min(n, 1), n) for n in v.shape]
    patch = lax.slice(v.x, [0] * len(sizes), sizes)
    patch = lax.add(patch, v.dtype.type(1)) if v.dtype.kind != "b" else lax.bitwise_not(patch)
    return v.but(
        x=lax.dynamic_update_slice(v.x, patch, [starts(c, n, k) for n, k in zip(v.shape, sizes)]), bound=v.bound + 1
    )


def starts(c: Any, n: int, size: int) -> Any:
    """A start index: a constant, or a scalar computed from an integer value."""
    numbers = [v for v in c.values if v.dtype == np.int32 and v.exact]
    if numbers and c.choose.random() < 0.5:
        x = c.choose.choice(numbers).x
        return lax.reduce_sum(x, tuple(range(len(x.shape)))) if x.shape else x
    return np.int32(c.choose.randint(0, n - size))


def take(c: Any) -> Value | None:
    v = c.pick(rank=1)
    numbers = [w for w in c.values if w.dtype == np.int32 and len(w.shape) <= 2 and size(w.shape)]
    if v is None or not numbers or not size(v.shape):
        return None
    index = c.choose.choice(numbers)
    axis = c.choose.randrange(len(v.shape))
    sizes = [1 if d == axis else n for d, n in enumerate(v.shape)]
    if size(sizes) * size(index.shape) > LARGEST_VALUE:
        return None
    rank = len(index.shape)
    offsets = tuple(d + rank if d >= axis else d for d in range(len(v.shape) - 1))
    numbers_ = GatherDimensionNumbers(
        tuple(sorted(offsets if axis == 0 else range(rank, rank + len(v.shape) - 1))), (axis,), (axis,)
    )
    mode = c.choose.choice(["clip", "fill"])
    x = lax.gather(v.x, lax.reshape(index.x, (*index.shape, 1)), numbers_, sizes, mode=mode, fill_value=0)
    return v.but(x=x)


def scatter(c: Any) -> Value | None:
    v = c.pick("ifu", rank=1)
    numbers = [w for w in c.values if w.dtype == np.int32 and len(w.shape) == 1 and size(w.shape)]
    if v is None or not numbers or not size(v.shape):
        return None
    index = c.choose.choice(numbers)
    updates_shape = (*index.shape, *v.shape[1:])
    if size(updates_shape) > LARGEST_VALUE:
        return None
    same = [w for w in c.values if w.dtype == v.dtype and w.shape == updates_shape]
    updates = c.choose.choice(same) if same else Value(lax.full(updates_shape, v.dtype.type(2)), True, 2)
    rows = ScatterDimensionNumbers(tuple(range(1, len(v.shape))), (0,), (0,))
    bound = v.bound + updates.bound * size(index.shape)
    ops = [lax.scatter_add, lax.scatter_max, lax.scatter_min]
    op = c.choose.choice(ops if v.exact and updates.exact and not c.of.special else ops[:1])
    x = op(v.x, lax.reshape(index.x, (*index.shape, 1)), updates.x, rows)
    return Value(x, v.exact and updates.exact and bound < 4000, bound)


# --- reducing ----------------------------------------------------------------------------------------------


def reduce(c: Any) -> Value | None:
    v = c.pick(rank=1)
    if v is None:
        return None
    axes = c.axes(v)
    count = size([v.shape[d] for d in axes])
    if v.dtype.kind == "b":
        return Value(c.choose.choice([lax.reduce_and, lax.reduce_or, lax.reduce_xor])(v.x, axes), True, 1)
    ops = [(lax.reduce_sum, v.bound * max(count, 1))] * 2
    if v.dtype.kind in "iu":
        ops += [(lax.reduce_and, v.bound), (lax.reduce_or, v.bound), (lax.reduce_xor, v.bound)]
        ops += [(lax.reduce_prod, np.inf)]
    if v.exact and v.dtype.kind in "iuf" and count and not c.of.smooth:
        ops += [(lax.reduce_max, v.bound), (lax.reduce_min, v.bound)] * 2
    op, bound = c.choose.choice(ops)
    exact = v.exact and (v.dtype.kind in "iu" or bound < (2000 if v.dtype == np.float16 else 1e6))
    return Value(op(v.x, axes), exact, max(bound, 1))


def argmax(c: Any) -> Value | None:
    v = c.pick("biuf", rank=1, exact=True)
    if v is None or not size(v.shape):
        return None
    op = c.choose.choice([lax.argmax, lax.argmin])
    return Value(op(v.x, c.choose.randrange(len(v.shape)), np.int32), True, 8)


def cumulative(c: Any) -> Value | None:
    v = c.pick("iuf", rank=1)
    if v is None:
        return None
    axis = c.choose.randrange(len(v.shape))
    reverse = c.choose.random() < 0.4
    if v.exact and not c.of.smooth and c.choose.random() < 0.4:
        return v.but(x=c.choose.choice([lax.cummax, lax.cummin])(v.x, axis, reverse))
    bound = v.bound * max(v.shape[axis], 1)
    return Value(lax.cumsum(v.x, axis, reverse), v.exact and bound < 2000, bound)


def normalised(c: Any) -> Value | None:
    """What softmax and layer norms are made of: a reduction that is repeated along the axis it was over."""
    v = c.pick("f", rank=1)
    if v is None:
        return None
    axes = c.axes(v)
    kept = tuple(d for d in range(len(v.shape)) if d not in axes)
    total = lax.reduce_sum(v.x, axes) if c.choose.random() < 0.6 or not size(v.shape) else lax.reduce_max(v.x, axes)
    total = lax.tanh(total)
    return Value(lax.sub(v.x, lax.broadcast_in_dim(total, v.shape, kept)), False, v.bound + 1)


def sort(c: Any) -> list[Value] | Value | None:
    v = c.pick("iuf", rank=1, exact=True)
    if v is None:
        return None
    axis = c.choose.randrange(len(v.shape))
    w = c.like(v)
    if w.shape == v.shape and c.choose.random() < 0.4:
        a, b = lax.sort((v.x, w.x), dimension=axis, num_keys=1)
        return [v.but(x=a), w.but(x=b)]
    return v.but(x=lax.sort(v.x, axis))


# --- products ----------------------------------------------------------------------------------------------


def dot_general(c: Any) -> Value | None:
    v, w = c.pick(rank=1), c.pick(rank=1)
    if v is None or w is None:
        return None
    same = [u for u in c.values if u.dtype == v.dtype and u.shape]
    if w.dtype != v.dtype:
        w = c.choose.choice(same)
    if c.choose.random() < 0.3:
        w = c.turned(v)
    pairs = [(i, j) for i, n in enumerate(v.shape) for j, m in enumerate(w.shape) if n == m]
    c.choose.shuffle(pairs)
    used: list[tuple[int, int]] = []
    for i, j in pairs:
        if all(i != a and j != b for a, b in used) and c.choose.random() < 0.7:
            used.append((i, j))
    batched = [p for p in used if c.choose.random() < 0.3]
    contracted = [p for p in used if p not in batched]
    numbers = (
        (tuple(i for i, _ in contracted), tuple(j for _, j in contracted)),
        (tuple(i for i, _ in batched), tuple(j for _, j in batched)),
    )
    k = size([v.shape[i] for i, _ in contracted])
    result = size(v.shape) * size(w.shape) // max(k, 1) ** 2 // max(size([v.shape[i] for i, _ in batched]), 1)
    if result > LARGEST_VALUE:
        return None
    bound = v.bound * w.bound * max(k, 1)
    exact = v.exact and w.exact and bound < (2000 if v.dtype == np.float16 else 1e6)
    return Value(lax.dot_general(v.x, w.x, numbers), exact, max(bound, 1))


def update(c: Any) -> Value | None:
    """`p - c * (a @ b + d @ e)`: what products take in."""
    matrices = [v for v in c.values if v.dtype == np.float32 and len(v.shape) == 2 and v.bound <= LARGEST_BOUND]
    pairs = [(a, b) for a in matrices for b in matrices if a.shape[1] == b.shape[0]]
    if not pairs:
        return None
    a, b = c.choose.choice(pairs)
    shape = (a.shape[0], b.shape[1])
    total = lax.dot_general(a.x, b.x, (((1,), (0,)), ((), ())))
    bound, exact = a.bound * b.bound * max(a.shape[1], 1), a.exact and b.exact
    for _ in range(c.choose.randint(0, 2)):
        more = [(d, e) for d, e in pairs if (d.shape[0], e.shape[1]) == shape]
        d, e = c.choose.choice(more)
        term = lax.dot_general(d.x, e.x, (((1,), (0,)), ((), ())))
        total = c.choose.choice([lax.add, lax.sub])(total, term)
        bound += d.bound * e.bound * max(d.shape[1], 1)
        exact = exact and d.exact and e.exact
    if c.choose.random() < 0.6:
        total = lax.mul(total, np.float32(c.choose.choice([2, -1, 3])))
        bound *= 3
    same = [v for v in c.values if v.dtype == np.float32 and v.shape == shape]
    if same:
        p = c.choose.choice(same)
        total = c.choose.choice([lax.add(p.x, total), lax.sub(p.x, total), lax.sub(total, p.x)])
        bound, exact = bound + p.bound, exact and p.exact
    return Value(total, exact and bound < 1e6, bound)


Step = Callable[[Any], "list[Value] | Value | None"]
ELEMENTWISE: list[Step] = [binary, binary, unary, select]
MOVES: list[Step] = [
    reshape, transpose, broadcast, cut, pad, rev, concatenate, dynamic_slice, dynamic_update, take, scatter,
]  # fmt: skip
REDUCTIONS: list[Step] = [reduce, reduce, normalised, cumulative]
PRODUCTS: list[Step] = [dot_general, update, dot_general, update]
DISCRETE: list[Step] = [compare, convert, argmax, sort, compare, convert]
