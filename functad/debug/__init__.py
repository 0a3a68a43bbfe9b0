"""Looking at values: while traced and compiled code runs, under JAX's names, `callback`, `print`, `breakpoint`; and
of each equation, `step`.

Knows public names only.

Args:
    fun, f: a function of pytrees of arrays.
    args, kwargs: what it is called with.
    argnums, has_aux, holomorphic: as in `grad`.
    primals: example arguments, arrays or `ShapeDtypeStruct`s.
    pred, msg, fmt_args, fmt_kwargs: as in `check`.
    axis_shapes, axis_names, axis_types, devices: the axes' sizes, names and types, and what the mesh is made of.
    backend: the kind of device.
    process_index, host_id: have no effect: there is one process.

Shapes:
    Arguments are pytrees of arrays of any shapes; what belongs to a value, such as its tangent, has its shape.

Raises:
    ArgumentError: what should be a function is none.
"""

from typing import TYPE_CHECKING

from functad.absent import absent
from functad.debug.callbacks import callback, print
from functad.debug.prompt import breakpoint
from functad.debug.stepping import step

__all__ = ["breakpoint", "callback", "print", "step"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
