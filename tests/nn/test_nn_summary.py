"""The table of a network's layers: paths, shapes, params, operations; nothing is computed for it."""

from __future__ import annotations

import re

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import nn
from functad.errors import ArgumentError, ShapeError


def of(*shape, dtype="float32"):
    return functad.ShapeDtypeStruct(shape, dtype)


def rows(summary):
    return [(row.path, row.name, row.params) for row in summary.layers]


def test_a_serial_network():
    network = nn.serial(nn.Conv(4, (3, 3)), nn.Relu(), nn.MaxPool((2, 2)), nn.Flatten(), nn.Dense(10))
    found = nn.summary(network, of(2, 1, 8, 8))
    assert rows(found) == [
        ("", "serial", 410),
        ("[0]", "Conv(4, (3, 3))", 40),
        ("[1]", "Relu", 0),
        ("[2]", "MaxPool((2, 2))", 0),
        ("[3]", "Flatten()", 0),
        ("[4]", "Dense(10)", 370),
    ]
    assert [row.output.shape for row in found.layers[1:]] == [(2, 4, 6, 6)] * 2 + [(2, 4, 3, 3), (2, 36), (2, 10)]
    assert found.total.nbytes == 4 * 410 and found.total.output.shape == (2, 10)
    params = network.init(functad.random.key(0), of(2, 1, 8, 8))
    by_path = {row.path: row.params for row in found.layers}
    for path, leaf in functad.tree_util.tree_leaves_with_path(params):
        by_path[functad.tree_util.keystr(path[:1])] -= leaf.size
    assert set(by_path.values()) == {0, 410}


def test_operations_are_those_of_the_compiled_layer():
    dense = nn.summary(nn.Dense(10, use_bias=False), of(8, 100))
    assert dense.total.flops == 2 * 8 * 100 * 10
    twice = nn.summary(nn.serial(nn.Dense(10, use_bias=False), nn.Dense(10, use_bias=False)), of(8, 10))
    assert [row.flops for row in twice.layers] == [3200, 1600, 1600]
    # Small convolutions, those of groups and larger ones are computed in other ways, but count alike.
    for conv, shape, taps in (
        (nn.Conv(4, (3, 3), use_bias=False), (1, 1, 8, 8), 9),
        (nn.Conv(32, (3, 3), groups=32, use_bias=False), (2, 32, 18, 18), 9),
        (nn.Conv(32, (3, 3), layout="NHWC", groups=32, use_bias=False), (2, 18, 18, 32), 9),
        (nn.Conv(8, (3, 3), use_bias=False), (2, 8, 18, 18), 72),
    ):
        found = nn.summary(conv, of(*shape)).total
        assert found.flops == 2 * taps * found.output.size
    recurrent = nn.summary(nn.LSTM(8), of(2, 20, 3)).total.flops
    assert recurrent > 2 * 20 * 2 * (3 + 8) * 32  # all steps


def test_names_and_layers_within_layers():
    inner = nn.parallel(left=nn.Dense(3), right=nn.serial(nn.Dense(5), nn.Tanh()))
    network = nn.serial(first=nn.residual(nn.Dense(4)), both=inner)
    found = nn.summary(network, of(2, 4))
    assert rows(found) == [
        ("", "serial", 60),
        ("['first']", "residual", 20),
        ("['first']", "Dense(4)", 20),
        ("['both']", "parallel", 40),
        ("['both']['left']", "Dense(3)", 15),
        ("['both']['right']", "serial", 25),
        ("['both']['right'][0]", "Dense(5)", 25),
        ("['both']['right'][1]", "Tanh", 0),
    ]
    assert [row.depth for row in found.layers] == [0, 1, 2, 1, 2, 2, 3, 3]
    assert [y.shape for y in found.total.output] == [(2, 3), (2, 5)]
    shallow = nn.summary(network, of(2, 4), depth=1)
    assert shallow.layers == tuple(row for row in found.layers if row.depth <= 1)


def test_recurrent_attention_and_buffered_layers():
    reader = nn.stacked(nn.Embedding(50, 6), nn.Bidirectional(nn.GRU(4)), nn.Dense(2))
    found = nn.summary(reader, of(2, 7, dtype="int32"))
    names = [row.name for row in found.layers]
    assert [names.count(n) for n in ("GRU(4)", "Bidirectional", "Embedding(50, 6)", "Dense(2)")] == [2, 1, 1, 1]
    assert found.total.output.shape == (2, 2)
    assert {row.path: row.output.shape for row in found.layers if row.name == "GRU(4)"} == {
        "[1]['forward']": (2, 4),
        "[1]['backward']": (2, 4),
    }
    block = nn.summary(nn.TransformerBlock(2, is_causal=True), of(2, 5, 8))
    paths = [row.path for row in block.layers]
    assert "['attention']['query']" in paths and "['hidden']" in paths
    assert block.layers[paths.index("['hidden']")].output.shape == (2, 5, 32)
    cross = nn.summary(nn.MultiHeadAttention(2), of(2, 5, 8), context=of(2, 3, 8))
    assert cross.layers[2].output.shape == (2, 3, 8)
    network = nn.serial(nn.Dense(4), nn.BatchNorm(), nn.Dropout(0.5))
    for train in (False, True):
        found = nn.summary(network, of(8, 3), train=train)
        assert [row.output.shape for row in found.layers] == [(8, 4)] * 4
        assert found.layers[2].params == 8
    ragged = nn.Ragged(of(2, 7, dtype="int32"), of(2, dtype="int32"))
    assert nn.summary(reader, ragged).total.output.shape == (2, 2)


def test_nothing_is_made():
    """A network that no memory holds."""
    network = nn.serial(nn.Embedding(10**12, 512), nn.Dense(10**9), nn.BatchNorm(axis=-1))
    found = nn.summary(network, of(1000, 1000, dtype="int64"))
    assert found.layers[1].params == 512 * 10**12 and found.layers[2].flops >= 2 * 10**6 * 512 * 10**9


def test_a_layer_of_ones_own():
    scale = nn.Layer(lambda key, x: jnp.ones(()), lambda params, x, *, key=None, train=False: params * x, "Scale")
    assert rows(nn.summary(nn.serial(scale), of(2))) == [("", "serial", 1), ("[0]", "Scale", 1)]

    def Half():
        return nn.Layer(lambda key, x: (), lambda params, x, *, key=None, train=False: x / 2)

    assert Half().name == "Half" and nn.Layer(len, len).name == "Layer"
    assert repr(nn.Dense(3)) == "<Layer Dense(3)>"


NETWORK = nn.serial(encoder=nn.serial(nn.Dense(300), nn.Relu()), head=nn.Dense(10))


def test_text_is_as_narrow_as_asked():
    found = nn.summary(NETWORK, of(8, 1000))
    wide = found.text(100).splitlines()
    assert wide[0].split() == ["layer", "output", "params", "bytes", "operations"]
    assert wide[2].split() == ["['encoder']", "serial", "f32[8,300]", "300,300", "1.2", "MB", "4.81", "M"]
    assert wide[3].startswith("  [0] Dense(300)") and wide[-1].split()[0] == "all"
    for width in (60, 50, 40, 30):
        assert max(map(len, found.text(width).splitlines())) <= max(width, 36), width
        assert "303,310" in found.text(width)
    assert "…" in found.text(45) and "operations" not in found.text(40)


def test_the_terminal_tells_how_wide(monkeypatch):
    found = nn.summary(NETWORK, of(8, 1000))
    monkeypatch.setenv("COLUMNS", "50")
    assert str(found) == repr(found) == found.text(50)


def test_html_is_self_contained_and_has_no_colours_of_its_own():
    found = nn.summary(nn.serial(nn.Activation(lambda x: x), nn.Dense(2)), of(1, 2))
    html = found._repr_html_()
    assert "Activation(&lt;lambda&gt;)" in html and "<script" not in html and "http" not in html
    assert set(re.findall(r"color:(\w+)", html)) == {"inherit"} and "background:transparent" in html
    assert html.count("<tr") == 4 and html.count("</tr>") == 4


def test_messages():
    with pytest.raises(ArgumentError, match="summary: argument 0 is"):
        nn.summary(nn.Dense, of(1, 2))
    with pytest.raises(ArgumentError, match="depth must be an int"):
        nn.summary(nn.Dense(1), of(1, 2), depth=0)
    with pytest.raises(ShapeError, match="Flatten"):
        nn.summary(nn.serial(nn.Flatten()), of())


def test_an_array_does_as_well():
    x = np.ones((2, 3), np.float32)
    assert nn.summary(nn.Dense(4), x).layers == nn.summary(nn.Dense(4), of(2, 3)).layers
