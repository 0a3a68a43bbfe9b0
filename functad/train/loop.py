"""Training a classifier: epochs of mini-batches, and how well the result does on images it has not seen.

Knows layers, optimizers and batches; nothing of the command line, and not which network it trains.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from functad import nn, optim, random
from functad import numpy as jnp
from functad.api import jit, value_and_grad
from functad.data import Batches, batches
from functad.errors import ArgumentError
from functad.system.progress import Progress
from functad.tree_util import tree_map

_EVALUATION_BATCH = 1000
# Over how many steps the loss beside the progress bar is a mean.
_SHOWN_LOSSES = 100


class Dataset(NamedTuple):
    """Inputs and their classes: inputs float32 of shape (n, …), labels int32 of shape (n,)."""

    inputs: Any
    labels: Any


class Epoch(NamedTuple):
    """What one pass over the training data gave.

    Attributes:
        number: counted from 1.
        seconds: the time that training took, evaluation not included.
        loss: the mean loss over the epoch, each batch as it was met, before its step.
        train_accuracy: the same mean of the accuracy.
        test_accuracy: measured at the end of the epoch.
        params: the parameters at the end of the epoch, a copy that stays.
    """

    number: int
    seconds: float
    loss: float
    train_accuracy: float
    test_accuracy: float
    params: Any


def fit(
    network: nn.Layer,
    params: Any,
    optimizer: optim.Optimizer,
    train: Dataset,
    test: Dataset,
    *,
    epochs: int,
    batch_size: int,
    key: Any,
    show_progress: bool = False,
) -> Iterator[Epoch]:
    """Train a classifier on softmax cross-entropy.

    Args:
        network: gives one score a class for each input.
        params: what its `init` gave.
        optimizer: what turns gradients into steps.
        train, test: what to train on and what to measure with.
        epochs: how many times to go over the training data.
        batch_size: inputs a step. A rest that does not fill a batch is left out of the epoch.
        key: a random key, for the order of the inputs, which is new in each epoch, and for layers that draw
            (`Dropout`).
        show_progress: show a progress bar on standard error.

    Returns:
        An iterator of one `Epoch` each, which trains while it is asked for the next.

    Raises:
        ArgumentError: fewer inputs than one batch.

    >>> import functad, numpy as np
    >>> from functad import nn, optim, random
    >>> inputs = np.random.default_rng(0).normal(size=(200, 2)).astype(np.float32)
    >>> data = Dataset(inputs, (inputs[:, 0] > inputs[:, 1]).astype(np.int32))
    >>> network = nn.Dense(2)
    >>> params = network.init(random.key(0), inputs)
    >>> epochs = fit(network, params, optim.sgd(1.), data, data, epochs=3, batch_size=20, key=random.key(1))
    >>> [epoch.number for epoch in epochs if epoch.test_accuracy > 0.9]
    [1, 2, 3]
    """
    if len(train.labels) < batch_size:
        raise ArgumentError(
            f"fit: there are {len(train.labels)} inputs to train on, fewer than one batch of {batch_size}; "
            "use a smaller batch"
        )
    step, count = training_step(network, optimizer), _counter(network)
    # The step takes over the memory of both, so the caller's params are left to the caller.
    params = _copied(params)
    state = _copied(optimizer.init(params))
    for number in range(1, epochs + 1):
        key, order_key, noise_key = random.split(key, 3)
        chunks = batches(train, batch_size, key=order_key, drop_remainder=True)
        started = time.perf_counter()
        params, state, loss, accuracy = _epoch(
            step, params, state, chunks, noise_key, f"epoch {number}/{epochs}", show_progress, number == 1
        )
        seconds = time.perf_counter() - started
        yield Epoch(number, seconds, loss, accuracy, _share(count, params, test), _copied(params))


def training_step(network: nn.Layer, optimizer: optim.Optimizer) -> Any:
    """The compiled step: `(params, state, inputs, labels, key, number)` to `(params, state, loss, accuracy)`.

    Layers that draw get the key folded with the step's number; where none does, the simplifier drops both.
    The params and the state are donated: the new ones take their memory, so the old ones cannot be used again.
    """

    @partial(jit, donate_argnums=(0, 1))
    def step(params: Any, state: Any, inputs: Any, labels: Any, key: Any, number: Any) -> Any:
        def loss_and_accuracy(params: Any) -> Any:
            logits = network.apply(params, inputs, key=random.fold_in(key, number), train=True)
            loss = nn.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
            return loss, nn.accuracy(logits, labels)

        (loss, accuracy), grads = value_and_grad(loss_and_accuracy, has_aux=True)(params)
        updates, state = optimizer.update(grads, state, params)
        return optim.apply_updates(params, updates), state, loss, accuracy

    return step


def evaluate(network: nn.Layer, params: Any, data: Dataset) -> float:
    """The accuracy of a network on a data set.

    >>> import numpy as np
    >>> from functad import nn
    >>> evaluate(nn.Identity(), (), Dataset(np.eye(4, dtype=np.float32), np.array([0, 1, 2, 0])))
    0.75
    """
    return _share(_counter(network), params, data)


def _counter(network: nn.Layer) -> Any:
    """The compiled `(params, inputs, labels)` to the number of inputs that are classified right."""

    @jit
    def count(params: Any, inputs: Any, labels: Any) -> Any:
        return jnp.sum(jnp.argmax(network.apply(params, inputs), -1) == labels)

    return count


def _share(count: Any, params: Any, data: Dataset) -> float:
    right = sum(int(count(params, inputs, labels)) for inputs, labels in batches(data, _EVALUATION_BATCH))
    return right / len(data.labels)


def _epoch(
    step: Any, params: Any, state: Any, chunks: Batches, key: Any, title: str, show_progress: bool, first: bool
) -> tuple[Any, Any, float, float]:
    losses: list[Any] = []
    accuracies: list[Any] = []
    bar = Progress(len(chunks), title, leave=False) if show_progress else None
    with bar or nullcontext():
        if bar is not None and first:
            bar.announce("compiling ...")
        for i, (inputs, labels) in enumerate(chunks):
            params, state, loss, accuracy = step(params, state, inputs, labels, key, i)
            losses.append(loss)
            accuracies.append(accuracy)
            if bar is not None:
                bar.update(1, lambda: f"loss {_mean(losses[-_SHOWN_LOSSES:]):.4f}", setup=i == 0)
    return params, state, _mean(losses), _mean(accuracies)


def _mean(scalars: list[Any]) -> float:
    return float(np.mean([float(scalar) for scalar in scalars]))


def _copied(tree: Any) -> Any:
    return tree_map(lambda leaf: jnp.asarray(np.array(leaf)), tree)
