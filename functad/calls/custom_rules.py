"""`custom_jvp_call_p`, `custom_vjp_call_p`: a Program called as one equation, with derivative rules of the user's.

Knows rules that are functions of flat lists of values; nothing of pytrees. What is not differentiated is inlined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

import numpy as np

from functad.array import Array, wrap
from functad.calls.builder import TangentMap, call_primitive, pushforward_of
from functad.errors import ConcretizationError, DifferentiationError, LeakedTracerError, TracerError
from functad.evaluation import aval_of
from functad.ir import Absent, Aval, Linearize, Primitive, Program, Var, Zero
from functad.lowering_rules import Loops
from functad.observing import observed, watching
from functad.primitives.common import is_linear, reduce_sum
from functad.records import NamedTuple
from functad.tracing import (
    Trace,
    Tracer,
    bind,
    current_trace,
    eval_program,
    has_value,
    program_from_ops,
)
from functad.transforms.batching import batch_flat, place_batch_axis, without_axis
from functad.transforms.forward import is_differentiable
from functad.transforms.named_axes import batched_axis
from functad.transforms.programs import batch_in_front
from functad.transforms.reverse import LinearMap

Flat = Sequence[Any]
MappedDims = Sequence[int | None]


class JvpRule(Protocol):
    """`(primals, tangents) → (outputs, their tangents)`, linear in the tangents; `Zero` for those known to be zero."""

    def __call__(self, primals: Flat, tangents: Flat) -> tuple[list[Any], list[Any]]: ...


Backward = Callable[[Flat, Flat], list[Any]]  # (residuals, cotangents of outputs) → cotangents of inputs


class NamedBackward(NamedTuple):
    """The second half of a rule, which equations show by its name."""

    name: str
    run: Backward

    def __str__(self) -> str:
        return self.name

    def __call__(self, residuals: Flat, cotangents: Flat) -> list[Any]:
        return self.run(residuals, cotangents)


class VjpRule(Protocol):
    """The two halves of reverse mode; `active` tells which primals are differentiated."""

    def forward(self, primals: Flat, active: Sequence[bool]) -> tuple[list[Any], list[Any], Backward]:
        """The outputs, the residuals, and the function that takes the residuals and cotangents."""


# --- calling ----------------------------------------------------------------------------------------


def call_custom(primitive: Primitive, fun: Callable[..., list[Any]], args: Flat, **params: Any) -> list[Any]:
    """Call a flat function whose derivative is the rule in `params`.

    Where nobody traces, it runs as it stands. Where it is differentiated right now, only its rule runs, on
    values. Every other trace records one equation, with the function as a Program.
    """
    trace = _recorder(args)
    if trace is None:
        outs = fun(*args)
        if not any(isinstance(o, Tracer) for o in outs):
            return outs
    elif trace.keeps_values:
        shown = _shown(fun, args, trace, params["name"])
        return list(bind(primitive, *args, call_jaxpr=shown, num_consts=0, **params))
    program, consts = _staged(fun, args, trace, params["name"])
    operands = [*consts, *map(_as_array, args)]
    return list(bind(primitive, *operands, call_jaxpr=program, num_consts=len(consts), **params))


def _shown(fun: Callable[..., list[Any]], args: Flat, trace: Trace, name: str) -> Program | None:
    """The function as a Program for an observer who wants to see what is called, though only its rule runs.

    None if nobody wants to, or it has none: it closes over traced values, or needs the numbers that it computes with.
    """
    if watching.observer is None or not watching.observer.stages_calls:
        return None
    try:
        with observed(None):
            program, closed_over = _staged(fun, args, trace, name)
    except TracerError:
        return None
    return None if closed_over else program


def _as_array(x: Any) -> Any:
    """An operand of an equation: Python's numbers, which functions and rules get as they are, become arrays."""
    if isinstance(x, (Array, np.ndarray)):
        return x
    aval = aval_of(x)
    return wrap(np.asarray(x, aval.dtype), aval)


def _recorder(args: Flat) -> Trace | None:
    """The trace that will record an operation on these operands."""
    trace = current_trace()
    while trace is not None and not trace.records_all and not any(_owns(trace, a) for a in args):
        trace = trace.parent
    return trace


def _owns(trace: Trace | None, x: Any) -> bool:
    return type(x) is Tracer and x.owner is trace


def _staged(fun: Callable[..., list[Any]], args: Flat, trace: Trace | None, name: str) -> tuple[Program, list[Any]]:
    """A flat function as a Program of all its arguments, and the traced values that it closes over.

    Those values are its first inputs. Arguments that are not traced keep their values for Python control flow; those
    of outer traces do if the function asks for them. What it then computes of them is a constant: their derivatives
    are the rule's, which gets them as operands.
    """
    try:
        return _recorded(fun, args, [isinstance(a, Tracer) for a in args], trace, name)
    except ConcretizationError:
        abstract = [_owns(trace, a) for a in args]
        return _recorded(fun, [a if own else _value(a) for a, own in zip(args, abstract)], abstract, trace, name)


def _value(x: Any) -> Any:
    """An argument of an outer trace by its value, if it has one."""
    if not isinstance(x, Tracer) or not has_value(x):
        return x
    return wrap(x.concrete("A function with a rule of its own", ""), x.aval)


def _recorded(
    fun: Callable[..., list[Any]], args: Flat, abstract: Sequence[bool], trace: Trace | None, name: str
) -> tuple[Program, list[Any]]:
    with Trace(name, records_all=trace is None or trace.records_all) as inner:
        inputs = [inner.new_input(a.aval, f"argument {i}") if abstract[i] else a for i, a in enumerate(args)]
        outs = list(fun(*inputs))
    own = [x for x in inputs if _owns(inner, x)]
    program = program_from_ops(inner, inner.take_ops(), own, outs, name)
    constants = {id(c): (v, c) for v, c in zip(program.constvars, program.consts)}
    traced = iter(program.invars)
    invars = []
    for x in inputs:
        known = constants.pop(id(x), None)
        invars.append(next(traced) if _owns(inner, x) else Var(aval_of(x)) if known is None else known[0])
    hoisted = [(v, c) for v, c in constants.values() if isinstance(c, Tracer)]
    kept = [(v, c) for v, c in constants.values() if not isinstance(c, Tracer)]
    program = program.replace(
        invars=[*(v for v, _ in hoisted), *invars], constvars=[v for v, _ in kept], consts=[c for _, c in kept]
    )
    return program, [c for _, c in hoisted]


# --- what both primitives share -----------------------------------------------------------------------


def _call_function(program: Program, args: Flat, **params: Any) -> list[Any]:
    """A call without the rule: the transpose of a linear function is that of the function itself."""
    return list(eval_program(program, args))


_CLOSURE = (
    "the derivative of `{name}` needs a traced value that the function, or its rule, closes over: {what}. A rule says "
    "nothing of the derivative in such a value. Instead of\n"
    "    def f(x): return x * scale              # scale is traced outside of f\n"
    "pass it as an argument, with its share in the rule:\n"
    "    def f(x, scale): return x * scale"
)


@contextmanager
def _explaining(name: str) -> Iterator[None]:
    try:
        yield
    except LeakedTracerError as error:
        raise LeakedTracerError(
            _CLOSURE.format(name=name, what="it was traced by a function that has ended")
        ) from error


def _refuse_closures(name: str, active: Sequence[bool]) -> None:
    if any(active):
        raise LeakedTracerError(_CLOSURE.format(name=name, what="it is being differentiated"))


def _with_zeros(flags: Sequence[bool], live: Iterator[Any], avals: Sequence[Aval]) -> list[Any]:
    """The next live value where the flag is set, `Zero` elsewhere."""
    return [next(live) if f else Zero(a) for f, a in zip(flags, avals)]


# --- custom_jvp ---------------------------------------------------------------------------------------


def _jvp_linearize(
    program: Program | None,
    primals: Flat,
    active: Sequence[bool],
    *,
    jvp: JvpRule,
    name: str,
    num_consts: int,
    **params: Any,
) -> tuple[list[Any], TangentMap]:
    """Run the rule once, on values and on tangents that are only recorded; the recording is the derivative."""
    _refuse_closures(name, active[:num_consts])
    primals, active = primals[num_consts:], active[num_consts:]
    with _explaining(name), Trace(f"the derivative rule of {name}") as trace:
        avals = [aval_of(p) for p in primals]
        tangents = [trace.new_input(v, f"tangent {i}") if a else Zero(v) for i, (v, a) in enumerate(zip(avals, active))]
        outs, out_tangents = jvp(primals, tangents)
    for out in outs:
        if _owns(trace, out):
            raise DifferentiationError(
                f"the derivative rule of `{name}` returned a result that depends on the tangents; it must return "
                "(result, tangent of the result), where the result depends on the primals only"
            )
    linear = LinearMap(trace, [t for t in tangents if isinstance(t, Tracer)], out_tangents)

    def pushforward(tangents: Flat) -> list[Any]:
        with _explaining(name):
            return linear([t for t, a in zip(tangents[num_consts:], active) if a])

    return outs, pushforward


class BatchedJvpRule:
    """A rule mapped over axes of its primals and their tangents; results have the mapped axis first."""

    def __init__(self, rule: JvpRule, axis_size: int, dims: MappedDims) -> None:
        self.rule = rule
        self.axis_size = axis_size
        self.dims = dims
        self.axis_name = batched_axis()

    def __str__(self) -> str:
        return str(self.rule)

    def __call__(self, primals: Flat, tangents: Flat) -> tuple[list[Any], list[Any]]:
        live = [not isinstance(t, Zero) for t in tangents]
        avals = [without_axis(aval_of(p), d) for p, d in zip(primals, self.dims)]
        shown: list[Any] = []

        def flat(*leaves: Any) -> list[Any]:
            given = _with_zeros(live, iter(leaves[len(primals) :]), avals)
            outs, out_tangents = self.rule(leaves[: len(primals)], given)
            shown.extend([len(outs), [not isinstance(t, Zero) for t in out_tangents]])
            return [*outs, *(t for t in out_tangents if not isinstance(t, Zero))]

        given = [*primals, *(t for t, a in zip(tangents, live) if a)]
        dims = [*self.dims, *(d for d, a in zip(self.dims, live) if a)]
        results, found = batch_flat(flat, self.axis_size, given, dims, axis_name=self.axis_name)
        placed = [place_batch_axis(r, d, 0, self.axis_size) for r, d in zip(results, found)]
        count, out_live = shown
        outs = placed[:count]
        return outs, _with_zeros(out_live, iter(placed[count:]), [aval_of(o) for o in outs])


def _jvp_batch(
    axis_size: int, args: Flat, dims: MappedDims, *, call_jaxpr: Program, jvp: JvpRule, num_consts: int, **params: Any
) -> tuple[list[Any], list[int]]:
    program = batch_in_front(call_jaxpr, axis_size, tuple(dims))
    rule = BatchedJvpRule(jvp, axis_size, dims[num_consts:])
    outs = bind(custom_jvp_call_p, *args, call_jaxpr=program, jvp=rule, num_consts=num_consts, **params)
    return outs, [0] * len(outs)


custom_jvp_call_p = call_primitive(
    "custom_jvp_call",
    "Call a Program whose derivative is a rule of the user's.",
    program="call_jaxpr",
    call=_call_function,
    linearize=_jvp_linearize,
    batch=_jvp_batch,
    examples=Absent("it takes a Program and a rule; tests/calls/test_custom_rules.py tests it under all transforms"),
)

# --- custom_vjp ---------------------------------------------------------------------------------------


def _vjp_linearize(
    program: Program | None,
    primals: Flat,
    active: Sequence[bool],
    *,
    fwd: VjpRule,
    name: str,
    bwd: str,
    num_consts: int,
    **params: Any,
) -> tuple[list[Any], TangentMap]:
    """Run the forward rule once; the derivative is an equation that can only be transposed."""
    _refuse_closures(name, active[:num_consts])
    with _explaining(name):
        outs, residuals, backward = fwd.forward(primals[num_consts:], active[num_consts:])
    avals = [aval_of(o) for o in outs]

    def push(tangents: Flat) -> list[Any]:
        return bind(
            custom_lin_p,
            *residuals,
            *tangents,
            name=name,
            bwd=NamedBackward(bwd, backward),
            num_res=len(residuals),
            active=tuple(active[num_consts:]),
            out_avals=tuple(avals),
        )

    return outs, pushforward_of(push, active, [is_differentiable(a) for a in avals], avals)


class BatchedVjpRule:
    """A rule mapped over axes of its primals; results have the mapped axis first."""

    def __init__(self, rule: VjpRule, axis_size: int, dims: MappedDims) -> None:
        self.rule = rule
        self.axis_size = axis_size
        self.dims = dims
        self.axis_name = batched_axis()

    def __str__(self) -> str:
        return str(self.rule)

    def forward(self, primals: Flat, active: Sequence[bool]) -> tuple[list[Any], list[Any], Backward]:
        inner: list[Any] = []

        def flat(*leaves: Any) -> list[Any]:
            outs, residuals, backward = self.rule.forward(leaves, active)
            inner.extend([len(outs), backward])
            return [*outs, *residuals]

        results, found = batch_flat(flat, self.axis_size, primals, self.dims, axis_name=self.axis_name)
        count, backward = inner
        outs = [place_batch_axis(r, d, 0, self.axis_size) for r, d in zip(results[:count], found)]
        avals = [aval_of(p) for p in primals]
        return outs, results[count:], partial(self._backward, backward, found[count:], avals)

    def _backward(
        self, backward: Backward, residual_dims: MappedDims, avals: Sequence[Aval], residuals: Flat, cts: Flat
    ) -> list[Any]:
        live = [not isinstance(ct, Zero) for ct in cts]
        given = [*residuals, *(ct for ct, a in zip(cts, live) if a)]
        one_avals = [without_axis(aval_of(ct) if a else ct.aval, 0) for ct, a in zip(cts, live)]
        leaving: list[bool] = []

        def flat(*leaves: Any) -> list[Any]:
            one = backward(leaves[: len(residuals)], _with_zeros(live, iter(leaves[len(residuals) :]), one_avals))
            leaving.extend(not isinstance(ct, Zero) for ct in one)
            return [ct for ct in one if not isinstance(ct, Zero)]

        dims = [*residual_dims, *[0] * sum(live)]
        results, found = batch_flat(flat, self.axis_size, given, dims, axis_name=self.axis_name)
        placed = iter(zip(results, found))
        return [
            self._placed(*next(placed), wanted) if a else Zero(aval)
            for a, aval, wanted in zip(leaving, avals, self.dims)
        ]

    def _placed(self, ct: Any, dim: int | None, wanted: int | None) -> Any:
        if wanted is not None:
            return place_batch_axis(ct, dim, wanted, self.axis_size)
        # What is not mapped has a share in every example.
        return reduce_sum(place_batch_axis(ct, dim, 0, self.axis_size), axes=(0,))


def _vjp_batch(
    axis_size: int, args: Flat, dims: MappedDims, *, call_jaxpr: Program, fwd: VjpRule, num_consts: int, **params: Any
) -> tuple[list[Any], list[int]]:
    program = batch_in_front(call_jaxpr, axis_size, tuple(dims))
    rule = BatchedVjpRule(fwd, axis_size, dims[num_consts:])
    outs = bind(custom_vjp_call_p, *args, call_jaxpr=program, fwd=rule, num_consts=num_consts, **params)
    return outs, [0] * len(outs)


custom_vjp_call_p = call_primitive(
    "custom_vjp_call",
    "Call a Program whose reverse derivative is a rule of the user's.",
    program="call_jaxpr",
    call=_call_function,
    linearize=_vjp_linearize,
    batch=_vjp_batch,
    examples=Absent("it takes a Program and a rule; tests/calls/test_custom_rules.py tests it under all transforms"),
)


def _refuse_forward_mode(*args: Any, name: str, **params: Any) -> Any:
    raise DifferentiationError(
        f"`{name}` has a rule for reverse mode only (custom_vjp), so forward mode (jvp, linearize, jacfwd, hessian) "
        "cannot go through it. Use grad, vjp or jacrev, or give it a rule with functad.custom_jvp, which serves both. "
        f"Where this is the derivative of a derivative, do not call `{name}` in its own fwd"
    )


def _lin_abstract_eval(*avals: Aval, out_avals: Sequence[Aval], **params: Any) -> list[Aval]:
    return [a for a in out_avals if is_differentiable(a)]


def _lin_transpose(
    cts: Flat, *args: Any, name: str, bwd: Backward, num_res: int, active: Sequence[bool], out_avals: Sequence[Aval]
) -> list[Any]:
    arriving = iter(cts)
    given = [next(arriving) if is_differentiable(a) else Zero(a) for a in out_avals]
    with _explaining(name):
        found = [ct for ct, a in zip(bwd(args[:num_res], given), active) if a]
    return [None] * num_res + [ct if is_linear(a) else None for ct, a in zip(found, args[num_res:])]


custom_lin_p = Primitive(
    name="custom_lin",
    doc="The derivative of a `custom_vjp_call`: residuals, then tangents. It can be transposed, and nothing else.",
    multiple_results=True,
    abstract_eval=_lin_abstract_eval,
    impl=_refuse_forward_mode,
    jvp=Linearize(_refuse_forward_mode),
    transpose=_lin_transpose,
    batch=_refuse_forward_mode,
    lower=Loops(_refuse_forward_mode, keys=True),
    examples=Absent("it can only be transposed; tests/calls/test_custom_rules.py does"),
)
