"""The check of key reuse: no random key is turned into bits, or split, twice. Runs where `config.debug_key_reuse` asks.

Each key that there is has a life, and what moves keys moves their lives. Knows kinds of lowering rules; no primitive.
What a loop does is gone through for two steps, so that a key used in each of them is found as any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import ref

import numpy as np

from functad.array import KeyArray
from functad.dtypes import key_fry
from functad.errors import KeyReuseError
from functad.ir import Atom, Aval, Literal, Primitive, Program, Source, Var
from functad.lowering_rules import Call, ControlFlow, OnWords
from functad.user_source import user_source

Followed = Any  # what is known of an operand: an array of the lives of keys, a value, or None


class _Life:
    """One key: by which operation it has been used, and in which of the user's lines."""

    __slots__ = ("use",)

    def __init__(self) -> None:
        self.use: tuple[str, Source | None] | None = None


_lives: dict[int, tuple[ref[KeyArray], np.ndarray]] = {}  # of the keys of arrays, by the ids of these


def follow(primitive: Primitive, args: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> None:
    """Note what an operation on values did to keys.

    Raises:
        KeyReuseError: it used a key that had been used before.
    """
    operands = [_lives_of(a) if isinstance(a, KeyArray) else a for a in args]
    lives = _step(primitive, operands, params, [_aval(r) for r in results], user_source())
    for result, of_result in zip(results, lives):
        if isinstance(result, KeyArray) and of_result is not None:
            _remember(result, of_result)


def _aval(x: Any) -> Aval:
    return Aval(x.shape, x.dtype)


def _lives_of(keys: KeyArray) -> np.ndarray:
    known = _lives.get(id(keys))
    if known is not None and known[0]() is keys:
        return known[1]
    return _remember(keys, _new_lives(keys.shape))


def _remember(keys: KeyArray, lives: np.ndarray) -> np.ndarray:
    number = id(keys)
    _lives[number] = ref(keys, lambda _: _lives.pop(number, None)), lives
    return lives


def _new_lives(shape: Sequence[int], lives: Sequence[_Life] | None = None) -> np.ndarray:
    """An array of lives, of new ones if none are given."""
    array = np.empty(tuple(shape), object)
    array.reshape(-1)[:] = [_Life() for _ in range(array.size)] if lives is None else lives
    return array


def _is_lives(x: Followed) -> bool:
    return isinstance(x, np.ndarray) and x.dtype == object


def _use(lives: Followed, name: str, source: Source | None) -> None:
    for life in lives.flat if _is_lives(lives) else ():
        if life.use is not None:
            raise _reused(life.use, (name, source))
        life.use = name, source


def _reused(first: tuple[str, Source | None], second: tuple[str, Source | None]) -> KeyReuseError:
    return KeyReuseError(
        "a random key is used for the second time, which would give the same numbers again.\n"
        f"First used by `{first[0]}` at: {first[1]}\n"
        f"Used again by `{second[0]}` at: {second[1]}\n"
        "Split it before: `key, subkey = functad.random.split(key)`; or, if the same numbers are meant, use "
        "functad.random.clone(key)"
    )


def _step(
    primitive: Primitive,
    operands: Sequence[Followed],
    params: dict[str, Any],
    outs: Sequence[Aval],
    source: Source | None,
) -> Sequence[Followed]:
    """The lives of the keys in the results of an operation; None for results of which nothing is known."""
    rule = primitive.lower
    if isinstance(rule, OnWords):
        if rule.uses:
            _use(operands[0], primitive.name, source)
    elif isinstance(rule, Call):
        if not params.get("differentiated"):  # which only computes again
            return _run(params[rule.parameter], operands)
    elif isinstance(rule, ControlFlow):
        found: list[Followed] = _CONTROL[rule.kind](operands, outs, **params)
        return found
    elif any(a.dtype is key_fry for a in outs) and not any(x is None for x in operands):
        return _moved(primitive, operands, params)
    return [None] * len(outs)


def _moved(primitive: Primitive, operands: Sequence[Followed], params: dict[str, Any]) -> list[Followed]:
    """What an operation that moves keys does to their lives: it is given their numbers in the place of words."""
    lives = [life for x in operands if _is_lives(x) for life in x.flat]
    given, count = [], 0
    for x in operands:
        if _is_lives(x):
            given.append(np.arange(count, count + x.size, dtype=np.uint64).reshape(x.shape))
            count += x.size
        else:
            given.append(_value(x))
    moved = primitive.impl(*given, **params)
    results = []
    for numbers in map(np.asarray, moved if primitive.multiple_results else [moved]):
        found = [lives[n] if n < count else _Life() for n in numbers.flat]  # what fills up is no key of the operands
        results.append(_new_lives(numbers.shape, found))
    return results


def _value(x: Followed) -> Any:
    return getattr(x, "_value", x)


def _run(program: Program | None, operands: Sequence[Followed]) -> list[Followed]:
    """Go through a Program; the lives of the keys in its results."""
    if program is None:
        return []
    env: dict[Var, Followed] = dict(zip(program.invars, operands))
    env.update(
        (v, _lives_of(c) if isinstance(c, KeyArray) else None) for v, c in zip(program.constvars, program.consts)
    )

    def read(atom: Atom) -> Followed:
        if isinstance(atom, Literal):
            return atom.value
        if env.get(atom) is None and atom.aval.dtype is key_fry:
            env[atom] = _new_lives(atom.aval.shape)
        return env.get(atom)

    for eqn in program.eqns:
        outs = [v.aval for v in eqn.outvars]
        found = _step(eqn.primitive, [read(a) for a in eqn.invars], eqn.params, outs, eqn.source)
        env.update((v, x) for v, x in zip(eqn.outvars, found) if v.aval.dtype is key_fry)
    return [read(a) for a in program.outvars]


def _scan(
    operands: Sequence[Followed], outs: Sequence[Aval], *, jaxpr: Program, length: int, num_consts: int, num_carry: int,
    reverse: bool, linear: bool, **params: Any,
) -> list[Followed]:  # fmt: skip
    if linear:  # of a derivative, which draws no numbers of its own
        return [None] * len(outs)
    first = num_consts + num_carry
    consts, carry, xs = operands[:num_consts], list(operands[num_consts:first]), operands[first:]
    steps = range(length - 1, -1, -1) if reverse else range(length)
    for i in (*steps[:1], *steps[-1:])[:length]:
        found = _run(jaxpr, [*consts, *carry, *[x[i, ...] if _is_lives(x) else None for x in xs]])
        carry = found[:num_carry]
    for x in xs:
        if _is_lives(x) and length > 2 and x[steps[0], ...].size and (use := x[steps[0], ...].flat[0].use):
            for life in (one for one in x.flat if one.use is None):
                life.use = use
    return [*carry, *[None] * (len(outs) - num_carry)]


def _while(
    operands: Sequence[Followed], outs: Sequence[Aval], *, cond_jaxpr: Program, cond_nconsts: int, body_jaxpr: Program,
    body_nconsts: int,
) -> list[Followed]:  # fmt: skip
    first = cond_nconsts + body_nconsts
    cond_consts, body_consts, carry = operands[:cond_nconsts], operands[cond_nconsts:first], list(operands[first:])
    count = len(carry)
    for _ in range(2):
        _run(cond_jaxpr, [*cond_consts, *carry])
        carry = _run(body_jaxpr, [*body_consts, *carry])[:count]
    return [*carry, *[None] * (len(outs) - count)]


def _cond(operands: Sequence[Followed], outs: Sequence[Aval], *, branches: Sequence[Program]) -> list[Followed]:
    """One branch runs: each finds the keys as they were; afterwards those are used that one of the branches uses."""
    index, *given = operands
    if index is not None:
        branches = [branches[min(max(int(np.asarray(_value(index))), 0), len(branches) - 1)]]
    lives = [life for x in given if _is_lives(x) for life in x.flat]
    before = [life.use for life in lives]
    uses, results = list(before), []
    for branch in branches:
        for life, use in zip(lives, before):
            life.use = use
        results.append(_run(branch, given))
        uses = [use or life.use for life, use in zip(lives, uses)]
    for life, use in zip(lives, uses):
        life.use = use
    return [same[0] if all(_same(same[0], x) for x in same) else None for same in zip(*results)]


def _same(x: Followed, y: Followed) -> bool:
    return _is_lives(x) and _is_lives(y) and all(a is b for a, b in zip(x.flat, y.flat))


_CONTROL: dict[str, Any] = {"scan": _scan, "while": _while, "cond": _cond}
