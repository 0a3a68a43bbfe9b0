"""Where arrays live: JAX's names for devices, and for moving and awaiting arrays. There is one device, the CPU.

Knows pytrees of arrays; no transform.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.api.arguments import as_value
from functad.array import KeyArray
from functad.errors import DeviceError
from functad.tracing import Tracer
from functad.tree_util import tree_leaves, tree_map


class Device:
    """The device that arrays live on: the CPU, with all its cores."""

    platform = "cpu"
    device_kind = "cpu"
    id = 0
    local_hardware_id = 0
    process_index = 0
    host_id = 0

    def memory_stats(self) -> None:
        """None: the memory is that of the machine."""

    def __repr__(self) -> str:
        return "CpuDevice(id=0)"

    def __str__(self) -> str:
        return "cpu:0"


CPU = Device()


class Sharding:
    """How an array is laid out over devices: as a whole on the one there is, whatever its kind."""

    memory_kind = "device"
    num_devices = 1
    is_fully_addressable = True
    is_fully_replicated = True

    @property
    def device_set(self) -> set[Device]:
        return {CPU}

    addressable_devices = device_set

    def shard_shape(self, global_shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(global_shape)

    def is_equivalent_to(self, other: Any, ndim: int) -> bool:
        return isinstance(other, Sharding)


class SingleDeviceSharding(Sharding):
    """An array that lies on one device as a whole, as all do."""

    def __init__(self, device: Device = CPU, *, memory_kind: str | None = None) -> None:
        check_device(device, "SingleDeviceSharding")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SingleDeviceSharding)

    def __hash__(self) -> int:
        return hash(SingleDeviceSharding)

    def __repr__(self) -> str:
        return "SingleDeviceSharding(device=CpuDevice(id=0))"


def check_device(wanted: Any, where: str) -> None:
    """Raise unless all that is wanted is the one device there is.

    wanted: None, a device, its name, a sharding on it, or a pytree of these.

    Raises:
        DeviceError: something else.
    """
    for one in tree_leaves(wanted):
        if isinstance(one, (Device, Sharding)) or (isinstance(one, str) and one.lower() in _NAMES):
            continue
        raise DeviceError(
            f"{where}: {one!r:.80} is no device of functad, which has one, the CPU. Leave it out; functad.jit uses all "
            "cores, and functad.vmap maps over examples"
        )


_NAMES = ("", "cpu", "cpu:0", "device")


def devices(backend: Any = None) -> list[Device]:
    """The devices that arrays can live on.

    Args:
        backend: a kind of device; None or "cpu".

    Raises:
        DeviceError: there is no device of that kind.

    >>> import functad
    >>> functad.devices()[0].platform
    'cpu'
    """
    check_device(backend, "devices")
    return [CPU]


def local_devices(process_index: int | None = None, backend: Any = None, host_id: int | None = None) -> list[Device]:
    """The devices of this process: those of `devices`."""
    return devices(backend)


def device_count(backend: Any = None) -> int:
    """The number of devices: 1."""
    return len(devices(backend))


def local_device_count(backend: Any = None) -> int:
    """The number of devices of this process: 1."""
    return len(devices(backend))


def process_index(backend: Any = None) -> int:
    """The number of this process: 0."""
    return 0


def process_count(backend: Any = None) -> int:
    """The number of processes that compute together: 1."""
    return 1


def process_indices(backend: Any = None) -> list[int]:
    """The numbers of the processes that compute together: [0]."""
    return [0]


def default_backend() -> str:
    """The kind of device that computes: `"cpu"`."""
    return "cpu"


def device_put(
    x: Any, device: Any = None, *, src: Any = None, donate: bool = False, may_alias: bool | None = None
) -> Any:
    """A pytree with an `Array` for every array-like leaf.

    Args:
        x: a pytree of arrays and numbers.
        device: the CPU, or a sharding on it. src, donate, may_alias: accepted for JAX's sake.

    Raises:
        DeviceError: another device.

    >>> import functad, numpy as np
    >>> functad.device_put({"a": np.ones(2)})
    {'a': Array([1., 1.], dtype=float64)}
    """
    check_device(device, "device_put")
    return tree_map(lambda leaf: as_value(leaf, lambda: "a leaf given to device_put"), x)


def device_get(x: Any) -> Any:
    """A pytree with a NumPy array for every `Array`; nothing is copied, so they are read-only. Typed keys and
    traced values stay.

    >>> import functad, functad.numpy as jnp
    >>> functad.device_get(jnp.ones(2))
    array([1., 1.], dtype=float32)
    """
    return tree_map(lambda leaf: leaf if isinstance(leaf, (KeyArray, Tracer)) else np.asarray(leaf), x)


def block_until_ready(x: Any) -> Any:
    """x: computations are finished when they return.

    >>> import functad
    >>> functad.block_until_ready(3)
    3
    """
    return x


def effects_barrier() -> None:
    """Wait for callbacks: they are finished when the call that made them returns."""
