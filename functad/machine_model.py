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
"""bytes that a kernel moves in a ns on one thread: one number between those of the caches, 100, and of memory, 3 to 9.
Decides how many threads a kernel is worth. Measured."""

# ---- arithmetic

OPERATION_NS = 0.03
"""ns of a sum or product of vectors in a loop nest, for each element. Measured."""

FUNCTION_NS = 0.35
"""ns of a function such as `exp` in a loop nest, for each element of float32. Measured, on Zen 3 with AVX2: exp 1.2,
tanh and log 1.7, sin 3.1."""

FUNCTION_OPERATIONS = 12
"""operations that a function such as `exp` takes: FUNCTION_NS / OPERATION_NS, as an integer. Measured."""

QUOTIENT_OPERATIONS = 4
"""operations that a quotient or a square root takes. Measured."""

PRODUCT_FLOPS_PER_NS = 90.0
"""operations of float32 that a thread does in a ns in a large matrix product. Measured."""

PRODUCT_COST = {"float32": 1, "float64": 2, "complex64": 4, "complex128": 8}
"""times that an operation of a dtype takes in a matrix product. Measured; those of complex numbers derived."""

PRODUCT_CALL_NS = 200.0
"""ns of a matrix product besides its operations. Measured."""

KERNEL_FLOPS_PER_NS = 40.0
"""operations a ns of kernels that are written as text, by what they say of themselves. Compared."""

PYTHON_CALL_NS = 10_000.0
"""ns of a call of a Python function from compiled code. Measured."""

HANDOVER_NS = 1_000.0
"""ns that a second thread costs: half of the work takes as much longer than half the time. Measured."""

# ---- compiling

STATEMENT_NS = 1e6
"""ns of compiling a statement of a kernel, by Numba and LLVM. Measured."""

STATEMENTS_OF_FUNCTION = 4
"""statements that take as long to compile as one call of a function such as `exp`. Measured."""

# ==== Limits ==========================================================================================================

# ---- threads

MOST_PARTS = 16
"""parts of work that threads share, whatever their number: with fewer, one that is held up holds up all. Compared."""

SMALLEST_SHARE = 12 * HANDOVER_NS
"""ns. A block that takes less runs on one thread. Derived: two threads save 5/12 of it, less if the helper sleeps."""

SMALLEST_CHUNK = 8 * HANDOVER_NS
"""ns of work in a chunk, at least: to claim one takes 0.1 µs, and its first rows lie in other caches. Derived."""

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
"""sums at a time, lanes included, that keep vectors and pipelines busy: four vectors of float32. Derived."""

SHORT_CALL = 20_000.0
"""ns of a call that keeps the interpreter's lock all the time. Measured: to get it back may take longer, up to Python's
switch interval of 5 ms, if another thread has taken it."""

SPIN_SECONDS = 200e-6
"""s that a helper looks for work before it sleeps: a training loop calls again within them. Compared."""

PATIENCE_SECONDS = 20e-6
"""s after which a waiting thread lets others have its core: without, a busy machine takes twice as long. Compared."""

PARTS_A_THREAD = 4
"""parts of work for each thread where each needs memory of its own, or packs a matrix. Compared."""

# ---- stopping (Ctrl-C)

POLL_INTERVAL_NS = 50_000_000
"""ns from one question whether a signal came to the next: what people take for at once. Chosen, not tuned."""

POLL_WORK = 1 << 22
"""lines of kernels that run without a look at the clock: 50 ms at most, as most take less than 1 ns, those that wait
for memory 10. Derived: short kernels never look."""

JUMP_WORK = 16
"""lines that a jump, or the call of a kernel, takes as long as. Compared."""

POLL_BUDGET = 1 << 16
"""lines that a kernel which counts as it runs may go on for. Compared: to count costs no more than 1 % of them."""

UNKNOWN_STEPS = 16
"""steps that a loop with computed bounds is taken to have. Chosen, not tuned."""

SLOW_WORK = 256
"""lines that a special function takes as long as, up to a microsecond. Derived."""

LEAST_POLLED_STEP = 128
"""lines of a step of a loop with computed bounds that is worth a question. Compared."""

LEAST_POLLED_BRANCH = 4096
"""lines under a condition that are counted where they run, if they do. Compared."""

PRODUCTS_OF_A_LINE = 16.0
"""multiplications of a matrix product that take as long as a line. Derived."""

LARGEST_PRODUCT = 1 << 31
"""multiplications in one call of a matrix library, some 50 ms. Derived."""

PART_EXTENT = 1024
"""rows or terms of a part of a larger product, at least: what each packs anew is little beside the work. Compared."""

PART_COLUMNS = 2 * PART_EXTENT
"""columns of such a part, at least. Derived."""

# ---- loop nests

LARGEST_NEST = 200
"""operations of a loop nest, a function counted as FUNCTION_OPERATIONS. Bound."""

MOST_BUFFERS = 128
"""buffers that a nest reads, or that hold results of the Program. Bound."""

NESTS_LOOKED_BACK = 12
"""nests before it, latest first, among which one is looked for that reads the same. Bound."""

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

# ---- kernels

MOST_UNROLLED_POINTS = 32
"""points of a nest in a small loop that is written out point by point. Bound."""

MOST_UNROLLED_RESULTS = 16
"""results of such a nest. Bound."""

MOST_VARIABLES = 16
"""elements of a piece of memory that become variables of a small loop: so many registers. Compared."""

MOST_STATEMENTS = int(0.4e9 / STATEMENT_NS)
"""statements of a small loop; a function counts as STATEMENTS_OF_FUNCTION. Derived: 0.4 s to compile."""

LONGEST_SMALL_STEP = 500.0
"""ns of a step of a loop that becomes one function: threads could not share so little. Compared."""

ROWS_WEIGH = 5.0
"""times that the cost of such a step counts if it has rows, which threads may share for all steps. Compared."""

LONG_STEP = 100_000.0
"""ns of a step of a kernel's range that asks itself whether to stop. Derived: far below POLL_INTERVAL_NS."""

FEWEST_COLUMNS = 8
"""columns that a vector can be made of, so that a sum over rows goes column by column. Derived: 8 in AVX2."""

SQUARE_SIDE = 8
"""rows and columns of the squares in which a loop runs that exchanges both. Compared: half a cache line and more."""

# ---- matrix products

PRODUCT_CHUNK = 4e5
"""operations of float32 in a chunk of a product, at least; some 5 µs. Compared."""

PRODUCT_CHUNK_EXTENT = 192
"""rows or columns of a chunk, at least, if a core has more than one: each packs all of the other operand. Compared."""

ROWS_PACK_BETTER = 4
"""times as many columns as rows from which threads share the columns: rows have the better kernels. Compared."""

COPIED_WEIGHT_ROWS = 64
"""rows of all products with a weight that they read transposed, for one copy of it before. Compared."""

COPIED_WEIGHT_BYTES_A_ROW = 1280
"""bytes of such a weight that are worth a row more: a large one takes longer to copy, and gains less. Compared."""

COPIED_WEIGHT_PRODUCT = 32**3
"""multiplications of such a product, at least. Compared."""

FALLBACK_TILE_BYTES = 2 * FIRST_CACHE
"""bytes of a packed tile of the product that stands in for a BLAS library. Derived."""

FALLBACK_TILE_ROWS = 64
"""rows of that tile. Compared."""

OPENBLAS_DIRECT = 100**3
"""multiplications up to which OpenBLAS, with AVX-512, reads both matrices where they lie. From its source."""

DIRECT_TILE = 128
"""rows of the tiles in which larger ones are given to it (half as many if transposed), columns, and terms. Compared."""

DIRECT_FEW = 256
"""rows at most (terms if transposed) of the left operand of a product in such tiles. Compared: more pay for packing."""

REPEATED_BYTES = SECOND_CACHE // 4
"""bytes of a matrix that stays in a core's cache while all rows of another pass by. Derived."""

OWN_PRODUCT_BYTES = 8 * SECOND_CACHE
"""bytes of a matrix from which functad's own product (AVX-512), packing while it multiplies, is faster. Compared."""

OWN_PRODUCT_ROWS = 4
"""rows of such a product, at least, so that it fills its vectors. Derived."""

OWN_PRODUCT_COLUMNS = 128
"""columns of such a product, at least. Derived."""

OWN_PRODUCT_DEPTH = 32
"""terms of such a product, at least. Derived."""

TILE_ROWS = 12
"""rows of a tile of the result that stays in registers: with TILE_BYTES 24 of the 32 that AVX-512 has. Derived."""

FEW_TILE_ROWS = 4
"""rows of the tiles in which fewer rows than that are done. Compared."""

TILE_BYTES = 2 * VECTOR_BYTES
"""bytes of a row of such a tile. Derived."""

PANEL_DEPTH = 256
"""terms of a sum that are packed at a time. Compared."""

PANEL_DEPTH_UNIT = 4
"""terms of which that is a multiple; zeros are added at the end. Derived: what is transposed at once."""

RESIDENT_BYTES = SECOND_CACHE // 2
"""bytes of the operand that stays in the second cache. Derived."""

PANEL_BYTES = FIRST_CACHE
"""bytes of a panel of the other, which passes by. Derived."""

# ---- CUDA

CUDA_THREADS = 128
"""threads of a block. Compared on no GPU yet: the usual size."""

CUDA_MOST_BLOCKS = 4096
"""blocks of a launch; each does more than one piece of work then. Compared on no GPU yet."""

CUDA_TILE = 16
"""rows and columns of a tile in shared memory. Compared on no GPU yet: 256 threads for each."""

CUDA_FEW_POINTS = 4096
"""results that cannot keep a GPU busy with one thread for each; a block sums each then. Compared on no GPU yet."""
