"""The downloader against a local server, and where files are kept."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from pathlib import Path

import pytest
from mirrors import CONTENT, FILE

from functad.data import download
from functad.data.download import fetch, read_verified
from functad.errors import ArgumentError, DataError
from functad.system.cache import cache_dir


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
