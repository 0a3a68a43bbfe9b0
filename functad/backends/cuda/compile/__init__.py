"""From a kernel's text to machine code: the only room that knows Numba's compiler for CUDA."""
