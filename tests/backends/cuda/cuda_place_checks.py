"""Checks of where results lie and of what is copied back for them, for the simulator's process.

`cuda_simulated.py` runs them; those of arrays themselves stand in `cuda_array_checks.py`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
from cuda_array_checks import Transfers, X, gpu, on_gpu, on_second
from cuda_check_tools import NARROW, checks_of, raised, second_gpu

import functad
import functad.numpy as jnp
from functad import optim, random, train
from functad.device_arrays import DeviceArray, committed_to_cpu
from functad.errors import CopyError, DeviceError, DTypeError
from functad.tree_util import tree_leaves


def check_derivatives_lie_where_values_do() -> None:
    """Those that do not depend on values, too: nobody computes them of arrays."""

    def linear(x: Any) -> Any:
        return (x * 2).sum()

    def unused(x: Any) -> Any:
        return jnp.float32(1) * 3

    functions: dict[str, Callable[..., Any]] = {
        "grad": functad.grad(linear), "unused": functad.grad(unused), "jacrev": functad.jacrev(lambda x: x + 1),
        "hessian": functad.hessian(linear), "jacfwd": functad.jacfwd(lambda x: x * 2),
        "value_and_grad": lambda x: functad.value_and_grad(linear)(x)[1],
        "jvp": lambda x: functad.jvp(lambda x: x.at[:].set(0.0), (x,), (x,))[1],
        "vjp": lambda x: functad.vjp(lambda x, y: y, x, x)[1](x),
        "linearize": lambda x: functad.linearize(lambda x: x.at[:].set(0.0), x)[1](X),
        "jitted": functad.jit(functad.grad(linear)),
    }  # fmt: skip
    with functad.default_device(gpu()):
        free = jnp.asarray(X)
    for name, function in functions.items():
        expected = tree_leaves(function(jnp.asarray(X)))
        for x in (on_gpu(X), free):
            for got, want in zip(tree_leaves(function(x)), expected, strict=True):
                assert isinstance(got, DeviceArray) and got.committed is x.committed, (name, x.committed)
                assert np.array_equal(got, want) and (got.dtype, got.weak_type) == (want.dtype, want.weak_type), name
        assert not any(isinstance(leaf, DeviceArray) for leaf in expected), name


def check_derivatives_stay_where_others_are_on_purpose() -> None:
    """They are computed beside what was put on the CPU, so they meet it again."""
    with functad.default_device(gpu()):
        free = jnp.asarray(X)
    kept = functad.device_put(X, "cpu")
    functions: list[Callable[..., Any]] = [
        functad.grad(lambda x, y: (x * y).sum()), functad.jacrev(lambda x, y: (x * y).sum(0)),
        functad.jacfwd(lambda x, y: (x * y).sum(0)), lambda x, y: functad.vjp(lambda x: x * y, x)[1](kept)[0],
    ]  # fmt: skip
    for i, function in enumerate(functions):
        found = function(free, kept)
        assert found.device.platform == "cpu" and found.committed, i
        assert np.array_equal(found * kept, function(X, X) * X), i


def check_what_was_put_on_the_cpu_keeps_its_derivatives_there() -> None:
    """And what is made of its type: neither goes to the default device."""
    functions: list[Callable[[Any], Any]] = [
        functad.grad(lambda x: (x * 2).sum()), functad.grad(lambda x: jnp.float32(1) * 3),
        functad.jacfwd(lambda x: x[0] * 2), functad.jacrev(lambda x: x[0] * 2),
        lambda x: functad.jvp(lambda x: x.at[:].set(0.0), (x,), (X,))[1],
        jnp.imag, lambda x: jnp.isinf(x.astype(int)), jnp.iscomplex,
    ]  # fmt: skip
    with functad.default_device(gpu()):
        kept = functad.device_put(X, "cpu")
        for i, function in enumerate(functions):
            found = function(kept)
            assert found.device.platform == "cpu" and found.committed, i
            assert np.array_equal(found, function(X)), i


def _moved(x: Any, device: Any = "cuda") -> Any:
    return jnp.sin(functad.device_put(x, device)).sum()


def _moves() -> dict[str, Callable[[Any], Any]]:
    """Functions of one gradient, that of the sum of sines, which run on the GPU in one way or another."""
    return {
        "device_put": _moved,
        "to_device": lambda x: jnp.sin(x.to_device("cuda")).sum(),
        "asarray": lambda x: jnp.sin(jnp.asarray(x, device="cuda")).sum(),
        "with_sharding_constraint": lambda x: jnp.sin(functad.lax.with_sharding_constraint(x, gpu())).sum(),
        "jit": functad.jit(lambda x: jnp.sin(x).sum(), device="cuda"),
        "jit, inline": functad.jit(lambda x: jnp.sin(x).sum(), device="cuda", inline=True),
        "jit of a closure": lambda x: functad.jit(lambda: jnp.sin(x).sum(), device="cuda")(),
        "jit of results": functad.jit(lambda x: jnp.sin(x).sum(), out_shardings="cuda"),
        "custom_jvp": lambda x: 0 * functad.nn.relu(functad.device_put(x, "cuda")).sum() + _moved(x),
        "checkpoint": functad.checkpoint(_moved),
        "checkpoint, saved": functad.checkpoint(_moved, policy=functad.checkpoint_policies.everything_saveable),
        "checkpoint, nested": functad.checkpoint(lambda x: functad.checkpoint(_moved)(x)),
        "there, back and there": lambda x: _moved(functad.device_put(functad.device_put(x, "cuda"), "cpu")),
        "jit in checkpoint": functad.checkpoint(lambda x: functad.jit(lambda x: jnp.sin(x).sum(), device="cuda")(x)),
        "beside another": lambda x: _moved(x) + 0 * functad.device_put(x * x, "cuda").sum(),
    }  # fmt: skip


def check_gradients_lie_where_what_is_differentiated_does() -> None:
    """Wherever the function puts it: values are on the GPU, gradients come back, and are as free as the arguments."""
    for name, function in _moves().items():
        for x in (jnp.asarray(X), functad.device_put(X, "cpu"), on_gpu(X), on_second(X)):
            value, gradient = functad.value_and_grad(function)(x)
            assert value.device is gpu() and value.committed, name
            assert gradient.device is x.device and gradient.committed is x.committed, name
            np.testing.assert_allclose(gradient, np.cos(X), rtol=1e-6, err_msg=name)
            curved = functad.grad(lambda x, f=function: functad.grad(f)(x).sum())(x)
            assert curved.device is x.device, name
            np.testing.assert_allclose(curved, -np.sin(X), rtol=1e-6, err_msg=name)


def check_tangents_lie_where_values_are_put() -> None:
    for name, function in _moves().items():
        value, tangent = functad.jvp(function, (X,), (jnp.ones_like(X),))
        along = functad.linearize(function, X)[1](jnp.ones_like(X))
        for found in (value, tangent, along):
            assert found.device is gpu() and found.committed, name
        for found in (tangent, along):
            np.testing.assert_allclose(found, np.cos(X).sum(), rtol=1e-5, err_msg=name)


def check_other_derivatives_of_what_is_put() -> None:
    kept = functad.device_put(X[0], "cpu")

    def moved(x: Any) -> Any:
        return jnp.sin(functad.device_put(x, "cuda"))

    def moved_sine(x: Any) -> Any:
        return moved(jnp.sin(x)).sum()

    y, pullback = functad.vjp(moved, kept)
    for cotangent in (np.ones(3, np.float32), on_gpu(np.ones(3, np.float32))):
        assert pullback(cotangent)[0].device is kept.device and y.device is gpu()
    assert functad.jacrev(moved)(kept).device is kept.device and functad.jacfwd(moved)(kept).device is gpu()
    assert functad.hessian(lambda x: moved(x).sum())(kept).device is kept.device
    assert functad.vmap(moved)(kept).device is gpu()
    assert functad.vmap(functad.jit(jnp.sin, device="cuda"))(kept).device is gpu()
    slope = np.cos(np.sin(X[0])) * np.cos(X[0])
    for within in (functad.checkpoint, functad.vmap):  # where nobody knows where arrays lie, cotangents follow them
        for x in (kept, on_second(X[0])):
            function = within(moved_sine)
            for gradient in (
                functad.grad(lambda x, f=function: f(x).sum())(x),
                functad.vmap(functad.grad(moved_sine))(x),
            ):
                assert gradient.device is x.device
                np.testing.assert_allclose(gradient, slope, rtol=1e-6)
    constant = functad.checkpoint(lambda x: (moved(x) * functad.device_put(X[1], "cuda")).sum())
    np.testing.assert_allclose(functad.grad(constant)(kept), np.cos(X[0]) * X[1], rtol=1e-6)
    assert functad.linear_transpose(lambda x: 2 * functad.device_put(x, "cuda"), kept)(on_gpu(X[0]))[0].device is gpu()
    both = functad.grad(lambda x: (jnp.sin(x) + functad.device_put(moved(x), "cpu")).sum())(kept)
    np.testing.assert_allclose(both, 2 * np.cos(X[0]), rtol=1e-6)
    free = functad.grad(lambda x: (jnp.sin(x) + moved(x)).sum())(X[0])  # what is free goes where the other is
    np.testing.assert_allclose(free, 2 * np.cos(X[0]), rtol=1e-6)
    tree = functad.grad(lambda t: (lambda t: t["a"] * t["b"])(functad.device_put(t, "cuda")).sum())
    found = tree({"a": kept, "b": on_second(X[0])})
    assert found["a"].device is kept.device and found["b"].device is second_gpu()
    message = raised(DeviceError, lambda: functad.grad(lambda x: (x * functad.device_put(x, "cuda")).sum())(kept))
    assert "`mul` was given arrays that were put on different devices" in message


def check_rules_of_users_run_where_they_put_things() -> None:
    @functad.custom_vjp
    def returned(x: Any) -> Any:
        return x * 1

    returned.defvjp(lambda x: (x * 1, None), lambda _, ct: (functad.device_put(ct, "cpu"),))
    with mock.patch.dict(committed_to_cpu, clear=True):  # so the first steps back need not look for such arrays
        gradient = functad.grad(lambda x: returned(jnp.sin(x)).sum())(X)
        assert gradient.device is functad.devices("cpu")[0] and gradient.committed
    np.testing.assert_allclose(gradient, np.cos(X), rtol=1e-6)

    @functad.custom_vjp
    def sine(x: Any) -> Any:
        return jnp.sin(functad.device_put(x, "cuda"))

    sine.defvjp(lambda x: (sine(x), x), lambda x, ct: (functad.device_put(ct, "cpu") * jnp.cos(x),))
    kept = functad.device_put(X, "cpu")
    value, gradient = functad.value_and_grad(lambda x: sine(x).sum())(kept)
    assert value.device is gpu() and gradient.device is kept.device
    np.testing.assert_allclose(gradient, np.cos(X), rtol=1e-6)


def check_the_default_device_within_what_is_differentiated() -> None:
    def by_default(x: Any, device: Any = None) -> Any:
        with functad.default_device(gpu()):
            return (jnp.sin(x if device is None else functad.device_put(x, device)) * jnp.ones(3)).sum()

    value, gradient = functad.value_and_grad(by_default)(X)
    assert value.device is gpu() and not value.committed and not gradient.committed
    for x, device in ((functad.device_put(X, "cpu"), None), (jnp.asarray(X), "cpu")):
        value, gradient = functad.value_and_grad(by_default)(x, device)
        assert value.device is gradient.device is functad.devices("cpu")[0] and value.committed
        assert gradient.committed is x.committed
    free = jnp.asarray(X)
    with functad.default_device(gpu()):
        for there in ("cpu", "cuda"):
            gradient = functad.grad(lambda x, there=there: _moved(x, there))(free)
            assert gradient.device is free.device and not gradient.committed, there


def check_what_is_traced_as_a_whole_runs_on_one_device() -> None:
    """As in JAX: `jit`, loops and branches run where their operands lie, whatever is put on a device within."""
    kept, factor = functad.device_put(X[0], "cpu"), jnp.asarray(X[1])
    loop, cpu = functad.lax.scan, kept.device
    scaled = functad.jit(lambda x: x * factor[0], device="cuda")
    both = functad.jit(lambda x: (x * functad.device_put(x, "cpu") * functad.device_put(x, "cuda")).sum())
    opened = functad.jit(both.__wrapped__, inline=True)
    functions: list[Callable[[Any], Any]] = [
        functad.jit(_moved), functad.jit(_moves()["jit"]), functad.jit(functad.grad(_moved)),
        functad.grad(functad.jit(_moved)),
        lambda x: loop(lambda c, a: (functad.device_put(c, "cuda") + a, None), np.float32(0), x)[0],
        functad.grad(lambda x: loop(lambda c, a: (functad.device_put(c, "cuda") * a, None), np.float32(1), x)[0]),
        lambda x: functad.lax.cond(True, lambda x: functad.device_put(x, "cuda"), lambda x: x, x),
        functad.jit(lambda x: x * functad.device_put(factor, "cuda") * functad.device_put(factor, cpu)),
        functad.jit(lambda x: scaled(x) + scaled(factor)),
        functad.jit(lambda x: x + functad.jit(lambda x: (x, factor), device="cuda", inline=True)(x)[1]),
        lambda x: loop(lambda c, a: (scaled(c) + a, None), np.float32(0), x)[0],
        functad.grad(lambda x: loop(lambda c, a: (scaled(c) + a, None), np.float32(0), x)[0]),
        both, opened, functad.grad(both), functad.grad(opened), functad.jit(functad.grad(opened)),
    ]  # fmt: skip
    for debug in (False, True):  # operations run one by one then
        for i, function in enumerate(functions):
            with functad.debug_nans(debug):
                on_cpu, there = function(kept), function(on_gpu(X[0]))
            assert on_cpu.device is cpu and there.device is gpu(), (i, debug)
            np.testing.assert_allclose(on_cpu, there, rtol=1e-6, err_msg=str(i))


def check_what_a_function_with_a_device_closes_over_is_copied_there() -> None:
    kept = functad.device_put(X, "cpu")
    for debug in (False, True):
        with functad.debug_nans(debug):
            for x in (X, kept, on_gpu(X), on_second(X)):
                for inline in (False, True):
                    found = functad.jit(lambda x: x + kept, device="cuda", inline=inline)(x)
                    assert found.device is gpu() and found.committed and np.array_equal(found, X + X), (debug, inline)


def check_sizes_that_depend_on_values() -> None:
    """Python reads the values, and what it makes of them goes back."""
    functions: list[Callable[[Any], Any]] = [
        jnp.nonzero, jnp.flatnonzero, jnp.argwhere, lambda x: jnp.where(x > 2), jnp.unique,
        lambda x: jnp.unique(x, return_index=True, return_inverse=True, return_counts=True),
        lambda x: jnp.unique(x, axis=0), lambda x: jnp.union1d(x, X[0]), lambda x: jnp.setdiff1d(x, X[0]),
        lambda x: jnp.intersect1d(x, X[0], return_indices=True), lambda x: jnp.setxor1d(x, X[0]), lambda x: x[x > 2],
        lambda x: jnp.array([x[0, 0], x[0, 1]]), lambda x: jnp.asarray([[1.0, x[0, 0]], [2, 3]]),
        lambda x: jnp.imag(x), lambda x: jnp.isinf(x.astype(int)), lambda x: jnp.isreal(x),
    ]  # fmt: skip
    for i, function in enumerate(functions):
        for got, want in zip(tree_leaves(function(on_gpu(X))), tree_leaves(function(jnp.asarray(X))), strict=True):
            assert isinstance(got, DeviceArray) and got.committed and not isinstance(want, DeviceArray), i
            assert np.array_equal(got, want) and (got.dtype, got.weak_type) == (want.dtype, want.weak_type), i
    host = functad.device_put(X, "cpu")
    assert jnp.unique(host).committed and jnp.array([host[0, 0], 1.0]).committed and not jnp.unique(X).committed
    with functad.default_device(gpu()):
        assert jnp.unique(X).device is gpu() and not jnp.unique(X).committed


def check_sizes_that_depend_on_values_of_two_devices() -> None:
    x, y = on_gpu(X), on_second(X)
    assert jnp.unique(y).device is second_gpu()
    assert "`" not in raised(DeviceError, lambda: jnp.array([x[0, 0], y[0, 0]])).partition(" was given")[0]


def check_types_are_asked_for_without_a_copy() -> None:
    """By NumPy's functions of types, and by functions that look at types only."""
    x, steps = on_gpu(X), on_gpu(np.float32([0.5, 1]))
    with Transfers() as transfers:
        assert not np.iscomplexobj(x) and np.isrealobj(x) and np.shape(x) == (2, 3)
        assert (np.ndim(x), np.size(x), np.size(a=x, axis=1), np.common_type(x, X)) == (2, 6, 3, np.float32)
        clipped = jnp.clip(x, 1, steps[1])
        others = [
            jnp.quantile(x, steps), jnp.nanmedian(x), jnp.interp(x, steps, steps), jnp.corrcoef(x),
            jnp.take(x, on_gpu(np.array([0, 4])), mode="clip"), jnp.allclose(x, x), x.clip(0),
        ]  # fmt: skip
        assert not transfers.count
    assert np.array_equal(clipped, np.clip(X, 1, 1)) and all(isinstance(o, DeviceArray) for o in others)


def check_what_other_libraries_may_not_take() -> None:
    x, key = on_gpu(X), on_gpu(random.key(0))
    assert not hasattr(key, "__cuda_array_interface__")
    assert "keys" in raised(DTypeError, key.__dlpack__) and "keys" in raised(DTypeError, random.key(0).__dlpack__)
    assert on_gpu(X.astype(np.float16)).__cuda_array_interface__["typestr"] == "<f2"
    for name in set(NARROW) - {"float16"}:  # no dtype of NumPy's, so others would read it as integers
        assert not hasattr(on_gpu(jnp.ones(2, name)), "__cuda_array_interface__")
    assert x.platform() == "gpu" and x.is_ready() and jnp.asarray(X).platform() == "cpu"
    assert "lies on cuda:0" in raised(CopyError, lambda: x.__dlpack__(dl_device=(2, 7)))
    assert "as a copy only" in raised(CopyError, lambda: x.__dlpack__(dl_device=(1, 0), copy=False))
    assert np.array_equal(np.from_dlpack(x, device="cpu"), X)
    assert "by a copy only" in raised(CopyError, lambda: np.asarray(x, np.float64, copy=False))
    assert x.astype(np.int32, device="cpu").device is functad.devices("cpu")[0]
    for name in ("cpu", "cuda", "to"):
        assert "device_put(x" in raised(AttributeError, lambda name=name: getattr(x, name))


def check_what_is_printed_is_copied() -> None:
    """And prints as on the host, whatever was copied before."""
    for shape in ((5000,), (3, 2000), (2000, 3), (7, 300), (8, 9, 70), (1, 7, 7, 8, 30)):
        values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) * 1.5
        for dtype in (np.float32, np.int16, np.complex64, np.float16):
            host, x = jnp.asarray(values.astype(dtype)), on_gpu(values.astype(dtype))
            with Transfers() as transfers:
                assert repr(x) == repr(host) and str(x) == str(host) and f"{x}" == f"{host}", (shape, dtype)
                assert transfers.nbytes < x.nbytes / 2 or len(shape) > 3
            assert np.array_equal(x, host) and repr(x) == repr(host)  # the host has all of it now
    x = on_gpu(np.arange(2000))
    for options in ({"threshold": 5000}, {"edgeitems": 1}, {"threshold": 10, "edgeitems": 4}, {"threshold": 0}):
        with np.printoptions(**options):
            assert repr(x) == repr(jnp.arange(2000, dtype=x.dtype)) and repr(x[0]) == repr(
                jnp.asarray(np.asarray(x[0]))
            )


def check_training_goes_on_where_it_was() -> None:
    """From a file, too, whose arrays are NumPy's."""
    data = {"x": X[:, :2], "y": X[:, 2]}

    def loss(w: Any, batch: Any, key: Any) -> Any:
        return ((batch["x"] @ w - batch["y"]) ** 2).mean()

    with tempfile.TemporaryDirectory() as folder:
        path, ends = f"{folder}/run.npz", []
        for put, until in ((functad.device_put, 2), (on_gpu, 1), (on_gpu, 2)):
            history = train.fit(
                loss, put(jnp.zeros(2)), optim.adam(0.1), data, until=until, batch_size=1, key=random.key(0),
                checkpoint=path if until == 1 else None, resume=path if len(ends) == 2 else None,
            )  # fmt: skip
            ends.append(history.last.run.params)
    assert [end.device for end in ends] == [functad.devices("cpu")[0], gpu(), gpu()]
    np.testing.assert_allclose(ends[2], ends[0], rtol=1e-5)


CHECKS = {f"arrays, {name.replace('_', ' ')}": check for name, check in checks_of(globals()).items()}
