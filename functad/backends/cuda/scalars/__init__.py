"""The functions of single values that kernels call, for Numba's compiler and for its simulator."""
