"""Saving and loading pytrees: what comes back, what is refused, what a damaged file does."""

from __future__ import annotations

import collections
import json
import os
import pickle
import re
import warnings
import zipfile
from io import BytesIO

import numpy as np
import pytest

import functad.system.cache
from functad import io, optim
from functad.errors import ArgumentError, DataError, TreeError

Pair = collections.namedtuple("Pair", ["left", "right"])

TREE = {
    "conv": {"kernel": np.arange(12, dtype=np.float32).reshape(3, 4), "bias": None},
    "a/b ['c'].npy": (np.array([True, False]), np.arange(3, dtype=np.int64)),
    "empty": [(), [], {}],
    "steps": {0: np.zeros((0, 5), np.float64), 10: np.array(2 + 1j, np.complex64), 2: np.float16(0.5)},
}


def assert_same(actual, expected):
    assert type(actual) is type(expected) or isinstance(actual, np.ndarray)
    if isinstance(expected, dict):
        assert set(actual) == set(expected)
        for key in expected:
            assert_same(actual[key], expected[key])
    elif isinstance(expected, (list, tuple)):
        assert len(actual) == len(expected)
        for left, right in zip(actual, expected, strict=True):
            assert_same(left, right)
    elif expected is None:
        assert actual is None
    else:
        assert actual.dtype == expected.dtype
        np.testing.assert_array_equal(actual, expected, strict=isinstance(expected, np.ndarray))


def test_a_tree_comes_back_with_structure_shapes_and_dtypes(tmp_path):
    io.save(tmp_path / "tree.npz", TREE)
    assert_same(io.load(tmp_path / "tree.npz"), TREE)


@pytest.mark.parametrize("tree", [None, [], np.arange(3), [None, ((),)]])
def test_small_trees_come_back(tmp_path, tree):
    io.save(tmp_path / "tree.npz", tree)
    assert_same(io.load(tmp_path / "tree.npz"), tree)


def test_the_checker_of_this_file_sees_a_difference():
    with pytest.raises(AssertionError):
        assert_same({"a": [np.float32(1)]}, {"a": (np.float32(1),)})
    with pytest.raises(AssertionError):
        assert_same([np.ones(2)], [np.ones(3)])


def test_python_scalars_take_the_default_dtypes(tmp_path):
    io.save(tmp_path / "tree.npz", [1, 2.5, True])
    loaded = io.load(tmp_path / "tree.npz")
    assert [leaf.dtype.name for leaf in loaded] == ["int32", "float32", "bool"]
    assert [leaf.item() for leaf in loaded] == [1, 2.5, True]


def test_numpy_alone_reads_the_arrays_by_their_key_paths(tmp_path):
    io.save(tmp_path / "tree.npz", {"conv": [{"kernel": np.ones(2)}]})
    with np.load(tmp_path / "tree.npz", allow_pickle=False) as file:
        np.testing.assert_array_equal(file["['conv'][0]['kernel']"], np.ones(2))


def test_folders_are_made_and_the_name_is_used_as_it_is(tmp_path):
    io.save(str(tmp_path / "new" / "params.functad"), [np.ones(2)])
    assert os.listdir(tmp_path / "new") == ["params.functad"]


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (
            {"opt": [collections.OrderedDict(a=1)]},
            r"tree\['opt'\]\[0\] is a OrderedDict.*dicts .* named tuples and None",
        ),
        (collections.OrderedDict(a=1), "tree is a OrderedDict"),
        ({"a": {1.5: 1}}, r"tree\['a'\] is a dict with the keys \[1.5\]"),
        ({1: 0, "a": 0}, r"dict with the keys \[1, 'a'\]"),
        ({"a": "text"}, r"leaf tree\['a'\] cannot be saved"),
        ([np.array([None])], r"leaf tree\[0\] cannot be saved"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_its_key_path_and_nothing_is_written(tmp_path, tree, message):
    with pytest.raises(ArgumentError, match=message):
        io.save(tmp_path / "tree.npz", tree)
    assert os.listdir(tmp_path) == []


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "tree.npz"
    io.save(path, [np.ones(2)])

    def interrupted(file, **arrays):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", interrupted)
    with pytest.raises(KeyboardInterrupt):
        io.save(path, [np.zeros(2)])
    assert os.listdir(tmp_path) == ["tree.npz"]
    np.testing.assert_array_equal(io.load(path)[0], np.ones(2))


def test_a_new_file_has_the_permissions_of_any_other(tmp_path):
    (tmp_path / "other").write_bytes(b"")
    with functad.system.cache.atomic_write(tmp_path / "file") as file:
        file.write(b"x")
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"nothing\.npz does not exist"):
        io.load(tmp_path / "nothing.npz")


def test_a_file_of_another_kind_is_named(tmp_path):
    path = tmp_path / "other.npz"
    for content in (b"", b"text", pickle.dumps([1, 2])):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"other\.npz is damaged.*no \.npz file"):
            io.load(path)
    np.savez(path, a=np.ones(2))
    with pytest.raises(DataError, match=r"other\.npz .*numpy.load reads other"):
        io.load(path)
    np.savez(path, functad_tree=np.array(json.dumps({"format": 99, "tree": None})))
    with pytest.raises(DataError, match=r"its format is 99, this version of functad reads 1"):
        io.load(path)


def test_a_pickled_array_is_never_loaded(tmp_path):
    path = tmp_path / "evil.npz"
    header = np.array(json.dumps({"format": 1, "tree": "array"}))
    np.savez(path, functad_tree=header, array=np.array([{"an": "object"}], dtype=object))
    with pytest.raises(DataError, match=r"evil\.npz.*dtype object, which save never writes"):
        io.load(path)


def test_every_truncation_is_noticed(tmp_path):
    path = tmp_path / "tree.npz"
    io.save(path, [np.arange(4, dtype=np.float32)])
    content = path.read_bytes()
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        with pytest.raises(DataError, match=r"tree\.npz is damaged"):
            io.load(path)


def test_a_flipped_byte_is_noticed_or_harmless(tmp_path):
    path = tmp_path / "tree.npz"
    tree = [np.arange(50, dtype=np.float32)]
    io.save(path, tree)
    content = path.read_bytes()
    noticed = 0
    for position in range(len(content)):
        path.write_bytes(content[:position] + bytes([content[position] ^ 0x55]) + content[position + 1 :])
        try:
            loaded = io.load(path)
        except DataError as error:
            assert "tree.npz" in str(error)
            noticed += 1
        else:
            assert_same(loaded, tree)
    # What is not noticed is a time stamp or another field that no reader needs.
    assert noticed > len(content) / 2


# --- named tuples, and what a file must be like -------------------------------------------------------


def test_named_tuples_come_back_as_tuples_and_with_like_as_they_were(tmp_path):
    path = tmp_path / "state.npz"
    state = {"pair": Pair(np.arange(2), [Pair(np.float32(1), None)])}
    io.save(path, state)
    assert_same(io.load(path), {"pair": (np.arange(2), [(np.float32(1), None)])})
    loaded = io.load(path, like=state)
    assert type(loaded["pair"]) is Pair and type(loaded["pair"].right[0]) is Pair
    with np.load(path, allow_pickle=False) as file:
        np.testing.assert_array_equal(file["['pair'].left"], np.arange(2))


def test_training_goes_on_from_a_saved_state(tmp_path):
    optimizer = optim.sgd(optim.linear_schedule(1.0, 0.0, 4), momentum=0.5)
    params = {"w": np.ones(2, np.float32)}
    _, state = optimizer.update(params, optimizer.init(params), params)
    io.save(tmp_path / "state.npz", state)
    loaded = io.load(tmp_path / "state.npz", like=optimizer.init(params))
    expected, _ = optimizer.update(params, state, params)
    actual, _ = optimizer.update(params, loaded, params)
    np.testing.assert_array_equal(np.asarray(actual["w"]), np.asarray(expected["w"]))


@pytest.mark.parametrize(
    ("like", "message"),
    [
        ({"a": [1.0, np.ones(3, np.float32)]}, r"tree\['a'\]\[1\] is an array of shape \(2,\).*like has .*\(3,\)"),
        ({"a": [1.0, np.ones(2)]}, r"tree\['a'\]\[1\] is .* dtype float32, but like has .* dtype float64"),
        ({"a": [1.0]}, r"tree\['a'\] is a list of 2, but like has a list of 1"),
        ({"a": (1.0, np.ones(2, np.float32))}, r"tree\['a'\] is a list of 2, but like has a tuple of 2"),
        ({"a": [1.0, None]}, r"tree\['a'\]\[1\] is an array .* like has None"),
        ({"b": 1.0}, r"tree is a dict with the keys \['a'\], but like has a dict with the keys \['b'\]"),
        (1.0, "like has an array of shape"),
    ],
)
def test_a_file_that_is_not_like_what_is_asked_for(tmp_path, like, message):
    io.save(tmp_path / "tree.npz", {"a": [1.0, np.ones(2, np.float32)]})
    with pytest.raises(DataError, match=r"tree\.npz does not fit: .*" + message):
        io.load(tmp_path / "tree.npz", like=like)


def test_a_file_that_cannot_be_written_is_named_as_the_user_did(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    path = tmp_path / "file" / "tree.npz"
    for write in (lambda: io.save(path, [1]), lambda: io.check_writable(path)):
        with pytest.raises(OSError, match="cannot be written: ") as info:
            write()
        assert info.value.filename == str(path)
        assert ".part" not in str(info.value)


def test_check_writable_leaves_nothing(tmp_path):
    io.check_writable(tmp_path / "new" / "tree.npz")
    assert os.listdir(tmp_path / "new") == []
    (tmp_path / "old.npz").write_bytes(b"old")
    io.check_writable(tmp_path / "old.npz")
    assert (tmp_path / "old.npz").read_bytes() == b"old"
    for name in ("new", "other" + os.sep):
        with pytest.raises(ArgumentError, match="give the path of a file, such as"):
            io.check_writable(str(tmp_path / "") + os.sep + name)


# --- files that nobody saved --------------------------------------------------------------------------


def npy(array, shape=None):
    """An array as NumPy's format has it, with another shape in its header."""
    array, file = np.asarray(array), BytesIO()
    header = np.lib.format.header_data_from_array_1_0(array)
    np.lib.format.write_array_header_1_0(file, header if shape is None else {**header, "shape": shape})
    return file.getvalue() + array.tobytes("A")


def hostile(path, tree='"array"', entries=None, header=None, compress=zipfile.ZIP_STORED):
    """A zip file as `save` writes it, but for what is given."""
    header = f'{{"format": 1, "tree": {tree}}}' if header is None else header
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile warns of a name twice
        with zipfile.ZipFile(path, "w", compress) as archive:
            archive.writestr("functad_tree.npy", npy(header) if isinstance(header, str) else npy(np.asarray(header)))
            for name, content in entries if entries is not None else [("array", npy(np.ones(3)))]:
                archive.writestr(f"{name}.npy", content)


def header(text):
    """An entry in NumPy's format with a header of our own."""
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


HOSTILE = {
    "huge shape": ({"entries": [("array", npy(np.ones(3), (1 << 60,)))]}, "declares an array of shape"),
    "negative shape": ({"entries": [("array", npy(np.ones(3), (-3,)))]}, "declares an array of shape|negative"),
    "strings": ({"entries": [("array", npy(np.array(["a"])))]}, "values of dtype <U1, which save never writes"),
    "dates": ({"entries": [("array", npy(np.zeros(2, "M8[D]")))]}, "datetime64"),
    "long doubles": (
        {"entries": [("array", npy(np.zeros(2, np.longdouble)))]},
        "float128|longdouble|not supported|never",
    ),
    "structured": ({"entries": [("array", npy(np.zeros(2, "i4,f4")))]}, "which save never writes"),
    "kind of node": ({"tree": '["set", null, ["array"]]'}, "unknown kind 'set'"),
    "node": ({"tree": '["list", null]'}, "in the place of a node"),
    "keys of floats": ({"tree": '["key<fry>", null, ["array"]]'}, "says key<fry> of what is not stored as such"),
    "keys of a word": (
        {"tree": '["key<fry>", null, ["array"]]', "entries": [("array", npy(np.zeros(1, np.uint32)))]},
        "says key<fry> of what is not stored as such",
    ),
    "keys of nothing": ({"tree": '["key<fry>", null, [null]]'}, "says key<fry> of what is not stored as such"),
    "bfloat16 of floats": ({"tree": '["bfloat16", null, ["array"]]'}, "says bfloat16 of what is not stored as such"),
    "number": ({"tree": "3"}, "in the place of a node"),
    "key twice": ({"tree": '["dict", ["a", "a"], ["array", "array"]]'}, "which are not as many"),
    "keys": ({"tree": '["dict", [["a"]], ["array"]]'}, "a dict has the keys"),
    "too few keys": ({"tree": '["dict", ["a"], ["array", "array"]]'}, "a dict with 2 values has the keys"),
    "entry twice": ({"entries": [("array", npy(1)), ("array", npy(2))]}, "the entry 'array' twice"),
    "header key twice": ({"header": '{"format": 1, "tree": null, "tree": "array"}'}, "the key 'tree' twice"),
    "missing array": ({"tree": '"other"'}, "the array 'other' is missing"),
    "no tree": ({"header": '{"format": 1}'}, "describes no tree"),
    "list for a header": ({"header": "[1]"}, "describes no tree"),
    "header of numbers": ({"header": np.ones(2)}, "which save never writes"),
    "future": ({"header": '{"format": 2, "tree": null}'}, "its format is 2"),
    "no JSON": ({"header": "{"}, "is damaged"),
    "deep": ({"tree": "[" * 100_000}, "is damaged"),
    "compressed": ({"compress": zipfile.ZIP_DEFLATED}, "is compressed"),
    "no npy": ({"entries": [("array", b"hello")]}, "is damaged"),
    "header of no literal": ({"entries": [("array", header("{'descr': '<f4', ("))]}, "is damaged"),
    "header of lines": ({"entries": [("array", header("if 1:\n  2\n 3"))]}, "is damaged"),
    "header of brackets": ({"entries": [("array", header("(" * 5000))]}, "is damaged"),
    "header of signs": ({"entries": [("array", header("-" * 9000 + "1"))]}, "a header that cannot be parsed"),
    "sizes beyond words": (
        {"entries": [("array", header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': (0, {10**30})}}"))]},
        "is damaged",
    ),
    "cut npy": ({"entries": [("array", npy(np.ones(3))[:-4])]}, "has 20 bytes"),
}


@pytest.mark.parametrize("content, text", HOSTILE.values(), ids=HOSTILE)
def test_files_that_save_never_wrote_are_refused_in_words(tmp_path, content, text):
    path = tmp_path / "hostile.npz"
    hostile(path, **content)
    with pytest.raises(DataError, match="hostile.npz is damaged, or was not written by functad.io.save") as found:
        io.load(path)
    assert re.search(text, str(found.value)), found.value


def test_the_writer_of_hostile_files_can_write_a_good_one(tmp_path):
    hostile(tmp_path / "good.npz")
    assert io.load(tmp_path / "good.npz").tolist() == [1, 1, 1]
    order = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    hostile(tmp_path / "good.npz", entries=[("array", npy(order))])
    loaded = io.load(tmp_path / "good.npz")
    assert loaded.tolist() == order.tolist() and loaded.flags.writeable


def test_trees_that_no_file_holds_are_refused(tmp_path):
    path = tmp_path / "file.npz"
    with pytest.raises(ArgumentError, match="70,004 characters, but a zip file keeps names of at most 65,535 bytes"):
        io.save(path, {"k" * 70_000: 1.0})
    endless = []
    endless.append(endless)
    with pytest.raises(TreeError, match="contains itself"):
        io.save(path, endless)
    deep = 1.0
    for _ in range(3000):
        deep = [deep]
    with pytest.raises(ArgumentError, match="nested too deeply"):
        io.save(path, deep)
    assert not path.exists()
