"""Starts of kernels and library products: one after the other in a stream, or as nodes of a graph, which may change.

Knows the driver's functions for that; no plans and no arrays.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol

from functad.backends.cuda.runtime.launching import Launch, LaunchNode, LibraryProduct, PackedLaunch
from functad.records import NamedTuple

_NO_MORE_SHARED = 0  # bytes of shared memory that the kernel does not name


class KernelParameters(ctypes.Structure):
    """What the driver is told of a kernel that is a node of a graph."""

    _fields_ = [
        ("function", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("arguments", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    ]


class LaunchGraph(NamedTuple):
    """A graph. ready: what is launched. text: what it was made of, which its nodes are parts of. told: `ready`, as the
    driver takes it.
    """

    ready: int
    text: int
    nodes: Sequence[int]
    told: ctypes.c_void_p


class GraphDriver(Protocol):
    """What starts ask of a driver. What is no part of `do` and `got` gives the driver's number of a failure, or 0."""

    stream: int
    launch_kernel: Callable[..., int]
    change_kernel: Callable[..., int]

    def code(self, name: str, *arguments: Any) -> int: ...
    def again(self, code: int, call: Callable[[], int]) -> int: ...
    def check(self, code: int, what: str) -> None: ...
    def do(self, name: str, *arguments: Any) -> None: ...
    def got(self, kind: Any, name: str, *arguments: Any) -> Any: ...
    def kept_if_well(self, destroy: str, *handles: int | None) -> AbstractContextManager[None]: ...
    def start_product(self, product: LibraryProduct, addresses: Sequence[int], stream: int) -> None: ...
    def recorded_product(self, product: LibraryProduct, addresses: Sequence[int], lane: int) -> int: ...
    def change_product(
        self, ready: Any, node: int, product: LibraryProduct, addresses: Sequence[int], lane: int
    ) -> int: ...


class KernelStart:
    """A kernel, and where its arguments lie.

    What the driver is given is made once, in the form in which it takes it, for that takes longer than to start it.
    """

    def __init__(self, driver: GraphDriver, node: LaunchNode, function: int, context: int) -> None:
        assert isinstance(node.launch, Launch)
        self._driver = driver
        launch, self._packed = node.launch, PackedLaunch(node)
        self.what = f"the kernel `{launch.kernel.name}`"
        arguments = ctypes.addressof(self._packed.pointers)
        grid, block = (launch.blocks, 1, 1), (launch.threads, 1, 1)
        sizes = [ctypes.c_uint(n) for n in (*grid, *block, _NO_MORE_SHARED)]
        self._kernel = ctypes.c_void_p(function), *sizes
        self._in_stream = *self._kernel, ctypes.c_void_p(driver.stream), self._packed.pointers, None
        self._parameters = KernelParameters(function, grid, block, _NO_MORE_SHARED, arguments, None, None, context)
        self._told = ctypes.byref(self._parameters)

    def start(self, bases: Sequence[int], stream: int | None = None) -> None:
        """Start it, in a stream; bases: the addresses of the memories."""
        self._packed.place(bases)
        told = self._in_stream if stream is None else (*self._kernel, stream, self._packed.pointers, None)
        code = self._driver.launch_kernel(*told)
        if code and stream is None:  # else it may be recorded, when nobody may wait for memory
            code = self._driver.again(code, partial(self._driver.launch_kernel, *told))
        if code:
            self._driver.check(code, f"starting {self.what}")

    def add(self, graph: int, after: Any, bases: Sequence[int]) -> int:
        """Make it a node of a graph, behind others; returns the node."""
        self._packed.place(bases)
        node = self._driver.got(ctypes.c_void_p, "cuGraphAddKernelNode", graph, after, len(after), self._told)
        return int(node.value)

    def change(self, ready: Any, node: int, bases: Sequence[int]) -> int:
        """Let a node of a graph have memories that lie elsewhere. Returns the driver's number of a failure, or 0."""
        self._packed.place(bases)
        return self._driver.change_kernel(ready, node, self._told)


class ProductStart:
    """A library's product: in a graph it is what the library does in a stream that is recorded."""

    def __init__(self, driver: GraphDriver, node: LaunchNode) -> None:
        assert isinstance(node.launch, LibraryProduct)
        self._driver = driver
        self._product, self._node = node.launch, node
        self.what = f"`{node.launch.name}` by cuBLAS"

    def _addresses(self, bases: Sequence[int]) -> list[int]:
        return [self._node.begin(slot, bases) for slot in range(len(self._node.places))]

    def start(self, bases: Sequence[int], stream: int | None = None) -> None:
        """As `KernelStart.start`, and so on."""
        stream = self._driver.stream if stream is None else stream
        self._driver.start_product(self._product, self._addresses(bases), stream)

    def add(self, graph: int, after: Any, bases: Sequence[int]) -> int:
        part = self._driver.recorded_product(self._product, self._addresses(bases), self._node.lane)
        with self._driver.kept_if_well("cuGraphDestroy", part):
            node = self._driver.got(ctypes.c_void_p, "cuGraphAddChildGraphNode", graph, after, len(after), part)
        self._driver.do("cuGraphDestroy", part)  # the node has a copy
        return int(node.value)

    def change(self, ready: Any, node: int, bases: Sequence[int]) -> int:
        return self._driver.change_product(ready, node, self._product, self._addresses(bases), self._node.lane)


Start = KernelStart | ProductStart
