"""The intrinsics of kernel text: each as a plain Python function, and (`*_numba`) as machine code."""
