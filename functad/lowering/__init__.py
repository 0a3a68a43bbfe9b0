"""Lowering: Program → fused loop nests → memory plan. What is decided here holds for every target.

Knows no text of kernels, no compiler and no machine.
"""
