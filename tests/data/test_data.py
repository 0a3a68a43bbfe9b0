"""Data sets: the idx format, the downloader against a local server, MNIST's places, drawn digits, batches."""

from __future__ import annotations

import gzip
import hashlib
import os
import socket
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from functad import random
from functad.data import MNIST, batches, download, mnist, mnist_files, places, synthetic_digits
from functad.data.download import RemoteFile, fetch, read_verified
from functad.data.idx import parse_idx
from functad.data.places import DataFile
from functad.errors import ArgumentError, DataError, ShapeError
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


CONTENT = bytes(range(256)) * 600
FILE = RemoteFile("numbers.bin", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


class Mirrors(ThreadingHTTPServer):
    """A server with one folder for each behaviour; `paths` lists what it was asked for."""

    daemon_threads = True

    def __init__(self):
        self.paths: list[str] = []
        self.closing = threading.Event()
        super().__init__(("127.0.0.1", 0), Answers)

    def url(self, behaviour: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{behaviour}"

    def asked(self) -> list[str]:
        return [path.split("/")[1] for path in self.paths]


class Answers(BaseHTTPRequestHandler):
    server: Mirrors

    def do_GET(self):
        behaviour = self.path.split("/")[1]
        self.server.paths.append(self.path)
        if behaviour == "missing":
            self.send_error(404)
        elif behaviour == "busy" or (behaviour == "busy-once" and self.server.asked().count(behaviour) == 1):
            self.send_error(503)
        elif behaviour == "silent":
            self.server.closing.wait(10)
        elif behaviour == "stalls":
            self.answer(CONTENT[:1000])
            self.server.closing.wait(10)
        elif behaviour == "trickles":
            self.answer(b"")
            for byte in CONTENT:
                if self.server.closing.wait(0.05):
                    break
                try:
                    self.wfile.write(bytes([byte]))
                except OSError:
                    break
        elif behaviour == "truncated":
            self.answer(CONTENT[:100_000])
        elif behaviour == "wrong":
            self.answer(CONTENT[::-1])
        elif behaviour == "endless":
            self.answer(CONTENT + CONTENT, length=None)
        else:
            self.answer(CONTENT)

    def answer(self, body: bytes, length: int | None = len(CONTENT)) -> None:
        self.send_response(200)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):
        """Keep quiet."""


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Mirrors() as mirrors:
        thread = threading.Thread(target=mirrors.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield mirrors
        mirrors.closing.set()
        mirrors.shutdown()
        thread.join()


@pytest.fixture
def dead_url(monkeypatch):
    """An address of this machine at which nothing listens."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


class TestFetch:
    def test_downloads_into_a_new_folder(self, server, tmp_path, capsys):
        path = fetch(FILE, tmp_path / "new" / "folder", [server.url("good")])
        assert path == tmp_path / "new" / "folder" / "numbers.bin"
        assert path.read_bytes() == CONTENT
        assert os.listdir(path.parent) == ["numbers.bin"]
        assert server.paths == ["/good/numbers.bin"]
        assert capsys.readouterr().err.startswith("numbers.bin: 100 % 154 kB/154 kB")

    @pytest.mark.parametrize("first", ["missing", "wrong", "truncated", "endless", "stalls", "silent", "busy"])
    def test_the_second_mirror_helps(self, server, tmp_path, first):
        path = fetch(FILE, tmp_path, [server.url(first), server.url("good")], timeout=0.2)
        assert path.read_bytes() == CONTENT
        assert server.asked() == [first, "good"]
        assert os.listdir(tmp_path) == ["numbers.bin"]

    def test_a_dead_mirror_is_passed_over(self, server, dead_url, tmp_path):
        assert fetch(FILE, tmp_path, [dead_url, server.url("good")]).read_bytes() == CONTENT

    def test_a_busy_mirror_is_tried_again(self, server, tmp_path):
        fetch(FILE, tmp_path, [server.url("busy-once"), server.url("missing")])
        assert server.asked() == ["busy-once", "missing", "busy-once"]

    @pytest.mark.parametrize(
        ("behaviour", "tries", "reason"),
        [
            ("missing", 1, r"HTTP status 404 \(Not Found\)"),
            ("busy", 2, "HTTP status 503"),
            ("wrong", 1, f"wrong content: SHA-256 [0-9a-f]{{64}}, expected {FILE.sha256}"),
            ("truncated", 2, "broke off after 100,000 of 153,600 bytes"),
            ("endless", 1, "sent more than the 153,600 bytes expected"),
            ("stalls", 2, r"broke off \(TimeoutError"),
            ("silent", 1, "cannot be reached .*timed out"),
        ],
    )
    def test_a_failure_is_explained_and_leaves_nothing(self, server, tmp_path, behaviour, tries, reason):
        with pytest.raises(DataError, match=reason) as info:
            fetch(FILE, tmp_path, [server.url(behaviour)], timeout=0.2)
        assert server.asked() == [behaviour] * tries
        assert str(info.value).count(f"{server.url(behaviour)}/numbers.bin: ") == tries
        assert os.listdir(tmp_path) == []

    def test_dead_mirrors_fail_at_once(self, dead_url, tmp_path):
        start = time.monotonic()
        with pytest.raises(DataError, match=r"numbers\.bin could not be downloaded:\n.*cannot be reached"):
            fetch(FILE, tmp_path, [dead_url + "/a", dead_url + "/b"])
        assert time.monotonic() - start < 2
        assert os.listdir(tmp_path) == []

    def test_an_older_file_survives_a_failed_download(self, server, tmp_path):
        (tmp_path / FILE.name).write_bytes(b"older")
        with pytest.raises(DataError):
            fetch(FILE, tmp_path, [server.url("wrong")])
        assert (tmp_path / FILE.name).read_bytes() == b"older"
        assert os.listdir(tmp_path) == [FILE.name]

    def test_ctrl_c_leaves_nothing(self, server, tmp_path, monkeypatch):
        def interrupted(self, count):
            raise KeyboardInterrupt

        monkeypatch.setattr(download.Progress, "update", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fetch(FILE, tmp_path, [server.url("good")])
        assert os.listdir(tmp_path) == []

    def test_a_host_look_up_that_hangs_is_given_up(self, tmp_path, monkeypatch):
        release = threading.Event()
        monkeypatch.setattr(download.urllib.request, "urlopen", lambda url, timeout: release.wait(10))
        monkeypatch.setattr(download, "_LOOK_UP_GRACE", 0.1)
        start = time.monotonic()
        with pytest.raises(DataError, match=r"no answer within 0\.2 s"):
            fetch(FILE, tmp_path, ["http://host.invalid"], timeout=0.1)
        release.set()
        assert time.monotonic() - start < 2

    def test_only_http_is_fetched(self, tmp_path):
        with pytest.raises(ArgumentError, match="neither http nor https"):
            fetch(FILE, tmp_path, [tmp_path.as_uri()])

    def test_a_mirror_that_trickles_is_given_up(self, server, tmp_path):
        start = time.monotonic()
        path = fetch(FILE, tmp_path, [server.url("trickles"), server.url("good")], grace=0.3)
        assert path.read_bytes() == CONTENT
        assert time.monotonic() - start < 3
        with pytest.raises(DataError, match=r"too slow: \d+ of 153,600 bytes in 0 s"):
            fetch(FILE, tmp_path / "other", [server.url("trickles")], grace=0.3)
        assert server.asked() == ["trickles", "good", "trickles"]

    def test_read_verified(self, tmp_path):
        path = tmp_path / "numbers.bin"
        path.write_bytes(CONTENT)
        assert read_verified(path, FILE.sha256) == CONTENT
        path.write_bytes(CONTENT[:-1])
        actual = hashlib.sha256(CONTENT[:-1]).hexdigest()
        with pytest.raises(DataError, match=rf"numbers\.bin is damaged.*\n *{actual}, expected\n *{FILE.sha256}"):
            read_verified(path, FILE.sha256)


class TestCacheDir:
    def test_the_environment_variable_wins(self, monkeypatch, tmp_path):
        monkeypatch.setenv("FUNCTAD_CACHE_DIR", str(tmp_path))
        assert cache_dir() == tmp_path
        assert cache_dir("data") == tmp_path / "data"

    @pytest.mark.parametrize(
        ("platform", "variables", "expected"),
        [
            ("linux", {"XDG_CACHE_HOME": "/xdg"}, "/xdg/functad"),
            ("linux", {}, "/home/ada/.cache/functad"),
            ("linux", {"XDG_CACHE_HOME": "relative"}, "/home/ada/.cache/functad"),
            ("darwin", {"XDG_CACHE_HOME": "/xdg"}, "/home/ada/Library/Caches/functad"),
            ("win32", {"LOCALAPPDATA": "/local"}, "/local/functad/Cache"),
            ("win32", {}, "/home/ada/AppData/Local/functad/Cache"),
        ],
    )
    def test_the_convention_of_each_platform(self, monkeypatch, platform, variables, expected):
        for name in ("FUNCTAD_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("functad.system.cache.sys.platform", platform)
        monkeypatch.setattr("functad.system.cache.Path.home", lambda: Path("/home/ada"))
        assert cache_dir() == Path(expected)


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


@pytest.fixture(scope="module")
def sets():
    """10,000 drawn digits to train on and 2,000 of another seed, flat."""
    train, train_labels = synthetic_digits(10_000, seed=0)
    test, test_labels = synthetic_digits(2_000, seed=1)
    return train.reshape(-1, 784), train_labels, test.reshape(-1, 784), test_labels


class TestSyntheticDigits:
    def test_shapes_values_and_labels(self):
        images, labels = synthetic_digits(700, seed=3)
        assert images.shape == (700, 28, 28) and images.dtype == np.float32
        assert labels.shape == (700,) and labels.dtype == np.int32
        assert images.min() == 0 and 0.9 < images.max() <= 1
        assert np.bincount(labels, minlength=10).min() > 40

    def test_the_seed_decides(self):
        first, again, other = synthetic_digits(50, 4), synthetic_digits(50, 4), synthetic_digits(50, 5)
        np.testing.assert_array_equal(first[0], again[0])
        np.testing.assert_array_equal(first[1], again[1])
        assert (first[0] != other[0]).any() and (first[1] != other[1]).any()

    def test_the_digits_do_not_change_from_version_to_version(self):
        images, labels = synthetic_digits(20, seed=0)
        assert labels.tolist() == [8, 6, 5, 2, 3, 0, 0, 0, 1, 8, 6, 9, 5, 6, 9, 7, 6, 5, 5, 9]
        assert images.mean(dtype=np.float64) == pytest.approx(0.148947, abs=1e-5)

    def test_none_and_wrong_arguments(self):
        assert synthetic_digits(0, 0)[0].shape == (0, 28, 28)
        with pytest.raises(ArgumentError, match="n = -1"):
            synthetic_digits(-1, 0)
        with pytest.raises(ArgumentError, match="seed = -2"):
            synthetic_digits(1, -2)

    def test_a_linear_model_stays_below_92_percent(self, sets):
        train, train_labels, test, test_labels = sets
        predicted = softmax_regression(train, train_labels, test)
        accuracy = (predicted == test_labels).mean()
        assert 0.7 < accuracy < 0.92

    def test_the_nearest_neighbour_does_clearly_better(self, sets):
        train, train_labels, test, test_labels = sets
        test, test_labels = test[:500], test_labels[:500]
        distance = (train**2).sum(1) - 2 * test @ train.T
        accuracy = (train_labels[distance.argmin(1)] == test_labels).mean()
        assert accuracy > 0.93


def softmax_regression(train: np.ndarray, labels: np.ndarray, test: np.ndarray) -> np.ndarray:
    """What a linear classifier predicts after 15 epochs of SGD with momentum and a falling rate."""
    rng = np.random.default_rng(0)
    weights = np.zeros((train.shape[1] + 1, 10), np.float32)
    velocity = np.zeros_like(weights)
    targets = np.eye(10, dtype=np.float32)[labels]
    train, test = (np.pad(x, ((0, 0), (0, 1)), constant_values=1) for x in (train, test))
    for epoch in range(15):
        for items in rng.permutation(len(train)).reshape(-1, 100):
            x = train[items]
            logits = x @ weights
            likelihood = np.exp(logits - logits.max(1, keepdims=True))
            error = likelihood / likelihood.sum(1, keepdims=True) - targets[items]
            velocity = 0.9 * velocity - (0.03 - 0.002 * epoch) / 100 * (x.T @ error)
            weights = weights + velocity
    return (test @ weights).argmax(1)


class TestBatches:
    data = {"x": np.arange(20.0).reshape(10, 2), "y": [np.arange(10)]}

    def test_batches_have_the_structure_of_the_data(self):
        parts = batches(self.data, 4)
        assert len(parts) == 3
        listed = list(parts)
        assert [batch["y"][0].tolist() for batch in listed] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        np.testing.assert_array_equal(np.concatenate([batch["x"] for batch in listed]), self.data["x"])

    def test_batches_can_be_run_through_again(self):
        parts = batches(np.arange(5), 2)
        assert [b.tolist() for b in parts] == [b.tolist() for b in parts] == [[0, 1], [2, 3], [4]]

    def test_a_permutation_gives_the_order(self):
        order = np.random.default_rng(0).permutation(10)
        listed = list(batches(self.data, 3, permutation=order))
        np.testing.assert_array_equal(np.concatenate([batch["y"][0] for batch in listed]), order)
        np.testing.assert_array_equal(np.concatenate([batch["x"] for batch in listed]), self.data["x"][order])

    def test_a_key_shuffles(self):
        def shuffled(seed):
            listed = list(batches(self.data, 3, key=random.key(seed)))
            assert [len(batch["x"]) for batch in listed] == [3, 3, 3, 1]
            return np.concatenate([batch["y"][0] for batch in listed]).tolist()

        assert shuffled(0) == shuffled(0) == random.permutation(random.key(0), 10).tolist()
        assert shuffled(0) != shuffled(1)
        with pytest.raises(ArgumentError, match="a key or a permutation, not both"):
            batches(self.data, 3, key=random.key(0), permutation=range(10))

    @pytest.mark.parametrize("permutation", [None, range(10)])
    def test_the_remainder_can_be_left_out(self, permutation):
        parts = batches(self.data, 4, permutation=permutation, drop_remainder=True)
        assert len(parts) == 2
        assert [len(batch["x"]) for batch in parts] == [4, 4]

    def test_no_items_are_no_batches(self):
        assert len(batches(np.zeros((0, 3)), 4)) == 0
        assert list(batches(np.zeros((0, 3)), 4)) == []

    @pytest.mark.parametrize("batch_size", [0, -1, 2.0, True, "4"])
    def test_wrong_batch_size(self, batch_size):
        with pytest.raises(ArgumentError, match="batch_size is .* int of at least 1"):
            batches(self.data, batch_size)

    def test_lengths_that_differ(self):
        with pytest.raises(ShapeError, match=r"data\['x'\] has shape \(3,\), data\['y'\] has shape \(4, 2\)"):
            batches({"x": np.zeros(3), "y": np.zeros((4, 2))}, 2)

    def test_scalars_and_nothing(self):
        with pytest.raises(ShapeError, match=r"data\[1\] is a scalar"):
            batches((np.zeros(3), 1.0), 2)
        with pytest.raises(ArgumentError, match="data holds no array"):
            batches([], 2)

    @pytest.mark.parametrize(
        ("permutation", "message"),
        [
            ([0, 1], r"shape \(2,\) and dtype int64; expected integers of shape \(3,\)"),
            ([0.0, 1.0, 2.0], "dtype float64"),
            ([0, 1, 1], r"lacks \[2\] of the items 0 to 2"),
            ([0, 1, 3], r"lacks \[2\]"),
            ([0, 1, -1], r"lacks \[2\]"),
        ],
    )
    def test_what_is_no_permutation(self, permutation, message):
        with pytest.raises(ArgumentError, match=message):
            batches(np.zeros(3), 2, permutation=permutation)

    def test_no_batch_left(self):
        with pytest.raises(ArgumentError, match="only 3 items for a batch of 4"):
            batches(np.zeros(3), 4, drop_remainder=True)


@pytest.mark.parametrize(
    ("n", "seed", "message"),
    [
        (3.5, 0, "synthetic_digits: n = 3.5 must be an int"),
        ("3", 0, "n = '3' must be an int"),
        (3, 1.5, "seed = 1.5 must be an int"),
        (3, None, "seed = None must be an int"),
    ],
)
def test_counts_of_digits_that_are_no_ints(n, seed, message):
    with pytest.raises(ArgumentError, match=message):
        synthetic_digits(n, seed)


@pytest.mark.parametrize("key", [0, "key", np.zeros(2, np.int32), np.zeros((3, 2), np.uint32)])
def test_batches_names_a_key_that_is_none(key):
    with pytest.raises(ArgumentError, match=r"(?s)batches: key is .*, which is no random key; .*random\.key\(seed\)"):
        batches(np.zeros(4), 2, key=key)
