"""What `fit` is given, looked at before it begins, so that no epoch is trained in vain.

Knows runs, losses and data; nothing of the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad.api import eval_shape
from functad.data import batches
from functad.data.batching import Items
from functad.errors import ArgumentError
from functad.train.evaluating import check_not_empty, evaluated
from functad.train.runs import Run


def check_options(loss: Any, until: Any, patience: Any, monitor: Any, **calls: Any) -> None:
    """Raise unless these are a function, the last epoch, one of epochs to wait or None, a name, functions or None."""
    if not callable(loss):
        raise ArgumentError(
            f"fit: loss is a {type(loss).__name__}; it is a function loss(params, batch, key) that gives the mean loss "
            "of a batch"
        )
    if not hasattr(until, "__index__"):
        raise ArgumentError(f"fit: until is {until!r}; it is the number of the last epoch, an integer")
    if patience is not None and (not hasattr(patience, "__index__") or patience < 1):
        raise ArgumentError(
            f"fit: patience is {patience!r}; it is the number of epochs to wait for a better one, 1 or more"
        )
    if not isinstance(monitor, str):
        raise ArgumentError(f"fit: monitor is {monitor!r}; it is the name of the metric to watch, such as 'loss'")
    for name, call in calls.items():
        if call is not None and not callable(call):
            raise ArgumentError(f"fit: {name} is {call!r}; it is called with an Epoch, so give a function, or None")


def check_data(run: Run, data: Any, batch_size: Any) -> np.ndarray:
    """The `sizes` of runs within epochs of these data; raises where a run cannot go on with them.

    Raises:
        ArgumentError: no array, fewer items than one batch; or the run stopped within an epoch of other batches.
        ShapeError: arrays without axis 0, or of unequal lengths there.
    """
    if (length := Items(data, batch_size, "fit").length) < batch_size:
        raise ArgumentError(
            f"fit: there are {length} items to train on, fewer than one batch of {batch_size}; use a smaller batch"
        )
    sizes = np.array([batch_size, length], np.int32)
    if run.sizes is not None and (kept := np.asarray(run.sizes)).tolist() != sizes.tolist():
        raise ArgumentError(
            f"fit: the run stopped after step {int(run.step)} of epoch {int(run.epoch) + 1} with batches of "
            f"{kept[0]} of {kept[1]} items; here they are {sizes[0]} of {sizes[1]}, so that some items would be "
            "met twice and others not at all: finish the epoch as it began, or go on from the end of an epoch"
        )
    return sizes


def check_monitor(loss: Callable[..., Any], run: Run, data: Any, test: Any, batch_size: int, monitor: str) -> None:
    """Raise unless the loss gives the metric to watch; it is traced with the data that metrics will be looked at of."""
    if test is None and monitor == "loss":
        return  # the first step shows all that could be wrong
    if test is not None:
        check_not_empty(test)
    batch, key = batches(data if test is None else test, batch_size)[0], run.key if test is None else None

    def metrics(params: Any, state: Any, batch: Any, key: Any) -> Any:
        return evaluated(loss, params, state, batch, key)[1]

    names = ["loss", *eval_shape(metrics, run.params, run.state, batch, key)]
    if monitor not in names:
        raise ArgumentError(
            f"fit: there is no metric {monitor!r} to watch; the loss gives {', '.join(map(repr, names))}"
        )
