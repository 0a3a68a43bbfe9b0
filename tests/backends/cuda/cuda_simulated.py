"""Checks of the CUDA backend, for a process with NUMBA_ENABLE_CUDASIM=1: prints "ok", "FAIL" or "skip" for each.

The simulator runs every CUDA thread as a Python thread, so arrays are tiny. The interpreter is the reference. Here are
the checks of all primitives and of random programs; those of a subject have a file of their own.
"""

from __future__ import annotations

import gc
import random
import sys
import traceback
from collections.abc import Callable, Iterable
from functools import partial

import cuda_array_checks
import cuda_edge_checks
import cuda_function_checks
import cuda_kernel_checks
import cuda_launch_checks
import cuda_loop_checks
import cuda_order_checks
import cuda_place_checks
import cuda_row_checks
import cuda_simulator_checks
import cuda_thread_checks
import cuda_window_checks
from cuda_check_tools import LeftOut, run
from cuda_loop_checks import ELSEWHERE, check_what_has_no_examples
from fuzz.check import Setting
from fuzz.forms import Skipped, forms_of
from fuzz.generator import random_program
from fuzz.session import STEPS
from fuzz.thresholds import drawn
from primitive_checks import cases_of
from primitive_form_tools import Together, add_forms

from functad.all_primitives import registry
from functad.backends.cuda.scalars.registry import SIMULATED
from functad.ir import Absent

NAMES = sorted(name for name, p in registry.items() if not isinstance(p.examples, Absent))


def check_examples(name: str) -> str:
    """All examples of a primitive, their derivatives, and mapped, as one Program."""
    together = Together()
    for case in cases_of(registry[name]):
        add_forms(together, case)
    run(together)
    return f"{len(together.functions)} functions"


def check_random_programs(first: int, count: int = 20, medium: bool = False) -> str:
    """Programs of the fuzzer, with thresholds of its choice, against its own expectation."""
    compared = 0
    for number in range(first, first + count):
        label = f"cuda/{number}"
        choose = random.Random(label)
        program = random_program(label, STEPS, medium=medium)
        setting = Setting("cuda", choose.choice(forms_of(program)), number, drawn(choose))
        try:
            mismatch = setting.verdict(program)
        except Skipped:
            continue
        assert mismatch is None, f"{label}: {mismatch}"
        compared += 1
    assert compared >= count // 3
    return f"{compared} programs"


CHECKS: dict[str, Callable[[], str | None]] = {
    **cuda_kernel_checks.CHECKS,
    **cuda_order_checks.CHECKS,
    **cuda_window_checks.CHECKS,
    **cuda_launch_checks.CHECKS,
    **cuda_loop_checks.CHECKS,
    **cuda_row_checks.CHECKS,
    **cuda_function_checks.CHECKS,
    **cuda_array_checks.CHECKS,
    **cuda_place_checks.CHECKS,
    **cuda_edge_checks.CHECKS,
    **cuda_thread_checks.CHECKS,
    **cuda_simulator_checks.CHECKS,
    **{f"random programs {k}": (lambda k=k: check_random_programs(k)) for k in range(0, 60, 20)},  # type: ignore[misc]
    **{f"primitive {name}": (lambda name=name: check_what_has_no_examples(name)) for name in ELSEWHERE},  # type: ignore[misc]
    **{f"primitive {name}": (lambda name=name: check_examples(name)) for name in NAMES},  # type: ignore[misc]
}

# What takes arrays as large as a GPU is for, or too long in the simulator.
ON_A_GPU: dict[str, Callable[[], str | None]] = {
    **cuda_edge_checks.ON_A_GPU,
    **{f"random programs of medium size {k}": partial(check_random_programs, k, 4, True) for k in range(0, 96, 4)},
    **{f"random programs {k}": partial(check_random_programs, k, 5) for k in range(60, 160, 5)},
}


def names() -> list[str]:
    """Of the checks that this process can do: on a GPU there are more, and some are cut into parts."""
    return (
        [*CHECKS]
        if SIMULATED
        else list(dict.fromkeys([n for n in CHECKS if n not in cuda_edge_checks.INSTEAD] + [*ON_A_GPU]))
    )


def main(chosen: Iterable[str]) -> None:
    """Run checks by name: all of them, or those that are named; a line for each."""
    known = {**CHECKS, **ON_A_GPU}
    for name in chosen or names():
        try:
            note = known[name]() or ""
        except LeftOut as why:
            print(f"skip {name}: {why}", flush=True)
        except Exception:
            print(f"FAIL {name}: {' | '.join(traceback.format_exc().splitlines()[-6:])}", flush=True)
        else:
            print(f"ok {name}: {note}", flush=True)


if __name__ == "__main__":
    gc.freeze()  # searches for garbage pass over what has been imported, and are as rare as in `conftest.py`
    gc.set_threshold(50_000, 20, 20)
    main((line.rstrip("\n") for line in sys.stdin) if sys.argv[1:] == ["-"] else sys.argv[1:])
