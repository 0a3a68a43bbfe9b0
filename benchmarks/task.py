"""What a workload says of itself: its arrays, its optimizer, and its form in each framework.

Knows NumPy only; the frameworks are in `frameworks/`, the workloads in `workloads/`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

Arrays = dict[str, np.ndarray]


class Sgd(NamedTuple):
    """Gradient descent."""

    rate: float


class Adam(NamedTuple):
    """Adam (Kingma and Ba 2015), without weight decay."""

    rate: float
    b1: float = 0.9
    b2: float = 0.999
    eps: float = 1e-8


def _same(value: Any) -> Any:
    return value


class Form(NamedTuple):
    """A workload in one framework.

    Attributes:
        function: builds the loss `(params, *batch) -> scalar`, or what is called; it imports the framework.
        convert: from the task's arrays to those in the framework's favourite layout.
        restore: back, for the comparison of results.
        batch: from the task's batch to the framework's, or from the task's arguments.
    """

    function: Callable[[], Callable[..., Any]]
    convert: Callable[[Arrays], Arrays] = _same
    restore: Callable[[Arrays], Arrays] = _same
    batch: Callable[..., tuple[Any, ...]] = lambda *arrays: arrays


class Training(NamedTuple):
    """A training step to repeat: forward, backward, update.

    Attributes:
        params: float32 arrays by name.
        batches: what the steps take in turn.
        optimizer: what turns gradients into steps.
        forms: framework → the loss.
    """

    params: Arrays
    batches: list[tuple[np.ndarray, ...]]
    optimizer: Sgd | Adam
    forms: Mapping[str, Form]


class Calling(NamedTuple):
    """A compiled function to call again and again with the same arguments; `convert` is not used.

    Attributes:
        arguments: pytrees of arrays.
        forms: framework → the function; `restore` takes its results, by position, as a dict of arrays.
        on_device: whether the arguments are arrays of the framework, or stay NumPy's.
        waited_for: whether each result is waited for before the next call, so that no two calls run at once.
    """

    arguments: tuple[Any, ...]
    forms: Mapping[str, Form]
    on_device: bool = True
    waited_for: bool = False


class Copying(NamedTuple):
    """Copies between arrays of each core's own, with nothing to wait for between them: what memory can do at best.

    Attributes:
        bytes: what all cores together read and write in a step.
        forms: framework → nothing more to say.
    """

    bytes: int
    forms: Mapping[str, Form]


class Outcome(NamedTuple):
    """What one step from the start, or one call, gave.

    Attributes:
        values: arrays that are compared whole: the loss, gradients, results.
        updates: for Adam the changes of the parameters, which are compared where the gradient is no rounding error.
        rounding: of values that are found as differences, by how much numbers of float32 make them differ anyway.
    """

    values: Arrays
    updates: Arrays
    rounding: Arrays = {}  # noqa: RUF012  (nobody changes it)
