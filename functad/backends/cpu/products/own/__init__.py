"""functad's own matrix products: for AVX-512 packed, where the matrices lie, and of places; for AVX2 of few terms, of
packed weights, and of windows.

An optional room, with one door: `products.blas` looks for `gemm_table`. Without this folder the BLAS library, or the
plain kernel for where there is none, computes all products, and convolutions are other kernels.
"""
