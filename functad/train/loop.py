"""The training loop: epochs of steps, and after each a look at other data.

It is what you would write yourself: take it apart, or copy it, where you need another one. What it calls by name
(validation, history, checkpoints, what is shown) stands in the files beside it, each a piece by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from os import PathLike
from typing import Any

from functad import optim, random
from functad.api import jit, value_and_grad
from functad.data import loader
from functad.data.loading import epoch_keys
from functad.train.checkpoints import Checkpoints, checkpoints_of, load_run
from functad.train.checks import check_data, check_monitor, check_options
from functad.train.evaluating import FEWEST_EVALUATED, evaluated, evaluator
from functad.train.history import History
from functad.train.runs import Epoch, Run, count, in_own_memory, start
from functad.train.showing import Display
from functad.train.steps import StepMetrics


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
    checkpoint: str | PathLike[str] | Checkpoints | None = None,
    resume: str | PathLike[str] | Run | None = None,
    on_epoch: Callable[[Epoch], Any] | None = None,
    on_best: Callable[[Epoch], Any] | None = None,
    show_progress: bool = False,
) -> History:
    """Train, and tell how it went.

    Args:
        loss: `loss(params, batch, key)` gives the mean loss of a batch, or `(loss, metrics)` with a dict of more means.
            `key` is a random key, another one in each step, and None where the loss is only evaluated. For networks
            with state it is `loss(params, state, batch, key)`, which gives `(loss, metrics, state)`.
        params, state: the first ones; they are left as they are.
        optimizer: made from `functad.optim`.
        data: a pytree of arrays with the same length along axis 0, as `functad.data.loader` takes them; a batch is one
            like it. A rest that does not fill a batch is left out of the epoch.
        until, batch_size: the number of the last epoch, and the items of a step.
        key: a random key, for the order of the items and for layers that draw.
        test: data like those to train on, for which the loss is evaluated after each epoch.
        monitor: the metric to watch: the loss, of which less is better, or another, of which more is.
        patience: end after so many epochs without a better one. None goes on to the last.
        checkpoint: a file that gets the `Run` after each epoch; or `Checkpoints`, which say more.
        resume: such a file, or a `Run`, from which to go on, to the same bits as if nothing had been interrupted. The
            history has the epochs before, too, and the parameters of the best one; `patience` counts from it.
        on_epoch, on_best: called with each `Epoch`, and with each that is better than all before it.
        show_progress: print a row of the table after each epoch, and show a progress bar in a terminal or notebook.

    Returns:
        The `History`; its `params` are those after the best epoch.

    Raises:
        ArgumentError: no optimizer, fewer items than one batch, a metric that the loss does not give, no items to
            validate with, or a run that stopped within an epoch of other batches or of a loss with other metrics. All
            but the last is found before the first step.
        BodyError: the loss takes other arguments.
        DataError: the file to resume from is damaged, or of another network or optimizer.
        OSError: the checkpoint cannot be written.

    >>> import functad, numpy as np
    >>> from functad import optim, random
    >>> x = np.random.default_rng(0).normal(size=(200, 2)).astype(np.float32)
    >>> def loss(w, batch, key):
    ...     return ((batch["x"] @ w - batch["y"]) ** 2).mean()
    >>> data = {"x": x, "y": x @ np.array([1., -2.], np.float32)}
    >>> options = {"until": 3, "batch_size": 20, "key": random.key(0)}
    >>> fit(loss, functad.numpy.zeros(2), optim.sgd(0.1), data, **options).params.round(1)
    Array([ 1., -2.], dtype=float32)
    """
    check_options(loss, until, patience, monitor, on_epoch=on_epoch, on_best=on_best)
    display, checkpoints = Display(until, show_progress), checkpoints_of(checkpoint)
    run = load_run(resume, like=start(params, optimizer, key, state))
    history, sizes = History.resumed(run, monitor), check_data(run, data, batch_size)
    check_monitor(loss, run, data, test, batch_size, monitor)
    step, evaluate = training_step(loss, optimizer), evaluator(loss, max(batch_size, FEWEST_EVALUATED))
    # The step takes over the memory of what it is given, so the caller's is left to the caller.
    params, optimizer_state, state, key, _, at, earlier = in_own_memory(run[:7])
    batches, found = loader(data, batch_size, key, last="drop", position=(0, at)), StepMetrics(earlier)
    for number in range(int(run.epoch) + 1, until + 1):
        if patience is not None and history.waited() >= patience:
            break
        next_key, _, noise_key = epoch_keys(key)
        started = time.perf_counter()
        with display.bar(number, len(batches)) as shown:
            for i, batch in enumerate(batches, batches.position.batch):
                params, optimizer_state, state, metrics = step(params, optimizer_state, state, batch, noise_key, i)
                found.append(metrics)
                shown(i + 1, found)
                if checkpoints is not None and checkpoints.due(i + 1, len(batches)):
                    counts = count(number - 1), count(i + 1)
                    run = Run(params, optimizer_state, state, key, *counts, found.stacked(), sizes)
                    checkpoints.save(history.kept_in(run))
        seconds, means, found, key = time.perf_counter() - started, found.means(), StepMetrics(), next_key
        run = in_own_memory(Run(params, optimizer_state, state, key, count(number), count(0)))
        epoch = Epoch(number, seconds, means, {} if test is None else evaluate(run.params, run.state, test), run)
        history.add(epoch)
        if checkpoints is not None:
            checkpoints.save(history.kept_in(run))
        if on_epoch is not None:
            on_epoch(epoch)
        if on_best is not None and history.best is epoch:
            on_best(epoch)
        display.row(epoch)
    return history


def training_step(loss: Callable[..., Any], optimizer: optim.Optimizer) -> Any:
    """The compiled step: `(params, optimizer_state, state, batch, key, number)` to the new first three, and metrics.

    The loss gets the key folded with the step's number; where it does not draw, the simplifier drops both.
    The first three are donated: the new ones take their memory, so the old ones cannot be used again.

    >>> import numpy as np
    >>> optimizer, params = optim.sgd(0.5), np.float32(0.0)
    >>> step = training_step(lambda params, batch, key: ((batch - params) ** 2).mean(), optimizer)
    >>> step(params, optimizer.init(params), None, np.ones(4, np.float32), random.key(0), 0)[0]
    Array(1., dtype=float32)
    """

    @partial(jit, donate_argnums=(0, 1, 2))
    def step(params: Any, optimizer_state: Any, state: Any, batch: Any, key: Any, number: Any) -> Any:
        def objective(params: Any) -> Any:
            value, metrics, new_state = evaluated(loss, params, state, batch, random.fold_in(key, number))
            return value, ({"loss": value, **metrics}, new_state)

        (_, (metrics, new_state)), grads = value_and_grad(objective, has_aux=True)(params)
        updates, optimizer_state = optimizer.update(grads, optimizer_state, params)
        return optim.apply_updates(params, updates), optimizer_state, new_state, metrics

    return step
