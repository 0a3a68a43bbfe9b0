"""What tests of downloads ask for: a server, and an address where there is none."""

from __future__ import annotations

import socket
import threading

import pytest
from mirrors import Mirrors


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
