"""Concrete arrays: who else can write to their memory, copies, pickles, and NumPy arrays that are more than values."""

from __future__ import annotations

import copy
import operator
import pickle
import sys

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax
from functad.absent_names import METHODS_ELSEWHERE
from functad.array import ArrayImpl
from functad.errors import DonatedArrayError, DTypeError, TracerError

DTYPES = ["bool", "int8", "uint32", "int64", "float16", "float32", "float64", "complex64", "complex128"]
SHOWN = {
    "asarray": np.asarray,
    "array without copy": lambda x: np.array(x, copy=False),
    "device_get": functad.device_get,
    "base": lambda x: np.asarray(x).base,
    "base of the base": lambda x: np.asarray(x)[1:].T.base,
    "view": lambda x: np.asarray(x).view(np.int32),
    "memoryview": lambda x: np.asarray(memoryview(np.asarray(x))),
    "frombuffer": lambda x: np.frombuffer(np.asarray(x), np.float32),
    "reduce": lambda x: x.__reduce__()[1][0],
    "result of jit": lambda x: np.asarray(functad.jit(lambda v: v + 0)(x)),
    "transposed": lambda x: np.asarray(x.reshape(3, 1).T),
}


@pytest.mark.parametrize("shown", SHOWN.values(), ids=SHOWN)
def test_what_is_shown_of_an_array_cannot_be_opened_to_writing(shown):
    x = jnp.arange(3.0)
    view = shown(x)
    with pytest.raises((ValueError, AttributeError), match="WRITEABLE|setflags"):
        view.setflags(write=True)
    with pytest.raises((ValueError, TypeError), match="read-only|cannot modify read-only|invalid type|bytes"):
        view[0] = 9
    assert x.tolist() == [0, 1, 2]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)])
def test_views_have_the_type_and_share_the_memory(shape, dtype):
    x = jnp.asarray(np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype))
    for array in (x, x.T, jnp.broadcast_to(x, (2, *x.shape))):
        view = np.asarray(array)
        assert type(view) is np.ndarray and view.dtype == array.dtype and view.shape == array.shape
        assert view.tolist() == array.tolist()
    if x.size:
        assert np.shares_memory(np.asarray(x), np.asarray(x))


def test_copies_outlive_the_donation_of_the_original():
    step = functad.jit(lambda p: {"w": p["w"] + 1}, donate_argnums=0)
    for backup in (copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
        params = {"w": functad.jit(lambda: jnp.zeros(3) + 5.0)()}
        kept = {"w": backup(params["w"])}
        step(params)
        with pytest.raises(DonatedArrayError):
            params["w"] + 0
        with pytest.raises(DonatedArrayError):
            backup(params["w"])
        assert kept["w"].tolist() == [5, 5, 5]
    params = {"w": functad.jit(lambda: jnp.zeros(3) + 5.0)()}
    kept = copy.deepcopy(params)
    step(params)
    assert kept["w"].tolist() == [5, 5, 5] and kept["w"].aval == jnp.zeros(3).aval


def test_a_copy_whose_pickle_shares_memory_is_not_overwritten():
    x, buffers = functad.jit(lambda: jnp.zeros(3) + 5.0)(), []
    text = pickle.dumps(x, protocol=5, buffer_callback=buffers.append)
    twin = pickle.loads(text, buffers=buffers)
    functad.jit(lambda v: v + 1, donate_argnums=0)(x)
    assert twin.tolist() == [5, 5, 5]
    assert copy.deepcopy(functad.jit(lambda v: v)(1.0)).weak_type


def test_copies_of_traced_values_are_themselves_and_pickles_raise():
    f = lambda x: jnp.sum(copy.deepcopy({"x": x})["x"] * copy.copy(x))  # noqa: E731
    x = jnp.array([1.0, 2.0])
    assert functad.jit(f)(x) == 5 and functad.grad(f)(x).tolist() == [2, 4]
    assert functad.vmap(f)(x[:, None]).tolist() == [1, 4]
    with pytest.raises(TracerError, match="cannot be pickled"):
        functad.jit(pickle.dumps)(x)


# --- NumPy arrays whose values are not all there is to them ------------------------------------------


class Metres(np.ndarray):
    def __array_ufunc__(self, *args, **kwargs):
        return NotImplemented


MASKED = np.ma.array([1.0, 2.0], mask=[False, True])
UNITS = np.ones(2).view(Metres)
WAYS = {
    "asarray": jnp.asarray,
    "asarray with dtype": lambda x: jnp.asarray(x, "float32"),
    "array of a list": lambda x: jnp.array([x, x]),
    "array of a list with dtype": lambda x: jnp.array([x, x], "float32"),
    "operator": lambda x: jnp.ones(2) + x,
    "function": jnp.sin,
    "lax": lax.sin,
    "lax of two": lambda x: lax.add(jnp.ones(2), x),
    "result_type": jnp.result_type,
    "jit": functad.jit(lambda x: x),
    "within jit": lambda x: functad.jit(lambda: jnp.ones(2) * x)(),
    "output": lambda x: functad.jit(lambda: x)(),
    "vmap": functad.vmap(lambda x: x),
    "not mapped": lambda x: functad.vmap(lambda y, x: y, in_axes=(0, None))(jnp.ones(2), x),
    "grad": functad.grad(jnp.sum),
    "cotangent": lambda x: functad.vjp(lambda v: v, np.ones(2))[1](x),
    "eval_shape": lambda x: functad.eval_shape(jnp.sin, x),
    "device_put": functad.device_put,
    "loop": lambda x: lax.fori_loop(0, 2, lambda i, c: c, x),
    "update": lambda x: jnp.ones(2).at[:].set(x),
    "concatenate": lambda x: jnp.concatenate([x]),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_masks_units_and_foreign_types_are_refused_on_all_ways_in(way):
    way(np.ones(2)) if way is not WAYS["lax of two"] else way(np.ones(2, np.float32))
    with pytest.raises(DTypeError, match="mask would be lost"):
        way(MASKED)
    with pytest.raises(DTypeError, match="Metres.*arithmetic of its own"):
        way(UNITS)
    for other in (np.array(["a", "b"]), np.array([None, 1]), np.zeros(2, "M8[D]"), np.zeros(2, "i4,f4")):
        with pytest.raises(DTypeError, match=r"dtype .* (is not supported|are not supported)"):
            way(other)


def test_masks_are_refused_on_either_side_of_operators():
    masked = np.ma.array([1, 2], np.float32, mask=[False, True])
    for name in "add sub mul truediv floordiv mod pow matmul eq lt".split():
        use = getattr(operator, name)
        ways = [lambda f: f, functad.jit, functad.grad, *([functad.vmap] if name != "matmul" else [])]
        for transform in ways[1:] if name in ("eq", "lt") else ways:
            for both in (lambda x: use(x, masked), lambda x: use(masked, x)):  # noqa: B023
                with pytest.raises(DTypeError, match="mask would be lost"):
                    transform(both)(jnp.ones(2))
    # A comparison of known values with a mask on the left is NumPy's, which keeps the mask.
    assert (masked == jnp.ones(2)).mask.tolist() == [False, True]


def test_masks_are_refused_in_indices_and_plain_subclasses_are_taken(recwarn):
    for mask in (np.ma.array([0, 1], mask=[0, 1]), np.ma.array([True, False], mask=[0, 1])):
        with pytest.raises(DTypeError, match="mask would be lost"):
            jnp.ones(2)[mask]
    with pytest.raises(DTypeError, match="mask would be lost"):
        jnp.array([np.ma.masked, 1.0])
    matrix = np.matrix([[1.0, 2.0]])
    assert (jnp.asarray(matrix) * jnp.ones((2, 1))).shape == (2, 2) and functad.jit(lambda x: x * x)(matrix)[0, 1] == 4


def test_an_array_that_is_not_made_yet_can_be_probed():
    array = ArrayImpl.__new__(ArrayImpl)
    assert not hasattr(array, "shape") and not hasattr(array, "aval") and not hasattr(array, "__array_interface__")


def test_what_numpy_asks_of_arrays_in_vain_runs_no_code_of_functad():
    x, calls = jnp.ones(3), []
    sys.setprofile(lambda frame, event, arg: calls.append(frame.f_code.co_name) if event == "call" else None)
    try:
        np.asarray(x)
    finally:
        sys.setprofile(None)
    assert calls[0] == "__array__"


@pytest.mark.parametrize("x", [jnp.ones(3), functad.random.key(0)])
def test_methods_of_other_libraries_are_neither_there_nor_listed(x):
    assert not any(hasattr(x, name) or hasattr(type(x), name) or name in dir(x) for name in METHODS_ELSEWHERE)
    assert {"sum", "shape", "at"} <= set(dir(x))
