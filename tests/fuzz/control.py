"""Steps that hold functions: loops, branches, calls, checkpoints, derivative rules of one's own, nested in each other.

Knows what each asks of its functions; nothing of what these compute.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from functad.array import ArrayImpl

from .generator import Maker, Value
from .program import Function

DEEPEST = 2
LENGTHS = (0, 1, 2, 3, 4, 7, 8, 9, 10, 17)


def _body(m: Maker, params: Sequence[Value], results: Sequence[Value | None], returns: str, signature: str = "",
          closes: bool = True, extra: bool = False) -> Function | None:  # fmt: skip
    """A function whose results have the types of the given values, and perhaps one more of any type."""
    inner = m.inner(params, closes)
    own = list(inner.values)
    inner.fill(m.choose.choice([1, 2, 4]))
    found = []
    for wanted in results:
        assert wanted is not None
        x = inner.of_type(wanted.shape, wanted.dtype)
        late = [v for v in inner.values[len(own) :] if v.kind == wanted.kind and np.size(np.asarray(v.x))]
        if late and m.choose.random() < 0.8:
            x = inner.fitted(m.choose.choice(late[-3:]), wanted.shape, wanted.dtype) or x
        if x.dtype != wanted.dtype or x.shape != wanted.shape:
            return None
        found.append(x)
    if extra:
        found.append(inner.pick() or found[0])
    return inner.function(own, found, returns, signature)


def _allowed(m: Maker) -> bool:
    return m.depth < DEEPEST and m.choose.random() < (0.9 if m.depth == 0 else 0.4)


def _row(v: Value, k: int = 0) -> Value:
    return Value(v.name, ArrayImpl(np.asarray(v.x)[k].copy()))


def scan(m: Maker) -> None:
    """A scan that carries one or two values, reads rows of an array or none, and stacks a result."""
    if not _allowed(m):
        return
    carry = [v for v in (m.pick(), m.pick()) if v is not None][: m.choose.randint(1, 2)]
    length = m.choose.choice(LENGTHS)
    xs = m.of_type((length, *m.choose.choice(carry).shape), m.choose.choice(carry).dtype) if carry else None
    if xs is None or np.size(np.asarray(xs.x)) > 2 * m.profile.largest:
        return
    reads = length > 0 and m.choose.random() < 0.7
    params = [*carry, _row(xs)] if reads else list(carry)
    body = _body(m, params, carry, "($0, $1), $2" if len(carry) == 2 else "$0, $1", extra=True)
    if body is None:
        return
    setup = f"step = lambda c, x, f=$f0: f({'*c' if len(carry) == 2 else 'c'}{', x' if reads else ''})"
    start = "($0, $1)" if len(carry) == 2 else "$0"
    unroll = m.choose.choice([1, 1, 1, 2, 3, length or 1])
    reverse = m.choose.random() < 0.3
    m.emit(
        f"lax.scan(step, {start}, {f'${len(carry)}' if reads else None}, length={length}, "
        f"unroll={unroll}, reverse={reverse})[{m.choose.choice([0, 1])}]" + ("[0]" if len(carry) == 2 else ""),
        *carry, *([xs] if reads else []), bodies=[body], setup=[setup],
    )  # fmt: skip


def fori(m: Maker) -> None:
    if not _allowed(m) or (v := m.pick()) is None:
        return
    i = Value("i", ArrayImpl(np.array(0, np.int32)))
    body = _body(m, [i, v], [v], "$0")
    if body is not None:
        low, steps = m.choose.choice([0, 0, 3, -2]), m.choose.choice(LENGTHS)
        setup = "step = lambda i, c, f=$f0: f(jnp.asarray(i, 'int32'), c)"  # its numbers adapt to other types
        m.emit(f"lax.fori_loop({low}, {low + steps}, step, $0)", v, bodies=[body], setup=[setup])


def while_loop(m: Maker) -> None:
    """A loop that ends after some steps, whether its number is known or not."""
    if not _allowed(m) or (v := m.pick()) is None:
        return
    body = _body(m, [v], [v], "$0")
    limit = m.of_type((), "int32")
    if body is not None:
        m.emit(
            "lax.while_loop(goes_on, step, (jnp.int32(0), $0))[1]", v, limit, bodies=[body],
            setup=["goes_on = lambda s: s[0] < jnp.minimum($1, 7)", "step = lambda s, f=$f0: (s[0] + 1, f(s[1]))"],
        )  # fmt: skip


def cond(m: Maker) -> None:
    if not _allowed(m) or (v := m.pick()) is None:
        return
    branches = [_body(m, [v], [v], "$0") for _ in range(m.choose.choice([2, 2, 3]))]
    if any(b is None for b in branches):
        return
    bodies = [b for b in branches if b is not None]
    if len(bodies) == 2:
        which = m.of_type((), bool)
        m.emit("lax.cond($1, $f0, $f1, $0)", v, which, bodies=bodies)
    else:
        m.emit("lax.switch($1, [$f0, $f1, $f2], $0)", v, m.of_type((), "int32"), bodies=bodies)


def call(m: Maker) -> None:
    """A call that is compiled, computed again, mapped, or differentiated by hand."""
    if not _allowed(m) or (v := m.pick()) is None:
        return
    w = m.pick() or v
    kind = m.choose.choice(["jit", "checkpoint", "custom_jvp", "custom_vjp", "vmap", "grad"])
    if kind in ("custom_jvp", "custom_vjp", "grad") and (v.kind != "f" or w.kind != "f"):
        return
    if kind == "vmap":
        if not v.shape or not v.shape[0]:
            return
        body = _body(m, [_row(v)], [_row(v)], "$0")
        if body is not None:
            m.emit("vmap($f0)($0)", v, bodies=[body])
        return
    body = _body(m, [v, w], [v], "$0", closes=kind in ("jit", "checkpoint"))
    if body is None:
        return
    setup = {
        "custom_jvp": [
            "$f0r = custom_jvp($f0)",
            "$f0r.defjvp(lambda primals, tangents, f=$f0: jvp(f, primals, tangents))",
        ],
        "custom_vjp": [
            "$f0r = custom_vjp($f0)",
            "$f0r.defvjp(lambda *xs, f=$f0: (f(*xs), xs), lambda xs, ct, f=$f0: vjp(f, *xs)[1](ct))",
        ],
    }
    if kind == "custom_vjp":
        m.traits.add("reverse only")
    text = {
        "jit": "jit($f0)($0, $1)", "checkpoint": "checkpoint($f0)($0, $1)", "custom_jvp": "$f0r($0, $1)",
        "custom_vjp": "$f0r($0, $1)", "grad": "grad(lambda *xs, f=$f0: jnp.sum(f(*xs)))($0, $1)",
    }  # fmt: skip
    m.emit(text[kind], v, w, bodies=[body], setup=setup.get(kind, []))


CONTROL = [scan, scan, fori, while_loop, cond, call, call]
