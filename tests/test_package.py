"""What goes into a distribution: files, metadata, the console command, links that work outside of the repository."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import functad

ROOT = Path(__file__).parent.parent
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_an_sdist_has_all_that_tests_read():
    manifest = (ROOT / "MANIFEST.in").read_text(encoding="utf-8").split("\n")
    single = {name for line in manifest if line.startswith("include ") for name in line.split()[1:]}
    assert all((ROOT / name).exists() for name in single)
    folders = {line.split()[1]: line.split()[2:] for line in manifest if line.startswith("recursive-include ")}
    for folder, patterns in folders.items():
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts and ".ipynb_checkpoints" not in path.parts:
                assert any(path.match(pattern) for pattern in patterns), f"MANIFEST.in leaves out {path}"
    for path in ROOT.iterdir():
        if path.is_file() and path.suffix in (".md", ".py", "") and not path.name.startswith("."):
            automatic = {"README.md", "LICENSE", "setup.py", "PKG-INFO"}
            assert path.name in single | automatic, f"MANIFEST.in leaves out {path}"


def test_the_package_has_its_marker_and_nothing_but_python():
    files = [p for p in (ROOT / "functad").rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    assert sorted(p.name for p in files if p.suffix != ".py") == ["array_types.pyi", "py.typed"]


def test_the_console_command_is_there():
    ((module, function),) = re.findall(r'^functad = "([\w.]+):(\w+)"$', PROJECT, re.M)
    assert callable(getattr(importlib.import_module(module), function))
    assert re.search(rf'^version = "{re.escape(functad.__version__)}"$', PROJECT, re.M)


@pytest.mark.parametrize("page", ["README.md"])
def test_links_work_on_a_package_index(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    headings = {re.sub(r"[^a-z0-9 -]", "", h.lower()).replace(" ", "-") for h in re.findall(r"^#+ (.*)$", text, re.M)}
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) >= 4
    for link in links:
        inside = link.removeprefix("https://github.com/functad/functad/blob/main/")
        if link.startswith("#"):
            assert link[1:] in headings, link
        elif inside != link:
            assert (ROOT / inside).exists(), link
        else:
            assert link.startswith("https://"), link
