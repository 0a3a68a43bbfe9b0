"""Where programs written for JAX register the rules of their primitives: `ad`, `batching`, `mlir`; and `partial_eval`.

Knows names only.

Args:
    size, aval: the size of an axis, and the type of an array.
    primitive, jvprules, transpose_rule: a primitive, and its rules.
    x, y: arrays of one type.
    bdim: which axis is mapped, or None.
    fun: a function, or a wrapped one.
    in_avals: the types of its arguments.

Shapes:
    Types of arrays tell them; primitives and their rules take arrays of the shapes that their own rules allow.

Raises:
    ArgumentError: a rule of functad's own is to be replaced.
    ShapeError: an array has no such axis.
"""

from typing import TYPE_CHECKING

from functad.absent import absent

if TYPE_CHECKING:
    from functad.interpreters import ad as ad
    from functad.interpreters import batching as batching
    from functad.interpreters import mlir as mlir
    from functad.interpreters import partial_eval as partial_eval

__all__ = ["ad", "batching", "mlir", "partial_eval"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__, __all__)


def __dir__() -> list[str]:
    return __all__
