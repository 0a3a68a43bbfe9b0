"""The scalar functions of kernel text: float64 against exact values, special values, and that they become vector code.

Errors of compiled functions in ulp are measured in `test_accuracy`.
"""

from __future__ import annotations

import ctypes
import itertools
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from kernel_ir import optimized_ir
from numba.core import types

from functad.backends.cpu.compile import frontend, loader, machine, target
from functad.backends.cpu.scalars import elementary as scalars
from functad.primitives.kernels.conversion import converted

UNARY = tuple(
    "exp exp2 expm1 log log1p logistic sinh cosh tanh asinh acosh atanh cbrt sqrt rsqrt sin cos tan asin acos atan erf "
    "erfc".split()
)
BINARY = ("pow", "atan2")
WIDE_WITH_RARE_BRANCHES = ("sin", "cos", "tan", "pow")
FROM_C = ("erfc",)  # of float64: the C library's
EXPONENTIAL = ("exp", "exp2", "expm1", "log", "log1p", "logistic", "sinh", "cosh", "tanh")
WITH_RARE_BRANCHES = ("logaddexp", "logaddexp2")  # of float32: where the operands nearly cancel
OF_LARGE = {"sin": 2.0**18, "cos": 2.0**18, "tan": 2.0**18}  # of float32: numbers from here on take a branch
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e-40, -1e-40]


def test_plain_functions_do_without_numba() -> None:
    program = "import sys, functad.backends.cpu.scalars.elementary; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


# --- errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXPONENTIAL)
def test_float64_functions_are_right_to_a_few_ulp(name: str) -> None:
    rng = np.random.default_rng(3)
    x = np.concatenate(
        [rng.uniform(-1, 1, 150), rng.uniform(-40, 40, 100), rng.uniform(-1e-3, 1e-3, 30), [700.0, -745.0]]
    )
    if name in ("log", "log1p"):
        x = np.concatenate([np.abs(x), [1e300, 1e-20]])
    if name == "log":
        x = np.concatenate([x, [5e-324, 1e-310]])
    got = getattr(scalars, name)(x)
    distance = [_ulps_from(Decimal(float(g)), _exactly(name, Decimal(float(v)))) for v, g in zip(x, got)]
    assert max(distance) <= 2.6


def _exactly(name: str, x: Decimal) -> Decimal:
    with localcontext() as context:
        context.prec = 60
        grown = x.exp() if name not in ("log", "log1p", "exp2") else Decimal(0)
        formulas: dict[str, Callable[[], Decimal]] = {
            "exp": lambda: grown,
            "exp2": lambda: (x * Decimal(2).ln()).exp(),
            "expm1": lambda: grown - 1,
            "log": lambda: x.ln(),
            "log1p": lambda: (1 + x).ln(),
            "logistic": lambda: grown / (1 + grown),
            "sinh": lambda: (grown - 1 / grown) / 2,
            "cosh": lambda: (grown + 1 / grown) / 2,
            "tanh": lambda: (grown - 1 / grown) / (grown + 1 / grown),
            "erf": lambda: _erf_series(x) if abs(x) < 6.5 else x / abs(x),
        }
        return formulas[name]()


def _erf_series(x: Decimal) -> Decimal:
    pi = Decimal("3.14159265358979323846264338327950288419716939937510582097494")
    term = total = x
    for n in range(1, 200):
        term *= -x * x / n
        total += term / (2 * n + 1)
    return 2 * total / pi.sqrt()


def _ulps_from(result: Decimal, truth: Decimal) -> float:
    return float(abs(result - truth) / Decimal(float(np.spacing(abs(float(truth))))))


# --- special values ---------------------------------------------------------------------------------

NUMPY_NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh"}
NUMPY_NAMES |= {"atanh": "arctanh", "atan2": "arctan2", "pow": "power"}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [n for n in UNARY if n not in ("erf", "erfc", "logistic", "rsqrt")])
def test_nan_infinities_and_signed_zeros_are_numpys(name: str, dtype: Any) -> None:
    x = np.array([*SPECIAL, 1e30, -1e30], dtype)
    with np.errstate(all="ignore"):
        wanted = getattr(np, NUMPY_NAMES.get(name, name))(x)
    _assert_alike(getattr(scalars, name)(x), wanted)


def test_nan_infinities_and_signed_zeros_of_functions_that_numpy_lacks() -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], np.float32)
    _assert_alike(scalars.erf(x), np.array([0.0, -0.0, 1, -1, np.nan], np.float32))
    _assert_alike(scalars.erfc(x), np.array([1.0, 1, 0, 2, np.nan], np.float32))
    _assert_alike(scalars.logistic(x), np.array([0.5, 0.5, 1, 0, np.nan], np.float32))
    _assert_alike(scalars.rsqrt(x), np.array([np.inf, -np.inf, 0, np.nan, np.nan], np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["pow", "atan2", "maximum", "minimum", "copysign"])
def test_special_values_of_two_operands_are_numpys(name: str, dtype: Any) -> None:
    pairs = itertools.product([*SPECIAL, 1e30, -1e30, 16777217.0], repeat=2)
    x, y = np.array([p for p in pairs if not (name.endswith("imum") and p[0] == p[1] == 0)], dtype).T
    with np.errstate(all="ignore"):
        wanted = getattr(np, NUMPY_NAMES.get(name, name))(x, y)
    _assert_alike(getattr(scalars, name)(x, y), wanted)


def test_powers_of_1_are_1_whatever_the_exponent() -> None:
    sizes = np.array([1e300, 1e305, np.finfo(np.float64).max])
    for exponents in (sizes, -sizes):
        np.testing.assert_array_equal(scalars.pow(np.ones(3), exponents), 1)
        np.testing.assert_array_equal(scalars.pow(-np.ones(3), exponents), 1)
    assert scalars.pow(np.float64(1), sizes[1]) == 1


def test_nextafter_steps_as_in_c() -> None:
    x, y = np.array(list(itertools.product(SPECIAL, repeat=2)), np.float32).T
    wanted = np.where(x == y, y, np.nextafter(x, y))
    _assert_alike(scalars.nextafter(x, y), wanted, ulp=0)


def _assert_alike(got: np.ndarray, wanted: np.ndarray, ulp: int = 4) -> None:
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(wanted[numbers]))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(wanted))
    finite = np.isfinite(wanted)
    np.testing.assert_array_max_ulp(got[finite], wanted[finite], maxulp=ulp)


# --- casts, rounding, bits --------------------------------------------------------------------------

CASTS = {f"{np.dtype(t).kind}{8 * np.dtype(t).itemsize}": np.dtype(t) for t in "i1 i2 i4 i8 u1 u2 u4 u8 f4 f8".split()}
VALUES = [*SPECIAL, 300.7, -129.0, 3e9, -3e9, 5e9, 1e19, -1e19, 2.0**63, 65504.0, 65520.0, 6e-8, 8388609.0, 0.49999997]


def _values(dtype: np.dtype) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.array(VALUES * 3).astype(dtype)  # enough for a vector and a rest


@pytest.mark.parametrize("source", CASTS)
def test_casts_are_those_of_arrays(source: str) -> None:
    x = _values(CASTS[source])
    for name, dtype in CASTS.items():
        np.testing.assert_array_equal(getattr(scalars, name)(x), converted(x, dtype))
    np.testing.assert_array_equal(scalars.b1(x), x.astype(bool))


def test_halves_are_rounded_once() -> None:
    x = np.concatenate([np.array(VALUES), 1 + 2.0**-11 + np.array([-(2.0**-40), 0, 2.0**-40])])
    with np.errstate(all="ignore"):
        wanted = x.astype(np.float16)
    np.testing.assert_array_equal(scalars.f16(x), wanted.astype(np.float32))
    np.testing.assert_array_equal(scalars.bits_f16(x), wanted.view(np.uint16))
    assert scalars.from_bits_f16(np.uint16(0x3C00)) == 1


def test_rounding_of_halves_and_large_numbers() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 0.49999997, 8388609.0, -0.0, np.inf], np.float32)
    away = np.array([1, 2, 3, -1, -2, 0, 8388609.0, -0.0, np.inf], np.float32)
    _assert_alike(scalars.round_away(x), away, ulp=0)
    _assert_alike(scalars.round_even(x), np.rint(x), ulp=0)
    assert np.isnan(scalars.round_away(np.float32(np.nan)))


def test_bits_are_counted() -> None:
    x = np.array([0, 1, -1, 2**30, -(2**31), 12345], np.int32)
    np.testing.assert_array_equal(scalars.popcount(x), [0, 1, 32, 1, 1, 6])
    np.testing.assert_array_equal(scalars.clz(x), [32, 31, 0, 1, 0, 18])
    assert scalars.clz(x).dtype == np.int32


def test_integers_wrap() -> None:
    assert scalars.i8(np.int64(200)) == -56
    assert scalars.accumulate(np.int32(2**31 - 1), np.int32(1)) == -(2**31)


# --- compiled ---------------------------------------------------------------------------------------


def _text(name: str, expressions: Sequence[str], operands: int) -> str:
    arguments = [f"x{i}" for i in range(operands)] + [f"out{j}" for j in range(len(expressions))]
    lines = [f"def {name}({', '.join(arguments)}, start, stop):", "    for i in range(start, stop):"]
    lines += [f"        out{j}[i] = {expression}" for j, expression in enumerate(expressions)]
    return "\n".join(lines) + "\n"


def _call(word: str, operands: int) -> str:
    return f"{word}({', '.join(f'x{i}[i]' for i in range(operands))})"


def _compiled(text: str, signatures: dict[str, Sequence[np.dtype]]) -> dict[str, Callable[..., None]]:
    """The functions of a text, as functions of arrays."""
    words = sorted({w for w in re.findall(r"[a-z]\w+", text) if hasattr(scalars, w)})
    source = f"from functad.backends.cpu.scalars.elementary import {', '.join(words)}\n{text}"
    library = loader.load_object(machine.compile_kernels(source, "kernels.py", signatures), list(signatures))
    signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)

    def caller(address: int) -> Callable[..., None]:
        def call(*arrays: np.ndarray) -> None:
            slots = np.array([a.ctypes.data for a in arrays], np.int64)
            params = np.arange(len(arrays), dtype=np.int64)
            assert library  # the code is freed with it
            signature(address)(slots.ctypes.data, params.ctypes.data, 0, arrays[0].size)

        return call

    return {name: caller(library[name]) for name in signatures}


def _patterns(dtype: np.dtype, count: int = 4001) -> np.ndarray:
    """Numbers of all sizes, and the special ones."""
    unsigned = np.dtype(f"u{dtype.itemsize}")
    spread = np.linspace(0, 2.0 ** (8 * dtype.itemsize) * (1 - 2.0**-30), count).astype(unsigned)
    near = np.random.default_rng(0).uniform(-8, 8, count)
    return np.concatenate([spread.view(dtype), near.astype(dtype), np.array(SPECIAL, dtype)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_scalars_give_scalars_of_their_dtype(name: str, dtype: Any) -> None:
    operands = [dtype(0.7), dtype(1.3)][: 2 if name in BINARY else 1]
    result = getattr(scalars, name)(*operands)
    assert type(result) is dtype
    array = getattr(scalars, name)(*[np.full(3, v) for v in operands])
    np.testing.assert_array_max_ulp(array, np.full(3, result), maxulp=1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_scalars_give_the_bits_of_arrays(name: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    x, y = (np.append(np.asarray(v, dtype), (rng.normal(size=60) * 30).astype(dtype)) for v in (SPECIAL, SPECIAL[::-1]))
    operands = (x, y) if name in BINARY else (x,)
    function = getattr(scalars, name)
    found, expected = np.array([function(*given) for given in zip(*operands)]), function(*operands)
    np.testing.assert_array_equal(found, expected, strict=True)
    numbers = ~np.isnan(found)
    assert (np.signbit(found) == np.signbit(expected))[numbers].all()


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), np.dtype(np.float64)], ids=str)
def test_compiled_functions_give_what_the_plain_ones_give(dtype: np.dtype) -> None:
    operands = {**dict.fromkeys(UNARY, 1), **dict.fromkeys(BINARY, 2)}
    text = "".join(_text(f"k_{name}", [_call(name, count)], count) for name, count in operands.items())
    functions = _compiled(text, {f"k_{name}": [dtype] * (count + 1) for name, count in operands.items()})
    x = _patterns(dtype)
    y = np.random.default_rng(1).permutation(x)
    for name, count in operands.items():
        out = np.empty_like(x)
        functions[f"k_{name}"](*[x, y][:count], out)
        wanted = getattr(scalars, name)(*[x, y][:count])
        numbers = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.isnan(out), np.isnan(wanted), err_msg=name)
        np.testing.assert_array_equal(np.signbit(out[numbers]), np.signbit(wanted[numbers]), err_msg=name)
        # An fma rounds once where NumPy rounds twice; the C library need not round as NumPy does.
        np.testing.assert_array_max_ulp(out[numbers], wanted[numbers], maxulp=1 if dtype == np.float32 else 4)


@pytest.mark.parametrize("source", CASTS)
def test_compiled_casts_and_bits_are_the_plain_ones(source: str) -> None:
    dtype = CASTS[source]
    x = _values(dtype)
    y = np.random.default_rng(2).permutation(x)
    casts = {**CASTS, "b1": np.dtype(bool), "f16": np.dtype(np.float32)}
    words = [("maximum", 2), ("minimum", 2), ("accumulate", 2), ("abs_", 1), ("sign", 1)]
    if dtype.kind == "f":
        words += [("floor", 1), ("ceil", 1), ("trunc", 1), ("round_even", 1), ("round_away", 1)]
        words += [("nextafter", 2), ("copysign", 2)]
    else:
        words += [("popcount", 1), ("clz", 1)]
    cases = [(_call(cast, 1), result) for cast, result in casts.items()]
    cases += [(_call(word, count), dtype) for word, count in words]
    cases += [("where(x0[i] < x1[i], x0[i], x1[i])", dtype)]
    outs = [np.empty(x.shape, result) for _, result in cases]
    text = _text("kernel", [expression for expression, _ in cases], 2)
    _compiled(text, {"kernel": [dtype, dtype, *[result for _, result in cases]]})["kernel"](x, y, *outs)
    for (expression, _), out in zip(cases, outs):
        plain = eval(expression.replace("[i]", ""), {**vars(scalars), "x0": x, "x1": y})
        np.testing.assert_array_equal(out, plain, err_msg=f"{expression} of {dtype}")


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), np.dtype(np.float64)], ids=str)
def test_loops_become_vector_code_without_calls(dtype: np.dtype) -> None:
    frontend.refresh()
    pointer = frontend.pointer_type(dtype)
    names = {**dict.fromkeys(UNARY, 1), **dict.fromkeys(BINARY, 2), "maximum": 2, "round_even": 1, "floor": 1}
    for name, count in names.items():
        if dtype == np.float64 and name in FROM_C:
            continue
        namespace = dict(vars(scalars))
        exec(_text("kernel", [_call(name, count)], count), namespace)
        arguments = (*[pointer] * (count + 1), types.int64, types.int64)
        module = optimized_ir([frontend.lower(namespace["kernel"], arguments, distinct_pointers=True)])
        assert re.search(r"store <\d+ x ", str(module)), f"the loop over {name} has no vector instructions"
        calls = re.findall(r"^\s+(?:callq?|bl)\s.*", target.target_machine().emit_assembly(module), re.MULTILINE)
        seldom = name in ((*OF_LARGE, "pow") if dtype == np.float32 else WIDE_WITH_RARE_BRANCHES)
        assert bool(calls) == seldom, f"the loop over {name} calls functions: {calls}"


@pytest.mark.skipif("+avx512vbmi2" not in target.host()[1], reason="this processor has no such vectors")
def test_loops_use_the_widest_vectors() -> None:
    frontend.refresh()
    namespace = dict(vars(scalars))
    exec(
        "def kernel(x, out, start, stop):\n    for i in range(start, stop):\n        out[i] = x[i] * x[i]\n", namespace
    )
    pointer = frontend.pointer_type(np.dtype(np.float64))
    arguments = (pointer, pointer, types.int64, types.int64)
    module = optimized_ir([frontend.lower(namespace["kernel"], arguments, distinct_pointers=True)])
    assert "store <8 x double>" in str(module) and "zmm" in target.target_machine().emit_assembly(module)


@pytest.mark.parametrize("name", WITH_RARE_BRANCHES)
def test_loops_with_rare_branches_become_vector_code(name: str) -> None:
    frontend.refresh()
    pointer = frontend.pointer_type(np.dtype(np.float32))
    for operand, seldom in (("y[i]", True), ("f32(0.0)", False)):  # in softplus nothing cancels
        loop = f"for i in range(start, stop):\n        out[i] = {name}(x[i], {operand})\n"
        text = f"def kernel(x, y, out, start, stop):\n    {loop}"
        namespace = dict(vars(scalars))
        exec(text, namespace)
        arguments = (*[pointer] * 3, types.int64, types.int64)
        module = optimized_ir([frontend.lower(namespace["kernel"], arguments, distinct_pointers=True)])
        kernel = re.search(r"define [^\n]*kernel.*?\n}", str(module), re.DOTALL)
        assert kernel
        assert ("@functad.rarely" in kernel[0]) == seldom
        # What asks is no call: only who computes the unusual values is called, or, for a number alone, both.
        called = set(re.findall(r"call [^\n]*@(functad\.rarely\.[\w.]+)\(", kernel[0]))
        assert all(name.endswith((".lanes", ".f4.f4")) for name in called)
        assert bool(re.search(r"store <\d+ x float>", kernel[0]))


@pytest.mark.parametrize("name", WITH_RARE_BRANCHES)
def test_rare_branches_are_taken_in_any_lane(name: str) -> None:
    unit = 1 if name == "logaddexp" else np.log(2)
    x = np.random.default_rng(0).uniform(-0.6, -0.1, 300).astype(np.float32)
    partner = (np.log(-np.expm1(x * np.float64(unit))) / unit).astype(np.float32)
    plain = getattr(scalars, name)
    near = plain(x, partner)
    assert 0 < np.abs(near).max() < 1e-7
    kernel = _compiled(_text("kernel", [_call(name, 2)], 2), {"kernel": [np.dtype(np.float32)] * 3})["kernel"]
    for cancels in np.random.default_rng(1).uniform(0, 1, (20, 300)) < np.linspace(0, 1, 20)[:, None]:
        y, out = np.where(cancels, partner, np.float32(0.5)), np.empty(300, np.float32)
        kernel(x, y, out)
        np.testing.assert_array_equal(out[cancels], near[cancels])
        np.testing.assert_allclose(out, plain(x, y), rtol=1.2e-7)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="this machine has no wider floats than float64")
@pytest.mark.parametrize(("dtype", "most", "near_one"), [(np.float32, 1.1, 2.1), (np.float64, 0.6, 0.95)])
def test_powers_are_right_to_an_ulp_or_two(dtype: Any, most: float, near_one: float) -> None:
    """Errors are largest where numbers near 1 have large powers: their logarithms are not sums with exponents."""
    rng, largest = np.random.default_rng(0), np.finfo(dtype).maxexp - 2
    kernel = _compiled(_text("kernel", ["pow(x0[i], x1[i])"], 2), {"kernel": [np.dtype(dtype)] * 3})["kernel"]
    moderate, near = rng.uniform(0.5, 2, 20_000).astype(dtype), (1 + rng.uniform(-1 / 32, 1 / 32, 20_000)).astype(dtype)
    large = rng.uniform(-largest, largest, near.size) / np.log2(np.where(near == 1, 2, near).astype(np.float64))
    for x, exponent, bound in ((moderate, rng.uniform(-60, 60, moderate.size), most), (near, large, near_one)):
        y, found = exponent.astype(dtype), np.empty_like(x)
        kernel(x, y, found)
        wanted = x.astype(np.longdouble) ** y.astype(np.longdouble)
        unit = np.spacing(wanted.astype(dtype)).astype(np.longdouble)
        assert np.max(np.abs(found - wanted) / unit) <= bound


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), np.dtype(np.float64)], ids=str)
def test_powers_of_unusual_numbers_are_right_in_any_lane(dtype: np.dtype) -> None:
    rng = np.random.default_rng(0)
    unusual = rng.choice(np.array(SPECIAL, dtype), (2, 300))
    usual = rng.uniform(0.1, 9, (2, 300)).astype(dtype)
    kernel = _compiled(_text("kernel", ["pow(x0[i], x1[i])"], 2), {"kernel": [dtype] * 3})["kernel"]
    for is_unusual in rng.uniform(0, 1, (20, 300)) < np.linspace(0, 1, 20)[:, None]:
        (x, y), out = np.where(is_unusual, unusual, usual), np.empty(300, dtype)
        kernel(x, y, out)
        with np.errstate(all="ignore"):
            truth = np.power(x.astype(np.longdouble), y.astype(np.longdouble)).astype(dtype)
        np.testing.assert_allclose(out, truth, rtol=2 * np.finfo(dtype).eps)
        np.testing.assert_array_equal(
            np.signbit(out), np.signbit(truth) & ~np.isnan(out) | np.isnan(out) & np.signbit(out)
        )


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), np.dtype(np.float64)], ids=str)
def test_powers_are_within_two_ulp_up_to_the_ends_of_the_range(dtype: np.dtype) -> None:
    rng, info = np.random.default_rng(0), np.finfo(dtype)
    x = rng.uniform(0.5, 2, 20_000).astype(dtype)
    y = (rng.uniform(info.minexp - info.nmant, info.maxexp, x.size) / np.log2(x.astype(np.longdouble))).astype(dtype)
    with np.errstate(all="ignore"):
        truth = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
        unit = np.spacing(truth.astype(dtype)).astype(np.longdouble)
    found, finite = np.empty_like(x), truth < np.ldexp(np.longdouble(1), info.maxexp)
    _compiled(_text("kernel", ["pow(x0[i], x1[i])"], 2), {"kernel": [dtype] * 3})["kernel"](x, y, found)
    assert (np.abs(found.astype(np.longdouble) - truth)[finite] < 2.1 * unit[finite]).all()
    assert np.isinf(found[~finite]).all()


def test_conditions_become_numbers_by_choice() -> None:
    frontend.refresh()
    namespace = dict(vars(scalars))
    exec(
        "def kernel(x, out, start, stop):\n    for i in range(start, stop):\n        out[i] = f32(x[i] > f32(0))\n",
        namespace,
    )
    pointer = frontend.pointer_type(np.dtype(np.float32))
    arguments = (pointer, pointer, types.int64, types.int64)
    module = optimized_ir([frontend.lower(namespace["kernel"], arguments, distinct_pointers=True)])
    assert "uitofp" not in str(module)


@pytest.mark.parametrize("name", OF_LARGE)
def test_large_arguments_are_reduced_in_any_lane(name: str) -> None:
    rng = np.random.default_rng(0)
    near = np.float32(OF_LARGE[name]) * rng.uniform(0.5, 2, 150)
    x = np.concatenate([near, 10 ** rng.uniform(-3, 38, 150)]).astype(np.float32) * rng.choice([-1, 1], 300)
    x = x.astype(np.float32)
    truth = getattr(np, name)(x.astype(np.float64))
    kernel = _compiled(_text("kernel", [_call(name, 1)], 1), {"kernel": [np.dtype(np.float32)] * 2})["kernel"]
    plain, unit = getattr(scalars, name)(x), np.spacing(np.abs(truth).astype(np.float32))
    for count in (300, 17, 3):  # whole vectors, and what is left
        out = np.empty(count, np.float32)
        kernel(x[-count:], out)
        assert (np.abs(out - truth[-count:]) < 0.8 * unit[-count:]).all()
    assert (np.abs(plain - truth) < 0.8 * unit).all()


@pytest.mark.parametrize("source", ["f32", "f64"])
def test_conversions_to_integers_become_vector_code(source: str) -> None:
    frontend.refresh()
    for name, dtype in CASTS.items():
        if dtype.kind in "iu":
            namespace = dict(vars(scalars))
            exec(_text("kernel", [_call(name, 1)], 1), namespace)
            arguments = (frontend.pointer_type(CASTS[source]), frontend.pointer_type(dtype), types.int64, types.int64)
            module = optimized_ir([frontend.lower(namespace["kernel"], arguments, distinct_pointers=True)])
            assert re.search(r"store <\d+ x ", str(module)), f"the conversion to {name} has no vector instructions"


@pytest.mark.parametrize("word", ["accumulate", "maximum"])
def test_reductions_become_vector_code(word: str) -> None:
    frontend.refresh()
    loop = f"    for i in range(start, stop):\n        total = {word}(total, x[i])\n"
    text = f"def kernel(x, out, start, stop):\n    total = x[start]\n{loop}    out[0] = total\n"
    namespace = dict(vars(scalars))
    exec(text, namespace)
    pointer = frontend.pointer_type(np.dtype(np.float32))
    arguments = (pointer, pointer, types.int64, types.int64)
    module = optimized_ir([frontend.lower(namespace["kernel"], arguments, distinct_pointers=True)])
    assert "x float>" in str(module)
