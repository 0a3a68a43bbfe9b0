"""How a primitive becomes loops: the kinds of rule that the `lower` field of a `Primitive` may hold.

A rule knows neither the CPU nor CUDA, and no compiler: it gives the text of scalar expressions, or of kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.records import NamedTuple, Record

OfSlices = tuple[dict[str, Any], Sequence[bool]] | None
"""How an operation gives a slice along the first axis of its result: its parameters, and for each operand whether it
reads the slice that stands there too, or all of it; None where several slices are mixed."""

# Running sums and products are kept in this dtype, so that the error does not grow with the length.
_WIDE = {"float16": "float32", "bfloat16": "float32", "float32": "float64", "complex64": "complex128"}


class Scalar(Record):
    """An element-wise operation: one Python expression of scalars.

    expression: a template such as `"{0} + {1}"`, or `(dtype, **params) -> template`, where dtype is that of the first
        operand. `{0}`, `{1}`, … stand for the operands, `{T}` for the cast to the operand's dtype and `{R}` for that
        to the result's. A primitive with several results gives a tuple.
    all_dtypes: call `expression` with the tuple of all operands' dtypes instead.
    kept: the operands whose constants belong in the text, because the code for them is better: exponents.

    >>> Scalar("sqrt({0} * {0} + {1} * {1})").expression
    'sqrt({0} * {0} + {1} * {1})'
    """

    expression: str | Callable[..., str]
    all_dtypes: bool = False
    kept: tuple[int, ...] = ()

    def text(self, eqn: Any) -> str:
        """The template for an equation."""
        if isinstance(self.expression, str):
            return self.expression
        dtypes = tuple(a.aval.dtype for a in eqn.invars)
        return self.expression(dtypes if self.all_dtypes else dtypes[0], **eqn.params)

    def of_slices(self, eqn: Any) -> OfSlices:
        """The same of slices; numbers have none."""
        return None if len(eqn.outvars) > 1 else (eqn.params, [bool(a.aval.shape) for a in eqn.invars])


class Indexed(Record):
    """An operation that moves elements: says which operand's element lies at an index of the result.

    rule: `(context, index, **params) -> expression`; `context.read(k, index)` reads operand k.
    free: it is index arithmetic and nothing else, so it is done wherever the result is used.
    same_memory: it keeps the row-major order of the elements, so the result can be the operand's memory.
    once: it reads no element twice, so what it reads can as well be computed there.
    repeats: it repeats what it reads along axes that are new or had one element, and does nothing else.
    sliced: `(operand, **params) -> OfSlices`, for the operand's type; None where it is not said.

    >>> import functad, functad.numpy as jnp
    >>> from functad.extend.core import Primitive
    >>> from functad.interpreters import mlir
    >>> flip_p = Primitive("flip")
    >>> _ = flip_p.def_abstract_eval(lambda x: x)
    >>> mlir.register_lowering(flip_p, Indexed(lambda context, index: context.read(0, (3 - index[0],))))
    >>> functad.jit(lambda x: flip_p.bind(2 * x))(jnp.arange(4.))
    Array([6., 4., 2., 0.], dtype=float32)
    """

    rule: Callable[..., str]
    free: bool = False
    same_memory: bool = False
    once: bool = False
    repeats: bool = False
    sliced: Callable[..., OfSlices] | None = None

    def of_slices(self, eqn: Any) -> OfSlices:
        """What `sliced` says; None where nothing is said."""
        return self.sliced(eqn.invars[0].aval, **eqn.params) if self.sliced is not None else None

    def element(self, context: Any, index: Sequence[Any], eqn: Any, result: int) -> str:
        """The text of the element of a result of an equation."""
        extra = {"result": result} if eqn.primitive.multiple_results else {}
        return self.rule(context, tuple(index), **eqn.params, **extra)


class Reduction(Record):
    """A reduction over `params["axes"]`: `kind` is sum, prod, max, min, and, or, xor.

    >>> import functad, functad.numpy as jnp
    >>> from functad.extend.core import Primitive
    >>> from functad.interpreters import mlir
    >>> largest_p = Primitive("largest")
    >>> _ = largest_p.def_abstract_eval(lambda x, *, axes: functad.core.ShapedArray((), x.dtype))
    >>> mlir.register_lowering(largest_p, Reduction("max"))
    >>> functad.jit(lambda x: largest_p.bind(x, axes=(0,)))(jnp.arange(4.))
    Array(3., dtype=float32)
    """

    kind: str

    def axes(self, eqn: Any) -> tuple[int, ...]:
        """The axes over which an equation goes."""
        return tuple(eqn.params["axes"])

    def of_slices(self, eqn: Any) -> OfSlices:
        """The same over the axes that slices have, unless the first one is gathered."""
        axes = self.axes(eqn)
        return None if 0 in axes else ({**eqn.params, "axes": tuple(d - 1 for d in axes)}, [True])


class Running(Record):
    """All elements up to each one along `params["axis"]`, from its end if `params["reverse"]`, combined.

    kind: sum, prod, max, min.

    >>> import functad, functad.numpy as jnp
    >>> from functad.extend.core import Primitive
    >>> from functad.interpreters import mlir
    >>> best_p = Primitive("best_so_far")
    >>> _ = best_p.def_abstract_eval(lambda x, *, axis: x)
    >>> mlir.register_lowering(best_p, Running("max"))
    >>> functad.jit(lambda x: best_p.bind(x, axis=0))(jnp.array([1., 3., 2.]))
    Array([1., 3., 3.], dtype=float32)
    """

    kind: str

    def direction(self, eqn: Any) -> tuple[int, bool]:
        """The axis along which an equation goes, and whether from its end."""
        return eqn.params["axis"], eqn.params["reverse"]

    def kept_in(self, dtype: np.dtype) -> np.dtype:
        """The dtype in which the total of elements of some dtype is carried along."""
        return np.dtype(_WIDE.get(dtype.name, dtype) if self.kind in ("sum", "prod") else dtype)


class UpdateLoops(NamedTuple):
    """The loops over updates: their shape, and which of them are `ordered`.

    Updates at different steps of a loop that is not ordered never meet at one place.

    >>> UpdateLoops((50, 4), (True, False))  # fifty rows, of which some may go to one place; elements go side by side
    UpdateLoops(shape=(50, 4), ordered=(True, False))
    """

    shape: tuple[int, ...]
    ordered: tuple[bool, ...]


class Scattered(Record):
    """An operation that puts updates to elements of its first operand, one after another, at places that may be data.

    loops: `(*avals, **params) -> UpdateLoops`, whose order is that in which updates are put to one element.
    rule: `(context, index, **params) -> (place, condition, update)` at an index of these loops: the index in the
        result, the name of a condition under which the update counts, or "", and the update; `context` is that of
        `Indexed` rules.
    kind: how an update is put to what lies there: set, add, mul, min, max.
    accumulator: `(*avals, **params) -> dtype` in which that is done, before it is rounded once; the result's if None.

    >>> import functad, functad.numpy as jnp
    >>> from functad.extend.core import Primitive
    >>> from functad.interpreters import mlir
    >>> def one_more(context, index):
    ...     place = context.place(context.read(1, index), context.avals[1].dtype, context.out.shape[0])
    ...     return (place,), "", "1"
    >>> count_p = Primitive("count")
    >>> _ = count_p.def_abstract_eval(lambda counts, values: counts)
    >>> loops = lambda counts, values: UpdateLoops(values.shape, (True,))
    >>> mlir.register_lowering(count_p, Scattered(loops, one_more, "add"))
    >>> functad.jit(count_p.bind)(jnp.zeros(3, int), jnp.array([0, 2, 2, 2]))
    Array([1, 0, 3], dtype=int32)
    """

    loops: Callable[..., UpdateLoops]
    rule: Callable[..., tuple[Sequence[Any], str, str]]
    kind: str = "set"
    accumulator: Callable[..., np.dtype] | None = None


class Loops(Record):
    """An operation with kernels of its own: `rule(target, ins, outs, **params)` adds them to the target.

    in_place: pairs (operand, result) that may share a buffer.
    joins: for an operation that only joins its operands, the parameter that names the axis of the result along which
        they lie one behind another. Operands may then be written to their parts of the result from the start.
    indexed: what the operation is as an `Indexed` one, for a result that is computed where it is read.
    composite: `(*avals, **params) -> function` of the operands that computes the result by other primitives, which
        fuse, and which any target has; or None where the kernel is faster.
    keys: whether its operands may be random keys; those of what joins may.

    >>> import functad, functad.numpy as jnp
    >>> from functad.extend.core import Primitive
    >>> from functad.interpreters import mlir
    >>> def kernels(target, ins, outs):
    ...     body = '''
    ...         for i in range(start, stop):
    ...             steps, value = 0, x[i]
    ...             while value > 1:
    ...                 value = 3 * value + 1 if value % 2 else value // 2
    ...                 steps += 1
    ...             out[i] = steps
    ...     '''
    ...     target.kernel("collatz", body, {"x": (ins[0], "r"), "out": (outs[0], "w")}, ins[0].size)
    >>> collatz_p = Primitive("collatz")
    >>> _ = collatz_p.def_abstract_eval(lambda x: x)
    >>> mlir.register_lowering(collatz_p, Loops(kernels))
    >>> functad.jit(collatz_p.bind)(jnp.array([1, 3, 27]))
    Array([  0,   7, 111], dtype=int32)
    """

    rule: Callable[..., None]
    in_place: tuple[tuple[int, int], ...] = ()
    joins: str | None = None
    indexed: Indexed | None = None
    composite: Callable[..., Any] | None = None
    keys: bool = False


class ControlFlow(Record):
    """An operation that runs Programs held by its parameters: kind is "scan", "while" or "cond".

    closed: `(eqn, inline, as_operands) -> eqn`: with its Programs inlined, and their constants among the operands.
    pruned: `(eqn, used, clean) -> eqn`: without results that nobody uses, and what only those need.
    carried: `(eqn) -> pairs`: each operand that goes from step to step, and the result that it becomes; of a loop.
    """

    kind: str
    closed: Callable[..., Any]
    pruned: Callable[..., Any]
    carried: Callable[..., Sequence[tuple[Any, Any]]] = lambda eqn: ()


class Call(Record):
    """A call of the Program that a parameter holds; its equations stand there instead before Programs become loops.

    again: `(**params) -> bool`: whether what it computes must not be found to be the same as what was computed before.
    compiled: whether it is compiled as one where operations run at once; else these run one by one.
    """

    parameter: str
    again: Callable[..., bool] = lambda **params: False
    compiled: bool = False


class Defined(Record):
    """An operation that a function defines: what the function does to its operands stands there instead, as of a call.

    program: `(*avals, **params) -> Program`.
    """

    program: Callable[..., Any]


class OnWords(Record):
    """An operation on random keys: what it does to their words stands there instead before Programs are compiled.

    function: `(*operands, **params) -> results`, where each key is its word of 64 bits.
    uses: whether it uses keys, which should not be used again.
    """

    function: Callable[..., Sequence[Any]]
    uses: bool = False


class Placement(Record):
    """Its operands, which lie on the devices `params["devices"]` then, where operations run at once.

    What is compiled runs on one device, so these are the operands themselves before Programs become loops.
    """


class Callback(Record):
    """A call of a Python function: the one kind of operation that may do something besides computing its results.

    effects: whether it does. Then its equation is never dropped, shared with an equal one, or moved out of a loop, and
        it runs after all such equations that stand before it.
    """

    effects: bool


class Contraction(Record):
    """`dot_general`: sums of products over shared axes, done by a matrix library where it knows the dtype."""

    def of_slices(self, eqn: Any) -> OfSlices:
        """Of slices of the left operand, if those are what the first axis of the result goes through."""
        (contract, others), batch = eqn.params["dimension_numbers"]
        if batch != ((), ()) or 0 in contract or not eqn.invars[0].aval.shape:
            return None
        return {**eqn.params, "dimension_numbers": ((tuple(d - 1 for d in contract), others), batch)}, [True, False]
