"""What an optimizer is: a pair of pure functions, and how pairs are chained and applied.

This file must not know any particular optimizer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from functad import numpy as jnp
from functad.errors import ArgumentError
from functad.tree_util import tree_map


class Optimizer(NamedTuple):
    """An optimizer, or one step of one, as a pair of pure functions.

    Attributes:
        init: `init(params)` gives the state: a pytree of arrays.
        update: `update(grads, state, params=None)` gives `(updates, state)`. The updates have the structure
            of the params and are added to them by `apply_updates`.

    >>> import functad.numpy as jnp
    >>> from functad import optim
    >>> optimizer = optim.sgd(0.1)
    >>> params = {"w": jnp.array([1., 2.])}
    >>> state = optimizer.init(params)
    >>> updates, state = optimizer.update({"w": jnp.array([10., 0.])}, state, params)
    >>> optim.apply_updates(params, updates)
    {'w': Array([0., 2.], dtype=float32)}
    """

    init: Callable[[Any], Any]
    update: Callable[..., tuple[Any, Any]]


def apply_updates(params: Any, updates: Any) -> Any:
    """`params + updates`, leaf by leaf, in the dtypes of the params.

    Args:
        params: a pytree of arrays.
        updates: a pytree of the same structure.

    Raises:
        TreeError: the structures differ.

    >>> import functad.numpy as jnp
    >>> apply_updates((jnp.array(1.),), (jnp.array(0.5),))
    (Array(1.5, dtype=float32),)
    """
    return tree_map(_add, params, updates)


def chain(*steps: Optimizer) -> Optimizer:
    """One optimizer of several: the updates of each are the gradients of the next.

    Args:
        steps: optimizers; none leaves the gradients as they are.

    Returns:
        An optimizer whose state is the tuple of their states.

    Raises:
        ArgumentError: an argument is no optimizer, or a state belongs to another chain.

    >>> import functad.numpy as jnp
    >>> from functad import optim
    >>> optimizer = optim.chain(optim.clip_by_global_norm(1.), optim.sgd(0.5))
    >>> grads = jnp.array([3., 4.])
    >>> optimizer.update(grads, optimizer.init(grads))[0]
    Array([-0.3, -0.4], dtype=float32)
    """
    for i, step in enumerate(steps):
        if not isinstance(step, Optimizer):
            raise ArgumentError(f"chain: argument {i} is {step!r}, which is no Optimizer, such as optim.sgd(0.1)")

    def init(params: Any) -> tuple[Any, ...]:
        return tuple(step.init(params) for step in steps)

    def update(grads: Any, state: Any, params: Any = None) -> tuple[Any, tuple[Any, ...]]:
        if len(state) != len(steps):
            raise ArgumentError(
                f"chain: the state has {len(state)} entries for {len(steps)} optimizers; use the one that "
                "init of this chain made"
            )
        states = []
        for step, step_state in zip(steps, state, strict=True):
            grads, step_state = step.update(grads, step_state, params)
            states.append(step_state)
        return grads, tuple(states)

    return Optimizer(init, update)


def stateless(function: Callable[[Any, Any], Any]) -> Optimizer:
    """The optimizer of a function `(grads, params) -> updates`.

    >>> from functad import tree
    >>> stateless(lambda grads, params: tree.map(lambda g: -g, grads)).update(2., ())
    (-2.0, ())
    """

    def init(params: Any) -> tuple[()]:
        return ()

    def update(grads: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        return function(grads, params), state

    return Optimizer(init, update)


def _add(param: Any, update: Any) -> Any:
    param = jnp.asarray(param)
    return (param + update).astype(param.dtype)
