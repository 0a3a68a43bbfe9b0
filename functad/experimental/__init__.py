"""`functad.experimental`: what JAX keeps under this name; errors as values, differential equations, callbacks.

Knows the names of its parts, which load at first use.

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
    ArgumentError: a message does not fit its arguments.
    DTypeError: what is checked is no boolean of shape ().
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from functad.absent import absent
from functad.api.callbacks import io_callback

if TYPE_CHECKING:
    from functad.experimental import checkify as checkify
    from functad.experimental import ode as ode

__all__ = ["checkify", "io_callback", "ode"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__, ("checkify", "ode"))


def __dir__() -> list[str]:
    return __all__
