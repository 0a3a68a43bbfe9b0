"""functad: pure functions, composable transforms, for NumPy and Numba.

Knows the public names only. `functad.numpy`, which gives arrays their operators, loads at once; the other parts
(`functad.nn`, `functad.data`, …) at first use.
"""

from importlib import import_module
from typing import Any

from functad import numpy as numpy
from functad.api import (
    ShapeDtypeStruct,
    block_until_ready,
    checkpoint,
    closure_convert,
    custom_gradient,
    custom_jvp,
    custom_vjp,
    default_backend,
    device_get,
    device_put,
    devices,
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
    make_jaxpr,
    named_call,
    named_scope,
    print_saved_residuals,
    pure_callback,
    remat,
    value_and_grad,
    vjp,
    vmap,
)
from functad.array import Array
from functad.config import config, debug_infs, debug_nans, disable_jit, enable_x64, log_compiles
from functad.ir import check_program
from functad.pretty import program_to_text
from functad.user_kernels import numba_primitive
from functad.version import __version__ as __version__

_SUBMODULES = (
    "ad_checkpoint",
    "checkpoint_policies",
    "custom_derivatives",
    "data",
    "debug",
    "dtypes",
    "errors",
    "io",
    "lax",
    "nn",
    "optim",
    "random",
    "tree",
    "tree_util",
)

__all__ = [
    "Array",
    "ShapeDtypeStruct",
    "check_program",
    "block_until_ready",
    "checkpoint",
    "closure_convert",
    "config",
    "custom_gradient",
    "custom_jvp",
    "custom_vjp",
    "debug_infs",
    "debug_nans",
    "default_backend",
    "device_get",
    "device_put",
    "devices",
    "disable_jit",
    "enable_x64",
    "eval_jaxpr",
    "eval_shape",
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
    "log_compiles",
    "make_jaxpr",
    "named_call",
    "named_scope",
    "numba_primitive",
    "numpy",
    "print_saved_residuals",
    "program_to_text",
    "pure_callback",
    "remat",
    "value_and_grad",
    "vjp",
    "vmap",
    *_SUBMODULES,
]


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return import_module(f"functad.{name}")
    raise AttributeError(f"module 'functad' has no attribute {name!r}; see functad.__all__ for what it has")


def __dir__() -> list[str]:
    return __all__
