"""numba_primitive: functions for Numba, element by element and on arrays: values, transforms, kernels, errors."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
from types import ModuleType

import numba
import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad.backends.cpu.lowering import CpuLowering
from functad.backends.cpu.scalars import user_functions
from functad.errors import ArgumentError, BatchingError, DifferentiationError, DTypeError, ShapeError
from functad.execution import optimized
from functad.primitives.user_kernels import UserFunction
from functad.system.once import imported, unforked

pytestmark = pytest.mark.generated(every=6)  # tables of shapes, dtypes and ways

grad, jit, vmap = functad.grad, functad.jit, functad.vmap
SLOPE = 2.5


def close(x, y, tolerance=1e-6):
    np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=tolerance, atol=tolerance)
    return True


@numba.njit
def scaled(x):
    return x * SLOPE


@functad.numba_primitive(
    elementwise=True, jvp=[lambda t, out, x, y: t * y * jnp.cos(x), lambda t, out, x, y: t * jnp.sin(x)]
)
@numba.njit
def wave(x, y):
    """x and y to sin(x) y, with a branch."""
    if y > 0:
        return math.sin(x) * y
    return scaled(math.sin(x)) * y / 2.5


def test_machine_code_is_made_by_who_may_import(monkeypatch):
    """Who has Numba's lock and then waits for who imports may wait for one who compiles, and so for Numba's lock."""
    free = []

    def look():
        free.append(unforked.acquire(blocking=False))
        if free[-1]:
            unforked.release()

    def found(name):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        return imported(name)

    monkeypatch.setattr(user_functions, "imported", found)
    CpuLowering(optimized(functad.make_jaxpr(lambda x: wave(x, x))(np.ones(4, np.float32)))).machine_code()
    assert free and not any(free)


@functad.numba_primitive(
    out=lambda x, factor: (functad.ShapeDtypeStruct(x.shape, x.dtype), functad.ShapeDtypeStruct((1,), "int64"))
)
@numba.njit
def running(x, factor, out, count):
    kept = np.empty(x.shape[0], x.dtype)  # memory of its own
    total = x[0] * 0
    for i in range(x.shape[0]):
        total += x[i] * factor
        kept[i] = total
    out[:] = kept
    count[0] = x.shape[0]


X = np.linspace(-2, 2, 9, dtype=np.float32)
PAIR = np.stack([X, 2 * X])


@pytest.fixture(params=["plain", "cpu", "interpreter"])
def run(request):
    """How a function runs: as it stands, compiled, or jitted for the interpreter."""
    if request.param == "plain":
        return lambda f: f
    return lambda f: jit(f, backend=request.param)


# --- element by element -----------------------------------------------------------------------------------


def test_elementwise_values_and_derivatives(run):
    assert wave.__name__ == "wave" and "branch" in wave.__doc__
    assert close(run(wave)(X, X), np.sin(X) * X)
    assert close(run(lambda x: wave(x, 2.0) + wave(2.0, x))(X), np.sin(X) * 2 + np.sin(2.0) * X)
    assert close(run(vmap(wave, in_axes=(1, None)))(PAIR, 3.0), np.sin(PAIR.T) * 3)
    gx, gy = run(grad(lambda x, y: wave(x, y).sum(), argnums=(0, 1)))(X, X)
    assert close(gx, np.cos(X) * X) and close(gy, np.sin(X))
    assert close(run(vmap(grad(grad(wave)), in_axes=(0, None)))(X, 2.0), -2 * np.sin(X)) is True
    assert close(run(lambda x: functad.jvp(wave, (x, x), (x, x))[1])(X), np.cos(X) * X * X + np.sin(X) * X)
    assert run(wave)(np.array(0.5), 2.0).dtype == np.float64 and run(wave)(X[:0], 1.0).shape == (0,)


def test_elementwise_promotes_and_broadcasts(run):
    add = functad.numba_primitive(lambda x, y: x + y, elementwise=True)
    assert add.__name__ == "user_kernel"
    assert run(add)(np.arange(3), np.ones((2, 1), np.float32)).dtype == jnp.result_type(np.arange(3), np.float32(1))
    assert close(run(add)(X[:3], np.ones((2, 1), np.float32)), np.broadcast_to(X[:3] + 1, (2, 3)))
    assert run(add)(np.int32(2), 3).dtype == np.int32
    half = run(add)(X.astype(np.float16), 1.0)
    assert half.dtype == np.float16 and close(half, X.astype(np.float16) + np.float16(1))
    positive = functad.numba_primitive(lambda x: x > 0, elementwise=True, out=bool)
    assert run(positive)(X).dtype == bool and close(run(positive)(X), X > 0)
    both = functad.numba_primitive(lambda x, y: x and not y, elementwise=True)
    assert close(run(both)(X > 0, X > 1), (X > 0) & ~(X > 1))


def test_elementwise_fuses_into_one_kernel():
    source = str(jit(lambda x: jnp.sum(jnp.exp(wave(x, -x)) * 2)).lower(X).kernels)
    assert (
        source.count("def ") == 1 and "from functad.backends.cpu.scalars.user_functions import user_function_" in source
    )


def test_different_functions_in_like_kernels_are_told_apart():
    one = functad.numba_primitive(lambda x: x + 1.0, elementwise=True)
    two = functad.numba_primitive(lambda x: x + 2.0, elementwise=True)
    a, b = jit(lambda x, y: (one(x), two(y)))(X, PAIR)
    assert close(a, X + 1) and close(b, PAIR + 2)


def test_division_by_zero_does_not_raise():
    divide = functad.numba_primitive(numba.njit(lambda x, y: x / y), elementwise=True)
    assert np.isinf(jit(divide)(np.float32(1), np.float32(0)))
    floor_divide = functad.numba_primitive(numba.njit(lambda x, y: x // y), elementwise=True)
    assert jit(floor_divide)(np.int32(3), np.int32(0)).dtype == np.int32


# --- on arrays ----------------------------------------------------------------------------------------------


def test_arrays(run):
    total, count = run(running)(X, 2.0)
    assert close(total, np.cumsum(2 * X)) and count == np.array([9])
    total, count = run(lambda x: running(jnp.sin(x) * 2, x[0]))(X)
    assert close(total, np.cumsum(2 * np.sin(X)) * X[0], 1e-5)


def test_vmap_of_arrays(run):
    total, count = run(vmap(running, in_axes=(0, None)))(PAIR, 2.0)
    assert close(total, np.cumsum(2 * PAIR, axis=1)) and close(count, [[9], [9]])
    total, _ = run(vmap(running, in_axes=(1, 0)))(PAIR.T, np.array([1, 2], np.float32))
    assert close(total, np.cumsum(PAIR * [[1], [2]], axis=1))
    factors = np.array([1, 2, 3], np.float32)
    total, _ = run(vmap(vmap(running, in_axes=(0, None)), in_axes=(None, 0)))(PAIR, factors)
    assert close(total, np.cumsum(PAIR, axis=1) * factors[:, None, None])
    total, _ = run(vmap(vmap(running, in_axes=(None, 0)), in_axes=(0, None)))(PAIR, factors)
    assert close(total, np.cumsum(PAIR, axis=1)[:, None] * factors[:, None])


def test_a_derivative_in_reverse_mode(run):
    @numba.njit
    def forward(x, out):
        out[:] = x * x

    @numba.njit
    def backward(x, ct, out):
        out[:] = 2 * x * ct

    pulled = functad.numba_primitive(backward)
    squared = functad.numba_primitive(forward, vjp=(lambda x: (squared(x), x), lambda x, ct: (pulled(x, ct),)))
    assert close(run(grad(lambda x: squared(x).sum()))(X), 2 * X)
    assert close(run(vmap(grad(lambda x: squared(x).sum())))(PAIR), 2 * PAIR)
    rule = lambda primals, tangents: (linear(*primals), linear(*tangents))  # noqa: E731
    linear = functad.numba_primitive(numba.njit(lambda x, out: None), jvp=rule)
    with pytest.raises(DifferentiationError, match="without a derivative"):
        run(grad(lambda x: pulled(x, x).sum()))(X)
    with pytest.raises(DifferentiationError, match="no transpose|transposed"):
        run(grad(lambda x: linear(x).sum()))(X)  # it is not known to be linear


def test_bool_arrays_and_ranks(run):
    flip = functad.numba_primitive(numba.njit(lambda mask, out: _flip(mask, out)))
    assert close(run(flip)(PAIR > 0), ~(PAIR > 0))
    cube = np.arange(24, dtype=np.int32).reshape(2, 3, 4)

    @functad.numba_primitive(out=lambda x: functad.ShapeDtypeStruct(x.shape[::-1], x.dtype))
    def transposed(x, out):
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                for k in range(x.shape[2]):
                    out[k, j, i] = x[i, j, k]

    assert close(run(transposed)(cube), cube.T)
    assert close(run(vmap(transposed))(cube[None] * np.array([1, 2, 3])[:, None, None, None])[2], 3 * cube.T)


@numba.njit
def _flip(mask, out):
    for i in range(mask.shape[0]):
        for j in range(mask.shape[1]):
            out[i, j] = not mask[i, j]


def test_batch_rules():
    def rule(axis_size, in_batched, args):
        assert (axis_size, list(in_batched)) == (2, [True])
        return [args[0] * 3.0], [True]

    with_rule = functad.numba_primitive(numba.njit(lambda x, out: None), batch=rule)
    assert close(vmap(with_rule)(PAIR), 3 * PAIR)
    without = functad.numba_primitive(numba.njit(lambda x, out: None), batch=None, name="fixed")
    with pytest.raises(BatchingError, match="fixed was defined with batch=None"):
        vmap(without)(PAIR)


# --- the cache ------------------------------------------------------------------------------------------------


def of_module(constants):
    return lambda x: x * constants.FACTOR


def symbol(kernel):
    return UserFunction(kernel, "f", None, None).symbol


def made(value):
    return lambda x: x * value


def test_the_name_in_kernels_tells_text_closure_and_globals():
    global SLOPE
    assert symbol(made(2.0)) == symbol(made(2.0)) != symbol(made(3.0))
    assert symbol(made(2.0)) != symbol(lambda x: x + 2.0)
    assert symbol(made((1, np.float32(2)))) != symbol(made((1, np.float32(3))))
    assert symbol(made(np.arange(3))) == symbol(made(np.arange(3))) != symbol(made(np.arange(4)))
    assert symbol(numba.njit(fastmath=True)(made(2.0))) != symbol(made(2.0)) == symbol(numba.njit(made(2.0)))
    assert symbol(made(made(1))) != symbol(made(made(2)))
    assert symbol(made(object())) != symbol(made(object()))
    assert symbol(made(numba.njit(fastmath=True)(made(1)))) != symbol(made(numba.njit(made(1))))
    one, other = ModuleType("constants"), ModuleType("constants")
    one.FACTOR, other.FACTOR = 2.0, 3.0
    assert symbol(of_module(one)) == symbol(of_module(one)) != symbol(of_module(other))
    before = symbol(lambda x: scaled(x))
    SLOPE = 3.5
    try:
        assert symbol(lambda x: scaled(x)) != before
    finally:
        SLOPE = 2.5


SCRIPT = """
import numpy as np, functad, functad.numpy as jnp
from functad.backends.cpu.compile import objects
found = []
compiled = objects.compiled
def noting(*args):
    found.append(True)
    return compiled(*args)
objects.compiled = noting
factor = 3
f = functad.numba_primitive(lambda x: x * factor, elementwise=True)
def total(x, out):
    for i in range(len(x)):
        out[0] = i * x[i]
g = functad.numba_primitive(total, out=lambda x: functad.ShapeDtypeStruct((1,), x.dtype))
x = np.arange(4, dtype=np.float32)
y, z = functad.jit(lambda x: (f(x) + 1, g(x)))(x)
assert (np.asarray(y) == 3 * x + 1).all() and z[0] == 9 == g(x)[0], (y, z)
assert (np.asarray(functad.vmap(g)(jnp.stack([x, x]))) == 9).all()
print(found)
"""


def script(folder, text=SCRIPT, **env):
    done = subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, "FUNCTAD_CACHE_DIR": str(folder), **env},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_compiled_kernels_are_found_by_the_next_process(tmp_path):
    assert "True" in script(tmp_path)
    assert script(tmp_path) == "[]"


def test_everything_runs_as_plain_python(tmp_path):
    assert script(tmp_path, NUMBA_DISABLE_JIT="1") == "[]"


CUDA = """
import numpy as np, functad, functad.numpy as jnp, numba
slope = 2.0
scaled = numba.njit(lambda x: x * slope)
f = functad.numba_primitive(lambda x: scaled(x) + 1, elementwise=True)
x = np.arange(4, dtype=np.float32)
y = functad.jit(lambda x: jnp.sum(f(x)), backend="cuda")(x)
assert y == 16, y
"""


def test_elementwise_in_cuda_kernels(tmp_path):
    pytest.importorskip("numba.cuda", reason="this Numba has no CUDA target")
    script(tmp_path, CUDA, NUMBA_ENABLE_CUDASIM="1")


# --- errors ---------------------------------------------------------------------------------------------------


def raising(x):
    if x < 0:
        raise ValueError("negative")
    return x


def test_errors():
    primitive = functad.numba_primitive
    with pytest.raises(ArgumentError, match="raising has a `raise` or an `assert`"):
        primitive(raising, elementwise=True)
    with pytest.raises(ArgumentError, match="or a Python function, but was given 3"):
        primitive(3)
    with pytest.raises(ArgumentError, match="give jvp or vjp"):
        primitive(made(1), jvp=made(1), vjp=(made(1), made(1)))
    with pytest.raises(ArgumentError, match="dtype of the result, not a function"):
        primitive(made(1), elementwise=True, out=lambda x: x)
    with pytest.raises(ArgumentError, match="batch='all' must be"):
        primitive(made(1), batch="all")
    with pytest.raises(ArgumentError, match="with elementwise=True, vmap needs no batch"):
        primitive(made(1), elementwise=True, batch=None)
    with pytest.raises(ArgumentError, match="name='my kernel' must be a Python identifier"):
        primitive(made(1), elementwise=True, name="my kernel")
    with pytest.raises(ArgumentError, match="one takes no argument, so it has no elements"):
        primitive(lambda: 1.0, elementwise=True, name="one")
    with pytest.raises(ArgumentError, match="takes 1 arguments, but was given 2"):
        primitive(made(1), elementwise=True)(1.0, 2.0)
    copied = numba.njit(lambda x, out: None)
    with pytest.raises(ArgumentError, match=r"takes 2 arrays, inputs and outputs, but was given 2 inputs for 1"):
        primitive(copied)(X, X)
    with pytest.raises(ArgumentError, match="needs an input"):
        primitive(copied)()
    with pytest.raises(ArgumentError, match=r"rank 0.*shape \(1,\)"):
        primitive(copied)(1.0)
    with pytest.raises(DTypeError, match="convert to float32"):
        primitive(copied)(X.astype(np.float16))
    with pytest.raises(ShapeError, match="must return a ShapeDtypeStruct"):
        primitive(copied, out=lambda x: 3)(X)
    with pytest.raises(DifferentiationError, match="jvp=rule or vjp="):
        grad(primitive(made(2.0), elementwise=True))(1.0)
