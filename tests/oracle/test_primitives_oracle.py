"""Element-wise, reducing and cumulative primitives against jax.lax: values, derivatives at kinks, poles."""

from __future__ import annotations

import numpy as np
import pytest

from functad.array import ArrayImpl
from functad.primitives import cumulative, incomplete, positions, reduction
from functad.primitives import elementwise as el
from functad.primitives.common import reduce_sum
from functad.transforms.reverse import linearize_flat

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")
lax = jax.lax

FLOATS = ["float16", "float32", "float64"]
INTEGERS = ["int8", "uint8", "int32", "uint32"]
# XLA's own float32 functions are good to a few ulp, its float16 ones to an ulp or two.
RTOL = {"float16": 4e-3, "float32": 4e-6, "float64": 1e-13, "complex64": 4e-6}
# XLA's float32 gamma functions lose digits that ours, computed in float64, keep.
LOOSE = {
    "lgamma": 3e-5,
    "digamma": 3e-5,
    "erf_inv": 2e-5,
    "erfc": 2e-5,
    "polygamma": 1e-4,
    "integer_pow": 1e-5,
}
ATOL = {"lgamma": 1e-6}  # beside its roots 1 and 2

POINTS = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, 3.25, -3.75]
POINTS += [1e-3, -1e-3, 1e-30, -1e-30, 1e30, -1e30, 9.0, -9.0, 30.0, -30.0, 90.0, -90.0, 8388609.0]
PAIRED = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -2.5, 7.25, 1e-30, 1e30, -30.0]


def ours_named(name):
    """functad's function of that name: those of `incomplete` are loaded when they are used, so `el` has not all."""
    return getattr(el, name, None) or getattr(incomplete, name)


def points(dtype, values=POINTS):
    with np.errstate(over="ignore"):
        return np.array(values).astype(dtype)


def whole_numbers(dtype):
    limits = np.iinfo(dtype)
    values = [
        limits.min,
        limits.min + 1,
        -7,
        -3,
        -2,
        -1,
        0,
        1,
        2,
        3,
        5,
        7,
        8,
        31,
        32,
        33,
        64,
        100,
        limits.max,
    ]
    return np.array([v for v in values if limits.min <= v <= limits.max], dtype)


def pairs(values):
    x, y = np.meshgrid(values, values, indexing="ij")
    return x.ravel(), y.ravel()


def run(fun, *args, **params):
    return np.asarray(fun(*[ArrayImpl(np.array(a)) for a in args], **params))


def gradients(fun, *args):
    """Derivatives of the sum of an operation's results by each argument."""
    arrays = [ArrayImpl(np.array(a)) for a in args]
    outs, linear = linearize_flat(lambda *xs: [fun(*xs)], arrays, [True] * len(arrays))
    ones = ArrayImpl(np.ones(outs[0].shape, outs[0].dtype))
    return [
        np.zeros(a.shape, a.dtype) if ct.__class__.__name__ == "Zero" else np.asarray(ct)
        for a, ct in zip(args, linear.transpose([ones]))
    ]


def jax_gradients(fun, *args):
    outs, pullback = jax.vjp(fun, *args)
    return [np.asarray(ct) for ct in pullback(np.ones(outs.shape, outs.dtype))]


def assert_same(found, expected, inputs, rtol=0.0, signed_zeros=False, atol=0.0):
    expected = np.asarray(expected)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    if found.dtype.kind not in "fc":
        wrong = found != expected
    else:
        atol = max(atol, np.finfo(found.dtype).tiny)  # XLA flushes subnormal numbers to zero
        wrong = ~np.isclose(found, expected, rtol=rtol, atol=atol, equal_nan=True)
        if signed_zeros:
            wrong |= (found == 0) & (expected == 0) & (np.signbit(found) != np.signbit(expected))
    if np.any(wrong):
        at = [np.broadcast_to(i, found.shape)[wrong] for i in inputs]
        raise AssertionError(f"at {at}:\nfunctad {found[wrong]}\njax     {expected[wrong]}")


UNARY = (
    "neg sign abs exp exp2 expm1 log log1p sqrt rsqrt cbrt sin cos tan asin acos atan sinh cosh tanh asinh "
    "acosh atanh logistic erf erfc erf_inv lgamma digamma square floor ceil is_finite stop_gradient "
    "bessel_i0e bessel_i1e"
).split()
BINARY = "add sub mul div rem max min pow atan2 nextafter".split()
COMPARISONS = "eq ne lt le gt ge".split()


# Where the derivative of digamma is exact here but not in JAX: its limits, and beyond the range of 1/x².
INEXACT_IN_JAX = {"digamma": [np.inf, -np.inf, 1e30]}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", UNARY)
def test_unary_of_floats(name, dtype):
    x = points(dtype, [*POINTS, *np.random.default_rng(0).uniform(-4, 4, 100)])
    with jax.enable_x64(True):
        expected = getattr(lax, name)(x)
    rtol = max(RTOL[dtype], LOOSE.get(name, 0))
    assert_same(run(ours_named(name), x), expected, [x], rtol, signed_zeros=name != "lgamma", atol=ATOL.get(name, 0))


@pytest.mark.parametrize("name", UNARY)
def test_derivative_of_unary(name):
    x = points("float32", [p for p in POINTS if p not in INEXACT_IN_JAX.get(name, [])])
    ours, theirs = gradients(ours_named(name), x)[0], jax_gradients(getattr(lax, name), x)[0]
    assert_same(ours, theirs, [x], 1e-3, atol=1.2e-7)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", BINARY + COMPARISONS)
def test_binary_of_floats(name, dtype):
    x, y = pairs(points(dtype, PAIRED))
    with jax.enable_x64(True):
        expected = getattr(lax, name)(x, y)
    # Which of 0 and -0 is the larger is left open by IEEE 754, and by NumPy.
    assert_same(run(ours_named(name), x, y), expected, [x, y], RTOL[dtype], name not in ("max", "min"))


@pytest.mark.parametrize("name", [n for n in BINARY if n != "nextafter"])
def test_derivative_of_binary(name):
    # JAX's derivative of a quotient overflows with the square of the denominator; ours does not.
    values = [p for p in PAIRED if not (name == "div" and abs(p) in (1e-30, 1e30))]
    x, y = pairs(points("float32", values))
    ours, theirs = gradients(ours_named(name), x, y), jax_gradients(getattr(lax, name), x, y)
    for a, b in zip(ours, theirs):
        assert_same(a, b, [x, y], 1e-5)


ON_INTEGER = ["neg", "sign", "square", "population_count", "clz", "bitwise_not"]


@pytest.mark.parametrize(
    "name, dtype",
    [(n, d) for n in ON_INTEGER for d in INTEGERS] + [("abs", d) for d in INTEGERS if d.startswith("i")],
)
def test_unary_of_integers(name, dtype):
    x = whole_numbers(dtype)
    with jax.enable_x64(True):
        expected = getattr(lax, name)(x)
    assert_same(run(ours_named(RENAMED.get(name, name)), x), expected, [x])


ON_INTEGERS = ["add", "sub", "mul", "div", "rem", "max", "min", "bitwise_and", "bitwise_or", "bitwise_xor"]
ON_INTEGERS += ["mulhi", "shift_left", "shift_right_logical", "shift_right_arithmetic", *COMPARISONS]
RENAMED = {"bitwise_and": "and_", "bitwise_or": "or_", "bitwise_xor": "xor", "bitwise_not": "not_"}


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", ON_INTEGERS)
def test_binary_of_integers(name, dtype):
    if not hasattr(lax, name):
        pytest.skip(f"JAX {jax.__version__} has no lax.{name}")
    x, y = pairs(whole_numbers(dtype))
    with jax.enable_x64(True):
        expected = getattr(lax, name)(x, y)
    assert_same(run(ours_named(RENAMED.get(name, name)), x, y), expected, [x, y])


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor", "max", "min", *COMPARISONS])
def test_binary_of_booleans(name):
    x, y = pairs(np.array([False, True]))
    assert_same(run(ours_named(RENAMED.get(name, name)), x, y), getattr(lax, name)(x, y), [x, y])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("method", [0, 1])
def test_round(method, dtype):
    x = points(dtype)
    with jax.enable_x64(True):
        expected = lax.round(x, lax.RoundingMethod(method))
    assert_same(run(lambda a: el.round(a, method), x), expected, [x], signed_zeros=True)


@pytest.mark.parametrize(
    "y, dtype",
    [(y, d) for y in (-3, -2, -1, 0, 1, 2, 3, 4, 7) for d in ("float16", "float32")]
    + [(y, d) for y in (0, 1, 2, 3, 4, 7) for d in ("int8", "int32")],
)
def test_integer_pow(y, dtype):
    x = points(dtype) if dtype.startswith("f") else whole_numbers(dtype)
    rtol = max(RTOL.get(dtype, 0), LOOSE["integer_pow"])
    assert_same(run(el.integer_pow, x, y=y), lax.integer_pow(x, y), [x], rtol, dtype.startswith("f"))
    if dtype == "float32":
        ours, theirs = (
            gradients(lambda a: el.integer_pow(a, y), x),
            jax_gradients(lambda a: lax.integer_pow(a, y), x),
        )
        assert_same(ours[0], theirs[0], [x], 1e-5)


def test_pow_with_integer_exponent():
    x, y = np.meshgrid(points("float32", PAIRED), np.int32([-3, -1, 0, 1, 2, 5]))
    assert_same(run(el.pow, x, y), lax.pow(x, y), [x, y], 1e-5, signed_zeros=True)
    ours = gradients(lambda a: el.pow(a, ArrayImpl(y.copy())), x)
    theirs = jax_gradients(lambda a: lax.pow(a, y), x)
    assert_same(ours[0], theirs[0], [x, y], 1e-5)


def test_polygamma():
    m, x = np.meshgrid(np.float32([0, 1, 2, 3, 1.5, -1]), np.float32([0.5, 1, 2.5, 10, 40]))
    m, x = m.ravel(), x.ravel()
    assert_same(run(el.polygamma, m, x), lax.polygamma(m, x), [m, x], LOOSE["polygamma"])


SHAPES = [1e-3, 0.3, 1.0, 2.5, 8.0, 40.0, 300.0]  # of distributions


def triples(dtype, *values):
    return [a.ravel() for a in np.meshgrid(*[points(dtype, v) for v in values], indexing="ij")]


@pytest.mark.parametrize("name", ["igamma", "igammac"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_incomplete_gamma(name, dtype):
    a, x = triples(dtype, [*SHAPES, 0.0, -1.0, np.inf, np.nan], [*SHAPES, 0.0, -1.0, np.inf, np.nan, 1e-8, 320.0])
    known = ~(((a == np.inf) & (x > 0) | (a == 0) & (x <= 1)) & np.isfinite(x))  # NaN in JAX, but there is a limit
    a, x = a[known], x[known]
    with jax.enable_x64(True):
        expected = np.asarray(getattr(lax, name)(a, x))
    found = run(ours_named(name), a, x)
    # JAX takes a small Q from 1 by subtraction; its float32 exponents cost digits, too.
    rtol, atol = (2e-4, 6e-7) if dtype == "float32" else (2e-12, 3e-16)
    assert_same(found, expected, [a, x], rtol, atol=atol)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_betainc(dtype):
    numbers = [0.0, 1e-8, 0.01, 0.3, 0.5, 0.77, 0.999, 1.0, 1.5, -0.5, np.nan]
    a, b, x = triples(dtype, [*SHAPES, -1.0, np.nan], [*SHAPES, -1.0, np.nan], numbers)
    with jax.enable_x64(True):
        expected = np.asarray(lax.betainc(a, b, x))
    # JAX takes a result that b makes small from 1 by subtraction; its float32 exponents cost digits, too.
    rtol, atol = (1e-3, 1e-4) if dtype == "float32" else (1e-11, 1e-12)
    assert_same(run(incomplete.betainc, a, b, x), expected, [a, b, x], rtol, atol=atol)


def test_derivatives_of_incomplete_functions():
    a, b, x = triples("float32", SHAPES[1:5], SHAPES[1:5], [0.01, 0.3, 0.77, 0.99])
    for name, args in [("igamma", (a, x)), ("igammac", (a, x)), ("betainc", (a, b, x))]:
        fixed, ours, theirs = args[:-1], ours_named(name), getattr(lax, name)
        constants = [ArrayImpl(c.copy()) for c in fixed]
        found = gradients(lambda y, f=ours, c=constants: f(*c, y), x)[0]
        assert_same(found, jax_gradients(lambda y, f=theirs, c=fixed: f(*c, y), x)[0], args, 2e-5)


def test_zeta():
    x, q = triples("float64", [1.0, 1.1, 2.0, 3.5, 12.0, 0.5, np.nan], [0.01, 0.5, 1.0, 7.0, 300.0, 0.0, -1.0, np.nan])
    known = (q > 0) | np.isin(x, [1.0, 2.0, 12.0])  # JAX sees poles for whole x only
    known &= ~np.isnan(x) | (q > 0)
    x, q = x[known], q[known]
    with jax.enable_x64(True):
        expected = lax.zeta(x, q)
    assert_same(run(incomplete.zeta, x, q), expected, [x, q], 1e-13)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("bits", [(1, 0), (2, 3), (4, 3), (5, 2), (5, 10), (8, 7), (8, 23), (11, 52), (11, 0)])
def test_reduce_precision(bits, dtype):
    exponent_bits, mantissa_bits = bits
    ties = [1 + k / 16 for k in range(16)] + [1.9999, 65519.0, 65520.0, 6.1e-5, 6.09e-5, 448.0, 464.0]
    x = points(dtype, [*POINTS, *ties, *np.random.default_rng(0).standard_normal(200)])
    with jax.enable_x64(True):
        expected = lax.reduce_precision(x, exponent_bits, mantissa_bits)
    found = run(el.reduce_precision, x, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits)
    assert_same(found, expected, [x], signed_zeros=True)


def test_clamp():
    low, x, high = (a.ravel() for a in np.meshgrid(*[points("float32", [np.nan, -1.0, 0.0, 0.5, 2.0, np.inf])] * 3))
    assert_same(run(el.clamp, low, x, high), lax.clamp(low, x, high), [low, x, high])
    for ours, theirs in zip(gradients(el.clamp, low, x, high), jax_gradients(lax.clamp, low, x, high)):
        assert_same(ours, theirs, [low, x, high])


@pytest.mark.parametrize("which", [np.bool_([0, 1, 1, 0]), np.bool_(1), np.int32([2, 0, 1, 1]), np.int32(1)])
def test_select_n(which):
    cases = [np.float32([1, np.nan, 3, -0.0]), np.float32([5, 6, np.inf, 8])]
    if which.dtype == np.int32:
        cases.append(np.float32([9, 10, 11, 12]))
    ours = gradients(lambda *c: el.select_n(ArrayImpl(which.copy()), *c), *cases)
    theirs = jax_gradients(lambda *c: lax.select_n(which, *c), *cases)
    assert_same(run(el.select_n, which, *cases), lax.select_n(which, *cases), cases)
    for a, b in zip(ours, theirs):
        assert_same(a, b, cases)


def test_select_n_clamps():
    which, cases = np.int32([-1, 0, 1, 5]), [np.float32([i, i, i, i]) for i in range(3)]
    assert_same(run(el.select_n, which, *cases), lax.select_n(which, *cases), cases)


@pytest.mark.parametrize("name", ["real", "imag", "conj", "abs", "sign", "exp", "log", "sqrt", "tanh", "square"])
def test_unary_of_complex(name):
    x = np.complex64([1 + 2j, -0.5 + 1j, -2 - 1j, 3j, 0.25])
    assert_same(run(ours_named(name), x), getattr(lax, name)(x), [x], 1e-5)
    if name != "sign":
        ours, theirs = gradients(ours_named(name), x)[0], jax_gradients(getattr(lax, name), x)[0]
        assert_same(ours, theirs, [x], 1e-5, atol=1e-6)


# --- reductions and running results -------------------------------------------------------------------

REDUCTIONS = {
    "reduce_sum": reduce_sum,
    "reduce_prod": reduction.reduce_prod,
    "reduce_max": reduction.reduce_max,
    "reduce_min": reduction.reduce_min,
}
LOGICAL = {
    "reduce_and": reduction.reduce_and,
    "reduce_or": reduction.reduce_or,
    "reduce_xor": reduction.reduce_xor,
}
CUMULATIVE = {name: getattr(cumulative, name) for name in "cumsum cumprod cummax cummin cumlogsumexp".split()}
ROWS = [
    [1.0, 3.0, 3.0, 2.0, 3.0, 4.0],
    [0.0, 2.0, 3.0, -1.0, 0.5, 2.0],
    [0.0, 0.0, 3.0, -1.0, 0.5, 2.0],
    [2.0, np.nan, 1.0, 5.0, 0.0, 1.0],
    [np.inf, np.inf, 1.0, 2.0, -1.0, 0.5],
    [-np.inf, -np.inf, 0.0, np.inf, 1.0, 2.0],
    [-0.0, 0.0, -1.0, -1.0, 1.0, 1.0],
    [50.0, -60.0, 80.0, 70.0, 0.25, 80.0],
]


BOTH = [(n, d) for n in REDUCTIONS for d in [*FLOATS, *INTEGERS]] + [(n, d) for n in LOGICAL for d in INTEGERS]


@pytest.mark.parametrize("name, dtype", BOTH)
def test_reduction(name, dtype):
    with np.errstate(all="ignore"):
        x = (np.random.default_rng(0).standard_normal((3, 4, 2)) * 9).astype(dtype)
    ours = {**REDUCTIONS, **LOGICAL}[name]
    for a, axes in [(x, (0, 2)), (x[:0], (0,))]:
        with jax.enable_x64(True):
            expected = getattr(lax, name)(a, axes=axes)
        assert_same(run(ours, a, axes=axes), expected, [], RTOL.get(dtype, 0) * 4, atol=RTOL.get(dtype, 0) * 9)


@pytest.mark.parametrize("name", LOGICAL)
def test_reduction_of_booleans(name):
    x = np.array([[True, False, True], [True, True, True]])
    assert_same(run(LOGICAL[name], x, axes=(1,)), getattr(lax, name)(x, axes=(1,)), [])


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduction_of_special_values(name):
    x = np.float32(ROWS)
    assert_same(run(REDUCTIONS[name], x, axes=(1,)), getattr(lax, name)(x, axes=(1,)), [], 1e-6)
    ours = gradients(lambda a: REDUCTIONS[name](a, axes=(1,)), x)[0]
    assert_same(ours, jax_gradients(lambda a: getattr(lax, name)(a, axes=(1,)), x)[0], [x], 1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint8", "bool"])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_position(name, dtype):
    rows = ROWS if dtype.startswith("f") else [[abs(v) for v in r] for r in ROWS if np.all(np.isfinite(r))]
    x = np.array(rows).astype(dtype)
    for axis, index_dtype in [(0, np.int32), (1, np.uint8)]:
        ours = run(getattr(positions, name), x, axis=axis, index_dtype=index_dtype)
        assert_same(ours, getattr(lax, name)(x, axis, index_dtype), [])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", CUMULATIVE)
def test_cumulative_special_values(name, reverse):
    x, weights = np.float32(ROWS), np.tile(np.arange(1, 7, dtype=np.float32), (len(ROWS), 1))
    ours, theirs = CUMULATIVE[name], getattr(lax, name)
    assert_same(run(ours, x, axis=1, reverse=reverse), theirs(x, axis=1, reverse=reverse), [x], 1e-5)
    found = gradients(lambda a: el.mul(ours(a, axis=1, reverse=reverse), ArrayImpl(weights.copy())), x)[0]
    expected = jax_gradients(lambda a: theirs(a, axis=1, reverse=reverse) * weights, x)[0]
    assert_same(found, expected, [x], 2e-5, atol=1e-6)


SUMMED = [(n, d) for n in CUMULATIVE for d in ["float16", "float64", *INTEGERS] if n != "cumlogsumexp" or "f" in d]


@pytest.mark.parametrize("name, dtype", SUMMED)
def test_cumulative(name, dtype):
    with np.errstate(all="ignore"):
        x = (np.random.default_rng(0).standard_normal((3, 7)) * 3).astype(dtype)
    for axis, reverse in [(0, True), (1, False)]:
        with jax.enable_x64(True):
            expected = getattr(lax, name)(x, axis=axis, reverse=reverse)
        found = run(CUMULATIVE[name], x, axis=axis, reverse=reverse)
        assert_same(found, expected, [], RTOL.get(dtype, 0) * 4, atol=RTOL.get(dtype, 0) * 9)
