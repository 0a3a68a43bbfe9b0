"""What extends functad from outside: primitives of one's own, under the names that `jax.extend` gives them.

Knows names only.
"""

from typing import TYPE_CHECKING

from functad.absent import absent

if TYPE_CHECKING:
    from functad.extend import core as core

__all__ = ["core"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__, __all__)
