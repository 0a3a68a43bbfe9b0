"""`loader`: order, rests, positions, threads that end, their errors, forks, sources of many kinds; idx files."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

import numpy as np
import pytest
from test_mnist import idx

import functad
from functad import io, random
from functad.data import Position, batches, loader, read_idx
from functad.errors import ArgumentError, DataError, ShapeError

ROOT = Path(__file__).parents[2]
X = np.arange(23 * 3, dtype=np.float32).reshape(23, 3)
DATA = {"x": X, "y": np.arange(23)}
KEY = random.key(7)


def labels(given):
    return [batch["y"].tolist() for batch in given]


def threads():
    return [t for t in threading.enumerate() if t.name.startswith("functad-loader")]


@pytest.fixture(autouse=True)
def no_thread_stays():
    yield
    assert not threads()


# --- order and rests ----------------------------------------------------------------------------------


@pytest.mark.parametrize("prefetch", [0, 1, 2, 50])
def test_each_loop_is_an_epoch_in_the_order_of_the_keys(prefetch):
    given, key = loader(DATA, 5, KEY, prefetch=prefetch), KEY
    for epoch in range(3):
        assert given.position == (epoch, 0)
        key, order, _ = random.split(key, 3)
        found, expected = list(given), list(batches(DATA, 5, key=order))
        assert labels(found) == labels(expected) and len(found) == len(given) == 5
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(ours["x"], theirs["x"], strict=True)
    assert sorted(y for batch in labels(loader(DATA, 5, KEY)) for y in batch) == list(range(23))


def test_without_a_key_items_come_as_they_are():
    given = loader(DATA, 10)
    assert labels(given) == labels(given) == labels(batches(DATA, 10))


@pytest.mark.parametrize("raw", [False, True])
def test_rests_are_kept_dropped_or_padded(raw):
    key = random.PRNGKey(7) if raw else KEY
    kept, dropped = labels(loader(DATA, 5, key)), labels(loader(DATA, 5, key, last="drop"))
    assert list(map(len, kept)) == [5, 5, 5, 5, 3] and dropped == kept[:4]
    padded = list(loader(DATA, 5, key, last="pad"))
    assert labels(batch for batch, _ in padded) == [*kept[:4], [*kept[4], kept[4][-1], kept[4][-1]]]
    assert [mask.tolist() for _, mask in padded] == [[True] * 5] * 4 + [[True] * 3 + [False] * 2]
    assert padded[4][0]["x"].shape == (5, 3) and padded[4][1].dtype == np.bool_
    assert all(mask.all() for _, mask in loader(DATA, 23, last="pad"))
    assert list(loader(X[:0], 4)) == list(loader(X[:0], 4, last="pad")) == []


def test_a_padded_batch_has_one_shape_for_a_compiled_step():
    shapes = []

    @functad.jit
    def total(batch, mask):
        shapes.append(batch["x"].shape)
        return functad.numpy.where(mask[:, None], batch["x"], 0).sum()

    given = loader(DATA, 5, KEY, last="pad")
    assert sum(float(total(*batch)) for batch in given) == X.sum() and shapes == [(5, 3)]


# --- positions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", ["keep", "drop", "pad"])
def test_a_kept_position_goes_on_where_it_was(tmp_path, last):
    given = loader(DATA, 4, KEY, last=last)
    whole = [np.asarray(batch[0]["y"] if last == "pad" else batch["y"]) for _ in range(3) for batch in given]
    for at in range(len(whole)):
        given = loader(DATA, 4, KEY, last=last)
        for _ in range(at // len(given)):
            list(given)
        if at % len(given):
            for number, _ in enumerate(given, 1):
                if number == at % len(given):
                    break
        assert given.position == (at // len(given), at % len(given))
        io.save(tmp_path / "position.npz", given.position)
        kept = io.load(tmp_path / "position.npz", like=Position())
        again = loader(DATA, 4, KEY, last=last, position=kept)
        rest = [np.asarray(batch[0]["y"] if last == "pad" else batch["y"]) for batch in again]
        assert [y.tolist() for y in rest] == [y.tolist() for y in whole[at : at + len(rest)]] and rest
        assert again.position == (at // len(given) + 1, 0)


def test_a_position_can_be_set_and_one_that_cannot_be_is_refused():
    given = loader(DATA, 5, KEY)
    list(given)
    given.position = (0, 4)
    assert labels(given) == [labels(loader(DATA, 5, KEY))[4]] and given.position == (1, 0)
    given.position = (3, 5)
    assert labels(given) == [] and given.position == (4, 0)
    for position in ((0, 6), (-1, 0), (0,), "no", (0, -1), None):
        with pytest.raises(ArgumentError, match="it must be the number of an epoch and that of a batch of its 5"):
            loader(DATA, 5, KEY, position=position)
        given.position = position
        with pytest.raises(ArgumentError, match="other data, or another batch size"):
            list(given)


# --- threads ------------------------------------------------------------------------------------------


class Source:
    """Items that are made when they are asked for, by whichever thread."""

    shape, dtype = (23,), np.dtype(np.int64)

    def __init__(self, broken=None):
        self.broken, self.asked = broken, []

    def __getitem__(self, index):
        self.asked.append((threading.current_thread().name, index))
        found = np.arange(23)[index]
        if self.broken in found:
            raise ValueError("this item cannot be read")
        return found


def test_a_thread_makes_as_many_batches_ahead_as_it_may_and_no_more():
    source = Source()
    given = iter(loader({"y": source}, 5, prefetch=2))
    assert source.asked == []
    next(given)
    deadline = time.monotonic() + 10
    while len(source.asked) < 3 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert len(source.asked) == 3 and all(name.startswith("functad-loader") for name, _ in source.asked)
    assert len(labels(given)) == 4
    source = Source()
    assert len(list(loader({"y": source}, 5, prefetch=0))) == 5
    assert {name for name, _ in source.asked} == {threading.current_thread().name}


@pytest.mark.parametrize("prefetch", [0, 2])
def test_an_error_in_the_thread_is_raised_where_its_batch_is_asked_for(prefetch):
    given, seen = loader({"y": Source(broken=12)}, 5, prefetch=prefetch), []
    with pytest.raises(ValueError, match="this item cannot be read") as found:
        for batch in given:
            seen.append(batch["y"].tolist())
    assert [row[0] for row in seen] == [0, 5] and given.position == (0, 2)
    assert "__getitem__" in [frame.name for frame in traceback.extract_tb(found.value.__traceback__)]


def test_a_loop_that_is_left_early_ends_its_thread():
    given = loader(DATA, 2, KEY)
    for batch in given:
        assert threads() and batch["y"].shape == (2,)
        break
    assert not threads() and given.position == (0, 1)
    with pytest.raises(KeyError):
        for _ in given:
            raise KeyError
    assert given.position == (0, 2)
    running = iter(given)
    next(running)
    running.close()
    assert not threads() and len(labels(given)) == 9


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_goes_on_by_itself():
    given = iter(loader(DATA, 2, KEY))
    first = labels([next(given)])
    receive, send = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(send, repr(labels(given)).encode())
        finally:
            os._exit(0)
    os.close(send)
    with os.fdopen(receive) as file:
        in_child = eval(file.read())
    os.waitpid(child, 0)
    assert in_child == labels(given) and first + in_child == labels(loader(DATA, 2, KEY))


EXIT = """
import atexit, sys
import numpy as np
from functad.data import loader
given = loader(np.arange(10), 2)
running = iter(given)
print(next(running))
def late():
    print([batch.tolist() for batch in running], [batch.tolist() for batch in loader(np.arange(3), 2)])
atexit.register(late)
other = iter(loader(np.arange(10), 2))
next(other)
"""


def test_a_process_ends_while_batches_are_made():
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", EXIT], env=environment, capture_output=True, text=True, timeout=60
    )
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout == "[0 1]\n[[2, 3], [4, 5], [6, 7], [8, 9]] [[0, 1], [2]]\n"


# --- sources ------------------------------------------------------------------------------------------


def test_memory_mapped_arrays(tmp_path):
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    (tmp_path / "y").write_bytes(idx(np.arange(23, dtype=np.int32), 0x0C))
    y = read_idx(tmp_path / "y", mmap=True)
    assert isinstance(y, np.memmap) and not y.dtype.isnative
    for ours, theirs in zip(loader((mapped, y), 5, KEY), loader((X, np.arange(23, dtype=np.int32)), 5, KEY)):
        for found, expected in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(found, expected, strict=True)
            assert type(found) is np.ndarray and found.dtype.isnative
    assert next(iter(batches(y, 4))).dtype.isnative


def test_no_more_of_a_source_is_read_than_a_batch_has():
    source = Source()
    assert [batch.tolist() for batch in batches(source, 20)] == [list(range(20)), [20, 21, 22]]
    assert [index for _, index in source.asked] == [slice(0, 20), slice(20, 23)]


class Stored(Source):
    """As h5py's: NumPy would read all of it, and asked for a list of items it wants them in their order."""

    def __array__(self, *args, **kwargs):
        raise AssertionError("all of it was read")

    def __getitem__(self, index):
        assert isinstance(index, slice) or (np.diff(index) > 0).all()
        return super().__getitem__(index)


def test_stored_arrays_are_read_in_their_order():
    expected = [batch.tolist() for batch in loader(np.arange(23), 5, KEY)]
    assert [batch.tolist() for batch in loader(Stored(), 5, KEY)] == expected
    assert [batch.tolist() for batch in batches(Stored(), 20)] == [list(range(20)), [20, 21, 22]]


@pytest.mark.parametrize("compressed", [False, True])
def test_an_idx_file_by_its_path(tmp_path, compressed):
    path, pixels = tmp_path / "images", np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    path.write_bytes(gzip.compress(idx(pixels)) if compressed else idx(pixels))
    np.testing.assert_array_equal(read_idx(path), pixels, strict=True)
    if compressed:
        with pytest.raises(ArgumentError, match="images is compressed, so mmap=True cannot be; unpack it first"):
            read_idx(path, mmap=True)
    else:
        np.testing.assert_array_equal(np.asarray(read_idx(str(path), mmap=True)), pixels, strict=True)


def test_idx_files_that_are_none(tmp_path):
    path = tmp_path / "images"
    for mmap in (False, True):
        with pytest.raises(DataError, match=r"none does not exist \(seen from"):
            read_idx(tmp_path / "none", mmap=mmap)
        for content, text in (
            (b"", "is truncated"),
            (b"text", "is no idx file"),
            (bytes([0, 0, 8, 65]) + bytes(4 * 65), "which NumPy cannot hold"),
            (bytes([0, 0, 8, 4]) + b"\xff" * 12 + bytes(4), "which NumPy cannot hold"),
            (idx(X, 0x0D)[:-1], "is truncated"),
            (idx(np.zeros(3, np.uint8)) + b"\0", "is too long"),
        ):
            path.write_bytes(content)
            with pytest.raises(DataError, match=f"images .*{text}"):
                read_idx(path, mmap=mmap)
        path.write_bytes(idx(np.zeros((0, 3), np.uint8)))
        assert read_idx(path, mmap=mmap).shape == (0, 3)


# --- what is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "options", "error", "text"),
    [
        ((X, 0), {}, ArgumentError, "loader: batch_size must be an int of at least 1, got 0"),
        (((), 2), {}, ArgumentError, "loader: data holds no array"),
        (((X, X[:3]), 2), {}, ShapeError, r"loader: the arrays differ .*data\[0\] .*data\[1\] has shape \(3, 3\)"),
        ((1.0, 2), {}, ShapeError, "loader: data is a scalar"),
        ((X, 2, 3), {}, ArgumentError, "loader: key is 3, which is no random key"),
        ((X, 2), {"last": "throw"}, ArgumentError, "last is 'throw'; it must be one of 'keep', 'drop', 'pad'"),
        ((X, 2), {"prefetch": -1}, ArgumentError, "prefetch, how many .* must be an int of at least 0, got -1"),
        ((X, 2), {"prefetch": 1.5}, ArgumentError, "prefetch, how many .* must be an int of at least 0, got 1.5"),
        ((X, 24), {"last": "drop"}, ArgumentError, "leaves no batch, as there are only 23 items for a batch of 24"),
    ],
)
def test_what_cannot_be_is_refused_at_once(arguments, options, error, text):
    with pytest.raises(error, match=text):
        loader(*arguments, **options)
