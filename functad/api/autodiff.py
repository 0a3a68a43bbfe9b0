"""Differentiation for users: jvp, linearize, linear_transpose, vjp, grad, value_and_grad.

Knows pytrees and argument numbers; the mathematics is in `functad.transforms`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from functad import dtypes
from functad.api.arguments import (
    FlatFunction,
    LeafNames,
    as_value,
    check_callable,
    function_name,
    leaf_aval,
    normalize_argnums,
)
from functad.array import ArrayImpl
from functad.errors import ArgumentError, DifferentiationError, TreeError
from functad.ir import Aval, UndefinedPrimal, Zero
from functad.primitives.common import instantiate
from functad.tracing import aval_of
from functad.transforms.forward import is_differentiable, jvp_flat
from functad.transforms.reverse import LinearMap, linearize_flat, transpose_flat
from functad.tree_util import (
    Partial,
    PyTreeDef,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_structure,
    tree_unflatten,
)

# --- forward mode -----------------------------------------------------------------------------------


def jvp(
    fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> tuple[Any, ...]:
    """Value and directional derivative (Jacobian-vector product) of a function.

    Args:
        fun: takes as many positional arguments as there are primals, pytrees of arrays.
        primals: the point, a tuple or list of pytrees.
        tangents: the direction: the same structure, shapes and dtypes; `float0` for integer primals.
        has_aux: `fun` returns a pair, of which the second is handed through.

    Returns:
        `(output, tangent of the output)`, with `has_aux` also the auxiliary output.

    Raises:
        TreeError, DifferentiationError: tangents that do not fit the primals.

    >>> import functad, functad.numpy as jnp
    >>> functad.jvp(jnp.sin, (0.,), (1.,))
    (Array(0., dtype=float32, weak_type=True), Array(1., dtype=float32, weak_type=True))
    """
    check_callable(fun, "jvp")
    for name, value in (("primals", primals), ("tangents", tangents)):
        if not isinstance(value, (tuple, list)):
            raise ArgumentError(
                f"jvp: {name} must be a tuple or list with one entry an argument, got a {type(value).__name__}; "
                f"for one argument write `({name[:-1]},)`"
            )
    primals, tangents = tuple(primals), tuple(tangents)
    flat, in_tree, names = _flatten_call(fun, primals, {})
    flat_tangents = _flatten_like(tangents, primals, "jvp: tangents", names)
    values = [as_value(p, names.describe(i)) for i, p in enumerate(flat)]
    checked = [
        _checked_tangent(t, v.aval, f"jvp: the tangent of `{names[i]}`")
        for i, (t, v) in enumerate(zip(flat_tangents, values))
    ]
    flat_fun = FlatFunction(fun, in_tree, has_aux=has_aux, transform="jvp")
    outs, out_tangents = jvp_flat(flat_fun, values, checked, names.origins(len(values)), flat_fun.output_count)
    assert flat_fun.out_tree is not None
    n = flat_fun.output_count()
    result = tree_unflatten(flat_fun.out_tree, outs[:n])
    tangent = tree_unflatten(flat_fun.out_tree, [_materialised(t) for t in out_tangents])
    if not has_aux:
        return result, tangent
    assert flat_fun.aux_tree is not None
    return result, tangent, tree_unflatten(flat_fun.aux_tree, outs[n:])


def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Value of a function and its derivative at that point as a function of the tangents.

    The function runs once; the derivative can then be applied to any number of tangents.

    Returns:
        `(output, fun_jvp)`, with `has_aux` also the auxiliary output. `fun_jvp(*tangents)` is linear.

    >>> import functad, functad.numpy as jnp
    >>> y, f_jvp = functad.linearize(jnp.sin, 0.)
    >>> f_jvp(2.)
    Array(2., dtype=float32, weak_type=True)
    """
    check_callable(fun, "linearize")
    outs, linear, record = linearized(fun, primals, has_aux, "linearize")

    def fun_jvp(*tangents: Any) -> Any:
        flat_tangents = _flatten_like(tangents, primals, "the linear function of linearize", record.names)
        given = []
        for i, (t, aval, active) in enumerate(zip(flat_tangents, record.avals, record.active)):
            checked = _checked_tangent(t, aval, f"linearize: the tangent of `{record.names[i]}`")
            if active:
                given.append(checked)
        return tree_unflatten(record.out_tree, [_materialised(t) for t in linear(given)])

    return (record.output(outs), Partial(fun_jvp), *record.aux(outs))


def linear_transpose(fun: Callable[..., Any], *primals: Any, reduce_axes: Sequence[str] = ()) -> Callable[..., Any]:
    """The transpose of a linear function, given example arguments (arrays or `ShapeDtypeStruct`).

    Returns:
        A function from a cotangent of the output to a tuple of cotangents of the arguments.

    >>> import functad
    >>> functad.linear_transpose(lambda x: 3. * x, 1.)(2.)
    (Array(6., dtype=float32, weak_type=True),)
    """
    check_callable(fun, "linear_transpose")
    flat, in_tree, names = _flatten_call(fun, primals, {})
    avals = [leaf_aval(p, names.describe(i)) for i, p in enumerate(flat)]

    def transposed(cotangent: Any) -> Any:
        flat_fun = FlatFunction(fun, in_tree, transform="linear_transpose")

        def checked_cotangents(outs: Sequence[Any]) -> list[Any]:
            assert flat_fun.out_tree is not None
            flat_cts = _flatten_cotangent(cotangent, flat_fun.out_tree, "linear_transpose")
            return [
                _checked_tangent(ct, aval_of(o), f"linear_transpose: the cotangent of output {i}")
                for i, (ct, o) in enumerate(zip(flat_cts, outs))
            ]

        results = transpose_flat(flat_fun, [UndefinedPrimal(a) for a in avals], checked_cotangents)
        args, _ = tree_unflatten(in_tree, [_materialised(r) for r in results])
        return args

    return transposed


# --- reverse mode -----------------------------------------------------------------------------------


def vjp(
    fun: Callable[..., Any], *primals: Any, has_aux: bool = False, reduce_axes: Sequence[str] = ()
) -> tuple[Any, ...]:
    """Value of a function and its pullback (vector-Jacobian product).

    Args:
        fun: takes the primals as positional arguments.
        primals: pytrees of arrays.
        has_aux: `fun` returns a pair, of which the second is handed through.

    Returns:
        `(output, fun_vjp)`, with `has_aux` also the auxiliary output. `fun_vjp(cotangent)` takes the structure of
        the output and returns a tuple with one cotangent an argument; it may be called any number of times.

    >>> import functad, functad.numpy as jnp
    >>> y, f_vjp = functad.vjp(jnp.sin, 0.)
    >>> f_vjp(3.)
    (Array(3., dtype=float32, weak_type=True),)
    """
    check_callable(fun, "vjp")
    outs, linear, record = linearized(fun, primals, has_aux, "vjp")

    def fun_vjp(cotangent: Any) -> Any:
        cts = _flatten_cotangent(cotangent, record.out_tree, "vjp")
        checked = [
            _checked_tangent(ct, aval_of(o), f"vjp: the cotangent of output {i}")
            for i, (ct, o) in enumerate(zip(cts, outs))
        ]
        found = iter(linear.transpose(checked))
        leaves = [_materialised(next(found) if a else Zero(v)) for a, v in zip(record.active, record.avals)]
        args, _ = tree_unflatten(record.in_tree, leaves)
        return args

    return (record.output(outs), Partial(fun_vjp), *record.aux(outs))


def value_and_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[str] = (),
) -> Callable[..., Any]:
    """A function that evaluates `fun` and its gradient at once.

    Args:
        fun: returns a scalar (with `has_aux` a pair of a scalar and anything).
        argnums: which positional arguments to differentiate, an int or several.
        has_aux: `fun` returns `(value, auxiliary)`.
        holomorphic: must be False: complex differentiation is not supported.
        allow_int: let integer arguments through; their gradient is `float0` zeros.

    Returns:
        A function of the same arguments that gives `(value, gradient)`, or `((value, auxiliary), gradient)`; the
        gradient has the structure of the differentiated argument (a tuple of them when argnums is a sequence).

    Raises:
        DifferentiationError: the output is no real scalar, or an argument is of integer dtype.

    >>> import functad
    >>> functad.value_and_grad(lambda x: x ** 2)(3.)
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    check_callable(fun, "grad")
    if holomorphic:
        raise ArgumentError("grad: holomorphic=True is not supported; differentiate real and imaginary part apart")

    @wraps(fun, updated=())
    def value_and_grad_fun(*args: Any, **kwargs: Any) -> Any:
        numbers = normalize_argnums(argnums, len(args), "grad", function_name(fun))
        dynamic = tuple(args[n] for n in numbers)
        flat, in_tree = tree_flatten((dynamic, {}))
        names = LeafNames(fun, {n: args[n] for n in numbers})
        values = [as_value(leaf, names.describe(i)) for i, leaf in enumerate(flat)]
        active = [is_differentiable(v.aval) for v in values]
        if not all(active) and not allow_int:
            raise_integer_input(fun, values, active, names)

        def of_dynamic(*dynamic_args: Any) -> Any:
            given = list(args)
            for n, arg in zip(numbers, dynamic_args):
                given[n] = arg
            return fun(*given, **kwargs)

        flat_fun = FlatFunction(of_dynamic, in_tree, has_aux=has_aux, transform="grad")
        outs, linear = linearize_flat(flat_fun, values, active, names.origins(len(values)), lambda: 1)
        assert flat_fun.out_tree is not None
        _check_scalar(fun, outs, flat_fun.out_tree)
        seed = ArrayImpl(np.ones((), outs[0].dtype), outs[0].weak_type)
        found = iter(linear.transpose([seed]))
        gradients = [_materialised(next(found) if a else Zero(v.aval)) for a, v in zip(active, values)]
        grads, _ = tree_unflatten(in_tree, gradients)
        if isinstance(argnums, (int, np.integer)):
            (grads,) = grads
        if has_aux:
            assert flat_fun.aux_tree is not None
            return (outs[0], tree_unflatten(flat_fun.aux_tree, outs[1:])), grads
        return outs[0], grads

    return value_and_grad_fun


def grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[str] = (),
) -> Callable[..., Any]:
    """A function that evaluates the gradient of `fun`; arguments as for `value_and_grad`.

    Returns:
        A function of the same arguments that gives the gradient, or `(gradient, auxiliary)` with `has_aux`.

    >>> import functad, functad.numpy as jnp
    >>> functad.grad(lambda p: jnp.sum(p["w"] * 2.))({"w": jnp.ones(3)})
    {'w': Array([2., 2., 2.], dtype=float32)}
    """
    evaluate = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int)

    @wraps(fun, updated=())
    def grad_fun(*args: Any, **kwargs: Any) -> Any:
        value, gradient = evaluate(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return grad_fun


# --- shared -----------------------------------------------------------------------------------------


class Linearized:
    """What is known of a call that was linearized: its trees, its types, which leaves are differentiated."""

    def __init__(self, in_tree: PyTreeDef, names: LeafNames, avals: list[Aval], flat_fun: FlatFunction) -> None:
        assert flat_fun.out_tree is not None
        self.in_tree = in_tree
        self.names = names
        self.avals = avals
        self.active = [is_differentiable(a) for a in avals]
        self.out_tree: PyTreeDef = flat_fun.out_tree
        self.aux_tree = flat_fun.aux_tree

    def output(self, outs: Sequence[Any]) -> Any:
        return tree_unflatten(self.out_tree, outs[: self.out_tree.num_leaves])

    def aux(self, outs: Sequence[Any]) -> tuple[Any, ...]:
        if self.aux_tree is None:
            return ()
        return (tree_unflatten(self.aux_tree, outs[self.out_tree.num_leaves :]),)


def linearized(
    fun: Callable[..., Any], primals: Sequence[Any], has_aux: bool, transform: str
) -> tuple[list[Any], LinearMap, Linearized]:
    flat, in_tree, names = _flatten_call(fun, tuple(primals), {})
    values = [as_value(p, names.describe(i)) for i, p in enumerate(flat)]
    active = [is_differentiable(v.aval) for v in values]
    flat_fun = FlatFunction(fun, in_tree, has_aux=has_aux, transform=transform)
    outs, linear = linearize_flat(flat_fun, values, active, names.origins(len(values)), flat_fun.output_count)
    record = Linearized(in_tree, names, [v.aval for v in values], flat_fun)
    return outs, linear, record


def _flatten_call(fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    flat, in_tree = tree_flatten((args, kwargs))
    return flat, in_tree, LeafNames(fun, dict(enumerate(args)), kwargs)


def _flatten_like(given: tuple[Any, ...], primals: tuple[Any, ...], what: str, names: LeafNames) -> list[Any]:
    """The leaves of tangents, whose structure must be that of the primals."""
    leaves, structure = tree_flatten(given)
    expected = tree_structure(primals)
    if structure != expected:
        raise TreeError(
            f"{what} must have the structure of the primals.\n  primals: {expected}\n  given:   {structure}\n"
            f"The leaves of the primals are {', '.join(names.all()) or '(none)'}"
        )
    return leaves


def _flatten_cotangent(cotangent: Any, out_tree: PyTreeDef, transform: str) -> list[Any]:
    leaves, structure = tree_flatten(cotangent)
    if structure != out_tree:
        paths = ", ".join(keystr(path) or "(the whole)" for path, _ in tree_flatten_with_path(cotangent)[0])
        raise TreeError(
            f"{transform}: the cotangent must have the structure of the function's output.\n"
            f"  output:    {out_tree}\n  cotangent: {structure} with leaves at {paths}"
        )
    return leaves


def _checked_tangent(t: Any, aval: Aval, what: str) -> Any:
    """A tangent or cotangent of the given type; `Zero` for one of an integer value."""
    if not is_differentiable(aval):
        if getattr(t, "dtype", None) != dtypes.float0:
            raise DifferentiationError(
                f"{what} belongs to a value of type {aval.str_short()}, which has no derivative: give zeros of dtype "
                f"float0, numpy.zeros({aval.shape}, functad.dtypes.float0)"
            )
        return Zero(aval)
    value = as_value(t, lambda: what)
    found = value.aval
    if found.shape != aval.shape or (found.dtype != aval.dtype and not found.weak_type):
        raise DifferentiationError(
            f"{what} must have type {aval.str_short()}, but has {found.str_short()}; "
            f"convert or reshape it (for instance with .astype('{aval.dtype.name}'))"
        )
    return value if found.dtype == aval.dtype else value.astype(aval.dtype)


def _materialised(x: Any) -> Any:
    if not isinstance(x, Zero):
        return x
    if not is_differentiable(x.aval):
        return np.zeros(x.aval.shape, dtypes.float0)
    return instantiate(x)


def _check_scalar(fun: Callable[..., Any], outs: Sequence[Any], out_tree: PyTreeDef) -> None:
    name = function_name(fun)
    if out_tree.num_leaves != 1 or out_tree != tree_structure(0):
        raise DifferentiationError(
            f"grad: {name} must return one scalar, but returned a pytree {out_tree}. Return the loss alone, or "
            "(loss, other outputs) with has_aux=True; `functad.jacrev` differentiates several outputs"
        )
    aval = aval_of(outs[0])
    if aval.shape != ():
        raise DifferentiationError(
            f"grad: {name} must return a scalar, but returned an array of type {aval.str_short()}. Reduce it, for "
            "instance with `.sum()` or `.mean()`; `functad.jacrev` and `functad.vjp` differentiate array outputs"
        )
    if aval.dtype.kind != "f":
        raise DifferentiationError(
            f"grad: {name} must return a real floating-point scalar, but returned {aval.str_short()}"
        )


def raise_integer_input(
    fun: Callable[..., Any], values: Sequence[Any], active: Sequence[bool], names: LeafNames
) -> None:
    bad = ", ".join(
        f"`{names[i]}` of type {v.aval.str_short()}" for i, (v, a) in enumerate(zip(values, active)) if not a
    )
    raise DifferentiationError(
        f"grad: {function_name(fun)} cannot be differentiated with respect to {bad}: only floating-point values have "
        "derivatives. Convert (`x.astype('float32')`, `2.` instead of `2`), choose other argnums, or pass "
        "allow_int=True to get float0 zeros"
    )
