"""Arguments that few calls give: NumPy's results, un-jitted and compiled, with every array traced."""

from __future__ import annotations

import numpy as np
import pytest
from numpy_option_cases import CASES

import functad
import functad.numpy as jnp
from functad.errors import ArgumentError, DTypeError, ShapeError, UnsupportedNumpyError

X = jnp.array([1.0, 5.0, 2.0])


@pytest.mark.filterwarnings("ignore:Degrees of freedom")
@pytest.mark.parametrize("name", CASES)
def test_options_are_numpys(name):
    function, args = CASES[name]
    with np.errstate(all="ignore"):
        expected = np.asarray(function(np, *args))
    for wrap in (lambda f: f, functad.jit):
        found = wrap(lambda *a: function(jnp, *a))(*map(jnp.asarray, args))
        assert found.shape == expected.shape and found.dtype.kind == expected.dtype.kind
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5)


OUT = np.zeros(3)


@pytest.mark.parametrize(
    "call",
    [
        lambda: jnp.take(X, 0, out=OUT),
        lambda: jnp.choose(jnp.array([0]), [1], out=OUT),
        lambda: jnp.compress(jnp.array([True]), X, out=OUT),
        lambda: jnp.outer(X, X, out=OUT),
        lambda: jnp.tensordot(X, X, 1, out=OUT),
        lambda: jnp.einsum("i->i", X, out=OUT),
        lambda: jnp.stack([X], out=OUT),
        lambda: jnp.round(X, out=OUT),
        lambda: jnp.isposinf(X, out=OUT),
        lambda: jnp.isneginf(X, out=OUT),
        lambda: jnp.quantile(X, 0.5, out=OUT),
        lambda: jnp.percentile(X, 50, out=OUT),
        lambda: jnp.median(X, out=OUT),
        lambda: jnp.nanquantile(X, 0.5, out=OUT),
        lambda: jnp.nanpercentile(X, 50, out=OUT),
        lambda: jnp.nanmedian(X, out=OUT),
    ],
)
def test_out_is_refused(call):
    with pytest.raises(UnsupportedNumpyError, match=rf"^{call.__code__.co_names[1]}: out= cannot work"):
        call()


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: jnp.pad(X, 1.5), DTypeError, "integers"),
        (lambda: jnp.pad(X, -1), ArgumentError, "not be negative"),
        (lambda: jnp.pad(X, 1, "mean", stat_length=0), ArgumentError, "no elements"),
        (lambda: jnp.pad(X, 1, "edge", stat_length=1), ArgumentError, "does not take stat_length"),
        (lambda: jnp.pad(X, 1, "reflect", reflect_type="no"), ArgumentError, "'even' or 'odd'"),
        (lambda: jnp.pad(X, 1, constant_values=jnp.arange(3)), ShapeError, "one .before, after. for each of 1 axes"),
        (lambda: jnp.pad(X[:0], 1, "reflect", reflect_type="odd"), ArgumentError, "nothing to take"),
        (lambda: jnp.put(X, 0, 1, mode="raise", inplace=False), ArgumentError, "'wrap' or 'clip'"),
        (lambda: jnp.nonzero(X, size=2, fill_value=jnp.arange(1)), ArgumentError, "one number"),
        (lambda: jnp.polyint(X, 2, k=jnp.arange(3)), ArgumentError, "one constant or 2"),
        (lambda: jnp.average(X, axis=0, weights=jnp.ones(2)), ArgumentError, "fit neither"),
    ],
)
def test_what_does_not_fit_raises(call, error, match):
    with pytest.raises(error, match=match):
        call()


def test_lines_are_mapped_and_not_unrolled():
    few, many = (
        len(functad.make_jaxpr(lambda x: jnp.apply_along_axis(lambda v: jnp.cumsum(v) * v[0], 0, x))(jnp.ones(s)).eqns)
        for s in ((3, 2), (3, 50))
    )
    assert few == many
    assert jnp.apply_along_axis(jnp.cumsum, 0, jnp.ones((3, 0))).shape == (3, 0)


def test_conditions_are_the_rows_of_an_array():
    x = jnp.array([-2.0, -1.0, 1.0])
    cases = [lambda v: -v, lambda v: 10 * v]
    for conditions in (jnp.stack([x < 0, x >= 0]), [x < 0, x >= 0], x < 0):
        assert jnp.piecewise(x, conditions, cases).tolist() == [2.0, 1.0, 10.0]
    assert jnp.piecewise(x, jnp.array([False, True, False]), [*cases, 0.0]).tolist() == [-20.0, -10.0, 10.0]
    assert jnp.piecewise(x[0], x[0] < 0, cases) == 2


NUMBERS = {
    "a ramp to a number": (lambda p, x: p.pad(x, 1, "linear_ramp", end_values=0.1), np.zeros(2)),
    "ramps to numbers": (lambda p, x: p.pad(x, 1, "linear_ramp", end_values=[(0.1, 0.2)]), np.zeros(2)),
    "a constant": (lambda p, x: p.pad(x, 1, constant_values=[0.1]), np.zeros(2)),
    "constants": (lambda p, x: p.pad(x, 1, constant_values=(0.1, 0.2)), np.zeros(2)),
    "integers": (lambda p, x: p.pad(x, 1, constant_values=(2**40, 0)), np.arange(3)),
    "integers for floats": (lambda p, x: p.pad(x, 1, "linear_ramp", end_values=(2**40, 0)), np.zeros(2)),
    "floats for integers": (lambda p, x: p.pad(x, 1, constant_values=(1.5, -2.5)), np.arange(3)),
    "an integral's constant": (lambda p, x: p.polyint(x, k=0.1), np.ones(2)),
    "an integral's constants": (lambda p, x: p.polyint(x, 2, k=[0.1, 1]), np.ones(2)),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_python_numbers_meet_64_bits_unrounded(name):
    call, x = NUMBERS[name]
    expected = call(np, x)
    for wrap in (lambda f: f, functad.jit):
        found = np.asarray(wrap(lambda x: call(jnp, x))(x))
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_traced_numbers_beside_python_numbers():
    found = functad.jit(lambda v: jnp.pad(np.zeros(2), 1, constant_values=(v, 0.1)))(jnp.float32(2))
    np.testing.assert_array_equal(found, np.array([2, 0, 0, 0.1]))


def test_python_numbers_do_not_widen_16_bits():
    for k in (1, 1.0, [1], [1.0], True):
        assert jnp.polyint(jnp.ones(2, "float16"), k=k).dtype == np.float16
    assert jnp.polyint(jnp.ones(2, "float16"), k=jnp.ones(1)).dtype == np.float32
    assert jnp.polyint(jnp.ones(2), k=1j).dtype == np.complex64
