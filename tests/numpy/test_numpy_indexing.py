"""Indexing and `.at[...]`: how they lower, what they refuse, and the rewrites that errors print."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad.errors import (
    ArgumentError,
    ConcretizationError,
    DTypeError,
    ImmutableArrayError,
    OutOfBoundsError,
    ShapeError,
)

X = jnp.arange(12.0).reshape(3, 4)


def primitives(function, *args):
    return [e.primitive.name for e in functad.make_jaxpr(function)(*args).eqns]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x[0], ["slice", "squeeze"]),
        (lambda x: x[1:3], ["slice"]),
        (lambda x: x[::-1], ["rev"]),
        (lambda x: x[::-2], ["slice", "rev"]),
        (lambda x: x[None], ["broadcast_in_dim"]),
        (lambda x: x[:, None, 2], ["slice", "squeeze", "broadcast_in_dim"]),
        (lambda x: x[...], []),
        (lambda x: x[np.array([0, 2])], ["gather"]),
        (lambda x: x[1:, np.array([0, 2])], ["slice", "gather"]),
        (lambda x: x.at[0].set(1.0), ["broadcast_in_dim", "reshape", "update_slice"]),
        (lambda x: x.at[::2, 1:].add(1.0), ["broadcast_in_dim", "add_to_slice"]),
        (lambda x: x.at[-1:].multiply(x[:1]), ["slice", "slice", "mul", "update_slice"]),
        (lambda x: x.at[np.array([0, 2])].add(1.0), ["broadcast_in_dim", "scatter-add"]),
    ],
)
def test_lowering(function, expected):
    assert primitives(function, X) == expected


def test_a_traced_integer_lowers_to_a_dynamic_slice():
    assert primitives(lambda x, i: x[i], X, 1)[-2:] == ["dynamic_slice", "squeeze"]
    found = functad.jit(lambda x, i: x[1:, i])(X, -1)
    np.testing.assert_array_equal(np.asarray(found), [7, 11])


def test_traced_index_arrays():
    rows = np.array([2, -1, 0])
    function = functad.jit(lambda x, i: (x[i], x[:, i[:2]], x.at[i].add(1.0), x[i, None, 1]))
    for found, expected in zip(function(X, rows), (X[rows], X[:, rows[:2]], X.at[rows].add(1.0), X[rows, None, 1])):
        np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (3, r"index 3 is out of bounds for axis 0 of size 3 of an array of shape \(3, 4\)"),
        (-4, "index -4 is out of bounds for axis 0"),
        ((0, 4), "index 4 is out of bounds for axis 1 of size 4"),
        ([0, 7], "index 7 is out of bounds for axis 0"),
        ((slice(None), [-5]), "index -5 is out of bounds for axis 1"),
        ([[0], [9]], "index 9 is out of bounds"),
        (range(5), "index 4 is out of bounds for axis 0"),
        ((0, 0, 0), "has 2 axes, but 3 were indexed"),
    ],
)
def test_written_positions_outside_raise(index, text):
    with pytest.raises(OutOfBoundsError, match=text):
        X[index]
    with pytest.raises(OutOfBoundsError, match=text):
        X.at[index].set(1.0)


@pytest.mark.parametrize(
    ("index", "error", "text"),
    [
        (1.5, DTypeError, "is no index"),
        ("a", DTypeError, "is no index"),
        (np.array([0.5]), DTypeError, r"f64\[1\] is no index"),
        ((..., ...), ArgumentError, "one ellipsis"),
        (np.array([True, False]), ShapeError, "boolean index of size 2 does not fit axis 0"),
        (slice(0, 2, 0), ArgumentError, "is no index"),
        (slice("a"), ArgumentError, "is no index"),
    ],
)
def test_what_is_no_index(index, error, text):
    with pytest.raises(error, match=text):
        X[index]


def test_traced_masks_print_the_rewrite():
    with pytest.raises(ConcretizationError, match=r"functad.numpy.where\(mask, x, 0\)"):
        functad.jit(lambda x: x[x > 1].sum())(X)


def test_traced_slices_print_the_rewrite():
    with pytest.raises(ConcretizationError, match="dynamic_slice"):
        functad.jit(lambda x, n: x[:n])(X, 2)


def test_masks_work_where_values_are_known():
    np.testing.assert_array_equal(np.asarray(X[X > 8]), [9, 10, 11])
    found = functad.grad(lambda x: (x[x > 8] ** 2).sum())(X)
    np.testing.assert_array_equal(np.asarray(found[2]), [0, 18, 20, 22])


def test_item_assignment_prints_the_rewrite():
    with pytest.raises(ImmutableArrayError, match=r"x = x.at\[0\].set\(value\)"):
        X[0] = 1.0


def test_errors_of_positions_outside_recommend_what_was_called():
    for call, text in (
        (lambda: X[9], r"x\.at\[index\]\.get\(mode='clip'\)"),
        (lambda: X.at[9].set(1.0), r"x\.at\[index\]\.set\(v, mode='drop'\)"),
        (lambda: X.at[[9]].add(1.0), r"x\.at\[index\]\.add\(v, mode='drop'\)"),
    ):
        with pytest.raises(OutOfBoundsError, match=text):
            call()


@pytest.mark.parametrize(
    "index",
    [
        True,
        False,
        np.True_,
        (slice(None), True),
        (True, [0, 1]),
        (True, False),
        (0, True),
        ([0, 1], slice(None), True),
        (None, True),
        (..., False),
        (..., True, 1),
    ],
)
def test_a_single_true_or_false_is_numpys(index):
    known = np.asarray(X)
    np.testing.assert_array_equal(np.asarray(X[index]), known[index])
    np.testing.assert_array_equal(np.asarray(functad.jit(lambda x: x[index])(X)), known[index])
    changed = known.copy()
    changed[index] = 7
    np.testing.assert_array_equal(np.asarray(X.at[index].set(7.0)), changed)


def test_modes_of_at():
    rows = np.array([0, 7])
    assert np.isnan(np.asarray(X.at[rows].get(mode="fill"))[1]).all()
    np.testing.assert_array_equal(np.asarray(X.at[rows].get(mode="clip"))[1], np.asarray(X[2]))
    np.testing.assert_array_equal(np.asarray(X.at[rows].set(9.0, mode="drop"))[1:], np.asarray(X[1:]))
    np.testing.assert_array_equal(np.asarray(X.at[5].get(mode="fill", fill_value=-1)), [-1, -1, -1, -1])
    with pytest.raises(ArgumentError, match="mode must be one of"):
        X.at[0].set(1.0, mode="nonsense")


@pytest.mark.parametrize("far", [2**31, 2**32 + 1, 2**40, 2**70])
def test_positions_of_any_size_lie_outside(far):
    x = jnp.arange(5.0)
    for transform in (lambda f: f, functad.jit):
        assert transform(lambda x: x.at[far].get(mode="clip"))(x) == 4
        assert transform(lambda x: x.at[-far].get(mode="clip"))(x) == 0
        assert np.isnan(transform(lambda x: x.at[far].get(mode="fill"))(x))
        assert np.isnan(transform(lambda x: x.at[np.array([0, 1]), far].get(mode="fill"))(jnp.ones((2, 5)))).all()
        np.testing.assert_array_equal(transform(lambda x: x.at[far].set(9.0, mode="drop"))(x), x)
        np.testing.assert_array_equal(transform(lambda x: x.at[far].set(9.0, mode="clip"))(x), [0, 1, 2, 3, 9])


def test_unused_at_is_fine():
    assert repr(X.at[0]).startswith("AtIndex(") and repr(X.at).startswith("At(")


@pytest.mark.parametrize(
    ("update", "error", "text"),
    [
        (lambda: X.at[0].set(jnp.zeros(3)), ShapeError, r"values of shape \(3,\) do not broadcast to the shape \(4,\)"),
        (lambda: X.at[0, 1].set(jnp.zeros(2)), ShapeError, "do not broadcast"),
        (lambda: jnp.arange(3).at[0].set(1.5), DTypeError, "do not fit into an array of dtype int32"),
        (lambda: X.at[0].set(1j), DTypeError, "complex64 do not fit"),
        (lambda: X.at[0].add(1.0, colour=3), TypeError, "unexpected keyword argument 'colour'"),
        (lambda: X.at[0].apply(jnp.sin, colour=3), TypeError, r"apply\(\) got an unexpected keyword argument 'colour'"),
    ],
)
def test_updates_that_do_not_fit(update, error, text):
    with pytest.raises(error, match=text):
        update()


def test_updates_with_leading_ones_and_64_bits():
    assert X.at[0].set(np.ones((1, 4))).dtype == np.float32
    assert np.asarray(X.at[0].set(np.ones((1, 1, 4))))[0].sum() == 4


def test_lists_and_ranges_are_index_arrays():
    np.testing.assert_array_equal(np.asarray(X[[0, 2]]), np.asarray(X)[[0, 2]])
    np.testing.assert_array_equal(np.asarray(X[:, range(2)]), np.asarray(X)[:, :2])
    assert X[[]].shape == (0, 4)


def test_random_indices_are_numpys():
    generator = np.random.default_rng(0)
    x = np.arange(60.0, dtype=np.float32).reshape(3, 4, 5)
    for _ in range(300):
        index = tuple(_random_part(generator, n) for n in x.shape[: generator.integers(1, 4)])
        if generator.random() < 0.3:
            index = (*index[:1], None, *index[1:])
        if sum(isinstance(p, np.ndarray) for p in index) > 1:
            index = tuple(p[:2] if isinstance(p, np.ndarray) else p for p in index)
        expected = x[index]
        np.testing.assert_array_equal(np.asarray(jnp.asarray(x)[index]), expected, err_msg=str(index))
        values = np.arange(expected.size, dtype=np.float32).reshape(expected.shape)
        changed = x.copy()
        np.add.at(changed, index, values)
        np.testing.assert_array_equal(np.asarray(jnp.asarray(x).at[index].add(values)), changed, err_msg=str(index))


def _random_part(generator, size):
    kind = generator.integers(0, 4)
    if kind == 0:
        return int(generator.integers(-size, size))
    if kind == 1:
        start, stop = generator.integers(-size - 1, size + 2, 2)
        return slice(int(start), int(stop), int(generator.choice([1, 2, -1, -2])))
    if kind == 2:
        return generator.integers(-size, size, 3)
    return slice(None)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_traced_indices_whose_dtype_is_too_small_for_the_axis(dtype):
    x = np.arange(40_000.0)
    index = np.array([0, 1, 127, -1, -128], np.int64).astype(dtype)
    np.testing.assert_array_equal(functad.jit(lambda x, i: x[i])(x, index), x[index])
    np.testing.assert_array_equal(functad.jit(lambda x, i: jnp.take(x, i))(x, index), x[index])
    changed = x.copy()
    changed[index] = -1
    np.testing.assert_array_equal(functad.jit(lambda x, i: x.at[i].set(-1))(x, index), changed)


INDICES = {
    "numbers": (1, -1),
    "slices": (slice(None, None, -1), slice(1, 100)),
    "new axes": (None, ..., None, 2),
    "positions": jnp.array([2, 0, -1]),
    "positions of both axes": (jnp.array([[0], [2]]), np.array([1, 3], np.uint8)),
    "a number and positions": (jnp.array(1), slice(None), None),
    "a mask": np.arange(12).reshape(3, 4) % 5 < 2,
    "a mask of rows": jnp.array([True, False, True]),
    "positions outside": jnp.array([5, -9]),
    "a large unsigned number": np.array([2**64 - 1, 1], np.uint64),
    "none": (slice(5, 5), jnp.array([], "int32")),
}


@pytest.mark.parametrize("name", INDICES)
def test_known_arrays_are_indexed_as_traced_ones(name):
    x = jnp.arange(12.0).reshape(3, 4)
    for given in (x, x.astype("float16"), x > 3):
        found = given[INDICES[name]]
        (traced,) = functad.make_jaxpr(lambda x: x[INDICES[name]])(given).out_avals
        assert found.aval == traced
        as_traced = functad.vmap(lambda x: x[INDICES[name]])(given[None])[0]
        np.testing.assert_array_equal(np.asarray(found), np.asarray(as_traced))
        assert not np.asarray(found).flags.writeable


def test_a_number_of_weak_type_stays_weak_where_it_is_indexed():
    assert jnp.asarray(2.0)[None].weak_type and jnp.asarray(2.0)[()].weak_type
    keys = functad.random.split(functad.random.key(0), 3)
    assert keys[1].dtype == functad.random.key(0).dtype and keys[jnp.array([2, 0])].shape == (2,)


@pytest.mark.parametrize("transform", [lambda f: f, functad.jit])
def test_negative_positions_along_an_axis_may_lie_outside(transform):
    x, i = jnp.array([[3.0, 1.0, 2.0]]), jnp.array([[-1, 1, 3]])
    for wrapped, mode, values in (
        (None, None, [2, 1, np.nan]),
        (False, None, [np.nan, 1, np.nan]),
        (False, "clip", [3, 1, 2]),
        (True, "clip", [2, 1, 2]),
    ):
        found = transform(partial(jnp.take_along_axis, axis=1, mode=mode, wrap_negative_indices=wrapped))(x, i)
        np.testing.assert_array_equal(found, [values])
        flat = transform(partial(jnp.take_along_axis, axis=None, mode=mode, wrap_negative_indices=wrapped))(x, i[0])
        np.testing.assert_array_equal(flat, values)


def _get(x, i, **options):
    return x.at[i].get(**options)


def _set(x, i, **options):
    return x.at[i].set(7, **options)


@pytest.mark.parametrize("transform", [lambda f: f, functad.jit])
def test_negative_indices_may_lie_outside(transform):
    x, i = jnp.arange(4.0), jnp.array([-1, 1])
    for mode, read, written in (
        (None, [0, 1], [0, 7, 2, 3]),
        ("clip", [0, 1], [7, 7, 2, 3]),
        ("fill", [np.nan, 1], [0, 7, 2, 3]),
    ):
        outside = {"mode": mode, "wrap_negative_indices": False}
        np.testing.assert_array_equal(transform(partial(_get, **outside))(x, i), read)
        np.testing.assert_array_equal(transform(partial(_set, **outside))(x, i), written)
        np.testing.assert_array_equal(transform(partial(_set, **outside))(x, jnp.int32(-1))[3], 3)
        if mode is not None:
            np.testing.assert_array_equal(transform(partial(_get, i=[-1, 1], **outside))(x), read)
        np.testing.assert_array_equal(transform(partial(_set, i=slice(-2, None), **outside))(x), [0, 1, 7, 7])
    np.testing.assert_array_equal(transform(lambda x: x.at[i].apply(jnp.negative, **outside))(x), [0, -1, 2, 3])
    for index in (-1, [-1, 1]):
        with pytest.raises(OutOfBoundsError, match="allowed: 0 to 3"):
            transform(partial(_set, i=index, wrap_negative_indices=False))(x)
