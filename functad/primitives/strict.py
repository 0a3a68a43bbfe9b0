"""Element-wise operations that give the same bits in every mode: un-jitted, jitted, mapped, in loops.

A compiler may make one operation of a product and a sum, and libraries differ in the last bit of a logarithm; none of
that is allowed here (`kernels.strict_math`). `functad.random` is made of these. Derivatives and shapes are those of the
operations that they stand for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from functad.dtypes import kind_of
from functad.ir import Absent, Primitive
from functad.lowering_rules import Scalar
from functad.primitives import arithmetic, special_functions, transcendental
from functad.primitives.builders import FLOATS, elementwise_aval, elementwise_batch
from functad.primitives.kernels import strict_math
from functad.tracing import bind


def mul(x: Any, y: Any) -> Any:
    return bind(strict_mul_p, x, y)


def log(x: Any) -> Any:
    return bind(strict_log_p, x)


def log1p(x: Any) -> Any:
    return bind(strict_log1p_p, x)


def tan(x: Any) -> Any:
    """The tangent of x, for |x| < 2 in float64."""
    return bind(strict_tan_p, x)


def erf(x: Any) -> Any:
    return bind(strict_erf_p, x)


def _strict(primitive: Primitive, intrinsic: Callable[..., Any], text: str) -> Primitive:
    name, examples = f"strict_{primitive.name}", primitive.examples
    assert not isinstance(examples, Absent)
    return replace(
        primitive,
        name=name,
        doc=f"As `{primitive.name}` of floats, with the same bits in every mode.",
        abstract_eval=partial(elementwise_aval, name, FLOATS, None),
        impl=partial(strict_math.on_arrays, intrinsic),
        batch=lambda size, args, dims: elementwise_batch(lambda: _RECORDS[name], size, args, dims),
        lower=Scalar(text),
        examples=lambda: [e for e in examples() if all(kind_of(np.asarray(x).dtype) == "f" for x in e.args)],
    )


strict_mul_p = _strict(arithmetic.mul_p, strict_math.strict_product, "strict_product({0}, {1})")
strict_log_p = _strict(transcendental.log_p, strict_math.strict_log, "strict_log({0})")
strict_log1p_p = _strict(transcendental.log1p_p, strict_math.strict_log1p, "strict_log1p({0})")
strict_tan_p = _strict(transcendental.tan_p, strict_math.strict_tan, "strict_tan({0})")
strict_erf_p = _strict(special_functions.erf_p, strict_math.strict_erf, "strict_erf({0})")
_RECORDS = {p.name: p for p in (strict_mul_p, strict_log_p, strict_log1p_p, strict_tan_p, strict_erf_p)}
