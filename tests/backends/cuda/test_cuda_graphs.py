"""Graphs: a step that comes again is one launch, loops of known length included.

The driver is a stand-in.
"""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Sequence
from pathlib import Path
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
from functad.backends.cuda.lowering import device_cost_of
from functad.backends.cuda.runtime.dependencies import Access, dependencies_of, longest_chain
from functad.backends.cuda.runtime.running import DeviceRun
from functad.device_arrays import on_device
from functad.errors import DeviceError
from functad.ir import Aval
from functad.optimize.pipeline import simplify, simplify_for
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
    assert starts == [(launches, 0), (0, 1), (0, 1), (0, 1)]  # as it stands, as a graph
    assert len(set(fake.replays)) == 1 and len(fake.launches) == 4 * launches
    assert started(fake.launches[-launches:]) == started(fake.launches[:launches])
    assert fake.calls == ["cuCtxGetCurrent", "cuGraphLaunch"]


def started(launches: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Launches without what they wait for in a graph."""
    return [{key: value for key, value in launch.items() if key != "after"} for launch in launches]


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
        launches.append(started(fake.launches))
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
        assert starts == [(count, 0), (0, 1), (0, 1), (0, 1)] and count > 100
        assert launches[1] == launches[0] == launches[2] == launches[3]


def test_strips_of_loops_take_no_more_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they are kernels of rows, which takes memory that begins where vectors do, and where they are not."""
    backward = functad.grad(lambda x: attention(x)[0].sum())
    for aval in (Aval((1, 4096, 8, 64), F32), Aval((2, 2048, 4, 64), F32)):
        counts = []
        for strips in (1 << 29, 0):
            monkeypatch.setattr("functad.machine_model.CUDA_STRIP_BYTES", strips)
            program = functad.make_jaxpr(backward)(aval)
            counts.append(device_cost_of(simplify_for(program, True, device_cost_of)).launches)
        assert counts[0] <= counts[1] and counts[1] > 100


def test_pointers_are_behind_a_graph_where_they_are_behind_its_launches() -> None:
    device = device_of(FakeCuda(memory=1 << 28))
    placed = cuda_backend.CudaExecutable(simplify(trace_to_program(running_products, [Aval((64, 64), F32)]))).placed(
        device
    )
    x = device.put(np.ones((64, 64), F32))
    ends = []
    for _ in range(3):
        blocks = [x.block, *device.pool.take_all(placed._requests), *placed._constants]
        run = DeviceRun(device, "step", blocks, placed._layout)
        known = len(run.places)
        run.run(placed.plan)
        ends.append({s: (blocks.index(place.memory), place.offset) for s, place in run.places.items()})
        assert len(run.places) > known
        del run, blocks
    assert all(end == ends[0] for end in ends)


def test_loops_that_a_graph_cannot_take_are_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    x = Aval((64, 64), F32)
    whole, launches = starts_of_calls(FakeCuda(memory=1 << 28), running_products, x)
    monkeypatch.setattr("functad.machine_model.CUDA_GRAPH_NODES", 10)
    parts, again = starts_of_calls(FakeCuda(memory=1 << 28), running_products, x)
    assert whole[3] == (0, 1) and parts[3][1] > 60  # a graph for each step of the loop
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


def calls_of(fake: FakeCuda, *names: str) -> list[int]:
    return [fake.calls.count(name) for name in names]


def chained(count: int) -> Any:
    """A function of so many launches, of which one reads the second argument."""

    def fun(w: Any, x: Any) -> Any:
        for _ in range(count - 1):
            w = jnp.cumsum(jnp.flip(w))
        return [jnp.cumsum(w * x)]

    return fun


def test_arguments_that_lie_elsewhere_change_the_nodes_that_read_them() -> None:
    fake = FakeCuda()
    device = device_of(fake)
    step = executable(chained(6), X, X)
    launches = len(launches_of(step, device))
    assert launches >= 6
    w = device.put(np.ones(6, F32))
    batches = [device.put(np.ones(6, F32)) for _ in range(30)]
    for number, batch in enumerate(batches):
        fake.calls.clear()
        fake.launches.clear()
        (result,) = step.on_device([w, batch], device)
        words = [launch["words"] for launch in fake.launches]
        assert len(words) == launches
        assert [batch.address in found for found in words].count(True) == 1 and result.address in words[-1]
        del result
        assert number == 0 or calls_of(fake, "cuGraphLaunch", "cuLaunchKernel") == [1, 0]
        if number > 1:
            assert calls_of(fake, "cuGraphExecKernelNodeSetParams", "cuGraphAddKernelNode") == [1, 0]
    assert len(set(fake.replays)) == 1


def test_addresses_that_come_again_have_graphs_of_their_own() -> None:
    fake = FakeCuda()
    device = device_of(fake)
    step = executable(chained(6), X, X)
    w, *batches = (device.put(np.ones(6, F32)) for _ in range(4))
    for _ in range(20):
        for batch in batches:
            step.on_device([w, batch], device)
    assert calls_of(fake, "cuGraphInstantiate") == [3]
    fake.calls.clear()
    for batch in batches:
        fake.launches.clear()
        step.on_device([w, batch], device)
        assert any(batch.address in launch["words"] for launch in fake.launches)
    assert calls_of(fake, "cuGraphExecKernelNodeSetParams", "cuGraphAddKernelNode", "cuGraphLaunch") == [0, 0, 3]


def test_a_graph_that_cannot_be_changed_is_recorded_anew() -> None:
    fake = FakeCuda()
    device = device_of(fake)
    step = executable(chained(6), X, X)
    w, *batches = (device.put(np.ones(6, F32)) for _ in range(4))
    for batch in batches[:2]:
        step.on_device([w, batch], device)
    fake.next_code("cuGraphExecKernelNodeSetParams", 910)
    fake.launches.clear()
    step.on_device([w, batches[2]], device)
    assert len(set(fake.replays)) == 2 and batches[2].address in [w for x in fake.launches for w in x["words"]]


def test_a_failure_while_a_graph_is_recorded_leaves_a_step_that_can_be_called() -> None:
    fake = FakeCuda()
    device = device_of(fake)
    step = executable(chained(6), X, X)
    w, *batches = (device.put(np.ones(6, F32)) for _ in range(7))
    for _ in range(2):
        for batch in batches[:3]:
            step.on_device([w, batch], device)
    fake.next_code("cuGraphExecKernelNodeSetParams", 2)
    fake.next_code("cuGraphInstantiate", 2, 2)
    with pytest.raises(DeviceError, match="no memory left for kernels or graphs"):
        step.on_device([w, batches[3]], device)
    for batch in batches:
        fake.launches.clear()
        step.on_device([w, batch], device)
        assert any(batch.address in launch["words"] for launch in fake.launches)


def test_graphs_of_many_addresses_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functad.machine_model.CUDA_GRAPHS", 2)
    monkeypatch.setattr("functad.machine_model.CUDA_CHANGES", 3)
    fake = FakeCuda()
    device = device_of(fake)
    step = executable(lambda x: [jnp.cumsum(jnp.cumsum(x))], X)
    kept, choose = [device.put(np.ones(6, F32)) for _ in range(3)], random.Random(0)
    for _ in range(60):
        x = choose.choice(kept)
        fake.launches.clear()
        step.on_device([x], device)  # where its result lay, the next one lies
        assert x.address in fake.launches[0]["words"]
    made, gone = calls_of(fake, "cuGraphInstantiate", "cuGraphExecDestroy")
    assert made >= 2 and made - gone <= 3  # one is destroyed when the next one is recorded
    assert calls_of(fake, "cuGraphExecKernelNodeSetParams")[0] > 2


def test_what_is_known_of_addresses_does_not_pile_up() -> None:
    """Of many arguments other ones have moved at each call."""
    device, choose = device_of(FakeCuda()), random.Random(0)
    step = executable(lambda *xs: [jnp.cumsum(x * x) for x in xs], *[X] * 12)
    kept = [device.put(np.ones(6, F32)) for _ in range(24)]
    (stretch,) = step.placed(device).plan
    sizes = []
    for _ in range(2):
        for _ in range(60):
            step.on_device(choose.sample(kept, 12), device)
        sizes.append({name: len(value) for name, value in vars(stretch).items() if hasattr(value, "__len__")})
    assert sizes[0] == sizes[1]


def test_launches_that_have_nothing_in_common_do_not_wait_for_each_other() -> None:
    fake = FakeCuda()
    device = device_of(fake)

    def fun(x: Any, y: Any) -> Any:
        a, b = jnp.cumsum(x), jnp.cumsum(y)
        return [jnp.cumsum(a[::-1] + b)]

    step = executable(fun, X, X)
    args = [device.put(np.ones(6, F32)) for _ in range(2)]
    for _ in range(2):
        fake.launches.clear()
        step.on_device(args, device)
    waits = [launch["after"] for launch in fake.launches]
    (stretch,) = step.placed(device).plan
    assert waits == [node.after for node in stretch.nodes]
    roots = [number for number, others in enumerate(waits) if not others]
    assert len(roots) == 2 and len(waits[-1]) >= 1 and longest_chain(waits) < len(waits)


def test_order_of_nodes_is_that_of_all_memory() -> None:
    """Against a search of all pairs, for pieces at random that overlap."""
    choose = random.Random(0)
    for _ in range(200):
        nodes = []
        for _ in range(12):
            pieces = [(choose.choice("ab"), choose.randrange(8), choose.randrange(1, 5)) for _ in range(2)]
            nodes.append([Access(m, at, at + n, choose.random() < 0.4) for m, at, n in pieces])
        orders = dependencies_of(nodes, [choose.random() < 0.3 for _ in nodes], 2)
        reached: list[set[int]] = []
        for number, order in enumerate(orders):
            found = set(order.after).union(*[reached[other] for other in order.after])
            reached.append(found)
            wanted = {other for other in range(number) if any(meet(a, b) for a in nodes[other] for b in nodes[number])}
            assert wanted <= found
            for other in order.after:  # nothing twice
                assert other not in set().union(*[reached[o] for o in order.after])


def meet(one: Access, other: Access) -> bool:
    overlap = one.memory == other.memory and one.start < other.stop and other.start < one.stop
    return overlap and (one.writes or other.writes)


def test_one_launch_is_a_graph_too_and_a_call_enters_few_functions() -> None:
    fake = FakeCuda()
    device = device_of(fake)
    step = executable(lambda x: [x + 1], X).placed(device).direct_call([], [X], [None], [X], commits=False)
    assert step is not None
    x = on_device(device.put(np.ones(6, F32)), X)
    for _ in range(4):
        step(x)
    fake.calls.clear()
    entered: list[str] = []
    own = str(Path(functad.__file__).parent)

    def note(frame: Any, what: str, _: Any) -> None:
        if what == "call" and frame.f_code.co_filename.startswith(own):
            entered.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        step(x)
    finally:
        sys.setprofile(None)
    assert fake.calls == ["cuCtxGetCurrent", "cuGraphLaunch"]
    assert sorted(n for n in entered if n[0] != "<") == sorted(
        ["start_at", "take_all", "_sort_in", "start", "alone", "replay", "__del__", "_results"]
    )


def test_another_thread_has_the_context_while_a_graph_is_changed_or_started() -> None:
    fake = FakeCuda()
    device = device_of(fake)
    step = executable(chained(6), X, X)
    w, *batches = (device.put(np.ones(6, F32)) for _ in range(4))
    for batch in batches:  # the last call changes a graph
        fake.context = None
        step.on_device([w, batch], device)
    assert "cuGraphExecKernelNodeSetParams" in fake.calls


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
