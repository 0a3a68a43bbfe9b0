"""Operations computed by functions that a user has written for Numba: element by element, or on whole arrays.

Knows such a function's text, and how generated kernels call it by name; derivatives are `functad.user_kernels`' affair.
"""

from __future__ import annotations

import dis
import math
import os
from collections.abc import Callable, Sequence
from functools import cached_property
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from functad.dtypes import compute_dtype, is_narrow_float
from functad.errors import ArgumentError, BatchingError, DTypeError
from functad.evaluation import aval_of
from functad.ir import Absent, Aval, Primitive
from functad.lowering_rules import Loops, Scalar
from functad.primitives.builders import elementwise_batch
from functad.primitives.common import NOT_LINEAR, broadcast_in_dim, move_axis, reshape
from functad.primitives.kernels.conversion import converted
from functad.system import numba_here
from functad.system.once import imported
from functad.tracing import bind

PREFIX = "user_function_"
by_symbol: dict[str, UserFunction] = {}
"""The functions that generated kernels may call, by the name that they have there."""

# Numba's options that have no meaning inside of a kernel.
_DROPPED = {"nopython", "parallel", "cache", "nogil", "forceobj", "pipeline_class", "error_model"}


class UserFunction:
    """A function for Numba: what `numba.njit` returned, or a plain Python function.

    out: for the array form, `(*ShapeDtypeStructs) -> types of the results`. batch: "loop", a rule, or None.
    """

    def __init__(self, kernel: Any, name: str, out: Any, batch: Any) -> None:
        self.python: FunctionType = getattr(kernel, "py_func", kernel)
        given = getattr(kernel, "targetoptions", {})
        self.options = {k: v for k, v in sorted(given.items()) if k not in _DROPPED and v}
        self.name = name
        self.out = out
        self.batch = batch
        if any(i.opname == "RAISE_VARARGS" for i in dis.get_instructions(self.python)):
            raise ArgumentError(
                f"numba_primitive: {name} has a `raise` or an `assert`, and compiled kernels pass on no exception. "
                "Check the arguments before the call, or mark bad results with NaN"
            )

    def __str__(self) -> str:
        return self.name

    @cached_property
    def symbol(self) -> str:
        """The function's name in generated kernels: it tells the text, and what the function closes over."""
        digest = imported("hashlib").sha256()
        for part in _parts(self.python, set()):
            digest.update(part.encode() + b"\0")
        digest.update(repr(self.options).encode())
        symbol = f"{PREFIX}{digest.hexdigest()[:16]}"
        by_symbol[symbol] = self
        return symbol

    @cached_property
    def compiled(self) -> Callable[..., Any]:
        """The function as kernels call it: compiled by Numba; an integer or float division by 0 does not raise."""
        made: Callable[..., Any] = imported("numba").njit(error_model="numpy", **self.options)(self.python)
        return made

    @cached_property
    def vectorized(self) -> Callable[..., Any]:
        """The element-wise function as one of ndarrays."""
        if _runs_as_python():
            return np.frompyfunc(self.python, self.python.__code__.co_argcount, 1)
        made: Callable[..., Any] = imported("numba").vectorize(self.python)
        return made


def _runs_as_python() -> bool:
    return not numba_here.is_installed() or bool(imported("numba").config.DISABLE_JIT)


_LIBRARIES = ("numpy", "math", "cmath", "numba", "functad")  # modules whose text is not the user's


def _parts(value: Any, seen: set[int]) -> list[str]:
    """All that decides what a function computes, as text."""
    if hasattr(value, "py_func"):  # compiled by Numba with options of its own
        return [repr(getattr(value, "targetoptions", "")), *_parts(value.py_func, seen)]
    if id(value) in seen:
        return ["seen"]
    if isinstance(value, FunctionType):
        seen.add(id(value))
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        names = [n for code in _codes(value.__code__) for n in code.co_names]
        found = [value.__globals__[n] for n in names if n in value.__globals__]
        users = [m for m in (*cells, *found) if isinstance(m, ModuleType) and not m.__name__.startswith(_LIBRARIES)]
        found += [vars(m)[n] for m in users for n in names if n in vars(m)]  # Numba takes their values of now
        return [part for x in (value.__code__, *cells, *found, *(value.__defaults__ or ())) for part in _parts(x, seen)]
    if isinstance(value, CodeType):
        constants = [part for c in value.co_consts for part in _parts(c, seen)]
        return [value.co_code.hex(), repr(value.co_names), repr(value.co_varnames), *constants]
    if isinstance(value, np.ndarray):
        return [value.dtype.str, repr(value.shape), value.tobytes().hex()]
    if isinstance(value, (tuple, frozenset)):
        return [type(value).__name__, *(part for x in value for part in _parts(x, seen))]
    if isinstance(value, np.generic) or value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return [type(value).__name__, repr(value)]
    if isinstance(value, (ModuleType, BuiltinFunctionType, type, np.ufunc)):
        return [repr(value)]
    return [os.urandom(16).hex()]  # who knows what it is: compiled anew in each process


def _codes(code: CodeType) -> list[CodeType]:
    return [code, *(c for inner in code.co_consts if isinstance(inner, CodeType) for c in _codes(inner))]


_NO_RULE = Absent(
    "it is a Numba function without a derivative; give numba_primitive one with jvp=rule or vjp=(fwd, bwd)"
)
_SHOWN = "it takes a user's function; tests/primitives/test_numba_primitive.py tests it"


# --- element by element -----------------------------------------------------------------------------------


def numba_elementwise(function: UserFunction, *args: Any, dtype: np.dtype) -> Any:
    """The function of scalars at each element; operands are of equal shape or rank 0."""
    return bind(numba_elementwise_p, *args, function=function, dtype=dtype)


def _elementwise_aval(*avals: Aval, function: UserFunction, dtype: np.dtype) -> Aval:
    shape = next((a.shape for a in avals if a.shape), ())
    return Aval(shape, dtype)


def _elementwise_impl(*args: np.ndarray, function: UserFunction, dtype: np.dtype) -> np.ndarray:
    wide = [np.asarray(a, compute_dtype(a.dtype)) for a in args]  # as in kernels
    return converted(np.asarray(function.vectorized(*wide)), dtype)


def _elementwise_expression(dtypes: Sequence[np.dtype], *, function: UserFunction, dtype: np.dtype) -> str:
    return f"{{R}}({function.symbol}({', '.join(f'{{{i}}}' for i in range(len(dtypes)))}))"


numba_elementwise_p: Primitive = Primitive(
    name="numba_elementwise",
    doc="A user's function of scalars, at each element.",
    multiple_results=False,
    abstract_eval=_elementwise_aval,
    impl=_elementwise_impl,
    jvp=_NO_RULE,
    transpose=NOT_LINEAR,
    batch=lambda size, args, dims, **params: elementwise_batch(lambda: numba_elementwise_p, size, args, dims, **params),
    lower=Scalar(_elementwise_expression, all_dtypes=True),
    examples=Absent(_SHOWN),
)


# --- on whole arrays --------------------------------------------------------------------------------------


def numba_call(function: UserFunction, *args: Any) -> list[Any]:
    """The function on arrays, of which it is given the results' memory, too."""
    return list(bind(numba_call_p, *args, function=function, batch=None, mapped=(False,) * len(args)))


def _one_example(avals: Sequence[Aval], mapped: Sequence[bool]) -> list[Aval]:
    return [Aval(a.shape[1:], a.dtype) if m else a for a, m in zip(avals, mapped)]


def _call_aval(*avals: Aval, function: UserFunction, batch: int | None, mapped: Sequence[bool]) -> list[Aval]:
    outs = function.out(*_one_example(avals, mapped))
    for a in (*avals, *outs):
        if is_narrow_float(a.dtype):
            raise DTypeError(
                f"numba_primitive: {function.name} takes or returns {a.str_short()}, and Numba's arrays have no "
                "elements of that dtype in kernels; convert to float32 around the call"
            )
    for o in outs:
        if not o.shape:
            raise ArgumentError(
                f"numba_primitive: a result of {function.name} has rank 0, which a function cannot write to; give it "
                "the shape (1,), and take element 0 of the result"
            )
    return [o if batch is None else Aval((batch, *o.shape), o.dtype) for o in outs]


def _call_impl(
    *args: np.ndarray, function: UserFunction, batch: int | None, mapped: Sequence[bool]
) -> list[np.ndarray]:
    outs = [
        np.empty(a.shape, a.dtype)
        for a in _call_aval(*map(aval_of, args), function=function, batch=batch, mapped=mapped)
    ]
    arrays = [np.ascontiguousarray(a) if np.ndim(a) else a for a in args]
    run = function.python if _runs_as_python() else function.compiled
    for q in range(1 if batch is None else batch):
        ins = [a[q] if m else a for a, m in zip(arrays, mapped)]
        run(*(i if np.ndim(i) else i[()] for i in ins), *(outs if batch is None else [o[q] for o in outs]))
    return outs


def _call_batch(
    axis_size: int,
    args: Sequence[Any],
    dims: Sequence[int | None],
    *,
    function: UserFunction,
    batch: int | None,
    mapped: Sequence[bool],
) -> tuple[list[Any], list[int | None]]:
    if function.batch is None:
        raise BatchingError(
            f"numba_primitive: {function.name} was defined with batch=None, so vmap cannot map it; use batch='loop', "
            "or give a rule"
        )
    fronted = [a if d is None else move_axis(a, d, 0) for a, d in zip(args, dims)]
    if callable(function.batch) and batch is None:
        outs, out_mapped = function.batch(axis_size, [d is not None for d in dims], fronted)
        return outs, [0 if m else None for m in out_mapped]
    if batch is None:
        now = tuple(d is not None for d in dims)
        outs = bind(numba_call_p, *fronted, function=function, batch=axis_size, mapped=now)
        return list(outs), [0] * len(outs)
    # Mapped for the second time: both axes become one, along which every operand that has either is repeated.
    merged = []
    for a, d, m in zip(fronted, dims, mapped):
        if d is not None or m:
            shape = aval_of(a).shape
            core = shape[(d is not None) + m :]
            kept = ([0] if d is not None else []) + ([1] if m else []) + list(range(2, 2 + len(core)))
            a = broadcast_in_dim(a, shape=(axis_size, batch, *core), broadcast_dimensions=kept)
            a = reshape(a, (axis_size * batch, *core))
        merged.append(a)
    now = tuple(d is not None or m for d, m in zip(dims, mapped))
    outs = bind(numba_call_p, *merged, function=function, batch=axis_size * batch, mapped=now)
    return [reshape(o, (axis_size, batch, *o.shape[1:])) for o in outs], [0] * len(outs)


def _call_kernel(
    target: Any,
    ins: Sequence[Any],
    outs: Sequence[Any],
    *,
    function: UserFunction,
    batch: int | None,
    mapped: Sequence[bool],
) -> None:
    buffers: dict[str, tuple[Any, str]] = {}
    given = []
    for i, (buffer, m) in enumerate(zip(ins, mapped)):
        name = f"x{i}"
        buffers[name] = (buffer, "r")
        given.append(_argument(name, buffer.shape, m))
    for i, buffer in enumerate(outs):
        name = f"out{i}"
        buffers[name] = (buffer, "w")
        given.append(_argument(name, buffer.shape, batch is not None))
    body = f"for q in range(start, stop):\n    {function.symbol}({', '.join(given)})\n"
    size = sum(b.size for b in (*ins, *outs))
    nbytes = sum(b.size * b.dtype.itemsize for b in (*ins, *outs))
    # How long it takes is unknown: as if it did much with each element, so that a batch is shared among threads.
    target.kernel(f"call_{function.name}", body, buffers, 1 if batch is None else batch, flops=100 * size, bytes=nbytes)


def _argument(name: str, shape: Sequence[int], mapped: bool) -> str:
    """The text of an operand: an array, an example of a mapped one, or a number."""
    core = shape[1:] if mapped else shape
    if not core:
        return f"{name}[{'q' if mapped else 0}]"
    sizes = ", ".join(map(str, core))
    return f"array_view({name}, {f'q * {math.prod(core)}' if mapped else 0}, ({sizes},))"


numba_call_p: Primitive = Primitive(
    name="numba_call",
    doc="A user's function of arrays that writes its results in place.",
    multiple_results=True,
    abstract_eval=_call_aval,
    impl=_call_impl,
    jvp=_NO_RULE,
    transpose=NOT_LINEAR,
    batch=_call_batch,
    lower=Loops(_call_kernel),
    examples=Absent(_SHOWN),
)
