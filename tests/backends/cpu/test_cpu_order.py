"""How primitives that sort, search for extrema and carry along are lowered, against their implementations.

Knows the primitives' records and `loops_tools`; every case runs as plain Python, some as machine code too.
"""

from __future__ import annotations

import numpy as np
import pytest
from loops_tools import check_loops
from movement_tools import FLOATS, SOME, check_program, program_of, random_array

import functad
import functad.numpy as jnp
from functad import machine_model
from functad.all_primitives import registry
from functad.backends.cpu.executable import lower_program
from functad.lowering.steps import KernelStep, NestStep
from functad.primitives.loops import sorting_network
from functad.system import numpy_sort
from functad.system.once import imported

pytestmark = pytest.mark.generated(every=3)  # tables of shapes, dtypes and ways


# --- sorting --------------------------------------------------------------------------------------------------


def sort_params(dimension, num_keys=1):
    return {"dimension": dimension, "is_stable": True, "num_keys": num_keys}


ROWS = [((10,), 0), ((2, 21), 1), ((9, 2), 0), ((2, 1), 1)]
OTHER_ROWS = [((30,), 0), ((9, 2), 0)]


@pytest.mark.parametrize("dtype", [*SOME, "complex64"])
def test_sort_of_one_array(dtype, monkeypatch):
    rng = np.random.default_rng(4)
    for shape, axis in ROWS:
        check_loops(registry["sort"], [random_array(rng, shape, dtype)], sort_params(axis))
    monkeypatch.setattr(machine_model, "COUNTED_ROW", 4)
    for shape, axis in OTHER_ROWS:
        check_loops(registry["sort"], [random_array(rng, shape, dtype)], sort_params(axis))


@pytest.mark.parametrize("dtype", [*SOME, "float64", "bool"])
def test_sort_of_rows_side_by_side(dtype, monkeypatch):
    rng = np.random.default_rng(14)
    monkeypatch.setattr(machine_model, "FEWEST_NETWORK_ROWS", 1)
    monkeypatch.setattr(machine_model, "NETWORK_BYTES", 16)  # blocks of which the last has rows once more
    for shape, axis in [((9, 2), 1), ((3, 13), 1), ((7, 5), 0), ((2, 8, 3), 1), ((1, 21), 1)]:
        check_loops(registry["sort"], [random_array(rng, shape, dtype)], sort_params(axis))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64"])
def test_compiled_sort_of_rows_side_by_side(dtype, monkeypatch):
    monkeypatch.setattr("functad.backends.cpu.lowering.is_fast", lambda dtype: False)
    rng = np.random.default_rng(15)
    x = np.where(
        rng.random((70, 90)) < 0.5, random_array(rng, (70, 90), dtype), (9 * rng.normal(size=(70, 90))).astype(dtype)
    )
    check_loops(registry["sort"], [x], sort_params(1), compiled=True)
    text = str(functad.jit(functad.numpy.sort).lower(x).kernels)
    assert "def sort_network" in text
    assert "transposed_8" in text  # rows come into lanes, or back, through registers


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint8"])
def test_sort_by_levels(dtype, monkeypatch):
    """Rows that spread out, that lie together but for a few numbers, that are equal, and that hold no finite number."""
    monkeypatch.setattr(machine_model, "FEWEST_LEVELLED", 5)
    rng = np.random.default_rng(17)
    spread = 40 * rng.normal(size=60)
    for row in (spread, np.where(spread > 90, 200, spread / 400), 0 * spread, -np.inf + np.abs(spread)):
        with np.errstate(invalid="ignore"):
            x = row.astype(dtype)
        for operands in ([x], [x, np.arange(60, dtype=np.int32)], [x.reshape(30, 2), x.reshape(30, 2)]):
            check_loops(registry["sort"], operands, sort_params(0))
    assert "def sort_levels" in str(functad.jit(jnp.argsort).lower(x).kernels)


def test_compiled_sort_by_levels_gives_up_where_numbers_lie_together():
    rng = np.random.default_rng(18)
    for x in (rng.normal(size=3_000), rng.standard_cauchy(3_000) ** 3, np.zeros(3_000)):
        x = x.astype(np.float32)
        np.testing.assert_array_equal(functad.jit(jnp.argsort)(x), np.argsort(x, kind="stable"))


@pytest.mark.parametrize("dtype", ["float32", "int64", "float16"])
def test_compiled_sort_of_long_rows(dtype):
    rng = np.random.default_rng(5)
    for shape, axis in [((20000,), 0), ((3, 200), 1), ((90, 2), 0)]:
        wide = rng.integers(0, 2**62, shape) if dtype[0] in "iu" else rng.normal(size=shape)
        few = random_array(rng, shape, dtype)
        x = np.where(rng.random(shape) < 0.5, few, wide.astype(dtype))
        check_loops(registry["sort"], [x], sort_params(axis), compiled=True)


def test_a_row_that_is_the_only_one_is_sorted_by_all_threads():
    alone, two = (jnp.zeros(shape) for shape in ((20_000,), (2, 20_000)))
    assert "def sort_parts" in str(functad.jit(jnp.argsort).lower(alone).kernels)
    assert "def sort_parts" not in str(functad.jit(jnp.argsort).lower(two).kernels)


@pytest.mark.parametrize("m", [2, 3, 7, 32, 33, 100])
def test_pairs_of_the_network_are_counted(m):
    room = {name: np.full(2 * m * m, -1, np.int32) for name in ("firsts", "seconds")}
    exec(sorting_network.pairs_text(m), {**room, "start": 0, "stop": 1, "minimum": min})
    used = room["firsts"] >= 0
    assert used.sum() == sorting_network.comparisons(m)
    bits = np.random.default_rng(m).integers(0, 2, (64, m))  # what sorts zeros and ones sorts everything
    for low, high in zip(room["firsts"][used], room["seconds"][used]):
        bits[:, [low, high]] = np.sort(bits[:, [low, high]])
    assert (np.diff(bits) >= 0).all()


@pytest.mark.skipif(not numpy_sort.is_fast(np.float32), reason="NumPy sorts numbers one by one here")
def test_many_cores_sort_one_long_row_together(monkeypatch):
    monkeypatch.setattr(machine_model, "PARTED_ROW", 1 << 12)
    x = np.random.default_rng(17).normal(size=5000).astype(np.float32)
    for cores in (1, 2, 3, 16):
        monkeypatch.setattr(
            imported("functad.primitives.loops.sorting"),
            "available_cores",
            lambda cores=cores: (cores, "for this test"),
        )
        source = lower_program(functad.make_jaxpr(jnp.sort)(x)).generated.source
        assert ("sort_numbers(" in source) == (cores <= machine_model.NUMPY_SORT_CORES)


@pytest.mark.parametrize(
    ("dtype", "compiled"), [*((d, False) for d in [*SOME, "float64", "uint32"]), ("float32", True), ("int64", True)]
)
def test_sort_of_rows_in_parts(dtype, compiled, monkeypatch):
    monkeypatch.setattr(machine_model, "PARTED_ROW", 1)
    monkeypatch.setattr(machine_model, "COUNTED_ROW", 0)
    rng = np.random.default_rng(11)
    longest = 3000 if compiled else 40  # parts of several elements, and empty ones
    for shape, axis in [((longest,), 0), *([] if compiled else [((3, 30), 1), ((19, 2), 0), ((1,), 0)])]:
        wide = rng.integers(0, 2**62, shape) if np.dtype(dtype).kind in "iu" else 1e3 * rng.normal(size=shape)
        mixed = np.where(rng.random(shape) < 0.5, random_array(rng, shape, dtype), wide.astype(dtype))
        outlier = np.where(np.arange(mixed.size).reshape(shape) == 0, mixed, mixed.ravel()[-1])
        for x in (mixed, outlier, np.sort(mixed, axis)):
            check_loops(registry["sort"], [x], sort_params(axis), compiled=compiled)
            places = np.arange(x.size, dtype=np.int32).reshape(shape)
            check_loops(registry["sort"], [x, places], sort_params(axis), compiled=compiled)
    check_loops(registry["top_k"], [mixed], {"k": 1, "axis": 0}, compiled=compiled)
    x = random_array(rng, (longest,), dtype)
    check_loops(registry["top_k"], [x], {"k": 36, "axis": 0}, compiled=compiled)


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_integers_sorted_in_parts_take_the_other_operand_along(dtype, monkeypatch):
    monkeypatch.setattr(machine_model, "PARTED_ROW", 1)
    monkeypatch.setattr(machine_model, "COUNTED_ROW", 0)
    monkeypatch.setattr(machine_model, "LEVELLED_ROW", 0)
    rng = np.random.default_rng(13)
    keys = rng.integers(-9, 9, (19, 2)).astype(np.int32)  # many are equal
    other = random_array(rng, keys.shape, dtype)
    for operands in ([keys, other], [keys, keys]):
        check_loops(registry["sort"], operands, sort_params(0))
    together = functad.jit(lambda keys, other: functad.lax.sort((keys, other), dimension=0, num_keys=1))
    text = str(together.lower(keys, other).kernels)
    assert ("place = i64(order" in text) == (dtype == "float16")


def test_kernels_of_a_sort_in_parts_may_run_again(monkeypatch):
    monkeypatch.setattr(machine_model, "PARTED_ROW", 1)
    x = np.random.default_rng(12).normal(size=5000)
    profile = functad.jit(functad.numpy.argsort).lower(x).compile().profile(x)
    assert "sort_parts" in str(profile)


@pytest.mark.parametrize("num_keys", [1, 3])
def test_sort_of_several_arrays(num_keys, monkeypatch):
    rng = np.random.default_rng(6)
    several = [("float32", "int8", "float16", "bool"), ("complex64", "float64", "uint64", "int32")]
    for dtypes in several:
        for shape, axis in ROWS:
            args = [random_array(rng, shape, dtype) for dtype in dtypes]
            check_loops(registry["sort"], args, sort_params(axis, num_keys))
    if num_keys == 3:
        args = [random_array(rng, (300, 2), dtype) for dtype in ("float32", "complex64", "int8")]
        check_loops(registry["sort"], args, sort_params(0, 2), compiled=True)
    monkeypatch.setattr(machine_model, "COUNTED_ROW", 4)
    for shape, axis in OTHER_ROWS:
        args = [random_array(rng, shape, dtype) for dtype in several[0]]
        check_loops(registry["sort"], args, sort_params(axis, num_keys))


@pytest.mark.parametrize("dtype", SOME)
def test_top_k(dtype, monkeypatch):
    rng = np.random.default_rng(7)
    for shape, axis, k in [((9,), 0, 3), ((2, 40), 1, 35), ((40, 2), 0, 5), ((4, 6), 1, 6)]:
        check_loops(registry["top_k"], [random_array(rng, shape, dtype)], {"k": k, "axis": axis})
    monkeypatch.setattr(machine_model, "COUNTED_ROW", 4)
    check_loops(registry["top_k"], [random_array(rng, (50,), dtype)], {"k": 33, "axis": 0})
    if dtype == "float32":
        check_loops(registry["top_k"], [random_array(rng, (2000,), dtype)], {"k": 100, "axis": 0}, compiled=True)
        check_loops(registry["top_k"], [random_array(rng, (300, 3), dtype)], {"k": 4, "axis": 0}, compiled=True)


# --- running combinations and positions -----------------------------------------------------------------------

AXES = [((23,), 0), ((3, 40), 1), ((9, 4, 3), 1), ((2, 4, 5), 1), ((1, 6), 1), ((2, 17), 1)]


@pytest.mark.parametrize("dtype", FLOATS)
def test_running_log_sum_exp(dtype):
    rng = np.random.default_rng(9)
    close = 1e-3 if dtype == "float16" else 1e-6
    for shape, axis in AXES:
        x = random_array(rng, shape, dtype)
        check_loops(registry["cumlogsumexp"], [x], {"axis": axis, "reverse": True}, tolerance=close)
        x = (10 * rng.normal(size=shape)).astype(dtype)
        check_loops(registry["cumlogsumexp"], [x], {"axis": axis, "reverse": False}, tolerance=close)


ROWS_OF_BLOCKS = [((2, n), 1) for n in (15, 16, 128, 300)]
BLOCKS_OF_COLUMNS = [((9, 5, n), 1) for n in (2, 4)]
COLUMNS = [((3, 50), 0), ((2, 10, 4), 1), ((9, 10, 3), 1), ((9, 10, 40), 1)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "uint64", "bool"])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_position_in_rows_of_two(name, dtype):
    numbers = [0.0, -0.0, 1.0, -1.0, 5.0, np.inf, -np.inf, np.nan] if dtype[0] == "f" else [0, 1, 5]
    pairs = np.array([(x, y) for x in numbers for y in numbers]).astype(dtype)
    expected = getattr(np, name)(pairs, 1)
    for f in (getattr(jnp, name), functad.jit(getattr(jnp, name), static_argnums=1)):
        np.testing.assert_array_equal(f(pairs, 1), expected)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", SOME)
def test_positions(name, dtype):
    rng = np.random.default_rng(10)
    for index_dtype, shapes in [
        ("int32", [*AXES, *ROWS_OF_BLOCKS, *BLOCKS_OF_COLUMNS]),
        ("uint8", [((300, 2), 0), ((9, 10), 1)]),
    ]:
        for shape, axis in shapes:
            x = random_array(rng, shape, dtype, special=rng.random() < 0.5)
            params = {"axes": (axis,), "index_dtype": np.dtype(index_dtype)}
            check_loops(registry[name], [x], params)
            check_program(registry[name], [x], params)
    if dtype == "float32":
        for shape, axis in [((3, 1000), 1), ((9, 20, 40), 1), ((100, 10), 1), ((9, 100), 1)]:
            x = random_array(rng, shape, dtype, special=shape[0] == 9)
            params = {"axes": (axis,), "index_dtype": np.dtype("int64")}
            check_loops(registry[name], [x], params, compiled=True)
            check_program(registry[name], [x], params)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", ["float16", "float64", "uint8", "bool"])
def test_positions_as_reductions(name, dtype):
    rng = np.random.default_rng(11)
    for shape, axis in [
        ((3, 512), 1),
        ((2, 700), 1),
        ((40000,), 0),
        ((300, 5), 0),
        ((5, 1), 1),
        ((2, 3, 1000), 2),
        *COLUMNS,
    ]:
        x = random_array(rng, shape, dtype, special=len(shape) > 1)
        params = {"axes": (axis,), "index_dtype": np.dtype("int32")}
        steps = lower_program(program_of(registry[name], [x], params)).schedule.steps
        assert any(isinstance(s, NestStep) for s in steps)
        assert not any(isinstance(s, KernelStep) and s.name.startswith("arg") for s in steps)
        check_program(registry[name], [x], params)


@pytest.mark.parametrize(("dtype", "columns"), [("float32", 8), ("float64", 4), ("int8", 2)])
def test_positions_of_columns_that_fit_into_a_vector_are_one_kernel(dtype, columns):
    params = {"axes": (1,), "index_dtype": np.dtype("int32")}
    x = random_array(np.random.default_rng(12), (8, 5, columns), dtype, special=True)
    steps = lower_program(program_of(registry["argmax"], [x], params)).schedule.steps
    assert [s.name for s in steps if isinstance(s, KernelStep)] == ["argmax"]
    check_program(registry["argmax"], [x], params)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_the_first_of_equal_extrema_and_of_nans(name):
    value = 9.0 if name == "argmax" else -9.0
    x = np.zeros((6, 200), np.float32)
    x[1, [150, 160]] = x[2, [3, 190]] = value
    x[3, 199] = x[4, [130, 131]] = x[4, 5] = np.nan
    x[4, 2] = x[5, :] = np.inf if name == "argmax" else -np.inf
    x[0, ::2] = -0.0
    for length in (200, 132, 20):
        y = x[:, :length].copy()
        params = {"axes": (1,), "index_dtype": np.dtype("int32")}
        check_loops(registry[name], [y], params, compiled=True)
        check_program(registry[name], [y], params)
    long = np.repeat(x, 4, 1)[:, :790]  # the last block of those that are looked through first is not whole
    check_program(registry[name], [long], params)
