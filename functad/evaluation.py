"""Operations on values: a primitive's NumPy implementation, run at once; and the types of its results.

Knows no trace. What goes wrong in NumPy is said in the user's terms.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from functad import dtypes
from functad.array import Array, ArrayImpl, KeyArray, class_for, detached
from functad.config import config
from functad.device_arrays import (
    DeviceArray,
    commit_results,
    evaluate_on_device,
    gpus,
    held_on_cpu,
    put_by_default,
)
from functad.dtypes import DtypeTable, compute_dtype, is_narrow_float, kind_of
from functad.errors import DTypeError, FunctadError, TooLargeError
from functad.ir import Aval, Primitive, puts_values
from functad.system.once import imported
from functad.system.quiet import quiet_copy
from functad.user_source import user_source

_new = object.__new__
_asarray = np.asarray


def evaluate(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Run a primitive's NumPy implementation on concrete arguments."""
    values = []
    weak = strong = False  # whether any operand is
    foreign = False  # an ndarray that is not an Array's own
    keys = False
    for a in args:
        if type(a) is ArrayImpl:
            values.append(a._value)
            if a.weak_type:
                weak = True
            else:
                strong = True
        elif isinstance(a, Array):
            if isinstance(a, DeviceArray):
                return evaluate_on_device(primitive, args, params)
            values.append(a._value)  # type: ignore[attr-defined]  # raises: donated, or its trace is over
            keys = True
        else:
            values.append(a)
            strong = True
            foreign = foreign or type(a) is np.ndarray
    run = primitive.impl
    if keys or values and _is_special(values[0].dtype):
        run = _special_implementation(primitive, args, params, values)
    call: Callable[..., Any]
    try:
        if primitive.only_computes:
            call = quiet_copy().run
        elif puts_values(primitive, params):
            return evaluate_on_device(primitive, args, params)
        else:
            call = _in_users_context
        result = call(run, *values, **params) if params else call(run, *values)  # without a copy of an empty dict
    except (TypeError, ValueError, OverflowError, MemoryError) as problem:
        # NumPy's own, of dtypes, shapes or sizes: the shape rule says it in the user's terms, or this does.
        _explain_size(problem, primitive, args, params)
        raise
    result = _unaliased(result, values) if foreign else result
    if config.may_check_values and (placed := _under_options(primitive, args, params, result)) is not None:
        return placed
    if keys or primitive.multiple_results or gpus and held_on_cpu(args):
        return _as_inferred(primitive, args, params, result)
    if "weak_type" in params:
        weak = params["weak_type"]
    elif weak and (strong or result.dtype != values[0].dtype or "index_dtype" in params):
        # Positions are counted, whatever the elements are.
        weak = "index_dtype" not in params and _stays_weak(result.dtype, map(aval_of, args))
    # What ArrayImpl(result, weak) does, without the call: every operation ends here.
    array = _new(ArrayImpl)
    if type(result) is not np.ndarray:
        result = _asarray(result)
    result = result if result.base is None else detached(result)
    result.setflags(False)
    array._value, array._aval, array.weak_type = result, None, weak
    return array


def _in_users_context(run: Callable[..., Any], *values: Any, **params: Any) -> Any:
    """What an implementation gives that may call the user's functions, which look at context variables of his."""
    with np.errstate(all="ignore"):
        return run(*values, **params)


def _under_options(primitive: Primitive, args: Sequence[Any], params: dict[str, Any], result: Any) -> Any:
    """The results on the default device, if there is one, else None; raises where values are checked and wrong."""
    check_values(primitive, result)
    if config.default_device is None:
        return None
    return put_by_default(_as_inferred(primitive, args, params, result))


def _special_implementation(
    primitive: Primitive, args: Sequence[Any], params: dict[str, Any], values: Sequence[Any]
) -> Callable[..., Any]:
    """The implementation for narrow floats, complex numbers or keys."""
    # NumPy orders complex numbers, and takes the words of keys for integers, where the shape rule refuses.
    if any(isinstance(a, KeyArray) for a in args) or kind_of(values[0].dtype) == "c":
        infer_avals(primitive, [aval_of(a) for a in args], params)
    return implementation(primitive, [v.dtype for v in values])


def _as_inferred(primitive: Primitive, args: Sequence[Any], params: dict[str, Any], result: Any) -> Any:
    """Results as arrays, of keys and of several dtypes, too; committed to the CPU if operands are."""
    inferred = infer_avals(primitive, [aval_of(a) for a in args], params)
    results = result if primitive.multiple_results else (result,)
    arrays = [class_for(a)(detached(_asarray(r)), a.weak_type) for r, a in zip(results, inferred)]
    if config.debug_key_reuse:
        imported("functad.key_reuse").follow(primitive, args, arrays, params)
    if held_on_cpu(args):
        commit_results(arrays)
    return arrays if primitive.multiple_results else arrays[0]


_is_special: Callable[[np.dtype], bool] = DtypeTable(
    lambda dtype: is_narrow_float(dtype) or kind_of(dtype) == "c"
).__getitem__


def implementation(primitive: Primitive, operands: Sequence[np.dtype]) -> Callable[..., Any]:
    """The NumPy implementation for operands of these dtypes.

    NumPy's functions would round floats of 16 bits after each of their steps, and lack many for bfloat16. So they get
    them in float32, and results are rounded once.
    """
    if not any(map(_is_special, operands)):
        return primitive.impl
    run = _UFUNCS.get(primitive.impl, primitive.impl)
    if primitive.takes_narrow or not any(map(is_narrow_float, operands)):
        return run
    if isinstance(run, np.ufunc) and all(dtype == dtypes.float16 for dtype in operands):
        return run  # one of NumPy's own, which does just that
    return partial(_in_float32, primitive)


# By operators, which take a tenth of the time for scalars, but round complex ones otherwise.
_UFUNCS: dict[Any, Callable[..., Any]] = {
    operator.add: np.add,
    operator.sub: np.subtract,
    operator.mul: np.multiply,
}


def _in_float32(primitive: Primitive, *values: Any, **params: Any) -> Any:
    # First, because it refuses what takes float32 but no narrower floats.
    avals = infer_avals(primitive, [Aval(v.shape, v.dtype) for v in values], params)
    wide = [v.astype(compute_dtype(v.dtype)) if is_narrow_float(v.dtype) else v for v in values]
    result = primitive.impl(*wide, **params)
    if not primitive.multiple_results:
        return np.asarray(result).astype(avals[0].dtype, copy=False)
    return [np.asarray(r).astype(a.dtype, copy=False) for r, a in zip(result, avals)]


_NUMPYS = {np.ndarray, *np.sctypeDict.values()}


def evaluate_bare(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """As `evaluate`, of operands that fit each other, and without making an Array of the result."""
    values = []
    for a in args:
        if type(a) is ArrayImpl:
            values.append(a._value)
        elif type(a) in _NUMPYS or not isinstance(a, Array):
            values.append(a)
        elif isinstance(a, DeviceArray):
            return evaluate_on_device(primitive, args, params)
        else:
            values.append(a._value)  # type: ignore[attr-defined]
    run = primitive.impl
    if values and _is_special(values[0].dtype):
        run = implementation(primitive, [v.dtype for v in values])
    try:
        return run(*values, **params)
    except MemoryError as problem:
        _explain_size(problem, primitive, args, params)
        raise


def _explain_size(problem: Exception, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> None:
    """Raise an error with types and the line, if an operation failed because of the sizes of its results."""
    avals = infer_avals(primitive, [aval_of(a) for a in args], params)
    nbytes = sum(a.size * a.dtype.itemsize for a in avals)
    if isinstance(problem, FunctadError) or not (isinstance(problem, MemoryError) or nbytes >= 1 << 62):
        return
    types = ", ".join(a.str_short() for a in avals)
    raise TooLargeError(
        f"`{primitive.name}` would make {types} of {nbytes / 2**30:,.1f} GiB, for which there is no memory.\n"
        f"Your line: {user_source()}\n"
        "Check the shapes of its operands: a broadcast of two vectors makes a matrix. What is reduced at once need not "
        "be made under jit; lax.map goes through the parts of what is large"
    ) from problem


def check_values(primitive: Primitive, result: Any) -> None:
    """Raise where an operation made a NaN or an infinity, as far as `config` asks for it."""
    for r in result if primitive.multiple_results else (result,):
        if kind_of(r.dtype) not in "fc":
            continue
        for option, test, what in (("debug_nans", np.isnan, "a NaN"), ("debug_infs", np.isinf, "an infinity")):
            if getattr(config, option) and test(r).any():
                raise FloatingPointError(
                    f"`{primitive.name}` made {what} in a result of type {aval_of(r).str_short()}.\n"
                    f"Your line: {user_source()}\n"
                    f"Look at its operands there; `functad.{option}(False)` switches the check off"
                )


def _stays_weak(dtype: np.dtype, operands: Iterable[Aval]) -> bool:
    """A single result is weak when all operands of its dtype are: conditions and indices have no say.

    A complex number and its parts count as one dtype.
    """
    alike = _PARTS_AND_WHOLE.get(dtype, (dtype,))
    weak = [a.weak_type for a in operands if a.dtype in alike]
    return len(weak) > 0 and all(weak)


_PARTS_AND_WHOLE = {
    dtype: pair for pair in ((dtypes.float32, dtypes.complex64), (dtypes.float64, dtypes.complex128)) for dtype in pair
}


def _unaliased(result: Any, values: Sequence[Any]) -> Any:
    """Copies of results that are somebody's own array, whose flags must not change under him."""
    if isinstance(result, (list, tuple)):
        return [_unaliased(r, values) for r in result]
    return result.copy() if any(result is v for v in values) else result


def infer_avals(primitive: Primitive, avals: Sequence[Aval], params: dict[str, Any]) -> list[Aval]:
    """The types of a primitive's results."""
    if not primitive.multiple_results:
        return [infer_aval(primitive, avals, params)]
    for a in avals:
        if a.dtype is _KEY:
            _check_takes_keys(primitive, a)
    out = list(primitive.abstract_eval(*avals, **params))
    for a in out:
        _check_size(primitive, a)
    return out


def infer_aval(primitive: Primitive, avals: Sequence[Aval], params: dict[str, Any]) -> Aval:
    """The type of a primitive's only result."""
    for a in avals:
        if a.dtype is _KEY:
            _check_takes_keys(primitive, a)
    out: Aval = primitive.abstract_eval(*avals, **params)
    if out.shape:
        _check_size(primitive, out)
    if "weak_type" in params:
        return Aval(out.shape, out.dtype, params["weak_type"])
    for a in avals:
        if a.weak_type:
            return Aval(out.shape, out.dtype, "index_dtype" not in params and _stays_weak(out.dtype, avals))
    return out


_KEY = dtypes.key_fry


def _check_takes_keys(primitive: Primitive, operand: Aval) -> None:
    if not primitive.takes_keys:
        raise DTypeError(f"{primitive.name} was given {operand.str_short()}, but {dtypes.KEYS_ARE_NO_NUMBERS}")


def _check_size(primitive: Primitive, result: Aval) -> None:
    if math.prod(result.shape) >= 1 << 63:
        raise TooLargeError(
            f"`{primitive.name}` would make {result.str_short()}, which has {result.size:,} elements, more than any "
            "array can have (2**63 - 1); check the shapes of its operands"
        )


def aval_of(x: Any) -> Aval:
    """The type of anything array-like, Python scalars included."""
    if isinstance(x, Array):
        return x.aval
    if isinstance(x, (np.ndarray, np.generic)):
        return Aval(x.shape, x.dtype)
    dtype, weak = dtypes.dtype_of(x)
    return Aval(np.shape(x), dtype, weak)
