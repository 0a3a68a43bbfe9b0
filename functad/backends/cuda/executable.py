"""The CUDA backend: `compile_program(program) -> executable`, on arrays that lie on a device or are copied there.

Knows where the memory of a call comes from; `lowering` writes kernels, `launches` says how each starts, `running`
starts them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter

import numpy as np

from functad import machine_model
from functad.backends.cpu import report
from functad.backends.cpu.runtime.direct import DirectCall
from functad.backends.cuda.launches import ProgramLaunches, ptx_of
from functad.backends.cuda.lowering import CudaLowering
from functad.backends.cuda.runtime.device import CudaDevice, cuda_devices
from functad.backends.cuda.runtime.direct import DeviceCallTypes, bind_on_device
from functad.backends.cuda.runtime.memory import DeviceMemory, described
from functad.backends.cuda.runtime.pool import PoolBlock, Request, request
from functad.backends.cuda.runtime.profiling import profile_of
from functad.backends.cuda.runtime.running import (
    Base,
    CallLayout,
    DeviceRun,
    Stretch,
    in_stretches,
)
from functad.backends.walking import Address
from functad.errors import ArgumentError, DeviceError, DeviceFaultError, TooLargeError
from functad.ir import Aval, Program
from functad.lowering.memory.buffers import Buffer
from functad.system.once import once

CallValue = np.ndarray | DeviceMemory


def compile_program(
    program: Program, donated: Sequence[bool] = (), optimized: Callable[[Program], Program] = lambda program: program
) -> CudaExecutable:
    """The executable of a Program.

    Raises:
        DeviceError: there is neither a GPU that can be used nor the simulator.
    """
    cuda_devices()
    return CudaExecutable(optimized(program), donated)


class CudaExecutable(CudaLowering):
    """A compiled Program. On which device it runs, each call says.

    Called with ndarrays, it copies them to the first device, and results back; `on_device` takes and gives arrays that
    lie on one.
    """

    def __init__(self, program: Program, donated: Sequence[bool] = ()) -> None:
        super().__init__(program, donated)
        self.donated = tuple(donated) or (False,) * len(program.invars)
        self._placed: dict[int, PlacedExecutable] = {}

    def __call__(self, args: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [np.array(result.host()) for result in self.on_device(args, cuda_devices()[0])]

    def on_device(self, args: Sequence[CallValue], device: CudaDevice) -> list[DeviceMemory]:
        """The results, on the device. Arguments that lie in the host's memory are copied there.

        Those marked as donated belong to the results afterwards, so nobody else may hold their memory.
        """
        return self.placed(device).run(args)

    def profile_on(self, args: Sequence[CallValue], device: CudaDevice) -> report.Profile:
        """The least time of each kernel, by events of the device, beside what its bytes take at least."""
        return self.placed(device).profile(args)

    def ptx_on(self, device: CudaDevice) -> dict[str, str]:
        """The PTX of each kernel for a device, by name."""
        return ptx_of(self.placed(device).launches, device.driver.ptx)

    def placed(self, device: CudaDevice) -> PlacedExecutable:
        known = self._placed.get(device.id)
        return known or once(
            (self, device.id),
            lambda: self._placed.get(device.id),
            lambda: self._placed.setdefault(device.id, PlacedExecutable(self, device)),
        )


class PlacedExecutable:
    """An executable on one device: its constants lie there, and its launches are ready.

    launches: of each instruction, those in loops and branches, too.
    """

    def __init__(self, executable: CudaExecutable, device: CudaDevice) -> None:
        self._executable = executable
        self._device = device
        self._name = executable.program.name or "a function"
        launches = ProgramLaunches(executable, device.core_count, lambda: device.driver.blas is not None)
        values = [*executable.schedule.values, *(np.zeros(b.shape, b.dtype) for b in executable.generated.tickets)]
        constants = [device.put(np.asarray(value), f"a constant of {self._name}") for value in values]
        self._constants = [constant.block for constant in constants]
        self._requests: list[Request] = []  # of memory for results and temporaries
        self._layout = self._laid_out()
        stretch = partial(Stretch, device, self._name, self._layout, launches.of)
        self.plan = in_stretches(executable.generated.instructions, stretch)
        self.launches = launches.all()
        self._read_plan()

    def _laid_out(self) -> CallLayout:
        """Where storages lie among the pieces of memory of a call: arguments, results, temporaries, constants."""
        schedule, memory_plan = self._executable.schedule, self._executable.memory_plan
        places = {buffer.storage: Address(Base(n)) for n, buffer in enumerate(schedule.inputs)}
        count = len(schedule.inputs)
        for buffer in schedule.outputs:
            storage = buffer.storage
            if storage.kind == "output" and storage not in places:
                places[storage] = Address(Base(count + len(self._requests)))
                what = described(buffer.shape, buffer.dtype)
                self._requests.append(request(storage.nbytes, what, f"a result of {self._name}"))
        if memory_plan.arena_bytes:
            arena = Base(count + len(self._requests))
            self._requests.append(request(memory_plan.arena_bytes, "temporaries", f"of {self._name}"))
            places.update((storage, Address(arena, offset)) for storage, offset in memory_plan.offsets.items())
        count += len(self._requests)
        constants = [*schedule.constants, *self._executable.generated.tickets]
        for n, (buffer, block) in enumerate(zip(constants, self._constants), count):
            places[buffer.storage] = Address(Base(n, block.address))
        return places

    def _read_plan(self) -> None:
        """What a call of a Program without loops and calls of Python needs to know of it."""
        places = dict(self._layout)
        for part in self.plan:
            places.update(part.moves if isinstance(part, Stretch) else ())
        outputs = self._executable.schedule.outputs
        memories = [buffer.storage.memory for buffer in outputs]
        parts = [part for part in self.plan if isinstance(part, Stretch)]
        whole = parts[0] if len(parts) == len(self.plan) == 1 else None
        self._stretch = whole if whole and not any(base.pointer for base in whole.bases) else None
        self._given: list[int | None] = [None] * len(outputs)  # the arguments that become results
        self._made: list[tuple[int, tuple[int, ...], np.dtype]] = []
        self._starts_at_addresses = False  # or of blocks
        self._kept: list[int] = []  # the address of temporaries that all calls have
        if self._stretch is None:
            return
        self._bases = _chosen([base.number for base in self._stretch.bases])
        for k, (buffer, memory) in enumerate(zip(outputs, memories)):
            number = places[memory].memory.number
            if self._is_given(number, buffer):
                self._given[k] = number
            else:
                self._made.append((number, buffer.shape, buffer.dtype))
        self._starts_at_addresses = all(number >= len(self._executable.schedule.inputs) for number, _, _ in self._made)
        # Launches of several calls come one after the other, where nothing of Python stands between those of one.
        if 0 < self._executable.memory_plan.arena_bytes <= machine_model.CUDA_KEPT_ARENA:
            self._constants += self._device.pool.take_all([self._requests.pop()])
            self._kept = [self._constants[-1].address]

    def _is_given(self, number: int, result: Buffer) -> bool:
        """Whether a result in the memory of that number is all that is left of a donated argument, of its type."""
        donated, inputs = self._executable.donated, self._executable.schedule.inputs
        if number >= len(inputs) or not donated[number]:
            return False
        return inputs[number].shape == result.shape and inputs[number].dtype == result.dtype

    def run(self, args: Sequence[CallValue]) -> list[DeviceMemory]:
        """The results; arguments that lie in the host's memory are copied to the device.

        A donated argument's memory is the result's that takes its place.
        """
        return self.launch(*self.gather(args))

    def gather(self, args: Sequence[CallValue]) -> tuple[list[DeviceMemory], list[PoolBlock]]:
        """The memories of the arguments, on the device, and those of results and temporaries. Nothing is started.

        Raises:
            TooLargeError: there is no memory left.
        """
        return self._memories(args), self._device.pool.take_all(self._requests)

    def launch(self, memories: Sequence[DeviceMemory], fresh: Sequence[PoolBlock]) -> list[DeviceMemory]:
        """The results of what was gathered."""
        made = iter(self._started([memory.block for memory in memories], fresh))
        results = []
        for number in self._given:
            if number is None:
                memory = next(made)
            else:
                memory = memories[number]
                memory.kept, memory.committed = None, True
            results.append(memory)
        return results

    def direct_call(
        self,
        constants: Sequence[DeviceMemory],
        leaves: Sequence[Aval],
        donated: Sequence[str | None],
        results: Sequence[Aval],
        commits: bool,
    ) -> DirectCall | None:
        """A function of the leaves of a call themselves, as `bind_on_device` describes it; constants come before."""
        given = [None if number is None else number - len(constants) for number in self._given]
        types = DeviceCallTypes(leaves, donated, results, given, commits)
        wanted, start = ("address", self.start_at) if self._starts_at_addresses else ("block", self.start)
        if not constants:
            return bind_on_device(start, wanted, self._device, types)
        known = [getattr(constant, wanted) for constant in constants]
        return bind_on_device(lambda others: start([*known, *others]), wanted, self._device, types)

    def start(self, blocks: Sequence[PoolBlock]) -> list[DeviceMemory] | None:
        """Start it on arguments that lie on the device. Returns the results that are none of these.

        None where there is no memory for them, or the driver cannot tell: then nothing was started.
        """
        try:
            fresh = self._device.pool.take_all(self._requests)
        except (TooLargeError, DeviceError, DeviceFaultError):  # the long way raises it, and takes no argument
            return None
        return self._started(blocks, fresh)

    def _started(self, blocks: Sequence[PoolBlock], fresh: Sequence[PoolBlock]) -> list[DeviceMemory]:
        blocks = [*blocks, *fresh]
        if self._stretch is None:
            return self._run_in_parts([*blocks, *self._constants])
        self._stretch.start(self._addresses(blocks))
        return self._results(blocks, 0)

    def start_at(self, addresses: list[int]) -> list[DeviceMemory] | None:
        """As `start`, where all that is new is the results that it returns. The list is the call's own."""
        try:
            blocks = self._device.pool.take_all(self._requests)
        except (TooLargeError, DeviceError, DeviceFaultError):
            return None
        first = len(addresses)
        for block in blocks:
            addresses.append(block.address)
        addresses += self._kept
        self._stretch.start(self._bases(addresses))  # type: ignore[union-attr]
        return self._results(blocks, first)

    def _results(self, blocks: Sequence[PoolBlock], first: int) -> list[DeviceMemory]:
        """The results that are no argument's Arrays; first: the number of the first block."""
        results = []
        for number, shape, dtype in self._made:  # what DeviceMemory(...) does, without the call
            memory = _new(DeviceMemory)
            block = memory.block = blocks[number - first]
            memory.address, memory.device, memory.shape, memory.dtype = block.address, self._device, shape, dtype
            memory.kept, memory.committed = None, True
            results.append(memory)
        return results

    def _memories(self, args: Sequence[CallValue]) -> list[DeviceMemory]:
        put, what = self._device.put, f"an argument of {self._name}"
        return [value if isinstance(value, DeviceMemory) else put(value, what) for value in args]

    def _addresses(self, blocks: Sequence[PoolBlock]) -> tuple[int, ...]:
        """Where the bases of the stretch begin."""
        return self._bases([block.address for block in blocks] + self._kept)

    def _run_in_parts(self, blocks: Sequence[PoolBlock]) -> list[DeviceMemory]:
        run = DeviceRun(self._device, self._name, blocks, self._layout)
        run.run(self.plan)
        outputs = self._executable.schedule.outputs
        places = [run.places[buffer.storage.memory] for buffer in outputs]
        return [DeviceMemory(self._device, p.memory, b.shape, b.dtype) for p, b in zip(places, outputs)]

    # --- looking at it ----------------------------------------------------------------------------------

    def profile(self, args: Sequence[CallValue]) -> report.Profile:
        stretch = self._stretch
        if stretch is None or not stretch.is_row:
            raise ArgumentError(
                "a profile takes kernels that run once, in a row: this function has loops, branches or calls of "
                "Python, so profile what they contain"
            )
        donated = self._executable.donated
        memories = self._memories([a.copy() if d and isinstance(a, DeviceMemory) else a for a, d in zip(args, donated)])
        blocks = [*[memory.block for memory in memories], *self._device.pool.take_all(self._requests)]
        return profile_of(self._device, stretch, self._addresses(blocks))


_new = object.__new__


def _chosen(numbers: Sequence[int]) -> Callable[[Sequence[int]], tuple[int, ...]]:
    """A function of a sequence that gives its items of these numbers."""
    if len(numbers) > 1:
        return itemgetter(*numbers)  # a tuple
    return lambda items: tuple([items[number] for number in numbers])
