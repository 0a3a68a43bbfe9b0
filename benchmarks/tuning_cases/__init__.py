"""For each tuned number that was compared, small programs which half of it, or twice as much, changes.

Knows which there are; how programs are told apart and timed is in `tuning_table.py`.
"""

from benchmarks.tuning_cases.case import APART, COMPILED, JITTED, OTHER_VALUES, UNJITTED, Case
from benchmarks.tuning_cases.kernels import CONVOLUTIONS, SEARCH
from benchmarks.tuning_cases.loops import LOOPS
from benchmarks.tuning_cases.nests import MACHINE_CODE, NESTS, RUNNING
from benchmarks.tuning_cases.products import APART_CASES, AVX512, PRODUCTS, UNJITTED_CASES

CASES = [
    *NESTS,
    *RUNNING,
    *MACHINE_CODE,
    *CONVOLUTIONS,
    *SEARCH,
    *LOOPS,
    *PRODUCTS,
    *UNJITTED_CASES,
    *APART_CASES,
]

__all__ = ["APART", "AVX512", "CASES", "COMPILED", "JITTED", "OTHER_VALUES", "UNJITTED", "Case"]
