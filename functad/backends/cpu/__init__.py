"""The CPU backend: kernels as Python source text, compiled by Numba and LLVM into object files, and their cache."""
