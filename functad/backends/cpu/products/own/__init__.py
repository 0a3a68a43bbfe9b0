"""functad's own matrix products for processors with AVX-512, packed or where the matrices lie, and products of places;
for those with AVX2 alone products of windows.

An optional room, with one door: `products.blas` looks for `gemm_table`. Without this folder the BLAS library, or the
plain kernel for where there is none, computes all products, and convolutions are other kernels.
"""
