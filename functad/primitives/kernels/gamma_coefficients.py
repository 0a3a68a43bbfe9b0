"""The coefficients of the gamma family, its incomplete functions and the Bessel functions, highest power first.

It must not know how they are evaluated.
"""

from __future__ import annotations

import math

# lgamma(2 + z) = (1 - Euler's gamma) z + sum over k >= 2 of (-1)^k (zeta(k) - 1) z^k / k.
ZETA_MINUS_ONE = (
    6.4493406684822643647e-1,
    2.020569031595942854e-1,
    8.2323233711138191516e-2,
    3.6927755143369926331e-2,
    1.7343061984449139715e-2,
    8.3492773819228268398e-3,
    4.0773561979443393787e-3,
    2.0083928260822144179e-3,
    9.9457512781808533715e-4,
    4.941886041194645587e-4,
    2.4608655330804829864e-4,
    1.2271334757848914675e-4,
    6.1248135058704829259e-5,
    3.0588236307020493552e-5,
    1.5282259408651871733e-5,
    7.6371976378997622736e-6,
    3.8172932649998398565e-6,
    1.9082127165539389257e-6,
    9.5396203387279611315e-7,
    4.7693298678780646312e-7,
    2.3845050272773299e-7,
    1.1921992596531107307e-7,
    5.9608189051259479612e-8,
    2.9803503514652280186e-8,
    1.4901554828365041235e-8,
    7.450711789835429492e-9,
    3.7253340247884570548e-9,
)
EULER_GAMMA = 0.57721566490153286061
LGAMMA_SERIES = tuple((-1) ** k * ZETA_MINUS_ONE[k - 2] / k for k in range(len(ZETA_MINUS_ONE) + 1, 1, -1)) + (
    1 - EULER_GAMMA,
    0.0,
)
STIRLING = (1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
HALF_LOG_TWO_PI = 0.91893853320467274178

# Boost.Math, digamma on [1, 2]: (x - root) * (0.99558... + P(x - 1) / Q(x - 1)), the root in three parts.
DIGAMMA_ROOT = (1569415565 / 2**30, 381566830 / 2**60, 0.9016312093258695918615325266959189453125e-19)
DIGAMMA_OFFSET = 0.99558162689208984375
DIGAMMA_P = (
    -0.0020713321167745952,
    -0.045251321448739056,
    -0.28919126444774784,
    -0.65031853770896507,
    -0.32555031186804491,
    0.25479851061131551,
)
DIGAMMA_Q = (
    -0.55789841321675513e-6,
    0.0021284987017821144,
    0.054151797245674225,
    0.43593529692665969,
    1.4606242909763515,
    2.0767117023730469,
    1.0,
)
DIGAMMA_ASYMPTOTIC = (-3617 / 8160, 1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12)

# Bernoulli numbers over factorials, B_2j / (2j)!, j = 1 ... 12.
BERNOULLI_OVER_FACTORIAL = tuple(
    bernoulli / math.factorial(2 * j)
    for j, bernoulli in enumerate(
        (
            1 / 6,
            -1 / 30,
            1 / 42,
            -1 / 30,
            5 / 66,
            -691 / 2730,
            7 / 6,
            -3617 / 510,
            43867 / 798,
            -174611 / 330,
            854513 / 138,
            -236364091 / 2730,
        ),
        start=1,
    )
)

# Taylor coefficients in η of Temme's C_0, C_1 and C_2, the highest power first.
TEMME = (
    (
        -1.85406221071516e-6,
        -2.1854485106799922e-6,
        1 / 25515,
        -139 / 777600,
        1 / 2835,
        1 / 864,
        -2 / 135,
        1 / 12,
        -1 / 3,
    ),
    (-1.8098550334489978e-5, -4.0187757201646091e-7, 1 / 4860, -77 / 77760, 1 / 378, -1 / 288, -1 / 540),
    (-1.0736653226365161e-4, 2.0093878600823045e-6, 1 / 1296, -139 / 51840, 25 / 6048),
)

# Of ln Γ, with a term more than above.
STIRLING_LONG = (-3617 / 122400, *STIRLING)

# artanh(r) = r + r³ · polynomial of r².
ATANH = tuple(1 / (2 * k + 1) for k in range(20, 0, -1))

# Bessel functions.
_SERIES_TERMS = 45
_ASYMPTOTIC_TERMS = 28


def _power_series(order: int) -> list[float]:
    """Coefficients of `I(x) / (x/2)^order` in powers of `x^2 / 4`, the highest first."""
    return [1 / (math.factorial(k) * math.factorial(k + order)) for k in reversed(range(_SERIES_TERMS))]


def _asymptotic_series(order: int) -> list[float]:
    """Coefficients of `I(x) exp(-x) sqrt(2 pi x)` in powers of `1/x`, the highest first."""
    coefficients = [1.0]
    for k in range(1, _ASYMPTOTIC_TERMS):
        coefficients.append(-coefficients[-1] * (4 * order**2 - (2 * k - 1) ** 2) / (8 * k))
    return coefficients[::-1]


BESSEL_POWER_SERIES = [_power_series(0), _power_series(1)]
BESSEL_ASYMPTOTIC_SERIES = [_asymptotic_series(0), _asymptotic_series(1)]
