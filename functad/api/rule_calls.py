"""A call of a function with a derivative rule: its arguments, and the check of what the rule returns.

Knows pytrees, signatures and types; neither how a rule is defined nor when it runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial, update_wrapper
from typing import Any, Generic

import numpy as np

from functad import dtypes
from functad.api.arguments import (
    FlatFunction,
    LeafNames,
    P,
    R,
    as_known,
    as_value,
    check_callable,
    description_of,
    function_name,
    positional_names,
    short,
)
from functad.dtypes import kind_of
from functad.errors import ArgumentError, CustomRuleError
from functad.evaluation import aval_of
from functad.ir import Aval, Placeholder, Zero
from functad.primitives.arithmetic import stop_gradient
from functad.primitives.common import convert_element_type, zeros_of
from functad.tracing import is_tracer
from functad.transforms.forward import is_differentiable
from functad.tree_util import (
    PyTreeDef,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_map,
    tree_structure,
    tree_unflatten,
)


class SymbolicZero(Placeholder):
    """A tangent or cotangent known to be zero, which rules defined with `symbolic_zeros=True` are given.

    Any rule may also return it. Attributes: aval, shape, dtype, ndim, size; no elements.

    >>> import functad
    >>> product = functad.custom_jvp(lambda x, y: x * y)
    >>> def rule(primals, tangents):
    ...     (x, y), (dx, dy) = primals, tangents
    ...     print([isinstance(t, SymbolicZero) for t in tangents])
    ...     return x * y, dx * y
    >>> _ = product.defjvp(rule, symbolic_zeros=True)
    >>> float(functad.grad(product)(2., 3.))
    [False, True]
    3.0
    """

    __slots__ = ()


class CustomVJPPrimal:
    """An argument of a forward rule defined with `symbolic_zeros=True`: its value, and whether it is differentiated.

    >>> import functad
    >>> product = functad.custom_vjp(lambda x, y: x * y)
    >>> def forward(x, y):
    ...     print(x.perturbed, y.perturbed)
    ...     return x.value * y.value, (x.value, y.value)
    >>> product.defvjp(forward, lambda kept, ct: (ct * kept[1], ct * kept[0]), symbolic_zeros=True)
    >>> float(functad.grad(product)(2., 3.))
    True False
    3.0
    """

    __slots__ = ("perturbed", "value")

    def __init__(self, value: Any, perturbed: bool) -> None:
        self.value = value
        self.perturbed = perturbed

    def __repr__(self) -> str:
        return f"CustomVJPPrimal(value={self.value!r}, perturbed={self.perturbed})"


def custom_vjp_primal_tree_values(tree: Any) -> Any:
    """The tree with each `CustomVJPPrimal` replaced by its value.

    >>> custom_vjp_primal_tree_values({"a": CustomVJPPrimal(2.0, True)})
    {'a': 2.0}
    """
    return tree_map(lambda leaf: leaf.value, tree)


def zero_from_primal(primal: Any, symbolic_zeros: bool = False) -> Any:
    """The zero tangents of a pytree of values: of their shapes and dtypes, or of dtype float0 for integers.

    Args:
        symbolic_zeros: each is a `SymbolicZero`, which knows its shape and dtype only.

    >>> import functad
    >>> functad.custom_derivatives.zero_from_primal([3.])
    [Array(0., dtype=float32, weak_type=True)]
    """
    return tree_map(lambda leaf: _zero_tangent(aval_of(leaf), symbolic_zeros), primal)


def _zero_tangent(aval: Aval, symbolic: bool) -> Any:
    tangent = aval if is_differentiable(aval) else Aval(aval.shape, dtypes.float0)
    if symbolic:
        return SymbolicZero(tangent)
    if not is_differentiable(aval):
        return np.zeros(aval.shape, dtypes.float0)
    return convert_element_type(zeros_of(aval), aval.dtype, aval.weak_type)


def shown_zero(x: Any, symbolic: bool) -> Any:
    """A tangent or cotangent as a rule is given it: its `Zero`s as arrays or `SymbolicZero`s."""
    return _zero_tangent(x.aval, symbolic) if isinstance(x, Zero) else x


_NO_ARGUMENTS = tree_structure(((), {}))

# --- a call -----------------------------------------------------------------------------------------


class Decorated(Generic[P, R]):
    """What both decorators share: the function, and which of its arguments have no derivative."""

    kind = ""

    def __init__(
        self, fun: Callable[P, R], nondiff_argnums: Sequence[int] = (), nondiff_argnames: Sequence[str] = ()
    ) -> None:
        check_callable(fun, self.kind)
        update_wrapper(self, fun, assigned=description_of(fun))  # type: ignore[arg-type]
        self.fun = fun
        try:
            self._signature: inspect.Signature | None = inspect.signature(fun)
        except (TypeError, ValueError):
            self._signature = None
        self.nondiff_argnums = self._numbers(nondiff_argnums, nondiff_argnames)

    def _numbers(self, argnums: int | Sequence[int], argnames: str | Sequence[str]) -> tuple[int, ...]:
        numbers = {argnums} if isinstance(argnums, (int, np.integer)) else set(argnums)
        names = {argnames} if isinstance(argnames, str) else set(argnames)
        known = list(self._signature.parameters) if self._signature else []
        for name in names:
            if name not in known:
                raise ArgumentError(
                    f"{self.kind}: nondiff_argnames={argnames!r}: {function_name(self.fun)} has no parameter {name!r}; "
                    f"it has {', '.join(known) or 'none'}"
                )
        for n in numbers:
            if not isinstance(n, (int, np.integer)) or n < 0:
                raise ArgumentError(
                    f"{self.kind}: nondiff_argnums={argnums!r} must be whole numbers that count from the front, from "
                    "0; names are given by nondiff_argnames"
                )
        return tuple(sorted(numbers | {known.index(name) for name in names}))

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments by position, defaults filled in."""
        name = function_name(self.fun)
        if self._signature is not None:
            try:
                bound = self._signature.bind(*args, **kwargs)
            except TypeError as problem:
                raise TypeError(f"{name}(): {problem}") from None
            bound.apply_defaults()
            args, kwargs = bound.args, bound.kwargs
        if kwargs:
            raise TypeError(
                f"{name}(): a function with a derivative rule takes arguments that have a position, but was given "
                f"{', '.join(kwargs)} by keyword; drop the `*` or `**` before them in its signature"
            )
        return args

    def call(self, args: tuple[Any, ...]) -> RuleCall:
        return RuleCall(self.fun, self.kind, args, self.nondiff_argnums)


class RuleCall:
    """One call as a flat function: which arguments the rule sees, and the structures of arguments and result.

    It lives as long as a Program that it has become part of, so it keeps none of the arrays it was called with.
    """

    def __init__(self, fun: Callable[..., Any], kind: str, args: tuple[Any, ...], nondiff: Sequence[int]) -> None:
        self.name = function_name(fun)
        self.kind = kind
        self.fun = fun
        self.count = len(args)
        for n in nondiff:
            if n >= len(args):
                raise ArgumentError(
                    f"{kind}: nondiff_argnums={tuple(nondiff)!r} does not fit a call of {self.name} with {len(args)} "
                    "arguments"
                )
        self.nondiff = tuple(nondiff)
        self.positions = [i for i in range(len(args)) if i not in nondiff]
        self.static_leaves, self.static_tree = tree_flatten([args[i] for i in nondiff])
        # Traced values among the arguments without derivative are operands, too: the rule is run when they are gone.
        self.traced = [i for i, leaf in enumerate(self.static_leaves) if is_tracer(leaf)]
        leaves, self.tree = tree_flatten(tuple(args[i] for i in self.positions))
        self.numbers: tuple[Any, ...] = tuple(tree_unflatten(self.tree, range(len(leaves))))  # in place of the leaves
        self.names = LeafNames(fun, dict(zip(self.positions, self.numbers)))
        values = [as_known(leaf, self.names.describe(i)) for i, leaf in enumerate(leaves)]
        self.operands = [*(stop_gradient(self.static_leaves[i]) for i in self.traced), *values]
        for i in self.traced:
            self.static_leaves[i] = None
        self.in_avals = [aval_of(v) for v in values]
        self.out_tree: PyTreeDef | None = None
        self.out_avals: list[Aval] | None = None

    def __call__(self, *leaves: Any) -> list[Any]:
        """The function itself, of leaves; remembers the structure and types of what it returns."""
        of_nothing = partial(self.fun, *self.merged(leaves, self.unflattened(leaves)))
        flat = FlatFunction(of_nothing, _NO_ARGUMENTS, transform=self.kind, name=self.name, keeps_numbers=True)
        outs = flat()
        self.out_tree = flat.out_tree
        self.out_avals = [aval_of(o) for o in outs]
        return outs

    def own(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """The leaves of the arguments that the rule differentiates."""
        return leaves[len(self.traced) :]

    def unflattened(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments that the rule differentiates."""
        return tuple(tree_unflatten(self.tree, self.own(leaves)))

    def take_operands(self) -> list[Any]:
        """The values to bind, handed out once."""
        operands, self.operands = self.operands, []
        return operands

    def statics(self, leaves: Sequence[Any]) -> list[Any]:
        """The arguments without derivative."""
        given = list(self.static_leaves)
        for i, leaf in zip(self.traced, leaves):
            given[i] = leaf
        return list(tree_unflatten(self.static_tree, given))

    def merged(self, leaves: Sequence[Any], args: Sequence[Any]) -> list[Any]:
        """All arguments in their positions."""
        by_position = dict(zip(self.positions, args)) | dict(zip(self.nondiff, self.statics(leaves)))
        return [by_position[i] for i in range(self.count)]

    def argument_names(self) -> list[str]:
        names = positional_names(self.fun, self.count)
        return [names[i] for i in self.positions]

    # --- what a rule returned

    def pair(self, rule: Callable[..., Any], result: Any, second: str) -> tuple[Any, Any]:
        """What a rule returned, if it is a pair; `second` says in errors what the second half is."""
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise CustomRuleError(
                f"{self.rule_name(rule)} must return a pair (result, {second}), but returned {short(result)}"
            )
        return result[0], result[1]

    def checked_outputs(self, rule: Callable[..., Any], result: Any) -> list[Any]:
        """The leaves of a rule's first result, which must be what the function returns."""
        pairs, tree = tree_flatten_with_path(result)
        if self.out_tree is not None and self.out_tree != tree:
            raise CustomRuleError(
                f"{self.rule_name(rule)} must return first what {self.name} returns, but the structures differ.\n"
                f"  {self.name}: {self.out_tree}\n  the rule: {tree}"
            )
        outs = [as_value(o, lambda path=path: f"result{keystr(path)} of {self.rule_name(rule)}") for path, o in pairs]  # type: ignore[misc]
        for (path, _), out, aval in zip(pairs, outs, self.out_avals or []):
            if not out.aval.same_type(aval):
                raise CustomRuleError(
                    f"{self.rule_name(rule)} must return first what {self.name} returns, but at result{keystr(path)} "
                    f"it returned {out.aval.str_short()}, and {self.name} {aval.str_short()}{_fix(out.aval, aval)}"
                )
        self.out_tree = tree
        return outs

    def checked_derivative(self, rule: Callable[..., Any], given: Any, aval: Aval, where: str, of: str) -> Any:
        """A tangent or cotangent that a rule returned, of the type of the value that it belongs to."""
        if not is_differentiable(aval):
            return Zero(aval)
        if not isinstance(given, SymbolicZero):
            given = as_value(given, lambda: f"{where} of {self.rule_name(rule)}")
        found = given.aval
        if found.shape == aval.shape and isinstance(given, SymbolicZero):
            return Zero(aval)
        if found.same_type(aval):
            return given
        if found.shape == aval.shape and found.weak_type and kind_of(found.dtype) in "biuf":
            return convert_element_type(given, aval.dtype)
        raise CustomRuleError(
            f"{self.rule_name(rule)} returned {found.str_short()} at {where}, which belongs to {of} of type "
            f"{aval.str_short()}, and must have that type{_fix(found, aval)}"
        )

    def rule_name(self, rule: Callable[..., Any]) -> str:
        return f"the rule {function_name(rule)} of {self.name} ({self.kind})"


def _fix(found: Aval, wanted: Aval) -> str:
    if found.shape == wanted.shape:
        return f"; convert it with .astype('{wanted.dtype.name}')"
    if found.size == wanted.size:
        return f"; reshape it with .reshape({wanted.shape})"
    extra = found.ndim - wanted.ndim
    if extra > 0 and found.shape[extra:] == wanted.shape:
        return f"; the argument was repeated, so sum over {'axis 0' if extra == 1 else f'the first {extra} axes'}"
    return ""
