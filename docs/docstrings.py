"""Docstrings as Markdown: sections become lists, examples become code.

Knows text only, and nothing of what it documents.
"""

from __future__ import annotations

import re
import textwrap

_SECTION = re.compile(r"^(Args|Attributes|Returns|Shapes|Raises|Yields):\s*$")
_ITEM = re.compile(r"^([\w*`][\w*, .`]*): ?(.*)$")
_CODE = re.compile(r"(`[^`]*`)")
_SPECIAL = re.compile(r"([*<$\[\]|{])")


def as_markdown(doc: str) -> str:
    """A docstring, without its indentation, as Markdown.

    >>> print(as_markdown("Twice x*x.\\n\\nArgs:\\n    x: an array\\n        of floats."))
    Twice x\\*x.
    <BLANKLINE>
    **Args**
    <BLANKLINE>
    - **x**: an array of floats.
    """
    blocks, lines = [], doc.strip("\n").splitlines()
    while lines:
        if not lines[0].strip():
            lines.pop(0)
        elif found := _SECTION.match(lines[0]):
            body, lines = _split(lines[1:], lambda line: bool(line.strip()) and not line.startswith(" "))
            blocks.append(_section(found[1], textwrap.dedent("\n".join(body)).strip()))
        else:
            block, lines = _split(lines, lambda line: not line.strip())
            blocks.append(_block(block))
    return "\n\n".join(blocks)


def escaped(text: str) -> str:
    """Text that Markdown shows as it is; what stands between backticks is left."""
    parts = _CODE.split(text)
    return "".join(part if part.startswith("`") else _SPECIAL.sub(r"\\\1", part) for part in parts)


def fenced(language: str, code: str) -> str:
    """A block of code; the fence is longer than any in it."""
    fence = max(["```", *(found + "`" for found in re.findall("`{3,}", code))], key=len)
    return f"{fence}{language}\n{code.rstrip()}\n{fence}"


def _split(lines, ends):
    """The lines before the first that ends a block, and the others."""
    at = next((k for k, line in enumerate(lines) if k and ends(line)), len(lines))
    return lines[:at], lines[at:]


def _block(lines: list[str]) -> str:
    text = textwrap.dedent("\n".join(lines))
    if text.startswith(">>>"):
        return fenced("pycon", text)
    return fenced("text", text) if lines[0].startswith("    ") else escaped(text)


def _section(title: str, body: str) -> str:
    if title in ("Returns", "Shapes", "Yields"):
        return f"**{title}**\n\n{as_markdown(body)}"
    items: list[str] = []
    for line in body.splitlines():
        found = _ITEM.match(line)
        if found:
            items.append(f"- **{escaped(found[1])}**: {escaped(found[2])}")
        elif items and line.strip():
            items[-1] += " " + escaped(line.strip())
        elif line.strip():
            items.append(f"- {escaped(line.strip())}")
    return f"**{title}**\n\n" + "\n".join(items)
