"""The modules of JAX whose names are compared, and the differences that no signature shows.

Knows names and sentences alone.
"""

from __future__ import annotations

MODULES = """
jax
jax.numpy jax.numpy.linalg jax.numpy.fft
jax.lax jax.lax.linalg
jax.nn jax.nn.initializers
jax.random
jax.tree jax.tree_util jax.flatten_util
jax.ops jax.image
jax.scipy.special jax.scipy.linalg jax.scipy.stats jax.scipy.signal jax.scipy.fft jax.scipy.ndimage jax.scipy.optimize
jax.scipy.cluster.vq jax.scipy.integrate jax.scipy.interpolate jax.scipy.spatial.transform
jax.scipy.sparse.linalg
jax.experimental.checkify jax.experimental.ode jax.experimental
jax.custom_derivatives jax.custom_batching jax.ad_checkpoint jax.checkpoint_policies
jax.debug jax.dtypes jax.errors jax.stages jax.sharding jax.test_util jax.typing
jax.core jax.extend.core jax.interpreters.ad jax.interpreters.batching jax.interpreters.mlir
jax.interpreters.partial_eval jax.api_util
""".split()

# Where a value stands for a module in JAX, its names count all the same.
ATTRIBUTES = {"jax.checkpoint_policies"}

# A module without a list of what is public.
NAMES = {
    "jax.experimental.ode": ["odeint"],
    "jax.experimental": """
EArray array_serialization buffer_callback checkify colocated_python compilation_cache compute_on cur_qdd
custom_partitioning fused hijax io_callback jax2tf jet key_reuse layout mesh_utils mosaic multihost_utils ode pallas
pjit primal_tangent_dtype profiler random rnn roofline scheduling_groups serialize_executable shard_alike shard_map
source_mapper sparse topologies transfer xla_metadata
""".split(),
}

PROGRAM = "one class, Program, holds its constants too"
ONE_KIND = "there is one kind of keys, threefry2x32"
ONE_DEVICE = "each array lies on one device"

# Which kinds of names are absent, by their patterns; a name is of the first kind that it fits.
KINDS_OF_ABSENT = {
    "several devices, and how arrays are laid out over them": """
jax.Shard jax.ad jax.distributed jax.make_array_from_* jax.memory jax.pmap jax.*reshard jax.*shard_map jax.smap
jax.lax.pbroadcast jax.lax.pcast jax.lax.precv jax.lax.psend jax.lax.ragged_all_to_all* jax.debug.*shard*
jax.sharding.* jax.experimental.colocated_python jax.experimental.compute_on jax.experimental.custom_partitioning
jax.experimental.layout jax.experimental.m*_utils jax.experimental.pjit jax.experimental.shard*
jax.experimental.topologies jax.experimental.transfer
""",
    "numbers of fewer than 8 bits, floats of 8, and products with scales of their own": """
jax.numpy.float4* jax.numpy.float8* jax.numpy.int? jax.numpy.uint? jax.lax.scaled_dot jax.nn.*scaled*
""",
    "Pallas, arrays that are written into, and other kinds of values than arrays": """
jax.Ref jax.ref jax.*_ref jax.freeze jax.ds jax.experimental.pallas jax.experimental.mosaic jax.experimental.fused
jax.experimental.hijax jax.experimental.EArray jax.experimental.cur_qdd jax.experimental.primal_tangent_dtype
""",
    "exports, foreign functions, and what XLA and MLIR have": """
jax.export jax.ffi jax.lib jax.errors.Inconclusive* jax.extend.core.Inconclusive* jax.interpreters.mlir.*
jax.experimental.buffer_callback jax.experimental.jax2tf jax.experimental.serialize_executable
jax.experimental.compilation_cache jax.experimental.scheduling_groups jax.experimental.xla_metadata
""",
    "profilers": """
jax.profiler jax.monitoring jax.experimental.profiler jax.experimental.roofline jax.experimental.source_mapper
""",
    "files": "jax.experimental.array_serialization",
    "JAX's inner machinery: effects, traces, wrapped functions": """
jax.make_user_context jax.custom_derivatives.remat_opt_p jax.debug.*Effect jax.extend.core.* jax.interpreters.*
jax.api_util.* jax.core.Value
""",
    "experiments that are no part of JAX's documented namespaces": "jax.experimental.*",
}

MARK = "a key for tables of rules alone: its `bind` says what to call"
DIFFERENT = {
    **dict.fromkeys(("jax.lax.linear_solve_p", "jax.lax.select_and_scatter_p"), MARK),
    **dict.fromkeys(("jax.core.Jaxpr", "jax.extend.core.Jaxpr", "jax.extend.core.ClosedJaxpr"), PROGRAM),
    "jax.extend.core.DropVar": "every result has a variable, so there are none",
    "jax.extend.core.JaxprEqn": "without effects: those are the primitive's",
    "jax.extend.core.TraceTag": "a mark without meaning",
    "jax.interpreters.mlir.lower_fun": "what it gives is compiled by functad",
    "jax.interpreters.mlir.register_lowering": "takes what lower_fun gives, and nothing that writes MLIR",
    "jax.devices": "by default the CPU's, also where there are GPUs",
    **dict.fromkeys((f"jax.{n}" for n in ("NamedSharding", "make_mesh", "set_mesh")), ONE_DEVICE),
    **dict.fromkeys((f"jax.sharding.{n}" for n in ("Mesh", "NamedSharding", "SingleDeviceSharding")), ONE_DEVICE),
    "jax.lax.with_sharding_constraint": ONE_DEVICE,
    "jax.interpreters.ad.JVPTracer": "the class of all tracers",
    "jax.local_devices": "by default the CPU's, also where there are GPUs",
    "jax.default_device": "arrays made within are put there on purpose, so they follow no others",
    "jax.dtypes.canonicalize_dtype": "keeps 64 bits that are asked for",
    "jax.numpy.float64": "64 bits that are asked for are kept, also without enable_x64",
    "jax.numpy.int64": "64 bits that are asked for are kept, also without enable_x64",
    "jax.numpy.uint64": "64 bits that are asked for are kept, also without enable_x64",
    "jax.numpy.complex128": "64 bits that are asked for are kept, also without enable_x64",
    "jax.stages.ArgInfo": "a ShapeDtypeStruct",
    "jax.stages.Wrapped": "the class of what jit returns",
    "jax.errors.JaxRuntimeError": "the error of a callback that raised",
    "jax.custom_batching.custom_vmap": "also has derivatives in reverse mode, those of the function",
}
