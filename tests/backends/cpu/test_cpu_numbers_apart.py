"""Kernels that differ in numbers alone are one, which is given the numbers; what becomes of loops stays as it was."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax, machine_model
from functad.backends.cpu.kernels.numbers_apart import numbers_apart, numbers_of, with_names


def _apart(body: str) -> list[str]:
    least = numbers_apart(body)
    return [number for k, number in enumerate(numbers_of(body)) if k in least and int(number) >= least[k]]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("for i in range(start, stop):\n    y[7 * i + 3] = x[i]", ["3"]),  # neighbours would not lie side by side
        ("for i in range(start, stop):\n    for j in range(5):\n        y[7 * i + 2 * j] = x[3 + j]", ["7", "3"]),
        ("for i in range(9):\n    for j in range(5):\n        y[i // 7 * 2] = x[j % 3]", ["9", "2"]),
        ("for i in range(0, 9, 3):\n    for j in range(5):\n        y[i + j] = f32(2) * x[j]", ["0", "9"]),
        ("for i in range(9):\n    y[i] = x[i] * 2", []),
        ("for i in range(9):\n    z = x[i]\n    y[i] = z + 2", []),  # no word: it comes from memory
        ("p = 4 * start\np, q = x[0], x[1]\nz = p + 5", ["4", "0", "1"]),
        ("p = 8 << ((stop >> 38) & 1)\nfor j in range(4, 4 + p):\n    y[j] = x[j + 9]", ["9"]),
        ("for p, q in pairs:\n    y[7 * p] = q", []),
        ("p = 4 * start\nif p < 3:\n    y[p] = x[1]", ["4", "3", "1"]),
        ("for i in range(9):\n    gemm_f32(blas, 0, m, 4 + i, f32(1), x)", ["9", "0", "4"]),
        (
            "for i in range(9 // 2 * start):\n    p = i // 3\n    for j in range(8):\n        x[j] = f32(0)\n"
            "    gemm_f32(blas, p, 5 % i, x)\nfor j in range(7):\n    y[j] = x[j]",
            ["9", "2", "3", "8", "5"],  # beside a product all else takes no time
        ),
        (
            "for i in range(start, stop):\n    p = i // 3\n    for j in range(5):\n        for k in range(6):\n"
            "            y[k + p] = x[k]",
            ["3", "5"],
        ),
        ("for i in range(9):\n    for j in range(5):\n        y[i + j] = x[j * 9]", ["9", "5", "9"]),  # no vectors
        ("for i in range(9):\n    for j in range(5):\n        y[i + j] = x[j * 8]", ["9"]),
        ("for i in range(9):\n    for j in range(5):\n        y[i + j] = sqrt(x[j * 9])", ["9"]),
        ("for i in range(9):\n    y[-5 + i] = 1e-05 * x[0.5]", ["5"]),
    ],
)
def test_numbers_that_count_and_place(body: str, expected: list[str]) -> None:
    assert _apart(body) == expected


def test_many_steps_may_be_any_number() -> None:
    body = f"for i in range({machine_model.MANY_STEPS}):\n    y[i] = x[i]"
    assert numbers_apart(body) == {0: machine_model.MANY_STEPS}


def test_names_in_the_place_of_numbers() -> None:
    assert with_names("y[12 * i + 3] = 0.5", {0: "n", 1: "m"}) == "y[n * i + m] = 0.5"


def _pieces(x: jnp.ndarray, sizes: list[tuple[int, int]]) -> list[jnp.ndarray]:
    parts, start = [], 4  # all begin behind the start of x
    for rows, columns in sizes:
        part = x[start : start + rows * columns].reshape(rows, columns)
        parts.append(jnp.tanh(lax.transpose(part.reshape(rows, columns // 4, 4), (1, 0, 2))))
        start += rows * columns
    return parts


def test_kernels_of_other_sizes_are_one_with_the_same_results() -> None:
    sizes = [(6, 8), (10, 12), (14, 8)]
    x = jnp.asarray(np.random.default_rng(0).standard_normal(500, np.float32))

    def f(x: jnp.ndarray) -> list[jnp.ndarray]:
        return _pieces(x, sizes)

    lowered = functad.jit(f).lower(x)
    text = str(lowered.kernels)
    assert text.count("\ndef ") == 1 and "# n = " in text
    shared = functad.jit(f)(x)
    for result, expected in zip(shared, f(x), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-6)
    alone = [functad.jit(lambda x, k=k: f(x)[k])(x) for k in range(len(sizes))]
    for result, expected in zip(shared, alone, strict=True):
        np.testing.assert_array_equal(result, expected)
