"""functad: pure functions, composable transforms, for NumPy and Numba.

Knows the public names only. `functad.numpy`, which gives arrays their operators, loads at once; the other parts
(`functad.nn`, `functad.data`, …) at first use.
"""

from importlib import import_module
from typing import Any

from functad import numpy as numpy
from functad.absent import absent
from functad.api import (
    ShapeDtypeStruct,
    block_until_ready,
    checkpoint,
    closure_convert,
    custom_gradient,
    custom_jvp,
    custom_vjp,
    default_backend,
    device_count,
    device_get,
    device_put,
    devices,
    effects_barrier,
    eval_jaxpr,
    eval_shape,
    grad,
    hessian,
    io_callback,
    jacfwd,
    jacobian,
    jacrev,
    jit,
    jvp,
    linear_transpose,
    linearize,
    local_device_count,
    local_devices,
    make_jaxpr,
    named_call,
    named_scope,
    print_saved_residuals,
    process_count,
    process_index,
    pure_callback,
    remat,
    value_and_grad,
    vjp,
    vmap,
)
from functad.array import Array
from functad.config import (
    checking_leaks,
    config,
    debug_infs,
    debug_nans,
    default_device,
    default_matmul_precision,
    default_prng_impl,
    disable_jit,
    enable_x64,
    explain_cache_misses,
    log_compiles,
    numpy_dtype_promotion,
    numpy_rank_promotion,
    threefry_partitionable,
    transfer_guard,
)
from functad.core import ensure_compile_time_eval, typeof
from functad.ir import check_program
from functad.pretty import program_to_text
from functad.system.freed_memory import keep_freed_memory as _keep_freed_memory
from functad.user_kernels import numba_primitive
from functad.version import __version__ as __version__
from functad.version import __version_info__ as __version_info__

_keep_freed_memory()

_SUBMODULES = (
    "ad_checkpoint",
    "checkpoint_policies",
    "core",
    "custom_derivatives",
    "data",
    "debug",
    "dtypes",
    "errors",
    "flatten_util",
    "io",
    "lax",
    "nn",
    "optim",
    "random",
    "scipy",
    "sharding",
    "tree",
    "tree_util",
    "typing",
)

__all__ = [
    "Array",
    "ShapeDtypeStruct",
    "block_until_ready",
    "check_program",
    "checking_leaks",
    "checkpoint",
    "closure_convert",
    "config",
    "custom_gradient",
    "custom_jvp",
    "custom_vjp",
    "debug_infs",
    "debug_nans",
    "default_backend",
    "default_device",
    "default_matmul_precision",
    "default_prng_impl",
    "device_count",
    "device_get",
    "device_put",
    "devices",
    "disable_jit",
    "effects_barrier",
    "enable_x64",
    "ensure_compile_time_eval",
    "eval_jaxpr",
    "eval_shape",
    "explain_cache_misses",
    "grad",
    "hessian",
    "io_callback",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "jvp",
    "linear_transpose",
    "linearize",
    "local_device_count",
    "local_devices",
    "log_compiles",
    "make_jaxpr",
    "named_call",
    "named_scope",
    "numba_primitive",
    "numpy",
    "numpy_dtype_promotion",
    "numpy_rank_promotion",
    "print_saved_residuals",
    "process_count",
    "process_index",
    "program_to_text",
    "pure_callback",
    "remat",
    "threefry_partitionable",
    "transfer_guard",
    "typeof",
    "value_and_grad",
    "vjp",
    "vmap",
    *_SUBMODULES,
]


_absent = absent(__name__)


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return import_module(f"functad.{name}")
    return _absent(name)


def __dir__() -> list[str]:
    return __all__
