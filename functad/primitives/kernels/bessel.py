"""Modified Bessel functions of the first kind, exponentially scaled: formulas, free of branches.

A formula is written against the arithmetic `k` (`PlainArithmetic`); it must not know tracing or primitives.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.primitives.kernels.plain_arithmetic import Formula, plain
from functad.primitives.kernels.vector_math import at_most, exp, exp2_wide, polynomial

_F32, _F64 = np.float32, np.float64
_LOG2_E = 1.4426950408889634
_FAR = 16.0
# By dtype and order: I(x) / (x/2)^order as a polynomial in x²/4, for 0 ≤ x ≤ 16
_NEAR = {
    (np.dtype(_F32), 0): (
        *(2.8770678572056296e-24, -3.945939567341994e-22, 8.899388051238549e-20, -3.839523870067291e-19),
        *(8.665106864043675e-16, 6.75880876209555e-14, 7.799266741389105e-12, 6.115813500138409e-10),
        *(3.9409811944586555e-08, 1.9286724499234795e-06, 6.944621770584287e-05, 0.001736105473782532),
        *(0.027777787711710022, 0.24999999170635576, 1.0000000024200753, 0.9999999998989763),
    ),
    (np.dtype(_F32), 1): (
        *(1.715303775177395e-25, -2.3076406845560217e-23, 5.800013053416632e-21, 2.6398328434682395e-20),
        *(6.857218662231252e-17, 6.305107388423772e-15, 7.749899837606483e-13, 6.805946539647512e-11),
        *(4.924646933669327e-09, 2.7554067761060023e-07, 1.1574262079979287e-05, 0.0003472215477303246),
        *(0.006944445816483004, 0.08333333197220547, 0.500000000490054, 0.9999999999734748),
    ),
    (np.dtype(_F64), 0): (
        *(6.112394404863815e-37, -7.265832254482959e-35, 4.9027554883818826e-32, 5.0612450740720855e-30),
        *(2.5170195241248337e-27, 5.707269892127142e-25, 1.322205528484425e-22, 2.576681893460522e-20),
        *(4.358994454165579e-18, 6.275956219372689e-16, 7.594078230538977e-14, 7.594056057244201e-12),
        *(6.151187538019598e-10, 3.936759875458023e-08, 1.9290123463029458e-06, 6.944444444252908e-05),
        *(0.0017361111111148255, 0.02777777777777364, 0.2500000000000023, 0.9999999999999996, 1.0),
    ),
    (np.dtype(_F64), 1): (
        *(2.821693297582689e-38, -3.1420075353529165e-36, 2.4562515385084733e-33, 3.0025537361513614e-31),
        *(1.460696119554505e-28, 3.5819775988798023e-26, 8.806379956479215e-24, 1.8408381790184854e-21),
        *(3.3529594730230036e-19, 5.22999148301201e-17, 6.903702198661554e-15, 7.594056814626084e-13),
        *(6.834652738720085e-11, 4.920949850733211e-09, 2.7557319229285366e-07, 1.1574074073895117e-05),
        *(0.0003472222222226096, 0.006944444444443954, 0.08333333333333365, 0.49999999999999994, 1.0),
    ),
}
# e^−x √x I(x) as a polynomial in 1/x, for x ≥ 16
_ASYMPTOTIC = {
    (np.dtype(_F32), 0): (
        *(0.15720739511911014, 0.03935195206272955, 0.02940790787580895, 0.028047721031186804),
        *(0.049867801286065654, 0.39894228038679325),
    ),
    (np.dtype(_F32), 1): (
        *(-0.1886941550262302, -0.05122587603173693, -0.041127558528403725, -0.04674764350400275),
        *(-0.14960337420936867, 0.39894228041868685),
    ),
    (np.dtype(_F64), 0): (
        *(57944.578534237895, -16679.465753194214, 2347.564535079936, -174.64520950040452, 11.90898066909744),
        *(0.36387921888492036, 0.23589121176129793, 0.09048873592500674, 0.04474332219516968, 0.029219398948603127),
        *(0.028050629109586386, 0.04986778505015714, 0.3989422804014327),
    ),
    (np.dtype(_F64), 1): (
        *(-61589.75821107072, 17713.174219170596, -2497.233044324722, 185.25905960037053, -12.846391807594294),
        *(-0.4484759129345182, -0.2779212797729071, -0.11061488991434708, -0.05752688986439795),
        *(-0.04090716061155716, -0.046751048504802765, -0.14960335515051362, 0.39894228040143265),
    ),
}


def scaled_i0(k: Any, x: Any) -> Any:
    """e^−|x| I0(x)."""
    return _scaled(k, 0, x)


def scaled_i1(k: Any, x: Any) -> Any:
    """e^−|x| I1(x)."""
    return k.copysign(_scaled(k, 1, x), x)


def _scaled(k: Any, order: int, x: Any) -> Any:
    """Up to 16 with what the square rounds off, of which a large number's function has a multiple."""
    size = k.cast(k.absolute(x), _F64)
    near = at_most(k, size, _FAR)
    inverse = 1 / k.where(size < 1, k.constant(1, _F64), size)
    half = 0.5 * near
    square = half * half
    value = polynomial(k, square, _NEAR[x.dtype, order]) * (half if order else 1)
    if x.dtype == _F32:
        value = value * exp2_wide(k, near * -_LOG2_E)
    else:
        value = value * exp(k, -near)
        value = k.fma(value, 2 * inverse * k.product_error(half, half, square), value)
    far = polynomial(k, inverse, _ASYMPTOTIC[x.dtype, order]) * k.sqrt(inverse)
    return k.cast(k.where(size < _FAR, value, far), x.dtype)


def bessel_i0e(x: np.ndarray) -> np.ndarray:
    """`exp(-|x|) I0(x)`."""
    return _of_floats(scaled_i0, x)


def bessel_i1e(x: np.ndarray) -> np.ndarray:
    """`exp(-|x|) I1(x)`."""
    return _of_floats(scaled_i1, x)


def _of_floats(formula: Formula, x: np.ndarray) -> np.ndarray:
    return np.asarray(plain(formula)(x.astype(_F64))).astype(x.dtype)
