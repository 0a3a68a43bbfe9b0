"""How primitives that move, sort, scatter and accumulate are lowered, against their implementations.

Knows the primitives' records and `loops_tools`; every case runs as plain Python, some as machine code too.
"""

from __future__ import annotations

import numpy as np
import pytest
from gather_tools import random_gather
from loops_tools import check_loops, record
from movement_tools import COMPLEX, FLOATS, INTEGERS, check_program, random_array

import functad
from functad import machine_model
from functad.all_primitives import registry
from functad.backends.cpu.executable import lower_program
from functad.lowering_rules import Loops, Scattered
from functad.primitives.dimension_numbers import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers

pytestmark = pytest.mark.generated(every=3)  # tables of shapes, dtypes and ways

SCATTERS = {"scatter": "set", "scatter-add": "add", "scatter-mul": "mul", "scatter-min": "min", "scatter-max": "max"}
MINE = [
    *("concatenate", "stack", "dynamic_update_slice", *SCATTERS, "sort", "top_k", "argmax", "argmin"),
    "cumlogsumexp",
]


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


# --- elements fetched by their index ----------------------------------------------------------------------------

KINDS = ["float32", "float16", "int32", "uint8", "bool", "float64", "int8", "complex64", "uint64"]


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
