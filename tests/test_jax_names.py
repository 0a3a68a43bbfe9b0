"""`JAX_NAMES.md` is true: what it says is there is there; what is absent raises with the sentence that stands there."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from pathlib import Path

import pytest

from functad.absent import absent
from functad.errors import AbsentNameError, DTypeError
from tests.jax_names.compare import missing_part
from tests.jax_names.page import kind_of_absent, read

PAGE = (Path(__file__).parent.parent / "JAX_NAMES.md").read_text(encoding="utf-8")
SECTIONS = read(PAGE)


def test_the_page_has_all_modules():
    assert len(SECTIONS) > 40 and sum(len(s.there) for s in SECTIONS) > 1200
    counts = re.search(r"([\d,]+) are there, (\d+) are there but differ, (\d+) are absent", PAGE)
    assert counts is not None
    found = [sum(len(s[k]) for s in SECTIONS) for k in (1, 2, 3)]
    assert [int(n.replace(",", "")) for n in counts.groups()] == found


def test_each_absent_name_is_of_a_kind_that_is_left_out_on_purpose():
    counted = dict(re.findall(r"^\| ([^|]+) \| (\d+) \|$", PAGE, flags=re.M))
    found = Counter(kind_of_absent(f"{s.module}.{name}") for s in SECTIONS for name in s.absent)
    assert {kind: int(count) for kind, count in counted.items()} == found
    with pytest.raises(KeyError):
        kind_of_absent("jax.numpy.sin")


@pytest.mark.parametrize("section", SECTIONS, ids=lambda s: s.module)
def test_the_page_says_what_is_so(section):
    name = f"functad{section.module.removeprefix('jax')}"
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError:
        assert not section.there and not section.different
        parent, child = missing_part(name)
        for why in section.absent.values():
            with pytest.raises(AbsentNameError, match=re.escape(why)):
                getattr(importlib.import_module(parent), child)
        return
    for there in [*section.there, *section.different]:
        try:
            assert hasattr(module, there), there
        except DTypeError as missing_package:
            assert there == "bfloat16" and "pip install" in str(missing_package)
    for missing, why in section.absent.items():
        assert why, f"{name}.{missing} is absent without a reason"
        with pytest.raises(AbsentNameError) as found:
            getattr(module, missing)
        assert why in str(found.value), str(found.value)


def test_a_name_that_nobody_has_is_not_explained_so():
    with pytest.raises(AbsentNameError, match="dir"):
        absent("functad.lax")("qqqqqq")
