"""Writes `JAX_NAMES.md`: python -m tests.jax_names JAX_NAMES.md, in an environment with JAX."""

from __future__ import annotations

import sys
from pathlib import Path

import jax

from .compare import Section, sections
from .page import page


def main() -> int:
    found = sections()
    Path(sys.argv[1]).write_text(page(jax.__version__, found), encoding="utf-8")
    unexplained = [f"{s.module}.{name}" for s in found for name, why in s.absent.items() if not why]
    print(f"{_count(found)}; {len(unexplained)} absent without a reason: {unexplained}")
    return bool(unexplained)


def _count(found: list[Section]) -> str:
    there, different, absent = (sum(len(s[k]) for s in found) for k in (1, 2, 3))
    return f"{there} names are there, {different} differ, {absent} are absent"


if __name__ == "__main__":
    sys.exit(main())
