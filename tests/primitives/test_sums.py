"""Long sums: un-jitted, jitted and exact ones agree to a few ulp, whichever the axes and strides are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bfloat16_tools import BFLOAT16

import functad
import functad.numpy as jnp
from functad import lax, machine_model, nn
from functad.primitives.kernels.sums import sum_over

pytestmark = pytest.mark.generated(every=3)  # tables of shapes, dtypes and ways

N = 1 << 16
FIRST = np.float32(1 << 24)  # to which float32 ones added one after another are lost
ROWS = np.concatenate([np.full((1, 2), FIRST), np.ones((N - 1, 2), np.float32)])
TOTAL = float(FIRST) + N - 1
LOG_FIRST = float(np.log(np.float64(FIRST)))

LONG: dict[str, Callable[[Any], Any]] = {
    "sum": lambda a: jnp.sum(a, 0),
    "mean": lambda a: jnp.mean(a, 0) * N,
    "average": lambda a: jnp.average(a, 0) * N,
    "nansum": lambda a: jnp.nansum(a, 0),
    "var": lambda a: jnp.var(jnp.sqrt(a), 0) * N + TOTAL - np.var(np.sqrt(ROWS.astype("f8")), axis=0) * N,
    "cumsum": lambda a: jnp.cumsum(a, 0)[-1],
    "logsumexp": lambda a: jnp.exp(nn.logsumexp(jnp.log(a), 0) - LOG_FIRST) * FIRST,
    "dot": lambda a: jnp.sqrt(a[:, 0]) @ jnp.sqrt(a),
    "vdot": lambda a: jnp.vdot(jnp.sqrt(a[:, 0]), jnp.sqrt(a[:, 1])),
    "einsum": lambda a: jnp.einsum("ij->j", a),
    "norm": lambda a: jnp.linalg.norm(jnp.sqrt(a), axis=0) ** 2,
    "trapezoid": lambda a: jnp.trapezoid(jnp.concatenate([0 * a[:1], a, 0 * a[:1]]), axis=0),
}


@pytest.mark.parametrize("name", LONG)
def test_long_sums_do_not_saturate(name: str) -> None:
    for f in (LONG[name], functad.jit(LONG[name])):
        np.testing.assert_allclose(f(jnp.asarray(ROWS)), TOTAL, rtol=5e-4)


def test_sums_of_many_ones_do_not_saturate() -> None:
    n = (1 << 24) + (1 << 20)
    repeated = jnp.ones((n, 2))  # takes no memory
    assert float((repeated[:, 0] @ repeated)[1]) == n and float(jnp.mean(repeated, 0)[1]) == 1
    assert float(jnp.sum(np.ones((n, 2), np.float32), 0)[1]) == n


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "int32"])
def test_sums_over_any_axes_and_strides_are_those_of_exact_arithmetic(dtype: str) -> None:
    rng = np.random.default_rng(0)
    whole = rng.uniform(0, 1, (7, 1100, 6, 3)) * {"int32": 40, "float16": 0.1}.get(dtype, 1)
    x = whole.astype(dtype)
    views = [x, x.transpose(2, 0, 3, 1), x[:, ::-3], np.asfortranarray(x), np.broadcast_to(x[:1], x.shape), x[:, :0]]
    exactly = "clongdouble" if dtype[0] == "c" else "longdouble"
    epsilon = 0 if dtype == "int32" else np.finfo(dtype).eps
    for view in views:
        for axes in [(0,), (1,), (2,), (3,), (0, 1), (1, 3), (0, 2), (1, 2, 3), (0, 1, 2, 3), (3, 1)]:
            exact = np.sum(view.astype(exactly), axis=axes)
            got = np.asarray(lax.reduce_sum(view, axes))
            assert got.shape == exact.shape and got.dtype == x.dtype
            np.testing.assert_allclose(got.astype(exact.dtype), exact, rtol=16 * epsilon)
            wide = np.dtype("float32" if dtype == "float16" else dtype)
            np.testing.assert_allclose(sum_over(view, axes, wide), exact, rtol=max(16 * np.finfo("f4").eps, epsilon))


@pytest.mark.parametrize("dtype", ["float16", BFLOAT16])
def test_sums_by_pieces_are_rounded_once(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_model, "PIECE_ELEMENTS", 2)
    large = float(2 / jnp.finfo(dtype).eps)  # which 1 more does not change
    assert lax.reduce_sum(jnp.array([large, 1, -large, 0], dtype), (0,)) == 1


def test_repeated_operands_of_products_take_the_same_way_as_others() -> None:
    rng = np.random.default_rng(1)
    row, matrix = rng.standard_normal((1, 60)).astype("f4"), rng.standard_normal((60, 50)).astype("f4")
    repeated = np.broadcast_to(row, (40, 60))
    for x in (repeated, matrix.T[::-1], np.broadcast_to(row[:, :1], (40, 60))):
        np.testing.assert_array_equal(lax.dot(x, matrix), lax.dot(x.copy(), matrix))
        stack = np.stack([x, x])[::-1]
        np.testing.assert_allclose(jnp.matmul(stack, matrix), np.stack([x, x]) @ matrix, rtol=1e-4, atol=1e-4)


SIDE_BY_SIDE = [((2, 200_000, 3), 1), ((200_000, 3), 0), ((3, 300_000), 1), ((200_000, 40), 0)]


@pytest.mark.parametrize(("shape", "axis"), SIDE_BY_SIDE)
def test_jitted_sums_side_by_side_round_no_more_than_others(shape: tuple[int, ...], axis: int) -> None:
    x = np.random.default_rng(0).uniform(0, 1, shape).astype("f4")
    exact = np.sum(x, axis, np.float64)
    turned = functad.jit(lambda x: jnp.sum(x.T, x.ndim - 1 - axis).T)(x)
    np.testing.assert_allclose(turned, exact, rtol=1e-5)
    np.testing.assert_allclose(functad.jit(lambda x: jnp.sum(x, axis))(x), exact, rtol=1e-5)
    squares = functad.jit(lambda x: jnp.sum(x * x, axis))(x)
    np.testing.assert_allclose(squares, np.sum(x.astype("f8") ** 2, axis), rtol=1e-5)


LONG_AXES = [((2, 2), 1), ((3, 2), 2), ((2, 4), 1), ((5,), 0), ((3,), 1), ((), 0)]


@pytest.mark.parametrize(("others", "axis"), LONG_AXES)
@pytest.mark.parametrize("n", [5 << 22, 18_874_367])  # many divisors, and none
def test_jitted_sums_of_many_ones_do_not_saturate(n: int, others: tuple[int, ...], axis: int) -> None:
    shape = (*others[:axis], n, *others[axis:])

    def ones(x: Any) -> Any:  # computed where they are summed
        return jnp.where(lax.broadcasted_iota("int32", shape, axis) < x, jnp.float32(0), jnp.float32(1))

    total = functad.jit(lambda x: jnp.sum(ones(x), axis))(0)
    np.testing.assert_allclose(total, np.full(others, n), rtol=1e-6)


def test_what_is_stored_beside_a_jitted_sum_changes_nothing() -> None:
    n = (1 << 24) + (1 << 20) + 1
    x = np.ones((n,), np.float32)
    _, total = functad.jit(lambda x: [x + x, jnp.sum(x + x)])(x)
    np.testing.assert_allclose(total, 2 * n, rtol=1e-6)
    np.testing.assert_allclose(functad.jit(nn.softmax)(x)[0] * n, 1, rtol=1e-5)


SCATTERED: dict[str, Callable[[Any, Any], Any]] = {
    "at": lambda x, i: jnp.zeros(3, x.dtype).at[i].add(x),
    "rows": lambda x, i: jnp.zeros((3, 1), x.dtype).at[i].add(x[:, None])[:, 0],
    "bincount": lambda x, i: jnp.bincount(i, x, length=3),
    "histogram": lambda x, i: jnp.histogram(i, 3, (0, 3), weights=x)[0],
    "gradient of x[i]": lambda x, i: functad.grad(lambda t: jnp.vdot(t[i], x))(jnp.zeros(3, x.dtype)),
    "mapped": lambda x, i: functad.vmap(lambda x: jnp.zeros(3, x.dtype).at[i].add(x))(x[None])[0],
}


@pytest.mark.parametrize("name", SCATTERED)
def test_many_updates_of_one_element_do_not_saturate(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_model, "LONGEST_SUM", 1 << 10)
    x = np.concatenate([[FIRST], np.ones(N, np.float32)])
    places = np.full(N + 1, 1, np.int32)
    f = SCATTERED[name]
    for total in (f(jnp.asarray(x), places), functad.jit(f)(x, places)):
        np.testing.assert_array_equal(total, np.float32([0, FIRST + N, 0]), strict=True)


def test_many_updates_of_one_complex_element_do_not_saturate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_model, "LONGEST_SUM", 1 << 10)
    x = np.concatenate([[FIRST], np.ones(N, np.float32)]) * np.complex64(1 - 1j)
    f = SCATTERED["at"]
    for total in (f(jnp.asarray(x), np.zeros(N + 1, "i4")), functad.jit(f)(x, np.zeros(N + 1, "i4"))):
        np.testing.assert_array_equal(total, np.complex64([TOTAL + 1 - (TOTAL + 1) * 1j, 0, 0]), strict=True)


def test_a_large_table_gets_no_wider_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_model, "LONGEST_SUM", 1 << 10)
    add = functad.jit(lambda table, i: table.at[i].add(1), donate_argnums=0)
    for n, copied in ((1 << 14, False), (1 << 17, True)):
        plan = add.lower(jnp.zeros(1 << 14), jnp.zeros(n, jnp.int32)).memory_plan
        assert ("wide" in str(plan)) == copied


SPLIT = {
    "LONGEST_SUM": [2, 3, 7],
    "POINTS_WORTH_PARTS": [1, 1 << 16],
    "TERMS_OF_A_PART": [1, 3],
    "POINTS_WORTH_LANES": [1, 1 << 13],
}


@pytest.mark.parametrize("seed", range(60))
def test_sums_split_anyhow_are_those_of_numpy(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    for name, values in SPLIT.items():
        monkeypatch.setattr(machine_model, name, int(rng.choice(values)))
    rank = int(rng.integers(1, 6))
    x = rng.integers(-3, 4, rng.integers(1, 8, rank)).astype(rng.choice(["float32", "float64", "complex64", "int8"]))
    x = x.transpose(rng.permutation(rank))
    axes = tuple(int(a) for a in rng.permutation(rank)[: rng.integers(1, rank + 1)])
    scale = x.dtype.type(2)

    def f(x: Any) -> Any:
        y = x * scale
        total = jnp.sum(y, axes, keepdims=True)
        return [y, total * 3, jnp.sum(x[::-1], axes), y - total, jnp.max(x, axes), jnp.prod(x, axes)]

    for found, wanted in zip(functad.jit(f)(x), f(jnp.asarray(x)), strict=True):
        np.testing.assert_array_equal(found, wanted, strict=True)
