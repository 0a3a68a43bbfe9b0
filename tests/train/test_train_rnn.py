"""The recurrent network that the command line trains: what it is made of, its flags and presets."""

from __future__ import annotations

import re

import numpy as np
import pytest

import functad
from functad import io, nn, random
from functad.__main__ import main
from functad.data import synthetic_digits
from functad.errors import ArgumentError
from functad.train import Dataset, as_inputs, classifier, evaluator, rnn

KEY = random.key(0)
IMAGES = functad.ShapeDtypeStruct((2, 1, 28, 28), "float32")
SMALL = ["train", "rnn", "--data", "synthetic", "--limit", "1000"]


def rows_of(out):
    number = r" +([\d.]+)"
    return re.findall(rf"^ +(\d){number} s{4 * number}$", out, flags=re.MULTILINE)


def shapes(network):
    return [leaf.shape for leaf in functad.tree.leaves(network.init(KEY, IMAGES))]


# --- the network ----------------------------------------------------------------------------------------


def test_the_published_network():
    assert shapes(rnn()) == [(64,), (196, 64), (64, 64), (10,), (64, 10)]
    x = np.random.default_rng(0).normal(size=(2, 1, 28, 28)).astype(np.float32)
    _, cell, dense = params = rnn().init(KEY, x)
    assert not np.asarray(cell["bias"]).any()
    state = np.zeros((2, 64))
    for strip in range(4):
        rows = x[:, 0, 7 * strip : 7 * strip + 7].reshape(2, 196)
        state = np.tanh(rows @ cell["kernel"] + state @ cell["recurrent_kernel"])
    np.testing.assert_allclose(rnn().apply(params, x), state @ dense["kernel"], rtol=1e-4, atol=1e-5)


def test_choices_of_the_network():
    assert shapes(rnn("lstm", steps=28, hidden=3))[:3] == [(12,), (28, 12), (3, 12)]
    deep = rnn("gru", hidden=3, layers=2, bidirectional=True).init(KEY, IMAGES)
    assert [layer["backward"]["kernel"].shape for layer in deep[1]] == [(196, 9), (6, 9)]
    assert deep[2]["kernel"].shape == (6, 10)
    orthogonal = np.asarray(rnn(recurrent_init="orthogonal").init(KEY, IMAGES)[1]["recurrent_kernel"])
    np.testing.assert_allclose(orthogonal.T @ orthogonal, np.eye(64), atol=1e-5)
    plain, scaled = (rnn(input_scale=a, output_scale=b).init(KEY, IMAGES) for a, b in ((1.0, 1.0), (0.5, 6.0)))
    for layer, factor in ((1, 0.5), (2, 6.0)):
        np.testing.assert_allclose(scaled[layer]["kernel"], factor * plain[layer]["kernel"], rtol=1e-5)
    x = np.full((1, 1, 28, 28), 0.1, np.float32)
    params = rnn(hidden=4).init(KEY, x)
    outputs = [rnn(hidden=4, nonlinearity=name).apply(params, x) for name in ("tanh", "relu", "identity")]
    assert not np.allclose(outputs[0], outputs[1]) and not np.allclose(outputs[0], outputs[2])


def test_what_does_not_go_together():
    with pytest.raises(ArgumentError, match="784 pixels cannot be cut into 5 equal strips; try 4, 14 or 28"):
        rnn(steps=5)
    with pytest.raises(ArgumentError, match="nonlinearity='relu' goes with the cell 'rnn' only, not with 'gru'"):
        rnn("gru", nonlinearity="relu")


def test_what_there_is_not():
    with pytest.raises(ArgumentError, match="rnn: cell must be one of 'rnn', 'lstm', 'gru', got 'elman'"):
        rnn("elman")
    with pytest.raises(ArgumentError, match="rnn: nonlinearity must be one of 'tanh', 'relu', 'identity', got 'gelu'"):
        rnn(nonlinearity="gelu")
    with pytest.raises(ArgumentError, match="rnn: recurrent_init must be one of 'glorot', 'orthogonal', got 'zeros'"):
        rnn(recurrent_init="zeros")
    with pytest.raises(ArgumentError, match="rnn: layers must be an int of at least 1, got 0"):
        rnn(layers=0)


# --- the command line --------------------------------------------------------------------------------------


def test_training_from_the_command_line(capsys, tmp_path):
    path = str(tmp_path / "digits.npz")
    options = ["--preset", "scaled", "--epochs", "3", "--batch", "20", "--save", path]
    assert main([*SMALL, *options]) == 0
    out = capsys.readouterr().out
    assert "rnn: 64 units, 4 steps, 17,354 parameters, seed 0" in out
    assert "sgd: batch 20, learning rate 0.015\n" in out
    rows = rows_of(out)
    assert [row[0] for row in rows] == ["1", "2", "3"]
    assert float(rows[2][2]) < float(rows[0][2])
    assert float(rows[2][5]) > 0.6
    images, labels = synthetic_digits(4000, 1)
    params = io.load(path)
    # The scales are those of the first weights: any network of these shapes reads the file.
    found = evaluator(classifier(rnn()))(params, None, Dataset(as_inputs(images), labels))
    assert found["accuracy"] == pytest.approx(float(rows[2][5]), abs=1e-3)


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        ([], ["rnn: 64 units, 4 steps, 17,354", "sgd: batch 100, learning rate 0.015\n"]),
        (["--nonlinearity", "relu", "--init", "orthogonal", "--lr", "0.01"], ["17,354 parameters", "rate 0.01\n"]),
        (
            ["--preset", "best", "--hidden", "8"],
            ["gru: 8 units, 28 steps, 986", "adam: batch 100, learning rate 0.003 falling to 0"],
        ),
        (
            ["--cell", "lstm", "--steps", "14", "--hidden", "8", "--layers", "2", "--bidirectional"],
            ["lstm: 2 layers of 8 units, 14 steps from both ends"],
        ),
        (
            ["--preset", "best", "--cell", "lstm", "--hidden", "4", "--optimizer", "sgd"],
            ["lstm: 4", "rate 0.015 falling"],
        ),
    ],
)
def test_flags_and_presets(arguments, texts, capsys):
    assert main(["train", "rnn", "--data", "synthetic", "--limit", "200", "--epochs", "1", *arguments]) == 0
    out = capsys.readouterr().out
    for text in texts:
        assert text in out
    assert len(rows_of(out)) == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--cell", "elman"], "argument --cell: invalid choice: 'elman'"),
        (["--preset", "fast"], "argument --preset: invalid choice: 'fast'"),
        (["--steps", "0"], "argument --steps: '0' is not a whole number of at least 1"),
        (["--output-scale", "0"], "argument --output-scale: '0' is not a number more than 0"),
    ],
)
def test_wrong_arguments_are_named(arguments, text, capsys):
    with pytest.raises(SystemExit) as ending:
        main([*SMALL, *arguments])
    assert ending.value.code == 2
    assert text in capsys.readouterr().err


def test_what_cannot_work_is_said_before_training(capsys):
    assert main([*SMALL, "--steps", "3"]) == 1
    text = "error: --cell rnn --nonlinearity tanh --steps 3: rnn: an image of 784 pixels cannot be cut into 3 equal "
    assert text in capsys.readouterr().err
    assert main([*SMALL, "--cell", "gru", "--nonlinearity", "relu"]) == 1
    assert "goes with the cell 'rnn' only" in capsys.readouterr().err


def test_row_by_row_learns_with_every_cell():
    """A few steps of Adam on few digits: the loss falls well below that of guessing, log 10 = 2.3."""
    images, labels = synthetic_digits(200, 0)
    x = as_inputs(images)
    for cell in ("rnn", "lstm", "gru"):
        network = rnn(cell, steps=28, hidden=16)
        optimizer = functad.optim.adam(0.01)

        def loss(params, network=network):
            return nn.softmax_cross_entropy_with_integer_labels(network.apply(params, x), labels).mean()

        @functad.jit
        def step(params, state, loss=loss, optimizer=optimizer):
            value, grads = functad.value_and_grad(loss)(params)
            updates, state = optimizer.update(grads, state, params)
            return functad.optim.apply_updates(params, updates), state, value

        params = network.init(KEY, x)
        state = optimizer.init(params)
        for _ in range(60):
            params, state, value = step(params, state)
        assert float(value) < 1.2, cell
