"""Which pages the site has, from which file or function each comes, and how they are put in order."""

from __future__ import annotations

import posixpath
import re
import types
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from . import links, mistakes, reference, tutorial
from .docstrings import fenced

ROOT = Path(__file__).parent.parent
PICTURES = {
    f"{folder}/{name}": f"_static/{name}"
    for folder, name in [
        ("benchmarks/results", "gradbench.svg"),
        ("benchmarks/results", "roofline-both.svg"),
        ("benchmarks/results", "roofline-2-both.svg"),
        ("benchmarks/results", "roofline-2-speedup-both.svg"),
        ("benchmarks/results", "roofline-widths.svg"),
        ("docs/pictures", "loss.svg"),
    ]
}


class Page(NamedTuple):
    """A page of the site.

    Attributes:
        name: its path in the site, without an ending.
        text: makes its Markdown.
        source: the file that it shows, below the repository's root; "" where it is made of docstrings.
        within: the page that leads to it; "" for the index.
    """

    name: str
    text: Callable[[], str]
    source: str = ""
    within: str = ""


def contents() -> dict[str, list[Page]]:
    """The pages below their captions, in the order in which they are read."""
    notebooks = sorted((ROOT / "notebooks").glob("*.ipynb"))
    return {
        "Begin": [Page("guide", _guide, "README.md")],
        "Tutorial": [
            Page(f"tutorial/{path.stem}", lambda path=path: tutorial.page(path), f"notebooks/{path.name}")
            for path in notebooks
        ],
        "How to": [
            *(_shown(f"howto/{path.stem}", f"docs/{path.name}") for path in sorted((ROOT / "docs").glob("*.md"))),
            _shown("howto/contributing", "CONTRIBUTING.md"),
            Page("howto/errors", mistakes.page),
        ],
        "Explanation": [
            _shown("explanation/architecture", "ARCHITECTURE.md"),
            _shown("explanation/accuracy", "ACCURACY.md"),
            _shown("explanation/speed", "benchmarks/speed.md"),
            _shown("explanation/tried", "benchmarks/tried.md"),
            _shown("explanation/published", "benchmarks/published.md"),
            _shown("explanation/jax_names", "JAX_NAMES.md"),
        ],
        "Reference": [_of_module(name, module) for name, module in sorted(reference.modules().items())],
    }


def write(folder: Path) -> None:
    """Write all pages, and the index that leads to them, as Markdown."""
    found = contents()
    pages = [page for part in found.values() for page in part]
    places = {page.source: page.name for page in pages if page.source}
    _write(folder / "index.md", links.for_site(index(found), "README.md", "index", {**places, "README.md": "index"}))
    for page in pages:
        text = page.text() + parts_within(page, found)
        if page.source:
            text = links.for_site(text, page.source, page.name, places)
        _write(folder / f"{page.name}.md", text)
    (folder / "_static").mkdir(exist_ok=True)
    for source, place in {**PICTURES, "docs/site.css": "_static/site.css"}.items():
        (folder / place).write_bytes((ROOT / source).read_bytes())


def parts_within(page: Page, found: dict[str, list[Page]]) -> str:
    """What makes a page lead to those within it."""
    parts = [other for pages in found.values() for other in pages if other.within == page.name]
    return "\n\n" + _toctree("Parts", parts) + "\n" if parts else ""


def index(found: dict[str, list[Page]]) -> str:
    start, _ = _readme()
    title, rest = start.split("\n", 1)
    paragraph, rest = rest.strip().split("\n\n", 1)
    paragraph = paragraph.replace("(#speed)", f"({links.HERE}guide.md#speed)")
    trees = [_toctree(caption, [p for p in pages if not p.within]) for caption, pages in found.items()]
    return "\n\n".join([title, paragraph, rest.strip(), *trees]) + "\n"


def _guide() -> str:
    _, rest = _readme()
    return f"# Guide\n\n{rest}"


def _readme() -> tuple[str, str]:
    """README's start, and what follows it from the installation on; its pictures are those of the site."""
    start, mark, rest = _read("README.md").partition("## Install\n")
    return start, mark + rest


def _read(source: str) -> str:
    """A page of the repository; its pictures are those of the site."""
    text = (ROOT / source).read_text(encoding="utf-8")
    folder = posixpath.dirname(source)

    def placed(found: re.Match[str]) -> str:
        ours = links.OURS.sub("/", found[2])
        picture = ours.lstrip("/") if ours.startswith("/") else posixpath.normpath(posixpath.join(folder, ours))
        return f"![{found[1]}]({links.HERE}{PICTURES[picture]})"

    return re.sub(r"!\[([^\]]*)\]\((\S+)\)", placed, text)


def _toctree(caption: str, pages: list[Page]) -> str:
    names = "\n".join(f"/{page.name}" for page in pages)
    return fenced("{toctree}", f":hidden:\n:caption: {caption}\n\n{names}")


def _of_module(name: str, module: types.ModuleType) -> Page:
    owner = name.rpartition(".")[0]
    within = f"reference/{owner}" if "." in owner else ""
    return Page(f"reference/{name}", lambda: reference.page(name, module), within=within)


def _shown(name: str, source: str) -> Page:
    return Page(name, lambda: _read(source), source)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
