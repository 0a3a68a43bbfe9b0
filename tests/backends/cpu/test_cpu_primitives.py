"""Every primitive through the CPU compiler: its examples, their derivatives, and mapped; compiled, and as plain Python.

The interpreter is the reference: the same Program gives the same results on both backends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from derivative_tools import assert_agreed, derivatives, scalar_valued
from fuzz.kernels import OpenExecutable
from primitive_check_tools import Case, function_of
from primitive_checks import cases_of
from primitive_form_tools import Together, add_forms, compare

import functad
from functad import interpreter
from functad.all_primitives import registry
from functad.ir import Absent

WITH_KINKS = sorted(name for name, p in registry.items() if any(c.example.agreed for c in cases_of(p)))
NAMES = sorted(name for name, p in registry.items() if not isinstance(p.examples, Absent))


def run_all(together: Together) -> None:
    program = together.program()
    expected = interpreter.compile_program(program)(together.args)
    executable = OpenExecutable(program)
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
