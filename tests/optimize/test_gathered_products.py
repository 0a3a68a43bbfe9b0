"""Products of gathered rows: which are rewritten, and that results stay what they were, for all indices and values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cpu_program_tools import program_of

import functad
import functad.numpy as jnp
from functad import lax, nn
from functad.editing.dead_code import eliminate_dead_code
from functad.ir import Eqn, Program, check_program
from functad.lax import GatherDimensionNumbers, GatherScatterMode
from functad.optimize.pipeline import PASSES, inline_calls, multiply_before_gathering
from functad.tracing import eval_program

pytestmark = pytest.mark.generated(every=3)  # tables of shapes, dtypes and ways

ROWS, LENGTH, COLUMNS = 40, 32, 128
SHAPE = (32, 48)  # of the indices

LAYOUTS: dict[str, Callable[[Any, Any], Any]] = {
    "rows @ w": lambda x, w: x @ w,
    "w on the left": lambda x, w: jnp.einsum("km,abk->mab", w, x),
    "steps first": lambda x, w: jnp.swapaxes(x, 0, 1) @ w,
    "row in the middle": lambda x, w: jnp.einsum("bak,km->abm", x, w),
    "all turned around": lambda x, w: jnp.einsum("abk,km->mba", x, w),
    "flat": lambda x, w: x.reshape(-1, LENGTH) @ w,
    "turned and flat": lambda x, w: x.swapaxes(0, 1).reshape(8, -1, LENGTH) @ w,
}
MODES: dict[str, dict[str, Any]] = {
    "clip": {"mode": "clip"},
    "fill": {"mode": "fill"},
    "fill with 2": {"mode": "fill", "fill_value": 2.0},
    "promise": {"mode": "promise_in_bounds"},
}


def odd_cases() -> dict[str, tuple[np.ndarray, ...]]:
    """Tables, weights and indices of which something is unusual."""
    rng = np.random.default_rng(0)
    table = rng.standard_normal((ROWS, LENGTH)).astype(np.float32)
    w = rng.standard_normal((LENGTH, COLUMNS)).astype(np.float32)
    indices = rng.integers(0, ROWS - 2, SHAPE).astype(np.int32)  # the last two rows are used by none

    def changed(x: np.ndarray, place: Any, value: float) -> np.ndarray:
        x = x.copy()
        x[place] = value
        return x

    return {
        "usual": (table, w, indices),
        "a NaN that is used": (changed(table, (3, 4), np.nan), w, indices),
        "an infinity that is used": (changed(table, (3, 4), -np.inf), w, indices),
        "a NaN and infinities that are not": (changed(changed(table, -1, np.nan), -2, np.inf), w, indices),
        "NaN in w": (table, changed(w, (2, 7), np.nan), indices),
        "infinity in w": (table, changed(w, (2, 7), np.inf), indices),
        "too large": (table, w, changed(indices, (5, 6), ROWS + 3)),
        "negative": (table, w, changed(indices, (5, 6), -1)),
        "too small": (table, w, changed(indices, (5, 6), -ROWS - 3)),
    }


CASES = odd_cases()


def step(layout: str, how: dict[str, Any]) -> Callable[..., Any]:
    """A product of gathered rows, and its pullback."""

    def fun(table: Any, w: Any, indices: Any, cotangent: Any) -> Any:
        def product(table: Any, w: Any) -> Any:
            return LAYOUTS[layout](table.at[indices].get(**how), w)

        out, pullback = functad.vjp(product, table, w)
        return [out, *pullback(cotangent)]

    return fun


def cotangent_of(layout: str) -> np.ndarray:
    table, w, indices = CASES["usual"]
    shape = LAYOUTS[layout](table[indices], w).shape
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def run(program: Program, args: Any) -> list[np.ndarray]:
    with np.errstate(all="ignore"):
        return [np.asarray(x) for x in eval_program(program, args)]


def same(got: list[np.ndarray], expected: list[np.ndarray], label: str) -> None:
    for x, y in zip(got, expected, strict=True):
        scale = np.max(np.abs(y[np.isfinite(y)]), initial=1e-3)
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4 * scale, err_msg=label)


def names(program: Program) -> list[str]:
    return [e.primitive.name for e in program.eqns]


def up_to_the_pass(program: Program) -> Program:
    for a_pass in PASSES[: PASSES.index(multiply_before_gathering)]:
        program = a_pass(program)
    return program


def is_rewritten(fun: Callable[..., Any], *args: np.ndarray) -> bool:
    """Whether the pass finds something in a function; the results must be the same."""
    before = program_of(lambda *xs: [fun(*xs)], args, up_to_the_pass)
    after = eliminate_dead_code(multiply_before_gathering(before))
    check_program(after)
    same(run(after, args), run(before, args), "rewritten")
    return str(after) != str(eliminate_dead_code(before))


def rows_of(table: Any, indices: Any, sizes: Any = None, numbers: Any = None, **how: Any) -> Any:
    numbers = numbers or GatherDimensionNumbers((1,), (0,), (0,))
    how.setdefault("mode", GatherScatterMode.CLIP)
    return lax.gather(table, indices[:, None], numbers, sizes or (1, table.shape[1]), **how)


# --- all layouts, modes and values ----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_product_and_its_gradients(layout: str, mode: str) -> None:
    fun, cotangent = step(layout, MODES[mode]), cotangent_of(layout)
    args = [*CASES["usual"], cotangent]
    before, after = program_of(fun, args, inline_calls), program_of(fun, args)
    check_program(after)
    for label, case in CASES.items():
        same(run(after, [*case, cotangent]), run(before, [*case, cotangent]), label)
    found = names(after)
    assert found.count("scatter-add") == 1, "the gradients share the sums of cotangents"
    assert found.count("cond") == 2
    assert found.count("dot_general") == 1
    (product,) = (e for e in after.eqns if e.primitive.name == "dot_general")
    assert (ROWS in product.outvars[0].aval.shape) == (mode != "fill with 2")


def test_cotangents_of_one_sign_and_of_none() -> None:
    """An infinity times them is an infinity, or NaN: whatever their sum is."""
    fun, cotangent = step("rows @ w", {}), cotangent_of("rows @ w")
    args = [*CASES["usual"], cotangent]
    before, after = program_of(fun, args, inline_calls), program_of(fun, args)
    for values in (np.abs(cotangent), -np.abs(cotangent), np.where(cotangent > 0, cotangent, 0), 0 * cotangent):
        for label in ("an infinity that is used", "infinity in w"):
            same(run(after, [*CASES[label], values]), run(before, [*CASES[label], values]), label)


def choices(program: Program) -> list[Eqn]:
    return [e for e in program.eqns if e.primitive.name == "cond"]


@pytest.mark.parametrize("label, expected", [
    ("usual", [1, 1]),
    ("negative", [1, 1]),  # counts from the end
    ("too large", [0, 1]),
    ("a NaN that is used", [0, 1]),
    ("an infinity that is used", [0, 1]),
    ("infinity in w", [1, 0]),
])  # fmt: skip
def test_what_is_summed_first_is_chosen_by_the_values(label: str, expected: list[int]) -> None:
    args = [*CASES[label], cotangent_of("rows @ w")]
    program = program_of(step("rows @ w", {"mode": "fill"}), args)
    chosen = run(program.replace(outvars=[e.invars[0] for e in choices(program)]), args)
    assert [int(c) for c in chosen] == expected


def test_products_that_overflow_may_have_a_sum_that_does_not() -> None:
    table, w, indices = CASES["usual"]
    cotangent = cotangent_of("rows @ w")
    cotangent[indices == 5] = 0
    first, second = np.argwhere(indices == 5)[:2]
    cotangent[tuple(first)], cotangent[tuple(second)] = 1e35, -1e35
    table, w = table * np.float32(1e5), w * np.float32(1e5)
    args = [table, w, indices, cotangent]
    fun = step("rows @ w", {})
    found, expected = run(program_of(fun, args), args), run(program_of(fun, args, inline_calls), args)
    assert not np.isfinite(expected[1]).all() and not np.isfinite(expected[2]).all()
    for x, y in zip(found, expected):  # which of inf − inf and inf comes out is the order of the BLAS library's sums
        assert np.array_equal(np.isfinite(x), np.isfinite(y))
    same(*([np.where(np.isfinite(x), x, 0) for x in arrays] for arrays in (found, expected)), "too large")


def test_the_sums_alone_would_be_wrong() -> None:
    args = [*CASES["an infinity that is used"], cotangent_of("rows @ w")]
    fun = step("rows @ w", {})
    program = program_of(fun, args)
    weight = choices(program)[0]
    operands = run(program.replace(outvars=weight.invars[1:]), args)
    as_written, as_summed = (run(b, operands) for b in weight.params["branches"])
    same(as_written, run(program_of(fun, args, inline_calls), args)[2:], "as written")
    assert np.isnan(as_written[0]).any() and not np.isnan(as_summed[0]).any()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "int64", "uint64"])
def test_indices_of_all_types(dtype: str) -> None:
    table, w, indices = CASES["usual"]
    flat, cotangent = indices.reshape(-1), cotangent_of("flat")
    largest = np.where(flat == 5, np.array(np.iinfo(dtype).max, dtype), flat.astype(dtype))
    for rows in (ROWS, 300):  # the last of which int8 and uint8 do not reach
        wide = np.concatenate([table, np.ones((rows - ROWS, LENGTH), np.float32)])
        for how in GatherScatterMode:

            def fun(table: Any, w: Any, indices: Any, cotangent: Any, how: Any = how) -> Any:
                out, pullback = functad.vjp(lambda t, w: rows_of(t, indices, mode=how) @ w, table, w)
                return [out, *pullback(cotangent)]

            for case in (flat, largest):
                args = [wide, w, case.astype(dtype), cotangent]
                after = program_of(fun, args)
                assert len(choices(after)) == 2
                same(run(after, args), run(program_of(fun, args, inline_calls), args), f"{dtype}, {rows} rows, {how}")


def test_rows_of_several_axes_and_double_precision() -> None:
    rng = np.random.default_rng(0)
    table, w = rng.standard_normal((20, 4, 9)), rng.standard_normal((4, 9, 5, 30))
    indices = rng.integers(0, 20, 1000).astype(np.int32)
    cotangent = rng.standard_normal((1000, 5, 30))

    def fun(table: Any, w: Any, indices: Any, cotangent: Any) -> Any:
        out, pullback = functad.vjp(lambda t, w: jnp.einsum("iab,abcd->icd", t[indices], w), table, w)
        return [out, *pullback(cotangent)]

    args = [table, w, indices, cotangent]
    after = program_of(fun, args)
    assert len(choices(after)) == 2
    for x, y in zip(run(after, args), run(program_of(fun, args, inline_calls), args), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-11)


# --- what is left alone ---------------------------------------------------------------------------------------


def test_which_products_are_worth_it() -> None:
    rng = np.random.default_rng(0)

    def found(rows: int, length: int, columns: int, uses: int, dtype: type = np.float32) -> bool:
        table, w = rng.standard_normal((rows, length)).astype(dtype), rng.standard_normal((length, columns))
        return is_rewritten(
            lambda t, w, i: rows_of(t, i) @ w, table, w.astype(dtype), rng.integers(0, rows, uses).astype(np.int32)
        )

    assert found(100, 32, 256, 1000)
    assert not found(801, 32, 256, 1000)  # too few uses of a row
    assert found(100, 24, 3, 1000) and not found(100, 23, 256, 1000)  # short rows
    assert not found(100, 32, 256, 1000, np.float16)
    assert not found(100, 32, 256, 1000, np.int32)


def test_only_whole_rows_of_the_first_axis() -> None:
    rng = np.random.default_rng(0)
    table, w = rng.standard_normal((64, 64)).astype(np.float32), rng.standard_normal((64, 256)).astype(np.float32)
    indices = rng.integers(0, 64, 1000).astype(np.int32)
    columns = GatherDimensionNumbers((0,), (1,), (1,))
    assert is_rewritten(lambda t, w, i: rows_of(t, i) @ w, table, w, indices)
    assert not is_rewritten(lambda t, w, i: rows_of(t, i, (1, 40)) @ w[:40], table, w, indices)  # parts of rows
    assert not is_rewritten(lambda t, w, i: rows_of(t, i, (64, 1), columns).T @ w, table, w, indices)
    kept = GatherDimensionNumbers((1, 2), (), (0,))  # an axis of size 1 instead of none
    assert not is_rewritten(lambda t, w, i: rows_of(t, i, (1, 64), kept) @ w, table, w, indices)
    pairs = (((), ()), ((1,), (0,)))
    assert not is_rewritten(lambda t, w, i: lax.dot_general(rows_of(t, i), w, pairs), table, w, indices)


def test_a_scatter_into_other_than_zeros_stays() -> None:
    rng = np.random.default_rng(0)
    table, w = rng.standard_normal((64, 64)).astype(np.float32), rng.standard_normal((256, 64)).astype(np.float32)
    indices, g = rng.integers(0, 64, 1000).astype(np.int32), rng.standard_normal((1000, 256)).astype(np.float32)
    assert is_rewritten(lambda t, w, i, g: jnp.zeros_like(t).at[i].add(g @ w), table, w, indices, g)
    assert not is_rewritten(lambda t, w, i, g: t.at[i].add(g @ w), table, w, indices, g)
    assert not is_rewritten(lambda t, w, i, g: jnp.zeros_like(t).at[i].max(g @ w), table, w, indices, g)


# --- compiled -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", [nn.LSTM(64), nn.GRU(64), nn.Dense(256)])
def test_embedding_and_a_layer(layer: Any) -> None:
    network = nn.serial(nn.Embedding(ROWS, LENGTH), layer)
    text = np.random.default_rng(0).integers(0, ROWS, (48, 32)).astype(np.int32)
    params = network.init(functad.random.key(0), text)

    def loss(params: Any) -> Any:
        return jnp.sin(network.apply(params, text)).sum()

    compiled = functad.jit(functad.grad(loss))
    conds = [e for e in compiled.lower(params).optimized.eqns if e.primitive.name == "cond"]
    assert {e.outvars[0].aval.shape[0] for e in conds} == {ROWS, LENGTH}
    got, expected = (functad.tree.leaves(f(params)) for f in (compiled, functad.grad(loss)))
    same([np.asarray(x) for x in got], [np.asarray(x) for x in expected], "compiled")


@pytest.mark.parametrize("label", CASES)
def test_compiled_as_interpreted(label: str) -> None:
    args = [*CASES[label], cotangent_of("steps first")]
    compiled = functad.jit(step("steps first", {"mode": "clip"}))
    expected = run(program_of(step("steps first", {"mode": "clip"}), args, inline_calls), args)
    with functad.config.context(num_threads=1):
        alone = [np.asarray(x) for x in compiled(*args)]
    with functad.config.context(num_threads=2):
        together = [np.asarray(x) for x in compiled(*args)]
    same(alone, expected, label)
    for x, y in zip(alone, together, strict=True):
        np.testing.assert_array_equal(x, y)
