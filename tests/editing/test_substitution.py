"""Substitution: atoms that stand for variables, and copies of Programs with variables of their own."""

from __future__ import annotations

import numpy as np

import functad
import functad.numpy as jnp
from functad import lax
from functad.editing.substitution import Substitution, copied
from functad.ir import Aval, Literal, Var, check_program
from functad.tracing import eval_program

NUMBER = Aval((), np.dtype(np.float32))
A, B, C = (Var(NUMBER) for _ in range(3))
ONE = Literal(np.float32(1), NUMBER)


def test_what_stands_for_an_atom() -> None:
    names = Substitution({A: B, B: ONE, C: C})
    assert names.read_all([A, B, C, ONE]) == [B, ONE, C, ONE]
    assert [names.last(a) for a in (A, B, C, ONE)] == [ONE, ONE, C, ONE]


def test_equations_stay_the_same_where_nothing_is_replaced() -> None:
    (eqn,) = functad.make_jaxpr(lambda x: x * 2.0)(1.0).eqns
    assert Substitution().within([eqn])[0] is eqn
    (changed,) = Substitution({eqn.invars[0]: A}).within([eqn])
    assert changed.invars == (A, eqn.invars[1]) and changed.outvars == eqn.outvars


def test_copies_follow_one_another() -> None:
    program = functad.make_jaxpr(lambda x: jnp.sin(x) * x)(1.0)
    names = Substitution({program.invars[0]: A})
    sine, product = names.copied(program.eqns)
    assert sine.invars == (A,) and product.invars == (sine.outvars[0], A)
    assert names.read(program.outvars[0]) is product.outvars[0]


def test_a_copy_of_a_program_shares_no_variable_with_it() -> None:
    table = np.arange(3.0)
    program = functad.make_jaxpr(lambda x: lax.scan(lambda c, y: (c * y + x, c), x, table))(2.0)
    made = copied(program)
    check_program(made)
    variables = [{*p.invars, *p.constvars, *(v for e in p.eqns for v in e.outvars)} for p in (program, made)]
    assert variables[0].isdisjoint(variables[1]) and len(variables[0]) == len(variables[1])
    for got, wanted in zip(*(eval_program(p, [np.float32(2)]) for p in (made, program)), strict=True):
        np.testing.assert_array_equal(got, wanted)
