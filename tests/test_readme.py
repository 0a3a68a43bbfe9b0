"""The README's Python is run as it stands, and the commands it names exist."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_the_examples_print_what_the_page_shows(page):
    result = doctest.testfile(str(ROOT / page), module_relative=False, optionflags=FLAGS, encoding="utf-8")
    assert result.attempted > 0 and result.failed == 0


def test_the_readmes_training_commands_run(tmp_path):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^\.venv/bin/python (-m functad .*)$", text, flags=re.MULTILINE)
    assert len(commands) >= 2
    for command in commands:
        done = subprocess.run(
            [sys.executable, *shlex.split(command)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=120,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def test_the_readmes_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^make (\w+)", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert set(targets) >= {"train", "test"}
    for target in targets:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_the_code_quoted_in_contributing_is_the_code():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    source = (ROOT / "functad" / "primitives" / "transcendental.py").read_text(encoding="utf-8")
    quoted = [b for b in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL) if not b.startswith(">>>")]
    assert len(quoted) == 2
    for block in quoted:
        assert block in source, block
