"""The arithmetic of formulas on NumPy's scalars and arrays: every formula is also a plain function.

It must not know formulas, nor the machine code that `backends.cpu.scalars.elementary_numba` makes of them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.dtypes import kind_of
from functad.primitives.kernels import extrema, scalar_formulas
from functad.system.quiet import quietly

Formula = Callable[..., Any]


_FLOATS = (np.float32, np.float64)
_INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
_HELD_BY = {t: range(np.iinfo(t).min, np.iinfo(t).max + 1) for t in _INTEGERS}


class Arithmetic:
    """What any arithmetic does by its other operations."""

    def horner(self, x: Any, coefficients: Sequence[Any]) -> Any:
        """A polynomial in x by Horner's rule; the coefficients, that of the highest power first, may differ among x."""
        total = coefficients[0]
        for coefficient in coefficients[1:]:
            total = self.fma(total, x, coefficient)
        return total

    def fma(self, x: Any, y: Any, z: Any) -> Any:
        raise NotImplementedError


class PlainArithmetic(Arithmetic):
    """What a formula may do besides operators, done by NumPy. `IRArithmetic` does the same with LLVM instructions."""

    prefers_libm = False  # whether the C library's functions of float64 are quicker than formulas with tables
    has_parts = False  # whether the machine has instructions for `ldexp`, `frexp` and `log_at_ends`

    def __init__(self, strict: bool = False) -> None:
        self.strict = strict

    def strictly(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        """An arithmetic in which every operation rounds as IEEE 754 says, and the operands for it."""
        return (PlainArithmetic(strict=True), *operands)

    def constant(self, value: Any, dtype: Any) -> Any:
        return np.dtype(dtype).type(value)

    def constants(self, values: Sequence[float], dtype: Any) -> Sequence[Any]:
        return [self.constant(value, dtype) for value in values]

    def cast(self, x: Any, dtype: Any) -> Any:
        # Scalars without arrays first: kernels run by Python have many.
        if type(x) is dtype:
            return x
        if type(x) is float and dtype in _FLOATS or type(x) is int and x in _HELD_BY.get(dtype, ()):
            return dtype(x)
        x, dtype = np.asarray(x), np.dtype(dtype)
        if kind_of(x.dtype) == "c" and kind_of(dtype) != "c":
            return x != 0 if kind_of(dtype) == "b" else self.cast(x.real, dtype)
        if kind_of(x.dtype) == "f" and kind_of(dtype) in "iu":
            return scalar_formulas.float_to_integer(self, x[()], dtype)
        return _scalar(x.astype(dtype))

    def truncated(self, x: Any, dtype: Any) -> Any:
        """x towards zero, where the integer dtype holds that; anything elsewhere."""
        return _scalar(np.asarray(x).astype(dtype))

    def bits(self, x: Any) -> Any:
        x = np.asarray(x)
        return _scalar(x.view(f"u{x.dtype.itemsize}"))

    def from_bits(self, x: Any, dtype: Any) -> Any:
        return _scalar(np.asarray(x).view(dtype))

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        if isinstance(condition, np.bool_) and isinstance(x, np.generic) and type(x) is type(y):
            return x if condition else y
        return _scalar(np.where(condition, x, y))

    def either(self, condition: Any, first: Sequence[float], second: Sequence[float], dtype: Any) -> Sequence[Any]:
        """The first constants where the condition holds, the second elsewhere."""
        columns = np.array([first, second], dtype).reshape(2, len(first), *(1,) * np.ndim(condition))
        return list(np.where(condition, columns[0], columns[1]))

    def first_of(self, *conditions: Any) -> Any:
        """Which of the conditions is the first that holds, or that none does: for `one_of`."""
        which: Any = len(conditions)
        for i in reversed(range(len(conditions))):
            which = np.where(conditions[i], i, which)
        return which

    def one_of(self, which: Any, values: Sequence[float], dtype: Any) -> Any:
        """The constant for the condition that `first_of` found; the last is for none."""
        return np.array(values, dtype)[which]

    def is_zero(self, x: Any) -> bool:
        """Whether x is always 0, so far as the text of a kernel says."""
        return False

    def rarely(self, condition: Any, usual: Any, formula: Formula, *operands: Any, optimized: bool = True) -> Any:
        """`usual`, but where the condition holds, the formula of the operands, which is computed only there.

        optimized: whether the formula is worth the time of optimising it, when compiled.
        """
        where = np.asarray(condition)
        if not where.any():
            return usual
        result = np.array(np.broadcast_to(usual, where.shape))
        result[where] = formula(self, *(np.broadcast_to(x, where.shape)[where] for x in operands))
        return _scalar(result)

    def fma(self, x: Any, y: Any, z: Any) -> Any:
        """x y + z, rounded once where the machine can: formulas may rely on neither. Strictly, rounded twice."""
        if not self.strict and isinstance(x, np.float32):  # a scalar, without arrays: kernels run by Python have many
            if not isinstance(y, np.ndarray) and not isinstance(z, np.ndarray):
                return np.float32(float(x) * float(y) + float(z))
        if not self.strict and np.asarray(x).dtype == np.float32:
            return np.float32(1) * (_double(x) * _double(y) + _double(z)).astype(np.float32)
        return x * y + z

    def value_at(self, table: Sequence[float], index: Any, dtype: Any) -> Any:
        """The number of a constant table of 2^k at the place that the lowest bits of the index give.

        The index is as wide as the numbers.
        """
        return _scalar(np.array(table, dtype)[np.asarray(index) & np.uint32(len(table) - 1)])

    def ldexp(self, x: Any, n: Any) -> Any:
        """2^⌊n⌋ x, rounded once; n is of the same dtype."""
        return _scalar(np.ldexp(x, np.floor(n).astype(np.int32)))

    def frexp(self, x: Any) -> tuple[Any, Any]:
        """m and a whole number e, a float, with x = 2^e m and 1 ≤ m < 2, for all x > 0; any others elsewhere."""
        mantissa, exponent = np.frexp(x)
        return mantissa + mantissa, _scalar(np.asarray(exponent - 1, x.dtype))

    def log_at_ends(self, result: Any, x: Any) -> Any:
        """The result, but −∞ where x is 0, NaN below, and x itself where that is ∞ or NaN."""
        below = self.where(x == 0, self.constant(-np.inf, x.dtype), self.constant(np.nan, x.dtype))
        return self.where(x < np.inf, self.where(x > 0, result, below), x)

    def row_of(self, table: Sequence[Sequence[float]], index: Any) -> list[Any]:
        """The numbers in one row of a constant table of float64."""
        if not isinstance(index, np.ndarray):
            return [np.float64(value) for value in table[index]]
        return list(np.moveaxis(np.array(table)[index], -1, 0))

    def product_error(self, x: Any, y: Any, product: Any) -> Any:
        """x y − product, exactly, for numbers of moderate size: of halves of 26 bits all products are exact."""
        if np.asarray(x).dtype == np.float32:
            return _scalar((_double(x) * _double(y) - _double(product)).astype(np.float32))
        (x_high, x_low), (y_high, y_low) = _halves(x), _halves(y)
        error = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
        return self.where(product == 0, np.abs(product), error)  # a factor of 0: the other may be of any size

    def maximum(self, x: Any, y: Any) -> Any:
        return extrema.maximum(x, y)

    def minimum(self, x: Any, y: Any) -> Any:
        return extrema.minimum(x, y)

    def sqrt(self, x: Any) -> Any:
        return np.sqrt(x)

    def absolute(self, x: Any) -> Any:
        return np.abs(x)

    def copysign(self, x: Any, y: Any) -> Any:
        return np.copysign(x, y)

    def floor(self, x: Any) -> Any:
        return np.floor(x)

    def ceil(self, x: Any) -> Any:
        return np.ceil(x)

    def trunc(self, x: Any) -> Any:
        return np.trunc(x)

    def rint(self, x: Any) -> Any:
        return np.rint(x)

    def quotient(self, x: Any, y: Any) -> Any:
        """x / y of integers, towards zero; y is not 0, and not −1 of a signed dtype."""
        return (x - np.fmod(x, y)) // y

    def remainder(self, x: Any, y: Any) -> Any:
        """What is left of x, of its sign, after taking y away as often as fits; integers y as for `quotient`."""
        return np.fmod(x, y)

    def bit_count(self, x: Any) -> Any:
        x = np.asarray(x)
        return _scalar(np.bitwise_count(x.view(f"u{x.dtype.itemsize}")).astype(x.dtype))

    def leading_zeros(self, x: Any) -> Any:
        x = np.asarray(x)
        unsigned = x.view(f"u{x.dtype.itemsize}").copy()
        for shift in (1, 2, 4, 8, 16, 32):
            if shift < 8 * x.dtype.itemsize:
                unsigned |= unsigned >> unsigned.dtype.type(shift)
        return _scalar((8 * x.dtype.itemsize - np.bitwise_count(unsigned).astype(np.int64)).astype(x.dtype))

    def half_bits(self, x: Any) -> Any:
        return _scalar(np.asarray(x).astype(np.float16).view(np.uint16))

    def from_half_bits(self, x: Any) -> Any:
        return _scalar(np.asarray(x).view(np.float16).astype(np.float32))

    def make_complex(self, real: Any, imaginary: Any) -> Any:
        real, imaginary = np.broadcast_arrays(real, imaginary)
        result = np.empty(real.shape, np.complex64 if real.dtype == np.float32 else np.complex128)
        result.real, result.imag = real, imaginary
        return _scalar(result)

    def complex_product(self, x: Any, y: Any) -> Any:
        return np.multiply(x, y)

    def libm(self, name: str, *args: Any) -> Any:
        """A function of the C library, of float64: for what no formula exists."""
        return _scalar(np.asarray(_LIBM[name](*args)))

    def complex_libm(self, name: str, *args: Any) -> Any:
        """A function of the C library, of complex128."""
        return _LIBM[name](*args)


class ArrayArithmetic(PlainArithmetic):
    """The same, strictly, on arrays with axes, in as few and as quick calls of NumPy as there are.

    Constants are arrays of rank 0, which NumPy takes in two thirds of the time of its scalars.
    """

    def __init__(self) -> None:
        super().__init__(strict=True)
        self._constants: dict[tuple[Any, Any], np.ndarray] = {}
        self._tables: dict[tuple[Any, Any], tuple[Any, Any]] = {}

    def strictly(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        return (self, *operands)

    def constant(self, value: Any, dtype: Any) -> Any:
        found = self._constants.get((value, dtype)) if value else None  # ±0 are equal
        if found is None:
            found = self._constants[value, dtype] = np.array(value, dtype)
        return found

    def constants(self, values: Sequence[float], dtype: Any) -> Sequence[Any]:
        key = id(values), dtype  # hashing floats takes longer than adding a hundred; the table keeps them alive
        found = self._tables.get(key)
        if found is None:
            found = self._tables[key] = values, super().constants(values, dtype)
        return found[1]

    def cast(self, x: Any, dtype: Any) -> Any:
        return x.astype(dtype, copy=False) if kind_of(x.dtype) == "i" else super().cast(x, dtype)

    def bits(self, x: Any) -> Any:
        return x.view(_UNSIGNED[x.dtype.itemsize])

    def from_bits(self, x: Any, dtype: Any) -> Any:
        return x.view(dtype)

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        """What is chosen, which is x or y itself, of rank 0 maybe, where the condition holds everywhere or nowhere."""
        holds = np.count_nonzero(condition)  # in a quarter of the time of `where`, or of `all`
        return x if holds == condition.size else np.where(condition, x, y) if holds else y

    def either(self, condition: Any, first: Sequence[float], second: Sequence[float], dtype: Any) -> Sequence[Any]:
        if np.count_nonzero(condition) == condition.size:
            return self.constants(first, dtype)
        key = (id(first), id(second)), dtype
        found = self._tables.get(key)
        if found is None:
            found = self._tables[key] = (first, second), np.array([second, first], dtype).T
        rows: np.ndarray = found[1]
        return list(rows.take(condition.view(np.int8), 1))  # in a third of the time of `where`

    def fma(self, x: Any, y: Any, z: Any) -> Any:
        total = x * y
        total += z
        return total

    def horner(self, x: Any, coefficients: Sequence[Any]) -> Any:
        total = self.fma(coefficients[0], x, coefficients[1])
        for coefficient in coefficients[2:]:
            total *= x
            total += coefficient
        return total


_UNSIGNED = {size: np.dtype(f"u{size}") for size in (2, 4, 8)}


def _halves(x: Any) -> tuple[Any, Any]:
    scaled = x * np.float64(2**27 + 1)
    high = scaled - (scaled - x)
    return high, x - high


def _double(x: Any) -> Any:
    return np.asarray(x, np.float64)


def _scalar(x: np.ndarray) -> Any:
    return x[()]


def _pow(x: Any, y: Any) -> Any:
    # Of a scalar 0.5 NumPy takes the square root, which differs at −0 and −inf.
    x, y = np.broadcast_arrays(x, y)
    return _scalar(np.power(np.array(x, ndmin=1), np.array(y, ndmin=1)).reshape(x.shape))


_LIBM: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in ("exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "cbrt")},
    **{name: getattr(np, name) for name in ("sinh", "cosh", "tanh", "sin", "cos", "tan", "nextafter")},
    **{name: getattr(np, "arc" + name[1:]) for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh", "atan2")},
    "pow": _pow,
    "fmod": np.fmod,
    "hypot": np.hypot,
    "sqrt": np.sqrt,
    **{name: np.vectorize(getattr(math, name), otypes=[np.float64]) for name in ("erf", "erfc")},
}

PLAIN = PlainArithmetic()
ARRAYS = ArrayArithmetic()


def plain(formula: Formula, *, inline: bool = False) -> Callable[..., Any]:
    """The plain function of a formula `(arithmetic, *operands) -> result`, which `elementary_numba` finds and compiles.

    inline: emit the formula's instructions at every call instead of one function for the module; for short formulas.
    """

    @functools.wraps(formula)
    def function(*operands: Any) -> Any:
        return quietly(formula, PLAIN, *operands)

    del function.__wrapped__
    function.formula = formula  # type: ignore[attr-defined]
    function.inline = inline  # type: ignore[attr-defined]
    return function
