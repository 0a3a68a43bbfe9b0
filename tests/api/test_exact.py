"""Values that Python takes for equal, but that are not the same: in no cache does one stand for the other."""

from __future__ import annotations

import dataclasses
import enum
import itertools
from typing import Any, NamedTuple

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax
from functad.editing.common_subexpressions import share_common_subexpressions
from functad.errors import ArgumentError
from functad.exact import exact_key

EQUAL = [1, 1.0, True, 1 + 0j, np.float32(1), np.float64(1), np.int32(1), np.bool_(True)]
ZEROS = [0, 0.0, -0.0, False, 0j, complex(0, -0.0), complex(-0.0, 0), np.float32(0), np.float32(-0.0)]


class Pair(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass(frozen=True)
class Options:
    rate: Any
    name: str = "options"


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass
class EqualByKey:
    """Its fields may be anything: two of them are as equal as it says itself."""

    key: int
    held: Any = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EqualByKey) and self.key == other.key

    def __hash__(self) -> int:
        return self.key


def test_a_dataclass_with_an_equality_of_its_own_is_not_looked_into() -> None:
    assert exact_key(EqualByKey(1, [])) == exact_key(EqualByKey(1, {2: object()})) != exact_key(EqualByKey(2, []))
    traced = []
    f = functad.jit(lambda x, option: traced.append(option) or x * option.key, static_argnums=1)
    assert [float(f(1.0, EqualByKey(3, held))) for held in ([], {}, [1])] == [3.0] * 3 and len(traced) == 1


WRAPPINGS = {
    "itself": lambda x: x,
    "tuple": lambda x: (2, (x,)),
    "namedtuple": lambda x: Pair(x, None),
    "frozenset": lambda x: frozenset([x]),
    "dataclass": lambda x: Options((x,)),
}


def pairs() -> list[tuple[Any, Any]]:
    return [pair for group in ([*EQUAL, Level.LOW], ZEROS) for pair in itertools.combinations(group, 2)]


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_keys_of_equal_values_of_other_types_or_signs(wrapping: str) -> None:
    wrap = WRAPPINGS[wrapping]
    for x, y in pairs():
        assert exact_key(wrap(x)) == exact_key(wrap(x)) != exact_key(wrap(y)), (x, y)
        assert len({exact_key(wrap(x)), exact_key(wrap(x)), exact_key(wrap(y))}) == 2
    assert exact_key(wrap(float("nan"))) == exact_key(wrap(float("nan")))


def test_keys_of_containers() -> None:
    assert len({exact_key(v) for v in ((1, 2), [1, 2], Pair(1, 2), {1: 2}, {1, 2}, frozenset({1, 2}))}) == 6
    assert exact_key({"a": 1, "b": 2}) == exact_key({"b": 2, "a": 1})
    assert exact_key((int, 1)) != exact_key(np.int64(1))
    with pytest.raises(TypeError):
        exact_key((np.ones(2),))


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_static_arguments(wrapping: str) -> None:
    wrap = WRAPPINGS[wrapping]
    for x, y in pairs():
        traced = []
        jitted = functad.jit(lambda a, s, traced=traced: traced.append(s) or a, static_argnums=1)
        for value in (x, y, x, y):
            jitted(np.float32(2), wrap(value))
        assert [exact_key(s) for s in traced] == [exact_key(wrap(x)), exact_key(wrap(y))]


def test_the_type_of_a_nested_static_argument_decides_on_the_result() -> None:
    add = functad.jit(lambda x, s: x + s[0], static_argnums=1)
    assert add(np.int32(1), (1,)).dtype == np.int32
    assert add(np.int32(1), (1.0,)).dtype == np.float32
    divide = functad.jit(lambda x, zero: x / zero, static_argnames="zero")
    assert [float(divide(1.0, zero=z)) for z in (0.0, -0.0, 0.0)] == [np.inf, -np.inf, np.inf]
    with pytest.raises(ArgumentError, match="no hash"):
        add(1, [1])


def test_keys_of_dicts_and_metadata_of_nodes() -> None:
    @functad.tree_util.register_dataclass
    @dataclasses.dataclass
    class Scaled:
        x: Any
        factor: Any = functad.tree.static(default=1)

    scale = functad.jit(lambda node: node.x * node.factor)
    assert [scale(Scaled(np.int32(2), f)).dtype.name for f in (1, 1.0, 1)] == ["int32", "float32", "int32"]
    first_key = functad.jit(lambda d: d[1] * next(iter(d)))
    found = [first_key({key: np.int32(2)}).dtype.name for key in (1, 1.0, True, 1)]
    assert found == ["int32", "float32", "int32", "int32"]
    returned = functad.jit(lambda d: d)
    assert [type(next(iter(returned({key: 2.0})))) for key in (1, 1.0, True, 1)] == [int, float, bool, int]


def test_checkpoint_and_loops() -> None:
    divide = functad.checkpoint(lambda x, zero: x / zero[0], static_argnums=1)
    assert [float(divide(1.0, (z,))) for z in (0.0, -0.0)] == [np.inf, -np.inf]

    @dataclasses.dataclass(frozen=True)
    class Dividing:
        zero: float

        def __call__(self, x: Any) -> Any:
            return x / self.zero

    assert [float(functad.checkpoint(Dividing(z))(1.0)) for z in (0.0, -0.0)] == [np.inf, -np.inf]

    def body(state: Any, _: Any) -> Any:
        return {key: x * key for key, x in state.items()}, None

    for key in (1, 1.0, True):
        (found,) = lax.scan(body, {key: np.float32(2)}, None, length=2)[0]
        assert type(found) is type(key)


def test_equations_with_parameters_of_either_sign() -> None:
    x, out = jnp.ones(3), np.int32([7])

    def both(x: Any, i: Any) -> Any:
        return [1 / x.at[i].get(mode="fill", fill_value=z) for z in (0.0, -0.0)]

    assert [float(v[0]) for v in functad.jit(both)(x, out)] == [np.inf, -np.inf] == [float(v[0]) for v in both(x, out)]
    program = functad.make_jaxpr(lambda x, i: [x.at[i].get(mode="fill", fill_value=v) for v in (np.nan, np.nan)])(
        x, out
    )
    gathers = [e for e in share_common_subexpressions(program).eqns if e.primitive.name == "gather"]
    assert len(gathers) == 1


def test_loops_whose_bodies_differ_in_a_sign() -> None:
    def run(x: Any) -> Any:
        def total(fill: float) -> Any:
            def body(c: Any) -> Any:
                return c[0] + 1, 1 / x.at[jnp.int32(c[0]) + 9].get(mode="fill", fill_value=fill)

            return lax.while_loop(lambda c: c[0] < 3, body, (0, jnp.float32(0)))[1]

        return total(0.0), total(-0.0)

    assert [float(v) for v in functad.jit(run)(jnp.ones(3))] == [np.inf, -np.inf]
