"""Loop nests: what is fused and computed anew, how their loops are cut and written out."""

from functad.machine_model import facts

# ---- what shares a nest

LARGEST_NEST = 200
"""operations of a loop nest, a function counted as FUNCTION_OPERATIONS. Bound."""

MOST_PIECES = 16
"""pieces into which a nest is cut where its rules read one operand here, another there. Bound."""

LARGEST_CUT_NEST = 800
"""operations of all pieces of such a nest together. Bound."""

MOST_JOINED_WHERE_READ = 4
"""arrays that are joined by the nest that reads the result, at most: each is a piece of it. Bound."""

MOST_STACKED_APART = 8
"""arrays that are stacked, at most, for element-wise operations on them to be done on each, where they are taken apart
again. Compared: 1,000 mapped systems of 3 to 8 equations take an eighth to a half of the time, of 12 half; but it takes
twice as long or more to compile steps with dozens of sines."""

SHORTEST_JOINED = 16
"""elements of a row of the result for each such array, at least: pieces are loops along them. Bound."""

MOST_BUFFERS = 128
"""buffers that a nest reads, or that hold results of the Program. Bound."""

NESTS_LOOKED_BACK = 12
"""nests before it, latest first, among which one is looked for that reads the same. Bound."""

LARGEST_INLINE = 60
"""operations of a value that is computed anew at each use rather than stored. Bound."""

SMALLEST_RECOMPUTED = 1 << 28
"""bytes of a value, such as one for each pair of few numbers, that each nest computes anew rather than reads. Chosen:
to store it is up to three times as fast, but from here on memory is what a user runs out of."""

LARGEST_RECOMPUTED = 4 * facts.FUNCTION_OPERATIONS
"""operations of such a value. Derived: functions of a distance, and as many sums and products as take as long."""

CACHE_BYTES_PER_NS = 25.0
"""bytes that nests over the same rows write and read again in a ns: such rows are still in a cache. Compared with 50,
Zen 3: squares of differences take 0.81 to 0.91 of the time if they are computed again; exponentials are kept."""

SMALLEST_ANEW = 1 << 20
"""bytes of what a nest stores for others, from which they rather compute it again from what it read, if that is quick.
Chosen: more than the caches of a core hold beside the rest."""

SMALLEST_PAIRS = 1 << 10
"""bytes of such a value, from which its short axes are written out: vectors then run along the long ones. Compared."""

ELEMENTS_FROM_ONE = 16
"""elements of such a value for each number that it is computed from, at least. Chosen: it is memory that is saved."""

DEEPEST_INLINE = 50
"""equations one behind another that are followed into a nest. Bound, and keeps recursion shallow."""

LONGEST_INDEX = 64
"""names in the index at which what is reshaped lies in memory, at most, if it is moved where it is read: each reshape
behind a transpose may double them. Bound."""

SHALLOWEST_LONG_INDEX = 5
"""equations one behind another from which the length of that index is looked at: two reshapes of two to four axes give
8 to 43 names, and not to look at them saves up to 4 % of the time that lowering takes. Chosen."""

CARRIED_OPERATIONS = 3
"""operations of a nest that carries a value along few rows, or short ones, at most: threads, or vectors, would do them
apart. Compared: one before and one after a running sum take 0.6 to 1.0 of the time that they take apart, six up to
1.5."""

CARRIED_FROM_MEMORY = facts.SECOND_CACHE // 4
"""elements of such a nest, at least, for that: vectors that stay in a cache cost less. Derived."""

CARRIED_COLUMNS = 64
"""values carried side by side from which on such a nest takes in whatever is no function, as vectors do; so does one
along rows of a vector or more. Compared: tanh with a running sum, which is wider and so has shorter vectors, takes 1.5
to 2.3 times as long as apart."""

CARRIED_PARTS = 4
"""parts of such a nest along rows that threads can share, at least, for that. Compared."""

CARRIED_COLUMN_PARTS = 2
"""the same of one along columns, of COLUMNS_TOGETHER. Compared with 4, Zen 3: a running sum of 1,000 rows of 1,000 with
what comes before and after takes 0.76 of the time on one thread, 0.79 on two."""

MOST_JOINED = 32
"""parts of an array that one kernel writes. Bound."""

SMALLEST_JOINED_IN_NEST = facts.FIRST_CACHE // 2
"""bytes of a joined array that the nests which read it compute, at least: what lies in the first cache is read again
faster than two arrays are stored at once. Derived."""

SHORTEST_FROM_VECTORS = 2048
"""elements of a row that begins amid a vector and is therefore cut where the next begins, at least. Compared: stores
across cache lines take twice as long, but one kernel more has to be called."""

LARGEST_REST = 0.05
"""share of a row whose last elements fill no vector, for parts of a joined array to be stored by one nest. Compared."""

LARGEST_WAIT = facts.SECOND_CACHE
"""bytes of a result that may wait for its reader for the sake of a better order. Derived: it stays in the cache."""

LARGEST_SMALL_PRODUCT = 64
"""multiplications of a product, or of each of a batch, that becomes a nest. Compared: calling BLAS costs 200 ns."""

MOST_SUMMED_AT_ONCE = facts.FLOATS_OF_VECTOR - 1
"""points of a reduction that is written out, so that vectors run along other loops. Derived: more fill a vector."""

MOST_SUMMED_IN_ORDER = 7
"""terms of a sum that are added in their order, as NumPy adds so many; of more, vectors gather partial sums. Chosen."""

MOST_STATEMENTS_AT_ONCE = 64
"""statements of all points of such a reduction. Bound."""

LONGEST_WRITTEN_OUT = 3
"""elements of a row that are written out, so that vectors run along the rows. Compared, 1,000 rows beside vectors with
masks: a product and a sum take 0.2 to 0.7 of the time in rows of 2 and 3, 1.0 to 1.7 in those of 4 to 7. A quotient
written in the place of its operand takes 0.1 to 1.1 of it in rows of up to MOST_SUMMED_AT_ONCE; so many are allowed."""

LONGEST_FUNCTIONS_WRITTEN_OUT = 6
"""the same where functions are computed. Compared: `exp` takes 0.2 to 0.9 of the time, 0.9 to 1.5 in rows of 7."""

SMALLEST_SHIFTED_SLICE = 1024
"""bytes of a carry that is stacked before and after each step, to lie in one buffer, seen twice. Must exceed what
small loops keep in variables (MOST_VARIABLES). Compared with 4,096: 0.71 to 0.98 of the time."""

# ---- what a kernel is written like

MOST_UNROLLED_POINTS = 32
"""points of a nest in a small loop that is written out point by point. Bound."""

MOST_UNROLLED_RESULTS = 16
"""results of such a nest. Bound."""

MOST_VARIABLES = 16
"""elements of a piece of memory that become variables of a small loop: so many registers. Compared."""

MOST_STATEMENTS = int(0.4e9 / facts.STATEMENT_NS)
"""statements of a small loop; a function counts as STATEMENTS_OF_FUNCTION. Derived: 0.4 s to compile."""

LONGEST_SMALL_STEP = 1000.0
"""ns of a step of a loop that becomes one function: threads could not share so little. Compared with 500, on one
thread: steps of 200 sines take 0.68 of the time, of 450 products and sums 0.37."""

ROWS_WEIGH = 5.0
"""times that the cost of such a step counts if it has rows, which threads may share for all steps. Compared."""

LONG_STEP = 100_000.0
"""ns of a step of a kernel's range that asks itself whether to stop. Chosen: far below POLL_INTERVAL_NS."""

FEWEST_CROSSED = 4 * facts.FLOATS_OF_VECTOR
"""rows or columns of an array of which one nest reduces both: enough for vectors, and for parts. Derived."""

SMALLEST_CROSSED = facts.SECOND_CACHE // 8
"""elements of such an array. Derived: as float32 they fill half of a core's cache; less is quickly read again."""

FEWEST_COLUMNS = facts.FLOATS_OF_VECTOR // 2
"""columns that a vector can be made of, so that a sum over rows goes column by column. Derived."""

SQUARE_SIDES = (16, 8)
"""rows and columns of the squares in which a loop runs that exchanges both: a cache line of numbers of 4 bytes, or what
divides both. Compared."""

TRANSPOSED_TILES = ((64, 32), (32, 32))
"""rows and columns of the tiles that a nest packs and turns around which does nothing else; the first that divide both
extents. Rows a power of two apart push each other out of the first cache. Compared, in C on Zen 3, float32 of 128 to
960 rows: 0.76 to 0.9 of the time of squares; 64 × 64, 64 × 16 and 32 × 64 0.73 to 1.02."""

LARGEST_TRANSPOSED_TILE = facts.FIRST_CACHE // 4
"""bytes of such a tile. Derived: it stays in the first cache beside as much room between its rows, and results."""

SQUARES_AHEAD = 2
"""squares before it is written from which a square of a large result is asked for. Compared: at 1,024 rows 0.8 of the
time without, with 1 to 4 the same. Bands ask for what they read next, too: 0.95."""

SQUARES_STREAMED_BYTES = 4 * facts.SECOND_CACHE
"""bytes of a result whose squares pass by the caches, if their rows fill cache lines. Derived: what the caches of some
cores do not hold. Beside asking for memory, float32 of 512, 1,024, 2,048 and 4,096 rows: in bands on Zen 3, one thread,
1.3, 1.05, 0.7 and 0.55 of the time; square by square on Emerald Rapids, two threads, 1.7, 0.78, 0.64 and 0.58."""

SQUARES_TOGETHER = (8, 4, 2)
"""squares of such a result that go to memory together: so many cache lines of each row follow each other. Compared, in
C on Zen 3 with 1,024, 2,048 and 4,096 rows: 0.35, 0.41 and 0.64 of the time of single squares, as with 4 to 16 of them;
asked for down bands of columns, 0.85, 0.35 and 0.38 of the time row by row."""

FEWEST_OF_SQUARES = 8
"""such bands of columns, for threads to share. Chosen."""

WIDEST_IN_SQUARES = 8
"""bytes of the elements at most whose squares registers turn around. Chosen: LLVM has no wider integers in vectors."""

LOOP_STREAMED_BYTES = 64 * facts.SECOND_CACHE
"""bytes that a loop reads and writes from which its results pass by the caches, if no other kernel touches them.
Derived: what a third cache of 32 MiB holds. On Zen 3, one thread, 0.55 to 0.9 of the time from 32 to 80 MiB, 0.6 to
0.95 of 128 to 320; where the next call reads the results, 0.75 to 1.1 from 32 to 48 MiB."""

STREAMED_TOGETHER = 64
"""elements of it that are computed before they go to memory. Compared: with 32 or 128 the same."""
