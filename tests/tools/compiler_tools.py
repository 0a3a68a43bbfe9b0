"""Tests of what only compiled functions do."""

import pytest

from functad.system import numba_here

needs_numba = pytest.mark.skipif(
    not numba_here.is_installed(), reason="Numba is not installed: nothing is compiled, NumPy runs each operation"
)
