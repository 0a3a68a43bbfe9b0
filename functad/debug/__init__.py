"""Looking at values while traced and compiled code runs, under JAX's names: `callback`, `print`, `breakpoint`.

Knows public names only.
"""

from functad.absent import absent
from functad.debug.callbacks import callback, print
from functad.debug.prompt import breakpoint

__all__ = ["breakpoint", "callback", "print"]

__getattr__ = absent(__name__)
