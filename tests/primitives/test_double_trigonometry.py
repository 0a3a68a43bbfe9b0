"""Sine, cosine and tangent of float64 by formulas, next to multiples of π/2 of all sizes: π by integer arithmetic."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from kernel_ir import optimized_kernels

import functad.numpy as jnp
from functad import jit
from functad.backends.cpu.scalars import elementary as scalars
from functad.primitives.kernels import double_trigonometry
from functad.primitives.kernels.plain_arithmetic import PLAIN

BITS = 1400  # of a fixed-point number
ONE = 1 << BITS
LARGE = double_trigonometry._LARGE
NAMES = ("sin", "cos", "tan")


def _arctan_of_inverse(n: int) -> int:
    term = total = ONE // n
    for k in range(3, BITS, 2):
        term //= -n * n
        total += term // k
    return total


HALF_PI = 8 * _arctan_of_inverse(5) - 2 * _arctan_of_inverse(239)  # Machin


def _convergents(x: Fraction) -> Iterator[tuple[int, int]]:
    p, q, last_p, last_q = 1, 0, 0, 1
    for _ in range(80):
        whole = x.numerator // x.denominator
        p, q, last_p, last_q = whole * p + last_p, whole * q + last_q, p, q
        yield p, q
        x = 1 / (x - whole)


def _hard() -> np.ndarray:
    """The numbers of 53 bits of many exponents that are nearest to multiples of π/2."""
    found = []
    for exponent in range(-60, 971, 7):
        turns = Fraction(2) ** exponent * Fraction(ONE, HALF_PI)
        candidates = [float(m * Fraction(2) ** exponent) for _, m in _convergents(turns) if 0 < m < 2**53]
        found += candidates[-2:]
    return np.array([*found, 6381956970095103 * 2.0**797])


def _arguments() -> np.ndarray:
    rng = np.random.default_rng(0)
    sizes = np.ldexp(rng.uniform(1, 2, 400), rng.integers(-1074, 1024, 400))
    powers = np.ldexp(1.0, [39, 40, 41, 52, 53, 64, 65, 96, 97, 512, 544, 545, 576, 577, 992, 993, 1023])
    ends = np.array([5e-324, 2.0**-27, np.nextafter(2.0**-27, 0), np.finfo(np.float64).max])
    near = np.concatenate([rng.uniform(0, 12, 200), np.arange(1, 60) * (np.pi / 4)])
    x = np.concatenate([_hard(), sizes, powers, np.nextafter(powers, 0), ends, near])
    return np.concatenate([x, -x])


def _exactly(x: float) -> dict[str, Fraction]:
    value = int(Fraction(x) * ONE)
    turns = (2 * value + HALF_PI) // (2 * HALF_PI)
    r = value - turns * HALF_PI
    sums = [0, 0]
    term, n = ONE, 0
    while term:
        sums[n % 2] += -term if n % 4 >= 2 else term
        n += 1
        term = term * r // ONE // n if term * r >= 0 else -(-term * r // ONE // n)
    cosine, sine = (Fraction(total, ONE) for total in sums)
    for _ in range(turns % 4):
        sine, cosine = cosine, -sine
    return {"sin": sine, "cos": cosine, "tan": sine / cosine}


def _worst(results: dict[str, np.ndarray], x: np.ndarray) -> dict[str, float]:
    worst = dict.fromkeys(results, 0.0)
    for i, value in enumerate(x):
        for name, exact in _exactly(float(value)).items():
            unit = Fraction(float(np.spacing(abs(float(exact)))))
            worst[name] = max(worst[name], float(abs(Fraction(float(results[name][i])) - exact) / unit))
    return worst


def test_errors_are_below_an_ulp() -> None:
    x = _arguments()
    plain = {name: getattr(scalars, name)(x) for name in NAMES}
    compiled = {name: np.asarray(jit(getattr(jnp, name))(jnp.asarray(x))) for name in NAMES}
    assert max(_worst(plain, x).values()) <= 1
    assert max(_worst(compiled, x).values()) <= 1


@pytest.mark.parametrize("name", NAMES)
def test_one_number_gives_what_it_gives_among_many(name: str) -> None:
    x = _arguments()[::17]
    alone = jit(getattr(jnp, name))
    among = np.asarray(alone(jnp.asarray(x)))
    np.testing.assert_array_equal([float(alone(jnp.asarray(v, np.float64))) for v in x], among)


def test_large_numbers_among_small_ones_are_looked_after_in_every_lane() -> None:
    x = np.linspace(-30, 30, 67)
    for i in range(40):
        x[i] = LARGE * (i + 1.5)
        sine = np.asarray(jit(jnp.sin)(jnp.asarray(x)))
        np.testing.assert_allclose(sine[[i]], np.sin(x[[i]]), rtol=1e-14)
        np.testing.assert_allclose(sine[i + 1 :], np.sin(x[i + 1 :]), rtol=1e-14)


def test_two_over_pi_is_right_to_the_last_bit() -> None:
    assert double_trigonometry._TWO_OVER_PI == (ONE << double_trigonometry._BITS) // HALF_PI


def test_sine_and_cosine_of_one_number_share_everything_but_the_last_step() -> None:
    counts = []
    for body in ("sin(x[i])", "sin(x[i]) * cos(x[i])"):
        text = f"def kernel(x, out, start, stop):\n    for i in range(start, stop):\n        out[i] = {body}\n"
        source = f"from functad.backends.cpu.scalars.elementary import cos, sin\n{text}"
        module = optimized_kernels(source, "kernels.py", {"kernel": [np.dtype(np.float64)] * 2})
        counts.append(len(re.findall(r"call <\d+ x double> @llvm\.fma", str(module))))
    assert 0 < counts[0] == counts[1]


def test_errors_of_products_are_exact() -> None:
    rng = np.random.default_rng(1)
    x, y = (np.ldexp(rng.uniform(-1, 1, 300), rng.integers(-300, 300, 300)) for _ in range(2))
    errors = PLAIN.product_error(x, y, x * y)
    for v, w, error in zip(x.tolist(), y.tolist(), errors.tolist()):
        assert Fraction(v) * Fraction(w) - Fraction(v * w) == Fraction(error)
