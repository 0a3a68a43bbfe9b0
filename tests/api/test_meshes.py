"""Words for layouts over devices, of which there is one: they are taken, refused as JAX does, and move nothing."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax
from functad.api import meshes
from functad.editing.fingerprint import fingerprint
from functad.errors import ArgumentError, DeviceError, TreeError
from functad.sharding import (
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec,
    SingleDeviceSharding,
    get_abstract_mesh,
    get_mesh,
    set_mesh,
)

MESH = functad.make_mesh((1, 1), ("data", "model"))
X = np.arange(4.0, dtype=np.float32)


def test_specs_are_sequences_of_names():
    spec = functad.P("data", None, ("a", "b"))
    assert spec == PartitionSpec("data", None, ("a", "b")) != PartitionSpec("data")
    assert tuple(spec) == ("data", None, ("a", "b")) != spec  # a spec equals specs alone, as in JAX
    assert PartitionSpec("a", ("b",)) == PartitionSpec("a", "b") and PartitionSpec(["a", "b"])[0] == ("a", "b")
    assert (len(spec), list(spec)[0], spec.index(None), spec.count("a")) == (3, "data", 1, 0)
    assert spec + PartitionSpec("x") == PartitionSpec("data", None, ("a", "b"), "x") and spec[1:] == (None, ("a", "b"))
    assert functad.tree_util.tree_leaves([spec, spec]) == [spec, spec] and {spec: 1}[PartitionSpec(*spec)] == 1


def test_meshes():
    assert dict(MESH.shape) == {"data": 1, "model": 1} and MESH.size == 1 and not MESH.empty
    assert MESH == functad.make_mesh((1, 1), ["data", "model"]) != functad.make_mesh((1,), ("data",))
    assert MESH.devices.shape == (1, 1) and MESH.local_devices == functad.devices() and MESH.local_mesh is MESH
    assert MESH.abstract_mesh == AbstractMesh((1, 1), ("data", "model")) != MESH and hash(MESH) == hash(MESH)
    assert MESH.axis_types == (AxisType.Auto,) * 2 and MESH.shape_tuple == (("data", 1), ("model", 1))
    with pytest.raises(DeviceError, match=r"a mesh of shape \(2,\) needs 2 devices, but there is one"):
        functad.make_mesh((2,), ("data",))
    with pytest.raises(ArgumentError, match="a name for each axis"):
        Mesh(functad.devices(), ("data", "model"))
    with pytest.raises(DeviceError):
        Mesh(["gpu"], ("data",))


def test_jaxs_parameters_of_device_put_are_taken():
    def put(x):
        (moved,) = lax.device_put_p.bind(x, devices=(functad.devices()[0],), srcs=(None,), copy_semantics=(None,))
        return moved.sum()

    ones = np.ones(4, np.float32)
    for f in (put, functad.jit(put)):
        assert f(X) == 6 and np.array_equal(functad.grad(f)(X), ones)
        assert functad.jvp(f, (X,), (ones,))[1] == 4 and functad.vmap(f)(np.stack([X, X])).tolist() == [6, 6]


def test_the_mesh_of_a_context():
    assert get_abstract_mesh().empty and get_mesh().empty
    with set_mesh(MESH) as entered:
        assert entered is get_mesh() is MESH and get_abstract_mesh() == MESH.abstract_mesh
        with Mesh(functad.devices(), "inner") as inner:
            assert get_mesh() is inner
        assert get_mesh() is MESH
    assert get_mesh().empty


SHARDINGS = {
    "named": NamedSharding(MESH, PartitionSpec("data")),
    "replicated": NamedSharding(MESH, PartitionSpec()),
    "single": SingleDeviceSharding(),
}


@pytest.mark.parametrize("name", SHARDINGS)
def test_layouts_move_nothing(name):
    sharding = SHARDINGS[name]
    assert functad.device_put(X, sharding).tolist() == lax.with_sharding_constraint(X, sharding).tolist() == X.tolist()
    f = functad.jit(lambda x: lax.with_sharding_constraint(jnp.sin(x), sharding), in_shardings=sharding)
    assert np.array_equal(f(X), functad.jit(jnp.sin)(X))
    assert functad.grad(lambda x: f(x).sum())(X).shape == X.shape
    assert sharding.is_equivalent_to(SingleDeviceSharding(), 1) and sharding.shard_shape((4, 2)) == (4, 2)
    assert sharding.device_set == set(functad.devices()) and sharding.is_fully_replicated


def test_types_and_arrays_tell_their_layouts():
    named = SHARDINGS["named"]
    put = functad.device_put({"a": X, "b": (X, 1.0)}, {"a": named, "b": None})
    assert put["a"].sharding is named and put["b"][0].sharding == SingleDeviceSharding()
    assert functad.device_put(put["a"]).sharding is named and functad.device_put(put["a"], named) is put["a"]
    on_device = functad.device_put(put["a"], functad.devices()[0])
    assert on_device.sharding == SingleDeviceSharding() and put["a"].sharding is named
    assert lax.with_sharding_constraint(on_device, named).sharding is named
    key = functad.device_put(functad.random.key(0), NamedSharding(MESH, PartitionSpec()))
    assert key.sharding.mesh is MESH and functad.random.uniform(key) == functad.random.uniform(functad.random.key(0))
    typed = functad.typeof(jnp.ones((2, 3))).sharding
    assert typed.spec == PartitionSpec(None, None) and typed.mesh.empty and put["a"].aval.sharding.mesh.empty
    assert repr(typed) == "NamedSharding(mesh=AbstractMesh((), axis_types=()), spec=P(None, None))"
    struct = functad.ShapeDtypeStruct((2,), "float32", sharding=named)
    assert struct.sharding is named and struct.update(dtype="int8").sharding is named
    assert struct != functad.ShapeDtypeStruct((2,), "float32") and "sharding=NamedSharding(" in repr(struct)
    assert functad.eval_shape(jnp.sin, struct) == functad.ShapeDtypeStruct((2,), "float32")


def test_layouts_end_with_their_arrays():
    before = len(meshes._layouts)
    put = functad.device_put(X, SHARDINGS["named"])
    assert len(meshes._layouts) == before + 1
    del put
    assert len(meshes._layouts) == before


WIDE = NamedSharding(MESH, PartitionSpec("data", "model"))
ROW = NamedSharding(MESH, PartitionSpec("data"))
UNFIT = {
    "put": lambda: functad.device_put(X, WIDE),
    "put a number": lambda: functad.device_put(1.0, ROW),
    "put in a tree": lambda: functad.device_put((X, X), (ROW, WIDE)),
    "put while traced": lambda: functad.jit(lambda x: functad.device_put(x, WIDE))(X),
    "constraint": lambda: lax.with_sharding_constraint(X, WIDE),
    "constraint while traced": lambda: functad.jit(lambda x: lax.with_sharding_constraint(x, WIDE))(X),
    "jit's arguments": lambda: functad.jit(lambda x, y: x, in_shardings=(None, WIDE))(X, X),
    "jit's results": lambda: functad.jit(lambda x: x, out_shardings=WIDE)(X),
    "a type": lambda: functad.ShapeDtypeStruct((2,), "float32", sharding=WIDE),
}


@pytest.mark.parametrize("name", UNFIT)
def test_layouts_of_more_axes_than_an_array_has_are_refused(name):
    with pytest.raises(
        ArgumentError, match=r"is only valid for values of rank at least \d, but was applied to a value"
    ):
        UNFIT[name]()


OTHER_TREES = {
    "put": lambda: functad.device_put((X, X), (ROW, ROW, ROW)),
    "put a dict": lambda: functad.device_put({"a": X}, {"b": ROW}),
    "constraint": lambda: lax.with_sharding_constraint((X, X), (ROW,)),
    "jit's arguments": lambda: functad.jit(lambda x, y: x, in_shardings=(ROW,))(X, X),
    "jit's only argument": lambda: functad.jit(lambda d: d["a"], in_shardings={"a": ROW})({"a": X}),
    "jit's results": lambda: functad.jit(lambda x: (x, x), out_shardings=(ROW,))(X),
}


@pytest.mark.parametrize("name", OTHER_TREES)
def test_trees_of_layouts_reach_less_deep_than_the_arrays(name):
    with pytest.raises(TreeError, match="must have the structure of the tree of arrays, or end in a leaf higher up"):
        OTHER_TREES[name]()


def test_results_of_a_jitted_function_tell_the_layouts_asked_for():
    f = functad.jit(lambda x: (x + 1, {"a": x}), out_shardings=(SHARDINGS["named"], None))
    for _ in range(3):  # the call that traces, the short way, and both again within transforms
        plain, other = f(X)
        assert plain.sharding is SHARDINGS["named"] and other["a"].sharding == SingleDeviceSharding()
    assert functad.vmap(f)(X[None])[0].shape == (1, *X.shape)
    assert functad.grad(lambda x: f(x)[0].sum())(X).tolist() == np.ones_like(X).tolist()
    with functad.disable_jit():
        assert f(X)[0].tolist() == (X + 1).tolist()


def test_specs_of_a_jitted_function_mean_the_mesh_of_the_call():
    f = functad.jit(lambda x, y: (x + y, y), in_shardings=(PartitionSpec("data"), None), out_shardings=PartitionSpec())
    with pytest.raises(
        DeviceError, match="in_shardings of jit: P\\('data',\\) names axes of a mesh, but there is none"
    ):
        f(X, X)
    with set_mesh(MESH):
        assert f(X, X)[0].tolist() == (2 * X).tolist()


def test_what_is_refused():
    with pytest.raises(AttributeError, match=r"functad.typeof\(x\).sharding is that of its type"):
        functad.jit(lambda x: x.sharding)(X)
    with pytest.raises(ArgumentError, match="sharding must be one of functad.sharding, got 'cpu'"):
        functad.ShapeDtypeStruct((2,), "float32", sharding="cpu")
    with pytest.raises(ArgumentError, match=r"P\('x',\) names \['x'\], but the axes of the mesh are"):
        NamedSharding(MESH, PartitionSpec("x"))
    with pytest.raises(ArgumentError, match=r"names \['data'\] more than once"):
        NamedSharding(MESH, PartitionSpec("data", (None, "data")))
    with pytest.raises(DeviceError, match="there is none here: use functad.set_mesh"):
        lax.with_sharding_constraint(X, PartitionSpec("data"))
    with set_mesh(MESH):
        assert lax.with_sharding_constraint({"a": X}, PartitionSpec("data"))["a"].shape == (4,)
        with pytest.raises(ArgumentError, match="the axes of the mesh are"):
            lax.with_sharding_constraint(X, PartitionSpec("x"))


def test_what_is_traced_is_put_by_an_equation_that_costs_nothing():
    def put(x):
        return 2 * functad.device_put(x, "cpu")

    program = functad.make_jaxpr(put)(X)
    assert "b:f32[4] = device_put[devices=(CpuDevice(id=0),) srcs=(None,)] a" in str(program)
    assert [e.primitive.name for e in functad.jit(put).lower(X).optimized.eqns] == ["mul"]
    assert fingerprint(program) is not None
    assert [e.primitive.name for e in functad.make_jaxpr(lambda x: functad.device_put(x))(X).eqns] == []
    assert "device_put" in str(functad.make_jaxpr(lambda x: x + functad.device_put(X, "cpu"))(X))
    with functad.debug_nans(True):  # it makes none
        assert functad.grad(lambda x: functad.device_put(x, "cpu")[0])(np.float32([0, np.nan])).tolist() == [1, 0]
    for within in (put, functad.jit(put), functad.checkpoint(put)):  # a loop runs on one device
        body = functad.make_jaxpr(lambda x, f=within: lax.map(f, x))(X)
        assert "mul" in str(body) and "device_put" not in str(body)
    back = functad.make_jaxpr(functad.grad(lambda x: put(x).sum()))(X)
    assert "devices=(DevicePlace(device=None, committed=False),)" in str(back)  # nobody knows where x lies
