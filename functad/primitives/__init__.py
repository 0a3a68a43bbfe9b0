"""The primitives, one file a family, one record an operation.

Knows no transform; importing this package fills `functad.ir.registry`.
"""
