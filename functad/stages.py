"""The stages of compiling under the names that `jax.stages` gives their classes.

Knows names only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from functad.absent import absent
from functad.api.arguments import ShapeDtypeStruct
from functad.api.compilation import JitFunction
from functad.api.stages import Compiled, Lowered, Traced

Wrapped = JitFunction
ArgInfo = ShapeDtypeStruct
CompilerOptions = dict[str, str | bool]

__all__ = ["ArgInfo", "Compiled", "CompilerOptions", "Lowered", "Traced", "Wrapped"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
