"""How exact a product of arrays should be, where hardware has a choice: JAX's words, and what else stands for them.

Knows words alone; a backend gives them a meaning.
"""

from __future__ import annotations

import enum
from typing import Any

from functad.errors import ArgumentError
from functad.options import PRECISIONS
from functad.records import NamedTuple


class Precision(enum.Enum):
    """How exact a product should be on hardware that has a choice; on a CPU it makes no difference.

    >>> import functad.numpy as jnp
    >>> from functad import lax
    >>> jnp.dot(jnp.ones(3), jnp.ones(3), precision=lax.Precision.HIGHEST)
    Array(3., dtype=float32)
    """

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2


class DotAlgorithm(NamedTuple):
    """The types that a product may round to: bfloat16, for operands; all others leave it as exact as its dtype.

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


PrecisionLike = None | str | Precision | tuple[str, str] | tuple[Precision, Precision]


def precision_word(precision: Any) -> str | None:
    """JAX's word for what is given as `precision`; None for None. Operands for which two are given are exact.

    Raises:
        ArgumentError: it is none of JAX's words, and nothing that stands for one.

    >>> precision_word(Precision.HIGH), precision_word(("high", "high")), precision_word(("high", "highest"))
    ('high', 'high', 'highest')
    """
    if precision is None:
        return None
    if isinstance(precision, str):
        if precision in PRECISIONS:
            return precision
    elif isinstance(precision, DotAlgorithmPreset) and precision is not DotAlgorithmPreset.DEFAULT:
        return precision.name
    elif isinstance(precision, Precision | DotAlgorithmPreset):
        return precision.name.lower()
    elif isinstance(precision, DotAlgorithm):
        types = {str(getattr(t, "__name__", t)) for t in (precision.lhs_precision_type, precision.rhs_precision_type)}
        return "BF16_BF16_F32" if types == {"bfloat16"} and precision.num_primitive_operations == 1 else "highest"
    elif isinstance(precision, tuple | list) and len(precision) == 2:
        lhs, rhs = map(precision_word, precision)
        return lhs if lhs == rhs else "highest"
    raise ArgumentError(
        f"precision must be None, a lax.Precision, lax.DotAlgorithm or lax.DotAlgorithmPreset, one for each of both "
        f"operands, or one of the words {', '.join(PRECISIONS)}; got {precision!r}"
    )
