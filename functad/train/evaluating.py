"""Validation: the means of a loss and its metrics over data.

Knows losses as functions; nothing of steps or optimizers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad import numpy as jnp
from functad.api import jit
from functad.api.bodies import explained_call
from functad.array import Array
from functad.data import batches
from functad.errors import ArgumentError
from functad.numpy.promotion import widened
from functad.train.steps import StepMetrics
from functad.tree_util import tree_leaves, tree_map

# Items that are evaluated at once, if nothing else is said.
EVALUATION_BATCH = 250
# While training, so many at least: as many as in a step need no more memory than a step, but calls should not be many.
FEWEST_EVALUATED = 64


def evaluator(
    loss: Callable[..., Any], batch_size: int = EVALUATION_BATCH
) -> Callable[[Any, Any, Any], dict[str, float]]:
    """`(params, state, data)` to the means of the loss and its metrics over all data, without a key.

    batch_size: how many items are evaluated at once. The means do not depend on it, but by rounding.

    >>> import numpy as np
    >>> evaluator(lambda w, batch, key: (w * batch).mean())(2.0, None, np.arange(5.0))
    {'loss': 4.0}
    """

    @jit
    def totals(params: Any, state: Any, batch: Any) -> Any:
        value, metrics, _ = evaluated(loss, params, state, batch, None)
        length = len(tree_leaves(batch)[0])  # no mean of 16 bits is multiplied in its own
        return tree_map(lambda mean: widened(mean) * length, {"loss": value, **metrics})

    def evaluate(params: Any, state: Any, data: Any) -> dict[str, float]:
        found, length = StepMetrics(), check_not_empty(data)
        for batch in batches(data, batch_size):
            found.append(totals(params, state, batch))
        return {name: total * len(found) / length for name, total in found.means().items()}

    return evaluate


def check_not_empty(data: Any) -> int:
    """How many items there are to validate with; raises if there are none."""
    leaves = tree_leaves(data)
    if not leaves or not len(leaves[0]):
        raise ArgumentError("the data to validate with have no items; give some, or test=None")
    return len(leaves[0])


def evaluated(
    loss: Callable[..., Any], params: Any, state: Any, batch: Any, key: Any
) -> tuple[Any, dict[str, Any], Any]:
    """The loss, its metrics and the new state, whatever of them the function gives.

    >>> evaluated(lambda w, batch, key: w * batch, 2.0, None, 3.0, None)
    (6.0, {}, None)
    """
    args = (params, batch, key) if state is None else (params, state, batch, key)
    with explained_call(loss, len(args), "fit"):
        given = loss(*args)
    if state is None and not isinstance(given, tuple):
        given = (given, {})
    if not isinstance(given, tuple) or len(given) != (2 if state is None else 3) or not _are_metrics(given[1]):
        expected = "the mean loss, or (loss, metrics)" if state is None else "(loss, metrics, state)"
        raise ArgumentError(
            f"the loss gave {_words(given)}; it gives {expected}, where metrics are a dict of means, one number each"
        )
    return given if state is not None else (*given, None)


def _are_metrics(given: Any) -> bool:
    """Whether these are numbers by name."""
    return isinstance(given, dict) and all(isinstance(name, str) and _is_number(given[name]) for name in given)


def _is_number(value: Any) -> bool:
    return isinstance(value, (Array, np.ndarray, np.generic, bool, int, float)) and jnp.ndim(value) == 0


def _words(given: Any) -> str:
    """What a loss gave, its arrays as types."""
    return str(tree_map(lambda leaf: leaf.aval.str_short() if hasattr(leaf, "aval") else leaf, given)).replace("'", "")
