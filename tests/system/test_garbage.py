"""Python's search for garbage waits while much is made that stays, and goes on as before."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import functad
from functad.system.garbage import collection_paused, spare_from_search

FIRST_CALL = """
import gc, sys
import functad, functad.numpy as jnp
x = jnp.ones(100)
searches = []
gc.callbacks.append(lambda phase, about: phase == "start" and searches.append(about["generation"]))
functad.jit(lambda x: jnp.sum(jnp.tanh(x) ** 2))(x)
print("numba" in sys.modules, "numba.typed.typeddict" in sys.modules, 2 in searches)
"""


def test_no_search_within_the_block_and_again_after_it():
    with pytest.raises(KeyError), collection_paused():
        assert not gc.isenabled()
        with collection_paused():
            pass
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()


def test_searches_that_were_off_stay_off():
    gc.disable()
    try:
        with collection_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.fixture
def elsewhere() -> Iterator[Callable[[], None]]:
    """Another thread is within the block; what is given ends that."""
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with collection_paused():
            inside.set()
            leave.wait(60)

    def end() -> None:
        leave.set()
        thread.join()

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(60)
    yield end
    end()


def test_the_last_of_all_threads_switches_searches_on_again(elsewhere):
    with collection_paused():
        elsewhere()
        assert not gc.isenabled()
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_forked_meanwhile_searches(elsewhere):
    assert not gc.isenabled()
    child = os.fork()
    if child == 0:
        os._exit(0 if gc.isenabled() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    elsewhere()
    assert gc.isenabled()


def test_what_is_spared_from_searches_is_still_found_by_one_of_everything():
    class Held:
        pass

    gc.unfreeze()  # what `conftest.py` has set apart
    held = Held()
    held.itself, gone = held, weakref.ref(held)
    spare_from_search()
    del held
    gc.collect(1)
    assert gone() is not None
    gc.collect()
    assert gone() is None


def test_what_the_user_has_frozen_stays_frozen():
    gc.freeze()
    try:
        spare_from_search()
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_the_first_call_searches_no_modules_and_imports_no_containers_of_numba(tmp_path):
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(functad.__file__).parents[1]),
        "FUNCTAD_CACHE_DIR": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", FIRST_CALL], env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "False", "False"]
