"""What dead arrays leave is used again: large results of call after call take no page faults."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys

import pytest

from functad.system.freed_memory import _SETTINGS, keep_freed_memory

pytestmark = pytest.mark.skipif(
    not keep_freed_memory(), reason="not glibc, or the environment has settings for its malloc"
)

FAULTS = """
import resource
import numpy as np
import functad
from functad.system.freed_memory import keep_freed_memory

def faults(call):
    for _ in range(3):
        call()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        call()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // 10

x = functad.numpy.asarray(np.ones(1 << 18, np.float32))
several = lambda x: [x * k for k in range(2, 8)]
print(keep_freed_memory(), faults(lambda: several(x)), faults(lambda: functad.jit(several)(x)))
"""
NEEDED = 6 * (1 << 20) // mmap.PAGESIZE  # page faults to write six results of 1 MB


def counted(**settings: str) -> list[str]:
    """Whether freed memory is kept, and the page faults of six results, un-jitted and jitted, in a new process."""
    environment = {name: value for name, value in os.environ.items() if name not in _SETTINGS} | settings
    ran = subprocess.run([sys.executable, "-c", FAULTS], env=environment, capture_output=True, text=True, check=True)
    return ran.stdout.split()


def test_large_results_of_call_after_call_use_the_same_memory() -> None:
    kept, *faults = counted()
    assert kept == "True"
    assert all(int(n) < NEEDED / 4 for n in faults), faults


def test_settings_of_the_environment_stay() -> None:
    kept, *faults = counted(MALLOC_TRIM_THRESHOLD_="131072")
    assert kept == "False"
    assert max(map(int, faults)) > NEEDED / 2, faults
