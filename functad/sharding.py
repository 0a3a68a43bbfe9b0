"""What JAX keeps in `jax.sharding`: arrays lie on one device as a whole, and all layouts say so.

Knows names only.
"""

from typing import TYPE_CHECKING

from functad.absent import absent
from functad.api.meshes import Mesh, get_abstract_mesh, get_mesh, set_mesh
from functad.layouts import (
    AbstractMesh,
    AxisType,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
)

__all__ = [
    "AbstractMesh",
    "AxisType",
    "Mesh",
    "NamedSharding",
    "PartitionSpec",
    "Sharding",
    "SingleDeviceSharding",
    "get_abstract_mesh",
    "get_mesh",
    "set_mesh",
]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
