"""Products of matrices: kernels with what follows of each result, and NVIDIA's library."""
