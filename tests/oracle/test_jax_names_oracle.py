"""`JAX_NAMES.md` lists every public name of the JAX that it names, and every difference of arguments and defaults."""

from __future__ import annotations

import difflib
import subprocess
import sys
from pathlib import Path

import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

from tests.jax_names.compare import Section  # noqa: E402
from tests.jax_names.page import page, read  # noqa: E402

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "JAX_NAMES.md").read_text(encoding="utf-8")


def test_the_page_is_what_jax_has(tmp_path):
    if f"JAX {jax.__version__}'s" not in PAGE:
        pytest.skip(f"JAX_NAMES.md is of another version than the JAX {jax.__version__} that is installed")
    # In a process of its own: modules that other tests import would be among JAX's names.
    made = tmp_path / "page.md"
    subprocess.run([sys.executable, "-m", "tests.jax_names", str(made)], cwd=ROOT, check=True, capture_output=True)
    found = made.read_text(encoding="utf-8")
    changes = [line for line in difflib.ndiff(PAGE.splitlines(), found.splitlines()) if line[0] in "+-"]
    assert not changes, "python -m tests.jax_names JAX_NAMES.md:\n" + "\n".join(changes)


def test_a_page_is_read_as_it_was_written():
    sections = [
        Section("jax", ["jit", "vmap"], {"remat": "without `concrete`"}, {"pmap": "there is one device: functad.vmap"}),
        Section("jax.numpy", ["sin"], {}, {}),
    ]
    assert read(page("0", sections)) == sections
