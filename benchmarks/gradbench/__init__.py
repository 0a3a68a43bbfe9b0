"""GradBench with functad: a tool that speaks its protocol (`python -m benchmarks.gradbench`), and what runs it.

`evals/` has a program for each eval. `python -m benchmarks gradbench --checkout PATH` compares it with the tools of
a checkout of GradBench.
"""
