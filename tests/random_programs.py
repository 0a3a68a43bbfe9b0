"""Random functions made of the operations of `lax`: the same seed gives the same function.

Knows which operations keep results comparable; nothing of compilers. Most values are small whole numbers, so that
two ways of computing them agree to the last bit and choices such as `argmax` never hang on rounding errors.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from functad import lax
from functad.lax import GatherDimensionNumbers, ScatterDimensionNumbers

SIZES = (1, 2, 3, 3, 4, 5, 6, 8)
LARGEST = 600  # elements of one value
DTYPES = ("float32",) * 8 + ("int32", "int32", "float64", "bool", "float16", "uint8", "int8", "complex64")
BOUND = 48  # of exact values; above, they are clamped


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


class RandomFunction:
    """A function of a few arrays.

    Args:
        seed: what it is.
        steps: how many operations it has, about.
        smooth: derivatives exist almost everywhere, and every result is a float: for grad and jvp.
        special: arguments contain NaN, infinities and -0.
        empty: axes may have no elements.
        dtypes: of the arguments.
    """

    def __init__(
        self,
        seed: int,
        steps: int = 14,
        *,
        smooth: bool = False,
        special: bool = False,
        empty: bool = False,
        dtypes: Sequence[str] = DTYPES,
    ) -> None:
        self.seed, self.steps, self.smooth, self.special = seed, steps, smooth, special
        self.sizes = (*SIZES, 0) if empty else SIZES
        self.dtypes = ("float32",) if smooth else tuple(dtypes)
        self.args = self._arguments()

    def _arguments(self) -> list[np.ndarray]:
        choose, rng = random.Random(self.seed), np.random.default_rng(self.seed)
        base = [choose.choice(self.sizes) for _ in range(choose.randint(1, 4))]
        args = []
        for _ in range(choose.randint(2, 4)):
            shape = list(base)
            if choose.random() < 0.4:
                shape = choose.sample(shape, choose.randint(0, len(shape)))
            if choose.random() < 0.2 and shape:
                shape[choose.randrange(len(shape))] = choose.choice(self.sizes)
            while np.prod(shape) > LARGEST:
                shape.pop()
            dtype = np.dtype(choose.choice(self.dtypes))
            args.append(self._array(tuple(shape), dtype, rng))
        return args

    def _array(self, shape: tuple[int, ...], dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
        x = rng.integers(0 if dtype.kind in "bu" else -4, 5, shape)
        result = np.asarray((x % 2 == 1) if dtype.kind == "b" else x).astype(dtype)
        if dtype.kind == "c":
            result = result + 1j * rng.integers(-4, 5, shape).astype(dtype)
        if self.smooth:
            result = result + rng.uniform(-0.25, 0.25, shape).astype(dtype)
        if self.special and dtype.kind == "f":
            odd = np.array([np.nan, np.inf, -np.inf, -0.0], dtype)[rng.integers(0, 4, shape)]
            result = np.where(rng.random(shape) < 0.2, odd, result)
        return np.asarray(result, dtype)

    def __call__(self, *args: Any) -> list[Any]:
        return _Composition(self, args).run()

    def __repr__(self) -> str:
        return f"RandomFunction({self.seed}, steps={self.steps})"


class _Composition:
    def __init__(self, of: RandomFunction, args: Sequence[Any]) -> None:
        self.of = of
        self.choose = random.Random(of.seed + 1_000_003)
        self.values = [Value(x, True, 5.0) for x in args]

    def run(self) -> list[Any]:
        moves = [*ELEMENTWISE * 3, *MOVES * 2, *REDUCTIONS * 2, *PRODUCTS]
        if not self.of.smooth:
            moves += DISCRETE
        for _ in range(self.of.steps):
            made = self.choose.choice(moves)(self)
            if made is not None:
                self.values += [self.bounded(v) for v in (made if isinstance(made, list) else [made])]
        return self.results()

    def results(self) -> list[Any]:
        """Some of the values: mostly the last ones, at times an argument, one value twice, a constant."""
        late = self.values[-3:]
        chosen = [self.choose.choice(late), self.values[-1]]
        chosen += [v for v in self.values if self.choose.random() < 0.15]
        found = [v.x for v in dict.fromkeys(chosen)]
        if self.choose.random() < 0.15:
            found.append(found[0])
        if self.of.smooth:
            return [x for x in found if np.dtype(x.dtype).kind == "f"]
        if self.choose.random() < 0.1:
            found.append(np.float32(2.5))
        return found

    # --- choosing ------------------------------------------------------------------------------------------

    def pick(self, kinds: str = "biufc", rank: int = 0, exact: bool = False) -> Value | None:
        """A value, rather a late one; None if there is none of the kinds."""
        fitting = [
            v
            for v in self.values
            if v.dtype.kind in kinds and len(v.shape) >= rank and (v.exact or not exact)
        ]
        if not fitting:
            return None
        return self.choose.choice(fitting[-4:] if self.choose.random() < 0.6 else fitting)

    def like(self, v: Value) -> Value:
        """A value of the same dtype that can stand beside another one: of its shape, repeated, a scalar, a constant."""
        same = [w for w in self.values if w.dtype == v.dtype and w.shape == v.shape]
        other = self.choose.random()
        if len(same) > 1 and other < 0.6:
            return self.choose.choice(same)
        if other < 0.75:
            smaller = [(w, d) for w in self.values if w.dtype == v.dtype and (d := _fits(w.shape, v.shape)) is not None]
            if smaller:
                w, dims = self.choose.choice(smaller)
                return w.but(x=lax.broadcast_in_dim(w.x, v.shape, dims))
        number = self.choose.choice([1, 2, 3, -1, -2, 0]) if v.dtype.kind in "ifc" else self.choose.choice([0, 1])
        constant = v.dtype.type(number)
        if other < 0.9:
            return Value(lax.full(v.shape, constant), True, 3.0)
        return Value(constant, True, 3.0)

    def bounded(self, v: Value) -> Value:
        if v.dtype.kind not in "fi" or v.bound <= (BOUND if v.exact else 8):
            return v.but(bound=min(v.bound, BOUND)) if v.dtype.kind == "c" else v
        low, high = v.dtype.type(-4), v.dtype.type(4)
        return Value(lax.clamp(low, v.x, high), v.exact, 4.0)

    def axes(self, v: Value, least: int = 1) -> tuple[int, ...]:
        rank = len(v.shape)
        return tuple(sorted(self.choose.sample(range(rank), self.choose.randint(least, rank))))


def _fits(small: tuple[int, ...], large: tuple[int, ...]) -> tuple[int, ...] | None:
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


def _size(shape: Sequence[int]) -> int:
    return int(np.prod(shape, dtype=np.int64))


# --- element by element ------------------------------------------------------------------------------------


def binary(c: _Composition) -> Value | None:
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


def unary(c: _Composition) -> Value | None:
    v = c.pick("f")
    if v is None:
        return None
    smooth = [lax.sin, lax.tanh, lax.cos, lax.logistic, lax.erf]
    if c.choose.random() < 0.5:
        x = c.choose.choice(smooth)(v.x)
        return Value(x, False, 1.0)
    op = c.choose.choice([lax.neg, lax.square] if c.of.smooth or not v.exact else [lax.neg, lax.abs, lax.floor])
    return Value(op(v.x), v.exact, v.bound if op is not lax.square else v.bound**2)


def select(c: _Composition) -> Value | None:
    v = c.pick()
    if v is None:
        return None
    w = c.like(v)
    masks = [m for m in c.values if m.dtype.kind == "b" and m.shape == v.shape]
    if masks:
        mask = c.choose.choice(masks).x
    elif v.shape and _size(v.shape):
        axis = c.choose.randrange(len(v.shape))
        mask = lax.lt(lax.broadcasted_iota(np.int32, v.shape, axis), np.int32(v.shape[axis] // 2))
    else:
        return None
    other = w.x if w.shape == v.shape else lax.full(v.shape, w.x)
    return Value(lax.select(mask, v.x, other), v.exact and w.exact, max(v.bound, w.bound))


def compare(c: _Composition) -> Value | None:
    v = c.pick("biuf", exact=True)
    w = v and c.like(v)
    if v is None or w is None or not w.exact:
        return None
    return Value(c.choose.choice([lax.lt, lax.ge, lax.eq, lax.ne])(v.x, w.x), True, 1)


def convert(c: _Composition) -> Value | None:
    v = c.pick("biuf", exact=True)
    if v is None:
        return None
    choices = ["float32", "float32", "int32", "float16", "bool", "float64", "int8", "complex64"]
    if c.of.special and v.dtype.kind == "f":
        choices = ["float32", "float64", "float16"]
    return Value(lax.convert_element_type(v.x, np.dtype(c.choose.choice(choices))), True, v.bound)


# --- moving ------------------------------------------------------------------------------------------------


def reshape(c: _Composition) -> Value | None:
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
            shape = [_size(shape)]
    return v.but(x=lax.reshape(v.x, shape)) if len(shape) < 6 else None


def transpose(c: _Composition) -> Value | None:
    v = c.pick(rank=2)
    if v is None:
        return None
    permutation = list(range(len(v.shape)))
    c.choose.shuffle(permutation)
    return v.but(x=lax.transpose(v.x, permutation))


def broadcast(c: _Composition) -> Value | None:
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
    return v.but(x=lax.broadcast_in_dim(v.x, shape, dims)) if _size(shape) <= LARGEST else None


def cut(c: _Composition) -> Value | None:
    v = c.pick(rank=1)
    if v is None:
        return None
    low = [c.choose.randint(0, max(n - 1, 0)) if c.choose.random() < 0.5 else 0 for n in v.shape]
    high = [c.choose.randint(a, n) if c.choose.random() < 0.5 else n for a, n in zip(low, v.shape)]
    if not c.of.sizes.count(0):
        high = [max(h, a + 1) for a, h in zip(low, high)]
    steps = [c.choose.choice([1, 1, 1, 2]) for _ in low]
    return v.but(x=lax.slice(v.x, low, high, steps))


def pad(c: _Composition) -> Value | None:
    v = c.pick(rank=1)
    if v is None:
        return None
    config = [(c.choose.choice([0, 0, 1, 2, -1]), c.choose.choice([0, 0, 1, -1]), c.choose.choice([0, 0, 1])) for _ in v.shape]
    shape = [low + n + high + max(n - 1, 0) * inner for n, (low, high, inner) in zip(v.shape, config)]
    if min(shape) < (0 if c.of.sizes.count(0) else 1) or _size(shape) > LARGEST:
        return None
    return v.but(x=lax.pad(v.x, v.dtype.type(c.choose.choice([0, 0, 1])), config))


def rev(c: _Composition) -> Value | None:
    v = c.pick(rank=1)
    return None if v is None else v.but(x=lax.rev(v.x, c.axes(v)))


def concatenate(c: _Composition) -> Value | None:
    v = c.pick(rank=1)
    if v is None:
        return None
    w = c.like(v)
    if w.shape != v.shape or _size(v.shape) > LARGEST // 3:
        return None
    exact, bound = v.exact and w.exact, max(v.bound, w.bound)
    parts = [v.x, w.x, v.x][: c.choose.randint(2, 3)]
    return Value(lax.concatenate(parts, c.choose.randrange(len(v.shape))), exact, bound)


def dynamic_slice(c: _Composition) -> Value | None:
    v = c.pick(rank=1)
    if v is None:
        return None
    sizes = [c.choose.randint(min(n, 1), n) for n in v.shape]
    return v.but(x=lax.dynamic_slice(v.x, [starts(c, n, k) for n, k in zip(v.shape, sizes)], sizes))


def dynamic_update(c: _Composition) -> Value | None:
    v = c.pick(rank=1)
    if v is None:
        return None
    sizes = [c.choose.randint(min(n, 1), n) for n in v.shape]
    patch = lax.slice(v.x, [0] * len(sizes), sizes)
    patch = lax.add(patch, v.dtype.type(1)) if v.dtype.kind != "b" else lax.bitwise_not(patch)
    return v.but(x=lax.dynamic_update_slice(v.x, patch, [starts(c, n, k) for n, k in zip(v.shape, sizes)]), bound=v.bound + 1)


def starts(c: _Composition, n: int, size: int) -> Any:
    """A start index: a constant, or a scalar computed from an integer value."""
    numbers = [v for v in c.values if v.dtype == np.int32 and v.exact]
    if numbers and c.choose.random() < 0.5:
        x = c.choose.choice(numbers).x
        return lax.reduce_sum(x, tuple(range(len(x.shape)))) if x.shape else x
    return np.int32(c.choose.randint(0, n - size))


def take(c: _Composition) -> Value | None:
    v = c.pick(rank=1)
    numbers = [w for w in c.values if w.dtype == np.int32 and len(w.shape) <= 2 and _size(w.shape)]
    if v is None or not numbers or not _size(v.shape):
        return None
    index = c.choose.choice(numbers)
    axis = c.choose.randrange(len(v.shape))
    sizes = [1 if d == axis else n for d, n in enumerate(v.shape)]
    if _size(sizes) * _size(index.shape) > LARGEST:
        return None
    rank = len(index.shape)
    offsets = tuple(d + rank if d >= axis else d for d in range(len(v.shape) - 1))
    numbers_ = GatherDimensionNumbers(
        tuple(sorted(offsets if axis == 0 else range(rank, rank + len(v.shape) - 1))), (axis,), (axis,)
    )
    mode = c.choose.choice(["clip", "fill"])
    x = lax.gather(v.x, lax.reshape(index.x, (*index.shape, 1)), numbers_, sizes, mode=mode, fill_value=0)
    return v.but(x=x)


def scatter(c: _Composition) -> Value | None:
    v = c.pick("ifu", rank=1)
    numbers = [w for w in c.values if w.dtype == np.int32 and len(w.shape) == 1 and _size(w.shape)]
    if v is None or not numbers or not _size(v.shape):
        return None
    index = c.choose.choice(numbers)
    updates_shape = (*index.shape, *v.shape[1:])
    if _size(updates_shape) > LARGEST:
        return None
    same = [w for w in c.values if w.dtype == v.dtype and w.shape == updates_shape]
    updates = c.choose.choice(same) if same else Value(lax.full(updates_shape, v.dtype.type(2)), True, 2)
    rows = ScatterDimensionNumbers(tuple(range(1, len(v.shape))), (0,), (0,))
    bound = v.bound + updates.bound * _size(index.shape)
    ops = [lax.scatter_add, lax.scatter_max, lax.scatter_min]
    op = c.choose.choice(ops if v.exact and updates.exact and not c.of.special else ops[:1])
    x = op(v.x, lax.reshape(index.x, (*index.shape, 1)), updates.x, rows)
    return Value(x, v.exact and updates.exact and bound < 4000, bound)


# --- reducing ----------------------------------------------------------------------------------------------


def reduce(c: _Composition) -> Value | None:
    v = c.pick(rank=1)
    if v is None:
        return None
    axes = c.axes(v)
    count = _size([v.shape[d] for d in axes])
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


def argmax(c: _Composition) -> Value | None:
    v = c.pick("biuf", rank=1, exact=True)
    if v is None or not _size(v.shape):
        return None
    op = c.choose.choice([lax.argmax, lax.argmin])
    return Value(op(v.x, c.choose.randrange(len(v.shape)), np.int32), True, 8)


def cumulative(c: _Composition) -> Value | None:
    v = c.pick("iuf", rank=1)
    if v is None:
        return None
    axis = c.choose.randrange(len(v.shape))
    reverse = c.choose.random() < 0.4
    if v.exact and not c.of.smooth and c.choose.random() < 0.4:
        return v.but(x=c.choose.choice([lax.cummax, lax.cummin])(v.x, axis, reverse))
    bound = v.bound * max(v.shape[axis], 1)
    return Value(lax.cumsum(v.x, axis, reverse), v.exact and bound < 2000, bound)


def normalised(c: _Composition) -> Value | None:
    """What softmax and layer norms are made of: a reduction that is repeated along the axis it was over."""
    v = c.pick("f", rank=1)
    if v is None:
        return None
    axes = c.axes(v)
    kept = tuple(d for d in range(len(v.shape)) if d not in axes)
    total = lax.reduce_sum(v.x, axes) if c.choose.random() < 0.6 or not _size(v.shape) else lax.reduce_max(v.x, axes)
    total = lax.tanh(total)
    return Value(lax.sub(v.x, lax.broadcast_in_dim(total, v.shape, kept)), False, v.bound + 1)


def sort(c: _Composition) -> list[Value] | Value | None:
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


def dot_general(c: _Composition) -> Value | None:
    v, w = c.pick(rank=1), c.pick(rank=1)
    if v is None or w is None:
        return None
    same = [u for u in c.values if u.dtype == v.dtype and u.shape]
    if w.dtype != v.dtype:
        w = c.choose.choice(same)
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
    k = _size([v.shape[i] for i, _ in contracted])
    result = _size(v.shape) * _size(w.shape) // max(k, 1) ** 2 // max(_size([v.shape[i] for i, _ in batched]), 1)
    if result > LARGEST:
        return None
    bound = v.bound * w.bound * max(k, 1)
    exact = v.exact and w.exact and bound < (2000 if v.dtype == np.float16 else 1e6)
    return Value(lax.dot_general(v.x, w.x, numbers), exact, max(bound, 1))


def update(c: _Composition) -> Value | None:
    """`p - c * (a @ b + d @ e)`: what products take in."""
    matrices = [v for v in c.values if v.dtype == np.float32 and len(v.shape) == 2 and v.bound <= BOUND]
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


Step = Callable[[_Composition], "list[Value] | Value | None"]
ELEMENTWISE: list[Step] = [binary, binary, unary, select]
MOVES: list[Step] = [
    reshape, transpose, broadcast, cut, pad, rev, concatenate, dynamic_slice, dynamic_update, take, scatter,
]  # fmt: skip
REDUCTIONS: list[Step] = [reduce, reduce, normalised, cumulative]
PRODUCTS: list[Step] = [dot_general, update, dot_general, update]
DISCRETE: list[Step] = [compare, convert, argmax, sort, compare, convert]
