"""Where programs written for JAX register the rules of their primitives: `ad`, `batching`, `mlir`; and `partial_eval`.

Knows names only.
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
