"""The text by which a Program is known to other processes: equal only for what is compiled to the same."""

from __future__ import annotations

import enum
import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from primitive_checks import cases_of
from primitive_form_tools import Together, add_forms

import functad
import functad.numpy as jnp
from functad import custom_jvp, lax, machine_model
from functad.all_primitives import registry
from functad.editing.fingerprint import fingerprint
from functad.extend import UpdateLoops
from functad.extend.core import Primitive as OpenPrimitive
from functad.interpreters import mlir
from functad.ir import Absent, Program
from functad.lowering_rules import Callback, Indexed, Loops, Scalar, Scattered
from functad.user_kernels import numba_primitive

X = np.ones(3, np.float32)
NAMES = sorted(name for name, p in registry.items() if not isinstance(p.examples, Absent))


def text_of(fun: Callable[..., Any], *args: Any) -> str | None:
    return fingerprint(functad.make_jaxpr(fun)(*args))


def along_rows_of(member: int) -> Callable[..., Any]:
    axis = enum.IntEnum("Axis", {"ROWS": member})
    return lambda x: lax.cumsum(x.reshape(3, 1), axis=axis["ROWS"])


PAIRS: dict[str, tuple[tuple[Callable[..., Any], Any], tuple[Callable[..., Any], Any]]] = {
    "the sign of a zero": ((lambda x: x + 0.0, X), (lambda x: x + -0.0, X)),
    "an operation": ((jnp.sin, X), (jnp.cos, X)),
    "a parameter": ((lambda x: lax.slice(x, (0,), (2,)), X), (lambda x: lax.slice(x, (1,), (3,)), X)),
    "a dtype": ((jnp.sin, X), (jnp.sin, X.astype(np.float64))),
    "a shape": ((jnp.sin, X), (jnp.sin, X[:2])),
    "weakness": ((jnp.sin, np.float32(1)), (jnp.sin, 1.0)),
    "which operand": ((lambda x: x - jnp.sin(x), X), (lambda x: jnp.sin(x) - x, X)),
    "which result": ((lambda x: (jnp.sin(x), jnp.cos(x)), X), (lambda x: (jnp.cos(x), jnp.sin(x)), X)),
    "the body of a loop": (
        (lambda x: lax.fori_loop(0, 9, lambda i, c: jnp.sin(c), x), X),
        (lambda x: lax.fori_loop(0, 9, lambda i, c: jnp.cos(c), x), X),
    ),
    "a constant": ((lambda x: x + np.float32([1, 2, 3]), X), (lambda x: x + np.float32([1, 2, 4]), X)),
    "the called function": ((functad.jit(lambda x: x * 2), X), (functad.jit(lambda x: x * 3), X)),
    "the value that a user's name for it has": ((along_rows_of(0), X), (along_rows_of(1), X)),
    "computing again": (
        (lambda x: functad.grad(functad.checkpoint(lambda x: jnp.sum(jnp.sin(jnp.sin(x)))))(x), X),
        (lambda x: functad.grad(lambda x: jnp.sum(jnp.sin(jnp.sin(x))))(x), X),
    ),
}


@pytest.mark.parametrize("difference", PAIRS)
def test_the_text_tells_apart(difference: str) -> None:
    one, other = ((lambda x, f=f: f(x), x) for f, x in PAIRS[difference])
    assert text_of(*one) is not None and text_of(*one) == text_of(*one)
    assert text_of(*one) != text_of(*other)


@pytest.mark.generated(every=8)
@pytest.mark.parametrize("name", NAMES)
def test_all_primitives_but_those_with_functions_have_a_text(name: str) -> None:
    for case in cases_of(registry[name]):
        together = Together()
        add_forms(together, case)
        program: Program = together.program()
        has_function = any(isinstance(e.primitive.lower, Callback) or "numba" in e.primitive.name for e in program.eqns)
        assert (fingerprint(program) is None) == has_function, case


def test_derivative_rules_have_no_part_in_it() -> None:
    def program_of(slope: float) -> Callable[..., Any]:
        @custom_jvp
        def double(x: Any) -> Any:
            return x * 2

        double.defjvp(lambda primals, tangents: (double(primals[0]), slope * tangents[0]))
        return lambda x: double(x)

    assert text_of(program_of(2.0), X) == text_of(program_of(3.0), X) is not None
    assert text_of(functad.grad(program_of(2.0)), 1.0) != text_of(functad.grad(program_of(3.0)), 1.0)


def test_functions_have_no_text() -> None:
    twice = numba_primitive(lambda x: x + x, elementwise=True, name="twice_in_numba")
    assert text_of(twice, X) is None
    assert text_of(lambda x: functad.pure_callback(np.sin, functad.ShapeDtypeStruct((3,), np.float32), x), X) is None


FUNCTIONS = {
    "places of elements": Indexed(lambda context, index: context.read(0, index)),
    "updates": Scattered(lambda x: UpdateLoops(x.shape, (True,)), lambda context, index: (index, "", "1"), "add"),
    "kernels": Loops(lambda target, ins, outs: target.copy(ins[0], outs[0])),
}


@pytest.mark.parametrize("rule", FUNCTIONS)
def test_what_functions_of_somebody_else_say_has_no_text(rule: str) -> None:
    own_p = OpenPrimitive("sort")
    own_p.def_abstract_eval(lambda x: x)
    mlir.register_lowering(own_p, Scalar("{0} * {0}"))
    assert text_of(lambda x: own_p.bind(x), X) not in (None, text_of(jnp.sort, X))
    mlir.register_lowering(own_p, FUNCTIONS[rule])
    assert text_of(lambda x: own_p.bind(x), X) is None


def test_primitives_die_with_their_last_user() -> None:
    own_p = OpenPrimitive("mine")
    own_p.def_abstract_eval(lambda x: x)
    mlir.register_lowering(own_p, Scalar("{0} * {0}"))
    assert text_of(own_p.bind, X) is not None
    dead = weakref.ref(own_p)
    del own_p
    functad.clear_caches()
    gc.collect()
    assert dead() is None


def test_large_constants_have_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        return x + np.float32([1, 2, 3])

    assert text_of(f, X) is not None
    monkeypatch.setattr(machine_model, "LARGEST_KNOWN_CONSTANT", 11)
    assert text_of(f, X) is None
