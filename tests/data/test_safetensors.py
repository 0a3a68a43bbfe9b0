"""Safetensors files: what comes back, what others can read of it, what is refused, and in which words."""

from __future__ import annotations

import collections
import json
import os
import re

import numpy as np
import pytest
from bfloat16_tools import needs_bfloat16

import functad.numpy as jnp
from functad import io, optim, random
from functad.errors import ArgumentError, DataError

Pair = collections.namedtuple("Pair", ["left", "right"])


def parts(path):
    """The header of a file, and the bytes behind it."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length]), content[8 + length :], 8 + length


def written(path, header, data=b"", length=None):
    """A file as others may write it."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)
    return path


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file.safetensors"


TREE = {
    "dense": [{"kernel": np.arange(6, dtype=np.float32).reshape(3, 2).T, "bias": None}],
    "numbers": {3: np.array(True), 1: (np.zeros((0, 2), np.int16), [])},
    "lone": np.complex64(1 - 2j),
}


def test_a_tree_comes_back(path):
    io.save(path, TREE)
    found = io.load(path)
    assert found["dense"][0]["bias"] is None and found["numbers"][1][1] == []
    assert type(found["numbers"][1]) is tuple and list(found["numbers"]) == [1, 3]
    for ours, given in (
        (found["dense"][0]["kernel"], TREE["dense"][0]["kernel"]),
        (found["numbers"][1][0], TREE["numbers"][1][0]),
        (found["numbers"][3], TREE["numbers"][3]),
        (found["lone"], np.asarray(TREE["lone"])),
    ):
        np.testing.assert_array_equal(ours, given, strict=True)
        assert ours.flags.writeable and ours.flags.c_contiguous
    state = Pair(np.ones(2, np.float32), [Pair(1, None)])
    io.save(path, state)
    assert io.load(path, like=state).right[0].right is None and type(io.load(path)) is tuple


@pytest.mark.parametrize("tree", [None, [], {}, np.arange(3), [None, ((),)], {"": np.ones(1)}])
def test_small_trees_come_back(path, tree):
    io.save(path, tree)
    found = io.load(path)
    assert type(found) is type(tree) and np.array_equal(np.asarray(found, object), np.asarray(tree, object))


def test_every_dtype_comes_back_with_its_name(path):
    names = "BOOL U8 I8 U16 I16 U32 I32 U64 I64 F16 F32 F64 C64".split()
    dtypes = "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 float32 float64 complex64".split()
    tree = {name: np.array([0, 1, 1], dtype) for name, dtype in zip(names, dtypes, strict=True)}
    io.save(path, tree)
    header, _, _ = parts(path)
    found = io.load(path)
    for name in names:
        assert header[name]["dtype"] == name
        np.testing.assert_array_equal(found[name], tree[name], strict=True)


@needs_bfloat16
def test_bfloat16_is_written_as_such(path):
    tree = [jnp.array([1.5, -2.0], "bfloat16"), jnp.zeros((0, 3), "bfloat16")]
    io.save(path, tree)
    header, data, _ = parts(path)
    assert header["0"]["dtype"] == "BF16" and data == b"\xc0\x3f\x00\xc0"
    found = io.load(path, like=tree)
    assert found[0].dtype.name == "bfloat16" and found[0].tolist() == [1.5, -2.0]
    written(path, {"w": entry("BF16", [1], 0, 2)}, b"\xc0\x3f")
    assert io.load(path)["w"].astype(np.float32).tolist() == [1.5]


def test_bfloat16_without_its_package_is_refused_in_words(path, monkeypatch):
    def absent():
        raise io.files.DTypeError("bfloat16 needs the package ml_dtypes")

    monkeypatch.setattr(io.safetensors, "bfloat16_dtype", absent)
    written(path, {"w": entry("BF16", [1], 0, 2)}, b"\xc0\x3f")
    with pytest.raises(DataError, match="file.safetensors cannot be loaded: bfloat16 needs the package ml_dtypes"):
        io.load(path)


def test_typed_keys_come_back(path):
    keys = random.split(random.key(3), 4)
    io.save(path, {"keys": keys, "raw": random.key_data(keys)})
    found = io.load(path, like={"keys": keys, "raw": random.key_data(keys)})
    assert found["keys"].dtype == random.key_dtype()
    np.testing.assert_array_equal(random.key_data(found["keys"]), found["raw"])


def test_the_file_is_as_the_format_says(path):
    io.save(path, {"a": [np.ones(3, np.uint8), np.ones((2, 2))], "b": np.float32(1), "z": jnp.int32(7)})
    header, data, start = parts(path)
    assert start % 8 == 0 and path.read_bytes()[8:9] == b"{"
    assert json.loads(header.pop("__metadata__")["functad_tree"])["format"] == 1
    assert header["b"] == entry("F32", [], 32, 36) and set(header) == {"a.0", "a.1", "b", "z"}
    at = 0
    for value in sorted(header.values(), key=lambda value: value["data_offsets"]):
        begin, end = value["data_offsets"]
        size = int(value["dtype"][1:]) // 8
        assert begin == at and begin % size == 0 and end - begin == size * np.prod(value["shape"], dtype=int)
        at = end
    assert at == len(data)


def test_names_that_would_be_taken_for_others_are_full_key_paths(path):
    for tree in (
        {"a.b": np.ones(1), "a": {"b": np.zeros(1)}},
        {"__metadata__": np.ones(1)},
        {"array": np.ones(1), "": np.zeros(1)},
        {"\ud800": np.ones(1)},
    ):
        io.save(path, tree)
        assert all(name.startswith("['") or name == "__metadata__" for name in parts(path)[0])
        found = io.load(path)
        assert set(found) == set(tree) and found.get("a.b", 1) == 1


def test_arrays_of_others_are_a_dict_by_their_names(path):
    header = {
        "__metadata__": {"format": "pt"},
        "layer.1.weight": {**entry("F32", [1, 2], 1, 9), "more": "is left out"},
        "x": entry("I8", [1], 0, 1),
        "empty": entry("F64", [0, 3], 9, 9),
    }
    written(path, header, b"\xff" + np.array([1, 2], "<f4").tobytes())
    found = io.load(path)
    assert found["layer.1.weight"].tolist() == [[1, 2]] and found["x"].tolist() == [-1]
    assert found["empty"].shape == (0, 3) and list(found) == ["layer.1.weight", "x", "empty"]
    written(path, b'{"x":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}     ', b"\x05")
    assert io.load(path)["x"] == 5
    like = {"x": np.zeros((), np.uint8)}
    assert io.load(path, like=like)["x"] == 5
    with pytest.raises(
        DataError, match=r"tree\['x'\] is an array of shape \(\) and dtype uint8, but like has .* int32"
    ):
        io.load(path, like={"x": 0})


ONE = entry("U8", [2], 0, 2)
HOSTILE = {
    "nothing": ((b"",), {"raw": b""}, "has 0 bytes, too few"),
    "seven bytes": ((b"",), {"raw": b"\x01" * 7}, "has 7 bytes, too few"),
    "giant header": (({"a": ONE}, b"ab"), {"length": 2**63}, "header would have 9,223,372,036,854,775,808 bytes"),
    "header beyond the end": (({"a": ONE}, b"ab"), {"length": 5_000}, "header would have 5,000 bytes, but"),
    "another first byte": ((b' {"a":1}',), {}, "does not begin with '{'"),
    "no JSON": ((b'{"a":',), {}, "is damaged"),
    "no UTF-8": ((b'{"\xff":1}',), {}, "codec can't decode"),
    "not a number": (
        (b'{"a":{"dtype":"U8","shape":[NaN],"data_offsets":[0,1]}}', b"a"),
        {},
        "has NaN, which is no JSON",
    ),
    "a key twice": ((b'{"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"a":{}}', b"a"), {}, "the key 'a' twice"),
    "dtype twice": ((b'{"a":{"dtype":"U8","dtype":"I8","shape":[],"data_offsets":[0,1]}}', b"a"), {}, "'dtype' twice"),
    "deep": ((b"{" + b'"a":[' * 100_000,), {}, "is damaged"),
    "overlap": (({"a": ONE, "b": entry("U8", [2], 1, 3)}, b"abc"), {}, "'b' begins at byte 1, where 2 was expected"),
    "the same bytes": (({"a": ONE, "b": ONE}, b"ab"), {}, "arrays overlap"),
    "gap": (({"a": ONE, "b": entry("U8", [1], 3, 4)}, b"abcd"), {}, "'b' begins at byte 3, where 2 was expected"),
    "gap at the start": (({"a": entry("U8", [1], 1, 2)}, b"ab"), {}, "begins at byte 1, where 0"),
    "beyond the end": (({"a": ONE}, b"a"), {}, "end at byte 2, but 1 bytes follow"),
    "too much data": (({"a": ONE}, b"abc"), {}, "end at byte 2, but 3 bytes follow"),
    "no arrays, but data": (({}, b"abc"), {}, "end at byte 0, but 3 bytes follow"),
    "backwards": (({"a": entry("U8", [2], 2, 0)}, b"ab"), {}, "has -2 bytes"),
    "negative": (({"a": entry("U8", [2], -2, 0)}, b"ab"), {}, "the data_offsets .-2, 0"),
    "negative shape": (({"a": entry("U8", [-1, -2], 0, 2)}, b"ab"), {}, "has the shape .-1, -2"),
    "another size": (({"a": entry("F32", [2], 0, 2)}, b"ab"), {}, r"shape \[2\] and dtype float32, but has 2 bytes"),
    "huge shape": (({"a": entry("U8", [2**62, 2**62], 0, 2)}, b"ab"), {}, "but has 2 bytes"),
    "huge empty shape": (({"a": entry("U8", [0, 2**62, 2**62], 0, 0)},), {}, "is damaged"),
    "many axes": (({"a": entry("U8", [1] * 100, 0, 1)}, b"a"), {}, "is damaged"),
    "shape of floats": (({"a": entry("U8", [2.0], 0, 2)}, b"ab"), {}, "has the shape"),
    "shape of truths": (({"a": entry("U8", [True], 0, 1)}, b"a"), {}, "has the shape"),
    "a lone size": (({"a": entry("U8", 2, 0, 2)}, b"ab"), {}, "has the shape 2"),
    "three offsets": (({"a": {**ONE, "data_offsets": [0, 1, 2]}}, b"ab"), {}, "data_offsets .0, 1, 2"),
    "no shape": (({"a": {"dtype": "U8", "data_offsets": [0, 2]}}, b"ab"), {}, "lacks a dtype, a shape"),
    "no entry": (({"a": 3}, b""), {}, "lacks a dtype"),
    "metadata of numbers": (({"__metadata__": {"a": 1}},), {}, "is not a map of texts"),
    "a list for metadata": (({"__metadata__": []},), {}, "is not a map of texts"),
    "booleans of other bytes": (
        ({"__metadata__": {"functad_tree": '{"format": 1, "tree": "a"}'}, "a": entry("BOOL", [1], 0, 1)}, b"\x02"),
        {},
        "booleans holds others than 0 and 1",
    ),
    "plain booleans of other bytes": (({"a": entry("BOOL", [1], 0, 1)}, b"\x02"), {}, "holds others than 0 and 1"),
    "a structure without the array": (
        ({"__metadata__": {"functad_tree": '{"format": 1, "tree": null}'}, "a": ONE}, b"ab"),
        {},
        "does not say where the array 'a' belongs",
    ),
    "an array twice": (
        ({"__metadata__": {"functad_tree": '{"format": 1, "tree": ["list", null, ["a", "a"]]}'}, "a": ONE}, b"ab"),
        {},
        "'a' is missing, or comes twice",
    ),
}


@pytest.mark.parametrize("content, options, text", HOSTILE.values(), ids=HOSTILE)
def test_files_that_are_none_are_refused_in_words(path, content, options, text):
    if "raw" in options:
        path.write_bytes(options["raw"])
    else:
        written(path, *content, **options)
    with pytest.raises(DataError, match="file.safetensors is damaged, or is no safetensors file: ") as found:
        io.load(path)
    assert re.search(text, str(found.value)), found.value


@pytest.mark.parametrize("dtype", ["F8_E4M3", "F8_E5M2", "F4", "F128", 3])
def test_dtypes_that_are_not_there_are_named(path, dtype):
    written(path, {"layer.w": entry(dtype, [2], 0, 2)}, b"ab")
    with pytest.raises(DataError, match=rf"cannot be loaded: its array 'layer.w' has dtype .*{dtype}.* to one of BOOL"):
        io.load(path)


def test_every_truncation_and_flip_is_noticed_or_harmless(path):
    tree = [np.arange(4, dtype=np.float32)]
    io.save(path, tree)
    content = path.read_bytes()
    for length in range(0, len(content), 5):
        path.write_bytes(content[:length])
        with pytest.raises(DataError, match="is damaged"):
            io.load(path)
    for position in range(len(content) - 16):  # the numbers themselves have no checksum
        path.write_bytes(content[:position] + bytes([content[position] ^ 0x15]) + content[position + 1 :])
        try:
            io.load(path)
        except DataError as error:
            assert "file.safetensors" in str(error)


def test_what_no_file_holds_is_refused_and_nothing_is_written(path, tmp_path, monkeypatch):
    with pytest.raises(ArgumentError, match="'a.b' has dtype complex128, which safetensors files have not"):
        io.save(path, {"a": {"b": np.ones(2, np.complex128)}})
    with pytest.raises(ArgumentError, match=r"leaf tree\['a'\] cannot be saved"):
        io.save(path, {"a": "text"})
    monkeypatch.setattr(io.safetensors, "_MOST_HEADER", 1000)
    with pytest.raises(ArgumentError, match="names and the structure take 1,.* at most 1,000"):
        io.save(path, {"a" * 600: 1.0})
    assert os.listdir(tmp_path) == []


def test_the_suffix_chooses_the_format(tmp_path):
    for name, start in (("a.SAFETENSORS", b"{"), ("a.npz", None), ("safetensors", None)):
        io.save(tmp_path / name, [1])
        content = (tmp_path / name).read_bytes()
        assert content[8:9] == start if start else content[:2] == b"PK"
        assert io.load(str(tmp_path / name))[0] == 1
    (tmp_path / "b.safetensors").write_bytes((tmp_path / "a.npz").read_bytes())
    with pytest.raises(DataError, match="b.safetensors is damaged, or is no safetensors file"):
        io.load(tmp_path / "b.safetensors")


def test_arrays_of_others_take_the_structure_of_like_where_their_names_are_its_key_paths(path):
    like = {"layers": [{"w": np.zeros((1, 2), np.float32)}, ()], "state": Pair(np.zeros(1, np.int8), None)}
    header = {"state.left": entry("I8", [1], 0, 1), "layers.0.w": entry("F32", [1, 2], 1, 9)}
    written(path, header, b"\xff" + np.array([1, 2], "<f4").tobytes())
    found = io.load(path, like=like)
    assert found["layers"][0]["w"].tolist() == [[1, 2]] and found["layers"][1] == ()
    assert isinstance(found["state"], Pair) and found["state"].left.tolist() == [-1]
    with pytest.raises(
        DataError, match=r"tree\['layers'\]\[0\]\['w'\] is an array of shape \(1, 2\).*like has .*\(2, 2\)"
    ):
        io.load(path, like={**like, "layers": [{"w": np.zeros((2, 2), np.float32)}, ()]})
    with pytest.raises(
        DataError,
        match=r"like has \['layers.0.b'\], which the file has not; it has \['state.left'\], which like has not",
    ):
        io.load(path, like={"layers": [{"w": np.zeros((1, 2), np.float32), "b": np.zeros(1)}]})


# --- what both formats have in common -----------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_a_misfit_names_the_key_path_and_both_sides(tmp_path, suffix):
    path = tmp_path / f"params.{suffix}"
    tree = {"layers": [{f"w{i}": np.ones(1) for i in range(20)}]}
    io.save(path, tree)
    like = {"layers": [{f"w{i}": np.ones(1) for i in range(2, 23)}]}
    with pytest.raises(DataError) as found:
        io.load(path, like=like)
    text = str(found.value)
    assert "tree['layers'][0] is a dict with 20 keys, among them ['w0', 'w1'] which the other has not" in text
    assert "but like has a dict with 21 keys, among them ['w20', 'w21', 'w22'] which the other has not" in text
    with pytest.raises(
        DataError, match=r"\['layers'\]\[0\]\['w3'\] is an array of shape \(1,\).* \(2,\) and dtype float64"
    ):
        io.load(path, like={"layers": [{**tree["layers"][0], "w3": np.ones(2)}]})


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_where_like_has_dots_anything_fits(tmp_path, suffix):
    path = tmp_path / f"file.{suffix}"
    io.save(path, {"a": [1, {"b": 2.0}], "c": 3})
    assert io.load(path, like={"a": ..., "c": 0})["a"][1]["b"] == 2
    with pytest.raises(DataError, match="like has a dict with the keys"):
        io.load(path, like={"a": ..., "d": 0})


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_training_goes_on_from_a_saved_state(tmp_path, suffix):
    optimizer = optim.adam(0.1)
    params = {"w": np.ones(2, np.float32)}
    _, state = optimizer.update(params, optimizer.init(params), params)
    io.save(tmp_path / f"state.{suffix}", state)
    loaded = io.load(tmp_path / f"state.{suffix}", like=optimizer.init(params))
    expected, _ = optimizer.update(params, state, params)
    actual, _ = optimizer.update(params, loaded, params)
    np.testing.assert_array_equal(np.asarray(actual["w"]), np.asarray(expected["w"]))
