"""Differentiation for users: jvp, linearize, linear_transpose, vjp, grad, value_and_grad.

Knows pytrees and argument numbers; the mathematics is in `functad.transforms`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Literal, TypeVar, overload

import numpy as np

from functad import dtypes
from functad.api.arguments import (
    FlatFunction,
    LeafNames,
    P,
    R,
    as_value,
    check_argnums,
    check_callable,
    described_like,
    function_name,
    leaf_aval,
    normalize_argnums,
)
from functad.api.derivative_types import check_inputs, check_outputs, check_scalar
from functad.array import ArrayImpl
from functad.device_arrays import DevicePlace, at_place, device_place_of, gpus
from functad.dtypes import kind_of
from functad.errors import ArgumentError, DifferentiationError, TreeError
from functad.evaluation import aval_of
from functad.ir import Aval, Program, UndefinedPrimal, Zero
from functad.primitives.common import convert_element_type, instantiate
from functad.records import NamedTuple
from functad.tracing import runs_at_once, trace_to_program, value_behind
from functad.transforms import backward
from functad.transforms.forward import is_differentiable, jvp_flat
from functad.transforms.reverse import LinearMap, ReplayedLinearMap, linearize_flat, transpose_flat
from functad.tree_util import (
    PyTreeDef,
    keystr,
    register_pytree_node,
    tree_flatten,
    tree_flatten_with_path,
    tree_structure,
    tree_unflatten,
)

T = TypeVar("T")  # of the first argument

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
        ArgumentError: primals or tangents are no tuple or list.
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
    flat_tangents = _flatten_like(tangents, tree_structure(primals), "jvp: tangents", names)
    values = _primals(flat, names)
    checked = [
        _checked_tangent(t, aval_of(v), lambda i=i: f"jvp: the tangent of `{names[i]}`")  # type: ignore[misc]
        for i, (t, v) in enumerate(zip(flat_tangents, values))
    ]
    flat_fun = FlatFunction(fun, in_tree, has_aux=has_aux, transform="jvp", keeps_numbers=True)
    outs, out_tangents = jvp_flat(flat_fun, values, checked, names.origins(len(values)), flat_fun.output_count)
    assert flat_fun.out_tree is not None
    n = flat_fun.output_count()
    result = tree_unflatten(flat_fun.out_tree, outs[:n])
    derivatives = [materialised(t, aval_of(o), _place(o)) for t, o in zip(out_tangents, outs)]
    tangent = tree_unflatten(flat_fun.out_tree, derivatives)
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

    return (record.output(outs), Pushforward(linear, record.signature), *record.aux(outs))


def linear_transpose(fun: Callable[..., Any], *primals: Any, reduce_axes: Sequence[str] = ()) -> Callable[..., Any]:
    """The transpose of a linear function, given example arguments (arrays or `ShapeDtypeStruct`).

    Returns:
        A function from a cotangent of the output to a tuple of cotangents of the arguments.

    Raises:
        ArgumentError: fun is no function.
        TreeError, DifferentiationError: the cotangent has another structure or type than the output, or fun is not
            linear.

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
                _checked_tangent(ct, aval_of(o), lambda i=i: f"linear_transpose: the cotangent of output {i}")  # type: ignore[misc]
                for i, (ct, o) in enumerate(zip(flat_cts, outs))
            ]

        results = transpose_flat(flat_fun, [UndefinedPrimal(a) for a in avals], checked_cotangents)
        args, _ = tree_unflatten(in_tree, [materialised(r, a) for r, a in zip(results, avals)])
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

    return (record.output(outs), Pullback(linear, record.signature), *record.aux(outs))


@overload
def value_and_grad(
    fun: Callable[Concatenate[T, P], R],
    *,
    has_aux: bool = ...,
    holomorphic: bool = ...,
    allow_int: bool = ...,
    reduce_axes: Sequence[str] = ...,
) -> Callable[Concatenate[T, P], tuple[R, T]]: ...


@overload
def value_and_grad(
    fun: Callable[P, R],
    argnums: int | Sequence[int],
    has_aux: bool = ...,
    holomorphic: bool = ...,
    allow_int: bool = ...,
    reduce_axes: Sequence[str] = ...,
) -> Callable[P, tuple[R, Any]]: ...


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
        holomorphic: promises that `fun` is complex differentiable; arguments and output must then be complex.
            Without it the output must be real; the gradient in a complex argument x + iy is ∂/∂x − i ∂/∂y.
        allow_int: let integer arguments through; their gradient is `float0` zeros.

    Returns:
        A function of the same arguments that gives `(value, gradient)`, or `((value, auxiliary), gradient)`; the
        gradient has the structure of the differentiated argument (a tuple of them when argnums is a sequence).

    Raises:
        DifferentiationError: the output is no scalar, or it or an argument is of a dtype other than said above.

    >>> import functad
    >>> functad.value_and_grad(lambda x: x ** 2)(3.)
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    check_callable(fun, "grad")
    check_argnums(argnums, "grad")
    name = function_name(fun)
    alone = isinstance(argnums, (int, np.integer))

    @described_like(fun)
    def value_and_grad_fun(*args: Any, **kwargs: Any) -> Any:
        numbers = normalize_argnums(argnums, len(args), "grad", name)
        chosen = [args[n] for n in numbers]
        flat, in_tree = tree_flatten(chosen[0] if alone else tuple(chosen))
        names = LeafNames(fun, dict(zip(numbers, chosen)))
        values = _primals(flat, names)
        avals = [aval_of(v) for v in values]
        active = [kind_of(a.dtype) in "fc" for a in avals]
        check_inputs("grad", fun, avals, names, holomorphic, allow_int)

        def of_tree(given: Any) -> Any:
            everything = list(args)
            for n, arg in zip(numbers, (given,) if alone else given):
                everything[n] = arg
            return fun(*everything, **kwargs)

        flat_fun = FlatFunction(
            of_tree,
            in_tree,
            has_aux=has_aux,
            transform="grad",
            name=name,
            keeps_numbers=True,
            whole=True,
        )
        linearize = backward.linearize_once if runs_at_once() else linearize_flat
        outs, linear = linearize(flat_fun, values, active, names.origins(len(values)), lambda: 1)
        assert flat_fun.out_tree is not None
        check_scalar(fun, outs, flat_fun.out_tree)
        out = aval_of(outs[0])
        check_outputs("grad", fun, [out], holomorphic)
        one = at_place(ArrayImpl(np.array(1, out.dtype), out.weak_type), _place(outs[0]))
        found = iter(linear.transpose([one]))
        places = map(_place, values)
        gradients = [
            materialised(next(found) if a else Zero(aval), aval, p) for a, aval, p in zip(active, avals, places)
        ]
        grads = in_tree.unflatten(gradients)
        if has_aux:
            assert flat_fun.aux_tree is not None
            return (outs[0], tree_unflatten(flat_fun.aux_tree, outs[1:])), grads
        return outs[0], grads

    return value_and_grad_fun


@overload
def grad(
    fun: Callable[Concatenate[T, P], Any],
    *,
    has_aux: Literal[False] = ...,
    holomorphic: bool = ...,
    allow_int: bool = ...,
    reduce_axes: Sequence[str] = ...,
) -> Callable[Concatenate[T, P], T]: ...


@overload
def grad(
    fun: Callable[Concatenate[T, P], Any],
    *,
    has_aux: bool,
    holomorphic: bool = ...,
    allow_int: bool = ...,
    reduce_axes: Sequence[str] = ...,
) -> Callable[Concatenate[T, P], Any]: ...


@overload
def grad(
    fun: Callable[P, Any],
    argnums: int | Sequence[int],
    has_aux: bool = ...,
    holomorphic: bool = ...,
    allow_int: bool = ...,
    reduce_axes: Sequence[str] = ...,
) -> Callable[P, Any]: ...


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

    @described_like(fun)
    def grad_fun(*args: Any, **kwargs: Any) -> Any:
        value, gradient = evaluate(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return grad_fun


# --- shared -----------------------------------------------------------------------------------------


class LinearizedTypes:
    """The types, structures and places of a linearized call: what its derivative needs to check what it is given."""

    def __init__(
        self, fun: Callable[..., Any], in_tree: PyTreeDef, values: Sequence[Any], out_tree: PyTreeDef, outs: Any
    ) -> None:
        self.fun = fun
        self.in_tree = in_tree
        self.in_avals = [aval_of(v) for v in values]
        self.in_places = [_place(v) for v in values]
        self.out_places = [_place(o) for o in outs]
        self.active = [is_differentiable(a) for a in self.in_avals]
        self.out_tree = out_tree
        self.out_avals = [aval_of(o) for o in outs]

    def differentiable(self) -> tuple[list[Aval], list[DevicePlace | None]]:
        """Types and places of the inputs that have a derivative."""
        chosen = [i for i, active in enumerate(self.active) if active]
        return [self.in_avals[i] for i in chosen], [self.in_places[i] for i in chosen]

    def arguments(self) -> tuple[Any, ...]:
        """The arguments' structure, with a number for each leaf."""
        args, _ = tree_unflatten(self.in_tree, range(len(self.in_avals)))
        return tuple(args)

    def names(self) -> LeafNames:
        return LeafNames(self.fun, dict(enumerate(self.arguments())))


class _Derivative:
    """A linear function of pytrees, itself a pytree: its leaves are the residuals, so it may leave a `jit`."""

    def __init__(self, linear: LinearMap | ReplayedLinearMap, signature: LinearizedTypes) -> None:
        self._linear = linear
        self._signature = signature

    def flatten(self) -> tuple[list[Any], tuple[Program, LinearizedTypes]]:
        linear = self._linear  # read once: another thread may do the same
        if isinstance(linear, LinearMap):
            program = linear.to_program("linear")
            self._linear = linear = ReplayedLinearMap(program.close(), program.consts)
        return linear.residuals, (linear.program, self._signature)

    @property
    def _avals(self) -> Sequence[Aval]:
        raise NotImplementedError

    def _apply(self, leaves: Sequence[Any]) -> Any:
        raise NotImplementedError

    @property
    def jaxpr(self) -> Program:
        """The linear Program that it runs, with the residuals as constants."""
        return trace_to_program(lambda *leaves: tree_flatten(self._apply(leaves))[0], self._avals)

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {function_name(self._signature.fun)}\n{self.jaxpr}"

    @classmethod
    def unflatten(cls, static: tuple[Program, LinearizedTypes], residuals: Sequence[Any]) -> Any:
        program, signature = static
        return cls(ReplayedLinearMap(program, residuals), signature)


class Pushforward(_Derivative):
    """`fun_jvp(*tangents) -> tangent of the output`, as `linearize` returns it. It prints as the Program that it runs.

    >>> import functad, functad.numpy as jnp
    >>> functad.linearize(jnp.sin, 0.)[1]
    Pushforward of sin
    { lambda ; a:f32[]. let b:f32[] = mul a 1.0:f32[] in (b,) }
    """

    @property
    def _avals(self) -> Sequence[Aval]:
        return [aval.to_tangent_aval() for aval in self._signature.in_avals]

    def _apply(self, leaves: Sequence[Any]) -> Any:
        args, _ = tree_unflatten(self._signature.in_tree, leaves)
        return self(*args)

    def __call__(self, *tangents: Any) -> Any:
        s = self._signature
        names = s.names()
        flat = _flatten_like(tangents, tree_structure(s.arguments()), "the linear function of linearize", names)
        checked = [
            _checked_tangent(t, aval, lambda i=i: f"linearize: the tangent of `{names[i]}`")  # type: ignore[misc]
            for i, (t, aval) in enumerate(zip(flat, s.in_avals))
        ]
        outs = self._linear([t for t, active in zip(checked, s.active) if active])
        found = [materialised(t, a, p) for t, a, p in zip(outs, s.out_avals, s.out_places)]
        return tree_unflatten(s.out_tree, found)


class Pullback(_Derivative):
    """`fun_vjp(cotangent) -> one cotangent an argument`, as `vjp` returns it. It prints as the Program that it runs.

    >>> import functad, functad.numpy as jnp
    >>> functad.vjp(jnp.sin, 0.)[1]
    Pullback of sin
    { lambda ; a:f32[]. let b:f32[] = mul a 1.0:f32[] in (b,) }
    """

    @property
    def _avals(self) -> Sequence[Aval]:
        return [aval.to_tangent_aval() for aval in self._signature.out_avals]

    def _apply(self, leaves: Sequence[Any]) -> Any:
        return self(tree_unflatten(self._signature.out_tree, leaves))

    def __call__(self, cotangent: Any) -> Any:
        s = self._signature
        cts = _flatten_cotangent(cotangent, s.out_tree, "vjp")
        checked = [
            _checked_tangent(ct, aval, lambda i=i: f"vjp: the cotangent of output {i}", integers=True)  # type: ignore[misc]
            for i, (ct, aval) in enumerate(zip(cts, s.out_avals))
        ]
        found = iter(self._linear.transpose(checked))
        inputs = zip(s.active, s.in_avals, s.in_places)
        leaves = [materialised(next(found) if a else Zero(v), v, p) for a, v, p in inputs]
        args, _ = tree_unflatten(s.in_tree, leaves)
        return args


for _cls in (Pushforward, Pullback):
    register_pytree_node(_cls, _cls.flatten, _cls.unflatten)


class LinearizedCall(NamedTuple):
    """A linearized call: its signature, and the structure of its auxiliary output."""

    signature: LinearizedTypes
    aux_tree: PyTreeDef | None

    def output(self, outs: Sequence[Any]) -> Any:
        return tree_unflatten(self.signature.out_tree, outs[: len(self.signature.out_avals)])

    def aux(self, outs: Sequence[Any]) -> tuple[Any, ...]:
        if self.aux_tree is None:
            return ()
        return (tree_unflatten(self.aux_tree, outs[len(self.signature.out_avals) :]),)


def linearized(
    fun: Callable[..., Any], primals: Sequence[Any], has_aux: bool, transform: str, names: LeafNames | None = None
) -> tuple[list[Any], LinearMap, LinearizedCall]:
    """Linearize a function of pytrees in all of its floating-point arguments."""
    flat, in_tree, own_names = _flatten_call(fun, tuple(primals), {})
    names = names or own_names
    values = _primals(flat, names)
    active = [is_differentiable(aval_of(v)) for v in values]
    name = function_name(names.fun)
    flat_fun = FlatFunction(fun, in_tree, has_aux=has_aux, transform=transform, name=name, keeps_numbers=True)
    outs, linear = linearize_flat(flat_fun, values, active, names.origins(len(values)), flat_fun.output_count)
    assert flat_fun.out_tree is not None
    mapped = outs[: flat_fun.output_count()]
    signature = LinearizedTypes(names.fun, in_tree, values, flat_fun.out_tree, mapped)
    return outs, linear, LinearizedCall(signature, flat_fun.aux_tree)


def _primals(leaves: Sequence[Any], names: LeafNames) -> list[Any]:
    """The point at which a function is differentiated; Python's integers and booleans are given to it as they are."""
    values: list[Any] = []
    for i, leaf in enumerate(leaves):
        if type(leaf) is ArrayImpl:
            values.append(leaf)
            continue
        value = as_value(leaf, names.describe(i))
        values.append(leaf if isinstance(leaf, int) else value)
    return values


def _flatten_call(fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    flat, in_tree = tree_flatten((args, kwargs))
    return flat, in_tree, LeafNames(fun, dict(enumerate(args)), kwargs)


def _flatten_like(given: tuple[Any, ...], expected: PyTreeDef, what: str, names: LeafNames) -> list[Any]:
    """The leaves of tangents, whose structure must be that of the primals."""
    leaves, structure = tree_flatten(given)
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


def _checked_tangent(t: Any, aval: Aval, what: Callable[[], str], integers: bool = False) -> Any:
    """A tangent or cotangent of the given type; `Zero` for one of an integer value.

    integers: that one may also be of the value's own type, as `tree_map(zeros_like, outputs)` makes it.
    """
    if not is_differentiable(aval):
        float0 = getattr(t, "dtype", None) == dtypes.float0 and np.shape(t) == aval.shape
        if not float0 and not (integers and as_value(t, what).aval.same_type(aval)):
            raise DifferentiationError(
                f"{what()} belongs to a value of type {aval.str_short()}, which has no derivative: give zeros of dtype "
                f"float0, numpy.zeros({aval.shape}, functad.dtypes.float0)"
            )
        return Zero(aval)
    value = as_value(t, what)
    found = value.aval
    if found.shape != aval.shape or (
        found.dtype != aval.dtype and not (found.weak_type and kind_of(found.dtype) == kind_of(aval.dtype))
    ):
        raise DifferentiationError(
            f"{what()} must have type {aval.str_short()}, but has {found.str_short()}; "
            f"convert or reshape it (for instance with .astype('{aval.dtype.name}'))"
        )
    return value if found.dtype == aval.dtype else value.astype(aval.dtype)


def _place(x: Any) -> DevicePlace | None:
    return device_place_of(value_behind(x)) if gpus else None


def materialised(x: Any, aval: Aval, place: DevicePlace | None = None) -> Any:
    """A tangent or cotangent as an array of the given type; `float0` zeros for one of an integer value.

    place: that of the value whose derivative it is, which numbers that nobody computed on a device are put beside.
    """
    if place is None and type(x) is ArrayImpl and (x.aval is aval or x.aval == aval):
        return x
    if not is_differentiable(aval):
        return np.zeros(aval.shape, dtypes.float0)
    value = as_value(instantiate(x), lambda: "a derivative")
    found = convert_element_type(value, aval.dtype, aval.weak_type) if value.aval != aval else value
    return at_place(found, place)
