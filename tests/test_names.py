"""Names that libraries ask for first: options, devices, types, states; and what is said of names there are not."""

from __future__ import annotations

import importlib
import re

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import core, lax, random
from functad.absent import INSTEAD, NAMES_ELSEWHERE
from functad.errors import (
    AbsentImportError,
    AbsentNameError,
    ArgumentError,
    ConcretizationError,
    DeviceError,
    DTypeError,
    FunctadError,
    ImmutableArrayError,
    ShapeError,
)

# --- options ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, value",
    [
        ("default_matmul_precision", "float32"),
        ("platform_name", "cpu"),
        ("platforms", "cpu"),
        ("check_tracer_leaks", False),
        ("compilation_cache_dir", "/tmp"),
        ("threefry_partitionable", True),
        ("default_prng_impl", "threefry2x32"),
        ("default_device", functad.devices()[0]),
    ],
)
def test_harmless_options_are_accepted_and_kept(name, value, request):
    before = getattr(functad.config, f"jax_{name}")
    request.addfinalizer(lambda: functad.config.update(f"jax_{name}", before))
    functad.config.update(f"jax_{name}", value)
    assert getattr(functad.config, f"jax_{name}") == functad.config.read(f"jax_{name}") == value


def test_options_that_would_decide_something_are_refused():
    for name, value in (("platform_name", "gpu"), ("legacy_prng_key", "error"), ("default_prng_impl", "rbg")):
        with pytest.raises(ArgumentError, match=f"jax_{name}.*decides nothing in functad.*only, got '{value}'"):
            functad.config.update(f"jax_{name}", value)
    with pytest.raises(ArgumentError, match="Did you mean 'default_matmul_precision'"):
        functad.config.update("jax_default_matmul_precison", "float32")
    with functad.default_matmul_precision("float32"), functad.checking_leaks():
        assert functad.config.jax_default_matmul_precision == "float32"
    assert functad.config.jax_default_matmul_precision is None
    functad.config.update("jax_enable_x64", True)
    functad.config.update("jax_enable_x64", False)


# --- devices ----------------------------------------------------------------------------------------


def test_there_is_one_device():
    (device,) = functad.devices()
    assert functad.local_devices() == [device] == functad.devices("cpu") and str(device) == "cpu:0"
    assert (device.platform, device.id, device.device_kind, device.process_index) == ("cpu", 0, "cpu", 0)
    assert functad.device_count() == functad.local_device_count() == functad.process_count() == 1
    assert functad.default_backend() == "cpu" and functad.process_index() == 0
    x = jnp.ones(2)
    assert x.device is device and x.devices() == {device} == x.sharding.device_set and x.sharding.is_fully_replicated
    for put in (x.to_device(device), functad.device_put(x, x.sharding), functad.device_put(x, "cpu")):
        assert put.committed and not x.committed and np.shares_memory(np.asarray(put), np.asarray(x))
        assert functad.device_put(put, device) is put
    assert functad.sharding.SingleDeviceSharding(device) == x.sharding and isinstance(
        x.sharding, functad.sharding.Sharding
    )
    assert functad.effects_barrier() is None
    for use in (lambda: functad.devices("rocm"), lambda: x.to_device("tpu"), lambda: functad.device_put(x, 3)):
        with pytest.raises(DeviceError, match="is no device of functad, which has the CPU and NVIDIA's GPUs") as found:
            use()
        assert isinstance(found.value, RuntimeError)


def test_jit_and_compile_accept_what_changes_nothing():
    device = functad.devices()[0]
    f = functad.jit(
        lambda x: x + 1,
        device=device,
        in_shardings=None,
        out_shardings=jnp.ones(1).sharding,
        inline=True,
        keep_unused=True,
        backend="cpu",
        abstracted_axes=None,
        compiler_options={"xla_cpu_enable_fast_math": False},
    )
    assert f(1.0) == 2
    compiled = f.lower(1.0).compile(compiler_options={})
    assert compiled(1.0) == 2 and "add" in compiled.as_text()
    with pytest.raises(DeviceError, match="jit: .*no device"):
        functad.jit(lambda x: x, in_shardings=("mesh",))
    with pytest.raises(ArgumentError, match="abstracted_axes"):
        functad.jit(lambda x: x, abstracted_axes={0: "n"})


# --- types and states -------------------------------------------------------------------------------


def test_types_and_states_of_traces():
    assert functad.typeof(jnp.ones((2, 3))).str_short() == "f32[2,3]" and functad.typeof(1.0).weak_type
    assert functad.typeof(functad.ShapeDtypeStruct((2,), "int8")).shape == (2,)
    assert core.get_aval is core.typeof and issubclass(core.Tracer, functad.Array)
    outside = core.get_opaque_trace_state(convention="flax")
    inside = []

    def f(x):
        inside.extend([core.get_opaque_trace_state() == outside, core.trace_state_clean(), core.is_concrete(x)])
        with functad.ensure_compile_time_eval():
            n = int(jnp.sum(jnp.arange(4)))
            assert isinstance(x * n, core.Tracer)  # what is traced stays so
        assert core.concrete_or_error(int, n) == 6
        with pytest.raises(ConcretizationError):
            core.concrete_or_error(int, x)
        return x * n

    assert functad.jit(f)(2.0) == 12 and inside == [False, False, False]
    assert core.get_opaque_trace_state() == outside and core.trace_state_clean()
    assert isinstance(1.0, functad.typing.ArrayLike) and isinstance(jnp.ones(1), functad.typing.ArrayLike)
    assert isinstance(functad.__version_info__, tuple) and len(functad.__version_info__) == 3


def test_pytrees_as_vectors():
    tree = {"a": jnp.ones((2, 2)), "b": (3, jnp.zeros(1, "int8"))}
    vector, unravel = functad.flatten_util.ravel_pytree(tree)
    assert vector.tolist() == [1, 1, 1, 1, 3, 0]
    back = unravel(vector * 2)
    assert back["a"].tolist() == [[2, 2], [2, 2]] and back["b"][1].dtype == np.int8 and back["b"][0] == 6
    assert functad.grad(lambda v: unravel(v)["a"].sum())(vector).tolist() == [1, 1, 1, 1, 0, 0]
    with pytest.raises(ShapeError, match="a vector of 6 elements"):
        unravel(vector[1:])
    assert functad.flatten_util.ravel_pytree({})[0].shape == (0,)


# --- names that there are not -----------------------------------------------------------------------

MODULES = ["", "numpy", "numpy.linalg", "lax", "random", "nn", "optim", "data", "io", "tree", "tree_util", "dtypes"] + [
    "numpy.fft", "scipy", "scipy.fft", "scipy.signal", "scipy.special", "debug", "core", "typing", "sharding",
    "flatten_util", "ad_checkpoint", "checkpoint_policies", "custom_derivatives", "custom_batching", "errors", "stages",
    "extend", "extend.core", "interpreters", "interpreters.ad", "interpreters.batching", "scipy.linalg",
    "scipy.optimize", "experimental", "experimental.checkify", "experimental.ode",
]  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_every_module_explains_a_name_that_it_does_not_have(name):
    module = importlib.import_module(f"functad.{name}".rstrip("."))
    with pytest.raises(AbsentNameError, match=f"module '{module.__name__}' has no attribute 'qqqqqq'; dir\\("):
        module.qqqqqq  # noqa: B018
    assert not hasattr(module, "qqqqqq") and getattr(module, "qqqqqq", 3) == 3
    with pytest.raises(AbsentImportError, match=f"module '{module.__name__}' has no attribute 'qqqqqq'; dir\\("):
        exec(f"from {module.__name__} import qqqqqq")


@pytest.mark.parametrize(
    "get, text",
    [
        (lambda: functad.pmap, "one device, the CPU.*functad.vmap"),
        (lambda: functad.sharding.reshard, "one device, the CPU"),
        (lambda: functad.tree_map, "functad.tree.map"),
        (lambda: functad.jitt, "Did you mean functad.jit"),
        (lambda: functad.scipy.integrate.trapezoidal, "Did you mean functad.scipy.integrate.trapezoid"),
        (lambda: jnp.linalg.solv, "Did you mean functad.numpy.linalg.solve"),
        (lambda: jnp.linalg.LinAlgError, "is NaN"),
        (lambda: jnp.fft.fftt, "Did you mean functad.numpy.fft.fft"),
        (lambda: jnp.arnge, "Did you mean functad.numpy.arange"),
        (lambda: lax.pvary, "one device"),
        (lambda: random.shuffle, "functad.random.permutation"),
        (lambda: random.default_rng, "functad.random.key"),
        (lambda: functad.tree_util.tree_multimap, r"tree_map\(f, tree, \*rest\)"),
        (lambda: functad.nn.reluu, "Did you mean functad.nn.relu"),
        (lambda: functad.nn.Linear, "instead: functad.nn.Dense"),
        (lambda: functad.optim.partition, "instead: functad.optim.multi_transform"),
    ],
)
def test_absent_names_say_what_to_use_instead(get, text):
    with pytest.raises(AbsentNameError, match=text) as found:
        get()
    assert isinstance(found.value, AttributeError) and isinstance(found.value, FunctadError)


def test_absent_names_say_so_to_from_import_too():
    with pytest.raises(ImportError, match=r"one device, the CPU.*functad\.vmap") as found:
        from functad import pmap  # noqa: F401
    assert isinstance(found.value, FunctadError) and found.value.name == "functad"
    with pytest.raises(ImportError, match="Did you mean functad.lax.scan"):
        from functad.lax import scann  # noqa: F401


@pytest.mark.parametrize("module", sorted({*INSTEAD, *NAMES_ELSEWHERE}))
def test_what_to_use_instead_is_there(module):
    for name, text in [*INSTEAD.get(module, {}).items(), *NAMES_ELSEWHERE.get(module, {}).items()]:
        with pytest.raises(AbsentNameError):
            getattr(importlib.import_module(module), name)
        for path in re.findall(r"\bfunctad(?:\.[A-Za-z]\w*)+", text):
            found = functad
            for part in path.split(".")[1:]:
                found = getattr(found, part)


# --- calls that mean something else -----------------------------------------------------------------


class Odd:
    pass


@pytest.mark.parametrize(
    "use, error, text",
    [
        (lambda: jnp.zeros(2, 3), DTypeError, r"3 is no dtype. If it is a size.*one tuple: zeros\(\(2, 3\)\)"),
        (lambda: random.normal(random.key(0), 2, 3), DTypeError, "one tuple"),
        (lambda: jnp.zeros(2, dtype=Odd), DTypeError, "Odd.*is no dtype. A class stands for a dtype only if"),
        (lambda: jnp.zeros(2, dtype=Odd()), DTypeError, "is no dtype"),
        (lambda: jnp.zeros(2, dtype=[1]), DTypeError, "is no dtype"),
        (lambda: jnp.issubdtype("nonsense", np.floating), DTypeError, "'nonsense' is no dtype"),
        (lambda: jnp.issubdtype(np.float32, "nonsense"), DTypeError, "'nonsense' is no dtype"),
        (lambda: jnp.issubdtype("float32", "floating"), DTypeError, "numpy.floating is a kind of dtypes"),
        (lambda: jnp.issubdtype(np.float32, 3), DTypeError, "3 is no dtype"),
        (lambda: jnp.ones(3).at.set(1), AbsentNameError, r"x.at\[...\].set\(value\)"),
        (lambda: jnp.ones(3).at(0), ArgumentError, "index in brackets"),
        (lambda: jnp.ones(3).at[0].sett(1), AbsentNameError, r"no attribute 'sett'.*\.set\(v\), \.add\(v\)"),
        (lambda: jnp.ones(3).at[0] + 1, ArgumentError, r"is no array.*x.at\[index\].get\(\)"),
        (lambda: float(jnp.ones(3).at[0]), ArgumentError, "is no array"),
        (lambda: np.asarray(jnp.ones(3).at[0]), ArgumentError, "is no array"),
        (lambda: jnp.sin(jnp.ones(3).at[0]), ArgumentError, "is no array"),
    ],
)
def test_calls_that_mean_something_else_explain_themselves(use, error, text):
    with pytest.raises(error, match=text):
        use()


def test_assignments_through_at_explain_themselves():
    x = jnp.ones(3)
    with pytest.raises(ImmutableArrayError, match=r"x = x.at\[index\].set\(value\)"):
        x.at[0] = 1.0
    with pytest.raises(ArgumentError, match="is no array"):
        x.at[0] += 1.0


def test_an_update_whose_result_is_not_used_warns():
    x = jnp.ones(3)

    def forgets(x):
        x.at[0].set(2.0)
        return x

    for use in (forgets, functad.jit(lambda x: forgets(x))):
        with pytest.warns(UserWarning, match=r"not used.*write x = x.at\[...\].set\(...\)") as found:
            assert use(x).tolist() == [1, 1, 1]
        assert found[0].filename == __file__
    with pytest.warns(UserWarning, match="x.at.*.add"):
        x.at[jnp.array([0, 1])].add(1.0, mode="drop")
    for name, value in [("divide", 2.0), ("power", 2.0), ("apply", jnp.negative), ("subtract", 1.0), ("mul", 2.0),
                        ("multiply", 2.0), ("min", 0.0), ("max", 2.0)]:  # fmt: skip
        with pytest.warns(UserWarning, match=f"x.at.*{name}.*not used") as found:
            getattr(x.at[0], name)(value)
        assert len(found) == 1 and found[0].filename == __file__
    y = x.at[0].set(2.0)  # none of these warns
    assert [y.at[i].add(1.0)[i] for i in range(2)] == [3, 2]
    assert x.at[0].set(5.0).at[1].multiply(3.0).tolist() == [5, 3, 1]
    assert lax.fori_loop(0, 3, lambda i, v: v.at[i].set(i), x).tolist() == [0, 1, 2]
    assert x.at[0].apply(jnp.negative)[0] == -1 and x.at[0].divide(2.0)[0] == 0.5


def test_types_that_a_function_returns_are_shapes_already():
    struct = functad.ShapeDtypeStruct((2,), "int8")
    found = functad.eval_shape(lambda x: {"a": (x, struct), "b": x.sum()}, jnp.ones(3))
    assert found["a"][1] is struct and found["a"][0].shape == (3,) and found["b"].shape == ()


def test_wrappers_have_the_attributes_of_what_they_wrap():
    class Layer:
        __annotations__ = property(lambda self: "none")  # an object's class may have anything under this name

        def __init__(self):
            self.width = 3

        def __call__(self, x):
            return self.width * x

    mapped = functad.vmap(Layer())
    assert mapped.width == 3 and mapped(jnp.ones(2)).tolist() == [3.0, 3.0]
    assert functad.grad(Layer())(1.0) == 3 and functad.checkpoint(Layer()).width == 3


def test_types_of_tangents_and_addresses():
    x, n = jnp.ones((2, 3)), jnp.ones(2, "int8")
    assert functad.typeof(x).to_tangent_aval() == functad.typeof(x)
    assert functad.typeof(n).to_tangent_aval().dtype == functad.float0 == functad.typeof(n).at_least_vspace().dtype
    assert functad.typeof(1.0).weak_type and not functad.typeof(1.0).strip_weak_type().weak_type
    assert core.ShapedArray((2, 3), "float32") == functad.typeof(x) and isinstance(functad.typeof(x), core.ShapedArray)
    program = functad.make_jaxpr(lambda y: x + y)(x)
    assert core.ClosedJaxpr(program.jaxpr, [2 * x]).consts[0][0, 0] == 2 and isinstance(program, core.ClosedJaxpr)
    assert x.unsafe_buffer_pointer() == np.asarray(x).ctypes.data != n.unsafe_buffer_pointer()


def test_a_library_can_leave_its_own_lines_out(tmp_path):
    library = tmp_path / "library.py"
    library.write_text("def double(x):\n    return x + x\n")
    names: dict = {}
    exec(compile(library.read_text(), str(library), "exec"), names)
    assert str(functad.make_jaxpr(names["double"])(1.0).eqns[0].source).startswith(str(library))
    functad.extend.source_info_util.register_exclusion(str(library))
    assert str(functad.make_jaxpr(lambda x: names["double"](x))(1.0).eqns[0].source).startswith(__file__)


def test_names_of_jax_for_what_is_there():
    assert functad.experimental.io_callback is functad.io_callback
    with functad.check_tracer_leaks(True):
        assert functad.config.jax_check_tracer_leaks
