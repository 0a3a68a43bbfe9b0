"""Steps of `lax` whose operands must suit each other: products, slices, gathers, what layers of networks are made of.

Knows what each of them takes; nothing of how many steps a program has.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .generator import Maker, Value
from .values import count

UNARY = (
    "sin cos tanh logistic erf exp log1p expm1 sqrt rsqrt neg abs floor ceil sign square cbrt atan asinh log exp2"
).split()


def binary(m: Maker) -> None:
    if (v := m.pick()) is None:
        return
    w = m.like(v)
    if v.kind == "b":
        ops = ["bitwise_and", "bitwise_or", "bitwise_xor"]
    else:
        ops = ["add", "sub", "mul", "mul", "add"] + (["max", "min", "div"] if v.kind == "f" else [])
        ops += ["max", "min", "bitwise_and", "shift_right_logical"] if v.kind in "iu" else []
    a, b = (v, w) if m.choose.random() < 0.7 else (w, v)
    m.emit(f"lax.{m.choose.choice(ops)}($0, $1)", a, b)


def unary(m: Maker) -> None:
    if (v := m.pick("f")) is not None:
        m.emit(f"lax.{m.choose.choice(UNARY)}($0)", v)


def constant(m: Maker) -> None:
    """Arithmetic with a number written out: what algebraic simplification looks for."""
    if (v := m.pick("ifc")) is None:
        return
    numbers = ["0", "1", "-1", "2", "3"] + (
        ["0.0", "-0.0", "0.0", "-0.0", "0.5", "1e30", "-2.5"] if v.kind in "f" else []
    )
    operator, number = m.choose.choice("+-*" + "/" * (v.kind == "f")), m.choose.choice(numbers)
    m.emit(f"$0 {operator} {number}" if m.choose.random() < 0.6 else f"{number} {operator} $0", v)


def compare(m: Maker) -> None:
    if (v := m.pick("biuf")) is not None:
        m.emit(f"lax.{m.choose.choice(['lt', 'ge', 'eq', 'ne', 'le', 'gt'])}($0, $1)", v, m.like(v))


def select(m: Maker) -> None:
    if (v := m.pick()) is None:
        return
    w, mask = m.of_type(v.shape, v.dtype), m.of_type(v.shape if m.choose.random() < 0.8 else (), bool)
    m.emit("lax.select($0, $1, $2)", mask, v, w)


def convert(m: Maker) -> None:
    v = m.pick()
    dtype = m.choose.choice([*m.profile.dtypes, "float32", "int32", "float64", "int8"])
    if v is not None:
        m.fitted(v, v.shape, dtype)


# --- moving ------------------------------------------------------------------------------------------------


def reshape(m: Maker) -> None:
    if (v := m.pick(rank=1)) is None:
        return
    shape, kind = list(v.shape), m.choose.random()
    if kind < 0.4 and len(shape) > 1:
        d = m.choose.randrange(len(shape) - 1)
        shape[d : d + 2] = [shape[d] * shape[d + 1]]
    elif kind < 0.6:
        shape.insert(m.choose.randint(0, len(shape)), 1)
    else:
        d = m.choose.randrange(len(shape))
        divisors = [k for k in (2, 3, 4, 5) if shape[d] and shape[d] % k == 0]
        if divisors:
            k = m.choose.choice(divisors)
            shape[d : d + 1] = [shape[d] // k, k]
        else:
            shape = [count(shape)]
    if len(shape) < 6:
        m.emit(f"lax.reshape($0, {tuple(shape)})", v)


def transpose(m: Maker) -> None:
    if (v := m.pick(rank=2)) is None:
        return
    permutation = list(range(len(v.shape)))
    m.choose.shuffle(permutation)
    m.emit(f"lax.transpose($0, {tuple(permutation)})", v)


def broadcast(m: Maker) -> None:
    if (v := m.pick()) is None or len(v.shape) > 3:
        return
    shape, dims = list(v.shape), list(range(len(v.shape)))
    at = m.choose.randint(0, len(shape))
    shape.insert(at, m.choose.choice(m.profile.sizes))
    dims = [d if d < at else d + 1 for d in dims]
    for d in dims:
        if shape[d] == 1 and m.choose.random() < 0.5:
            shape[d] = 3
    if count(shape) <= m.profile.largest:
        m.emit(f"lax.broadcast_in_dim($0, {tuple(shape)}, {tuple(dims)})", v)


def cut(m: Maker) -> None:
    if (v := m.pick(rank=1)) is None:
        return
    low = [m.choose.randint(0, max(n - 1, 0)) if m.choose.random() < 0.5 else 0 for n in v.shape]
    high = [m.choose.randint(a, n) if m.choose.random() < 0.5 else n for a, n in zip(low, v.shape)]
    if 0 not in m.profile.sizes:
        high = [max(h, a + 1) for a, h in zip(low, high)]
    m.emit(f"lax.slice($0, {low}, {high}, {[m.choose.choice([1, 1, 1, 2]) for _ in low]})", v)


def pad(m: Maker) -> None:
    if (v := m.pick(rank=1)) is None:
        return
    pick = m.choose.choice
    config = [(pick([0, 0, 1, 2, -1]), pick([0, 0, 1, -1]), pick([0, 0, 1])) for _ in v.shape]
    shape = [low + n + high + max(n - 1, 0) * inner for n, (low, high, inner) in zip(v.shape, config)]
    if min(shape) >= (0 if 0 in m.profile.sizes else 1) and count(shape) <= m.profile.largest:
        m.emit(f"lax.pad($0, $1, {config})", v, m.of_type((), v.dtype))


def rev(m: Maker) -> None:
    if (v := m.pick(rank=1)) is not None:
        m.emit(f"lax.rev($0, {axes(m, v)})", v)


def concatenate(m: Maker) -> None:
    if (v := m.pick(rank=1)) is None:
        return
    parts = [v, m.of_type(v.shape, v.dtype), v][: m.choose.randint(2, 3)]
    places = ", ".join(f"${i}" for i in range(len(parts)))
    if m.choose.random() < 0.7:
        m.emit(f"lax.concatenate([{places}], {m.choose.randrange(len(v.shape))})", *parts)
    else:
        m.emit(f"jnp.stack([{places}], {m.choose.randint(0, len(v.shape))})", *parts)


def axes(m: Maker, v: Value, least: int = 1) -> tuple[int, ...]:
    return tuple(sorted(m.choose.sample(range(len(v.shape)), m.choose.randint(least, len(v.shape)))))


INDEX_DTYPES = ("int32", "int32", "uint8", "int8", "int64")


# --- slices at places that are computed ----------------------------------------------------------------------


def starts(m: Maker, rank: int) -> list[Value]:
    return [m.of_type((), m.choose.choice(INDEX_DTYPES)) for _ in range(rank)]


def dynamic_slice(m: Maker) -> None:
    if (v := m.pick(rank=1)) is None:
        return
    sizes = [m.choose.randint(min(n, 1), n) for n in v.shape]
    places = starts(m, len(sizes))
    indices = ", ".join(f"${i + 1}" for i in range(len(places)))
    if m.choose.random() < 0.6:
        m.emit(f"lax.dynamic_slice($0, [{indices}], {sizes})", v, *places)
        return
    patch = m.of_type(sizes, v.dtype)
    m.emit(f"lax.dynamic_update_slice($0, ${len(places) + 1}, [{indices}])", v, *places, patch)


def take(m: Maker) -> None:
    v, index = m.pick(rank=1, elements=1), m.pick("iu")
    if v is None or index is None or len(index.shape) > 2:
        return
    axis = m.choose.randrange(len(v.shape))
    mode = m.choose.choice(["clip", "fill", "wrap"])
    if count(v.shape) // max(v.shape[axis], 1) * count(index.shape) <= m.profile.largest:
        m.emit(f"jnp.take($0, $1, axis={axis}, mode={mode!r})", v, index)


def scatter(m: Maker) -> None:
    v = m.pick("ifu", rank=1, elements=1)
    if v is None:
        return
    n = m.choose.choice([1, 2, 3, 5])
    index = m.of_type((n,), "int32")
    updates = m.of_type((n, *v.shape[1:]) if m.choose.random() < 0.8 else (), v.dtype)
    method, mode = m.choose.choice(["add", "add", "max", "min", "mul", "multiply"]), m.choose.choice(["drop", "clip"])
    m.emit(f"$0.at[$1].{method}($2, mode={mode!r})", v, index, updates)


def update_slice(m: Maker) -> None:
    """`x.at[…].set(…)` with a static index."""
    if (v := m.pick(rank=1, elements=1)) is None:
        return
    n = v.shape[0]
    start = m.choose.randint(0, n - 1)
    index = m.choose.choice([f"{start}", f"{start}:", f":{start}", "::2", "::-1", f"..., {v.shape[-1] - 1}"])
    method = m.choose.choice(["set", "add", "mul"]) if v.kind != "b" else "set"
    m.emit(f"$0.at[{index}].{method}($1)", v, m.of_type((), v.dtype))


# --- reducing ----------------------------------------------------------------------------------------------


def reduce(m: Maker) -> None:
    if (v := m.pick(rank=1)) is None:
        return
    ops = ["and", "or", "xor"] if v.kind == "b" else ["sum", "sum", "prod"]
    ops += ["max", "min"] if v.kind in "iuf" else []
    ops += ["and", "or", "xor"] if v.kind in "iu" else []
    m.emit(f"lax.reduce_{m.choose.choice(ops)}($0, {axes(m, v)})", v)


def arg(m: Maker) -> None:
    if (v := m.pick("biuf", rank=1, elements=1)) is not None:
        m.emit(f"lax.{m.choose.choice(['argmax', 'argmin'])}($0, {m.choose.randrange(len(v.shape))}, np.int32)", v)


def cumulative(m: Maker) -> None:
    if (v := m.pick("iuf", rank=1)) is not None:
        name = m.choose.choice(["cumsum", "cummax", "cummin", "cumprod"])
        m.emit(f"lax.{name}($0, {m.choose.randrange(len(v.shape))}, {m.choose.random() < 0.4})", v)


def normalised(m: Maker) -> None:
    """What softmax and layer norms are made of: a reduction that is repeated along the axis it was over."""
    if (v := m.pick("f", rank=1, elements=1)) is None:
        return
    over = axes(m, v)
    kept = tuple(d for d in range(len(v.shape)) if d not in over)
    total = m.emit(f"lax.reduce_{m.choose.choice(['sum', 'max'])}($0, {over})", v)
    wide = total and m.emit(f"lax.broadcast_in_dim($0, {v.shape}, {kept})", total[0])
    if wide:
        m.emit(f"lax.{m.choose.choice(['sub', 'sub', 'div'])}($0, $1)", v, wide[0])


def sort(m: Maker) -> None:
    if (v := m.pick("iuf", rank=1)) is None:
        return
    axis = m.choose.randrange(len(v.shape))
    if m.choose.random() < 0.4:
        w = m.of_type(v.shape, m.choose.choice([v.dtype, np.int32]))
        m.emit(f"lax.sort(($0, $1), dimension={axis}, num_keys=1)", v, w, results=2)
    else:
        m.emit(f"lax.sort($0, {axis})", v)


# --- products ----------------------------------------------------------------------------------------------


def dot_general(m: Maker) -> None:
    if (v := m.pick("fiuc", rank=1)) is None:
        return
    same = [u for u in m.visible if u.dtype == v.dtype and u.shape]
    w = m.choose.choice(same)
    pairs = [(i, j) for i, n in enumerate(v.shape) for j, k in enumerate(w.shape) if n == k]
    m.choose.shuffle(pairs)
    used: list[tuple[int, int]] = []
    for i, j in pairs:
        if all(i != a and j != b for a, b in used) and m.choose.random() < 0.7:
            used.append((i, j))
    batched = [p for p in used if m.choose.random() < 0.3]
    contracted = [p for p in used if p not in batched]
    numbers = tuple((tuple(i for i, _ in some), tuple(j for _, j in some)) for some in (contracted, batched))
    k = count([v.shape[i] for i, _ in contracted])
    result = count(v.shape) * count(w.shape) // max(k, 1) ** 2 // max(count([v.shape[i] for i, _ in batched]), 1)
    if result <= m.profile.largest:
        m.emit(f"lax.dot_general($0, $1, {numbers})", v, w)


def dense(m: Maker) -> None:
    """`p - c * (a @ b + d @ e)`: what products take in."""
    if (a := m.pick("f", rank=2, elements=1)) is None or len(a.shape) != 2:
        return
    columns = m.choose.choice(m.profile.sizes)
    terms = []
    for x in [a, m.of_type(a.shape, a.dtype)][: m.choose.randint(1, 2)]:
        weights = m.of_type((a.shape[1], columns), a.dtype)
        terms += m.emit("$0 @ $1", x, weights)
    if not terms:
        return
    total: Any = terms if len(terms) == 1 else m.emit(f"$0 {m.choose.choice('+-')} $1", *terms)
    if total and m.choose.random() < 0.6:
        total = m.emit(f"$0 * {m.choose.choice(['2', '-1', '0.5'])}", total[0]) or total
    if total:
        p = m.of_type(total[0].shape if m.choose.random() < 0.7 else (columns,), a.dtype)
        m.emit(m.choose.choice(["$0 + $1", "$1 - $0", "$0 - $1"]), total[0], p)


ELEMENTWISE = [binary, binary, unary, unary, constant, constant, select, compare, convert]
MOVES = [
    reshape, transpose, broadcast, cut, pad, rev, concatenate, dynamic_slice, take, scatter, update_slice,
]  # fmt: skip
REDUCTIONS = [reduce, reduce, normalised, cumulative, arg, sort]
PRODUCTS = [dot_general, dense]
OPERATIONS = [*ELEMENTWISE * 2, *MOVES, *REDUCTIONS, *PRODUCTS * 2]
