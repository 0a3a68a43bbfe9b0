"""Names in generated source: none of the kernels' own hides an intrinsic, and none of a user's is code."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba", reason="Numba is not installed: the compiled kernels need it")

import functad
import functad.numpy as jnp
from functad import lax
from functad.backends.cpu.kernels.generate import VOCABULARY
from functad.lowering.nests.printing import own_names_apart

Z = np.array([1 + 2j, 3], np.complex64)
LOOPS = {
    "while": lambda x: lax.while_loop(lambda c: jnp.vdot(c, c).real < 10, lambda c: c * 2j, x),
    "scan": lambda x: lax.scan(lambda c, _: (c * (jnp.vdot(c, c) * 1e-3), None), x, None, length=30)[0],
    "cond": lambda x: lax.cond(x[0].real > 0, lambda c: c * jnp.vdot(c, c * 1j), lambda c: c, x),
    "no loop": lambda x: x * jnp.vdot(x, x * 1j),
}


@pytest.mark.parametrize("name", LOOPS)
def test_complex_products_in_loops_and_branches(name: str) -> None:
    fun = LOOPS[name]
    np.testing.assert_allclose(functad.jit(fun)(Z), fun(jnp.asarray(Z)), rtol=1e-4)


def test_names_of_the_vocabulary_are_not_given_to_values() -> None:
    body = "for min in range(3):\n    product = product(exp, inf)\n    x, exp = exp(product), a.real\n    o[min] = x\n"
    text, given = own_names_apart(body, ["o", "abs", "inf"], VOCABULARY)
    assert given == ["o", "abs_2", "inf_2"]
    assert text == (
        "for min_2 in range(3):\n    product_2 = product(exp_2, inf_2)\n    x, exp_2 = exp(product_2), a.real\n"
        "    o[min_2] = x\n"
    )
    assert own_names_apart("y = exp(x)\n", ["x"], VOCABULARY) == ("y = exp(x)\n", ["x"])


@pytest.mark.parametrize("name", LOOPS)
def test_no_kernel_sets_a_word_of_the_vocabulary(name: str) -> None:
    source = str(functad.jit(LOOPS[name]).lower(Z).kernels)
    names = re.findall(r"^ *(?:for )?(\w+) (?:=|in) ", source, re.MULTILINE)
    assert names and not {n for n in names if n in VOCABULARY}


HOSTILE = [
    '"""\nraise SystemExit("executed")\n"""',
    "\\N{x",
    "\\",
    '"',
    "'''",
    "a\nraise SystemExit",
    "\r",
    "\0",
    "\ud800",
    "é",
    "for",
    "{x}",
    "%s",
    "",
]


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_what_a_user_names_is_no_code(name: str, backend: str) -> None:
    def fun(x: Any, tree: Any, option: Any = None, **more: Any) -> Any:
        with functad.named_scope(name):
            total = lax.scan(inner, x, None, length=20)[0] + functad.checkpoint(inner)(x, None)[0]
        return {name: total, "rest": (tree, more)}

    def inner(c: Any, _: Any) -> Any:
        return jnp.sin(c) * 2.0, None

    fun.__name__ = inner.__name__ = fun.__qualname__ = name
    jitted = functad.jit(fun, static_argnames="option", backend=backend)
    x = np.float32([0.5, 1.0])
    for _ in range(2):
        found = jitted(x, {name: x}, option=name, **{f"{name} ": x})
        np.testing.assert_allclose(found[name], fun(x, {name: x})[name], rtol=1e-5)
        assert set(found["rest"][1]) == {f"{name} "}
    lowered = jitted.lower(x, {name: x}, option=name)
    assert str(lowered.jaxpr) and str(lowered.optimized)
    assert jitted.explain(x, {name: x}, option=name) is not None
    functad.jit(functad.grad(lambda x: jitted(x, {name: x}, option=name)[name].sum()))(x)


def test_keys_that_are_huge_numbers() -> None:
    key = 10**50
    assert functad.jit(lambda tree: tree)({key: 1.0})[key] == 1
