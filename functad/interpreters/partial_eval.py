"""Computing what is known of a function, and recording the rest, under the names that JAX gives it.

Knows functions of flat arguments, as `functad.extend.linear_util` wraps them, and Programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from functad.absent import absent
from functad.api.arguments import leaf_aval
from functad.editing.dead_code import eliminate_dead_code
from functad.extend.linear_util import WrappedFun
from functad.ir import Aval, Program, variables_read
from functad.tracing import Trace, Tracer, program_from_ops, trace_to_program

DynamicJaxprTracer = JaxprTracer = Tracer
Val = Any


class PartialVal(tuple[Any, Any]):
    """A value that is known, or of which only the type is: the pair `(None, value)`, or `(type, None)`.

    >>> import functad
    >>> PartialVal.known(3.).is_known(), PartialVal.unknown(functad.typeof(3.)).is_known()
    (True, False)
    """

    __slots__ = ()

    def __new__(cls, xs: tuple[Aval | None, Any]) -> PartialVal:
        pval, value = xs
        return super().__new__(cls, (pval, value))

    @classmethod
    def known(cls, const: Any) -> PartialVal:
        """Of a value."""
        return cls((None, const))

    @classmethod
    def unknown(cls, aval: Aval) -> PartialVal:
        """Of a type."""
        return cls((aval, None))

    def is_known(self) -> bool:
        """Whether there is a value."""
        return self[0] is None

    def get_known(self) -> Any:
        """The value; None where there is none."""
        return self[1]

    def get_aval(self) -> Aval:
        """The type."""
        aval: Aval = leaf_aval(self[1], lambda: "a known value") if self.is_known() else self[0]
        return aval


def trace_to_jaxpr_nounits(
    fun: WrappedFun, pvals: Sequence[PartialVal], instantiate: bool | Sequence[bool] = False
) -> tuple[Program, list[PartialVal], list[Any]]:
    """Call a function of which some arguments are known: what depends on known ones alone is computed now.

    Args:
        fun: of flat arguments, `functad.extend.linear_util.wrap_init(f)`; returns a sequence of results.
        pvals: what is known of each argument.
        instantiate: for which results, or whether for all, the Program shall have an output though they are known.

    Returns:
        The Program of the rest, from the unknown arguments to the unknown results; what is known of each result; and
        the Program's constants.

    >>> import functad
    >>> from functad.extend import linear_util
    >>> f = linear_util.wrap_init(lambda x, y: (x + 1., x * y))
    >>> program, results, consts = trace_to_jaxpr_nounits(
    ...     f, [PartialVal.known(2.), PartialVal.unknown(functad.typeof(3.))])
    >>> [r.is_known() for r in results], float(results[0][1])
    ([True, False], 3.0)
    >>> print(program)
    { lambda ; a:f32[]. let
        b:f32[] = mul 2.0:f32[] a
      in (b,) }
    """
    with Trace(fun.__name__) as trace:
        inputs = [None if p.is_known() else trace.new_input(p.get_aval(), f"argument {i}") for i, p in enumerate(pvals)]
        outs = list(fun.call_wrapped(*[p[1] if t is None else t for p, t in zip(pvals, inputs)]))
    wanted = [instantiate] * len(outs) if isinstance(instantiate, bool) else list(instantiate)
    results = [
        PartialVal.unknown(leaf_aval(out, lambda: "a result"))
        if w or _belongs_to(trace, out)
        else PartialVal.known(out)
        for out, w in zip(outs, wanted, strict=True)
    ]
    rest = [out for out, result in zip(outs, results) if not result.is_known()]
    program = program_from_ops(trace, trace.take_ops(), [t for t in inputs if t is not None], rest, fun.__name__)
    program = eliminate_dead_code(program)
    return program, results, list(program.consts)


def _belongs_to(trace: Trace, x: Any) -> bool:
    return isinstance(x, Tracer) and x.owner is trace


def trace_to_jaxpr_dynamic(fun: WrappedFun, in_avals: Sequence[Aval]) -> tuple[Program, list[Aval], list[Any]]:
    """The Program of a function of flat arguments, with the types of its results and its constants.

    >>> import functad
    >>> from functad.extend import linear_util
    >>> f = linear_util.wrap_init(lambda x: (x * x,))
    >>> trace_to_jaxpr_dynamic(f, [functad.typeof(functad.numpy.ones(3))])[1]
    [Aval(float32[3])]
    """
    program = trace_to_program(fun.call_wrapped, in_avals, name=fun.__name__)
    return program, program.out_avals, list(program.consts)


def dce_jaxpr(
    jaxpr: Program, used_outputs: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[Program, list[bool]]:
    """The Program for the outputs that are used, with the inputs that these need; and which inputs those are.

    Args:
        jaxpr: a Program.
        used_outputs: for each output whether it is used.
        instantiate: for which inputs, or whether for all, the Program shall keep them though they are not needed.

    >>> import functad
    >>> program, used = dce_jaxpr(functad.make_jaxpr(lambda x, y: (x + 1., y * 2.))(1., 2.), [False, True])
    >>> used
    [False, True]
    >>> print(program)
    { lambda ; a:f32[]. let
        b:f32[] = mul a 2.0:f32[]
      in (b,) }
    """
    outvars = [v for v, used in zip(jaxpr.outvars, used_outputs, strict=True) if used]
    program = eliminate_dead_code(jaxpr.replace(outvars=outvars))
    needed = variables_read(program)
    kept = [instantiate] * len(program.invars) if isinstance(instantiate, bool) else list(instantiate)
    used_inputs = [k or v in needed for v, k in zip(program.invars, kept, strict=True)]
    return program.replace(invars=[v for v, used in zip(program.invars, used_inputs) if used]), used_inputs


__all__ = [
    "DynamicJaxprTracer",
    "JaxprTracer",
    "PartialVal",
    "Val",
    "dce_jaxpr",
    "trace_to_jaxpr_dynamic",
    "trace_to_jaxpr_nounits",
]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
