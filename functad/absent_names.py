"""Names of JAX, and of NumPy, that functad does not have: why, and what to use instead.

Knows sentences alone; `functad.absent` says them, and `JAX_NAMES.md` lists them.
"""

from __future__ import annotations

_ONE_DEVICE = (
    "there is one device, the CPU, whose threads share the work of a jitted function: map over examples with "
    "functad.vmap and compile with functad.jit"
)
_SHARDING = dict.fromkeys(("PositionalSharding", "pmap", "shard_map"), _ONE_DEVICE)
_REFS = dict.fromkeys(
    ("Ref", "empty_ref", "free_ref", "freeze", "new_ref", "ref"),
    "there are no mutable arrays: carry a value through functad.lax.scan, or use x.at[index].set(values)",
)
_NARROW_FLOATS = dict.fromkeys(
    [f"float8_{kind}" for kind in ("e3m4", "e4m3", "e4m3b11fnuz", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")]
    + ["float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"],
    "functad.numpy.bfloat16 and float16 are the narrowest floats",
)
_NARROW_INTEGERS = dict.fromkeys(
    ("int1", "int2", "int4", "uint1", "uint2", "uint4"), "functad.numpy.int8 and uint8 are the narrowest integers"
)
_BLOCK_SCALES = "there are no numbers of 4 or 8 bits with scales: multiply by them, and use functad.numpy.matmul"
_TREE = {
    f"tree_{name}": f"use functad.tree.{name} (or functad.tree_util.tree_{name})"
    for name in ("flatten", "leaves", "map", "reduce", "structure", "transpose", "unflatten")
}

INSTEAD: dict[str, dict[str, str]] = {
    "functad": _SHARDING
    | _TREE
    | _REFS
    | {
        **dict.fromkeys(("Shard", "reshard", "smap"), _ONE_DEVICE),
        **dict.fromkeys(
            ("make_array_from_callback", "make_array_from_process_local_data")
            + ("make_array_from_single_device_arrays",),
            _ONE_DEVICE,
        ),
        "ad": "functad.interpreters.ad",
        "collect_profile": "functad.jit(f).lower(*args).compile().profile(*args) times each kernel",
        "ds": "functad.lax.dynamic_slice(x, start, sizes)",
        "export": "what was compiled is kept on disk by itself; functad.jit(f).lower(*args) shows it",
        "ffi": "functad.numba_primitive takes compiled code of yours, functad.pure_callback Python's",
        "make_user_context": "there is nothing that it would switch; functad.config lists the options",
        "lib": "there is no library below but NumPy and Numba: python -m functad doctor shows them",
        "memory": "there is one kind of memory, the machine's",
        "monitoring": "functad.log_compiles says what is compiled",
        "profiler": "functad.jit(f).lower(*args).compile().profile(*args) times each kernel",
        "distributed": _ONE_DEVICE,
        "xla_computation": "functad.jit(f).lower(*args) shows the Program, the kernels and the plan",
        "custom_transpose": "functad.linear_transpose, or a backward rule with functad.custom_vjp",
        "example_libraries": "layers are in functad.nn, optimizers in functad.optim",
    },
    "functad.lax": {
        **dict.fromkeys(("pcast", "pvary"), "there is one device: every array is wherever it is wanted"),
        **dict.fromkeys(("pbroadcast", "precv", "psend", "ragged_all_to_all"), _ONE_DEVICE),
        "scaled_dot": _BLOCK_SCALES,
        "infeed": _ONE_DEVICE,
        "outfeed": _ONE_DEVICE,
    },
    "functad.numpy": {
        **_NARROW_FLOATS,
        **_NARROW_INTEGERS,
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
    "functad.experimental": {
        **dict.fromkeys(
            ("colocated_python", "compute_on", "custom_partitioning", "layout", "mesh_utils", "multihost_utils", "pjit")
            + ("shard_alike", "shard_map", "topologies", "transfer"),
            _ONE_DEVICE,
        ),
        **dict.fromkeys(
            ("EArray", "cur_qdd", "hijax", "primal_tangent_dtype"),
            "functad.extend makes primitives with rules of yours",
        ),
        **dict.fromkeys(
            ("fused", "mosaic", "scheduling_groups", "xla_metadata"),
            "functad fuses and schedules by itself: functad.jit(f).lower(*args).kernels shows how",
        ),
        **dict.fromkeys(
            ("profiler", "roofline"), "functad.jit(f).lower(*args).compile().profile(*args) times each kernel"
        ),
        **dict.fromkeys(
            ("compilation_cache", "serialize_executable"),
            "what was compiled is kept on disk by itself: python -m functad cache info",
        ),
        "array_serialization": "functad.io saves and loads pytrees of arrays",
        "buffer_callback": "functad.pure_callback, or functad.numba_primitive for compiled code of yours",
        "enable_x64": "functad.enable_x64",
        "jax2tf": "numpy.asarray(x) of a result is what other libraries take",
        "jet": "functad.jvp of functad.jvp, and so on, gives derivatives of higher order",
        "key_reuse": "functad.debug_key_reuse(True)",
        "pallas": "functad.numba_primitive takes compiled code of yours",
        "random": "functad.random",
        "rnn": "functad.nn.LSTM",
        "source_mapper": "functad.jit(f).lower(*args).kernels names the equation of each line",
        "sparse": "functad.scipy.sparse.linalg takes functions that multiply; functad.ops has sums over segments",
    },
    "functad.nn": {
        **dict.fromkeys(("get_scaled_dot_general_config", "scaled_dot_general", "scaled_matmul"), _BLOCK_SCALES),
    },
    "functad.debug": {
        **dict.fromkeys(
            ("inspect_array_sharding", "visualize_array_sharding", "visualize_sharding"),
            _ONE_DEVICE,
        ),
        **dict.fromkeys(("DebugEffect", "OrderedDebugEffect"), "effects are facts of primitives, without a class"),
    },
    "functad.errors": {
        "InconclusiveDimensionOperation": "all sizes are numbers, so that none is inconclusive",
    },
    "functad.core": {
        "Value": "annotate with typing.Any",
        "thread_local_state": "functad.core.get_opaque_trace_state",
        "cur_sublevel": "functad.core.get_opaque_trace_state",
    },
    "functad.extend": {
        **dict.fromkeys(("lowering", "mlir", "pallas", "sharding"), "functad compiles for the CPU by Numba, itself"),
        "backend": "functad.extend.register_backend lets functad.jit run Programs by a backend of yours",
        "random": "there is one kind of keys, threefry2x32",
    },
    "functad.extend.core": {
        **dict.fromkeys(
            ("AbstractToken", "Effect", "Effects", "Token"),
            "effects are facts of primitives: operations that have them keep their order",
        ),
        "CallPrimitive": "functad.jit calls a Program; functad.extend.core.Primitive makes other operations",
        "DebugInfo": "eqn.source is the user's line of an equation",
        "InconclusiveDimensionOperation": "all sizes are numbers, so that none is inconclusive",
        "call_impl": "call the function",
        "gensym": "variables are functad.extend.core.Var objects, named when printed",
        **dict.fromkeys(
            ("nonempty_axis_env_DO_NOT_USE", "unsafe_get_axis_names_DO_NOT_USE"),
            "functad.lax.axis_size raises for a name that no vmap has",
        ),
        **dict.fromkeys(
            ("unsafe_am_i_under_a_jit_DO_NOT_USE", "unsafe_am_i_under_a_vmap_DO_NOT_USE"),
            "functad.core.trace_state_clean says whether anything is traced",
        ),
    },
    "functad.interpreters": {
        **dict.fromkeys(("xla", "pxla"), "functad.make_jaxpr makes Programs, functad.eval_jaxpr runs them"),
    },
    "functad.interpreters.partial_eval": {
        **dict.fromkeys(
            ("custom_partial_eval_rules", "dce_jaxpr_call_rule", "dce_jaxpr_closed_call_rule", "dce_rules")
            + ("partial_eval_jaxpr_custom_rules",),
            "there are no such rules: all primitives are recorded, or dropped, alike",
        ),
        "dce_jaxpr_consts": "functad.interpreters.partial_eval.dce_jaxpr, which drops constants too",
    },
    "functad.api_util": {
        **dict.fromkeys(
            ("argnums_partial", "donation_vector", "flatten_axes", "rebase_donate_argnums"),
            "functad.jit and functad.vmap see to that; functad.tree_util.broadcast_prefix repeats leaves of a prefix",
        ),
    },
    "functad.interpreters.ad": {
        **dict.fromkeys(("jvp", "linearize"), "use functad.jvp, or functad.linearize"),
    },
    "functad.interpreters.batching": {
        **dict.fromkeys(
            ("register_vmappable", "unregister_vmappable"),
            "functad.tree_util.register_pytree_node makes what functad.vmap maps over",
        ),
    },
    "functad.interpreters.mlir": {"*": "there is no MLIR: functad.interpreters.mlir.lower_fun says what is compiled"},
    "functad.numpy.linalg": {"LinAlgError": "a matrix without a factorisation raises nothing: the result is NaN"},
    "functad.random": {
        "KeyArray": "keys are Arrays, of dtype key<fry>",
        "shuffle": "functad.random.permutation(key, x)",
        "seed": "randomness comes from keys: key = functad.random.key(0), and functad.random.split(key) for each use",
        "rand": "functad.random.uniform(key, shape)",
        "randn": "functad.random.normal(key, shape)",
        "random": "functad.random.uniform(key, shape)",
        "default_rng": "randomness comes from keys: key = functad.random.key(0)",
    },
    "functad.tree_util": {
        "tree_multimap": "functad.tree_util.tree_map(f, tree, *rest)",
    },
    "functad.dtypes": {},
    "functad.sharding": _SHARDING
    | {"make_single_device_sharding": "functad.sharding.SingleDeviceSharding()"}
    | dict.fromkeys(
        ("AbstractDevice", "ManualAxisType", "auto_axes", "explicit_axes", "reshard", "use_abstract_mesh"),
        _ONE_DEVICE,
    ),
}

# What users of NumPy and of PyTorch reach for, which JAX has not either.
METHODS_ELSEWHERE: dict[str, str] = {
    "fill": "functad.numpy.full_like(x, value); arrays are immutable",
    "put": "x.at[index].set(values); arrays are immutable",
    "itemset": "x.at[index].set(value); arrays are immutable",
    "resize": "functad.numpy.resize(x, shape)",
    "partition": "functad.numpy.partition(x, k)",
    "tofile": "functad.io.save, or numpy.asarray(x).tofile(file)",
    "dump": "functad.io.save",
    "numpy": "numpy.asarray(x)",
    "cpu": "functad.device_put(x, 'cpu'); numpy.asarray(x) for NumPy",
    "cuda": "functad.device_put(x, 'cuda')",
    "to": "functad.device_put(x, device), or x.astype(dtype)",
    "get": "numpy.asarray(x); functad.device_get(tree) for a pytree",
    "float": "x.astype('float32')",
    "double": "x.astype('float64')",
    "long": "x.astype('int64')",
    "detach": "functad.lax.stop_gradient(x)",
    "requires_grad_": "functad.grad(f) differentiates by the arguments of f",
    "requires_grad": "functad.grad(f) differentiates by the arguments of f",
    "backward": "functad.grad(loss)(params): the loss is a function, and its gradient, too",
    "grad": "functad.grad(loss)(params): the loss is a function, and its gradient, too",
    "append": "functad.numpy.append(x, values); or a list of Python's, and functad.numpy.stack(list) at the end",
    "extend": "functad.numpy.concatenate([x, more])",
    "pop": "x[:-1] and x[-1]; arrays are immutable",
    "insert": "functad.numpy.insert(x, index, values)",
    "zero_": "functad.numpy.zeros_like(x); arrays are immutable",
    "add_": "x + y; arrays are immutable",
    "permute": "functad.numpy.transpose(x, axes)",
    "unsqueeze": "functad.numpy.expand_dims(x, axis), or x[:, None]",
    "expand": "functad.numpy.broadcast_to(x, shape)",
    "contiguous": "x itself: arrays are contiguous",
    "norm": "functad.numpy.linalg.norm(x)",
    "mm": "x @ y",
    "matmul": "x @ y",
    "exp": "functad.numpy.exp(x)",
    "log": "functad.numpy.log(x)",
    "sqrt": "functad.numpy.sqrt(x)",
    "tanh": "functad.numpy.tanh(x)",
    "sigmoid": "functad.nn.sigmoid(x)",
    "softmax": "functad.nn.softmax(x)",
    "relu": "functad.nn.relu(x)",
}
_OF_TORCH = {
    "cat": "functad.numpy.concatenate",
    "tensor": "functad.numpy.array",
    "from_numpy": "functad.numpy.asarray",
    "unsqueeze": "functad.numpy.expand_dims",
    "clamp": "functad.numpy.clip",
    "mm": "functad.numpy.matmul",
    "bmm": "functad.numpy.matmul",
    "randn": "functad.random.normal(key, shape)",
    "rand": "functad.random.uniform(key, shape)",
    "randint": "functad.random.randint(key, shape, low, high)",
    "manual_seed": "functad.random.key(seed), which is passed on",
    "no_grad": "nothing: only what functad.grad is given is differentiated",
    "sigmoid": "functad.nn.sigmoid",
    "relu": "functad.nn.relu",
    "softmax": "functad.nn.softmax",
}
_LAYER = "a layer is a pair of functions, functad.nn.Layer(init, apply), and its params are any pytree"
_MEAN_OF = "functad.nn.{}, and .mean() of it"
_LAYERS = {
    "Linear": "functad.nn.Dense(features)",
    "Sequential": "functad.nn.serial(*layers)",
    "MLP": "functad.nn.serial of functad.nn.Dense and functad.nn.Relu",
    "Lambda": "functad.nn.Activation(function)",
    "Module": _LAYER,
    "Parameter": _LAYER,
    "Model": _LAYER,
    "functional": "functad.nn itself",
    "Unflatten": "functad.nn.Activation(lambda x: x.reshape(shape))",
    "LSTMCell": "functad.nn.lstm_cell",
    "GRUCell": "functad.nn.gru_cell",
    "RNNCell": "functad.nn.rnn_cell",
    "TransformerEncoderLayer": "functad.nn.TransformerBlock(heads)",
    **dict.fromkeys(("Conv1d", "Conv2d", "Conv3d"), "functad.nn.Conv(features, (3, 3)): the window tells the rank"),
    **dict.fromkeys(("ConvTranspose1d", "ConvTranspose2d"), "functad.nn.ConvTranspose(features, (3, 3))"),
    **dict.fromkeys(("BatchNorm1d", "BatchNorm2d", "BatchNormalization"), "functad.nn.BatchNorm()"),
    **dict.fromkeys(("MaxPool1d", "MaxPool2d", "MaxPooling2D"), "functad.nn.MaxPool((2, 2))"),
    **dict.fromkeys(("AvgPool1d", "AvgPool2d", "AveragePooling2D"), "functad.nn.AvgPool((2, 2))"),
    **dict.fromkeys(("AdaptiveAvgPool2d", "GlobalAveragePooling2D"), "functad.nn.AvgPool(None, axes=(2, 3))"),
    **dict.fromkeys(
        ("CrossEntropyLoss", "cross_entropy", "sparse_categorical_crossentropy"),
        _MEAN_OF.format("softmax_cross_entropy_with_integer_labels"),
    ),
    **dict.fromkeys(("BCEWithLogitsLoss", "BCELoss"), _MEAN_OF.format("sigmoid_binary_cross_entropy")),
    **dict.fromkeys(("MSELoss", "mse_loss"), _MEAN_OF.format("squared_error")),
    "HuberLoss": _MEAN_OF.format("huber_loss"),
}
_OPTIMIZERS = {
    "inject_hyperparams": "functad.optim.adam(rate) within a jitted function, where rate may be traced; or a schedule",
    "partition": "functad.optim.multi_transform(transforms, labels)",
    "incremental_update": "functad.optim.averaged(mean, params, decay)",
    "skip_not_finite": "functad.optim.apply_if_finite(optimizer, steps)",
    "apply_every": "functad.optim.MultiSteps(optimizer, steps)",
    "GradientTransformation": "functad.optim.Optimizer(init, update)",
    "GradScaler": "functad.optim.loss_scale, unscaled and rescaled",
    "DynamicLossScale": "functad.optim.loss_scale, unscaled and rescaled",
    "lr_scheduler": "a schedule for the learning rate, such as functad.optim.cosine_decay_schedule",
    "losses": "functad.nn has losses",
    "tree_utils": "functad.tree, and functad.optim.global_norm",
    **dict.fromkeys(("clip_grad_norm_", "clip_grad_norm"), "functad.optim.clip_by_global_norm, a link of a chain"),
    **dict.fromkeys(("swa_utils", "AveragedModel"), "functad.optim.average and averaged"),
}
NAMES_ELSEWHERE: dict[str, dict[str, str]] = {
    "functad.nn": _LAYERS,
    "functad.optim": _OPTIMIZERS,
    "functad.io": dict.fromkeys(("load_file", "load_state_dict"), "functad.io.load(path, like=params)")
    | dict.fromkeys(("save_file", "dump"), "functad.io.save(path, tree)"),
    "functad.numpy": _OF_TORCH,
    "functad": {name: text for name, text in _OF_TORCH.items() if name != "softmax"}
    | {
        "compile": "functad.jit",
        "zeros": "functad.numpy.zeros",
        "ones": "functad.numpy.ones",
        "func": "functad itself: grad, vmap, jvp",
        "autograd": "functad.grad, vjp and jvp",
        "elementwise_grad": "functad.vmap(functad.grad(f))",
    },
}
