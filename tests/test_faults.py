"""The tool that makes faults on purpose notices what it is there to notice."""

from __future__ import annotations

import faulthandler
import os
import random
import signal
import sys
import time

import numpy as np
import pytest

from functad import io
from tests.faults import work
from tests.faults.parts import damage
from tests.faults.processes import Fault, finish, run, start

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="processes and signals of POSIX"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


def test_what_goes_well_is_no_fault():
    run(lambda: None, "nothing")
    finish(start(lambda: os.kill(os.getpid(), signal.SIGKILL)), "killed", killed=True)


def crash():
    faulthandler.disable()  # it would print the stacks of all threads
    os.kill(os.getpid(), signal.SIGSEGV)


def test_crashes_errors_and_hangs_are_faults():
    with pytest.raises(Fault, match="it died of SIGSEGV"):
        run(crash, "a crash")
    with pytest.raises(Fault, match="it died of SIGKILL"):
        run(lambda: os.kill(os.getpid(), signal.SIGKILL), "killed by somebody else")
    with pytest.raises(Fault, match="it failed"):
        run(lambda: work.check_saved(__file__), "an error")  # type: ignore[arg-type]
    with pytest.raises(Fault, match="it hangs"):
        run(lambda: time.sleep(60), "a hang", limit=0.1)


def test_wrong_values_and_mixed_files_are_faults(tmp_path, monkeypatch):
    work.check(0)
    monkeypatch.setattr(work, "FUNCTIONS", [(work.FUNCTIONS[0][0], np.cos)])
    with pytest.raises(AssertionError):
        work.check(0)
    path = tmp_path / "file.npz"
    work.save(path, 1)
    work.check_saved(path)
    io.save(path, {"all": np.ones(3), "some": [np.zeros(2)] * 20})
    with pytest.raises(AssertionError, match="holds parts of the versions"):
        work.check_saved(path)


def test_damage_changes_a_file(tmp_path):
    choose, path = random.Random(0), tmp_path / "file"
    changed = 0
    for _ in range(50):
        path.write_bytes(b"content " * 20)
        damage(path, choose)
        changed += path.read_bytes() != b"content " * 20
    assert changed == 50
