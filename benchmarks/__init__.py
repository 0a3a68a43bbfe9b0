"""Benchmarks: functad and its peers in turn, in one run, with medians and ratios.

`python -m benchmarks` runs all of them, `python -m benchmarks steps --markdown --save` the training steps. Each
framework has a process of its own and computes the same as the others before it is timed; what is missing is named.
"""
