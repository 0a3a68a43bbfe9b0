"""Backends made from outside: one that counts operations, one that prints C."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import config, lax
from functad.errors import ArgumentError, CustomRuleError
from functad.extend import register_backend
from functad.extend.core import Literal, jaxpr_as_fun
from functad.ir import subprograms

X = np.linspace(0.5, 2, 4, dtype=np.float32)


def counted(program, times=1):
    """How often a Program runs each operation, loops of known length included."""
    counts = Counter()
    for eqn in program.eqns:
        inner = list(subprograms(eqn.params))
        if not inner:
            counts[eqn.primitive.name] += times
        for part in inner:
            counts += counted(part, times * eqn.params.get("length", 1))
    return counts


def made_counting(counts):
    def compile_program(program):
        run, own = jaxpr_as_fun(program), counted(program)

        def run_counting(args):
            counts.update(own)
            return run(*args)

        return run_counting

    return compile_program


def test_a_backend_that_counts():
    counts = Counter()
    with register_backend("counting", made_counting(counts)):
        loop = functad.jit(lambda x: lax.scan(lambda c, a: (jnp.sin(c) * a, None), x[0], x)[0], backend="counting")
        found = loop(X)
        assert counts["sin"] == counts["mul"] == 4
        loop(X)
        assert counts["sin"] == 8
    wanted = X[0]
    for a in X:
        wanted = np.sin(wanted) * a
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


# --- C --------------------------------------------------------------------------------------------------

C_TYPES = {"float32": "float", "float64": "double", "int32": "int32_t", "bool": "bool"}
EXPRESSIONS = {
    **{name: f"{{0}} {sign} {{1}}" for name, sign in dict(add="+", sub="-", mul="*", div="/", lt="<", gt=">").items()},
    **{name: f"{name}f({{0}})" for name in ("sin", "cos", "tanh", "exp", "log", "sqrt")},
    "neg": "-{0}",
    "select_n": "{0} ? {2} : {1}",
}


class CPrinter:
    """C for element-wise Programs of arrays of one shape and of numbers: one loop that computes all."""

    def __init__(self, program):
        self.program, self.names = program, {}

    def read(self, atom):
        if isinstance(atom, Literal):
            return f"{atom.value}f" if atom.aval.dtype == np.float32 else f"{atom.value}"
        return self.names[atom]

    def text(self):
        program = self.program
        size = max(int(np.prod(v.aval.shape)) for v in (*program.invars, *program.outvars))
        parameters, lines = [], []
        for kind, variables in (("in", program.invars), ("out", program.outvars)):
            for k, v in enumerate(variables):
                const = "const " if kind == "in" else ""
                parameters.append(f"{const}{C_TYPES[v.aval.dtype.name]} *{kind}{k}")
        for k, v in enumerate(program.invars):
            lines.append(self.define(v, f"in{k}[{'i' if v.aval.shape else '0'}]"))
        for eqn in program.eqns:
            if eqn.primitive.name not in EXPRESSIONS:
                raise NotImplementedError(f"`{eqn.primitive.name}` at {eqn.source} has no C")
            operands = [self.read(a) for a in eqn.invars]
            lines.append(self.define(eqn.outvars[0], EXPRESSIONS[eqn.primitive.name].format(*operands)))
        lines += [f"out{k}[i] = {self.read(a)};" for k, a in enumerate(program.outvars)]
        body = "\n".join(f"    {line}" for line in lines)
        head = f"void {program.name}({', '.join(parameters)})"
        return f"{head} {{\n  for (int i = 0; i < {size}; ++i) {{\n{body}\n  }}\n}}\n"

    def define(self, var, expression):
        name = self.names[var] = f"v{len(self.names)}"
        return f"const {C_TYPES[var.aval.dtype.name]} {name} = {expression};"


def printing_c(texts):
    def compile_program(program):
        texts.append(CPrinter(program).text())
        run = jaxpr_as_fun(program)
        return lambda args: run(*args)

    return compile_program


def test_a_backend_that_prints_c():
    texts = []

    def slope(x, w):
        return w * jnp.tanh(x) - 2.0

    with register_backend("c", printing_c(texts)), config.context(default_backend="c"):
        found = functad.jit(slope)(X, np.float32(3))
    np.testing.assert_allclose(found, 3 * np.tanh(X) - 2, rtol=1e-6)
    assert texts == [
        "void slope(const float *in0, const float *in1, float *out0) {\n"
        "  for (int i = 0; i < 4; ++i) {\n"
        "    const float v0 = in0[i];\n"
        "    const float v1 = in1[0];\n"
        "    const float v2 = tanhf(v0);\n"
        "    const float v3 = v1 * v2;\n"
        "    const float v4 = v3 - 2.0f;\n"
        "    out0[i] = v4;\n"
        "  }\n"
        "}\n"
    ]


# --- names ----------------------------------------------------------------------------------------------


def giving(value):
    return lambda program: lambda args: [np.full(a.shape, value, a.dtype) for a in program.out_avals]


def test_a_name_registered_anew_has_its_new_meaning_for_what_ran_before():
    with register_backend("mine", giving(1)) as first:
        f = functad.jit(lambda x: jnp.sin(x), backend="mine")
        assert f(X).tolist() == [1] * 4
        with register_backend("mine", giving(2)):
            assert f(X).tolist() == [2] * 4 and f.lower(X).optimized
            first.unregister()  # its name is another's: nothing happens
            assert f(X).tolist() == [2] * 4
        with pytest.raises(ArgumentError, match="no backend named 'mine'; the backends are 'cpu', 'cuda'"):
            f(X)
    g = functad.jit(lambda x: jnp.sin(x))
    np.testing.assert_allclose(g(X), np.sin(X), rtol=1e-6)


def test_a_default_backend_is_not_forgotten_while_it_is_the_default():
    made = register_backend("mine", giving(1))
    try:
        with config.context(default_backend="mine"):
            with pytest.raises(ArgumentError, match="is config.default_backend; first choose another"):
                made.unregister()
            assert functad.grad(functad.jit(lambda x: x * x))(3.0) == 1
    finally:
        made.unregister()
    with pytest.raises(ArgumentError, match="'cpu' or 'cuda' or 'interpreter', got 'mine'"):
        config.update("default_backend", "mine")


def test_what_a_backend_gets_wrong_is_said():
    with pytest.raises(ArgumentError, match="'cpu' is functad's own backend; take another name"):
        register_backend("cpu", giving(1))
    with pytest.raises(ArgumentError, match="compile_program must be a function, got 3"):
        register_backend("mine", 3)
    with register_backend("mine", lambda program: 3):
        with pytest.raises(CustomRuleError, match="made a int of a Program; compile_program"):
            functad.jit(lambda x: x + 1, backend="mine")(X)
    with register_backend("mine", lambda program: lambda args: [args[0][:2]]):
        with pytest.raises(CustomRuleError, match=r"returned \(float32\[2\]\) for `f`, whose results are \(f32\[4\]\)"):

            def f(x):
                return x + 1

            functad.jit(f, backend="mine")(X)
        with pytest.raises(ArgumentError, match="writes no kernels"):
            functad.jit(f, backend="mine").lower(X).kernels  # noqa: B018
