"""All tuned numbers of the compiler: facts of the machine, and the limits that passes and kernels draw from them.

Knows nothing of functad. What reads a number writes `machine_model.NAME` where it needs it, so a test may set another.

Below each number stand its unit, what it decides, and where it comes from:

- Measured: `python -m functad doctor --measure` measures the same here, and prints both side by side.
- Derived: by the formula, from facts above.
- Compared: chosen by hand, by the times of workloads; nothing measures it alone. To try another value, set it here and
  run `python -m benchmarks` before and after.
- Chosen: for people, who wait, or by how an algorithm is made.
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

ONE_BY_ONE = 4.0
"""times that this takes where each element must wait for the one before, as in a running sum of a row. Compared."""

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

BATCH_FOR_LLVM = 15_000
"""characters of instructions that LLVM is given at a time, while the next ones are made. The first steps of small nets
from an empty cache took 0.68, 0.70 and 0.71 s with 15,000, 30,000 and 60,000. Compared."""

SWITCH_S = 2e-4
"""seconds that a thread keeps Python to itself while LLVM's thread wants it, which it does between two calls of LLVM:
first steps took 0.65 s so, 0.70 s with Python's own 5 ms. Compared."""

LONG_LOOP = 500
"""instructions of a loop, those of functions included, from which on its last elements are a vector with a mask, where
AVX-512 has them. Compared: LLVM takes half the time, as it writes such a loop once instead of three times; the loop
takes up to 4 % more (shorter ones up to 25), as it loads before it computes.
"""

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

POINTS_WORTH_LANES = 1 << 12
"""points of a reduction into few sums that is done in lanes, which are summed in the end. Compared."""

LONGEST_SUM = 1 << 20
"""floats that are added to one total; longer sums are done in parts. At 2^24 float32 loses ones. Chosen."""

UPDATES_WORTH_WIDTH = 8
"""updates for each element of a table from which long sums of them are kept in a wider copy of the table. Compared: of
2^21 updates and more, at 20 an element the copy takes no time that shows, at 4 half as long again, at 1 four times."""

NARROW_SUMS = 2 * FLOATS_OF_VECTOR
"""sums side by side that are too few for vectors and pipelines: such are done in lanes. Derived."""

SUMS_AT_ONCE = 4 * FLOATS_OF_VECTOR
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
"""ns from one question whether a signal came to the next: what people take for at once. Chosen."""

POLL_WORK = 1 << 22
"""lines of kernels that run without a look at the clock: 50 ms at most, as most take less than 1 ns, those that wait
for memory 10. Chosen: short kernels never look."""

DIRECT_ARENA_BYTES = 1 << 20
"""bytes of temporaries of which a compiled Program may have a second set, for calls that are entered directly. Chosen:
with more of them a call takes so long that the way in does not matter."""

JUMP_WORK = 16
"""lines that a jump, or the call of a kernel, takes as long as. Compared."""

POLL_BUDGET = 1 << 16
"""lines that a kernel which counts as it runs may go on for. Compared: to count costs no more than 1 % of them."""

UNKNOWN_STEPS = 16
"""steps that a loop with computed bounds is taken to have. Chosen."""

SLOW_WORK = 256
"""lines that a special function takes as long as, up to a microsecond. Chosen."""

LEAST_POLLED_STEP = 128
"""lines of a step of a loop with computed bounds that is worth a question. Compared."""

LEAST_POLLED_BRANCH = 4096
"""lines under a condition that are counted where they run, if they do. Compared."""

PRODUCTS_OF_A_LINE = 16.0
"""multiplications of a matrix product that take as long as a line. Chosen."""

LARGEST_PRODUCT = 1 << 31
"""multiplications in one call of a matrix library, some 50 ms. Chosen."""

PART_EXTENT = 1024
"""rows or terms of a part of a larger product, at least: what each packs anew is little beside the work. Compared."""

PART_COLUMNS = 2 * PART_EXTENT
"""columns of such a part, at least. Derived."""

# ---- loop nests

LARGEST_NEST = 200
"""operations of a loop nest, a function counted as FUNCTION_OPERATIONS. Bound."""

MOST_PIECES = 16
"""pieces into which a nest is cut where its rules read one operand here, another there. Bound."""

LARGEST_CUT_NEST = 800
"""operations of all pieces of such a nest together. Bound."""

MOST_JOINED_WHERE_READ = 4
"""arrays that are joined by the nest that reads the result, at most: each is a piece of it. Bound."""

SHORTEST_JOINED = 16
"""elements of a row of the result for each such array, at least: pieces are loops along them. Bound."""

SMALLEST_JOINED_IN_NEST = FIRST_CACHE // 2
"""bytes of a joined array that the nests which read it compute, at least: what lies in the first cache is read again
faster than two arrays are stored at once. Derived."""

SHORTEST_FROM_VECTORS = 2048
"""elements of a row that begins amid a vector and is therefore cut where the next begins, at least. Compared: stores
across cache lines take twice as long, but one kernel more has to be called."""

MOST_BUFFERS = 128
"""buffers that a nest reads, or that hold results of the Program. Bound."""

NESTS_LOOKED_BACK = 12
"""nests before it, latest first, among which one is looked for that reads the same. Bound."""

LARGEST_INLINE = 60
"""operations of a value that is computed anew at each use rather than stored. Bound."""

SMALLEST_RECOMPUTED = 1 << 28
"""bytes of a value, such as one for each pair of few numbers, that each nest computes anew rather than reads. Chosen:
to store it is up to three times as fast, but from here on memory is what a user runs out of."""

LARGEST_RECOMPUTED = 4 * FUNCTION_OPERATIONS
"""operations of such a value. Derived: functions of a distance, and as many sums and products as take as long."""

SMALLEST_PAIRS = 1 << 10
"""bytes of such a value, from which its short axes are written out: vectors then run along the long ones. Compared."""

ELEMENTS_FROM_ONE = 16
"""elements of such a value for each number that it is computed from, at least. Chosen: it is memory that is saved."""

DEEPEST_INLINE = 50
"""equations one behind another that are followed into a nest. Bound, and keeps recursion shallow."""

CARRIED_OPERATIONS = 3
"""operations of a nest that carries a value along its rows, at most: they are done one by one there. Compared: one
before and one after a running sum take 0.6 to 1.0 of the time that they take apart, six up to 1.5."""

CARRIED_FROM_MEMORY = SECOND_CACHE // 4
"""elements of such a nest, at least, for that: vectors that stay in a cache cost less. Derived."""

CARRIED_COLUMNS = 64
"""values carried side by side from which on such a nest takes in whatever is no function, as vectors do. Compared: tanh
with a running sum, which is wider and so has shorter vectors, takes 1.5 to 2.3 times as long as apart."""

CARRIED_PARTS = 4
"""parts of such a nest that threads can share, at least, for that. Compared."""

MOST_JOINED = 32
"""parts of an array that one kernel writes. Bound."""

LARGEST_REST = 0.05
"""share of a row whose last elements fill no vector, for parts of a joined array to be stored by one nest. Compared."""

LARGEST_WAIT = SECOND_CACHE
"""bytes of a result that may wait for its reader for the sake of a better order. Derived: it stays in the cache."""

LARGEST_SMALL_PRODUCT = 64
"""multiplications of a product, or of each of a batch, that becomes a nest. Compared: calling BLAS costs 200 ns."""

MOST_SUMMED_AT_ONCE = FLOATS_OF_VECTOR - 1
"""points of a reduction that is written out, so that vectors run along other loops. Derived: more fill a vector."""

MOST_STATEMENTS_AT_ONCE = 64
"""statements of all points of such a reduction. Bound."""

SMALLEST_SHIFTED_SLICE = 4096
"""bytes of a carry that is stacked before and after each step, to lie in one buffer, seen twice. Must exceed what
small loops keep in variables (MOST_VARIABLES). Compared."""

# ---- loops

UNROLLED_STEPS = 8
"""steps of a loop that is written out. Compared: the compiler then sees all steps at once."""

UNROLLED_EQUATIONS = LARGEST_NEST
"""equations of all steps of such a loop together. Derived."""

CHEAP_OPERATIONS = 2
"""operations of what is computed again rather than stored for the backward pass. Compared: less than reading takes."""

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

UPDATES_OF_PART = 32
"""updates for each element of the result, on average, that are worth a copy of it: a part of the updates, which a
thread scatters alone. An update takes as long as one of a whole vector. Compared."""

MOST_SCATTER_PARTS = 8
"""such parts, whatever the number of threads, on which results do not depend. Chosen."""

SCATTERED_OPERATIONS = 2
"""operations for each update that are done where it is scattered, one by one, rather than as vectors before. Compared:
one takes 0.87 of the time, three 0.97 to 1.14. In rows of vectors all are done that take less than a function does."""

SHARED_ROW_BYTES = 512
"""bytes of a row that is scattered, for threads to share the rows: each looks at all updates. Compared: a row of 64
bytes is written in less time than a branch takes that was guessed wrongly."""

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
"""ns of a step of a kernel's range that asks itself whether to stop. Chosen: far below POLL_INTERVAL_NS."""

FEWEST_COLUMNS = FLOATS_OF_VECTOR // 2
"""columns that a vector can be made of, so that a sum over rows goes column by column. Derived."""

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
"""multiplications up to which OpenBLAS, with AVX-512, reads both matrices where they lie. Chosen, by its source."""

DIRECT_TILE = 128
"""rows of the tiles in which larger ones are given to it (half as many if transposed), columns, and terms. Compared."""

DIRECT_FEW = 256
"""rows at most (terms if transposed) of the left operand of a product in such tiles. Compared: more pay for packing."""

REPEATED_BYTES = SECOND_CACHE // 4
"""bytes of a matrix that stays in a core's cache while all rows of another pass by. Derived."""

OWN_PRODUCT_EXTENT = 8
"""elements along each side, at least, of products that functad's own does faster than shorter vectors. Compared."""

OWN_PRODUCT_BYTES = 8 * SECOND_CACHE
"""bytes of a matrix from which functad's own product (AVX-512), packing while it multiplies, is faster. Derived."""

OWN_PRODUCT_ROWS = 4
"""rows of such a product, at least, so that it fills its vectors. Compared."""

OWN_PRODUCT_COLUMNS = 128
"""columns of such a product, at least. Compared."""

OWN_PRODUCT_DEPTH = 32
"""terms of such a product, at least. Compared."""

TILE_ROWS = 12
"""rows of a tile of the result that stays in registers: with TILE_BYTES 24 of the 32 that AVX-512 has. Chosen."""

FEW_TILE_ROWS = 4
"""rows of the tiles in which fewer rows than that are done. Compared."""

TILE_BYTES = 2 * VECTOR_BYTES
"""bytes of a row of such a tile. Derived."""

PANEL_DEPTH = 256
"""terms of a sum that are packed at a time. Compared."""

PANEL_DEPTH_UNIT = 4
"""terms of which that is a multiple; zeros are added at the end. Chosen: what is transposed at once."""

RESIDENT_BYTES = SECOND_CACHE // 2
"""bytes of the operand that stays in the second cache. Derived."""

PANEL_BYTES = FIRST_CACHE
"""bytes of a panel of the other, which passes by. Derived."""

NEAR_BYTES = RESIDENT_BYTES // PANEL_DEPTH
"""bytes from one row to the next up to which a tile reads its rows where they lie, unpacked: with larger ones they
would not stay in the second cache. Derived."""

# ---- kernels of primitives

APART_BYTES = 16 * CACHE_LINE
"""bytes from what one thread updates to what another does, at least. Derived: processors fetch several lines ahead."""

MOST_COPIED_ELEMENTS = 1 << 21
"""elements of the copies of an image for each tap of a convolution, or of partial sums of its weights. Compared."""

CONVOLUTION_WORTH_PRODUCTS = 1 << 16
"""operations of a convolution from which matrix products pay: loops of a smaller one compile sooner. Compared."""

DILATION_WORTH_SPLITTING = 1 << 26
"""operations of a convolution from which those with zeros between elements are left out, by more kernels. Compared."""

CONVOLUTION_BLOCK_PLACES = 256
"""outputs of a block of products: enough for them to be fast, few enough for the cache. Compared."""

CONVOLUTION_BLOCK_BYTES = 2 * SECOND_CACHE
"""bytes of such a block, and of the weights that a product of places reads. Derived."""

WIDE_ROW = 32
"""outputs of a row that are worth a matrix product of their own. Compared."""

FEW_FEATURES = 16
"""features of a convolution, or outputs or taps, that are too few for matrix products to be fast. Compared."""

LITTLE_EXTRA_WORK = 1.02
"""times the work that is wanted, at which no better way is looked for. Compared."""

MOST_EXTRA_WORK = 1.1
"""times the work that is wanted which overlapping parts, or outputs nobody asked for, may make of it. Compared."""

PLACE_HEIGHTS = (TILE_ROWS, 2 * FEW_TILE_ROWS, FEW_TILE_ROWS)
"""outputs of a row in a tile of a product of places (AVX-512). Derived."""

FEATURES_UNIT = PANEL_DEPTH_UNIT
"""features at a time in such a product, which divide theirs. Derived."""

PLACES_PRODUCTS = 64
"""terms of its sums, at least, which are worth its table. Compared."""

ACCUMULATORS = 18
"""sums of a convolution that are kept in registers, of 32 with AVX-512, as the rest holds operands. Compared."""

WEIGHTS_IN_REGISTERS = 64
"""weights that are kept in registers, or read from the first cache at no cost. Compared."""

DIRECT_PRODUCTS = 288
"""terms of a sum that a convolution of few features and outputs computes in loops. Compared."""

TAPS_AT_ONCE = 5
"""taps of a row that are summed at a time for the gradient of few weights. Compared."""

WINDOW_WRITTEN_OUT = 25
"""elements of a window that are written out one by one, so that many windows are done at once: 5 by 5. Compared."""

WINDOWS_CUT_OFF = 1 / 16
"""of all windows, at least, that reach beyond the operand, for a nest with borders instead of a kernel. Compared."""

WINDOW_LONG_AXIS = 16
"""elements of a window along an axis beyond which it is gone through in a loop. Compared."""

EXTREMUM_BLOCK = 128
"""elements of a row whose extremum is looked for at once; the first block that has it is searched again. Compared."""

LONG_EXTREMUM_ROW = 512
"""elements of a row from which on an extremum is looked for by blocks: others are read twice. Compared."""

TALL_COLUMNS = 1 << 17
"""elements of one array of columns, no fewer than these high, from which on the place of their extrema is found by two
reductions. Compared: at 160,000 elements 22 us instead of 209; but at 50,000 30 instead of 8.
"""

COMPARISONS_OF_SEARCH = 256
"""comparisons that take as long as to sort a value, or to look an element up among sorted ones. Compared: a million
elements among 100 values take 1.9 ms by comparing and 2.5 by sorting, among 1,000 values 19 and 3.6."""

RUNNING_GROUP = 4
"""elements that are combined before they meet what has run up: a quarter of the long chain is left. Compared."""

COLUMNS_TOGETHER = 256
"""columns that a thread carries values along side by side, at least: with fewer, each row costs more. Compared: 100
columns of 10,000 rows of float32 take 75 us together, and in chunks of 7 columns 550."""

RUNNING_BLOCK = 256
"""elements of a running logarithm of sums that are vectors between two recurrences. Compared."""

COUNTED_ROW = 80
"""elements of a row that is sorted by comparing all pairs, many at once; a longer one digit by digit. Compared."""

DIGIT_BITS = 8
"""bits of a digit. Compared: the counters of one stay in the first cache."""

LARGER_DIGIT_BITS = 11
"""bits of a digit in rows longer than LONG_DIGITS_ROW: three digits of a word instead of four. Compared."""

LONG_DIGITS_ROW = 1 << 13
"""elements of a row from which larger digits pay. Compared."""

PARTED_ROW = 1 << 19
"""elements of a row from which all threads sort it together, in parts that stay in the caches. Compared."""

SORTED_PIECES = 16
"""pieces of the rows that are sorted together, read and divided each by one thread: enough for any. Chosen."""

PARTS_TOGETHER = 8
"""parts of a row, of 256, that are one piece of work: enough pieces for any threads, few counters. Chosen."""

BLOCK_OF_LARGEST = 32
"""elements of a row of which the largest tells whether any of them is to be kept. Compared with 16 and 64."""

LARGEST_AMONG = 100
"""elements of a row for each that is kept, from which on such blocks are looked at: 0.2 of the time for 1 of 1,000 and
for 32 of 100,000, as long for 10 of 1,000, more for 32 of 1,000. Compared."""

KEPT_LARGEST = 32
"""largest elements that are kept in order while a row is read; for more the row is sorted. Compared."""

MOST_FACTORS = 16
"""factors of an integer power that is written out as products; of more, a function makes a loop. Bound."""

FEW_COUNTED = 10
"""events of a Poisson or binomial distribution, on average, below which they are counted one by one; from here on
rejection is faster. Random numbers depend on it. Chosen: as in JAX."""

# ---- memory

KEPT_FREED_BYTES = 1 << 28
"""bytes at the end of the heap that stay with the process when they are free: six results of 1 MB, call after call,
took 2.2 ms without, 0.13 with. Compared."""

# ---- executables on disk

LARGEST_KNOWN_CONSTANT = 1 << 20
"""bytes of an array in a Program with which it is still looked for on disk: to hash it takes 1 ms. Chosen."""

# ---- NumPy, without `jit`

THREEFRY_BLOCK = SECOND_CACHE // 128
"""elements whose random bits are made at a time: five buffers stay in the second cache. Derived."""

THREEFRY_PACKED = 160
"""counters up to which random bits are made of Python's integers, that hold all of them, not by NumPy. Compared: 1
takes 8 µs instead of 80, 10 9 instead of 38, 100 25 instead of 38, 250 as long."""

STRICT_BLOCK = SECOND_CACHE // 64
"""elements of a strict formula at a time: its temporaries stay in the second cache. Derived."""

GATHER_BLOCK = 1 << 16
"""elements whose indices are expanded at a time. Compared."""

WINDOWS_BLOCK_BYTES = 8 * SECOND_CACHE
"""bytes of unrolled windows at a time: in the last cache between the copy and the product. Derived."""

WINDOWS_FEW_OUTPUTS = 128
"""outputs of an image, with fewer of which one product of a block is better than one an image. Compared."""

PIECE_ELEMENTS = 1 << 27
"""elements that NumPy takes in one go, some 100 ms, so that Ctrl-C comes through. Chosen."""

PIECE_PRODUCT = 1 << 34
"""multiplications of float32 in one go: some 300 ms on two cores. Chosen."""

BLAS_THREADS_FROM = 1 << 18
"""multiplications up to which OpenBLAS uses one thread by itself. Chosen: by OpenBLAS."""

ONE_THREAD_PRODUCT = 1 << 24
"""multiplications of an un-jitted product that stay on one thread. At most some 0.3 ms, of which two threads save half
on a quiet machine; beside busy processes they took 80 ms where one took 0.27. Compared."""

ONE_THREAD_MATRIX = 512
"""rows of matrices that are factorised on one thread. A second saves nothing of Cholesky's and QR's time, a third of
eigh's; beside busy processes two took 348 ms for eigh of 200 rows, one 2.3. Compared."""

PIECE_ROWS = 256
"""rows or columns of such a piece, at least: the other operand is packed anew for each. Compared."""

OTHER_PRODUCT_COST = 32
"""times that a multiplication takes which no BLAS does. Compared."""

FFT_RADICES = (4, 2, 3, 5, 7, 11, 13)
"""prime factors of lengths, and 4, that passes of a Fourier transform in a kernel have, the first one first; other
lengths NumPy does. Bound."""

FFT_ROOTS = 64
"""roots of unity for each digit of an exponent, to this base, whose products a kernel computes all others by. Bound."""

FFT_IN_KERNEL = 1 << 20
"""the longest axis that a kernel transforms, in 0.2 to 1.1 of NumPy's time, which does longer ones. Compared."""

EINSUM_OPTIMAL = 8
"""operands of an einsum whose best order is looked for among all: 3 to that power of ways to split them. Bound."""

SMALL_MATRIX = 32
"""rows of matrices of a stack that NumPy factorises side by side, step by step, and no larger ones. Compared."""

MATRICES_SIDE_BY_SIDE = 8
"""matrices for each of their rows, from which on that takes less time than a call of LAPACK for each. Compared."""

# ---- CUDA

CUDA_THREADS = 128
"""threads of a block. Compared on no GPU yet: the usual size."""

CUDA_MOST_BLOCKS = 4096
"""blocks of a launch; each does more than one piece of work then. Compared on no GPU yet."""

CUDA_TILE = 16
"""rows and columns of a tile in shared memory. Compared on no GPU yet: 256 threads for each."""

CUDA_FEW_POINTS = 4096
"""results that cannot keep a GPU busy with one thread for each; a block sums each then. Compared on no GPU yet."""
