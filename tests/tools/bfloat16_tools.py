"""bfloat16 as a parameter of tests, which its package may be missing for."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

needs_bfloat16 = pytest.mark.skipif(
    find_spec("ml_dtypes") is None, reason="bfloat16 needs the package ml_dtypes, which is not installed"
)
BFLOAT16 = pytest.param("bfloat16", marks=needs_bfloat16)
