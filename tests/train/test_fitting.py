"""`fit` and its history: early stopping, checkpoints that continue to the same bits, tables, state."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import io, nn, optim, random
from functad.errors import ArgumentError, BodyError, DataError, ShapeError
from functad.train import Checkpoints, Dataset, Epoch, History, Run, classifier, fit, loop

rng = np.random.default_rng(0)
X = rng.normal(size=(120, 4)).astype(np.float32)
DATA = Dataset(X, (X[:, 0] > X[:, 1] * X[:, 2]).astype(np.int32))
TEST = Dataset(X[:60], DATA.labels[:60])
NETWORK = nn.serial(nn.Dense(16), nn.Relu(), nn.Dropout(0.2), nn.Dense(2))
PARAMS = NETWORK.init(random.key(0), X)
OPTIONS = {"batch_size": 20, "key": random.key(1), "test": TEST}


def assert_same_bits(a, b):
    assert functad.tree.structure(a) == functad.tree.structure(b)
    for x, y in zip(functad.tree.leaves(a), functad.tree.leaves(b), strict=True):
        assert x.dtype == y.dtype
        x, y = (random.key_data(leaf) if leaf.dtype == random.key_dtype() else leaf for leaf in (x, y))
        np.testing.assert_array_equal(x, y, strict=True)


@pytest.mark.parametrize("key", [random.key(1), random.PRNGKey(1)], ids=["typed", "raw"])
def test_a_resumed_run_is_the_uninterrupted_one_to_the_bit(tmp_path, key):
    optimizer = optim.adam(optim.linear_schedule(0.01, 0.0, 30))
    path, options = tmp_path / "run.npz", {**OPTIONS, "key": key}
    whole = fit(classifier(NETWORK), PARAMS, optimizer, DATA, until=5, **options)
    fit(classifier(NETWORK), PARAMS, optimizer, DATA, until=2, checkpoint=path, **options)
    rest = fit(classifier(NETWORK), PARAMS, optimizer, DATA, until=5, checkpoint=path, resume=path, **options)
    assert whole.last.run.key.dtype == key.dtype
    assert [epoch.number for epoch in rest.epochs] == [1, 2, 3, 4, 5]
    assert_same_bits(rest.last.run, whole.last.run)
    assert [epoch.test for epoch in rest.epochs] == [epoch.test for epoch in whole.epochs]
    assert_same_bits(rest.params, whole.params)
    seen = []
    again = fit(classifier(NETWORK), PARAMS, optimizer, DATA, until=5, resume=path, on_epoch=seen.append, **options)
    assert not seen and repr(again) == repr(rest)


def test_a_run_that_gives_nan_throughout_ends_with_a_history():
    def loss(w, batch, key):
        return (batch @ w).mean() * jnp.nan

    options = {**OPTIONS, "test": X, "until": 5}
    for patience, count in ((None, 5), (2, 3)):
        history = fit(loss, jnp.ones(4), optim.sgd(0.1), X, patience=patience, **options)
        assert len(history) == count and history.best.number == 1


def test_a_checkpoint_of_another_network_is_refused(tmp_path):
    path = tmp_path / "run.npz"
    fit(classifier(NETWORK), PARAMS, optim.sgd(0.1), DATA, until=1, checkpoint=path, **OPTIONS)
    other = nn.Dense(2)
    with pytest.raises(DataError, match=r"does not fit: tree.params is a tuple of 4"):
        fit(classifier(other), other.init(random.key(0), X), optim.sgd(0.1), DATA, until=1, resume=path, **OPTIONS)


def test_a_function_that_makes_an_optimizer_is_none():
    with pytest.raises(ArgumentError, match="fit: optimizer is <function sgd .*, which is no Optimizer"):
        fit(
            lambda w, batch, key: (batch @ w).sum(), jnp.ones(4), optim.sgd, X, until=1, batch_size=4, key=random.key(0)
        )


def test_patience_ends_a_run_that_gets_no_better():
    seen = []
    options = {**OPTIONS, "monitor": "accuracy", "patience": 2, "on_epoch": seen.append}
    history = fit(classifier(NETWORK), PARAMS, optim.sgd(0.0), DATA, until=50, **options)
    assert [epoch.number for epoch in history.epochs] == [1, 2, 3] and history.best.number == 1
    assert [epoch.train for epoch in seen] == [epoch.train for epoch in history.epochs]
    assert_same_bits(history.params, PARAMS)
    with pytest.raises(ArgumentError, match="patience is 0"):
        fit(classifier(NETWORK), PARAMS, optim.sgd(0.0), DATA, until=1, **{**options, "patience": 0})
    with pytest.raises(ArgumentError, match="until is 2.5; it is the number of the last epoch"):
        fit(classifier(NETWORK), PARAMS, optim.sgd(0.0), DATA, until=2.5, **options)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"monitor": "f1"}, "no metric 'f1' to watch; the loss gives 'loss', 'accuracy'"),
        ({"monitor": "f1", "test": None}, "no metric 'f1' to watch; the loss gives 'loss', 'accuracy'"),
        ({"monitor": ["loss"]}, "monitor is \\['loss'\\]; it is the name"),
        ({"patience": 2.5}, "patience is 2.5; it is the number of epochs to wait"),
        ({"patience": "3"}, "patience is '3'"),
        ({"batch_size": 121}, "120 items to train on, fewer than one batch of 121"),
        ({"batch_size": 2.5}, "fit: batch_size must be an int of at least 1, got 2.5"),
        ({"data": ()}, "fit: data holds no array"),
        ({"data": 3.0}, "fit: data is a scalar"),
        ({"data": (x for x in X)}, "fit: data is of type generator, which is no array"),
        ({"test": X[:0]}, "the data to validate with have no items"),
        ({"test": ()}, "the data to validate with have no items"),
        ({"test": X[:, :3]}, "matmul: shapes \\(20, 3\\) and \\(4,\\) do not fit"),
        ({"checkpoint": 3}, "3 is no path of a file"),
        ({"resume": True}, "True is no path of a file"),
        ({"on_epoch": "run"}, "on_epoch is 'run'; it is called with an Epoch"),
        ({"on_best": 1}, "on_best is 1; it is called with an Epoch"),
    ],
)
def test_what_cannot_be_is_said_before_the_first_step(wrong, message):
    steps = []

    def loss(w, batch, key):
        value = jnp.mean((batch @ w) ** 2)
        functad.debug.callback(lambda _: steps.append(1), value)
        return value, {"accuracy": value}

    options = {"until": 1, "batch_size": 20, "key": random.key(0), "test": X, **wrong}
    with pytest.raises((ArgumentError, ShapeError), match=message):
        fit(loss, jnp.ones(4), optim.sgd(0.1), options.pop("data", X), **options)
    assert not steps


@pytest.mark.parametrize(
    ("given", "state", "message"),
    [
        (
            lambda value, batch: (value, value),
            None,
            r"gave \(f32\[\], f32\[\]\); it gives the mean loss, or \(loss, metrics\)",
        ),
        (lambda value, batch: (value, {"rows": batch}), None, r"gave \(f32\[\], {rows: f32\[20,4\]}\)"),
        (lambda value, batch: (value, {"all": {"rows": 1.0}}), None, r"gave \(f32\[\], {all: {rows: 1.0}}\); it gives"),
        (lambda value, batch: (value, {}, 1), None, "the mean loss, or"),
        (lambda value, batch: (value, {}), 0.0, r"it gives \(loss, metrics, state\)"),
        (lambda value, batch: value, 0.0, r"the loss gave f32\[\]; it gives \(loss, metrics, state\)"),
    ],
)
def test_what_a_loss_gives_is_said_where_it_is_something_else(given, state, message):
    def loss(w, *arguments):
        batch = arguments[-2]
        return given(jnp.mean((batch @ w) ** 2), batch)

    with pytest.raises(ArgumentError, match=message):
        fit(loss, jnp.ones(4), optim.sgd(0.1), X, until=1, batch_size=20, key=random.key(0), state=state)


@pytest.mark.parametrize("loss", [lambda: 0.0, lambda w: w.sum(), lambda w, batch, key, more: w.sum()])
@pytest.mark.parametrize("monitor", ["loss", "accuracy"])
def test_a_loss_that_takes_other_arguments_is_told_which(loss, monitor):
    with pytest.raises(BodyError, match=r"fit: <lambda>.* called with 3 arguments.*loss\(params, batch, key\)"):
        fit(loss, jnp.ones(4), optim.sgd(0.1), X, until=1, monitor=monitor, **{**OPTIONS, "test": None})


def test_an_error_within_a_loss_is_its_own():
    with pytest.raises(TypeError, match="takes 0 positional arguments") as caught:
        fit(lambda w, batch, key: (lambda: w)(batch), jnp.ones(4), optim.sgd(0.1), X, until=1, **OPTIONS)
    assert not isinstance(caught.value, BodyError)


def test_a_loss_is_a_function():
    with pytest.raises(ArgumentError, match="fit: loss is a ndarray; it is a function loss"):
        fit(X, jnp.ones(4), optim.sgd(0.1), X, until=1, **OPTIONS)


def test_a_classifier_takes_what_has_inputs_and_labels():
    class Marked(NamedTuple):
        inputs: Any
        labels: Any
        names: Any

    value, metrics = classifier(NETWORK)(PARAMS, Marked(*TEST, np.arange(60)), None)
    other, others = classifier(NETWORK)(PARAMS, tuple(TEST), None)
    assert value == other and metrics["accuracy"] == others["accuracy"]


def _worse_from_the_third(w, batch, key):
    """Of evaluation the loss is least after two epochs of 6 steps."""
    return (w[0] if key is not None else jnp.abs(w[0] + 12.0)) + 0 * batch.sum()


@pytest.mark.parametrize("stopped", [1, 2, 3])
def test_patience_and_the_best_params_outlive_a_resume(tmp_path, stopped):
    path, better = tmp_path / "run.npz", []
    options = {"batch_size": 20, "key": random.key(0), "test": X, "patience": 2, "on_best": better.append}
    options["checkpoint"] = path
    arguments = (_worse_from_the_third, jnp.zeros(1), optim.sgd(1.0), X)
    fit(*arguments, until=stopped, **options)
    history = fit(*arguments, until=50, resume=path, **options)
    assert [epoch.number for epoch in history.epochs] == [1, 2, 3, 4] and history.best.number == 2
    assert history.params.tolist() == [-12.0] and history["test loss"].tolist() == [6.0, 0.0, 6.0, 12.0]
    assert [epoch.number for epoch in better] == [1, 2]
    ended = fit(*arguments, until=50, resume=path, **options)
    assert len(ended) == 4 and len(better) == 2 and ended.params.tolist() == [-12.0]
    with pytest.raises(ArgumentError, match="the parameters after epoch 1, the best by 'other', were not kept"):
        print(History([epoch._replace(test={"other": -epoch.number}) for epoch in ended.epochs], "other").params)


def test_a_run_goes_on_with_other_metrics_and_data_to_validate_with(tmp_path):
    def plain(w, batch, key):
        return jnp.mean((batch @ w) ** 2)

    def measured(w, batch, key):
        return plain(w, batch, key), {"norm": jnp.sum(w)}

    path, options = tmp_path / "run.npz", {"batch_size": 20, "key": random.key(0), "checkpoint": tmp_path / "run.npz"}
    arguments = jnp.ones(4), optim.sgd(0.1), X
    fit(plain, *arguments, until=2, **options)
    more = fit(measured, *arguments, until=4, resume=path, test=X, monitor="norm", patience=2, **options)
    assert np.isnan(more["norm"][:2]).all() and np.isnan(more["test loss"][:2]).all() and more.best.number == 3
    assert np.isfinite(more["loss"]).all() and "test norm" in str(more) and len(more.plot().panels) == 2
    less = fit(plain, *arguments, until=5, resume=path, **options)
    assert np.isfinite(less["loss"]).all() and list(less.epochs[2].train) == ["loss"] and less.epochs[2].test == {}


def test_a_history_keeps_the_last_run_and_the_params_of_the_best_alone():
    """Of the epochs the second is the best; what `on_epoch` gets is whole."""
    seen = []
    options = {"batch_size": 20, "key": random.key(0), "test": X, "on_epoch": seen.append}
    history = fit(_worse_from_the_third, jnp.zeros(1), optim.adam(1.0), X, until=4, **options)
    runs = [epoch.run for epoch in history.epochs]
    assert runs[0] is None and runs[2] is None and runs[3] is seen[3].run
    assert runs[1].params is seen[1].run.params and runs[1].optimizer_state is None
    assert all(epoch.run.optimizer_state is not None for epoch in seen)


def test_a_run_goes_on_from_one_in_memory():
    options = {"batch_size": 20, "key": random.key(0)}
    arguments = (classifier(NETWORK), PARAMS, optim.adam(0.01), DATA)
    whole = fit(*arguments, until=3, **options)
    first = fit(*arguments, until=1, **options)
    assert_same_bits(fit(*arguments, until=3, resume=first.last.run, **options).last.run, whole.last.run)
    assert first.last.run.params[0]["kernel"].shape == (4, 16)  # it is left as it is


def test_an_epoch_goes_on_with_the_metrics_that_it_began_with(tmp_path):
    def plain(w, batch, key):
        return jnp.mean((batch @ w) ** 2)

    def measured(w, batch, key):
        return plain(w, batch, key), {"norm": jnp.sum(w)}

    options = {"batch_size": 20, "key": random.key(0), "until": 1}
    arguments = jnp.ones(4), optim.sgd(0.1), X
    for before, after, given in (
        (measured, plain, "'loss', 'norm'; here it gives 'loss',"),
        (plain, measured, "'norm'"),
    ):
        checkpoints = Checkpoints(tmp_path / f"{before.__name__}.npz", every=4, keep=2)
        fit(before, *arguments, checkpoint=checkpoints, **options)
        path = checkpoints.files()[1]
        with pytest.raises(ArgumentError, match=f"stopped after step 4 of an epoch in which the loss gave .*{given}"):
            fit(after, *arguments, resume=path, **options)


def test_the_loop_is_short():
    """What is to be read to know what `fit` does, docstrings and imports counted."""
    with open(loop.__file__, encoding="utf-8") as file:
        assert len(file.readlines()) <= 150


def test_a_plain_loss_without_metrics_or_test_data():
    def loss(w, batch, key):
        return ((batch @ w) ** 2).mean()

    history = fit(loss, jnp.ones(4), optim.sgd(0.1), X, until=3, batch_size=20, key=random.key(0))
    assert history.last.test == {} and list(history.last.train) == ["loss"]
    assert history["loss"][0] > history["loss"][2]
    assert history.best.number == 3


def test_state_goes_from_step_to_step_and_is_kept(tmp_path):
    """A loss that counts its batches, and their mean input, in its state."""

    def loss(w, state, batch, key):
        value = ((batch @ w - 1.0) ** 2).mean()
        if key is None:
            return value, {"seen": state["count"]}, state
        return value, {"seen": state["count"]}, {"count": state["count"] + 1, "mean": batch.mean(0)}

    state = {"count": jnp.zeros(()), "mean": jnp.zeros(4)}
    path = tmp_path / "run.npz"
    options = {"batch_size": 20, "key": random.key(0), "test": X, "state": state, "checkpoint": path}
    history = fit(loss, jnp.ones(4), optim.sgd(0.01), X, until=2, **options)
    assert float(history.last.run.state["count"]) == 12
    assert history.last.train["seen"] == np.mean(range(6, 12)) and history.last.test["seen"] == 12
    assert float(state["count"]) == 0
    kept = io.load(path, like=history.last.run._replace(past=..., best=...))
    assert_same_bits(kept[:7], history.last.run[:7])


def test_the_loss_is_evaluated_over_all_data_whatever_the_batches():
    x = rng.normal(size=(2345, 4)).astype(np.float32)

    def loss(w, batch, key):
        assert key is None or key.shape == (2,) or key.shape == ()
        return (batch @ w).mean()

    options = {"until": 1, "batch_size": 100, "key": random.key(0), "test": x}
    history = fit(loss, jnp.ones(4), optim.sgd(0.0), x, **options)
    assert history.last.test["loss"] == pytest.approx(float((x.astype(np.float64) @ np.ones(4)).mean()), abs=1e-5)
    with pytest.raises(ArgumentError, match="the data to validate with have no items"):
        fit(loss, jnp.ones(4), optim.sgd(0.0), x, **options | {"test": x[:0]})


class TestHistory:
    run = Run((), (), None, None, 1)

    def history(self, monitor="loss"):
        rows = [(0.7, 0.5, 0.9), (0.5, 0.8, 1.0), (0.4, 0.8, 0.8)]
        return History(
            (
                Epoch(i + 1, 1.0, {"loss": loss, "accuracy": accuracy}, {"loss": test, "accuracy": accuracy}, self.run)
                for i, (loss, accuracy, test) in enumerate(rows)
            ),
            monitor,
        )

    def test_best(self):
        assert self.history().best.number == 3
        assert self.history("accuracy").best.number == 2  # the first of equals
        assert self.history().params == ()

    def test_columns(self):
        history = self.history()
        np.testing.assert_array_equal(history["test loss"], [0.9, 1.0, 0.8])
        np.testing.assert_array_equal(history["epoch"], [1, 2, 3])
        with pytest.raises(ArgumentError, match="no column 'lost'; it has 'epoch', 'time', 'loss'"):
            history["lost"]

    def test_tables(self):
        lines = repr(self.history()).splitlines()
        assert lines[0] == "epoch     time     loss  accuracy  test loss  test accuracy"
        assert len({len(line) for line in lines}) == 1 and len(lines) == 4
        assert self.history()._repr_html_().count("<tr>") == 4

    def test_an_empty_one(self):
        assert repr(History()) == "<History without epochs>" and len(History()) == 0
        with pytest.raises(ArgumentError, match="no epoch yet"):
            _ = History().best
