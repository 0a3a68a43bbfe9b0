"""One HTML page that needs nothing besides itself: headings, tables, and how they look in light and dark.

Knows HTML; nothing of what stands on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from functad.records import NamedTuple

_STYLE = """
:root { color-scheme: light dark; --paper: #fdfcfa; --ink: #1c1f24; --soft: #5a5f69; --line: #d9d6cf; --fill: #f1efe9;
  --shade: 43, 123, 214; }
@media (prefers-color-scheme: dark) { :root { --paper: #15171b; --ink: #e8e6e1; --soft: #a3a8b2; --line: #383c44;
  --fill: #1f2228; --shade: 90, 155, 230; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 68rem; padding: 1.5rem 1rem 4rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .4rem; }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .6rem; border-bottom: 1px solid var(--line); padding-bottom: .2rem; }
p { margin: .4rem 0; max-width: 46rem; }
.soft { color: var(--soft); }
.scroll { overflow-x: auto; margin: .6rem 0; }
.scroll:focus-visible { outline: 2px solid rgb(var(--shade)); }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
caption { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
th, td { padding: .22rem .6rem; text-align: right; border-bottom: 1px solid var(--line); vertical-align: top; }
th:first-child, td:first-child { text-align: left; padding-left: .2rem; }
thead th { border-bottom: 2px solid var(--line); font-weight: 600; white-space: nowrap; }
tbody th { font-weight: 400; white-space: nowrap; }
td { white-space: nowrap; }
.words td, .words th { text-align: left; white-space: normal; }
.matrix td, .matrix th { padding: .2rem .45rem; text-align: right; }
.right { outline: 1px solid var(--soft); outline-offset: -2px; font-weight: 600; }
ul.items { list-style: none; margin: .6rem 0; padding: 0; display: flex; flex-wrap: wrap; gap: .8rem 1rem; }
ul.items li { margin: 0; font-size: .85rem; line-height: 1.35; }
ul.pictures li { width: 7rem; }
ul.filters li { width: auto; max-width: 100%; }
ul.texts li { flex: 1 1 20rem; max-width: 44rem; background: var(--fill);
  border: 1px solid var(--line); border-radius: .4rem; padding: .6rem .8rem; font-size: .9rem; }
img { image-rendering: pixelated; display: block; max-width: 100%; border: 1px solid var(--line);
  margin-bottom: .2rem; }
pre { font: .9rem/1.45 ui-monospace, monospace; background: var(--fill); border: 1px solid var(--line); margin: 0;
  border-radius: .4rem; padding: .6rem .8rem; width: max-content; min-width: 100%; }
pre.wrapped { width: auto; white-space: pre-wrap; }
.bar { display: inline-block; height: .6rem; background: rgb(var(--shade)); vertical-align: baseline; min-width: 1px; }
"""


class PageSection(NamedTuple):
    """A heading, and the HTML that stands beneath it. key: by which links and styles find it."""

    title: str
    html: str
    key: str = ""


def page(
    title: str,
    summary: Sequence[str],
    sections: Iterable[PageSection],
    top: str = "",
    style: str = "",
    script: str = "",
) -> str:
    """The whole document. summary: lines beneath the title. top: HTML beneath them. style, script: more of both.

    >>> "<h2>Numbers</h2>" in page("A & B", ["One line."], [PageSection("Numbers", paragraph("1 < 2"))])
    True
    """
    lines = "".join(paragraph(line, "soft") for line in summary)
    body = "".join(f"<section{_id(s.key)}><h2>{escape(s.title)}</h2>{s.html}</section>\n" for s in sections)
    scripts = f"<script>{script}</script>" if script else ""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}{style}</style></head>\n"
        f"<body><main><header><h1>{escape(title)}</h1>{lines}{top}</header>\n{body}</main>{scripts}</body></html>\n"
    )


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph of plain text.

    >>> paragraph("1 < 2")
    '<p>1 &lt; 2</p>'
    """
    return f"<p{_class(kind)}>{escape(text)}</p>"


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """A table whose first row and first column are headings. What is wider than the page scrolls.

    Args:
        caption: what it shows, in words.
        head: of the columns.
        rows: the first cell of each is its heading. All are plain text.
        kind: "words" if the cells are words and no numbers.
    """
    return framed_table(
        caption, head, [[row[0], *(f"<td>{escape(cell)}</td>" for cell in row[1:])] for row in rows], kind
    )


def framed_table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """A table as `table` makes it, of whose rows all but the first cells are given as `td` elements."""
    top = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    body = "".join(f'<tr><th scope="row">{escape(row[0])}</th>{"".join(row[1:])}</tr>' for row in rows)
    # A caption is as narrow as its table, so it is shown above, and is itself for those who listen.
    shown = f'<p class="soft" aria-hidden="true">{escape(caption)}</p>'
    inside = f"<table{_class(kind)}><caption>{escape(caption)}</caption><thead><tr>{top}</tr></thead>"
    return shown + scrolling(f"{inside}<tbody>{body}</tbody></table>", caption)


def scrolling(html: str, name: str) -> str:
    """What may be wider than the page: it scrolls by itself, with the keyboard, too."""
    return f'<div class="scroll" role="region" aria-label="{escape(name)}" tabindex="0">{html}</div>'


def items(entries: Iterable[str], kind: str) -> str:
    """A list of HTML entries side by side; kind: "pictures", "filters" or "texts"."""
    return f'<ul class="items {kind}">{"".join(f"<li>{entry}</li>" for entry in entries)}</ul>'


def text_block(text: str, name: str, wrapped: bool = False) -> str:
    """Text as it stands, in letters of one width; its lines are broken where they are `wrapped`, or else scroll."""
    inside = f"<pre{_class('wrapped' if wrapped else '')}>{escape(text)}</pre>"
    return inside if wrapped else scrolling(inside, name)


def bar(share: float) -> str:
    """A bar of a share of 1, beside its number: says nothing by itself."""
    return f'<span class="bar" aria-hidden="true" style="width:{8 * share:.2f}rem"></span>'


def _id(key: str) -> str:
    return f' id="{key}"' if key else ""


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
