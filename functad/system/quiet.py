"""NumPy without a word about overflow, division by zero and invalid operations.

Knows NumPy's settings only.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from functools import partial
from typing import Any

import numpy as np

# NumPy keeps these settings in a context variable. To run a function in a copy of a context takes a twentieth of the
# time of `np.errstate`; a copy, because a signal handler may come here while another function runs.
_QUIET = Context()
_QUIET.run(partial(np.seterr, all="ignore"))


def quietly(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What the function returns; it sees no other context variables."""
    return _QUIET.copy().run(function, *args, **kwargs)
