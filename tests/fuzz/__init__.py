"""Random programs, several ways to compute each, and the smallest one that shows where two of them differ.

`python -m tests.fuzz --minutes 2` tries what it finds time for; `program.py` is what a program is, `generator.py` makes
them, `oracles.py` knows what must agree, `rounding.py` how far it may differ, and `reducer.py` makes a failure small.
"""
