"""Matrix products: what they take in, when they must not, and which layouts need no copy."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cpu_program_tools import check_plain, program_of

import functad
import functad.numpy as jnp
from functad import lax
from functad.ir import Program, Var
from functad.lowering.barriers import remove_barriers
from functad.lowering.fusion.inlining import Inlining
from functad.lowering.fusion.products import Matrices, Product, as_matrices
from functad.lowering.nests.affine import linear, loop
from functad.lowering.schedule import make_schedule
from functad.lowering.steps import GemmStep, NestStep

MATMUL = (((1,), (0,)), ((), ()))
X = np.random.default_rng(0).integers(-3, 4, (6, 6)).astype(np.float32)
Y = np.random.default_rng(1).integers(-3, 4, (6, 6)).astype(np.float32)
Z = np.random.default_rng(2).integers(-3, 4, (6, 6)).astype(np.float32)


def matmul(a: Any, b: Any) -> Any:
    return lax.dot_general(a, b, MATMUL)


def products_of(program: Program) -> list[Product]:
    found = Inlining(program).products
    assert all(p.members[-1] == i for i, p in found.items())
    return [found[i] for i in sorted(found)]


def taken(fun: Callable[..., Any], *args: np.ndarray) -> list[tuple[int, float, float]]:
    """For each product of a function: how many equations it takes in, alpha, and the factor of what is there."""
    arrays = args or (X, Y, Z)
    program = program_of(fun, arrays)
    check_plain(program, arrays, [False] * len(arrays))
    check_plain(program, arrays, [True] * len(arrays))
    return [(len(p.members), p.alpha, p.start_factor) for p in products_of(program)]


# --- what a product takes in -----------------------------------------------------------------------------------


def test_a_product_alone() -> None:
    assert taken(lambda x, y, z: [matmul(x, y)]) == [(1, 1.0, 0.0)]


def test_scalings_and_signs() -> None:
    half = np.float32(0.5)
    assert taken(lambda x, y, z: [lax.neg(lax.mul(half, lax.mul(matmul(x, y), half)))]) == [(4, -0.25, 0.0)]


@pytest.mark.parametrize(
    ("fun", "alpha", "start_factor"),
    [
        (lambda z, p: lax.add(z, p), 1.0, 1.0),
        (lambda z, p: lax.add(p, z), 1.0, 1.0),
        (lambda z, p: lax.sub(z, p), -1.0, 1.0),
        (lambda z, p: lax.sub(p, z), 1.0, -1.0),
        (lambda z, p: lax.sub(z, lax.mul(p, np.float32(0.75))), -0.75, 1.0),
        (lambda z, p: lax.sub(lax.neg(p), z), -1.0, -1.0),
    ],
)
def test_sums_with_what_is_there(fun: Any, alpha: float, start_factor: float) -> None:
    (found,) = taken(lambda x, y, z: [fun(z, matmul(x, y))])
    assert found[1:] == (alpha, start_factor)


def test_a_sum_of_products_is_computed_in_one_place() -> None:
    (first, second) = taken(lambda x, y, z: [lax.add(matmul(x, y), matmul(y, z))])
    assert {first, second} == {(1, 1.0, 0.0), (2, 1.0, 1.0)}


def test_an_update_goes_into_all_products_of_a_sum() -> None:
    def fun(x: Any, y: Any, z: Any) -> list[Any]:
        total = lax.add(lax.add(matmul(x, y), matmul(y, y)), matmul(y, x))
        return [lax.sub(z, lax.mul(np.float32(0.5), total))]

    assert {found[1:] for found in taken(fun)} == {(-0.5, 1.0)}


def test_differences_of_products_keep_their_signs() -> None:
    def fun(x: Any, y: Any, z: Any) -> list[Any]:
        return [lax.sub(z, lax.mul(np.float32(2), lax.sub(matmul(x, y), matmul(y, x))))]

    taken(fun)


# --- when it must not --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("terms", [0, 1, 2])
def test_complex_products_of_a_single_term_are_no_librarys(dtype: Any, terms: int) -> None:
    x, y = np.ones((3, max(terms, 1)), dtype), np.ones((max(terms, 1), 4), dtype)
    contracted = ((1,), (0,)) if terms else ((), ())  # without one, it is an outer product
    found = taken(lambda x, y: [lax.dot_general(x, y, (contracted, ((), ())))], x, y)
    assert len(found) == (dtype is np.float32 or terms == 2)


def test_what_others_need_is_left_alone() -> None:
    twice = np.float32(2)

    def returned(x: Any, y: Any, z: Any) -> list[Any]:
        product = matmul(x, y)
        return [product, lax.mul(product, twice)]

    def used_twice(x: Any, y: Any, z: Any) -> list[Any]:
        product = matmul(x, y)
        return [lax.add(lax.mul(product, twice), lax.sin(product))]

    def with_itself(x: Any, y: Any, z: Any) -> list[Any]:
        product = matmul(x, y)
        return [lax.add(product, product)]

    for fun in (returned, used_twice, with_itself):
        assert taken(fun) == [(1, 1.0, 0.0)]


@pytest.mark.parametrize(
    "behind",
    [
        lambda p, y, z: lax.mul(np.float32(0.5), p),
        lambda p, y, z: lax.add(p, z),
        lambda p, y, z: lax.sub(z, lax.mul(p + matmul(y, z), np.float32(0.5))),
    ],
)
def test_what_stands_behind_a_barrier_is_left_alone(behind: Callable[..., Any]) -> None:
    def fun(x: Any, y: Any, z: Any) -> Any:
        return behind(lax.optimization_barrier(matmul(x, y)), y, z)

    program, phases = remove_barriers(program_of(fun, (X, Y, Z)))
    first = min(Inlining(program, phases).products.values(), key=lambda p: p.members)
    assert (len(first.members), first.alpha, first.start) == (1, 1.0, None)
    np.testing.assert_array_equal(functad.jit(fun)(X, Y, Z), fun(*map(jnp.asarray, (X, Y, Z))))


@pytest.mark.parametrize("factor", [0.0, -0.0, np.inf, np.nan, 1e-44, 2.0, -1.5])
def test_factors_that_a_library_treats_otherwise(factor: float) -> None:
    assert taken(lambda x, y, z: [lax.mul(matmul(x, y), np.float32(factor))]) == [(1, 1.0, 0.0)]


def test_factors_that_only_together_are_out_of_range() -> None:
    small = np.float32(1e-30)
    assert taken(lambda x, y, z: [lax.mul(lax.mul(matmul(x, y), small), small)])[0][0] == 2


def test_complex_scalings_and_broadcast_sums_stay_outside() -> None:
    c = (X + 1j * Y).astype(np.complex64)
    assert taken(lambda c: [lax.mul(matmul(c, c), np.complex64(2))], c) == [(1, 1.0, 0.0)]
    row = X[0]
    assert taken(lambda x, r: [lax.add(matmul(x, x), lax.broadcast_in_dim(r, (6, 6), (1,)))], X, row)[0][0] == 1


@pytest.mark.parametrize("donated", [False, True])
def test_what_is_there_may_be_needed_later(donated: bool) -> None:
    def fun(x: Any, y: Any, z: Any) -> list[Any]:
        w = lax.sin(z)
        first = lax.sub(w, matmul(x, y))
        second = lax.sub(w, matmul(y, x))
        return [first, second, lax.add(matmul(z, z), z), lax.mul(z, z)]

    check_plain(program_of(fun, (X, Y, Z)), (X, Y, Z), [donated] * 3)


def test_what_is_there_may_be_an_operand_too() -> None:
    check_plain(program_of(lambda x, y: [lax.add(x, matmul(x, x)), y], (X, Y)), (X, Y), [True, True])
    check_plain(program_of(lambda x, y: [lax.sub(y, matmul(lax.transpose(y, (1, 0)), x))], (X, Y)), (X, Y), [True] * 2)


# --- layouts -----------------------------------------------------------------------------------------------------


def steps_of(fun: Callable[..., Any], *args: np.ndarray) -> list[Any]:
    program = program_of(fun, args)
    check_plain(program, args, [False] * len(args))
    return make_schedule(program).steps


def array(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(-3, 4, shape).astype(np.float32)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: lax.transpose(x, (1, 0)),
        lambda x: lax.slice(x, (1, 2), (11, 12)),
        lambda x: lax.slice(x, (0, 0), (12, 12), (2, 1)),
        lambda x: lax.reshape(x, (3, 48)),
        lambda x: lax.transpose(lax.slice(x, (1, 0), (4, 12)), (1, 0)),
        lambda x: lax.slice(x, (0, 2), (12, 3)),
    ],
    ids=["transpose", "slice", "every second row", "reshape", "slice, transposed", "column"],
)
def test_views_of_rows_or_columns_need_no_copy(view: Any) -> None:
    steps = steps_of(lambda x: [lax.dot_general(view(x), view(x), (((1,), (1,)), ((), ())))], array(12, 12))
    assert all(isinstance(s, GemmStep) for s in steps)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: lax.rev(x, (0,)),
        lambda x: lax.rev(x, (1,)),
        lambda x: lax.slice(x, (0, 0), (12, 12), (1, 2)),
        lambda x: lax.broadcast_in_dim(lax.slice(x, (0, 0), (1, 1)), (8, 8), (0, 1)),
        lambda x: lax.pad(x, np.float32(1), ((1, 0, 0), (0, 1, 0))),
        lambda x: lax.reshape(lax.transpose(x, (1, 0)), (4, 36)),
    ],
    ids=["reversed rows", "reversed columns", "every second column", "repeated", "padded", "transpose, reshaped"],
)
def test_other_operands_are_packed(view: Any) -> None:
    steps = steps_of(lambda x: [lax.dot_general(view(x), view(x), (((1,), (1,)), ((), ())))], array(12, 12))
    assert any(isinstance(s, NestStep) for s in steps)


@pytest.mark.parametrize("product", [lambda h, w: w @ h, lambda h, w: h.T @ w.T])
@pytest.mark.parametrize("computed_anew", [False, True])
def test_floats_of_16_bits_are_no_operands(
    product: Callable[..., Any], computed_anew: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fun(x: Any, w: Any) -> Any:
        h = x.astype(jnp.float32)
        y = h + 1
        return y - y.max(1, keepdims=True), product(h, w)

    def converted(inlining: Inlining, *_: Any) -> frozenset[Var]:
        eqns = inlining.program.eqns
        return frozenset(e.outvars[0] for e in eqns if e.primitive.name == "convert_element_type")

    if computed_anew:
        monkeypatch.setattr("functad.lowering.fusion.fuse.rematerialised", converted)
    x, w = np.ones((512, 1024), np.float16), np.ones((64, 512), np.float32)
    schedule = make_schedule(functad.jit(fun).lower(x, w).optimized)
    (step,) = (s for s in schedule.steps if isinstance(s, GemmStep))
    assert {b.dtype.name for b in (step.a, step.b, step.c)} == {"float32"}
    for compiled, plain in zip(functad.jit(fun)(x, w), fun(jnp.asarray(x), jnp.asarray(w)), strict=True):
        np.testing.assert_allclose(compiled, plain)


def test_an_operand_is_packed_once() -> None:
    def forward_and_backward(x: Any, y: Any, z: Any) -> Any:
        steps_first = lax.transpose(x, (1, 0, 2))
        out = lax.dot_general(steps_first, y, (((2,), (0,)), ((), ())))
        return [out, lax.dot_general(x, lax.mul(out, z), (((1, 0), (0, 1)), ((), ())))]

    steps = steps_of(forward_and_backward, array(7, 5, 6), array(6, 9), array(5, 7, 9))
    assert sum(s.name.startswith("pack_") for s in steps) == 1
    one, two = (s for s in steps if isinstance(s, GemmStep))
    assert one.a is two.a and (one.ta, two.ta) == (0, 1)

    def other_elements(x: Any, y: Any) -> Any:
        one, two = (lax.slice(x, (0, i), (12, 12), (1, 2)) for i in (0, 1))
        return [matmul(one, y), matmul(two, y)]

    steps = steps_of(other_elements, array(12, 12), array(6, 9))
    assert sum(s.name.startswith("pack_") for s in steps) == 2


@pytest.mark.parametrize("lhs_axes", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("rhs_axes", list(itertools.permutations(range(3))))
def test_batches_in_any_order_of_axes(lhs_axes: tuple[int, ...], rhs_axes: tuple[int, ...]) -> None:
    at = lhs_axes.index(2), rhs_axes.index(2)
    batch = lhs_axes.index(0), rhs_axes.index(0)
    numbers = (((at[0],), (at[1],)), ((batch[0],), (batch[1],)))
    for contracted, is_sum in ((8, False), (3, True)):
        lhs = array(2, 5, contracted).transpose(lhs_axes).copy()  # batch, free, contracted
        rhs = array(2, 4, contracted).transpose(rhs_axes).copy()
        steps = steps_of(lambda x, y: [lax.dot_general(lax.sin(x), lax.sin(y), numbers)], lhs, rhs)
        assert any(isinstance(s, GemmStep) for s in steps) is not is_sum


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.uint16, np.int32, np.int64])
@pytest.mark.parametrize(
    "spec, shapes",
    [
        ("i,i->", [(1000,), (1000,)]),
        ("ij,ij->i", [(7, 5), (7, 5)]),
        ("ji,ji->i", [(300, 3), (300, 3)]),
        ("bij,bjk->bik", [(9, 3, 3), (9, 3, 3)]),
        ("bij,bj->bi", [(9, 4, 4), (9, 4)]),
        ("ijk,kj->i", [(4, 2, 3), (3, 2)]),
    ],
)
def test_tiny_products_and_dots_are_sums_in_nests(spec: str, shapes: Any, dtype: Any) -> None:
    operands = [array(*shape).astype(dtype) for shape in shapes]
    program = program_of(lambda x, y: [jnp.einsum(spec, x, y)], operands)
    assert not any(isinstance(s, GemmStep) for s in make_schedule(program).steps)
    found = functad.jit(lambda x, y: jnp.einsum(spec, x, y))(*operands)
    np.testing.assert_array_equal(found, np.einsum(spec, *operands), strict=True)


def test_a_dot_is_computed_with_what_is_around_it() -> None:
    x = array(6, 3)
    steps = steps_of(lambda a, b: [lax.sqrt(lax.dot_general(a - b, a - b, (((1,), (1,)), ((0,), (0,)))))], x, x[::-1])
    assert len(steps) == 1


@pytest.mark.parametrize("special", [np.nan, np.inf, -0.0])
def test_special_numbers_in_tiny_products(special: float) -> None:
    x, y = array(5, 3, 3), array(5, 3, 3)
    x[2, 1, 0], y[2, 0, 1] = special, 0.0
    with np.errstate(invalid="ignore"):
        expected = x @ y
    np.testing.assert_array_equal(functad.jit(jnp.matmul)(x, y), expected)


@pytest.mark.parametrize("m, n, k", [(1, 5, 3), (5, 1, 3), (5, 3, 1), (1, 1, 4), (1, 1, 1), (4, 4, 0), (0, 4, 4)])
def test_thin_and_empty_products(m: int, n: int, k: int) -> None:
    steps_of(lambda x, y: [matmul(x, y), lax.add(matmul(x, y), np.float32(1))], array(m, k), array(k, n))


def test_a_layout_is_offset_and_distances() -> None:
    b, i, j = loop("b", 2), loop("i", 4), loop("j", 3)
    whole = linear((b, i, j), (2, 4, 3))
    assert as_matrices(whole, (b, i, j), ((0,), (1,), (2,))) == Matrices(0, 12, 3, 1)
    assert as_matrices(whole + 5, (b, i, j), ((), (0, 1), (2,))) == Matrices(5, 0, 3, 1)
    assert as_matrices(whole, (b, i, j), ((), (1, 0), (2,))) is None
    assert as_matrices(whole // 2, (b, i, j), ((0,), (1,), (2,))) is None
