"""The intrinsic that asks whether the kernel shall stop, as it runs in plain Python: there Python stops it.

This file must not know who asks, nor what makes a call stop.
"""

from __future__ import annotations

from typing import Any


def interrupted(token: Any) -> bool:
    """Whether the kernel shall return, because its results are not wanted any more. `token`: its cancellation token."""
    return False
