"""The record of a primitive: all that functad knows of one operation, and the kinds of rule that it holds.

Knows nothing of Programs, of any particular primitive, or of any transform.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar, TypeVar
from weakref import WeakValueDictionary

from functad.errors import NoRuleError, ProgramError
from functad.lowering_rules import (
    Call,
    Callback,
    Contraction,
    ControlFlow,
    Defined,
    Indexed,
    Loops,
    OnWords,
    Placement,
    Reduction,
    Running,
    Scalar,
    Scattered,
)
from functad.records import Record

F = TypeVar("F", bound=Callable[..., Any])


def takes_narrow(impl: F) -> F:
    """Mark an implementation that computes and wants floats of 16 bits as they are, for the sake of their bits."""
    impl.takes_narrow = True  # type: ignore[attr-defined]
    return impl


class Absent(Record):
    """A rule that cannot exist, with the reason; calling it raises that reason."""

    why: str

    def __call__(self, *args: Any, **params: Any) -> Any:
        raise NoRuleError(self.why)


class ZeroDerivative(Record):
    """The jvp rule of a function whose derivative is zero wherever it exists (`floor`, `sign`, `lt`)."""

    why: str


class Linearize(Record):
    """The derivative of a call-like primitive, which must run its forward pass exactly once.

    `rule(primals, active, **params) -> (outputs, pushforward)`, where `pushforward(tangents) -> tangent outputs`
    is linear and takes a `Zero` or a tangent for every primal.
    """

    rule: Callable[..., tuple[Sequence[Any], Callable[[Sequence[Any]], Sequence[Any]]]]


class OwnDerivative(Record):
    """The jvp rule of an operation that is linear in each operand: itself, of each tangent in its operand's place.

    So its transpose takes cotangents of results to those of operands as it stands.
    """


class JointlyLinear(Record):
    """The jvp rule of an operation that is linear in some operands together, but for constants; calling it runs `rule`.

    operands: the places of these. With all else known, the transpose rule takes a cotangent of the result to theirs.
    """

    rule: Callable[..., Any]
    operands: slice

    def __call__(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any], **params: Any) -> Any:
        return self.rule(primals, output, tangents, **params)


class Diagonal(Record):
    """The jvp rule of an element-wise operation; calling it runs `rule`, the sum of what its operands contribute.

    shares: for each operand `(tangent, output, *primals, **params) -> its share of the tangent`, None where that is
        zero. Its Jacobian is diagonal, and so its own transpose: where all is real, a share also takes the cotangent of
        the result to that of the operand.
    """

    rule: Callable[..., Any]
    shares: Sequence[Callable[..., Any] | Absent | None]

    @cached_property
    def is_partial(self) -> bool:
        """Whether it has no derivative in some operand."""
        return any(isinstance(share, Absent) for share in self.shares)

    @cached_property
    def pullbacks(self) -> list[tuple[int, Callable[..., Any]]]:
        """The shares with the numbers of their operands, from the last operand to the first."""
        return [(i, share) for i, share in reversed([*enumerate(self.shares)]) if share is not None]

    def __call__(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any], **params: Any) -> Any:
        return self.rule(primals, output, tangents, **params)


class Example(Record, kw_only=True):
    """One input on which the table-driven tests check a primitive.

    `args` are arrays (or Aval-free NumPy scalars); float64 copies of the float ones serve the derivative checks.
    Where `differentiable`, derivatives are compared with differences. At 0, at ties, kinks and ends of domains they are
    `agreed` on instead (with JAX, where it is right): the numbers of first, second and third order along the direction
    `along` (None for an operand that is kept). If results are arrays, of the sum of their elements times 1, 2, 3, …
    """

    args: tuple[Any, ...]
    params: dict[str, Any]
    differentiable: bool = True
    tolerance: float = 1e-5
    along: tuple[Any, ...] = ()
    agreed: tuple[float, float, float] | None = None


class Primitive(Record, kw_only=True, eq=False):
    """Everything functad knows of one operation, in one record without defaults.

    abstract_eval: `(*avals, **params) -> Aval` (a list of them with `multiple_results`)
    impl:          `(*ndarrays, **params) -> ndarray` (a list with `multiple_results`)
    jvp:           `(primals, output, tangents, **params) -> tangent output`; tangents may be `Zero`
    transpose:     `(cotangent, *args, **params) -> cotangents`; linear arguments are `UndefinedPrimal`
    batch:         `(axis_size, args, dims, **params) -> (output, dim)`; a dim of None is not mapped
    lower:         how a compiled backend computes it: one of the kinds of rule in `functad.lowering_rules`
    examples:      `() -> list[Example]`, on which every rule is tested
    """

    call_primitive: ClassVar[bool] = False
    """As `map_primitive` a name of JAX's, whose users ask it; calls are recognised by their rule `lower` here."""
    map_primitive: ClassVar[bool] = False
    is_open: ClassVar[bool] = False
    """Whether its rules are a user's (`extend.primitive`), made for operands of the types that the user gives."""

    name: str
    doc: str
    multiple_results: bool
    abstract_eval: Callable[..., Any]
    impl: Callable[..., Any]
    jvp: Callable[..., Any] | OwnDerivative | Linearize | ZeroDerivative | Absent
    transpose: Callable[..., Any] | Absent
    batch: Callable[..., Any] | Absent
    lower: (
        Scalar
        | Indexed
        | Reduction
        | Running
        | Contraction
        | Scattered
        | Loops
        | ControlFlow
        | Call
        | Defined
        | Callback
        | OnWords
        | Placement
        | Absent
    )
    examples: Callable[[], list[Example]] | Absent

    def __post_init__(self) -> None:
        if self.name in registry:
            raise ProgramError(f"two primitives are named {self.name!r}; names must be unique")
        registry[self.name] = self

    @cached_property
    def runs_functions(self) -> bool:
        """Whether its implementation may call the user's functions: by a callback, maybe one within a Program."""
        return isinstance(self.lower, (Call, Callback, ControlFlow, Defined))

    @cached_property
    def only_computes(self) -> bool:
        """Whether its implementation is all that runs: it calls no function, and puts nothing on a device."""
        return not (self.runs_functions or isinstance(self.lower, Placement))

    @cached_property
    def derives_by_rule(self) -> bool:
        """Whether its implementation alone computes its only result, which has a derivative by a jvp rule."""
        no_rule = isinstance(self.jvp, (Absent, Linearize, ZeroDerivative))
        return not (no_rule or self.multiple_results or self.runs_functions)

    @cached_property
    def takes_keys(self) -> bool:
        """Whether random keys may be among its operands, as its shape rule may refine: not where it combines."""
        rule = self.lower
        if isinstance(rule, Loops):
            return rule.joins is not None or rule.keys
        if isinstance(rule, Scattered):
            return rule.kind == "set"
        return not isinstance(rule, (Reduction, Running, Contraction))

    @cached_property
    def takes_narrow(self) -> bool:
        """Whether its implementation takes floats of 16 bits as they are: it computes nothing, or says so itself.

        All others get them as float32, and what they give is rounded once: `evaluation.implementation`.
        """
        rule = self.lower
        moves = isinstance(rule, Indexed) or (isinstance(rule, Loops) and (rule.joins or rule.indexed) is not None)
        puts = isinstance(rule, Scattered) and rule.kind == "set"
        return self.runs_functions or moves or puts or getattr(self.impl, "takes_narrow", False)

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply the operation to arrays, traced ones too; a list of results if it may have several.

        >>> import functad, functad.numpy as jnp
        >>> functad.lax.sin_p.bind(jnp.zeros(2))
        Array([0., 0.], dtype=float32)
        """
        return _binder(self, args, params)

    def get_bind_params(self, params: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """JAX's name for what `bind` takes before its operands, nothing, and the parameters of an equation."""
        return [], params

    def __repr__(self) -> str:
        return self.name


def _unbound(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    raise NotImplementedError("functad.api.inspection says how")


_binder: Callable[[Primitive, Sequence[Any], dict[str, Any]], Any] = _unbound


def set_binder(binder: Callable[[Primitive, Sequence[Any], dict[str, Any]], Any]) -> None:
    """Let a layer above say how a primitive is applied to a user's operands."""
    global _binder
    _binder = binder


registry: dict[str, Primitive] = {}
"""All primitives by name; the table-driven tests walk it."""
own_primitives: WeakValueDictionary[str, Primitive] = WeakValueDictionary()
"""Those that users made, by name, the last one of each."""
