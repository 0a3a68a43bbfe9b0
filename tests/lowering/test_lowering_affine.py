"""Index expressions against the numbers they stand for: every value of every loop variable is tried."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import numpy as np
import pytest

from functad.lowering.nests.affine import Affine, Symbol, data, delinear, linear, loop


def value_of(expression: Affine, at: dict[Symbol, int]) -> int:
    """The number for given loop variables, from the definition of quotients and remainders."""
    total = expression.constant
    for symbol, coefficient in expression.terms:
        if symbol.base is None:
            number = at[symbol]
        else:
            base = value_of(symbol.base, at)
            number = base // symbol.divisor if symbol.operator == "//" else base % symbol.divisor
        total += coefficient * number
    return total


def points(symbols: list[Symbol]) -> Iterator[dict[Symbol, int]]:
    for values in itertools.product(*[range(s.low, s.high + 1) for s in symbols]):
        yield dict(zip(symbols, values))


class RandomExpression:
    """An expression built step by step, beside a function that computes the same with plain integers."""

    def __init__(self, seed: int) -> None:
        choose = random.Random(seed)
        variables = [loop(name, choose.randint(2, 6)) for name in "ijk"]
        self.symbols = [v.terms[0][0] for v in variables]
        made: list[Any] = [(v, itemgetter(s)) for v, s in zip(variables, self.symbols)]
        for _ in range(choose.randint(2, 7)):
            (a, f), (b, g) = choose.choice(made), choose.choice(made)
            n = choose.randint(1, 9)
            made.append(
                choose.choice(
                    [
                        (a + b, lambda at, f=f, g=g: f(at) + g(at)),
                        (a - b, lambda at, f=f, g=g: f(at) - g(at)),
                        (a + n, lambda at, f=f, n=n: f(at) + n),
                        (n - a, lambda at, f=f, n=n: n - f(at)),
                        (a * n, lambda at, f=f, n=n: f(at) * n),
                        (a * n + b, lambda at, f=f, g=g, n=n: f(at) * n + g(at)),
                        (a // n, lambda at, f=f, n=n: f(at) // n),
                        (a % n, lambda at, f=f, n=n: f(at) % n),
                    ]
                )
            )
        self.made = made


@pytest.mark.parametrize("part", range(4))
def test_arithmetic_equals_that_of_whole_numbers(part: int) -> None:
    for seed in range(part * 150, (part + 1) * 150):
        case = RandomExpression(seed)
        for expression, function in case.made:
            for at in points(case.symbols):
                number = function(at)
                assert value_of(expression, at) == number, f"seed {seed}: {expression} at {at}"
                assert expression.low <= number <= expression.high, f"seed {seed}: {expression} at {at}"


def test_the_text_is_python_with_the_same_value() -> None:
    for seed in range(150):
        case = RandomExpression(seed)
        expression, function = case.made[-1]
        code = compile(expression.text(), "expression", "eval")
        for at in points(case.symbols):
            assert eval(code, {s.name: n for s, n in at.items()}) == function(at), f"seed {seed}: {expression}"


def test_substitution_replaces_variables_everywhere() -> None:
    for seed in range(150):
        case = RandomExpression(seed)
        expression, function = case.made[-1]
        i = case.symbols[0]
        merged = loop("m", i.extent * 3)
        new = expression.substitute({i: merged % i.extent})
        for at in points([*case.symbols[1:], merged.terms[0][0]]):
            at[i] = at[merged.terms[0][0]] % i.extent
            assert value_of(new, at) == function(at), f"seed {seed}: {expression} became {new}"


def test_equal_expressions_have_equal_hashes_whatever_their_order() -> None:
    i, j = loop("i", 3), loop("j", 4)
    assert i * 4 + j == j + i * 4 and hash(i * 4 + j) == hash(j + i * 4)
    assert i - i == 0 and i + 1 != i and (i + j) // 5 == (j + i) // 5


@pytest.mark.parametrize("shape", [(6,), (2, 3), (4, 1, 3), (2, 3, 4), (1, 5, 1)])
def test_an_index_comes_back_from_its_position(shape: tuple[int, ...]) -> None:
    index = tuple(loop(name, n) for name, n in zip("ijkl", shape))
    assert delinear(linear(index, shape), shape) == index


@pytest.mark.parametrize(
    ("before", "after"), [((4, 6), (2, 2, 6)), ((4, 6), (8, 3)), ((2, 3, 4), (6, 4)), ((24,), (4, 6))]
)
def test_positions_of_reshaped_arrays_are_those_of_numpy(before: tuple[int, ...], after: tuple[int, ...]) -> None:
    index = tuple(loop(name, n) for name, n in zip("ijkl", after))
    position = delinear(linear(index, after), before)
    expected = np.arange(np.prod(before)).reshape(before)
    for at in points([i.terms[0][0] for i in index]):
        where = tuple(value_of(p, at) for p in position)
        here = tuple(value_of(i, at) for i in index)
        assert expected[where] == expected.reshape(after)[here]


def test_splitting_and_merging_axes_leaves_no_quotients() -> None:
    i, j, k = loop("i", 4), loop("j", 6), loop("k", 5)
    position = linear((i, j, k), (4, 6, 5))
    assert all(x.is_plain() for x in delinear(position, (24, 5)))
    assert all(x.is_plain() for x in delinear(position, (4, 30)))
    assert not all(x.is_plain() for x in delinear(position, (10, 12)))


def test_a_quotient_and_its_remainder_join_again() -> None:
    i = loop("i", 24)
    assert linear(delinear(i, (4, 6)), (4, 6)) == i
    assert linear(delinear(i * 2 + 1, (4, 12)), (4, 12)) == i * 2 + 1


def test_what_has_one_value_is_a_constant() -> None:
    assert loop("i", 1) == 0 and (loop("i", 4) // 4) == 0 and (loop("i", 4) % 1) == 0
    assert not data("n", 0, 3).is_constant() and data("n", 0, 3).high == 3


def test_symbols_lists_those_inside_of_quotients() -> None:
    i, j = loop("i", 5), loop("j", 7)
    assert {i.terms[0][0], j.terms[0][0]} <= ((i + j) // 3).symbols()
