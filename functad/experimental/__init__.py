"""`functad.experimental`: what JAX keeps under this name; errors as values, differential equations, callbacks.

Knows the names of its parts, which load at first use.

Args:
    pred, msg, fmt_args, fmt_kwargs: as in `check`.

Shapes:
    Arguments are pytrees of arrays of any shapes; what belongs to a value, such as its tangent, has its shape.

Raises:
    ArgumentError: a message does not fit its arguments.
    DTypeError: what is checked is no boolean of shape ().
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from functad.absent import absent
from functad.api.callbacks import io_callback

if TYPE_CHECKING:
    from functad.experimental import checkify as checkify
    from functad.experimental import ode as ode

__all__ = ["checkify", "io_callback", "ode"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__, ("checkify", "ode"))


def __dir__() -> list[str]:
    return __all__
