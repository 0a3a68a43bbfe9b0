"""What extends functad from outside: primitives of one's own, under the names that `jax.extend` gives them, and more.

Knows names only.

Args:
    size, axis, aval: the size of an axis, which one it is, and the type of an array.
    aux1, aux2: what the function without results and that with results tell.
    gen, rest: a generator function, and its first arguments.
    fun, f: a function, or a wrapped one.
    params, debug_info: what is told with it.

Shapes:
    Types of arrays tell them; primitives and their rules take arrays of the shapes that their own rules allow.

Raises:
    ArgumentError: a Program is called with more or fewer arguments than it takes.
    DTypeError: there is no such dtype.
"""

from typing import TYPE_CHECKING, Any

from functad.absent import absent
from functad.system.once import imported

if TYPE_CHECKING:
    from functad.extend import core as core
    from functad.extend import linear_util as linear_util
    from functad.extend import source_info_util as source_info_util
    from functad.extend.checking import check_primitive as check_primitive
    from functad.extend.registering import register_backend as register_backend
    from functad.extend.registering import register_pass as register_pass
    from functad.extend.registering import register_rule as register_rule
    from functad.lowering_rules import Indexed as Indexed
    from functad.lowering_rules import Loops as Loops
    from functad.lowering_rules import Reduction as Reduction
    from functad.lowering_rules import Running as Running
    from functad.lowering_rules import Scalar as Scalar
    from functad.lowering_rules import Scattered as Scattered
    from functad.lowering_rules import UpdateLoops as UpdateLoops

_PLACES = {
    "Indexed": "functad.lowering_rules",
    "Loops": "functad.lowering_rules",
    "Reduction": "functad.lowering_rules",
    "Running": "functad.lowering_rules",
    "Scalar": "functad.lowering_rules",
    "Scattered": "functad.lowering_rules",
    "UpdateLoops": "functad.lowering_rules",
    "check_primitive": "functad.extend.checking",
    "register_backend": "functad.extend.registering",
    "register_pass": "functad.extend.registering",
    "register_rule": "functad.extend.registering",
}

__all__ = ["core", "linear_util", "source_info_util", *_PLACES]


def _placed(name: str) -> Any:
    return getattr(imported(_PLACES[name]), name) if name in _PLACES else None


if not TYPE_CHECKING:
    __getattr__ = absent(__name__, ("core", "linear_util", "source_info_util"), _placed)


def __dir__() -> list[str]:
    return __all__
