"""How things look: pages of HTML, charts and pictures as SVG and PNG, in light and dark.

Knows Programs and values; nothing of training or of the command line.

Shapes:
    Arrays keep theirs.

Raises:
    Nothing of its own.
"""

from typing import TYPE_CHECKING

from functad.absent import absent
from functad.system.later import elsewhere

if TYPE_CHECKING:
    from functad.views.graph import Graph as Graph
    from functad.views.trees import tree as tree

__all__ = ["Graph", "tree"]


if not TYPE_CHECKING:
    _PLACES = {"functad.views.graph": ["Graph"], "functad.views.trees": ["tree"]}
    __getattr__ = absent(__name__, found=elsewhere(__name__, _PLACES))


def __dir__() -> list[str]:
    return __all__
