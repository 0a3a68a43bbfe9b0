"""Loops (`scan`, `while`), and gathers and scatters of rows."""

from functad.machine_model import facts, nests

# ---- loops

UNROLLED_STEPS = 8
"""steps of a loop that is written out. Compared: the compiler then sees all steps at once."""

UNROLLED_EQUATIONS = nests.LARGEST_NEST
"""equations of all steps of such a loop together. Derived."""

CHEAP_OPERATIONS = 2
"""operations of what is computed again rather than stored for the backward pass. Compared: less than reading takes."""

DEEPEST_RECOMPUTATION = 4
"""equations one behind another that are computed again. Bound."""

LARGEST_HOISTED_PRODUCT = 1.2e8
"""operations of a product in a loop that is joined with those of other steps. Compared with 3e7, Zen 3: recurrent
networks take 0.76 to 0.99 of the time."""

MOST_EXTRA_BYTES = 1 << 26
"""bytes that a faster way may take more: what a loop stacks, where tasks of a convolution copy to. Compared."""

FEWEST_STEPS = 4
"""steps of a loop from which a weight that it reads transposed, and not in panels, is copied before. Compared."""

SMALLEST_WEIGHT = 1 << 10
"""elements of such a weight, at least; a smaller one is in the first cache anyway. Compared."""

SMALLEST_SUNK_SLICE = 64
"""elements of a slice that a loop's body computes itself: vectors had better work on many smaller slices. Compared."""

THIN_PRODUCT_TERMS = 32
"""terms of a product for all steps, at most, that each step computes for itself: to write a number and to read it again
takes as long as some 100 operations. Compared: an LSTM on rows of 28 pixels takes 0.95 of the time; smaller loops with
gates, whose product joins that of the state, 0.5 to 0.8, their gradients 0.8 to 0.95."""

SMALLEST_SUNK_PRODUCT = 1e6
"""operations of such a product in a step, at least, if it joins no other: a call takes as long as some 10,000.
Compared."""

LARGE_STACK = 4 * facts.SECOND_CACHE
"""bytes of what it gives for all steps, at least, then: a smaller stack stays in the caches. Derived."""

LEAST_SAVED = 100
"""operations on the chain of all steps that make it worth a kernel before the loop. Compared."""

OPERATIONS_MEANWHILE = 12
"""operations on single numbers that a core does in the time of an addition that others wait for: three in each of four
cycles. Compared: 115 in 37 cycles."""

COEFFICIENT_OPERATIONS = 1 / 15
"""operations of a chain that take as long as to compute an element of a stack of coefficients, and to read it.
Compared: nine stacks of 1,000 elements take 0.8 µs."""

MOST_IN_PAIRS = 2
"""carries of a linear recurrence that goes two steps at a time. Compared with 3, Zen 3: 0.92 of the time for three, as
products of coefficients grow as the cube."""

LARGEST_COEFFICIENT_STACKS = 1 << 24
"""bytes of all stacks of coefficients of a linear recurrence. Compared."""

# ---- gathers and scatters

GATHERED_USES = 1.25
"""times that a row of a table is read, on average, for the table to be multiplied before. Compared with 2: 0.56 to
1.02."""

GATHERED_ROW = 24
"""elements of such a row, at least. Compared with 32, Zen 3: rows of 24 to 28 take 0.5 to 0.95 of the time, rows of 16
0.2 to 0.75, but 1.16 where each is read 1.3 times."""

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
