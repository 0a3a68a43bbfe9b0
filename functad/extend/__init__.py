"""What extends functad from outside: primitives of one's own, under the names that `jax.extend` gives them.

Knows names only.
"""

from typing import TYPE_CHECKING

from functad.absent import absent

if TYPE_CHECKING:
    from functad.extend import core as core
    from functad.extend import linear_util as linear_util
    from functad.extend import source_info_util as source_info_util

__all__ = ["core", "linear_util", "source_info_util"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__, __all__)


def __dir__() -> list[str]:
    return __all__
