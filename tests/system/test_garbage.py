"""Python's search for garbage waits while much is made that stays, and goes on as before."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

import functad
from functad.system.garbage import collection_paused, count_as_old

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


def test_what_counts_as_old_is_garbage_all_the_same():
    loop: list[object] = []
    loop.append(loop)
    count_as_old()
    assert any(old is loop for old in gc.get_objects(generation=2))
    gc.collect()
    del loop
    assert gc.collect() >= 1


def test_what_a_program_keeps_out_of_searches_stays_out():
    gc.freeze()
    try:
        kept = gc.get_freeze_count()
        count_as_old()
        assert gc.get_freeze_count() >= kept
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
