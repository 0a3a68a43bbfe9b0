"""NumPy's 64-bit scalars adapt like Python's numbers, wherever a user can pass one; narrower ones keep their dtype."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from numpy_cases import CASES

import functad
import functad.numpy as jnp
from functad import lax, nn, optim
from functad.config import enable_x64
from functad.errors import DTypeError

WIDE = {bool: np.bool_, int: np.int64, float: np.float64, complex: np.complex128}
KEY = functad.random.key(0)
ARRAYS = [jnp.array([1, 2], dtype) for dtype in ("float32", "float16", "int32", "int8", "uint8", "bool", "complex64")]
ARITHMETIC = (operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow)
BITS = (operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift)
COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
SCALARS = [np.float64(2), np.sqrt(4), np.int64(2), np.longlong(2), np.uint64(2), np.complex128(2), np.mean([2, 2])]


def types(tree):
    """Types and values of the leaves, or the class of the error."""
    return [
        (type(x), *((x.dtype, x.weak_type, np.shape(x), x.tolist()) if isinstance(x, functad.Array) else (x,)))
        for x in functad.tree_util.tree_leaves(tree)
    ]


def outcomes(function, x, scalars, jitted):
    """What an operator makes of an array and each scalar, on both sides, in one function, and the classes of errors."""
    errors = {}

    def run(x):
        results = {}
        for k, s in enumerate(scalars):
            for left, right in ((x, s), (s, x)):
                try:
                    results[k, left is s] = function(left, right)
                except (functad.errors.FunctadError, TypeError, NotImplementedError) as error:
                    errors[k, left is s] = type(error)
        return results

    return types((functad.jit(run) if jitted else run)(x)), errors


@pytest.mark.generated(every=6)
@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("function", [*ARITHMETIC, *BITS, *COMPARISONS, divmod], ids=lambda f: f.__name__)
def test_operators(function, jitted):
    for x in ARRAYS:
        found, errors = outcomes(function, x, SCALARS, jitted)
        assert (found, errors) == outcomes(function, x, [s.item() for s in SCALARS], jitted), x.dtype
        assert len(found) + len(errors) >= 2 * len(SCALARS)


@pytest.mark.parametrize("scalar", [np.float32(2), np.float16(2), np.int8(2), np.uint32(2), np.complex64(2)], ids=repr)
def test_narrower_scalars_keep_their_dtype(scalar):
    for x in ARRAYS:
        expected = functad.dtypes.lattice_join((x.dtype, False), (scalar.dtype, False))[0]
        assert (x * scalar).dtype == (scalar * x).dtype == expected
    assert jnp.asarray(scalar).dtype == scalar.dtype and not jnp.asarray(scalar).weak_type


@pytest.mark.generated(every=30)
@pytest.mark.parametrize(("function", "args"), CASES)
def test_every_function_takes_them_for_pythons(function, args):
    wide = [WIDE[type(a)](a) if type(a) in WIDE else a for a in args]
    if all(a is b for a, b in zip(args, wide)):
        return  # no number among its arguments: other cases have some, as the next test makes sure
    assert str(types(function(jnp, *wide))) == str(types(function(jnp, *args)))


def test_many_cases_have_numbers():
    assert sum(any(type(a) in WIDE for a in case.values[1]) for case in CASES) > 400


def test_they_adapt_in_transforms():
    two = np.float64(2)

    def f(x, y):
        return x * y

    with_rule = functad.custom_jvp(f)
    with_rule.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
    x = jnp.ones(3)
    for g in (
        functad.jit(f),
        functad.vmap(f, in_axes=(0, None)),
        lambda x, y: functad.grad(lambda x, y: f(x, y).sum())(x, y),
        lambda x, y: functad.grad(lambda y, x: f(x, y).sum())(y, x),
        lambda x, y: functad.jvp(f, (x, y), (x, y)),
        lambda x, y: functad.vjp(f, x, y)[1](x),
        lambda x, y: functad.jit(functad.grad(lambda p: f(p["x"], p["y"]).sum()))({"x": x, "y": y}),
        lambda x, y: functad.eval_shape(f, x, y),
        lambda x, y: lax.scan(lambda c, x: (c * x, c + y), y, x),
        lambda x, y: lax.fori_loop(0, 3, lambda i, c: c * y, y),
        lambda x, y: lax.while_loop(lambda c: c < 9, lambda c: c * y, y),
        lambda x, y: lax.cond(True, lambda y: y, lambda y: y * 2, y),
        lambda x, y: lax.mul(x, y),
        lambda x, y: lax.full((2,), y),
        lambda x, y: lax.full_like(x, y),
        lambda x, y: with_rule(x, y),
        lambda x, y: functad.checkpoint(f)(x, y),
        lambda x, y: functad.device_put([x, y]),
        lambda x, y: functad.jit(lambda x: (x, y))(x),
    ):
        found, expected = g(x, two), g(x, 2.0)
        assert types(found) == types(expected)
        leaves = [leaf for leaf in functad.tree_util.tree_leaves(found) if hasattr(leaf, "dtype")]
        assert leaves and all(leaf.dtype == np.float32 for leaf in leaves)


def test_a_jitted_function_is_compiled_once_for_both():
    f = functad.jit(lambda x: x + 1)
    for x in (2.0, np.float64(2), np.sqrt(4.0)):
        assert f(x).dtype == np.float32
    assert f._cache_size() == 1
    with pytest.raises(DTypeError, match="does not fit in int32"):
        f(np.int64(2**40))
    assert f(np.int64(5)) == 6
    with pytest.raises(DTypeError, match="does not fit in int32"):
        f(np.int64(2**40))  # not by the short way either
    with enable_x64():
        assert f(np.int64(2**40)) == 2**40 + 1 and f(np.float64(2)).dtype == np.float64


def test_a_training_step_stays_in_32_bits():
    params = {"w": functad.random.normal(KEY, (3, 2)) * np.sqrt(2 / 3), "b": jnp.zeros(2) + np.float64(0.1)}
    optimizer = optim.adam(np.float64(1e-2), b1=np.float64(0.9))
    state = optimizer.init(params)

    @functad.jit
    def step(params, state, x):
        grads = functad.grad(lambda p: jnp.mean((x @ p["w"] + p["b"]) ** 2) * np.log(2))(params)
        updates, state = optimizer.update(grads, state, params)
        return optim.apply_updates(params, updates), state

    params, state = step(params, state, jnp.ones((4, 3)))
    leaves = functad.tree_util.tree_leaves((params, state))
    assert {leaf.dtype.name for leaf in leaves} <= {"float32", "int32"}
    for init in (nn.initializers.normal(np.sqrt(2 / 3)), nn.initializers.constant(np.float64(0.5))):
        assert init(KEY, (3, 2)).dtype == np.float32


def test_what_keeps_64_bits():
    assert (jnp.ones(2) * np.ones(2)).dtype == np.float64
    assert (jnp.ones(2) * np.array(2.0)).dtype == np.float64
    assert jnp.asarray(2.0, np.float64).dtype == jnp.float64(2).dtype == np.float64
    assert jnp.asarray(np.float64(0.1), "float64") == 0.1  # not rounded to 32 bits on the way
    assert float(jnp.linspace(0.1, 1, 3, dtype="float64")[0]) == 0.1
    assert float(jnp.full_like(np.ones(2), np.float64(0.1))[0]) == 0.1
    assert float((np.ones(1) * jnp.asarray(np.ones(1)) * np.float64(0.1))[0]) == 0.1
    with enable_x64():
        assert (jnp.float32(2) * np.float64(0.1)).dtype == np.float64 and not jnp.asarray(np.float64(2)).weak_type
