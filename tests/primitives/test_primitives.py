"""Every primitive passes every check that applies to it; and every check objects to a wrong rule.

Knows no primitive by name but those that the negative controls break.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from primitive_checks import (
    CHECKS,
    Case,
    cases,
    cases_of,
    check_complete,
    checks_for,
    mutant,
    refused_arguments,
)

from functad.all_primitives import registry
from functad.ir import Absent, Aval, Diagonal, Example, JointlyLinear, Primitive, ZeroDerivative
from functad.lowering_rules import Loops
from functad.primitives import loops
from functad.primitives.common import broadcast_in_dim, normal, reduce_sum, reduce_sum_p, transpose
from functad.primitives.elementwise import cos, cos_p, mul, mul_p, neg, sin_p
from functad.primitives.structure import rev
from functad.tracing import bind

TABLE = [pytest.param(name, case, id=f"{case}-{name}") for case in cases() for name in checks_for(case)]


@pytest.mark.generated(every=8)
@pytest.mark.parametrize("name, case", TABLE)
def test_rules(name: str, case: Case) -> None:
    CHECKS[name](case)


def test_kernels_that_are_text_are_listed_with_their_reasons() -> None:
    listed = set(re.findall(r"`(\w+)`", (loops.__doc__ or "").partition("\n- ")[2]))
    assert listed == {name for name, p in registry.items() if isinstance(p.lower, Loops)}


@pytest.mark.parametrize("name", sorted(registry))
def test_every_rule_is_reached(name: str) -> None:
    check_complete(registry[name])


# The arguments in which a primitive that has a derivative refuses to have one.
REFUSED = {
    "polygamma": {0},
    "zeta": {0},
}


@pytest.mark.parametrize("name", sorted(registry))
def test_refused_arguments_are_listed(name: str) -> None:
    shown = [c for c in cases_of(registry[name]) if "jvp" in checks_for(c)]
    assert {i for case in shown for i in refused_arguments(case)} == REFUSED.get(name, set())


# --- negative controls: each check is fed a wrong rule and must object ----------------------------------


def _case(primitive: Primitive, index: int = 0, **wrong: object) -> Case:
    return cases_of(mutant(primitive, **wrong))[index]


def _opaque(x: object) -> np.ndarray:
    """The value behind tracers: a rule that uses it is right to first order only."""
    while getattr(x, "value", None) is not None:
        x = x.value  # type: ignore[attr-defined]
    return np.asarray(x)


def _nondeterministic(values: list[float]) -> object:
    return lambda x: np.full_like(x, values.pop())


def _changes_its_input(x: np.ndarray) -> np.ndarray:
    x.flags.writeable = True
    x += 1
    return np.sin(x)


class _Silent(Absent):
    """Says that it is absent but does not raise."""

    def __call__(self, *args: object, **params: object) -> object:
        return (args[1][0], args[2][0]) if args else None  # type: ignore[index]


def _sum_batch_without_shift(size: int, args: tuple, dims: tuple, *, axes: tuple[int, ...]) -> tuple:
    return reduce_sum(args[0], axes=axes), 0


def _wrong_product_jvp(primals: tuple, out: object, tangents: tuple) -> object:
    return mul(tangents[0], primals[1])  # forgets the second factor, and the Zero


def _first_order_only(primals: tuple, out: object, tangents: tuple) -> object:
    return mul(tangents[0], np.cos(_opaque(primals[0])))


def _to_second_order_only(primals: tuple, out: object, tangents: tuple) -> object:
    slope = mutant(cos_p, jvp=lambda p, out, t: neg(mul(t[0], np.sin(_opaque(p[0])))))
    return mul(tangents[0], bind(slope, primals[0]))


def _slightly_wrong_jvp(primals: tuple, out: object, tangents: tuple) -> object:
    slope = mul(cos(primals[0]), broadcast_in_dim(np.float64(1.0005), shape=out.shape, broadcast_dimensions=()))
    return mul(tangents[0], slope)  # as if 2 were 2.001


def _scalar_tangent(primals: tuple, out: object, tangents: tuple) -> object:
    return np.float32(0)


def _reversed_share(t: object, out: object, x: object) -> object:
    return mul(rev(t, (0,)), cos(x))  # of no element alone


def _reversed_jvp(primals: tuple, out: object, tangents: tuple) -> object:
    return _reversed_share(tangents[0], out, primals[0])


def _scaled_jvp(primals: tuple, out: object, tangents: tuple) -> object:
    return mul(tangents[0], cos(primals[0]))


def _scaled_by_3(ct: object, x: object) -> list:
    return [mul(ct, np.float64(3))]


def _sine_at_0(*agreed: float) -> list[Example]:
    return [Example(args=(np.float32(0),), params={}, along=(1.0,), agreed=agreed or (1, 0, -1))]  # type: ignore[arg-type]


WRONG = {
    "types: shape": ("types", _case(sin_p, abstract_eval=lambda x: Aval((*x.shape, 1), x.dtype))),
    "types: dtype": ("types", _case(sin_p, abstract_eval=lambda x: Aval(x.shape, np.dtype("float32")))),
    "types: impl widens": ("types", _case(sin_p, impl=lambda x: np.sin(x, dtype=np.float64))),
    "types: not an array": ("types", _case(sin_p, impl=lambda x: np.sin(x).tolist())),
    "types: input changed": ("types", _case(sin_p, impl=_changes_its_input)),
    "program: other values": ("program", _case(sin_p, impl=_nondeterministic([1.0, 2.0]))),
    "jvp: slope": ("jvp", _case(sin_p, jvp=_slightly_wrong_jvp)),
    "jvp: forgotten factor": ("jvp", _case(mul_p, jvp=_wrong_product_jvp)),
    "jvp: declared zero": ("jvp", _case(sin_p, jvp=ZeroDerivative("wrong"))),
    "vjp: slope": ("vjp", _case(sin_p, jvp=_slightly_wrong_jvp)),
    "vjp: no transpose": ("vjp", _case(sin_p, jvp=lambda p, out, t: bind(sin_p, t[0]))),
    "jvp_of_jvp": ("jvp_of_jvp", _case(sin_p, jvp=_first_order_only)),
    "vjp_of_vjp": ("vjp_of_vjp", _case(sin_p, jvp=_first_order_only)),
    "third_derivative": ("third_derivative", _case(sin_p, jvp=_to_second_order_only)),
    "backward: not diagonal": ("backward", _case(sin_p, jvp=Diagonal(_reversed_jvp, [_reversed_share]))),
    "backward: not jointly linear": (
        "backward",
        _case(sin_p, jvp=JointlyLinear(_scaled_jvp, slice(1)), transpose=_scaled_by_3),
    ),
    "zero_derivative": ("zero_derivative", _case(sin_p, jvp=ZeroDerivative("wrong"))),
    "tangent_types": ("tangent_types", _case(sin_p, jvp=_scalar_tangent)),
    "jvp_absent": ("jvp_absent", _case(sin_p, jvp=ZeroDerivative("not absent"))),
    "agreed: value": ("agreed", _case(sin_p, examples=lambda: _sine_at_0(1, 0, 0))),
    "agreed: slope": ("agreed", _case(sin_p, jvp=_slightly_wrong_jvp, examples=_sine_at_0)),
    "agreed: second derivative": ("agreed", _case(sin_p, jvp=_first_order_only, examples=_sine_at_0)),
    "transpose: factor": ("transpose", _case(mul_p, transpose=lambda ct, x, y: [neg(ct), neg(ct)])),
    "transpose: shape": ("transpose", _case(reduce_sum_p, transpose=lambda ct, x, *, axes: [ct])),
    "transpose: length": ("transpose", _case(reduce_sum_p, transpose=lambda ct, x, *, axes: [])),
    "batch: values": ("batch", _case(sin_p, batch=lambda size, args, dims: (cos(args[0]), dims[0]))),
    "batch: axis": ("batch", _case(reduce_sum_p, batch=_sum_batch_without_shift)),
    "batch: layout": (
        "batch",
        _case(sin_p, batch=lambda n, args, dims: (bind(sin_p, transpose(args[0], (0, 2, 1))), 0)),
    ),
    "batch: raises": ("batch", _case(sin_p, batch=lambda n, args, dims: args[1])),
    "empty_batch": ("empty_batch", _case(reduce_sum_p, batch=_sum_batch_without_shift)),
    "nested_batch": ("nested_batch", _case(reduce_sum_p, batch=_sum_batch_without_shift)),
    "batch_absent": ("batch_absent", _case(sin_p, batch=_Silent("no reason"))),
}


def test_there_is_a_wrong_rule_for_every_check() -> None:
    assert {name for name, _ in WRONG.values()} == set(CHECKS)


@pytest.mark.parametrize("which", WRONG)
def test_checks_object_to_wrong_rules(which: str) -> None:
    name, case = WRONG[which]
    with pytest.raises(AssertionError, match=f"primitive `{case.primitive.name}`, example 0 .*, rule"):
        CHECKS[name](case)


INCOMPLETE = {
    "no doc": mutant(sin_p, doc=" "),
    "no example": mutant(sin_p, examples=lambda: []),
    "derivative never compared": mutant(
        sin_p, examples=lambda: [Example(args=(normal(2),), params={}, differentiable=False)]
    ),
    "no derivative agreed on": mutant(sin_p, examples=lambda: [Example(args=(normal(2),), params={})]),
    "transpose never reached": mutant(
        reduce_sum_p, examples=lambda: [Example(args=(normal(0),), params={"axes": (0,)})]
    ),
    "batch never reached": mutant(sin_p, examples=lambda: [Example(args=(), params={})]),
    "no reason": mutant(sin_p, transpose=Absent("")),
    "absent but callable": mutant(sin_p, batch=_Silent("no reason")),
}


@pytest.mark.parametrize("which", INCOMPLETE)
def test_incomplete_records_are_found(which: str) -> None:
    with pytest.raises(AssertionError, match="primitive `"):
        check_complete(INCOMPLETE[which])
