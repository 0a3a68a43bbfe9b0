"""Linear loops, and whether a Program has them rewritten.

Knows the move `linear recurrences`.
"""

from __future__ import annotations

import numpy as np

import functad
from functad import lax, machine_model
from functad.editing.dead_code import eliminate_dead_code
from functad.execution import optimized
from functad.ir import Literal
from functad.optimize.loops import moves
from functad.optimize.loops.legality import known_steps
from functad.optimize.loops.linear_recurrences import rewrite_linear_recurrence
from functad.tracing import eval_program

STEPS = 200


def compiled_program(fun, *args):
    """The Program of a function as it is compiled."""
    made = optimized(functad.make_jaxpr(fun)(*args))
    functad.check_program(made)
    return made


def set_move(monkeypatch, name, apply, **changes):
    """Put another function in the place of what a move does to scans."""
    table = [m._replace(apply=apply, **changes) if m.name == name else m for m in moves.MOVES]
    monkeypatch.setattr(moves, "MOVES", table)


def work_takes_no_time(monkeypatch):
    """Let only chains of operations that wait for one another count."""
    monkeypatch.setattr(machine_model, "OPERATIONS_MEANWHILE", np.inf)
    monkeypatch.setattr(machine_model, "COEFFICIENT_OPERATIONS", 0)


def loops(program):
    return [e for e in program.eqns if e.primitive.name == "scan"]


def takes_rewritten(fun, *args):
    """Whether the choices between the loops as rewritten and as written fall on the former, for these arguments."""
    return chooses_rewritten(compiled_program(fun, *args), *args)


def chooses_rewritten(program, *args):
    chosen = [e.invars[0] for e in program.eqns if e.primitive.name == "cond"]
    assert chosen
    return all(eval_program(program.replace(outvars=chosen), functad.tree.leaves(args)))


def operations(scan):
    """The arithmetic in a body, without what only picks an element, and what watches the range."""
    arithmetic = ("add", "add_any", "sub", "mul", "div", "neg", "select_n", "sin", "integer_pow", "square")
    body, count = scan.params["jaxpr"], scan.params["num_carry"]
    starts = scan.invars[scan.params["num_consts"] :][:count]
    if isinstance(starts[-1], Literal) and starts[-1].value == np.finfo(starts[-1].aval.dtype).max:
        body = body.replace(outvars=[*body.outvars[: count - 2], *body.outvars[count:]])
    return sorted(e.primitive.name for e in eliminate_dead_code(body).eqns if e.primitive.name in arithmetic)


def is_rewritten(monkeypatch, fun, *args):
    """Whether the pass makes another Program of a function."""
    made = operations_of_all(fun, *args)
    with monkeypatch.context() as patch:
        set_move(patch, "linear recurrences", lambda *args: None)
        return operations_of_all(fun, *args) != made


def operations_of_all(fun, *args):
    program = compiled_program(lambda *args: fun(*args), *args)
    return [(e.params["length"], operations(e)) for e in loops(program)]


def assert_same(fun, *args, expected=None, tolerance=1e-10):
    """Compiled, and by NumPy after the passes, a function gives what it gives un-jitted, or what is expected."""
    expected = functad.tree.leaves(fun(*args) if expected is None else expected)
    by_numpy = eval_program(compiled_program(fun, *args), functad.tree.leaves(args))
    for found in (by_numpy, functad.tree.leaves(functad.jit(fun)(*args))):
        for got, want in zip(found, expected, strict=True):
            got, want = np.asarray(got), np.asarray(want)
            assert got.dtype == want.dtype and got.shape == want.shape
            finite = np.isfinite(want)
            np.testing.assert_array_equal(np.isfinite(got), finite)
            scale = max(1e-30, np.max(np.abs(want[finite]), initial=0.0))
            np.testing.assert_allclose(got[finite], want[finite], rtol=0, atol=tolerance * scale)


def logistic(start, r, steps=STEPS):
    def step(x, _):
        x = r * x * (1 - x)
        return x, x

    return lax.scan(step, start, None, length=steps)[1].mean()


def oscillator(x, v, stiffness, steps=STEPS):
    def slope(x, v):
        return v, stiffness * (1 - x * x) * v - x

    def step(state, _):
        x, v = state
        dx, dv = slope(x, v)
        dx, dv = slope(x + 0.005 * dx, v + 0.005 * dv)
        return (x + 0.01 * dx, v + 0.01 * dv), None

    (x, v), _ = lax.scan(step, (x, v), None, length=steps)
    return x * x + v


def lorenz(x, y, z):
    """Midpoint steps: each of the three numbers depends on all."""

    def slope(x, y, z):
        return 10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z

    def step(state, _):
        middle = [s + 0.005 * d for s, d in zip(state, slope(*state))]
        return tuple(s + 0.01 * d for s, d in zip(state, slope(*middle))), None

    return sum(lax.scan(step, (x, y, z), None, length=STEPS)[0])


def chain(factors, offsets, start, then=lambda x: x):
    """x ← (x·f·f + o)·f, of which `then` makes the new x."""

    def step(x, of):
        f, offset = of
        return then((x * f * f + offset) * f), x

    return lax.scan(step, start, (factors, offsets))


def let_all_be_linear(monkeypatch):
    """Let all scans pass for derivatives, so that a body can be written as it is."""
    work_takes_no_time(monkeypatch)
    set_move(monkeypatch, "linear recurrences", rewrite_linear_recurrence, needs=(known_steps,))
