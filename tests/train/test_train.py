"""Training: the loop on drawn digits, and the command line with its endings."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import io, nn, optim, random
from functad.__main__ import main
from functad.data import MNIST, places, synthetic_digits
from functad.errors import ArgumentError, DataError
from functad.train import Dataset, as_inputs, classifier, cnn, evaluator, fit, running, training_step
from functad.train.digits import digit_sets, on_pixels

ROOT = Path(__file__).parents[2]


def digits(count, seed):
    images, labels = synthetic_digits(count, seed)
    return Dataset(as_inputs(images), labels)


@pytest.fixture(scope="module")
def train_set():
    return digits(3000, 0)


@pytest.fixture(scope="module")
def test_set():
    return digits(1000, 1)


def first_params(network, data, seed=0):
    return network.init(random.key(seed), data.inputs[:1])


def evaluate(network, params, data):
    return evaluator(classifier(network))(params, None, data)["accuracy"]


def train(network, params, optimizer, train_set, test_set, *, until, batch_size, key):
    """The epochs, each with its params."""
    found = []
    options = {"until": until, "batch_size": batch_size, "key": key, "test": test_set, "on_epoch": found.append}
    fit(classifier(network), params, optimizer, train_set, **options)
    return found


# --- the loop -----------------------------------------------------------------------------------------


def test_the_cnn_learns_drawn_digits(train_set, test_set):
    network = cnn()
    params = first_params(network, train_set)
    before = evaluate(network, params, test_set)
    optimizer = optim.sgd(0.03, momentum=0.9, nesterov=True)
    first, second = train(network, params, optimizer, train_set, test_set, until=2, batch_size=32, key=random.key(1))
    assert (first.number, second.number) == (1, 2)
    assert before < 0.3
    assert second.train["loss"] < 0.5 * first.train["loss"]
    assert second.test["accuracy"] > 0.85
    assert evaluate(network, second.run.params, test_set) == second.test["accuracy"]


def test_a_step_is_gradient_descent(train_set):
    network = nn.serial(nn.Flatten(), nn.Dense(10))
    params = first_params(network, train_set)
    inputs, labels = train_set.inputs[:50], train_set.labels[:50]
    optimizer = optim.sgd(0.1)
    kernel = np.asarray(params[1]["kernel"]).astype(np.float64)  # before the step takes the params over
    new, _, state, metrics = training_step(classifier(network), optimizer)(
        params, optimizer.init(params), None, Dataset(inputs, labels), random.key(0), 0
    )
    x = inputs.reshape(50, -1).astype(np.float64)
    scores = x @ kernel
    probabilities = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    wrong = (probabilities - np.eye(10)[labels]) / 50
    np.testing.assert_allclose(np.asarray(new[1]["kernel"]), kernel - 0.1 * x.T @ wrong, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.asarray(new[1]["bias"]), -0.1 * wrong.sum(0), rtol=1e-4, atol=1e-6)
    assert state is None
    assert float(metrics["loss"]) == pytest.approx(-np.log(probabilities[np.arange(50), labels]).mean(), rel=1e-4)
    assert float(metrics["accuracy"]) == pytest.approx((scores.argmax(1) == labels).mean())


def test_a_step_traces_once(train_set):
    layer = nn.serial(nn.Flatten(), nn.Dense(10))
    calls = []

    def counted(params, x, *, key=None, train=False):
        calls.append(train)
        return layer.apply(params, x)

    network = nn.Layer(layer.init, counted)
    params = first_params(network, train_set)
    optimizer = optim.sgd(optim.linear_schedule(0.1, 0.0, 10), momentum=0.9)
    state = optimizer.init(params)
    step = training_step(classifier(network), optimizer)
    for i in range(4):
        part = slice(10 * i, 10 * i + 10)
        batch = Dataset(train_set.inputs[part], train_set.labels[part])
        params, state, _, _ = step(params, state, None, batch, random.key(0), i)
    assert calls == [True]


def test_the_same_key_gives_the_same_params(train_set, test_set):
    network = nn.serial(nn.Flatten(), nn.Dense(10))
    params = first_params(network, train_set)

    def run(seed):
        options = {"until": 1, "batch_size": 100, "key": random.key(seed)}
        (epoch,) = train(network, params, optim.sgd(0.1), train_set, test_set, **options)
        return np.asarray(epoch.run.params[1]["kernel"])

    assert (run(0) == run(0)).all() and (run(0) != run(1)).any()


def test_the_params_of_the_caller_and_of_every_epoch_stay(train_set, test_set):
    network = nn.serial(nn.Flatten(), nn.Dense(10))
    params = first_params(network, train_set)
    before = np.array(params[1]["kernel"])
    options = {"until": 2, "batch_size": 100, "key": random.key(0)}
    found, kernels = [], []
    for epoch in train(network, params, optim.sgd(0.1, momentum=0.9), train_set, test_set, **options):
        found.append(epoch)
        kernels.append(np.array(epoch.run.params[1]["kernel"]))
    assert (np.asarray(params[1]["kernel"]) == before).all()
    for epoch, kernel in zip(found, kernels, strict=True):
        assert (np.asarray(epoch.run.params[1]["kernel"]) == kernel).all()
    assert (kernels[0] != kernels[1]).any()


def test_pixels_give_the_same_as_scaled_images():
    images, labels = synthetic_digits(64, 0)
    train, test = digit_sets(MNIST(images, labels, images, labels), limit=32)
    assert train.inputs.shape == (32, 28, 28) and test.inputs.dtype == np.uint8
    np.testing.assert_array_equal(as_inputs(test.inputs), as_inputs(images), strict=True)
    network = cnn()
    params = network.init(random.key(0), as_inputs(images))
    on_stored = on_pixels(network)
    same = on_stored.init(random.key(0), test.inputs)
    assert functad.tree.leaves(same)[0].shape == (3, 3, 1, 6)
    np.testing.assert_allclose(
        on_stored.apply(params, test.inputs), network.apply(same, as_inputs(images)), rtol=1e-5, atol=1e-6
    )


def test_too_few_inputs_for_a_batch(test_set):
    network = cnn()
    with pytest.raises(ArgumentError, match="1000 items to train on, fewer than one batch of 1001"):
        train(network, (), optim.sgd(0.1), test_set, test_set, until=1, batch_size=1001, key=random.key(0))


def test_the_gradient_of_the_cnn_matches_differences(test_set):
    network = cnn()
    params = functad.tree.map(lambda p: np.asarray(p, np.float64), first_params(network, test_set))
    inputs, labels = test_set.inputs[:8].astype(np.float64), test_set.labels[:8]

    def loss(params):
        logits = network.apply(params, inputs)
        return nn.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    rng = np.random.default_rng(0)
    direction = functad.tree.map(lambda p: rng.normal(size=p.shape), params)
    grads = functad.grad(loss)(params)
    slope = sum(functad.tree.leaves(functad.tree.map(lambda g, d: float((g * d).sum()), grads, direction)))
    h = 1e-7
    ahead = loss(functad.tree.map(lambda p, d: p + h * d, params, direction))
    behind = loss(functad.tree.map(lambda p, d: p - h * d, params, direction))
    assert slope == pytest.approx((float(ahead) - float(behind)) / (2 * h), rel=1e-5)


# --- the command line ---------------------------------------------------------------------------------


def command(*arguments, cwd, **environment):
    return subprocess.Popen(
        [sys.executable, "-m", "functad", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        # A shell that runs the tests in the background lets them, and this process, ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


SMALL = ["train", "cnn", "--data", "synthetic", "--limit", "1000"]


def test_training_from_the_command_line(tmp_path):
    process = command(
        *SMALL, "--epochs", "2", "--batch", "20", "--save", "digits.npz", "--save-best", "best.npz", cwd=tmp_path
    )
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "cnn, 86,070 parameters, seed 0" in out
    assert "drawn digits: 1,000 images to train on, 4,000 to test with" in out
    assert "epoch     time     loss  accuracy  test loss  test accuracy\n" in out
    number = r" +([\d.]+)"
    rows = re.findall(rf"^ +(\d){number} s{4 * number}$", out, flags=re.MULTILINE)
    assert [row[0] for row in rows] == ["1", "2"]
    assert float(rows[1][2]) < float(rows[0][2])
    assert float(rows[1][5]) > 0.6
    best = 1 + (float(rows[1][5]) > float(rows[0][5]))
    assert "The parameters are in digits.npz; functad.io.load reads them.\n" in out
    assert f"The parameters after epoch {best}, the best, are in best.npz; functad.io.load reads them.\n\nTo try" in out
    params = io.load(tmp_path / "best.npz")
    assert evaluate(cnn(), params, digits(4000, 1)) == pytest.approx(float(rows[best - 1][5]), abs=1e-4)
    params = io.load(tmp_path / "digits.npz")
    assert evaluate(cnn(), params, digits(4000, 1)) == pytest.approx(float(rows[1][5]), abs=1e-4)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT to send to another process")
def test_an_interrupt_keeps_the_last_finished_epoch(tmp_path):
    process = command(*SMALL, "--epochs", "1000", "--save", "digits.npz", cwd=tmp_path)
    assert process.stdout is not None
    for line in process.stdout:
        if re.match(r" +2 ", line):
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    finished = int(re.search(r"The parameters after epoch (\d+) are in digits.npz", out)[1])
    assert finished >= 2
    assert [leaf.shape for leaf in functad.tree.leaves(io.load(tmp_path / "digits.npz"))] == [
        (3, 3, 1, 6),
        (1014, 84),
        (84, 10),
    ]
    assert os.listdir(tmp_path) == ["digits.npz"]


def interrupted(monkeypatch, capsys, *arguments):
    """What is printed and returned when Ctrl-C comes before the first epoch is over."""

    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("functad.train.loop.training_step", stop)
    assert main([*SMALL, *arguments]) == 130
    return capsys.readouterr().out


def test_an_interrupt_before_the_first_epoch_is_over(monkeypatch, capsys, tmp_path):
    out = interrupted(monkeypatch, capsys, "--save", str(tmp_path / "digits.npz"))
    assert "Stopped in epoch 1. No epoch was finished, so there is nothing to save." in out
    assert os.listdir(tmp_path) == []


def test_an_interrupt_of_a_resumed_run_before_its_first_epoch_is_over(monkeypatch, capsys, tmp_path):
    path = str(tmp_path / "run.npz")
    assert main([*SMALL, "--epochs", "1", "--checkpoint", path]) == 0
    out = interrupted(monkeypatch, capsys, "--resume", path, "--epochs", "2")
    assert f"Stopped before another epoch was finished. --resume {path} goes on where this run began." in out


@pytest.mark.generated(every=4)
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "nesterov", "adam"])
@pytest.mark.parametrize("schedule", ["constant", "linear"])
def test_every_optimizer_and_schedule_runs(optimizer, schedule, capsys):
    options = ["--limit", "64", "--epochs", "1", "--optimizer", optimizer, "--schedule", schedule]
    assert main(["train", "cnn", "--data", "synthetic", *options, "--lr", "0.01"]) == 0
    out = capsys.readouterr().out
    assert f"{optimizer}: batch 32, learning rate 0.01" in out
    assert ("falling to 0" in out) == (schedule == "linear")


def test_without_mnist_auto_says_so_and_draws(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("FUNCTAD_DATA", str(tmp_path))
    monkeypatch.setenv("FUNCTAD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(places, "fetch", no_network)
    options = ["--limit", "64", "--epochs", "1"]
    assert main(["train", "cnn", *options]) == 0
    out = capsys.readouterr().out
    assert "no network here" in out and "So this trains on drawn digits instead." in out
    assert main(["train", "cnn", "--data", "mnist", *options]) == 1
    assert "error: MNIST is not on this machine" in capsys.readouterr().err


def test_a_folder_of_images_like_mnists(capsys, tmp_path):
    sizes = {"train": 64, "t10k": 32}
    for part, count in sizes.items():
        images, labels = synthetic_digits(count, 0)
        head = bytes([0, 0, 8, 3]) + count.to_bytes(4, "big")
        pixels = (images * 255).astype(np.uint8)
        (tmp_path / f"{part}-images-idx3-ubyte").write_bytes(head + bytes([0, 0, 0, 28] * 2) + pixels.tobytes())
        (tmp_path / f"{part}-labels-idx1-ubyte").write_bytes(
            bytes([0, 0, 8, 1]) + count.to_bytes(4, "big") + labels.astype(np.uint8).tobytes()
        )
    options = ["train", "cnn", "--data", str(tmp_path), "--epochs", "1"]
    assert main(options) == 0
    assert f"{tmp_path}: 64 images to train on, 32 to test with" in capsys.readouterr().out
    content = bytes([0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2]) + bytes(4)
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(content)
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 1, 12]))
    assert main(options) == 1
    assert f"--data {tmp_path}: there are 1 images of 2 × 2 pixels in 13 classes" in capsys.readouterr().err
    assert main(["train", "cnn", "--data", "minst"]) == 1
    assert "error: --data minst: it is no folder (seen from" in capsys.readouterr().err


def no_network(file, folder, mirrors):
    raise DataError(f"{file.name} could not be downloaded: no network here")


def test_a_run_has_its_device(monkeypatch, capsys):
    options = ["--limit", "64", "--epochs", "1", "--device"]
    with pytest.raises(SystemExit):
        main([*SMALL[:4], *options, "tpu"])
    said = capsys.readouterr()
    assert "argument --device: 'tpu' is no device of functad" in said.err and not said.out
    seen = []
    monkeypatch.setattr(running, "fit", lambda *given, **how: seen.append(functad.config.default_device) or sys.exit(3))
    for device in ("cpu", None):
        with pytest.raises(SystemExit):
            main([*SMALL[:4], *(options[:-1] if device is None else [*options, device])])
    assert seen == [functad.devices("cpu")[0], None]


def test_a_mistyped_data_folder_is_an_error(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("FUNCTAD_DATA", str(tmp_path / "nowhere"))
    assert main(["train", "cnn", "--limit", "64", "--epochs", "1"]) == 1
    output = capsys.readouterr()
    assert "error: The environment variable FUNCTAD_DATA is '" in output.err and "nowhere" in output.err
    assert "drawn digits" not in output.out


@pytest.mark.parametrize("name", ["train-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"])
@pytest.mark.parametrize("content", [b"", b"\x1f\x8b truncated", bytes([9, 9, 8, 3, 0, 0, 0, 0])])
def test_damaged_mnist_is_an_error_even_where_other_files_are_missing(monkeypatch, capsys, tmp_path, name, content):
    monkeypatch.setenv("FUNCTAD_DATA", str(tmp_path))
    monkeypatch.setenv("FUNCTAD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(places, "fetch", no_network)
    (tmp_path / name).write_bytes(content)
    assert main(["train", "cnn", "--limit", "64", "--epochs", "1"]) == 1
    output = capsys.readouterr()
    assert f"error: {tmp_path / name} is damaged" in output.err
    assert "drawn digits" not in output.out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--verion"], "unrecognized arguments: --verion (did you mean --version?)"),
        (["train"], "the following arguments are required: NETWORK"),
        (["train", "mlp"], "invalid choice: 'mlp'"),
        ([*SMALL, "--epochs", "0"], "argument --epochs: '0' is not a whole number of at least 1"),
        ([*SMALL, "--batch", "many"], "argument --batch: 'many' is not a whole number"),
        ([*SMALL, "--lr", "-1"], "argument --lr: '-1' is not a number more than 0"),
        ([*SMALL, "--lr", "nan"], "argument --lr: 'nan' is not a number more than 0"),
        ([*SMALL, "--seed", "-1"], "argument --seed: '-1' is not a whole number from 0"),
        ([*SMALL, "--optimizer", "magic"], "argument --optimizer: invalid choice: 'magic'"),
    ],
)
def test_wrong_arguments_are_named(arguments, text, capsys):
    with pytest.raises(SystemExit) as ending:
        main(arguments)
    assert ending.value.code == 2
    assert text in capsys.readouterr().err


def test_without_a_command_the_commands_are_shown(capsys):
    assert main([]) == 2
    assert "show a function from its source to machine code" in capsys.readouterr().err


def test_what_cannot_work_is_said_before_training(capsys, tmp_path):
    assert main([*SMALL, "--save", str(tmp_path)]) == 1
    assert "is a folder; give the path of a file" in capsys.readouterr().err
    (tmp_path / "file").write_bytes(b"")
    path = str(tmp_path / "file" / "digits.npz")
    assert main([*SMALL, "--save", path]) == 1
    output = capsys.readouterr()
    assert output.err.startswith(f"error: {path}: cannot be written: ") and ".part" not in output.err
    assert output.out == ""
    assert main(["train", "cnn", "--data", "synthetic", "--limit", "10"]) == 1
    assert "10 images to train on, fewer than one batch of 32" in capsys.readouterr().err


def test_version(capsys):
    with pytest.raises(SystemExit) as ending:
        main(["--version"])
    assert ending.value.code == 0
    assert capsys.readouterr().out == f"functad {functad.__version__}\n"


def test_dropout_gets_its_key():
    inputs = np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32)
    data = Dataset(inputs, (inputs[:, 0] > 0).astype(np.int32))
    network = nn.serial(nn.Dense(16), nn.Relu(), nn.Dropout(0.2), nn.Dense(2))
    params = network.init(random.key(0), inputs)
    found = train(network, params, optim.sgd(0.5), data, data, until=4, batch_size=20, key=random.key(1))
    assert list(found)[-1].test["accuracy"] > 0.85


@pytest.mark.parametrize(
    ("arguments", "usage", "text"),
    [
        (["train", "cnn", "--epoch", "1", "--sheduler", "x"], "functad train cnn", "did you mean --schedule?"),
        (["train", "rnn", "extra"], "functad train rnn", "unrecognized arguments: extra"),
        (["cache", "info", "--all"], "functad cache info", "unrecognized arguments: --all"),
        (["doctor", "--fast"], "functad doctor", "unrecognized arguments: --fast"),
    ],
)
def test_a_mistyped_option_prints_the_usage_of_its_command(arguments, usage, text, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    printed = capsys.readouterr().err
    assert ended.value.code == 2 and f"usage: {usage} [-h]" in printed and text in printed


def test_means_of_16_bits_are_weighed_in_32():
    found = evaluator(lambda w, batch, key: (jnp.mean(batch), {"mean": jnp.mean(batch)}))
    assert found(0.0, None, np.full(251, 300, np.float16)) == {"loss": 300.0, "mean": 300.0}


def test_means_of_64_bits_are_weighed_in_64_without_a_warning():
    found = evaluator(lambda w, batch, key: (w * batch).mean())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert found(np.float64(2), None, np.array([0.1, 0.2])) == {"loss": np.float64(0.1) + np.float64(0.2)}
