"""Functions run as one operation give what their operations give, to the bit, and so do their gradients."""

from __future__ import annotations

import inspect
import sys

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import nn
from functad.calls import compound as compounds
from functad.calls.compound import compound
from functad.errors import AxisError, ConcretizationError, TooLargeError
from functad.nn import functions
from functad.numpy import means, reductions
from functad.primitives.elementwise import cos_p
from functad.transforms.at_once import CompoundOp
from functad.transforms.forward import trace_with_values

COMPOUND = sorted(
    (module.__name__, name)
    for module in (functions, means, reductions)
    for name, fun in vars(module).items()
    if inspect.isfunction(fun) and getattr(fun, "__wrapped__", fun).__module__ == module.__name__
    and inspect.unwrap(fun) is not fun and not name.startswith("_")
)  # fmt: skip


def function_named(module, name):
    return getattr(sys.modules[module], name)


def same(x, y):
    x, y = (np.asarray(a) for a in (x, y))
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


def gradients_beside_others(fun, x):
    """Gradients where `x` is read by `fun` alone, and by others before and after."""
    alone = functad.grad(lambda x: jnp.sum(fun(x) * 1.5))(x)
    return alone, functad.grad(lambda x: jnp.sum(jnp.sin(x)) + jnp.sum(fun(x)) - jnp.sum(jnp.cos(x) * x))(x)


def records_of(fun, x, *, once=True):
    """What a trace that goes back once has recorded of a call."""
    _, trace, _ = trace_with_values(lambda x: [fun(x)], [x], [True], "grad", once=once)
    return trace.take_ops()


@pytest.fixture(autouse=True)
def forget():
    compounds._functions.cache_clear()


@pytest.mark.parametrize(("module", "name"), COMPOUND)
def test_results_and_gradients_are_those_of_the_operations(module, name):
    as_one = function_named(module, name)
    fun = inspect.unwrap(as_one)
    rng = np.random.default_rng(0)
    special = np.array([[0.0, -0.0, 1.0], [np.inf, -np.inf, np.nan]])
    for values in (rng.normal(size=(3, 4)), rng.normal(size=5), special, np.zeros((2, 3))):
        for dtype in (np.float32, np.float64, np.float16):
            x = jnp.asarray(np.asarray(values, dtype))
            with np.errstate(all="ignore"):
                wanted, slopes = fun(x), gradients_beside_others(fun, x)
            for _ in range(3):
                found = as_one(x)
                assert found.aval == wanted.aval and same(found, wanted)
                assert all(map(same, gradients_beside_others(as_one, x), slopes))
    assert [type(op) for op in records_of(as_one, jnp.ones((3, 4)))] == [CompoundOp]


@pytest.mark.parametrize("weak", [False, True])
def test_weak_types_are_those_of_the_operations(weak):
    x = 2.0 * jnp.asarray(3.0) if weak else jnp.float32(3)
    for fun in (nn.relu, jnp.mean, nn.softplus):
        assert {fun(x).weak_type for _ in range(3)} == {inspect.unwrap(fun)(x).weak_type}
    assert nn.relu(x).weak_type is weak


def test_arguments_of_other_types_are_told_apart():
    x = jnp.arange(6.0).reshape(2, 3)
    calls = [(), (0,), (1,), ((0, 1),), (-1,), (None,)]
    for _ in range(3):
        for args in calls:
            assert same(jnp.mean(x, *args), np.mean(np.asarray(x), *args, dtype=np.float32))
        assert jnp.var(x, ddof=1) != jnp.var(x) == jnp.var(x, ddof=0)
        assert jnp.max(x, axis=1, keepdims=True).shape == (2, 1)
        assert jnp.max(x, 1, keepdims=False).shape == (2,)

    @compound
    def divided(x, by):
        return jnp.sum(x) / by

    for _ in range(3):
        for by in (0.0, -0.0):
            assert np.signbit(divided(x, by)) == np.signbit(by)


def test_gradients_flow_to_each_operand_and_add_up():
    @compound
    def f(x, y, scale=2.0):
        return jnp.tanh(x * y) * scale + x

    def g(x, y):
        return jnp.sum(f(x, y) * f(y, x, scale=3.0) + f(x, x) * x)

    x, y = jnp.array([0.3, -2.0]), jnp.array([1.0, 0.5])
    wanted, first = functad.grad(functad.jit(g), (0, 1))(x, y), functad.grad(g, (0, 1))(x, y)
    for _ in range(3):
        found = functad.grad(g, (0, 1))(x, y)
        assert all(map(same, found, first))
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)
        only = functad.grad(lambda y: jnp.sum(f(x, y)))(y)
        np.testing.assert_allclose(only, 2 * np.asarray(x) / np.cosh(np.asarray(x * y)) ** 2, rtol=1e-6)


def test_other_transforms_see_the_operations():
    @compound
    def f(x):
        return jnp.sum(jnp.sin(x) * x)

    x = jnp.ones(3)
    for transform in (functad.jit, functad.hessian, functad.jacfwd, functad.jacrev):
        wanted = transform(inspect.unwrap(f))(x)
        for _ in range(3):
            np.testing.assert_array_equal(transform(f)(x), wanted)
    np.testing.assert_array_equal(functad.vmap(f)(jnp.ones((2, 3))), [f(x), f(x)])
    kinds = {type(op) for _ in range(3) for op in records_of(f, x, once=False)}
    assert CompoundOp not in kinds


def test_second_derivatives_through_gradients():
    x = jnp.array([0.1, -0.4, 2.0])
    for _ in range(3):
        found = functad.grad(lambda x: jnp.sum(functad.grad(lambda y: nn.logsumexp(y * y))(x)))(x)
    np.testing.assert_allclose(found, functad.hessian(lambda y: nn.logsumexp(y * y))(x).sum(0), rtol=1e-5)


def test_what_looks_at_values_or_gives_several_results_runs_as_it_is():
    @compound
    def looks(x):
        return x + float(x[0])

    @compound
    def several(x):
        return x, x + 1

    for i in range(4):
        assert float(looks(jnp.array([float(i)]))[0]) == 2 * i
        assert float(several(jnp.array(float(i)))[1]) == i + 1
        assert float(nn.logsumexp(jnp.zeros(2), return_sign=True)[1]) == 1.0


@pytest.mark.parametrize("part", ["recorded", "printed"])
@pytest.mark.parametrize("through", [lambda fun: fun, functad.grad])
def test_a_fault_in_what_prints_is_not_taken_for_a_function_that_runs_as_it_is(part, through, monkeypatch):
    def faulty(*args, **kwargs):
        raise KeyError("a fault")

    x = jnp.ones(())
    through(nn.softplus)(x)
    monkeypatch.setattr(f"functad.calls.printed_compounds.{part}", faulty)
    with pytest.raises(KeyError, match="a fault"):
        through(nn.softplus)(x)


def test_what_has_very_many_operations_runs_as_it_is():
    coefficients, x = jnp.ones(300), jnp.array([0.5])
    slopes = [functad.grad(lambda x: jnp.sum(jnp.polyval(coefficients, x)))(x) for _ in range(3)]
    assert all(same(slope, slopes[0]) for slope in slopes)
    records = [records_of(lambda x: jnp.polyval(coefficients, x), x) for _ in range(3)]
    assert CompoundOp not in map(type, records[-1])


def test_errors_are_those_of_the_function():
    for _ in range(3):
        with pytest.raises(AxisError, match="mean: axis 2"):
            jnp.mean(jnp.ones((2, 2)), 2)


def test_options_decide_anew():
    x = jnp.array([3, 4])
    for _ in range(3):
        assert jnp.mean(x).dtype == np.float32
        with functad.config.context(enable_x64=True):
            assert jnp.mean(x.astype(int)).dtype == inspect.unwrap(jnp.mean)(x.astype(int)).dtype
        with functad.config.context(debug_nans=True), pytest.raises(FloatingPointError, match="made a NaN"):
            nn.log_softmax(jnp.array([np.inf, 1.0]))


def test_what_memory_does_not_hold_is_said_by_the_function(monkeypatch):
    x = jnp.ones(3)
    for _ in range(3):
        nn.softplus(x)

    class Full:
        def run(self, *args):
            raise MemoryError

    monkeypatch.setattr("functad.calls.printed_compounds.quiet_copy", Full)
    assert same(nn.softplus(x), inspect.unwrap(nn.softplus)(x))


def test_what_memory_does_not_hold_on_the_way_back_is_said_with_types(monkeypatch):
    @compound
    def f(x):
        return jnp.sum(jnp.sin(x) * 2.0)

    def cos(x):
        raise MemoryError

    def g(x):
        return f(x)

    functad.grad(f)(jnp.ones(3))
    monkeypatch.setitem(cos_p.__dict__, "impl", cos)
    for fun, line in ((f, r"Your line: "), (g, rf"Your line: {__file__}:\d+ \(g\)")):
        with pytest.raises(TooLargeError, match=rf"`cos` would make f32\[3\].*\n{line}"):
            functad.grad(fun)(jnp.ones(3))


def test_a_record_holds_what_goes_back_and_the_users_line():
    x = jnp.ones(3)
    (op,) = [records_of(nn.log_softmax, x) for _ in range(3)][-1]
    assert all(isinstance(r, (np.ndarray, np.generic)) for r in op.saved)
    assert op.source.code.co_filename == __file__


def test_derivatives_that_do_not_run_bare_run_the_function_again(monkeypatch):
    x = jnp.array([0.3, -2.0])
    wanted = [functad.grad(lambda x: jnp.sum(nn.softplus(x)))(x) for _ in range(3)][0]
    monkeypatch.setattr("functad.transforms.backward.runs_bare", lambda: False)
    np.testing.assert_allclose(functad.grad(lambda x: jnp.sum(nn.softplus(x)))(x), wanted, rtol=1e-6)


def test_functions_beside_an_operation_without_a_derivative_in_some_operand():
    def f(x):
        return jnp.sum(nn.softplus(x) * functad.lax.igamma(jnp.full_like(x, 2.0), x))

    x = jnp.array([0.3, 2.0])
    for _ in range(3):
        found = functad.grad(f)(x)
    np.testing.assert_allclose(found, functad.jit(functad.grad(f))(x), rtol=1e-5)


def test_float_arguments_and_several_axes_are_static():
    x = jnp.arange(-3.0, 3.0).reshape(2, 3)
    for _ in range(3):
        for slope in (0.0, 0.5, np.inf):
            assert same(nn.leaky_relu(x, slope), inspect.unwrap(nn.leaky_relu)(x, slope))
        assert same(jnp.std(x, (0, 1)), inspect.unwrap(jnp.std)(x, (0, 1)))
    records = [records_of(lambda x: nn.leaky_relu(x, 0.5), x) for _ in range(3)]
    assert [type(op) for op in records[-1]] == [CompoundOp]


def test_long_chains_are_printed_and_go_back():
    @compound
    def f(x):
        for _ in range(150):
            x = jnp.sin(-x)
        return x

    x = jnp.array([0.3, -2.0])
    wanted, slopes = [f(x) for _ in range(3)][0], functad.grad(lambda x: jnp.sum(inspect.unwrap(f)(x)))(x)
    for _ in range(3):
        assert same(f(x), wanted) and same(functad.grad(lambda x: jnp.sum(f(x)))(x), slopes)
    assert [type(op) for op in records_of(f, x)] == [CompoundOp]


def test_numbers_that_change_with_each_call_are_not_printed_for_ever(monkeypatch):
    printed = []
    module = compounds.printed_compounds
    to_print = module.printed_compound
    monkeypatch.setattr(module, "printed_compound", lambda *args: printed.append(args) or to_print(*args))
    x = jnp.array([-1.0, 70.0])
    for limit in range(100):
        for number in (limit, float(limit)):
            for _ in range(3):
                assert jnp.clip(x, 0, number).tolist() == [0.0, min(limit, 70.0)]
    assert 20 < len(printed) < 40


def test_errors_name_the_operation_that_gave_a_result():
    for _ in range(3):
        with pytest.raises(ConcretizationError, match=rf"result of `logaddexp` at {__file__}"):
            functad.grad(lambda x: float(nn.softplus(x)) * x)(jnp.float32(2))


def test_warnings_of_ranks_come_each_time():
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(functad.config), "numpy_rank_promotion", "warn")
        for _ in range(3):
            with pytest.warns(UserWarning, match="hypot: operands of shapes"):
                jnp.hypot(jnp.ones((2, 3)), jnp.ones(3))


def test_an_operand_that_is_the_result_stays_the_same_array():
    x = jnp.arange(3.0)
    for _ in range(3):
        assert jnp.clip(x) is x is jnp.diff(x, 0)


Y = jnp.asarray(np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32))
LABELS = jnp.array([0, 3, 1])
OF_SEVERAL_ARGUMENTS = {
    "attention": lambda x: nn.dot_product_attention(*[a.reshape(1, 3, 2, 2) for a in (x, Y, -Y)], is_causal=True),
    "average": lambda x: jnp.average(x, axis=0, weights=jnp.abs(Y[:, 0])),
    "binary_cross_entropy": lambda x: nn.losses.sigmoid_binary_cross_entropy(x, jnp.abs(jnp.sin(Y))),
    "clip": lambda x: jnp.clip(x, -0.5, 0.5),
    "corrcoef": lambda x: jnp.corrcoef(x),
    "cov": lambda x: jnp.cov(x, Y),
    "cross": lambda x: jnp.cross(x[:, :3], Y[:, :3]),
    "cross_entropy": lambda x: nn.losses.softmax_cross_entropy(x, nn.softmax(Y)),
    "diff": lambda x: jnp.diff(x, 2, axis=0, prepend=Y),
    "einsum": lambda x: jnp.einsum("ij,kj->ik", x, Y),
    "huber": lambda x: nn.losses.huber_loss(x, Y, 0.5),
    "hypot": lambda x: jnp.hypot(x, Y),
    "integer_labels": lambda x: nn.losses.softmax_cross_entropy_with_integer_labels(x, LABELS),
    "interp": lambda x: jnp.interp(x, jnp.arange(3.0), Y[:, 0], left=0.5),
    "l2": lambda x: nn.losses.l2_loss(x, Y),
    "logaddexp": lambda x: jnp.logaddexp(x, Y) + jnp.logaddexp2(x, 1.0),
    "logsumexp": lambda x: nn.logsumexp(x, axis=1, b=jnp.abs(Y), keepdims=True),
    "max": lambda x: jnp.max(x, axis=(0, 1), where=Y > 0, initial=-2.0),
    "nanmean": lambda x: jnp.nanmean(x, 0),
    "nanstd": lambda x: jnp.nanstd(x, 0),
    "nansum": lambda x: jnp.nansum(x, 0),
    "nanvar": lambda x: jnp.nanvar(x, 0),
    "nan_extrema": lambda x: jnp.nanmax(x, 1) + jnp.nanmin(x, 1),
    "norm": lambda x: jnp.linalg.norm(x, axis=1) + jnp.linalg.norm(x, 1, 1) + jnp.linalg.norm(x),
    "outer": lambda x: jnp.outer(x, Y),
    "polyval": lambda x: jnp.polyval(Y[0], x),
    "sinc": lambda x: jnp.sinc(x),
    "softmax": lambda x: nn.softmax(x, axis=(0, 1), where=Y > 0),
    "squared_error": lambda x: nn.losses.squared_error(x, Y),
    "unwrap": lambda x: jnp.unwrap(4 * x),
    "var": lambda x: jnp.var(x, axis=1, ddof=1, keepdims=True, where=Y > 0),
}


@pytest.mark.parametrize("name", OF_SEVERAL_ARGUMENTS)
def test_functions_of_several_arguments_give_what_their_operations_give(name, monkeypatch):
    fun = OF_SEVERAL_ARGUMENTS[name]
    x = jnp.asarray(np.random.default_rng(2).normal(size=(3, 4)).astype(np.float32))
    with monkeypatch.context() as patched:
        patched.setattr(compounds, "_run", lambda *args: None)
        wanted, slopes = fun(x), gradients_beside_others(fun, x)
    for _ in range(3):
        found = fun(x)
        assert found.aval == wanted.aval and same(found, wanted)
        assert all(map(same, gradients_beside_others(fun, x), slopes))
    joins = name in ("cross", "diff")  # which go back by an operation of several results, and so as written
    assert (CompoundOp in map(type, records_of(fun, x))) is not joins
