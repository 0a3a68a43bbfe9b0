"""Safetensors files of functad read by the package safetensors, and those of the package read by functad."""

from __future__ import annotations

import numpy as np
import pytest

import functad.numpy as jnp
from functad import io
from functad.errors import DataError

theirs = pytest.importorskip(
    "safetensors.numpy", reason="safetensors is not installed: the oracle tests compare functad's files with it"
)

DTYPES = "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 float32 float64 complex64".split()
ARRAYS = {
    f"layer.{i}.{dtype}": np.arange(6).reshape(shape).astype(dtype)
    for i, dtype in enumerate(DTYPES)
    for shape in [(6,), (2, 3), (3, 1, 2)][i % 3 : i % 3 + 1]
} | {"empty": np.zeros((0, 4), np.float32), "scalar": np.array(3.0)}


def assert_same(found, given):
    assert set(found) == set(given)
    for name, array in given.items():
        np.testing.assert_array_equal(found[name], array, strict=True)


def test_the_package_reads_what_functad_wrote(tmp_path):
    path = tmp_path / "ours.safetensors"
    io.save(path, ARRAYS)
    assert_same(theirs.load_file(path), ARRAYS)
    nested = {"layer": [{"kernel": ARRAYS["layer.10.float32"]}], "bfloat": jnp.array([1.5, -2.0], "bfloat16")}
    io.save(path, nested)
    found = theirs.load_file(path)
    assert set(found) == {"layer.0.kernel", "bfloat"}
    np.testing.assert_array_equal(found["layer.0.kernel"], nested["layer"][0]["kernel"], strict=True)
    assert found["bfloat"].astype(np.float32).tolist() == [1.5, -2.0]


def test_functad_reads_what_the_package_wrote(tmp_path):
    path = tmp_path / "theirs.safetensors"
    theirs.save_file(ARRAYS, path, metadata={"format": "np"})
    assert_same(io.load(path), ARRAYS)
    assert_same(io.load(path, like=ARRAYS), ARRAYS)
    theirs.save_file({"layers.0.w": np.ones(2, np.float32), "layers.1": np.zeros(3)}, path)
    found = io.load(path, like={"layers": [{"w": np.zeros(2, np.float32)}, np.zeros(3)]})
    assert found["layers"][0]["w"].tolist() == [1, 1] and found["layers"][1].shape == (3,)


def test_both_refuse_the_same_changes_of_the_header(tmp_path):
    """One byte of the header at a time: what functad takes, the package takes, and the other way round."""
    path = tmp_path / "changed.safetensors"
    theirs.save_file({"a": np.arange(4, dtype=np.uint8), "b": np.arange(3, dtype=np.int16)}, path)
    content = path.read_bytes()
    length = 8 + int.from_bytes(content[:8], "little")
    refused = 0
    for position in range(length):
        for other in b"09{},[] ":
            path.write_bytes(content[:position] + bytes([other]) + content[position + 1 :])
            try:
                given = theirs.load_file(path)
            except Exception:  # the package has one class of its own for all that it refuses, and Python's
                refused += 1
                with pytest.raises(DataError):
                    io.load(path)
            else:
                assert_same(io.load(path), given)
    assert refused > length
