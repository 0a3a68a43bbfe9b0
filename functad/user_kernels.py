"""numba_primitive: a function that you have written for Numba as an operation of functad.

Knows how to put its arguments in order and to give it a derivative; the primitives lie in `functad.primitives`.

Shapes:
    Arrays keep theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from functad import dtypes
from functad import numpy as jnp
from functad.api import ShapeDtypeStruct
from functad.api.custom_rules import custom_jvp, custom_vjp
from functad.errors import ArgumentError, ShapeError
from functad.ir import Aval
from functad.primitives.user_kernels import UserFunction, numba_call, numba_elementwise

Out = Callable[..., Any]


def numba_primitive(
    kernel: Callable[..., Any] | None = None,
    *,
    elementwise: bool = False,
    out: Any = None,
    jvp: Callable[..., Any] | Sequence[Callable[..., Any] | None] | None = None,
    vjp: tuple[Callable[..., Any], Callable[..., Any]] | None = None,
    batch: Any = "loop",
    name: str | None = None,
) -> Callable[..., Any]:
    """Turn a function written for Numba into an operation that `jit` compiles into its kernels.

    Args:
        kernel: what `numba.njit` returned, or a plain Python function that Numba can compile. Without it a decorator
            is returned. It must not raise, and must not change its inputs. Numba's types hold in it: `2 * x` of a
            float32 is a float64, and is computed at half the speed of `x + x`.
        elementwise: the function maps numbers to a number, and is applied at each element, fused with what stands
            around it. Arguments are promoted to one dtype and broadcast. Otherwise it is
            `kernel(*inputs, *outputs)`, takes C-contiguous arrays (numbers, where an input has rank 0), and writes
            every element of its outputs, which are uninitialised.
        out: the type of the result. With `elementwise` a dtype, that of the operands by default; otherwise a function
            of the inputs' types, `out(*ShapeDtypeStructs)`, that returns a `ShapeDtypeStruct` or a tuple of them;
            by default the type of the first input. A result needs at least one axis.
        jvp: the derivative: a rule `(primals, tangents) -> (result, tangent)`, or a list of one function an argument,
            `(tangent, result, *primals) -> its share of the tangent`, as for `custom_jvp`.
        vjp: the derivative for reverse mode instead: the pair `(fwd, bwd)`, as for `custom_vjp`.
        batch: how `vmap` maps the array form: "loop" calls it for each example, on all threads under `jit`; a rule
            `(axis_size, in_batched, args) -> (outs, out_batched)` with lists, mapped axes first; None: not at all.
        name: what errors and printed Programs call it, an identifier; by default the function's own name.

    Returns:
        A function of arrays, which runs the kernel at once, or becomes part of what `jit` compiles. The array form
        returns one array, or a tuple where `out` does. Integer and float divisions by 0 do not raise in it.

    Raises:
        ArgumentError: both jvp and vjp, options that do not fit the form, or a function that raises exceptions.
        ShapeError: when it is called, `out` gives something else than types of arrays.
        NoRuleError, DifferentiationError: it is differentiated, and has no derivative.

    >>> import functad, numba, functad.numpy as jnp
    >>> @functad.numba_primitive(elementwise=True, jvp=[lambda t, out, x: t * 2. * jnp.sign(x) * jnp.sqrt(out)])
    ... @numba.njit
    ... def square(x):
    ...     return x * x
    >>> functad.jit(functad.grad(lambda x: square(x).sum()))(jnp.array([1., -2.]))
    Array([ 2., -4.], dtype=float32)

    >>> @functad.numba_primitive(out=lambda x: functad.ShapeDtypeStruct((2,), x.dtype))
    ... def extrema(x, out):
    ...     out[0], out[1] = x.min(), x.max()
    >>> functad.vmap(extrema)(jnp.array([[1., 3., 2.], [6., 4., 5.]]))
    Array([[1., 3.], [4., 6.]], dtype=float32)
    """
    if kernel is None:
        return partial(numba_primitive, elementwise=elementwise, out=out, jvp=jvp, vjp=vjp, batch=batch, name=name)
    python = getattr(kernel, "py_func", kernel)
    if not hasattr(python, "__code__"):
        raise ArgumentError(
            f"numba_primitive takes what numba.njit returned, or a Python function, but was given {kernel!r}"
        )
    if jvp is not None and vjp is not None:
        raise ArgumentError("numba_primitive: give jvp or vjp; a forward rule serves reverse mode, too")
    if elementwise and callable(out) and not isinstance(out, type):
        raise ArgumentError("numba_primitive: with elementwise=True, out is the dtype of the result, not a function")
    if elementwise and batch != "loop":
        raise ArgumentError("numba_primitive: with elementwise=True, vmap needs no batch; leave it out")
    if not elementwise and batch != "loop" and batch is not None and not callable(batch):
        raise ArgumentError(f"numba_primitive: batch={batch!r} must be 'loop', a rule, or None")
    if name is not None and not name.isidentifier():
        raise ArgumentError(f"numba_primitive: name={name!r} must be a Python identifier; it becomes part of kernels")
    shown = name or python.__name__
    if not shown.isidentifier():  # that of a lambda
        shown = "user_kernel"
    made = _elementwise(kernel, shown, out) if elementwise else _on_arrays(kernel, shown, out, batch)
    made.__name__, made.__doc__ = shown, python.__doc__
    if vjp is not None:
        reverse = custom_vjp(made)
        reverse.defvjp(*vjp)
        return reverse
    if jvp is not None:
        forward = custom_jvp(made)
        if callable(jvp):
            forward.defjvp(jvp)
        else:
            forward.defjvps(*jvp)
        return forward
    return made


def _elementwise(kernel: Callable[..., Any], name: str, out: Any) -> Callable[..., Any]:
    function = UserFunction(kernel, name, None, "loop")
    count = function.python.__code__.co_argcount
    if not count:
        raise ArgumentError(f"numba_primitive: {name} takes no argument, so it has no elements to be applied to")
    result = None if out is None else dtypes.as_dtype(out)

    def call(*args: Any) -> Any:
        if len(args) != count:
            raise ArgumentError(f"{name} takes {count} arguments, but was given {len(args)}")
        arrays = [jnp.asarray(a) for a in args]
        dtype = jnp.result_type(*arrays)
        shape = jnp.broadcast_shapes(*(a.shape for a in arrays))
        operands = [a.astype(dtype) if a.dtype != dtype else a for a in arrays]
        operands = [jnp.broadcast_to(a, shape) if a.shape else a for a in operands]
        return numba_elementwise(function, *operands, dtype=result or operands[0].dtype)

    return call


def _on_arrays(kernel: Callable[..., Any], name: str, out: Out | None, batch: Any) -> Callable[..., Any]:
    python = getattr(kernel, "py_func", kernel)

    def structure(avals: Sequence[Aval]) -> Any:
        given = [ShapeDtypeStruct(a.shape, a.dtype) for a in avals]
        return given[0] if out is None else out(*given)

    def types(*avals: Aval) -> list[Aval]:
        made = structure(avals)
        found = list(made) if isinstance(made, (tuple, list)) else [made]
        for o in found:
            if not hasattr(o, "shape") or not hasattr(o, "dtype"):
                raise ShapeError(
                    f"numba_primitive: out of {name} must return a ShapeDtypeStruct, or a tuple of them, not {made!r}"
                )
        expected = python.__code__.co_argcount
        if len(avals) + len(found) != expected:
            raise ArgumentError(
                f"{name} takes {expected} arrays, inputs and outputs, but was given {len(avals)} inputs for "
                f"{len(found)} outputs"
            )
        return [Aval(o.shape, dtypes.as_dtype(o.dtype)) for o in found]

    function = UserFunction(kernel, name, types, batch)

    def call(*args: Any) -> Any:
        if not args:
            raise ArgumentError(f"{name} needs an input at least")
        arrays = [jnp.asarray(a) for a in args]
        outs = numba_call(function, *arrays)
        return tuple(outs) if isinstance(structure([a.aval for a in arrays]), (tuple, list)) else outs[0]

    return call


__all__ = ["numba_primitive"]
