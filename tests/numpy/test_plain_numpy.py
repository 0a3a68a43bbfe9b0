"""Code written with plain NumPy, under every transform: values as NumPy's, slopes as differences; and what NumPy's own
type cannot do, whose error ends with what to write."""

from __future__ import annotations

import importlib.util
import math
import re
import traceback
from operator import attrgetter

import numpy as np
import pytest
from plain_numpy_calls import NOT_OF_AUTOGRAD, OF_AUTOGRAD, OF_VALUES, X, calls, run

import functad
import functad.numpy as jnp
from functad.errors import ConcretizationError, FunctadError, UnsupportedNumpyError

ALONG = np.random.default_rng(1).normal(size=X.shape)


@pytest.fixture(autouse=True)
def in_64_bits():
    with functad.enable_x64(True):
        yield


def loss(call, x):
    """A number made of all float results of a call."""
    total = np.sum(x)
    for leaf in functad.tree.leaves(run(call, x)):
        if getattr(leaf, "dtype", np.dtype(int)).kind in "fc":
            weights = np.arange(1.0, leaf.size + 1).reshape(leaf.shape)
            total = total + np.sum(weights * np.real(leaf)) + np.sum(weights * np.imag(leaf))
    return total


def assert_same(found, expected):
    found, expected = functad.tree.leaves(found), functad.tree.leaves(expected)
    assert len(found) == len(expected)
    for f, e in zip(found, expected):
        np.testing.assert_allclose(np.asarray(f), e, rtol=1e-9, atol=1e-12)


@pytest.mark.generated(every=8)
@pytest.mark.parametrize("call", calls(OF_AUTOGRAD) + calls(NOT_OF_AUTOGRAD))
def test_a_call_is_compiled_mapped_and_differentiated(call):
    assert_same(functad.jit(lambda x: run(call, x))(X), run(call, X))
    mapped = functad.vmap(lambda x: run(call, x))(np.stack([X, X + 0.01]))
    for k, x in enumerate((X, X + 0.01)):
        assert_same(functad.tree.map(lambda leaf, k=k: leaf[k], mapped), run(call, x))
    assert_slope_is_right(call, functad.jit(functad.grad(lambda x: loss(call, x)))(X))


@pytest.mark.parametrize("call", calls(OF_VALUES))
def test_a_result_whose_type_depends_on_values_is_made_of_known_ones(call):
    assert_slope_is_right(call, functad.grad(lambda x: loss(call, x))(X))
    with pytest.raises(ConcretizationError, match="needs the value of"):
        functad.jit(lambda x: run(call, x))(X)


def assert_slope_is_right(call, gradient):
    step = 1e-6
    slope = (loss(call, X + step * ALONG) - loss(call, X - step * ALONG)) / (2 * step)
    assert abs(np.sum(gradient * ALONG) - slope) < 1e-6 * (1 + abs(slope))


def test_a_wrong_slope_is_seen():
    with pytest.raises(AssertionError):
        assert_slope_is_right("np.sin(x)", 1.001 * functad.grad(lambda x: loss("np.sin(x)", x))(X))


@pytest.mark.skipif(
    not importlib.util.find_spec("autograd"), reason="autograd, whose names these are, is not installed"
)
def test_all_that_autograd_differentiates_is_in_the_table():
    import autograd.numpy
    from autograd.core import primitive_vjps
    from autograd.numpy.numpy_vjps import nograd_functions

    called = re.findall(r"np\.((?:linalg\.|fft\.)?\w+)", OF_AUTOGRAD + OF_VALUES)
    called += ["full", "array"]  # which are refused, below
    table = [attrgetter(name)(np) for name in called]
    differentiated = {*primitive_vjps, *nograd_functions}
    missing, count = [], 0
    for theirs, numpys in ((autograd.numpy, np), (autograd.numpy.linalg, np.linalg), (autograd.numpy.fft, np.fft)):
        for name, function in vars(theirs).items():
            if callable(function) and function in differentiated and hasattr(numpys, name):
                count += 1
                missing += [name] * (getattr(numpys, name) not in table)
    assert count > 180 and not missing


# --- what NumPy's own type cannot do ------------------------------------------------------------------


def write(x):
    out = np.zeros(3)
    out[0] = x[0]
    return out


def write_slice(x):
    out = np.zeros(3)
    out[:2] = x[:2]
    return out


def write_after_a_colon(x):
    out = np.zeros(3)
    # fmt: off
    for i in range(3): out[i] = x[i]  # noqa: E701
    # fmt: on
    return out


def add_to_one(x):
    out = np.zeros(3)
    out[0] += x[0]
    return out


def sine(x):
    return math.sin(x[0])


def listed(x):
    return np.array([x[0], 2 * x[1]])


def reduced_list(x):
    return np.sum([x[0], x[1]])


def filled(x):
    return np.full(3, x[0])


def converted(x):
    return np.asarray(x)


def to_number(x):
    return np.float64(x[0])


REFUSED = [
    (write, "functad.numpy.zeros(3).at[0].set(x)"),
    (write_slice, "functad.numpy.zeros(3).at[0].set(x)"),
    (write_after_a_colon, "functad.numpy.zeros(3).at[0].set(x)"),
    (add_to_one, "functad.numpy.zeros(3).at[0].set(x)"),
    (sine, "y = numpy.sin(x)"),
    (listed, "a = functad.numpy.array([x, y])"),
    (reduced_list, "numpy.sum(numpy.stack([x, y]))"),
    (filled, "a = functad.numpy.full(3, x)"),
    (converted, "functad.numpy.asarray(x)"),
    (to_number, "x.astype(dtype) converts"),
]


@pytest.mark.parametrize("transform", [functad.jit, functad.grad, lambda f: lambda x: functad.vmap(f)(x[None])])
@pytest.mark.parametrize(("function", "instead"), REFUSED)
def test_what_numpys_type_cannot_do_is_answered_in_the_last_words(function, instead, transform):
    with pytest.raises(ConcretizationError) as info:
        transform(lambda x: jnp.sum(jnp.asarray(function(x))))(X[0])
    printed = "".join(traceback.format_exception(info.value))
    last = printed[printed.rindex("functad.errors.") :]
    assert instead in last and f"({function.__name__})" in last
    assert f"in {function.__name__}" in printed  # the traceback shows the line
    assert "stop_gradient" not in last.splitlines()[-1]


@pytest.mark.parametrize(
    ("call", "instead"),
    [
        (lambda x: np.add(x, x, out=np.zeros(3)), "y = functad.numpy.add"),
        (lambda x: np.copyto(np.zeros(3), x), r"functad.numpy.where\(mask, x, a\)"),
        (lambda x: np.putmask(np.zeros(3), x > 0.5, x), r"functad.numpy.where\(mask, values, a\)"),
        (lambda x: np.put(np.zeros(3), [0], x[0]), "x = functad.numpy.put"),
    ],
)
def test_writing_into_an_array_is_refused(call, instead):
    with pytest.raises(FunctadError, match=instead):
        functad.jit(call)(X[0])


def test_an_error_of_the_users_own_is_left_alone():
    def own(x):
        try:
            return float(x)
        except ConcretizationError as problem:
            raise ValueError("mine") from problem

    with pytest.raises(ValueError, match="^mine$"):
        functad.jit(own)(1.0)


def test_a_name_without_counterpart_is_refused():
    with pytest.raises(UnsupportedNumpyError, match=r"numpy.lib.scimath.sqrt was called on a functad value"):
        functad.jit(np.emath.sqrt)(X)
