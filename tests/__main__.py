"""Run tests in two processes, because most of them use one core: `python -m tests [--sample] [pytest's arguments]`.

Knows processes only; how they share the tests, and what a sample is, stands in `conftest.py`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time


def main(arguments: list[str]) -> int:
    start = time.monotonic()
    sample = "--sample" in arguments
    what = "a sample of those that take long or are generated, and all others" if sample else "all that are asked for"
    print(f"Running the tests in two processes: {what}. They take {_DURATION[sample]} on two idle cores.", flush=True)
    # Of two processes on two cores, NumPy's products shall use one each. They start many others, which need not all
    # compile functad's Python again.
    environment = {"OPENBLAS_NUM_THREADS": "1", **os.environ}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as claims:
        command = [sys.executable, "-m", "pytest", "-q", "-o", "console_output_style=classic", f"--share={claims}"]
        processes = [
            subprocess.Popen([*command, "-o", f"cache_dir=.pytest_cache/{name}", *arguments], env=environment)
            for name in ("first", "second")
        ]
        # Ctrl-C reaches all three; each of the two stops and tells what it had found.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        codes = [process.wait() for process in processes]
    # One process may have found no file left to run.
    bad = [code for code in codes if code not in (0, _NOTHING_TO_RUN)]
    failed = bool(bad) or codes == [_NOTHING_TO_RUN] * 2
    print(f"{'FAILED' if failed else 'Passed'} in {time.monotonic() - start:.0f} s.", flush=True)
    return (bad or codes)[0] if failed else 0


_DURATION = {True: "four to five minutes", False: "some fourteen minutes, without arguments,"}
_NOTHING_TO_RUN = 5

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
