"""Loops and branches as equations: `scan_p`, `while_p`, `cond_p`, and how each transform acts on them.

Knows the Program → Program transforms and the interpreter; nothing of pytrees. Functions of NumPy's that have loops
within name what binds them without importing it: most programs call none of them.
"""

from typing import TYPE_CHECKING

from functad.system.later import later

if not TYPE_CHECKING:
    __getattr__ = later(__name__, ["forwarding"])
