"""Words for layouts over devices, of which there is one: they are taken, refused as JAX does, and move nothing."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax
from functad.errors import ArgumentError, DeviceError
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
    assert spec == PartitionSpec("data", None, ("a", "b")) == ("data", None, ("a", "b")) != PartitionSpec("data")
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


def test_the_mesh_of_a_context():
    assert get_abstract_mesh().empty and get_mesh().empty
    with set_mesh(MESH) as entered:
        assert entered is get_mesh() is MESH and get_abstract_mesh() == MESH.abstract_mesh
        with Mesh(functad.devices(), "inner") as inner:
            assert get_mesh() is inner
        assert get_mesh() is MESH
    assert get_mesh().empty


SHARDINGS = {
    "named": NamedSharding(MESH, PartitionSpec("data", None)),
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


def test_what_is_refused():
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
