"""Simplification: inline calls, fold constants, share common subexpressions, apply algebra, drop dead code.

Each pass is a function from Program to Program with the same results; `simplify` runs them in order. No pass
assumes that NaN, infinities or signed zeros do not occur.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functad.config import config
from functad.exact import exact_key
from functad.ir import Atom, Eqn, Literal, Program, Var, check_program, has_effects, subprograms
from functad.primitives.arithmetic import mul_p
from functad.primitives.common import reshape_p
from functad.primitives.structure import slice_p
from functad.transforms.calls import inline_calls
from functad.transforms.dead_code import eliminate_dead_code
from functad.transforms.gathered_products import multiply_before_gathering
from functad.transforms.loop_merge import atom_key, merge_whiles
from functad.transforms.loop_passes import optimize_loops
from functad.transforms.rewrites import (
    eliminate_broadcasts,
    merge_transposes,
    multiply_repeated_numbers,
    scatter_into_zeros,
)


def simplify(program: Program) -> Program:
    """All passes in order; with `config.check_programs` the result of each is checked.

    >>> import functad
    >>> import functad.numpy as jnp
    >>> from functad.transforms.simplify import simplify
    >>> print(simplify(functad.make_jaxpr(lambda x: jnp.sin(x) * 1. + jnp.sin(x))(2.)))
    { lambda ; a:f32[]. let b:f32[] = sin a; c:f32[] = add b b in (c,) }
    """
    for a_pass in PASSES:
        program = a_pass(program)
        if config.check_programs:
            check_program(program)
    return program


class _Rewriter:
    """Rebuilds a Program equation by equation under a substitution of variables."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.known: dict[Var, Atom] = {}
        self.eqns: list[Eqn] = []

    def read(self, atom: Atom) -> Atom:
        return self.known.get(atom, atom) if isinstance(atom, Var) else atom

    def read_all(self, eqn: Eqn) -> Eqn:
        invars = tuple(self.read(a) for a in eqn.invars)
        return eqn if invars == eqn.invars else eqn.replace(invars=invars)

    def finish(self) -> Program:
        outvars = [self.read(a) for a in self.program.outvars]
        return self.program.replace(eqns=self.eqns, outvars=outvars)


def fold_constants(program: Program) -> Program:
    """Compute now the equations whose operands and results are all scalar constants."""
    out = _Rewriter(program)
    for eqn in program.eqns:
        eqn = out.read_all(eqn)
        foldable = (
            eqn.invars
            and all(isinstance(a, Literal) for a in eqn.invars)
            and all(v.aval.shape == () for v in eqn.outvars)
            and not eqn.primitive.multiple_results
            and not any(subprograms(eqn.params))
        )
        if foldable:
            (var,) = eqn.outvars
            with np.errstate(all="ignore"):
                value = eqn.primitive.impl(*[a.value for a in eqn.invars if isinstance(a, Literal)], **eqn.params)
            out.known[var] = Literal(np.asarray(value)[()], var.aval)
        else:
            out.eqns.append(eqn)
    return out.finish()


def share_common_subexpressions(program: Program) -> Program:
    """Compute equal equations once."""
    out = _Rewriter(program)
    seen: dict[Any, Eqn] = {}
    for eqn in program.eqns:
        eqn = out.read_all(eqn)
        try:
            key = (eqn.primitive.name, tuple(map(atom_key, eqn.invars)), exact_key(eqn.params))
            earlier = seen.setdefault(key, eqn)
        except TypeError:  # a parameter that has no hash: nothing equals it
            earlier = eqn
        if earlier is eqn or has_effects(eqn):
            out.eqns.append(eqn)
        else:
            out.known.update(zip(eqn.outvars, earlier.outvars))
    return out.finish()


def simplify_algebra(program: Program) -> Program:
    """Drop operations that give back their operand, such as `x * 1`, `neg (neg x)` and double transposes."""
    out = _Rewriter(program)
    definitions: dict[Var, Eqn] = {}
    for eqn in program.eqns:
        eqn = out.read_all(eqn)
        rule = _ALGEBRA.get(eqn.primitive.name)
        result = rule(eqn, definitions) if rule else None
        if isinstance(result, Eqn):
            eqn = result
        elif result is not None and result.aval.same_type(eqn.outvars[0].aval):
            out.known[eqn.outvars[0]] = result
            continue
        out.eqns.append(eqn)
        definitions.update((v, eqn) for v in eqn.outvars)
    return out.finish()


def _is_literal(atom: Atom, value: float) -> bool:
    if not isinstance(atom, Literal) or atom.aval.dtype.kind == "c" or atom.value != value:
        return False  # complex products and quotients by 1 are not the identity for infinities
    return value != 0 or math.copysign(1.0, atom.value) == math.copysign(1.0, value)


def _mul(eqn: Eqn, definitions: dict[Var, Eqn]) -> Atom | None:
    x, y = eqn.invars
    return y if _is_literal(x, 1) else x if _is_literal(y, 1) else None  # x·1 = x, NaN and −0 included


def _div(eqn: Eqn, definitions: dict[Var, Eqn]) -> Atom | Eqn | None:
    x, y = eqn.invars
    if _is_literal(y, 1):
        return x
    if not isinstance(y, Literal) or y.aval.dtype.kind != "f":
        return None
    fraction, exponent = math.frexp(y.value)
    limits = np.finfo(y.aval.dtype)
    if abs(fraction) != 0.5 or not limits.minexp < exponent < limits.maxexp:
        return None
    # By a power of two: x / y and x · (1 / y) are the same number, rounded once, but a product takes less time.
    return eqn.replace(primitive=mul_p, invars=(x, Literal(y.aval.dtype.type(1 / y.value), y.aval)))


def _sub(eqn: Eqn, definitions: dict[Var, Eqn]) -> Atom | None:
    return eqn.invars[0] if _is_literal(eqn.invars[1], 0.0) else None  # x − (+0) = x, also for x = −0


def _add(eqn: Eqn, definitions: dict[Var, Eqn]) -> Atom | None:
    x, y = eqn.invars  # x + (−0) = x; x + (+0) is not x for x = −0, except among integers
    zero = -0.0 if eqn.outvars[0].aval.dtype.kind in "fc" else 0
    return y if _is_literal(x, zero) else x if _is_literal(y, zero) else None


def _add_any(eqn: Eqn, definitions: dict[Var, Eqn]) -> Atom | None:
    x, y = eqn.invars  # a cotangent that starts from zeros: loops sum up that way, and no sign of zero matters
    return y if _is_zeros(x, definitions) else x if _is_zeros(y, definitions) else _add(eqn, definitions)


def _is_zeros(atom: Atom, definitions: dict[Var, Eqn]) -> bool:
    eqn = _definition(atom, "broadcast_in_dim", definitions)
    number = atom if eqn is None else eqn.invars[0]
    return isinstance(number, Literal) and number.aval.dtype.kind == "f" and bool(number.value == 0)


def _definition(atom: Atom, name: str, definitions: dict[Var, Eqn]) -> Eqn | None:
    eqn = definitions.get(atom) if isinstance(atom, Var) else None
    return eqn if eqn is not None and eqn.primitive.name == name else None


def _neg(eqn: Eqn, definitions: dict[Var, Eqn]) -> Atom | None:
    inner = _definition(eqn.invars[0], "neg", definitions)
    return inner.invars[0] if inner else None


def _and(eqn: Eqn, definitions: dict[Var, Eqn]) -> Atom | None:
    x, y = eqn.invars
    if eqn.outvars[0].aval.dtype != bool:
        return None
    return y if _is_literal(x, True) else x if _is_literal(y, True) else None


def _select_n(eqn: Eqn, definitions: dict[Var, Eqn]) -> Atom | None:
    which, *cases = eqn.invars
    return cases[min(max(int(which.value), 0), len(cases) - 1)] if isinstance(which, Literal) else None


def _transpose(eqn: Eqn, definitions: dict[Var, Eqn]) -> Atom | Eqn | None:
    permutation = eqn.params["permutation"]
    inner = _definition(eqn.invars[0], "transpose", definitions)
    if inner:
        permutation = tuple(inner.params["permutation"][i] for i in permutation)
        eqn = eqn.replace(invars=inner.invars, params={"permutation": permutation})
    return eqn.invars[0] if permutation == tuple(range(len(permutation))) else eqn


def _reshape(eqn: Eqn, definitions: dict[Var, Eqn]) -> Atom | Eqn | None:
    inner = _definition(eqn.invars[0], "reshape", definitions)
    if inner:
        eqn = eqn.replace(invars=inner.invars)
    return eqn.invars[0] if eqn.invars[0].aval.shape == eqn.params["new_sizes"] else eqn


def _squeeze(eqn: Eqn, definitions: dict[Var, Eqn]) -> Atom | Eqn | None:
    if not _definition(eqn.invars[0], "reshape", definitions):
        return None
    return _reshape(eqn.replace(primitive=reshape_p, params={"new_sizes": eqn.outvars[0].aval.shape}), definitions)


def _slice(eqn: Eqn, definitions: dict[Var, Eqn]) -> Eqn | None:
    """One of the arrays that were joined, or a part of one, instead of a part of the whole."""
    starts, limits, strides = (eqn.params[k] for k in ("start_indices", "limit_indices", "strides"))
    if not eqn.outvars[0].aval.size:
        return None
    stacked = _definition(eqn.invars[0], "stack", definitions)
    if stacked:
        axis = stacked.params["axis"]
        part, shape = stacked.invars[starts[axis]], eqn.outvars[0].aval.shape
        if shape[axis] == 1 and part.aval.size == math.prod(shape):  # all of it: a step of an unrolled loop
            return eqn.replace(primitive=reshape_p, invars=[part], params={"new_sizes": shape})
    joined = _definition(eqn.invars[0], "concatenate", definitions)
    if joined:
        axis, before = joined.params["dimension"], 0
        for part in joined.invars:
            end = before + part.aval.shape[axis]
            if before <= starts[axis] and limits[axis] <= end:
                moved = [tuple(n - before * (d == axis) for d, n in enumerate(ends)) for ends in (starts, limits)]
                params = {"start_indices": moved[0], "limit_indices": moved[1], "strides": strides}
                return eqn.replace(invars=[part], params=params)
            before = end
    return None


def _dynamic_slice(eqn: Eqn, definitions: dict[Var, Eqn]) -> Atom | Eqn | None:
    """A slice, where its place is known, as in the steps of an unrolled loop."""
    operand, *places = eqn.invars
    if not all(isinstance(a, Literal) for a in places):
        return None
    sizes = eqn.params["slice_sizes"]
    lasts = [n - size for n, size in zip(operand.aval.shape, sizes)]
    starts = [min(max(int(a.value), 0), last) for a, last in zip(places, lasts) if isinstance(a, Literal)]
    limits = tuple([start + size for start, size in zip(starts, sizes)])
    params = {"start_indices": tuple(starts), "limit_indices": limits, "strides": None}
    found = eqn.replace(primitive=slice_p, invars=[operand], params=params)
    return operand if sizes == operand.aval.shape else _slice(found, definitions) or found


def _convert(eqn: Eqn, definitions: dict[Var, Eqn]) -> Atom | None:
    return eqn.invars[0] if eqn.invars[0].aval.dtype == eqn.params["new_dtype"] else None


def _identity(eqn: Eqn, definitions: dict[Var, Eqn]) -> Atom | None:
    return eqn.invars[0]


_ALGEBRA: dict[str, Callable[[Eqn, dict[Var, Eqn]], Atom | Eqn | None]] = {
    "mul": _mul,
    "div": _div,
    "sub": _sub,
    "add": _add,
    "add_any": _add_any,
    "neg": _neg,
    "and": _and,
    "select_n": _select_n,
    "transpose": _transpose,
    "reshape": _reshape,
    "squeeze": _squeeze,
    "slice": _slice,
    "dynamic_slice": _dynamic_slice,
    "convert_element_type": _convert,
    "stop_gradient": _identity,
    "copy": _identity,
    "name": _identity,
}


def optimize_control(program: Program) -> Program:
    """Simplify the bodies of loops and branches, and move work out of loops."""
    return optimize_loops(program, simplify)


PASSES: tuple[Callable[[Program], Program], ...] = (
    inline_calls,
    eliminate_dead_code,
    optimize_control,
    scatter_into_zeros,
    eliminate_broadcasts,
    fold_constants,
    simplify_algebra,
    share_common_subexpressions,
    merge_whiles,
    merge_transposes,
    multiply_repeated_numbers,
    multiply_before_gathering,
    eliminate_dead_code,
)
