"""All tuned numbers of the compiler: facts of the machine, and the limits that passes and kernels draw from them.

Knows nothing of functad. What reads a number writes `machine_model.NAME` where it needs it, so a test may set another.

| file | numbers of |
| --- | --- |
| `facts.py` | the machine: what `python -m functad doctor --measure` measures |
| `compiling.py` | what LLVM is given, and how it is found again |
| `running.py` | threads, signals, memory that is kept |
| `nests.py` | loop nests, and how their kernels are written |
| `loops.py` | `scan` and `while`; gathers and scatters of rows |
| `products.py` | matrix products |
| `primitives.py` | kernels of primitives: convolutions, windows, extrema, sorting, Fourier transforms |
| `eager.py` | NumPy without `jit` |
| `cuda.py` | launches on a GPU |

Below each number stand its unit, what it decides, and where it comes from:

- Measured: `python -m functad doctor --measure` measures the same here, and prints both side by side.
- Derived: by the formula, from facts and other limits.
- Compared: chosen by hand, by times. `python -m benchmarks tuning NUMBER` halves and doubles it in programs that this
  changes (`benchmarks/tuning_cases/`), and times these in turn; without a name all such numbers of the CPU. What came
  of that stands in `benchmarks/results/tuning/`.
- Unproven: chosen by reading, or by times that nobody kept, for a GPU or for AVX-512; no figure stands behind it yet.
- Chosen: for people, who wait, or by how an algorithm is made.
- Bound: it keeps the time or memory of compiling from growing faster than a Program; results are as fast without it.

The facts are those of a server's core of 2020 to 2024, a little on the slow side. They need not be this machine's, as
nearly all limits lie where times hardly change. What kernels are made, and how sums are cut, depends on these numbers
and on how many cores there are, never on a measurement at run time: a Program gives the same results every time.
"""

# ruff: noqa: F403
from functad.machine_model.compiling import *
from functad.machine_model.cuda import *
from functad.machine_model.eager import *
from functad.machine_model.facts import *
from functad.machine_model.loops import *
from functad.machine_model.nests import *
from functad.machine_model.primitives import *
from functad.machine_model.products import *
from functad.machine_model.running import *
