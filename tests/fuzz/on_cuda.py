"""The oracle that the CUDA backend is: on a GPU, or in Numba's simulator, where all threads are Python's.

Knows how to call the backend. Without a GPU and the simulator (NUMBA_ENABLE_CUDASIM=1) there is no such oracle.
"""

from __future__ import annotations

import random
from functools import cache
from importlib import import_module
from typing import Any

from functad.errors import DeviceError, FunctadError
from functad.optimize.pipeline import simplify, simplify_for

from .forms import Skipped, Trial, expected_of

LARGEST = 600  # elements of all arguments, in the simulator


@cache
def _backend() -> Any:
    """The modules that lower and run Programs.

    Raises:
        Skipped: there is neither a GPU nor the simulator.
    """
    try:
        lowering, executable = (import_module(f"functad.backends.cuda.{name}") for name in ("lowering", "executable"))
        executable.cuda_devices()
    except DeviceError as error:
        raise Skipped("there is neither a GPU nor the simulator") from error
    return lowering, executable


def cuda_agrees(trial: Trial, choose: random.Random) -> str | None:
    """Optimised for a GPU or a CPU, its CUDA kernels give the same, at each call, with or without donated arguments."""
    lowering, executable = _backend()
    try:
        program = trial.traced
    except FunctadError as error:
        raise Skipped(type(error).__name__) from error
    if lowering.SIMULATED and sum(a.size for a in trial.args) > LARGEST:
        raise Skipped("large")
    program = simplify_for(program, True, lowering.device_cost_of) if choose.random() < 0.8 else simplify(program)
    donated = [choose.random() < 0.2 for _ in trial.args]
    run = executable.CudaExecutable(program, donated)
    results = run(trial.args)
    wrong = trial.expected.mismatch(results, expected_of(program, trial.args))
    if wrong is None and choose.random() < 0.2:
        for k, (first, again) in enumerate(zip(results, run(trial.args))):
            if first.tobytes() != again.tobytes():
                return f"result {k} of another call is other: {again.ravel()[:3]}, {first.ravel()[:3]}"
    return wrong
