"""How things look: pages of HTML, charts and pictures as SVG and PNG, in light and dark.

Knows Programs and values; nothing of training or of the command line.

Shapes:
    Arrays keep theirs.

Raises:
    Nothing of its own.
"""

from typing import TYPE_CHECKING, Any

from functad.absent import absent
from functad.system.once import imported

if TYPE_CHECKING:
    from functad.views.graph import Graph as Graph
    from functad.views.trees import tree as tree

_PLACES = {"Graph": "functad.views.graph", "tree": "functad.views.trees"}

__all__ = ["Graph", "tree"]


def _found(name: str) -> Any:
    """A public name, whose module is imported when it is asked for."""
    return getattr(imported(_PLACES[name]), name) if name in _PLACES else None


if not TYPE_CHECKING:
    __getattr__ = absent(__name__, (), _found)


def __dir__() -> list[str]:
    return __all__
