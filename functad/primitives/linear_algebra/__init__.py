"""Factorisations of matrices, systems of equations, eigenvalues and singular values, of stacks of matrices.

Knows no transform; the matrices lie in the last two axes, all others are batch axes.
"""
