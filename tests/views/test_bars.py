"""Bars of a profile, each with a mark at its floor."""

from __future__ import annotations

import re
from base64 import b64decode
from xml.etree import ElementTree

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad.errors import ArgumentError
from functad.views.bars import Bars


def test_lengths_are_in_proportion(tmp_path):
    bars = Bars("kernels", "µs", [("a", 4.0, 1.0, "4.0 × its floor"), ("b<c", 2.0, 2.0), ("none", 0.0, 0.0)])
    ElementTree.fromstring(bars.svg)
    widths = [float(w) for w in re.findall(r'class="bar"[^>]* width="([\d.]+)"', bars.svg)]
    assert widths[0] == 2 * widths[1] and widths[2] == 1.0  # what is nothing is still to be seen
    marks = [float(x) for x in re.findall(r'd="M([\d.]+)', bars.svg)]
    assert marks[1] - marks[2] == pytest.approx(2 * (marks[0] - marks[2])) and marks[2] == marks[3]
    bars.save(tmp_path / "bars.svg")
    assert (tmp_path / "bars.svg").read_text(encoding="utf-8") == bars.svg == bars._repr_svg_()


def test_a_floor_beyond_all_bars_does_not_squeeze_them():
    bars = Bars("kernels", "µs", [("a", 1.0, 100.0)])
    (width,) = [float(w) for w in re.findall(r'class="bar"[^>]* width="([\d.]+)"', bars.svg)]
    assert width == 125


def test_many_rows_are_summed_up():
    bars = Bars("kernels", "µs", [(f"kernel_{i}", 1.0, 0.5) for i in range(100)])
    assert bars.svg.count('class="bar"') == 40 and "61 more" in bars.svg and "61.0 µs" in bars.svg
    with pytest.raises(ArgumentError, match="nothing to draw"):
        Bars("kernels", "µs", [])


def test_a_profile_shows_as_bars():
    x = np.ones(100, np.float32)
    profile = functad.jit(lambda x: jnp.sin(x) * 2).lower(x).compile().profile(x)
    html = profile._repr_html_()
    image = re.search(r'<img alt="([^"]*)" src="data:image/svg\+xml;base64,([^"]*)"', html)
    svg = b64decode(image[2]).decode()  # an image is left where a notebook is not trusted
    assert svg.count('class="bar"') == len(profile.kernels) and profile.kernels[0].kernel in svg
    assert profile.kernels[0].kernel in image[1] and "<svg" not in html
    assert repr(profile.plot()).startswith(f"<Bars: {profile.kernels[0].kernel}")
