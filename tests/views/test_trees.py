"""Trees that fold: what they say, and the paths that can be copied."""

from __future__ import annotations

import re
from html import unescape
from xml.etree import ElementTree

import numpy as np

import functad
from functad.views import tree

PARAMS = {"dense": [{"w": np.ones((8, 4), np.float32), "b": np.zeros(4)}] * 2, "it's": np.int8(3), "rate": 0.5}


def test_each_line_sums_up_what_lies_below():
    lines = repr(tree(PARAMS)).splitlines()
    assert lines[0].split("  ")[-1].strip() == "6 arrays, 74 elements, 329 bytes"
    assert [line.rstrip().partition("]")[0] + "]" for line in lines[1:4]] == ["  ['dense']", "    [0]", "      ['b']"]
    assert lines[-1].split("   ")[-1].strip() == "float 0.5, 8 bytes"


def test_paths_lead_to_what_they_name():
    view = tree(PARAMS, name="params")
    html = view._repr_html_()
    paths = [unescape(path) for path in re.findall(r'data-path="([^"]*)"', html)]
    assert len(paths) == len(set(paths)) == 10
    leaves = [eval(path, {"params": PARAMS}) for path in paths]
    assert any(leaf is PARAMS["dense"][1]["w"] for leaf in leaves)


def test_the_html_folds_and_is_well_formed():
    html = tree(PARAMS)._repr_html_()
    ElementTree.fromstring(html.replace("<details open>", "<details>"))
    assert html.count("<details") == 4 and html.count("<details open") == 2  # deeper ones are closed


def test_a_leaf_alone_and_an_empty_tree():
    assert repr(tree(np.ones(3, np.float32), name="w")) == "w   f32[3], 12 bytes"
    assert repr(tree({})) == "params   0 arrays, 0 elements, 0 bytes"
    assert "f32[2]" in repr(tree(functad.ShapeDtypeStruct((2,), "float32")))
    assert "str" in repr(tree({"name": "adam"}))


def test_leaves_that_functad_cannot_compute_with_are_shown_as_what_they_are():
    text = str(functad.views.tree({"names": np.array(["a", "b"]), "days": np.zeros(3, "M8[D]"), "n": {"m": 1}}))
    assert "<U1[2], 8 bytes" in text and "datetime64[D][3]" in text and "1 array, 1 element, 8 bytes" in text
