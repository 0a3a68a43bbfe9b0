"""The pool of a GPU's memory: what is used again, what is waited for, and what is said where there is none left.

The driver is a stand-in.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_driver_tools import F32, X, device_of, executable
from fake_cuda import FakeCuda

import functad.numpy as jnp
from functad.backends.cuda.runtime.pool import size_class
from functad.errors import DeviceError, TooLargeError


def test_memory_is_used_again() -> None:
    fake = FakeCuda()
    device = device_of(fake)
    first = device.put(np.ones(100, F32))
    address = first.address
    del first
    assert device.put(np.ones(128, F32)).address == address  # of nearly the same size
    assert fake.calls.count("cuMemAllocAsync") == 1 and "cuMemFreeAsync" not in fake.calls
    kept = [device.put(np.ones(100, F32)) for _ in range(3)]
    assert device.memory_stats() == {
        "bytes_in_use": 1536, "peak_bytes_in_use": 1536, "bytes_reserved": 1536, "bytes_limit": 1 << 20, "num_allocs": 3
    }  # fmt: skip
    del kept
    assert device.memory_stats()["bytes_in_use"] == 0 and device.memory_stats()["bytes_reserved"] == 1536


def test_a_copy_to_the_device_is_over_when_the_array_may_change() -> None:
    fake = FakeCuda()
    device = device_of(fake)
    plain, pinned = np.ones(100, F32), np.ones(100, F32)
    fake.pinned.add(pinned.ctypes.data)
    fake.calls.clear()
    device.put(plain)
    assert "cuStreamSynchronize" not in fake.calls  # the driver has copied it
    device.put(pinned)
    assert "cuStreamSynchronize" in fake.calls  # the device reads it when it comes to it


def test_memory_that_others_know_waits_for_them() -> None:
    fake = FakeCuda()
    device = device_of(fake)
    held = device.put(np.ones(100, F32))
    held.block.shared = True
    del held
    device.put(np.ones(100, F32))
    assert "cuCtxSynchronize" in fake.calls


def test_out_of_memory_says_what_was_asked_and_what_is_held() -> None:
    fake = FakeCuda(memory=100_000)
    device = device_of(fake)
    held = [device.put(np.ones(5000, F32), "put there") for _ in range(3)]
    waiting = device.put(np.ones(7000, F32))
    del waiting
    step = executable(lambda x: [jnp.broadcast_to(x, (4000, 6))], X)
    with pytest.raises(
        TooLargeError, match=r"(?s)cuda:0 has no memory left for 93.8 KiB \(float32\[4000,6\]"
    ) as raised:
        step.on_device([np.ones(6, F32)], device)
    text = str(raised.value)
    assert "a result of step" in text and "3 × float32[5000], put there" in text and "donate" in text
    freed = fake.calls.index("cuMemFreeAsync")  # what waited was given back first, and waited for
    assert "cuMemAllocAsync" in fake.calls[fake.calls.index("cuCtxSynchronize", freed) :]
    statistics = device.memory_stats()
    assert statistics["bytes_limit"] == 100_000 and statistics["bytes_in_use"] >= 3 * 20_000
    assert len(held) == 3


@pytest.mark.parametrize(
    "name", ["cuModuleLoadData", "cuModuleGetFunction", "cuGraphInstantiate", "cuLaunchKernel", "cuGraphLaunch"]
)
def test_kernels_and_graphs_have_the_memory_that_waits_to_be_used_again(name: str) -> None:
    fake = FakeCuda()
    device = device_of(fake)
    step, waiting = executable(chain, X), device.put(np.ones(7000, F32))
    del waiting
    fake.next_code(name, 2)
    results = [step.on_device([np.ones(6, F32)], device) for _ in range(3)]
    assert not fake.code_of[name] and fake.calls.count("cuMemFreeAsync") >= 1 and len(results) == 3
    other = executable(lambda x: [jnp.tanh(chain(x)[0])], X)
    fake.next_code(name, *[2] * 10)
    with pytest.raises(DeviceError, match="no memory left for kernels or graphs"):
        for _ in range(2):
            other.on_device([np.ones(6, F32)], device)


def chain(x: Any) -> Any:
    for _ in range(4):
        x = jnp.cumsum(x[::-1])
    return [x]


def test_small_programs_keep_their_temporaries_apart_and_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    apart = executable(chain, X).memory_plan
    assert apart.arena_bytes == apart.unshared_bytes and len(set(apart.offsets.values())) == len(apart.offsets) >= 3
    monkeypatch.setattr("functad.machine_model.CUDA_SHARED_ARENA", 0)
    shared = executable(chain, X)
    assert shared.memory_plan.arena_bytes < apart.arena_bytes
    held = []
    for kept in (1 << 20, 0):
        monkeypatch.setattr("functad.machine_model.CUDA_KEPT_ARENA", kept)
        device = device_of(FakeCuda())
        step = executable(chain, X)
        step.on_device([np.ones(6, F32)], device)
        held.append(device.memory_stats()["bytes_in_use"])
    assert held[0] > held[1]


def test_sizes_of_pieces_waste_little() -> None:
    for nbytes in (1, 512, 513, 10_000, 1_000_000, 123_456_789):
        assert nbytes <= size_class(nbytes) <= max(nbytes + 512, 1.125 * nbytes + 1)
        assert size_class(size_class(nbytes)) == size_class(nbytes)
