"""A Program as one equation: `jit`, `checkpoint`, rules of the user's own, linear solves, closed calls.

Their rules are the transforms of that Program.
"""
