"""Errors in ulp, and the operands that they are looked for at. Knows no function in particular."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numba import njit

Function = Callable[..., Any]
CHUNK = 1 << 20
APART = 1021  # one in so many values of a quick reference is compared with the exact one
_WIDER = {np.dtype(np.float32): np.float64, np.dtype(np.float64): np.longdouble}


class Worst(NamedTuple):
    """The largest error, and where it is."""

    ulp: float
    at: tuple[float, ...]


def ulps(result: np.ndarray, truth: np.ndarray, least: Any = 0.0) -> np.ndarray:
    """The distances of floats from truths of a wider type, in ulp of the truth; NaN for NaN is right.

    Smaller results than `least` (a number, or one for each) have its ulp, and subnormal ones the least subnormal
    number. Infinity counts as the power of two after the largest float.
    """
    info = np.finfo(result.dtype)
    limit = np.ldexp(truth.dtype.type(1), int(info.maxexp))
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(np.maximum(np.abs(truth), np.maximum(least, info.tiny).astype(truth.dtype)))
        unit = np.ldexp(truth.dtype.type(1), np.clip(exponent, info.minexp + 1, info.maxexp) - info.nmant - 1)
        distance = np.abs(np.clip(result.astype(truth.dtype), -limit, limit) - np.clip(truth, -limit, limit)) / unit
    distance = np.where(np.isinf(truth), np.where(result == truth, 0, np.inf), distance)
    distance = np.where(np.isnan(result) & np.isnan(truth), 0, distance)
    return np.asarray(np.where(np.isnan(distance), np.inf, distance))


@njit(nogil=True, error_model="numpy", cache=False)
def ulps_of_singles(result: np.ndarray, truth: np.ndarray, least: float) -> np.ndarray:
    """`ulps` of float32 results, in a twentieth of the time."""
    errors, tiny, limit = np.empty(result.size), max(least, 2.0**-126), 2.0**128
    for i in range(result.size):
        x, y = np.float64(result[i]), truth[i]
        size = np.float64(min(max(abs(y), tiny), 2.0**127))
        power = np.uint64(size.view(np.uint64) & np.uint64(0x7FF << 52)).view(np.float64)
        distance = abs(min(max(x, -limit), limit) - min(max(y, -limit), limit)) / power * 2.0**23
        error = np.inf if np.isnan(x) != np.isnan(y) or np.isinf(y) else distance
        errors[i] = 0.0 if x == y or (np.isnan(x) and np.isnan(y)) else error
    return errors


def worst_errors(
    functions: Sequence[Function],
    exact: Function,
    chunks: Iterator[tuple[np.ndarray, ...]],
    threads: int = 1,
    least: Any = 0.0,
    quick: Function | None = None,
) -> list[Worst]:
    """The largest error of each function over chunks of operands of equal shape.

    `quick` is a reference of float64 that is good to a small part of a float32's ulp. It finds where the largest error
    of a chunk is; how large that is, the exact reference says, which is compared with it at some points, too.
    """

    def of_chunk(operands: tuple[np.ndarray, ...]) -> list[Worst]:
        with np.errstate(all="ignore"):
            truth = _truth(exact, quick, operands, least)
            return [_worst(function, exact, truth, operands, least) for function in functions]

    best = [Worst(0.0, ())] * len(functions)
    with ThreadPoolExecutor(threads) as pool:
        waiting = iter(chunks)
        for group in iter(lambda: list(itertools.islice(waiting, 8 * threads)), []):  # few chunks at a time in memory
            for found in pool.map(of_chunk, group):
                best = [max(pair, key=lambda worst: worst.ulp) for pair in zip(best, found)]
    return best


def _exactly(exact: Function, operands: Sequence[np.ndarray]) -> np.ndarray:
    wider = _WIDER[operands[0].dtype]
    return np.asarray(exact(*(x.astype(wider) for x in operands)), wider)


def _truth(exact: Function, quick: Function | None, operands: Sequence[np.ndarray], least: Any) -> np.ndarray:
    if quick is None or operands[0].dtype != np.float32:
        return _exactly(exact, operands)
    truth = np.asarray(quick(*(x.astype(np.float64) for x in operands)))
    some = _exactly(exact, [x[::APART] for x in operands])
    if ulps(truth[::APART], some.astype(np.longdouble), least).max() > 2.0**12:  # of float64: 2^-17 of float32's
        return _exactly(exact, operands)
    return truth


def _worst(function: Function, exact: Function, truth: np.ndarray, operands: Any, least: Any) -> Worst:
    result = np.asarray(function(*operands))
    size = least(truth, *operands) if callable(least) else least
    error = (ulps_of_singles if result.dtype == np.float32 else ulps)(result, truth, size)
    at = slice(int(error.argmax()), int(error.argmax()) + 1)
    there = [x[at] for x in operands]
    truth = _exactly(exact, there)
    worst = ulps(result[at], truth, least(truth, *there) if callable(least) else least)[0]
    return Worst(float(worst), tuple(float(x[0]) for x in there))


# --- operands ---------------------------------------------------------------------------------------


def single_operands(sample: int) -> Iterator[tuple[np.ndarray]]:
    """All 2^32 patterns of float32, or so many of them at equal distances and the hard cases."""
    if sample == 1 << 32:
        for start in range(0, 1 << 32, CHUNK):
            yield (np.arange(start, start + CHUNK, dtype=np.int64).astype(np.uint32).view(np.float32),)
        return
    step = max((1 << 32) // sample | 1, 1)
    patterns = np.arange(0, 1 << 32, step, dtype=np.int64).astype(np.uint32).view(np.float32)
    for x in (patterns, dense(np.dtype(np.float32), sample, seed=0)):
        yield from ((part,) for part in _parts(x))


def double_operands(sample: int) -> Iterator[tuple[np.ndarray]]:
    """Patterns of float64 at random, dense samples of what is usual, and the hard cases."""
    patterns = np.random.default_rng(1).integers(0, 1 << 64, sample, np.uint64).view(np.float64)
    for x in (patterns, dense(np.dtype(np.float64), sample, seed=0)):
        yield from ((part,) for part in _parts(x))


def pairs(dtype: np.dtype, sample: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Operands of functions of two numbers: of any sizes, usual ones, and close to where such functions vanish."""
    rng = np.random.default_rng(2)
    unsigned = np.dtype(f"u{dtype.itemsize}")
    patterns = rng.integers(0, np.iinfo(unsigned).max, (2, sample), unsigned, endpoint=True).view(dtype)
    usual = rng.uniform(-20, 20, (2, sample)).astype(dtype)
    near_one = np.stack([1 + rng.uniform(-1e-3, 1e-3, sample), rng.uniform(-7e4, 7e4, sample)]).astype(dtype)
    negative = rng.uniform(-3, -0.01, sample).astype(dtype)
    balanced = np.stack([negative, np.log(-np.expm1(negative.astype(np.float64))) + rng.uniform(-0.01, 0.01, sample)])
    small = -np.exp(rng.uniform(-87, -0.4, sample // 64 + 1))  # and what almost cancels it, rounded
    cancelling = np.stack([small, np.log(-np.expm1(small.astype(dtype).astype(np.float64)))])
    info, base = np.finfo(dtype), rng.uniform(0.5, 2, sample).astype(dtype)
    exponents = rng.uniform(info.minexp - info.nmant, info.maxexp, sample)
    at_ends = np.stack([base, (exponents / np.log2(base.astype(np.float64))).astype(dtype)])  # of powers
    hard = hard_cases(dtype)
    crossed = np.stack([rng.choice(hard, sample), rng.choice(hard, sample)])
    for x, y in (patterns, usual, near_one, balanced.astype(dtype), cancelling.astype(dtype), at_ends, crossed):
        yield from zip(_parts(x), _parts(y))


def dense(dtype: np.dtype, count: int, seed: int) -> np.ndarray:
    """The hard cases, and numbers from ranges where functions bend, in random order."""
    rng = np.random.default_rng(seed)
    ends = [(-1.0, 1.0), (-4.0, 4.0), (0.4, 2.5), (-12.0, 12.0), (-104.0, 104.0), (-750.0, 750.0), (-1e5, 1e5)]
    parts = [rng.uniform(*pair, count // len(ends)) for pair in ends]
    return rng.permutation(np.concatenate([hard_cases(dtype), *parts]).astype(dtype))


def hard_cases(dtype: np.dtype) -> np.ndarray:
    """Neighbours of powers of two, of multiples of π/2, of ends of domains and ranges; subnormals; special values."""
    info = np.finfo(dtype)
    with np.errstate(over="ignore"):
        powers = np.ldexp(dtype.type(1), np.arange(int(info.minexp) - info.nmant, int(info.maxexp)))
        turns = (np.arange(1, 4000, dtype=np.longdouble) * (np.longdouble(np.pi) / 2)).astype(dtype)
        far = (np.ldexp(np.longdouble(np.pi), np.arange(12, int(info.maxexp) - 3))).astype(dtype)
    ends = [1.0, 0.5, 0.25, np.e, np.log(float(info.max)), np.log(float(info.tiny)), np.log(2.0), np.log(3.0), 0.6931]
    ends += [np.log2(float(info.max)), -np.log2(float(info.tiny)) + info.nmant + 1, 9.1, 19.1, 0.84, 1.4616321449683622]
    at = np.concatenate([powers, turns, far, np.array(ends, dtype)])
    near = [at]
    for direction in (-np.inf, np.inf):
        x = at
        for _ in range(4):
            x = np.nextafter(x, dtype.type(direction))
            near.append(x)
    close = [dtype.type(1) + s * powers[powers < 0.5] for s in (-1, 1)]
    special = np.array([0.0, np.inf, np.nan, info.max, info.tiny, info.smallest_subnormal], dtype)
    positive = np.concatenate([*near, *close, special])
    return np.concatenate([positive, -positive])


def _parts(x: np.ndarray) -> Iterator[np.ndarray]:
    """The array in chunks of one length, for each of which a function is compiled once; the last is filled up."""
    size = min(CHUNK, 1 << max(len(x) - 1, 1).bit_length())
    for start in range(0, len(x), size):
        part = x[start : start + size]
        yield part if len(part) == size else np.concatenate([part, np.resize(x, size - len(part))])
