"""`python -m tests.faults`: faults on purpose, many of each kind, and a line for each kind that tells how it went.

None may give a wrong value, a hang, a crash or a lost file. POSIX only.
"""

from __future__ import annotations

import argparse
import importlib
import random
import sys
import tempfile
import time
import warnings
from pathlib import Path

from tests.faults import parts
from tests.faults.processes import Fault

# For each kind how many, in full and with --quick, and what is counted.
KINDS = {
    "kills": (1000, 20, "processes killed while they compile, keep kernels and save"),
    "saves": (1000, 20, "processes killed while they save, of whose files none may be lost"),
    "interrupts": (200, 5, "processes interrupted by Ctrl-C that go on"),
    "flips": (1000, 15, "damages to files of the cache"),
    "folders": (30, 1, "full folders, and rounds of processes that share one"),
    "threads": (10_000, 300, "calls by each of sixteen threads"),
    "forks": (300, 8, "children forked while threads compute and compile"),
    "memory": (10_000, 100, "jitted functions one after the other"),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few of each kind: less than a minute")
    parser.add_argument("--seed", type=int, default=0, help="of everything that is left to chance")
    for kind, (full, quick, what) in KINDS.items():
        parser.add_argument(f"--{kind}", type=int, metavar="N", help=f"{what}: {full}, with --quick {quick}; 0: none")
    options = vars(parser.parse_args())
    if sys.platform == "win32":
        parser.error("it needs the processes and signals of POSIX")
    importlib.import_module("functad.backends.cpu.compile.machine")  # the children are to find it imported
    warnings.filterwarnings("ignore", message=".*fork.*", category=DeprecationWarning)
    failed = 0
    for kind, (full, quick, what) in KINDS.items():
        chosen = options[kind]
        count = (quick if options["quick"] else full) if chosen is None else chosen
        if not count:
            continue
        began = time.monotonic()
        choose = random.Random(f"{kind} {options['seed']}")
        try:
            with tempfile.TemporaryDirectory(prefix="functad-faults-") as folder:
                getattr(parts, kind)(Path(folder), count, choose)
            outcome = "all well"
        except Fault as fault:
            failed += 1
            outcome = f"FAULT: {fault}"
        print(f"{kind:10} {count:6} {what}: {outcome} ({time.monotonic() - began:.0f} s)", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
