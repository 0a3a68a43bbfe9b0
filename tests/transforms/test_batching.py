"""vmap: axes of every form, nesting with the other transforms, errors."""

from __future__ import annotations

import tracemalloc
from functools import partial

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad.errors import BatchingError
from functad.tracing import eval_program

vmap, grad, jit = functad.vmap, functad.grad, functad.jit
rng = np.random.default_rng(0)
X = rng.standard_normal((3, 4, 5))
Y = rng.standard_normal((4, 3))


def loop(fun, *args):
    return np.stack([np.asarray(fun(*a)) for a in zip(*args)])


def close(x, y):
    np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-10, atol=1e-12)
    return True


def f(x, y):
    return jnp.tanh(x).sum(axis=0) * y.sum() + x[0] ** 2


@pytest.mark.parametrize("x_axis", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("y_axis", [0, 1, None])
def test_in_axes(x_axis, y_axis):
    n = X.shape[x_axis]
    y = Y if y_axis is None else rng.standard_normal((n, 2) if y_axis == 0 else (2, n))
    xs = np.moveaxis(X, x_axis, 0)
    ys = [y] * n if y_axis is None else np.moveaxis(y, y_axis, 0)
    assert close(vmap(f, in_axes=(x_axis, y_axis))(X, y), loop(f, xs, ys))


@pytest.mark.parametrize("out_axes", [0, 1, 2, -1, -2])
def test_out_axes(out_axes):
    out = vmap(lambda x: jnp.sin(x), out_axes=out_axes)(X)
    assert close(out, np.moveaxis(np.sin(X), 0, out_axes))


def test_pytree_prefixes():
    tree = {"a": X, "b": [Y, np.array(2.0)]}

    def g(tree, z):
        return {"s": tree["a"].sum() * tree["b"][1], "t": (tree["b"][0], z)}

    out = vmap(g, in_axes=({"a": 0, "b": [1, None]}, None), out_axes={"s": 0, "t": (1, None)})(tree, 7.0)
    assert close(out["s"], 2 * X.sum(axis=(1, 2))) and close(out["t"][0], Y) and out["t"][1] == 7


def test_an_unmapped_output_is_repeated():
    assert np.array_equal(vmap(lambda x: 3.0)(np.ones(4)), [3.0] * 4)
    assert vmap(lambda x: np.ones(2))(np.ones(4)).shape == (4, 2)


def test_axis_size_and_axis_name():
    assert vmap(lambda: jnp.arange(2.0), axis_size=3)().shape == (3, 2)
    assert vmap(lambda x: x * 2, axis_name="batch")(np.ones(3)).shape == (3,)


def test_keyword_arguments_are_mapped_over_their_first_axis():
    assert close(vmap(lambda x, *, y: x + y)(np.arange(3.0), y=np.ones(3)), [1, 2, 3])


def test_nested_vmap_is_an_outer_product():
    outer = vmap(vmap(lambda x, y: x * y, in_axes=(None, 0)), in_axes=(0, None))
    assert close(outer(np.arange(3.0), np.arange(4.0)), np.outer(np.arange(3.0), np.arange(4.0)))


@pytest.mark.parametrize(
    "compose",
    [
        lambda g: vmap(grad(g)),
        lambda g: jit(vmap(grad(g))),
        lambda g: vmap(jit(grad(g))),
        lambda g: vmap(grad(jit(g))),
        lambda g: lambda x: functad.grad(lambda x: vmap(g)(x).sum())(x),
        lambda g: lambda x: functad.grad(lambda x: jit(vmap(jit(g)))(x).sum())(x),
    ],
)
def test_per_example_gradients(compose):
    out = compose(lambda x: jnp.sum(jnp.sin(x) * x))(Y)
    assert close(out, np.cos(Y) * Y + np.sin(Y))


def test_per_example_directional_derivatives():
    def directional(x):
        return functad.jvp(lambda x: jnp.sum(jnp.sin(x)), (x,), (x,))[1]

    assert close(vmap(directional)(Y), np.sum(np.cos(Y) * Y, axis=1))


def test_vmap_of_a_matrix_product_is_one_batched_product():
    program = functad.make_jaxpr(vmap(lambda a, b: a @ b))(np.ones((2, 3, 4)), np.ones((2, 4, 5)))
    assert [e.primitive.name for e in program.eqns] == ["dot_general"]


# --- errors -----------------------------------------------------------------------------------------


def test_sizes_that_differ_are_listed_with_key_path_shape_and_axis():
    with pytest.raises(BatchingError) as caught:
        vmap(lambda d, z: d["a"], in_axes=(0, 1))({"a": np.ones((2, 3)), "b": [np.ones((3, 2))]}, np.ones((5, 2)))
    text = str(caught.value)
    assert "`d['a']`: shape (2, 3), axis 0 has size 2" in text
    assert "`d['b'][0]`: shape (3, 2), axis 0 has size 3" in text
    assert "`z`: shape (5, 2), axis 1 has size 2" in text


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: vmap(lambda x: x)(1.0), r"`x`, which is a scalar"),
        (lambda: vmap(lambda x: x, in_axes=2)(np.ones((2, 2))), r"axis 2 of `x`, which has shape \(2, 2\)"),
        (
            lambda: vmap(lambda x, y: x, in_axes=(0,))(np.ones(2), 1.0),
            "1 entries, but .* 2 positional arguments",
        ),
        (lambda: vmap(lambda x: x, in_axes=None)(np.ones(2)), "no argument of <lambda> is mapped"),
        (lambda: vmap(lambda x: x, in_axes=({"b": 0},))({"a": np.ones(2)}), "pytree prefix"),
        (lambda: vmap(lambda x: x, in_axes="0")(np.ones(2)), "ints or None"),
        (lambda: vmap(lambda x: x, out_axes=None)(np.ones(2)), "depends on the mapped arguments"),
        (lambda: vmap(lambda x: x, out_axes=3)(np.ones(2)), "out_axes=3 does not fit output of"),
        (lambda: vmap(lambda x: x, out_axes=(0, 0))(np.ones(2)), "out_axes must be a pytree prefix"),
    ],
)
def test_errors(call, match):
    with pytest.raises(BatchingError, match=match):
        call()


def test_a_called_program_may_have_outputs_that_are_not_mapped():
    call = jit(lambda x, y: (x * 2, y * 2))
    for after in (lambda y: y + 1.0, lambda y: y.sum(), lambda y: y[0], lambda y: y.reshape(2, 1), lambda y: y @ y):
        out = vmap(lambda x, y, after=after: after(call(x, y)[1]), in_axes=(0, None))(np.arange(3.0), np.ones(2))
        expected = np.asarray(after(np.full(2, 2.0)))
        assert close(out, np.broadcast_to(expected, (3, *expected.shape)))


def test_an_object_that_is_not_mapped_stays_what_it_is():
    class Parameter:
        def __jax_array__(self):
            return jnp.ones(2)

    found = functad.vmap(lambda a, x: (jnp.asarray(a) + x, isinstance(a, Parameter) * x), (None, 0))(
        Parameter(), jnp.ones(3)
    )
    np.testing.assert_array_equal(found[0], np.full((3, 2), 2))
    np.testing.assert_array_equal(found[1], np.ones(3))


def _chain(x):
    for _ in range(20):
        x = jnp.sin(x)
    return x


def _tangents(x):
    """The linear part alone: what the forward pass keeps was there before."""
    return functad.linearize(_chain, x)[1]


RUNS = {
    "vmap": (lambda x: partial(functad.vmap(_chain), x), 4),
    "vmap of grad": (lambda x: partial(functad.vmap(functad.grad(_chain)), x), 25),
    "jvp": (lambda x: partial(functad.jvp, _chain, (x,), (x,)), 25),
    "linearize": (lambda x: partial(_tangents(x), x), 4),
    "a Program": (lambda x: partial(eval_program, functad.make_jaxpr(_chain)(x), [x]), 4),
}


@pytest.mark.parametrize("run", RUNS)
def test_what_is_read_for_the_last_time_is_freed(run):
    """Of the twenty arrays that a chain of operations makes, only few are held at a time."""
    x = jnp.ones(100_000)
    made, most = RUNS[run]
    call = made(x)
    tracemalloc.start()
    try:
        call()
        assert tracemalloc.get_traced_memory()[1] < most * x.nbytes
    finally:
        tracemalloc.stop()
