"""What to say of a name that a module does not have: the nearest names, or what to use instead.

Knows names and sentences alone. `from functad.absent import absent; __getattr__ = absent(__name__)` is its use.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from functad.errors import AbsentNameError

_ONE_DEVICE = (
    "there is one device, the CPU, whose threads share the work of a jitted function: map over examples with "
    "functad.vmap and compile with functad.jit"
)
_SHARDING = dict.fromkeys(
    ("Mesh", "NamedSharding", "P", "PartitionSpec", "PositionalSharding", "make_mesh", "pmap", "set_mesh", "shard_map")
    + ("with_sharding_constraint",),
    _ONE_DEVICE,
)
_TREE = {
    f"tree_{name}": f"use functad.tree.{name} (or functad.tree_util.tree_{name})"
    for name in ("flatten", "leaves", "map", "reduce", "structure", "transpose", "unflatten")
}

INSTEAD: dict[str, dict[str, str]] = {
    "functad": _SHARDING
    | _TREE
    | {
        "experimental": "io_callback, enable_x64 and the like are names of functad itself",
        "ops": "write x.at[index].set(v), .add(v), …; a segment sum is zeros.at[segments].add(values)",
        "image": "resize with functad.numpy.repeat and interpolation, or before training with another library",
        "profiler": "functad.jit(f).lower(*args).compile().profile(*args) times each kernel",
        "distributed": _ONE_DEVICE,
        "dlpack": "functad.numpy.asarray takes what has __dlpack__ through numpy.from_dlpack(x)",
        "xla_computation": "functad.jit(f).lower(*args) shows the Program, the kernels and the plan",
        "custom_transpose": "functad.linear_transpose, or a backward rule with functad.custom_vjp",
        "example_libraries": "layers are in functad.nn, optimizers in functad.optim",
        "live_arrays": "arrays are freed with their last reference, as all of Python's objects",
        "debug_key_reuse": "keys are not tracked; split a key before each use",
    },
    "functad.lax": {
        **dict.fromkeys(("pcast", "pvary"), "there is one device: every array is wherever it is wanted"),
        "with_sharding_constraint": _ONE_DEVICE,
        "custom_root": "give the solver a rule with functad.custom_vjp: solve (∂f/∂x)ᵀ u = cotangent in its bwd",
        "custom_linear_solve": "give the solver a rule with functad.custom_vjp: its bwd solves the transposed system",
        "rng_bit_generator": "functad.random.bits(key, shape)",
        "rng_uniform": "functad.random.uniform(key, shape)",
        "infeed": _ONE_DEVICE,
        "outfeed": _ONE_DEVICE,
    },
    "functad.numpy": {
        "bfloat16": "float16 and float32 are what CPUs compute with",
        "float8_e4m3fn": "float16 is the narrowest float",
        "int4": "int8 is the narrowest integer",
        "bool8": "functad.numpy.bool_",
        "in1d": "functad.numpy.isin",
        "row_stack": "functad.numpy.vstack",
        "trapz": "functad.numpy.trapezoid",
        "product": "functad.numpy.prod",
        "alltrue": "functad.numpy.all",
        "sometrue": "functad.numpy.any",
        "copyto": "arrays are immutable: x = x.at[index].set(values)",
        "random": "functad.random, whose functions take a key",
        "ndarray_like": "functad.Array",
    },
    "functad.numpy.linalg": {"LinAlgError": "a matrix without a factorisation raises nothing: the result is NaN"},
    "functad.random": {
        "KeyArray": "keys are uint32 arrays of shape (2,): functad.Array",
        "shuffle": "functad.random.permutation(key, x)",
        "seed": "randomness comes from keys: key = functad.random.key(0), and functad.random.split(key) for each use",
        "rand": "functad.random.uniform(key, shape)",
        "randn": "functad.random.normal(key, shape)",
        "random": "functad.random.uniform(key, shape)",
        "default_rng": "randomness comes from keys: key = functad.random.key(0)",
        "key_impl": "all keys are of one kind, threefry2x32",
    },
    "functad.tree_util": {"tree_multimap": "functad.tree_util.tree_map(f, tree, *rest)"},
    "functad.dtypes": {
        "prng_key": "keys are uint32 arrays of shape (2,), without a dtype of their own",
        "bfloat16": "float16 and float32 are what CPUs compute with",
    },
    "functad.sharding": _SHARDING,
}


def absent(
    module: str, submodules: Sequence[str] = (), found: Callable[[str], Any] = lambda name: None
) -> Callable[[str], Any]:
    """The `__getattr__` of a module: it loads these parts at first use, and explains every other name.

    found: gives what else has a name, or None. Hide the result from type checkers, `if not TYPE_CHECKING`: they would
    take every name for one that is there.
    """

    def explain(name: str) -> Any:
        if name in submodules:
            return import_module(f"{module}.{name}")
        value = found(name)
        if value is not None:
            return value
        raise AbsentNameError(_text(module, name), name=name, obj=sys.modules.get(module))

    return explain


def _text(module: str, name: str) -> str:
    what = f"module {module!r} has no attribute {name!r}"
    if name.startswith("__"):
        return what
    instead = INSTEAD.get(module, {}).get(name)
    if instead is None and name.endswith("_p"):
        return f"{what}: what JAX's primitive does, others do here; functad.make_jaxpr shows which"
    if instead is not None:
        return f"{what}; {'instead: ' if not instead.startswith(('there', 'mapped')) else ''}{instead}"
    own = getattr(sys.modules.get(module), "__all__", None) or vars(sys.modules[module])
    known = [n for n in own if not n.startswith("_")]
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.7)
    if close:
        return f"{what}. Did you mean {' or '.join(f'{module}.{c}' for c in close)}?"
    counterpart = _of_numpy(module, name)
    if counterpart:
        return (
            f"{what}. NumPy has it: {counterpart}(numpy.asarray(x)) serves outside of traced functions, and within "
            "them functad.pure_callback can call it"
        )
    return f"{what}; dir({module}) lists what it has"


def _of_numpy(module: str, name: str) -> str | None:
    """The function of that name in NumPy's module of the same name."""
    found: Any = np
    path = module.split(".")[2:] if module.startswith("functad.numpy") else None
    if path is None:
        return None
    for part in [*path, name]:
        found = getattr(found, part, None)
        if found is None:
            return None
    return ".".join(["numpy", *path, name]) if callable(found) else None
