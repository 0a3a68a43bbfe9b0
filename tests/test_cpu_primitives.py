"""Every primitive through the CPU compiler: its examples, their derivatives, and mapped; compiled, and as plain Python.

The interpreter is the reference: the same Program gives the same results on both backends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from derivative_tools import assert_agreed, derivatives, scalar_valued
from primitive_check_tools import Case, function_of, to_array
from primitive_checks import cases_of, checks_for

import functad.primitives  # noqa: F401  (fills the registry)
from functad import interpreter
from functad.backends.cpu.executable import Executable
from functad.ir import Absent, Program, Zero, registry
from functad.optimize.pipeline import simplify
from functad.primitives.common import instantiate
from functad.tracing import aval_of, trace_to_program
from functad.transforms.batching import batch_flat
from functad.transforms.forward import jvp_flat
from functad.transforms.reverse import linearize_flat

WITH_KINKS = sorted(name for name, p in registry.items() if any(c.example.agreed for c in cases_of(p)))
NAMES = sorted(name for name, p in registry.items() if not isinstance(p.examples, Absent))


class Together:
    """Many functions and their arguments as one Program: one compilation for all of them."""

    def __init__(self) -> None:
        self.functions: list[tuple[Callable[..., Sequence[Any]], int]] = []
        self.args: list[np.ndarray] = []
        self.labels: list[str] = []

    def add(self, label: str, fun: Callable[..., Sequence[Any]], args: Sequence[Any]) -> None:
        arrays = [np.asarray(a) for a in args]
        count = len(trace_to_program(fun, [aval_of(to_array(a)) for a in arrays]).outvars)
        self.functions.append((fun, len(arrays)))
        self.args += arrays
        self.labels += [label] * count

    def program(self) -> Program:
        def fun(*values: Any) -> list[Any]:
            outs, given = [], iter(values)
            for f, n in self.functions:
                outs += list(f(*[next(given) for _ in range(n)]))
            return outs

        return simplify(trace_to_program(fun, [aval_of(to_array(a)) for a in self.args]))


def forms(case: Case) -> Together:
    """A case as it is, its jvp and vjp, and mapped over a leading axis."""
    together = Together()
    add_forms(together, case)
    return together


def add_forms(together: Together, case: Case) -> None:
    fun, args = function_of(case.primitive, case.example), [np.asarray(a) for a in case.example.args]
    label = case.describe()
    together.add(f"{label}, itself", fun, args)
    names = checks_for(case)
    floats = [i for i, a in enumerate(args) if a.dtype.kind in "fc"]
    if "jvp" in names:
        active = [i for i in floats if _has_derivative(fun, args, i)]
        tangents = [np.random.default_rng(100 + i).normal(size=args[i].shape).astype(args[i].dtype) for i in active]

        def pushed(*values: Any) -> list[Any]:
            primals, given = values[: len(args)], iter(values[len(args) :])
            full = [next(given) if i in active else Zero(aval_of(a)) for i, a in enumerate(primals)]
            return [
                instantiate(t) for t in jvp_flat(fun, primals, full)[1] if aval_of(instantiate(t)).dtype.kind in "fc"
            ]

        together.add(f"{label}, jvp", pushed, [*args, *tangents])

        def pulled(*values: Any) -> list[Any]:
            flags = [i in active for i in range(len(args))]
            outs, linear = linearize_flat(fun, list(values), flags)
            cts = [instantiate(Zero(aval_of(o))) if isinstance(z, Zero) else o for o, z in zip(outs, linear.outs)]
            return [instantiate(c) for c, a in zip(linear.transpose(cts), flags) if a]

        if "vjp" in names:
            together.add(f"{label}, vjp", pulled, args)
    if "batch" in names:
        stacks = [np.stack([a, a]) for a in args]
        together.add(f"{label}, mapped", lambda *xs: batch_flat(fun, 2, list(xs), [0] * len(xs))[0], stacks)


def _has_derivative(fun: Callable[..., Any], args: Sequence[np.ndarray], i: int) -> bool:
    arrays = [to_array(a) for a in args]
    tangents = [instantiate(Zero(aval_of(a))) if j == i else Zero(aval_of(a)) for j, a in enumerate(arrays)]
    try:
        jvp_flat(fun, arrays, tangents)
    except functad.errors.FunctadError:
        return False
    return True


def compare(expected: Any, got: np.ndarray, label: str) -> None:
    expected = np.asarray(expected)
    assert got.shape == expected.shape and got.dtype == expected.dtype, f"{label}: {got.dtype}{got.shape}"
    if expected.dtype.kind in "biu":
        assert np.array_equal(got, expected), f"{label}: {got} instead of {expected}"
        return
    tolerance = {2: 4e-3, 4: 2e-5, 8: 1e-11}[expected.real.dtype.itemsize]
    with np.errstate(all="ignore"):
        scale = np.max(np.abs(expected[np.isfinite(expected)]), initial=1e-30)
        wrong = ~(np.isclose(got, expected, rtol=tolerance, atol=tolerance * scale, equal_nan=True))
    assert not wrong.any(), f"{label}: {got[wrong][:5]} instead of {expected[wrong][:5]}"


def run_all(together: Together) -> None:
    program = together.program()
    expected = interpreter.compile_program(program)(together.args)
    executable = Executable(program)
    got = executable(together.args)
    for label, e, g in zip(together.labels, expected, got, strict=True):
        compare(e, g, label)


@pytest.mark.generated(every=25)
@pytest.mark.parametrize("name", NAMES)
def test_compiled_examples_equal_the_interpreter(name: str) -> None:
    together = Together()
    for case in cases_of(registry[name]):
        add_forms(together, case)
    run_all(together)


def _alike(cases: Sequence[Case]) -> list[list[Case]]:
    """Examples that differ in their values only: they can be mapped over together."""
    groups: dict[Any, list[Case]] = {}
    for case in cases:
        example = case.example
        kept = [v is None for v in example.along]
        key = (str(example.params), str([(np.shape(a), np.asarray(a).dtype) for a in example.args]), str(kept))
        groups.setdefault(key, []).append(case)
    return list(groups.values())


@pytest.mark.generated(every=4)
@pytest.mark.parametrize("name", WITH_KINKS)
def test_compiled_derivatives_are_those_agreed_on(name: str) -> None:
    """At ties, kinks and ends of domains, to third order, in both modes; mapped over the points."""
    groups = _alike([c for c in cases_of(registry[name]) if c.example.agreed])

    def all_derivatives(inputs: Sequence[Any]) -> list[Any]:
        results = []
        for group, (args, along) in zip(groups, inputs):
            fun = scalar_valued(function_of(registry[name], group[0].example))
            for modes in ("fff", "rrr"):
                results.append(functad.vmap(lambda x, v, f=fun, m=modes: derivatives(f, v, m)(*x))(args, along))
        return results

    def stacked(values: Sequence[Any], dtypes: Sequence[Any]) -> list[Any]:
        return [None if v[0] is None else np.array(v, d) for v, d in zip(zip(*values), dtypes)]

    inputs = []
    for group in groups:
        dtypes = [np.asarray(a).dtype for a in group[0].example.args]
        inputs.append([stacked([getattr(c.example, field) for c in group], dtypes) for field in ("args", "along")])
    found = iter(functad.jit(all_derivatives)(inputs))
    for group in groups:
        for modes in ("fff", "rrr"):
            orders = np.stack([np.asarray(order) for order in next(found)])
            for case, values in zip(group, orders.T):
                assert case.example.agreed is not None
                assert_agreed(values, case.example.agreed, f"{case.describe()}, compiled, modes {modes}", 1e-4)
