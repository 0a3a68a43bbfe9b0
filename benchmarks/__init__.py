"""Benchmarks: functad and its peers in turn, in one run, with medians and ratios.

`python -m benchmarks` runs all of them; peers that are not installed are left out, and the table says so.
"""
