"""NumPy without a word about overflow, division by zero and invalid operations.

Knows NumPy's settings only.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from functools import partial
from typing import Any

import numpy as np

QUIET = Context()
"""The context in which NumPy, which keeps these settings in a context variable, says nothing.

`quiet_copy().run(function, ...)` takes a twentieth of the time of `np.errstate`: a copy, because a signal handler may
come here while another function runs. The function sees no other context variables.
"""
QUIET.run(partial(np.seterr, all="ignore"))

quiet_copy = QUIET.copy


def quietly(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What the function returns, run in that context."""
    return quiet_copy().run(function, *args, **kwargs)
