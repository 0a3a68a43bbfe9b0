"""Pytrees taken apart: node types, registration, `PyTreeDef`. Their public names are in `tree_util` and `tree`.

Shapes:
    Leaves may be anything, arrays of any shapes too.

Raises:
    TreeError: trees that should have one structure have not, or a class does not say how it is taken apart.
    ArgumentError: what a class must have to be a node, it has not; or a tree without leaves leaves something open.
"""
