"""Rules of the optimiser made from outside: where they act, how they show, and that nothing outlives them."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import config, lax
from functad.backends.cpu import kept_plans
from functad.errors import ArgumentError, CustomRuleError, ProgramError
from functad.extend import register_rule

X = np.linspace(0.5, 2, 5, dtype=np.float32)


def log_of_sum(x):
    return jnp.log(1 + x)


def log1p_of_sum(eqn, view):
    """log(1 + x) becomes log1p(x)."""
    inner = view.definition(eqn.invars[0], lax.add_p)
    if inner is None:
        return None
    for one, other in (inner.invars, inner.invars[::-1]):
        if getattr(one, "val", None) == 1:
            return view.compute(lambda x: [lax.log1p(x)], [other], eqn)[0]
    return None


def registered():
    return register_rule("log of 1 + x", lax.log_p, log1p_of_sum, "log1p is log(1 + x), with fewer roundings")


def operations(f, *args):
    return [e.primitive.name for e in f.lower(*args).optimized.eqns]


def test_a_rule_acts_shows_and_is_forgotten():
    f = functad.jit(log_of_sum)
    before = f(X)
    with registered() as rule:
        assert operations(f, X) == ["log1p"]
        np.testing.assert_allclose(f(X), before, rtol=1e-6)
        explained = str(functad.explain(log_of_sum, times=False)(X))
        assert "log of 1 + x" in explained and "with fewer roundings" in explained
        assert functad.make_jaxpr(f)(X).eqns[0].primitive.name == "jit"  # traced Programs are as they were
        assert repr(rule) == "<the rule 'log of 1 + x' of the user's>"
    assert operations(f, X) == ["add", "log"]
    assert "log of 1 + x" not in str(functad.explain(log_of_sum, times=False)(X))


def test_a_rule_acts_in_loops_and_in_those_that_were_compiled_before():
    f = functad.jit(lambda x: lax.scan(lambda c, a: (jnp.log(1 + c) + a, None), x[0], x)[0])

    def inner():
        (scan,) = (e for e in f.lower(np.zeros(500, np.float32)).optimized.eqns if e.primitive.name == "scan")
        return [e.primitive.name for e in scan.params["jaxpr"].eqns]

    assert "log1p" not in inner()
    with registered():
        assert "log1p" in inner()
    assert "log1p" not in inner()


def test_a_function_that_ran_is_compiled_anew():
    calls = []

    def zero(eqn, view):
        calls.append(eqn)
        return view.compute(lambda x: [lax.full_like(x, 0)], eqn.invars, eqn)[0]

    f = functad.jit(lambda x: jnp.cbrt(x))
    assert f(np.float32(8)) == 2
    with register_rule("nothing", lax.cbrt_p, zero, "a negative control"):
        assert f(np.float32(8)) == 0 and len(calls) == 1
        assert f(np.float32(8)) == 0 and len(calls) == 1
        with config.context(default_backend="interpreter"):
            assert f(np.float32(8)) == 0
    assert f(np.float32(8)) == 2


def test_a_name_registered_anew_replaces():
    def of(value):
        return lambda eqn, view: view.compute(lambda x: [lax.full_like(x, value)], eqn.invars, eqn)[0]

    f = functad.jit(lambda x: jnp.cbrt(x), backend="interpreter")
    first = register_rule("a number", lax.cbrt_p, of(1), "a negative control")
    assert f(X)[0] == 1
    second = register_rule("a number", lax.cbrt_p, of(2), "a negative control")
    assert f(X)[0] == 2
    first.unregister()
    assert f(X)[0] == 2
    second.unregister()
    second.unregister()
    np.testing.assert_allclose(f(X), np.cbrt(X), rtol=1e-6)


def test_no_plan_on_disk_is_looked_for_or_kept():
    program = functad.make_jaxpr(lambda x: jnp.log(1 + x))(X)
    with config.context(check_programs=False):
        assert kept_plans.plan_key(program, ()) is not None
        with registered():
            assert kept_plans.plan_key(program, ()) is None
        assert kept_plans.plan_key(program, ()) is not None


MADE = {
    "an array": lambda eqn, view: np.float32(1),
    "another type": lambda eqn, view: view.compute(lambda x: [lax.reduce_sum_p.bind(x, axes=(0,))], eqn.invars, eqn)[0],
    "equations of other results": lambda eqn, view: [eqn.replace(outvars=eqn.outvars[:0])],
}


@pytest.mark.parametrize("made", MADE)
def test_what_cannot_stand_for_an_equation_is_said(made):
    with register_rule("wrong", lax.cbrt_p, MADE[made], "a negative control"):
        with pytest.raises(
            CustomRuleError, match=r"the rule 'wrong' of the optimiser made .* of `cbrt` at .*\(f32\[5\]\)"
        ):
            functad.jit(lambda x: jnp.cbrt(x)).lower(X).optimized  # noqa: B018


def test_a_rule_without_end_is_stopped():
    def again(eqn, view):
        return eqn.replace(source="another")

    with register_rule("without end", lax.cbrt_p, again, "a negative control"):
        with pytest.raises(ProgramError, match="rules that undo one another never end"):
            functad.jit(lambda x: jnp.cbrt(x)).lower(X).optimized  # noqa: B018


def test_what_is_registered_must_be_a_rule():
    with pytest.raises(ArgumentError, match="because must say why results are the same"):
        register_rule("r", lax.log_p, log1p_of_sum, " ")
    with pytest.raises(ArgumentError, match="such as functad.lax.log_p; got"):
        register_rule("r", lax.log, log1p_of_sum, "so")
    with pytest.raises(ArgumentError, match="make must be a function"):
        register_rule("r", None, 3, "so")
