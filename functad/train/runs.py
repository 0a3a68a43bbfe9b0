"""What training goes on from, and what an epoch gave.

Knows optimizers as pairs of functions; nothing of the loop.
"""

from __future__ import annotations

from typing import Any

from functad import numpy as jnp
from functad import optim
from functad.optim.optimizer import check_optimizer
from functad.records import NamedTuple
from functad.tree_util import tree_map


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

    >>> import functad
    >>> run = functad.train.start([1.0], functad.optim.sgd(0.1), functad.random.key(0))
    >>> run.params, int(run.epoch), int(run.step)
    ([1.0], 0, 0)
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
        run: what training goes on from, a copy that stays; `run.params` are the parameters. A `History` keeps that of
            the last epoch, and of the best one the params and the state; of others it is None there.

    >>> import functad, functad.numpy as jnp
    >>> loss = lambda params, x, key: jnp.mean((x - params) ** 2)
    >>> key = functad.random.key(0)
    >>> history = functad.train.fit(loss, 0.0, functad.optim.sgd(0.5), jnp.ones(8), until=2, batch_size=4, key=key)
    >>> history.last.number, history.last.train, history.last.run.params
    (2, {'loss': 0.0}, Array(1., dtype=float32))
    """

    number: int
    seconds: float
    train: dict[str, float]
    test: dict[str, float]
    run: Any


def start(params: Any, optimizer: optim.Optimizer, key: Any, state: Any = None) -> Run:
    """A run before its first step.

    Raises:
        ArgumentError: the optimizer is none, such as a function that makes one.

    >>> from functad import optim, random
    >>> start([1.0], optim.sgd(0.1), random.key(0)).epoch
    Array(0, dtype=int32)
    """
    check_optimizer(optimizer, "fit: optimizer")
    return Run(params, optimizer.init(params), state, key, count(0), count(0))


def in_own_memory(tree: Any) -> Any:
    """A pytree of arrays in memory of its own."""
    return tree_map(jnp.copy, tree)


def count(number: int) -> Any:
    """A number of epochs or steps as a run holds it."""
    return jnp.asarray(number, "int32")
