"""What threads share, when a call looks for signals, and what memory the process keeps."""

from functad.machine_model import facts

# ---- threads

MOST_PARTS = 16
"""parts of work that threads share, whatever their number: with fewer, one that is held up holds up all. What several
kernels touch row by row is cut into more, each of a SECOND_CACHE. Compared: softmax, normalisation and maximum of 2,048
rows of 2,048 float32 take 0.85 to 0.95 of the time."""

SMALLEST_SHARE = 12 * facts.HANDOVER_NS
"""ns. A block that takes less runs on one thread. Derived: two threads save 5/12 of it, less if the helper sleeps."""

SMALLEST_CHUNK = 8 * facts.HANDOVER_NS
"""ns of work in a chunk, at least: to claim one takes 0.1 µs, and its first rows lie in other caches. Derived."""

COARSE_CHUNK = 200_000.0
"""ns of a chunk with matrix products that is cut once more; each chunk packs all of an operand. Compared."""

FEWEST_ROWS = 4
"""rows of a block, at least, so that kernels are run together chunk by chunk of them. Compared."""

FEWEST_ROWS_OF_PRODUCTS = 16
"""rows of a chunk of a loop that runs row by row and multiplies matrices: products of fewer are slow. Compared."""

LARGEST_SHARED = 4 * facts.SECOND_CACHE
"""bytes that each chunk of a loop that runs row by row reads again at every step. Derived: a cache of all cores."""

LONGEST_STEP = 400_000.0
"""ns of a loop's step from which its threads had better wait for each other than each run all steps. Compared."""

FEW_ROWS = 8
"""rows that are too few for threads to share: each is cut into pieces instead. Compared."""

ELEMENTS_WORTH_THREADS = 1 << 14
"""elements that are moved one by one, to here or there, below which one thread moves them all. Compared."""

POINTS_WORTH_PARTS = 1 << 16
"""points of a reduction that is cut into parts for threads; some SMALLEST_SHARE of reading. Compared."""

TERMS_OF_A_PART = 3
"""terms of each result that a part of a reduction gathers, at least: of few terms threads share the results, which are
many then. Compared, Zen 3: extrema and sums of 2 to 32 terms take 0.2 to 0.8 of the time so; three terms a part 0.8 to
1.1, four 0.65 to 1.5."""

POINTS_WORTH_LANES = 1 << 11
"""points of a reduction into few sums that is done in lanes, which are summed in the end. Compared with twice as many:
0.83 to 1.02 of the time."""

LONGEST_SUM = 1 << 20
"""floats that are added to one total; longer sums are done in parts. At 2^24 float32 loses ones. Chosen."""

UPDATES_WORTH_WIDTH = 8
"""updates for each element of a table from which long sums of them are kept in a wider copy of the table. Compared: of
2^21 updates and more, at 20 an element the copy takes no time that shows, at 4 half as long again, at 1 four times."""

NARROW_SUMS = 2 * facts.FLOATS_OF_VECTOR
"""sums side by side that are too few for vectors and pipelines: such are done in lanes. Derived."""

SUMS_AT_ONCE = 4 * facts.FLOATS_OF_VECTOR
"""sums at a time, lanes included, that keep vectors and pipelines busy: four vectors of float32. Derived."""

SHORT_CALL = 8 * facts.LOCK_NS
"""ns of a call that keeps the interpreter's lock all the time. Derived: of longer ones it takes an eighth at most to
get it back, but for rare times of up to Python's switch interval, 5 ms."""

SPIN_SECONDS = 200e-6
"""s that a helper looks for work before it sleeps: a training loop calls again within them. Chosen."""

PATIENCE_SECONDS = 20e-6
"""s after which a waiting thread lets others have its core. Chosen: without, a busy machine takes twice as long."""

PARTS_A_THREAD = 4
"""parts of work for each thread where each needs memory of its own, or packs a matrix. Compared."""

DIRECT_ARENA_BYTES = 1 << 20
"""bytes of temporaries of which a compiled Program may have a second set, for calls that are entered directly. Chosen:
with more of them a call takes so long that the way in does not matter."""

# ---- stopping (Ctrl-C)

POLL_INTERVAL_NS = 50_000_000
"""ns from one question whether a signal came to the next: what people take for at once. Chosen."""

POLL_WORK = 1 << 22
"""lines of kernels that run without a look at the clock: 50 ms at most, as most take less than 1 ns, those that wait
for memory 10. Chosen: short kernels never look."""

JUMP_WORK = 16
"""lines that a jump, or the call of a kernel, takes as long as. Chosen."""

POLL_BUDGET = 1 << 16
"""lines that a kernel which counts as it runs may go on for. Compared: to count costs no more than 1 % of them."""

UNKNOWN_STEPS = 16
"""steps that a loop with computed bounds is taken to have. Chosen."""

SLOW_WORK = 256
"""lines that a special function takes as long as, up to a microsecond. Chosen."""

ROUTINE_WORK = 1 << 20
"""lines that a call of LAPACK takes as long as, on matrices of a few hundred rows. Chosen: a question before every
fourth costs nothing beside them."""

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

# ---- memory

ALIGNED_BYTES = 1 << 16
"""bytes of a result, at least, that begins at a cache line, for 1 µs more. Compared: products by a library that reads
weights where they lie take 1.5 to 2 times as long where these begin elsewhere, as NumPy's arrays do by chance."""

BEFORE_A_RESULT = 1 << 11
"""bytes of the memory of such a result that lie before it, half a page. Compared, Zen 3: the processor tells reads from
writes by places within pages. NumPy's arrays begin amid a cache line, and those that are allocated one after
another a few bytes further in their pages each: without, `x / y` of 512² float32 takes 1.8 times as long where the
result begins 48 and 64 bytes behind its operands there."""

KEPT_FREED_BYTES = 1 << 28
"""bytes at the end of the heap that stay with the process when they are free. Chosen: with none, six results of 1 MB,
call after call, take 2.2 ms instead of 0.13."""

LENT_SHARE = 1 / 8
"""of the memory that the process may have: what dead blocks beyond that may hold, which the system takes when it needs
it. Chosen: until then such pages count as the process's own. To negate 8,192² float32 takes 0.6 of the time so."""
