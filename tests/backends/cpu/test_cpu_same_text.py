"""The same Program becomes the same kernels and the same tape in every process, however strings are hashed there."""

from __future__ import annotations

import os
import subprocess
import sys

_PRINTED = """
from fuzz.forms import traced
from fuzz.session import some_program
import functad, functad.numpy as jnp
from functad.backends.cpu.lowering import CpuLowering
from functad.optimize.pipeline import simplify

def pull(x):
    away = x[None] - x[:, None]
    squared = (away * away).sum(-1) + 0.05
    return (away / (squared * jnp.sqrt(squared))[:, :, None]).sum(1)

programs = [functad.make_jaxpr(pull)(jnp.ones((64, 3)))]
for number in range(24):
    f = some_program(f"same text/{number}")
    programs.append(traced(f, f.args))
for program in programs:
    lowered = CpuLowering(simplify(program))
    print(simplify(program), lowered.kernels, lowered.memory_plan, lowered.assembled().plan)
"""


def test_kernels_do_not_depend_on_how_strings_are_hashed() -> None:
    texts = []
    for seed in ("0", "1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        run = [sys.executable, "-c", _PRINTED]
        texts.append(subprocess.run(run, env=environment, check=True, capture_output=True, text=True).stdout)
    assert "def " in texts[0]
    assert texts[0] == texts[1] == texts[2]
