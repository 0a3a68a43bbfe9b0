"""JAX's names for asking after devices, and for awaiting arrays. There is one device, the CPU.

Knows pytrees of arrays; no transform.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.array import KeyArray
from functad.layouts import CPU, Device, check_device
from functad.tracing import Tracer
from functad.tree_util import tree_map


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
    """The devices of this process: those of `devices`.

    >>> len(local_devices())
    1
    """
    return devices(backend)


def device_count(backend: Any = None) -> int:
    """The number of devices: 1.

    >>> device_count()
    1
    """
    return len(devices(backend))


def local_device_count(backend: Any = None) -> int:
    """The number of devices of this process: 1.

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


def default_backend() -> str:
    """The kind of device that computes: `"cpu"`.

    >>> default_backend()
    'cpu'
    """
    return "cpu"


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
    """Wait for callbacks: they are finished when the call that made them returns.

    >>> effects_barrier()
    """
