"""Kernels as the PTX that NVIDIA's compiler makes of them, run on the processor: what the simulator, which runs Python,
cannot tell of types, roundings, the device's library, vector loads and addresses. Needs NVVM, but no GPU."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from cuda_driver_tools import compiler_with_nvvm, executable
from emulated_gpu import EmulatedGpu, PtxCompiler
from primitive_form_tools import compare
from ptx_machine import Fault, LoadedModule, Memory

import functad
import functad.numpy as jnp
from functad import interpreter, lax, nn
from functad.backends.cuda.runtime.device import CudaDevice
from functad.backends.cuda.runtime.driver import CudaDriver
from functad.evaluation import aval_of
from functad.tracing import trace_to_program

F32 = np.dtype(np.float32)
ENDS = [
    0.0,
    -0.0,
    1,
    -1,
    0.5,
    2.5,
    1e-45,
    1e-39,
    3e38,
    -3e38,
    np.inf,
    -np.inf,
    np.nan,
    89,
    -104,
    127.6,
    32768,
    3e9,
    1e19,
]
LARGE = [1e5, 3e8, 9.3e18, 1.9e19, -1.386e14, -7e20, 1e30, 3e38]


def ends(dtype: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        if np.dtype(dtype).kind == "f":
            return np.array(ENDS, dtype)
        info = np.iinfo(dtype)
        few = [info.min, info.min + 1, info.max - 1, info.max, 0, 1, 2, 7, info.bits - 1, info.bits, 100]
        return np.array(few + ([-1, -2, -7] if info.min else []), np.int64 if info.min else np.uint64).astype(dtype)


def pairs(dtype: str) -> list[np.ndarray]:
    return [np.ravel(x) for x in np.meshgrid(ends(dtype), ends(dtype))]


def results_of(fun: Callable[..., Sequence[Any]], *args: np.ndarray, times: int = 1) -> list[np.ndarray]:
    """What an emulated GPU makes of a function; the second call is a graph."""
    device = CudaDevice(0, CudaDriver(EmulatedGpu(), 0, PtxCompiler(compiler_with_nvvm())))
    step = executable(fun, *map(aval_of, args))
    found = [[memory.host() for memory in step.on_device(list(args), device)] for _ in range(times)]
    for again in found[1:]:
        for one, other in zip(found[0], again, strict=True):
            np.testing.assert_array_equal(one, other)
    return found[0]


def check(fun: Callable[..., Sequence[Any]], *args: np.ndarray, times: int = 1) -> None:
    """Equal to what NumPy gives, NaN and signs of zeros included."""
    program = trace_to_program(fun, [aval_of(x) for x in args])
    expected = [np.asarray(x) for x in interpreter.compile_program(program)(list(args))]
    found = results_of(fun, *args, times=times)
    for number, (wanted, got) in enumerate(zip(expected, found, strict=True)):
        compare(wanted, got, f"result {number}")
        if wanted.dtype.kind == "f":
            zero = wanted == 0
            np.testing.assert_array_equal(np.signbit(wanted[zero]), np.signbit(got[zero]), f"result {number}")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_functions_of_floats(dtype: str) -> None:
    check(lambda x: [f(x) for f in (jnp.exp, jnp.log, jnp.tanh, jnp.sqrt, jnp.floor, jnp.rint, jnp.sign)], ends(dtype))
    check(
        lambda x, y: [
            f(x, y) for f in (jnp.add, jnp.divide, jnp.maximum, jnp.minimum, lax.rem, lax.nextafter, jnp.less)
        ],
        *pairs(dtype),
    )


def test_angles_of_any_size() -> None:
    """What the product with 2/π rounds off counts once, however the compiler contracts it."""
    x = np.array(LARGE, F32)
    for got, function in zip(results_of(lambda x: [jnp.sin(x), jnp.cos(x), jnp.tan(x)], x), (np.sin, np.cos, np.tan)):
        np.testing.assert_allclose(got, function(x.astype(np.float64)), rtol=3e-7)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint64"])
def test_functions_of_integers(dtype: str) -> None:
    """Divisions by 0 and −1 of the lowest one, and shifts by as many bits as there are."""
    functions = (jnp.multiply, lax.div, lax.rem, jnp.floor_divide, jnp.maximum, jnp.less, jnp.bitwise_xor)
    shifts = (lax.shift_left, lax.shift_right_logical, lax.shift_right_arithmetic)
    check(lambda x, y: [f(x, y) for f in (*functions, *shifts)], *pairs(dtype))
    check(lambda x: [~x, abs(x), lax.clz(x), lax.population_count(x), lax.integer_pow(x, 3)], ends(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8"])
def test_conversions(dtype: str) -> None:
    names = ("int8", "int16", "int32", "int64", "uint8", "uint32", "uint64", "float16", "float32", "float64", "bool")
    check(lambda x: [lax.convert_element_type(x, name) for name in names], ends(dtype))


def test_functions_of_complex_numbers() -> None:
    x, y = pairs("float64")
    functions = (jnp.exp, jnp.sqrt, jnp.sin, jnp.tanh, jnp.arcsin, jnp.arccosh, jnp.arctan)
    found = results_of(
        lambda x, y: [part(f(lax.complex(x, y))) for f in functions for part in (jnp.real, jnp.imag)], x, y
    )
    z = np.empty(x.shape, np.complex128)
    z.real, z.imag = x, y
    with np.errstate(all="ignore"):
        expected = [getattr(np, f.__name__)(z) if f is not jnp.tanh else None for f in functions]
    for k, wanted in enumerate(expected):
        if wanted is None:
            continue
        size = np.where(np.isfinite(np.abs(wanted)), np.abs(wanted), 0)
        for got, part in zip(found[2 * k : 2 * k + 2], (wanted.real, wanted.imag)):
            with np.errstate(all="ignore"):
                near = np.isclose(got, part, rtol=1e-13, atol=0, equal_nan=True) | (np.abs(got - part) <= 1e-13 * size)
            assert np.all(near), (functions[k], z[~near])


def test_orders() -> None:
    """NaN is the largest, and equal elements keep their places."""
    x = np.array(random.Random(0).choices(ENDS, k=2000), F32)
    check(lambda x: [jnp.sort(x), jnp.argsort(x), jnp.argmax(x), jnp.argmin(x), *lax.top_k(x, 5)], x)


def test_positions_outside() -> None:
    x, at = np.arange(12, dtype=F32), np.array([0, -1, 11, 12, 99, -13, 2**31 - 1, -(2**31), 3, 3])
    check(lambda x, at: [x.at[at].get(mode=mode) for mode in ("clip", "fill")], x, at)
    check(lambda x, at: [x.at[at].add(1, mode=mode) for mode in ("clip", "drop")], x, at)
    check(lambda x, at: [lax.dynamic_slice(x, (at[k],), (3,)) for k in range(8)], x, at)


def test_a_step_of_several_kernels_is_a_graph() -> None:
    """Its nodes run in any order that they allow."""
    rng = np.random.default_rng(0)
    x, w, b = (rng.normal(size=shape).astype(F32) for shape in ((33, 70), (70, 20), (20,)))

    def loss(w: Any, b: Any, x: Any) -> Any:
        return -jnp.mean(nn.log_softmax(jnp.tanh(x @ w + b))[:, 0])

    check(lambda w, b, x: [*functad.grad(loss, (0, 1))(w, b, x), jnp.cumsum(x, 1), x.sum(0)], w, b, x, times=3)


def test_loops_and_branches() -> None:
    def body(c: Any, x: Any) -> Any:
        return lax.cond(x > 0, lambda c: c * 0.9 + x, lambda c: c - 1, c), c.sum()

    x = np.linspace(-1, 1, 9, dtype=F32)
    check(lambda x: [*lax.scan(body, x, x), lax.while_loop(lambda c: c.sum() < 99, lambda c: c * 2 + 1, x)], x)


KERNEL = """
.version 8.0 .target sm_90 .address_size 64
.visible .entry kernel(.param .u64 kernel_param_0) {
  .reg .b64 %rd<3>; .reg .b32 %r<2>;
  ld.param.u64 %rd1, [kernel_param_0]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2;
  st.global.u32 [%rd1], %r1; ret;
}"""


@pytest.mark.parametrize(("given", "shift", "message"), [(15, 0, "illegal"), (17, 0, None), (16, 2, "misaligned")])
def test_the_emulated_gpu_faults(given: int, shift: int, message: str | None) -> None:
    memory = Memory(1 << 16)
    begin = memory.take(256)
    arguments = (1, 1, 1), (16, 1, 1), 0, [begin + shift], [(begin, begin + 4 * given)], random.Random(0)
    loaded = LoadedModule(KERNEL, memory)
    if message is None:
        loaded.launch("kernel", *arguments)
        assert memory.of(np.dtype(np.uint32))[(begin - memory.base) // 4 :][:16].tolist() == list(range(16))
    else:
        with pytest.raises(Fault, match=message):
            loaded.launch("kernel", *arguments)
