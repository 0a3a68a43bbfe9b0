"""The CUDA backend: kernels for `numba.cuda`. What it does not have yet, it names."""
