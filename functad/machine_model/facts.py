"""Facts of the machine: what `python -m functad doctor --measure` measures."""

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
"""bytes that a kernel moves in a ns on one thread: one number between those of the second cache, 100, and of memory, 3
to 15, their geometric mean. Decides how many threads a kernel is worth. Measured."""

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

LOCK_NS = 2_500.0
"""ns until a thread that has let go of the interpreter's lock has it back, where another one runs Python. Measured."""

# ---- compiling

STATEMENT_NS = 1e6
"""ns of compiling a statement of a kernel, by Numba and LLVM. Measured."""

STATEMENTS_OF_FUNCTION = 4
"""statements that take as long to compile as one call of a function such as `exp`. Measured."""
