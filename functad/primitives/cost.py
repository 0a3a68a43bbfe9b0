"""What an element of an element-wise equation costs, read from the expression in its primitive's record."""

from __future__ import annotations

import re
from functools import lru_cache

from functad import machine_model
from functad.ir import Eqn
from functad.lowering_rules import Indexed, Scalar
from functad.primitives.loops.text import CASTS

_WORD = re.compile(r"\b([A-Za-z_]\w*)\(")
# What becomes a few instructions; all other words are functions of some dozens.
_SHORT = {
    *CASTS.values(), "abs_", "ceil", "clz", "complex_of", "conjugate", "copysign", "f16", "bf16", "floor", "is_finite",
    "is_nan", "max", "maximum", "min", "minimum", "nextafter", "not", "popcount", "product", "quotient", "round_even",
    "rsqrt", "sign", "sqrt", "trunc", "where",
}  # fmt: skip
_AT_ONCE = re.compile(r"-\{0\}|abs_\(\{0\}\)|(where\(\{0\}( <= \d+)?, \{\d+\}, )+\{\d+\}\)+")
_QUOTIENT = re.compile(r"/|%|\b(quotient|sqrt|rsqrt|remainder)\(")


def functions_in(eqn: Eqn) -> int:
    """How many functions such as `exp` an element of an element-wise equation takes; none in others."""
    rule = eqn.primitive.lower
    return _functions_in_text(rule.text(eqn)) if isinstance(rule, Scalar) else 0


@lru_cache(machine_model.MOST_REMEMBERED)
def _functions_in_text(text: str) -> int:
    return sum(word not in _SHORT for word in _WORD.findall(text))


def weight_of(eqn: Eqn) -> int:
    """How much an element-wise or moving equation adds to the time that it takes to compile a nest: 1 for a sum."""
    return 1 + (machine_model.FUNCTION_OPERATIONS - 1) * functions_in(eqn)


def operations_of(eqn: Eqn) -> float:
    """How many additions take as long as an element of an equation that is element-wise, or repeats what it reads.

    Infinitely many for all others.
    """
    rule = eqn.primitive.lower
    if not isinstance(rule, Scalar):
        return 0 if isinstance(rule, Indexed) and rule.repeats else float("inf")
    return weight_of(eqn) + (machine_model.QUOTIENT_OPERATIONS - 1) * len(_QUOTIENT.findall(rule.text(eqn)))


def latency_of(eqn: Eqn) -> float:
    """How many additions take as long as it takes until an element of an equation is there, from its operands on.

    Choices and changes of sign take a cycle, or become one instruction with what they belong to.
    """
    rule = eqn.primitive.lower
    return 0 if isinstance(rule, Scalar) and _AT_ONCE.fullmatch(rule.text(eqn)) else operations_of(eqn)
