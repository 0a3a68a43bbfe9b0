"""Pages and curves about training runs: what they say, that they need nothing else, and that all can read them."""

from __future__ import annotations

import re
import struct
import zlib
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

import functad
from functad import nn, random
from functad.__main__ import main
from functad.data import Vocabulary
from functad.errors import ArgumentError
from functad.train import Dataset, Epoch, History, Run, cnn, rnn, text_cnn
from functad.train.digit_findings import _filters, digit_findings
from functad.train.language import Alphabet, lstm_model, text_windows
from functad.train.report import confusion_section, model_section, profile_section
from functad.train.text_findings import language_findings, review_findings
from functad.views.charts import Chart, Panel
from functad.views.page import page, table
from functad.views.pictures import png, signed

SVG = "{http://www.w3.org/2000/svg}"
rng = np.random.default_rng(0)


class Reader(HTMLParser):
    """What there is on a page; raises if an element is not closed where it should be."""

    VOID = ("meta", "img", "rect", "circle", "line", "polyline", "path")

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.words = [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] not in (["style"], ["title"], ["desc"]):
            self.words.append(data)

    @property
    def text(self):
        return "\n".join(self.words)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def read(sections):
    """The page of these sections, once it is known to need nothing else and to be readable by all."""
    text = page("a title", ["a line"], sections)
    check_page(text)
    return Reader(text)


def check_page(text):
    found = Reader(text)
    assert text.startswith("<!DOCTYPE html>") and '<html lang="en">' in text
    for attributes in (attributes for _, attributes in found.elements):
        assert not {"href", "srcset", "onclick", "onload"} & set(attributes)
        assert attributes.get("src", "data:").startswith("data:")
    assert not found.all("script") and not found.all("link") and "@import" not in text and "url(" not in text
    assert all(attributes["alt"] for attributes in found.all("img"))
    assert all(attributes.get("scope") in ("col", "row") for attributes in found.all("th"))
    assert len(found.all("caption")) == len(found.all("table"))
    pictures = [attributes for attributes in found.all("svg") if attributes.get("role") == "img"]
    assert len(found.all("desc")) == len(pictures)
    ids = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    assert len(ids) == len(set(ids))


# --- curves -------------------------------------------------------------------------------------------


def epochs(*losses):
    run = Run((), (), None, None, 1)
    return [
        Epoch(i + 1, 0.5, {"loss": loss, "accuracy": 0.5}, {"loss": 2.0, "accuracy": 0.4}, run)
        for i, loss in enumerate(losses)
    ]


class TestChart:
    def test_a_history_has_a_panel_for_each_metric(self):
        chart = History(epochs(0.9, 0.5, 0.6)).plot()
        assert repr(chart) == (
            "<Chart of loss by epoch: train 0.9 to 0.6, test 2 to 2; "
            "accuracy by epoch: train 0.5 to 0.5, test 0.4 to 0.4>"
        )
        document = ElementTree.fromstring(chart._repr_svg_())
        assert document.tag == f"{SVG}svg" and len(document.findall(f"{SVG}svg")) == 2
        assert [title.text for title in document.findall(f"{SVG}svg/{SVG}title")] == ["loss", "accuracy"]
        assert "train 0.9 to 0.6" in document.find(f"{SVG}svg/{SVG}desc").text
        assert len(History(epochs(0.9)).plot("loss").panels) == 1
        with pytest.raises(ArgumentError, match="no metric 'f1' to plot; it has 'loss', 'accuracy'"):
            History(epochs(0.9)).plot("f1")
        with pytest.raises(ArgumentError, match="no epoch yet"):
            History().plot()

    def test_a_page_gets_html_that_takes_its_colours(self):
        html = History(epochs(0.9, 0.5))._repr_html_() + History(epochs(0.9, 0.5)).plot().html()
        found = Reader(html)
        assert not found.all("style") and not found.all("script")
        assert all(a["fill"] == "currentColor" for a in found.all("text"))

    def test_series_are_told_apart_without_colours(self):
        series = {name: [1.0, 2.0] for name in "abcd"}
        document = ElementTree.fromstring(Chart([Panel("x", "epoch", [1, 2], series)]).svg)
        lines = document.iter(f"{SVG}polyline")
        assert len({line.get("stroke-dasharray") for line in lines}) == 4
        marks = [g[1].tag + g[1].get("d", "")[-4:] for g in document.iter(f"{SVG}g")]
        assert len(set(marks)) == 4

    def test_values_lie_where_they_belong(self):
        document = ElementTree.fromstring(Chart([Panel("x", "epoch", [1, 2, 3], {"a": [0.0, 10.0, 5.0]})]).svg)
        (line,) = document.iter(f"{SVG}polyline")
        (x0, y0), (x1, y1), (x2, y2) = ([float(v) for v in p.split(",")] for p in line.get("points").split())
        assert x0 < x1 < x2 and x2 - x1 == pytest.approx(x1 - x0, abs=0.2)
        assert y1 < y2 < y0 and y2 == pytest.approx((y0 + y1) / 2, abs=0.2)

    @pytest.mark.parametrize(
        "values", [[np.nan, np.nan, np.nan], [1.0, np.inf, 2.0], [3.0, 3.0, 3.0], [1e30, -1e30, 0.0]]
    )
    def test_values_that_are_hard_to_draw(self, values):
        svg = Chart([Panel("x", "epoch", [1, 2, 3], {"a": values})]).svg
        document = ElementTree.fromstring(svg)
        finite = int(np.isfinite(values).sum())
        assert len([g for g in document.iter(f"{SVG}g")]) == finite
        assert ("no finite values" in svg) == (finite == 0)
        assert not re.search(r'="(nan|inf|-inf)', svg)

    def test_one_epoch_many_epochs_and_names_with_signs(self):
        for count in (1, 1000):
            panel = Panel("a < b & c", "epoch", range(1, count + 1), {"<i>": [1.0] * count}, (1, "best"))
            document = ElementTree.fromstring(Chart([panel]).svg)
            assert len(list(document.iter(f"{SVG}g"))) <= 30
            ticks = [t.text for t in document.iter(f"{SVG}text")]
            assert "a < b & c" in ticks and "<i>" in ticks and "best" in ticks

    def test_it_is_written_to_a_file(self, tmp_path):
        chart = History(epochs(0.9, 0.5)).plot("loss")
        chart.save(tmp_path / "loss.svg")
        assert (tmp_path / "loss.svg").read_text(encoding="utf-8") == chart.svg


# --- pictures and tables ------------------------------------------------------------------------------


def test_a_png_holds_its_pixels():
    pixels = rng.integers(0, 256, (3, 5)).astype(np.uint8)
    data = png(pixels)
    parts, at = {}, 8
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        kind, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size]) == (zlib.crc32(kind + content),)
        parts[kind], at = content, at + 12 + size
    assert list(parts) == [b"IHDR", b"IDAT", b"IEND"] and struct.unpack(">II", parts[b"IHDR"][:8]) == (5, 3)
    lines = np.frombuffer(zlib.decompress(parts[b"IDAT"]), np.uint8).reshape(3, 6)
    np.testing.assert_array_equal(lines[:, 1:], pixels)
    assert not lines[:, 0].any()


def test_signed_numbers_are_grey_around_zero():
    np.testing.assert_array_equal(signed(np.array([[-1.0, 0.0, 1.0]])), [[0, 128, 255]])
    np.testing.assert_array_equal(signed(np.zeros((1, 2))), [[128, 128]])
    assert signed(np.array([[np.nan, 1.0]])).dtype == np.uint8


def test_what_is_written_is_text():
    html = table("a <b> caption", ("<x>", "y"), [("<script>", "1 & 2")])
    found = Reader(html)
    assert "<script>" in found.text and "1 & 2" in found.text and not found.all("script")


def test_confusions_are_counted_and_what_is_right_is_marked_in_words():
    section = confusion_section(np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1]), ("no", "yes"))
    found = read([section])
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", section.html)
    assert cells == ["2", "1", "66.7 %", "0", "1", "100.0 %"]
    assert len([a for a in found.all("td") if a.get("class") == "right"]) == 2


def test_the_layers_of_a_network():
    network = nn.serial(hidden=nn.Dense(3), out=nn.Dense(2))
    html = model_section(nn.summary(network, functad.ShapeDtypeStruct((8, 4), "float32"))).html
    cells = re.findall(r">([^<>]+)</t[hd]>", html)
    assert [cell for cell in cells if "Dense" in cell] == [
        "[&#x27;hidden&#x27;] Dense(3)",
        "[&#x27;out&#x27;] Dense(2)",
    ]
    assert cells[-5:-2] == ["all", "f32[8,2]", "23"]


def test_a_backend_without_kernels_says_so():
    class Step:
        def lower(self, *arguments):
            raise ArgumentError("the backend 'interpreter' has no kernels to measure")

    assert "no kernels to measure" in profile_section(Step(), ()).html


# --- what networks make of data -----------------------------------------------------------------------


def test_digits_with_predictions():
    network = nn.serial(nn.Activation(lambda x: x.astype("float32")), nn.Flatten(), nn.Dense(10))
    test = Dataset(rng.integers(0, 256, (40, 28, 28)).astype(np.uint8), rng.integers(0, 10, 40).astype(np.int32))
    params = network.init(random.key(0), test.inputs)
    sections = digit_findings(network, params, test)
    found = read(sections)
    assert [s.title for s in sections][1:] == ["Digits, and what they are taken for", "First weights"]
    assert len(found.all("img")) == 24 + 10
    predicted = np.asarray(network.apply(params, test.inputs)).argmax(1)
    sign = "✓\u00a0right" if predicted[0] == test.labels[0] else "✗\u00a0wrong"
    assert re.search(rf"{test.labels[0]}, taken for {predicted[0]} \(\d\.\d\d\) {sign}", found.text)


def test_first_weights_of_the_networks_for_digits():
    images = np.zeros((1, 1, 28, 28), np.float32)
    for network, count, size in (
        (cnn(), 6, ("60", "60")),
        (rnn(hidden=8), 8, ("84", "21")),
        (rnn(steps=8, hidden=40), 32, ("294", "3")),
        (rnn("lstm", steps=28, hidden=4, bidirectional=True), 16, ("84", "3")),
    ):
        found = read([_filters(network.init(random.key(0), images))])
        assert len(found.all("img")) == count
        assert (found.all("img")[0]["width"], found.all("img")[0]["height"]) == size


def test_reviews_with_the_words_that_tell():
    words = ("<pad>", "<unk>", "good", "bad", *(f"word{i}" for i in range(20)))
    network = text_cnn(len(words), features=2, channels=1, width=1, pool=4)
    test = Dataset(rng.integers(4, 24, (12, 4)).astype(np.int32), np.array([1, 0] * 6, np.int32))
    test.inputs[0] = [2, 1, 0, 0]
    test.inputs[1] = [3, 5, 0, 0]
    params = network.init(random.key(0), test.inputs)
    # The first feature of "good" is 1 and excites the only filter; the score is its greatest value less a half.
    embedding = np.zeros((len(words), 2), np.float32)
    embedding[2] = [1, 0]
    dense = {"kernel": np.ones((1, 1), np.float32), "bias": np.full(1, -0.5, np.float32)}
    conv = {"kernel": np.array([1.0, 0.0], np.float32).reshape(1, 2, 1), "bias": np.zeros(1, np.float32)}
    filled = iter([{"embedding": embedding}, conv, dense])
    params = tuple(next(filled) if layer else layer for layer in params)
    found = read(review_findings(network, params, test, Vocabulary(words)))
    assert "praise, taken for praise (0.62) ✓\u00a0right" in found.text and "good …" in found.text
    assert "for praise: good; for blame: –" in found.text
    assert (
        "blame, taken for blame (0.62) ✓\u00a0right" in found.text
        and "praise, taken for blame (0.62) ✗\u00a0wrong" in found.text
    )
    assert "good, bad" in found.text  # what excites the filter, the first of equals


def test_text_with_guesses():
    text = "abc abd\n" * 30
    alphabet = Alphabet(text)
    test = text_windows(alphabet.encode(text), 8)
    model = lstm_model(len(alphabet), 4)
    params = model.init(random.key(0), test[:, :-1])
    found = read(language_findings(model, params, test, alphabet))
    guessed = np.asarray(model.apply(params, test[:1, :-1])).argmax(-1)[0]
    signs = [{"\n": "↵"}.get(c, c) for c in alphabet.characters]
    shown = "".join("·" if g == w else signs[g] for g, w in zip(guessed, test[0, 1:]))
    assert f"bc abd↵a\n{shown}" in found.text
    assert re.search(r"\d+\.\d % of the characters", found.text) and "↵" in found.text and "␣" in found.text


# --- the command line ---------------------------------------------------------------------------------


def test_a_report_from_the_command_line(capsys, tmp_path):
    book, path = tmp_path / "book.txt", tmp_path / "reports" / "report.html"
    book.write_text("the cat & the hat <b>\n" * 60, encoding="utf-8")
    options = [
        "--data",
        str(book),
        "--hidden",
        "4",
        "--length",
        "6",
        "--batch",
        "20",
        "--epochs",
        "2",
        "--sample",
        "20",
    ]
    assert main(["train", "language", *options, "--prompt", "the", "--report", str(path)]) == 0
    assert f"The report is in {path}; a browser shows it." in capsys.readouterr().out
    text = path.read_text(encoding="utf-8")
    check_page(text)
    found = Reader(text)
    for part in (
        "--hidden",
        "Best by test loss: epoch",
        "Where the time of a step goes",
        "Embedding(",
        "At temperature 0.8",
    ):
        assert part in found.text, part
    assert len([a for a in found.all("svg") if a.get("role") == "img"]) == 1  # there is a loss only


def test_a_report_that_cannot_be_written_is_refused_before_training(capsys, tmp_path):
    assert main(["train", "cnn", "--data", "synthetic", "--limit", "64", "--report", str(tmp_path)]) == 1
    output = capsys.readouterr()
    assert "is a folder; give the path of a file" in output.err and output.out == ""
