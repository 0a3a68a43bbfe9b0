"""The work of compiling grows as the Program does, at most: counted in lines of Python that run, and in kernel text.

No time is measured; `python -m benchmarks curve` does that.
"""

import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax
from functad.backends.cpu import lowering
from functad.backends.cpu.executable import CpuExecutable
from functad.observing import observed
from functad.optimize.pipeline import simplify

pytestmark = pytest.mark.generated(every=4)  # tables of kinds and ways

PACKAGE = str(Path(functad.__file__).parent) + os.sep
X = np.linspace(0, 1, 64, dtype=np.float32)
LARGEST_KERNEL, MOST_CALLS = 500, 100  # lines, and calls of functions; a compiler's time grows faster than a kernel


def sines(n):
    def function(x):
        for _ in range(n):
            x = jnp.sin(x)
        return x

    return function, (X,)


def gradient(n):
    function, arguments = sines(n)
    return functad.grad(lambda x: function(x).sum()), arguments


def sums(n):
    def function(x):
        for k in range(n):
            x = abs(x - 0.25) if k % 3 else x * (1.1 + k)
        return x

    return function, (X,)


def results(n):
    return lambda x: [jnp.tanh(x) * (k + 0.3) for k in range(n)], (X,)


def unlike_results(n):
    operations = (jnp.sin, jnp.exp, jnp.floor, jnp.sqrt, abs)
    return lambda x: [operations[k % 5](x + operations[k % 3](x)) * x for k in range(n)], (X,)


def inputs(n):
    return lambda *xs: sum(xs), tuple(np.full(7, k, np.float32) for k in range(n))


def independent(n):
    return lambda *xs: [jnp.sin(x) for x in xs], tuple(np.full(7, k, np.float32) for k in range(n))


def descent(n):
    def loss(weights, x):
        for w in weights:
            x = jnp.tanh(x @ w)
        return x.sum()

    def function(weights, x):
        return [w - 0.1 * g for w, g in zip(weights, functad.grad(loss)(weights, x))]

    return function, ([np.eye(8, dtype=np.float32)] * n, np.ones((4, 8), np.float32))


def recurrent(n):
    def function(w, xs):
        state = xs[0]
        for k in range(n):
            state = jnp.tanh(state @ w + xs[k])
        return state.sum()

    return functad.grad(function), (np.eye(8, dtype=np.float32), np.ones((n, 4, 8), np.float32))


def reductions(n):
    return lambda x: [jnp.sum(x * (k + 0.3)) for k in range(n)], (X,)


def joined(n):
    return lambda x: jnp.concatenate([x * (k + 0.3) for k in range(n)]), (X,)


def gathered(n):
    def function(x, index):
        for _ in range(n):
            x = x[index] * 1.5
        return x

    return function, (X, np.arange(64)[::-1].copy())


def calls(n):
    inner = functad.jit(lambda x: jnp.sin(x) * 0.3 + x)

    def function(x):
        for _ in range(n):
            x = inner(x)
        return x

    return function, (X,)


def loops(n):
    def function(x):
        for k in range(n):
            x = lax.fori_loop(0, 20, lambda i, c, k=k: c * 0.9 + 0.1 * k, x)
        return x

    return function, (np.float32(1),)


def long_body(n):
    function, _ = sines(n)
    return lambda x: lax.fori_loop(0, 1000, lambda i, c: function(c), x), (np.float32(1),)


KINDS = [
    *(sines, gradient, sums, results, unlike_results, inputs, independent, descent, recurrent, reductions, joined),
    *(gathered, calls, loops, long_body),
]


@pytest.fixture
def compiled():
    """Compiles the kind of a size up to machine code."""

    def run(kind, n):
        function, arguments = kind(n)
        with observed(None), functad.config.context(check_programs=False):  # what is checked is no part of compiling
            made = lowering.CpuLowering(simplify(functad.make_jaxpr(function)(*arguments)))
            plan = made.assembled().plan
            return CpuExecutable(plan, dict.fromkeys(plan.kernels, 1), lambda: made)

    return run


@pytest.fixture
def lines_of(compiled):
    """The number of lines of functad that run when the kind of a size is compiled."""

    def run(kind, n):
        lines = 0

        def on_line(frame, event, argument):
            nonlocal lines
            lines += event == "line"
            return on_line

        before = sys.gettrace()
        sys.settrace(lambda frame, event, _: on_line if frame.f_code.co_filename.startswith(PACKAGE) else None)
        try:
            compiled(kind, n)
        finally:
            sys.settrace(before)
        return lines

    return run


@pytest.mark.parametrize("kind", KINDS)
def test_work_grows_no_faster_than_the_program(kind, lines_of):
    n = 24
    lines_of(kind, 5)  # what is remembered from now on: each kind of operation has been met
    one, two, four = (lines_of(kind, size) for size in (n, 2 * n, 4 * n))
    assert (four - two) / (2 * (two - one)) <= 1.15, (one, two, four)


@pytest.mark.parametrize("kind", KINDS)
def test_kernels_are_bounded_and_their_text_grows_no_faster_than_the_program(kind, compiled):
    sizes = []
    for n in (70, 140, 280):
        functions = re.sub(r" *#.*\n", "", str(compiled(kind, n)._lowering().kernels)).split("def ")[1:]
        lines = [text.count("\n") for text in functions]
        calls = [len(re.findall(r"\b(sin|cos|exp|tanh)\(", text)) for text in functions]
        assert max(lines, default=0) <= LARGEST_KERNEL and max(calls, default=0) <= MOST_CALLS, (n, lines, calls)
        sizes.append(sum(lines))
    assert sizes[2] - sizes[1] <= 1.2 * 2 * max(sizes[1] - sizes[0], 0) + 200, sizes


def test_the_count_notices_work_that_grows_with_the_square(lines_of, monkeypatch):
    namespace = {"make": lowering.make_schedule}
    loops = "    for _ in program.eqns:\n        for one in program.eqns:\n            one\n"
    text = f"def slow(program, *a, **k):\n{loops}    return make(program, *a, **k)\n"
    exec(compile(text, PACKAGE + "slow.py", "exec"), namespace)
    monkeypatch.setattr(lowering, "make_schedule", namespace["slow"])
    with pytest.raises(AssertionError):
        test_work_grows_no_faster_than_the_program(sums, lines_of)
