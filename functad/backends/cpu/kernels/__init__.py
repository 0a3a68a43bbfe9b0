"""Kernels as text: nests and loops printed as Python functions, and what a kernel is given. Knows no compiler."""
