"""The CUDA backend: kernels for `numba.cuda`, how they are started, and arrays that lie on GPUs."""
