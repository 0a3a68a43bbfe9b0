"""Kernels that primitives bring as text: convolutions, windows, extrema, sorting, Fourier transforms."""

from functad.machine_model import facts, products

APART_BYTES = 16 * facts.CACHE_LINE
"""bytes from what one thread updates to what another does, at least. Derived: processors fetch several lines ahead."""

MOST_COPIED_ELEMENTS = 1 << 21
"""elements of the copies of an image for each tap of a convolution, or of partial sums of its weights. Compared."""

DILATION_WORTH_SPLITTING = 1 << 26
"""operations of a convolution from which those with zeros between elements are left out, by more kernels. Compared."""

CONVOLUTION_BLOCK_PLACES = 256
"""outputs of a block of products: enough for them to be fast, few enough for the cache. Compared."""

CONVOLUTION_BLOCK_BYTES = 2 * facts.SECOND_CACHE
"""bytes of such a block, and of the weights that a product of places reads. Derived."""

WIDE_ROW = 32
"""outputs of a row that are worth a matrix product of their own. Compared."""

FEW_OUTPUTS = 16
"""outputs or taps of a convolution that are too few for matrix products to be fast. Compared."""

UNROLLED_FEATURES = 32
"""features of a convolution, fewer of which are worth a copy of the input for each tap. Compared with 16, Zen 3: 20 to
30 features that lie side by side take 0.76 to 0.93 of the time."""

SHORT_ROW_OF_A_COPY = 8
"""elements of a row that is copied at once; of shorter ones, elements that lie apart are taken one by one. Compared."""

LONG_ROW_OF_A_COPY = 1 << 9
"""bytes of a row from which on a call of the C library copies it. Compared."""

LITTLE_EXTRA_WORK = 1.02
"""times the work that is wanted, at which no better way is looked for. Compared."""

MOST_EXTRA_WORK = 1.1
"""times the work that is wanted which overlapping parts, or outputs nobody asked for, may make of it. Compared."""

PLACE_HEIGHTS = (products.TILE_ROWS, 2 * products.FEW_TILE_ROWS, products.FEW_TILE_ROWS)
"""outputs of a row in a tile of a product of places (AVX-512). Derived."""

FEATURES_UNIT = products.PANEL_DEPTH_UNIT
"""features at a time in such a product, which divide theirs. Derived."""

PLACES_PRODUCTS = 64
"""terms of its sums, at least, which are worth its table. Unproven."""

DIRECT_TIME = 3.0
"""times as long as in a large matrix product a term of a convolution takes that is summed in loops. Compared, on Zen 3:
18 to 30 operations a ns, of 95."""

UNROLLED_OUTPUTS = 16
"""outputs whose terms take as long as to copy the input of a tap. Compared with 11, Zen 3: 0.67 to 1.04 of the time."""

UNROLLED_ROW = 14
"""elements of such a copy that take as long as to begin a row of it. Compared, on Zen 3."""

SHIFTED_FEATURES = 18
"""terms that take as long as to begin a product for each tap, and to add it up. Compared with 12, Zen 3: 0.71 to 1.01
of the time."""

WINDOW_OUTPUTS = 4
"""outputs of a product of windows from which on its sums do not wait for each other. Chosen: of two vectors each, for
the eight sums that Zen 3 has begun before the first is there."""

WINDOW_COPY_TERMS = 20
"""terms of such a sum that take as long as to copy an element of its input or result. Compared, on Zen 3: 0.4 ns, and
95 operations a ns."""

WINDOW_BLOCK_BYTES = facts.SECOND_CACHE // 2
"""bytes of the padded input of a block of such products. Derived."""

WINDOW_BLOCKS = 8
"""blocks of a convolution, at least, which threads share. Chosen."""

ACCUMULATORS = 18
"""sums of a convolution that are kept in registers, of 32 with AVX-512, as the rest holds operands. Compared."""

WEIGHTS_IN_REGISTERS = 64
"""weights that are kept in registers, or read from the first cache at no cost. Compared."""

DIRECT_PRODUCTS = 576
"""terms of a sum that a convolution of few features and outputs computes in loops. Compared with 288, Zen 3: 432 terms
take 0.16 to 0.66 of the time."""

SINGLE_OUTPUTS = 2
"""outputs of a convolution, at most, that loops compute however many terms they have, of windows of
SINGLE_OUTPUTS_WINDOW elements or more. Compared: on one thread of Emerald Rapids 5 x 5 and 7 x 7 windows of 16 to 64
features take 0.2 to 1.0 of the time of matrix products, 3 x 3 windows of 64 1.4."""

SINGLE_OUTPUTS_WINDOW = 25
"""elements of such a window. Compared."""

SUMMED_WINDOW = 25
"""weights of a window, at most, of which SUMMED_WINDOWS have their gradient summed in loops over images. Compared."""

SUMMED_WINDOWS = 512
"""windows of all features and outputs, at most, that have their gradient summed so. Compared: on one thread of
Emerald Rapids 3 x 3 and 5 x 5 windows take 0.5 to 1.0 of the time of matrix products, four times as many 0.6 to 1.3."""

FEW_WEIGHTS_TIME = 1.05
"""times as long as in a large matrix product a term of such a gradient takes. Compared, on Zen 3."""

FEW_WEIGHTS_SPILLED = 1.6
"""times as long as that it takes where more is summed at a time than AVX2 has registers for. Compared, on Zen 3."""

FEW_WEIGHTS_READ = 1.8
"""such terms that take as long as to read a vector of an image from the second cache. Compared, on Zen 3."""

TAPS_AT_ONCE = 5
"""taps of a row that are summed at a time for the gradient of few weights. Compared."""

WINDOW_WRITTEN_OUT = 25
"""elements of a window that are written out one by one, so that many windows are done at once: 5 by 5. Compared."""

WINDOWS_CUT_OFF = 1 / 16
"""of all windows, at least, that reach beyond the operand, for a nest with borders instead of a kernel. Compared."""

WINDOW_LONG_AXIS = 32
"""elements of a window along an axis beyond which it is gone through in a loop, half as many of narrow floats and where
windows begin more than NEAR_WINDOWS apart. Compared with 16, Zen 3: windows of 26 to 32 take 0.2 to 0.8 of the time;
with 64 windows of 33 take up to 6.8."""

NEAR_WINDOWS = 8
"""bytes. Compared, Zen 3: windows of 30 float32 that begin two apart take 0.44 and 0.79 of the time, of float64 1.19;
those that begin three and more apart 0.55 to 2.1."""

EXTREMUM_BLOCK = 32
"""elements of a row, if it has more, whose extremum is looked for at once; the first block that has it is searched for
its place. Compared, Zen 3: rows of 33 to 250 take 0.62 to 1.09 of the time of two readings, in the median 0.9."""

LONG_EXTREMUM_ROW = 256
"""elements of a row from which on these blocks are longer. Compared."""

LONG_EXTREMUM_BLOCK = 128
"""elements of such a block. Compared, Zen 3: 32 take 0.95 to 1.3 of the time."""

COLUMNS_IN_ONE_LOOP = 32
"""bytes of 2, 4 or 8 columns, as wide as elements or places, up to which one loop along them finds the places of their
extrema; of others two reductions do. Compared, Zen 3: two reductions take 0.12 to 0.9 of the time of other columns, of
such blocks of columns 0.7 to 3.6."""

COMPARISONS_OF_SEARCH = 128
"""comparisons that take as long as to sort a value, or to look an element up among sorted ones. Compared with 256, Zen
3: 10,000 int32 among 150 and 200 values take 0.34 and 0.26 of the time by sorting, float32 among 200 0.58; among 100
1.1 to 2.0."""

COLUMNS_TOGETHER = 512
"""columns that a thread carries values along side by side, at least: with fewer, each row costs more. Compared with
256, Zen 3, float32: running sums of 1,000 rows of 1,000 take 0.83 of the time on one thread and 0.85 on two, of 4,000
rows of 3,000 0.85 and 0.76. With 1,024 they take 0.56 and 0.89, 0.69 and 0.72, but fewer threads can share them."""

COLUMNS_READ_AGAIN = 1 << 10
"""columns of results that stay in a cache while rows are added to them, REDUCED_TOGETHER at a time. Compared with 256,
Zen 3: products of 1,000 x 1,000 int32 take 0.69 of the time on one thread and 0.78 on two, of 600 x 600 int64 0.86 and
0.75, of 316 x 316 int32 0.92 and 0.90."""

REDUCED_TOGETHER = 8
"""steps of a reduction of integers that are done at once for some columns, whose results are read and written once.
Compared: with 4, sums of columns of 1,000 x 1,000 int8 and int16 take 1.13 and 1.08 of the time."""

SUMMED_TOGETHER = 4
"""the same of sums of floats. Compared with 1, on one thread of Zen 3: sums of columns of 4,096 and 8,192 rows of as
many float32 take 0.80 and 0.77 of the time; in the second cache, of 16 to 3,000 columns, 0.57 to 1.02, variances 0.28
to 0.91. With 8, of 32 and 96 columns of arrays beyond it, 1.09 to 1.2."""

ROWS_READ_ALONE = (512, 1536)
"""bytes of rows of arrays beyond the second cache of which one is read after the other: from the first on, and less
than the second. Compared with several at once, Zen 3, which sees ahead along pages: sums of 128, 200 and 320 columns
take 1.07 to 1.38, 0.98 to 1.30 and 1.15 to 1.20 of the time, of 96 and 500 0.90 to 1.04."""

LONG_POLYNOMIAL = 10
"""coefficients of a polynomial that is computed as two, of the even and the odd powers. Compared, float64: `erf`, of
24, takes 0.85 of the time, `tanh` and `expm1`, of 11 and 10, 0.97 and 0.95; `atan` of float32, of 9, loses 0.4 ulp.
Another number changes the last bits of random numbers."""

RUNNING_BLOCK = 256
"""elements of a row through which goes at once what is carried along it, between loops of what comes before and after.
Compared: rows of 1,000 float32 take 0.5 of the time of steps one after another for sums, 0.2 for maxima."""

COUNTED_ROW = 80
"""elements of a row that is sorted by comparing all pairs, many at once, twice as many where one key has 64 bits; a
longer one digit by digit. Compared, Zen 3: places of 100 to 160 float64 take 0.5 to 0.7 of the time, of int64 0.8, of
120 complex64 3.1, of 120 pairs of keys 2.1."""

NETWORK_ROW = 512
"""elements of a row, at most, that is sorted beside others by a network of comparisons. Compared."""

NETWORK_BYTES = 128
"""bytes of keys, one of each row, that a comparison of a network takes: two vectors. Compared."""

FEWEST_NETWORK_ROWS = 8
"""rows from which on a network, which is made for more, takes less time than one after another. Compared."""

FEWEST_LEVELLED = 64
"""elements of a row, at least, that is sorted by levels. Compared with 80: rows of 78 normal numbers take 0.30 of the
time, of numbers that differ by many orders 1.3."""

LEVELLED_ROW = 1 << 14
"""elements of a row, at most, that is sorted by as many levels as it has elements; a longer one does not stay in the
second cache. Compared: 1,000 keys and their places take 4 us and not 10, 10,000 52 and not 139."""

LEVEL_MOVES = 8
"""moves for each element after which a row is sorted digit by digit instead: four times as many as normal numbers take.
Compared."""

DIGIT_BITS = 8
"""bits of a digit. Compared: the counters of one stay in the first cache."""

LARGER_DIGIT_BITS = 11
"""bits of a digit in rows longer than LONG_DIGITS_ROW: three digits of a word instead of four. Compared."""

LONG_DIGITS_ROW = 1 << 12
"""elements of a row from which larger digits pay. Compared with twice as many: 0.81 to 0.88 of the time."""

NETWORK_ROW_BESIDE_NUMPY = 48
"""elements of a row, at most, that is sorted beside others where NumPy sorts by vectors. Compared: 1,000 rows of 100
numbers take 94 us by its function, and 147 by the network."""

NUMPY_SORT_CORES = 2
"""cores that all sort one long row together, up to which NumPy on one of them takes less time. Compared."""

ROW_LOOKED_THROUGH = 1 << 9
"""numbers of a row from which on signs of zeros are looked for only where the sorted row has zeros: rows of 1,000 and
100,000 take 0.97 of the time then, of 100 1.02, of 16 1.15. Compared."""

BUCKETED_ROW = 1 << 12
"""integers of one row, with what goes along with them, from which on they are sorted in buckets where NumPy sorts by
vectors. Compared: 10,000 random words take 50 us of one core in buckets, and 71 by levels."""

BUCKETED_FLOATS = 1 << 19
"""floats of one row from which on they are: a few of the buckets have most of them. Compared: 100,000 normal numbers
take 1.1 times as long in buckets, 1,000,000 0.85."""

BUCKET_ROOM = 1.5
"""how many times as many elements as come on average fit into a bucket, so that what is left of a key and a place in
the bucket are 32 bits. Chosen: evenly distributed keys all do."""

FEWEST_BUCKET_BITS = 6
"""bits of the number of a bucket, at least. Chosen."""

MOST_BUCKET_BITS = 12
"""bits of the number of a bucket, at most: the lines that are written to stay in the second cache. Compared."""

WRITTEN_BY_LINES = 1 << 22
"""bytes of all buckets from which on they are written line by line, past the caches. Compared: on Emerald Rapids each
of 1,000,000 keys takes 3 ns, and 8 by itself; of 100,000 3 and 1.7. On Zen 3 400,000 by themselves take 0.7 of the
time."""

SMALLEST_PIECE = 2048
"""elements of a piece of a row that is divided among buckets, at least. Compared."""

FEWEST_PIECES = 4
"""pieces of such a row, at least: enough for a few threads. Chosen."""

BUCKET_GROUPS = 32
"""pieces of work of all buckets: enough for any threads, whatever the keys. Chosen."""

PARTED_ROW = 1 << 19
"""elements of a row from which all threads sort it together, in parts that stay in the caches. Compared."""

PARTED_ROW_ALONE = 1 << 14
"""elements from which a row that is the only one is sorted so. On two cores 20,000 take 0.6, 100,000 0.4 of the time of
a sort by digits on one, 10,000 1.2. Compared."""

SORTED_PIECES = 16
"""pieces of the rows that are sorted together, read and divided each by one thread: enough for any. Chosen."""

PARTS_TOGETHER = 8
"""parts of a row, of 256, that are one piece of work: enough pieces for any threads, few counters. Chosen."""

BLOCK_OF_LARGEST = 32
"""elements of a row whose largest is found first, to tell whether any of them can be kept. Compared with 16 and 64."""

LARGEST_AMONG = BLOCK_OF_LARGEST
"""elements of a row for each that is kept, from which on there is a block for each: 0.25 of the time without them for 1
of 1,000, 0.55 for 10 and for 30 of 1,000, 0.3 for 32 of 100,000. Derived."""

KEPT_LARGEST = 32
"""largest elements that are kept in order while a row is read; for more the row is sorted. Compared."""

MOST_FACTORS = 16
"""factors of an integer power that is written out as products; of more, a function makes a loop. Bound."""

FEW_COUNTED = 10
"""events of a Poisson or binomial distribution, on average, below which they are counted one by one; from here on
rejection is faster. Random numbers depend on it. Chosen: as in JAX."""
