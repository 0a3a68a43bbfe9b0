"""Records behave as frozen dataclasses do, whose methods they share."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import re
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import functad
from functad.exact import exact_key
from functad.records import NamedTuple, Record


class Place(Record):
    x: int
    y: float = 0.0
    note: str = dataclasses.field(default="", compare=False)


class Pair(NamedTuple):
    """Two things."""

    first: int
    second: list[int] = []  # noqa: RUF012

    @property
    def sum(self) -> int:
        return self.first + sum(self.second)


class Unlike(Record, eq=False, kw_only=True):
    x: int


@dataclasses.dataclass(frozen=True)
class Plain:
    x: int
    y: float = 0.0
    note: str = dataclasses.field(default="", compare=False)


def test_they_print_compare_and_hash_as_frozen_dataclasses() -> None:
    for args, values in (((1,), {}), ((1, 2.0), {}), ((), {"y": 3.0, "x": 1}), ((1, 0.0, "seen"), {})):
        made, plain = Place(*args, **values), Plain(*args, **values)
        assert repr(made) == repr(plain).replace("Plain", "Place")
        assert dataclasses.asdict(made) == dataclasses.asdict(plain)
        assert hash(made) == hash(plain)
    assert Place(1) == Place(1, note="other") != Place(2)
    assert Place(1) != Plain(1)
    assert dataclasses.replace(Place(1), y=2.0) == Place(1, 2.0)
    assert copy.deepcopy(Place(1, 2.0)) == pickle.loads(pickle.dumps(Place(1, 2.0))) == Place(1, 2.0)


def test_those_without_values_are_equal_to_themselves_alone() -> None:
    one = Unlike(x=1)
    assert one == one and one != Unlike(x=1) and hash(one) != hash(Unlike(x=1))
    assert exact_key(one) != exact_key(Unlike(x=1))


def test_fields_are_told_apart_exactly() -> None:
    assert exact_key(Place(1, 0.0)) == exact_key(Place(1, 0.0, "note"))
    assert exact_key(Place(1, 0.0)) != exact_key(Place(1, -0.0))
    assert exact_key(Place(1)) != exact_key(Place(True))


@pytest.mark.parametrize(
    "wrong",
    [lambda: Place(), lambda: Place(y=1.0), lambda: Place(1, x=1), lambda: Place(1, z=1), lambda: Place(1, 2, "", 3)],
)
def test_wrong_fields_are_refused(wrong: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match="Place"):
        wrong()


def test_they_cannot_be_changed() -> None:
    made: Any = Place(1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="'x'"):
        made.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="'y'"):
        del made.y
    assert made == Place(1)


class Rule(Record):
    choose: Callable[..., bool] = lambda **params: bool(params)


def test_a_function_that_is_a_default_is_no_method() -> None:
    assert Rule().choose(a=1) and not Rule().choose()


def test_named_tuples_are_those_of_typing() -> None:
    class Alike(typing.NamedTuple):
        first: int
        second: list[int] = []  # noqa: RUF012

    pair = Pair(1)
    assert pair == (1, []) and type(pair).__mro__[1:] == (tuple, object)
    assert Pair(first=1, second=[2, 3]).sum == 6 and pair._replace(first=4).sum == 4
    assert repr(pair) == "Pair(first=1, second=[])" and Pair.__doc__ == "Two things."
    assert pickle.loads(pickle.dumps(pair)) == copy.deepcopy(pair) == pair
    assert (Pair.__module__, Pair.__qualname__) == (__name__, "Pair")
    assert typing.get_type_hints(Pair) == typing.get_type_hints(Alike)
    for name in ("_fields", "_field_defaults", "__match_args__", "__slots__"):
        assert getattr(Pair, name) == getattr(Alike, name)
    with pytest.raises(TypeError, match=r"^Pair.__new__\(\) missing 1 required positional argument: 'first'"):
        Pair()  # type: ignore[call-arg]
    with pytest.raises(ValueError, match=r"^Pair has the fields \('first', 'second'\), none named \['third'\]"):
        pair._replace(third=1)  # type: ignore[call-arg]


def test_named_tuples_of_one_length_have_their_own_names() -> None:
    class Other(NamedTuple):
        left: int
        right: int = 2

    assert (Other(1).left, Other(left=3).right, Pair(4).first) == (1, 2, 4)
    assert inspect.signature(Other).parameters.keys() == {"left", "right"}
    assert not hasattr(Other(1), "first") and not hasattr(Pair(1), "left")
    assert Other(1)._asdict() == {"left": 1, "right": 2} and Other._make([3, 4]) == (3, 4)


def test_named_tuples_of_functad_are_made_by_records() -> None:
    folder = Path(functad.__file__).parent
    others = [path for path in folder.rglob("*.py") if path != folder / "records.py"]
    imports = re.compile(r"^from typing import .*\bNamedTuple\b", re.MULTILINE)
    assert not [str(path) for path in others if imports.search(path.read_text())]
