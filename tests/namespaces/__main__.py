"""Prints what each public namespace took: `python -m tests.namespaces`."""

from . import rows, table

print(table(rows()))
