"""The bits of an array read as another dtype.

Knows no arithmetic: what the bits mean is the dtypes' business.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad import dtypes
from functad.dtypes import kind_of
from functad.errors import DTypeError, ShapeError
from functad.ir import Aval, Example, Primitive, ZeroDerivative
from functad.lowering_rules import Indexed
from functad.primitives.common import NOT_LINEAR, integers, move_axis, normal
from functad.primitives.loops import moving
from functad.tracing import bind


def bitcast_convert_type(operand: Any, new_dtype: Any) -> Any:
    """Read the bits as another dtype; a narrower one adds a last axis, a wider one takes it away."""
    return bind(bitcast_convert_type_p, operand, new_dtype=dtypes.as_dtype(new_dtype))


def _bitcast_aval(x: Aval, *, new_dtype: np.dtype) -> Aval:
    if any((kind_of(x.dtype) == kind) != (kind_of(new_dtype) == kind) for kind in "bc"):
        raise DTypeError(f"bitcast_convert_type: the bits of {x.dtype} cannot be read as {new_dtype}; use x.astype")
    old, new = x.dtype.itemsize, new_dtype.itemsize
    if new < old:
        return Aval((*x.shape, old // new), new_dtype)
    if new == old:
        return Aval(x.shape, new_dtype)
    if x.shape[-1:] != (new // old,):
        raise ShapeError(
            f"bitcast_convert_type: an element of {new_dtype} needs {new // old} of {x.dtype}, so the last "
            f"axis must have that size, but the operand has shape {x.shape}"
        )
    return Aval(x.shape[:-1], new_dtype)


def _bitcast_impl(x: np.ndarray, *, new_dtype: np.dtype) -> np.ndarray:
    shape = _bitcast_aval(Aval(x.shape, x.dtype), new_dtype=new_dtype).shape
    return np.ascontiguousarray(x).reshape(-1).view(new_dtype).reshape(shape)


def _bitcast_batch(axis_size: int, args: Any, dims: Any, *, new_dtype: np.dtype) -> tuple[Any, int]:
    # In front, the mapped axis cannot be the last one, which may come or go.
    return bitcast_convert_type(move_axis(args[0], dims[0], 0), new_dtype), 0


def _bitcast_examples() -> list[Example]:
    cases = [
        (normal(2, 3), "uint32"),
        (normal(2), "uint8"),
        (integers(2, 4, dtype=np.uint16), "int64"),
        (normal(), "int32"),
        (normal(0, 2), "int16"),
    ]
    return [Example(args=(x,), params={"new_dtype": np.dtype(dtype)}, differentiable=False) for x, dtype in cases]


bitcast_convert_type_p = Primitive(
    name="bitcast_convert_type",
    doc="The bits of an array read as another dtype.",
    multiple_results=False,
    abstract_eval=_bitcast_aval,
    impl=_bitcast_impl,
    jvp=ZeroDerivative("bits have no derivative"),
    transpose=NOT_LINEAR,
    batch=_bitcast_batch,
    lower=Indexed(moving.bitcast_rule),
    examples=_bitcast_examples,
)
