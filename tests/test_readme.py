"""The README's Python is run as it stands, and the commands it names exist."""

from __future__ import annotations

import contextlib
import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from functad.ir import Program

ROOT = Path(__file__).parent.parent
NUMBER = re.compile(r"-?\b\d+\.\d*(?:e-?\d+)?")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class CloseNumbers(doctest.OutputChecker):
    """Equal text, but for the last digits of numbers, which depend on NumPy's build."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        if super().check_output(want, got, optionflags):
            return True
        return self.words(want) == self.words(got) and np.allclose(self.numbers(want), self.numbers(got), rtol=1e-4)

    def words(self, text: str) -> list[str]:
        return "".join(NUMBER.split(text)).split()

    def numbers(self, text: str) -> list[float]:
        return [float(n) for n in NUMBER.findall(text)]


PAGES = ["README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_print_what_the_page_shows(page):
    # Fences are no output of the examples before them.
    text = re.sub(r"^```.*$", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    examples = doctest.DocTestParser().get_doctest(text, {}, page, page, 0)
    runner = doctest.DocTestRunner(checker=CloseNumbers(), verbose=False, optionflags=FLAGS)
    with equations_without_a_line(f"<doctest {page}[") as (seen, lost):
        result = runner.run(examples)
    assert result.attempted > 0 and result.failed == 0
    assert lost == [] and (seen[0] > 0 or page != "README.md")


@contextlib.contextmanager
def equations_without_a_line(where):
    """How many equations come about, and those that are not traced to a line of a file whose name begins so."""
    seen, lost, make = [0], [], Program.__init__

    def made(program, *args, **kwargs):
        make(program, *args, **kwargs)
        for eqn in program.eqns:
            seen[0] += 1
            if eqn.source is None or not eqn.source.code.co_filename.startswith(where) or not eqn.source.text:
                lost.append((eqn.primitive.name, eqn.source))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Program, "__init__", made)
        yield seen, lost


def test_the_checker_tells_numbers_apart():
    check = CloseNumbers().check_output
    assert check("Array([1., 2.000001])\n", "Array([1., 2.0000])\n", FLAGS)
    assert not check("Array([1., 2.1])\n", "Array([1., 2.0])\n", FLAGS)
    assert not check("Array([1., 2.])\n", "Tracer([1., 2.])\n", FLAGS)


COMMANDS = re.findall(
    r"^\.venv/bin/python (-m functad .*)$", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE
)


def test_the_readme_has_commands():
    assert len(COMMANDS) >= 2


@pytest.mark.generated(every=2)
@pytest.mark.parametrize("command", COMMANDS)
def test_the_readmes_commands_run(command, tmp_path):
    words = shlex.split(command, comments=True)
    if words[2:4] in (["train", "rnn"], ["train", "text"], ["train", "language"]):  # whole, they take minutes
        words += ["--limit", "300", "--epochs", "1"]
        words += ["--sample", "9"] if words[3] == "language" else ["--data", "synthetic"]
    done = subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=300,
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
