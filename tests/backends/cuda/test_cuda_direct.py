"""The direct way to a device: compiled code reads a call's Arrays, and makes those of its results.

The driver is a stand-in.
"""

from __future__ import annotations

import copy
import gc
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cuda_driver_tools import F32, X, executable, fake_device

import functad
import functad.numpy as jnp
from functad.array import DonatedArray
from functad.backends.cpu.runtime.tape import runtime
from functad.backends.cuda.runtime import direct
from functad.backends.cuda.runtime.device import CudaDevice
from functad.device_arrays import DeviceArray, memory_of, on_device
from functad.errors import DonatedArrayError
from functad.ir import Aval

NAMES = ("argument `w`", None)


def update(w: Any, x: Any) -> Any:
    """w may be changed in place; the second result needs memory of its own."""
    return [w - 0.5 * x, jnp.cumsum(x)]


def call_of(device: CudaDevice, names: tuple[str | None, ...] = NAMES, commits: bool = False) -> Callable[..., Any]:
    step = executable(update, X, X, donated=tuple(name is not None for name in names))
    call = step.placed(device).direct_call([], [X, X], names, [X, X], commits)
    assert call is not None
    return call


def array(device: CudaDevice, committed: bool = True, aval: Aval = X) -> DeviceArray:
    made = on_device(device.put(np.ones(6, F32)), aval)
    memory_of(made).committed = committed
    return made


def test_a_donated_argument_hands_its_memory_on() -> None:
    device = fake_device()
    call, w, x = call_of(device), array(device), array(device)
    place = memory_of(w).address
    for _ in range(3):
        before = w
        w, y = call(w, x)
        assert type(w) is type(y) is DeviceArray and w.aval is y.aval is X and w.weak_type is False
        assert memory_of(w).address == place != memory_of(y).address
        assert memory_of(w).committed is memory_of(y).committed is True
        assert type(before) is DonatedArray and before.aval == X
        with pytest.raises(DonatedArrayError, match="argument `w` was donated"):
            np.asarray(before)
    assert type(x) is DeviceArray and memory_of(x).host().shape == (6,)


def test_without_donation_all_results_are_new() -> None:
    device = fake_device()
    call, x = call_of(device, (None, None)), array(device)
    w, y = call(x, x)
    assert len({memory_of(a).address for a in (w, x, y)}) == 3 and type(x) is DeviceArray


@pytest.mark.parametrize("committed", [(False, False), (False, True), (True, False)])
@pytest.mark.parametrize("commits", [False, True])
def test_results_are_committed_if_an_argument_is(committed: tuple[bool, bool], commits: bool) -> None:
    device = fake_device()
    call = call_of(device, (None, None), commits)
    results = call(*[array(device, one) for one in committed])
    assert [memory_of(r).committed for r in results] == [any(committed) or commits] * 2
    assert [gc.is_tracked(r) for r in results] == [gc.is_tracked(array(device))] * 2


def test_what_is_left_to_the_long_way() -> None:
    device, other = fake_device(), fake_device()
    call, x = call_of(device), array(device)
    shared, held = array(device), array(device)
    memory_of(shared).block.shared = True
    holder = memory_of(held)
    strange = {
        "too few": (x,), "an ndarray": (x, np.ones(6, F32)), "on the CPU": (jnp.ones(6), x), "a number": (x, 1.0),
        "of another device": (x, array(other)), "of another type": (x, array(device, aval=Aval((2, 3), F32))),
        "the same one twice": (x, x), "one memory twice": (on_device(memory_of(x), X), x),
        "known to others": (shared, x), "held by somebody": (held, x),
    }  # fmt: skip
    for what, leaves in strange.items():
        assert call(*leaves) is None, what
        assert all(type(leaf) is not DonatedArray for leaf in leaves), what
    del holder, strange, leaves
    assert call(held, x) is not None  # now nobody else holds it
    assert call(shared, x) is None and call(x, shared) is not None  # which is not donated
    with pytest.raises(DonatedArrayError):
        np.asarray(x)
    assert call(x, shared) is None  # as for all donated arrays


def test_a_result_in_a_donated_arguments_memory_knows_nothing_of_it() -> None:
    device = fake_device()
    call, w, x = call_of(device), array(device, committed=False), array(device)
    memory_of(w).host()
    result, _ = call(w, x)
    assert memory_of(result).kept is None and memory_of(result).committed is True


def test_who_comes_while_a_call_is_under_way_is_sent_away() -> None:
    device = fake_device()
    seen: list[Any] = []

    def start(memories: list[Any]) -> list[Any]:
        seen.append((call(x, x), [type(memory).__name__ for memory in memories]))
        return [device.put(np.ones(6, F32))]

    x = array(device)
    call: Any = direct.bind_on_device(
        start, "block", device, direct.DeviceCallTypes([X, X], [None] * 2, [X], [None], True)
    )
    assert type(call(x, x)) is DeviceArray and type(call(x, x)) is DeviceArray
    assert seen == [(None, ["PoolBlock"] * 2)] * 2


def test_a_call_that_has_no_memory_takes_nothing_and_leaks_nothing() -> None:
    device = fake_device()
    types = direct.DeviceCallTypes([X, X], NAMES, [X], [0], True)
    call: Any = direct.bind_on_device(lambda memories: None, "address", device, types)
    w, x = array(device), array(device)
    place = memory_of(w).address

    def counts() -> list[int]:
        return [sys.getrefcount(t) for t in (memory_of(w), memory_of(x), w, x, DeviceArray, DonatedArray, NAMES[0])]

    before = counts()
    for _ in range(100):
        assert call(w, x) is None and type(w) is DeviceArray
    assert memory_of(w).address == place
    assert max(abs(now - then) for now, then in zip(counts(), before)) < 5


def test_of_a_call_that_fails_donated_arguments_are_gone() -> None:
    """What was started may have changed them."""
    device = fake_device()
    types = direct.DeviceCallTypes([X, X], NAMES, [X], [0], True)

    def fail(memories: list[Any]) -> list[Any]:
        raise ValueError(len(memories))

    call: Any = direct.bind_on_device(fail, "address", device, types)
    x, alive = array(device), device.memory_stats()["num_allocs"]
    for _ in range(3):
        w = array(device)
        with pytest.raises(ValueError, match="2"):
            call(w, x)
        assert type(w) is DonatedArray and type(x) is DeviceArray
    gc.collect()  # what the exceptions hold
    assert device.memory_stats()["num_allocs"] == alive


READERS: dict[str, Callable[[Any], Any]] = {
    "NumPy": np.asarray,
    "DLPack": lambda x: x.__dlpack__(max_version=(1, 0)),
    "a copy": copy.copy,
    "an operation": jnp.negative,
    "a jitted function": functad.jit(jnp.tanh),
}


@pytest.mark.parametrize("reader", READERS)
def test_nobody_reads_a_donated_argument_once_kernels_may_have_changed_it(reader: str) -> None:
    device = fake_device()
    seen: list[str] = []

    def start(memories: list[Any]) -> list[Any]:
        with pytest.raises(DonatedArrayError, match="argument `w` was donated"):  # as another thread might
            READERS[reader](w)
        assert not hasattr(w, "__cuda_array_interface__") and repr(w).startswith("<donated Array")
        seen.append(reader)
        return []

    call: Any = direct.bind_on_device(start, "address", device, direct.DeviceCallTypes([X], NAMES[:1], [X], [0], True))
    w = array(device)
    place, result = memory_of(w).address, call(w)
    assert memory_of(result).address == place and memory_of(result).kept is None and seen == [reader]
    assert not memory_of(result).block.shared


def test_references_are_counted() -> None:
    device = fake_device()
    call, free = call_of(device), call_of(device, (None, None))
    w, x, mark = array(device), array(device, committed=False), array(device)
    watched = [X, memory_of(x), x, device, DeviceArray, DonatedArray, NAMES[0], type(memory_of(x)), F32]

    def counts() -> list[int]:
        gc.collect()
        return [sys.getrefcount(thing) for thing in watched]

    def calls() -> None:
        nonlocal w
        for _ in range(200):
            w, _ = call(w, x)
            assert call(w, mark, x) is None and call(mark, mark) is None
            free(x, x)

    calls()
    before, alive = counts(), device.memory_stats()["num_allocs"]
    calls()
    changes = [now - then for now, then in zip(counts(), before)]
    assert max(map(abs, changes)) < 50, changes  # less than one in four calls
    assert device.memory_stats()["num_allocs"] == alive


def test_there_is_none_where_objects_lie_in_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    step = executable(update, X, X).placed(fake_device())
    direct._places.cache_clear()
    try:
        with monkeypatch.context() as changed:
            changed.setattr(runtime(), "direct_problem", "for a test")
            assert step.direct_call([], [X, X], NAMES, [X, X], False) is None
    finally:
        direct._places.cache_clear()
    assert step.direct_call([], [X, X], NAMES, [X, X], False) is not None


def test_there_is_none_without_results() -> None:
    assert executable(lambda x: [], X).placed(fake_device()).direct_call([], [X], [None], [], False) is None
