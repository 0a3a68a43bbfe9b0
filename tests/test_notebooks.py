"""The notebooks run from top to bottom, without Jupyter; what they show is committed; solutions of exercises hold."""

from __future__ import annotations

import copy
import re

import pytest
from test_readme import equations_without_a_line

from tests import notebooks

LOOKS = re.compile(r"<(?:style|script)>.*?</(?:style|script)>", re.DOTALL)
PATHS = sorted(notebooks.FOLDER.glob("*.ipynb"))
WITH_EXERCISES = ("02", "03", "04", "05")


def test_there_are_notebooks():
    assert [p.name for p in PATHS][0] == "01_quickstart.ipynb"
    assert [p.name[:2] for p in PATHS] == [f"{n:02}" for n in range(1, len(PATHS) + 1)]


@pytest.mark.generated(every=4)
@pytest.mark.parametrize("path", PATHS, ids=lambda p: p.stem)
def test_a_notebook_shows_what_is_committed(path):
    notebook = notebooks.read(path)
    fresh = copy.deepcopy(notebook)
    with equations_without_a_line("<cell ") as (_, lost):
        namespace = notebooks.run(fresh)
    assert lost == []
    for old, new in zip(notebooks.code_cells(notebook), notebooks.code_cells(fresh), strict=True):
        source = "".join(old["source"])
        assert old["execution_count"] == new["execution_count"], "run the notebook from top to bottom"
        assert [o["output_type"] for o in old["outputs"]] == [o["output_type"] for o in new["outputs"]], source
        # Digits may differ in the last places between NumPy builds; the words and the structure may not.
        assert without_digits(notebooks.text_of(new["outputs"])) == without_digits(notebooks.text_of(old["outputs"])), (
            f"{source}\n`python -m tests.notebooks {path.name}` writes what cells show"
        )
        assert looks_of(new["outputs"]) == looks_of(old["outputs"]), source
    solutions = notebooks.solutions(notebook)
    assert len(solutions) >= 2 or path.name[:2] not in WITH_EXERCISES
    for code in solutions:
        assert "assert" in code
        exec(code, namespace)


def looks_of(outputs):
    """The styles and scripts of what cells show as HTML: an old one may lack what the text speaks of."""
    shown = ("".join(o.get("data", {}).get("text/html", "")) for o in outputs)
    return [LOOKS.findall(text) for text in shown]


def without_digits(text: str) -> str:
    return "".join(c for c in text if c.isalpha() or c in "[]{}()=:")
