"""Each part of the compiler fires in some program, which has the same results without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from benchmarks.switches import SWITCHES, Switch
from functad import lax
from functad.backends.cpu import kept_plans
from functad.backends.cpu.products.blas import reads_in_place
from functad.options import available_cores
from functad.primitives.common import convert_element_type_p
from functad.tracing import bind

X = np.linspace(-2, 2, 12, dtype=np.float32)
M = X.reshape(3, 4)
LONG = np.linspace(0, 1, 200_000, dtype=np.float32)
ROWS = np.linspace(-1, 1, 40 * 64, dtype=np.float32).reshape(40, 64)
POINTS = np.linspace(-1, 1, 20 * 3, dtype=np.float32).reshape(20, 3)
PLACES = np.arange(40_000) % 97
WEIGHTS = np.linspace(-1, 1, 64 * 64, dtype=np.float32).reshape(64, 64)


class Example(NamedTuple):
    fun: Callable[..., Any]
    args: tuple[Any, ...]
    donate: int | tuple[int, ...] = ()
    backend: str | None = None


def _simulated(x: Any) -> Any:
    def step(y: Any, _: Any) -> Any:
        return 3.7 * y * (1 - y), None

    return lax.scan(step, x, None, 500)[0]


def _recurrent(weights: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = jnp.tanh(x @ weights[0] + h @ weights[1] + weights[2])
        return h, h

    return lax.scan(step, jnp.zeros((8, 64)), xs)[1].sum()


def _gated(u: Any, w: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        gates = jnp.tanh((x + h[:, :8]) @ u + h @ w)
        return gates[:, :24] * gates[:, 24:48] + gates[:, 48:72] * gates[:, 72:], None

    return lax.scan(step, jnp.ones((8, 24)), xs)[0]


def _newton(x: Any) -> Any:
    return lax.while_loop(lambda s: jnp.abs(s * s - x) > 1e-3, lambda s: 0.5 * (s + x / s), x)


def _small_program(x: Any) -> Any:
    return lax.fori_loop(0, 100, lambda i, c: jnp.sin(c) * 0.5 + 0.1, x)


PARTS = np.linspace(-1, 1, 40 * 8 * 64, dtype=np.float32).reshape(40, 8, 64)


def _layers(*shape: int) -> Example:
    """The gradient of a weight that all steps of a loop use, for a GPU."""
    gradient = functad.grad(lambda w, xs: lax.map(lambda x: jnp.tanh(x @ w), xs).sum())
    return Example(gradient, (WEIGHTS, functad.ShapeDtypeStruct(shape, "float32")), backend="cuda")


EXAMPLES: dict[str, Example] = {
    "rule: one of each row": Example(
        functad.grad(lambda m, i: jnp.take_along_axis(jnp.tanh(m), i[:, None], 1).sum()), (M, np.array([0, 3, 1]))
    ),
    "rule: broadcast of a number": Example(lambda x: jnp.broadcast_to(jnp.full(12, 2.0), (3, 12)) + x, (X,)),
    "rule: numbers for arrays": Example(lambda x: x + jnp.full(12, 2.0), (X,)),
    "rule: known numbers": Example(lambda x: x * (lax.add(np.float32(2), np.float32(1))), (X,)),
    "rule: neutral number": Example(lambda x: x * 1.0, (X,)),
    "rule: x / 2ⁿ": Example(lambda x: x / 4.0, (X,)),
    "rule: ct + 0": Example(functad.grad(_recurrent), ((WEIGHTS, WEIGHTS * 0.5, ROWS[0]), PARTS[:3])),
    "rule: −(−x)": Example(lambda x: lax.neg(lax.neg(x)), (X,)),
    "rule: known case": Example(lambda x: lax.select_n(np.bool_(True), x, x + 1), (X,)),
    "rule: update of some rows": Example(
        functad.vmap(lambda row, i: jnp.where(i > 0, row.at[i].set(1.0), row)), (M, np.array([0, 3, 1]))
    ),
    "rule: the same value": Example(lambda x: lax.stop_gradient(x) * 2, (X,)),
    "rule: the same dtype": Example(
        lambda x: bind(convert_element_type_p, x, new_dtype=np.dtype("float32"), weak_type=False) * 2, (X,)
    ),
    "rule: transposed twice": Example(lambda m: lax.transpose(lax.transpose(m, (1, 0)), (1, 0)) * 2, (M,)),
    "rule: reshaped twice": Example(lambda m: lax.reshape(lax.reshape(m, (12,)), (4, 3)) * 2, (M,)),
    "rule: slice of stacked arrays": Example(lambda x, y: jnp.stack([x, y * 2])[1] + 1, (X, X)),
    "rule: stacked arrays apart": Example(
        lambda x, y: (lambda a, b: a * b + a)(*lax.unstack(jnp.stack([x, y * 2]))), (X, X)
    ),
    "rule: each of stacked arrays": Example(lambda x, y: lax.unstack(jnp.stack([y, jnp.sin(x)], 1) * 2.0, 1), (X, X)),
    "rule: reshape of a number": Example(lambda x: lax.reshape(jnp.full((3, 4), 3.0), (12,)) * x, (X,)),
    "rule: element of a range": Example(lambda x: jnp.arange(10)[3:4] * x, (X,)),
    "rule: slice at a known place": Example(lambda x: lax.dynamic_slice(x, (np.int32(2),), (3,)) + 1, (X,)),
    "rule: product of narrow floats": Example(
        lambda a, b: jnp.matmul(a, b, preferred_element_type="float32"), (ROWS.astype("f2"), WEIGHTS.astype("f2"))
    ),
    "rule: product of transposed arrays": Example(lambda a, b: jnp.transpose(a) @ b, (ROWS, ROWS)),
    "rule: transposed product": Example(lambda a, b: jnp.transpose(a @ b), (ROWS, WEIGHTS)),
    "rule: product with one number": Example(lambda a: a @ jnp.ones((64, 64)), (ROWS,)),
    "rule: moved rows": Example(
        lambda t, i, w: t[i].reshape(2000, -1) @ w,
        (np.tile(ROWS[:20], (1, 8)), np.arange(2000).reshape(2, 1000) % 20, np.tile(WEIGHTS, (8, 1))),
    ),
    "rule: product of gathered rows": Example(
        lambda t, i, w: t[i] @ w, (np.tile(ROWS[:20], (1, 8)), np.arange(2000) % 20, np.tile(WEIGHTS, (8, 1)))
    ),
    "rule: gradient of a table": Example(
        functad.grad(lambda t, i, w: jnp.sum(jnp.tanh(t[i] @ w))),
        (np.tile(ROWS[:20], (1, 8)), np.arange(2000) % 20, np.tile(WEIGHTS, (8, 1))),
    ),
    "rule: product of few terms": Example(lambda a, b: jnp.sin(a @ b), (X, X)),
    "rule: few terms of pairs": Example(lambda p: ((p[:, None] - p[None]) ** 2).sum(-1), (POINTS,)),
    "rule: part of pairs": Example(lambda p: jnp.tanh(p[:, None] - p[None])[..., 1] * 2.0, (POINTS,)),
    "rule: product of a vector": Example(
        lambda x, y: jnp.tanh(x @ y), (LONG.reshape(8, -1), LONG[: LONG.size // 8]), backend="cuda"
    ),
    "rule: spectrum of real numbers": Example(jnp.fft.fft, (POINTS[:, 0],)),
    "rule: few sums of pairs": Example(lambda p: jnp.tanh(p[:, None] - p[None]).sum(1), (POINTS,)),
    "pass: share_common_subexpressions": Example(lambda x: jnp.sin(x) + jnp.sin(x), (X,)),
    "loop: while loops of the same steps": Example(functad.value_and_grad(_newton), (np.float32(2),)),
    "loop: scans over stacks of a while loop": Example(lambda x: functad.jvp(_newton, (x,), (x,)), (np.float32(2),)),
    "loop: stacks computed slice by slice": Example(functad.grad(lambda x: _newton(x * x)), (np.float32(2),)),
    "loop: loop-invariant code": Example(
        lambda x, y: lax.scan(lambda c, x: (jnp.tanh(c * x + jnp.sin(y)), None), x[0], x), (ROWS, ROWS[0])
    ),
    "loop: invariants of while loops": Example(
        lambda x, y: lax.while_loop(lambda c: c < 9, lambda c: c * 2 + jnp.sin(y), x), (np.float32(1), np.float32(2))
    ),
    "loop: starts from first slices": Example(
        functad.grad(lambda w, xs: (lax.scan(lambda h, x: (jnp.tanh(x @ w + h @ w),) * 2, xs[0], xs)[1][-1]).sum()),
        (WEIGHTS, PARTS),
    ),
    "loop: small products": Example(_recurrent, ((WEIGHTS, WEIGHTS * 0.5, ROWS[0]), PARTS)),
    "loop: sums over steps": Example(functad.grad(_recurrent), ((WEIGHTS, WEIGHTS * 0.5, ROWS[0]), PARTS)),
    "loop: stacks given on": Example(lambda w, xs: lax.map(lambda x: x @ w, xs), (WEIGHTS, PARTS)),
    "loop: linear recurrences": Example(functad.grad(_simulated), (np.float32(0.3),)),
    "loop: scan fusion": Example(lambda x: functad.jvp(lambda x: lax.scan(
        lambda c, x: (jnp.tanh(c + x),) * 2, x[0], x)[1], (x,), (x,))[1], (ROWS,)),
    "loop: sinking": Example(
        lambda x: lax.scan(lambda c, x: (jnp.tanh(c * x), None), x[0], x * 2), (np.tile(ROWS, (4, 4)),)
    ),
    "loop: products of one sum": Example(
        _gated, (np.tile(WEIGHTS[:8], (1, 2))[:, :96], np.tile(WEIGHTS[:24], (1, 2))[:, :96], PARTS[..., :8])
    ),
    "loop: unrolling": Example(lambda x: lax.scan(lambda c, _: (jnp.sin(c), None), x, None, 4)[0], (X,)),
    "loop: strips": _layers(24, 16384, 64),
    "loop: sums behind strips": _layers(24, 16384, 64),
    "loop: sums of products": Example(
        functad.grad(lambda w, xs: lax.map(lambda x: jnp.tanh(jnp.tanh(x @ w) @ w.T), xs).sum()), (WEIGHTS, PARTS)
    ),
    "loop: all steps at once": _layers(24, 256, 64),
    "fusion: readers first": Example(lambda w, x: (w - 0.1 * (x.T @ x), x @ w), (WEIGHTS, ROWS), donate=0),
    "fusion: parts of joined arrays": Example(lambda x, y: jnp.concatenate([x * 2, jnp.sin(y)]), (LONG, LONG)),
    "fusion: joins within nests": Example(
        lambda x, y: (z := jnp.concatenate([x[:100], jnp.sin(y)]), z * z), (LONG, LONG)
    ),
    "nests: rows from vectors on": Example(lambda x: x + jnp.roll(x, 1), (LONG,)),
    "memory: shifted stacks": Example(
        functad.grad(lambda x: lax.scan(lambda c, x: (jnp.tanh(c * x),) * 2, x[0], x)[1].sum()),
        (np.tile(ROWS, (1, 100)),),
    ),
    "nests: short reductions written out": Example(lambda x: jnp.sum(x * 2, 1), (ROWS.reshape(-1, 4),)),
    "nests: short rows written out": Example(lambda p, x: p * x[:3] + x[3], (POINTS, X)),
    "nests: rows instead of columns": Example(lambda a, b: a @ b, (np.int32(ROWS * 9), np.int32(WEIGHTS * 9))),
    "fusion: rows and columns in one nest": Example(lambda x: (x.sum(0), x.sum(1)), (np.tile(ROWS, (30, 1)),)),
    "fusion: rematerialisation": Example(lambda x: (y := x * 2 + 1) / jnp.sum(y), (np.tile(LONG, 2),)),
    "fusion: values of inputs, on GPUs": Example(
        lambda x, at: functad.grad(lambda x: jnp.sum(jnp.sin(x[at])))(x), (ROWS, np.arange(3)), backend="cuda"
    ),
    "fusion: rematerialisation of values of few numbers": Example(
        lambda x: (x[:, None] - x[None]) ** 2 @ x, (LONG[::24],)  # 265 MiB for all pairs
    ),
    "fusion: sums within products": Example(lambda w, x: w - x.T @ x, (WEIGHTS, ROWS), donate=0),
    "fusion: scalings within products": Example(lambda x: 0.1 * (x.T @ x), (ROWS,)),
    "fusion: composites taken apart": Example(lambda x: jnp.argmax(x * 2, 1), (ROWS,)),
    "fusion: units over the same rows": Example(
        lambda x, y, w: (a := jnp.tanh(x @ w), b := jnp.tanh(y @ w), a @ w, b @ w)[2:],
        (np.tile(ROWS, (4, 1)), np.tile(ROWS, (5, 1)), WEIGHTS),
    ),
    "fusion: sums by columns last": Example(
        lambda x: ((y := x / jnp.exp(x).sum(1, keepdims=True)).sum(0), jnp.tanh(y - y.max(1, keepdims=True))),
        (np.tile(ROWS, (30, 1)),),
    ),
    "nests: loops merged": Example(lambda m: jnp.tanh(m) * 2, (M,)),
    "nests: loops parted": Example(lambda x: jnp.tile(x, 50) * 2, (ROWS[0],)),
    "nests: updates shared by threads": Example(lambda x, i: jnp.zeros(97).at[i].add(x), (LONG[:40_000], PLACES)),
    "nests: extrema as integers": Example(lambda x: x.max(1), (ROWS,)),
    "nests: counts as integers": Example(lambda x: (x > 0).mean(1), (ROWS,)),
    "nests: carried columns in registers": Example(lambda p: jnp.cumsum(p, 0), (POINTS,)),
    "nests: reading before an update": Example(
        lambda x, i: jnp.zeros(97).at[i].add(jnp.sin(x)), (LONG[:1000], PLACES[:1000])
    ),
    "nests: reductions in memory order": Example(lambda x: jnp.transpose(x).sum(1), (np.tile(ROWS, (4, 1)),)),
    "nests: split reductions": Example(lambda x: (x * 2).sum(), (LONG,)),
    "kernels: squares of rows and columns": Example(
        lambda m: jnp.transpose(m) * 2 + 1, (np.tile(ROWS, (10, 10)),)
    ),
    "kernels: ranges of few steps": Example(jnp.tanh, (X,)),
    "kernels: numbers apart": Example(lambda x: (jnp.cumsum(x[:3000]), jnp.cumsum(x[:2000])), (LONG,)),
    "kernels: steps that are known to come": Example(
        lambda x, n: lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, jnp.sin(c[1])), (0, x))[1],
        (np.float32(1), np.int32(100)),
    ),
    "kernels: small products": Example(
        lambda a, b: lax.fori_loop(0, 50, lambda i, c: 0.1 * (a @ c) + b, b), (M[:3, :3] * 1j, M[:3, :3] + 0j)
    ),
    "kernels: loops of small steps": Example(_small_program, (np.float32(0.5),)),
    "blocks: kernels over the same rows": Example(
        lambda x, w: jnp.tanh(x @ w) @ w, (np.tile(ROWS, (10, 1)), WEIGHTS)
    ),
    "blocks: loops over rows of a thread's own": Example(
        lambda x: lax.fori_loop(0, 50, lambda i, c: jnp.tanh(c) * 0.5 + x, x), (np.tile(ROWS, (4, 4)),)
    ),
    "products: operands packed once": Example(
        lambda x, w: ((y := x[:, ::2]) @ w[:32], y @ w[32:]), (ROWS, WEIGHTS)
    ),
    "products: order of summed axes": Example(
        lambda a, b: lax.dot_general(a, b, (((2, 1), (1, 0)), ((), ()))), (PARTS, PARTS[:8].transpose(0, 2, 1))
    ),
    "products: plain weights": Example(
        lambda w, x, y: (x @ w.T, y @ w.T), (WEIGHTS, np.tile(ROWS, (10, 1)), np.tile(ROWS, (10, 1)) + 1)
    ),
    "products: weights of loops": Example(
        lambda w, xs: lax.scan(lambda c, x: (jnp.tanh(c @ w.T * 0.01 + x), None), xs[0], xs)[0], (WEIGHTS, PARTS)
    ),
}  # fmt: skip


def _jitted(example: Example) -> Any:
    """As a function of which nothing is remembered."""
    return functad.jit(lambda *args: example.fun(*args), donate_argnums=example.donate, backend=example.backend)


def _printed(example: Example) -> str:
    stages = _jitted(example).lower(*example.args)
    return f"{stages.optimized}{stages.kernels}{stages.memory_plan}{stages.cost}"


@pytest.mark.generated(every=4)
@pytest.mark.parametrize("switch", SWITCHES, ids=lambda s: s.name)
def test_it_fires_and_changes_no_result(switch: Switch, monkeypatch: pytest.MonkeyPatch) -> None:
    if switch.name == "products: plain weights" and not reads_in_place(np.dtype("float32")):
        pytest.skip("the BLAS library packs all matrices on this processor")
    if switch.name == "blocks: loops over rows of a thread's own" and available_cores()[0] < 2:
        pytest.skip("one core runs all rows")
    example = EXAMPLES[switch.name]
    printed = _printed(example)
    wanted = None if example.backend else _jitted(example)(*example.args)  # what GPUs compute, their own tests see
    monkeypatch.setattr(switch.module, switch.attribute, switch.off)
    assert _printed(example) != printed, "it does not fire"
    if example.backend:
        return
    for a, b in zip(functad.tree.leaves(_jitted(example)(*example.args)), functad.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * float(np.abs(b).max()))


def test_every_part_has_an_example() -> None:
    assert {s.name for s in SWITCHES} == set(EXAMPLES)


def test_what_was_compiled_with_a_part_is_not_found_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_plans, "plan_key", kept_plans.plan_key)  # so that all is as it was at the end
    switch = SWITCHES[0]
    monkeypatch.setattr(switch.module, switch.attribute, getattr(switch.module, switch.attribute))
    program = functad.make_jaxpr(jnp.sin)(X)
    with functad.config.context(check_programs=False):
        assert kept_plans.plan_key(program, ()) is not None
        switch.turn_off()
        assert kept_plans.plan_key(program, ()) is None
    assert getattr(switch.module, switch.attribute) is switch.off
