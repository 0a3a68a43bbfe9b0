"""Runs a module as `python -m` does, and says on standard error what memory it took: `python -m benchmarks.started …`.

Knows nothing of what it runs.
"""

from __future__ import annotations

import runpy
import sys

from benchmarks.measure import peak_memory

if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    try:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    finally:
        print(f"peak memory: {peak_memory() or 0}", file=sys.stderr)
