"""`remat_p`: a Program called as one equation whose intermediate values are computed again for its derivative.

Knows the Program → Program transforms; nothing of pytrees, and policies as functions only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from functad.backends import interpreter
from functad.config import config
from functad.ir import Absent, Atom, Aval, Linearize, Primitive, Program, Var, Zero
from functad.primitives.common import instantiate
from functad.tracing import bind, eval_program
from functad.transforms.dead_code import eliminate_dead_code
from functad.transforms.programs import batch_program, jvp_program, memoised, transpose_call
from functad.transforms.simplify import inline_calls

Policy = Callable[..., bool]
COMPUTED_AGAIN = ("remat2", "closed_call")  # calls that have decided for themselves what is kept of them


def remat(program: Program, args: Sequence[Any], **params: Any) -> list[Any]:
    """Bind a Program as one equation; its constants become operands.

    params: `prevent_cse`, `policy`, and `differentiated`: whether the Program is a derivative, which computes again.
    """
    jaxpr = memoised(program, ("closed",), program.close) if program.consts else program
    return bind(remat_p, *program.consts, *args, jaxpr=jaxpr, **params)


def _impl(*args: np.ndarray, jaxpr: Program, **params: Any) -> list[np.ndarray]:
    if config.debug_nans or config.debug_infs:  # equation by equation, so that the first one to blame is found
        return [np.asarray(out) for out in eval_program(inline_calls(jaxpr), args)]
    return memoised(jaxpr, ("interpreted",), lambda: interpreter.compile_program(jaxpr))(args)


# --- derivatives ------------------------------------------------------------------------------------------


class _Split(NamedTuple):
    """A Program's derivative, cut into what runs now and what runs when the derivative is wanted.

    forward: inputs → (outputs, what the policy saves). again: (what was saved, used inputs, active tangents) → active
    tangent outputs; it computes everything else again.
    """

    forward: Program
    again: Program
    used: tuple[int, ...]  # the inputs that `again` takes
    out_active: tuple[bool, ...]


def _split(program: Program, active: tuple[bool, ...], policy: Policy | None) -> _Split:
    return memoised(program, ("remat", active, policy), lambda: _make_split(program, active, policy))


def _make_split(program: Program, active: tuple[bool, ...], policy: Policy | None) -> _Split:
    jvp, out_active = jvp_program(program, active)
    if policy is not None:
        jvp = inline_calls(jvp, kept=COMPUTED_AGAIN)  # a policy decides on equations, wherever they were written
    count_in, count_out = len(program.invars), len(program.outvars)
    primals, tangents = jvp.invars[:count_in], jvp.invars[count_in:]
    known: set[Var] = {*primals, *jvp.constvars}
    saveable: list[Var] = []
    before, after = [], []
    for eqn in jvp.eqns:
        is_known = all(a in known for a in eqn.invars if isinstance(a, Var))
        if is_known:
            known.update(eqn.outvars)
            before.append(eqn)
        if is_known and policy is not None and policy(eqn.primitive, *[a.aval for a in eqn.invars], **eqn.params):
            saveable += eqn.outvars
        else:
            after.append(eqn)
    again = eliminate_dead_code(jvp.replace(eqns=after, outvars=jvp.outvars[count_out:]))
    needed = _read(again)
    saved = [v for v in saveable if v in needed]
    used = tuple(i for i, v in enumerate(primals) if v in needed)
    again = again.replace(invars=[*saved, *(primals[i] for i in used), *tangents], name=f"again_{program.name}")
    forward = program
    if saved:
        outvars = [*jvp.outvars[:count_out], *saved]
        name = f"forward_{program.name}"
        forward = eliminate_dead_code(jvp.replace(invars=primals, eqns=before, outvars=outvars, name=name))
    return _Split(forward, again, used, out_active)


def _read(program: Program) -> set[Atom]:
    """What the equations and outputs of a Program read."""
    return {a for e in program.eqns for a in e.invars} | {*program.outvars}


def _linearize(
    primals: Sequence[Any],
    active: Sequence[bool],
    *,
    jaxpr: Program,
    differentiated: bool,
    prevent_cse: bool,
    policy: Policy | None,
) -> tuple[list[Any], Callable[[Sequence[Any]], list[Any]]]:
    forward, again, used, out_active = _split(jaxpr, tuple(active), policy)
    params = {"prevent_cse": prevent_cse, "policy": policy, "differentiated": True}
    results = remat(forward, primals, **params) if differentiated else eval_program(forward, primals)
    n = len(jaxpr.outvars)
    residuals = [*results[n:], *(primals[i] for i in used)]

    def pushforward(tangents: Sequence[Any]) -> list[Any]:
        given = [instantiate(t) for t, a in zip(tangents, active) if a]
        found = iter(remat(again, [*residuals, *given], **params))
        return [next(found) if a else Zero(v.aval) for a, v in zip(out_active, jaxpr.outvars)]

    return results[:n], pushforward


def _transpose(cts: Sequence[Any], *args: Any, jaxpr: Program, **params: Any) -> list[Any]:
    def call(transposed: Program, given: Sequence[Any]) -> list[Any]:
        program, used = _without_unused_inputs(transposed)
        return remat(program, [given[i] for i in used], **params)

    return transpose_call(call, jaxpr, cts, args)


def _without_unused_inputs(program: Program) -> tuple[Program, tuple[int, ...]]:
    def make() -> tuple[Program, tuple[int, ...]]:
        needed = _read(program)
        used = tuple(i for i, v in enumerate(program.invars) if v in needed)
        return program.replace(invars=[program.invars[i] for i in used]), used

    return memoised(program, ("used inputs",), make)


def _batch(
    axis_size: int, args: Sequence[Any], dims: Sequence[int | None], *, jaxpr: Program, **params: Any
) -> tuple[list[Any], tuple[int | None, ...]]:
    program, out_dims = batch_program(jaxpr, axis_size, tuple(dims))
    return remat(program, args, **params), out_dims


def _abstract_eval(*avals: Aval, jaxpr: Program, **params: Any) -> list[Aval]:
    return jaxpr.out_avals


remat_p = Primitive(
    name="remat2",
    doc="Call a Program whose intermediate values are not kept for its derivative, but computed again.",
    multiple_results=True,
    abstract_eval=_abstract_eval,
    impl=_impl,
    jvp=Linearize(_linearize),
    transpose=_transpose,
    batch=_batch,
    lower=Absent("calls are inlined before a Program is lowered"),
    examples=Absent("it takes a Program; tests/test_checkpoint.py tests it under all transforms"),
)
