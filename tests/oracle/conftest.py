"""JAX has one set of options a process: each test finds the defaults, and leaves them."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _options_of_jax_stay() -> Iterator[None]:
    yield
    jax = sys.modules.get("jax")
    assert jax is None or not jax.config.jax_enable_x64, "a test has left JAX with 64 bits: use jax.enable_x64(True)"
