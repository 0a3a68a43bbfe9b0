"""Graphs: a step that comes again is one launch, loops of known length included.

The driver is a stand-in.
"""

from __future__ import annotations

import gc
from threading import Thread
from typing import Any

import numpy as np
import pytest
from cuda_driver_tools import F32, X, device_of, executable, launches_of
from fake_cuda import FakeCuda

import functad
import functad.numpy as jnp
from functad import lax, nn
from functad.backends.cuda import executable as cuda_backend
from functad.ir import Aval
from functad.optimize.pipeline import simplify
from functad.tracing import trace_to_program


def test_a_step_that_comes_again_is_replayed_as_one_graph() -> None:
    fake = FakeCuda()
    device = device_of(fake)
    step = executable(lambda w, x: [w - jnp.cumsum(w * x)[0] * jnp.cumsum(x)], X, X, donated=(True, False))
    launches = len(launches_of(step, device))
    assert launches >= 2
    x = device.put(np.ones(6, F32))
    w: Any = device.put(np.ones(6, F32))
    address = w.address
    starts = []
    for _ in range(4):
        fake.calls.clear()
        (w,) = step.on_device([w, x], device)
        starts.append((fake.calls.count("cuLaunchKernel"), fake.calls.count("cuGraphLaunch")))
        assert w.address == address  # the step is in place
    assert starts == [(launches, 0), (launches, 1), (0, 1), (0, 1)]  # as it stands, recorded, replayed
    assert len(set(fake.replays)) == 1 and len(fake.launches) == 4 * launches
    assert fake.launches[-launches:] == fake.launches[:launches]
    assert fake.calls == ["cuCtxGetCurrent", "cuGraphLaunch"]


def starts_of_calls(fake: FakeCuda, fun: Any, *avals: Aval) -> tuple[list[tuple[int, int]], list[Any]]:
    """Of each of four calls how many kernels, and graphs, are started; and what kernels are given in each."""
    device = device_of(fake)
    step = cuda_backend.CudaExecutable(simplify(trace_to_program(fun, avals)))
    args = [device.put(np.ones(a.shape, a.dtype)) for a in avals]
    starts, launches = [], []
    for _ in range(4):
        fake.calls.clear()
        fake.launches.clear()
        step.on_device(args, device)
        starts.append((fake.calls.count("cuLaunchKernel"), fake.calls.count("cuGraphLaunch")))
        launches.append(list(fake.launches))
    return starts, launches


def attention(x: Any) -> Any:
    return [nn.dot_product_attention(x, x, x, is_causal=True)]


def running_products(x: Any) -> Any:
    carry, ys = lax.scan(lambda c, row: (jnp.cumsum(c) @ jnp.ones((64, 64), F32) + row, c), x[0], x)
    return [jnp.cumsum(carry), ys]


def test_loops_of_known_length_are_parts_of_the_graph() -> None:
    """Attention in blocks, forward and backward, and a loop whose pointers are read behind it."""
    backward = functad.grad(lambda x: attention(x)[0].sum())
    long, wide = Aval((1, 2100, 1, 8), F32), Aval((64, 64), F32)
    for fun, aval in ((attention, long), (lambda x: [backward(x)], long), (running_products, wide)):
        starts, launches = starts_of_calls(FakeCuda(memory=1 << 28), fun, aval)
        count = starts[0][0]
        assert starts == [(count, 0), (count, 1), (0, 1), (0, 1)] and count > 100
        assert launches[1] == launches[0] == launches[2] == launches[3]


def test_pointers_are_behind_a_graph_where_they_are_behind_its_launches() -> None:
    device = device_of(FakeCuda(memory=1 << 28))
    placed = cuda_backend.CudaExecutable(simplify(trace_to_program(running_products, [Aval((64, 64), F32)]))).placed(
        device
    )
    x = device.put(np.ones((64, 64), F32))
    ends = []
    for _ in range(6):  # memory comes in one of two orders
        run = placed._located([x])
        owner = {id(place.memory): storage.name for storage, place in run.places.items()}
        known = len(run.places)
        run.run(placed._plan)
        ends.append({s: (owner[id(place.memory)], place.offset) for s, place in run.places.items()})
        assert len(run.places) > known
        del run
    assert all(end == ends[0] for end in ends)
    (stretch,) = placed._plan
    assert any(recorded is not None for recorded in stretch.graphs.values())


def test_loops_that_a_graph_cannot_take_are_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    x = Aval((64, 64), F32)
    whole, launches = starts_of_calls(FakeCuda(memory=1 << 28), running_products, x)
    monkeypatch.setattr("functad.machine_model.CUDA_GRAPH_NODES", 10)
    parts, again = starts_of_calls(FakeCuda(memory=1 << 28), running_products, x)
    assert parts[0] == parts[3] == whole[0]
    assert [launch["entry"] for launch in launches[3]] == [launch["entry"] for launch in again[3]]


def test_what_another_thread_starts_while_a_graph_is_recorded_is_no_part_of_it() -> None:
    fake = FakeCuda()
    device = device_of(fake)
    step = executable(lambda x: [jnp.cumsum(jnp.cumsum(x))], X)
    other = executable(lambda x: [x + 1], X)
    x = device.put(np.ones(6, F32))
    other.on_device([x], device)
    kept = step.on_device([x], device)
    begin = fake.cuStreamBeginCapture_v2  # type: ignore[attr-defined]

    def begin_and_more(*arguments: Any) -> int:
        code: int = begin(*arguments)
        count = len(fake.launches)
        thread = Thread(target=other.on_device, args=([device.put(np.ones(6, F32))], device))
        thread.start()
        thread.join()
        assert len(fake.launches) == count + 1  # at once
        return code

    fake.cuStreamBeginCapture_v2 = begin_and_more  # type: ignore[attr-defined]
    del kept
    kept = step.on_device([x], device)
    count = len(fake.launches)
    del kept
    step.on_device([x], device)
    assert fake.replays and len(fake.launches) == count + len(launches_of(step, device))


def test_graphs_of_many_addresses_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functad.machine_model.CUDA_GRAPHS", 2)
    fake = FakeCuda()
    device = device_of(fake)
    step = executable(lambda x: [jnp.cumsum(jnp.cumsum(x))], X)
    kept = []
    for _ in range(5):
        kept.append(device.put(np.ones(6, F32)))
        for _ in range(2):
            step.on_device([kept[-1]], device)  # where its result lay, the next one lies
    assert all(len(part.graphs) <= 2 for part in step.placed(device)._plan) and "cuGraphExecDestroy" in fake.calls


def test_graphs_go_with_their_function() -> None:
    fake = FakeCuda()
    device = device_of(fake)
    x = device.put(np.ones(6, F32))
    for _ in range(2):
        step = executable(lambda x: [jnp.cumsum(jnp.cumsum(x))], X)
        for _ in range(2):
            step.on_device([x], device)
        del step
        gc.collect()
    assert fake.calls.count("cuGraphInstantiate") == 2 and fake.calls.count("cuGraphExecDestroy") == 1
