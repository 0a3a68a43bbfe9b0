"""Loops and branches as equations: `scan_p`, `while_p`, `cond_p`, and how each transform acts on them.

Knows the Program → Program transforms and the interpreter; nothing of pytrees.
"""

from functad.control.conditional import cond_p
from functad.control.scan import scan_p
from functad.control.while_loop import while_p

__all__ = ["cond_p", "scan_p", "while_p"]
