"""The idx format, and the places where MNIST is looked for."""

from __future__ import annotations

import gzip
import hashlib
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from functad.data import MNIST, mnist, mnist_files, places
from functad.data.idx import parse_idx
from functad.data.places import DataFile
from functad.errors import DataError
from functad.system.cache import cache_dir


def idx(array: np.ndarray, code: int = 8) -> bytes:
    """The idx file of an array."""
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, code, array.ndim]) + sizes + array.astype(array.dtype.newbyteorder(">")).tobytes()


class TestIdx:
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)

    def test_reads_plain_and_compressed(self):
        np.testing.assert_array_equal(parse_idx(idx(self.pixels), "f"), self.pixels, strict=True)
        np.testing.assert_array_equal(parse_idx(gzip.compress(idx(self.pixels)), "f"), self.pixels, strict=True)

    @pytest.mark.parametrize(("dtype", "code"), [("i1", 9), ("i2", 0x0B), ("i4", 0x0C), ("f4", 0x0D), ("f8", 0x0E)])
    def test_big_endian_types_become_native(self, dtype, code):
        values = np.array([[-3, 0, 100]], dtype)
        np.testing.assert_array_equal(parse_idx(idx(values, code), "f"), values, strict=True)
        assert parse_idx(idx(values, code), "f").dtype.isnative

    def test_truncated_data(self):
        with pytest.raises(DataError, match=r"images\.gz is truncated: .*\(2, 3, 4\).* 24 bytes, but 20 follow"):
            parse_idx(idx(self.pixels)[:-4], "images.gz")

    def test_too_much_data(self):
        with pytest.raises(DataError, match=r"images is too long"):
            parse_idx(idx(self.pixels) + b"\0", "images")

    def test_truncated_gzip(self):
        with pytest.raises(DataError, match=r"images\.gz is truncated: its gzip stream ends early"):
            parse_idx(gzip.compress(idx(self.pixels))[:-12], "images.gz")

    def test_damaged_gzip(self):
        content = bytearray(gzip.compress(idx(self.pixels)))
        content[-6] ^= 0xFF
        with pytest.raises(DataError, match=r"images\.gz is damaged: its gzip stream does not decode"):
            parse_idx(bytes(content), "images.gz")

    @pytest.mark.parametrize("start", ["01 00 08 01", "00 00 07 01", "3c 68 74 6d"])
    def test_wrong_magic(self, start):
        with pytest.raises(DataError, match=rf"labels is no idx file: it begins with the bytes {start}"):
            parse_idx(bytes.fromhex(start) + bytes(8), "labels")

    @pytest.mark.parametrize("content", [b"", b"\0\0\x08", b"\0\0\x08\x03\0\0\0\x02\0"])
    def test_truncated_header(self, content):
        with pytest.raises(DataError, match="labels is truncated: .*header"):
            parse_idx(content, "labels")

    def test_wrong_shape(self):
        with pytest.raises(DataError, match=r"labels holds an array of shape \(2, 3, 4\), expected \(24,\)"):
            parse_idx(idx(self.pixels), "labels", shape=(24,))


SMALL = MNIST(
    np.arange(2 * 28 * 28, dtype=np.uint8).reshape(2, 28, 28),
    np.array([3, 9], np.uint8),
    np.full((1, 28, 28), 255, np.uint8),
    np.array([7], np.uint8),
)


class TestMnistPlaces:
    """`mnist` with four tiny files in place of the real ones."""

    @pytest.fixture(autouse=True)
    def small_files(self, monkeypatch, tmp_path, dead_url):
        names = [file.name for file in mnist_files.COLLECTION.files]
        self.contents = {name: gzip.compress(idx(array), mtime=0) for name, array in zip(names, SMALL, strict=True)}
        small = replace(
            mnist_files.COLLECTION,
            files=tuple(DataFile(name, hashlib.sha256(content).hexdigest()) for name, content in self.contents.items()),
            mirrors=(dead_url,),
            source=tuple(map(len, self.contents.values())),
        )
        monkeypatch.setattr(mnist_files, "COLLECTION", small)
        monkeypatch.setattr(mnist_files, "_SHAPES", tuple(array.shape for array in SMALL))
        monkeypatch.delenv("FUNCTAD_DATA", raising=False)
        monkeypatch.setenv("FUNCTAD_CACHE_DIR", str(tmp_path / "cache"))
        self.cache = tmp_path / "cache" / "data" / "mnist"

    def put(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.contents.items():
            (folder / name).write_bytes(content)

    def assert_small(self, data: MNIST) -> None:
        for images, expected in (
            (data.train_images, SMALL.train_images),
            (data.test_images, SMALL.test_images),
        ):
            np.testing.assert_array_equal(images, expected / np.float32(255), strict=True)
        for labels, expected in (
            (data.train_labels, SMALL.train_labels),
            (data.test_labels, SMALL.test_labels),
        ):
            np.testing.assert_array_equal(labels, expected.astype(np.int32), strict=True)

    def test_a_folder_of_other_images_by_its_path(self, tmp_path):
        """Compressed or not, of any number and sum; in no other place is looked."""
        other = MNIST(SMALL.train_images[:1], SMALL.train_labels[:1], SMALL.test_images, SMALL.test_labels)
        for (name, _), array in zip(self.contents.items(), other, strict=True):
            plain = name.startswith("train")
            content = idx(array) if plain else gzip.compress(idx(array))
            (tmp_path / (name.removesuffix(".gz") if plain else name)).write_bytes(content)
        found = mnist(tmp_path, pixels=True)
        np.testing.assert_array_equal(found.train_images, other.train_images, strict=True)
        np.testing.assert_array_equal(
            mnist(str(tmp_path)).test_images, other.test_images / np.float32(255), strict=True
        )
        (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(SMALL.train_labels[:0]))
        with pytest.raises(DataError, match="has 0 labels for 1 images: they do not belong together"):
            mnist(tmp_path)
        (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(SMALL.train_images))
        with pytest.raises(
            DataError, match=r"train-labels-idx1-ubyte holds uint8 of shape \(.*\), expected uint8 with 1 axes"
        ):
            mnist(tmp_path)
        self.put(self.cache)
        with pytest.raises(DataError, match="nothing is no folder"):
            mnist(tmp_path / "nothing")

    def test_files_of_a_folder_may_have_a_dot_before_idx(self, tmp_path):
        (tmp_path / "notes.txt").touch()
        with pytest.raises(DataError, match=r"has none of train-images-idx3-ubyte\.gz, .*; it has notes\.txt"):
            mnist(tmp_path)
        for name, values in (("images.idx3", np.zeros((2, 3, 3), np.uint8)), ("labels.idx1", np.ones(2, np.uint8))):
            for part in ("train", "t10k"):
                (tmp_path / f"{part}-{name}-ubyte").write_bytes(idx(values))
        assert mnist(tmp_path).test_images.shape == (2, 3, 3)

    @pytest.mark.parametrize("inside", ["", "mnist"])
    def test_the_folder_of_the_environment(self, monkeypatch, tmp_path, inside):
        self.put(tmp_path / "sets" / inside)
        monkeypatch.setenv("FUNCTAD_DATA", str(tmp_path / "sets"))
        self.assert_small(mnist())
        assert not self.cache.exists()

    def test_the_cache(self):
        self.put(self.cache)
        self.assert_small(mnist())

    def test_the_cache_helps_where_the_folder_of_the_environment_has_other_data(self, monkeypatch, tmp_path):
        monkeypatch.setenv("FUNCTAD_DATA", str(tmp_path))
        self.put(self.cache)
        self.assert_small(mnist())

    def test_a_folder_that_is_none(self, monkeypatch, tmp_path):
        monkeypatch.setenv("FUNCTAD_DATA", str(tmp_path / "typo"))
        with pytest.raises(DataError, match="FUNCTAD_DATA is '.*typo', which is no folder"):
            mnist()

    def test_a_damaged_file_is_named_with_both_sums(self):
        self.put(self.cache)
        path = self.cache / "t10k-labels-idx1-ubyte.gz"
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(DataError, match=r"t10k-labels-idx1-ubyte\.gz is damaged.*\n.*, expected\n"):
            mnist()

    def test_downloads_into_the_cache_once(self, monkeypatch):
        fetched = []

        def fetch_from_memory(file, folder, mirrors):
            fetched.append(file.name)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / file.name).write_bytes(self.contents[file.name])
            return folder / file.name

        monkeypatch.setattr(places, "fetch", fetch_from_memory)
        self.assert_small(mnist())
        self.assert_small(mnist())
        assert fetched == list(self.contents)

    def test_without_a_network_the_error_lists_the_ways_out(self, monkeypatch, tmp_path, dead_url):
        monkeypatch.setenv("FUNCTAD_DATA", str(tmp_path))
        start = time.monotonic()
        with pytest.raises(DataError) as info:
            mnist()
        assert time.monotonic() - start < 5
        message = str(info.value)
        for part in (
            "FUNCTAD_DATA",
            str(self.cache),
            "synthetic_digits",
            "--data synthetic",
            dead_url,
            *self.contents,
        ):
            assert part in message


def test_the_real_mnist():
    if not os.environ.get("FUNCTAD_DATA") and not (cache_dir("data") / "mnist").is_dir():
        pytest.skip("MNIST is not on this machine: set FUNCTAD_DATA to the folder that holds it")
    data = mnist()
    stored = mnist(pixels=True)
    assert stored.train_images.dtype == stored.test_images.dtype == np.uint8
    assert (data.test_images == stored.test_images.astype(np.float32) / np.float32(255)).all()
    assert data.train_images.shape == (60_000, 28, 28) and data.test_images.shape == (10_000, 28, 28)
    assert data.train_images.dtype == np.float32 and data.train_labels.dtype == np.int32
    assert (data.train_images.min(), data.train_images.max()) == (0, 1)
    assert data.train_images.mean() == pytest.approx(0.1307, abs=1e-4)
    assert data.train_images.std() == pytest.approx(0.3081, abs=1e-4)
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(data.train_labels).tolist() == counts
    assert np.bincount(data.test_labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
