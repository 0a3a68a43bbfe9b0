"""What the functions of `functad.numpy` refuse, and that the errors name function, argument and shapes."""

from __future__ import annotations

import io

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad.errors import ArgumentError, ConcretizationError, DTypeError, OutOfBoundsError, ShapeError

X = jnp.arange(12.0).reshape(3, 4)
V = jnp.arange(4.0)

REFUSED = [
    (lambda: jnp.matmul(X, X), ShapeError, r"matmul: shapes \(3, 4\) and \(3, 4\) do not fit"),
    (lambda: jnp.matmul(X, 2.0), ShapeError, "use . for scalars"),
    (lambda: jnp.dot(X, X), ShapeError, "dot: shapes"),
    (lambda: jnp.tensordot(X, V, axes=2), ArgumentError, "tensordot: axes=2 is too many"),
    (lambda: jnp.tensordot(X, X, axes=1), ShapeError, "tensordot: axes"),
    (lambda: jnp.cross(X, X), ShapeError, "cross takes vectors of two or three"),
    (lambda: jnp.diag(jnp.zeros((2, 2, 2))), ArgumentError, "diag takes a vector or a matrix"),
    (lambda: jnp.diagonal(V), ArgumentError, "diagonal takes at least two axes"),
    (lambda: jnp.fill_diagonal(X, 1.0), ArgumentError, "inplace=False"),
    (lambda: jnp.einsum("ij,jk->ik", X, V), ArgumentError, "do not fit an array of shape"),
    (lambda: jnp.einsum("ij,jk->ik", X), ArgumentError, "names 2 operands, but 1 were given"),
    (lambda: jnp.einsum("ij,ik->jk", X, X[:2]), ShapeError, "label 'i' .* has the sizes 3 and 2"),
    (lambda: jnp.einsum("ij->ijj", X), ArgumentError, "label 'j' of the result"),
    (lambda: jnp.einsum("ij->ik", X), ArgumentError, "label 'k' of the result"),
    (lambda: jnp.concatenate([]), ArgumentError, "at least one array"),
    (lambda: jnp.concatenate([X, V]), ShapeError, r"concatenate: arrays of shapes \(3, 4\), \(4,\)"),
    (lambda: jnp.concatenate([1.0, 2.0]), ShapeError, "use stack"),
    (lambda: jnp.stack([X, V]), ShapeError, "stack: arrays have the different shapes"),
    (lambda: jnp.split(X, 2), ShapeError, "does not divide into 2 equal parts"),
    (lambda: jnp.array_split(X, 0), ArgumentError, "must be positive"),
    (lambda: jnp.squeeze(X, 0), ArgumentError, "squeeze: axis 0 .* has size 3"),
    (lambda: jnp.transpose(X, (0,)), ArgumentError, "must name all 2 axes"),
    (lambda: jnp.moveaxis(X, (0, 1), 0), ArgumentError, "differ in length"),
    (lambda: jnp.broadcast_to(X, (3, 5)), ShapeError, "broadcast_to: an array of shape"),
    (lambda: jnp.reshape(X, (3, 4), order="A"), ArgumentError, "order must be 'C' or 'F'"),
    (lambda: jnp.rot90(X, axes=(0,)), ArgumentError, "must name two axes"),
    (lambda: jnp.pad(X, -1), ArgumentError, "must not be negative"),
    (lambda: jnp.pad(X, 1, mode="odd"), ArgumentError, "mode must be one of constant"),
    (lambda: jnp.pad(X, 1, mode="edge", constant_values=1), ArgumentError, "does not take constant_values"),
    (lambda: jnp.pad(X, ((1, 2), (3, 4), (5, 6))), ShapeError, "for each of 2 axes"),
    (lambda: jnp.max(jnp.zeros(0)), ArgumentError, "max of nothing is undefined"),
    (lambda: jnp.max(X, where=X > 1), ArgumentError, "initial= must say"),
    (lambda: jnp.sum(X, where=X), ArgumentError, "where= must be boolean"),
    (lambda: jnp.sum(X, initial=V), ArgumentError, "initial= must be a scalar"),
    (lambda: jnp.argmax(jnp.zeros((0, 3)), axis=0), ArgumentError, "argmax: .* no elements"),
    (lambda: jnp.average(X, weights=jnp.ones(3)), ArgumentError, "average: weights of shape"),
    (lambda: jnp.quantile(X, 0.5, method="best"), ArgumentError, "method must be one of linear"),
    (lambda: jnp.quantile(jnp.zeros(0), 0.5), ArgumentError, "has no elements"),
    (lambda: jnp.arange(3) ** -1, ArgumentError, "negative power -1"),
    (lambda: jnp.power(jnp.arange(3), -2), ArgumentError, "negative power -2"),
    (lambda: jnp.bitwise_and(X, 1), DTypeError, "use logical_and"),
    (lambda: jnp.gcd(X, 2), ArgumentError, "gcd takes integers"),
    (lambda: jnp.isposinf(jnp.ones(2) * 1j), DTypeError, "isposinf takes real numbers"),
    (lambda: jnp.where(X > 1, X), ArgumentError, "both choices"),
    (lambda: jnp.select([], []), ArgumentError, "at least one"),
    (lambda: jnp.piecewise(X, [X > 1], []), ArgumentError, "take as many functions"),
    (lambda: jnp.take(X, 0, mode="raise"), ArgumentError, "mode must be one of fill"),
    (lambda: jnp.take_along_axis(X, V, axis=0), ArgumentError, "indices must be integers"),
    (lambda: jnp.take_along_axis(X, jnp.arange(4), axis=0), ShapeError, "as many axes as the array"),
    (lambda: jnp.put_along_axis(X, jnp.zeros((3, 1), int), 1.0, 1), ArgumentError, "inplace=False"),
    (lambda: jnp.repeat(X, -1), ArgumentError, "must not be negative"),
    (lambda: jnp.nonzero(jnp.asarray(1.0)), ArgumentError, "atleast_1d"),
    (lambda: jnp.delete(V, 9), OutOfBoundsError, "index 9"),
    (lambda: jnp.insert(V, 9, 1.0), ArgumentError, "position 9 is out of bounds"),
    (lambda: jnp.compress([False] * 9 + [True], V), OutOfBoundsError, "index 9"),
    (lambda: jnp.extract([False] * 9 + [True], V), OutOfBoundsError, "index 9"),
    (lambda: jnp.ravel_multi_index((0, -1), (3, 4)), OutOfBoundsError, "index -1"),
    (lambda: jnp.insert(V, 0, X), ShapeError, "have more axes than the array"),
    (lambda: jnp.searchsorted(X, 1.0), ArgumentError, "takes a sorted vector"),
    (lambda: jnp.searchsorted(V, 1.0, side="middle"), ArgumentError, "side must be"),
    (lambda: jnp.lexsort((V, jnp.zeros(3))), ShapeError, "different shapes"),
    (lambda: jnp.bincount(V), DTypeError, "takes a vector of integers"),
    (lambda: jnp.histogram(X, "auto"), ArgumentError, "bins must be a number or edges"),
    (lambda: jnp.cov(jnp.zeros((2, 2, 2))), ShapeError, "cov takes vectors and matrices"),
    (lambda: jnp.diff(X, n=-1), ArgumentError, "diff: n must not be negative"),
    (lambda: jnp.gradient(jnp.zeros(1)), ShapeError, "at least two elements"),
    (lambda: jnp.interp(1.0, V, jnp.zeros(3)), ShapeError, "vectors xp and fp of one length"),
    (lambda: jnp.convolve(X, V), ShapeError, "convolve takes vectors"),
    (lambda: jnp.convolve(V, V, mode="half"), ArgumentError, "mode must be"),
    (lambda: jnp.arange(1, 2, 0), ArgumentError, "step must not be 0"),
    (lambda: jnp.linspace(0, 1, -1), ArgumentError, "num must not be negative"),
    (lambda: jnp.linspace(0, 1, 2.5), ArgumentError, "num must be an integer"),
    (lambda: jnp.meshgrid(X), ArgumentError, "argument 0 has shape"),
    (lambda: jnp.meshgrid(V, indexing="yx"), ArgumentError, "indexing must be"),
    (lambda: jnp.tril(V), ArgumentError, "tril takes a matrix"),
    (lambda: jnp.vectorize(jnp.dot, signature="(n),(n)")(V, V), ArgumentError, "has no '->'"),
    (lambda: jnp.vectorize(jnp.dot, signature="(n),(n)->()")(V, V[:2]), ShapeError, "axis 'n'"),
    (lambda: jnp.block([[X], X]), ArgumentError, "differ in depth"),
    (lambda: jnp.ix_(X), ArgumentError, "ix_ takes vectors"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), REFUSED)
def test_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()


NEEDS_VALUES = {
    "arange": (lambda n: jnp.arange(n), "largest"),
    "nonzero": (lambda n: jnp.nonzero(jnp.arange(3) > n), "size=largest"),
    "unique": (lambda n: jnp.unique(jnp.arange(3) * n), "size=largest"),
    "bincount": (lambda n: jnp.bincount(jnp.arange(3) * n), "length=largest"),
    "repeat": (lambda n: jnp.repeat(jnp.arange(3), n), "total_repeat_length"),
    "split": (lambda n: jnp.split(jnp.arange(3), [n]), "static_argnames"),
    "delete": (lambda n: jnp.delete(jnp.arange(3), n), "jnp.where"),
    "setdiff1d": (lambda n: jnp.setdiff1d(jnp.arange(3), n), "size=largest"),
    "trim_zeros": (lambda n: jnp.trim_zeros(jnp.arange(3) * n), "outside of the transformed function"),
}


@pytest.mark.parametrize("name", NEEDS_VALUES)
def test_what_needs_values_prints_the_rewrite(name):
    function, text = NEEDS_VALUES[name]
    with pytest.raises(ConcretizationError, match=text):
        functad.jit(function)(1)


def test_traced_sizes_with_a_bound():
    mask = np.array([True, False, True])
    (found,) = functad.jit(lambda m: jnp.nonzero(m, size=4, fill_value=-1))(mask)
    assert found.tolist() == [0, 2, -1, -1]
    assert functad.jit(lambda n: jnp.repeat(jnp.arange(3), n, total_repeat_length=6))(np.array([1, 0, 3])).tolist() == [
        0, 2, 2, 2, 2, 2,
    ]  # fmt: skip
    assert functad.jit(lambda x: jnp.bincount(x, length=4))(np.array([3, 1, 3, 9])).tolist() == [0, 1, 0, 2]
    assert functad.jit(lambda x: jnp.unique(x, size=3))(np.array([3, 1, 3, 9])).tolist() == [1, 3, 9]
    assert functad.jit(lambda s: jnp.roll(jnp.arange(4), s))(1).tolist() == [3, 0, 1, 2]


@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted_among_numbers_of_every_count(side):
    rng = np.random.default_rng(0)
    values = np.array([*range(-1, 41), np.nan, np.inf, -np.inf, 0.5], np.float32)
    for count in [*range(1, 36), 100]:
        table = np.sort(rng.integers(0, count + 1, count)).astype(np.float32)
        for numbers in (table, np.where(table > 0.8 * count, np.float32(np.nan), table)):
            found = jnp.searchsorted(numbers, values, side)
            np.testing.assert_array_equal(found, np.searchsorted(numbers, values, side).astype(np.int32), strict=True)


def test_empty_arrays():
    empty = jnp.zeros((0, 3))
    assert float(jnp.sum(empty)) == 0 and float(jnp.prod(empty)) == 1
    assert empty[:, 1].shape == (0,) and jnp.sort(empty, axis=0).shape == (0, 3)
    assert jnp.concatenate([empty, X[:, :3]]).shape == (3, 3)
    assert (empty.T @ empty).tolist() == np.zeros((3, 3)).tolist()
    assert jnp.take(empty, np.zeros(0, int), axis=0).shape == (0, 3)
    assert jnp.searchsorted(jnp.zeros(0), V).tolist() == [0, 0, 0, 0]


def test_counts_of_public_functions():
    public = [name for name in dir(jnp) if not name.startswith("_") and callable(getattr(jnp, name))]
    assert len(public) > 350


def test_files(tmp_path):
    jnp.save(tmp_path / "x.npy", X)
    assert jnp.load(tmp_path / "x.npy").tolist() == X.tolist()
    np.asarray(V).tofile(tmp_path / "v.bin")
    assert jnp.fromfile(tmp_path / "v.bin", dtype="float32").tolist() == V.tolist()
    file = io.BytesIO()
    jnp.savez(file, x=X)
    file.seek(0)
    assert jnp.load(file)["x"].tolist() == X.tolist()


def test_making_arrays_of_other_things():
    assert jnp.fromiter((i * i for i in range(3)), "int32").tolist() == [0, 1, 4]
    assert jnp.fromstring("1 2 3", "int32", sep=" ").tolist() == [1, 2, 3]
    assert jnp.from_dlpack(np.arange(3.0)).tolist() == [0, 1, 2]
    assert jnp.frombuffer(b"\x01\x02", "uint8").tolist() == [1, 2]
    assert [a.tolist() for a in jnp.mask_indices(2, jnp.triu)] == [[0, 0, 1], [0, 1, 1]]
    assert jnp.zeros_like(functad.ShapeDtypeStruct((2,), np.dtype("int8"))).dtype == np.int8


def test_the_shape_of_none_is_that_of_a_scalar():
    assert (jnp.shape(None), jnp.ndim(None), jnp.size(None)) == (np.shape(None), np.ndim(None), np.size(None))
    assert functad.jit(lambda x: x + jnp.ndim(None))(1) == 1


def test_gcd_and_lcm():
    pairs = np.array([(12, 18), (-4, 6), (0, 5), (0, 0), (832040, 514229)])
    x, y = jnp.asarray(pairs[:, 0]), jnp.asarray(pairs[:, 1])
    assert jnp.gcd(x, y).tolist() == np.gcd(*pairs.T).tolist()
    assert jnp.lcm(x, y).tolist() == np.lcm(*pairs.T).tolist()


def test_einsum_contracts_in_the_cheapest_order():
    a, b, c = jnp.ones((2, 50)), jnp.ones((50, 50)), jnp.ones((50, 2))
    text = str(functad.make_jaxpr(lambda *xs: jnp.einsum("ij,jk,kl->il", *xs))(a, b, c))
    assert text.count("dot_general") == 2 and "f32[50,50] = dot_general" not in text
    path, _ = jnp.einsum_path("ij,jk,kl->il", a, b, c)
    assert path == [(0, 1), (0, 1)]


def test_vectorize_excludes_arguments():
    function = jnp.vectorize(lambda x, n: x**n, excluded={1})
    assert function(V, 2).tolist() == [0, 1, 4, 9]


@pytest.mark.parametrize(
    "bounds", [(np.ones(2, complex), 0, 1), (np.ones(2), 1j, None), (np.ones(2), 0, np.complex64(1))]
)
def test_complex_numbers_have_no_order_to_clip_by(bounds):
    for clip in (jnp.clip, functad.jit(jnp.clip, static_argnums=(1, 2))):
        with pytest.raises(ArgumentError, match="complex numbers have no order"):
            clip(*bounds)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: jnp.nonzero(jnp.ones(2), size=-1), ArgumentError, "size=-1 must not be negative"),
        (lambda: jnp.flatnonzero(jnp.ones(2), size=-1), ArgumentError, "size=-1 must not be negative"),
        (lambda: jnp.unique(jnp.ones(2), size=-1), ArgumentError, "size=-1 must not be negative"),
        (lambda: jnp.hypot(1j, 1.0), DTypeError, "hypot takes real numbers"),
        (lambda: jnp.ldexp(1.0, 1.5), DTypeError, "integer exponents"),
    ],
)
def test_arguments_that_numpy_and_jax_refuse(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_ldexp_where_the_power_alone_is_too_large():
    x, y = np.float32([2.0**-100, 2.0**100, 1.0, 1.0, 3.0, 0.0]), np.int32([200, -200, 127, -149, -1, 5])
    for step in (jnp.ldexp, functad.jit(jnp.ldexp)):
        np.testing.assert_array_equal(np.asarray(step(x, y)), np.ldexp(x, y))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_ldexp_by_more_than_any_number_spans(dtype):
    x = np.array([0, -0.0, 1, 1e-40, np.inf, -np.inf, np.nan, 3]).astype(dtype)
    y = np.array([[255], [-300], [2**30], [-(2**31)]], np.int32)
    with np.errstate(all="ignore"):
        expected = np.ldexp(x, y)
    for step in (jnp.ldexp, functad.jit(jnp.ldexp)):
        np.testing.assert_array_equal(np.asarray(step(x, y)), expected)


@pytest.mark.parametrize(
    ("bins", "ends"), [(10, (-2.0, 2.0)), (7, None), (5, (1e6, 1e6 + 1)), (3, (-1e30, 1e30)), (2, (1.0, 1.0))]
)
def test_a_jitted_histogram_counts_as_the_search_among_edges_does(bins, ends):
    x = np.random.default_rng(0).normal(size=200).astype(np.float32)
    if ends is not None:  # of a million and up, ten edges are no more than a few numbers of float32
        x = np.float32(ends[0]) + np.abs(x)
        x[:5] = np.nan, np.inf, -np.inf, *ends
    counts, edges = functad.jit(lambda x: jnp.histogram(x, bins, ends))(x)
    searched, _ = jnp.histogram(x, edges)
    np.testing.assert_array_equal(counts, searched)
    if ends is not None:
        first, last = np.asarray(edges)[[0, -1]]
        assert counts.sum() == ((x >= first) & (x <= last)).sum()
    both = functad.vmap(lambda x: jnp.histogram(x, bins, ends)[0])(np.stack([x, x[::-1]]))
    np.testing.assert_array_equal(both, np.stack([searched, searched]))


def test_a_jitted_histogram_of_64_bits():
    with functad.enable_x64(True):
        x = np.array([0.525, 0.62375, 0.3275])
        found = functad.jit(lambda x: jnp.histogram(x, 3, (0, 1), weights=x)[0])(x)
    np.testing.assert_allclose(found, np.histogram(x, 3, (0, 1), weights=x)[0])


def test_parts_of_modf_have_the_sign_of_the_number():
    x = np.array([0.0, -0.0, -2, 3, -0.5, 1e30, np.inf, -np.inf], np.float32)
    for found, expected in zip(functad.jit(jnp.modf)(x), np.modf(x)):
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))
    slope = functad.grad(lambda x: jnp.modf(x)[0].sum())(x[:-2])
    np.testing.assert_array_equal(slope, np.ones(6))


def test_what_is_joined_by_an_index():
    x = jnp.arange(2.0)
    np.testing.assert_array_equal(jnp.r_["r", x, 2:4], [[0, 1, 2, 3]])  # where NumPy gives its matrices
    np.testing.assert_array_equal(jnp.r_["c", x, 2], [[0], [1], [2]])
    np.testing.assert_array_equal(functad.jit(lambda x: jnp.r_[x, 1:3, 0])(x), [0, 1, 1, 2, 0])
    np.testing.assert_array_equal(functad.grad(lambda x: jnp.sum(jnp.c_[x, x] ** 2))(x), [0, 4])
    assert jnp.r_[1:3].dtype == jnp.int32 and jnp.r_[1:3, 0.5].dtype == jnp.float32
    for key, text in (((), "was given none"), ((1, "0"), "must be the first"), (("x,1", 1), "'x,1' must be")):
        with pytest.raises(ArgumentError, match=text):
            jnp.r_[key]
    with pytest.raises(ArgumentError, match=r"the axes of a part of shape \(2,\) cannot begin at 3 of 3"):
        jnp.r_["0,3,3", x]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_infinities_have_no_spacing(dtype):
    """NaN, as in NumPy; JAX's is inf for −inf of float16."""
    for spacing in (jnp.spacing, functad.jit(jnp.spacing)):
        assert np.isnan(spacing(np.array([-np.inf, np.inf], dtype))).all()


@pytest.mark.parametrize(
    ("at", "values", "axis"),
    [
        (1, [7, 8], 1),
        (1, [[5], [6]], 1),
        ([1], [[5], [6]], 1),
        ([0, 2], [[5], [6]], 1),
        (1, [[7, 8, 9], [1, 2, 3]], 0),
        (slice(0, 2), [5, 6], None),
        ([2, 0], 5.5, None),
        ([], 5, 1),
        (1, [[7]], None),
        (np.array([True, False, True, False, False, False]), [5, 6], None),
    ],
)
def test_inserted_values_lie_as_numpys(at, values, axis):
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    np.testing.assert_array_equal(jnp.insert(x, at, values, axis), np.insert(x, at, values, axis), strict=True)
