"""Where things lie in the words (int64) that Python and the compiled runtime share: pool, frame, tape, gemm.

This file must not know how they are filled or read; it imports nothing.
"""

from __future__ import annotations

# The pool. What changes during a run lies in cache lines (8 words) of its own.
HELPERS = 0  # helper threads that have started
WANTED = 1  # helper threads that the thread count asks for
SPINS = 2  # how often a helper looks for work before it sleeps
PATIENCE = 3  # how often a thread looks for what it waits for before it lets others have its core
YIELD = 4  # addresses of C functions: void yield(),
ACQUIRE = 5  # int acquire(lock, int wait),
RELEASE = 6  # void release(lock),
SAVE_THREAD = 7  # void* save(),
RESTORE_THREAD = 8  # void restore(void*),
TO_PYTHON = 9  # PyObject* to_python(int64),
ARRAY_TYPE = 10  # and of the type numpy.ndarray
REALLOC = 12  # void* realloc(void*, size_t),
STOP = 11  # 1: helpers leave
CLAIM = 16  # (epoch * CLAIM_SIZE + first chunk that nobody has claimed) * CLAIM_SIZE + how many there are
DONE = 24  # chunks of the current job that are done
OWNER = 32  # 1: a caller has the pool
JOB_BLOCK = 40  # the current job: address of a block,
JOB_SLOTS = 41  # address of the slots,
JOB_CANCELLATION = 43  # address of the cancellation token of the call
SLEEPERS = 48  # helpers that sleep
BLAS_LOCK = 56  # the threads of the BLAS library: 1 while the next two words change
BLAS_CALLERS = 57  # tapes with matrix products that run now
BLAS_SAVED = 58  # the number of threads before the first of them
BLAS_GET = 59  # addresses of int get() and void set(int), or 0
BLAS_SET = 60
ENDING = 64  # 1: the process ends: only the main thread's calls go on
LIVING = 65  # helper threads that are in compiled code
MAIN_THREAD = 66  # the number of the thread that runs Python's signal handlers
THREAD = 67  # addresses of C functions: uint64 number of this thread(),
CLOCK = 68  # int clock_gettime(clock, timespec*), or where there is none uint64 milliseconds(),
CLOCK_NUMBER = 69  # (the clock to read, or -1)
ENSURE = 70  # int take the interpreter's lock(),
RELEASE_STATE = 71  # void release it(int),
CHECK_SIGNALS = 72  # int run the handlers of signals that came(),
NEW_TUPLE = 73  # PyObject* tuple(size),
SET_ITEM = 74  # int set_item(tuple, place, PyObject*),
CALL = 75  # PyObject* call(callable, tuple, keywords),
DECREF = 76  # void decref(PyObject*)
POLL = 77  # and of `runtime.compiled.poll`
INCREF = 78  # void incref(PyObject*),
CLEAR_ERROR = 79  # void forget the exception that is set(),
NEW_INSTANCE = 80  # PyObject* instance(type, 0),
NEW_ARRAY = 81  # PyObject* ndarray(type, dtype, int rank, shape, strides, data, int flags, base),
NONE = 82  # and of None,
FLOAT_TYPE = 83  # of the type float,
IMPL_TYPE = 84  # of the type functad.array.ArrayImpl, and which words of its instances are
IMPL_VALUE = 85  # the ndarray,
IMPL_AVAL = 86  # the type or None,
IMPL_WEAK = 87  # True or False;
MEMORY_TYPE = 88  # of the type of the memory in which an array begins at a cache line,
MEMORY_DTYPE = 89  # and of the dtype of that
POOL_HELPER = 96  # for each helper 8 words: asleep (0 or 1), address of its lock
HELPER_SIZE = 8
MAX_THREADS = 1024  # for so many helpers there is a place
CLAIM_SIZE = 1 << 16

# What a bound tape needs for one call.
FRAME_TAPE = 0
FRAME_SLOTS = 1
FRAME_ARRAYS = 2  # number of arrays, whose addresses go to the first slots

# What a tape that is entered directly needs besides, in place of that number. Addresses of constants follow, which go
# to the first slots, then entries of leaves, then of results.
DIRECT_TAKEN = 2  # 1: a call is under way
DIRECT_CONSTANTS = 3  # numbers of each
DIRECT_LEAVES = 4
DIRECT_RESULTS = 5
DIRECT_HEAD = 6
LEAF_AVAL = 0  # address of the type,
LEAF_WEAK = 1  # of its `weak_type`, True or False,
LEAF_DTYPE = 2  # of its dtype
LEAF_RANK = 3
LEAF_SHAPE = 4  # address of the axes' sizes
LEAF_PLAIN = 5  # 1: an ndarray is of this type, if its dtype and shape are
LEAF_NUMBER = 6  # address of an array that can hold a Python float, or 0 where none is expected
LEAF_DOUBLE = 7  # 1: as a float64
LEAF_ARRAY = 8  # during a call: the array, which it holds
LEAF_SIZE = 9
RESULT_AVAL = 0  # as of a leaf
RESULT_WEAK = 1
RESULT_TYPE = 2  # address of the class of the Array
RESULT_VALUE = 3  # during a call: what holds its elements
RESULT_HEAD = 4  # words that all entries of results begin with
RESULT_DTYPE = 4
RESULT_RANK = 5
RESULT_SHAPE = 6
RESULT_MEMORY = 7  # address of the size of the memory in which the array begins at a cache line, or 0
RESULT_SIZE = 8

# The cancellation token of a call, by which whoever works for it learns that it shall stop.
CANCELLATION_POLL = 0  # address of `runtime.compiled.poll`, for kernels
CANCELLATION_POOL = 1
CANCELLATION_STOPPED = 2  # 1: stop; if the thread that called has set it, an exception is set in its Python state
CANCELLATION_DUE = 3  # when to ask next whether a signal came, in ns; 0: never asked yet
CANCELLATION_SIZE = 4

# A tape: a head, then entries: blocks, moves and jumps. The first word of an entry is its kind.
TAPE_POOL = 0
TAPE_END = 1  # where the entries end
TAPE_PARALLEL = 2  # 1: some block may run on several threads
TAPE_BLAS = 3  # 1: some instruction calls the BLAS library
TAPE_RELEASE = 4  # 1: let other Python threads run meanwhile
TAPE_CANCELLATION = 5  # the slot that gets the address of the call's cancellation token, or -1
TAPE_HEAD = 6
BLOCK, MOVES, AGAIN, JUMP, UNLESS, SAME, SWITCH, GROW, REPEAT = range(9)

# A block: a head, then instructions.
BLOCK_ROWS = 1
BLOCK_CHUNK = 2  # rows of a chunk
BLOCK_CHUNKS = 3
BLOCK_WORK = 4  # of a chunk
BLOCK_INSTRUCTIONS = 5
BLOCK_HEAD = 6
INSTRUCTION_ADDRESS = 0
INSTRUCTION_PARAMS = 1
INSTRUCTION_SCALE = 2
INSTRUCTION_PIECE = 3  # how much of its range runs without a look at the clock,
WHOLE = 1 << 62  # all of it
INSTRUCTION_SIZE = 4

# A block that repeats: head and instructions as of a block, then how it repeats, then moves (a whole entry). Each chunk
# runs all its steps with slots of its own, copies of all slots: `count` words for each chunk, from slot `private` on.
REPEAT_STEPS = 0
REPEAT_PRIVATE = 1
REPEAT_COUNT = 2
REPEAT_LAST = 3  # with how many instructions the last step is done
REPEAT_SIZE = 4

# Moves: for each one three words, slots[target] = slots[source] + offset.
MOVES_COUNT = 1
MOVES_HEAD = 2
MOVE_TARGET = 0
MOVE_SOURCE = 1
MOVE_OFFSET = 2
MOVE_SIZE = 3

# Jumps to a place on the tape:
JUMP_TARGET = 1  # always (JUMP); else if
JUMP_SLOT = 2  # a slot less one is not zero (AGAIN), a bool at the address in a slot is not set (UNLESS),
JUMP_OTHER = 3  # two slots hold the same address (SAME)
JUMP_SIZE = 4

# A switch: by the int32 at the address in a slot, clamped, to one of several places.
SWITCH_SLOT = 1
SWITCH_COUNT = 2
SWITCH_HEAD = 3

# Memory that grows: room for the steps that a slot counts and `extra` more. For each stack the slot of its address, the
# slot that gets the address of its next slice, and the bytes of a slice.
GROW_COUNT = 1
GROW_CAPACITY = 2  # the slot that says for how many steps there is room
GROW_EXTRA = 3
GROW_STACKS = 4
GROW_HEAD = 5
GROW_MEMORY = 0
GROW_POINTER = 1
GROW_STRIDE = 2
GROW_SIZE = 3

# What a run returns: 0, or one of these, or 1 + the number of the array that cannot be used as it is.
HELPERS_MISSING = -1
WRONG_COUNT = -2
OUT_OF_MEMORY = -3
ENDED = -4  # stopped, because the process ends
RAISED = -5  # stopped, with an exception set

# The params of a call of a Python function.
CALL_FUNCTION = 0  # PyObject*
CALL_CANCELLATION = 1  # slot of the cancellation token

# A matrix product's handle: who computes it.
GEMM_ENTRY = 0  # address of the function with the signature of `gemm_runtime.gemm`
GEMM_CBLAS = 1  # address of cblas_?gemm, if there is one
GEMM_KIND = 2  # 0 float32, 1 float64, 2 complex64, 3 complex128
GEMM_ITEM = 3  # bytes of an element
GEMM_ONE = 4  # 1 as an element (2 words)
GEMM_DIRECT = 6  # m·n·k up to which the library multiplies without packing; 0: unknown, or it always packs
GEMM_HANDLE_SIZE = 7

# The params of a gemm instruction; offsets and strides in bytes.
P_HANDLE = 0
P_SPLIT = 1
P_A_SLOT = 2
P_A_OFFSET = 3
P_B_SLOT = 4
P_B_OFFSET = 5
P_C_SLOT = 6
P_C_OFFSET = 7
P_TA = 8
P_TB = 9
P_M = 10
P_N = 11
P_K = 12
P_LDA = 13
P_LDB = 14
P_LDC = 15
P_ALPHA = 16  # an element (2 words)
P_BETA = 18  # an element (2 words)
P_A_STRIDE = 20
P_B_STRIDE = 21
P_C_STRIDE = 22
P_CANCELLATION = 23  # slot of the cancellation token, or -1
GEMM_PARAMS = 24
SPLIT_ROWS = 0
SPLIT_COLUMNS = 1
SPLIT_BATCH = 2
