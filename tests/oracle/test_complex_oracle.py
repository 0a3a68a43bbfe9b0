"""Derivatives of functions of complex numbers, and of real and complex ones mixed, against JAX."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

import jax.numpy as jax_numpy  # noqa: E402

import functad  # noqa: E402
import functad.numpy as functad_numpy  # noqa: E402

Z = np.array([1 + 2j, 3 - 1j], np.complex64)
W = np.array([-0.5 + 0.25j, 0.75 - 1.5j], np.complex64)
X = np.array([0.5, 1.25], np.float32)
TWICE = np.array([0, 0])

# Functions of the package, its array namespace, two complex arrays and a real one.
FUNCTIONS = {
    "arithmetic": lambda m, n, z, w, x: (z * w + x) / (w - 2 * x) - z,
    "to_real": lambda m, n, z, w, x: (n.abs(z) * x, n.real(z * w), n.imag(w), n.angle(z)),
    "of_real": lambda m, n, z, w, x: (n.exp(1j * x), m.lax.complex(x, x * x), x.astype("complex64") * w),
    "conjugates": lambda m, n, z, w, x: n.conj(z) * w + n.conj(x),
    "powers": lambda m, n, z, w, x: (z**w, z**x, z**3, z**-2, n.square(w), n.sqrt(z), 1 / z),
    "exponentials": lambda m, n, z, w, x: (n.exp(z), n.exp2(w), n.expm1(w), n.log(z), n.log1p(w), n.log2(z)),
    "trigonometry": lambda m, n, z, w, x: (n.sin(z), n.cos(w), n.tan(w), n.arcsin(w), n.arccos(w), n.arctan(z)),
    "hyperbolic": lambda m, n, z, w, x: (n.sinh(w), n.cosh(w), n.tanh(w), n.arcsinh(w), n.arccosh(z), n.arctanh(w)),
    "logaddexp": lambda m, n, z, w, x: (n.logaddexp(z, w), n.sinc(w), m.nn.sigmoid(w), m.lax.rsqrt(z)),
    "selection": lambda m, n, z, w, x: (n.where(n.real(z) > 2, z, n.conj(w) * x), n.maximum(z, w), n.sort(z)),
    "reductions": lambda m, n, z, w, x: (n.sum(z), n.prod(w), n.mean(z), n.max(z), n.var(z), n.std(w)),
    "norms": lambda m, n, z, w, x: (n.linalg.norm(z), n.linalg.norm(w, 1), n.linalg.norm(n.outer(z, x))),
    "running": lambda m, n, z, w, x: (n.cumsum(z), n.cumprod(w), m.lax.associative_scan(n.multiply, z)),
    "products": lambda m, n, z, w, x: (z @ w, n.vdot(z, w), n.outer(x, z) @ w, n.einsum("i,j->ji", z, x), n.kron(z, x)),
    "indexing": lambda m, n, z, w, x: (z[TWICE], n.asarray(z).at[TWICE].add(w), n.asarray(z).at[0].set(x[1])),
    "joining": lambda m, n, z, w, x: (n.concatenate([z, x, w]), n.stack([z, w]), n.pad(z, 1), n.roll(z, 1)),
    "convolution": lambda m, n, z, w, x: (n.convolve(z, w), m.lax.conv(z[None, None], w[None, None], (1,), "SAME")),
    "scan": lambda m, n, z, w, x: m.lax.scan(lambda c, s: (c * s + 1j, n.abs(c)), z[0], x),
    "cond": lambda m, n, z, w, x: m.lax.cond(x[0] > 0, lambda z: z * x, lambda z: n.conj(z), z),
    "checkpoint": lambda m, n, z, w, x: m.checkpoint(lambda z, x: n.sin(z) * x)(z, x),
    "custom_jvp": lambda m, n, z, w, x: _custom_jvp(m, n)(z, x),
    "custom_vjp": lambda m, n, z, w, x: _custom_vjp(m, n)(z, x),
}  # fmt: skip


def _custom_jvp(m, n):
    fun = m.custom_jvp(lambda z, x: n.conj(z) * x)
    fun.defjvp(lambda primals, tangents: (fun(*primals), 2j * tangents[0] * primals[1] + tangents[1]))
    return fun


def _custom_vjp(m, n):
    fun = m.custom_vjp(lambda z, x: n.conj(z) * x)
    fun.defvjp(lambda z, x: (fun(z, x), (z, x)), lambda kept, ct: (ct * kept[1] * 1j, n.real(ct * kept[0])))
    return fun


def vjp(m, n, fun, z, w, x):
    outs, pull = m.vjp(lambda *args: fun(m, n, *args), z, w, x)
    return pull(
        m.tree_util.tree_map(lambda o: (o * 0 + n.arange(1, 1 + o.size).reshape(o.shape)).astype(o.dtype), outs)
    )


def jvp(m, n, fun, z, w, x):
    return m.jvp(lambda *args: fun(m, n, *args), (z, w, x), (w * 1j, z - 1, x + 1))


WAYS = {
    "vjp": vjp,
    "jvp": jvp,
    "jvp_of_vjp": lambda m, n, fun, *args: jvp(m, n, lambda m, n, *a: vjp(m, n, fun, *a), *args),
    "vjp_of_jvp": lambda m, n, fun, *args: vjp(m, n, lambda m, n, *a: jvp(m, n, fun, *a)[1], *args),
}
NO_JVP = {("custom_vjp", way) for way in WAYS if "jvp" in way}  # nor in JAX


@pytest.mark.generated(every=4)
@pytest.mark.parametrize("way, name", [(w, f) for f in FUNCTIONS for w in WAYS if (f, w) not in NO_JVP])
def test_derivatives_of_complex_functions(way, name):
    fun = FUNCTIONS[name]
    expected = jax.jit(lambda *args: WAYS[way](jax, jax_numpy, fun, *args))(Z, W, X)

    def ours(*args):
        return WAYS[way](functad, functad_numpy, fun, *args)

    _check(ours(Z, W, X), expected, f"{name}, {way}, un-jitted")
    _check(functad.jit(ours)(Z, W, X), expected, f"{name}, {way}, jitted")
    stacks = [np.stack([a * 0 + 1, a]) for a in (Z, W, X)]
    mapped = functad.tree_util.tree_map(lambda a: a[1], functad.vmap(ours)(*stacks))
    _check(mapped, expected, f"{name}, {way}, mapped")


def _check(found, expected, label):
    found, expected = functad.tree_util.tree_leaves(found), jax.tree_util.tree_leaves(expected)
    for a, b in zip(found, expected, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.dtype, a.shape) == (b.dtype, b.shape), label
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4, err_msg=label)


HOLOMORPHIC = {
    "grad": lambda m, n: m.grad(lambda z: n.sum(n.exp(z) * z[0]), holomorphic=True)(Z),
    "grad_of_grad": lambda m, n: m.grad(m.grad(lambda z: n.exp(z) * z, holomorphic=True), holomorphic=True)(Z[0]),
    "value_and_grad": lambda m, n: m.value_and_grad(lambda z: (z[0] * z[1], z), has_aux=True, holomorphic=True)(Z),
    "jacfwd": lambda m, n: m.jacfwd(lambda z: n.sin(z) * z[0], holomorphic=True)(Z),
    "jacrev": lambda m, n: m.jacrev(lambda z: {"a": n.sin(z) * z[0]}, holomorphic=True)(Z),
    "hessian": lambda m, n: m.hessian(lambda z: n.sum(n.sin(z) * z[0]), holomorphic=True)(Z),
    "real_grad": lambda m, n: m.grad(lambda z, x: n.sum(n.abs(n.exp(1j * x) * z + x)), argnums=(0, 1))(Z, X),
    "real_jacrev": lambda m, n: m.jacrev(lambda z: n.abs(z) * z[0].real)(Z),
    "real_jacfwd": lambda m, n: m.jacfwd(lambda x: n.exp(1j * x) * x[0])(X),
    "gradient_is_conjugated": lambda m, n: m.grad(lambda z: n.sum(z * z).imag)(Z),
    "linear_transpose": lambda m, n: [
        *m.linear_transpose(n.real, Z)(X), *m.linear_transpose(n.imag, Z)(X), *m.linear_transpose(n.conj, Z)(W),
        *m.linear_transpose(m.lax.complex, X, X)(Z), *m.linear_transpose(m.lax.conj, X)(Z),
        *m.linear_transpose(lambda x: x * W, X)(Z), *m.linear_transpose(lambda x: x.astype("complex64"), X)(Z),
    ],
    "while": lambda m, n: m.jvp(
        lambda z: m.lax.while_loop(lambda c: n.abs(c) < 9, lambda c: c * (1 + 1j), z), (Z[0],), (Z[1],)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOLOMORPHIC)
def test_transforms_of_complex_functions(name):
    case = HOLOMORPHIC[name]
    expected = jax.jit(lambda: case(jax, jax_numpy))()
    _check(case(functad, functad_numpy), expected, name)
    _check(functad.jit(lambda: case(functad, functad_numpy))(), expected, f"{name}, jitted")


REFUSED = {
    "complex output": lambda m, n: m.grad(lambda z: n.sum(n.exp(z)))(Z),
    "real argument": lambda m, n: m.grad(lambda x: n.sum(n.exp(x)), holomorphic=True)(X),
    "real output": lambda m, n: m.grad(lambda z: n.sum(n.abs(z)), holomorphic=True)(Z),
    "jacfwd of complex": lambda m, n: m.jacfwd(n.sin)(Z),
    "jacfwd, real output": lambda m, n: m.jacfwd(n.abs, holomorphic=True)(Z),
    "jacrev, complex output": lambda m, n: m.jacrev(lambda x: n.exp(1j * x))(X),
    "jacrev, real argument": lambda m, n: m.jacrev(lambda x: n.exp(1j * x), holomorphic=True)(X),
    "hessian": lambda m, n: m.hessian(lambda z: n.sum(n.abs(z)))(Z),
    "real tangent": lambda m, n: m.jvp(n.sin, (Z,), (X,)),
    "real cotangent": lambda m, n: m.vjp(n.sin, Z)[1](X),
    "complex cotangent": lambda m, n: m.vjp(n.sin, X)[1](Z),
}


@pytest.mark.parametrize("name", REFUSED)
def test_both_refuse(name):
    for module, namespace in ((jax, jax_numpy), (functad, functad_numpy)):
        with pytest.raises((TypeError, ValueError)):
            REFUSED[name](module, namespace)
