"""Binding the loops and branches of users without what only passes through them.

A part of the carry that no step changes becomes a constant. A stacked result that is one of the arrays gone through,
and a result that every branch hands on, is taken from the operands at once. So nothing of this is copied, or, under
differentiation, stacked step by step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functad.calls.common import group, memoised_together, split_at, with_constants
from functad.control import conditional, scan, while_loop
from functad.ir import Program, Var, memoised, program_has_effects, variables_read
from functad.records import NamedTuple


def handed_on(program: Program) -> list[int | None]:
    """For each result of a closed Program the number of the input that it is, or None."""
    place = {v: i for i, v in enumerate(program.invars)}
    return [place.get(a) if isinstance(a, Var) else None for a in program.outvars]


def _merged(flags: Sequence[bool], chosen: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """The inverse of sorting values by their flag."""
    marked, rest = iter(chosen), iter(others)
    return [next(marked) if f else next(rest) for f in flags]


def _others(flags: Sequence[bool], values: Sequence[Any]) -> list[Any]:
    return group([not f for f in flags], values)


class _ForwardedScan(NamedTuple):
    body: Program | None  # None: as it is, for a Program is not kept with itself
    fixed: list[bool]  # of the carry: what no step changes
    copied: list[int | None]  # for each stacked result: which of the arrays it is


def bind_scan(
    body: Program, carry: Sequence[Any], xs: Sequence[Any], *, length: int, reverse: bool, unroll: int
) -> tuple[list[Any], list[Any]]:
    """A scan; returns the last carry and the stacked results."""
    body, consts = with_constants(body)
    n, m = len(consts), len(carry)
    parts = memoised(body, ("scan forwarding", n, m), lambda: _scan_parts(body, n, m))
    moving, stacked = scan.scan(
        parts.body or body, [*group(parts.fixed, carry), *consts], _others(parts.fixed, carry), xs,
        length=length, reverse=reverse, unroll=unroll,
    )  # fmt: skip
    found = iter(stacked)
    ys = [next(found) if i is None else xs[i] for i in parts.copied]
    return _merged(parts.fixed, group(parts.fixed, carry), moving), ys


def _scan_parts(body: Program, num_consts: int, num_carry: int) -> _ForwardedScan:
    first_xs = num_consts + num_carry
    sources = handed_on(body)
    fixed = [source == num_consts + i for i, source in enumerate(sources[:num_carry])]
    copied = [None if i is None or i < first_xs else i - first_xs for i in sources[num_carry:]]
    if not any(fixed) and all(i is None for i in copied):
        return _ForwardedScan(None, fixed, copied)
    consts, carry, xs = split_at(body.invars, num_consts, num_carry)
    given, ys = body.outvars[:num_carry], body.outvars[num_carry:]
    slim = body.replace(
        invars=[*group(fixed, carry), *consts, *_others(fixed, carry), *xs],
        outvars=[*_others(fixed, given), *(y for y, i in zip(ys, copied) if i is None)],
    )
    return _ForwardedScan(slim, fixed, copied)


class _While(NamedTuple):
    slim: tuple[Program, Program] | None  # condition and body; None: as they are
    fixed: list[bool]  # of the carry: what no step changes and the condition does not read


def bind_while(cond: Program, body: Program, carry: Sequence[Any]) -> list[Any]:
    """A loop as long as a condition holds; returns the last carry."""
    cond, cond_consts = with_constants(cond)
    body, body_consts = with_constants(body)
    n, m = len(cond_consts), len(body_consts)
    parts = memoised_together((body, cond), ("while forwarding", n, m), lambda: _while_parts(cond, n, body, m))
    fixed = group(parts.fixed, carry)
    cond, body = parts.slim or (cond, body)
    moving = while_loop.while_(cond, cond_consts, body, [*fixed, *body_consts], _others(parts.fixed, carry))
    return _merged(parts.fixed, fixed, moving)


def _while_parts(cond: Program, cond_nconsts: int, body: Program, body_nconsts: int) -> _While:
    asked = variables_read(cond)
    cond_consts, cond_carry = split_at(cond.invars, cond_nconsts)
    body_consts, carry = split_at(body.invars, body_nconsts)
    fixed = [source == body_nconsts + i and cond_carry[i] not in asked for i, source in enumerate(handed_on(body))]
    if not any(fixed):
        return _While(None, fixed)
    slim_cond = cond.replace(invars=[*cond_consts, *_others(fixed, cond_carry)])
    slim_body = body.replace(
        invars=[*group(fixed, carry), *body_consts, *_others(fixed, carry)], outvars=_others(fixed, body.outvars)
    )
    return _While((slim_cond, slim_body), fixed)


class _Cond(NamedTuple):
    branches: list[Program] | None  # None: as they are
    taken: list[int | None]  # for each result: which operand it is, whatever branch runs


def bind_cond(branches: Sequence[Program], index: Any, operands: Sequence[Any]) -> list[Any]:
    """A choice among closed Programs; returns the results of the one chosen."""
    parts = memoised_together(branches, ("cond forwarding",), lambda: _cond_parts(branches))
    branches = parts.branches or branches
    wanted = branches[0].outvars or any(map(program_has_effects, branches))
    found = iter(conditional.cond(branches, index, operands)) if wanted else iter(())
    return [next(found) if i is None else operands[i] for i in parts.taken]


def _cond_parts(branches: Sequence[Program]) -> _Cond:
    taken = [places[0] if len(set(places)) == 1 else None for places in zip(*map(handed_on, branches))]
    kept = [i is None for i in taken]
    if all(kept):
        return _Cond(None, taken)
    return _Cond([b.replace(outvars=group(kept, b.outvars)) for b in branches], taken)
