"""Many functions as one Program, and the forms of a primitive's example: as it is, its jvp and vjp, and mapped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from primitive_check_tools import Case, function_of, to_array
from primitive_checks import checks_for

import functad
from functad.dtypes import kind_of
from functad.evaluation import aval_of
from functad.ir import Program, Zero
from functad.optimize.pipeline import simplify
from functad.primitives.common import instantiate
from functad.tracing import trace_to_program
from functad.transforms.batching import batch_flat
from functad.transforms.forward import jvp_flat
from functad.transforms.reverse import linearize_flat


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
    floats = [i for i, a in enumerate(args) if kind_of(a.dtype) in "fc"]
    if "jvp" in names:
        active = [i for i in floats if _has_derivative(fun, args, i)]
        tangents = [np.random.default_rng(100 + i).normal(size=args[i].shape).astype(args[i].dtype) for i in active]

        def pushed(*values: Any) -> list[Any]:
            primals, given = values[: len(args)], iter(values[len(args) :])
            full = [next(given) if i in active else Zero(aval_of(a)) for i, a in enumerate(primals)]
            return [
                instantiate(t)
                for t in jvp_flat(fun, primals, full)[1]
                if kind_of(aval_of(instantiate(t)).dtype) in "fc"
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
    if kind_of(expected.dtype) in "biu":
        assert np.array_equal(got, expected), f"{label}: {got} instead of {expected}"
        return
    tolerance = {2: 4e-3, 4: 2e-5, 8: 1e-11}[expected.real.dtype.itemsize]
    if expected.dtype.name == "bfloat16":
        expected, got, tolerance = expected.astype(np.float32), got.astype(np.float32), 2.0**-6
    with np.errstate(all="ignore"):
        scale = np.max(np.abs(expected[np.isfinite(expected)]), initial=1e-30)
        wrong = ~(np.isclose(got, expected, rtol=tolerance, atol=tolerance * scale, equal_nan=True))
    assert not wrong.any(), f"{label}: {got[wrong][:5]} instead of {expected[wrong][:5]}"
