"""The documentation: its pages have sources, and links of the repository lead somewhere; no generator is needed."""

from __future__ import annotations

import doctest
import json
import re
import subprocess

import pytest
from mistake_cases import PREAMBLE
from test_public_names import MODULES

import functad
from docs import docstrings, links, lite, mistakes, pages, tutorial
from tests.notebooks import FOLDER, read, text_of

CONTENTS = pages.contents()
PAGES = {page.name: page for part in CONTENTS.values() for page in part}
LINK = re.compile(r"\]\(([^()\s]+)\)|(?:href|src)=\"([^\"]+)\"")


def texts():
    """The repository's Markdown files."""
    skipped = {"build", "node_modules"}
    for path in sorted(pages.ROOT.rglob("*.md")):
        parts = path.relative_to(pages.ROOT).parts
        if not any(part.startswith(".") or part in skipped for part in parts):
            yield path


def headings(text):
    """The anchors that GitHub gives to the headings of a text."""
    titles = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def text_in(path):
    """The Markdown of a file."""
    if path.suffix == ".ipynb":
        cells = read(path)["cells"]
        return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return path.read_text(encoding="utf-8")


def broken(path):
    """The links of a file that lead nowhere in the repository."""
    text = text_in(path)
    without_code = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    for found in LINK.finditer(without_code):
        target = found[1] or found[2]
        target = links.OURS.sub("/", target)
        if re.match(r"[a-z]+:", target):
            continue
        place, _, anchor = target.partition("#")
        there = pages.ROOT / place[1:] if place.startswith("/") else path.parent / place
        there = path if not place else there
        if not there.exists() or anchor and there.suffix == ".md" and anchor not in headings(there.read_text("utf-8")):
            yield target


def test_texts_are_found():
    assert {"README.md", "ARCHITECTURE.md"} <= {path.name for path in texts()}


LINKED = [*texts(), *sorted(FOLDER.glob("*.ipynb"))]


@pytest.mark.parametrize("path", LINKED, ids=lambda path: path.relative_to(pages.ROOT).as_posix())
def test_links_lead_somewhere(path):
    assert not list(broken(path))


def test_links_that_lead_nowhere_are_found(tmp_path):
    text = "# A b\n[a](#a-b) [b](#c) [c](none.md) `[d](no)` [e](https://x.y) [f](text.md#a-b)\n```\n[g](no)\n```\n"
    (tmp_path / "text.md").write_text(text + f"[h]({links.REPOSITORY}/blob/main/nowhere.py)", encoding="utf-8")
    assert list(broken(tmp_path / "text.md")) == ["#c", "none.md", "/nowhere.py"]
    cells = [{"cell_type": "markdown", "source": ["[a](01_none.ipynb)"]}, {"cell_type": "code", "source": ["f[0](x)"]}]
    (tmp_path / "text.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")
    assert list(broken(tmp_path / "text.ipynb")) == ["01_none.ipynb"]


def test_links_between_the_sites_pages_lead_somewhere(tmp_path):
    """What Sphinx would say of links, anchors, pictures and lists of pages, in CI, where it is not installed."""
    pages.write(tmp_path)
    written = sorted(tmp_path.rglob("*.md"))
    assert len(written) == len(PAGES) + 1
    listed = re.findall(r"^/(\S+)$", "\n".join(path.read_text("utf-8") for path in written), flags=re.MULTILINE)
    assert {tmp_path / f"{name}.md" for name in listed if name in PAGES} == set(written) - {tmp_path / "index.md"}
    assert {path.relative_to(tmp_path).as_posix(): found for path in written if (found := list(broken(path)))} == {}


def test_every_page_has_a_source():
    assert len(PAGES) == sum(map(len, CONTENTS.values()))
    assert all((pages.ROOT / page.source).is_file() for page in PAGES.values() if page.source)
    assert all((pages.ROOT / source).is_file() for source in (*pages.PICTURES, "docs/site.css"))


def test_every_public_module_and_notebook_has_a_page():
    assert {f"reference/{name}" for name in MODULES} <= set(PAGES)
    assert {"reference/functad.train", "reference/functad.errors", "reference/functad.debug"} <= set(PAGES)
    notebooks = {f"tutorial/{path.stem}" for path in (pages.ROOT / "notebooks").glob("*.ipynb")}
    assert notebooks and notebooks <= set(PAGES)


def test_pictures_are_those_of_the_site():
    text = PAGES["explanation/speed"].text()
    assert f"]({links.HERE}_static/roofline-both.svg)" in text and "![" in PAGES["guide"].text()
    assert all(place.startswith(f"{links.HERE}_static/") for place in re.findall(r"!\[[^\]]*\]\((\S+)\)", text))


def test_what_a_file_says_to_those_who_edit_it_is_left_out():
    assert "Knows" not in PAGES["reference/functad.nn"].text().split("## Functions")[0]


def test_a_module_tells_how_its_names_are_called():
    text = PAGES["reference/functad.nn"].text()
    assert "### relu\n" in text and "### Conv\n" in text and "- **features**: the number of" in text
    assert "functad.nn.relu(x)" in text and "```pycon\n>>> " in text and "0x" not in text


def test_what_follows_an_argument_belongs_to_it():
    doc = "Args:\n    x: one, or\n        None: all.\n    *rest: b<c"
    assert docstrings.as_markdown(doc) == "**Args**\n\n- **x**: one, or None: all.\n- **\\*rest**: b\\<c"


def test_a_notebook_shows_what_its_cells_showed():
    text = tutorial.page(pages.ROOT / "notebooks" / "01_quickstart.ipynb")
    assert text.startswith("# ") and "```python\n" in text and "\n```text\n" in text


def test_outputs_as_html_stand_in_the_page_as_they_are():
    output = {"output_type": "display_data", "data": {"text/html": ["<b>\n", "\n", "1</b>"], "text/plain": ["1"]}}
    cell = {"cell_type": "code", "source": ["f()"], "outputs": [output]}
    assert '```{raw} html\n<div class="output"><b>\n\n1</b></div>\n```' in "\n".join(tutorial.parts_of(cell))


def test_a_mistake_is_told_with_the_line_that_is_shown():
    error = mistakes.raised(PREAMBLE, "x = 1\nfunctad.jit(lambda x: bool(x))(1.0)\n")
    assert f"{mistakes.FILE}:2" in str(error)
    with pytest.raises(AssertionError, match="raises none"):
        mistakes.raised(PREAMBLE, "x = 1\n")


def test_the_index_has_a_picture_and_leads_to_every_page():
    text = pages.index(CONTENTS)
    assert "_static/loss.svg" in text and "\n/reference/functad.numpy\n" in text
    led = "".join([text, *(pages.parts_within(page, CONTENTS) for page in PAGES.values())])
    assert all(f"\n/{name}\n" in led for name in PAGES)


def test_the_readmes_picture_is_what_functad_draws():
    text = (pages.ROOT / "README.md").read_text(encoding="utf-8")
    first = doctest.DocTestParser().get_examples(re.search(r"```python\n(.*?)```", text, flags=re.DOTALL)[1])
    names = {}
    for example in first[:-1]:
        exec(compile(example.source, "README.md", "exec"), names)
    drawn = functad.graph(functad.grad(names["loss"]))(names["params"], names["batch"])
    kept = (pages.ROOT / "docs/pictures/loss.svg").read_text(encoding="utf-8")
    shapes = re.compile(r"<(?:rect|path) [^>]*>|<text [^>]*>[^<]*")
    assert len(shapes.findall(kept)) > 60
    assert shapes.findall(kept) == shapes.findall(drawn.svg), 'draw it anew: save("docs/pictures/loss.svg")'


@pytest.mark.parametrize("module", [docstrings, links], ids=lambda module: module.__name__)
def test_examples(module):
    result = doctest.testmod(module)
    assert result.attempted and not result.failed


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebooks_for_the_browser_install_functad_first(path):
    notebook = read(path)
    first, *others = lite.installing(notebook)["cells"]
    assert first["source"] == "%pip install -q functad"
    assert [cell["source"] for cell in others] == ["".join(cell["source"]) for cell in notebook["cells"]]
    for old, new in zip(notebook["cells"], others):
        assert text_of(new.get("outputs", [])) == text_of(old.get("outputs", []))
        assert "list" not in {type(x).__name__ for o in new.get("outputs", []) for x in o.get("data", {}).values()}


def test_a_browser_is_not_asked_for_numba():
    needed = re.search(r"^dependencies = \[(.*)\]$", (pages.ROOT / "pyproject.toml").read_text(), flags=re.MULTILINE)
    assert re.search(r"numba>=[\d.]+; sys_platform != 'emscripten'", needed[1])


def test_nothing_that_is_made_is_committed():
    listed = subprocess.run(["git", "ls-files", "docs"], cwd=pages.ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("this is no clone: there is no list of what is committed")
    assert {name.rsplit(".", 1)[-1] for name in listed.stdout.split()} <= {"py", "css", "md", "svg"}
