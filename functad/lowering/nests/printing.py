"""What every printer of loop nests needs: parameters, where statements stand, and the text of accumulators.

Knows the intrinsics of kernel text; no target.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from keyword import iskeyword

import numpy as np

from functad.dtypes import kind_of
from functad.ir import Eqn, Var
from functad.lowering.memory.buffers import Buffer, Storage
from functad.lowering.nests.affine import Symbol
from functad.lowering.nests.names import words_in
from functad.lowering.nests.nest import Accumulator, Carried, Nest, Statement, Update, names_of, uses_of
from functad.pretty import literal_text
from functad.primitives.loops.text import cast, put_to

# What a reduction starts from, and how it takes in a value; {T} is the cast of its dtype, {c} is complex_ or nothing.
IDENTITY = {"sum": "{T}(0)", "prod": "{T}(1)", "or": "{T}(0)", "xor": "{T}(0)", "and": "{T}(-1)"}
UPDATE = {
    "sum": "accumulate({a}, {x})",
    "prod": "{a} * {x}",
    "max": "{c}maximum({a}, {x})",
    "min": "{c}minimum({a}, {x})",
    "and": "{a} & {x}",
    "or": "{a} | {x}",
    "xor": "{a} ^ {x}",
}

Parameter = tuple[str, Buffer, str]


def kernel_parameters(nest: Nest) -> dict[Storage, Parameter]:
    """The (name, buffer, "r" | "w" | "rw") of every storage that a nest uses."""
    found: dict[Storage, Parameter] = {}
    for buffer, _, writes in nest.accesses():
        mode = "w" if writes else "r"
        known = found.get(buffer.storage)
        if known is None:
            taken = {name for name, _, _ in found.values()}
            name = buffer.name
            while name in taken:
                name += "_"
            found[buffer.storage] = (name, buffer, mode)
        elif known[2] != mode:
            found[buffer.storage] = (known[0], known[1], "rw")
    return found


def depths(nest: Nest, depth_of_symbol: Mapping[Symbol, int]) -> dict[Statement, int]:
    """How deep in the loops each statement must stand, given how deep each loop variable is known."""
    found: dict[Statement, int] = {}
    of_name = {symbol.name: depth for symbol, depth in depth_of_symbol.items()}
    for s in nest.statements:
        is_carried = isinstance(s, Carried)
        depth = max(depth_of_symbol.values()) if is_carried else max((of_name.get(n, 0) for n in uses_of(s)), default=0)
        found[s] = depth
        of_name.update(dict.fromkeys(names_of(s), depth))
    return found


def start_of_accumulator(a: Accumulator) -> str:
    """What an accumulator starts from."""
    if a.kind in ("max", "min"):
        return _extreme(a.dtype, a.kind == "max")
    if kind_of(a.dtype) == "b":
        return "True" if a.kind in ("and", "prod") else "False"
    if a.kind == "and" and kind_of(a.dtype) == "u":
        return f"{cast(a.dtype)}({np.iinfo(a.dtype).max})"
    return IDENTITY[a.kind].format(T=cast(a.dtype))


def start_of(carry: Carried) -> str:
    """What combined with any value is this value, the signs of zeros included.

    For products of complex numbers there is no such number: `carried_on` takes the first value as it is.
    """
    to_own = cast(carry.dtype)
    if carry.kind in ("max", "min"):
        return _extreme(carry.dtype, carry.kind == "max")
    if carry.kind == "sum" and kind_of(carry.dtype) in "fc":  # 0.0 would make 0.0 of -0.0
        return f"{to_own}(complex_of(-0.0, -0.0))" if kind_of(carry.dtype) == "c" else f"{to_own}(-0.0)"
    return f"{to_own}({0 if carry.kind == 'sum' else 1})"


def carried_on(carry: Carried, total: str, value: str, step: str = "") -> str:
    """The total with one more value, or partial result, at a step of the carried loop that may be the first."""
    put = put_to({"sum": "add", "prod": "mul"}.get(carry.kind, carry.kind), carry.dtype, total, value)
    has_start = carry.kind != "prod" or kind_of(carry.dtype) != "c"
    return put if has_start or not step else f"{value} if {step} == 0 else {put}"


def accumulated(a: Accumulator, total: str, x: str) -> str:
    """The accumulator `total` with the value, or the other partial result, `x`."""
    if a.kind == "prod" and a.dtype == np.int64:  # Numba takes it that these do not overflow
        total, x = f"u64({total})", f"u64({x})"
    if a.few and a.kind == "sum" and kind_of(a.dtype) == "f":
        return f"{total} + {x}"  # what overflows in one order only is as without jit, below 8 terms
    text = UPDATE[a.kind].format(a=total, x=x, c="complex_" if kind_of(a.dtype) == "c" else "")
    # Operators give Numba's integers of 64 bits.
    return f"{cast(a.dtype)}({text})" if kind_of(a.dtype) in "iu" and a.kind not in ("max", "min") else text


def updated(update: Update, element: str) -> str:
    """What lies at the place of an update after it, which is the text `element` before."""
    return put_to(update.kind, update.buffer.dtype, element, update.value)


def comments(eqns: Sequence[Eqn], names: Mapping[Var, str]) -> str:
    """The equations that a kernel computes, as comments, without their parameters."""
    return "".join(f"# {line}\n" for eqn in eqns for line in _equation_text(eqn, names).split("\n"))


def _equation_text(eqn: Eqn, names: Mapping[Var, str]) -> str:
    outs = ", ".join(f"{names[v]}:{v.aval.str_short()}" for v in eqn.outvars)
    ins = [names[a] if isinstance(a, Var) else f"{literal_text(a.value)}:{a.aval.str_short()}" for a in eqn.invars]
    return f"{outs} = {' '.join([eqn.primitive.name, *ins])}"


# Words that are followed by no parenthesis, or are Python's own.
_NO_NAMES = {"inf", "nan", "min", "max", "abs", "range", "int", "float", "complex", "bool", "True", "False", "None"}
_SET = re.compile(r"^ *(?:for +)?([A-Za-z_]\w*(?: *, *[A-Za-z_]\w*)*) *(?:=(?!=)|in\b)", re.MULTILINE)


def own_names_apart(body: str, given: Sequence[str], vocabulary: Container[str]) -> tuple[str, list[str]]:
    """A kernel's text and the names that it is given, of which none is one of the vocabulary's, nor Python's.

    A word that a parenthesis follows is of the vocabulary, and no other word is: a kernel calls nothing of its own.
    """
    own = {*given, *(name for names in _SET.findall(body) for name in words_in(names))}
    clashing = sorted(n for n in own if n in vocabulary or n in _NO_NAMES or iskeyword(n))
    renamed: dict[str, str] = {}
    for name in clashing:
        number = 2
        while (fresh := f"{name}_{number}") in own or fresh in vocabulary or re.search(rf"\b{fresh}\b", body):
            number += 1
        renamed[name] = fresh
        own.add(fresh)
    if renamed:
        body = re.sub(rf"(?<![\w.])({'|'.join(renamed)})\b(?!\()", lambda found: renamed[found.group()], body)
    return body, [renamed.get(name, name) for name in given]


def _extreme(dtype: np.dtype, lowest: bool) -> str:
    to_own = cast(dtype)
    if kind_of(dtype) == "b":
        return str(not lowest)
    if kind_of(dtype) in "iu":
        limits = np.iinfo(dtype)
        return f"{to_own}({limits.min if lowest else limits.max})"
    infinity = "-inf" if lowest else "inf"
    return f"{to_own}(complex_of({infinity}, {infinity}))" if kind_of(dtype) == "c" else f"{to_own}({infinity})"
