"""Derivative rules of the user's own: custom_jvp, custom_vjp, custom_gradient.

Knows what rules are given and return, as pytrees; the equations that carry them are in `functad.calls.custom_rules`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial, reduce, update_wrapper
from typing import Any

from functad.api.arguments import (
    P,
    R,
    as_known,
    as_value,
    check_callable,
    description_of,
    function_name,
    is_python_number,
    short,
)
from functad.api.rule_calls import CustomVJPPrimal, Decorated, RuleCall, SymbolicZero, shown_zero
from functad.calls.custom_rules import Backward, call_custom, custom_jvp_call_p, custom_vjp_call_p
from functad.errors import CustomRuleError, LeakedTracerError, NoRuleError, TreeError
from functad.evaluation import aval_of
from functad.ir import Program, Zero
from functad.records import NamedTuple
from functad.tracing import eval_program, trace_to_program
from functad.tree_util import (
    PyTreeDef,
    broadcast_prefix,
    keystr,
    register_pytree_node,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_map,
    tree_structure,
    tree_unflatten,
)

# --- forward mode -----------------------------------------------------------------------------------


class custom_jvp(Decorated[P, R]):
    """A function with a derivative rule of your own for forward mode, which reverse mode is made of, too.

    Args:
        fun: a function of pytrees of arrays, whose arguments all have a position.
        nondiff_argnums: positions of arguments that have no derivative, such as functions and options; the rule is
            given them first, one by one.
        nondiff_argnames: the same by name.

    The rule, `rule(primals, tangents) -> (result, tangent of the result)`, takes two tuples with one entry an
    argument, must be linear in the tangents, and runs only where the function is differentiated.

    Raises:
        NoRuleError: the function is called before a rule is defined.
        CustomRuleError: the rule returns other structures, shapes or dtypes than the function.

    >>> import functad, functad.numpy as jnp
    >>> @functad.custom_jvp
    ... def log1pexp(x):
    ...     return jnp.log(1. + jnp.exp(x))
    >>> @log1pexp.defjvp
    ... def rule(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return log1pexp(x), (1. - 1. / (1. + jnp.exp(x))) * t
    >>> functad.grad(log1pexp)(100.)
    Array(1., dtype=float32, weak_type=True)
    """

    kind = "custom_jvp"
    jvp: Callable[..., Any] | None = None
    symbolic_zeros = False

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Define the rule, and return it; serves as a decorator.

        symbolic_zeros: give the rule `SymbolicZero`s for tangents known to be zero, instead of arrays of zeros.
        """
        check_callable(jvp, "defjvp")
        self.jvp = jvp
        self.symbolic_zeros = symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Define the rule by one function an argument: `(tangent, result, *primals) -> its share of the tangent`.

        None stands for an argument in which the derivative is zero.

        >>> import functad, functad.numpy as jnp
        >>> f = functad.custom_jvp(lambda x, y: jnp.sin(x) * y)
        >>> f.defjvps(lambda t, out, x, y: jnp.cos(x) * t * y, lambda t, out, x, y: jnp.sin(x) * t)
        >>> functad.grad(f, argnums=(0, 1))(0., 2.)
        (Array(2., dtype=float32, weak_type=True), Array(0., dtype=float32, weak_type=True))
        """
        if self.nondiff_argnums:
            raise CustomRuleError("defjvps does not go with nondiff_argnums: define the rule as a whole with defjvp")

        def jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
            if len(jvps) != len(primals):
                raise CustomRuleError(
                    f"defjvps was given {len(jvps)} rules, but {function_name(self.fun)} was called with "
                    f"{len(primals)} arguments; give one rule an argument, None where the derivative is zero"
                )
            out: Any = self(*primals)  # type: ignore[call-arg]
            shares = [rule(t, out, *primals) for rule, t in zip(jvps, tangents) if rule is not None]
            if not shares:
                return out, tree_map(lambda x: SymbolicZero(aval_of(x)), out)
            return out, tree_map(lambda *parts: reduce(operator.add, parts), *shares)

        self.defjvp(jvp)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.jvp is None:
            raise NoRuleError(
                f"{function_name(self.fun)} is a custom_jvp function without a rule; define one:\n"
                f"    @{function_name(self.fun)}.defjvp\n"
                "    def rule(primals, tangents): ...; return result, tangent"
            )
        call = self.call(self.arguments(args, kwargs))
        rule = _FlatJvp(self.jvp, call, self.symbolic_zeros)
        outs = call_custom(
            custom_jvp_call_p, call, call.take_operands(), jvp=rule, name=call.name, symbolic_zeros=self.symbolic_zeros
        )
        assert call.out_tree is not None
        return tree_unflatten(call.out_tree, outs)


class _FlatJvp:
    """A forward rule as one of leaves."""

    def __init__(self, rule: Callable[..., Any], call: RuleCall, symbolic_zeros: bool) -> None:
        self.rule = rule
        self.call = call
        self.symbolic_zeros = symbolic_zeros

    def __str__(self) -> str:
        return function_name(self.rule)

    def __call__(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        call = self.call
        shown = [shown_zero(t, self.symbolic_zeros) for t in tangents]
        result = self.rule(*call.statics(primals), call.unflattened(primals), call.unflattened(shown))
        out, tangent = call.pair(self.rule, result, "tangent of the result")
        outs = call.checked_outputs(self.rule, out)
        pairs, tree = tree_flatten_with_path(tangent)
        if tree != call.out_tree:
            raise CustomRuleError(
                f"{call.rule_name(self.rule)} must return a tangent of the structure of its result.\n"
                f"  result:  {call.out_tree}\n  tangent: {tree}"
            )
        out_tangents = [
            call.checked_derivative(self.rule, t, o.aval, f"tangent{keystr(path)}", "the result")
            for (path, t), o in zip(pairs, outs)
        ]
        return outs, out_tangents


# --- reverse mode -----------------------------------------------------------------------------------


class custom_vjp(Decorated[P, R]):
    """A function with derivative rules of your own for reverse mode (`grad`, `vjp`, `jacrev`).

    Args:
        fun: a function of pytrees of arrays, whose arguments all have a position.
        nondiff_argnums: positions of arguments that have no derivative and are never traced, such as functions
            and options.
        nondiff_argnames: the same by name.

    `defvjp(fwd, bwd)` defines the rules: `fwd(*args) -> (result, residuals)` runs instead of the function, once;
    `bwd(*nondiff_args, residuals, cotangent) -> tuple` gives one cotangent an argument, None where it is zero.

    Raises:
        NoRuleError: the function is called before its rules are defined.
        DifferentiationError: forward mode (`jvp`, `jacfwd`, `hessian`) comes to the function.
        CustomRuleError: a rule returns structures, shapes or dtypes that do not fit the function.

    >>> import functad, functad.numpy as jnp
    >>> @functad.custom_vjp
    ... def clip_gradient(x, limit):
    ...     return x
    >>> def fwd(x, limit):
    ...     return x, limit
    >>> def bwd(limit, ct):
    ...     return jnp.clip(ct, -limit, limit), None
    >>> clip_gradient.defvjp(fwd, bwd)
    >>> functad.grad(lambda x: 10. * clip_gradient(x, 1.))(3.)
    Array(1., dtype=float32, weak_type=True)
    """

    kind = "custom_vjp"
    fwd: Callable[..., Any] | None = None
    bwd: Callable[..., Any] | None = None
    symbolic_zeros = False

    def defvjp(
        self,
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Define the rules.

        symbolic_zeros: give `fwd` a `CustomVJPPrimal` for each leaf, which tells whether it is differentiated, and
            `bwd` `SymbolicZero`s for cotangents known to be zero. optimize_remat: accepted for JAX's sake.
        """
        check_callable(fwd, "defvjp")
        check_callable(bwd, "defvjp")
        self.fwd = fwd
        self.bwd = bwd
        self.symbolic_zeros = symbolic_zeros

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.fwd is None or self.bwd is None:
            raise NoRuleError(
                f"{function_name(self.fun)} is a custom_vjp function without rules; define them:\n"
                f"    {function_name(self.fun)}.defvjp(fwd, bwd)"
            )
        call = self.call(self.arguments(args, kwargs))
        if call.traced:
            raise LeakedTracerError(
                f"{call.name} (custom_vjp) was given a traced value for an argument in nondiff_argnums="
                f"{self.nondiff_argnums}. Only functions and options belong there: take the argument out of "
                "nondiff_argnums and let bwd return None for it"
            )
        rule = _FlatVjp(self.fwd, self.bwd, call, self.symbolic_zeros)
        outs = call_custom(
            custom_vjp_call_p,
            call,
            call.take_operands(),
            fwd=rule,
            bwd=function_name(self.bwd),
            name=call.name,
            symbolic_zeros=self.symbolic_zeros,
        )
        assert call.out_tree is not None
        return tree_unflatten(call.out_tree, outs)


class _FlatVjp:
    """The rules for reverse mode as functions of leaves."""

    def __init__(self, fwd: Callable[..., Any], bwd: Callable[..., Any], call: RuleCall, symbolic_zeros: bool) -> None:
        self.fwd = fwd
        self.bwd = bwd
        self.call = call
        self.symbolic_zeros = symbolic_zeros

    def __str__(self) -> str:
        return function_name(self.fwd)

    def forward(self, primals: Sequence[Any], active: Sequence[bool]) -> tuple[list[Any], list[Any], Backward]:
        call = self.call
        given = [CustomVJPPrimal(p, a) for p, a in zip(primals, active)] if self.symbolic_zeros else primals
        result = self.fwd(*call.merged((), call.unflattened(given)))
        out, residuals = call.pair(self.fwd, result, "residuals")
        outs = call.checked_outputs(self.fwd, out)
        assert call.out_tree is not None
        pairs, tree = tree_flatten_with_path(residuals)
        leaves = [
            as_known(r, lambda path=path: f"residuals{keystr(path)} of {call.rule_name(self.fwd)}")  # type: ignore[misc]
            for path, r in pairs
        ]
        # Python's numbers stay with the rule; the others are operands of the derivative.
        known = {i: r for i, r in enumerate(leaves) if is_python_number(r)}
        values = [r for i, r in enumerate(leaves) if i not in known]
        return outs, values, partial(self._backward, tree, known, call.out_tree)

    def _backward(
        self,
        tree: PyTreeDef,
        known: dict[int, Any],
        out_tree: PyTreeDef,
        residuals: Sequence[Any],
        cts: Sequence[Any],
    ) -> list[Any]:
        call = self.call
        shown = tree_unflatten(out_tree, [shown_zero(ct, self.symbolic_zeros) for ct in cts])
        values = iter(residuals)
        leaves = [known[i] if i in known else next(values) for i in range(tree.num_leaves)]
        result = self.bwd(*call.statics(()), tree_unflatten(tree, leaves), shown)
        count = len(call.positions)
        if not isinstance(result, (tuple, list)) or len(result) != count:
            raise CustomRuleError(
                f"{call.rule_name(self.bwd)} must return a tuple with one cotangent for each of the {count} arguments "
                f"({', '.join(call.argument_names())}), None where it is zero, but returned {short(result)}"
            )
        try:
            found = broadcast_prefix(tuple(result), call.numbers, is_leaf=lambda x: x is None)
        except TreeError as problem:
            raise CustomRuleError(
                f"{call.rule_name(self.bwd)} must return cotangents of the structure of the arguments, None where "
                f"one is zero.\n  arguments: {call.tree}\n"
                f"  returned:  {tree_structure(result)}\n{problem}"
            ) from None
        return [
            Zero(aval) if ct is None else call.checked_derivative(
                self.bwd, ct, aval, f"the cotangent of `{call.names[i]}`", "an argument"
            )
            for i, (ct, aval) in enumerate(zip(found, call.in_avals))
        ]  # fmt: skip


# --- a function that returns its own pullback ---------------------------------------------------------


class _Closure(NamedTuple):
    """A traced rule: the values that it closes over, which are residuals, and the Program that takes them."""

    program: Program
    tree: PyTreeDef
    values: list[Any]


register_pytree_node(
    _Closure, lambda c: (c.values, (c.program, c.tree)), lambda aux, v: _Closure(aux[0], aux[1], list(v))
)


def custom_gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose body gives its derivative along: `fun(*args)` returns `(result, pullback)`.

    Args:
        fun: `pullback(cotangent)` gives the cotangent of the argument, or a tuple of them for several.

    Raises:
        ArgumentError: fun is no function.
        CustomRuleError: when it is called, fun returns no such pair.

    >>> import functad
    >>> @functad.custom_gradient
    ... def f(x):
    ...     return x ** 2, lambda ct: (ct * x,)
    >>> functad.grad(f)(3.)
    Array(3., dtype=float32, weak_type=True)
    """
    check_callable(fun, "custom_gradient")

    def primal(*args: Any, **kwargs: Any) -> Any:
        return _pair_of(fun, fun(*args, **kwargs))[0]

    def fwd(*args: Any, **kwargs: Any) -> tuple[Any, _Closure]:
        out, pullback = _pair_of(fun, fun(*args, **kwargs))
        leaves, tree = tree_flatten(out)
        structure: list[PyTreeDef] = []

        def flat(*cts: Any) -> list[Any]:
            cotangents = pullback(tree_unflatten(tree, cts))
            if not isinstance(cotangents, (tuple, list)):
                cotangents = (cotangents,)
            found, made = tree_flatten(tuple(cotangents))
            structure.append(made)
            return [
                as_value(ct, lambda: f"a cotangent returned by the pullback of {function_name(fun)}") for ct in found
            ]

        avals = [aval_of(o) for o in leaves]
        program = trace_to_program(flat, avals, name=f"pullback of {function_name(fun)}")
        return out, _Closure(program.replace(consts=()), structure[0], list(program.consts))

    def bwd(closure: _Closure, ct: Any) -> Any:
        found = eval_program(closure.program, tree_leaves(ct), closure.values)
        return tree_unflatten(closure.tree, found)

    update_wrapper(primal, fun, assigned=description_of(fun))
    wrapped = custom_vjp(primal)
    wrapped.defvjp(fwd, bwd)
    return wrapped


def _pair_of(fun: Callable[..., Any], result: Any) -> tuple[Any, Any]:
    if not (isinstance(result, (tuple, list)) and len(result) == 2 and callable(result[1])):
        raise CustomRuleError(
            f"custom_gradient: {function_name(fun)} must return (result, function of its cotangent), but returned "
            f"{short(result)}"
        )
    return result[0], result[1]


__all__ = ["custom_gradient", "custom_jvp", "custom_vjp"]
