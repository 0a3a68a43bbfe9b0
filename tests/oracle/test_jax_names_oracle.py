"""`JAX_NAMES.md` lists every public name of the JAX that it names, and every difference of arguments and defaults."""

from __future__ import annotations

from pathlib import Path

import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

from tests.jax_names.compare import sections  # noqa: E402
from tests.jax_names.page import page, read  # noqa: E402

PAGE = (Path(__file__).parents[2] / "JAX_NAMES.md").read_text(encoding="utf-8")


def test_the_page_is_what_jax_has():
    if f"JAX {jax.__version__}'s" not in PAGE:
        pytest.skip(f"JAX_NAMES.md is of another version than the JAX {jax.__version__} that is installed")
    found = sections()
    for ours, expected in zip(read(PAGE), found, strict=True):
        assert ours == expected, f"{expected.module}: python -m tests.jax_names JAX_NAMES.md"
    assert page(jax.__version__, found) == PAGE


def test_a_page_is_read_as_it_was_written():
    found = sections()
    assert read(page("0", found)) == found
