"""Matrix products: who computes them, how they are cut for threads, and functad's own kernels."""
