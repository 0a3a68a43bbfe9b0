"""Every element-wise primitive as a compiled kernel, and as the same text run by Python, against the interpreter."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba", reason="Numba is not installed: the compiled kernels need it")

from cpu_elementwise_tools import DTYPES, Case, Kernel, run_compiled, run_plain, values

from functad.all_primitives import registry
from functad.errors import FunctadError
from functad.ir import Absent, Primitive
from functad.lowering_rules import Reduction, Scalar
from functad.primitives import (
    arithmetic,
    bits,
    incomplete,
    log_sums,
    logic,
    precision,
    random_bits,
    special_functions,
    transcendental,
)

SCALAR = {name: p for name, p in registry.items() if isinstance(p.lower, Scalar)}
PARAMS: dict[str, list[dict[str, Any]]] = {
    "integer_pow": [{"y": y} for y in (0, 1, 2, 3, 7, 19, -1, -2, -5)],
    "round": [p.params for p in registry["round"].examples()[:2]],
    "reduce_precision": [
        {"exponent_bits": e, "mantissa_bits": m} for e, m in ((11, 52), (5, 10), (8, 7), (3, 1), (2, 0))
    ],
    "conj": [{"input_dtype": np.dtype(np.complex64)}],
}
# Their results are rounded once, or not at all.
EXACT = set(
    "add add_any sub mul div rem neg abs sign square integer_pow max min clamp select_n floor ceil round nextafter "
    "sqrt real imag conj complex copy stop_gradient reduce_precision convert_element_type".split()
)
EXACT_IF_COMPLEX = set("neg select_n real imag conj copy stop_gradient convert_element_type".split())
# A difference of products that underflow: contracted into one operation, it keeps the sign that rounding loses.
ZERO_SIGN_IS_FREE = {"igammac"}
# In float64 a result may differ from NumPy's by as much where the function itself magnifies the operands' rounding.
RELATIVE = {
    "pow": 1e-13,
    "lgamma": 1e-13,
    "polygamma": 1e-13,
    "igamma": 1e-12,
    "igammac": 1e-12,
    "regularized_incomplete_beta": 1e-12,
}
# What float64 loses where the function is a difference of larger numbers.
ABSOLUTE = {"logaddexp": 3e-16, "logaddexp2": 3e-16, "regularized_incomplete_beta": 1e-14}


def _cases() -> list[Case]:
    f, i, b = (np.dtype(t) for t in ("f4", "i4", "?"))
    cases = [Case(SCALAR["select_n"], [b, d, d]) for d in DTYPES]
    cases += [Case(SCALAR["select_n"], [d, f, f, f]) for d in DTYPES if d.kind in "iu"]
    cases += [Case(SCALAR["select_n"], [d, f]) for d in (b, i)]
    for x, y in (("f2", "u1"), ("f4", "i4"), ("f8", "i8"), ("c8", "i2"), ("c16", "u8")):
        cases.append(Case(SCALAR["pow"], [np.dtype(x), np.dtype(y)]))
    for name, primitive in SCALAR.items():
        if name in ("select_n", "convert_element_type") or isinstance(primitive.examples, Absent):
            continue  # made above; or of a user's function
        example = primitive.examples()[0]
        for dtype in DTYPES:
            for params in PARAMS.get(name, [example.params]):
                try:
                    cases.append(Case(primitive, [dtype] * len(example.args), **params))
                except FunctadError:  # the primitive does not take the dtype
                    continue
    return cases


def _conversions() -> list[Case]:
    primitive = SCALAR["convert_element_type"]
    return [Case(primitive, [x], new_dtype=y, weak_type=False) for x in DTYPES for y in DTYPES if x != y]


CASES = {case.name: case for case in [*_cases(), *_conversions()]}
MOST_CASES = 24  # of a kernel


def _kernels(names: Iterable[str], n: int, most: int) -> list[Kernel]:
    """The cases, those with equal operands in one kernel; `most` bounds the number of elements."""
    groups: dict[Any, list[Case]] = {}
    for case in (CASES[name] for name in names):
        groups.setdefault((case.operands, _special_operands(case)), []).append(case)
    kernels = []
    for (dtypes, special), cases in groups.items():
        operands = _operands(dtypes, special, n)
        step = max(1, operands[0].size // most)
        for start in range(0, len(cases), MOST_CASES):
            kernels.append(Kernel(cases[start : start + MOST_CASES], [x[::step].copy() for x in operands]))
    return kernels


def _special_operands(case: Case) -> Any:
    return "orders" if case.primitive.name == "polygamma" else None


def _operands(dtypes: tuple[np.dtype, ...], special: Any, n: int) -> list[np.ndarray]:
    arrays = values(dtypes, n, seed=n)
    if special == "orders":
        arrays[0] = np.resize(np.array([0, 1, 2, 3, 6, 0.5, -1, np.nan], dtypes[0]), arrays[0].size)
    return arrays


Results = dict[str, tuple[list[np.ndarray], list[np.ndarray]]]  # by case: operands, results


@pytest.fixture(scope="module")
def compiled(request: pytest.FixtureRequest) -> Results:
    return _run(run_compiled, _kernels(_chosen(request), 500, 10_000))


@pytest.fixture(scope="module")
def plain(request: pytest.FixtureRequest) -> Results:
    return _run(run_plain, _kernels(_chosen(request), 30, 100))


def _chosen(request: pytest.FixtureRequest) -> list[str]:
    """The cases of all tests that are run with the fixture."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    return [
        i.callspec.params["name"] for i in items if i.path == request.path and request.fixturename in i.fixturenames
    ]


def _run(run: Callable[[list[Kernel]], dict[str, list[np.ndarray]]], kernels: list[Kernel]) -> Results:
    outs = run(kernels)
    return {case.name: (kernel.operands, outs[case.name]) for kernel in kernels for case in kernel.cases}


def _check(case: Case, operands: list[np.ndarray], got: list[np.ndarray]) -> None:
    for result, expected in zip(got, _expected(case, operands), strict=True):
        assert result.dtype == expected.dtype
        wrong = np.flatnonzero(~_agrees(case, result, expected))
        shown = [(*(x[i] for x in operands), "gives", result[i], "not", expected[i]) for i in wrong[:5]]
        assert not wrong.size, f"{wrong.size} of {result.size}: {shown}\n{case.expression()}"


def _expected(case: Case, operands: list[np.ndarray]) -> list[np.ndarray]:
    if case.primitive.name == "pow" and case.operands[0] == np.complex64:  # NumPy's loses digits
        (wide,) = case.expected([operands[0].astype(np.complex128), operands[1].astype(np.complex128)])
        with np.errstate(all="ignore"):
            return [wide.astype(np.complex64)]
    return case.expected(operands)


def _agrees(case: Case, got: np.ndarray, want: np.ndarray) -> np.ndarray:
    name, kind = case.primitive.name, got.dtype.kind
    with np.errstate(all="ignore"):
        same = (got == want) | ((got != got) & (want != want))
        if kind not in "fc":
            return same
        if name in EXACT and (case.operands[0].kind != "c" or name in EXACT_IF_COMPLEX):
            return same if kind == "c" else same & _signs_agree(got, want)
        part = got.real.dtype
        ulps = (16 if kind == "c" else {2: 1, 4: 4, 8: 8}[part.itemsize]) + 2 * abs(case.params.get("y", 0))
        wide = np.complex128 if kind == "c" else np.float64
        bound = ulps * np.spacing(np.abs(want)).astype(np.float64)
        bound = np.maximum(bound, RELATIVE.get(name, 0) * (part == np.float64) * np.abs(want))
        bound = np.maximum(bound, ABSOLUTE.get(name, 0) * (part == np.float64))
        close = same | (np.abs(got.astype(wide) - want.astype(wide)) <= bound)
        return close if kind == "c" or name in ZERO_SIGN_IS_FREE else close & _signs_agree(got, want)


def _signs_agree(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Whether signs are equal, those of zeros too, wherever a NaN has none."""
    return (np.signbit(got) == np.signbit(want)) | (got != got)


@pytest.mark.generated(every=10)
@pytest.mark.parametrize("name", CASES)
def test_compiled_kernel_agrees_with_the_interpreter(name: str, compiled: Results) -> None:
    _check(CASES[name], *compiled[name])


@pytest.mark.generated(every=10)
@pytest.mark.parametrize("name", CASES)
def test_kernel_run_by_python_agrees_with_the_interpreter(name: str, plain: Results) -> None:
    _check(CASES[name], *plain[name])


FAMILIES = (arithmetic, bits, incomplete, log_sums, logic, precision, random_bits, special_functions, transcendental)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_every_element_wise_primitive_has_a_scalar_rule(family: Any) -> None:
    for primitive in vars(family).values():
        if isinstance(primitive, Primitive):
            assert primitive.name in SCALAR


def test_the_check_objects_to_a_wrong_result() -> None:
    x = np.array([1.5, 2.5], np.float32)
    for name in ("exp", "square"):
        case = CASES[f"{name}_float32_"]
        (right,) = case.expected([x])
        _check(case, [x], [right])
        with pytest.raises(AssertionError, match="1 of 2"):
            _check(case, [x], [right * np.array([1, 1 + 1e-6], np.float32)])


def test_the_check_objects_to_a_wrong_zero() -> None:
    zeros = np.array([0.0, -0.0], np.float32)
    for name in ("floor_float32_", "sin_float32_"):
        with pytest.raises(AssertionError, match="2 of 2"):
            _check(CASES[name], [zeros], [-zeros])


def test_words_do_not_need_numba() -> None:
    program = """
import sys
sys.modules["numba"] = sys.modules["llvmlite"] = None
import functad.backends.cpu.scalars.complex
import functad.backends.cpu.scalars.exact
from functad.backends.cpu.scalars.special import lgamma
assert abs(lgamma(5.0) - 3.1780538303479458) < 1e-15
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_every_reduction_has_its_kind() -> None:
    kinds = {name.removeprefix("reduce_"): p.lower for name, p in registry.items() if name.startswith("reduce_")}
    for kind in ("sum", "prod", "max", "min", "and", "or", "xor"):
        assert kinds[kind] == Reduction(kind)
