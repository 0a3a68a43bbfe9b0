"""Arrays in a device's memory, and where arrays lie: which device a computation runs on, and who was put where.

Knows what the memory of a device is asked for; no driver, no primitives, and no transform.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import numpy as np

from functad.array import Array, ArrayImpl, KeyArray, donated_error
from functad.config import config
from functad.dtypes import key_fry, plain_dtype
from functad.errors import DeviceError
from functad.ir import Aval
from functad.layouts import CPU, Device, device_named
from functad.records import NamedTuple
from functad.tree_util import tree_leaves


class HeldMemory(Protocol):
    """Elements in a device's memory. `host()` copies them, read-only, and waits until the device has them.

    committed: whether they lie there on purpose. `again()` is the same memory for another Array. `ends(n)` has the
    first n + 1 and the last n indices of each axis that is longer, and all of others.
    """

    device: Any
    shape: tuple[int, ...]
    dtype: np.dtype
    committed: bool

    def host(self) -> np.ndarray: ...
    def ends(self, count: int) -> np.ndarray: ...
    def copy(self) -> HeldMemory: ...
    def again(self) -> HeldMemory: ...


class DeviceArray(ArrayImpl):
    """A concrete array whose elements lie in a device's memory; who asks for them gets a copy in the host's."""

    __slots__ = ()
    shape, dtype, ndim, size = Array.shape, Array.dtype, Array.ndim, Array.size

    # The slot `_value` holds the memory, so that an Array can be donated as any other.
    @property
    def _value(self) -> np.ndarray:  # type: ignore[override]
        return memory_of(self).host()

    @property
    def aval(self) -> Aval:  # type: ignore[override]
        assert self._aval is not None
        return self._aval

    def __copy__(self) -> DeviceArray:
        return on_device(memory_of(self).copy(), self.aval)

    def _printed(self) -> tuple[np.ndarray, dict[str, Any]]:
        options = np.get_printoptions()
        if not self.ndim or self.size <= options["threshold"]:
            return self._value, {}
        return memory_of(self).ends(options["edgeitems"]), {"threshold": 0}

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """What CuPy, Numba and PyTorch read of an array on a GPU: its address, among others.

        Raises:
            AttributeError: its dtype is none of NumPy's, so others would take its bits for numbers.
        """
        if plain_dtype(self.dtype) is not self.dtype:
            raise AttributeError(
                f"{self._describe()} has no __cuda_array_interface__, which has no name for {self.dtype}: pass it by "
                "DLPack, as torch.from_dlpack(x) does"
            )
        found: dict[str, Any] = memory_of(self).cuda_array_interface()
        return found


class DeviceKeyArray(DeviceArray, KeyArray):
    """Typed random keys in a device's memory."""

    __slots__ = ()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        raise AttributeError(str(self._no_number("an array of another library")))

    def __copy__(self) -> DeviceArray:  # type: ignore[override]
        return DeviceArray.__copy__(self)


_held: Any = ArrayImpl.__dict__["_value"]  # the slot
hold = _held.__set__
_new = object.__new__


def memory_of(x: DeviceArray) -> Any:
    """The memory in which an array lies. Whoever reads it holds this as long: then no donation takes it.

    Raises:
        DonatedArrayError: it was donated, maybe by another thread since the class of the array was looked at.
    """
    held = _held.__get__(x)
    if type(held) is str:
        raise donated_error(held)
    return held


def give_back(x: Any, memory: Any) -> None:
    """Let an array have its memory again if it was donated, or is about to be: its name is in the memory's place."""
    if type(_held.__get__(x)) is str:
        x.__class__ = device_class_for(x.aval)
        hold(x, memory)


def device_class_for(aval: Aval) -> type[DeviceArray]:
    """The class of the Arrays of a type that lie on a device."""
    return DeviceKeyArray if aval.dtype is key_fry else DeviceArray


def on_device(memory: Any, aval: Aval) -> DeviceArray:
    """An Array of elements that lie in a device's memory, and of which nobody else knows."""
    array = _new(device_class_for(aval))
    hold(array, memory)
    array._aval = aval
    array.weak_type = aval.weak_type
    return array


# --- where arrays lie -----------------------------------------------------------------------------------

# The rule is JAX's: arrays are committed to the device on which `device_put` has put them, and so is what is computed
# of them. A computation runs where committed ones lie, which must be one device, and all others follow them there.
# Without any, it runs where one of the others lies on a GPU, else where `jit`, the default device or the default
# backend says, and its results are not committed. The memory of an array on a GPU says whether it is.

# By the `id` of an array that is committed to the CPU: a reference to it, which takes the entry out with it.
committed_to_cpu: dict[int, weakref.ref[Array]] = {}

# The GPUs that were asked for. Without any it makes no difference who has put an array where.
gpus: list[Device] = []


def commit(x: Array) -> Array:
    """Note that a new array was put on purpose where it lies, so that it does not follow others."""
    if isinstance(x, DeviceArray):
        memory_of(x).committed = True
    else:
        key = id(x)
        committed_to_cpu[key] = weakref.ref(x, lambda _: committed_to_cpu.pop(key, None))
    return x


def is_committed(x: Any) -> bool:
    """Whether an array lies where it does on purpose; else it is copied to the device of those that it meets."""
    return memory_of(x).committed if isinstance(x, DeviceArray) else id(x) in committed_to_cpu


def commitments_matter() -> bool:
    """Whether there may be arrays committed to the CPU, and GPUs where they could be used otherwise."""
    return bool(gpus and committed_to_cpu)


def held_on_cpu(values: Sequence[Any]) -> bool:
    """Whether one of these is committed to the CPU, and it matters."""
    return commitments_matter() and any(id(v) in committed_to_cpu for v in values)


def commit_results(tree: Any) -> Any:
    """The results of what ran somewhere because `jit` or something committed to it said so: they are committed, too."""
    for leaf in tree_leaves(tree) if gpus else ():
        if isinstance(leaf, ArrayImpl):
            commit(leaf)
    return tree


def device_of(x: ArrayImpl) -> Device:
    """The device on which a concrete array lies."""
    device: Device = memory_of(x).device if isinstance(x, DeviceArray) else CPU
    return device


def common_device(values: Sequence[Any], names: Callable[[int], str], what: str) -> Device | None:
    """The device to which values of a computation are committed, so that it runs there; else that of one on a GPU.

    None if there is no such value.

    Raises:
        DeviceError: they are committed to different devices.
    """
    found: Device | None = None
    first = 0
    for i, value in enumerate(values):
        if not is_committed(value):
            continue
        device = device_of(value)
        if found is None:
            found, first = device, i
        elif device is not found:
            raise DeviceError(
                f"{what} was given arrays that were put on different devices: {names(first)} lies on {found}, "
                f"{names(i)} on {device}. Move one to where the other is: functad.device_put(x, {_expression(found)}) "
                f"or functad.device_put(x, {_expression(device)})"
            )
    return found or next((device_of(v) for v in values if isinstance(v, DeviceArray)), None)


class DevicePlace(NamedTuple):
    """Where an array lies, and whether on purpose. device: None is wherever it does."""

    device: Device | None
    committed: bool


def device_place_of(x: Any) -> DevicePlace | None:
    """The place of an array on a GPU, or of one that was put on the CPU on purpose; None for all else."""
    if isinstance(x, DeviceArray) or is_committed(x):
        return DevicePlace(device_of(x), is_committed(x))
    return None


def at_place(x: Any, place: DevicePlace | None) -> Any:
    """The same elements at a place; as it is what lies there, was put elsewhere on purpose, or is no concrete array."""
    if place is None or not isinstance(x, ArrayImpl) or is_committed(x):
        return x
    moved = to_device(x, place.device or device_of(x))
    if moved is x:
        return x
    return commit(moved) if place.committed else moved


def beside(x: ArrayImpl, others: Sequence[Any], what: str) -> ArrayImpl:
    """A new array of elements that Python has made of others' where `what` would have put it: on their device.

    Raises:
        DeviceError: they are committed to different devices.
    """
    if not gpus and config.default_device is None:
        return x
    device = common_device(others, lambda i: f"operand {i + 1}", what)
    if device is None:
        made: ArrayImpl = put_by_default(x)
        return made
    moved = to_device(x, device)
    return cast(ArrayImpl, commit(moved)) if any(map(is_committed, others)) else moved


def _expression(device: Device) -> str:
    return f"functad.devices({device.prefix!r})[{device.id}]"


def device_of_new_arrays() -> Device | None:
    """The device on which arrays are made that follow no other; None for the host."""
    chosen = device_named(config.default_device, "default_device")  # the environment may have named it
    return None if chosen is CPU else chosen


# --- operations on them ---------------------------------------------------------------------------------


class DeviceRunner(Protocol):
    """What runs operations on devices."""

    def evaluate(self, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any: ...
    def put(self, x: ArrayImpl, device: Device) -> ArrayImpl: ...


_runner: list[DeviceRunner] = []


def set_device_runner(runner: DeviceRunner) -> None:
    """Let the layers above say how operations run on devices, and how arrays get there."""
    _runner[:] = [runner]


def evaluate_on_device(primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """As `evaluation.evaluate`, of operands of which some lie on a device."""
    return _runner[0].evaluate(primitive, args, params)


def to_device(x: ArrayImpl, device: Device) -> ArrayImpl:
    """The same elements on a device: the array itself if it lies there. It is committed to a GPU if x was committed."""
    return x if device_of(x) is device else _runner[0].put(x, device)


def placed(x: Any, device: Device) -> Any:
    """As `to_device`, of an ndarray or a NumPy number, too."""
    return to_device(x if isinstance(x, ArrayImpl) else ArrayImpl(np.array(x)), device)


def put_on(x: Any, place: Device | DevicePlace | None) -> ArrayImpl:
    """The same elements, of an ndarray, too, at a place: on a device on purpose, if no more is said; None leaves them.

    As it is, or an Array of the same memory, where it lies there.
    """
    array = x if isinstance(x, ArrayImpl) else ArrayImpl(np.array(x))
    if place is None:
        return array
    device, on_purpose = place if isinstance(place, DevicePlace) else (place, True)
    device = device or device_of(array)
    if device_of(array) is not device:
        moved = to_device(array, device)
    elif is_committed(array) is on_purpose:
        return array
    elif isinstance(array, DeviceArray):
        moved = on_device(memory_of(array).again(), array.aval)
    else:
        moved = type(array)(array._value, array.weak_type)
    if isinstance(moved, DeviceArray):
        memory_of(moved).committed = on_purpose
    elif on_purpose:
        commit(moved)
    return moved


def put_by_default(x: Any) -> Any:
    """A new array, or several, on the default device if there is one; what was put elsewhere on purpose stays."""
    device = None if config.default_device is None else device_of_new_arrays()
    if device is None:
        return x
    place = DevicePlace(device, False)
    return [at_place(part, place) for part in x] if isinstance(x, (list, tuple)) else at_place(x, place)
