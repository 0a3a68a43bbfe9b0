"""How exact functions and products should be, where hardware has a choice: accepted here, and of no effect.

Knows names alone.
"""

from __future__ import annotations

import enum
from typing import Any

from functad.records import NamedTuple


class AccuracyMode(enum.Enum):
    """How exact a function should be; here functions have one accuracy, that of `ACCURACY.md`.

    >>> from functad import lax
    >>> lax.exp(0.0, accuracy=AccuracyMode.HIGHEST)
    Array(1., dtype=float32, weak_type=True)
    """

    HIGHEST = 1
    DEFAULT = 2


class Tolerance(NamedTuple):
    """The same in numbers: errors that are accepted, absolute, relative, and in units of the last place.

    >>> from functad import lax
    >>> lax.exp(0.0, accuracy=Tolerance(rtol=1e-5))
    Array(1., dtype=float32, weak_type=True)
    """

    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0


class DotAlgorithm(NamedTuple):
    """The types that a product may round to; here it is computed in those of its operands and its result.

    >>> import functad.numpy as jnp, numpy as np
    >>> exact = DotAlgorithm(np.float32, np.float32, np.float32)
    >>> jnp.dot(jnp.ones(3), jnp.ones(3), precision=exact)
    Array(3., dtype=float32)
    """

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


class DotAlgorithmPreset(enum.Enum):
    """Such algorithms by name.

    >>> import functad.numpy as jnp
    >>> jnp.dot(jnp.ones(3), jnp.ones(3), precision=DotAlgorithmPreset.TF32_TF32_F32)
    Array(3., dtype=float32)
    """

    DEFAULT = enum.auto()
    F16_F16_F16 = enum.auto()
    F16_F16_F32 = enum.auto()
    BF16_BF16_BF16 = enum.auto()
    BF16_BF16_F32 = enum.auto()
    BF16_BF16_F32_X3 = enum.auto()
    BF16_BF16_F32_X6 = enum.auto()
    BF16_BF16_F32_X9 = enum.auto()
    TF32_TF32_F32 = enum.auto()
    TF32_TF32_F32_X3 = enum.auto()
    F32_F32_F32 = enum.auto()
    F64_F64_F64 = enum.auto()
