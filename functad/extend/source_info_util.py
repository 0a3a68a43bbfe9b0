"""Which frames are none of the user's, under the name that `jax.extend.source_info_util` gives it.

Knows names only.
"""

from typing import TYPE_CHECKING

from functad.absent import absent
from functad.user_source import register_exclusion

__all__ = ["register_exclusion"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
