"""Functions that compiled functions call, and exports of other types than kernels."""

from __future__ import annotations

import ctypes
import re

import numba
import numpy as np
import pytest
from numba import types
from numba.core.typing.templates import AbstractTemplate, signature

from functad.backends.cpu.compile import frontend, machine
from functad.backends.cpu.compile.loader import load_object
from functad.backends.cpu.scalars.registry_numba import declare, implement
from functad.errors import CompilationError


def square(x):
    return x * x


def power(x, n):
    result = x
    for _ in range(n - 1):
        result = result * x
    return result


def sum_of_squares(x, y):
    return square(x) + square(y)


def recursive_error(x):
    return x.no_such_attribute


frontend.subroutine(square)
frontend.subroutine(power, inline=False)
frontend.subroutine(sum_of_squares)
frontend.subroutine(recursive_error)


def fetch_add(pointer, value):
    """Add to a number in memory at once; what was there."""


@declare(fetch_add)
class FetchAdd(AbstractTemplate):
    def generic(self, arguments, keywords):
        return signature(types.int64, *map(types.unliteral, arguments))


@implement(fetch_add, types.CPointer, types.Integer)
def _fetch_add(context, builder, signature, arguments):
    return builder.atomic_rmw("add", *arguments, "seq_cst")


def export(function, arguments, result):
    return load_object(machine.compile_exports({"f": (function, arguments, result)}), ["f"])


def test_subroutines_call_one_another_with_any_types():
    def both(a, b, i):
        return sum_of_squares(a, b) + sum_of_squares(i, i)

    lib = export(both, (types.float64, types.float64, types.int64), types.float64)
    f = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_double, ctypes.c_int64)(lib["f"])
    assert f(3.0, 4.0, 10) == 225.0
    assert sum_of_squares(3, 4) == 25


def test_subroutine_is_compiled_once_and_stays_a_call_if_told_so():
    def twice(a, b):
        return power(a, 3) + power(b, 4)

    lowered = frontend.lower(twice, (types.int64, types.int64))
    text = lowered.library.get_llvm_str()
    assert len(set(re.findall(r'call i32 (@"\S*power\S*")', text))) == 1
    lib = export(twice, (types.int64, types.int64), types.int64)
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(lib["f"])(2, 3) == 8 + 81


def test_users_numba_is_left_alone():
    # Kernels have a `min` of their own, of integers; functions that users compile keep Numba's.
    def least(a, b):
        return min(a, b)

    lib = export(least, (types.int64, types.int64), types.int64)
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(lib["f"])(3, -2) == -2
    assert numba.njit(least)(2.5, 3) == 2.5


def test_own_words_pointers_and_no_result():
    def count(counter, times):
        for _ in range(times):
            fetch_add(counter, 2)

    lib = export(count, (types.CPointer(types.int64), types.int64), types.void)
    counter = np.zeros(1, np.int64)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(lib["f"])(counter.ctypes.data, 5)
    assert counter[0] == 10


def test_literal_results_have_the_type_of_the_export():
    def zero():
        return 0

    lib = export(zero, (), types.int64)
    assert ctypes.CFUNCTYPE(ctypes.c_int64)(lib["f"])() == 0
    with pytest.raises(CompilationError, match="f returns .*int.*, not float64"):
        export(zero, (), types.float64)


def test_error_in_a_subroutine_is_reported():
    def calls(a):
        return recursive_error(a)

    with pytest.raises(CompilationError, match="no_such_attribute"):
        export(calls, (types.int64,), types.int64)


def test_ranges_count_as_pythons_do():
    def sums(start, stop, narrow):
        total = 0
        for i in range(start, stop):
            for j in range(i, i + 3):
                total = 3 * total + j
        for i in range(start, stop, 4):
            total = 3 * total + i
        for i in range(stop):
            total = 3 * total + i
        for i in range(stop, start, -2):
            total = 3 * total + i
        for i in range(narrow):
            total = 3 * total + i
        return total

    lib = export(sums, (types.int64, types.int64, types.int32), types.int64)
    f = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int32)(lib["f"])
    for arguments in [(0, 3, 2), (-2, 2, 0), (3, 1, 1), (0, 0, -1), (5, -5, 3), (-3, 2, 1), (1, 6, 0)]:
        assert f(*arguments) == sums(*arguments)


def test_quotients_and_remainders_are_pythons():
    def digits(x, y):
        total = 0
        for d in range(2):
            total = 100 * total + x // 7 + 3 * (x % 7) + 5 * (x // (y + d)) + 11 * (x % (y - d))
        return total

    lib = export(digits, (types.int64, types.int64), types.int64)
    f = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 2)(lib["f"])
    for x in [*range(-15, 16), -(2**62), 2**62]:
        for y in (-5, 5):
            assert f(x, y) == (digits(x, y) + 2**63) % 2**64 - 2**63


def test_variables_are_pythons_wherever_they_are_set_and_read():
    def walk(n, limit):
        before = last = 100
        best = -1
        for i in range(n):
            seen = i * 3
            if seen > limit:
                best = seen
                late = seen + 1
            else:
                late = -seen
            before = last
            last = seen + late
        again = before
        while again > limit:
            again = again - 7
            if again == 11:
                break
        if n > 0:
            again = again + seen
        return again + 10 * best + 100 * last

    lib = export(walk, (types.int64, types.int64), types.int64)
    f = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 2)(lib["f"])
    for n in range(6):
        for limit in range(-3, 20):
            assert f(n, limit) == walk(n, limit)


def test_what_is_set_once_needs_no_memory():
    def kernel(start, stop):
        total = 0
        for i in range(start, stop):
            square = i * i
            if square > 9:
                total = total + square
        return total

    text = frontend.lower(kernel, (types.int64, types.int64)).library.get_llvm_str()
    assert text.count(" alloca ") == 3  # where the loop is, how often it still runs, and the total


def test_a_range_is_counted_without_a_division():
    def kernel(start, stop):
        total = 0
        for i in range(start, stop):
            total = total + i
        for i in range(start // 16, stop % 16):
            total = total + i
        return total

    text = frontend.lower(kernel, (types.int64, types.int64)).library.get_llvm_str()
    assert "icmp sgt" in text
    assert len(re.findall(r"\b[su](?:div|rem)\b", text)) == 3  # a quotient with its remainder, and a remainder
    assert text.count(" alloca ") == 6  # of each loop the number and how many are left, `i`, the total


def test_calls_with_more_arguments_than_python_keeps_apart():
    names = [f"x{i}" for i in range(40)]
    scope: dict = {}
    exec(f"def many({', '.join(names)}):\n    return {' + '.join(names)}\n", scope)
    frontend.subroutine(scope["many"])
    exec(f"def f(a):\n    return many({', '.join(['a'] * 40)})\n", scope)
    lib = export(scope["f"], (types.int64,), types.int64)
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lib["f"])(3) == 120
