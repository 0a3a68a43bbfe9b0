"""Where arrays are told to lie: devices, meshes of one of them, and what puts arrays there.

Knows pytrees of arrays; no transform. Programs that say where arrays go run as they stand; nothing is moved in them.

Args:
    axis_shapes, axis_names, axis_types, devices: the axes' sizes, names and types, and what the mesh is made of.

Shapes:
    Arrays keep theirs.

Raises:
    DeviceError: there is no device of that kind.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from functad.api.arguments import as_value
from functad.array import Array, ArrayImpl
from functad.device_arrays import (
    DeviceArray,
    commit,
    device_of,
    memory_of,
    on_device,
    put_by_default,
    put_on,
)
from functad.errors import AbsentNameError, ArgumentError, DeviceError
from functad.layouts import (
    CPU,
    NO_MESH,
    AbstractMesh,
    Device,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
    check_device,
    device_named,
    devices_named,
)
from functad.primitives.barrier import put_traced, source_of
from functad.tracing import Tracer, runs_at_once
from functad.tree_util import broadcast_prefix, tree_flatten, tree_unflatten


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
        found = {d for wanted in held.flat for d in devices_named(wanted, "Mesh")[:1]}
        if len(found) > 1:
            raise DeviceError(f"Mesh: {devices} are several devices, but an array lies on one: give a mesh for each")
        super().__init__(held.shape, axis_names if isinstance(axis_names, (tuple, list)) else (axis_names,), axis_types)
        self.device = found.pop() if found else CPU

    @property
    def devices(self) -> Any:
        return np.full(self.axis_sizes, self.device, dtype=object)

    @property
    def local_devices(self) -> list[Device]:
        return [self.device] * self.size

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
    """The mesh of the context; an empty one without.

    >>> get_mesh().empty
    True
    """
    return _state.meshes[-1] if _state.meshes else NO_MESH


def get_abstract_mesh() -> AbstractMesh:
    """The axes of the mesh of the context; none without.

    >>> get_abstract_mesh().empty
    True
    """
    return _state.meshes[-1].abstract_mesh if _state.meshes else NO_MESH


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


# --- arrays and their layouts -----------------------------------------------------------------------


def device_put(
    x: Any, device: Any = None, *, src: Any = None, donate: bool = False, may_alias: bool | None = None
) -> Any:
    """A pytree with an `Array` for every array-like leaf.

    Args:
        x: a pytree of arrays and numbers.
        device: a device, its name, or a sharding on one; or a pytree of these, which reaches less deep than x. None
            leaves arrays where they are, and puts all else on the default device.
        src, donate, may_alias: accepted for JAX's sake.

    Returns:
        Arrays whose `sharding` is that given. They stay on their device, and so does what is computed of them; their
        gradients are put where the arrays of x lie. Within a jitted function, a loop or a branch nothing moves.

    Raises:
        DeviceError: there is no such device. TreeError: the pytrees do not fit. ArgumentError: a sharding has more
            axes than its array.

    >>> import functad, numpy as np
    >>> functad.device_put({"a": np.ones(2)})
    {'a': Array([1., 1.], dtype=float64)}
    """
    leaves, tree = tree_flatten(x)
    values = [as_value(leaf, lambda: "a leaf given to device_put") for leaf in leaves]
    layouts = layouts_of("device_put", "device", device, x, [v.shape for v in values])
    return tree_unflatten(tree, list(map(_laid_out, values, layouts)))


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """x: it lies on the one device, however it is laid out.

    Args:
        x: a pytree of arrays.
        shardings: a sharding, a device, or within a mesh a `PartitionSpec`; or a pytree of these.

    Raises:
        DeviceError: it names another device, or there is no mesh for a `PartitionSpec`. TreeError: the pytrees do not
            fit. ArgumentError: a sharding has more axes than its array.

    >>> import functad, functad.numpy as jnp
    >>> functad.lax.with_sharding_constraint(jnp.ones(2), functad.devices()[0])
    Array([1., 1.], dtype=float32)
    """
    leaves, tree = tree_flatten(x)
    values = [as_value(leaf, lambda: "a leaf given to with_sharding_constraint") for leaf in leaves]
    layouts = layouts_of("with_sharding_constraint", "shardings", shardings, x, [v.shape for v in values])
    return tree_unflatten(tree, list(map(_laid_out, values, layouts)))


def layouts_of(
    where: str, argument: str, wanted: Any, tree: Any, shapes: Sequence[tuple[int, ...]]
) -> list[Sharding | None]:
    """For each leaf of a tree the layout that is wanted of it, None where none is; all are checked."""
    found = broadcast_prefix(wanted, tree, lambda x: x is None, name=argument, full_name="the tree of arrays")
    return [_checked(f"{argument} of {where}", one, shape) for one, shape in zip(found, shapes)]


def check_devices(where: str, argument: str, wanted: Any) -> None:
    """Raise where layouts name other devices; a `PartitionSpec` gets its mesh where it meets its array."""
    named = [one for one in tree_flatten(wanted)[0] if not isinstance(one, PartitionSpec)]
    check_device(named, f"{argument} of {where}")


def _checked(where: str, wanted: Any, shape: tuple[int, ...]) -> Sharding | None:
    if isinstance(wanted, PartitionSpec):
        if not _state.meshes:
            raise DeviceError(
                f"{where}: {wanted} names axes of a mesh, but there is none here: use functad.set_mesh(mesh), or give "
                "a NamedSharding(mesh, spec)"
            )
        wanted = NamedSharding(get_mesh(), wanted)
    if isinstance(wanted, Sharding):
        try:
            wanted.check_compatible_aval(shape)
        except ArgumentError as problem:
            raise ArgumentError(f"{where}: {problem}") from None
        return wanted
    device = device_named(wanted, where)
    return None if device is None else SingleDeviceSharding(device)


# By the `id` of a concrete array: a reference to it, which takes the entry out with the array, and its layout.
_layouts: dict[int, tuple[weakref.ref[Array], Sharding]] = {}


def _laid_out(x: Any, layout: Sharding | None) -> Any:
    """An Array whose `sharding` is that layout: of the same memory, if it lies on that device; None leaves it."""
    if layout is None:
        return put_by_default(x)
    if isinstance(x, Tracer) or not runs_at_once():
        x = x if source_of(x) is layout.device else put_traced(x, layout.device)
        if isinstance(x, Tracer):
            return x
    x = put_on(x, layout.device)
    if layout == sharding_of(x):
        return x
    array = on_device(memory_of(x), x.aval) if isinstance(x, DeviceArray) else commit(type(x)(x._value, x.weak_type))
    key = id(array)
    _layouts[key] = weakref.ref(array, lambda _: _layouts.pop(key, None)), layout
    return array


def sharding_of(x: Array) -> Sharding:
    """The layout that a concrete array was given, or that of one device.

    Raises:
        AbsentNameError: the array is traced.
    """
    if not isinstance(x, ArrayImpl):
        raise AbsentNameError(
            f"{x._describe()} has no `sharding`: what is traced lies nowhere yet; functad.typeof(x).sharding is that "
            "of its type",
            name="sharding",
            obj=x,
        )
    known = _layouts.get(id(x))
    return SingleDeviceSharding(device_of(x)) if known is None else known[1]
