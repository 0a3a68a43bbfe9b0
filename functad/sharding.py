"""What JAX keeps in `jax.sharding`: arrays lie on one device as a whole; other layouts say what to use instead.

Knows names only.
"""

from typing import TYPE_CHECKING

from functad.absent import absent
from functad.api.devices import Sharding, SingleDeviceSharding

__all__ = ["Sharding", "SingleDeviceSharding"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
