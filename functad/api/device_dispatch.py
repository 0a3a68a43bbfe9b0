"""The short way from a jitted function's arguments to kernels on a device; that to the CPU is `dispatch`'s.

Knows Arrays on devices and what an executable takes of them; tracing is left to `compilation`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functad.api.dispatch import MISS, Arguments, CallText, FastCall, Results, interned, make_call
from functad.array import consume, value_of
from functad.config import config
from functad.device_arrays import (
    DeviceArray,
    DeviceKeyArray,
    commit_results,
    common_device,
    device_class_for,
    device_of_new_arrays,
    give_back,
    held_on_cpu,
    hold,
    is_committed,
    memory_of,
    placed,
    to_device,
)
from functad.ir import Aval
from functad.layouts import CPU, Device, device_named
from functad.records import NamedTuple
from functad.tracing import is_tracer


def place_of_call(
    values: Sequence[Any],
    consts: Sequence[Any],
    describe: Callable[[int], Callable[[], str]],
    function: str,
    backend: str | None,
    device: Device | None,
) -> Device | None:
    """The device on which a jitted function runs; None for the host, or where a call is recorded.

    values, consts: its arguments, which `describe` names, and what it closes over. backend, device: as given to `jit`.
    Where arrays are committed decides, as `common_device` says; then what `jit` was given, then the defaults.

    Raises:
        DeviceError: the values lie on different devices, or on another one than that given.
    """

    def name(i: int) -> str:
        return describe(i)() if i < len(values) else "an array that it closes over"

    concrete = [*values, *consts]
    if any(map(is_tracer, concrete)) and not any(isinstance(v, DeviceArray) for v in concrete):
        return None
    if device is not None:  # arguments are copied there, as in JAX
        return None if device is CPU else device
    found = common_device(concrete, name, function)
    if found is not None:
        return None if found is CPU else found
    chosen = device_of_new_arrays()
    if backend is None and chosen is not None:
        return chosen
    return device_named("cuda", function) if (backend or config.default_backend) == "cuda" else None


def backend_of(place: Device | None, backend: str | None) -> str | None:
    """What compiles for where a function runs, as `place_of_call` says; backend: as given to `jit`.

    What runs on the CPU although GPUs are the default is compiled for the CPU.
    """
    if place is not None:
        return place.backend
    return "cpu" if backend is None and config.default_backend == "cuda" else backend


class CallPlace(NamedTuple):
    """Where a call runs.

    device: as `place_of_call` says. held: whether it is the CPU because values, or `jit`, are committed to it, so that
    results are, too. given: whether `jit` was told, so that it does not matter where arguments lie.
    """

    device: Device | None
    held: bool
    given: bool

    @property
    def comes_again(self) -> bool:
        """Whether a short way may be tried for any call: it looks whether values are committed, where that matters."""
        return self.given or not self.held

    def moved(self, values: Sequence[Any]) -> list[Any]:
        """The values, with those that lie on GPUs moved to where the call runs."""
        return [to_device(v, self.device or CPU) if isinstance(v, DeviceArray) else v for v in values]


def call_place(values: Sequence[Any], consts: Sequence[Any], place: Device | None, device: Device | None) -> CallPlace:
    """Where a call runs, of which `place_of_call` has said `place`; device: as given to `jit`."""
    held = place is None and (device is CPU or held_on_cpu([*values, *consts]))
    return CallPlace(place, held, device is not None)


def make_call_at(
    place: CallPlace, name: str, arguments: Arguments, consts: Sequence[Any], executable: Any, results: Results
) -> FastCall:
    """A function of `(args, kwargs)` as `dispatch.make_call` makes it, for an executable that runs at a place.

    Leaves whose class in `arguments` is that of Arrays on a device must lie on it; others are copied there. Where
    arrays are committed to the CPU, and that may not be so, it returns `MISS`: the long way knows what to do.
    """
    followed = None if place.given or place.held else consts
    if place.device is not None:
        constants = [memory_of(placed(c, place.device)) for c in consts]
        text = _DeviceCallText(place.device, commits=place.given or any(map(is_committed, consts)))
        text.read_arguments(arguments)
        text.leave_if_held(followed)
        text.enter_on_device(arguments, constants, executable, results)
        text.read_leaves(arguments)
        text.run(arguments, constants, executable)
        text.build(results)
        return text.compiled(name)
    call = make_call(name, arguments, [value_of(c) for c in consts], executable, results, followed)
    return _holding_results(call) if place.held else call


def _holding_results(call: FastCall) -> FastCall:
    def held_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = call(args, kwargs)
        return result if result is MISS else commit_results(result)

    return held_call


class _DeviceCallText(CallText):
    """commits: whether results are committed to the device, wherever the arguments are; else if one of these is."""

    def __init__(self, device: Device, commits: bool) -> None:
        super().__init__()
        self.commits = commits
        self.held: list[str] = []  # the memory of arguments on the device
        self.objects |= {
            "DeviceArray": DeviceArray, "DeviceKeyArray": DeviceKeyArray, "memory_of": memory_of, "hold": hold,
            "memory_of_type": _memory_of_type, "consume": consume, "give_back": give_back, "D": device,
        }  # fmt: skip

    def enter_on_device(
        self, arguments: Arguments, constants: Sequence[Any], executable: Any, results: Results
    ) -> None:
        """Hand over the leaves as they are, if all lie on the device."""
        if all(issubclass(kind, DeviceArray) for kind in arguments.classes):
            leaves, computed = ([interned(aval) for aval in side.avals] for side in (arguments, results))
            make = executable.placed(self.objects["D"]).direct_call
            self.answer_directly(make(constants, leaves, arguments.donated, computed, self.commits), results)

    def read_leaf(self, i: int, leaf: str, aval: Aval, kind: type) -> None:
        if not issubclass(kind, DeviceArray):
            super().read_leaf(i, leaf, aval, kind)
            return
        self.objects[f"a{i}"] = aval
        own = device_class_for(aval).__name__
        self.classes.append(own)
        self.held.append(f"v{i}")
        self.add(
            f"v{i} = memory_of({leaf}) if type({leaf}) is {own} and {leaf}._aval is a{i} "
            f"else memory_of_type({leaf}, a{i})",
            f"if v{i} is None or v{i}.device is not D: return MISS",
        )

    def run(self, arguments: Arguments, constants: Sequence[Any], executable: Any) -> None:
        donated = [
            (i, name)
            for i, (name, kind) in enumerate(zip(arguments.donated, arguments.classes))
            if name is not None and issubclass(kind, DeviceArray)
        ]
        if not self.commits:  # the memory of what is donated may be a result's afterwards
            self.add(f"committed = {' or '.join(f'{v}.committed' for v in self.held) or False}")
        placed = executable.placed(self.objects["D"])
        self.objects |= {"gather": placed.gather, "launch": placed.launch}
        given = [self.object(c) for c in constants] + [f"v{i}" for i in range(len(self.leaves))]
        self.add("try:")
        # First the Arrays let go, so that no other thread comes by their memory any more; those that have it already
        # are counted then. What belongs to this call alone may be overwritten, unless another library knows it.
        for i, name in donated:
            leaf = self.leaves[i]
            self.add(f"    if type({leaf}) is {self.classes[i]}: consume({leaf}, {self.object(name)})")
        for i, _ in donated:
            self.add(f"    if getrefcount(v{i}) >= SOLE_OWNER or v{i}.block.shared: v{i} = v{i}.copy()")
        self.add(f"    values = gather([{', '.join(given)}])", "except BaseException:")  # so nothing was started
        for i, _ in donated:
            self.add(f"    give_back({self.leaves[i]}, v{i})")
        self.add("    raise", "values = launch(*values)")

    def build(self, results: Results) -> None:
        if results.avals and not self.commits:
            self.add("if not committed:", "    for value in values: value.committed = False")
        for k, aval in enumerate(results.avals):
            a = self.objects[f"b{k}"] = interned(aval)
            self.add(
                f"y{k} = new({device_class_for(a).__name__}); hold(y{k}, values[{k}])",
                f"y{k}._aval = b{k}; y{k}.weak_type = {a.weak_type}",
            )
        leaves = iter([f"y{k}" for k in range(len(results.avals))])
        self.add(f"return {self.tree(results.out_tree, leaves)}")


def _memory_of_type(leaf: Any, aval: Aval) -> Any:
    """The memory of a leaf of that type; None for anything else."""
    if not isinstance(leaf, DeviceArray) or leaf.aval != aval:
        return None
    leaf._aval = aval  # the next call finds the same object
    return memory_of(leaf)
