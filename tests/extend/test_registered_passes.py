"""Passes of the optimiser made from outside: where they run, how they show, what is asked of them."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import config, lax
from functad.backends.cpu import kept_plans
from functad.errors import ArgumentError, CustomRuleError
from functad.execution import optimized
from functad.extend import register_pass, register_rule
from functad.optimize.pipeline import PASSES

X = np.linspace(0.5, 2, 5, dtype=np.float32)


def swapped(program):
    """cos becomes sin: a negative control, which results show."""
    eqns = [e.replace(primitive=lax.sin_p) if e.primitive is lax.cos_p else e for e in program.eqns]
    return program.replace(eqns=eqns)


def operations(f, *args):
    return [e.primitive.name for e in f.lower(*args).optimized.eqns]


def test_a_pass_acts_shows_and_is_forgotten():
    def f(x):
        return jnp.cos(x) * 2

    jitted = functad.jit(f)
    before = jitted(X)
    with register_pass("swap waves", swapped, "they differ: a negative control") as made:
        assert operations(jitted, X) == ["sin", "mul"]
        np.testing.assert_allclose(jitted(X), 2 * np.sin(X), rtol=1e-6)
        with config.context(default_backend="interpreter"):
            np.testing.assert_allclose(jitted(X), 2 * np.sin(X), rtol=1e-6)
        stage = functad.explain(f, times=False)(X)["Swap waves"]
        assert stage.does.startswith("They differ: a negative control. There are")
        assert [line.mark for line in stage.lines if "= sin" in line.text or "= cos" in line.text] == ["-", "+"]
        assert repr(made) == "<the pass 'swap waves' of the user's>"
    assert (jitted(X) == before).all()
    assert "Swap waves" not in [s.title for s in functad.explain(f, times=False)(X).stages]


def test_a_pass_acts_in_loops():
    f = functad.jit(lambda x: lax.scan(lambda c, a: (jnp.cos(c) + a, None), x[0], x)[0])
    bodies = []
    with register_pass("look", lambda program: bodies.append(program.name) or program, "nothing is changed"):
        assert f.lower(np.zeros(500, np.float32)).optimized.eqns
    assert len(bodies) >= 2


def test_a_program_compiled_by_a_pass_is_for_its_own_backend():
    def maps(x):
        return lax.map(lambda rows: lax.map(lambda row: row @ rows, jnp.sin(rows)), x)

    x = np.zeros((4, 128, 128), np.float32)
    wanted, texts = str(optimized(functad.make_jaxpr(maps)(x), "cpu")), []
    assert str(optimized(functad.make_jaxpr(maps)(x), "cuda")) != wanted

    def compiling(program):
        if not texts:
            texts.append("")
            texts[0] = str(optimized(functad.make_jaxpr(maps)(x), "cpu"))
        return program

    with register_pass("compile another", compiling, "nothing is changed"):
        optimized(functad.make_jaxpr(maps)(x), "cuda")
    assert texts == [wanted]


def test_a_pass_runs_behind_the_one_it_names_once():
    order = []

    def noting(name):
        return lambda program: order.append((name, len(program.eqns))) or program

    names = [a_pass.__name__ for a_pass in PASSES]
    assert names.count("eliminate_dead_code") == 2
    last = register_pass("last", noting("last"), "nothing is changed", after="multiply_before_gathering")
    middle = register_pass("middle", noting("middle"), "nothing is changed", after="eliminate_dead_code")
    first = register_pass("first", noting("first"), "nothing is changed")
    with first, middle, last:
        assert functad.jit(lambda x: (x + x) * (x + x) * 1.0).lower(2.0).optimized.eqns
    assert [name for name, _ in order] == ["first", "middle", "last"]
    assert order[0][1] == 4 and order[2][1] == 2


def test_rules_and_passes_of_one_name_are_two():
    with (
        register_rule("mine", lax.sin_p, lambda eqn, view: None, "nothing is changed"),
        register_pass("mine", swapped, "they differ: a negative control"),
    ):
        assert operations(functad.jit(jnp.cos), X) == ["sin"]


def test_no_plan_on_disk_is_looked_for():
    program = functad.make_jaxpr(lambda x: jnp.log(1 + x))(X)
    with config.context(check_programs=False), register_pass("mine", lambda program: program, "nothing is changed"):
        assert kept_plans.plan_key(program, ()) is None


WRONG = {
    "a list": (lambda p: p.eqns, r"gave a tuple for the Program of `cos`: return a Program"),
    "other results": (lambda p: p.replace(outvars=()), r"that gives \(\), not \(f32\[5\]\)"),
    "other inputs": (lambda p: p.replace(invars=(*p.invars, *p.outvars), eqns=()), r"takes \(f32\[5\], f32\[5\]\),"),
    "no definition": (lambda p: p.replace(eqns=()), "made a Program that no later pass takes"),
    "a call": (lambda p: functad.make_jaxpr(functad.jit(jnp.cos))(X), "calls a Program"),
    "constants": (lambda p: functad.make_jaxpr(lambda x: x + np.arange(5, dtype=np.float32))(X), "with constants"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_pass_is_said(wrong):
    run, said = WRONG[wrong]

    def cos(x):
        return jnp.cos(x)

    with register_pass("wrong", run, "a negative control"), config.context(check_programs=False):
        with pytest.raises(CustomRuleError, match=f"the pass 'wrong' of the optimiser .*{said}"):
            functad.jit(cos).lower(X).optimized  # noqa: B018


def test_arguments_are_checked():
    with pytest.raises(ArgumentError, match="because must say why results are the same"):
        register_pass("mine", swapped, " ")
    with pytest.raises(ArgumentError, match="run must be a function, got 3"):
        register_pass("mine", 3, "nothing is changed")
    with pytest.raises(ArgumentError, match="one of inline_calls, .*got 'simplify_number'; did you mean 'simplify_num"):
        register_pass("mine", swapped, "nothing is changed", after="simplify_number")
