"""Collectives over the axis that `vmap` names: what they mean, under all transforms, compiled and not."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from collective_cases import CASES, Modules

import functad
import functad.numpy as jnp
from functad import lax
from functad.errors import ArgumentError, DifferentiationError, ShapeError, UnboundAxisError

OURS = Modules(jnp, lax, functad.grad, functad.jit, functad.vmap, functad.checkpoint)
X = jnp.asarray(np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32))


def mapped(name, **options):
    return functad.vmap(lambda x: CASES[name](OURS, x), axis_name="i", **options)


@pytest.mark.parametrize("name", CASES)
def test_compiled_they_are_the_same(name):
    expected = functad.tree_util.tree_leaves(mapped(name)(X))
    found = functad.tree_util.tree_leaves(functad.jit(mapped(name))(X))
    turned = functad.tree_util.tree_leaves(functad.jit(mapped(name, in_axes=1))(X.T))
    for a, b, c in zip(expected, found, turned, strict=True):
        np.testing.assert_allclose(b, a, rtol=2e-5, atol=1e-6)
        np.testing.assert_allclose(c, a, rtol=2e-5, atol=1e-6)


def test_they_are_what_numpy_computes():
    x = np.asarray(X)
    np.testing.assert_allclose(mapped("psum")(X), np.broadcast_to(x.sum(0), x.shape), rtol=1e-5)
    np.testing.assert_allclose(mapped("pmax")(X), np.broadcast_to(x.max(0), x.shape))
    np.testing.assert_array_equal(mapped("axis_index")(X), x.diagonal())
    np.testing.assert_array_equal(mapped("all_to_all")(X), x.T)
    np.testing.assert_array_equal(mapped("ppermute")(X), x[[3, 0, 2, 1]])
    some = functad.vmap(lambda x: lax.ppermute(x, "i", [(0, 1), (3, 0)]), axis_name="i")
    np.testing.assert_array_equal(some(X), np.stack([x[3], x[0], 0 * x[0], 0 * x[0]]))
    np.testing.assert_array_equal(mapped("pshuffle")(X), x[[2, 0, 3, 1]])


def test_a_result_that_is_the_same_for_all_needs_no_axis():
    total = functad.vmap(lambda x: lax.psum(x, "i"), axis_name="i", out_axes=None)(X)
    np.testing.assert_allclose(total, np.asarray(X).sum(0), rtol=1e-5)


def test_what_is_jitted_within_is_traced_for_each_axis():
    share = functad.jit(lambda x: x / lax.psum(x, "i"))
    for n in (2, 4, 3):
        found = functad.vmap(share, axis_name="i")(jnp.ones(n))
        np.testing.assert_allclose(found, np.full(n, 1 / n), rtol=1e-6)
    with pytest.raises(UnboundAxisError, match="unbound axis name: 'i'"):
        share(jnp.ones(3))


def test_inner_names_hide_outer_ones_and_end_with_their_vmap():
    inner = functad.vmap(lambda x: lax.axis_size("i"), axis_name="i", out_axes=None)
    assert functad.vmap(lambda x: inner(jnp.ones(7)), axis_name="i", out_axes=None)(jnp.ones(3)) == 7
    for call in (lambda: lax.psum(X, "i"), lambda: lax.axis_index("i"), lambda: lax.axis_size("j")):
        with pytest.raises(NameError, match="unbound axis name"):
            call()
    with pytest.raises(UnboundAxisError, match="have a name here: 'i'"):
        functad.vmap(lambda x: lax.psum(x, "j"), axis_name="i")(X)


def test_names_belong_to_their_thread():
    problems = []

    def other():
        try:
            lax.axis_size("i")
        except NameError as problem:
            problems.append(problem)

    def f(x):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return x

    functad.vmap(f, axis_name="i")(X)
    assert len(problems) == 1


def test_means_of_integers_and_of_python_numbers():
    def f(x):
        return lax.pmean(x, "i"), lax.pmean(x > 1, "i"), lax.psum(x > 1, "i"), lax.pmean(3, "i"), lax.pmean(1.5, "i")

    for wrap in (lambda f: f, functad.jit):
        found = wrap(functad.vmap(f, axis_name="i"))(jnp.arange(4))
        for result, expected in zip(found, (1.5, 0.5, 2, 3.0, 1.5), strict=True):
            np.testing.assert_array_equal(np.asarray(result), [expected] * 4)
        assert [r.dtype.name for r in found] == ["float32", "float32", "int32", "float32", "float32"]


def test_objections():
    for call, error, text in (
        (lambda x: lax.psum(x, "i", axis_index_groups=[[0, 1], [2, 3]]), ArgumentError, "axis_index_groups"),
        (lambda x: lax.psum_scatter(x[:3], "i"), ArgumentError, "must have the size 4"),
        (lambda x: lax.ppermute(x, "i", [(0, 1), (0, 2)]), ArgumentError, "twice"),
        (lambda x: lax.pshuffle(x, "i", [0, 0, 1, 2]), ArgumentError, "no permutation"),
        (lambda x: lax.all_gather(x, "i", axis=5), ShapeError, "axis 5 is out of bounds"),
        (lambda x: lax.all_to_all(x, "i", 5, 0), ShapeError, "all_to_all: axis 5 is out of bounds"),
        (lambda x: lax.all_to_all(x, "i", 0, -5), ShapeError, "all_to_all: axis -5 is out of bounds"),
        (lambda x: lax.pswapaxes(x[0], "i", 0), ShapeError, "axis 0 is out of bounds for an array with 0 axes"),
        (lambda x: lax.psum_scatter(x, "i", scatter_dimension=5), ShapeError, "axis 5 is out of bounds"),
        (lambda x: lax.psum_scatter(x[0], "i"), ShapeError, "axis 0 is out of bounds for an array with 0 axes"),
        (functad.grad(lambda x: lax.pmax(x, "i").sum()), DifferentiationError, "pmax"),
    ):
        with pytest.raises(error, match=text):
            functad.vmap(call, axis_name="i")(X)
