"""JAX's words for layouts over devices, of the one device there is: meshes whose axes have the size 1.

Knows devices; no transform. Programs that say where arrays go run as they stand; nothing is moved.
"""

from __future__ import annotations

import enum
import math
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from functad.api.arguments import as_value
from functad.api.devices import CPU, Device, Sharding, check_device
from functad.errors import ArgumentError, DeviceError
from functad.tree_util import tree_map


class AxisType(enum.Enum):
    """How the layout along an axis of a mesh is decided; on one device it makes no difference."""

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
        return self._partitions.index(value)

    def count(self, value: Any) -> int:
        return self._partitions.count(value)

    def __add__(self, other: Any) -> PartitionSpec:
        return PartitionSpec(*self, *other)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (PartitionSpec, tuple)) and self._partitions == tuple(other)

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


class Mesh(AbstractMesh):
    """The one device with names for axes of size 1; as a context, the mesh of the `PartitionSpec`s within.

    Args:
        devices: an array, or nested lists, of the one device, with an axis for each name.
        axis_names: the names.

    Raises:
        DeviceError: there are other devices. ArgumentError: there are more or fewer names than axes.

    >>> import functad
    >>> Mesh(functad.devices(), "data")
    Mesh('data': 1, axis_types=(Auto,))
    """

    def __init__(self, devices: Any, axis_names: Any, axis_types: Any = None) -> None:
        held = np.array(devices, dtype=object)
        check_device(list(held.flat), "Mesh")
        super().__init__(held.shape, axis_names if isinstance(axis_names, (tuple, list)) else (axis_names,), axis_types)

    @property
    def devices(self) -> Any:
        return np.full(self.axis_sizes, CPU, dtype=object)

    @property
    def local_devices(self) -> list[Device]:
        return [CPU] * self.size

    @property
    def local_mesh(self) -> Mesh:
        return self

    def __enter__(self) -> Mesh:
        _state.meshes = (*_state.meshes, self)
        return self

    def __exit__(self, *exc: Any) -> None:
        _state.meshes = _state.meshes[:-1]


class _State(threading.local):
    meshes: tuple[Mesh, ...] = ()


_state = _State()
_EMPTY = AbstractMesh((), ())


@contextmanager
def set_mesh(mesh: Mesh) -> Iterator[Mesh]:
    """A context in which a mesh is that of all `PartitionSpec`s.

    >>> import functad
    >>> with set_mesh(make_mesh((1,), ("data",))):
    ...     functad.lax.with_sharding_constraint(2., PartitionSpec())
    Array(2., dtype=float32, weak_type=True)
    """
    with mesh:
        yield mesh


def get_mesh() -> Any:
    """The mesh of the context; an empty one without."""
    return _state.meshes[-1] if _state.meshes else _EMPTY


def get_abstract_mesh() -> AbstractMesh:
    """The axes of the mesh of the context; none without.

    >>> get_abstract_mesh().empty
    True
    """
    return _state.meshes[-1].abstract_mesh if _state.meshes else _EMPTY


def make_mesh(
    axis_shapes: Sequence[int], axis_names: Sequence[Any], axis_types: Any = None, *, devices: Any = None
) -> Mesh:
    """A mesh of the one device: all sizes must be 1.

    Raises:
        DeviceError: they are not.

    >>> make_mesh((1, 1), ("x", "y")).size
    1
    """
    if math.prod(axis_shapes) != 1:
        raise DeviceError(
            f"make_mesh: a mesh of shape {tuple(axis_shapes)} needs {math.prod(axis_shapes)} devices, but there is "
            "one, the CPU, whose cores functad.jit uses: make all sizes 1"
        )
    return Mesh(np.full(tuple(axis_shapes), CPU, dtype=object), tuple(axis_names), axis_types)


class NamedSharding(Sharding):
    """A layout by the names of a mesh's axes; as these have size 1, the whole array on the one device.

    Raises:
        ArgumentError: the spec names an axis that the mesh has not, or one twice.

    >>> NamedSharding(make_mesh((1,), ("data",)), PartitionSpec("data")).shard_shape((4,))
    (4,)
    """

    def __init__(self, mesh: AbstractMesh, spec: PartitionSpec, *, memory_kind: str | None = None) -> None:
        self.mesh = mesh
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

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedSharding) and (self.mesh, self.spec) == (other.mesh, other.spec)

    def __hash__(self) -> int:
        return hash((self.mesh, self.spec))

    def __repr__(self) -> str:
        return f"NamedSharding(mesh={self.mesh}, spec={self.spec}, memory_kind={self.memory_kind})"


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """x: it lies on the one device, however it is laid out.

    Args:
        x: a pytree of arrays.
        shardings: a sharding, a device, or within a mesh a `PartitionSpec`; or a pytree of these.

    Raises:
        DeviceError: it names another device, or there is no mesh for a `PartitionSpec`.

    >>> import functad, functad.numpy as jnp
    >>> functad.lax.with_sharding_constraint(jnp.ones(2), functad.devices()[0])
    Array([1., 1.], dtype=float32)
    """

    def on_the_device(wanted: Any) -> None:
        if isinstance(wanted, PartitionSpec) and not _state.meshes:
            raise DeviceError(
                f"with_sharding_constraint: {wanted} names axes of a mesh, but there is none here: use "
                "functad.set_mesh(mesh), or give a NamedSharding(mesh, spec)"
            )
        check_device(NamedSharding(get_mesh(), wanted) if isinstance(wanted, PartitionSpec) else wanted, "a sharding")

    tree_map(on_the_device, shardings)
    return tree_map(lambda leaf: as_value(leaf, lambda: "a leaf given to with_sharding_constraint"), x)
