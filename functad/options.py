"""The options there are: names, defaults, allowed values, what they are for; and those of JAX's that decide nothing.

This file must not know what the options do, nor their values.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeAlias

from functad.errors import ArgumentError
from functad.records import NamedTuple

Value: TypeAlias = "bool | str | int | Any"


class Option(NamedTuple):
    """One option: its default, its allowed values and what it is for."""

    default: Value
    choices: tuple[bool | str | None, ...] | range
    doc: str
    one_for_all: bool = False  # the process has one of what it sets, so an override holds for all threads


def available_cores() -> tuple[int, str]:
    """How many processor cores this process may use, and what says so."""
    count, reason = os.cpu_count() or 1, "the cores of this machine"
    if hasattr(os, "sched_getaffinity"):
        allowed = len(os.sched_getaffinity(0))
        if allowed < count:
            count, reason = allowed, "the cores that this process is bound to"
    # A container may be given less time than its cores have: "quota period" in microseconds, or "max period".
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
            quota, period = file.read().split()
    except (OSError, ValueError):
        return count, reason
    if quota != "max" and int(quota) < count * int(period):
        return max(1, int(quota) // int(period)), "the processor time that this container may use"
    return count, reason


SWITCH = (False, True)

PRECISIONS = (
    "default", "fastest", "high", "highest", "float32", "tensorfloat32", "tensorfloat32_3x", "bfloat16", "bfloat16_3x",
    "ANY_F8_ANY_F8_F32", "ANY_F8_ANY_F8_F32_FAST_ACCUM", "ANY_F8_ANY_F8_ANY", "ANY_F8_ANY_F8_ANY_FAST_ACCUM",
    "F16_F16_F16", "F16_F16_F32", "BF16_BF16_BF16", "BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6",
    "BF16_BF16_F32_X9", "TF32_TF32_F32", "TF32_TF32_F32_X3", "F32_F32_F32", "F64_F64_F64",
)  # fmt: skip
"""JAX's words for the precision of matrix products. What is not understood is exact to the dtype."""

OPTIONS: dict[str, Option] = {
    "enable_x64": Option(False, SWITCH, "Python scalars and new arrays take 64 bits instead of 32"),
    "numpy_dtypes": Option(
        "keep", ("keep", "jax"), "what becomes of NumPy's 64-bit arrays and scalars: JAX cuts them to 32 bits"
    ),
    "debug_nans": Option(False, SWITCH, "raise as soon as an operation makes a NaN"),
    "debug_infs": Option(False, SWITCH, "raise as soon as an operation makes an infinity"),
    "debug_key_reuse": Option(False, SWITCH, "raise where a typed random key is used for the second time"),
    "debug_index": Option(False, SWITCH, "raise where an index lies outside of its array, traced ones included"),
    "log_compiles": Option(False, SWITCH, "log each time that jit traces or compiles a function"),
    "announce_compiles": Option(True, SWITCH, "say on standard error what is compiled if that takes over a second"),
    "default_backend": Option("cpu", ("cpu", "cuda", "interpreter"), "what runs a Program under jit"),
    "default_device": Option(None, (None,), "the device on which arrays are made that follow no other; None: the CPU"),
    "disable_jit": Option(False, SWITCH, "let jit run the function as it stands, for debugging"),
    "num_threads": Option(
        available_cores()[0], range(1, 1025), "the threads that compiled functions run on", one_for_all=True
    ),
    "fuse_multiply_add": Option(
        False, SWITCH, "jitted functions may add a product that they have not rounded, as no un-jitted one does"
    ),
    "cuda_products": Option(
        "cublas",
        ("cublas", "functad"),
        "what multiplies matrices on GPUs: cuBLAS where it is found, or functad's kernels",
    ),
    "default_matmul_precision": Option(
        None,
        (None, *PRECISIONS),
        "how exactly cuBLAS multiplies matrices of float32 on GPUs: None is exact to the dtype, as all else always is",
    ),
    "cuda_atomics": Option(
        False,
        SWITCH,
        "updates of floats on GPUs may be added as they come: faster, but sums are rounded otherwise each time",
    ),
    "cuda_capability": Option(
        "9.0",
        ("5.2", "6.0", "6.1", "7.0", "7.5", "8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "12.0"),
        "the compute capability of GPUs for which `jit(f, backend='cuda').lower(x).ptx` is written",
    ),
    "numpy_dtype_promotion": Option(
        "standard",
        ("standard", "strict"),
        "'strict' raises where operands of different dtypes meet, but Python's numbers",
    ),
    "numpy_rank_promotion": Option(
        "allow", ("allow", "warn", "raise"), "whether operands of different ranks, none of them 0, broadcast silently"
    ),
    "traceback_filtering": Option(
        "auto",
        ("auto", "off", "remove_frames", "quiet_remove_frames", "tracebackhide"),
        "'off' shows functad's own lines, too, in the traceback of an error that nobody catches",
    ),
    "check_programs": Option(False, SWITCH, "verify every Program after every pass"),
}


OTHER_SPELLINGS: dict[str, tuple[str, dict[Value, Value]]] = {
    "traceback": ("traceback_filtering", {"full": "off", "short": "auto"}),
}
"""Options by another name, and what their values are called there."""


class Accepted(NamedTuple):
    """An option of JAX's that decides nothing here: its default, and the values that ask for what happens anyway."""

    default: Any
    harmless: tuple[Any, ...] | None  # None: all values
    doc: str


_FREE = "XLA's own business"
ACCEPTED: dict[str, Accepted] = {
    "platform_name": Accepted("", ("", None, "cpu"), "default_device says where arrays are made"),
    "platforms": Accepted(None, ("", None, "cpu"), "default_device says where arrays are made"),
    "num_cpu_devices": Accepted(1, (-1, 1, None), "the CPU is one device; num_threads says what it uses"),
    "include_full_tracebacks_in_locations": Accepted(True, None, "equations know one line of the user's"),
    "check_tracer_leaks": Accepted(False, None, "a leaked tracer raises where it is used"),
    "explain_cache_misses": Accepted(False, None, "f.explain(*args) tells why a call is compiled"),
    "compilation_cache_dir": Accepted(None, None, "the environment variable FUNCTAD_CACHE_DIR names the cache folder"),
    "enable_compilation_cache": Accepted(True, None, "kernels are kept on disk"),
    "persistent_cache_min_compile_time_secs": Accepted(1.0, None, "kernels are kept on disk"),
    "persistent_cache_min_entry_size_bytes": Accepted(0, None, "kernels are kept on disk"),
    "raise_persistent_cache_errors": Accepted(False, None, "a cache that cannot be used is said, and done without"),
    "transfer_guard": Accepted("allow", ("allow", None), "there is one memory"),
    "transfer_guard_device_to_device": Accepted("allow", ("allow", None), "there is one memory"),
    "transfer_guard_device_to_host": Accepted("allow", ("allow", None), "there is one memory"),
    "transfer_guard_host_to_device": Accepted("allow", ("allow", None), "there is one memory"),
    "allow_f16_reductions": Accepted(True, None, "sums of 16 bits are added in 32, and rounded once"),
    "auto_pcast": Accepted(True, None, "every array is wherever it is wanted"),
    "jax2tf_associative_scan_reductions": Accepted(False, None, "nothing is exported"),
    "no_execution": Accepted(False, (False,), "functad.eval_shape and functad.make_jaxpr run nothing"),
    "no_tracing": Accepted(False, (False,), "functad.log_compiles says what is traced and compiled"),
    "remove_size_one_mesh_axis_from_type": Accepted(False, None, "types know no mesh"),
    "thread_guard": Accepted(False, (False,), "any thread may call any function"),
    "threefry_partitionable": Accepted(True, (True,), "random numbers are those of the partitionable threefry"),
    "default_prng_impl": Accepted("threefry2x32", ("threefry2x32",), "keys are of one kind, threefry2x32"),
    "enable_custom_prng": Accepted(False, (False,), "random.key makes typed keys, PRNGKey raw ones"),
    "legacy_prng_key": Accepted("allow", ("allow",), "raw keys are as good as typed ones"),
    "softmax_custom_jvp": Accepted(True, None, "softmax has the derivative that does not overflow"),
    "cpu_enable_async_dispatch": Accepted(False, None, "calls return when they are finished"),
    "disable_most_optimizations": Accepted(False, (False,), "default_backend='interpreter' runs without compiling"),
    "array_garbage_collection_guard": Accepted("allow", ("allow",), _FREE),
    "cpu_collectives_implementation": Accepted(None, None, _FREE),
    "enable_checks": Accepted(False, None, "check_programs verifies Programs"),
    "dynamic_shapes": Accepted(False, (False,), "shapes are known when a function is traced"),
}


# The options that decide what is recorded of a function, and those that decide how a jitted one runs.
TRACE_OPTIONS = ("enable_x64", "numpy_dtypes", "debug_index", "numpy_dtype_promotion", "numpy_rank_promotion")
JIT_OPTIONS = (
    "disable_jit",
    "debug_nans",
    "debug_infs",
    "debug_key_reuse",
    "debug_index",
    "default_backend",
    "default_device",
    "enable_x64",
    "numpy_dtypes",
    "fuse_multiply_add",
    "cuda_products",
    "default_matmul_precision",
    "cuda_atomics",
    "numpy_dtype_promotion",
    "numpy_rank_promotion",
)

# Those of them that decide what is compiled of a Program.
COMPILED_BY = ("fuse_multiply_add", "cuda_products", "default_matmul_precision", "cuda_atomics")

# What is done with the result of each operation.
CHECKS = ("debug_nans", "debug_infs", "debug_key_reuse", "default_device")


def allowed_text(option: Option, show: Callable[[object], str]) -> str:
    if isinstance(option.choices, range):
        return f"a whole number from {option.choices[0]} to {option.choices[-1]}"
    return " or ".join(map(show, option.choices))


def parse_value(variable: str, text: str, option: Option) -> Value:
    if option.choices == (None,):
        return text.strip() or None
    if option.choices != SWITCH:
        for choice in option.choices:
            if str(choice) == text.strip():
                return choice
        raise ArgumentError(f"{variable} must be {allowed_text(option, str)}, got {text!r}")
    word = text.strip().lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if word in ("", "0", "false", "no", "off"):
        return False
    raise ArgumentError(f"{variable} must be 1, true, yes, on or 0, false, no, off; got {text!r}")
