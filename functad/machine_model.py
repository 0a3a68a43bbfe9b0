"""All tuned numbers of the compiler: facts of the machine, and the limits that passes and kernels draw from them.

Knows nothing of functad. What reads a number writes `machine_model.NAME` where it needs it, so a test may set another.

Below each number stand its unit, what it decides, and where it comes from:

- Measured: `python -m functad doctor --measure` measures the same here, and prints both side by side.
- Derived: by the formula, from facts above.
- Compared: chosen among halves and doubles of it by the times of workloads; `python -m benchmarks` tells what another
  value does.
- Bound: it keeps the time or memory of compiling from growing faster than a Program; results are as fast without it.

The facts are those of a server's core of 2020 to 2024, a little on the slow side. They need not be this machine's, as
nearly all limits lie where times hardly change. What kernels are made, and how sums are cut, depends on these numbers
and on how many cores there are, never on a measurement at run time: a Program gives the same results every time.
"""

from __future__ import annotations

# ==== Facts ===========================================================================================================

# ---- memory

CACHE_LINE = 64
"""bytes. Where arrays and panels begin, and how far apart threads write at least. Measured: as the system tells."""

VECTOR_BYTES = 64
"""bytes of the widest vectors (AVX-512); a processor with narrower ones takes several. Measured: as LLVM tells."""

FLOATS_OF_VECTOR = VECTOR_BYTES // 4
"""elements that are computed at once: rows of fewer are left to loops across. Derived."""

FIRST_CACHE = 1 << 15
"""bytes of a core's first-level data cache: a panel of a matrix product. Measured: as the system tells."""

SECOND_CACHE = 1 << 19
"""bytes of a core's second-level cache, and what one may add to it unseen. Measured: as the system tells."""

BYTES_PER_NS = 25.0
"""bytes that a thread moves in a ns, between the caches. Decides how many threads a kernel is worth. Measured."""

# ---- arithmetic

OPERATION_NS = 0.03
"""ns of a sum or product of vectors in a loop nest, for each element. Measured."""

FUNCTION_NS = 0.35
"""ns of a function such as `exp` in a loop nest, for each element of float32. Measured."""

FUNCTION_OPERATIONS = 12
"""operations that a function such as `exp` takes: FUNCTION_NS / OPERATION_NS, as an integer. Measured."""

QUOTIENT_OPERATIONS = 4
"""operations that a quotient or a square root takes. Measured."""

# ==== Limits ==========================================================================================================

# ---- threads

MOST_PARTS = 16
"""parts of work that threads share, whatever their number: with fewer, one that is held up holds up all. Compared."""

SMALLEST_SHARE = 12_000.0
"""ns. A block that takes less runs on one thread. Measured: handing work over and waiting costs 0.5 to 2 µs while the
helper is awake, 5 to 50 if it sleeps, and what one core's cache held must move to the other's."""

SMALLEST_CHUNK = 8_000.0
"""ns of work in a chunk, at least: to claim one takes 0.1 µs, and its first rows lie in other caches. Compared."""

COARSE_CHUNK = 200_000.0
"""ns of a chunk with matrix products that is cut once more; each chunk packs all of an operand. Compared."""

FEWEST_ROWS = 4
"""rows of a block, at least, so that kernels are run together chunk by chunk of them. Compared."""

FEWEST_ROWS_OF_PRODUCTS = 16
"""rows of a chunk of a loop that runs row by row and multiplies matrices: products of fewer are slow. Compared."""

LARGEST_SHARED = 4 * SECOND_CACHE
"""bytes that each chunk of a loop that runs row by row reads again at every step. Derived: a cache of all cores."""

LONGEST_STEP = 400_000.0
"""ns of a loop's step from which its threads had better wait for each other than each run all steps. Compared."""

FEW_ROWS = 8
"""rows that are too few for threads to share: each is cut into pieces instead. Compared."""

ELEMENTS_WORTH_THREADS = 1 << 14
"""elements that are moved one by one, to here or there, below which one thread moves them all. Compared."""

POINTS_WORTH_PARTS = 1 << 16
"""points of a reduction that is cut into parts for threads; some SMALLEST_SHARE of reading. Compared."""

POINTS_WORTH_LANES = 1 << 13
"""points of a reduction into few sums that is done in lanes, which are summed in the end. Compared."""

NARROW_SUMS = 32
"""sums side by side that are too few for vectors and pipelines: such are done in lanes. Derived: two vectors' worth."""

SUMS_AT_ONCE = 64
"""sums, lanes included, that keep vectors and pipelines busy: 4 vectors, as long as an addition takes. Derived."""

# ---- loop nests

LARGEST_NEST = 200
"""operations of a loop nest, a function counted as FUNCTION_OPERATIONS. Bound."""

MOST_BUFFERS = 128
"""buffers that a nest reads, or that hold results of the Program. Bound."""

NESTS_LOOKED_BACK = 12
"""nests, latest first, among which one is looked for that reads the same. Bound."""

LARGEST_INLINE = 60
"""operations of a value that is computed anew at each use rather than stored. Bound."""

DEEPEST_INLINE = 50
"""equations one behind another that are followed into a nest. Bound, and keeps recursion shallow."""

MOST_JOINED = 32
"""parts of an array that one kernel writes. Bound."""

LARGEST_REST = 0.05
"""share of a row whose last elements fill no vector, for parts of a joined array to be stored by one nest. Compared."""

LARGEST_WAIT = SECOND_CACHE
"""bytes of a result that may wait for its reader for the sake of a better order. Derived: it stays in the cache."""

LARGEST_SMALL_PRODUCT = 64
"""multiplications of a matrix product that is written out within a small loop. Compared: calling BLAS costs 200 ns."""

SMALLEST_SHIFTED_SLICE = 4096
"""bytes of a carry that is stacked before and after each step, to lie in one buffer, seen twice. Must exceed what
small loops keep in variables (MOST_VARIABLES). Compared."""

# ---- loops

UNROLLED_STEPS = 8
"""steps of a loop that is written out. Compared: the compiler then sees all steps at once."""

UNROLLED_EQUATIONS = 200
"""equations of all steps of such a loop together. Bound."""

CHEAP_OPERATIONS = 2
"""operations of what is computed again rather than stored for the backward pass. Derived: less than reading takes."""

DEEPEST_RECOMPUTATION = 4
"""equations one behind another that are computed again. Bound."""

LARGEST_HOISTED_PRODUCT = 3e7
"""operations of a product in a loop that is joined with those of other steps. Compared: larger ones gain nothing."""

MOST_EXTRA_BYTES = 1 << 26
"""bytes that a faster way may take more: what a loop stacks, where tasks of a convolution copy to. Compared."""

FEWEST_STEPS = 4
"""steps of a loop from which its weights are laid out once before it. Compared."""

SMALLEST_WEIGHT = 1 << 10
"""elements of such a weight, at least; a smaller one is in the first cache anyway. Compared."""

SMALLEST_SUNK_SLICE = 64
"""elements of a slice that a loop's body computes itself: vectors had better work on many smaller slices. Compared."""

LEAST_SAVED = 100
"""operations on the chain of all steps that make it worth a kernel before the loop. Compared."""

MOST_IN_PAIRS = 3
"""carries of a linear recurrence that goes two steps at a time. Compared: products of coefficients grow as its cube."""

MOST_COEFFICIENT_STACKS = 8
"""stacks of coefficients of a linear recurrence. Compared: to read more takes longer than the chain did."""

LARGEST_COEFFICIENT_STACKS = 1 << 24
"""bytes of all of them. Compared."""

# ---- gathers and scatters

GATHERED_USES = 2
"""times that a row of a table is read, on average, for the table to be multiplied before. Compared: 1 saves nothing."""

GATHERED_ROW = 32
"""elements of such a row, at least: to read or write one takes as long as 32 operations of a product. Compared."""

GATHERED_PRODUCT = 1e7
"""operations of such a product, at least, about 100 µs: in a smaller one there is little to save. Compared."""

LARGEST_ONE_HOT = 256
"""positions among which an element is chosen rather than scattered. Compared."""
