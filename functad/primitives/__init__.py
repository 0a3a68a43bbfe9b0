"""The primitives, one file a family, one record an operation.

Knows no transform. A family is loaded where it is used; `functad.all_primitives` loads them all.

Shapes:
    Arrays keep theirs.

Raises:
    ShapeError: an array is no matrix.
"""
