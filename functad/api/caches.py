"""`clear_caches`: all that was traced is forgotten.

Knows where it is kept.

Shapes:
    No arrays are taken or given.

Raises:
    Nothing of its own.
"""

from __future__ import annotations

from functad.api.bodies import known_bodies
from functad.api.checkpointing import known_functions
from functad.api.traced_calls import all_known


def clear_caches() -> None:
    """Forget all Programs that were traced, and what was compiled of them. Files stay: `python -m functad cache clear`.

    >>> import functad
    >>> functad.clear_caches()
    """
    for known in list(all_known):
        known.clear()
    known_bodies.clear()
    known_functions.clear()
