"""functad's logger, which is imported when there is something to log.

Knows Python's `logging` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from functad.system.once import imported

if TYPE_CHECKING:
    import logging


def logger() -> logging.Logger:
    """The logger named `functad`."""
    found: logging.Logger = imported("logging").getLogger("functad")
    return found
