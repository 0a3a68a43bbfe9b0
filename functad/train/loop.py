"""The training loop: epochs of mini-batches, and what they gave.

It is what you would write yourself: take it apart, or copy it, where you need another one. Knows optimizers and
batches; nothing of networks, nor of what is trained.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from functad import numpy as jnp
from functad import optim, random
from functad.api import jit, value_and_grad
from functad.data import batches, loader
from functad.data.loading import epoch_keys
from functad.errors import ArgumentError
from functad.system.progress import Progress
from functad.tree_util import tree_leaves, tree_map

# Items that are evaluated at once, if nothing else is said.
EVALUATION_BATCH = 250
# While training, so many at least: as many as in a step need no more memory than a step, but calls should not be many.
_FEWEST_EVALUATED = 64
# Over how many steps the loss beside the progress bar is a mean.
_SHOWN_LOSSES = 100
# Seconds between two lines about a long epoch where no line can be rewritten.
_PLAIN_INTERVAL = 60.0


class Run(NamedTuple):
    """All that training goes on from, a pytree of arrays: `functad.io.save` keeps it.

    A run that is loaded goes on to the same bits as one that was never interrupted.

    Attributes:
        params, optimizer_state, state: of the network and the optimizer.
        key: of the next epoch, or of the one that is not over yet.
        epoch: how many epochs are over, int32.
        step: how many steps of another one are done, int32.
        metrics: what these gave, arrays of shape (step,) by name; None between epochs.
        sizes: how many items such a step has, and the epoch, int32 of shape (2,); None between epochs.
        past: what the epochs so far gave, as `History` keeps it; None if nobody does.
        best: the number of the best epoch, and the params and state after it; None if these are those of this run.
    """

    params: Any
    optimizer_state: Any
    state: Any
    key: Any
    epoch: Any
    step: Any = 0
    metrics: Any = None
    sizes: Any = None
    past: Any = None
    best: Any = None


class Epoch(NamedTuple):
    """What one pass over the training data gave.

    Attributes:
        number: counted from 1.
        seconds: the time that training took, evaluation not included.
        train: the means of the loss and of its metrics over the epoch, each batch as it was met, before its step.
        test: the same of the data to validate with, at the end of the epoch; empty if there are none.
        run: what training goes on from, a copy that stays; `run.params` are the parameters. Of an epoch before a
            resumed run it is None, or has the params and the state alone.
    """

    number: int
    seconds: float
    train: dict[str, float]
    test: dict[str, float]
    run: Any


def start(params: Any, optimizer: optim.Optimizer, key: Any, state: Any = None) -> Run:
    """A run before its first step.

    >>> from functad import optim, random
    >>> start([1.0], optim.sgd(0.1), random.key(0)).epoch
    Array(0, dtype=int32)
    """
    return Run(params, optimizer.init(params), state, key, _count(0), _count(0))


def epochs(
    loss: Callable[..., Any],
    run: Run,
    optimizer: optim.Optimizer,
    data: Any,
    *,
    until: int,
    batch_size: int,
    test: Any = None,
    show_progress: bool = False,
    every: int | None = None,
    on_run: Callable[[Run], Any] = lambda run: None,
) -> Iterator[Epoch]:
    """Go over the data, again and again, and make a step of the optimizer for each batch.

    Args:
        loss: `loss(params, batch, key)` gives the mean loss of a batch, or `(loss, metrics)` with a dict of more means.
            `key` is a random key, another one in each step, and None where the loss is only evaluated. For networks
            with state it is `loss(params, state, batch, key)`, which gives `(loss, metrics, state)`.
        run: of `start`, or the `run` of an earlier epoch, or of a part of one. It is left as it is.
        optimizer: made from `functad.optim`.
        data: a pytree of arrays with the same length along axis 0, as `functad.data.loader` takes them; a batch is one
            like it.
        until: the number of the last epoch.
        batch_size: items a step. A rest that does not fill a batch is left out of the epoch.
        test: data like those to train on, for which the loss is evaluated after each epoch.
        show_progress: show a progress bar on standard error; where that is no terminal, a line a minute.
        every: the number of steps in an epoch after which `on_run` is called, again and again.
        on_run: gets the run so far. Its arrays are lent: training goes on in their memory when `on_run` returns.

    Returns:
        An iterator of one `Epoch` each, which trains while it is asked for the next.

    Raises:
        ArgumentError: fewer items than one batch; or a run that stopped within an epoch of other batches.

    >>> import functad, numpy as np
    >>> from functad import optim, random
    >>> x = np.random.default_rng(0).normal(size=(200, 2)).astype(np.float32)
    >>> def loss(w, batch, key):
    ...     return ((batch["x"] @ w - batch["y"]) ** 2).mean()
    >>> optimizer, data = optim.sgd(0.1), {"x": x, "y": x @ np.array([1., -2.], np.float32)}
    >>> run = start(functad.numpy.zeros(2), optimizer, random.key(0))
    >>> for epoch in epochs(loss, run, optimizer, data, until=3, batch_size=20):
    ...     run = epoch.run
    >>> run.params.round(1)
    Array([ 1., -2.], dtype=float32)
    """
    if (length := len(tree_leaves(data)[0])) < batch_size:
        raise ArgumentError(
            f"epochs: there are {length} items to train on, fewer than one batch of {batch_size}; use a smaller batch"
        )
    sizes = np.array([batch_size, length], np.int32)
    _check_sizes(run, sizes)
    step, evaluation = training_step(loss, optimizer), evaluator(loss, max(batch_size, _FEWEST_EVALUATED))
    # The step takes over the memory of what it is given, so the caller's is left to the caller.
    params, optimizer_state, state, key, done, at, earlier = copied(run[:7])
    chunks = loader(data, batch_size, key, last="drop", position=(0, at))
    found: list[dict[str, Any]] = _steps(earlier)
    first = int(done) + 1
    for number in range(first, until + 1):
        next_key, _, noise_key = epoch_keys(key)
        started = time.perf_counter()
        bar = _bar(len(chunks), f"epoch {number}/{until}") if show_progress else None
        with bar or nullcontext():
            if bar is not None and bar.rewrites and number == first:
                bar.announce("compiling ...")
            for i, batch in enumerate(chunks, chunks.position.batch):
                params, optimizer_state, state, metrics = step(params, optimizer_state, state, batch, noise_key, i)
                found.append(metrics)
                if bar is not None:
                    bar.update(i + 1 - bar.count, partial(_recent_loss, found), setup=bar.count == 0)
                if every is not None and (i + 1) % every == 0 and i + 1 < len(chunks):
                    counts = _count(number - 1), _count(i + 1)
                    on_run(Run(params, optimizer_state, state, key, *counts, _stacked(found), sizes))
        seconds, train, key, found = time.perf_counter() - started, _means(found), next_key, []
        run = copied(Run(params, optimizer_state, state, key, _count(number), _count(0)))
        yield Epoch(number, seconds, train, {} if test is None else evaluation(run.params, run.state, test), run)


def training_step(loss: Callable[..., Any], optimizer: optim.Optimizer) -> Any:
    """The compiled step: `(params, optimizer_state, state, batch, key, number)` to the new first three, and metrics.

    The loss gets the key folded with the step's number; where it does not draw, the simplifier drops both.
    The first three are donated: the new ones take their memory, so the old ones cannot be used again.
    """

    @partial(jit, donate_argnums=(0, 1, 2))
    def step(params: Any, optimizer_state: Any, state: Any, batch: Any, key: Any, number: Any) -> Any:
        def objective(params: Any) -> Any:
            value, metrics, new_state = _called(loss, params, state, batch, random.fold_in(key, number))
            return value, ({"loss": value, **metrics}, new_state)

        (_, (metrics, new_state)), grads = value_and_grad(objective, has_aux=True)(params)
        updates, optimizer_state = optimizer.update(grads, optimizer_state, params)
        return optim.apply_updates(params, updates), optimizer_state, new_state, metrics

    return step


def evaluator(
    loss: Callable[..., Any], batch_size: int = EVALUATION_BATCH
) -> Callable[[Any, Any, Any], dict[str, float]]:
    """`(params, state, data)` to the means of the loss and its metrics over all data, without a key.

    batch_size: how many items are evaluated at once. The means do not depend on it, but by rounding.
    """

    @jit
    def totals(params: Any, state: Any, batch: Any) -> Any:
        value, metrics, _ = _called(loss, params, state, batch, None)
        return tree_map(lambda mean: mean * len(tree_leaves(batch)[0]), {"loss": value, **metrics})

    def evaluate(params: Any, state: Any, data: Any) -> dict[str, float]:
        found = [totals(params, state, batch) for batch in batches(data, batch_size)]
        return {name: total * len(found) / len(tree_leaves(data)[0]) for name, total in _means(found).items()}

    return evaluate


def _called(loss: Callable[..., Any], params: Any, state: Any, batch: Any, key: Any) -> tuple[Any, dict[str, Any], Any]:
    """The loss, its metrics and the new state, whatever of them the function gives."""
    given = loss(params, batch, key) if state is None else loss(params, state, batch, key)
    if not isinstance(given, tuple):
        given = (given, {})
    return given if state is not None else (*given, None)


def _check_sizes(run: Run, sizes: np.ndarray) -> None:
    if run.sizes is not None and (kept := np.asarray(run.sizes)).tolist() != sizes.tolist():
        raise ArgumentError(
            f"epochs: the run stopped after step {int(run.step)} of epoch {int(run.epoch) + 1} with batches of "
            f"{kept[0]} of {kept[1]} items; here they are {sizes[0]} of {sizes[1]}, so that some items would be "
            "met twice and others not at all: finish the epoch as it began, or go on from the end of an epoch"
        )


def copied(tree: Any) -> Any:
    """A pytree of arrays in memory of its own."""
    return tree_map(jnp.copy, tree)


def _count(number: int) -> Any:
    return jnp.asarray(number, "int32")


def _stacked(found: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """The metrics of steps as one array each."""
    return {name: np.stack([np.asarray(metrics[name]) for metrics in found]) for name in found[0]}


def _steps(stacked: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The metrics of each step."""
    return [] if stacked is None else [dict(zip(stacked, row)) for row in zip(*map(np.asarray, stacked.values()))]


def _bar(steps: int, label: str) -> Progress:
    return Progress(steps, label, leave=False, plain_interval=_PLAIN_INTERVAL)


def _recent_loss(found: list[dict[str, Any]]) -> str:
    return f"loss {_means(found[-_SHOWN_LOSSES:])['loss']:.4f}"


def _means(found: list[dict[str, Any]]) -> dict[str, float]:
    names = ["loss", *(name for name in found[0] if name != "loss")]
    return {name: float(np.mean([float(metrics[name]) for metrics in found])) for name in names}
