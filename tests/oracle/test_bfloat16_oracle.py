"""bfloat16 in all of functad: against JAX, float32 rounded once, and the package that makes the dtype."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from fuzz.kernels import OpenExecutable
from primitive_check_tools import Case, function_of
from primitive_checks import cases_of
from primitive_form_tools import Together, add_forms, compare

import functad
import functad.nn as nn
import functad.numpy as jnp
from functad import dtypes, interpreter, io, lax, optim, random
from functad.all_primitives import registry
from functad.array import ArrayImpl
from functad.errors import ArgumentError, CopyError, DTypeError, FunctadError
from functad.evaluation import aval_of
from functad.ir import Absent
from functad.primitives.kernels.conversion import converted

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

BF16 = dtypes.bfloat16_dtype()
EPS = float(dtypes.finfo(BF16).eps)
NAMES = sorted(name for name, p in registry.items() if not isinstance(p.examples, Absent))
# What NumPy's LAPACK and FFT compute has no floats of 16 bits; complex numbers have no such parts.
REFUSING = (
    "cholesky complex eig eigh fft geqp3 geqrf hessenberg householder_product lu qr schur svd triangular_solve "
    "tridiagonal tridiagonal_solve"
).split()


def uniform(*shape, low=-2.0, high=2.0, seed=0):
    return np.random.default_rng(seed).uniform(low, high, shape).astype(BF16)


# --- primitives -------------------------------------------------------------------------------------


def in_bfloat16(case):
    """The case with bfloat16 for float32, or None where it has none or its rule refuses."""
    args = [np.asarray(a) for a in case.example.args]
    if not any(a.dtype == np.float32 for a in args) or case.example.agreed is not None:
        return None
    args = [a.astype(BF16) if a.dtype == np.float32 else a for a in args]
    params = {k: BF16 if v == np.dtype("float32") else v for k, v in case.example.params.items()}
    try:
        case.primitive.abstract_eval(*[aval_of(a) for a in args], **params)
    except FunctadError:
        return None
    return Case(case.primitive, case.index, replace(case.example, args=tuple(args), params=params))


@pytest.mark.generated(every=10)
@pytest.mark.parametrize("name", NAMES)
def test_examples_of_primitives_compiled_as_not(name):
    """Each example, its derivatives, and mapped: what kernels give is what NumPy's float32 gives, rounded."""
    cases = [found for case in cases_of(registry[name]) if (found := in_bfloat16(case)) is not None]
    if name in REFUSING:
        assert not cases
        return
    together = Together()
    for case in cases:
        outs = function_of(case.primitive, case.example)(*[ArrayImpl(a) for a in case.example.args])
        inferred = case.primitive.abstract_eval(*[aval_of(a) for a in case.example.args], **case.example.params)
        for out, aval in zip(outs, inferred if case.primitive.multiple_results else [inferred], strict=True):
            assert out.aval.same_type(aval), case.describe()
        add_forms(together, case)
    program = together.program()
    expected = interpreter.compile_program(program)(together.args)
    for label, e, g in zip(together.labels, expected, OpenExecutable(program)(together.args), strict=True):
        compare(e, g, label)


def test_what_refuses_bfloat16_names_it_and_says_what_to_do():
    x = jnp.asarray(uniform(3, 3))
    for function in (jnp.linalg.inv, jnp.linalg.svd, jnp.linalg.cholesky, lambda x: lax.complex(x, x)):
        with pytest.raises(DTypeError, match=r"(bf16|bfloat16).*(convert|astype)"):
            function(x)


def test_all_patterns_and_roundings_are_the_packages():
    patterns = np.arange(2**16, dtype=np.uint16)
    values = patterns.view(BF16)
    # Those of float32 around each: what is half-way, above, below, and NaN of all kinds.
    wide = (patterns.astype(np.uint32)[:, None] << 16) + np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    singles = wide.view(np.float32).ravel()
    with np.errstate(all="ignore"):
        expected = singles.astype(BF16)
    for convert in (lambda x: x.astype(BF16), functad.jit(lambda x: x.astype(BF16))):
        same_patterns(convert(singles_of(singles)), expected)
    for convert in (lambda x: x.astype("float32"), functad.jit(lambda x: x.astype("float32"))):
        found = np.asarray(convert(jnp.asarray(values)))
        assert np.array_equal(found, values.astype(np.float32), equal_nan=True)
        finite = ~np.isnan(found)
        assert np.array_equal(found.view(np.uint32)[finite] >> 16, patterns[finite])


def singles_of(x):
    return ArrayImpl(np.array(x))


def same_patterns(found, expected):
    found = np.asarray(found)
    assert found.dtype == expected.dtype == BF16
    number = ~np.isnan(expected.astype(np.float32))
    assert np.array_equal(np.isnan(found.astype(np.float32)), ~number)
    assert np.array_equal(found.view(np.uint16)[number], expected.view(np.uint16)[number])


def test_float64_is_rounded_once():
    above_half = np.array([1 + 2**-8 + 2**-40, 1 + 2**-8, -1 - 2**-8 - 2**-40, 1 + 3 * 2**-8 - 2**-40])
    expected = np.array([1 + 2**-7, 1, -1 - 2**-7, 1 + 2**-7])
    assert np.array_equal(converted(above_half, BF16).astype(float), expected)
    x = jnp.asarray(above_half, "float64")
    assert np.array_equal(np.asarray(x.astype(BF16)).astype(float), expected)
    assert np.array_equal(np.asarray(functad.jit(lambda x: x.astype(BF16))(x)).astype(float), expected)


@pytest.mark.parametrize("towards", [np.inf, -np.inf, 0.0])
def test_neighbours(towards):
    x = np.arange(2**16, dtype=np.uint16).view(BF16)
    with np.errstate(all="ignore"):
        expected = np.nextafter(x, np.asarray(towards, BF16))
    expected = np.where(x == towards, np.asarray(towards, BF16), expected)
    for function in (jnp.nextafter, functad.jit(jnp.nextafter)):
        same_patterns(function(jnp.asarray(x), jnp.asarray(towards, BF16)), expected)


def test_intermediate_results_are_rounded_in_kernels_as_they_are_without():
    """A chain of sums, products, quotients and square roots is equal to the bit, fused or not."""

    def chain(x, y):
        return jnp.sqrt(jnp.abs((x * y + x) / (y + 1.1) - 0.7 * x))

    x, y = jnp.asarray(uniform(1000)), jnp.asarray(uniform(1000, seed=1, low=0.1))
    same_patterns(functad.jit(chain)(x, y), np.asarray(chain(x, y)))


# --- accumulation -----------------------------------------------------------------------------------

LONG = {
    "sum": lambda m, x, y: m.sum(x),
    "sum of columns": lambda m, x, y: m.sum(x.reshape(1000, 3), axis=0),
    "mean": lambda m, x, y: m.mean(x),
    "std": lambda m, x, y: m.std(x),
    "nanmean": lambda m, x, y: m.nanmean(x),
    "cumsum": lambda m, x, y: m.cumsum(x),
    "dot": lambda m, x, y: m.dot(x, y),
    "matmul": lambda m, x, y: x.reshape(30, 100) @ y.reshape(100, 30),
    "convolve": lambda m, x, y: m.convolve(x, y[:500], mode="valid"),
    "bincount": lambda m, x, y: m.bincount(m.arange(3000) % 3, weights=x, **({} if m is np else {"length": 3})),
    "median": lambda m, x, y: m.median(x),
    "quantile": lambda m, x, y: m.quantile(x, 0.3),
    "linspace": lambda m, x, y: m.linspace(0, 1, 3000, dtype=x.dtype),
    "geomspace": lambda m, x, y: m.geomspace(1, 100, 3000, dtype=x.dtype),
    "arange": lambda m, x, y: m.arange(0, 3000, dtype=x.dtype),
}


@pytest.mark.parametrize("name", LONG)
def test_what_takes_in_many_numbers_is_rounded_once(name):
    """Of 3,000 numbers, where a total in bfloat16 takes no more in from 256 on."""
    function, x, y = LONG[name], uniform(3000, low=1, high=3), uniform(3000, low=1, high=3, seed=1)
    expected = function(np, x.astype(np.float64), y.astype(np.float64))
    for run in (lambda f: f, functad.jit):
        found = np.asarray(run(lambda x, y: function(jnp, x, y))(jnp.asarray(x), jnp.asarray(y)))
        assert found.dtype == BF16
        assert np.all(np.abs(found.astype(float) - expected) <= 0.6 * EPS * np.abs(expected) + 1e-30)


# --- against JAX --------------------------------------------------------------------------------------

CALLS = {
    "operators": lambda m, x, y: [x + y, x - 2.5, 3 * x, x / y, x // y, x % y, -x, abs(x), x**2, 2**x, x < y, x == x],
    "other dtypes": lambda m, x, y: [x + m.float32(1), x + m.float16(1), x * m.arange(4), x + m.ones(4, "uint8")],
    "comparisons": lambda m, x, y: [m.maximum(x, y), m.minimum(x, 0), m.clip(x, -1, 1), m.where(x > 0, x, y)],
    "functions": lambda m, x, y: [m.exp(x), m.log(abs(x)), m.sin(x), m.tanh(x), m.sqrt(abs(x)), m.log1p(abs(x))],
    "rounding": lambda m, x, y: [m.floor(x), m.round(x, 1), m.sign(x), m.signbit(x), m.isfinite(x), m.nan_to_num(x)],
    "reductions": lambda m, x, y: [m.sum(x), m.mean(x, 0), m.var(x, 1), m.max(x), m.prod(x, 0), m.any(x), m.ptp(x)],
    "sorting": lambda m, x, y: [
        m.sort(x),
        m.argsort(x),
        m.argmax(x, 1),
        m.median(x, 0),
        m.searchsorted(m.sort(x[0]), y),
    ],
    "products": lambda m, x, y: [x @ y.T, m.einsum("ij,ij->i", x, y), m.dot(x, y.T, preferred_element_type="float32")],
    "shapes": lambda m, x, y: [m.concatenate([x, y]), m.stack([x, y]), m.pad(x, 1), m.roll(x, 1), x.T, x[::2], x[0]],
    "updates": lambda m, x, y: [x.at[0].set(y[1]), x.at[:, 1].add(1), x.at[1].multiply(2), x.at[0].max(y[0])],
    "making": lambda m, x, y: [
        m.zeros_like(x),
        m.full(3, 2.5, x.dtype),
        m.eye(3, dtype=x.dtype),
        m.array([1, 2], x.dtype),
    ],
    "conversion": lambda m, x, y: [x.astype("int32"), x.astype("float16"), x.astype("complex64"), x.view("uint16")],
}


def leaves_of(results):
    return [(np.asarray(r), r.weak_type) for r in results]


@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    x, y = uniform(3, 4), uniform(3, 4, seed=1)
    expected = leaves_of(CALLS[name](jax.numpy, jax.numpy.asarray(x), jax.numpy.asarray(y)))
    for run in (lambda f: f, functad.jit):
        found = leaves_of(run(lambda x, y: CALLS[name](jnp, x, y))(jnp.asarray(x), jnp.asarray(y)))
        for (e, e_weak), (f, f_weak) in zip(expected, found, strict=True):
            assert (f.dtype, f.shape, f_weak) == (e.dtype, e.shape, e_weak)
            e, f = (v.astype(np.float32) if v.dtype == BF16 else v for v in (e, f))
            assert np.allclose(e, f, rtol=2 * EPS, atol=EPS * np.max(np.abs(e), initial=0), equal_nan=True)


def test_derivatives():
    def loss(m, x, y):
        return m.sum(m.tanh(x @ y.T) ** 2) + m.mean(m.exp(x) * y)

    x, y = uniform(3, 4), uniform(3, 4, seed=1)
    expected = jax.grad(lambda x: loss(jax.numpy, x, jax.numpy.asarray(y)))(jax.numpy.asarray(x))
    for run in (lambda f: f, functad.jit):
        found = run(functad.grad(lambda x, y: loss(jnp, x, y)))(jnp.asarray(x), jnp.asarray(y))
        compare(np.asarray(expected), np.asarray(found), "gradient")


def test_convolution_sums_in_float32():
    x, w = uniform(2, 9, 9, 3), uniform(3, 3, 3, 5, seed=1)
    numbers = ("NHWC", "HWIO", "NHWC")
    expected = jax.lax.conv_general_dilated(
        *(jax.numpy.asarray(a).astype("float32") for a in (x, w)), (1, 1), "SAME", dimension_numbers=numbers
    )
    for run in (lambda f: f, functad.jit):
        convolve = run(lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=numbers))
        found = np.asarray(convolve(jnp.asarray(x), jnp.asarray(w)))
        assert found.dtype == BF16
        assert np.allclose(found.astype(np.float32), expected, rtol=EPS, atol=1e-4)
    wide = lax.conv_general_dilated(
        jnp.asarray(x), jnp.asarray(w), (1, 1), "SAME", dimension_numbers=numbers, preferred_element_type="float32"
    )
    assert wide.dtype == np.float32 and np.allclose(wide, expected, rtol=1e-5, atol=1e-5)


DRAWN = {
    "uniform": lambda r, key: r.uniform(key, (50,), "bfloat16", -1.0, 3.0),
    "normal": lambda r, key: r.normal(key, (50,), "bfloat16"),
    "gumbel": lambda r, key: r.gumbel(key, (50,), "bfloat16"),
    "exponential": lambda r, key: r.exponential(key, (50,), "bfloat16"),
    "laplace": lambda r, key: r.laplace(key, (50,), "bfloat16"),
    "cauchy": lambda r, key: r.cauchy(key, (50,), "bfloat16"),
    "truncated_normal": lambda r, key: r.truncated_normal(key, -1.0, 1.0, (50,), "bfloat16"),
    "rademacher": lambda r, key: r.rademacher(key, (50,), "bfloat16"),
    "permutation": lambda r, key: r.permutation(key, uniform(50)),
}


@pytest.mark.parametrize("name", DRAWN)
def test_random_numbers(name):
    expected = np.asarray(DRAWN[name](jax.random, jax.random.key(3)))
    for run in (lambda f: f, functad.jit):
        found = np.asarray(run(lambda key: DRAWN[name](random, key))(random.key(3)))
        assert found.dtype == expected.dtype == BF16
        if name in ("uniform", "rademacher", "permutation"):
            same_patterns(found, expected)
        assert np.allclose(found.astype(float), expected.astype(float), rtol=2 * EPS, atol=EPS)


# --- all around -------------------------------------------------------------------------------------


def test_programs_print_bf16():
    x = jnp.asarray(uniform(3))
    assert "a:bf16[3]" in str(functad.make_jaxpr(lambda x: x * 2)(x))
    assert "bf16(" in functad.jit(lambda x: x * x + x).lower(x).kernels
    assert repr(jnp.asarray([1, 2.5], BF16)) == "Array([1, 2.5], dtype=bfloat16)"


def test_loops_and_maps():
    x = jnp.asarray(uniform(5, 3))
    step = lambda c, row: (c * 0.5 + row, c * row)  # noqa: E731
    carry, stacked = lax.scan(step, jnp.zeros(3, BF16), x)
    for found, expected in zip(functad.jit(lambda x: lax.scan(step, jnp.zeros(3, BF16), x))(x), (carry, stacked)):
        same_patterns(found, np.asarray(expected))
    halved = functad.jit(lambda x: lax.while_loop(lambda v: jnp.sum(v) < 100, lambda v: v * 2 + 1, jnp.abs(x)))(x)
    assert halved.dtype == BF16 and float(jnp.sum(halved)) >= 100
    same_patterns(functad.vmap(jnp.cumsum)(x), np.asarray(jnp.cumsum(x, axis=1)))
    assert functad.hessian(lambda v: jnp.sum(v**3))(x[0]).dtype == BF16


def test_layers_and_optimizers_stay_in_bfloat16():
    net = nn.serial(nn.Dense(16), nn.Relu(), nn.Dense(1))
    x = jnp.asarray(uniform(64, 4))
    y = jnp.sum(x, axis=1, keepdims=True)
    params, optimizer = net.init(random.key(0), x), optim.adam(0.02)

    def loss(params):
        return jnp.mean((net.apply(params, x) - y) ** 2)

    @functad.jit
    def step(params, state):
        updates, state = optimizer.update(functad.grad(loss)(params), state, params)
        return functad.tree.map(lambda p, u: p + u, params, updates), state

    state, before = optimizer.init(params), float(loss(params))
    for _ in range(40):
        params, state = step(params, state)
    assert {leaf.dtype for leaf in functad.tree.leaves(params)} == {BF16}
    assert float(loss(params)) < 0.2 * before


def test_files_pickles_and_copies(tmp_path):
    tree = {"w": jnp.asarray(uniform(2, 3)), "one": [jnp.asarray(1.5, BF16), jnp.ones(2)]}
    io.save(tmp_path / "tree.npz", tree)
    for found in (io.load(tmp_path / "tree.npz"), io.load(tmp_path / "tree.npz", like=tree)):
        for a, b in zip(functad.tree.leaves(found), functad.tree.leaves(tree), strict=True):
            assert a.dtype == b.dtype and np.array_equal(a, np.asarray(b))
    jnp.save(tmp_path / "array.npy", tree["w"])
    same_patterns(jnp.load(tmp_path / "array.npy"), np.asarray(tree["w"]))
    for twin in (pickle.loads(pickle.dumps(tree["w"])), copy.deepcopy(tree["w"])):
        same_patterns(twin, np.asarray(tree["w"]))


def test_numpy_sees_the_same_memory_and_may_not_write_to_it():
    x = jnp.asarray(uniform(2, 3))
    view = np.asarray(x)
    assert view.dtype == BF16 and not view.flags.writeable
    with pytest.raises(ValueError):
        view.flags.writeable = True


def test_what_cannot_pass_it_on_says_so():
    x = jnp.asarray(uniform(2, 3))
    with pytest.raises(CopyError, match=r"bfloat16.*x.astype\('float32'\)"):
        np.from_dlpack(x)


def test_arrays_of_the_dtype_come_in_without_anybody_naming_it():
    program = (
        "import ml_dtypes, numpy as np, functad, functad.numpy as jnp\n"
        "x = np.ones(3, ml_dtypes.bfloat16)\n"
        "print(jnp.sin(x).dtype, functad.jit(lambda x: x * 2)(x).dtype, functad.grad(lambda x: jnp.sum(x))(x).dtype)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["bfloat16"] * 3


def test_kernels_on_disk_serve_another_process(tmp_path):
    program = (
        "import functad, functad.numpy as jnp\n"
        "x = jnp.linspace(0, 1, 300, dtype='bfloat16')\n"
        "print(functad.jit(lambda x: jnp.sum(jnp.exp(x) * 1.7))(x))"
    )
    outputs = []
    for _ in range(2):
        run = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "FUNCTAD_CACHE_DIR": str(tmp_path)},
        )
        outputs.append(run.stdout)
    assert outputs[0] == outputs[1]


def test_sizes_of_16_bits():
    assert dtypes.finfo("bfloat16").bits == 16 and dtypes.itemsize_bits("bfloat16") == 16
    assert dtypes.scalar_type_of(jnp.asarray(1, BF16)) is float
    assert jnp.isdtype(BF16, "real floating") and jnp.issubdtype(BF16, jnp.floating)
    assert not jnp.issubdtype(BF16, jnp.integer) and jnp.can_cast(BF16, "float32")
    with pytest.raises(ArgumentError):
        jnp.asarray(1.0, BF16).view("float32")
