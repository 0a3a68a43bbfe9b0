"""The page of JAX's names, and how it is read again.

Knows its layout alone.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from .compare import Section

_HEAD = """# What of JAX is here

Every public name of JAX {version}'s modules, under the same name in functad: `jax.numpy.sort` is `functad.numpy.sort`.
{counts}. A name that is absent raises with the sentence that stands here.

Made by `python -m tests.jax_names JAX_NAMES.md` in an environment with JAX, which compares names, arguments and
defaults; what the functions compute is compared with JAX in `tests/oracle`. Arguments that lay arrays out over devices
(`out_sharding` and the like) are left out, and not mentioned.
"""


def page(version: str, sections: Sequence[Section]) -> str:
    """The whole page."""
    there, different, absent = (sum(len(s[k]) for s in sections) for k in (1, 2, 3))
    counts = f"{there:,} are there, {different} are there but differ, {absent} are absent"
    parts = [_HEAD.format(version=version, counts=counts)]
    for s in sections:
        parts.append(f"## {s.module}\n")
        if s.there:
            names = ", ".join(f"`{n}`" for n in s.there)
            parts.append(textwrap.fill(names, 120, break_on_hyphens=False) + "\n")
        for title, rows in (("There, but different", s.different), ("Absent", s.absent)):
            if rows:
                lines = [f"- `{name}`: {text}" for name, text in rows.items()]
                parts.append("\n".join([f"{title}:", "", *lines]) + "\n")
    return "\n".join(parts)


def read(text: str) -> list[Section]:
    """The sections of a page."""
    found = []
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        module, _, body = part.partition("\n")
        made = Section(module.strip(), [], {}, {})
        rows: dict[str, str] | None = None
        for line in body.splitlines():
            if line.startswith("There, but"):
                rows = made.different
            elif line.startswith("Absent"):
                rows = made.absent
            elif rows is None:
                made.there.extend(re.findall(r"`([^`]+)`", line))
            elif line.startswith("- "):
                name, _, why = line[2:].partition(": ")
                rows[name.strip("`")] = why
        found.append(made)
    return found
