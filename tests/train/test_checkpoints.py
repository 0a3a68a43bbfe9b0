"""Checkpoints: in mid-epoch, after kills and Ctrl-C, the last few of them, and what the command line says of them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_fitting import DATA, NETWORK, OPTIONS, PARAMS, assert_same_bits

from functad import io, nn, optim, random
from functad.__main__ import main
from functad.errors import ArgumentError, DataError
from functad.train import Checkpoints, Dataset, Run, classifier, fit, start

ROOT = Path(__file__).parents[2]


def test_every_checkpoint_goes_on_to_the_same_bits(tmp_path):
    """Six steps an epoch: one is written after steps 2 and 4, and at the end."""
    optimizer = optim.adam(optim.linear_schedule(0.01, 0.0, 18))
    checkpoints = Checkpoints(tmp_path / "run.safetensors", every=2, keep=99)
    whole = fit(classifier(NETWORK), PARAMS, optimizer, DATA, until=3, checkpoint=checkpoints, **OPTIONS)
    positions = []
    for path in checkpoints.files():
        kept = io.load(
            path, like=start(PARAMS, optimizer, random.key(0))._replace(metrics=..., sizes=..., past=..., best=...)
        )
        positions.append((int(kept.epoch), int(kept.step)))
        if len(positions) % 3 == 0:
            continue  # the next one has the same row to go on to
        rest = fit(classifier(NETWORK), PARAMS, optimizer, DATA, until=3, resume=path, **OPTIONS)
        assert [(e.number, e.train, e.test) for e in rest.epochs] == [(e.number, e.train, e.test) for e in whole.epochs]
        assert_same_bits(rest.last.run[:7], whole.last.run[:7])
        assert_same_bits(rest.params, whole.params)
    assert positions == [(3, 0), (2, 4), (2, 2), (2, 0), (1, 4), (1, 2), (1, 0), (0, 4), (0, 2)]


def test_a_checkpoint_of_an_epoch_says_what_it_lacks(tmp_path):
    path = tmp_path / "run.npz"
    fit(classifier(NETWORK), PARAMS, optim.sgd(0.1), DATA, until=1, checkpoint=Checkpoints(path, every=4), **OPTIONS)
    other = nn.Dense(2)
    with pytest.raises(DataError, match=r"run.npz does not fit: tree.params is a tuple of 4, but like has a dict"):
        fit(
            classifier(other),
            other.init(random.key(0), DATA.inputs),
            optim.sgd(0.1),
            DATA,
            until=1,
            resume=path,
            **OPTIONS,
        )


def saved(path):
    """A whole run of so many numbers."""
    return [int(io.load(file)[4]) for file in path]


def run_of(number):
    return Run(np.full(3, number), (), None, None, number)


@pytest.mark.parametrize("links", [True, False])
def test_the_last_few_are_kept(tmp_path, monkeypatch, links):
    if not links:
        monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError("no links here")))
    checkpoints = Checkpoints(tmp_path / "run.npz", keep=3)
    for number in range(1, 6):
        checkpoints.save(run_of(number))
        assert saved(checkpoints.files()) == list(range(number, max(0, number - 3), -1))
        assert checkpoints.saved == (number, 0)
    assert sorted(os.listdir(tmp_path)) == ["run.1.npz", "run.2.npz", "run.npz"]
    Checkpoints(tmp_path / "run.npz").save(run_of(9))
    assert saved(checkpoints.files()) == [9, 4, 3]


@pytest.mark.parametrize("at", ["replace", "link", "save"])
def test_a_save_that_ends_in_the_middle_loses_none(tmp_path, monkeypatch, at):
    checkpoints = Checkpoints(tmp_path / "run.npz", keep=3)
    for number in (1, 2, 3):
        checkpoints.save(run_of(number))

    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(io if at == "save" else os, at, killed)
        with pytest.raises(KeyboardInterrupt):
            checkpoints.save(run_of(4))
    assert set(saved(checkpoints.files())) >= {3, 2} and saved(checkpoints.files())[0] == 3
    checkpoints.save(run_of(4))
    assert saved(checkpoints.files())[:2] == [4, 3]
    checkpoints.save(run_of(5))
    assert saved(checkpoints.files())[:3] == [5, 4, 3]


@pytest.mark.parametrize("batch_size, items", [(30, 120), (20, 100)])
def test_the_rest_of_an_epoch_has_the_same_batches(tmp_path, batch_size, items):
    checkpoints = Checkpoints(tmp_path / "run.npz", every=4, keep=2)
    fit(classifier(NETWORK), PARAMS, optim.sgd(0.1), DATA, until=1, checkpoint=checkpoints, **OPTIONS)
    path = checkpoints.files()[1]
    data = Dataset(DATA.inputs[:items], DATA.labels[:items])
    words = f"after step 4 of epoch 1 with batches of 20 of 120 items; here they are {batch_size} of {items}"
    options = {**OPTIONS, "batch_size": batch_size}
    with pytest.raises(ArgumentError, match=words):
        fit(classifier(NETWORK), PARAMS, optim.sgd(0.1), data, until=1, resume=path, **options)


def test_what_cannot_be_is_refused(tmp_path):
    for options in ({"every": 0}, {"keep": 0}, {"every": True}, {"keep": 1.5}):
        with pytest.raises(ArgumentError, match="must be an int of at least 1"):
            Checkpoints(tmp_path / "run.npz", **options)
    with pytest.raises(ArgumentError, match="is a folder"):
        Checkpoints(tmp_path)


# --- the command line ---------------------------------------------------------------------------------


def flags(folder, *more):
    text = folder / "book.txt"
    text.write_text("the cat sat on the mat.\n" * 700, encoding="utf-8")
    small = ["--hidden", "8", "--length", "12", "--batch", "20", "--sample", "0", "--epochs", "2"]
    return ["train", "language", "--data", str(text), *small, *more]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The checkpoint that a run which nobody stops ends with."""
    folder = tmp_path_factory.mktemp("whole")
    assert main(flags(folder, "--checkpoint", str(folder / "run.npz"))) == 0
    return io.load(folder / "run.npz")


# A run that gets a signal before step 40 of its first epoch, which has 63.
STOPPED = """
import os, sys
from functad.__main__ import main
from functad.train import loop

made = loop.training_step

def stopping(*arguments):
    step = made(*arguments)
    def counted(*given):
        if given[-1] == 40:
            os.kill(os.getpid(), int(sys.argv[1]))
        return step(*given)
    return counted

loop.training_step = stopping
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill"])
def test_a_run_that_was_stopped_in_mid_epoch_goes_on_to_the_same_bits(tmp_path, whole, number, capsys):
    path = tmp_path / "run.npz"
    more = ["--checkpoint", str(path), "--checkpoint-every", "18", "--checkpoint-keep", "2"]
    process = subprocess.run(
        [sys.executable, "-c", STOPPED, str(int(number)), *flags(tmp_path, *more)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=120,
        # A shell that runs the tests in the background lets them, and this process, ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    if number == signal.SIGINT:
        assert process.returncode == 130 and "Traceback" not in process.stderr
        assert f"Stopped in epoch 1. --resume {path} goes on after step 36 of epoch 1." in process.stdout
    else:
        assert process.returncode == -signal.SIGKILL, process.stderr
    kept = io.load(path)
    assert (int(kept[4]), int(kept[5])) == (0, 36) and len(kept[6]["loss"]) == 36
    assert main(flags(tmp_path, *more, "--resume", str(path))) == 0
    assert_same_bits(io.load(path)[:7], whole[:7])  # behind are the seconds that epochs took
    assert len(re.findall(r"^ +[12] +[\d.]+ s", capsys.readouterr().out, flags=re.MULTILINE)) == 2


def test_flags_that_need_another_one_say_so(capsys):
    for flag in ("--checkpoint-every", "--checkpoint-keep"):
        with pytest.raises(SystemExit):
            main(["train", "cnn", flag, "3"])
        assert "say how --checkpoint FILE is written; give it, too" in capsys.readouterr().err
