"""A stand-in for NVIDIA's driver library: the same entry points, which check what they are given and note it.

Memory is the host's; kernels are not run. It knows what the driver demands: a context, handles that it gave out, room
for what is copied, as many arguments as the kernel takes, and order. `next_code` makes the next call of a name fail,
and `fail_after` one of any name.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from typing import Any

from functad.backends.cuda.runtime.driver_library import PROTOTYPES

MISSING, OUT_OF_MEMORY, INVALID, NOT_READY = 100, 2, 1, 600


class FakeCuda:
    """The library of a machine with some GPUs.

    busy: whether it has not yet done all that was started.
    lost: the number of the error that every call gives once a kernel has gone wrong.

    calls: the names of what was called, in order. launches: of each start of a kernel its entry, grid, block, shared
    bytes and the words of its arguments.
    """

    def __init__(self, devices: int = 1, version: int = 12040, memory: int = 1 << 20) -> None:
        self.devices, self.version, self.memory = devices, version, memory
        self.calls: list[str] = []
        self.launches: list[dict[str, Any]] = []
        self.replays: list[int] = []
        self.pinned: set[int] = set()  # addresses of the host
        self.code_of: dict[str, list[int]] = {}
        self.lost = 0
        self.busy = False
        self._failing: tuple[int, int] | None = (
            None  # how many calls are still well, and what the one behind them gives
        )
        self.failed: str | None = None  # which that was
        self.context: int | None = None
        self._handles: dict[int, tuple[str, Any]] = {}
        self._made = 0
        self._memory: dict[int, Any] = {}
        self._capturing: list[dict[str, Any]] | None = None
        self._captured_stream: int | None = None
        for name, (symbol, types) in PROTOTYPES.items():
            setattr(self, symbol, self._entry(name, types))

    def next_code(self, name: str, *codes: int) -> None:
        """Let the next calls of a function fail."""
        self.code_of[name] = list(codes)

    def fail_after(self, count: int, code: int) -> None:
        """Let one call fail after so many that do not, whatever it is, but for those of contexts."""
        self._failing, self.failed = (count, code), None

    def all_well(self) -> None:
        """Let no call fail any more."""
        self._failing = None

    def fault(self, name: str) -> int:
        """What a call gives before it does anything: the number of the error if it is to fail, else 0."""
        if self._failing is None:
            return 0
        count, code = self._failing
        self._failing = (count - 1, code) if count else None
        if not count:
            self.failed = name
        return 0 if count else code

    def alive(self, *kinds: str) -> int:
        """How many things of some kinds were made and not destroyed."""
        return sum(kind in kinds for kind, _ in self._handles.values())

    def _entry(self, name: str, types: tuple[Any, ...]) -> Callable[..., int]:
        act = getattr(self, f"_{name}")

        def entry(*arguments: Any) -> int:
            assert len(arguments) == len(types), f"{name} takes {len(types)} arguments, got {len(arguments)}"
            for kind, argument in zip(types, arguments):
                kind.from_param(argument)  # raises where ctypes would
            self.calls.append(name)
            if self.code_of.get(name):
                return self.code_of[name].pop(0)
            code = 0 if name in _NEVER_FAIL else self.fault(name)
            if code:
                return code
            if self.lost and name in _WITH_CONTEXT:
                return self.lost
            if name in _WITH_CONTEXT:
                assert self.context is not None, f"{name} without a context"
            return act(*[a.value if isinstance(a, (ctypes.c_void_p, ctypes.c_uint)) else a for a in arguments]) or 0

        return entry

    def _new(self, kind: str, value: Any = None) -> int:
        self._made += 1
        handle = 0x1000 + 16 * self._made
        self._handles[handle] = kind, value
        return handle

    def _destroy(self, kind: str, handle: Any) -> None:
        self._of(kind, handle)
        del self._handles[handle]

    def _of(self, kind: str, handle: Any) -> Any:
        number = handle.value if hasattr(handle, "value") else handle
        found, value = self._handles[number]
        assert found == kind, f"a {found} was given for a {kind}"
        return value

    # --- the device -----------------------------------------------------------------------------------------

    def _cuInit(self, flags: int) -> None:
        assert flags == 0

    def _cuDriverGetVersion(self, out: Any) -> None:
        out._obj.value = self.version

    def _cuGetErrorName(self, code: int, out: Any) -> None:
        out._obj.value = f"CUDA_ERROR_{code}".encode()

    def _cuDeviceGetCount(self, out: Any) -> None:
        out._obj.value = self.devices

    def _cuDeviceGet(self, out: Any, number: int) -> int:
        out._obj.value = number
        return 0 if number < self.devices else 101

    def _cuDeviceGetName(self, buffer: Any, size: int, device: int) -> None:
        buffer.value = b"Fake GPU"[: size - 1]

    def _cuDeviceGetAttribute(self, out: Any, attribute: int, device: int) -> None:
        out._obj.value = {75: 9, 76: 0, 16: 132}[attribute]

    def _cuDevicePrimaryCtxRetain(self, out: Any, device: int) -> None:
        out._obj.value = self._new("context", device)

    def _cuCtxGetCurrent(self, place: int) -> None:
        ctypes.c_void_p.from_address(place).value = self.context

    def _cuCtxSetCurrent(self, context: int | None) -> None:
        if context is not None:
            self._of("context", context)
        self.context = context

    def _cuCtxSynchronize(self) -> None:
        assert self._capturing is None

    def _cuMemGetInfo(self, free: Any, total: Any) -> None:
        free._obj.value = self.memory - self._used()
        total._obj.value = self.memory

    # --- order ----------------------------------------------------------------------------------------------

    def _cuStreamCreate(self, out: Any, flags: int) -> None:
        out._obj.value = self._new("stream")

    def _cuStreamSynchronize(self, stream: int) -> None:
        self._of("stream", stream)
        assert stream != self._captured_stream, "a capture cannot wait"

    def _cuStreamQuery(self, stream: int) -> int:
        self._of("stream", stream)
        return NOT_READY if self.busy else 0

    def _cuStreamWaitEvent(self, stream: int, event: int, flags: int) -> None:
        self._of("event", event)

    def _cuEventCreate(self, out: Any, flags: int) -> None:
        out._obj.value = self._new("event", [])

    def _cuEventRecord(self, event: int, stream: int) -> None:
        self._of("event", event).append(len(self.calls) + 10 * len(self.launches))  # what stands for time

    def _cuEventSynchronize(self, event: int) -> None:
        assert self._of("event", event), "an event that was never recorded"

    def _cuEventElapsedTime(self, out: Any, first: int, then: int) -> None:
        out._obj.value = 1e-3 * (self._of("event", then)[-1] - self._of("event", first)[-1])

    def _cuEventDestroy(self, event: int) -> None:
        self._destroy("event", event)

    # --- memory ---------------------------------------------------------------------------------------------

    def _used(self) -> int:
        return sum(len(piece) for piece in self._memory.values())

    def _cuMemAllocAsync(self, out: Any, nbytes: int, stream: int) -> int:
        self._of("stream", stream)
        assert stream != self._captured_stream, "memory within a graph"
        if self._used() + nbytes > self.memory:
            return OUT_OF_MEMORY
        piece = (ctypes.c_char * nbytes)()
        self._memory[ctypes.addressof(piece)] = piece
        out._obj.value = ctypes.addressof(piece)
        return 0

    def _cuMemFreeAsync(self, address: int, stream: int) -> None:
        del self._memory[address]

    def _room(self, address: int, nbytes: int) -> None:
        assert any(a <= address and address + nbytes <= a + len(p) for a, p in self._memory.items()), "beyond memory"

    def _cuMemcpyHtoDAsync(self, target: int, source: int, nbytes: int, stream: int) -> None:
        self._of("stream", stream)
        self._room(target, nbytes)
        ctypes.memmove(target, source, nbytes)

    def _cuMemcpyDtoHAsync(self, target: int, source: int, nbytes: int, stream: int) -> None:
        self._of("stream", stream)
        self._room(source, nbytes)
        ctypes.memmove(target, source, nbytes)

    def _cuMemcpyAsync(self, target: int, source: int, nbytes: int, stream: int) -> None:
        self._room(target, nbytes)
        self._room(source, nbytes)
        ctypes.memmove(target, source, nbytes)

    def _cuPointerGetAttribute(self, out: Any, attribute: int, address: int) -> int:
        if attribute == 2:
            out._obj.value = 1
            return 0 if address in self.pinned else INVALID
        out._obj.value = 0
        return 0 if any(a <= address < a + len(p) for a, p in self._memory.items()) else INVALID

    # --- kernels --------------------------------------------------------------------------------------------

    def _cuModuleLoadData(self, out: Any, code: bytes) -> None:
        out._obj.value = self._new("module", code)

    def _cuModuleGetFunction(self, out: Any, module: int, name: bytes) -> int:
        code = self._of("module", module)
        if name not in code:
            return 500
        parameters = int(re.findall(rb"parameters=(\d+)", code)[0])
        out._obj.value = self._new("function", (name.decode(), parameters))
        return 0

    def _cuLaunchKernel(self, function: int, *rest: Any) -> None:
        gx, gy, gz, bx, by, bz, shared, stream, arguments, extra = rest
        name, parameters = self._of("function", function)
        self._of("stream", stream)
        assert extra is None and bx * by * bz <= 1024 and min(gx, gy, gz, bx, by, bz) >= 1
        words = self._words(name, parameters, arguments)
        launch = {"entry": name, "grid": (gx, gy, gz), "block": (bx, by, bz), "shared": shared, "words": words}
        (self._capturing if self._capturing is not None and stream == self._captured_stream else self.launches).append(
            launch
        )

    # --- graphs ---------------------------------------------------------------------------------------------

    def _cuStreamBeginCapture(self, stream: int, mode: int) -> None:
        assert self._capturing is None and mode == 1
        self._capturing, self._captured_stream = [], stream

    def _cuStreamEndCapture(self, stream: int, out: Any) -> None:
        out._obj.value = self._new("graph", self._capturing)
        self._capturing = self._captured_stream = None

    def _cuGraphCreate(self, out: Any, flags: int) -> None:
        out._obj.value = self._new("graph", [])

    def _words(self, name: str, parameters: int, pointers: Any) -> list[int]:
        assert len(pointers) == parameters, f"{name} takes {parameters} words, got {len(pointers)}"
        return [ctypes.c_uint64.from_address(pointer).value for pointer in pointers]

    def _node(self, told: Any) -> dict[str, Any]:
        """What a kernel is given that is a node of a graph."""
        p = told._obj
        name, parameters = self._of("function", p.function)
        self._of("context", p.context)
        assert p.extra is None and p.kernel is None and min(*p.grid, *p.block) >= 1
        words = self._words(name, parameters, (ctypes.c_void_p * parameters).from_address(p.arguments))
        return {"entry": name, "grid": tuple(p.grid), "block": tuple(p.block), "shared": p.shared, "words": words}

    def _cuGraphAddKernelNode(self, out: Any, graph: int, after: Any, count: int, told: Any) -> None:
        nodes = self._of("graph", graph)
        assert count == len(after)
        waits = tuple([self._of("node", other)[1] for other in after])
        assert all(other < len(nodes) for other in waits)
        nodes.append({**self._node(told), "after": waits})
        out._obj.value = self._new("node", (graph, len(nodes) - 1))

    def _cuGraphAddChildGraphNode(self, out: Any, graph: int, after: Any, count: int, child: int) -> None:
        nodes = self._of("graph", graph)
        waits = tuple([self._of("node", other)[1] for other in after])
        nodes.append({"child": list(self._of("graph", child)), "after": waits})
        out._obj.value = self._new("node", (graph, len(nodes) - 1))

    def _cuGraphExecKernelNodeSetParams(self, ready: int, node: int, told: Any) -> None:
        nodes, graph = self._of("ready graph", ready)
        made, number = self._of("node", node)
        assert made == graph, "a node of another graph"
        nodes[number] = {**nodes[number], **self._node(told)}

    def _cuGraphExecChildGraphNodeSetParams(self, ready: int, node: int, child: int) -> None:
        nodes, graph = self._of("ready graph", ready)
        made, number = self._of("node", node)
        assert made == graph, "a node of another graph"
        nodes[number] = {**nodes[number], "child": list(self._of("graph", child))}

    def _cuGraphInstantiate(self, out: Any, graph: Any, flags: int) -> None:
        out._obj.value = self._new("ready graph", (list(self._of("graph", graph)), graph))

    def _cuGraphLaunch(self, graph: int, stream: int) -> None:
        self.replays.append(graph)
        nodes, _ = self._of("ready graph", graph)
        self.launches += [launch for node in nodes for launch in node.get("child", [node])]

    def _cuGraphExecDestroy(self, graph: int) -> None:
        self._destroy("ready graph", graph)

    def _cuGraphDestroy(self, graph: int) -> None:
        self._destroy("graph", graph)


_NEVER_FAIL = {"cuGetErrorName", "cuCtxGetCurrent", "cuCtxSetCurrent"}


_WITH_CONTEXT = {
    name
    for name in PROTOTYPES
    if name.startswith(("cuMem", "cuStream", "cuModule", "cuLaunch", "cuEvent", "cuGraph", "cuCtxSync"))
}
