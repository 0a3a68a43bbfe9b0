"""The transforms as users call them, with JAX's signatures.

Knows pytrees, argument numbers and static arguments; the work is done by the layers below.

Args:
    fun, f: a function of pytrees of arrays.
    args, kwargs: what it is called with.
    argnums, has_aux, holomorphic: as in `grad`.
    primals: example arguments, arrays or `ShapeDtypeStruct`s.
    axis_shapes, axis_names, axis_types, devices: the axes' sizes, names and types, and what the mesh is made of.
    backend: the kind of device.
    process_index, host_id: have no effect: there is one process.

Shapes:
    Arguments are pytrees of arrays of any shapes; what belongs to a value, such as its tangent, has its shape.

Raises:
    ArgumentError: what should be a function is none, or an option has a value that is not taken.
    DTypeError: a leaf of an argument is no array.
    TreeError: structures that should be the same are not.
"""

from typing import TYPE_CHECKING

from functad.absent import absent
from functad.api.arguments import ShapeDtypeStruct
from functad.api.autodiff import (
    grad,
    jvp,
    linear_transpose,
    linearize,
    value_and_grad,
    vjp,
)
from functad.api.compilation import jit
from functad.api.devices import (
    block_until_ready,
    copy_to_host_async,
    default_backend,
    device_count,
    device_get,
    devices,
    effects_barrier,
    host_count,
    host_id,
    host_ids,
    local_device_count,
    local_devices,
    process_count,
    process_index,
    process_indices,
)
from functad.api.inspection import (
    closure_convert,
    eval_jaxpr,
    eval_shape,
    explain,
    graph,
    make_jaxpr,
    named_call,
    parse_program,
)
from functad.api.meshes import device_put
from functad.layouts import Device
from functad.system.later import elsewhere
from functad.user_source import named_scope

if TYPE_CHECKING:
    from functad.api.caches import clear_caches
    from functad.api.callbacks import io_callback, pure_callback
    from functad.api.checkpointing import checkpoint, remat
    from functad.api.custom_rules import custom_gradient, custom_jvp, custom_vjp
    from functad.api.environment import live_arrays, print_environment_info
    from functad.api.forward_backward import fwd_and_bwd
    from functad.api.implicit import custom_linear_solve, custom_root
    from functad.api.jacobians import hessian, jacfwd, jacobian, jacrev
    from functad.api.mapping import vmap
    from functad.api.residuals import print_saved_residuals, saved_residuals

__all__ = [
    "Device",
    "ShapeDtypeStruct",
    "block_until_ready",
    "checkpoint",
    "clear_caches",
    "closure_convert",
    "copy_to_host_async",
    "custom_gradient",
    "custom_jvp",
    "custom_linear_solve",
    "custom_root",
    "custom_vjp",
    "default_backend",
    "device_count",
    "device_get",
    "device_put",
    "devices",
    "effects_barrier",
    "eval_jaxpr",
    "eval_shape",
    "explain",
    "fwd_and_bwd",
    "grad",
    "graph",
    "hessian",
    "host_count",
    "host_id",
    "host_ids",
    "io_callback",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "jvp",
    "linear_transpose",
    "linearize",
    "live_arrays",
    "local_device_count",
    "local_devices",
    "make_jaxpr",
    "named_call",
    "named_scope",
    "parse_program",
    "print_environment_info",
    "print_saved_residuals",
    "process_count",
    "process_index",
    "process_indices",
    "pure_callback",
    "remat",
    "saved_residuals",
    "value_and_grad",
    "vjp",
    "vmap",
]

if not TYPE_CHECKING:
    _PLACES = {
        "functad.api.caches": ["clear_caches"],
        "functad.api.callbacks": ["io_callback", "pure_callback"],
        "functad.api.checkpointing": ["checkpoint", "remat"],
        "functad.api.custom_rules": ["custom_gradient", "custom_jvp", "custom_vjp"],
        "functad.api.environment": ["live_arrays", "print_environment_info"],
        "functad.api.forward_backward": ["fwd_and_bwd"],
        "functad.api.implicit": ["custom_linear_solve", "custom_root"],
        "functad.api.jacobians": ["hessian", "jacfwd", "jacobian", "jacrev"],
        "functad.api.mapping": ["vmap"],
        "functad.api.residuals": ["print_saved_residuals", "saved_residuals"],
    }
    __getattr__ = absent(__name__, found=elsewhere(__name__, _PLACES))


def __dir__() -> list[str]:
    return __all__
