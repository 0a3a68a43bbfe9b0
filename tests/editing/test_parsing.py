"""What is printed can be read again: `functad.parse_program`."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from fuzz.forms import itself, traced
from fuzz.generator import random_program
from fuzz.session import STEPS
from round_trips import Printed, RoundTrips
from round_trips import check_round_trip as check_printed

import functad
import functad.numpy as jnp
from functad import lax
from functad.all_primitives import registry
from functad.errors import ProgramError
from functad.ir import UNKNOWN, Absent, Program, Var, subprograms
from functad.pretty import letters

parse = functad.parse_program


def check_round_trip(program: Program) -> Program:
    text = str(program)
    read = parse(text, program.consts)
    assert str(read) == text
    assert parameter_names(read) == parameter_names(program)
    return read


def parameter_names(program: Program) -> list[Any]:
    """Of each equation, also within others: what is not printed must be there again."""
    inner = [subprograms(dict(sorted(e.params.items()))) for e in program.eqns]
    return [(sorted(e.params), [parameter_names(p) for p in ps]) for e, ps in zip(program.eqns, inner)]


WITH_EXAMPLES = [p for p in registry.values() if not isinstance(p.examples, Absent)]


@pytest.mark.parametrize("primitive", WITH_EXAMPLES, ids=lambda p: p.name)
def test_every_primitive(primitive):
    for example in primitive.examples():

        def run(*args, params=example.params):
            return primitive.bind(*args, **params)

        program = functad.make_jaxpr(run)(*example.args)
        read = check_round_trip(program)
        (eqn,), (written,) = program.eqns, read.eqns
        assert written.params == eqn.params


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed):
    program = random_program(f"parsing/{seed}", STEPS)
    check_round_trip(traced(*itself(program, np.random.default_rng(0))))


@functad.custom_jvp
def _with_rule(x):
    return jnp.sin(x)


_with_rule.defjvp(lambda primals, tangents: (_with_rule(*primals), tangents[0]))


@functad.custom_batching.custom_vmap
def _with_batch_rule(x):
    return x * 2


_with_batch_rule.def_vmap(lambda size, mapped, x: (x * 2, mapped[0]))


def _branches(x):
    return lax.cond(x[0] > 0, jnp.sin, jnp.cos, x)


@functad.jit
def _long(x):
    for _ in range(12):
        x = x * 2
    return x


x, matrix = jnp.arange(3.0), jnp.arange(6.0).reshape(2, 3)
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "scan": (lambda x: lax.scan(lambda c, a: (c + a, c * 2), x[0], x), matrix),
    "gradient of a scan": (functad.grad(lambda x: lax.scan(lambda c, a: (c * a, c), x[0], x)[0].sum()), matrix),
    "while": (lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, x)), x),
    "gradient of a while": (functad.grad(lambda x: lax.while_loop(lambda c: c < 3, lambda c: c * x, x)), 1.5),
    "cond": (lambda x: lax.cond(x[0] > 0, lambda y: y, jnp.sin, x), x),
    "checkpoint": (functad.grad(lambda x: functad.checkpoint(lambda y: jnp.sin(y).sum())(x)), x),
    "a rule of its own": (lambda x: _with_rule(x), x),
    "called twice": (lambda x: _long(_long(x)), x),
    "constants": (lambda x: x[jnp.array([0, 1])] + np.arange(2.0), x),
    "keys": (lambda k: functad.random.normal(functad.random.split(k)[0], (3,)), functad.random.key(0)),
    "effects": (lambda x: (functad.debug.print("a [{}], b=(", x), x)[1], x),
    "nothing": (lambda: (),),
    "special numbers": (lambda x: (x * jnp.inf, x * jnp.nan, x > -jnp.inf, 1 + 2j), x),
    "linear algebra": (functad.grad(lambda x: jnp.linalg.solve(x @ x.T, x).sum()), matrix),
    "solve": (lambda x: lax.custom_linear_solve(lambda v: 2 * v, x, lambda mv, b: b / 2), x),
    "cotangents of integers": (lambda x: functad.vjp(lambda x, i: x * i, x, 3)[1](x), 2.0),
    "many variables": (lambda x: [x := x + i for i in range(800)][-1], x),
    "branches used twice": (lambda x: _branches(_branches(x)), x),
    "a result within that nobody reads outside": (lambda x: functad.jit(lambda y: (y * 2, y + 1))(x)[0], x),
    "a rule for vmap": (lambda x: _with_batch_rule(x), x),
    "mapped collective": (functad.vmap(lambda x: lax.psum(x, "i"), axis_name="i"), x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_programs_within_programs(name):
    fun, *args = FUNCTIONS[name]
    check_round_trip(functad.make_jaxpr(fun)(*args))


def test_variables_that_two_programs_share_get_letters_in_each():
    program = functad.make_jaxpr(_branches)(x)
    (*before, choice) = program.eqns
    (first, _) = choice.params["branches"]
    same = Program(first.invars, (), (), first.eqns, first.outvars)
    both = choice.replace(params={**choice.params, "branches": (first, same)})
    shared = Program(program.invars, (), (), [*before, both], program.outvars)
    check_round_trip(shared)
    names: dict[Var, str] = {}
    functad.program_to_text(shared, names=names)
    assert {*first.eqns[0].outvars} <= names.keys()


def test_programs_with_names_stand_in_the_order_of_their_use():
    loop = functad.vmap(lambda x: lax.while_loop(lambda c: jnp.abs(c) < 1.5, lambda c: c * 1.7 + 0.1, x))
    program = functad.make_jaxpr(lambda x: loop(loop(x)))(x)
    (outer, *_) = program.eqns
    twice = Program(program.invars, (), (), [outer, outer.replace(outvars=[Var(v.aval) for v in outer.outvars])], ())
    check_round_trip(twice)


def test_the_unknown_length_of_a_loop_is_read_as_such():
    fun, *args = FUNCTIONS["gradient of a while"]
    read = check_round_trip(functad.make_jaxpr(fun)(*args))
    inner = [eqn for outer in read.eqns for p in subprograms(outer.params) for eqn in p.eqns]
    assert [eqn.params["length"] for eqn in inner if eqn.primitive.name == "scan"] == [UNKNOWN]


def test_optimised_programs():
    fun, *args = FUNCTIONS["gradient of a scan"]
    check_round_trip(functad.jit(fun).lower(*args).optimized)


@functad.custom_vjp
def _with_constants(x):
    return (x * SEVERAL["complex"] + SEVERAL["bool"]).real * SEVERAL["number"]


_with_constants.defvjp(lambda x: (_with_constants(x), None), lambda _, ct: (ct,))
SEVERAL = {
    "complex": np.array([[complex(-0.0, -0.0), 1j, 1], [complex(-0.1, np.inf), np.nan, -1]], np.complex64),
    "bool": np.array([True, False, True]),
    "number": np.asarray(2.5, np.float32),
}


def _jumps(x):
    key, empty = functad.random.key(7), np.zeros((0, 3), np.float16)
    return functad.random.uniform(key, (3,)) + _with_constants(x) + empty.sum() + np.arange(3, dtype=np.int8)


def test_constants_within_are_read_with_their_values_where_these_are_written():
    program = functad.make_jaxpr(_jumps)(x)
    text = program.pretty_print(constants=True)
    assert "bool[3]=[True, False, True]" in text and "key<fry>[]=" in text
    read = parse(text)
    assert read.pretty_print(constants=True) == text and str(read) == str(program)
    (found,), (wanted,) = (functad.eval_jaxpr(p, p.consts, x) for p in (read, program))
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(functad.jit(lambda x: functad.eval_jaxpr(read, read.consts, x)[0])(x), wanted)


def test_constants_within_that_are_not_written_are_types():
    program = functad.make_jaxpr(_with_constants)(x)
    read = check_round_trip(program)
    assert read.pretty_print(constants=True) == str(program)  # nothing is known of them
    (call,) = read.eqns
    assert repr(call.params["call_jaxpr"].consts[0]) == "<constant of type c64[2,3] that the text does not say>"
    for transform in (lambda f: f, functad.jit):
        with pytest.raises(ProgramError, match="c64.* does not say its value: functad.program_to_text.*constants=True"):
            transform(lambda x: functad.eval_jaxpr(read, (), x)[0])(x)


def test_numbers_of_a_constant_are_as_many_as_its_type_says():
    program = parse("{ lambda a:i32[2,2]=[[1, 2], [3, 4]] b:f32[]=1.5 c:f32[0]=[]; d:f32[]. let in (a, b, c) }")
    assert [np.asarray(c).tolist() for c in program.consts] == [[[1, 2], [3, 4]], 1.5, []]
    mixed = parse("{ lambda a:i32[1]=[1] b:f32[]; . let in (a, b) }", [np.float32(2)])
    assert [float(c.item()) for c in mixed.consts] == [1, 2]


def test_literals_keep_the_signs_of_their_zeros():
    program = functad.make_jaxpr(lambda x: (x * complex(-1.0, -0.0), x * -0.0))(1j)
    read = check_round_trip(program)
    literals = [atom.value for eqn in read.eqns for atom in eqn.invars if not isinstance(atom, Var)]
    assert [np.signbit(part) for value in literals for part in (value.real, value.imag)] == [True, True, True, False]


def test_what_was_read_runs_and_differentiates():
    program = functad.make_jaxpr(lambda x: lax.scan(lambda c, a: (jnp.sin(c) * a, c), x[0], x)[0].sum())(matrix)
    read = check_round_trip(program)

    def run(x):
        return functad.eval_jaxpr(read, read.consts, x)[0]

    def direct(x):
        return functad.eval_jaxpr(program, program.consts, x)[0]

    for transform in (lambda f: f, functad.grad, functad.jit):
        np.testing.assert_array_equal(transform(run)(matrix), transform(direct)(matrix))


def test_a_program_written_by_hand():
    program = parse(
        """
    # twice the sine
    { lambda two:f32[] ; angle:f32[3] . let
        s:f32[3] = sin angle     # remarks are left out
        _:f32[3] = neg s
        double:f32[3] =
            mul s
                two
      in (double, 1.5:f32[]) }
    """,
        [np.float32(2)],
    )
    doubled, number = functad.eval_jaxpr(program, program.consts, np.ones(3, np.float32))
    np.testing.assert_allclose(doubled, 2 * np.sin(np.ones(3, np.float32)), rtol=1e-6)
    assert number == 1.5


def test_functions_of_rules_are_names_only():
    fun, *args = FUNCTIONS["a rule of its own"]
    read = parse(str(functad.make_jaxpr(fun)(*args)))
    np.testing.assert_array_equal(functad.eval_jaxpr(read, (), x)[0], jnp.sin(x))
    for fun in (_with_rule, _with_constants):
        read = parse(functad.program_to_text(functad.make_jaxpr(fun)(x), constants=True))
        with pytest.raises(ProgramError, match="names '.*' but does not hold it"):
            functad.vjp(lambda x, read=read: functad.eval_jaxpr(read, (), x)[0], x)
    with pytest.raises(ProgramError, match="names '.*' but does not hold it"):
        functad.grad(lambda x: functad.eval_jaxpr(read, (), x)[0].sum())(x)


@pytest.mark.parametrize("name", ['a "b" <c>', "it's", "f(x", "x] y=[", "a\nb", "in", "1", "é"])
def test_names_are_read_whatever_users_call_things(name):
    def fun(x):
        return functad.ad_checkpoint.checkpoint_name(x, name)

    fun.__name__ = name
    jitted = functad.jit(fun)
    program = check_round_trip(functad.make_jaxpr(lambda x: jitted(x) + jitted(x * 2))(x))  # printed once, by a name
    jits = [eqn for eqn in program.eqns if eqn.primitive.name == "jit"]
    assert [eqn.params["name"] for eqn in jits] == [name] * 2
    assert jits[0].params["jaxpr"].eqns[0].params["name"] == name


def test_round_trips_of_what_tests_make_see_what_is_not_read():
    trips = RoundTrips()
    program = functad.make_jaxpr(_with_constants)(x)
    trips.traced(program, {})
    assert [printed.constants for printed in trips.waiting] == [False, True]
    trips.traced(program.replace(), {})  # nothing new
    trips.read()
    assert trips.count == 2 and not trips.waiting
    of_two, of_three = (functad.make_jaxpr(lambda x: jnp.sin(x) * 2.0)(jnp.ones(n)) for n in (2, 3))
    trips.traced(of_two, {})
    trips.traced(of_three, {})  # other shapes, and so other texts, but the same structure
    part = of_three.replace(eqns=of_three.eqns[:1], outvars=of_three.eqns[0].outvars)
    trips.passed("", "", of_three, part)  # of known kinds of equations
    assert len(trips.waiting) == 1
    trips.passed("", "", part, functad.make_jaxpr(jnp.cosh)(x))
    trips.traced(part.replace(), {})
    assert len(trips.waiting) == 3
    trips.every = True
    trips.traced(of_three.replace(), {})
    trips.traced(of_two.replace(), {})  # prints as the first did
    assert len(trips.waiting) == 4
    trips.read()
    with pytest.raises(AssertionError):
        check_printed(Printed(str(program).replace("mul", "mul "), (), False))
    with pytest.raises(ProgramError):
        check_printed(Printed(str(program).replace("mul", "multiply"), (), False))


def test_what_runs_in_a_loop_is_read_with_the_program_that_it_is_in():
    trips = RoundTrips()
    program = functad.make_jaxpr(lambda x: lax.scan(lambda c, v: (c + v, jnp.sin(v)), x[0], x))(x)
    (body,) = [inner for eqn in program.eqns for inner in subprograms(eqn.params)]
    trips.traced(body, {})
    trips.traced(program, {})
    assert [printed.text for printed in trips.waiting] == [str(program)]


WRONG = {
    "{ lambda ; a:f32[3]. let b:f32[3] = sine a in (b,) }": "line 1: no primitive is called `sine`; did you mean `sin`",
    "{ lambda ; a:f32[3]. let b:f32[3] = sin c in (b,) }": "`c` is used, but nothing before has that name",
    "{ lambda ; a:f32[3]. let\n b:f32[2] = sin a\n in (b,) }": "line 2: `b` is f32[3], not f32[2]",
    "{ lambda ; a:f32[3]. let b:f32[3] c:f32[3] = sin a in (b,) }": "`sin` has 1 results, 2 are named",
    "{ lambda ; a:f32[3]. let a:f32[3] = sin a in (a,) }": "`a` is assigned for the second time",
    "{ lambda ; a:f33[3]. let in (a,) }": "no dtype is written `f33`; there is `f32`",
    "{ lambda ; a:f32[3]. let b:f32[] = reduce_sum a in (b,) }": "`reduce_sum`",
    "{ lambda ; . let in (007:f32[],) }": "`007` is no number of type f32[]",
    "{ lambda ; a:f32[3]. let b:f32[3] = add a 1.5:i32[] in (b,) }": "`1.5` is no number of type i32[]",
    "{ lambda ; a:f32[3]. let b:f32[3] = add a 300:u8[] in (b,) }": "`300` is no number of type u8[]",
    "{ lambda ; a:f32[3]. let b:f32[3] = add a 1:i32[] in (b,) }": "`add`",
    "{ lambda a:f32[3]; . let in (a,) }": "1 constants are named, 0 values were given",
    "{ lambda ; a:f32[3]. let in (a,)": "`}` is expected here",
    "{ lambda ; a:f32[3]. let in (a,) } }": "more follows",
    "{ lambda ; a:f32[3]. let b:f32[3] = transpose[permutation=(0, ] a in (b,) }": "is expected here",
    "{ lambda a:f32[3]=[1.0, 2.0]; . let in (a,) }": "f32[3] has 3 elements, but 2 are written",
    "{ lambda a:f32[1]=[x]; . let in (a,) }": "`x` is no number of type f32[]",
    "{ lambda a:f32[1]=[1.0; . let in (a,) }": "a number is expected here",
    "sin(x)": "`{` is expected here",
    "": "`{` is expected here",
    "{ lambda ; a:c64[8]. let b:c64[8] = fft[fft_lengths=(8,) fft_type=7] a in (b,) }": "7 is not a valid FftType",
    "{ lambda ; a:f32[3]. let b:f32[3] = transpose[permutation=x] a in (b,) }": "`transpose`",
    "{ lambda ; a:f32[3]. let b:f32[3] = cumsum[axis=0 reverse=False": "is expected here",
    "{ lambda ; a:f32[3]. let b:f32[3] = name[name=(((": "is expected here",
}


@pytest.mark.parametrize("text", WRONG)
def test_errors_tell_the_line_and_what_is_wrong(text):
    with pytest.raises(ProgramError) as raised:
        parse(text)
    assert WRONG[text] in str(raised.value) and "^" in str(raised.value)
    assert str(raised.value).startswith("line ")


def test_constants_must_fit():
    with pytest.raises(ProgramError, match="constant"):
        parse("{ lambda a:f32[3]; . let in (a,) }", [np.zeros(2, np.float32)])


def test_no_beginning_of_a_text_hangs_or_raises_anything_else():
    text = str(functad.make_jaxpr(FUNCTIONS["cond"][0])(x))
    for end in range(len(text)):
        with pytest.raises(ProgramError):
            parse(text[:end])


def test_what_is_used_twice_within_what_is_used_twice():
    inner = functad.jit(lambda x: jnp.sin(x) * 2.0)
    outer = functad.jit(lambda x: inner(x) + inner(x * 2.0))
    text = str(functad.make_jaxpr(lambda x: outer(x) * outer(x + 1.0))(1.0))
    program = functad.parse_program(text)
    assert text.count("let lambda") == 2 and str(program) == text
    assert functad.eval_jaxpr(program, program.consts, 1.0)[0] == outer(1.0) * outer(2.0)


def test_equations_without_a_line_of_an_example_are_seen():
    trips = RoundTrips()
    program = functad.make_jaxpr(lambda x: jnp.sin(x) + 1.0)(1.0)
    (first, *others) = program.eqns
    trips.file = os.path.dirname(__file__)
    trips.traced(program, {})
    assert not trips.without_line
    trips.traced(program.replace(eqns=[first.replace(source=None), *others]), {})
    assert trips.without_line[0].source is None and len(trips.without_line) == 1
    trips.file = "<doctest "
    trips.traced(program, {})
    assert len(trips.without_line) == 3


def test_no_variable_is_called_like_a_word_that_ends_equations_or_a_number():
    names = [letters(i) for i in range(9000)]
    assert len({*names}) == 9000 and {*names}.isdisjoint({"in", "inf", "nan"})
    chain = "\n".join(f"{name}:f32[] = neg {before}" for before, name in zip(names, names[1:]))
    text = str(functad.parse_program(f"{{ lambda ; a:f32[]. let\n{chain}\n in ({names[-1]},) }}"))
    assert text.count(" = neg ") == 8999 and str(functad.parse_program(text)) == text
