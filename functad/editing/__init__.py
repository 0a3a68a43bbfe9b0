"""Programs taken apart and put together: substitution, splicing, inlining, dead code, common subexpressions.

Knows the IR, and of loops and branches what their parameters mean; no rule of any primitive.
"""
