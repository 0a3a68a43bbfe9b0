"""`remat_p`: a Program called as one equation whose intermediate values are computed again for its derivative.

Knows the Program → Program transforms; nothing of pytrees, and policies as functions only.

The `Linearize` rule runs the Program as it stands, and records for the tangents a second `remat2`, of the Program
`(inputs, tangents) → tangents`: so its residuals are the inputs. Transposing that Program runs the equations of known
values forward and the rest backward: that is the recomputation. A policy is asked about every equation of the jvp that
depends on no tangent; what it allows becomes a result of the forward Program and an input of the other. The outermost
policy decides for those within, too.

Under `jit` both Programs are inlined, and sharing common subexpressions would undo it all. So a `remat2` that computes
again gets its operands through `optimization_barrier`, with the cotangents among them; no pass sees through that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functad.calls.builder import TangentMap, call_primitive, pushforward_by
from functad.calls.closed_call import closed_call_p
from functad.calls.common import split_at, with_constants
from functad.calls.jit import jit_p
from functad.editing.common_subexpressions import share_common_subexpressions
from functad.editing.dead_code import eliminate_dead_code
from functad.editing.inlining import inline_calls
from functad.ir import Absent, Atom, Eqn, Primitive, Program, Var, memoised, program_puts_values, variables_read
from functad.lowering_rules import Defined
from functad.primitives.barrier import put_traced, source_of
from functad.records import NamedTuple
from functad.tracing import Tracer, bind, eval_program
from functad.transforms.programs import jvp_program

Policy = Callable[..., bool]


def remat(program: Program, args: Sequence[Any], **params: Any) -> list[Any]:
    """Bind a Program as one equation; its constants become operands.

    params: `prevent_cse`, `policy`, and `differentiated`: whether the Program is a derivative, which computes again.
    """
    program, args = with_constants(program, args)
    if program_puts_values(program):  # cotangents go back to where the operands lie
        args = [put_traced(a, None) if isinstance(a, Tracer) and source_of(a) else a for a in args]
    return bind(remat_p, *args, jaxpr=program, **params)


# --- derivatives ------------------------------------------------------------------------------------------


class _SplitDerivative(NamedTuple):
    """A Program's derivative, cut into what runs now and what runs when the derivative is wanted.

    forward: inputs → (outputs, what the policy saves). again: (what was saved, used inputs, active tangents) → active
    tangent outputs; it computes everything else again.
    """

    forward: Program | None  # None: the Program as it is, which is not kept with itself
    again: Program
    used: tuple[int, ...]  # the inputs that `again` takes
    out_active: tuple[bool, ...]


def _split(program: Program, active: tuple[bool, ...], policy: Policy | None) -> _SplitDerivative:
    return memoised(program, ("remat", active, policy), lambda: _make_split(program, active, policy))


def _make_split(program: Program, active: tuple[bool, ...], policy: Policy | None) -> _SplitDerivative:
    jvp, out_active = jvp_program(program, active)
    count_in, count_out = len(program.invars), len(program.outvars)
    primals, tangents = jvp.invars[:count_in], jvp.invars[count_in:]
    if policy is not None:
        jvp = _opened(inline_calls(jvp, kept=_is_whole), {*primals, *jvp.constvars}, policy)
    before, saved, again = _cut(jvp.replace(outvars=jvp.outvars[count_out:]), {*primals, *jvp.constvars}, policy)
    needed = variables_read(again)
    used = tuple(i for i, v in enumerate(primals) if v in needed)
    again = again.replace(invars=[*saved, *(primals[i] for i in used), *tangents], name=f"again_{program.name}")
    forward = None
    if saved:
        outvars = [*jvp.outvars[:count_out], *saved]
        name = f"forward_{program.name}"
        forward = eliminate_dead_code(jvp.replace(invars=primals, eqns=before, outvars=outvars, name=name))
    return _SplitDerivative(forward, again, used, out_active)


def _cut(program: Program, known: set[Var], policy: Policy | None) -> tuple[list[Eqn], list[Var], Program]:
    """The equations of a Program that depend on known inputs only, which results of them the policy saves, and the
    Program as it is where those are known (its inputs are left as they were)."""
    known = set(known)
    saveable: list[Var] = []
    before, after = [], []
    for eqn in program.eqns:
        is_known = known.issuperset(_variables(eqn))
        if is_known:
            known.update(eqn.outvars)
            before.append(eqn)
        if is_known and policy is not None and policy(eqn.primitive, *[a.aval for a in eqn.invars], **eqn.params):
            saveable += eqn.outvars
        else:
            after.append(eqn)
    again = eliminate_dead_code(program.replace(eqns=after))
    needed = variables_read(again)
    return before, [v for v in saveable if v in needed], again


def _is_whole(primitive: Primitive) -> bool:
    """Whether it stays: calls that decide for themselves what is kept of them, and what has rules of a user's."""
    return primitive in (remat_p, closed_call_p) or isinstance(primitive.lower, Defined)


def _opened(program: Program, known: set[Var], policy: Policy) -> Program:
    """The Program with all that the policy saves outside of the `remat2` equations, which get it as operands.

    A policy decides on equations wherever they were written: also on those of a checkpointed function within.
    """
    known = set(known)
    eqns: list[Eqn] = []
    for eqn in program.eqns:
        is_known = known.issuperset(_variables(eqn))
        if eqn.primitive is remat_p and is_known and not eqn.params["differentiated"]:
            inner = eqn.params["jaxpr"]  # a call without tangents: nothing is computed again for it
            inner = _opened(inner, set(inner.invars), policy)
            eqn = eqn.replace(primitive=jit_p, params={"jaxpr": inner, "name": inner.name})
        elif eqn.primitive is remat_p:
            taken_out, eqn = _taken_out(eqn, known, policy)
            eqns += taken_out
            known.update(v for e in taken_out for v in e.outvars)
        if is_known:
            known.update(eqn.outvars)
        eqns.append(eqn)
    if eqns == list(program.eqns):
        return program
    # A function's values stand in a jvp beside the call for its tangents, which holds the same equations.
    return share_common_subexpressions(inline_calls(program.replace(eqns=eqns), kept=_is_whole))


def _taken_out(eqn: Eqn, known: set[Var], policy: Policy) -> tuple[list[Eqn], Eqn]:
    """The equations that compute what the policy saves of a call, and the call that takes their results."""
    inner = eqn.params["jaxpr"]
    known_within = {v for v, a in zip(inner.invars, eqn.invars) if not isinstance(a, Var) or a in known}
    inner = _opened(inner, known_within, policy)
    before, saved, again = _cut(inner, known_within, policy)
    if not saved:
        return [], eqn
    outer: dict[Atom, Atom] = dict(zip(inner.invars, eqn.invars))
    taken_out = []
    computing = [e for e in before if e.outvars]  # what only acts is left where it is
    for e in eliminate_dead_code(inner.replace(eqns=computing, outvars=saved)).eqns:
        outvars = [Var(v.aval) for v in e.outvars]
        taken_out.append(e.replace(invars=[outer.get(a, a) for a in e.invars], outvars=outvars))
        outer.update(zip(e.outvars, outvars))
    jaxpr, used = _without_unused_inputs(again.replace(invars=[*saved, *again.invars]))
    operands = [*(outer[v] for v in saved), *eqn.invars]
    return taken_out, eqn.replace(invars=[operands[i] for i in used], params={**eqn.params, "jaxpr": jaxpr})


def _variables(eqn: Eqn) -> list[Var]:
    return [a for a in eqn.invars if isinstance(a, Var)]


def _linearize(
    program: Program,
    primals: Sequence[Any],
    active: Sequence[bool],
    *,
    differentiated: bool,
    prevent_cse: bool,
    policy: Policy | None,
) -> tuple[list[Any], TangentMap]:
    forward, again, used, out_active = _split(program, tuple(active), policy)
    params = {"prevent_cse": prevent_cse, "policy": policy, "differentiated": True}
    forward = forward or program
    results = remat(forward, primals, **params) if differentiated else eval_program(forward, primals)
    outs, saved = split_at(results, len(program.outvars))
    residuals = [*saved, *(primals[i] for i in used)]

    def push(part: Program, args: Sequence[Any]) -> list[Any]:
        later = differentiated or any(map(_is_recorded, args[len(residuals) :]))
        return remat(part, args, **{**params, "differentiated": later})

    return outs, pushforward_by(push, again, residuals, active, out_active, program.out_avals)


def _is_recorded(tangent: Any) -> bool:
    """Whether a tangent stands in a linear recording for those that come later, once the forward pass is forgotten.

    In forward mode tangents are there at once, and `jit` may find that what they need was just computed.
    """
    trace = tangent.owner if isinstance(tangent, Tracer) else None
    return trace is not None and not (trace.keeps_values or trace.records_all or trace.replays)


def _call_transposed(transposed: Program, given: Sequence[Any], **params: Any) -> list[Any]:
    program, used = _without_unused_inputs(transposed)
    return remat(program, [given[i] for i in used], **{**params, "differentiated": True})


def _without_unused_inputs(program: Program) -> tuple[Program, tuple[int, ...]]:
    def make() -> tuple[Program, tuple[int, ...]]:
        needed = variables_read(program)
        used = tuple(i for i, v in enumerate(program.invars) if v in needed)
        return program.replace(invars=[program.invars[i] for i in used]), used

    return memoised(program, ("used inputs",), make)


remat_p = call_primitive(
    "remat2",
    "Call a Program whose intermediate values are not kept for its derivative, but computed again.",
    call=remat,
    linearize=_linearize,
    call_transposed=_call_transposed,
    again=lambda *, differentiated, prevent_cse, **params: differentiated and prevent_cse,
    examples=Absent("it takes a Program; tests/calls/test_checkpoint.py tests it under all transforms"),
)
