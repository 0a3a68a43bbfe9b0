"""Transforms: Program → Program, each by running rules over a recording and recording the result.

Knows primitives through their rules only; the user-facing signatures are in `functad.api`. A program without calls, and
one whose gradients are all compiled, needs but some of the files: others name the rest without importing it.
"""

from typing import TYPE_CHECKING

from functad.system.later import later

if not TYPE_CHECKING:
    __getattr__ = later(__name__, ["backward", "programs"])
