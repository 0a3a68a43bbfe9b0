"""Training on sequences too long to go back through: truncated back-propagation through time.

Knows nothing of layers: a loss carries a state of any form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from functad import lax
from functad import numpy as jnp
from functad.api import value_and_grad
from functad.api.arguments import check_callable
from functad.errors import ShapeError, check_int
from functad.tree_util import tree_leaves, tree_map


def windows(sequences: Any, size: int, axis: int = 1) -> Iterator[Any]:
    """The consecutive windows of long sequences, to go through with `truncated_bptt`.

    Args:
        sequences: a pytree of arrays with the same number of steps along `axis`.
        size: steps in a window. The last window is shorter if there is a rest.
        axis: the axis over the steps: by default that after the batch.

    Returns:
        An iterator of pytrees like `sequences`.

    Raises:
        ArgumentError: `size` is no positive int. ShapeError: the arrays differ in their number of steps.

    >>> [window.tolist() for window in windows(np.arange(5)[None], 2)]
    [[[0, 1]], [[2, 3]], [[4]]]
    """
    size = check_int(size, "windows: size", low=1)
    shapes = [jnp.shape(leaf) for leaf in tree_leaves(sequences)]
    if not all(-len(shape) <= axis < len(shape) for shape in shapes):
        raise ShapeError(f"windows: every array needs an axis {axis} over the steps, but the shapes are {shapes}")
    steps = {shape[axis] for shape in shapes}
    if len(steps) != 1:
        raise ShapeError(
            f"windows: the arrays must have one number of steps along axis {axis}, but their shapes are {shapes}"
        )
    return _cut(sequences, steps.pop(), int(size), axis)


def _cut(sequences: Any, steps: int, size: int, axis: int) -> Iterator[Any]:
    for start in range(0, steps, size):
        window = slice(start, start + size)
        yield tree_map(lambda x, window=window: x[(slice(None),) * (axis % np.ndim(x)) + (window,)], sequences)


def truncated_bptt(loss: Callable[..., tuple[Any, Any]]) -> Callable[..., tuple[tuple[Any, Any], Any]]:
    """The loss of a window, the state after it, and gradients that go back to the start of the window and no further.

    The state of the window before enters as a constant (`lax.stop_gradient`), so memory and time of a step depend on
    the length of a window alone, however long the sequence (Williams and Peng 1990).

    Args:
        loss: a function `(params, state, *window) → (loss, new state)`, the loss a scalar.

    Returns:
        A function `(params, state, *window) → ((loss, new state), gradients of params)`, to be used under `jit`.

    Raises:
        ArgumentError: the loss is no function.

    An example: to say what came two steps ago. The state is None for the first window of a sequence, then handed on:

    >>> import functad, functad.numpy as jnp, numpy as np
    >>> from functad import nn, optim
    >>> bits = np.random.default_rng(0).integers(0, 2, (16, 202))
    >>> inputs, wanted = bits[:, 2:, None].astype(np.float32), bits[:, :-2].astype(np.float32)
    >>> network = nn.stacked(nn.GRU(8, return_sequences=True), nn.Dense(1))
    >>> def loss(params, state, x, y):
    ...     scores, state = network.apply(params, x, state=state, return_state=True)
    ...     return nn.sigmoid_binary_cross_entropy(scores[..., 0], y).mean(), state
    >>> step = nn.truncated_bptt(loss)
    >>> params, optimizer = network.init(functad.random.key(0), inputs), optim.adam(0.05)
    >>> optimizer_state, losses = optimizer.init(params), []
    >>> for epoch in range(2):
    ...     state = None
    ...     for x, y in nn.windows((inputs, wanted), 10):
    ...         (value, state), grads = step(params, state, x, y)
    ...         updates, optimizer_state = optimizer.update(grads, optimizer_state, params)
    ...         params = optim.apply_updates(params, updates)
    ...         losses.append(float(value))
    >>> losses[0] > 0.6, losses[-1] < 0.2
    (True, True)
    """
    check_callable(loss, "truncated_bptt")
    gradient = value_and_grad(loss, has_aux=True)

    def step(params: Any, state: Any, *window: Any) -> tuple[tuple[Any, Any], Any]:
        return gradient(params, lax.stop_gradient(state), *window)

    return step
