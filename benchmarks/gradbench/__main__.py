"""The tool as a process: messages of an eval on stdin, answers on stdout."""

import sys

from benchmarks.gradbench.tool import serve

if __name__ == "__main__":
    serve(sys.stdin, sys.stdout)
