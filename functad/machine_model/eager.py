"""What NumPy does without `jit`: by pieces, and on how many threads."""

from functad.machine_model import facts

THREEFRY_BLOCK = facts.SECOND_CACHE // 128
"""elements whose random bits are made at a time: five buffers stay in the second cache. Derived."""

THREEFRY_PACKED = 320
"""counters up to which random bits are made of Python's integers, that hold all of them, not by NumPy. Compared with
160: 170 take 0.58 of the time, 300 0.79."""

STRICT_BLOCK = facts.SECOND_CACHE // 64
"""elements of a strict formula at a time: its temporaries stay in the second cache. Derived."""

PAIRED_ROW = 1 << 10
"""elements of a row whose order is found by sorting numbers of 32 bits together with their positions. Compared: of
10,000 numbers NumPy's stable order takes 760 us, this one 91; of 1,000 each takes 18."""

GATHER_BLOCK = 1 << 16
"""elements whose indices are expanded at a time. Compared."""

WINDOWS_BLOCK_BYTES = 8 * facts.SECOND_CACHE
"""bytes of unrolled windows at a time: in the last cache between the copy and the product. Derived."""

WINDOWS_FEW_OUTPUTS = 64
"""outputs of an image, with fewer of which one product of a block is better than one an image. Compared with 128: 64
and 81 outputs take 0.44 to 0.83 of the time."""

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
"""rows or columns of such a piece, at least. Chosen: the other operand, packed anew for each, is little beside them."""

OTHER_PRODUCT_COST = 32
"""times that a multiplication takes which no BLAS does. Compared."""

FFT_RADICES = (4, 2, 3, 5, 7, 11, 13)
"""prime factors of lengths, and 4, that passes of a Fourier transform in a kernel have, the first one first; other
lengths NumPy does. Bound."""

FFT_ROOTS = 64
"""roots of unity for each digit of an exponent, to this base, whose products a kernel computes all others by. Bound."""

FFT_AS_MATRIX = 1 << 13
"""the shortest axis, for each row of up to FFT_ROWS, that a kernel transforms as a matrix, its columns and then its
rows: on all threads, which otherwise each take rows of their own. One row of 10,000 takes 0.7, of 1,000,000 0.25 of
the time, 50 rows of 10,000 take 1.7. Compared."""

FFT_ROWS = 64
"""see FFT_AS_MATRIX. Compared with 32: 40 to 64 rows of 280,000 and 300,000 take 0.39 to 0.6 of the time that they take
as matrices."""

FFT_IN_KERNEL = 1 << 26
"""the longest axis that a kernel transforms, in 0.1 to 0.5 of NumPy's time, which does longer ones. Chosen: there
the memory between is half a gigabyte."""

FFT_BY_CHIRP = FFT_IN_KERNEL >> 2
"""the longest axis with larger prime factors that is transformed by way of longer ones without them, in 0.1 to 0.9 of
NumPy's time, which does longer ones. Derived: the way is at least twice as long, and a kernel goes it."""

EINSUM_OPTIMAL = 8
"""operands of an einsum whose best order is looked for among all: 3 to that power of ways to split them. Bound."""

ROUTINE_BYTES = 1 << 24
"""bytes of memory of its own with which a kernel calls LAPACK, for all its matrices. Chosen: with more, a call of
Python is little beside what is computed."""

SMALL_MATRIX = 32
"""rows of matrices of a stack that NumPy factorises side by side, step by step, and no larger ones. Compared."""

MATRICES_SIDE_BY_SIDE = 8
"""matrices for each of their rows, from which on that takes less time than a call of LAPACK for each. Compared."""

ORDERS_ONE_BY_ONE = 16
"""orders of rows that are made one by one in Python, 0.05 µs a step of each, and not side by side, 3 µs. Compared."""

MOST_COMPOUND_NUMBERS = 16
"""numbers that are static arguments of a function that runs as one, for which it is printed: one may change with each
call. Bound."""

MOST_COMPOUND_OPERATIONS = 400
"""operations of a function that runs as one; with more, to record them takes longer than is gained. Bound."""

HELD_BY_A_VIEW_BYTES = 1 << 16
"""bytes of an array, at most, that a small un-jitted view of less than half of it keeps in memory: larger ones are let
go, and the view is copied. A copy takes 0.4 µs of the 1 µs of `x[i]`. Chosen."""

COPIED_VIEW_BYTES = 1 << 20
"""bytes of such a view, at most: to copy them takes 70 µs, and larger views are slices of data sets, which live anyway.
Chosen."""
