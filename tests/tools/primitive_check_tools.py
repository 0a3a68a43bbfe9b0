"""What the checks of primitives are made of: cases, directions, stacks to map over, and comparisons.

Knows no rule of a primitive.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from functad import dtypes
from functad.array import ArrayImpl
from functad.dtypes import kind_of
from functad.errors import FunctadError
from functad.evaluation import aval_of, infer_avals
from functad.ir import Example, Primitive, Zero, subprograms
from functad.tracing import bind

BATCH = 3  # size of the mapped axis
OUTER_BATCH = 2  # of the outer axis of two nested ones
STEP = 1e-5  # of the central differences: errors of about 1e-10 from the third derivative and from rounding


class Case(NamedTuple):
    """One example of one primitive."""

    primitive: Primitive
    index: int
    example: Example

    def __str__(self) -> str:
        return f"{self.primitive.name}-{self.index}"

    def describe(self) -> str:
        types = ", ".join(aval_of(a).str_short() for a in self.example.args)
        return f"primitive `{self.primitive.name}`, example {self.index} ({types}; {self.example.params})"


# --- arguments ----------------------------------------------------------------------------------------


def function_of(primitive: Primitive, example: Example) -> Callable[..., list[Any]]:
    return lambda *args: list(as_list(primitive, bind(primitive, *args, **example.params)))


def widened(case: Case) -> tuple[Callable[..., list[Any]], list[Any]]:
    """The function and its arguments with every float and every float dtype parameter in 64 bits."""
    primitive, params = case.primitive, wide_params(case.example.params)
    args = [to_array(np.asarray(a).astype(_wide_dtype(np.asarray(a).dtype))) for a in case.example.args]
    if any(True for _ in subprograms(case.example.params)):
        narrow = [a for a in case.example.args if _wide_dtype(np.asarray(a).dtype) != np.asarray(a).dtype]
        assert not narrow, f"{case.describe()}: examples with a Program as parameter need float64 arguments"
    infer_avals(primitive, [aval_of(a) for a in args], params)  # a clear error where 64 bits are not accepted
    return (lambda *values: list(as_list(primitive, bind(primitive, *values, **params)))), args


def wide_params(params: dict[str, Any]) -> dict[str, Any]:
    return {k: _wide_dtype(v) if isinstance(v, np.dtype) else v for k, v in params.items()}


def _wide_dtype(dtype: np.dtype) -> np.dtype:
    return {"f": dtypes.float64, "c": dtypes.complex128}.get(kind_of(dtype), dtype)


def to_arrays(args: Sequence[Any]) -> list[ArrayImpl]:
    return [to_array(a) for a in args]


def to_array(x: Any) -> ArrayImpl:
    return ArrayImpl(np.array(x))


def float_positions(args: Sequence[Any]) -> tuple[int, ...]:
    return tuple(i for i, a in enumerate(args) if kind_of(a.dtype) in "fc")


def inexact(results: Sequence[Any]) -> list[Any]:
    return [r for r in results if kind_of(r.dtype) in "fc"]


def random_directions(args: Sequence[Any], which: Sequence[int], seed: int = 1) -> dict[int, np.ndarray]:
    """A random array of the type of each chosen argument."""
    rng = np.random.default_rng(seed)
    chosen = {}
    for i in which:
        a = args[i]
        d = rng.standard_normal(a.shape)
        if kind_of(a.dtype) == "c":
            d = d + 1j * rng.standard_normal(a.shape)
        chosen[i] = np.asarray(d, a.dtype)
    return chosen


def with_zeros(args: Sequence[Any], tangents: dict[int, Any]) -> list[Any]:
    return [to_array(tangents[i]) if i in tangents else Zero(aval_of(a)) for i, a in enumerate(args)]


def as_list(primitive: Primitive, results: Any) -> Sequence[Any]:
    return results if primitive.multiple_results else [results]


# --- stacks of arguments -----------------------------------------------------------------------------


def dim_choices(args: Sequence[np.ndarray]) -> list[tuple[int | None, ...]]:
    """Each argument not mapped, mapped in front, or at its end; with many arguments, not all mixtures."""
    if len(args) <= 3:
        choices = list(itertools.product(*[dict.fromkeys((None, 0, a.ndim)) for a in args]))
    else:
        choices = list(itertools.product(*[(None, 0) for _ in args])) if len(args) <= 6 else []
        choices += [tuple(0 for _ in args), tuple(a.ndim for a in args)]
        choices += [tuple(a.ndim if i == j else None for i, a in enumerate(args)) for j in range(len(args))]
    return [c for c in dict.fromkeys(choices) if any(d is not None for d in c)]


def stacks_of(primitive: Primitive, args: Sequence[np.ndarray], params: Any, size: int) -> list[np.ndarray]:
    """Each argument stacked with rearrangements of itself, which mostly stay in the operation's domain."""
    return [_stack(primitive, args, params, i, size) for i in range(len(args))]


def _stack(primitive: Primitive, args: Sequence[np.ndarray], params: Any, i: int, size: int) -> np.ndarray:
    x = args[i]
    if x.ndim == 0 and kind_of(x.dtype) in "fc":
        return np.stack([x * x.dtype.type(1 - 0.125 * k) for k in range(size)])
    if x.ndim == 0:
        rows = [x, *[x // (k + 1) if kind_of(x.dtype) in "iu" else x ^ bool(k % 2) for k in range(1, size)]]
    elif kind_of(x.dtype) in "fc":
        rows = [np.roll(x.ravel(), k).reshape(x.shape) for k in range(size)]
    else:
        rows = [np.roll(x, k, axis=0) for k in range(size)]
    try:
        with np.errstate(all="ignore"):
            for row in rows:
                primitive.impl(*[row if j == i else a for j, a in enumerate(args)], **params)
    except FunctadError:  # indices that would leave their array
        rows = [x] * size
    return np.stack([np.asarray(row, x.dtype) for row in rows])


def select_row(args: Sequence[Any], stacks: Sequence[Any], dims: Sequence[int | None], k: int) -> list[Any]:
    return [to_array(a if d is None else s[k]) for a, s, d in zip(args, stacks, dims)]


def nested_stack(stack: np.ndarray, outer: bool, inner: bool) -> np.ndarray:
    if outer and inner:
        return stack.reshape(OUTER_BATCH, 2, *stack.shape[1:])
    return stack[:OUTER_BATCH] if outer else stack[:2] if inner else stack[0]


def pick_from_nested(x: np.ndarray, o: int, n: int, outer: bool, inner: bool) -> ArrayImpl:
    if outer:
        x = x[o]
    return to_array(x[n] if inner else x)


# --- differences ------------------------------------------------------------------------------------


def differences(fun: Any, args: Sequence[Any], directions: dict[int, Any]) -> list[Any]:
    """Central differences of the float results along a direction; None for the others."""

    def moved(step: float) -> list[Any]:
        shifted = [
            ArrayImpl(np.asarray(a) + step * directions[i]) if i in directions else a for i, a in enumerate(args)
        ]
        return [np.asarray(o) for o in fun(*shifted)]

    results = []
    for up, down in zip(moved(STEP), moved(-STEP)):
        with np.errstate(invalid="ignore"):  # equal infinities, as of the maximum of nothing
            change = np.where(up == down, 0, up - down) / (2 * STEP) if kind_of(up.dtype) in "fc" else None
        results.append(change)
    return results


# --- comparisons --------------------------------------------------------------------------------------


def assert_close(found: np.ndarray, expected: np.ndarray, tolerance: float, label: str) -> None:
    excess = np.abs(found - expected) - tolerance * (1 + np.abs(expected))
    if found.size and not np.max(excess) <= 0:
        raise AssertionError(f"{label}: found\n{found}\nexpected\n{expected}\n(tolerance {tolerance})")


def assert_equal_products(left: Any, right: Any, tolerance: float, label: str) -> None:
    """Compare two inner products, the real part of sum(a * b), relative to the size of their terms."""
    pairs = [[np.asarray(a) * np.asarray(b) for a, b in side] for side in (left, right)]
    found, expected = (sum(float(np.sum(p).real) for p in side) for side in (pairs[1], pairs[0]))
    scale = 1 + max(sum(float(np.sum(np.abs(p))) for p in side) for side in pairs)
    if not abs(found - expected) <= tolerance * scale:
        raise AssertionError(f"{label}: found {found}, expected {expected} (tolerance {tolerance * scale})")


def assert_same(found: np.ndarray, expected: np.ndarray, label: str) -> None:
    same_type = found.dtype == expected.dtype and found.shape == expected.shape
    exact = kind_of(expected.dtype) not in "fc"
    rtol = 0.0 if exact else float(np.finfo(expected.dtype).eps) * 50
    if not (same_type and np.allclose(found, expected, rtol=rtol, atol=rtol, equal_nan=True)):
        types = f"{found.dtype}{list(found.shape)} and {expected.dtype}{list(expected.shape)}"
        raise AssertionError(f"{label} ({types}): found\n{found}\nexpected\n{expected}")


def assert_raises(call: Callable[[], Any], error: type[Exception], why: str, label: str) -> None:
    try:
        call()
    except error as raised:
        assert why in str(raised), f"{label}: raised {raised}, which does not give the reason: {why}"
    else:
        raise AssertionError(f"{label}: declared Absent, but it did not raise")
