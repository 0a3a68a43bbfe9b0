"""Launches on a GPU."""

CUDA_THREADS = 128
"""threads of a block. Compared on an H200, 27 November 2026: of copies' bandwidth exp of 4096² float32 reaches 0.92
with 128, 0.90 with 256, 0.88 with 512, and sums of rows by one block each 0.83, 0.79 and 0.53."""

CUDA_BLOCKS_OF_CORE = 32
"""blocks of a launch for each multiprocessor at most, where each does more than one piece of work. Compared on an H200,
27 November 2026: exp of 4096² float32, an element at a time, reaches 0.66 of copies' bandwidth; with a thread for each
element 0.36."""

CUDA_SHARED_BYTES = 48 << 10
"""bytes of shared memory that every GPU gives a block of whatever kernel. Bound."""

CUDA_FEW_POINTS = 4096
"""loops along which a value is carried that cannot keep a GPU busy with one thread for each; a block has one then.
Unproven."""

CUDA_BUSY_THREADS = 1 << 17
"""threads that keep a GPU busy where each has several loads under way: so many share what is reduced. Unproven: half of
those that a large GPU runs at a time."""

CUDA_FEW_TERMS = 1 << 9
"""terms of results that lie side by side up to which a block shares them among as many threads as it can, each of which
reads few neighbours. Unproven."""

CUDA_ONE_STEP_BLOCKS = 1 << 13
"""blocks up to which there is a thread for each step of a nest, instead of a loop in each thread. Unproven."""

CUDA_CORES = 132
"""multiprocessors for which kernels are made. Bound: those of NVIDIA's H100 and H200; fewer run them
one after another."""

CUDA_DIRECT_TERMS = 32
"""terms of a convolution up to which each thread sums all outputs of a place, without tiles. Chosen."""

CUDA_DIRECT_OUTPUTS = 8
"""outputs of a convolution up to which it does. Chosen: sums and weights stay in registers."""

CUDA_TILE_SIDES = ((8, 8), (8, 4), (4, 8), (4, 4), (4, 2), (2, 4), (2, 2), (1, 4), (4, 1), (1, 1))
"""places and outputs of a convolution of which a thread keeps the sums in registers: the choice. Compared, on an H200
(27 November 2026), for 64 features, 3 × 3 taps and 32 images of 56 × 56: 8 × 8 298 µs, 8 × 4 308, 4 × 4 459."""

CUDA_JOINED_NESTS = 4
"""nests after a convolution that its kernel takes in, at most. Chosen: each needs registers."""

CUDA_WINDOW_GATHERED = 16
"""elements of a window up to which each of them looks at all for the one that was selected. Chosen: they are in a
cache, and what follows at each element is the same kernel."""

CUDA_READ_AHEAD = 16
"""elements of a convolution that a thread reads ahead, about, at most. Compared, on an H200 (27 November 2026): with 24
302 µs instead of 298; and others need more than 128 registers then."""

CUDA_TILE_MOVE = 12
"""instructions with which a thread finds an element of a convolution and puts it into shared memory. Chosen:
counted."""

CUDA_TILE_STEP = 60
"""clock cycles, for which a block waits for its threads in each step of a convolution. Chosen."""

CUDA_MEMORY_CLOCKS = 700
"""clock cycles until an element of memory has come. Chosen."""

CUDA_LAUNCH_CLOCKS = 6000
"""clock cycles in which one more kernel of a graph begins and ends. Chosen."""

CUDA_SMALL_STEP = 200.0
"""ns of a step on the CPU, of a loop that is one thread's work on a GPU, where that takes about 20 times as long: less
than two launches for each step. Unproven."""

CUDA_PART_TERMS = 1 << 11
"""terms that a block has at least, where several share a result. Unproven: 16 for each thread."""

CUDA_CARRIED_ITEMS = 15
"""steps of a loop along which a value is carried that each thread of a block does at a time, where many blocks share
such a loop. Unproven: an odd number, as threads then use all banks of shared memory, which has room for 16 steps of
each of them even of complex128."""

CUDA_VECTOR_POINTS = 1 << 20
"""elements from which on a thread computes four neighbours, loaded and stored together. Four for each thread that a
large GPU runs at a time. Compared on an H200, 27 November 2026, at 2²⁴ elements: exp reaches 0.92 of copies' bandwidth,
and 0.66 without."""

CUDA_VECTOR_STATEMENTS = 24
"""statements of a nest up to which it is computed four times over by each thread. Unproven: what takes longer than its
memory gains nothing, and needs registers."""

CUDA_SQUARE = 32
"""rows and columns of a square that is turned around in shared memory. Unproven: 128 bytes of float32."""

CUDA_SQUARE_POINTS = 1 << 14
"""points from which on a nest that reads across what it writes goes by squares. Unproven: fewer are in the caches, and
few squares would leave multiprocessors idle."""

CUDA_FEWEST_ROWS = 512
"""rows from which on blocks compute all nests of a row, one after another, instead of the grid each nest. Unproven:
half of the threads of `CUDA_BUSY_THREADS`, with 128 in a block."""

CUDA_SHORT_ROW = 1 << 12
"""elements of a row up to which blocks do so with fewer rows, too: what a block needs for one takes no longer than a
launch. Unproven."""

CUDA_ROW_ITEMS = 32
"""elements of a row for each thread, from which on more threads share it. Unproven: eight loads of four."""

CUDA_SORT_TILE = 1 << 10
"""elements at most that a block sorts in shared memory, before runs of them are merged. Unproven: eight for each
thread."""

CUDA_SORT_ITEMS = 9
"""elements that each thread of a block merges. Unproven: an odd number, as threads then use all banks of shared memory,
and about as many as a tile that was sorted has."""

CUDA_SORTED_UPDATES = 1 << 12
"""updates of an array from which on they are sorted by the rows that they go to, where their order matters. Unproven:
of fewer, threads that own parts of the array look at all in less time than a sort takes to begin."""

CUDA_SEGMENT_PART = 64
"""sorted updates, or sums of them, of a part that a thread sums, where more go to one element. Chosen: a thread does
about as many one after the other at each level."""

CUDA_SEGMENT_STEPS = 256
"""sorted updates, or parts of them, up to which nobody sums them to larger parts. Chosen: a few times as many as a part
has."""

CUDA_OWNED_BYTES = 8 << 10
"""bytes of rows of a result that a block owns at most, where it looks for the updates that go there. Chosen: several
copies of them, for groups of threads, fit into shared memory beside what was found."""

CUDA_OWNED_LOOKS = 1 << 24
"""updates that all such blocks look at together, at most; they are sorted if there are more. Chosen: about 30 µs."""

CUDA_OWNED_ITEMS = 56
"""updates that a thread of such a block looks at before some are listed, at most. Bound: a bit for each in an integer.
"""

CUDA_OWNED_BLOCKS = 3
"""such blocks of a multiprocessor. Chosen: as many as it runs at a time by the registers that they need."""

CUDA_OWNED_LISTED = 2048
"""updates that such a block lists at a time, at most. Chosen: 8 KiB of shared memory."""

CUDA_OWNED_THREADS = 2
"""times as many threads as usual that such a block has: there is one for each element of several rows. Chosen."""

CUDA_UPDATES_AT_ONCE = 8
"""updates whose elements a thread reads before it puts them to a row, so that memory is waited for once. Chosen."""

CUDA_RADIX_BITS = 8
"""bits of a digit by which elements are moved. Unproven: with 256 values about eight elements of a tile are moved to
places side by side."""

CUDA_RADIX_SPLIT_BITS = 4
"""bits of a digit by which a block sorts its tile at a time. Unproven: a counter of each value for each thread takes 8
KiB of shared memory."""

CUDA_RADIX_ITEMS = 15
"""elements of a tile for each thread of a block, where shared memory has room for them. Unproven: an odd number, as
threads then use all banks."""

CUDA_LAUNCH_BYTES = 4 << 20
"""bytes that a GPU could move in the time in which one more kernel of a graph begins. Unproven: what 3 TB a second come
to in 1.4 µs."""

CUDA_PIECES = 1024
"""threads for which rules with kernels of their own cut their work, into a few pieces for each: enough to keep all
threads of a GPU busy, few enough for what each piece keeps in memory. Unproven."""

CUDA_POOL_BYTES = 512
"""bytes. The smallest piece of memory that is taken from the driver. Chosen: addresses are aligned to it."""

CUDA_POOL_STEPS = 16
"""steps. Pieces are at most so many times a power of two: at most 1/8 of one is not used. Chosen."""

CUDA_GRAPHS = 16
"""graphs that are kept of a Program, one for each set of addresses that it ran on. Chosen: four batches in turn, with a
result that lies in one of three places, are twelve."""

CUDA_CHANGES = 16
"""changes of launches, at least, after which addresses that come again get a graph of their own; as many as it has
launches, if these are more. Chosen: a change takes two µs of the host, to record a graph tens of µs."""

CUDA_PRODUCT_CHANGE = 8
"""such changes that a product of cuBLAS counts for, which is recorded anew. Chosen."""

CUDA_BRANCHES = True
"""whether launches of a graph that have no memory in common may run at one time. Compared, on an H200 (27 November
2026): steps of W5-128, W2 and W3 took 33, 43 and 118 µs, and 41, 59 and 127 as chains."""

CUDA_KEPT_ARENA = 1 << 20
"""bytes. A Program keeps memory for so many of temporaries, rather than taking it anew in each call. Chosen: taking it
takes two µs of the host, more than a kernel that small."""

CUDA_SHARED_ARENA = 16 << 20
"""bytes of a Program's temporaries from which on they share memory, so that one waits for those that used it before.
Compared, on an H200 (27 November 2026): without sharing W3 took 0.96 of the time, W5-128 and W2 0.98 to 1."""

CUDA_LANES = 4
"""products of a library that a graph has at one time at most, each with memory of its own to work in. Chosen."""

CUDA_GRAPH_NODES = 1 << 13
"""launches of a graph at most; loops of known length with more of them are gone through by Python. Chosen: a graph
takes about a KiB for each."""

CUDA_CUBLAS_BYTES = 32 << 20
"""bytes of memory that cuBLAS is given for each stream that it has run in. Chosen: what NVIDIA recommends for the GPUs
of 2022."""

CUDA_OPERATIONS = 4096
"""operations outside of jit, by parameters and types, whose kernels are kept. Chosen."""

CUDA_COPY_BYTES = 1 << 28
"""bytes. By a copy of so many the bandwidth of a GPU's memory is measured. Chosen: more than its caches hold."""

CUDA_REPEATS = 20
"""times that a profile starts each kernel, of which the least counts. Chosen."""

CUDA_PROFILE_STARTS = 20
"""times that a profile starts a kernel between two events beyond the first. Chosen: ten µs of events come to half a µs
each."""

CUDA_PROFILE_TIME = 1000.0
"""microseconds that all these starts take at most, but for a kernel's first two. Chosen."""

CUDA_PROFILE_STEPS = 4
"""times that a profile starts all kernels between two events beyond the first. Chosen."""

CUDA_PRODUCT_TILES = (
    (8, 4, 2, 2),
    (4, 8, 4, 2),
    (4, 8, 4, 4),
    (4, 8, 8, 4),
    (4, 8, 4, 8),
    (8, 16, 8, 4),
    (8, 8, 8, 8),
)
"""tiles of a matrix product that a block may compute: threads along rows and columns that share a tile, and results of
each, which it keeps in registers. Chosen: tiles of 16 × 8 to 64 × 64 results, of a warp's threads or of a block's."""

CUDA_CORE_PRODUCTS = 128
"""products of float32 that a multiprocessor adds in a clock. Bound: of all GPUs since 2020."""

CUDA_CACHE_BYTES = 18.5
"""bytes that a multiprocessor gets from the cache of all in a clock, where all of them load. Compared on an H200, 27
November 2026: with the next three numbers, the rule of `tiles.clocks` is within 8 % of the times of 75 kernels, of
blocks of 128 threads."""

CUDA_SHARED_CLOCKS = 3.5
"""clocks in which a thread of each warp gets its operand from shared memory, where it adds a product in one. Compared
on an H200, 27 November 2026."""

CUDA_ROUND_CLOCKS = 550
"""clocks that a block waits for the next terms of a product until they lie in shared memory. Compared on an H200, 27
November 2026."""

CUDA_RESULT_CLOCKS = 27
"""clocks in which the threads of a block put a result each into shared memory, or go on from there. Compared on an
H200, 27 November 2026."""

CUDA_GATHER_CLOCKS = 2500
"""clocks in which the last block of a tile of a product learns that all parts are there, and adds them up. Unproven:
another kernel for that takes 2700 on an H200."""

CUDA_STAGED_WORDS = 48
"""words of 32 bits that a thread has asked for ahead. Bound: registers."""

CUDA_MOST_PARTS = 32
"""parts at most into which the terms of a product are cut, which other blocks sum. Bound."""

CUDA_RESULTS_AT_ONCE = 4
"""results of a product of which a thread loads all that follows needs before it goes on. Bound: registers, and text."""

CUDA_LIBRARY_CLOCKS = 9000
"""clocks that a product of cuBLAS takes beyond those of another kernel, however small. Compared on an H200, 27 November
2026: it takes 4 to 9 µs, functad's own kernel from 1.7 µs on."""

CUDA_LIBRARY_PRODUCTS = 77
"""products of float32 that it adds in a clock, for each multiprocessor. Compared on an H200, 27 November 2026."""

CUDA_NEXT_CLOCKS = 2500
"""clocks of a kernel that follows a product of cuBLAS's, and is a part of functad's own. Compared on an H200, 27
November 2026: 1.3 µs."""

CUDA_SUMMED_PRODUCTS = 4
"""matrix products at most whose sum is one kernel. Bound: its text is as many times as long."""

CUDA_JOINED_POINTS = 1 << 18
"""points up to which reductions over the same loops are one kernel. Unproven: what takes longer than a launch gains
nothing."""

CUDA_JOINED_REDUCTIONS = 8
"""results that are gathered at a time at most, where reductions are joined. Bound."""

CUDA_WAITED_STEPS = 32
"""steps at most after which a product is computed later, with another one that adds to it. Bound."""

CUDA_SAME_POINTS = 4096
"""points of a nest at most that each block of threads computes for itself, where a loop is one kernel of rows. Chosen:
they take no longer than a tile of a product."""

CUDA_ROW_BLOCKS = 2
"""blocks of threads on each multiprocessor that have memory of their own, where a loop is one kernel of rows. Unproven:
what two have for themselves fits into its cache."""

CUDA_ROW_BYTES = 1 << 26
"""bytes of such memory at most. Chosen: not much more than the cache of all multiprocessors."""

CUDA_STRIP_BYTES = 1 << 29
"""bytes that a strip of a loop's steps stacks at most, where what it adds up is computed behind it, and that all steps
of a loop without carries take at once beyond those of one. Chosen: for 128 rows of 8 heads of 4,096 keys that are eight
steps, of which all multiprocessors have blocks of 32 rows."""

CUDA_ROWS = (64, 32, 16, 8, 4)
"""rows of a block of threads, where a loop is one kernel of rows: the first number for which there are blocks enough.
Chosen: a tile of products for each operand that comes from shared memory has the fewest loads if it is large."""

CUDA_KEPT_PRODUCT = 4e6
"""operations of a product in a loop, within one without carries, from which on its steps are not written out. Compared:
both loops are one kernel then, which takes 12 s to compile; eight steps written out take 175 s."""

CUDA_ROW_TRIES = 64
"""ways at most to find rows among the axes of nests, where a loop may be one kernel of rows. Bound."""

CUDA_ROW_PAD = 8
"""elements of shared memory behind each row that has a multiple of 32. Chosen: four rows, of which eight threads each
read one, lie in other banks then."""

CUDA_ROW_GROUPS = 16
"""heads at most that share keys, where a loop may be one kernel of rows. Bound."""
