"""A GPU through NVIDIA's driver library: memory, kernels, streams, events and graphs, by ctypes.

Knows no arrays, no Programs, and no compiler: it is given one.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial, wraps
from typing import Any, Protocol, TypeVar, cast

import numpy as np

from functad import machine_model
from functad.backends.cuda.runtime import cublas, driver_library
from functad.backends.cuda.runtime.driver_library import PROTOTYPES
from functad.backends.cuda.runtime.graphs import KernelStart, LaunchGraph, ProductStart, Start
from functad.backends.cuda.runtime.launching import Launch, LaunchNode, LibraryProduct
from functad.backends.cuda.runtime.pool import MemoryPool, NoMemoryError
from functad.records import NamedTuple
from functad.system.once import once

_pointer = ctypes.c_void_p
_NON_BLOCKING = 1  # a stream that does not wait for those of other libraries
_THREAD_LOCAL = 1  # what other threads do meanwhile is no part of a capture
_MAJOR, _MINOR, _MULTIPROCESSORS = 75, 76, 16  # attributes of devices
_DEVICE_NUMBER, _MEMORY_TYPE = 9, 2  # attributes of addresses
_HOST = 1  # the type of memory of the host that the driver knows

_OUT_OF_MEMORY, _NOT_READY = 2, 600


class DeviceFacts(NamedTuple):
    """What a device is."""

    name: str
    capability: tuple[int, int]
    multiprocessors: int


class Compiler(Protocol):
    """What makes machine code: the module `compiler`, or what stands for it."""

    def machine_code(self, launch: Launch, capability: tuple[int, int]) -> tuple[bytes, str]: ...
    def ptx(
        self, function: Any, arguments: Sequence[tuple[str, str]], capability: tuple[int, int], fused: bool
    ) -> str: ...
    def found_library(self, pattern: str) -> str | None: ...


Method = TypeVar("Method", bound=Callable[..., Any])


def _in_context(method: Method) -> Method:
    """A method of a driver, during which the GPU's context is that of this thread; then again what was before.

    Other libraries believe that it stays: PyTorch and CuPy take the current one for that of the GPU that they chose.
    Where there was none, that of GPU 0 may stay, for CUDA's runtime library chooses it by itself.
    """

    @wraps(method)
    def within(self: CudaDriver, *arguments: Any) -> Any:
        before = self.enter()
        try:
            return method(self, *arguments)
        finally:
            self.leave(before)

    return cast(Method, within)


class CudaDriver:
    """One GPU. What is asked of it runs in the order in which it is asked, in one stream.

    Calls return before the device is done, but for `download` and `synchronize`; what fails there may be the fault of
    what was started before, so errors tell what that was. With CUDA_LAUNCH_BLOCKING=1 in the environment (`waits`) each
    kernel is waited for, and nothing is a graph, so that an error names the kernel.

    Args:
        calls: the driver library, or what stands for it.
        number: which of its GPUs.
        compiler: makes machine code, and PTX, of a launch's kernel.

    Attributes:
        pool: from which libraries that run beside take memory. The device sets it.

    Raises:
        DeviceError: the driver does not work, is too old, or has no such GPU.
    """

    is_simulated = False
    pool: MemoryPool

    def __init__(self, calls: Any, number: int, compiler: Compiler) -> None:
        self._calls = calls
        self._number = number
        self._compiler = compiler
        self._started: list[str] = []  # what may still be running
        self._functions: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
        self._forgotten: list[LaunchGraph] = []  # that nobody starts any more
        self._current = _Current()
        self.waits = os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0")
        self._get_context = calls.cuCtxGetCurrent
        driver_library.start_driver(calls)
        self._device = self.got(ctypes.c_int, "cuDeviceGet", number).value
        self._context = self.got(_pointer, "cuDevicePrimaryCtxRetain", self._device).value
        # What becomes a part of a graph is recorded in streams of their own: what other threads start meanwhile is no
        # part of it. Each has memory in which a library works, so that those of several may run at one time.
        self.stream, *self.recording = [self._new_stream() for _ in range(1 + machine_model.CUDA_LANES)]
        self.launch_kernel: Callable[..., int] = calls.cuLaunchKernel
        self.change_kernel: Callable[..., int] = calls.cuGraphExecKernelNodeSetParams_v2
        self._launch_graph = calls.cuGraphLaunch
        self._told_stream = _pointer(self.stream)  # in the form in which the driver takes it
        self._recorded: Any = threading.RLock()  # while one is, nobody may wait for all streams
        self._blas: tuple[cublas.Cublas | None] | None = None

    @_in_context
    def _new_stream(self) -> int:
        return self.got(_pointer, "cuStreamCreate", _NON_BLOCKING).value or 0

    # --- the device -------------------------------------------------------------------------------------

    def facts(self) -> DeviceFacts:
        name = ctypes.create_string_buffer(256)
        self.do("cuDeviceGetName", name, len(name), self._device)
        major, minor, processors = (
            self.got(ctypes.c_int, "cuDeviceGetAttribute", attribute, self._device).value
            for attribute in (_MAJOR, _MINOR, _MULTIPROCESSORS)
        )
        return DeviceFacts(name.value.decode(errors="replace"), (major, minor), processors)

    @_in_context
    def capacity(self) -> tuple[int, int]:
        """Bytes that are free, and bytes in all."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.do("cuMemGetInfo", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def enter(self) -> int | None:
        """Make the GPU's context that of this thread, if it is not. Returns what was, for `leave`."""
        current = self._current
        code = self._get_context(current.place)
        if code:
            self.check(code, "cuCtxGetCurrent")
        before: int | None = current.context.value
        if before != self._context:
            self.do("cuCtxSetCurrent", self._context)
        return before

    def leave(self, before: int | None) -> None:
        """Make the context that of this thread again that was before `enter`."""
        if before != self._context and (before is not None or self._number):
            self.do("cuCtxSetCurrent", before)

    # --- memory -----------------------------------------------------------------------------------------

    @_in_context
    def allocate(self, nbytes: int) -> int:
        address = ctypes.c_uint64()
        code = self.code("cuMemAllocAsync", ctypes.byref(address), nbytes, self.stream)
        if code == _OUT_OF_MEMORY:
            raise NoMemoryError
        self.check(code, "cuMemAllocAsync")
        return address.value

    @_in_context
    def release(self, address: int) -> None:
        self.do("cuMemFreeAsync", address, self.stream)

    @_in_context
    def upload(self, address: int, array: np.ndarray) -> None:
        """Copy a contiguous array to the device; it may be changed as soon as this returns."""
        self.do("cuMemcpyHtoDAsync", address, array.ctypes.data, array.nbytes, self.stream)
        if self._is_pinned(array.ctypes.data):  # the driver has copied all other memory by now
            self._settle()

    def _is_pinned(self, address: int) -> bool:
        """Whether the GPU itself reads the host's memory at an address, when it comes to it."""
        kind = ctypes.c_uint(0)
        return not self.code("cuPointerGetAttribute", ctypes.byref(kind), _MEMORY_TYPE, address) and kind.value == _HOST

    @_in_context
    def download(self, array: np.ndarray, address: int) -> None:
        """Copy to a contiguous array, when all is done that was started before."""
        self.do("cuMemcpyDtoHAsync", array.ctypes.data, address, array.nbytes, self.stream)
        self._settle()

    @_in_context
    def copy(self, target: int, source: int, nbytes: int, stream: int | None = None) -> None:
        self.do("cuMemcpyAsync", target, source, nbytes, self.stream if stream is None else stream)

    def owns(self, address: int) -> bool:
        """Whether an address, of whichever library, is in this GPU's memory."""
        number = ctypes.c_int(-1)
        code = self.code("cuPointerGetAttribute", ctypes.byref(number), _DEVICE_NUMBER, address)
        return not code and number.value == self._device

    # --- kernels ----------------------------------------------------------------------------------------

    @_in_context
    def prepare(self, name: str, nodes: Sequence[LaunchNode]) -> CudaRun:
        """Nodes ready to be started, on memories whose addresses each call gives; `name` is what errors call it."""
        launches = {id(node.launch): node.launch for node in nodes}
        functions = {key: self._function(one) for key, one in launches.items() if isinstance(one, Launch)}
        starts: list[Start] = [
            KernelStart(self, node, functions[id(node.launch)], self._context)
            if isinstance(node.launch, Launch)
            else ProductStart(self, node)
            for node in nodes
        ]
        return CudaRun(self, name, starts, [node.after for node in nodes])

    def start_product(self, product: LibraryProduct, addresses: Sequence[int], stream: int) -> None:
        """Start a library's product of memories at these addresses in a stream."""
        self._started_blas().start(product, addresses, stream)

    def recorded_product(self, product: LibraryProduct, addresses: Sequence[int], lane: int) -> int:
        """A graph of what a library's product starts; lane: in which memory it works."""
        stream = self.recording[lane]
        self._started_blas().prepare(stream)
        return self._captured(lambda: self.start_product(product, addresses, stream), stream)

    @_in_context
    def change_product(
        self, ready: Any, node: int, product: LibraryProduct, addresses: Sequence[int], lane: int
    ) -> int:
        """Let a node of a graph be a product of other memories. Returns the driver's number of a failure, or 0."""
        part = self.recorded_product(product, addresses, lane)
        code = self.code("cuGraphExecChildGraphNodeSetParams", ready, node, part)
        self.do("cuGraphDestroy", part)
        return code

    @property
    def blas(self) -> cublas.Cublas | None:
        """What multiplies matrices, started when it is first asked for; None where there is no cuBLAS.

        Raises:
            DeviceError: it does not work.
        """
        return (self._blas or once((self, "cuBLAS"), lambda: self._blas, self._start_blas))[0]

    @_in_context
    def _start_blas(self) -> tuple[cublas.Cublas | None]:
        path = self._compiler.found_library("libcublas.so*")
        found = None if path is None else cublas.Cublas(cublas.cublas_library(path), self.stream, self.pool)
        self._blas = (found,)
        return self._blas

    def _started_blas(self) -> cublas.Cublas:
        """That of launches, which ask for it when they are made."""
        assert self._blas is not None and self._blas[0] is not None
        return self._blas[0]

    def _function(self, launch: Launch) -> int:
        """A kernel in the GPU's memory, where it stays: to unload it, all that runs would have to be waited for."""
        key = (launch.kernel.text, launch.types)
        if key not in self._functions:
            code, entry = self._compiler.machine_code(launch, self.facts().capability)
            module = self.got_with_room("cuModuleLoadData", code)
            found = self.got_with_room("cuModuleGetFunction", module, entry.encode())
            self._functions[key] = found
        return self._functions[key]

    def ptx(self, launch: Launch) -> str:
        """The text of a kernel in the GPU's assembly language."""
        kernel = launch.kernel
        return self._compiler.ptx(kernel.function, launch.types, self.facts().capability, kernel.fused)

    def start_all(self, what: str, starts: Sequence[Start], bases: Sequence[int], stream: int | None = None) -> None:
        """Start what was prepared; what: what errors call it that come later."""
        if what not in self._started:
            self._begin(what)
        before = self.enter()
        try:
            for start in starts:
                start.start(bases, stream)
                if self.waits and stream is None:
                    self.check(self.code("cuStreamSynchronize", self.stream), f"running {start.what}")
        finally:
            if before != self._context:
                self.leave(before)

    def _begin(self, what: str) -> None:
        self._started = [*self._started[-_REMEMBERED:], what]

    @_in_context
    def graph_of(self, starts: Sequence[Start], after: Sequence[Sequence[int]], bases: Sequence[int]) -> LaunchGraph:
        """A graph of starts, each of which waits for those of the numbers in `after`."""
        self._destroy_forgotten()
        text = self.got(_pointer, "cuGraphCreate", 0).value
        nodes: list[int] = []
        with self.kept_if_well("cuGraphDestroy", text):
            for start, waits in zip(starts, after):
                others = (ctypes.c_void_p * len(waits))(*[nodes[other] for other in waits])
                nodes.append(start.add(text, others, bases))
            ready = self._ready(text)
        return LaunchGraph(ready, text, nodes, _pointer(ready))

    @_in_context  # without one CUDA 13.0's driver crashes
    def change(self, graph: LaunchGraph, starts: Sequence[Start], numbers: Sequence[int], bases: Sequence[int]) -> bool:
        """Let the nodes of a graph that have these numbers have other memories; False if they cannot."""
        ready, nodes = graph.ready, graph.nodes
        for number in numbers:
            if starts[number].change(ready, nodes[number], bases):
                return False
        return True

    @_in_context
    def captured(self, action: Callable[[int], None], times: int) -> LaunchGraph:
        """A graph of what an action starts in the stream that it is given, so many times, one after the other."""
        self._destroy_forgotten()
        stream = self.recording[0]
        if self._blas and self._blas[0]:  # else no product is among what is started
            self._blas[0].prepare(stream)

        def repeated() -> None:
            for _ in range(times):
                action(stream)

        text = self._captured(repeated, stream)
        with self.kept_if_well("cuGraphDestroy", text):
            ready = self._ready(text)
        return LaunchGraph(ready, text, (), _pointer(ready))

    def _captured(self, action: Callable[[], None], stream: int) -> int:
        graph = ctypes.c_void_p()
        with self._alone_with_recording():
            self.do("cuStreamBeginCapture", stream, _THREAD_LOCAL)
            try:
                action()
            except BaseException:
                if not self.code("cuStreamEndCapture", stream, ctypes.byref(graph)):
                    self.code("cuGraphDestroy", graph)
                raise
            self.do("cuStreamEndCapture", stream, ctypes.byref(graph))
        assert graph.value
        return graph.value

    def _ready(self, text: int) -> int:
        return self.got_with_room("cuGraphInstantiate", text, 0)

    def _destroy_forgotten(self) -> None:
        while True:
            try:
                graph = self._forgotten.pop()
            except IndexError:  # another thread may have taken the last one
                return
            codes = self.code("cuGraphExecDestroy", graph.ready), self.code("cuGraphDestroy", graph.text)
            self.check(max(codes), "cuGraphDestroy")

    def replay(self, what: str, graph: LaunchGraph) -> None:
        """Start a graph; what: as for `start_all`."""
        if what not in self._started:
            self._begin(what)
        current = self._current
        if self._get_context(current.place) or current.context.value != self._context:
            self._replay_elsewhere(graph)  # beside another library's work, or a failure
            return
        code = self._launch_graph(graph.told, self._told_stream)
        if code:
            self.check(self.again(code, partial(self._launch_graph, graph.told, self._told_stream)), "cuGraphLaunch")

    @_in_context
    def _replay_elsewhere(self, graph: LaunchGraph) -> None:
        start = partial(self._launch_graph, graph.told, self._told_stream)
        self.check(self.again(start(), start), "cuGraphLaunch")

    def forget(self, graph: LaunchGraph) -> None:
        """Destroy a graph, when the next one is recorded: this may be called from whichever thread, at any time."""
        self._forgotten.append(graph)

    # --- order ------------------------------------------------------------------------------------------

    @_in_context
    def synchronize(self) -> None:
        """Wait until all is done that was started."""
        self._settle()

    @_in_context
    def is_idle(self) -> bool:
        """Whether all is done that was started."""
        code = self.code("cuStreamQuery", self.stream)
        if code != _NOT_READY:
            self.check(code, "cuStreamQuery")
        return code == 0

    @_in_context
    def synchronize_all(self) -> None:
        """Wait for other libraries' work, too."""
        with self._alone_with_recording():
            self.do("cuCtxSynchronize")

    def wait_for(self, stream: int) -> None:
        """Let what is started from now on wait for what another library has started in a stream."""
        self._ordered(stream, self.stream)

    def let_wait(self, stream: int) -> None:
        """Let another library's stream wait for what was started so far."""
        self._ordered(self.stream, stream)

    @_in_context
    def _ordered(self, first: int, then: int) -> None:
        event = self.mark(first)
        with self.kept_if_well("cuEventDestroy", event):
            self.do("cuStreamWaitEvent", then, event, 0)
        self.do("cuEventDestroy", event)  # by the driver, when it has come

    @_in_context
    def mark(self, stream: int | None = None) -> int:
        """An event, which is when all is done that was started before."""
        event = self.got(_pointer, "cuEventCreate", 0).value
        assert event
        with self.kept_if_well("cuEventDestroy", event):
            self.do("cuEventRecord", event, self.stream if stream is None else stream)
        return event

    def microseconds_between(self, first: int, then: int) -> float:
        with self.kept_if_well("cuEventDestroy", first, then):
            self.do("cuEventSynchronize", then)
            found = 1e3 * self.got(ctypes.c_float, "cuEventElapsedTime", first, then).value
        codes = [self.code("cuEventDestroy", event) for event in (first, then)]
        self.check(max(codes), "cuEventDestroy")
        return float(found)

    @_in_context
    def least_time(self, action: Callable[[], None], times: int) -> float:
        """The least time in µs that the device needed for what an action starts, of so many."""
        found = []
        for _ in range(times):
            first = self.mark()
            with self.kept_if_well("cuEventDestroy", first):
                action()
                then = self.mark()
            found.append(self.microseconds_between(first, then))
        return min(found)

    def _settle(self) -> None:
        self.do("cuStreamSynchronize", self.stream)
        self._started = []

    def _alone_with_recording(self) -> AbstractContextManager[Any]:
        """A lock: while this thread has it, no other one records, nor waits for all streams.

        Raises:
            DeviceError: this thread is in the midst of it.
        """
        if self._recorded._is_owned():
            raise driver_library.in_the_midst("a graph is recorded")
        return self._recorded

    # --- calls ------------------------------------------------------------------------------------------

    @contextmanager
    def kept_if_well(self, destroy: str, *handles: int | None) -> Iterator[None]:
        """Destroy things if what uses them fails; of all failures the first one is told."""
        try:
            yield
        except BaseException:
            for handle in handles:
                self.code(destroy, handle)
            raise

    def code(self, name: str, *arguments: Any) -> int:
        return int(getattr(self._calls, PROTOTYPES[name][0])(*arguments))

    def do(self, name: str, *arguments: Any) -> None:
        self.check(self.code(name, *arguments), name)

    def got(self, kind: Any, name: str, *arguments: Any) -> Any:
        found = kind()
        self.do(name, ctypes.byref(found), *arguments)
        return found

    def got_with_room(self, name: str, *arguments: Any) -> int:
        """A handle, for which the pool gives back what waits to be used again if the GPU has no memory left."""
        found = _pointer()
        call = partial(self.code, name, ctypes.byref(found), *arguments)
        self.check(self.again(call(), call), name)
        assert found.value
        return found.value

    def again(self, code: int, call: Callable[[], int]) -> int:
        """The number that a call gave; where the GPU had no memory left, it is called again when it has more."""
        if code != _OUT_OF_MEMORY:
            return code
        self.pool.trim()
        return call()

    def check(self, code: int, what: str) -> None:
        if code:
            driver_library.fail(self._calls, code, what, self._started)


_REMEMBERED = 7


class _Current(threading.local):
    """Where the driver writes which context is current in this thread."""

    def __init__(self) -> None:
        self.context = ctypes.c_void_p()
        self.place = ctypes.c_void_p(ctypes.addressof(self.context))  # which takes less time than a reference


class CudaRun:
    """Nodes ready to be started on one GPU. One thread at a time may use it."""

    def __init__(self, driver: CudaDriver, name: str, starts: Sequence[Start], after: Sequence[Sequence[int]]) -> None:
        self._driver = driver
        self._name = name
        self._starts = starts
        self._after = after

    def start(self, bases: Sequence[int]) -> None:
        """Start all, one after the other, on memories that begin at these addresses."""
        self._driver.start_all(self._name, self._starts, bases)

    def start_one(self, number: int, bases: Sequence[int], stream: int | None = None) -> None:
        """Start the node of that number, in a stream."""
        self._driver.start_all(self._name, [self._starts[number]], bases, stream)

    def record(self, bases: Sequence[int]) -> LaunchGraph:
        """A graph of all, which does not run now."""
        return self._driver.graph_of(self._starts, self._after, bases)

    def change(self, graph: LaunchGraph, numbers: Sequence[int], bases: Sequence[int]) -> bool:
        """Let the nodes of these numbers have other memories; False if that cannot be."""
        return self._driver.change(graph, self._starts, numbers, bases)
