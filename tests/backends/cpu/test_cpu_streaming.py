"""Large results that pass by the caches."""

import numpy as np
import pytest
from cpu_program_tools import check_plain

import functad
import functad.numpy as jnp
from functad import machine_model

RNG = np.random.default_rng(8)


@pytest.fixture(autouse=True)
def all_are_large(monkeypatch):
    monkeypatch.setattr(machine_model, "LOOP_STREAMED_BYTES", 0)


def text_of(f, *args, **given):
    return str(functad.jit(f, **given).lower(*args).kernels)


def lines_together(f, args):
    """What is computed, which must be NumPy's, and the text of its kernels."""
    args = [np.asarray(x) for x in args]
    lowered = check_plain(functad.make_jaxpr(f)(*args), args, [False] * len(args))
    for found, wanted in zip(functad.tree.leaves(functad.jit(f)(*args)), functad.tree.leaves(f(*args))):
        np.testing.assert_array_equal(found, wanted)
    return str(lowered.kernels)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint64"])
def test_all_of_a_result_is_written_in_lines(dtype):
    x, y = ((RNG.normal(size=(6, 192)) * 9).astype(dtype) for _ in range(2))
    text = lines_together(lambda x, y: (x + y, x - y), [x, y])
    assert text.count("    stream(") == 2 and text.count("store_fence()\n") == 1
    assert "in range(64):" in text and "out_" in text.partition("stream(")[2].partition(")")[0]


def test_rows_of_another_operand_and_what_is_constant_along_rows():
    x, row, column = RNG.normal(size=(5, 128)), RNG.normal(size=128), RNG.normal(size=(5, 1))
    text = lines_together(lambda x, row, column: x * row + column, [x, row, column])
    assert "stream(" in text and "128*i + 64*j_line" in text
    text = lines_together(lambda x: jnp.broadcast_to(jnp.max(x, 1)[:, None], (5, 128)) * 2, [x])
    assert "stream(" in text


def test_numbers_that_are_the_same_everywhere():
    assert "stream(" in lines_together(lambda: (jnp.zeros((4, 128)), jnp.full((64, 64), 3)), [])
    x = RNG.normal(size=(4, 128)).astype(np.float32)
    assert lines_together(lambda x: (x + 1, jnp.full_like(x, -0.0)), [x]).count("    stream(") == 2


def test_one_piece_alone_is_written_as_ever():
    assert "stream(" not in lines_together(lambda x: x + 1, [np.ones(machine_model.STREAMED_TOGETHER, np.float32)])


@pytest.mark.parametrize("shape", [(5, 72), (3, 100), (63,)])
def test_rows_that_are_no_whole_lines_are_written_as_ever(shape):
    x = RNG.normal(size=shape).astype(np.float32)
    text = lines_together(lambda x: jnp.stack([x, x + 1], -1), [x])
    assert "stream(" not in text


def test_what_several_kernels_write_is_written_as_ever():
    x, y = (RNG.normal(size=(4, n)).astype(np.float32) for n in (64, 128))
    assert "stream(" not in lines_together(lambda x, y: jnp.concatenate([x + 1, y - 1], 1), [x, y])


def test_what_is_read_is_not_streamed():
    x = RNG.normal(size=(64, 64)).astype(np.float32)

    def read_again(x):
        y = x + 1
        return y, jnp.cumsum(y, 0)

    assert "stream(" not in text_of(read_again, x).partition("cumsum")[0]
    updated = functad.jit(lambda x, y: x + y, donate_argnums=0)
    assert "stream(" not in str(updated.lower(x, x).kernels)
    np.testing.assert_array_equal(updated(x.copy(), x), x + x)


def test_memory_that_does_not_begin_with_a_line():
    memory = np.zeros(64 * 64 + 16, np.float32)
    x = RNG.normal(size=(64, 64)).astype(np.float32)
    given = memory[1 : 1 + x.size].reshape(x.shape)
    assert "stream(" in text_of(lambda given, x: jnp.exp(x), given, x)
    given[:] = 3
    found = functad.jit(lambda given, x: (x * 2, given + 1), donate_argnums=0)(given, x)
    np.testing.assert_array_equal(found[0], x * 2)


def test_what_the_caches_hold_stays_there(monkeypatch):
    monkeypatch.undo()
    x = np.zeros((4096, 1024), np.float32)
    assert "stream(" in text_of(lambda x: -x, x) and "stream(" not in text_of(lambda x: -x, x[1:])
    assert "stream(" not in text_of(lambda x: jnp.broadcast_to(x[:1], x.shape) * 2, x)
