"""`fit`: a whole training run in one call, with early stopping and checkpoints.

Knows the loop; nothing of networks, nor of the command line.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from typing import Any

from functad import optim
from functad.errors import ArgumentError
from functad.train.checkpoints import Checkpoints, load_run
from functad.train.history import History, heading, row, score
from functad.train.loop import Epoch, epochs, start


def fit(
    loss: Callable[..., Any],
    params: Any,
    optimizer: optim.Optimizer,
    data: Any,
    *,
    until: int,
    batch_size: int,
    key: Any,
    test: Any = None,
    state: Any = None,
    monitor: str = "loss",
    patience: int | None = None,
    checkpoint: str | os.PathLike[str] | Checkpoints | None = None,
    resume: str | os.PathLike[str] | None = None,
    on_epoch: Callable[[Epoch], Any] | None = None,
    on_best: Callable[[Epoch], Any] | None = None,
    show_progress: bool = False,
) -> History:
    """Train, and tell how it went.

    Args:
        loss, optimizer, data, until, batch_size, test: as of `epochs`, the loop that this one calls.
        params: the first parameters; they are left as they are.
        key: a random key, for the order of the items and for layers that draw.
        state: what the network keeps besides its parameters, if anything.
        monitor: the metric to watch: the loss, of which less is better, or another, of which more is.
        patience: end after so many epochs without a better one. None goes on to the last.
        checkpoint: a file that gets the `Run` after each epoch; or `Checkpoints`, which also say after how many steps,
            and how many files are kept.
        resume: such a file, from which to go on, to the same bits as if nothing had been interrupted. The history
            has the figures of the epochs before, too, and the parameters of the best one; `patience` counts from it.
        on_epoch: called with each `Epoch`.
        on_best: called with each that is better than all before it.
        show_progress: print a row of the table after each epoch, and show a progress bar in a terminal.

    Returns:
        The `History`; its `params` are those after the best epoch.

    Raises:
        ArgumentError: fewer items than one batch, a metric that the loss does not give, or a file of a run that stopped
            within an epoch of other batches.
        DataError: the file to resume from is damaged, or of another network or optimizer.
        OSError: the checkpoint cannot be written.

    >>> import functad, numpy as np
    >>> from functad import nn, optim, random
    >>> from functad.train import Dataset, classifier
    >>> x = np.random.default_rng(0).normal(size=(200, 2)).astype(np.float32)
    >>> data = Dataset(x, (x[:, 0] > x[:, 1]).astype(np.int32))
    >>> network = nn.Dense(2)
    >>> params = network.init(random.key(0), x)
    >>> options = {"until": 9, "batch_size": 20, "key": random.key(1), "patience": 2, "monitor": "accuracy"}
    >>> history = fit(classifier(network), params, optim.sgd(1.), data, test=data, **options)
    >>> history.best.test["accuracy"] > 0.95
    True
    """
    if patience is not None and patience < 1:
        raise ArgumentError(
            f"fit: patience is {patience}; it is the number of epochs to wait for a better one, 1 or more"
        )
    if checkpoint is not None and not isinstance(checkpoint, Checkpoints):
        checkpoint = Checkpoints(checkpoint)
    run, history = start(params, optimizer, key, state), History(monitor=monitor)
    if resume is not None:
        run = load_run(resume, like=run)
        history = History.resumed(run, monitor)
        if patience is not None and history.waited() >= patience:
            return history
    options: dict[str, Any] = {"until": until, "batch_size": batch_size, "test": test, "show_progress": show_progress}
    if checkpoint is not None:
        options.update(every=checkpoint.every, on_run=lambda run: checkpoint.save(history.kept_in(run)))
    first = len(history) + 1
    for epoch in epochs(loss, run, optimizer, data, **options):
        score(epoch, monitor)  # raises for a metric that is not there
        history.add(epoch)
        if checkpoint is not None:
            checkpoint.save(history.kept_in(epoch.run))
        if on_epoch is not None:
            on_epoch(epoch)
        if on_best is not None and history.best is epoch:
            on_best(epoch)
        if show_progress:
            _print_row(epoch, first=len(history) == first)
        if patience is not None and history.waited() >= patience:
            break
    return history


def _print_row(epoch: Epoch, first: bool) -> None:
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print(*([heading(epoch, width)] if first else []), row(epoch, width), sep="\n", flush=True)
