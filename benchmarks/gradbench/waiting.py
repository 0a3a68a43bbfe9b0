"""Run a Python tool of a GradBench checkout, and let it wait for the results that it times.

JAX returns before a result is there. `python waiting.py TOOL_SCRIPT …`, with the checkout's package on the path. Knows
nothing of functad, which the interpreter that runs this may lack.
"""

import runpy
import sys
from pathlib import Path

from gradbench import wrap


def _waiting(decorate):
    def multiple_runs(**options):
        def decorator(function):
            return decorate(**options)(lambda given: _wait(function(given)))

        return decorator

    return multiple_runs


def _wait(result):
    jax = sys.modules.get("jax")
    return result if jax is None else jax.block_until_ready(result)


if __name__ == "__main__":
    wrap.multiple_runs = _waiting(wrap.multiple_runs)
    sys.argv = sys.argv[1:]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    runpy.run_path(sys.argv[0], run_name="__main__")
