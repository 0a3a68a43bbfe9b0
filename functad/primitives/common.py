"""What all families of primitives share: the few structural primitives that rules are written with, and helpers.

Knows nothing of element-wise mathematics; those records are made by `builders`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad import dtypes, machine_model
from functad.array import ArrayImpl
from functad.dtypes import compute_dtype, is_narrow_float, kind_of
from functad.errors import DifferentiationError, DTypeError, ShapeError
from functad.evaluation import aval_of
from functad.ir import UNKNOWN, Absent, Aval, Example, JointlyLinear, OwnDerivative, Primitive, UndefinedPrimal, Zero
from functad.lowering_rules import Indexed, OfSlices, Reduction, Scalar
from functad.primitive_record import takes_narrow
from functad.primitives.kernels.conversion import converted
from functad.primitives.kernels.pieces import by_halves
from functad.primitives.kernels.sums import sum_over
from functad.tracing import bind

# --- add_any: the sum of two cotangents -------------------------------------------------------------


def add_cotangents(x: Any, y: Any) -> Any:
    """Accumulate two cotangents of equal type."""
    return bind(add_any_p, x, y)


def _add_any_jvp(primals: Any, out: Any, tangents: Any) -> Any:
    x, y = tangents
    return y if isinstance(x, Zero) else x if isinstance(y, Zero) else add_cotangents(x, y)


def _add_any_batch(axis_size: int, args: Sequence[Any], dims: Sequence[int | None]) -> tuple[Any, int]:
    wanted = next(d for d in dims if d is not None)
    x, y = (a if d == wanted else _with_batch_axis(a, d, wanted, axis_size) for a, d in zip(args, dims))
    return add_cotangents(x, y), wanted


def _with_batch_axis(x: Any, dim: int | None, wanted: int, axis_size: int) -> Any:
    if dim is not None:
        return move_axis(x, dim, wanted)
    shape = list(aval_of(x).shape)
    shape.insert(wanted, axis_size)
    return broadcast_in_dim(x, shape=shape, broadcast_dimensions=[d for d in range(len(shape)) if d != wanted])


add_any_p = Primitive(
    name="add_any",
    doc="Sum of two cotangents of equal type.",
    multiple_results=False,
    abstract_eval=lambda x, y: Aval(x.shape, x.dtype),
    impl=np.add,
    jvp=JointlyLinear(_add_any_jvp, slice(None)),
    transpose=lambda ct, x, y: [ct, ct],
    batch=_add_any_batch,
    lower=Scalar("{0} + {1}"),
    examples=lambda: [Example(args=(normal(2, 3), normal(2, 3, seed=1)), params={})],
)

# --- broadcast_in_dim -------------------------------------------------------------------------------


def broadcast_in_dim(operand: Any, *, shape: Sequence[int], broadcast_dimensions: Sequence[int]) -> Any:
    """Repeat an array along new or size-1 axes; operand axis i becomes axis `broadcast_dimensions[i]`."""
    shape, dims = tuple(shape), tuple(broadcast_dimensions)
    if len(dims) == len(shape) and dims == tuple(range(len(shape))) and aval_of(operand).shape == shape:
        return operand
    return bind(broadcast_in_dim_p, operand, shape=shape, broadcast_dimensions=dims)


def _broadcast_in_dim_aval(x: Aval, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]) -> Aval:
    dims = broadcast_dimensions
    ordered = all(a < b for a, b in zip(dims, dims[1:]))
    fits = len(dims) == len(x.shape) and all(0 <= d < len(shape) and n in (1, shape[d]) for n, d in zip(x.shape, dims))
    if not (ordered and fits):
        raise ShapeError(
            f"broadcast_in_dim: an operand of shape {x.shape} does not fit shape={shape} with "
            f"broadcast_dimensions={dims}: there must be one strictly increasing result axis for each operand axis, "
            "whose size is the operand's or to which a size of 1 is repeated"
        )
    return Aval(shape, x.dtype)


def _broadcast_in_dim_impl(
    x: np.ndarray, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]
) -> np.ndarray:
    x = np.asarray(x)
    if x.size and x.flags.c_contiguous and UNKNOWN not in shape:
        strides = [0] * len(shape)
        for size, dim, stride in zip(x.shape, broadcast_dimensions, x.strides):
            if size == shape[dim]:
                strides[dim] = stride
            elif size != 1:
                break  # an error, which `broadcast_to` raises
        else:  # as of `broadcast_to`, in an eighth of the time
            repeated: np.ndarray = np.ndarray(shape, x.dtype, x, 0, strides)
            return repeated
    aligned = [1] * len(shape)
    for size, dim in zip(x.shape, broadcast_dimensions):
        aligned[dim] = size
    known = [a if n == UNKNOWN else n for n, a in zip(shape, aligned)]
    return np.broadcast_to(x.reshape(aligned), known)


def _broadcast_in_dim_transpose(
    ct: Any, x: UndefinedPrimal, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]
) -> list[Any]:
    # The transpose of repeating along an axis is summing over it.
    repeated = {d for d, n in zip(broadcast_dimensions, x.shape) if n == 1 and shape[d] != 1}
    axes = tuple(i for i in range(len(shape)) if i in repeated or i not in broadcast_dimensions)
    return [reshape(reduce_sum(ct, axes=axes), x.shape)]


def _broadcast_in_dim_batch(
    axis_size: int,
    args: Sequence[Any],
    dims: Sequence[int],
    *,
    shape: tuple[int, ...],
    broadcast_dimensions: tuple[int, ...],
) -> tuple[Any, int]:
    operand = move_axis(args[0], dims[0], 0)
    new_dims = (0, *(d + 1 for d in broadcast_dimensions))
    return broadcast_in_dim(operand, shape=(axis_size, *shape), broadcast_dimensions=new_dims), 0


def _broadcast_in_dim_element(
    context: Any, index: Any, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]
) -> str:
    sizes = context.avals[0].shape
    return str(context.read(0, [index[d] * int(n != 1) for d, n in zip(broadcast_dimensions, sizes)]))


def _broadcast_in_dim_of_slices(x: Aval, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]) -> OfSlices:
    is_cut = broadcast_dimensions[:1] == (0,) and x.shape[0] == shape[0]
    rest = broadcast_dimensions[1:] if is_cut else broadcast_dimensions
    if 0 in rest:
        return None
    return {"shape": shape[1:], "broadcast_dimensions": tuple(d - 1 for d in rest)}, [is_cut]


broadcast_in_dim_p: Primitive = Primitive(
    name="broadcast_in_dim",
    doc="Repeat an array along new axes and along axes of size 1.",
    multiple_results=False,
    abstract_eval=_broadcast_in_dim_aval,
    impl=_broadcast_in_dim_impl,
    jvp=OwnDerivative(),
    transpose=_broadcast_in_dim_transpose,
    batch=_broadcast_in_dim_batch,
    lower=Indexed(_broadcast_in_dim_element, free=True, repeats=True, sliced=_broadcast_in_dim_of_slices),
    examples=lambda: [
        Example(args=(normal(3),), params={"shape": (2, 3), "broadcast_dimensions": (1,)}),
        Example(args=(normal(1, 3),), params={"shape": (2, 4, 3), "broadcast_dimensions": (0, 2)}),
        Example(args=(normal(),), params={"shape": (2,), "broadcast_dimensions": ()}),
        Example(args=(normal(0, 2),), params={"shape": (0, 3, 2), "broadcast_dimensions": (0, 2)}),
    ],
)

# --- reduce_sum -------------------------------------------------------------------------------------


def reduce_sum(operand: Any, *, axes: Sequence[int]) -> Any:
    """Sum over the given axes, which are dropped."""
    axes = tuple(axes)
    return bind(reduce_sum_p, operand, axes=axes) if axes else operand


def reduced_aval(name: str, x: Aval, axes: tuple[int, ...], dtype: np.dtype | None = None) -> Aval:
    """The shape rule of every reduction."""
    if len(set(axes)) != len(axes) or any(not 0 <= a < x.ndim for a in axes):
        raise ShapeError(
            f"{name}: axes={axes} do not fit an operand of shape {x.shape}: "
            f"they must be distinct and lie in 0..{x.ndim - 1}"
        )
    return Aval([n for i, n in enumerate(x.shape) if i not in axes], dtype or x.dtype)


def batched_axes(dim: int, axes: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """Axes of the unbatched operand as axes of the batched one, and where the mapped axis is in the result."""
    shifted = tuple(a + (a >= dim) for a in axes)
    return shifted, dim - sum(a < dim for a in shifted)


def _reduce_sum_batch(axis_size: int, args: Any, dims: Any, *, axes: tuple[int, ...]) -> tuple[Any, int]:
    new_axes, out_dim = batched_axes(dims[0], axes)
    return reduce_sum(args[0], axes=new_axes), out_dim


_sum_by_halves = by_halves(sum_over)


def _reduce_sum_impl(x: np.ndarray, *, axes: tuple[int, ...]) -> Any:
    dtype = compute_dtype(x.dtype)
    is_small = x.size <= machine_model.PIECE_ELEMENTS
    total = sum_over(x, axes, dtype) if is_small else _sum_by_halves(x, axes=axes, dtype=dtype)
    return total if total.dtype is x.dtype else total.astype(x.dtype, copy=False)


def expand_reduced(x: Any, axes: Sequence[int], shape: Sequence[int]) -> Any:
    """Repeat a reduction's result along the axes that were reduced, back to the operand's shape."""
    kept = tuple(i for i in range(len(shape)) if i not in axes)
    return broadcast_in_dim(x, shape=tuple(shape), broadcast_dimensions=kept)


reduce_sum_p = Primitive(
    name="reduce_sum",
    doc="Sum over some axes.",
    multiple_results=False,
    abstract_eval=lambda x, *, axes: reduced_aval("reduce_sum", x, axes),
    impl=takes_narrow(_reduce_sum_impl),  # NumPy converts as it sums
    jvp=OwnDerivative(),
    transpose=lambda ct, x, *, axes: [expand_reduced(ct, axes, x.shape)],
    batch=_reduce_sum_batch,
    lower=Reduction("sum"),
    examples=lambda: [
        Example(args=(normal(3, 4),), params={"axes": (0,)}),
        Example(args=(normal(2, 3, 4),), params={"axes": (0, 2)}),
        Example(args=(normal(3),), params={"axes": (0,)}),
        Example(args=(normal(0, 3),), params={"axes": (0,)}),
        Example(args=(np.arange(6, dtype=np.int32).reshape(2, 3),), params={"axes": (1,)}, differentiable=False),
    ],
)

# --- transpose and reshape --------------------------------------------------------------------------


def transpose(operand: Any, permutation: Sequence[int]) -> Any:
    """Permute the axes: result axis i is operand axis `permutation[i]`."""
    permutation = tuple(permutation)
    if permutation == tuple(range(len(permutation))):
        return operand
    return bind(transpose_p, operand, permutation=permutation)


def _transpose_aval(x: Aval, *, permutation: tuple[int, ...]) -> Aval:
    if sorted(permutation) != list(range(x.ndim)):
        raise ShapeError(
            f"transpose: permutation={permutation} does not permute the axes 0..{x.ndim - 1} "
            f"of an operand of shape {x.shape}"
        )
    return Aval([x.shape[i] for i in permutation], x.dtype)


def _inverse(permutation: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(permutation)), key=permutation.__getitem__))


def _transpose_batch(axis_size: int, args: Any, dims: Any, *, permutation: tuple[int, ...]) -> tuple[Any, int]:
    (d,) = dims
    return transpose(args[0], (d, *(i + (i >= d) for i in permutation))), 0


def _transpose_of_slices(x: Aval, *, permutation: tuple[int, ...]) -> OfSlices:
    first, *others = permutation
    return None if first else ({"permutation": tuple(d - 1 for d in others)}, [True])


transpose_p = Primitive(
    name="transpose",
    doc="Permute the axes.",
    multiple_results=False,
    abstract_eval=_transpose_aval,
    impl=lambda x, *, permutation: x.transpose(permutation),
    jvp=OwnDerivative(),
    transpose=lambda ct, x, *, permutation: [transpose(ct, _inverse(permutation))],
    batch=_transpose_batch,
    lower=Indexed(
        lambda context, index, *, permutation: context.read(0, [index[i] for i in _inverse(permutation)]),
        free=True,
        sliced=_transpose_of_slices,
    ),
    examples=lambda: [
        Example(args=(normal(2, 3),), params={"permutation": (1, 0)}),
        Example(args=(normal(2, 3, 4),), params={"permutation": (2, 0, 1)}),
        Example(args=(normal(2, 3, 4),), params={"permutation": (0, 2, 1)}),
    ],
)


def reshape(operand: Any, new_sizes: Sequence[int]) -> Any:
    """The same elements in row-major order with another shape."""
    new_sizes = tuple(new_sizes)
    return operand if aval_of(operand).shape == new_sizes else bind(reshape_p, operand, new_sizes=new_sizes)


def _reshape_aval(x: Aval, *, new_sizes: tuple[int, ...]) -> Aval:
    if math.prod(new_sizes) != x.size or any(n < 0 for n in new_sizes):
        raise ShapeError(
            f"reshape: an operand of shape {x.shape} ({x.size} elements) cannot have "
            f"shape {new_sizes} ({math.prod(new_sizes)} elements)"
        )
    return Aval(new_sizes, x.dtype)


def _reshape_batch(axis_size: int, args: Any, dims: Any, *, new_sizes: tuple[int, ...]) -> tuple[Any, int]:
    return reshape(move_axis(args[0], dims[0], 0), (axis_size, *new_sizes)), 0


reshape_p = Primitive(
    name="reshape",
    doc="The same elements with another shape.",
    multiple_results=False,
    abstract_eval=_reshape_aval,
    impl=lambda x, *, new_sizes: x.reshape(new_sizes),
    jvp=OwnDerivative(),
    transpose=lambda ct, x, *, new_sizes: [reshape(ct, x.shape)],
    batch=_reshape_batch,
    lower=Indexed(
        lambda context, index, *, new_sizes: context.read_flat(0, context.flat(index)), free=True, same_memory=True
    ),
    examples=lambda: [
        Example(args=(normal(2, 3),), params={"new_sizes": (3, 2)}),
        Example(args=(normal(2, 3, 4),), params={"new_sizes": (24,)}),
        Example(args=(normal(1),), params={"new_sizes": ()}),
        Example(args=(normal(0, 3),), params={"new_sizes": (3, 0)}),
    ],
)

# --- convert_element_type ---------------------------------------------------------------------------


def convert_element_type(operand: Any, new_dtype: Any, weak_type: bool = False) -> Any:
    """Convert to a dtype; a no-op where dtype and weakness are already right."""
    dtype, aval = dtypes.as_dtype(new_dtype), aval_of(operand)
    if aval.dtype == dtype and aval.weak_type == weak_type:
        return operand
    return bind(convert_element_type_p, operand, new_dtype=dtype, weak_type=weak_type)


def _convert_aval(x: Aval, *, new_dtype: np.dtype, weak_type: bool) -> Aval:
    if x.dtype is dtypes.key_fry or new_dtype is dtypes.key_fry:
        raise DTypeError(f"{x.str_short()} cannot become {new_dtype}: {dtypes.KEYS_ARE_NO_NUMBERS}")
    return Aval(x.shape, new_dtype, weak_type)


def _convert_jvp(primals: Any, out: Any, tangents: Any, *, new_dtype: np.dtype, weak_type: bool) -> Any:
    if kind_of(new_dtype) not in "fc":
        return Zero(Aval(out.shape, dtypes.float0))
    return convert_element_type(tangents[0], new_dtype)


def _convert_text(dtype: np.dtype, *, new_dtype: np.dtype, weak_type: bool) -> str:
    if kind_of(dtype) == "c" and kind_of(new_dtype) == "b":
        return "({0}.real != 0) | ({0}.imag != 0)"
    number = "{0}.real" if kind_of(dtype) == "c" and kind_of(new_dtype) != "c" else "{0}"
    # A float of 16 bits is a float32 when it has been loaded. It is rounded by the nest, and from float64 once only if
    # not to float32 before.
    is_there = is_narrow_float(new_dtype) or new_dtype == dtypes.compute_dtype(dtype)
    return number if is_there else f"{{R}}({number})"


def _convert_batch(axis_size: int, args: Any, dims: Any, **params: Any) -> tuple[Any, int]:
    return bind(convert_element_type_p, args[0], **params), dims[0]


convert_element_type_p = Primitive(
    name="convert_element_type",
    doc="Convert every element to another dtype; floats to integers as `kernels.conversion` says.",
    multiple_results=False,
    abstract_eval=_convert_aval,
    impl=takes_narrow(lambda x, *, new_dtype, weak_type: converted(x, new_dtype)),
    jvp=JointlyLinear(_convert_jvp, slice(None)),
    transpose=lambda ct, x, *, new_dtype, weak_type: [convert_element_type(ct, x.dtype)],
    batch=_convert_batch,
    lower=Scalar(_convert_text),
    examples=lambda: [
        Example(args=(normal(2, 3),), params={"new_dtype": np.dtype("float64"), "weak_type": False}),
        Example(
            args=(normal(2, 3),),
            params={"new_dtype": np.dtype("int32"), "weak_type": False},
            differentiable=False,
        ),
    ],
)

# --- helpers for rules ------------------------------------------------------------------------------


def scalar_like(x: Any, value: float) -> Any:
    """A scalar of the dtype (and weakness) of x: what rules use as a constant; it is printed in place."""
    scalar = x.dtype.type(value)
    return ArrayImpl(scalar, True) if getattr(x, "weak_type", False) else scalar


def full(shape: Sequence[int], value: Any) -> Any:
    """An array filled with a NumPy scalar (or a rank-0 array)."""
    return broadcast_in_dim(value, shape=tuple(shape), broadcast_dimensions=())


def full_like(x: Any, value: float) -> Any:
    aval = aval_of(x)
    return full(aval.shape, aval.dtype.type(value))


def zeros_of(aval: Aval) -> Any:
    """A materialised zero of the given type (a NumPy array of no bytes for float0)."""
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    return full(aval.shape, aval.dtype.type(0))


def instantiate(x: Any) -> Any:
    """x, or real zeros where x is a `Zero`."""
    return zeros_of(x.aval) if isinstance(x, Zero) else x


def move_axis(x: Any, source: int, destination: int) -> Any:
    """Move one axis elsewhere, keeping the order of the others."""
    if source == destination:
        return x
    order = [i for i in range(aval_of(x).ndim) if i != source]
    order.insert(destination, source)
    return transpose(x, order)


def move_batch_axis_to_front(x: Any, dim: int | None, axis_size: int) -> Any:
    """x with the mapped axis in front; an unmapped x is repeated along a new one."""
    if dim is not None:
        return move_axis(x, dim, 0)
    shape = aval_of(x).shape
    return broadcast_in_dim(x, shape=(axis_size, *shape), broadcast_dimensions=range(1, len(shape) + 1))


def unbroadcast(ct: Any, x: Any) -> Any:
    """The cotangent of an operand that was repeated from rank 0 to the shape of the result."""
    if isinstance(ct, Zero) or ct.shape == x.aval.shape:
        return ct
    return reduce_sum(ct, axes=range(ct.ndim))


def is_linear(x: Any) -> bool:
    return isinstance(x, UndefinedPrimal)


def check_bilinear(name: str, x: Any, y: Any, linear_in_y: bool = True) -> None:
    """Raise where a transposed product has both factors unknown, or a quotient its divisor: no linear function."""
    if is_linear(y) and (is_linear(x) or not linear_in_y):
        raise DifferentiationError(
            f"`{name}` cannot be transposed: both of its operands depend on the argument, or the divisor does, so the "
            "function is not linear. linear_transpose takes linear functions; linearize the function first"
        )


NOT_LINEAR = Absent("the operation is not linear in any argument, so it has no transpose")


# --- inputs for examples ----------------------------------------------------------------------------


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Float32 standard normal test data."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32).reshape(shape)


def uniform(*shape: int, low: float = 0.0, high: float = 1.0, seed: int = 0) -> np.ndarray:
    """Float32 test data, uniform in [low, high)."""
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32).reshape(shape)


def positive_numbers() -> np.ndarray:
    """Float32 test data, not close to 0."""
    return uniform(2, 3, low=0.3, high=3.0)


def integers(*shape: int, low: int = 0, high: int = 10, seed: int = 0, dtype: Any = np.int32) -> np.ndarray:
    """Integer test data, uniform in [low, high)."""
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype).reshape(shape)
