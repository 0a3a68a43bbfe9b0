"""Kernels that exchange rows and columns, products of many rows with a small matrix, sums into few columns."""

from __future__ import annotations

import numpy as np
import pytest
from bfloat16_tools import BFLOAT16
from cpu_program_tools import check_plain

import functad
import functad.numpy as jnp
from functad import machine_model
from functad.backends.cpu.compile import machine, target
from functad.backends.cpu.lowering import CpuLowering

pytestmark = pytest.mark.generated(every=3)  # tables of shapes, dtypes and ways

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool", "complex64", "complex128", "float16"])
@pytest.mark.parametrize(
    "shape", [(8, 8), (16, 8), (8, 24), (32, 16), (128, 72), (7, 8), (8, 9), (1, 16), (64, 160), (256, 264)]
)
def test_transposes(shape, dtype):
    x = (RNG.normal(size=shape) * 9).astype(dtype)
    found = functad.jit(lambda x: jnp.swapaxes(x, 0, 1).copy())(x)
    assert np.array_equal(found, x.T)


def test_a_square_is_a_loop_of_its_own():
    text = str(functad.jit(lambda x: x.T + 1).lower(np.zeros((64, 1024), np.float32)).kernels)
    assert "for i_tile in range(start, stop):" in text
    assert "transposed_16(input_a, " in text and "for j in range(16):" in text


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "float16", "complex64"])
@pytest.mark.parametrize("shape", [(64, 32), (3, 32, 96), (2, 128, 64)])
def test_transposed_copies_are_packed_first(monkeypatch, shape, dtype):
    monkeypatch.setattr(machine_model, "FIRST_CACHE", 1024)
    x = (RNG.normal(size=shape) * 9).astype(dtype)

    def turned(x, front):
        y = jnp.swapaxes(x[..., 32:], -1, -2)
        return jnp.swapaxes(x, -1, -2), jnp.concatenate([front, y], -1)

    front = np.ones((*shape[:-2], shape[-1] - 32, 5), dtype)
    program = functad.make_jaxpr(turned)(x, front)
    text = str(check_plain(program, [x, front], [False, False]).kernels)
    assert "packed_tile(" in text and "write_transposed(" in text
    wanted = np.swapaxes(x, -1, -2)
    found, joined = functad.jit(turned)(x, front)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(joined, np.concatenate([front, wanted[..., 32:, :]], -1))


@pytest.mark.parametrize("shape", [(240, 256), (64, 64)])
def test_what_is_small_or_tiles_do_not_divide_is_turned_in_squares(shape):
    text = str(functad.jit(lambda x: x.T).lower(np.zeros(shape, np.float32)).kernels)
    assert "transposed_16(" in text and "packed_tile(" not in text


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "float16", "complex64"])
def test_squares_as_plain_python(dtype):
    x = (RNG.normal(size=(24, 16)) * 9).astype(dtype)
    program = functad.make_jaxpr(lambda x: (x.T.copy(), (x[16:].T == x[8:16].T) & True))(x)
    assert "transposed_8" in str(check_plain(program, [x], [False]).kernels)


def test_memory_of_large_results_is_asked_for(monkeypatch):
    monkeypatch.setattr(machine_model, "SECOND_CACHE", 1024)
    x = RNG.normal(size=(32, 48)).astype(np.float32)
    lowered = check_plain(functad.make_jaxpr(lambda x: x.T * 2)(x), [x], [False])
    assert ", 48, out_c, 512*i_tile + 16*j_tile, 32)" in str(lowered.kernels)
    np.testing.assert_array_equal(functad.jit(lambda x: x.T * 2)(x), x.T * 2)


@pytest.mark.parametrize(("shape", "dtype"), [((16, 48), "float32"), ((2, 16, 32), "uint32"), ((8, 24), "int64")])
def test_large_results_pass_by_the_caches(monkeypatch, dtype, shape):
    monkeypatch.setattr(machine_model, "SQUARES_STREAMED_BYTES", 0)
    monkeypatch.setattr(machine_model, "FEWEST_OF_SQUARES", 1)
    x = (RNG.normal(size=shape) * 9).astype(dtype)

    def turned(x):
        y = jnp.swapaxes(x, -1, -2)
        return y * 2 + 1, y

    lowered = check_plain(functad.make_jaxpr(turned)(x), [x], [False])
    assert "    stream_" in str(lowered.kernels)
    for found, wanted in zip(functad.jit(turned)(x), (np.swapaxes(x, -1, -2) * 2 + 1, np.swapaxes(x, -1, -2))):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("before", [1, 16])
def test_rows_that_do_not_begin_with_a_cache_line_are_streamed(monkeypatch, before):
    monkeypatch.setattr(machine_model, "SQUARES_STREAMED_BYTES", 0)
    x, front = RNG.normal(size=(64, 32)).astype(np.float32), np.ones((32, before), np.float32)
    found = functad.jit(lambda x, front: jnp.concatenate([front, x.T], 1))(x, front)
    np.testing.assert_array_equal(found, np.concatenate([front, x.T], 1))
    whole = np.zeros(64 * 32 + 16 + before, np.float32)
    unaligned = whole[before : before + 64 * 32].reshape(64, 32)
    unaligned[:] = x
    found = functad.jit(lambda x: x.T + x.reshape(32, 64), donate_argnums=0)(unaligned)
    np.testing.assert_array_equal(found, x.T + x.reshape(32, 64))


def assembly_of_transpose(dtype):
    lowering = CpuLowering(functad.make_jaxpr(lambda x: x.T)(np.zeros((1024, 1024), dtype)))
    (lines,) = lowering.machine_code().assembly.values()
    return "\n".join(line.text for line in lines)


@pytest.mark.skipif("+avx512f" not in target.host()[1], reason="this processor has no such vectors")
def test_squares_stay_in_registers():
    text = assembly_of_transpose(np.float16)
    assert text.count("prefetchw") == 16 and "rsp" not in text


@pytest.mark.skipif("+avx" not in target.host()[1], reason="this processor has no such vectors")
def test_bands_are_turned_by_optimised_code_and_pass_by_the_caches():
    text = assembly_of_transpose(np.float32)
    moves = text.count("vunpck") + text.count("vperm") + text.count("vinsert") + text.count("vshuf")
    assert moves >= 32 and 1 <= text.count("vmovnt") <= 16 and text.count("sfence") == 1


@pytest.mark.parametrize("side", [1024, 1040])  # in bands, and square by square
def test_llvm_works_on_what_is_only_moved_though_no_element_stands_in_its_text(side):
    generated = CpuLowering(functad.make_jaxpr(lambda x: x.T)(np.zeros((side, side), np.float32))).generated
    assert "[" not in generated.source.partition("def ")[2].split("\n", 2)[2]
    parts = machine._kernels(generated.source, "kernels.py", generated.signatures, {}, fused=False)
    assert [batch.effort for batch in machine._batches(parts)] == [3]


@pytest.mark.parametrize(("dtype", "side"), [("float32", 16), ("uint64", 8), ("float64", 8)])
def test_bands_of_columns(monkeypatch, dtype, side):
    monkeypatch.setattr(machine_model, "SQUARES_STREAMED_BYTES", 0)
    monkeypatch.setattr(machine_model, "FEWEST_OF_SQUARES", 1)
    x = (RNG.normal(size=(12 * side, 2 * side)) * 9).astype(dtype)
    both = lambda x, y: (x.T, x.T * 3 - y)  # noqa: E731
    y = (RNG.normal(size=(2 * side, 12 * side)) * 9).astype(dtype)
    lowered = check_plain(functad.make_jaxpr(both)(x, y), [x, y], [False, False])
    text = str(lowered.kernels)
    assert f"transposed_band_{side}(" in text and f"for j in range({4 * side}):" in text  # 4 of 12 squares
    for found, wanted in zip(functad.jit(both)(x, y), both(x, y)):
        np.testing.assert_array_equal(found, wanted)


def test_what_is_only_moved_goes_from_its_band_to_memory():
    text = str(functad.jit(lambda x: x.T).lower(np.zeros((1024, 2048), np.float32)).kernels)
    assert "i_first = line_start(input_a, 262144*j_tile + 16*i_tile, 16*i_tile, 2032)" in text
    assert "at_a_square = transposed_band_16(input_a, 262144*j_tile + i_first, 2048, 8)" in text
    assert "stream_16(at_a_square, out0_b, 1024*i_first + 128*j_tile, 1024, 8)" in text
    assert "range(16)" not in text


@pytest.mark.parametrize(("dtype", "side"), [("float32", 16), ("float64", 8)])
def test_squares_begin_with_cache_lines_wherever_the_operand_does(monkeypatch, dtype, side):
    monkeypatch.setattr(machine_model, "SQUARES_STREAMED_BYTES", 0)
    monkeypatch.setattr(machine_model, "FEWEST_OF_SQUARES", 1)
    rows, columns = 4 * side, 3 * side
    memory, y = np.zeros(rows * columns + side, dtype), RNG.normal(size=(columns, rows)).astype(dtype)
    turned = functad.jit(lambda x, y: (x.T, x.T - y))
    for before in range(side):
        x = memory[before : before + rows * columns].reshape(rows, columns)
        x[:] = RNG.normal(size=x.shape)
        for found, wanted in zip(turned(x, y), (x.T, x.T - y)):
            np.testing.assert_array_equal(found, wanted)
    text = str(turned.lower(x, y).kernels)
    assert f"range({columns // side + 1})" in text and f"{side}*i_tile, {columns - side})" in text


def test_squares_do_not_overlap_where_rows_begin_differently_or_what_is_read_is_written(monkeypatch):
    monkeypatch.setattr(machine_model, "SQUARES_STREAMED_BYTES", 0)
    monkeypatch.setattr(machine_model, "FEWEST_OF_SQUARES", 1)
    x = RNG.normal(size=(128, 64)).astype(np.float32)
    wide = RNG.normal(size=(128, 72)).astype(np.float32)
    below = functad.jit(lambda y, x: y - x.T, donate_argnums=0)
    part = functad.jit(lambda wide: wide[:, 4:68].T)
    for f, given in ((below, (np.ascontiguousarray(x.T), x)), (part, (wide,))):
        text = str(f.lower(*given).kernels)
        assert "transposed_band_16(" in text and "line_start(" not in text
    np.testing.assert_array_equal(below(np.ascontiguousarray(2 * x.T), x), x.T)
    np.testing.assert_array_equal(part(wide), wide[:, 4:68].T)


@pytest.mark.parametrize("dtype", ["float16", BFLOAT16, "int32", "float32"])
@pytest.mark.parametrize("columns", [1024, 1040])
def test_what_gets_another_type_is_not_only_moved(dtype, columns):
    """Floats of 16 bits get it by being read."""
    x = jnp.asarray(RNG.normal(size=(columns, 1024)) * 9).astype(dtype)
    both = lambda x: (x.T.astype("float32"), x.T.astype("float32") * 2)  # noqa: E731
    for f in (lambda x: x.T.astype("float32"), both):
        for found, wanted in zip(functad.tree.leaves(functad.jit(f)(x)), functad.tree.leaves(f(x))):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("shape", [(3, 16, 8), (8, 8, 8), (2, 3, 40, 16)])
def test_transposes_within_something_larger(shape):
    x = RNG.normal(size=shape).astype(np.float32)
    last = len(shape) - 1
    row = RNG.normal(size=shape[-2]).astype(np.float32)
    for axes in ((last, last - 1), (0, last), (0, last - 1)):
        found = functad.jit(lambda x, axes=axes: jnp.swapaxes(x, *axes) * 2 + 1)(x)
        np.testing.assert_array_equal(found, np.swapaxes(x, *axes) * 2 + 1)
    moved = functad.jit(lambda x, row: (jnp.swapaxes(x, -1, -2) * row)[..., ::-1, :])(x, row)
    np.testing.assert_array_equal(moved, (np.swapaxes(x, -1, -2) * row)[..., ::-1, :])


def test_the_number_of_threads_does_not_change_a_transpose():
    x = RNG.normal(size=(520, 1024)).astype(np.float32)
    fun = functad.jit(lambda x: jnp.tanh(x.T))
    found = []
    for threads in (1, 2):
        with functad.config.context(num_threads=threads):
            found.append(np.array(fun(x)))
    assert np.array_equal(*found)
    np.testing.assert_allclose(found[0], np.tanh(x.T), rtol=1e-5)


@pytest.mark.parametrize("rows", [257, 300, 1031])
@pytest.mark.parametrize(("depth", "columns"), [(28, 512), (256, 65), (65, 256), (130, 251), (512, 64)])
def test_many_rows_times_a_small_matrix(rows, depth, columns):
    a = RNG.normal(size=(rows, depth)).astype(np.float32)
    b = RNG.normal(size=(depth, columns)).astype(np.float32)
    c = RNG.normal(size=(rows, columns)).astype(np.float32)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(functad.jit(lambda a, b: a @ b)(a, b), wanted, atol=2e-4)
    np.testing.assert_allclose(functad.jit(lambda a, b, c: c - 0.5 * (a @ b))(a, b, c), c - 0.5 * wanted, atol=2e-4)


@pytest.mark.parametrize("columns", [1, 2, 3, 7, 8, 9])
@pytest.mark.parametrize("shape", [(5, 70), (2000,)])
def test_sums_into_few_columns(shape, columns):
    x = RNG.normal(size=(*shape, columns)).astype(np.float32)
    y = (RNG.uniform(size=shape) + 1).astype(np.float32)
    axis = len(shape) - 1
    for fun in (
        lambda m, x, y: (x / y[..., None]).sum(axis),
        lambda m, x, y: (m.exp(x) * y[..., None]).sum(axis) + x.max(axis),
        lambda m, x, y: (x * x).sum(axis),
    ):
        found = functad.jit(lambda x, y, fun=fun: fun(jnp, x, y))(x, y)
        np.testing.assert_allclose(found, fun(np, x.astype(np.float64), y.astype(np.float64)), rtol=1e-4, atol=1e-4)
