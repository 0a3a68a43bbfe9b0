"""A primitive whose rules are registered one by one, as programs written for JAX make theirs.

Knows the record of a primitive, which it fills rule by rule. functad's own primitives have theirs from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar, TypeVar, cast

import numpy as np

from functad import dtypes
from functad.array import Array
from functad.config import note_redefinition
from functad.errors import ArgumentError, NoRuleError
from functad.evaluation import aval_of, infer_avals
from functad.extend.scalars import OwnScalar, check_template
from functad.ir import Absent, Aval, Primitive, Program
from functad.lowering_rules import Defined, Indexed, Loops, Reduction, Running, Scalar, Scattered
from functad.primitive_record import own_primitives
from functad.primitives.callback import FlatCallback, pure_callback
from functad.system.once import imported
from functad.tracing import eval_program, trace_to_program
from functad.tree_util import tree_structure
from functad.user_source import user_source

F = TypeVar("F", bound=Callable[..., Any])


class _AnyPrimitive(type):
    """Takes all primitives for its own: to programs written for JAX there is one class of them."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Primitive)


class OpenPrimitive(Primitive, metaclass=_AnyPrimitive):
    """An operation of your own: a name, to which rules are registered. `functad.extend.core.Primitive` is its name.

    Rules have JAX's conventions. What `jit` compiles is the function of `interpreters.mlir.lower_fun`, where one is
    registered, fused with what stands around it; otherwise the implementation is called from compiled code.

    Args:
        name: what printed Programs and errors call it.

    >>> import functad, functad.numpy as jnp
    >>> from functad.extend.core import Primitive
    >>> from functad.interpreters import ad, batching
    >>> double_p = Primitive("double")
    >>> @double_p.def_impl
    ... def double(x):
    ...     return 2 * x
    >>> @double_p.def_abstract_eval
    ... def type_of(x):
    ...     return functad.core.ShapedArray(x.shape, x.dtype)
    >>> ad.deflinear(double_p, lambda cotangent: [double_p.bind(cotangent)])
    >>> batching.defvectorized(double_p)
    >>> functad.jit(functad.vmap(functad.grad(lambda x: double_p.bind(x) * x)))(jnp.array([1., 2.]))
    Array([4., 8.], dtype=float32)
    """

    is_open: ClassVar[bool] = True

    def __init__(self, name: str) -> None:
        table = "no rule is registered: functad.interpreters"
        fields: dict[str, Any] = {
            "implementation": None,
            "definition": None,
            "name": name,
            "doc": "An operation of the user's.",
            "multiple_results": False,
            "abstract_eval": Absent(f"`{name}` has no shape rule: {name}_p.def_abstract_eval(rule)"),
            "impl": self._run,
            "jvp": Absent(f"{table}.ad.primitive_jvps[{name}_p] = rule"),
            "transpose": Absent(f"{table}.ad.primitive_transposes[{name}_p] = rule"),
            "batch": Absent(f"vmap of `{name}`: {table}.batching.primitive_batchers[{name}_p] = rule"),
            "lower": Defined(self._program),
            "examples": Absent("it is not functad's"),
        }
        self.__dict__.update(fields)
        if own_primitives.get(name) is not None:
            note_redefinition()
        own_primitives[name] = self

    @cached_property
    def runs_functions(self) -> bool:
        """The implementation that is registered is the user's function, whatever the operation is compiled to."""
        return self.implementation is not None or super().runs_functions

    def __setattr__(self, field: str, value: Any) -> None:
        """Unlike a record, it changes: what was traced by a rule that is replaced is traced again."""
        before = self.__dict__.get(field)
        for derived in _DERIVED:
            self.__dict__.pop(derived, None)
        object.__setattr__(self, field, value)
        if not (before is None or before is False or isinstance(before, (Absent, Defined))):
            note_redefinition()

    def _set(self, field: str, value: Any) -> None:
        setattr(self, field, value)  # noqa: B010  (a record's fields are read-only to type checkers)

    def def_impl(self, impl: F) -> F:
        """Say what the operation computes: `impl(*arrays, **params)`, a list of results if it has several."""
        self.implementation = impl
        return impl

    def def_abstract_eval(self, rule: F) -> F:
        """Say of what type the result is: `rule(*avals, **params)` returns a ShapedArray, or a list of them."""

        def types(*avals: Aval, **params: Any) -> Any:
            found = rule(*avals, **params)
            return [_aval(a) for a in found] if self.multiple_results else _aval(found)

        self._set("abstract_eval", types)
        return rule

    def define(self, function: Callable[..., Any], multiple_results: bool) -> None:
        """Say what the operation is by a function of arrays, which `jit` compiles in its place."""
        self.definition = function if multiple_results else lambda *args, **params: [function(*args, **params)]
        self._set("lower", Defined(self._program))

    def define_scalar(self, rule: Scalar) -> None:
        """Say what the operation is by one expression of scalars, which `jit` compiles in its place."""
        if isinstance(rule.expression, str):
            check_template(self.name, rule.expression)
        self._set("lower", OwnScalar(rule.expression, rule.all_dtypes, rule.kept))

    def define_indexed(self, rule: Indexed) -> None:
        """Say where each element of the result comes from."""
        self._set("lower", imported("functad.extend.loops").checked_indexed(self.name, rule))

    def define_reduction(self, rule: Reduction) -> None:
        """Say how the operation combines the elements along some axes."""
        self._set("lower", imported("functad.extend.loops").checked_reduction(self.name, rule))

    def define_running(self, rule: Running) -> None:
        """Say how the operation carries a value along an axis."""
        self._set("lower", imported("functad.extend.loops").checked_running(self.name, rule))

    def define_scattered(self, rule: Scattered) -> None:
        """Say where the operation puts updates to its first operand."""
        self._set("lower", imported("functad.extend.loops").checked_scattered(self.name, rule))

    def define_loops(self, rule: Loops) -> None:
        """Say which kernels the operation is."""
        self._set("lower", imported("functad.extend.kernels").checked_loops(self.name, rule))

    def _results(self, *args: Any, **params: Any) -> list[Any]:
        """What the registered function, or else a call of the implementation, makes of traced arrays."""
        if self.definition is not None:
            return list(self.definition(*args, **params))
        avals = infer_avals(self, [aval_of(a) for a in args], params)
        return pure_callback(self._callback(len(args), len(avals), params), avals, args, None)

    def _program(self, *avals: Aval, **params: Any) -> Program:
        return trace_to_program(partial(self._results, **params), avals, name=self.name)

    def _callback(self, count: int, results: int, params: dict[str, Any]) -> FlatCallback:
        if self.implementation is None:
            raise NoRuleError(
                f"`{self.name}` has no implementation: {self.name}_p.def_impl(function), or register "
                "functad.interpreters.mlir.lower_fun(function, multiple_results=…); rules that write MLIR are not used"
            )
        in_tree = tree_structure(((0,) * count, {}))
        out_tree = tree_structure((0,) * results)
        implementation = self.implementation

        def run(*args: Any) -> tuple[Any, ...]:
            found = implementation(*args, **params)
            return tuple(found) if self.multiple_results else (found,)

        return FlatCallback(run, in_tree, out_tree, (), f"the primitive `{self.name}`", user_source(), True)

    def _run(self, *args: Any, **params: Any) -> Any:
        if self.implementation is not None and any(isinstance(a, Array) for a in args):
            return self.implementation(*args, **params)  # called by a user, maybe with traced values
        avals = [aval_of(a) for a in args]
        if self.implementation is None and self.definition is not None:
            found = [np.asarray(r) for r in eval_program(self._program(*avals, **params), args)]
        else:
            types = infer_avals(self, avals, params)
            found = self._callback(len(args), len(types), params).run(args, types)
        return found if self.multiple_results else found[0]


_DERIVED = [name for name, field in vars(Primitive).items() if isinstance(field, cached_property)]


def own(primitive: Primitive, what: str) -> OpenPrimitive:
    """The primitive, if rules can be registered for it.

    Raises:
        ArgumentError: it is one of functad's own, whose rules stand.
    """
    if getattr(primitive, "is_open", False):  # anything may be given
        return cast(OpenPrimitive, primitive)
    raise ArgumentError(
        f"{what} of `{primitive}` is functad's own and cannot be replaced; make a Primitive of your own, or give a "
        "function other derivatives with functad.custom_jvp"
    )


def _aval(given: Any) -> Aval:
    return Aval(given.shape, dtypes.as_dtype(given.dtype), bool(getattr(given, "weak_type", False)))


def checked_count(found: Sequence[Any], wanted: int, what: str) -> Sequence[Any]:
    """What a rule returned, if there are so many.

    Raises:
        ArgumentError: there are not.
    """
    if len(found) != wanted:
        raise ArgumentError(f"{what} returned {len(found)} values, but must return {wanted}")
    return found
