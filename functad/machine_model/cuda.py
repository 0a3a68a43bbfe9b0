"""Launches on a GPU."""

CUDA_THREADS = 128
"""threads of a block. Compared on no GPU yet: the usual size."""

CUDA_MOST_BLOCKS = 4096
"""blocks of a launch; each does more than one piece of work then. Compared on no GPU yet."""

CUDA_TILE = 16
"""rows and columns of a tile in shared memory. Compared on no GPU yet: 256 threads for each."""

CUDA_FEW_POINTS = 4096
"""results that cannot keep a GPU busy with one thread for each; a block sums each then. Compared on no GPU yet."""

CUDA_SMALL_STEP = 200.0
"""ns of a step on the CPU, of a loop that is one thread's work on a GPU, where that takes about 20 times as long: less
than two launches for each step. Compared on no GPU yet."""

CUDA_PIECES = 1024
"""threads for which rules with kernels of their own cut their work, into a few pieces for each: enough to keep all
threads of a GPU busy, few enough for what each piece keeps in memory. Compared on no GPU yet."""
