"""The report of the lines of each namespace counts every file once, and code alone as code."""

from __future__ import annotations

from namespaces import PACKAGE, code_lines, rows, table


def test_every_line_is_counted_once():
    found = {row.name: row for row in rows()}
    total = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in PACKAGE.rglob("*.py"))
    assert sum(row.lines for row in found.values()) == total
    assert {"functad", "functad.numpy", "functad.scipy.sparse.linalg", "(primitives)", "(backends)"} <= set(found)
    assert found["functad.numpy"].names > 350 and found["functad.lax"].names > 200
    assert all(0 < row.code < row.lines for row in found.values())
    own = (PACKAGE / "scipy" / "sparse" / "linalg.py").read_text(encoding="utf-8")
    assert found["functad.scipy.sparse.linalg"].lines == len(own.splitlines())
    last = table(list(found.values())).splitlines()[-1].split()
    assert last[0] == "all" and last[2] == f"{total:,}"


def test_comments_and_docstrings_are_no_code():
    text = '"""Head.\n\nMore."""\n\nimport os  # why\n\n\ndef f():\n    """Doc."""\n    # so\n    return """a\nb"""\n'
    assert code_lines(text) == 4
