"""Signs of zeros: compiled programs against the interpreter, and maxima and minima against their definition."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba", reason="Numba is not installed: the compiled kernels need it")

import functad
import functad.numpy as jnp
from functad import lax
from functad.primitives.kernels import extrema

pytestmark = pytest.mark.generated(every=3)  # tables of shapes, dtypes and ways

DTYPES = [np.dtype(t) for t in ("f2", "f4", "f8")]
Function = Callable[..., Any]

# Functions of x and y, in which all pairs of special values meet.
ARITHMETIC: dict[str, Function] = {
    "x + 0": lambda x, y: x + 0.0,
    "0 + x": lambda x, y: 0.0 + x,
    "x + -0": lambda x, y: x + -0.0,
    "x - 0": lambda x, y: x - 0.0,
    "x - -0": lambda x, y: x - -0.0,
    "0 - x": lambda x, y: 0.0 - x,
    "-0 - x": lambda x, y: -0.0 - x,
    "x * 0": lambda x, y: x * 0.0,
    "x * 1": lambda x, y: x * 1.0,
    "x * -1": lambda x, y: x * -1.0,
    "x / 1": lambda x, y: x / 1.0,
    "x / -1": lambda x, y: x / -1.0,
    "0 - (0 - x)": lambda x, y: -0.0 - (-0.0 - x),
    "neg neg": lambda x, y: jnp.negative(-x),
    "x + -y": lambda x, y: x + (-y),
    "-(x - y)": lambda x, y: -(x - y),
    "-x + y": lambda x, y: -x + y,
    "x - -y": lambda x, y: x - (-y),
    "x + y - y": lambda x, y: x + y - y,
    "-(x * y)": lambda x, y: -(x * y),
    "-x * -y": lambda x, y: (-x) * (-y),
    "abs(-x)": lambda x, y: abs(-x),
    "sign": lambda x, y: jnp.sign(x),
    "floor": lambda x, y: jnp.floor(x / 2.0),
    "ceil": lambda x, y: jnp.ceil(x / 2.0),
    "trunc": lambda x, y: jnp.trunc(x / 2.0),
    "round": lambda x, y: jnp.round(x / 2.0),
    "sqrt": lambda x, y: jnp.sqrt(x),
    "atan2": lambda x, y: jnp.arctan2(x, y),
    "copysign": lambda x, y: jnp.copysign(x, y),
    "rem": lambda x, y: lax.rem(x, y),
    "mod": lambda x, y: jnp.mod(x, y),
    "nextafter": lambda x, y: jnp.nextafter(x, y),
}
CHOICES: dict[str, Function] = {
    "max": lambda x, y: jnp.maximum(x, y),
    "min": lambda x, y: jnp.minimum(x, y),
    "max(x, 0)": lambda x, y: jnp.maximum(x, 0.0),
    "max(0, x)": lambda x, y: jnp.maximum(0.0, x),
    "max(x, -0)": lambda x, y: jnp.maximum(x, -0.0),
    "min(x, 0)": lambda x, y: jnp.minimum(x, 0.0),
    "min(x, -0)": lambda x, y: jnp.minimum(x, -0.0),
    "-max(-x, -y)": lambda x, y: -jnp.maximum(-x, -y),
    "fmax": lambda x, y: jnp.fmax(x, y),
    "clamp(x, y, 0)": lambda x, y: lax.clamp(x, y, 0.0),
    "clamp(x, y, -0)": lambda x, y: lax.clamp(x, y, -0.0),
    "clamp(0, x, y)": lambda x, y: lax.clamp(0.0, x, y),
    "clamp(-0, x, y)": lambda x, y: lax.clamp(-0.0, x, y),
    "x > y ? x : y": lambda x, y: jnp.where(x > y, x, y),
    "x < y ? x : y": lambda x, y: jnp.where(x < y, x, y),
    "x >= y ? x : y": lambda x, y: jnp.where(x >= y, x, y),
    "x > 0 ? x : 0": lambda x, y: jnp.where(x > 0.0, x, 0.0),
    "x < 0 ? -x : x": lambda x, y: jnp.where(x < 0.0, -x, x),
    "relu": lambda x, y: functad.nn.relu(x),
}
GRADIENTS: dict[str, Function] = {
    "of max": lambda x, y: functad.grad(lambda z: jnp.maximum(z, y).sum())(x),
    "of min": lambda x, y: functad.grad(lambda z: jnp.minimum(y, z).sum())(x),
    "of max(x, 0)": lambda x, y: functad.grad(lambda z: jnp.maximum(z, 0.0).sum())(x),
    "of clamp": lambda x, y: functad.grad(lambda z: lax.clamp(z, y, 0.0).sum())(x),
    "of abs": lambda x, y: functad.grad(lambda z: abs(z).sum())(x),
    "of relu": lambda x, y: functad.grad(lambda z: functad.nn.relu(z).sum())(x),
    "of a row's max": lambda x, y: functad.grad(lambda z: z.reshape(9, 9).max(1).sum())(x),
    "forward": lambda x, y: functad.jvp(jnp.maximum, (x, y), (y, x))[1],
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("functions", [ARITHMETIC, CHOICES, GRADIENTS], ids=["arithmetic", "choices", "gradients"])
def test_compiled_operations_have_the_signs_of_the_interpreter(functions: dict[str, Function], dtype: Any) -> None:
    tiny = np.finfo(dtype).smallest_subnormal
    special = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, tiny, -tiny], dtype)
    x, y = (np.array(column) for column in zip(*itertools.product(special, special)))

    def all_of_them(x: Any, y: Any) -> dict[str, Any]:
        return {name: function(x, y) for name, function in functions.items()}

    _check(all_of_them, x, y)


def _check(functions: Function, *operands: np.ndarray) -> None:
    """Compiled, interpreted and eager results have equal signs, and values that are equal but for rounding."""
    with np.errstate(all="ignore"):
        interpreted = functad.jit(functions, backend="interpreter")(*operands)
        eager = functions(*map(jnp.array, operands))
        compiled = functad.jit(functions)(*operands)
    for name, expected in interpreted.items():
        for how, results in (("eager", eager), ("compiled", compiled)):
            _compare(np.asarray(results[name]), np.asarray(expected), f"{name}, {how}")


def _compare(got: np.ndarray, expected: np.ndarray, name: str) -> None:
    np.testing.assert_allclose(got, expected, rtol=4 * np.finfo(expected.dtype).eps, atol=0, err_msg=name)
    numbers = expected == expected
    np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(expected)[numbers], err_msg=name)


def test_the_check_objects_to_a_wrong_zero() -> None:
    with pytest.raises(AssertionError, match="folded"):
        _compare(np.array([1.0, -0.0]), np.array([1.0, 0.0]), "x + 0, folded")


# --- maxima and minima of many ----------------------------------------------------------------------


def _pool(computation: Any, initial: float, window: int, stride: int, padding: str) -> Function:
    return lambda x: lax.reduce_window(x, initial, computation, (window, window), (stride, stride), padding)


PLACES = jnp.array([0, 1, 0])
FOLDS: dict[str, Function] = {
    **{f"max over {axis}": (lambda x, axis=axis: x.max(axis)) for axis in (None, 0, 1)},
    **{f"min over {axis}": (lambda x, axis=axis: x.min(axis)) for axis in (None, 0, 1)},
    **{f"cummax along {axis}": (lambda x, axis=axis: lax.cummax(x, axis)) for axis in (0, 1)},
    **{f"cummin along {axis}": (lambda x, axis=axis: lax.cummin(x, axis, reverse=True)) for axis in (0, 1)},
    "at max": lambda x: x.at[PLACES].max(-x[PLACES + 1]),
    "at min": lambda x: x.at[PLACES].min(-x[PLACES + 1]),
    "one at max": lambda x: x.at[0].max(x[1]),
    "max pool": _pool(lax.max, -np.inf, 2, 2, "VALID"),
    "min pool": _pool(lax.min, np.inf, 2, 2, "VALID"),
    "max pool, padded": _pool(lax.max, -np.inf, 3, 2, "SAME"),
    "min pool, padded": _pool(lax.min, np.inf, 3, 1, "SAME"),
    "wide max pool": _pool(lax.max, -np.inf, 7, 1, "SAME"),
}


@pytest.mark.generated(every=3)
@pytest.mark.parametrize("size", [3, 16, 37])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_compiled_folds_have_the_signs_of_the_interpreter(dtype: Any, size: int) -> None:
    rng = np.random.default_rng(size)
    values = np.array([0.0, -0.0] * 8 + [np.nan], dtype)

    def all_of_them(*arrays: Any) -> dict[str, Any]:
        return {f"{name}, {i}": fold(x) for name, fold in FOLDS.items() for i, x in enumerate(arrays)}

    _check(all_of_them, rng.choice(values[:-1], (size, size)), rng.choice(values, (size, size)))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_zeros_of_maxima_and_minima_depend_on_no_order(dtype: Any) -> None:
    zeros = np.array(list(itertools.product([0.0, -0.0], repeat=5)), dtype)
    for x in (zeros, np.repeat(zeros, 9, axis=1)):
        signs = np.signbit(x)
        for name, largest, negative in (("max", True, signs.all(1)), ("min", False, signs.any(1))):
            results = {
                "reduced": functad.jit(lambda x, name=name: getattr(x, name)(1))(x),
                "pooled": functad.jit(_windows_of_rows(largest, x.shape[1]))(x)[:, 0],
                "accumulated": functad.jit(lambda x, f=lax.cummax if largest else lax.cummin: f(x, 1))(x)[:, -1],
                "one by one": _one_by_one(jnp.maximum if largest else jnp.minimum, x),
            }
            for how, result in results.items():
                np.testing.assert_array_equal(np.signbit(result), negative, err_msg=f"{name}, {how}")


def _windows_of_rows(largest: bool, length: int) -> Function:
    computation, initial = (lax.max, -np.inf) if largest else (lax.min, np.inf)
    return lambda x: lax.reduce_window(x, initial, computation, (1, length), (1, 1), "VALID")


def _one_by_one(function: Function, x: np.ndarray) -> Any:
    columns = iter(x.T)
    total = next(columns)
    for column in columns:
        total = function(total, column)
    return total


# --- the interpreter's own maxima and minima --------------------------------------------------------

LENGTHS = [*range(1, 40), 100, 1001]  # whole vectors of NumPy's, and what is left over


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_extrema_of_two_zeros(dtype: Any) -> None:
    zero, minus = dtype.type(0.0), dtype.type(-0.0)
    for n in LENGTHS:
        for x, y in itertools.permutations([np.full(n, zero), np.full(n, minus)]):
            for operands in ((x, y), (x, y[0]), (x[0], y), (np.stack([x, x], 1)[:, 0], y), (x[0], y[0])):
                assert not np.signbit(extrema.maximum(*operands)).any()
                assert np.signbit(extrema.minimum(*operands)).all()


def test_extrema_keep_everything_else() -> None:
    for dtype in (*DTYPES, np.dtype("i4"), np.dtype("?")):
        special = [0, 1, 3] if dtype.kind in "i?b" else [0.0, -0.0, 1, -2, np.inf, -np.inf, np.nan]
        x, y = (g.ravel() for g in np.meshgrid(*[np.array(special).astype(dtype)] * 2))
        np.testing.assert_array_equal(extrema.maximum(x, y), np.maximum(x, y))
        np.testing.assert_array_equal(extrema.minimum(x, y), np.minimum(x, y))
        assert extrema.maximum(x[:0], y[:0]).shape == (0,)


# --- sums start from zero ---------------------------------------------------------------------------

SUMS: dict[str, Function] = {
    **{f"sum over {axis}": (lambda x, axis=axis: x.sum(axis)) for axis in (None, 0, 1)},
    "mean": lambda x: x.mean(1),
    "cumsum": lambda x: jnp.cumsum(x, 1),
    "cumprod": lambda x: jnp.cumprod(x, 0),
    "matrix product": lambda x: x @ abs(x),
    "matrix and vector": lambda x: x @ abs(x[0]),
    "mean pool": lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 2), (2, 2), "VALID"),
    "convolution": lambda x: lax.conv(x[None, None], abs(x[None, None, :3, :3]), (1, 1), "VALID"),
    "at add": lambda x: x.at[PLACES].add(x[PLACES + 1]),
    "gradient": lambda x: functad.grad(lambda z: (z * x + z[PLACES[0]] * x).sum())(x),
}


@pytest.mark.generated(every=3)
@pytest.mark.parametrize("size", [3, 17, 70])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_compiled_sums_have_the_signs_of_the_interpreter(dtype: Any, size: int) -> None:
    def all_of_them(*arrays: Any) -> dict[str, Any]:
        return {f"{name}, {i}": fold(x) for name, fold in SUMS.items() for i, x in enumerate(arrays)}

    mixed = np.random.default_rng(size).choice(np.array([0.0, -0.0], dtype), (size, size))
    _check(all_of_them, np.full((size, size), dtype.type(-0.0)), mixed)
