"""Names of `functad.lax` that are built of others, against JAX's: values, dtypes and derivatives, in both modes."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

import functad  # noqa: E402
from functad import lax as ours  # noqa: E402

theirs = jax.lax

_RNG = np.random.default_rng(0)


def _normal(*shape):
    return _RNG.normal(size=shape).astype("float32")


def _check(call, *operands, jax_differentiates=True):
    """Both libraries' results of `call(lax, *operands)`, and gradients in the float operands."""
    expected = jax.tree.leaves(call(theirs, *map(jax.numpy.asarray, operands)))
    floats = [i for i, x in enumerate(operands) if x.dtype.kind == "f"]

    for run in (lambda f: f, functad.jit):
        found = functad.tree.leaves(run(lambda *x: call(ours, *x))(*operands))
        assert len(found) == len(expected)
        for mine, other in zip(found, expected):
            assert mine.dtype == other.dtype and mine.shape == other.shape
            np.testing.assert_allclose(np.asarray(mine), np.asarray(other), rtol=1e-5, atol=1e-5)
    if jax_differentiates:
        slopes = [_gradients(m, lax, call, operands, floats) for m, lax in ((functad, ours), (jax, theirs))]
        for mine, other in zip(*slopes):
            np.testing.assert_allclose(np.asarray(mine), np.asarray(other), rtol=1e-4, atol=1e-4)


def _gradients(module, lax, call, operands, floats):
    def loss(*chosen):
        given = list(operands)
        for i, x in zip(floats, chosen):
            given[i] = x
        return sum((x * x).sum() for x in module.tree.leaves(call(lax, *given)) if x.dtype.kind == "f")

    return module.grad(loss, tuple(range(len(floats))))(*(operands[i] for i in floats))


CONVOLUTIONS = [
    ((2, 3, 7, 6), (2, 3), (1, 2), "SAME", None, None, None),
    ((2, 7, 6, 3), (2, 3), (2, 1), "VALID", None, (2, 1), ("NHWC", "HWIO", "NHWC")),
    ((2, 3, 7, 6), (3, 2), (1, 2), ((1, 2), (0, -1)), (2, 1), (1, 2), ("NCHW", "OIWH", "CNHW")),
    ((2, 3, 7), (2,), (3,), ((1, 0),), (2,), None, None),
]


@pytest.mark.parametrize("shape, window, strides, padding, lhs_dilation, rhs_dilation, layouts", CONVOLUTIONS)
def test_patches_and_local_convolutions(shape, window, strides, padding, lhs_dilation, rhs_dilation, layouts):
    x = _normal(*shape)
    dilations = {"lhs_dilation": lhs_dilation, "rhs_dilation": rhs_dilation, "dimension_numbers": layouts}
    _check(lambda lax, x: lax.conv_general_dilated_patches(x, window, strides, padding, **dilations), x)
    patches = ours.conv_general_dilated_patches(x, window, strides, padding, **dilations)
    layout = ours.conv_dimension_numbers(shape, shape, layouts)
    kernel = [0] * len(shape)
    for at, size in zip(layout.rhs_spec, (4, *(patches.shape[i] for i in layout.out_spec[1:]))):
        kernel[at] = size
    _check(
        lambda lax, x, w: lax.conv_general_dilated_local(x, w, strides, padding, window, **dilations),
        x,
        _normal(*kernel),
    )


LAYOUTS = ("NHWC", "HWIO", "NCHW")


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("conv_shape_tuple", ((2, 3, 8), (5, 3, 3), (2,), "SAME")),
        ("conv_shape_tuple", ((4, 3, 8, 9), (5, 3, 3, 2), (2, 1), ((1, 1), (0, -1)), 2)),
        ("conv_general_shape_tuple", ((2, 8, 9, 3), (3, 2, 3, 5), (2, 3), "SAME", LAYOUTS)),
        ("conv_transpose_shape_tuple", ((2, 8, 9, 3), (3, 2, 3, 5), (2, 3), "SAME", LAYOUTS)),
        ("conv_transpose_shape_tuple", ((2, 8, 9, 3), (3, 2, 3, 5), (2, 3), "VALID", LAYOUTS)),
        ("conv_transpose_shape_tuple", ((2, 8, 9, 3), (3, 2, 3, 5), (2, 3), ((1, 2), (0, 1)), LAYOUTS)),
        ("conv_general_permutations", (LAYOUTS,)),
        ("reduce_window_shape_tuple", ((8, 9), (3, 2), (2, 1), ((0, 1), (1, 1)), (1, 2), (2, 1))),
        ("reduce_window_shape_tuple", ((8, 9), (3, 2), (2, 1), ((0, 1), (1, 1)))),
    ],
)
def test_shapes(name, arguments):
    assert getattr(ours, name)(*arguments) == getattr(theirs, name)(*arguments)


SIZES = np.int32([2, 0, 4])
RAGGED = [
    ((7, 3), (3, 3, 4), SIZES, ((((1,), (1,)), ((), ())), (0,), (0,))),
    ((7, 3), (7, 4), SIZES, ((((0,), (0,)), ((), ())), (0,), ())),
    ((2, 7, 3), (3, 2, 3, 4), np.int32([[2, 0, 4], [1, 1, 1]]), ((((2,), (2,)), ((0,), (1,))), (1,), (0,))),
    ((2, 7, 3), (2, 7, 5), np.int32([[2, 0, 4], [1, 1, 1]]), ((((1,), (1,)), ((0,), (0,))), (1,), ())),
    ((2, 7, 3), (2, 3, 5), np.int32([1, 1]), ((((2,), (1,)), ((0,), (0,))), (0,), ())),
]


@pytest.mark.parametrize("lhs, rhs, sizes, numbers", RAGGED)
def test_ragged_products(lhs, rhs, sizes, numbers):
    def call(lax, x, y):
        return lax.ragged_dot_general(x, y, sizes, lax.RaggedDotDimensionNumbers(*numbers))

    x, y = _normal(*lhs), _normal(*rhs)
    _check(call, x, y, jax_differentiates=bool(numbers[2]))
    if not numbers[2]:  # the product is linear in both operands
        for i, v in enumerate((x, y)):
            loss = lambda v, i=i: call(ours, *((v, y) if i == 0 else (x, v))).sum()  # noqa: E731
            np.testing.assert_allclose((functad.grad(loss)(v) * v).sum(), loss(v), rtol=1e-4)


def test_ragged_rows():
    _check(lambda lax, x, y, sizes: lax.ragged_dot(x, y, sizes), _normal(7, 3), _normal(3, 3, 4), SIZES)


@pytest.mark.parametrize("name", ["approx_max_k", "approx_min_k"])
@pytest.mark.parametrize("axis", [0, -1])
def test_approximate_top_k(name, axis):
    _check(lambda lax, x: getattr(lax, name)(x, 2, axis), _normal(3, 9))


def test_positions():
    _check(
        lambda lax, x, i, j: lax.index_take(x, [i, j], [0, 2]), _normal(3, 4, 5), np.int32([2, 0]), np.int32([1, -1])
    )
    places = ((), (0,), (0,))
    for i in (np.int32([[1], [2]]), np.int32([[1], [9]])):
        for mode in ("drop", "clip"):
            mine, other = (
                lax.scatter_apply(
                    np.float32([1, 2, 3, 4]),
                    i,
                    lambda x: x * x + 1,
                    lax.ScatterDimensionNumbers(*places),
                    update_shape=(2,),
                    mode=mode,
                )
                for lax in (ours, theirs)
            )
            np.testing.assert_array_equal(np.asarray(mine), np.asarray(other))


def test_arguments():
    x = _normal(2, 5)
    for name in "cbrt cos exp exp2 expm1 logistic sin tan tanh".split():
        _check(lambda lax, x, name=name: getattr(lax, name)(x, accuracy=None), x)
    for name in "log log1p rsqrt sqrt".split():
        _check(lambda lax, x, name=name: getattr(lax, name)(x, accuracy=None), np.abs(x) + 0.1)
    _check(lambda lax, x: lax.mul(x, x, out_dtype="float16").astype("float32"), np.round(x))
    for consistent in (False, True):
        _check(
            lambda lax, x, w, consistent=consistent: lax.conv_transpose(
                x, w, (2, 1), ((1, 0), (0, 1)), (1, 2), use_consistent_padding=consistent
            ),
            _normal(2, 4, 5, 3),
            _normal(3, 2, 3, 2),
        )


def test_plain_functions():
    x = np.float32([1, 2])
    for lax in (ours, theirs):
        assert lax.dtype(1.0) == np.float32 and lax.dtype(np.int8(1)) == np.int8
        assert lax.dtype(np.dtype("int8")) == lax.dtype(np.int8) == np.int8 and lax.dtype(float) == np.float32
        assert lax.stage(1).dtype == np.int32
        assert lax.shape_as_value((2, 3)).tolist() == [2, 3]
        assert lax.platform_dependent(x, cpu=lambda x: x + 1, tpu=lambda x: x).tolist() == [2, 3]
        assert lax.platform_dependent(x, default=lambda x: x - 1, tpu=lambda x: x).tolist() == [0, 1]
        assert lax.composite(lambda x, *, by: x * by, "my.scale")(x, by=3).tolist() == [3, 6]


def test_implicit_derivatives():
    matrix = np.eye(3, dtype=np.float32) * 3 + np.abs(_normal(3, 3))

    def solve(lax, matvec, b):
        return lax.fori_loop(0, 60, lambda _, x: x + (b - matvec(x)) / 6, b)

    def solution(lax, a, b):
        def by_iteration(matvec, b):
            return solve(lax, matvec, b)

        return lax.custom_linear_solve(lambda x: a @ x, b, by_iteration, by_iteration)

    def root(lax, a):
        def newton(f, x):
            return lax.fori_loop(0, 30, lambda _, x: x - f(x) / (3 * x * x), x)

        return lax.custom_root(lambda x: x * x * x - a, abs(a), newton, lambda g, y: y / g(np.ones(3, np.float32)))

    _check(solution, matrix, _normal(3))
    _check(root, np.float32([0.5, 2, 9]))


@pytest.mark.parametrize("dtype, shape", [("uint8", (3, 5)), ("uint16", (3, 4)), ("uint32", ()), ("uint64", (3, 3))])
@pytest.mark.parametrize("algorithm", [0, 1, 2])
def test_bits_from_a_state(algorithm, dtype, shape):
    state = np.uint32([7, 2**31, 2**32 - 2, 5])
    with jax.enable_x64(dtype == "uint64"):
        found = functad.lax.rng_bit_generator(state, shape, dtype, algorithm)
        wanted = jax.lax.rng_bit_generator(state, shape, dtype, jax.lax.RandomAlgorithm(algorithm))
    for f, w in zip(found, wanted):
        np.testing.assert_array_equal(np.asarray(f), np.asarray(w))
        assert f.dtype == w.dtype


@pytest.mark.parametrize("options", [{}, {"dynamic_shape": (5, 3)}, {"max_iterations": 2}])
@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_qdwh(dtype, options):
    random = np.random.default_rng(0)
    a = random.normal(size=(6, 4)) + (1j * random.normal(size=(6, 4)) if dtype == np.complex64 else 0)
    found, wanted = (lib.lax.linalg.qdwh(a.astype(dtype), **options) for lib in (functad, jax))
    for f, w in zip(found, wanted):
        np.testing.assert_allclose(np.asarray(f), np.asarray(w), atol=1e-5)
        assert f.dtype == w.dtype
