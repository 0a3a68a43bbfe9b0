"""Collections of text: reading, folds, archives unpacked, places shared with MNIST's; invented reviews."""

from __future__ import annotations

import doctest
import gzip
import hashlib
import io
import os
import tarfile
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from mirrors import FILE

from functad.data import (
    MissingDataError,
    imdb,
    mnist,
    places,
    rt_polarity,
    shakespeare,
    synthetic_reviews,
    texts,
    tokenize,
)
from functad.data.download import RemoteFile, fetch
from functad.data.places import Archive, DataFile
from functad.errors import ArgumentError, DataError
from functad.system.cache import cache_dir


def sum_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def tar(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


@pytest.fixture(autouse=True)
def places_of_this_test(monkeypatch, tmp_path, request):
    if "real" not in request.node.name:
        monkeypatch.delenv("FUNCTAD_DATA", raising=False)
        monkeypatch.setenv("FUNCTAD_CACHE_DIR", str(tmp_path / "cache"))


# A text with a tab and a character at which splitlines would cut, and an empty one.
TRAIN = "0\t3\t0\tbad\x85 film\n1\t9\t0\tgood\tfilm\n".encode()
TEST = b"0\t1\t0\tawful\n1\t10\t0\t\n0\t2\t10\tlast\n"


@pytest.fixture
def small_imdb(monkeypatch, tmp_path):
    """The archive, served from memory; returns the list of what is asked for."""
    archive = tar(
        {
            "aclImdb/README": b"about",
            "aclImdb/test/neg/10_2.txt": b"last",
            "aclImdb/train/pos/0_9.txt": b"good\tfilm",
            "aclImdb/train/neg/0_3.txt": "bad\x85 film".encode(),
            "aclImdb/train/unsup/0_0.txt": b"unknown",
            "aclImdb/test/pos/0_10.txt": b"",
            "aclImdb/test/neg/0_1.txt": b"awful",
        }
    )
    asked = []

    def from_memory(file, folder, mirrors):
        asked.append((file.name, mirrors))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file.name).write_bytes(archive)
        return folder / file.name

    monkeypatch.setattr(places, "fetch", from_memory)
    files = tuple(
        DataFile(name, sum_of(content), unpacked=True)
        for name, content in (("train.tsv.gz", TRAIN), ("test.tsv.gz", TEST))
    )
    monkeypatch.setattr(texts, "IMDB", replace(texts.IMDB, files=files))
    return asked


def assert_small(reviews):
    assert reviews.train_texts == ["bad\x85 film", "good\tfilm"]
    assert reviews.test_texts == ["awful", "", "last"]
    np.testing.assert_array_equal(reviews.train_labels, np.array([0, 1], np.int32), strict=True)
    np.testing.assert_array_equal(reviews.test_labels, np.array([0, 1, 0], np.int32), strict=True)


def test_the_archive_of_imdb_becomes_two_files_once(small_imdb):
    assert_small(imdb())
    assert_small(imdb())
    assert small_imdb == [("aclImdb_v1.tar.gz", ("https://ai.stanford.edu/~amaas/data/sentiment/",))]
    assert sorted(os.listdir(cache_dir("data") / "imdb")) == ["test.tsv.gz", "train.tsv.gz"]


def test_another_process_may_have_removed_the_archive(small_imdb, monkeypatch):
    unpack = texts.IMDB.source.unpack

    def then_gone(archive, folder):
        unpack(archive, folder)
        archive.unlink()

    source = texts.IMDB.source._replace(unpack=then_gone)
    monkeypatch.setattr(texts, "IMDB", replace(texts.IMDB, source=source))
    assert_small(imdb())


def test_files_packed_by_another_program_are_the_same_data(small_imdb, monkeypatch, tmp_path):
    folder = tmp_path / "sets" / "imdb"
    folder.mkdir(parents=True)
    (folder / "train.tsv.gz").write_bytes(gzip.compress(TRAIN, 1))
    (folder / "test.tsv.gz").write_bytes(gzip.compress(TEST, 9))
    monkeypatch.setenv("FUNCTAD_DATA", str(tmp_path / "sets"))
    assert_small(imdb())
    assert small_imdb == []
    (folder / "test.tsv.gz").write_bytes(gzip.compress(TEST + b"0\t1\t11\tmore\n"))
    with pytest.raises(DataError, match=r"test\.tsv\.gz is damaged or another file"):
        imdb()
    (folder / "test.tsv.gz").write_bytes(gzip.compress(TEST)[:-9])
    with pytest.raises(DataError, match=r"test\.tsv\.gz is truncated"):
        imdb()


def packed(size):
    """An archive with one file of random bytes."""
    content = np.random.default_rng(0).integers(0, 10, size).astype(np.uint8).tobytes()
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        member = tarfile.TarInfo("rt-polaritydata/rt-polarity.pos")
        member.size = size
        archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


ARCHIVE = packed(100_000)
DAMAGED = {
    "no archive": b"<html>",
    "cut off": ARCHIVE[:20_000],
    "goes on as none": gzip.compress(gzip.decompress(ARCHIVE)[:50_000]) + b"<html>",
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_what_is_no_archive_is_said_and_nothing_stays(monkeypatch, content):
    def wrong(file, folder, mirrors):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file.name).write_bytes(content)
        return folder / file.name

    monkeypatch.setattr(places, "fetch", wrong)
    with pytest.raises(MissingDataError, match="what was downloaded is no such archive"):
        rt_polarity()
    assert os.listdir(cache_dir("data") / "rt-polarity") == []


def test_without_a_network_the_ways_out_are_listed(monkeypatch, dead_url):  # noqa: F811
    for name, load in (("IMDB", imdb), ("RT_POLARITY", rt_polarity), ("SHAKESPEARE", shakespeare)):
        collection = replace(getattr(texts, name), mirrors=(dead_url,))
        monkeypatch.setattr(texts, name, collection)
        with pytest.raises(MissingDataError) as raised:
            load()
        message = str(raised.value)
        assert message.startswith(f"{collection.name} is not on this machine, and ")
        for part in ("FUNCTAD_DATA", collection.instead, *(file.name for file in collection.files)):
            assert part in message


def test_a_file_of_unknown_sum_is_fetched_up_to_its_size(server, tmp_path):  # noqa: F811
    size = FILE.size
    path = fetch(RemoteFile(FILE.name, size + 1, None), tmp_path, [server.url("good")])
    assert path.stat().st_size == size
    with pytest.raises(DataError, match="sent more than the 1,000 bytes expected"):
        fetch(RemoteFile(FILE.name, 1000, None), tmp_path / "other", [server.url("good")])
    with pytest.raises(DataError, match="broke off after 100,000 of 153,600 bytes"):
        fetch(RemoteFile(FILE.name, size + 1, None), tmp_path / "other", [server.url("truncated")])


def test_folds_share_the_sentences(monkeypatch, tmp_path):
    praise, blame = ([f"{word} caf\xe9 {i}" for i in range(30)] for word in ("good", "bad"))
    contents = {
        "rt-polarity.pos": "".join(f"{line} \n" for line in praise).encode("cp1252"),
        "rt-polarity.neg": "".join(f"{line} \n" for line in blame).encode("cp1252"),
    }
    archive = tar({f"rt-polaritydata/{name}": content for name, content in contents.items()} | {"readme": b""})

    def from_memory(file, folder, mirrors):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file.name).write_bytes(archive)
        return folder / file.name

    monkeypatch.setattr(places, "fetch", from_memory)
    files = tuple(DataFile(name, sum_of(content)) for name, content in contents.items())
    source = Archive(texts.RT_POLARITY.source.file, texts.RT_POLARITY.source.unpack)
    monkeypatch.setattr(texts, "RT_POLARITY", replace(texts.RT_POLARITY, files=files, source=source))
    tested = []
    for fold in range(10):
        reviews = rt_polarity(fold)
        assert len(reviews.train_texts) == 54 and len(reviews.test_texts) == 6
        assert not set(reviews.train_texts) & set(reviews.test_texts)
        for kind, found in ((reviews.train_texts, reviews.train_labels), (reviews.test_texts, reviews.test_labels)):
            assert found.dtype == np.int32
            assert [int(text.startswith("good")) for text in kind] == found.tolist()
        tested += reviews.test_texts
    assert sorted(tested) == sorted(praise + blame)
    for fold in (10, -1, "0"):
        with pytest.raises(ArgumentError, match="fold is .*; it is one of 0 to 9"):
            rt_polarity(fold)


def need(name):
    if not os.environ.get("FUNCTAD_DATA") and not (cache_dir("data") / name).is_dir():
        pytest.skip(f"{name} is not on this machine: set FUNCTAD_DATA to the folder that holds it")


def test_the_real_imdb():
    need("imdb")
    reviews = imdb()
    for found, labels in ((reviews.train_texts, reviews.train_labels), (reviews.test_texts, reviews.test_labels)):
        assert len(found) == len(labels) == 25_000 and labels.sum() == 12_500
    assert np.mean([len(text.split()) for text in reviews.train_texts]) == pytest.approx(233.8, abs=0.1)
    assert max(len(text.split()) for text in reviews.test_texts) == 2278


def test_the_real_rt_polarity():
    need("rt-polarity")
    reviews = rt_polarity()
    everything = reviews.train_texts + reviews.test_texts
    assert len(everything) == len(set(everything)) == 10_662
    assert reviews.train_labels.sum() + reviews.test_labels.sum() == 5_331
    assert max(len(text.split()) for text in everything) == 59


def test_the_real_shakespeare():
    need("shakespeare")
    train, validation = shakespeare()
    assert (len(train), len(validation), len(set(train + validation))) == (1_003_854, 111_540, 65)
    assert train.startswith("First Citizen:\nBefore we proceed")


@pytest.mark.parametrize("function", [mnist, rt_polarity, shakespeare, imdb], ids=lambda f: f.__name__)
def test_examples_of_the_real_files_hold(function):
    need(function.__name__.replace("_", "-"))
    text = function.__doc__.replace("# doctest: +SKIP", "")
    test = doctest.DocTestParser().get_doctest(text, {function.__name__: function}, function.__name__, None, 0)
    assert len(test.examples) > 0
    assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test).failed == 0


class TestSyntheticReviews:
    def test_the_seed_decides(self):
        first, again, other = synthetic_reviews(50, 4), synthetic_reviews(50, 4), synthetic_reviews(50, 5)
        assert first[0] == again[0] and first[0] != other[0]
        np.testing.assert_array_equal(first[1], again[1], strict=True)
        assert first[1].dtype == np.int32 and first[1].sum() == 25

    def test_none_and_wrong_arguments(self):
        assert synthetic_reviews(0, 0)[0] == []
        with pytest.raises(ArgumentError, match="n = -1"):
            synthetic_reviews(-1, 0)

    def test_counting_words_is_not_enough(self):
        """Many verdicts are turned round, so that single words tell something, but not all."""
        (found, labels), (others, wanted) = synthetic_reviews(4000, 0), synthetic_reviews(1000, 1)
        counts = [
            Counter(word for text, k in zip(found, labels) if k == label for word in tokenize(text)) for label in (0, 1)
        ]
        score = {word: np.log((counts[1][word] + 1) / (counts[0][word] + 1)) for word in counts[0] | counts[1]}
        guesses = [sum(score.get(word, 0) for word in tokenize(text)) > 0 for text in others]
        assert 0.55 < np.mean(np.array(guesses) == wanted) < 0.9
