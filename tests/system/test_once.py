"""No fork comes in the midst of an import."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from functad.system.once import imported, unforked

MODULE = """
import threading
from functad.system.once import unforked

taken = []
other = threading.Thread(target=lambda: taken.append(unforked.acquire(blocking=False)))
other.start()
other.join()
"""


def test_a_fork_waits_for_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "imported_while_forking.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert imported("imported_while_forking").taken == [False]
    del sys.modules["imported_while_forking"]
    free: list[bool] = []

    def try_it() -> None:
        free.append(unforked.acquire(blocking=False))
        if free[-1]:
            unforked.release()

    thread = threading.Thread(target=try_it)
    thread.start()
    thread.join()
    assert free == [True]
