"""Checks of arrays on devices, for the simulator's process: `cuda_simulated.py` runs them.

What is compared with is the CPU. The simulator has two devices; what needs both is a check of its own.
"""

from __future__ import annotations

import copy
import itertools
import pickle
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from cuda_check_tools import raised, second_gpu

import functad
import functad.numpy as jnp
from functad import nn, optim, random
from functad.backends.cuda.runtime.simulated_driver import SimulatedRun
from functad.device_arrays import DeviceArray, memory_of
from functad.errors import ArgumentError, CompilationError, DeviceError, DonatedArrayError, DTypeError, TooLargeError
from functad.tree_util import tree_leaves, tree_map


def gpu() -> Any:
    return functad.devices("cuda")[0]


def on_gpu(x: Any) -> Any:
    return functad.device_put(x, gpu())


def on_second(x: Any) -> Any:
    return functad.device_put(x, second_gpu())


X = np.arange(6, dtype=np.float32).reshape(2, 3)


class Transfers:
    """Counts what is copied from a device while it is entered."""

    def __init__(self, device: Any = None) -> None:
        self._driver = (device or gpu()).driver

    def __enter__(self) -> Transfers:
        self.count = self.nbytes = 0
        download = self._driver.download

        def counted(array: Any, address: int) -> None:
            self.count += 1
            self.nbytes += array.nbytes
            download(array, address)

        self._driver.download = counted
        return self

    def __exit__(self, *exc: Any) -> None:
        del self._driver.download


class Started:
    """Counts the launches that are started while it is entered."""

    def __enter__(self) -> Started:
        self.kernels = 0
        self._start = SimulatedRun.start

        def counted(run: SimulatedRun, *how: Any) -> None:
            self.kernels += 1
            self._start(run, *how)

        SimulatedRun.start = counted  # type: ignore[method-assign]
        return self

    def __exit__(self, *exc: Any) -> None:
        SimulatedRun.start = self._start  # type: ignore[method-assign]


def check_devices() -> None:
    one = gpu()
    assert functad.devices("gpu")[0] is functad.devices("cuda:0")[0] is one
    assert (one.platform, one.id, str(one), repr(one)) == ("gpu", 0, "cuda:0", "CudaDevice(id=0)")
    assert (one.device_kind == "Numba's simulator") is one.driver.is_simulated
    assert functad.devices() == functad.devices("cpu") and functad.default_backend() == "cpu"
    assert "there are cuda:0" in raised(DeviceError, lambda: functad.devices("cuda:99"))
    assert "'tpu'" in raised(DeviceError, lambda: functad.device_put(1.0, "tpu"))
    assert copy.deepcopy(one) is one and pickle.loads(pickle.dumps(one)) is one
    stats = one.memory_stats()
    assert stats["bytes_in_use"] <= stats["bytes_reserved"] <= stats["bytes_limit"]


def check_two_devices() -> None:
    other = second_gpu()
    assert (other.id, repr(other)) == (1, "CudaDevice(id=1)") and functad.device_count("cuda") >= 2
    assert "there are cuda:0, cuda:1" in raised(DeviceError, lambda: functad.devices("cuda:99"))
    assert copy.deepcopy(other) is other and pickle.loads(pickle.dumps(other)) is other
    moved = functad.device_put(on_gpu(X), other)
    assert moved.device is other and np.array_equal(moved, X)


def check_arrays() -> None:
    x = on_gpu(X)
    assert isinstance(x, DeviceArray) and x.device is gpu() and x.devices() == {gpu()} and x.committed
    assert x.sharding.device_set == {gpu()} and x.sharding == functad.sharding.SingleDeviceSharding(gpu())
    assert (x.shape, x.ndim, x.size, x.dtype, x.nbytes) == ((2, 3), 2, 6, np.float32, 24)
    assert repr(x) == repr(jnp.asarray(X)) and str(x) == str(X) and x.tolist() == X.tolist()
    assert np.array_equal(np.asarray(x), X) and np.array_equal(functad.device_get({"x": x})["x"], X)
    assert float(x[1, 2]) == 5 and bool(x[0, 1] > 0) and int(x[0, 1]) == 1 and [float(r.sum()) for r in x] == [3, 12]
    assert functad.device_put(x) is x and functad.device_put(x, gpu()) is x
    back = functad.device_put(x, functad.devices("cpu")[0])
    assert back.device is functad.devices()[0] and not isinstance(back, DeviceArray)
    assert x.to_device("cpu").device is back.device
    copied = copy.copy(x)
    assert copied.device is gpu() and copied.unsafe_buffer_pointer() != x.unsafe_buffer_pointer()
    loaded = pickle.loads(pickle.dumps(x))
    assert np.array_equal(loaded, X) and not isinstance(loaded, DeviceArray)
    weak = on_gpu(2.0)
    assert weak.weak_type and (weak * on_gpu(np.float16(3))).dtype == np.float16
    assert x.block_until_ready() is x and functad.block_until_ready([x, 3])[0] is x
    for dtype in ("bool", "int8", "uint8", "float16", "int64", "complex64", "float64"):
        values = (X > 2) if dtype == "bool" else X.astype(dtype)
        same = on_gpu(values)
        assert same.dtype == dtype and np.array_equal(same, values)
    empty = on_gpu(np.zeros((0, 3), np.float32))
    assert (empty + 1).shape == (0, 3) and empty.sum().device is gpu() and float(empty.sum()) == 0


def check_nothing_is_copied_back() -> None:
    x, w = on_gpu(X), on_gpu(np.ones((3, 2), np.float32))
    step = functad.jit(lambda w, x: (w - 0.1 * functad.grad(lambda w: jnp.tanh(x @ w).sum())(w), (x @ w).mean()))
    with Transfers() as transfers:
        for _ in range(3):
            w, loss = step(w, x)
        y = jnp.tanh(x @ w) * 2 + jnp.arange(2) - np.float32(1)
        y = jnp.where(y > 0, y, 0.0).at[0].add(1.0)[:, ::-1].astype(jnp.float16)
        y = y[on_gpu(np.array([-1, 0]))].at[on_gpu(1), on_gpu(np.array([1]))].add(2.0)[on_gpu(0)]
        g = functad.grad(lambda x: (jnp.sin(x) ** 2).sum())(x)
        v = functad.vmap(lambda row: row / row.max())(x)
        _, t = functad.jvp(jnp.exp, (x,), (x,))
        assert all(isinstance(a, DeviceArray) for a in (w, loss, y, g, v, t))
        assert transfers.count == 0
        float(loss)
        assert transfers.count == 1
        float(loss)
        str(loss)
        assert transfers.count == 1  # it is known by now


def check_the_same_as_on_the_cpu() -> None:
    """Un-jitted, each operation is a kernel; under transforms, too."""
    functions: list[Callable[[Any], Any]] = [
        lambda x: x[x > 2],  # a mask is read by Python, so its result lies on the host
        lambda x: x.var(0) + x.mean(),
        lambda x: jnp.sort(jnp.concatenate([x @ x.T, -x], 1), 1),
        lambda x: (
            x[jnp.array([1, 0])] + x[on_gpu(np.array([1, 0])) if isinstance(x, DeviceArray) else np.array([1, 0])]
        ),
        lambda x: nn.softmax(x) * jnp.cumsum(x, 1) + x.argmax(1)[:, None] // 2,
        lambda x: jnp.linalg.norm(x),
        functad.grad(lambda x: nn.relu(x - 2).sum() + jnp.max(x * x)),
        functad.vmap(lambda row: jnp.sum(row**3)),
        functad.hessian(lambda x: (x**3).sum()),
        lambda x: functad.vjp(jnp.sin, x)[1](x)[0],
        lambda x: functad.lax.scan(lambda c, r: (c + r, c * r), x[0], x)[1],
        lambda x: functad.lax.cond(x[0, 0] > 1, jnp.sin, jnp.cos, x),
        functad.grad(lambda x: functad.lax.while_loop(lambda c: c.sum() < 99, lambda c: c * 2 + x * x, x).sum()),
        functad.checkpoint(lambda x: jnp.sin(x) * 2),
        lambda x: functad.jit(jnp.cos)(x) + 1,
        lambda x: functad.pure_callback(lambda a: np.asarray(a) * 2, functad.ShapeDtypeStruct((2, 3), np.float32), x),
    ]
    for i, f in enumerate(functions):
        expected, got = f(jnp.asarray(X)), f(on_gpu(X))
        for e, g in zip(tree_leaves(expected), tree_leaves(got), strict=True):
            assert (e.dtype, e.shape, e.weak_type) == (g.dtype, g.shape, g.weak_type), i
            np.testing.assert_allclose(np.asarray(g), np.asarray(e), rtol=2e-6, atol=1e-6, err_msg=str(i))
            assert isinstance(g, DeviceArray) or not i, f"{i} left the device"


def check_what_keys_are() -> None:
    """NumPy asks only for their shapes."""
    keys = random.split(on_gpu(random.key(0)), 3)
    assert isinstance(keys, DeviceArray) and np.shape(keys) == (3,) and np.ndim(keys) == 1 and np.size(keys) == 3
    assert "keys are no numbers" in raised(DTypeError, lambda: np.sum(keys))  # type: ignore[call-overload]


def on_or_off(x: Any, indices: Any) -> Any:
    return on_gpu(indices) if isinstance(x, DeviceArray) else indices


def check_operations_that_come_again() -> None:
    """Found by types, parameters, devices and options, as the CPU tells them apart."""
    kinds = [X, X.astype(np.float16), X.astype(np.int32), X.T, X[0]]
    functions: list[Callable[[Any], Any]] = [
        lambda x: x + x, lambda x: x * 0.5, lambda x: 2 - x, jnp.sin, lambda x: x.sum(0), lambda x: x.sum(-1), jnp.sort,
        lambda x: jnp.reshape(x, -1), lambda x: jnp.pad(x, 1, constant_values=0.0),
        lambda x: jnp.pad(x, 1, constant_values=-0.0), lambda x: x == x.min(),
    ]  # fmt: skip
    for _ in range(3):
        for x, function in itertools.product(kinds, functions):
            got, expected = function(on_gpu(x)), function(jnp.asarray(x))
            assert isinstance(got, DeviceArray) and got.dtype == expected.dtype and got.weak_type == expected.weak_type
            np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=1e-5)
            assert np.array_equal(np.signbit(np.asarray(got)), np.signbit(np.asarray(expected)))
    x = on_gpu(np.float32([0, np.inf]))
    assert np.isnan(np.asarray(x * x[0])).any()
    with functad.config.context(debug_nans=True):
        assert "nan" in raised(FloatingPointError, lambda: x * x[0])
    assert np.isnan(np.asarray(x * x[0])).any()


def check_mixing() -> None:
    x = on_gpu(X)
    add = functad.jit(lambda a, b: a + b["c"])
    put_here = functad.device_put(X, functad.devices("cpu")[0])
    assert "cpu:0" in raised(DeviceError, lambda: add(x, {"c": put_here}))
    for other in (X, jnp.asarray(X), 2.0, np.float32(2)):  # what nobody put anywhere follows
        for a, b in ((x, other), (other, x)):
            assert add(a, {"c": b}).device is gpu() and (a + b).device is gpu()
    assert add(jnp.asarray(X), {"c": X}).device is functad.devices()[0]  # another call, on the CPU again


def check_mixing_two_devices() -> None:
    x, y = on_gpu(X), on_second(X)
    message = raised(DeviceError, lambda: x + y)
    assert "`add`" in message and "cuda:0" in message and "cuda:1" in message and "functad.device_put(x, " in message
    with functad.default_device(gpu()):
        free = jnp.ones((2, 3))
    for _ in range(3):  # what nobody put anywhere is copied, each time
        memory = memory_of(free + y)
        assert memory.device is second_gpu() and np.array_equal(memory.host(), X + 1)
        assert "`add`" in raised(DeviceError, lambda: x + y)
    add = functad.jit(lambda a, b: a + b["c"])
    message = raised(DeviceError, lambda: add(x, {"c": y}))
    assert "b['c']" in message.replace('"', "'") and "functad.devices('cuda')[0]" in message, message
    closed = functad.jit(lambda a: a * y)
    assert closed(X).device is second_gpu() and "closes over" in raised(DeviceError, lambda: closed(x))


def check_where_committed_arrays_are_used() -> None:
    """Every operand, in every order, un-jitted, jitted (the first call, and the short way) and compiled before."""
    host, free = functad.devices("cpu")[0], jnp.asarray(X)
    operands = {
        "gpu": lambda: on_gpu(X), "other gpu": lambda: on_second(X),
        "put on the CPU": lambda: functad.device_put(X, host),
        "of one put there": lambda: functad.device_put(X, host)[:, ::-1] * 2,
        "free": lambda: free, "new": lambda: jnp.asarray(X), "NumPy's": lambda: X,
    }  # fmt: skip
    fixed = {"gpu": gpu(), "other gpu": None, "put on the CPU": host, "of one put there": host}
    if functad.device_count("cuda") > 1:
        fixed["other gpu"] = second_gpu()
    else:
        del operands["other gpu"]

    def add(a: Any, b: Any) -> Any:
        return a + b

    with functad.config.context(default_backend="cpu"):
        for default in (None, gpu()):
            with functad.default_device(default):
                jitted = functad.jit(add)
                compiled = functad.jit(add).lower(X, X).compile()
                for (one, first), (other, second) in itertools.product(operands.items(), operands.items()):
                    a, b = first(), second()
                    places = {fixed[name] for name in (one, other) if name in fixed} or {default or host}
                    for call in (add, jitted, jitted, compiled) if one != "NumPy's" else (jitted,):
                        where = f"{one} + {other}, {default}"
                        if len(places) > 1:
                            message = raised(DeviceError, partial(call, a, b))
                            assert message.count("functad.device_put(x, functad.devices(") == 2, where
                        elif call is not compiled or host in places or "gpu" in one + other:
                            result = call(a, b)
                            assert result.device in places, where
                            assert result.committed is bool({one, other} & fixed.keys()), where
                            assert np.array_equal(result, np.asarray(a) + np.asarray(b)), where
    here = functad.device_put(X, host)
    assert here is functad.device_put(here, host) and not jnp.asarray(X).committed
    gradient = functad.grad(lambda x: (x**2).sum())(here)
    for result in (here.T, here[0], here.astype(np.int32), jnp.zeros_like(here), gradient):
        assert result.committed
    closed = functad.jit(lambda x: x * here)
    assert closed(X).committed and "closes over" in raised(DeviceError, lambda: closed(on_gpu(X)))
    assert functad.jit(lambda x: x + 1, device="cpu")(on_gpu(X)).committed
    assert functad.jit(lambda x: x + 1, device=gpu())(here).device is gpu()


def check_what_is_computed_of_uncommitted_arrays() -> None:
    """It is not committed: un-jitted, at the first call of a jitted function and all later ones, and by callbacks."""
    with functad.default_device(gpu()):
        free, new = jnp.asarray(X), functad.random.normal(functad.random.key(0), (2, 3))
        twice = functad.jit(lambda x, y: (x * 2 + y, x))
        made = functad.jit(lambda: jnp.arange(3))
        of_numpys = functad.jit(lambda x: x + 1)
        for result in (free, new, *twice(X, free), made(), made(), of_numpys(X), of_numpys(X), free.T @ free):
            assert result.device is gpu() and not result.committed
    host = functad.devices("cpu")[0]
    called = functad.jit(lambda x: functad.pure_callback(np.negative, functad.ShapeDtypeStruct((2, 3), x.dtype), x))
    functions = {
        "operation": lambda x: x + 1, "again": lambda x: x + 1, "several": lambda x: functad.lax.top_k(x, 1)[0],
        "gradient": functad.grad(lambda x: (x**2).sum()), "mapped": functad.vmap(jnp.sin), "copy": copy.copy,
        "jitted": lambda x: twice(x, x)[0], "nested": lambda x: functad.vmap(of_numpys)(x), "callback": called,
        "un-jitted callback": lambda x: functad.pure_callback(np.negative, functad.typeof(x), x),
        "index": lambda x: x[0], "weak": lambda x: x.astype(float), "compiled": twice.lower(free, free).compile(),
    }  # fmt: skip
    for name, function in functions.items():
        for x, committed in ((free, False), (on_gpu(X), True), (free, False)):
            result = function(x, x) if name == "compiled" else function(x)
            for r in result if isinstance(result, tuple) else (result,):
                assert r.device is gpu() and r.committed is committed, (name, committed)
    assert (free + on_gpu(X)).committed and (on_gpu(X) + free).committed and twice(free, on_gpu(X))[0].committed
    follows = free * functad.device_put(X, host)
    assert follows.device is host and follows.committed
    for looked_at in (False, True):
        with functad.config.context(debug_nans=looked_at):
            assert functad.jit(lambda x: x + 1, device=gpu())(free).committed and not (free + 1).committed
    put = functad.device_put(free, gpu())
    assert put.committed and not free.committed and put.unsafe_buffer_pointer() == free.unsafe_buffer_pointer()
    assert functad.device_put(put) is put and functad.device_put(free) is free
    overwrites = functad.jit(lambda x: x + 1, donate_argnums=0)
    assert np.array_equal(overwrites(put), X + 1) and np.array_equal(free, X)  # which lies in the same memory


def check_uncommitted_arrays_follow_to_another_gpu() -> None:
    with functad.default_device(gpu()):
        free = jnp.asarray(X)
    there = on_second(X)
    add = functad.jit(lambda x, y: x + y)
    for call in (lambda x, y: x + y, add, add):
        for x, y in ((free, there), (there, free)):
            result = call(x, y)
            assert result.device is second_gpu() and result.committed and np.array_equal(result, X + X)
    assert free.device is gpu() and not free.committed
    with functad.default_device(second_gpu()):
        other = jnp.asarray(X)
        for result in (other + free, add(other, free), functad.device_put(on_gpu(X))):
            assert np.array_equal(result, X + X if result.device is second_gpu() else X)
            assert result.committed is (result.device is gpu())


def check_where_functions_run() -> None:
    f = functad.jit(lambda x: x + 1, device=gpu())
    assert [f(x).device for x in (X, jnp.asarray(X), on_gpu(X))] == [gpu()] * 3
    g = functad.jit(lambda x: x + 1, device="cpu")
    assert [g(x).device for x in (X, on_gpu(X), on_gpu(X))] == functad.devices() * 3
    h = functad.jit(lambda x: x + 1, backend="cuda")
    assert h(X).device is gpu()
    with functad.config.context(default_backend="cuda"):
        assert functad.jit(lambda x: x - 1)(X).device is gpu() and functad.devices() == functad.devices("cuda")
        here = functad.jit(lambda x: x + 1, device="cpu")
        with Started() as started:
            for f, x in ((here, X), (here, on_gpu(X)), (here.lower(X).compile(), X)):
                assert f(x).device is functad.devices("cpu")[0] and not started.kernels
    _where_new_arrays_are_made(gpu())
    assert jnp.ones(2).device is functad.devices()[0]
    functad.config.update("jax_default_device", "cuda")
    try:
        assert jnp.ones(2).device is gpu()
    finally:
        functad.config.update("jax_default_device", None)
    assert "'tpu'" in raised(DeviceError, lambda: functad.jit(jnp.sin, device="tpu"))


def _where_new_arrays_are_made(device: Any) -> None:
    with functad.default_device(device), Transfers(device) as transfers:
        (jnp.ones(3) + 1).sum()
        assert not transfers.count
    with functad.default_device(device):
        made = [jnp.ones(2), jnp.asarray([1, 2]), jnp.arange(3.0), random.key(0), random.normal(random.key(0), (2,))]
        assert [x.device for x in made] == [device] * 5
        assert functad.jit(lambda x: x + 1)(X).device is device
        assert functad.jit(lambda x: x + 1)(on_gpu(X)).device is gpu()
        assert functad.devices() == functad.devices("cuda") and functad.device_put(1.0).device is device


def check_where_functions_run_of_two_devices() -> None:
    other, x = second_gpu(), on_second(X)
    f = functad.jit(lambda x: x + 1, device=other)
    assert [f(x).device for x in (X, jnp.asarray(X), on_gpu(X), x)] == [other] * 4
    assert f(functad.device_put(X, functad.devices("cpu")[0])).device is other
    assert functad.jit(lambda x: x + 1, backend="cuda")(x).device is other
    _where_new_arrays_are_made(other)
    compiled = functad.jit(lambda x: jnp.sin(x) + 1).lower(on_gpu(X)).compile()
    assert [compiled(a).device for a in (on_gpu(X), x, on_gpu(X))] == [gpu(), other, gpu()]
    strong = functad.jit(lambda x: x + 1).lower(on_second(np.float32(1))).compile()
    assert strong(on_second(1.0)).device is other  # though its type is weak
    there = f.lower(X).compile()
    assert [there(a).device for a in (X, on_gpu(X), x)] == [other] * 3
    assert [jnp.from_dlpack(y, device=other).device for y in (on_gpu(X), X, jnp.asarray(X))] == [other] * 3


def check_donation() -> None:
    step = functad.jit(lambda p, g: tree_map(lambda a, b: a - 0.5 * b, p, g), donate_argnums=0)
    p = on_gpu({"a": X, "b": np.ones(3, np.float32)})
    addresses = [leaf.unsafe_buffer_pointer() for leaf in tree_leaves(p)]
    for _ in range(3):
        before, p = p, step(p, on_gpu({"a": X, "b": np.ones(3, np.float32)}))
        assert [leaf.unsafe_buffer_pointer() for leaf in tree_leaves(p)] == addresses
        assert "argument `p['a']`" in raised(DonatedArrayError, partial(jnp.negative, before["a"]))
    np.testing.assert_allclose(p["a"], -0.5 * X)  # and its elements lie in the host's memory, too
    was, seen = id(memory_of(p["a"])), np.asarray(p["a"])
    del before
    p = step(p, on_gpu({"a": X, "b": np.ones(3, np.float32)}))
    assert id(memory_of(p["a"])) == was  # the donated argument's own
    np.testing.assert_allclose(p["a"], -1 * X)
    np.testing.assert_allclose(seen, -0.5 * X)
    kept = p["b"]
    shared = functad.device_put(kept, functad.sharding.SingleDeviceSharding(gpu()))
    view = memory_of(kept)  # somebody else holds the memory
    q = step(p, on_gpu({"a": X, "b": np.ones(3, np.float32)}))
    assert q["b"].unsafe_buffer_pointer() != view.address and shared is not None
    np.testing.assert_allclose(view.host(), np.full(3, -1))
    add = functad.jit(jnp.add, donate_argnums=0)
    with functad.default_device(gpu()):
        for other, committed in ((jnp.asarray(X), False), (on_gpu(X), True), (jnp.asarray(X), False)):
            once = add(jnp.copy(X), other)
            assert once.committed is committed and add(once, other).committed is committed


def check_donation_of_keys_beside_constants() -> None:
    """The same as on the CPU, call after call: what the function closes over comes before its arguments."""
    ends = []
    for device in (functad.devices("cpu")[0], gpu()):
        fixed, key, w = functad.device_put((X, functad.random.key(0), np.zeros((2, 3), np.float32)), device)

        def step(key: Any, w: Any, fixed: Any = fixed) -> Any:
            return functad.random.split(key)[0], w * fixed + functad.random.normal(key, (2, 3))

        jitted = functad.jit(step, donate_argnums=(0, 1))
        for _ in range(4):
            key, w = jitted(key, w)
        assert w.device is device
        ends.append((functad.random.key_data(key), w))
    for e, g in zip(*ends):
        np.testing.assert_allclose(np.asarray(g), np.asarray(e), rtol=1e-5)


def check_stages_on_devices() -> None:
    x = on_gpu(X)
    lowered = functad.jit(lambda x: jnp.sin(x) + 1).lower(x)
    assert "from numba import cuda" in str(lowered.kernels)
    compiled = lowered.compile()
    assert compiled(x).device is gpu()
    assert len(compiled.profile(x).kernels) == 1
    in_place = functad.jit(lambda x: x + 1, donate_argnums=0).lower(x).compile()
    assert len(in_place.profile(x).kernels) == 1 and np.array_equal(x, X)  # a profile takes nothing away
    if gpu().driver.is_simulated:
        assert (
            "simulator"
            in raised(CompilationError, lambda: compiled.ptx)
            == raised(CompilationError, lambda: lowered.ptx)
        )
    else:
        assert all(".entry" in text for text in (*compiled.ptx.values(), *lowered.ptx.values()))
    strong = functad.jit(lambda x: x + 1).lower(on_gpu(np.float32(1))).compile()
    assert strong(on_gpu(1.0)).device is gpu()  # though its type is weak
    there = functad.jit(lambda x: x + 1, device=gpu()).lower(X).compile()
    assert [there(x).device for x in (X, on_gpu(X))] == [gpu()] * 2
    on_cpu = functad.jit(lambda x: x + 1).lower(X).compile()
    assert "only kernels for GPUs" in raised(ArgumentError, lambda: on_cpu.ptx)


def check_python_may_call_the_function_that_calls_it() -> None:
    """And so may a thread for which it waits."""
    shape = functad.ShapeDtypeStruct((), np.float32)

    @functad.jit
    def count_down(n: Any) -> Any:
        return functad.pure_callback(less, shape, n + 0) + 1

    def less(n: Any) -> Any:
        if n == 0:
            return np.float32(0)
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(count_down(on_gpu(n - 1))), daemon=True)
        thread.start()
        thread.join(10)
        return np.float32(found[0])

    assert float(count_down(on_gpu(np.float32(2)))) == 3


def check_sharing() -> None:
    """What other libraries read of arrays, and take of theirs."""
    x = on_gpu(X)
    interface = x.__cuda_array_interface__
    assert interface["shape"] == (2, 3) and interface["typestr"] == "<f4" and interface["version"] == 3
    assert interface["data"] == (x.unsafe_buffer_pointer(), False) and interface["strides"] is None
    assert not hasattr(jnp.asarray(X), "__cuda_array_interface__")
    assert x.__dlpack_device__() == (2, 0) and jnp.asarray(X).__dlpack_device__() == (1, 0)

    class Foreign:
        __cuda_array_interface__ = interface

    taken = jnp.asarray(Foreign())
    assert taken.device is gpu() and np.array_equal(taken, X)
    again = jnp.from_dlpack(x)
    assert again is x
    assert [jnp.from_dlpack(y, device=gpu()).device for y in (x, X, jnp.asarray(X))] == [gpu()] * 3
    capsule = Capsule(x)
    assert np.array_equal(jnp.from_dlpack(capsule), X) and jnp.from_dlpack(capsule).device is gpu()


class Capsule:
    """Another library's array: all that it shows is DLPack."""

    def __init__(self, x: Any) -> None:
        self._x = x

    def __dlpack__(self, **how: Any) -> Any:
        return self._x.__dlpack__(**how)

    def __dlpack_device__(self) -> Any:
        return self._x.__dlpack_device__()


def check_memory_runs_out() -> None:
    held = on_gpu(np.ones(1 << 23, np.float32))
    rows = gpu().memory_stats()["bytes_limit"] // held.nbytes + 1
    message = raised(TooLargeError, lambda: jnp.broadcast_to(held, (rows, 1 << 23)))
    assert "cuda:0 has no memory left" in message and f"float32[{rows},8388608]" in message
    assert "1 × float32[8388608], put there" in message, message
    # A constant is made where it shall lie, so the host needs no room for it.
    message = raised(TooLargeError, lambda: jnp.zeros((rows, 1 << 50), device=gpu()))
    assert f"float32[{rows},{1 << 50}]" in message


def check_training() -> None:
    """W1's step at a tiny size: convolution, pooling, dense layers, cross-entropy; SGD and Adam."""
    rng = np.random.default_rng(0)
    params: Any = {
        "kernel": rng.normal(size=(2, 1, 3, 3)), "hidden": rng.normal(size=(8, 4)), "out": rng.normal(size=(4, 3))
    }  # fmt: skip
    params = tree_map(lambda p: (0.5 * p).astype(np.float32), params)
    images, labels = rng.normal(size=(2, 1, 6, 6)).astype(np.float32), np.array([0, 2], np.int32)

    def loss(params: Any, images: Any, labels: Any) -> Any:
        x = functad.lax.conv_general_dilated(images, params["kernel"], (1, 1), "VALID")
        x = jnp.reshape(nn.MaxPool((2, 2)).apply((), nn.relu(x)), (2, -1))
        scores = nn.relu(x @ params["hidden"]) @ params["out"]
        return nn.softmax_cross_entropy_with_integer_labels(scores, labels).mean()

    for optimizer in (optim.sgd(0.1), optim.adam(0.1)):

        def step(params: Any, state: Any, images: Any, labels: Any, optimizer: Any = optimizer) -> Any:
            value, grads = functad.value_and_grad(loss)(params, images, labels)
            updates, state = optimizer.update(grads, state, params)
            return optim.apply_updates(params, updates), state, value

        ends = []
        for put in (functad.device_put, on_gpu):
            jitted = functad.jit(step, donate_argnums=(0, 1))
            p = put(tree_map(jnp.asarray, params))
            state = optimizer.init(p)
            with Transfers() as transfers:
                for _ in range(3):
                    p, state, value = jitted(p, state, images, labels)
                assert transfers.count == 0
            ends.append((p, value))
        for e, g in zip(tree_leaves(ends[0]), tree_leaves(ends[1]), strict=True):
            assert isinstance(g, DeviceArray)
            np.testing.assert_allclose(np.asarray(g), np.asarray(e), rtol=2e-5, atol=1e-6)
    unjitted = functad.grad(loss)(on_gpu(params), images, labels)
    expected = functad.grad(loss)(params, images, labels)
    for e, g in zip(tree_leaves(expected), tree_leaves(unjitted), strict=True):
        assert isinstance(g, DeviceArray)
        np.testing.assert_allclose(np.asarray(g), np.asarray(e), rtol=2e-5, atol=1e-6)


CHECKS: dict[str, Callable[[], None]] = {
    f"arrays, {name.removeprefix('check_').replace('_', ' ')}": value
    for name, value in list(globals().items())
    if name.startswith("check_")
}
