"""How kernels are compiled, and found again on disk."""

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

WIDE_LOOP = 100
"""instructions of a loop along rows, those of functions included, from which on LLVM looks for vectors in loops alone.
Compared: the passes take 0.47 of the time for twenty Runge-Kutta steps of Lorenz's equations on rows, 0.56 for their
gradient, whose machine code is the same in most loops; small nets have no such loop.
"""

VECTORS_ADDED_AT_ONCE = 4
"""vectors that a loop with sums adds side by side, as each addition waits for the one before: what LLVM chooses where
registers do. Compared."""

MOST_VECTORS_OF_SUMS = 16
"""vectors of all sums of such a loop together: half of the registers that AVX-512 has. Compared: LLVM chooses one at a
time for the eighteen sums of a convolution's gradient, which would not stay in registers with more."""

LARGEST_ADDED_AT_ONCE = 64
"""instructions of such a loop, those of functions included, from which on it adds half as many, or registers would not
do. Compared: sums of exponentials and logarithms (33 and 45) have 4, those of sines (164) 2, as LLVM chooses."""

MOST_INTERLEAVED = 8
"""elements from one step of a loop that copies to the next up to which LLVM had better make vectors of it. Compared:
LLVM takes half the time for copies of weights beyond, which take 1 to 2 µs of a step of a U-Net with or without."""

FEW_STEPS = 64
"""steps of a loop, if their number is known, up to which it is compiled for just so many: all vectors written out, the
last one with a mask where AVX-512 has them. Compared: functions of one row of 7 float64 take an eighth of the time, of
12 half; sums of `exp` in rows of 31 a quarter to a half, in rows of whole vectors as long. In a loop that is not
written out masks cost more than they save: sums of 17 float32 took twice as long.
"""

LARGEST_KNOWN_CONSTANT = 1 << 20
"""bytes of an array in a Program with which it is still looked for on disk: to hash it takes 1 ms. Chosen."""

MOST_QUESTIONS = 2048
"""instructions of all steps of a loop that asks whether something holds of the same elements for each row, up to which
it is written out. Compared: 10,000 rows take 0.05 to 0.5 of the time, 180 comparisons take 0.13 s more to compile."""

MANY_STEPS = 256
"""steps of an innermost loop from which on kernels that differ in their number share machine code, in which the number
is not known: what is left for no whole vector is then little. Chosen."""

MOST_REMEMBERED = 10_000
"""numbers in the texts of kernels, and operations by the types of their operands, that are looked up only once. A U-Net
has some hundreds. Bound."""
