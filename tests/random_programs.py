"""Random functions made of the operations of `lax`: the same seed gives the same function.

Knows which operations keep results comparable; nothing of compilers. Most values are small whole numbers, so that
two ways of computing them agree to the last bit and choices such as `argmax` never hang on rounding errors.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
from random_operations import (
    DISCRETE,
    ELEMENTWISE,
    LARGEST_BOUND,
    LARGEST_VALUE,
    MOVES,
    PRODUCTS,
    REDUCTIONS,
    Value,
    fits,
)

from functad import lax

SIZES = (1, 2, 3, 3, 4, 5, 6, 8)
DTYPES = ("float32",) * 8 + ("int32", "int32", "float64", "bool", "float16", "uint8", "int8", "complex64")


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
            while np.prod(shape) > LARGEST_VALUE:
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
        fitting = [v for v in self.values if v.dtype.kind in kinds and len(v.shape) >= rank and (v.exact or not exact)]
        if not fitting:
            return None
        return self.choose.choice(fitting[-4:] if self.choose.random() < 0.6 else fitting)

    def like(self, v: Value) -> Value:
        """A value of the same dtype that can stand beside another one: of its shape, repeated, a scalar, a constant."""
        same = [w for w in self.values if w.dtype == v.dtype and w.shape == v.shape]
        other = self.choose.random()
        if v.shape and other < 0.1:
            return self.turned(v)
        if len(same) > 1 and other < 0.6:
            return self.choose.choice(same)
        if other < 0.75:
            smaller = [(w, d) for w in self.values if w.dtype == v.dtype and (d := fits(w.shape, v.shape)) is not None]
            if smaller:
                w, dims = self.choose.choice(smaller)
                return w.but(x=lax.broadcast_in_dim(w.x, v.shape, dims))
        number = self.choose.choice([1, 2, 3, -1, -2, 0]) if v.dtype.kind in "ifc" else self.choose.choice([0, 1])
        constant = v.dtype.type(number)
        if other < 0.9:
            return Value(lax.full(v.shape, constant), True, 3.0)
        return Value(constant, True, 3.0)

    def turned(self, v: Value) -> Value:
        """The same elements at other places: reversed, one row everywhere, transposed where that fits."""
        axis = self.choose.randrange(len(v.shape))
        n, kind = v.shape[axis], self.choose.random()
        if kind < 0.3 and n:
            start = self.choose.randrange(n)
            row = lax.slice(
                v.x,
                [start if d == axis else 0 for d in range(len(v.shape))],
                [start + 1 if d == axis else k for d, k in enumerate(v.shape)],
            )
            return v.but(x=lax.broadcast_in_dim(row, v.shape, range(len(v.shape))))
        if kind < 0.6 and len(v.shape) > 1 and len(set(v.shape)) == 1:
            return v.but(x=lax.transpose(v.x, range(len(v.shape))[::-1]))
        return v.but(x=lax.rev(v.x, (axis,)))

    def bounded(self, v: Value) -> Value:
        if v.dtype.kind not in "fi" or v.bound <= (LARGEST_BOUND if v.exact else 8):
            return v.but(bound=min(v.bound, LARGEST_BOUND)) if v.dtype.kind == "c" else v
        low, high = v.dtype.type(-4), v.dtype.type(4)
        return Value(lax.clamp(low, v.x, high), v.exact, 4.0)

    def axes(self, v: Value, least: int = 1) -> tuple[int, ...]:
        rank = len(v.shape)
        return tuple(sorted(self.choose.sample(range(rank), self.choose.randint(least, rank))))
