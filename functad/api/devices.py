"""JAX's names for asking after devices, and for awaiting arrays.

Knows pytrees of arrays; no transform.

Args:
    backend: the kind of device.
    process_index, host_id: have no effect: there is one process.

Shapes:
    Arrays keep theirs.

Raises:
    DeviceError: there is no device of that kind.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.array import ArrayImpl, KeyArray
from functad.config import config
from functad.device_arrays import DeviceArray, device_of, device_of_new_arrays
from functad.layouts import Device, devices_named
from functad.tracing import Tracer
from functad.tree_util import tree_leaves, tree_map


def devices(backend: Any = None) -> list[Device]:
    """The devices that arrays can live on.

    Args:
        backend: a kind of device, "cpu", or "cuda" (or "gpu") for NVIDIA's GPUs; by default that of the default device.

    Raises:
        DeviceError: there is no device of that kind; it says what is missing.

    >>> import functad
    >>> functad.devices()
    [CpuDevice(id=0)]
    >>> functad.devices()[0].platform, functad.devices("cpu")[0].device_kind
    ('cpu', 'cpu')
    """
    return devices_named(_default_name() if backend is None else backend, "devices")


def local_devices(process_index: int | None = None, backend: Any = None, host_id: int | None = None) -> list[Device]:
    """The devices of this process: those of `devices`.

    >>> len(local_devices())
    1
    """
    return devices(backend)


def device_count(backend: Any = None) -> int:
    """The number of devices of a kind: 1 of the CPU.

    >>> device_count()
    1
    """
    return len(devices(backend))


def local_device_count(backend: Any = None) -> int:
    """The number of devices of this process: those of `devices`.

    >>> local_device_count()
    1
    """
    return len(devices(backend))


def process_index(backend: Any = None) -> int:
    """The number of this process: 0.

    >>> process_index()
    0
    """
    return 0


def process_count(backend: Any = None) -> int:
    """The number of processes that compute together: 1.

    >>> process_count()
    1
    """
    return 1


def process_indices(backend: Any = None) -> list[int]:
    """The numbers of the processes that compute together: [0].

    >>> process_indices()
    [0]
    """
    return [0]


host_count, host_id, host_ids = process_count, process_index, process_indices  # what they were called first


def default_backend() -> str:
    """The kind of device that computes by default: `"cpu"`, or `"gpu"`.

    >>> default_backend()
    'cpu'
    """
    return devices()[0].platform


def _default_name() -> str:
    device = device_of_new_arrays()
    if device is not None:
        return device.prefix
    return "cuda" if config.default_backend == "cuda" else "cpu"


def device_get(x: Any) -> Any:
    """A pytree with a NumPy array for every `Array`, read-only; only what lies on a GPU is copied. Typed keys and
    traced values stay.

    >>> import functad, functad.numpy as jnp
    >>> functad.device_get(jnp.ones(2))
    array([1., 1.], dtype=float32)
    """
    return tree_map(lambda leaf: leaf if isinstance(leaf, (KeyArray, Tracer)) else np.asarray(leaf), x)


def block_until_ready(x: Any) -> Any:
    """x, when all is computed that it holds: on the CPU computations are finished when they return, on a GPU not.

    >>> import functad
    >>> functad.block_until_ready(3)
    3
    """
    if type(x) is ArrayImpl:  # no subclass: memory of the host
        return x
    for device in {device_of(leaf) for leaf in tree_leaves(x) if isinstance(leaf, DeviceArray)}:
        device.synchronize()  # type: ignore[attr-defined]
    return x


def effects_barrier() -> None:
    """Wait for callbacks: they are finished when the call that made them returns.

    >>> effects_barrier()
    """


def copy_to_host_async(x: Any) -> Any:
    """The pytree itself: who asks an array for its elements has them, and is not kept waiting on a CPU.

    >>> copy_to_host_async((1, 2))
    (1, 2)
    """
    return x
