"""Programs that are given NumPy's 64-bit arrays and scalars, where JAX cuts them to 32 bits: every entrance."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

F64 = np.array([1.5, 1e300, -2.0])
SMALL = F64[::2]
I64 = np.array([1, 2**40 + 3, -5])
U64 = np.array([1, 2**33 + 7], np.uint64)
C64 = np.array([1 + 2j])

CASES: dict[str, Callable[[Any, Any], Any]] = {
    "asarray": lambda m, v: [m.numpy.asarray(a) for a in (F64, I64, U64, C64)],
    "array": lambda m, v: [m.numpy.array(a) for a in (F64, I64, U64, C64)],
    "scalars": lambda m, v: [
        m.numpy.asarray(a) for a in (np.float64(2), np.int64(3), np.float64(1e300), np.complex128(1))
    ],
    "listed": lambda m, v: [m.numpy.array([F64, F64]), m.numpy.array([np.float64(1), 2]), m.numpy.array([np.int64(3)])],
    "operators": lambda m, v: [
        v.x * F64,
        F64 * v.x,
        v.x + I64,
        v.h * F64,
        v.h * np.float64(2),
        np.float64(2) * v.h,
        v.h * np.int64(3),
        v.x**F64,
        v.x / I64,
    ],
    "ufuncs": lambda m, v: [
        m.numpy.sin(F64),
        m.numpy.add(F64, F64),
        m.numpy.add(I64, 1),
        m.numpy.where(I64 > 2, F64, 0),
        m.numpy.sum(SMALL),
        m.numpy.sum(I64),
        m.numpy.mean(SMALL),
        m.numpy.concatenate([F64, I64]),
        m.numpy.stack([F64]),
        m.numpy.matmul(SMALL, SMALL),
    ],
    "lax": lambda m, v: [
        m.lax.add(F64, F64),
        m.lax.sin(SMALL),
        m.lax.mul(v.h, v.h),
        m.lax.select(I64 > 1, F64, F64),
        m.lax.dynamic_slice(F64, (np.int64(1),), (2,)),
        m.lax.broadcast_in_dim(F64, (2, 3), (1,)),
        m.lax.convert_element_type(F64, "float16"),
        m.lax.cumsum(SMALL),
    ],
    "jit": lambda m, v: [m.jit(lambda a: a * 2)(a) for a in (F64, I64, U64, C64, np.float64(2), np.int64(3))],
    "jit_twice": lambda m, v: [(f := m.jit(lambda a, b: (a, b)))(F64, I64), f(F64 * 0, I64), f(F64, I64)],
    "jit_returns": lambda m, v: [
        m.jit(lambda: F64)(),
        m.jit(lambda: (np.float64(2), np.int64(5)))(),
        m.jit(lambda a: a * F64)(v.x),
        m.jit(lambda a: a + I64)(v.x),
        m.jit(lambda a: a * np.float64(2))(v.h),
    ],
    "grad": lambda m, v: [
        m.grad(lambda a: m.numpy.sum(a**2))(SMALL),
        m.value_and_grad(lambda a: m.numpy.sum(a * SMALL))(SMALL),
        m.grad(lambda a: a**2)(np.float64(3)),
        m.grad(lambda a: m.numpy.sum(a * F64))(v.x),
    ],
    "jac": lambda m, v: [
        m.jacfwd(lambda a: a * a)(SMALL),
        m.jacrev(lambda a: a * a)(SMALL),
        m.hessian(lambda a: m.numpy.sum(a**3))(SMALL),
    ],
    "jvp": lambda m, v: [
        m.jvp(m.numpy.sin, (SMALL,), (SMALL * 0 + 1,)),
        m.vjp(m.numpy.sin, SMALL)[1](SMALL.astype("float32")),
    ],
    "vmap": lambda m, v: [
        m.vmap(lambda a: a * 2)(F64),
        m.vmap(lambda a, b: a * b, (0, None))(F64, np.float64(2)),
        m.vmap(lambda a: a * F64)(v.x),
        m.vmap(lambda a: F64)(v.x),
    ],
    "loops": lambda m, v: [
        m.lax.scan(lambda c, a: (c + a, a), np.float32(0), F64),
        m.lax.fori_loop(0, 3, lambda i, c: c * 2, F64),
        m.lax.while_loop(lambda c: c[0] < 9, lambda c: c * 2, SMALL),
        m.lax.cond(True, lambda a: a, lambda a: a * 2, F64),
        m.lax.map(lambda a: a + F64[0], F64),
    ],
    "custom": lambda m, v: [m.checkpoint(lambda a: a * 2)(F64), m.jit(m.checkpoint(lambda a: a * F64))(v.x)],
    "at": lambda m, v: [
        v.x.at[0].set(np.float64(3)),
        v.x.at[:].add(F64),
        v.x.at[I64[:1]].set(2.0),
        v.x[np.array([0, 2])],
    ],
    "like": lambda m, v: [
        m.numpy.zeros_like(F64),
        m.numpy.full_like(I64, 3),
        m.numpy.full((2,), np.float64(2)),
        m.numpy.full(3, F64),
        m.numpy.ones_like(U64),
        m.numpy.arange(np.int64(3)),
        m.numpy.arange(np.float64(3)),
        m.numpy.linspace(np.float64(0), np.float64(1), 3),
        m.numpy.eye(2),
    ],
    "asked": lambda m, v: [
        m.numpy.zeros(2, "float64"),
        m.numpy.array([1, 2], "int64"),
        m.numpy.array([1.0], np.complex128),
        m.numpy.arange(3, dtype=np.uint64),
        m.numpy.full_like(v.x, 2, "float64"),
        m.numpy.float64(2),
        v.x.astype("float64"),
        v.x.sum(dtype="float64"),
        m.numpy.cumsum(v.x, dtype="float64"),
        m.numpy.dot(v.x, v.x, preferred_element_type="float64"),
        m.numpy.concatenate([v.x, v.x], dtype="float64"),
        m.numpy.fft.fftfreq(3, dtype="float64"),
        m.lax.full((2,), 1, "float64"),
        m.lax.iota("int64", 3),
        m.lax.convert_element_type(v.x, "complex128"),
        m.lax.argmax(v.x, 0, "int64"),
        m.random.uniform(m.random.PRNGKey(0), (2,), "float64"),
        m.random.randint(m.random.PRNGKey(0), (2,), 0, 9, "int64"),
        m.nn.one_hot(np.array([1]), 2, dtype="float64"),
        m.jit(lambda a: a.astype("float64"))(v.x),
        np.zeros(0, m.numpy.result_type("float64")),
        np.zeros(0, m.dtypes.canonicalize_dtype("int64")),
        np.zeros(0, m.eval_shape(lambda a: a, m.ShapeDtypeStruct((2,), "float64")).dtype),
    ],
    "types": lambda m, v: [
        np.zeros(0, m.numpy.result_type(F64)),
        np.zeros(0, m.numpy.result_type(I64, v.h)),
        np.zeros(0, m.numpy.result_type(np.float64(2), v.h)),
    ],
    "shapes": lambda m, v: [
        np.zeros(s.shape, s.dtype) for s in (m.eval_shape(lambda a: a * 2, F64), m.eval_shape(lambda a: a * F64, v.x))
    ],
    "einsum": lambda m, v: [
        m.numpy.einsum("i,i", SMALL, SMALL),
        m.numpy.dot(SMALL, np.array([1, 2])),
        m.numpy.linalg.norm(SMALL),
        m.numpy.fft.fft(SMALL),
        m.numpy.interp(SMALL, SMALL * 0 + [0, 1], SMALL),
    ],
    "put": lambda m, v: [m.device_put(F64), m.tree.map(m.numpy.asarray, {"a": F64})["a"]],
    "clip": lambda m, v: [
        m.numpy.clip(F64, np.float64(0), 1),
        m.numpy.maximum(F64, 0),
        m.numpy.minimum(v.x, np.float64(0.5)),
        m.numpy.round(F64),
        m.numpy.pad(F64, 1),
        m.numpy.sort(F64),
        m.numpy.argsort(F64),
        m.numpy.cumsum(I64),
        m.numpy.unique(I64),
        m.numpy.take(F64, np.array([0])),
        m.numpy.isnan(F64),
        m.numpy.split(F64, 3),
    ],
    "scipy": lambda m, v: [
        m.nn.relu(F64),
        m.nn.softmax(SMALL),
        m.random.normal(m.random.PRNGKey(0), (2,)) * np.float64(2),
        m.random.uniform(m.random.PRNGKey(0), (3,), minval=F64 * 0),
    ],
    "polyval": lambda m, v: [
        m.numpy.polyval(SMALL, v.x),
        m.numpy.vander(SMALL, 2),
        m.numpy.outer(SMALL, SMALL),
        m.numpy.tensordot(SMALL, SMALL, 1),
        m.numpy.searchsorted(F64, 0.0),
        m.numpy.histogram(SMALL, 2)[0],
        m.numpy.percentile(SMALL, 50),
    ],
}


def run(m: Any, name: str) -> Any:
    """The results of a case for one of the modules."""
    return CASES[name](m, SimpleNamespace(x=m.numpy.ones(3), h=m.numpy.ones(3, "float16")))
