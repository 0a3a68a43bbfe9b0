"""Looking at values: while traced and compiled code runs, under JAX's names, `callback`, `print`, `breakpoint`; and
of each equation, `step`.

Knows public names only.

Shapes:
    Arguments are pytrees of arrays of any shapes; what belongs to a value, such as its tangent, has its shape.

Raises:
    ArgumentError: what should be a function is none.
"""

from typing import TYPE_CHECKING

from functad.absent import absent
from functad.system.later import elsewhere

if TYPE_CHECKING:
    from functad.debug.callbacks import callback, log, print
    from functad.debug.prompt import breakpoint
    from functad.debug.stepping import step

__all__ = ["breakpoint", "callback", "log", "print", "step"]

if not TYPE_CHECKING:
    _PLACES = {
        "functad.debug.callbacks": ["callback", "log", "print"],
        "functad.debug.prompt": ["breakpoint"],
        "functad.debug.stepping": ["step"],
    }
    __getattr__ = absent(__name__, found=elsewhere(__name__, _PLACES))


def __dir__() -> list[str]:
    return __all__
