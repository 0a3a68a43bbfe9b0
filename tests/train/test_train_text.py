"""Training on text: the networks, reviews as numbers, models of text, and the command line."""

from __future__ import annotations

import re

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import nn, optim, random
from functad.__main__ import main
from functad.data import MissingDataError, Reviews, texts
from functad.errors import ArgumentError, FunctadError
from functad.train import Dataset, binary_classifier, fit, text_cnn
from functad.train.language import Alphabet, drawn_text, language_model, lstm_model, text_windows, transformer_model
from functad.train.text import review_sets

REVIEWS = Reviews(
    ["the film the best", "the film the worst of all", "the the the"], np.array([1, 0, 1]), ["best film"], np.array([1])
)


def test_reviews_as_numbers():
    train, test, vocabulary = review_sets(REVIEWS, words=5, length=4)
    assert vocabulary.words == ("<pad>", "<unk>", "the", "film", "all")
    assert train.inputs.tolist() == [[2, 3, 2, 1], [2, 3, 2, 1], [2, 2, 2, 0]]
    assert test.inputs.tolist() == [[1, 3, 0, 0]] and train.labels is REVIEWS.train_labels
    train, test, vocabulary = review_sets(REVIEWS, words=4, length=2, keep="last", skip=1)
    assert vocabulary.words == ("<pad>", "<unk>", "film", "all")
    assert train.inputs.tolist() == [[2, 1], [1, 3], [0, 0]]
    empty = Reviews(["", "a film", "!"], np.zeros(3), [""], np.zeros(1))
    train, test, _ = review_sets(empty, words=9, length=2)
    assert train.inputs.tolist() == [[0, 0], [2, 3], [0, 0]] and test.inputs.tolist() == [[0, 0]]
    with pytest.raises(ArgumentError, match="vocabulary of .* after the 99 most frequent ones"):
        review_sets(REVIEWS, skip=99)


def test_word_dropout_hides_words_in_training_only():
    network = text_cnn(50, features=4, word_dropout=0.9)
    words = random.randint(random.key(0), (64, 130), 1, 50)
    params = network.init(random.key(1), words)
    still = network.apply(params, words)
    unknown = network.apply(params, jnp.where(words > 1, 1, words))
    noisy = network.apply(params, words, key=random.key(2), train=True)
    assert (network.apply(params, words, key=random.key(2)) == still).all()
    assert abs(noisy - unknown).mean() < 0.7 * abs(still - unknown).mean()
    padded = jnp.zeros((2, 130), "int32")
    assert (network.apply(params, padded, key=random.key(2), train=True) == network.apply(params, padded)).all()


def test_it_learns_which_words_praise():
    rng = np.random.default_rng(0)
    words = rng.integers(10, 50, (400, 20)).astype(np.int32)
    labels = np.arange(400, dtype=np.int32) % 2
    words[np.arange(400), rng.integers(0, 16, 400)] = 2 + labels
    network = text_cnn(50, features=8)
    data = Dataset(words, labels)
    history = fit(
        binary_classifier(network), network.init(random.key(0), words), optim.adam(0.01), data, until=8, batch_size=20,
        key=random.key(1), test=data,
    )  # fmt: skip
    assert history.last.test["accuracy"] > 0.98


TEXT = "the cat sat on the mat. " * 80
ALPHABET = Alphabet(TEXT)
# Thirteen and twenty-four have no common divisor: pieces begin everywhere in the sentence.
PIECES = text_windows(ALPHABET.encode(TEXT), 13)


def test_an_alphabet_and_pieces():
    assert ALPHABET.characters == " .acehmnost" and len(ALPHABET) == 11
    assert ALPHABET.decode(ALPHABET.encode("a mat.")) == "a mat."
    with pytest.raises(ArgumentError, match="'z' does not occur"):
        ALPHABET.encode("zoo")
    assert (PIECES[1:, 0] == PIECES[:-1, -1]).all() and PIECES.shape == (147, 14)
    with pytest.raises(ArgumentError, match="has 13 characters, fewer than one piece of 14"):
        text_windows(np.zeros(13, np.int32), 13)


@pytest.mark.parametrize("make", [lambda: lstm_model(11, 24), lambda: transformer_model(11, 16, layers=1, heads=2)])
def test_a_model_learns_a_sentence_by_heart(make):
    model = make()
    params = model.init(random.key(0), PIECES[:1, :-1])
    history = fit(
        language_model(model), params, optim.adam(0.02), PIECES, until=12, batch_size=30, key=random.key(1), test=PIECES
    )
    assert history.last.test["loss"] < 0.3
    prompt = ALPHABET.encode("the cat sat ")
    drawn = drawn_text(model, history.params, random.key(2), prompt, 24, window=13, temperature=0.05)
    assert ALPHABET.decode(drawn) == "on the mat. the cat sat "


@pytest.mark.parametrize("make", [lambda: lstm_model(11, 8), lambda: transformer_model(11, 8, layers=2, heads=2)])
def test_a_model_looks_back_only(make):
    model = make()
    params = model.init(random.key(0), PIECES[:1, :-1])
    scores = model.apply(params, PIECES[:2])
    other = PIECES[:2].copy()
    other[:, 7:] = 0
    np.testing.assert_allclose(model.apply(params, other)[:, :7], scores[:, :7], rtol=1e-5, atol=1e-6)


def test_drawing_is_decided_by_the_key_and_by_what_stands_before():
    model = lstm_model(11, 8)
    params = functad.tree.map(lambda p: 3 * p, model.init(random.key(0), PIECES[:1]))

    def draw(key, prompt, **options):
        return np.asarray(drawn_text(model, params, random.key(key), prompt, 40, window=5, **options)).tolist()

    assert draw(0, [1, 2]) == draw(0, [1, 2]) != draw(1, [1, 2])
    # What lies outside of the window does not matter.
    assert draw(0, [9, 9, 1, 2, 3, 4, 5]) == draw(0, [1, 2, 3, 4, 5])
    assert len(set(draw(0, [1], temperature=100.0))) > 8
    with pytest.raises(ArgumentError, match="the prompt is empty"):
        draw(0, [])


# --- the command line ---------------------------------------------------------------------------------


def test_reviews_from_the_command_line(capsys, tmp_path):
    path = str(tmp_path / "run.npz")
    options = ["train", "text", "--data", "synthetic", "--limit", "6000", "--checkpoint", path]
    assert main([*options, "--epochs", "2"]) == 0
    out = capsys.readouterr().out
    assert "invented reviews: 6,000 reviews to train on, 2,000 to test with\nadam: batch 64, learning rate 0.005" in out
    number = r" +([\d.]+)"
    rows = re.findall(rf"^ +(\d){number} s{4 * number}$", out, flags=re.MULTILINE)
    assert [row[0] for row in rows] == ["1", "2"] and float(rows[1][5]) > 0.7
    assert main([*options, "--epochs", "3", "--resume", path]) == 0
    rows = re.findall(rf"^ +(\d){number} s{4 * number}$", capsys.readouterr().out, flags=re.MULTILINE)
    assert [row[0] for row in rows] == ["3"]
    assert main([*options, "--epochs", "3", "--resume", path]) == 0
    assert "has had its 3 epochs; --epochs N with a larger N trains on." in capsys.readouterr().out


def test_a_prompt_that_is_empty_is_refused_before_any_work(capsys):
    with pytest.raises(SystemExit):
        main(["train", "language", "--prompt", ""])
    assert "argument --prompt: '' is not a text of at least one character" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["text", "--length", "5"], "--length 5: the network reads 3 words at a time, .* so it needs 10 words or more"),
        (
            ["language", "--length", "9999"],
            "--length 9999: the text has 1728 characters, fewer than one piece of 10000",
        ),
        (["language", "--prompt", "Zoo"], "--prompt Zoo: the character 'Z' does not occur in the text to train on"),
        (
            ["language", "--net", "transformer", "--hidden", "10", "--heads", "3", "--batch", "9"],
            "--hidden 10 --heads 3: .* do not part",
        ),
        (
            ["language", "--limit", "3"],
            "3 pieces of text to train on, fewer than one batch of 64; give a smaller --batch",
        ),
        (["rnn", "--steps", "5"], "--cell rnn --nonlinearity tanh --steps 5: .* cannot be cut into 5 equal strips"),
    ],
)
def test_what_does_not_go_together_is_said_in_terms_of_the_flags(arguments, text, capsys, tmp_path):
    (tmp_path / "book.txt").write_text(TEXT.replace(" the", "\nthe"), encoding="utf-8")
    more = ["--data", str(tmp_path / "book.txt")] if arguments[0] == "language" else []
    assert main(["train", *arguments, *more]) == 1
    assert re.search(f"^error: .*{text}", capsys.readouterr().err)


def test_the_shortest_reviews_that_can_be_read():
    def scores(length):
        words = jnp.ones((2, length), "int32")
        return text_cnn(50).apply(text_cnn(50).init(random.key(0), words), words)

    assert scores(10).shape == (2, 1)
    with pytest.raises(FunctadError):
        scores(9)


def no_data():
    raise MissingDataError("It is not on this machine: no network here")


def test_without_data_auto_says_so_and_invents(monkeypatch, capsys):
    monkeypatch.setattr("functad.train.text_commands.imdb", no_data)
    monkeypatch.setattr("functad.train.text_commands.shakespeare", no_data)
    assert main(["train", "text", "--limit", "128", "--epochs", "1"]) == 0
    out = capsys.readouterr().out
    assert "no network here" in out and "So this trains on invented reviews instead." in out
    assert main(["train", "text", "--data", "imdb"]) == 1
    assert "no network here" in capsys.readouterr().err
    assert main(["train", "language", "--limit", "64", "--epochs", "1", "--hidden", "8", "--sample", "5"]) == 0
    assert "So this trains on invented reviews instead." in capsys.readouterr().out
    assert main(["train", "language", "--data", "shakespeare"]) == 1
    assert texts.imdb is not no_data


@pytest.mark.parametrize("net", ["lstm", "transformer"])
def test_a_text_of_ones_own(net, capsys, tmp_path):
    path = tmp_path / "book.txt"
    path.write_text(TEXT, encoding="utf-8")
    options = ["--data", str(path), "--hidden", "16", "--length", "12", "--batch", "20", "--epochs", "2", "--net", net]
    assert main(["train", "language", *options, "--prompt", "the ", "--sample", "30"]) == 0
    out = capsys.readouterr().out
    assert "× 16 features, 11 characters" in out and "book.txt: 1,728 characters to train on, 192 to test with" in out
    assert re.search(r"At temperature 0\.8, the model writes:\nthe [ .acehmnost]{30}\n", out)


def test_texts_that_cannot_be_read_are_named(capsys, tmp_path):
    path = tmp_path / "book.txt"
    path.write_bytes(b"caf\xe9")
    assert main(["train", "language", "--data", str(path)]) == 1
    assert f"error: {path} is no text in UTF-8" in capsys.readouterr().err
    assert main(["train", "language", "--data", str(tmp_path / "none.txt")]) == 1
    assert "none.txt: No such file or directory" in capsys.readouterr().err
    path.write_text(TEXT)
    assert main(["train", "language", "--data", str(path), "--prompt", "Zoo"]) == 1
    assert "the character 'Z' does not occur in the text to train on" in capsys.readouterr().err


@pytest.mark.parametrize("model", [nn.serial(nn.Dense(1))])
def test_a_loss_without_key_is_one_of_evaluation(model):
    params = model.init(random.key(0), jnp.ones((2, 3)))
    value, metrics = binary_classifier(model)(params, Dataset(jnp.ones((2, 3)), jnp.array([0, 1])), None)
    assert value.shape == () and float(metrics["accuracy"]) == 0.5
