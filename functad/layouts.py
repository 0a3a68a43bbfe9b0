"""Where arrays lie, in JAX's words: devices, meshes whose axes have the size 1, and layouts over them.

Knows values that describe; no array. All layouts are that of the whole array on one device: the CPU, or a GPU.
"""

from __future__ import annotations

import enum
import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from functad.config import values_by
from functad.errors import ArgumentError, DeviceError
from functad.tree_util import tree_leaves


class Device:
    """A device that arrays live on: the CPU, with all its cores, or a GPU.

    platform: "cpu" or "gpu". id: its number among those of its kind. device_kind: what it is. backend: what compiles
    for it, None for what is configured.

    >>> import functad
    >>> device = functad.devices()[0]
    >>> device.platform, device.id
    ('cpu', 0)
    """

    backend: str | None = None
    prefix = "cpu"
    process_index = 0
    host_id = 0

    def __init__(self, platform: str, number: int, device_kind: str) -> None:
        self.platform = platform
        self.id = number
        self.device_kind = device_kind

    @property
    def local_hardware_id(self) -> int:
        return self.id

    def memory_stats(self) -> dict[str, int] | None:
        """None: the memory is that of the machine."""
        return None

    def __repr__(self) -> str:
        return f"{self.prefix.capitalize()}Device(id={self.id})"

    def __str__(self) -> str:
        return f"{self.prefix}:{self.id}"

    def __reduce__(self) -> Any:
        return (device_named, (str(self), "unpickling"))


CPU = Device("cpu", 0, "cpu")


def add_platform(names: Sequence[str], find: Callable[[], Sequence[Device]]) -> None:
    """Let devices have names such as "cuda" and "cuda:1"; `find` is called when one is asked for."""
    _platforms.update(dict.fromkeys(names, find))


_platforms: dict[str, Callable[[], Sequence[Device]]] = dict.fromkeys(("", "cpu", "device"), lambda: [CPU])


def devices_named(wanted: Any, where: str) -> list[Device]:
    """The devices that something names: all of a platform, or one.

    wanted: None for the CPU, a device, the name of a platform or a device, or a sharding.

    Raises:
        DeviceError: there is no such device.
    """
    if wanted is None:
        return [CPU]
    if isinstance(wanted, Device):
        return [wanted]
    if isinstance(wanted, Sharding):
        return list(wanted.device_set)
    platform, colon, number = wanted.lower().partition(":") if isinstance(wanted, str) else ("?", "", "")
    if platform not in _platforms:
        raise DeviceError(
            f'{where}: {wanted!r:.80} is no device of functad, which has the CPU and NVIDIA\'s GPUs, "cuda". Leave it '
            "out for the CPU: functad.jit uses all cores, and functad.vmap maps over examples"
        )
    found = list(_platforms[platform]())
    chosen = [d for d in found if str(d.id) == number] if colon else found
    if not chosen:
        raise DeviceError(f"{where}: there is no device {wanted!r}; there are {', '.join(map(str, found))}")
    return chosen


def device_named(wanted: Any, where: str) -> Device | None:
    """The one device that something names, the first of a platform; None for None.

    Raises:
        DeviceError: there is no such device.
    """
    return None if wanted is None else devices_named(wanted, where)[0]


class Sharding:
    """How an array is laid out over devices: as a whole on one, whatever its kind.

    >>> import functad, functad.numpy as jnp
    >>> layout = jnp.ones(3).sharding
    >>> isinstance(layout, functad.sharding.Sharding), layout.is_fully_replicated
    (True, True)
    """

    memory_kind = "device"
    num_devices = 1
    is_fully_addressable = True
    is_fully_replicated = True
    device = CPU

    @property
    def device_set(self) -> set[Device]:
        return {self.device}

    @property
    def addressable_devices(self) -> set[Device]:
        return self.device_set

    def shard_shape(self, global_shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of what lies on one device, of an array of that shape."""
        return tuple(global_shape)

    def is_equivalent_to(self, other: Any, ndim: int) -> bool:
        """Whether arrays of so many axes lie the same in both."""
        return isinstance(other, Sharding) and other.device is self.device

    def check_compatible_aval(self, aval_shape: tuple[int, ...]) -> None:
        """Raise ArgumentError where no array of that shape can be laid out so."""


class SingleDeviceSharding(Sharding):
    """An array that lies on one device as a whole, as all do.

    >>> import functad, functad.numpy as jnp
    >>> isinstance(jnp.ones(3).sharding, functad.sharding.SingleDeviceSharding)
    True
    """

    def __init__(self, device: Device = CPU, *, memory_kind: str | None = None) -> None:
        self.device = devices_named(device, "SingleDeviceSharding")[0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SingleDeviceSharding) and other.device is self.device

    def __hash__(self) -> int:
        return hash((SingleDeviceSharding, self.device))

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self.device!r}, memory_kind={self.memory_kind})"


values_by["default_device"] = lambda wanted: device_named(wanted, "default_device")


def check_device(wanted: Any, where: str) -> None:
    """Raise unless all that is wanted are devices there are.

    wanted: None, a device, its name, a sharding on it, or a pytree of these.

    Raises:
        DeviceError: something else.
    """
    for one in tree_leaves(wanted):
        devices_named(one, where)


class AxisType(enum.Enum):
    """How the layout along an axis of a mesh is decided; on one device it makes no difference.

    >>> import functad
    >>> functad.make_mesh((1,), ("i",), axis_types=(functad.sharding.AxisType.Auto,)).axis_types
    (Auto,)
    """

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()

    def __repr__(self) -> str:
        return self.name


class _Unconstrained:
    """What `PartitionSpec.UNCONSTRAINED` is: an axis whose layout nobody asks for."""

    def __repr__(self) -> str:
        return "UNCONSTRAINED"


class PartitionSpec:
    """Along which axes of a mesh the axes of an array are laid out: a name, several, or None for each of them.

    >>> PartitionSpec("data", None, ("x", "y"))
    P('data', None, ('x', 'y'))
    """

    UNCONSTRAINED = _Unconstrained()
    __slots__ = ("_partitions",)

    def __init__(self, *partitions: Any) -> None:
        self._partitions = tuple(_unpacked(tuple(p) if isinstance(p, list) else p) for p in partitions)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._partitions)

    def __len__(self) -> int:
        return len(self._partitions)

    def __getitem__(self, index: Any) -> Any:
        return self._partitions[index]

    def index(self, value: Any) -> int:
        """Of which axis this is the part."""
        return self._partitions.index(value)

    def count(self, value: Any) -> int:
        """Of how many axes this is the part."""
        return self._partitions.count(value)

    def __add__(self, other: Any) -> PartitionSpec:
        return PartitionSpec(*self, *other)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionSpec) and self._partitions == other._partitions

    def __hash__(self) -> int:
        return hash(self._partitions)

    def __repr__(self) -> str:
        return f"P{self._partitions}"


def _unpacked(partition: Any) -> Any:
    """One axis in a tuple is that axis."""
    return partition[0] if isinstance(partition, tuple) and len(partition) == 1 else partition


class AbstractMesh:
    """Names and sizes of the axes of a mesh, without devices.

    >>> AbstractMesh((1, 1), ("x", "y")).shape["y"], AbstractMesh((), ()).empty
    (1, True)
    """

    def __init__(self, axis_sizes: Sequence[int], axis_names: Sequence[Any], axis_types: Any = None) -> None:
        self.axis_names = tuple(axis_names)
        self.axis_sizes = tuple(axis_sizes)
        if len(self.axis_names) != len(self.axis_sizes):
            raise ArgumentError(
                f"a mesh of sizes {self.axis_sizes} needs a name for each axis, got {self.axis_names}: give as many "
                "names as sizes"
            )
        types = axis_types if isinstance(axis_types, (tuple, list)) else [axis_types] * len(self.axis_names)
        self.axis_types = tuple(AxisType.Auto if t is None else t for t in types)

    @property
    def shape(self) -> OrderedDict[Any, int]:
        return OrderedDict(zip(self.axis_names, self.axis_sizes))

    @property
    def shape_tuple(self) -> tuple[tuple[Any, int], ...]:
        return tuple(self.shape.items())

    @property
    def size(self) -> int:
        return math.prod(self.axis_sizes)

    @property
    def empty(self) -> bool:
        return not self.axis_names

    @property
    def abstract_mesh(self) -> AbstractMesh:
        return AbstractMesh(self.axis_sizes, self.axis_names, self.axis_types)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), self.axis_names, self.axis_sizes))

    def __repr__(self) -> str:
        sizes = "".join(f"{name!r}: {size}, " for name, size in self.shape.items())
        return f"{type(self).__name__}({sizes or '(), '}axis_types={self.axis_types})"


class NamedSharding(Sharding):
    """A layout by the names of a mesh's axes; as these have size 1, the whole array on the one device.

    Raises:
        ArgumentError: the spec names an axis that the mesh has not, or one twice.

    >>> NamedSharding(AbstractMesh((1,), ("data",)), PartitionSpec("data")).shard_shape((4,))
    (4,)
    """

    def __init__(self, mesh: AbstractMesh, spec: PartitionSpec, *, memory_kind: str | None = None) -> None:
        self.mesh = mesh
        self.device = getattr(mesh, "device", CPU)
        self.spec = spec if isinstance(spec, PartitionSpec) else PartitionSpec(*spec)
        names = [n for p in self.spec for n in (p if isinstance(p, tuple) else (p,))]
        unknown = [n for n in names if n not in (None, PartitionSpec.UNCONSTRAINED, *mesh.axis_names)]
        if unknown:
            raise ArgumentError(
                f"NamedSharding: {self.spec} names {unknown}, but the axes of the mesh are {mesh.axis_names}"
            )
        twice = sorted({str(n) for n in names if n in mesh.axis_names and names.count(n) > 1})
        if twice:
            raise ArgumentError(
                f"NamedSharding: {self.spec} names {twice} more than once: lay one axis of the array out along each"
            )

    def update(self, **changes: Any) -> NamedSharding:
        """The same with another `mesh`, `spec` or `memory_kind`.

        >>> NamedSharding(AbstractMesh((1,), ("data",)), PartitionSpec("data", None)).update(spec=("data",)).spec
        P('data',)
        """
        kept: dict[str, Any] = {"mesh": self.mesh, "spec": self.spec, "memory_kind": self.memory_kind}
        return NamedSharding(**kept | changes)

    def check_compatible_aval(self, aval_shape: tuple[int, ...]) -> None:
        if len(self.spec) > len(aval_shape):
            raise ArgumentError(
                f"{self} is only valid for values of rank at least {len(self.spec)}, but was applied to a value of "
                f"rank {len(aval_shape)}" + ("" if aval_shape else ": for scalars the spec is PartitionSpec()")
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedSharding) and (self.mesh, self.spec) == (other.mesh, other.spec)

    def __hash__(self) -> int:
        return hash((self.mesh, self.spec))

    def __repr__(self) -> str:
        kind = "" if type(self.mesh) is AbstractMesh else f", memory_kind={self.memory_kind}"
        return f"NamedSharding(mesh={self.mesh}, spec={self.spec}{kind})"


NO_MESH = AbstractMesh((), ())


def layout_of_rank(ndim: int) -> NamedSharding:
    """The layout of an array that nobody has laid out: along no axis of no mesh.

    >>> layout_of_rank(2).spec
    P(None, None)
    """
    return NamedSharding(NO_MESH, PartitionSpec(*(None,) * ndim))
