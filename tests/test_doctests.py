"""Every example in a docstring of the package is run."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "functad"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def modules() -> list[str]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        if parts[-1] != "__main__":
            found.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return found


@pytest.mark.parametrize("name", modules())
def test_docstring_examples(name):
    result = doctest.testmod(import_module(name), optionflags=FLAGS)
    assert result.failed == 0


def test_the_runner_notices_a_wrong_example():
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(verbose=False, optionflags=FLAGS)
    wrong = parser.get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, 0)
    assert runner.run(wrong, out=lambda text: None).failed == 1
