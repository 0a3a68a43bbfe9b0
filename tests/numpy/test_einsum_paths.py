"""The order of `einsum`'s products: the best there is, the same as `einsum_path` tells, and the one asked for."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax, machine_model
from functad.errors import ArgumentError
from functad.numpy.contraction_paths import multiplications, path_of

RNG = np.random.default_rng(0)


def random_network(count):
    labels = "abcdefgh"[: count + 1]
    inputs = ["".join(RNG.choice(list(labels), RNG.integers(1, 4), replace=False)) for _ in range(count)]
    used = sorted(set("".join(inputs)))
    output = "".join(RNG.choice(used, RNG.integers(0, 3), replace=False)) if len(used) > 2 else ""
    return inputs, output, {c: int(RNG.integers(2, 9)) for c in used}


def all_paths(count):
    if count == 1:
        yield ()
        return
    for pair in itertools.combinations(range(count), 2):
        for rest in all_paths(count - 1):
            yield (pair, *rest)


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_no_other_order_takes_fewer_multiplications(count):
    for _ in range(8):
        inputs, output, sizes = random_network(count)
        best = min(multiplications(inputs, output, sizes, path) for path in all_paths(count))
        assert multiplications(inputs, output, sizes, path_of(inputs, output, sizes, "optimal")) == best
        assert multiplications(inputs, output, sizes, path_of(inputs, output, sizes, "greedy")) >= best


CHAIN = "ij,jk,kl,lm->im"
MATRICES = [RNG.normal(size=s) for s in ((30, 35), (35, 15), (15, 5), (5, 10))]


def products_of(optimize):
    """The sizes of the products that einsum makes, in order."""
    program = functad.make_jaxpr(lambda *x: jnp.einsum(CHAIN, *x, optimize=optimize))(*MATRICES)
    return [e.outvars[0].aval.shape for e in program.eqns if e.primitive.name == "dot_general"]


def test_the_chain_of_the_textbook():
    inputs, sizes = CHAIN.split("->")[0].split(","), dict(zip("ijklm", (30, 35, 15, 5, 10)))
    path = path_of(inputs, "im", sizes, "auto")
    assert multiplications(inputs, "im", sizes, path) == 35 * 15 * 5 + 30 * 35 * 5 + 30 * 5 * 10
    assert list(path) == jnp.einsum_path(CHAIN, *MATRICES)[0]
    assert [sorted(s) for s in products_of("auto")] == [[5, 35], [5, 30], [10, 30]]
    assert "9,375" in jnp.einsum_path(CHAIN, *MATRICES)[1]


@pytest.mark.parametrize(
    "optimize",
    ["auto", "optimal", "greedy", True, False, [(0, 1), (0, 1), (0, 1)], ["einsum_path", (2, 3), (0, 2), (0, 1)]]
    + [[(0, 1, 2, 3)], [(1, 2, 3)], [(0, 1)], [(3,), (0, 3), (0, 1, 2)]],
)
def test_every_order_gives_the_same_result(optimize):
    expected = np.einsum(CHAIN, *MATRICES)
    for wrap in (lambda f: f, functad.jit):
        found = wrap(lambda *x: jnp.einsum(CHAIN, *x, optimize=optimize))(*MATRICES)
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-10)


def test_the_order_that_is_asked_for_is_taken():
    assert [sorted(s) for s in products_of([(0, 1), (0, 2), (0, 1)])] == [[15, 30], [5, 30], [10, 30]]
    assert [sorted(s) for s in products_of(False)] == [[15, 30], [5, 30], [10, 30]]
    assert [sorted(s) for s in products_of([(2, 3), (1, 2), (0, 1)])] == [[10, 15], [10, 35], [10, 30]]


def test_many_operands_go_greedily():
    count = machine_model.EINSUM_OPTIMAL + 3
    letters = "abcdefghijklmnopqrstuvwxyz"
    text = ",".join(letters[k : k + 2] for k in range(count)) + f"->{letters[0]}{letters[count]}"
    x = [RNG.normal(size=(3, 3)) for _ in range(count)]
    np.testing.assert_allclose(np.asarray(jnp.einsum(text, *x)), np.linalg.multi_dot(x), rtol=1e-10)
    assert len(jnp.einsum_path(text, *x)[0]) == count - 1


def test_lists_of_labels_and_ellipses_have_paths():
    x, y = np.ones((2, 3)), np.ones((3, 4))
    assert jnp.einsum_path(x, [0, 1], y, [1, 2], [0, 2])[0] == [(0, 1)]
    assert jnp.einsum_path("...i,i->...", np.ones((2, 5, 3)), np.ones(3))[0] == [(0, 1)]
    assert jnp.einsum_path("ij->i", x)[0] == []


@pytest.mark.parametrize("optimize", ["best", [(0, 4)], [(0, 0)], [()], ["(0, 1)"], [(-1, 0)], 3])
def test_what_is_no_order_says_so(optimize):
    with pytest.raises(ArgumentError, match="einsum: "):
        jnp.einsum(CHAIN, *MATRICES, optimize=optimize)


def test_products_may_be_the_users_own():
    calls = []

    def doubled(lhs, rhs, dimension_numbers, precision=None, preferred_element_type=None):
        calls.append((dimension_numbers, precision))
        return 2 * lax.dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type)

    x, y = jnp.ones((2, 3, 4)), jnp.ones((2, 4, 5))
    found = jnp.einsum("bij,bjk->bik", x, y, precision="highest", _dot_general=doubled)
    assert found.tolist() == (2 * jnp.einsum("bij,bjk->bik", x, y)).tolist()
    assert calls == [((((2,), (1,)), ((0,), (0,))), "highest")]
    assert jnp.einsum("bij,bjk->bik", x, y, _dot_general=lax.dot_general).shape == (2, 3, 5)
