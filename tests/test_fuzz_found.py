"""What random programs found, each as small as it became: `python -m tests.fuzz` prints such tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fuzz.check import check
from fuzz.forms import expected_of
from fuzz.rounding import Expected, noisy

import functad
import functad.numpy as jnp
from functad import tracing
from functad.all_primitives import registry
from functad.errors import OutOfBoundsError


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (1, 1, 0)])
def test_nothing_is_taken_from_nothing_with_and_without_jit(shape: tuple[int, ...]) -> None:
    def f(x: Any) -> list[Any]:
        return [jnp.take_along_axis(x, jnp.argsort(x, -1), -1), jnp.unwrap(x), jnp.diagonal(jnp.atleast_2d(x))]

    check(f, [np.zeros(shape, np.float32)], "eager")
    check(f, [np.zeros(shape, np.float32)], "loop")


def test_something_taken_from_nothing_raises_with_and_without_jit() -> None:
    x, index = jnp.zeros((2, 0)), jnp.zeros((2, 1), "int32")
    for f in (jnp.take_along_axis, functad.jit(lambda x, i: jnp.take_along_axis(x, i, -1))):
        with pytest.raises(OutOfBoundsError, match="is empty"):
            f(x, index)


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("oracle", ["eager", "passes"])
def test_a_checkpoint_may_give_a_number_that_does_not_depend_on_its_arguments(oracle: str, keeps: bool) -> None:
    def f(x: Any) -> list[Any]:
        part = functad.checkpoint(lambda y: functad.grad(lambda a, b: b)(y, y), policy=lambda *_, **__: keeps)
        return [functad.grad(lambda x: part(x) + x)(x)]

    check(f, [np.array(1, np.float32)], oracle)


@pytest.mark.parametrize("which", [-1, 0, 1, 2, 3, 100])
@pytest.mark.parametrize("oracle", ["passes", "kernels"])
def test_a_known_number_beyond_the_cases_selects_the_first_or_last(oracle: str, which: int) -> None:
    def f(x: Any, y: Any, z: Any) -> list[Any]:
        return [functad.lax.select_n(jnp.full(x.shape, which, "int32"), x, y, z)]

    def by_scalar(x: Any, y: Any, z: Any) -> list[Any]:
        return [functad.lax.select_n(np.int32(which), x, y, z)]

    args = [np.full(3, value, np.float32) for value in (1, 2, 3)]
    check(f, args, oracle)
    check(by_scalar, args, oracle)


def test_derivatives_of_ordered_and_normed_complex_numbers() -> None:
    def f(x: Any, low: Any, high: Any) -> list[Any]:
        z, a, b = (functad.lax.complex(t, t * t - 1) for t in (x, low, high))
        return [jnp.real(w) + jnp.imag(w) for w in (functad.lax.clamp(a, z, b), functad.lax.sign(z), jnp.maximum(z, a))]

    args = [np.array([0.3, -1.5, 2.5, 1.0]), np.array([-1.0, -1.0, -1.0, 1.0]), np.array([1.0, 1.0, 1.0, 2.0])]
    for form in ("forward", "gradient", "second"):
        for oracle in ("eager", "kernels", "compiled"):
            check(f, args, oracle, form=form)
    check(f, args, "reverse")
    # s = z / |z|, so ds/dt = (z' − s Re(s* z')) / |z|
    z, step = 0.3 + 0.4j, 1 - 2j
    s = z / abs(z)
    slope = functad.jvp(functad.lax.sign, (jnp.asarray(np.array(z)),), (jnp.asarray(np.array(step)),))[1]
    np.testing.assert_allclose(np.asarray(slope), (step - s * (s.conjugate() * step).real) / abs(z))


def test_differences_say_nothing_where_rounding_swallows_them() -> None:
    check(lambda x: [1e30 + x], [np.zeros((1, 1))], "differences", seed=1693)


def test_cotangents_known_to_be_zero_leave_no_sign() -> None:
    def f(x: Any, n: Any) -> list[Any]:
        last = functad.lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, 2 - s[1]), (jnp.int32(0), x))[1]
        return [jnp.cos(last[:1])]

    check(f, [np.zeros(2), np.array(1, np.int32)], "passes", form="second", seed=245)


@pytest.mark.parametrize("mode", ["clip", "fill"])
def test_nothing_is_scattered_into_nothing(mode: str) -> None:
    def f(x: Any, index: Any, update: Any) -> list[Any]:
        return [x.at[index].add(update, mode=mode), x.at[index].set(update, mode=mode)]

    args = [np.zeros((0, 3)), np.array([0, -1], np.int32), np.ones((2, 3))]
    for oracle in ("eager", "kernels", "loop", "reverse"):
        check(f, args, oracle)


def test_a_product_of_differences_that_are_exactly_zero_may_have_either_sign() -> None:
    def f(x: Any, y: Any) -> list[Any]:
        zero = jnp.diff(x)
        outer = functad.lax.dot_general(jnp.resize(zero, (15, 1)), zero, (((), ()), ((), ())))
        return [functad.lax.dot_general(outer, y, (((1,), (1,)), ((), ())))]

    check(f, [np.ones(2, np.float32), np.full((1, 1), -3, np.float32)], "kernels", seed=84)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("k", [2, 40])
def test_the_largest_elements_do_not_depend_on_the_sign_of_nan(dtype: type, k: int) -> None:
    x = np.tile(np.array([np.nan, -np.nan, np.inf, 0, -0.0], dtype), 8)
    for f in (functad.lax.top_k, functad.jit(functad.lax.top_k, static_argnums=1)):
        values, where = map(np.asarray, f(x, k))
        order = [i for part in ([0, 1], [2], [3], [4]) for i in range(40) if i % 5 in part]
        np.testing.assert_array_equal(where, order[:k])
        np.testing.assert_array_equal(values, x[order[:k]])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64"])
def test_what_follows_a_reduction_of_bits_meets_its_dtype(dtype: str) -> None:
    def f(x: Any) -> list[Any]:
        reductions = (functad.lax.reduce_or, functad.lax.reduce_and, functad.lax.reduce_xor)
        found = [reduce(x, (k,)) for reduce in reductions for k in range(2)]
        return [jnp.remainder(y, np.array(3, dtype)) for y in found]

    x = np.random.default_rng(0).integers(0, 100, (5, 4)).astype(dtype)
    check(f, [x], "compiled")
    check(f, [x], "kernels")


def test_a_sum_that_overflows_in_some_orders_may_be_infinite_or_no_number() -> None:
    largest = float(np.finfo(np.float32).max)
    x = np.zeros((5, 5), np.float32)
    x[0, 1], x[1, 2], x[3, 0], x[3, 3] = -largest, np.inf, largest, -largest
    check(lambda x: [x], [x], "kernels", form="computed again", seed=2539)
    # Where the finite numbers do not overflow, an infinity stays one.
    certain = Expected([np.float32([np.inf])], noisy_sum(np.float32([1, np.inf, -largest])))
    assert certain.mismatch([np.float32([np.inf])]) is None and certain.mismatch([np.float32([np.nan])])


def noisy_sum(x: np.ndarray) -> Any:
    program = functad.make_jaxpr(lambda x: jnp.sum(x, keepdims=True))(x)
    run = noisy(program, np.random.default_rng(0))
    return lambda: run([x])


COMPLEX = (
    "acos acosh asin asinh atan atanh cos cosh exp exp2 expm1 log log1p logistic rsqrt sign sin sinh sqrt "
    "square tan tanh"
)


@pytest.mark.parametrize("name", COMPLEX.split())
def test_functions_of_complex_numbers_have_the_same_signs_of_zeros_with_and_without_jit(name: str) -> None:
    f = getattr(functad.lax, name)
    parts = [0.0, 1.0, 3.0, np.inf, 1e30]
    x = np.array([complex(a * s, b * t) for a in parts for b in parts for s in (1, -1) for t in (1, -1)], np.complex64)
    check(lambda x: [f(x)], [x], "compiled")


def test_the_bits_of_nan_are_nobodys_promise() -> None:
    def f(x: Any) -> list[Any]:
        return [functad.lax.bitcast_convert_type(functad.lax.acosh(x), np.int32), jnp.signbit(functad.lax.acosh(x))]

    check(f, [np.zeros(3, np.float32)], "kernels")
    check(f, [np.zeros(3, np.float32)], "compiled")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_logarithm_of_a_sum_of_one_is_never_a_negative_zero(dtype: str) -> None:
    for oracle in ("kernels", "compiled", "passes"):
        check(lambda x: [functad.lax.cumlogsumexp(x)], [np.array([-0.0, -1.0, -np.inf], dtype)], oracle)
        check(lambda x: [functad.lax.cumlogsumexp(x, reverse=True)], [np.array([-0.0], dtype)], oracle)
        for shape in ((1, 2), (3, 2, 2), (40, 1, 3)):  # along columns
            check(lambda x: [functad.lax.cumlogsumexp(x, axis=len(x.shape) - 2)], [np.full(shape, -0.0, dtype)], oracle)


def test_powers_of_float16_need_no_function_that_a_process_lacks() -> None:
    check(lambda x: [functad.lax.asinh(jnp.vander(x, 3))], [np.float16([0.5])], "compiled")


@pytest.mark.parametrize("shape", [(0, 2, 0), (0, 2, 3), (2, 2, 0)])
def test_empty_convolutions_in_groups_of_examples(shape: tuple[int, ...]) -> None:
    def f(x: Any, w: Any) -> list[Any]:
        return [functad.lax.conv_general_dilated(x, w, (1,), [(1, 1)], batch_group_count=2)]

    args = [np.zeros(shape, np.float32), np.ones((2, 2, 2), np.float32)]
    check(f, args, "kernels")
    check(f, args, "compiled")


def test_the_cotangent_of_padding_is_no_difference_of_sums() -> None:
    def loss(x: Any, value: Any) -> Any:
        return jnp.sum(functad.lax.pad(x, value, [(1, -1, 1)]) * np.array([1, 1e10, 1, 1e10, 1], np.float32))

    x = jnp.ones(4)
    for transform in (lambda f: f, functad.jit):
        assert transform(functad.grad(loss, 1))(x[:3], np.float32(1)) == 3
    infinite = functad.vjp(lambda v: functad.lax.pad(x, v, [(1, 0, 0)]), np.float32(1))[1]
    assert infinite(jnp.array([2.0, np.inf, 1.0, 1.0, 1.0]))[0] == 2


def test_a_sum_that_cancels_in_some_ways_may_be_zero() -> None:
    check(lambda x: [x, 1e30 - functad.lax.convert_element_type(x, "float32")], [np.zeros((1, 1), np.float16)],
          "reverse", seed=334)  # fmt: skip


def test_runs_that_err_into_powers_of_negative_numbers_do_not_tell_how_far_is_too_far() -> None:
    def f(x: Any, y: Any, z: Any) -> list[Any]:
        return [functad.lax.dot_general(functad.lax.pow(x, y), z, (((), ()), ((), ())))]

    args = [np.full((6, 2), -0.21039149165153503, "float32"), np.ones((6, 2), "float32"), np.full(4, 2.0, "float32")]
    check(f, args, "compiled", form="gradient", seed=3758)
    told = Expected([np.float32(1)], lambda: [np.float32(np.nan)])  # type: ignore[list-item]
    assert told.mismatch([np.float32(1.00001)]) is None and told.mismatch([np.float32(1.01)]) is not None


@pytest.mark.parametrize("dtype", ["float32", "float16", "complex64", "int32", "bool", "uint8"])
@pytest.mark.parametrize("batch", [(), (0,)])
def test_a_product_that_sums_nothing_keeps_the_signs_of_zeros(dtype: str, batch: tuple[int, ...]) -> None:
    # A matrix library adds each of them to +0, so that no −0 is left.
    def f(x: Any, y: Any) -> list[Any]:
        return [functad.lax.dot_general(x, y, (((), ()), (batch, batch)))]

    x, y = np.array([[-1, 2], [0, -0.0]]).astype(dtype), np.array([[0, -3], [-1, 5]]).astype(dtype)
    check(f, [x, y], "compiled")
    expected = x[:, :, None] * y[:, None] if batch else x[:, :, None, None] * y
    (result,) = functad.jit(f)(x, y)
    np.testing.assert_array_equal(np.signbit(np.asarray(result).real), np.signbit(expected.real))


def test_a_product_of_rows_of_an_empty_table_is_left_as_it_is() -> None:
    def f(x: Any) -> list[Any]:
        x = functad.lax.sort(x, 0)
        return [functad.lax.dot_general(x, x, (((), ()), ((), ())))]

    smallest = {"GATHERED_ROW": 0}
    check(f, [np.zeros(0, np.float32)], "passes", form="forward", seed=26368, thresholds=smallest)


@pytest.mark.parametrize("dtype", ["float32", "complex64", "float16", "int8", "uint64", "bool"])
def test_a_sum_of_one_product_starts_from_zero_also_in_a_batch(dtype: str) -> None:
    x, y = np.array([[-2.0], [0]]).astype("int8").astype(dtype), np.zeros((1, 1), dtype)
    for product in (lambda x, y: x @ y, lambda x, y: functad.vmap(jnp.matmul)(x[None], y[None])):
        for transform in (lambda f: f, functad.jit):
            assert not np.signbit(np.asarray(transform(product)(x, y)).real).any()


def test_differences_do_not_step_over_a_small_divisor() -> None:
    args = [np.zeros((), np.float64), np.array(-1.2e-13)]
    with pytest.raises(AssertionError, match="nothing to say.*past small numbers"):
        check(lambda x, y: [jnp.remainder(x, y)], args, "differences", seed=30060)


def test_a_cotangent_may_be_too_small_for_its_dtype() -> None:
    def f(x: Any) -> list[Any]:
        return [jnp.arctan(functad.lax.convert_element_type(x, "float32"))]

    check(f, [np.full(1, 65504.0, np.float16)], "reverse", seed=3255)


def test_sums_may_be_exact_in_another_order() -> None:
    args = [np.full(6, 4.285867685771658)]  # of equal numbers, the derivative of the deviation is 0 / 0, or rounding
    check(lambda x: [jnp.std(x, 0)], args, "compiled", form="forward", seed=84, thresholds={"MOST_SUMMED_AT_ONCE": 0})


def test_noise_leaves_what_is_selected_by() -> None:
    source, operand = np.array([[1.0, 1e-9, -1.0]]), np.array([[-3.0, -2.0, -3.0, -1.0, -2.0]])
    windows = {"window_dimensions": (1, 3), "window_strides": (1, 1), "padding": ((0, 0), (0, 0))}

    def f(x: Any, y: Any) -> list[Any]:
        return [tracing.bind(registry["select_and_scatter_add"], x, y, select_prim="ge", **windows)]

    program = functad.make_jaxpr(f)(source, operand)
    run = noisy(program, np.random.default_rng(0))
    spread = np.ptp([run([source, operand])[0] for _ in range(9)], axis=0)
    np.testing.assert_array_equal(spread[0] > 0, [False, True, False, True, False])


def test_differences_beside_a_jump_say_nothing() -> None:
    def f(x: Any) -> list[Any]:
        return [x * functad.lax.convert_element_type(x, "bool")]

    with pytest.raises(AssertionError, match="nothing to say.*jumps here"):
        check(f, [np.array(-0.0)], "differences", seed=15607)


def test_kernels_of_derivatives_of_while_loops_are_those_of_simplified_programs() -> None:
    def f(x: Any, n: Any) -> list[Any]:
        def step(s: Any) -> Any:
            return s[0] + 1, jnp.resize(functad.lax.reduce_max(x, (0, 1, 3)), (1, 1, 1, 1))

        return [functad.lax.while_loop(lambda s: s[0] < jnp.minimum(n, 7), step, (jnp.int32(0), x))[1]]

    args = [np.zeros((1, 1, 1, 1)), np.array(0, "int32")]
    for seed in range(8):  # with other chunks, and with or without all passes
        check(f, args, "kernels", form="second", seed=seed)


def test_noise_of_products_of_integers_has_their_size() -> None:
    def f(x: Any, y: Any) -> list[Any]:
        return [functad.lax.dot(x, y, preferred_element_type=np.float32)]

    large = 2**31 - 2
    check(f, [np.int32([[-1, large, -1, 1]]), np.int32([[1], [-1], [3], [large]])], "kernels", seed=14536)


def test_what_differences_lose_in_a_large_constant_is_seen_in_many_noisy_runs() -> None:
    def f(x: Any, y: Any) -> list[Any]:
        return [1e30 + y, jnp.sum(x, 0)]

    check(f, [np.zeros((1, 1)), np.zeros(1)], "differences", seed=16292)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
def test_powers_of_integers_that_no_integer_dtype_holds_are_floats(dtype: str) -> None:
    base, exponent = np.array([0, 1, 5, 2**40], np.uint64), np.array([0, 1, 2, 1], dtype)
    expected = base**exponent
    for fun in (jnp.power, functad.jit(jnp.power), functad.vmap(jnp.power)):
        found = fun(base, exponent)
        assert (found.dtype, found.weak_type) == (expected.dtype, dtype[0] == "i")
        np.testing.assert_array_equal(found, expected)
    check(lambda x, y: [jnp.power(x, y)], [base[1:2], np.array(2, dtype)], "eager")


def test_log_sums_near_zero_differ_by_what_their_terms_round() -> None:
    x = np.array([[-0.06281591399995634, 2.965343649387742], [-0.13485293081293417, -2.1119431755124016]])
    check(lambda x: [functad.lax.cumlogsumexp(x, axis=1)], [x], "kernels", seed=29371)
    check(lambda x: [jnp.logaddexp(x, 1.0)], [np.float32([0, np.inf, -np.inf])], "reverse", seed=38)


def test_what_follows_a_sum_of_one_term_that_nobody_needs_is_stored() -> None:
    def f(x: Any, y: Any) -> list[Any]:
        padded = functad.lax.pad(x, jnp.sum(x), [(0, 0, 0)])  # the sum of one term is read nowhere
        rows = jnp.resize(jnp.outer(padded, y), (7, 7, 1))
        return [jnp.minimum(rows, jnp.resize(x.astype("float64"), (7, 7, 1)))]

    args = [np.full((1,), 2, "int32"), np.array([1.0, 0.0, -1.0])]
    np.testing.assert_array_equal(functad.jit(f)(*args)[0], f(*args)[0])
    check(f, args, "kernels", seed=4443)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_log1p_of_small_complex_numbers_is_accurate(dtype: str) -> None:
    z = np.array([0.003, 1e-12, 1e-30j, 3e-5 - 2e-5j, -1e-9 + 1e-9j, 0.4 - 0.3j, 2 + 1j, -1, np.inf], dtype)
    for fun in (jnp.log1p, functad.jit(jnp.log1p)):
        found = np.asarray(fun(z)).astype("complex128")
        small = z[1:3].astype("complex128")
        tolerance = 4 * np.finfo(dtype).eps
        np.testing.assert_allclose(
            found[1:3].real, (small - small**2 / 2).real, rtol=tolerance, atol=1e-70 if dtype == "complex128" else 1e-45
        )
        with np.errstate(divide="ignore"):
            np.testing.assert_allclose(found, np.log1p(z.astype("complex128")), rtol=tolerance, atol=1e-15)
    check(lambda x: [jnp.log1p(x)], [z[:1]], "kernels", seed=21291)


def test_an_example_whose_loop_makes_no_step_keeps_its_gradient_beside_others() -> None:
    def f(x: Any) -> Any:
        def loop(x: Any) -> Any:
            end = lambda s: s[0] < jnp.minimum(x[0], 7)  # noqa: E731
            return jnp.sum(functad.lax.while_loop(end, lambda s: (s[0] + 1, jnp.cbrt(x)), (jnp.int32(0), x))[1])

        return functad.grad(loop)(x)  # the derivative of cbrt is infinite at 0, where no step is made

    x = np.array([[0.0, 3.0], [8.0, 9.0]])
    np.testing.assert_allclose(functad.vmap(f)(x), [f(row) for row in x], rtol=1e-15)
    np.testing.assert_allclose(functad.jit(functad.vmap(f))(x)[0], [1, 1])


def test_bits_of_a_difference_lie_between_those_of_noisy_runs() -> None:
    def f(x: Any) -> list[Any]:
        return [functad.lax.bitcast_convert_type(jnp.exp(x) - 1, np.int32)]

    expected = expected_of(functad.make_jaxpr(f)(np.float32(1)), [np.float32(1)])
    near, far = (np.asarray(expected.results[0] + d, np.int32) for d in (2, 1000))
    assert expected.mismatch([near]) is None
    assert "instead of" in str(expected.mismatch([far]))


def test_a_call_asks_no_rule_about_tangents_that_are_zero() -> None:
    truth = functad.custom_vjp(lambda a, b: jnp.logical_and(a, b).astype("float32"))
    truth.defvjp(lambda a, b: (truth.fun(a, b), ()), lambda _, ct: (ct, ct))

    def f(x: Any, flag: Any) -> Any:
        numbers = functad.jit(lambda x: jnp.resize(flag.astype("float32"), (3,)))(x)  # depends on no float
        return functad.jit(lambda x, p: (truth(p, p) * jnp.sum(x), jnp.tanh(x)))(x, functad.nn.log_sigmoid(numbers))

    x, flag = np.ones((1, 1)), np.ones((1, 1), bool)
    for policy in (None, lambda *_, **__: True):
        again = functad.checkpoint(f, policy=policy)
        loss = lambda fun: lambda x: sum(map(jnp.sum, fun(x, flag)))  # noqa: E731
        np.testing.assert_allclose(functad.grad(loss(again))(x), functad.grad(loss(f))(x), rtol=1e-6)
    _, tangents = functad.jvp(lambda x: f(x, flag), (x,), (x,))  # the rule serves reverse mode only
    program = functad.make_jaxpr(lambda x: functad.jvp(lambda x: f(x, flag), (x,), (x,))[1])(x)
    functad.ir.check_program(program)
    np.testing.assert_allclose(tangents[1], 1 - np.tanh(x) ** 2, rtol=1e-6)


@pytest.mark.parametrize("reduce", [
    lambda x: jnp.sum(x), lambda x: jnp.sum(x, -1), lambda x: jnp.sum(x[:, :3] * 99, -1), lambda x: jnp.prod(x, -1),
    lambda x: x[0] @ x[1], lambda x: jnp.einsum("ij,ij->i", x, x), lambda x: jnp.prod(x / 9999, -1),
])  # fmt: skip
def test_what_a_reduction_gives_has_its_own_dtype_where_it_is_read_on(reduce: Any) -> None:
    def f(x: Any) -> Any:
        return reduce(x).astype("float32") * 0.5

    x = jnp.full((30, 300), 700, np.float16)  # a sum of float16 is kept in float32 while it grows
    wanted, found = f(x), functad.jit(f)(x)
    np.testing.assert_array_equal(found, wanted)
    assert np.isin(wanted, [0, np.inf]).all()


def test_noisy_runs_add_up_equal_errors() -> None:
    def f(x: Any) -> list[Any]:
        return [jnp.var(x, -1)]

    args = [np.full((1, 217), -0.3480287194252014, np.float32)]
    expected = expected_of(functad.make_jaxpr(f)(*args), args)
    assert expected.mismatch([np.full(1, 5.1e-13, np.float32)]) is None  # of a sum of one number behind another
    assert "instead of" in str(expected.mismatch([np.full(1, 1e-9, np.float32)]))


def test_parts_of_a_complex_nan_may_be_any_that_are_not_finite() -> None:
    expected = Expected([np.array([complex(np.nan, np.nan)])], lambda: [np.array([complex(np.nan, np.nan)])])
    assert expected.mismatch([np.array([complex(-np.inf, np.nan)])]) is None
    assert expected.mismatch([np.array([complex(1, np.nan)])]) is not None
    assert expected.mismatch([np.array([complex(np.inf, 1)])]) is not None


def test_what_is_lost_in_a_narrow_dtype_is_lost_in_one_direction_only() -> None:
    def f(x: Any) -> list[Any]:
        return [jnp.asarray(x / 1e30, "float16").astype("float32")]

    check(f, [np.zeros((1, 1, 1), np.float32)], "reverse", seed=23737)


@pytest.mark.parametrize("reverse", [False, True])
def test_what_is_split_off_is_run_through(reverse: bool) -> None:
    def f(x: Any) -> list[Any]:
        return [functad.lax.cumsum(part, 1, reverse) for part in jnp.split(x, [1, 1], axis=1)[1:]]

    check(f, [np.arange(6, dtype=np.float32).reshape(2, 3)], "kernels")
    check(f, [np.arange(30_000, dtype=np.float32).reshape(100, 300)], "compiled")


def test_a_carry_that_an_unrolled_scan_hands_on_unchanged() -> None:
    def f(x: Any, y: Any) -> list[Any]:
        step = lambda c, _: ((x, c[1]), c[1])  # noqa: E731
        return [functad.lax.scan(step, (x, y), None, length=9, unroll=3)[0][0]]

    check(f, [np.full((1, 1), True), np.zeros((1, 1))], "passes", seed=71)
    check(f, [np.full((1, 1), True), np.zeros((1, 1))], "compiled")


def test_a_derivative_at_the_end_of_its_own_loop() -> None:
    def f(x: Any) -> list[Any]:
        y, derivative = functad.linearize(lambda x: functad.lax.while_loop(lambda v: v < 100.0, _squared, x), x)
        return [derivative(y)]

    def _squared(v: Any) -> Any:
        return v * v + 1.0

    check(f, [np.float32(1.5)], "compiled")
    np.testing.assert_allclose(functad.jit(lambda x: f(x)[0])(1.5), f(1.5)[0], rtol=1e-5)


@pytest.mark.parametrize("length", [100, 101])
def test_an_array_that_each_step_stacks_is_no_stack(length: int) -> None:
    def body(c: Any, w: Any) -> Any:
        for _ in range(6):
            c = w * 0.5 + c * 0.3
        return c

    def f(w: Any, v: Any) -> Any:
        b, ys = functad.lax.scan(lambda c, t: (body(c, w), v), w * 0.1, None, length)
        return b + (ys * jnp.arange(ys.size).reshape(ys.shape)).sum()

    def slope(w: Any, v: Any) -> Any:
        return functad.jvp(f, (w, v), (jnp.float32(2.0), jnp.full(4, 2.0)))[1]

    given = jnp.float32(0.7), jnp.ones(4)
    np.testing.assert_allclose(functad.jit(slope)(*given), slope(*given), rtol=1e-5)


def test_a_number_that_each_step_of_an_unrolled_scan_stacks() -> None:
    def f(w: Any) -> Any:
        step = lambda c, _: (w * 0.5 + c * 0.3, w / 2)  # noqa: E731
        b, ys = functad.lax.scan(step, w * 0.1, jnp.arange(100.0), unroll=4)
        return b + ys[-1]

    def slope(w: Any) -> Any:
        return functad.jvp(f, (w,), (jnp.float32(1.0),))[1]

    np.testing.assert_allclose(functad.jit(slope)(jnp.float32(0.7)), slope(jnp.float32(0.7)), rtol=1e-5)


def test_places_of_ranges_that_wrap_around() -> None:
    check(lambda: [functad.lax.iota(np.int8, 300)[299:300], functad.lax.iota(np.uint8, 300)[256:257]], [], "compiled")


def test_what_not_gives_becomes_a_narrow_float_where_kernels_run_as_plain_python() -> None:
    def f(x: Any) -> list[Any]:
        return [jnp.logical_not(x).astype("float16")]

    check(f, [np.array([0, 3], np.int8)], "kernels")


def test_what_is_read_piece_by_piece_has_the_shape_of_the_pieces() -> None:
    def f(x: Any, y: Any) -> list[Any]:
        def grown(_: Any) -> Any:
            products = registry["cumprod"]
            return jnp.resize(tracing.bind(products, jnp.resize(x, (3, 3)), axis=1, reverse=False), (6, 3))

        return [functad.checkpoint(grown)(y)]

    thresholds = {"DEEPEST_INLINE": 2, "SMALLEST_PAIRS": 1, "ELEMENTS_FROM_ONE": 1}
    check(f, [np.ones((1, 1, 1)), np.ones((1, 1))], "kernels", form="gradient", thresholds=thresholds)
