"""Links of the repository's texts, turned into links between pages of the site."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

HERE = "site:"  # begins a link that is meant from the site's root
REPOSITORY = "https://github.com/functad/functad"
LINK = re.compile(r"\]\(([^()\s]+)\)")
OURS = re.compile(rf"{REPOSITORY}/blob/main/|https://raw\.githubusercontent\.com/functad/functad/main/")
_NAMED = re.compile(r"(?<!\[)`([\w/.-]+\.(?:md|ipynb))`")
_FENCE = re.compile(r"(^ *```.*?^ *```[^\n]*$)", re.DOTALL | re.MULTILINE)


def for_site(text: str, source: str, page: str, pages: Mapping[str, str]) -> str:
    """A text of the file `source` as it stands on `page`; `pages` has the page of each file that has one.

    >>> for_site("[a](../README.md#b), [c](d.py), `README.md`", "x/y.md", "z/y", {"README.md": "guide"})
    '[a](../guide.md#b), [c](https://github.com/functad/functad/blob/main/x/d.py), [README.md](../guide.md)'
    """

    def placed(target: str) -> str:
        if target.startswith(HERE):
            return posixpath.relpath(target[len(HERE) :], posixpath.dirname(page) or ".")
        path, _, anchor = target.partition("#")
        ours = OURS.sub("", path)
        if ours == path and re.match(r"[a-z]+:", path) or not path:
            return target
        found = posixpath.normpath(ours if ours != path else posixpath.join(posixpath.dirname(source), path))
        if found not in pages:
            return f"{REPOSITORY}/blob/main/{found}" if ours == path else target
        return _relative(pages[found], page) + (f"#{anchor}" if anchor else "")

    def outside_of_code(part: str) -> str:
        part = LINK.sub(lambda found: f"]({placed(found[1])})", part)
        return _NAMED.sub(lambda f: f"[{f[1]}]({_relative(pages[f[1]], page)})" if f[1] in pages else f[0], part)

    def code(part: str) -> str:
        return re.sub(r"\n\s*\n( *`+)$", r"\n\1", part)  # examples end with an empty line, which a page does not need

    return "".join((code if part.lstrip().startswith("```") else outside_of_code)(part) for part in _FENCE.split(text))


def _relative(there: str, page: str) -> str:
    return posixpath.relpath(there + ".md", posixpath.dirname(page) or ".")
