"""Pure-NumPy kernels behind the primitives: arrays in, arrays out.

They know nothing of tracing, primitives or functad's own array type.
"""
