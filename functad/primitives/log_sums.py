"""Element-wise logarithms of sums of two powers: log(e^x + e^y), log2(2^x + 2^y).

Knows no shapes beyond "equal or rank 0"; sums over axes are in `cumulative`, and compositions elsewhere.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from functad.ir import Primitive
from functad.lowering_rules import Scalar
from functad.primitives.arithmetic import mul, sub
from functad.primitives.builders import FLOATS, Kinks, binary
from functad.primitives.common import full_like, scalar_like
from functad.primitives.kernels import log_sums
from functad.primitives.kernels.plain_arithmetic import PLAIN, Formula
from functad.primitives.logic import eq, select_n
from functad.primitives.transcendental import logistic
from functad.tracing import bind


def logaddexp(x: Any, y: Any) -> Any:
    return bind(logaddexp_p, x, y)


def logaddexp2(x: Any, y: Any) -> Any:
    return bind(logaddexp2_p, x, y)


def _share(x: Any, y: Any, unit: float) -> Any:
    """b^x / (b^x + b^y) = σ(ln(b) (x − y)), smooth also where x = y; all of it where x = ∞."""
    distance = sub(x, y)
    distance = select_n(eq(x, scalar_like(x, np.inf)), distance, full_like(distance, np.inf))
    return logistic(distance if unit == 1 else mul(scalar_like(x, unit), distance))


def _kinks(unit: float) -> Kinks:
    undefined = (np.nan, np.nan, np.nan)
    return {
        (0, 0): {(1, None): (1 / 2, unit / 4, 0), (None, 1): (1 / 2, unit / 4, 0), (1, -1): (0, unit, 0)},
        (np.inf, np.inf): {(1, None): (1, 0, 0), (None, 1): (1, 0, 0)},
        (-np.inf, -np.inf): {(1, None): undefined, (None, 1): undefined},
        (np.inf, 0): {(1, None): (1, 0, 0), (None, 1): (0, 0, 0)},
        (-np.inf, 0): {(1, None): (0, 0, 0), (None, 1): (1, 0, 0)},
    }


def _by_numpy(ufunc: np.ufunc, near_zero: Formula, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    wide = np.asarray(ufunc(x, y, dtype=np.float64))  # near its zeros a float32 would lose most digits
    result = wide.astype(x.dtype)
    if x.dtype != np.float32:
        return result
    return np.asarray(PLAIN.rarely(log_sums.cancels(PLAIN, np.maximum(x, y), wide), result, near_zero, x, y))


def _log_sum(name: str, ufunc: np.ufunc, near_zero: Formula, unit: float, doc: str) -> Primitive:
    return binary(
        name,
        partial(_by_numpy, ufunc, near_zero),
        jvps=[
            lambda t, out, x, y: mul(t, _share(x, y, unit)),  # ∂log_b(b^x + b^y)/∂x = b^x / (b^x + b^y)
            lambda t, out, x, y: mul(t, _share(y, x, unit)),
        ],
        kinds=FLOATS,
        kinks=_kinks(unit),
        lower=Scalar(f"{name}({{0}}, {{1}})"),
        doc=doc,
    )


logaddexp_p = _log_sum("logaddexp", np.logaddexp, log_sums.logaddexp_near_zero, 1.0, "ln(e^x + e^y) without overflow.")
logaddexp2_p = _log_sum(
    "logaddexp2", np.logaddexp2, log_sums.logaddexp2_near_zero, math.log(2), "log2(2^x + 2^y) without overflow."
)
