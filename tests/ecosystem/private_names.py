"""What the import hook gives for names that functad does not have, or that are private to JAX.

Knows names alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import functad
import functad.core
import functad.dtypes
import functad.errors
import functad.flatten_util

_DEVICES = "functad has one device, and neither pmap nor shardings over several"

_FLOATS = "the narrowest floats are bfloat16 and float16"


def _unchanged(x: Any, *args: Any, **kwargs: Any) -> Any:
    return x


def _nothing(*args: Any, **kwargs: Any) -> None:
    pass


# Modules below `jax._src`, which libraries reach into: a private name, and what functad has for it in public.
PRIVATE: dict[str, dict[str, Any]] = {
    "jax.lib": {"__version__": "0.10.1"},
    "jax._src.traceback_util": {
        "api_boundary": _unchanged,
        "register_exclusion": _nothing,
        "_exclude_paths": [],
        "include_frame": lambda frame: True,
    },
    "jax._src.dispatch": {"wait_for_tokens": functad.effects_barrier},
    "jax._src.dtypes": vars(functad.dtypes) | {"ExtendedDType": object, "DType": np.dtype},
    "jax._src.core": vars(functad.core),
    "jax._src.compiler": {"backend_compile_and_load": _nothing, "backend_compile": _nothing},
    "jax._src.flatten_util": {"ravel_pytree": functad.flatten_util.ravel_pytree},
    "jax._src.tree_util": vars(functad.tree_util),
    "jax._src.interpreters": {},
    "jax._src.interpreters.ad": {"CustomVJPException": functad.errors.LeakedTracerError},
    "jax._src.ad_util": {"stop_gradient_p": functad.core.Primitive("stop_gradient")},
    "jax._src.xla_bridge": {"_backends": {"cpu": functad.devices()[0]}},
}

# Public registries of JAX for a library's own classes of arrays, which functad needs not know.
REGISTRIES: dict[str, dict[str, dict[Any, Any]]] = {
    "jax.core": {"pytype_aval_mappings": {np.ndarray: None}},
    "jax.interpreters.xla": {"canonicalize_dtype_handlers": {np.ndarray: None}},
}

# Public names that libraries mention where they are imported, in annotations, and as defaults: they raise at use.
MENTIONED: dict[str, dict[str, str]] = {
    "jax": dict.fromkeys(("pmap", "shard_map"), _DEVICES),
    "jax.experimental.mesh_utils": {"create_device_mesh": _DEVICES},
    "jax.experimental.pjit": {"pjit": _DEVICES},
    "jax.experimental.shard_map": {"shard_map": _DEVICES},
    "jax.experimental.layout": dict.fromkeys(("Format", "Layout"), _DEVICES),
    "jax.numpy": dict.fromkeys(("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"), _FLOATS),
}
