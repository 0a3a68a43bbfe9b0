"""The IR: types, Programs, and a checker that objects to broken ones."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad.all_primitives import registry
from functad.calls.checkpoint import remat
from functad.control.forwarding import bind_cond, bind_scan, bind_while
from functad.errors import NoRuleError, ProgramError
from functad.ir import Absent, Aval, Literal, Program, Source, Var, all_eqns, check_program, equation_count, memoised


def square_plus_one():
    return functad.make_jaxpr(lambda x: x * x + 1.0)(np.ones(3, np.float32))


def asked_twice_for_itself(program: Program) -> weakref.ref[Program]:
    asked: list[Program] = []
    for _ in range(2):
        assert memoised(program, ("itself",), lambda: asked.append(program) or program) is program
    assert len(asked) == 1
    return weakref.ref(program)


def test_a_program_that_is_kept_with_itself_ends_with_its_last_user():
    """Else the arrays of its constants would be held until Python searches for garbage."""
    gc.disable()
    try:
        ended = asked_twice_for_itself(square_plus_one())
        assert ended() is None
    finally:
        gc.enable()


REMAT = {"prevent_cse": True, "policy": None, "differentiated": False}
LOOPS: dict[str, Callable[[Program], Any]] = {
    "scan": lambda body: bind_scan(body, [jnp.ones(3)], [], length=2, reverse=False, unroll=1),
    "while": lambda body: bind_while(functad.make_jaxpr(lambda x: x[0] > 2)(jnp.ones(3)), body, [jnp.ones(3)]),
    "while, kept with its condition": lambda cond: bind_while(cond, square_plus_one(), [jnp.ones(3)]),
    "cond": lambda branch: bind_cond([branch, square_plus_one()], jnp.int32(0), [jnp.ones(3)]),
    "checkpoint": lambda program: functad.grad(lambda x: remat(program, [x], **REMAT)[0].sum())(jnp.ones(3)),
}


def used(loop: str) -> weakref.ref[Program]:
    condition = loop.endswith("condition")
    program = functad.make_jaxpr(lambda x: x[0] > 2)(jnp.ones(3)) if condition else square_plus_one()
    LOOPS[loop](program)
    return weakref.ref(program)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_that_nothing_is_taken_out_of_does_not_keep_its_body(loop: str) -> None:
    gc.collect()
    gc.disable()
    try:
        assert used(loop)() is None
    finally:
        gc.enable()


def test_avals_compare_by_shape_dtype_and_weakness():
    a = Aval((2, 3), np.dtype("float32"))
    assert a == Aval((2, 3), np.dtype("float32")) and hash(a) == hash(Aval((2, 3), np.dtype("float32")))
    assert a != Aval((2, 3), np.dtype("float32"), weak_type=True)
    assert a.same_type(Aval((2, 3), np.dtype("float32"), weak_type=True))
    assert (a.ndim, a.size, a.str_short()) == (2, 6, "f32[2,3]")
    assert repr(a) == "Aval(float32[2,3])"


def test_a_traced_program_is_well_formed():
    program = square_plus_one()
    check_program(program)
    assert [e.primitive.name for e in program.eqns] == ["mul", "add"]
    assert program.in_avals[0].str_short() == program.out_avals[0].str_short() == "f32[3]"
    assert isinstance(program.eqns[1].invars[1], Literal)


def test_each_equation_knows_the_users_line():
    program = square_plus_one()
    assert all("test_ir.py" in str(e.source) for e in program.eqns)


def test_array_constants_are_hoisted_and_scalars_are_literals():
    table = np.arange(3, dtype=np.float32)
    scale = np.float32(2)
    program = functad.make_jaxpr(lambda x: x * scale + table)(1.0)
    assert len(program.constvars) == 1 and np.array_equal(program.consts[0], table)
    assert str(program).startswith("{ lambda a:f32[3]; b:f32[]. let")
    (out,) = functad.eval_jaxpr(program, program.consts, np.float32(3))
    assert np.array_equal(out, 6 + table)


def broken(**changes) -> Program:
    return square_plus_one().replace(**changes)


def test_checker_objects_to_a_use_before_assignment():
    program = square_plus_one()
    with pytest.raises(ProgramError, match="before its assignment"):
        check_program(broken(eqns=program.eqns[::-1]))


def test_checker_objects_to_a_second_assignment():
    program = square_plus_one()
    with pytest.raises(ProgramError, match="second time"):
        check_program(program.replace(eqns=[*program.eqns, program.eqns[0]]))


def test_checker_objects_to_a_wrong_type():
    program = square_plus_one()
    first = program.eqns[0].replace(outvars=[Var(Aval((4,), np.dtype("float32")))])
    with pytest.raises(ProgramError, match=r"f32\[4\], its shape rule gives f32\[3\]"):
        check_program(program.replace(eqns=[first]))


def test_checker_objects_to_an_undefined_output():
    with pytest.raises(ProgramError, match="output list"):
        check_program(broken(outvars=[Var(Aval((), np.dtype("float32")))]))


def test_checker_objects_to_a_constant_of_another_type():
    program = functad.make_jaxpr(lambda x: x + jnp.arange(3.0) * np.ones(3, np.float32))(1.0)
    assert program.consts
    with pytest.raises(ProgramError, match="constant of type"):
        check_program(program.replace(consts=[np.ones(5)] * len(program.consts)))


def test_checker_looks_into_called_programs():
    program = functad.make_jaxpr(functad.jit(lambda x: x * x))(2.0)
    (call,) = program.eqns
    inner = call.params["jaxpr"].replace(outvars=[Var(Aval((), np.dtype("float32")))])
    with pytest.raises(ProgramError, match="output list"):
        check_program(program.replace(eqns=[call.replace(params={**call.params, "jaxpr": inner})]))


def test_equations_within_equations_are_walked_through():
    def f(x):
        x = functad.lax.fori_loop(0, 3, lambda i, x: functad.jit(jnp.sin)(x), x)
        return functad.lax.cond(x > 0, jnp.cos, lambda x: x, x)

    program = functad.make_jaxpr(f)(1.0)
    names = [e.primitive.name for e in all_eqns(program.eqns)]
    assert names.index("scan") < names.index("jit") < names.index("sin") < names.index("cond") < names.index("cos")
    assert len(names) == equation_count(program) > len(program.eqns)


def test_an_absent_rule_says_why():
    with pytest.raises(NoRuleError, match="because it is a test"):
        Absent("because it is a test")(1, 2)


def test_primitive_names_are_unique_and_documented():
    assert len(registry) > 90
    for name, primitive in registry.items():
        assert primitive.name == name and primitive.doc.strip(), name
    with pytest.raises(ProgramError, match="unique"):
        type(registry["add"])(**{f.name: getattr(registry["add"], f.name) for f in fields(registry["add"])})


def test_the_line_of_a_source_is_that_of_its_instruction():
    def here():
        frame = sys._getframe(1)
        return frame.f_lineno, Source(frame.f_code, frame.f_lasti).line

    found = [
        here(),
        max(
            here(),
            here(),
        ),
        *[here() for _ in range(2)],
    ]
    assert all(number == line for number, line in found) and len({line for _, line in found}) > 2
