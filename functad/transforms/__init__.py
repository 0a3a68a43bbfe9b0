"""Transforms: Program → Program, each by running rules over a recording and recording the result.

Knows primitives through their rules only; the user-facing signatures are in `functad.api`.
"""
