"""A Program as one equation: `jit`, `checkpoint`, rules of the user's own, linear solves, closed calls.

Their rules are the transforms of that Program.
"""

from typing import TYPE_CHECKING

from functad.system.later import later

if not TYPE_CHECKING:
    __getattr__ = later(__name__, ["printed_compounds"])
