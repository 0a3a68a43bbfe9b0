"""How primitives that move, sort, scatter and accumulate are lowered, against their implementations.

Knows the primitives' records and `loops_tools`; every case runs as plain Python, some as machine code too.
"""

from __future__ import annotations

import numpy as np
import pytest
from gather_tools import random_gather
from loops_tools import assert_same_array, check_loops, record

import functad
import functad.numpy as jnp
from functad import machine_model
from functad.all_primitives import registry
from functad.backends.cpu.executable import compile_program, lower_program
from functad.evaluation import implementation
from functad.lowering.steps import KernelStep, NestStep
from functad.lowering_rules import Loops, Scattered
from functad.primitives.dimension_numbers import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from functad.primitives.loops import sorting_network
from functad.system import numpy_sort
from functad.system.once import imported
from functad.tracing import bind

pytestmark = pytest.mark.generated(every=3)  # tables of shapes, dtypes and ways

FLOATS = ["float16", "float32", "float64"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
COMPLEX = ["complex64", "complex128"]
SOME = [*FLOATS, "int8", "int64", "uint16", "bool"]
SCATTERS = {"scatter": "set", "scatter-add": "add", "scatter-mul": "mul", "scatter-min": "min", "scatter-max": "max"}
MINE = [
    *("concatenate", "stack", "dynamic_update_slice", *SCATTERS, "sort", "top_k", "argmax", "argmin"),
    "cumlogsumexp",
]


def random_array(rng, shape, dtype, special=True):
    """Few distinct numbers, so that there are ties; for floats also NaN, infinities and zeros of both signs."""
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        part = f"f{dtype.itemsize // 2}"
        x = random_array(rng, shape, part, special).astype(dtype)
        x.imag = random_array(rng, shape, part, special)
        return x
    x = np.asarray(rng.integers(-5 if dtype.kind in "if" else 0, 6 if dtype.kind != "b" else 2, shape)).astype(dtype)
    if dtype.kind in "iu" and x.size:
        x.reshape(-1)[:: max(1, x.size // 3)] = [np.iinfo(dtype).min, np.iinfo(dtype).max][rng.integers(2)]
    if dtype.kind == "f" and special:
        chosen = rng.random(shape) < 0.4
        x = np.where(chosen, rng.choice([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0], size=shape), x).astype(dtype)
    return x.astype(dtype).reshape(shape)


@pytest.mark.parametrize("name", MINE)
def test_examples(name):
    primitive = registry[name]
    for number, example in enumerate(primitive.examples()):
        check_loops(primitive, example.args, example.params, tolerance=2e-6)
        if number < 2:
            check_loops(primitive, example.args, example.params, tolerance=2e-6, compiled=True)


# --- joining --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape, axis", [((3, 4), 0), ((3, 4), 1), ((20, 2, 1), 1), ((9, 1), 1), ((2, 0), 1), ((5,), 0)]
)
def test_concatenate_and_stack(shape, axis):
    rng = np.random.default_rng(0)
    for dtype in ["bool", "float16", "int8", "complex64", "float64"]:
        parts = [random_array(rng, shape, dtype) for _ in range(3)]
        longer = random_array(rng, (*shape[:axis], 7, *shape[axis + 1 :]), dtype)
        check_loops(registry["concatenate"], [*parts, longer], {"dimension": axis})
        check_loops(registry["stack"], parts, {"axis": axis})
        check_loops(registry["stack"], parts, {"axis": axis + 1})


def test_joining_many_operands():
    parts = [np.float32(k) for k in range(100)]
    check_loops(registry["stack"], parts, {"axis": 0})
    rows = [np.full((10, k % 3), k, np.int32) for k in range(70)]
    check_loops(registry["concatenate"], rows, {"dimension": 1}, compiled=True)


def test_an_operand_joined_with_itself_is_one_buffer():
    target = record(registry["stack"], [np.zeros(3, np.float32)], {"axis": 0})
    out = type(target.outs[0])((2, 3), np.float32, "out")
    twice = record(registry["stack"], [np.zeros(3, np.float32)], {"axis": 0})
    twice.instructions.clear()
    registry["stack"].lower.rule(twice, [twice.ins[0]] * 2, [out], axis=0)
    assert [list(k.buffers) for k in twice.instructions] == [["x0", "out"]]


@pytest.mark.parametrize("dtype", ["bool", "float16", "float32", "int16", "complex128"])
def test_dynamic_update_slice(dtype):
    rng = np.random.default_rng(1)
    for shape, part in [((4, 5), (2, 3)), ((30, 4), (20, 4)), ((3, 2, 9), (3, 1, 9)), ((40, 3), (17, 2)), ((6,), (6,))]:
        operand, update = random_array(rng, shape, dtype), random_array(rng, part, dtype)
        for start in [0, 1, -4, 100]:
            starts = [np.int32(start)] * len(shape)
            check_loops(registry["dynamic_update_slice"], [operand, update, *starts], {})
    top = [np.uint64(2**64 - 1), np.uint64(1)]
    check_loops(registry["dynamic_update_slice"], [random_array(rng, (4, 5), dtype), update[:2, None], *top], {})


# --- scattering -----------------------------------------------------------------------------------------------


def random_scatter(rng, dtype):
    """Arguments and parameters of a random scatter; some indices out of bounds, some twice."""
    operand, indices, gather = random_gather(rng, batching=bool(rng.integers(2)))
    sizes = gather["slice_sizes"]
    dropped = [*gather["collapsed_slice_dims"], *gather["operand_batching_dims"]]
    window = [n for d, n in enumerate(sizes) if d not in dropped]
    shape, batch, sizes = [], list(indices.shape[:-1]), list(window)
    for d in range(len(window) + indices.ndim - 1):
        shape.append(sizes.pop(0) if d in gather["offset_dims"] else batch.pop(0))
    numbers = ScatterDimensionNumbers(
        tuple(gather["offset_dims"]),
        tuple(gather["collapsed_slice_dims"]),
        tuple(gather["start_index_map"]),
        tuple(gather["operand_batching_dims"]),
        tuple(gather["start_indices_batching_dims"]),
    )
    params = {
        "dimension_numbers": numbers,
        "indices_are_sorted": False,
        "unique_indices": False,
        "mode": rng.choice(list(GatherScatterMode)),
    }
    exact = np.dtype(dtype).kind != "f"
    operand = random_array(rng, operand.shape, dtype) if exact else rng.integers(-4, 5, operand.shape).astype(dtype)
    updates = random_array(rng, shape, dtype) if exact else rng.integers(-4, 5, shape).astype(dtype)
    return [operand, indices, updates], params


@pytest.mark.parametrize("name", SCATTERS)
@pytest.mark.parametrize("seed", range(14))
def test_scatter(name, seed):
    rng = np.random.default_rng(seed)
    dtypes = ["float32", "float16", "int32", "uint8", "bool", "float64", "int8"]
    args, params = random_scatter(rng, dtypes[seed % len(dtypes)])
    if name == "scatter" and seed % 3 == 0:
        args[0], args[2] = args[0].astype(np.complex64), args[2].astype(np.complex64)
    check_loops(registry[name], args, params)
    if seed < 2:
        check_loops(registry[name], args, params, compiled=True)


@pytest.mark.parametrize("name", ["scatter-add", "scatter-mul", "scatter-min", "scatter-max"])
@pytest.mark.parametrize("dtype", COMPLEX)
def test_scatter_of_complex_numbers(name, dtype):
    rng = np.random.default_rng(2)
    args, params = random_scatter(rng, "float32")
    args[0] = random_array(rng, args[0].shape, dtype, special=False)
    args[2] = random_array(rng, args[2].shape, dtype, special=False)
    check_loops(registry[name], args, params)
    check_loops(registry[name], args, params, compiled=True)


@pytest.mark.parametrize("name", SCATTERS)
def test_large_scatter_is_shared_by_blocks(name, monkeypatch):
    monkeypatch.setattr(machine_model, "ELEMENTS_WORTH_THREADS", 1000)
    monkeypatch.setattr(machine_model, "APART_BYTES", 64)
    monkeypatch.setattr(machine_model, "SHARED_ROW_BYTES", 0)
    rng = np.random.default_rng(3)
    rows, width, count = 37, 5, 400
    args = [rng.integers(-3, 4, (rows, width)).astype(np.float32), rng.integers(-2, rows + 2, (count, 1)), None]
    args[2] = rng.choice(np.float32([-1, 1, 1]), size=(count, width))
    numbers = ScatterDimensionNumbers((1,), (0,), (0,))
    params = {
        "dimension_numbers": numbers,
        "indices_are_sorted": False,
        "unique_indices": False,
        "mode": GatherScatterMode.FILL_OR_DROP,
    }
    assert record(registry[name], args, params).instructions[-1].n > 1
    check_loops(registry[name], args, params)
    check_loops(registry[name], args, params, compiled=True)


@pytest.mark.parametrize("name", SCATTERS)
@pytest.mark.parametrize("seed", range(14))
def test_scatter_in_parts(name, seed, monkeypatch):
    """Each part goes to a copy, if the order of updates does not matter."""
    monkeypatch.setattr(machine_model, "ELEMENTS_WORTH_THREADS", 1)
    monkeypatch.setattr(machine_model, "UPDATES_OF_PART", 1)
    rng = np.random.default_rng(seed)
    dtypes = ["float32", "float16", "int32", "uint8", "bool", "float64", "int8", "complex64"]
    args, params = random_scatter(rng, dtypes[seed % len(dtypes)])
    check_loops(registry[name], args, params)
    check_loops(registry[name], args, params, compiled=seed < 3)


@pytest.mark.parametrize("name", ["scatter-add", "scatter-min", "scatter-max", "scatter-mul", "scatter"])
@pytest.mark.parametrize("dtype", ["float32", "complex64", "int32"])
def test_only_updates_in_any_order_fall_into_parts(name, dtype):
    updates = np.full(1 << 15, -0.0).astype(dtype)
    updates[5:7] = [np.inf, np.nan] if dtype != "int32" else [-(2**31), 2**31 - 1]
    indices = (np.arange(1 << 15, dtype=np.int32) % 7)[:, None]
    operand = np.full(9, -0.0).astype(dtype)
    params = {
        "dimension_numbers": ScatterDimensionNumbers((), (0,), (0,)),
        "indices_are_sorted": False,
        "unique_indices": False,
        "mode": GatherScatterMode.FILL_OR_DROP,
    }
    *_, last = record(registry[name], [operand, indices, updates], params).instructions
    in_parts = name == "scatter-add" or (name in ("scatter-min", "scatter-max") and dtype != "complex64")
    assert last.n == (9 if in_parts else 1)  # at the end the copies are put together, element by element
    check_loops(registry[name], [operand, indices, updates], params, compiled=True)


@pytest.mark.parametrize("name", SCATTERS)
@pytest.mark.parametrize("batch", [(), (4,)])
def test_scatter_into_a_scalar(name, batch):
    args = [np.float32(3), np.zeros((*batch, 0), np.int32), np.arange(1, 5, dtype=np.float32)[: 4 if batch else 1]]
    args[2] = args[2].reshape(batch)
    params = {
        "dimension_numbers": ScatterDimensionNumbers((), (), ()),
        "indices_are_sorted": False,
        "unique_indices": False,
        "mode": GatherScatterMode.FILL_OR_DROP,
    }
    check_loops(registry[name], args, params)


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


# --- elements fetched by their index ----------------------------------------------------------------------------

KINDS = ["float32", "float16", "int32", "uint8", "bool", "float64", "int8", "complex64", "uint64"]


def program_of(primitive, args, params):
    return functad.make_jaxpr(lambda *a: bind(primitive, *a, **params))(*args)


def check_program(primitive, args, params):
    """Compare an equation, lowered and run as a Program, with the primitive's `impl`."""
    args = [np.asarray(a) for a in args]
    program = program_of(primitive, args, params)
    results = compile_program(program)(args)
    with np.errstate(all="ignore"):
        expected = implementation(primitive, [a.dtype for a in args])(*args, **params)
    expected = expected if primitive.multiple_results else [expected]
    for number, (result, want) in enumerate(zip(results, expected, strict=True)):
        what = f"{primitive.name}{[(a.shape, a.dtype.name) for a in args]} {params}, result {number}"
        assert_same_array(np.asarray(result), np.asarray(want), 0.0, what)


@pytest.fixture(params=["plain", "compiled"])
def seeds(request, monkeypatch):
    if request.param == "plain":
        monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
        return range(40)
    return range(40, 46)


def test_gather(seeds):
    for seed in seeds:
        rng = np.random.default_rng(seed)
        operand, indices, numbers = random_gather(rng, batching=bool(rng.integers(2)))
        sizes = tuple(numbers.pop("slice_sizes"))
        if seed % 4 == 0:
            indices = indices.astype(["uint8", "uint64", "int16", "uint32"][seed // 4 % 4])
        params = {
            "dimension_numbers": GatherDimensionNumbers(**{k: tuple(v) for k, v in numbers.items()}),
            "slice_sizes": sizes,
            "unique_indices": False,
            "indices_are_sorted": False,
            "mode": list(GatherScatterMode)[seed % 3],
            "fill_value": [None, 3, 0][seed % 5 % 3],
        }
        check_program(registry["gather"], [random_array(rng, operand.shape, KINDS[seed % 9]), indices], params)


def test_moving_elements(seeds):
    for seed in seeds:
        rng = np.random.default_rng(seed)
        shape = tuple(int(n) for n in rng.integers(0 if seed % 4 == 0 else 1, 5, rng.integers(0, 4)))
        x, axes = random_array(rng, shape, KINDS[seed % 9]), range(len(shape))
        starts = tuple(int(rng.integers(0, n + 1)) for n in shape)
        limits = tuple(int(rng.integers(a, n + 1)) for a, n in zip(starts, shape))
        strides = tuple(int(rng.integers(1, 4)) for _ in axes)
        window = {"start_indices": starts, "limit_indices": limits, "strides": strides}
        check_program(registry["slice"], [x], window)
        check_program(registry["rev"], [x], {"dimensions": tuple(d for d in axes if rng.random() < 0.5)})
        check_program(registry["tile"], [x], {"reps": tuple(int(r) for r in rng.integers(0, 4, len(shape)))})
        config = tuple(tuple(int(k) for k in rng.integers((-2, -2, 0), (4, 4, 3))) for _ in axes)
        if all(low + n + max(n - 1, 0) * between + high >= 0 for n, (low, high, between) in zip(shape, config)):
            check_program(registry["pad"], [x, random_array(rng, (), x.dtype)], {"padding_config": config})
        kind = ["int32", "int64", "uint8", "uint64"][seed % 4]
        at = [np.asarray(rng.integers(-3, 7)).astype(kind) for _ in axes]
        check_program(registry["dynamic_slice"], [x, *at], {"slice_sizes": limits})
        for axis in axes[:1]:
            sizes = (starts[axis], shape[axis] - starts[axis])
            check_program(registry["split"], [x], {"sizes": sizes, "axis": axis})
            if shape[axis]:
                check_program(registry["unstack"], [x], {"axis": axis})
            kind = np.dtype(KINDS[seed % 9] if KINDS[seed % 9] != "bool" else "float32")
            check_program(registry["iota"], [], {"dtype": kind, "shape": shape, "dimension": axis})


def test_bitcast(seeds):
    rng = np.random.default_rng(11)
    real = [dtype for dtype in [*FLOATS, *INTEGERS] if seeds[0] == 0 or dtype in ("float16", "int8", "uint64")]
    pairs = [(old, new) for kinds in (real, COMPLEX) for old in kinds for new in kinds]
    for old, new in [(np.dtype(a), np.dtype(b)) for a, b in pairs] + [(np.dtype(bool), np.dtype(bool))]:
        count = max(1, new.itemsize // old.itemsize)
        high = 256 if old.kind != "b" else 2
        x = rng.integers(0, high, (3, count, old.itemsize)).astype(np.uint8).view(old)[..., 0]
        x = x if new.itemsize > old.itemsize else x[:, 0]
        check_program(registry["bitcast_convert_type"], [x], {"new_dtype": new})


def test_an_embedding_is_fetched_by_rows():
    table, tokens = np.zeros((100, 7), np.float32), np.zeros((20, 3), np.int32)
    program = functad.make_jaxpr(lambda table, tokens: table[tokens])(table, tokens)
    *_, kernel = lower_program(program).generated.source.split("def ")
    assert kernel.count("for ") == 2
    assert kernel.index("gather_step") < kernel.rindex("for "), "the index is looked up once a row, not once an element"


def test_every_rule_is_one_of_the_kinds():
    assert all(isinstance(registry[name].lower, Loops | Scattered) for name in MINE)
