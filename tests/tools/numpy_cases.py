"""Calls of `functad.numpy` functions: run by the oracle tests beside JAX, by the others beside NumPy and under `jit`.

Each case is a function of the module (functad's, JAX's or NumPy's) and of NumPy arrays, and those arrays.
"""

from __future__ import annotations

import numpy_cases_arrays  # noqa: F401  (each adds its cases to the list)
import numpy_cases_index  # noqa: F401
import numpy_cases_math  # noqa: F401
from numpy_case_tools import CASES

__all__ = ["CASES"]
