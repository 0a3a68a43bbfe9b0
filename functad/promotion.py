"""The promotion lattice, which joins the dtypes of operands, weak ones among them.

This file knows no values: of an operand it is told the dtype and whether it is weak.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.config import config
from functad.errors import ArgumentError, DTypeError
from functad.known_dtypes import (
    KEYS_ARE_NO_NUMBERS,
    NARROWED,
    bool_,
    complex64,
    complex128,
    float0,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    key_fry,
    kind_of,
    uint8,
    uint16,
    uint32,
    uint64,
)


def lattice_join(*operands: tuple[np.dtype, bool]) -> tuple[np.dtype, bool]:
    """The dtype and weakness of the result of an operation on operands of several dtypes.

    Args:
        *operands: for each operand its dtype and whether it is weak, as `dtype_of` gives them.

    Returns:
        The dtype to convert all operands to, and whether the result is weak. Shapes have no say.

    Raises:
        ArgumentError: there are no operands.
        DTypeError: an operand is float0 and another is not.

    >>> lattice_join((np.dtype("int32"), False), (np.dtype("float32"), True))
    (dtype('float32'), True)
    """
    joins = _JOINS[config.enable_x64]
    known = joins.get(operands)
    if known is None:
        known = _join(frozenset(operands), config.enable_x64)
        if len(operands) <= 3:  # longer ones would let the table grow without bound
            joins[operands] = known
    return known


def joint_dtype(*operands: tuple[np.dtype, bool]) -> tuple[np.dtype, bool]:
    """As `lattice_join`, of a user's operands, whose dtypes `config.numpy_dtype_promotion` may not let differ.

    Raises:
        DTypeError: it is `"strict"`, and an operand that is not weak would change its dtype.
    """
    if config.numpy_dtype_promotion == "strict":
        _check_strict(operands)
    return lattice_join(*operands)


_STRICT_KINDS = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}


def _check_strict(operands: tuple[tuple[np.dtype, bool], ...]) -> None:
    strong = sorted({dtype for dtype, weak in operands if not weak}, key=str)
    weak_kinds = [_STRICT_KINDS.get(kind_of(dtype), 0) for dtype, weak in operands if weak]
    if len(strong) > 1 or (strong and max(weak_kinds, default=0) > _STRICT_KINDS.get(kind_of(strong[0]), 0)):
        names = [dtype.name for dtype in strong] + sorted({f"weak {dtype.name}" for dtype, weak in operands if weak})
        raise DTypeError(
            f"{' and '.join(names)} have no joint dtype while numpy_dtype_promotion is 'strict': convert one of them "
            "with x.astype(dtype)"
        )


# The promotion lattice: each dtype and the next larger ones; a join is the least upper bound. The weak
# Python scalars sit just below the smallest dtypes of their kind, so that they yield to them.
_WEAK_INT, _WEAK_FLOAT, _WEAK_COMPLEX = "int*", "float*", "complex*"
_Node = np.dtype | str
_NEXT: dict[_Node, tuple[_Node, ...]] = {
    bool_: (_WEAK_INT,),
    _WEAK_INT: (uint8, int8),
    uint8: (uint16, int16),
    uint16: (uint32, int32),
    uint32: (uint64, int64),
    uint64: (_WEAK_FLOAT,),
    int8: (int16,),
    int16: (int32,),
    int32: (int64,),
    int64: (_WEAK_FLOAT,),
    _WEAK_FLOAT: (float16, _WEAK_COMPLEX),
    float16: (float32,),
    float32: (float64, complex64),
    float64: (complex128,),
    _WEAK_COMPLEX: (complex64,),
    complex64: (complex128,),
    complex128: (),
}
_WEAK_NODES = {"b": bool_, "i": _WEAK_INT, "u": _WEAK_INT, "f": _WEAK_FLOAT, "c": _WEAK_COMPLEX}
_WIDTHS = {_WEAK_INT: (int32, int64), _WEAK_FLOAT: (float32, float64), _WEAK_COMPLEX: (complex64, complex128)}


def _build_upper_bounds() -> dict[_Node, frozenset[_Node]]:
    bounds: dict[_Node, frozenset[_Node]] = {}

    def visit(node: _Node) -> frozenset[_Node]:
        if node not in bounds:
            bounds[node] = frozenset({node}).union(*(visit(larger) for larger in _NEXT[node]))
        return bounds[node]

    for node in _NEXT:
        visit(node)
    return bounds


_UPPER_BOUNDS = _build_upper_bounds()


def add_bfloat16(dtype: np.dtype) -> None:
    """Give bfloat16 its place in the lattice."""
    _NEXT[dtype] = (float32,)
    _NEXT[_WEAK_FLOAT] = (dtype, float16, _WEAK_COMPLEX)
    _UPPER_BOUNDS.update(_build_upper_bounds())


# Results already joined, without and with enable_x64.
_JOINS: tuple[dict[Any, tuple[np.dtype, bool]], ...] = ({}, {})


def _join(operands: frozenset[tuple[np.dtype, bool]], x64: bool) -> tuple[np.dtype, bool]:
    if not operands:
        raise ArgumentError("promotion needs at least one operand or dtype, got none")
    if len(operands) == 1:
        return next(iter(operands))
    dtypes = {dtype for dtype, _ in operands}
    if key_fry in dtypes:
        others = ", ".join(sorted(dtype.name for dtype in dtypes - {key_fry}))
        raise DTypeError(f"random keys, of dtype {key_fry}, do not combine with {others}: {KEYS_ARE_NO_NUMBERS}")
    if float0 in dtypes:
        if dtypes == {float0}:
            return float0, False
        others = ", ".join(sorted(dtype.name for dtype in dtypes - {float0}))
        raise DTypeError(
            f"float0, the tangent dtype of integers and booleans, does not combine with {others}; "
            "it carries no information, so drop it or replace it by zeros of the other dtype"
        )
    wide = any(dtype in NARROWED for dtype in dtypes)
    all_weak = all(weak for _, weak in operands)
    if all_weak or len(dtypes) == 1:
        node = _least_upper_bound(dtypes)
    else:
        node = _least_upper_bound({_WEAK_NODES[kind_of(dtype)] if weak else dtype for dtype, weak in operands})
    if isinstance(node, str):
        return _WIDTHS[node][x64 or _keeps_64_bits(node, operands)], True
    if not (x64 or wide):
        node = NARROWED.get(node, node)
    return node, all_weak


def _least_upper_bound(nodes: set[Any]) -> _Node:
    common = frozenset.intersection(*(_UPPER_BOUNDS[node] for node in nodes))
    return next(node for node in common if _UPPER_BOUNDS[node] == common)


def _keeps_64_bits(node: str, operands: frozenset[tuple[np.dtype, bool]]) -> bool:
    if any(weak and dtype in NARROWED for dtype, weak in operands):
        return True
    # No integer holds both uint64 and a signed one, so they make a float; a float32 would lose most digits.
    return node == _WEAK_FLOAT and all(kind_of(dtype) in "biu" for dtype, _ in operands)
