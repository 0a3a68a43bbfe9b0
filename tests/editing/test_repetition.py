"""Unrolled loops are found where there are any, and nowhere else."""

from __future__ import annotations

import numpy as np

import functad
import functad.numpy as jnp
from functad.editing.repetition import RepeatedSteps, repeated_steps


def loop(n, body):
    def f(w, xs):
        h = jnp.zeros(3) + w[0]
        for i in range(n):
            h = body(i, h, w, xs)
        return h.sum()

    return f


W, XS = np.ones((3, 3), np.float32), np.ones((40, 3), np.float32)


def found(f):
    return repeated_steps(functad.make_jaxpr(f)(W, XS))


def test_a_loop_and_its_derivative():
    f = loop(20, lambda i, h, w, xs: jnp.tanh(w @ h + xs[i]))
    (run,) = found(f)
    assert (run.length, run.steps) == (5, 20)
    program = functad.make_jaxpr(functad.grad(f))(W, XS)
    runs = repeated_steps(program)
    assert max(run.steps for run in runs) == 20 and len(runs) >= 2
    for run, after in zip(runs, runs[1:]):
        assert run.stop <= after.start
    back = [program.eqns[run.start].source.transposed for run in runs]
    assert back == sorted(back) and back[-1]


def test_steps_that_differ_are_no_loop():
    # Each step reads one step further back than the one before: no scan carries that.
    def f(w, xs):
        h = [xs[0]]
        for i in range(1, 20):
            h.append(jnp.sin(h[-1]) * h[i // 2])
        return h[-1].sum()

    assert not any(run.steps > 4 for run in found(f))
    # The exponents differ.
    assert found(loop(20, lambda i, h, w, xs: functad.lax.integer_pow(h, i + 2) * 2)) == []
    assert found(loop(20, lambda i, h, w, xs: h * float(i))) == []


def test_two_loops_and_what_stands_between():
    def f(w, xs):
        h = w[0]
        for _ in range(10):
            h = jnp.sin(h) * h
        h = jnp.exp(h) + w.sum()
        for _ in range(15):
            h = jnp.cos(h) + h * 2
        return h.sum()

    assert [(run.length, run.steps) for run in found(f)] == [(2, 10), (3, 15)]


def test_what_two_steps_back_was_made():
    def f(w, xs):
        a = b = w[0]
        for _ in range(12):
            a, b = b, jnp.sin(a) + b
        return b.sum()

    (run,) = found(f)
    assert (run.length, run.steps) == (2, 12)


def test_few_steps_are_none():
    three, four = (loop(n, lambda i, h, w, xs: jnp.cos(jnp.sin(h) * 2)) for n in (3, 4))
    assert len(found(four)) == 1 and found(three) == [] == found(lambda w, xs: w.sum())


def test_a_program_read_from_text_has_no_lines():
    eqns = "; ".join(f"{b}:f32[] = sin {a}" for a, b in zip("abcdefghij", "bcdefghijk"))
    program = functad.parse_program(f"{{ lambda ; a:f32[]. let {eqns} in (k,) }}")
    assert repeated_steps(program) == [RepeatedSteps(0, 1, 10)]
