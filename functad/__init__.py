"""functad: pure functions, composable transforms, for NumPy and Numba.

Knows the public names only. `functad.numpy`, which gives arrays their operators, loads at once; the other parts
(`functad.nn`, `functad.data`, …) at first use.
"""

from typing import TYPE_CHECKING

from functad.system.garbage import collection_paused as _collection_paused
from functad.system.garbage import spare_from_search as _spare_from_search

with _collection_paused():  # a tenth of the time that all this takes
    from functad import numpy as numpy
    from functad.absent import absent
    from functad.api import (
        Device,
        ShapeDtypeStruct,
        block_until_ready,
        closure_convert,
        copy_to_host_async,
        default_backend,
        device_count,
        device_get,
        device_put,
        devices,
        effects_barrier,
        eval_jaxpr,
        eval_shape,
        explain,
        grad,
        graph,
        host_count,
        host_id,
        host_ids,
        jit,
        jvp,
        linear_transpose,
        linearize,
        local_device_count,
        local_devices,
        make_jaxpr,
        named_call,
        named_scope,
        parse_program,
        process_count,
        process_index,
        process_indices,
        value_and_grad,
        vjp,
    )
    from functad.api.meshes import make_mesh, set_mesh
    from functad.array import Array
    from functad.config import (
        allow_f16_reductions,
        array_garbage_collection_guard,
        auto_pcast,
        check_tracer_leaks,
        checking_leaks,
        config,
        debug_infs,
        debug_key_reuse,
        debug_nans,
        default_device,
        default_matmul_precision,
        default_prng_impl,
        disable_jit,
        enable_checks,
        enable_custom_prng,
        enable_x64,
        explain_cache_misses,
        jax2tf_associative_scan_reductions,
        legacy_prng_key,
        log_compiles,
        no_execution,
        no_tracing,
        numpy_dtype_promotion,
        numpy_rank_promotion,
        remove_size_one_mesh_axis_from_type,
        softmax_custom_jvp,
        thread_guard,
        threefry_partitionable,
        transfer_guard,
        transfer_guard_device_to_device,
        transfer_guard_device_to_host,
        transfer_guard_host_to_device,
    )
    from functad.dtypes import float0
    from functad.eager import ensure_compile_time_eval
    from functad.ir import check_program
    from functad.layouts import NamedSharding
    from functad.layouts import PartitionSpec as P
    from functad.pretty import program_to_text
    from functad.system.freed_memory import keep_freed_memory as _keep_freed_memory
    from functad.system.later import elsewhere as _elsewhere
    from functad.system.tracebacks import shorten_tracebacks as _install_tracebacks
    from functad.version import __version__ as __version__
    from functad.version import __version_info__ as __version_info__

    _spare_from_search()  # of the modules, which takes as long as a tenth of their imports

_keep_freed_memory()
_install_tracebacks()

if TYPE_CHECKING:
    from functad import ad_checkpoint as ad_checkpoint
    from functad import api_util as api_util
    from functad import checkpoint_policies as checkpoint_policies
    from functad import core as core
    from functad import custom_batching as custom_batching
    from functad import custom_derivatives as custom_derivatives
    from functad import data as data
    from functad import debug as debug
    from functad import dlpack as dlpack
    from functad import dtypes as dtypes
    from functad import errors as errors
    from functad import experimental as experimental
    from functad import extend as extend
    from functad import flatten_util as flatten_util
    from functad import image as image
    from functad import interpreters as interpreters
    from functad import io as io
    from functad import lax as lax
    from functad import nn as nn
    from functad import ops as ops
    from functad import optim as optim
    from functad import random as random
    from functad import sharding as sharding
    from functad import stages as stages
    from functad import test_util as test_util
    from functad import train as train
    from functad import tree as tree
    from functad import tree_util as tree_util
    from functad import typing as typing
    from functad import views as views
    from functad.api import (
        checkpoint,
        clear_caches,
        custom_gradient,
        custom_jvp,
        custom_vjp,
        fwd_and_bwd,
        hessian,
        io_callback,
        jacfwd,
        jacobian,
        jacrev,
        live_arrays,
        print_environment_info,
        print_saved_residuals,
        pure_callback,
        remat,
        vmap,
    )
    from functad.core import typeof
    from functad.user_kernels import numba_primitive

_SUBMODULES = (
    "ad_checkpoint",
    "api_util",
    "checkpoint_policies",
    "core",
    "custom_batching",
    "custom_derivatives",
    "data",
    "debug",
    "dlpack",
    "dtypes",
    "errors",
    "experimental",
    "extend",
    "flatten_util",
    "image",
    "interpreters",
    "io",
    "lax",
    "nn",
    "ops",
    "optim",
    "random",
    "scipy",
    "sharding",
    "stages",
    "test_util",
    "train",
    "tree",
    "tree_util",
    "typing",
    "views",
)

__all__ = [
    "Array",
    "Device",
    "NamedSharding",
    "P",
    "ShapeDtypeStruct",
    "allow_f16_reductions",
    "array_garbage_collection_guard",
    "auto_pcast",
    "block_until_ready",
    "check_program",
    "check_tracer_leaks",
    "checking_leaks",
    "checkpoint",
    "clear_caches",
    "closure_convert",
    "config",
    "copy_to_host_async",
    "custom_gradient",
    "custom_jvp",
    "custom_vjp",
    "debug_infs",
    "debug_key_reuse",
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
    "enable_checks",
    "enable_custom_prng",
    "enable_x64",
    "ensure_compile_time_eval",
    "eval_jaxpr",
    "eval_shape",
    "explain",
    "explain_cache_misses",
    "float0",
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
    "jax2tf_associative_scan_reductions",
    "jit",
    "jvp",
    "legacy_prng_key",
    "linear_transpose",
    "linearize",
    "live_arrays",
    "local_device_count",
    "local_devices",
    "log_compiles",
    "make_jaxpr",
    "make_mesh",
    "named_call",
    "named_scope",
    "no_execution",
    "no_tracing",
    "numba_primitive",
    "numpy",
    "numpy_dtype_promotion",
    "numpy_rank_promotion",
    "parse_program",
    "print_environment_info",
    "print_saved_residuals",
    "process_count",
    "process_index",
    "process_indices",
    "program_to_text",
    "pure_callback",
    "remat",
    "remove_size_one_mesh_axis_from_type",
    "set_mesh",
    "softmax_custom_jvp",
    "thread_guard",
    "threefry_partitionable",
    "transfer_guard",
    "transfer_guard_device_to_device",
    "transfer_guard_device_to_host",
    "transfer_guard_host_to_device",
    "typeof",
    "value_and_grad",
    "vjp",
    "vmap",
    *_SUBMODULES,
]


if not TYPE_CHECKING:
    _PLACES = {
        "functad.api": (
            "checkpoint",
            "clear_caches",
            "custom_gradient",
            "custom_jvp",
            "custom_vjp",
            "fwd_and_bwd",
            "hessian",
            "io_callback",
            "jacfwd",
            "jacobian",
            "jacrev",
            "live_arrays",
            "print_environment_info",
            "print_saved_residuals",
            "pure_callback",
            "remat",
            "vmap",
        ),
        "functad.core": ["typeof"],
        "functad.user_kernels": ["numba_primitive"],
    }
    __getattr__ = absent(__name__, _SUBMODULES, _elsewhere(__name__, _PLACES))


def __dir__() -> list[str]:
    return __all__
