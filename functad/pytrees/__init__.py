"""Pytrees taken apart: node types, registration, `PyTreeDef`. Their public names are in `tree_util` and `tree`."""
