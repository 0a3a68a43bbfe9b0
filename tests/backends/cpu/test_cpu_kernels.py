"""Kernels that do the same are one kernel: in a Program, in a process, and on disk; constants are given to them."""

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax, nn
from functad.backends.cpu.compile import machine, objects
from functad.backends.cpu.compile import shared_kernels as kernels
from functad.lowering.nests.builder import NestBuilder
from functad.lowering.nests.nest import typed_literal

pytestmark = pytest.mark.generated(every=3)  # tables of shapes, dtypes and ways

X = np.linspace(-2, 2, 37, dtype=np.float32)


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    """The names of the kernels that are compiled from now on; nothing is known before, nor lies on disk."""
    monkeypatch.setenv("FUNCTAD_CACHE_DIR", str(tmp_path))
    forget()
    names = []
    compile_kernels = machine.compile_kernels

    def noting(source, path, signatures, *rest, **options):
        names.extend(signatures)
        return compile_kernels(source, path, signatures, *rest, **options)

    monkeypatch.setattr(machine, "compile_kernels", noting)
    yield names
    forget()


def forget():
    kernels._known.clear()
    objects._loaded.clear()


def test_functions_that_differ_in_a_constant_share_their_kernel(compiled):
    for k in range(20):
        c = 0.1 + 0.013 * k
        f = functad.jit(lambda x, c=c: jnp.sin(x * c) + c)
        np.testing.assert_array_equal(np.asarray(f(X)), np.asarray(f.lower(X).compile()(X)))
        np.testing.assert_allclose(np.asarray(f(X)), np.sin(X * np.float32(c)) + np.float32(c), rtol=1e-6)
    assert len(compiled) == 1


def test_two_kernels_of_a_program_that_differ_in_a_constant_are_one(compiled):
    def f(x, y):
        return jnp.sum(x * 0.3), jnp.sum(y * 0.7)

    total, other = functad.jit(f)(X, X + 1)
    assert len(compiled) == 1
    np.testing.assert_allclose([total, other], [np.sum(X * 0.3), np.sum((X + 1) * 0.7)], rtol=1e-5, atol=1e-6)


def test_kernels_of_slices_of_an_array_are_one(compiled):
    rows = np.arange(50, dtype=np.float32).reshape(10, 5)

    def f(rows):
        return [jnp.sum(jnp.exp(rows[k] * 0.1)) for k in range(1, 10)]

    results = np.asarray(functad.jit(f)(rows))
    np.testing.assert_allclose(results, np.exp(rows[1:] * 0.1).sum(1), rtol=1e-5)
    assert len(compiled) == 1
    text = str(functad.jit(f).lower(rows).kernels)
    assert "begins at element 5, 10, 15, … (9 values)\n" in text and "# c_1 = 0.1\n" in text


def test_a_loop_is_given_its_constants(compiled):
    for c in (0.3, 0.7, 1.1):
        f = functad.jit(lambda x, c=c: lax.fori_loop(0, 100, lambda _, x: x + c * (1.3 - x) * x, x))
        expected = np.float32(0.4)
        for _ in range(100):
            expected = expected + np.float32(c) * (np.float32(1.3) - expected) * expected
        np.testing.assert_allclose(np.asarray(f(np.float32(0.4))), expected, rtol=1e-5)
        assert len(compiled) == len(set(compiled)), compiled
    assert sum("loop" in name or "scan" in name or "while" in name for name in compiled) == 1


def test_other_programs_find_single_kernels_on_disk(compiled):
    def one(x):
        return jnp.sum(x * 0.3), jnp.cumsum(x)

    def other(weights):
        return jnp.max(weights), jnp.sum(weights * 0.9)

    functad.jit(one)(X)
    before = len(compiled)
    forget()
    total = functad.jit(other)(X)[1]
    np.testing.assert_allclose(np.asarray(total), np.sum(X * np.float32(0.9)), rtol=1e-5, atol=1e-6)
    assert len(compiled) == before + 1 and "max" in compiled[-1]
    forget()
    functad.jit(other)(X)  # from two object files
    functad.jit(one)(X)
    assert len(compiled) == before + 1


def test_special_and_whole_numbers_stay_in_the_text():
    def f(x, n):
        return x * 2.0 + 0.5, jnp.where(x > 0, x, -jnp.inf), n * 5 + 3, x**2.3, x / 8, x + jnp.nan

    text = str(functad.jit(f).lower(X, np.arange(4)).kernels)
    assert "c_1" in text and "c_2" not in text  # an eighth
    assert "/ " not in text.split('"""')[2] and "# c_1 = 0.125" in text


PROGRAMS = {
    "chain": lambda x: jnp.tanh(x * 0.3 + 0.7) / 3.3 - jnp.exp(0.1 * x) * 1.7,
    "logistic regression": functad.grad(lambda x: jnp.mean(nn.softplus(0.37 * x - 1.1)) + 0.01 * jnp.sum(x**2)),
    "choice": lambda x: jnp.where(x > 0.31, jnp.clip(x, -0.7, 1.3), 5.5),
    "padding": lambda x: lax.pad(x, x.dtype.type(0.7), [(1, 2, 1)]),
    "reduction": lambda x: jnp.sum(jnp.ones((3, 40), x.dtype) * x.dtype.type(0.1)),
    "loop": lambda x: lax.fori_loop(0, 9, lambda i, x: x * 0.9 + 0.2 * jnp.sin(x * 1.2), x),
    "powers": lambda x: abs(x) ** 0.3 + jnp.power(1.7, x),
}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_constant_given_is_as_good_as_one_in_the_text(name, dtype, monkeypatch):
    x = X.astype(dtype)
    given = functad.jit(PROGRAMS[name])
    result = np.asarray(given(x))
    with monkeypatch.context() as patch:
        patch.setattr(NestBuilder, "literal", lambda self, value, dtype: typed_literal(value, dtype))
        written = functad.jit(lambda x: PROGRAMS[name](x))
        expected = np.asarray(written(x))
        assert "c_1" not in str(written.lower(x).kernels)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result.view(f"u{x.itemsize}"), expected.view(f"u{x.itemsize}"))


def test_a_short_range_that_no_threads_share_is_known():
    def kernels_of(f, *args):
        return str(functad.jit(f).lower(*args).kernels)

    x = np.linspace(-1, 1, 7)
    assert "in range(7):" in kernels_of(jnp.tanh, x) and "start, stop):\n    for" not in kernels_of(jnp.tanh, x)
    np.testing.assert_allclose(functad.jit(jnp.tanh)(x), np.tanh(x), rtol=1e-14)
    assert "in range(start, stop):" in kernels_of(jnp.tanh, np.zeros(1000))
    # The kernel of two lengths has no number; a range that is cut is not known.
    both = kernels_of(lambda x, y: (jnp.tanh(x), jnp.tanh(y)), x, np.zeros(9))
    assert both.count("def ") == 1 and "in range(start, stop):" in both
    heavy = np.ones((40, 5000), np.float32)
    assert "in range(start, stop):" in kernels_of(lambda x: jnp.sum(jnp.tanh(x), 1), heavy)


@pytest.mark.parametrize("donated", [(), 0])
def test_a_short_range_that_is_run_in_pieces_is_not_known(donated):
    x, rows = np.ones(60, np.float32), np.full((60, 300), 0.5, np.float32)
    added = functad.jit(lambda x, rows: x + jnp.fmod(rows, 0.7).sum(1), donate_argnums=donated)
    assert "in range(start, stop):" in str(added.lower(x, rows).kernels)
    np.testing.assert_array_equal(added(jnp.array(x), rows), np.full(60, 151, np.float32))


def test_a_short_range_may_make_of_two_kernels_one_text(compiled):
    def f(x, y):
        return jnp.tanh(x), jnp.tanh(y[:, None] * jnp.ones((1, 1)))

    x = np.linspace(-1, 1, 7)
    first, other = functad.jit(f)(x, x)
    np.testing.assert_array_equal(first, other[:, 0])
    assert len(compiled) == 1
