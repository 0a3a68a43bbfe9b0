"""What an optimizer is: a pair of pure functions, and how pairs are chained and applied.

This file must not know any particular optimizer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functad import numpy as jnp
from functad.array import Array, ArrayImpl
from functad.dtypes import kind_of
from functad.errors import ArgumentError, ShapeError, TreeError
from functad.records import NamedTuple
from functad.tree_util import is_tree_node, keystr, tree_flatten_with_path, tree_unflatten


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


class SearchingOptimizer(Optimizer):
    """An optimizer that computes the loss at several places: what links of a line search are, and chains of them.

    Its `update` takes keywords more; see `scale_by_zoom_linesearch`.

    >>> import functad
    >>> isinstance(functad.optim.lbfgs(), functad.optim.SearchingOptimizer)
    True
    """

    __slots__ = ()


class TableRows(NamedTuple):
    """Some rows of a table, or what is to be added to them: see `lazy`.

    Attributes:
        indices: int32 of shape (n,), each row at most once; those beyond the table are no rows.
        values: of shape (n, …), a row for each index.

    >>> import functad.numpy as jnp
    >>> from functad.optim import TableRows
    >>> rows = TableRows(jnp.array([4, 1]), jnp.ones((2, 3)))
    >>> rows.values.shape
    (2, 3)
    """

    indices: Any
    values: Any


def apply_updates(params: Any, updates: Any) -> Any:
    """`params + updates`, leaf by leaf, in the dtypes of the params.

    Args:
        params: a pytree of arrays.
        updates: a pytree of the same structure and shapes; `TableRows` in place of an array are added to these rows of
            it.

    Raises:
        TreeError: the structures differ. ShapeError: a leaf has another shape.

    >>> import functad.numpy as jnp
    >>> from functad import optim
    >>> apply_updates((jnp.array(1.),), (jnp.array(0.5),))
    (Array(1.5, dtype=float32),)
    >>> apply_updates(jnp.zeros(3), optim.TableRows(jnp.array([1]), jnp.array([0.5])))
    Array([0. , 0.5, 0. ], dtype=float32)
    """
    return map_leaves(_add, TableRows, params=params, updates=updates)


def chain(*steps: Optimizer) -> Optimizer:
    """One optimizer of several: the updates of each are the gradients of the next.

    Args:
        steps: optimizers; none leaves the gradients as they are. Keywords of `update` go on to those that search.

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
        check_optimizer(step, f"chain: argument {i}")

    def init(params: Any) -> tuple[Any, ...]:
        return tuple(step.init(params) for step in steps)

    searching = [isinstance(step, SearchingOptimizer) for step in steps]

    def update(grads: Any, state: Any, params: Any = None, **loss: Any) -> tuple[Any, tuple[Any, ...]]:
        if not isinstance(state, (tuple, list)):
            raise ArgumentError(
                f"chain: the state is of type {type(state).__name__}; use the tuple that init of this chain made"
            )
        if len(state) != len(steps):
            raise ArgumentError(
                f"chain: the state has {len(state)} entries for {len(steps)} optimizers; use the one that "
                "init of this chain made"
            )
        if loss and not any(searching):
            raise ArgumentError(f"chain: none of the optimizers takes {', '.join(loss)}; a line search does")
        states = []
        for step, step_state, searches in zip(steps, state, searching, strict=True):
            grads, step_state = step.update(grads, step_state, params, **(loss if searches else {}))
            states.append(step_state)
        return grads, tuple(states)

    return (SearchingOptimizer if any(searching) else Optimizer)(init, update)


def map_leaves(function: Callable[..., Any], instead: type | None = None, /, **trees: Any) -> Any:
    """`tree_map` over trees whose names, those of the keywords, stand in the messages.

    In all trees but the first an object of the type `instead` may stand for a leaf; `function` looks at its shape.

    Raises:
        TreeError: a tree has another structure than the first. ShapeError: a leaf has another shape.
    """
    (first, tree), *others = trees.items()
    paths_and_leaves, structure = tree_flatten_with_path(tree)
    columns = []
    for name, other in others:
        column = structure.flatten_up_to(other, name=name)
        for (path, leaf), value in zip(paths_and_leaves, column, strict=True):
            if instead is not None and isinstance(value, instead):
                continue
            if is_tree_node(type(value)):
                raise TreeError(
                    f"at {name}{keystr(path)}: expected a leaf as in {first}, got a {type(value).__name__}; {name} "
                    f"must have the structure of {first}"
                )
            if jnp.shape(value) != jnp.shape(leaf):
                raise ShapeError(
                    f"{name}{keystr(path)} has shape {jnp.shape(value)}, but {first}{keystr(path)} has shape "
                    f"{jnp.shape(leaf)}; they must be the same"
                )
        columns.append(column)
    leaves = [leaf for _, leaf in paths_and_leaves]
    return tree_unflatten(structure, [function(*row) for row in zip(leaves, *columns, strict=True)])


def check_number(value: Any, argument: str, low: float = -math.inf, high: float = math.inf) -> None:
    """Raise unless an argument is a number within bounds; of a traced scalar only the shape and dtype are known."""
    wanted = "a number" if low == -math.inf else f"a number of at least {low:g}"
    wanted += "" if high == math.inf else f" and at most {high:g}"
    if isinstance(value, Array | np.ndarray | np.generic):
        fits = value.shape == () and kind_of(value.dtype) in "iuf"
    else:
        fits = isinstance(value, (int, float)) and not isinstance(value, bool)
    if fits and not (isinstance(value, Array) and not isinstance(value, ArrayImpl)):
        fits = math.isfinite(value) and low <= value <= high
    if not fits:
        raise ArgumentError(f"{argument}={value!r:.80} must be {wanted}")


def check_optimizer(value: Any, argument: str) -> None:
    """Raise unless an argument is an optimizer."""
    if not isinstance(value, Optimizer):
        raise ArgumentError(f"{argument} is {value!r:.80}, which is no Optimizer, such as optim.sgd(0.1)")


def stateless(f: Callable[[Any, Any], Any]) -> Optimizer:
    """The optimizer of a function `(grads, params) -> updates`.

    >>> from functad import tree
    >>> stateless(lambda grads, params: tree.map(lambda g: -g, grads)).update(2., ())
    (-2.0, ())
    """

    def init(params: Any) -> tuple[()]:
        return ()

    def update(grads: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        return f(grads, params), state

    return Optimizer(init, update)


def _add(param: Any, update: Any) -> Any:
    param = jnp.asarray(param)
    if not isinstance(update, TableRows):
        return (param + update).astype(param.dtype)
    if update.values.shape != (*update.indices.shape, *param.shape[1:]):
        raise ShapeError(
            f"apply_updates: the rows have indices of shape {update.indices.shape} and values of shape "
            f"{update.values.shape}, but the table has shape {param.shape}"
        )
    return param.at[update.indices].add(update.values.astype(param.dtype), mode="drop")
