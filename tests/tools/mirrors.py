"""A local server that answers as mirrors of data sets do, and as broken ones; a plugin of pytest, for its fixtures."""

from __future__ import annotations

import hashlib
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from functad.data.download import RemoteFile

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
