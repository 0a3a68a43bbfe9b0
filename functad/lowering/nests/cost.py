"""What a loop nest does: how many operations, and how many bytes it moves; and how long its text is for a compiler.

Knows nests as data; no target, so no times.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from functad.ir import Eqn
from functad.lowering.nests.nest import Let, Nest
from functad.lowering_rules import Scalar
from functad.primitives.loops.text import CASTS

_CALL = re.compile(
    r"\b(exp|exp2|expm1|log|log2|log10|log1p|logaddexp2?|tanh|sinh|cosh|tan|sin|cos|pow|erf|erfc|logistic|a\w+h?|cbrt)\("
)


_WORD = re.compile(r"\b([A-Za-z_]\w*)\(")
# What becomes a few instructions; all other words are functions of some dozens.
_SHORT = {
    *CASTS.values(), "abs_", "ceil", "clz", "complex_of", "conjugate", "copysign", "f16", "floor", "is_finite",
    "is_nan", "max", "maximum", "min", "minimum", "nextafter", "not", "popcount", "product", "quotient", "round_even",
    "rsqrt", "sign", "sqrt", "trunc", "where",
}  # fmt: skip
FUNCTION = 12  # operations


def weight_of(eqn: Eqn) -> int:
    """How much an element-wise or moving equation adds to the time that it takes to compile a nest: 1 for a sum."""
    rule = eqn.primitive.lower
    if not isinstance(rule, Scalar):
        return 1
    text = rule.text(eqn)
    return 1 + (FUNCTION - 1) * sum(word not in _SHORT for word in _WORD.findall(text))


class Work(NamedTuple):
    """`simple` operations and `calls` of functions such as `exp` at each point of a nest; `flops`, `bytes` in all."""

    simple: int
    calls: int
    flops: float
    bytes: float


def work_of(nest: Nest) -> Work:
    """The work of a nest if nothing that it reads were in a cache."""
    lets = [s for s in nest.statements if isinstance(s, Let)]
    calls = sum(len(_CALL.findall(s.text)) for s in lets)
    simple = len(lets) + len(nest.accumulators)
    nbytes = 0.0
    for buffer, offset, _ in nest.accesses():
        reached = 1
        symbols = offset.symbols()
        for symbol in nest.loops:
            reached *= symbol.extent if symbol in symbols else 1
        nbytes += min(reached, max(nest.points, nest.outer_points)) * buffer.dtype.itemsize
    return Work(simple, calls, float(nest.points * (simple + 10 * calls)), nbytes)
