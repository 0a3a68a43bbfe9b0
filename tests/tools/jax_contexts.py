"""What JAX compiles in tests has one context of MLIR: to make one for each function takes a fifth of their time.

A plugin of pytest, which `conftest.py` loads. It does nothing where no test has imported JAX.
"""

from __future__ import annotations

import functools
import sys

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    lowering = sys.modules.get("jax._src.interpreters.mlir")
    make = getattr(lowering, "make_ir_context", None)  # other versions of JAX may have none
    if make is not None and not hasattr(make, "cache_info"):
        lowering.make_ir_context = functools.cache(make)
