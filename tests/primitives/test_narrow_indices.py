"""Indices of narrow types, on axes that are longer than these types count: nothing wraps around, nothing is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax

TYPES = [("int8", 200), ("int8", 300), ("uint8", 300), ("int16", 70_000), ("uint16", 70_000), ("uint32", 300)]


def functions(x: np.ndarray, at: int) -> dict[str, tuple[Callable[..., Any], Any]]:
    """Functions of an array and of the indices [at, 0], and what they give."""
    n = len(x)
    place = at + n if at < 0 else at
    start = min(place, n - 3)
    found = {
        "x[i]": (lambda x, i: x[i], x[[place, 0]]),
        "take": (lambda x, i: jnp.take(x, i), x[[place, 0]]),
        "take, wrapped": (lambda x, i: jnp.take(x, i, mode="wrap"), x[[place, 0]]),
        "take, clipped": (lambda x, i: jnp.take(x, i, mode="clip"), x[[max(at, 0), 0]]),
        "take, filled": (lambda x, i: jnp.take(x, i, mode="fill"), x[[place, 0]]),
        "take_along_axis": (lambda x, i: jnp.take_along_axis(x, i, 0), x[[place, 0]]),
        "x.at[i].get": (lambda x, i: x.at[i].get(mode="clip"), x[[place, 0]]),
        "x.at[i].set": (lambda x, i: x.at[i].set(7.0)[jnp.array([place, 1])], [7, x[1]]),
        "x.at[i].add": (lambda x, i: x.at[i].add(7.0)[jnp.array([place, 1])], [x[place] + 7, x[1]]),
        "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, i[:1], (3,)), x[start : start + 3]),
        "dynamic_slice, other starts": (
            lambda x, i: lax.dynamic_slice(x.reshape(1, n, 1), (0, i[0], jnp.int32(0)), (1, 3, 1)).ravel(),
            x[start : start + 3],
        ),
        "dynamic_slice_in_dim": (lambda x, i: lax.dynamic_slice_in_dim(x, i[0], 3), x[start : start + 3]),
        "dynamic_index_in_dim": (lambda x, i: lax.dynamic_index_in_dim(x, i[0]), x[[place]]),
        "dynamic_update_slice": (
            lambda x, i: lax.dynamic_update_slice(x, jnp.full(3, 7.0), i[:1])[jnp.array([start, start + 2, 1])],
            [7, 7, x[1]],
        ),
        "dynamic_update_index_in_dim": (
            lambda x, i: lax.dynamic_update_index_in_dim(x, 7.0, i[0], 0)[jnp.array([place, 1])],
            [7, x[1]],
        ),
        "mapped": (lambda x, i: functad.vmap(lambda k: lax.dynamic_index_in_dim(x, k))(i).ravel(), x[[place, 0]]),
        "in a loop": (lambda x, i: lax.scan(lambda c, k: (c + x[k], None), 0.0, i)[0], x[place] + x[0]),
        "roll": (lambda x, i: jnp.roll(x, i[0])[:3], np.roll(x, at)[:3]),
        "one_hot": (lambda x, i: functad.nn.one_hot(i[:1], n).sum(), float(at >= 0)),
        "gradient": (
            lambda x, i: functad.grad(lambda x: (x[i] ** 2).sum())(x)[jnp.array([place, 1])],
            [2 * x[place], 0],
        ),
        "gradient of columns": (
            lambda x, i: functad.grad(lambda x: jnp.take_along_axis(x, i[:1, None], 1).sum())(x[None]).sum(),
            1.0,
        ),
    }
    if at >= 0:
        found["unravel_index"] = (lambda x, i: jnp.unravel_index(i, (n, 1))[0], [at, 0])
        found["ravel_multi_index"] = (lambda x, i: jnp.ravel_multi_index((i, i * 0), (n, 2), mode="clip"), [2 * at, 0])
    return found


@pytest.mark.generated(every=4)
@pytest.mark.parametrize("at", [5, -1])
@pytest.mark.parametrize(("dtype", "size"), TYPES)
def test_functions_of_indices(dtype: str, size: int, at: int) -> None:
    if at < 0 and dtype.startswith("u"):
        at = 100  # which is valid in all of them
    x, i = jnp.arange(1, size + 1, dtype="float32"), jnp.array([at, 0], dtype)
    cases = functions(np.asarray(x), at)
    results = functad.jit(lambda x, i: {name: fun(x, i) for name, (fun, _) in cases.items()})(x, i)
    for name, (fun, expected) in cases.items():
        np.testing.assert_array_equal(fun(x, i), expected, err_msg=f"{name}, un-jitted")
        np.testing.assert_array_equal(results[name], expected, err_msg=f"{name}, jitted")


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint64"])
def test_known_numbers_of_narrow_types(dtype: str) -> None:
    x, number = jnp.arange(300.0), np.dtype(dtype).type(5)
    assert lax.dynamic_slice(x, (number,), (2,))[0] == lax.dynamic_index_in_dim(x, number)[0] == 5
    assert lax.dynamic_update_slice(x, jnp.full(2, 7.0), (number,))[6] == 7
    for mode in ("clip", "wrap", "fill"):
        assert jnp.take(x, number, mode=mode) == functad.jit(lambda x, m=mode: jnp.take(x, number, mode=m))(x) == 5


def test_what_is_too_large_stays_too_large() -> None:
    x = jnp.arange(5.0)
    far = jnp.array([2**63 + 1, 2], "uint64")
    for fun in (lambda f: f, functad.jit):
        assert fun(lambda x, i: lax.dynamic_index_in_dim(x, i[0]))(x, far)[0] == 4
        assert fun(lambda x, i: jnp.take(x, i, mode="clip"))(x, far)[0] == 4
