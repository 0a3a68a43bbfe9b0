"""Optimizers for tables of which a step sees few rows: what a step costs are these rows, not the table.

Knows optimizers as pairs of functions, and tables as arrays whose first axis numbers the rows.
"""

from __future__ import annotations

from typing import Any

from functad import numpy as jnp
from functad.api import ShapeDtypeStruct, eval_shape
from functad.dtypes import kind_of
from functad.errors import ArgumentError, DTypeError, ShapeError
from functad.optim.optimizer import Optimizer, TableRows, check_optimizer
from functad.tree_util import tree_flatten, tree_unflatten


def rows_of(table: Any, numbers: Any) -> tuple[TableRows, Any]:
    """The rows of a table that some numbers name, each once, and where each number's row is among them.

    A loss that reads `rows.values[places]`, or `nn.Embedding` with `{"rows": rows.values}` as its params and `places`
    as its input, has a gradient of the size of these rows, where that in the table has the size of the table.

    Args:
        table: floats of shape (count, …).
        numbers: integers of any shape, 0..count - 1.

    Returns:
        `(rows, places)`: `rows` a `TableRows` with as many rows as there are numbers, `places` of the shape of
            `numbers`.
        What is left over, as numbers occur several times, has the index `count`, which is no row.

    Raises:
        ShapeError: the table has no rows. DTypeError: the numbers are no integers.

    >>> import functad.numpy as jnp
    >>> rows, places = rows_of(jnp.array([[1.], [2.], [3.]]), jnp.array([2, 0, 2]))
    >>> rows.indices, places
    (Array([0, 2, 3], dtype=int32), Array([1, 0, 1], dtype=int32))
    >>> rows.values[places]
    Array([[3.],
           [1.],
           [3.]], dtype=float32)
    """
    table, numbers = jnp.asarray(table), jnp.asarray(numbers)
    if table.ndim < 1:
        raise ShapeError("rows_of: the table must have shape (count, …), but is a scalar")
    if kind_of(numbers.dtype) not in "iu":
        raise DTypeError(f"rows_of: the numbers of rows have dtype {numbers.dtype.name}, but must be integers")
    indices, places = jnp.unique(
        numbers.ravel().astype("int32"), return_inverse=True, size=numbers.size, fill_value=table.shape[0]
    )
    values = table.at[indices].get(mode="fill", fill_value=0)
    return TableRows(indices, values), places.reshape(numbers.shape)


def lazy(inner: Optimizer) -> Optimizer:
    """An optimizer for tables that looks at the rows of a step alone: "lazy" or "sparse" Adam is `lazy(adam(…))`.

    This is other mathematics than that of the optimizer itself. There the means of rows without a gradient fade, and
    momentum moves them; here they and their rows stay as they are until the row occurs again, and a schedule, or Adam's
    correction for having started from zero, goes by the steps of all. For `sgd` without momentum both are the same.

    Args:
        inner: an optimizer that works on each element, or each row, by itself, such as `adam`, `adagrad`, `rmsprop` or
            `sgd` with momentum: what it keeps of a table is an array for each row, or does not depend on how many rows
            there are. Norms are those of the rows of a step.

    Returns:
        An optimizer of a pytree of tables, floats of shape (count, …). Its `update` takes `TableRows` in place of each
        table's gradient, each row at most once, as `rows_of` gives them, and gives `TableRows`, which `apply_updates`
        adds to the tables. Under `jit`, with tables and state donated, all is done where they lie.

    Raises:
        ArgumentError: a gradient is no `TableRows`, or the state of `inner` cannot be taken apart by rows.
        ShapeError: the rows of a gradient are not those of its table.

    >>> import functad, functad.numpy as jnp
    >>> from functad import optim
    >>> table, words = jnp.ones((1000, 2)), jnp.array([7, 3, 7])
    >>> optimizer = lazy(optim.adam(0.1))
    >>> state = optimizer.init(table)
    >>> rows, places = optim.rows_of(table, words)
    >>> gradient = functad.grad(lambda values: values[places].sum())(rows.values)
    >>> updates, state = optimizer.update(rows._replace(values=gradient), state, table)
    >>> optim.apply_updates(table, updates)[:8:3, 0].round(4)
    Array([1. , 0.9, 1. ], dtype=float32)
    """
    check_optimizer(inner, "lazy: inner")

    def init(params: Any) -> Any:
        tables, structure = tree_flatten(params)
        for table in tables:
            _layout(inner, jnp.asarray(table))
        return tree_unflatten(structure, [inner.init(table) for table in tables])

    def update(grads: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        if params is None:
            raise ArgumentError("lazy needs the tables: call update(grads, state, params)")
        tables, structure = tree_flatten(params)
        rows = structure.flatten_up_to(grads, name="gradients")
        states = structure.flatten_up_to(state, name="state")
        found = [_step(inner, *each) for each in zip(tables, rows, states, strict=True)]
        updates, new = ([pair[i] for pair in found] for i in (0, 1))
        return tree_unflatten(structure, updates), tree_unflatten(structure, new)

    return Optimizer(init, update)


def _step(inner: Optimizer, table: Any, rows: Any, state: Any) -> tuple[TableRows, Any]:
    """The updates of some rows of a table, and the state of all."""
    if not isinstance(rows, TableRows):
        raise ArgumentError(
            f"lazy: a gradient is of type {type(rows).__name__}, but must be TableRows(indices, values); optim.rows_of("
            "table, numbers) gives the rows to take it of"
        )
    table = jnp.asarray(table)
    if rows.values.shape != (*rows.indices.shape, *table.shape[1:]):
        raise ShapeError(
            f"lazy: the gradient has indices of shape {rows.indices.shape} and values of shape {rows.values.shape}, "
            f"but the table has shape {table.shape}"
        )
    by_row = _layout(inner, table)
    leaves, structure = tree_flatten(state)

    def few(x: Any) -> Any:
        return x.at[rows.indices].get(mode="fill", fill_value=0)

    of_rows = [few(leaf) if flag else leaf for leaf, flag in zip(leaves, by_row, strict=True)]
    values, new = inner.update(rows.values, tree_unflatten(structure, of_rows), few(table))
    merged = [
        old.at[rows.indices].set(leaf, mode="drop") if flag else leaf
        for old, leaf, flag in zip(leaves, tree_flatten(new)[0], by_row, strict=True)
    ]
    return TableRows(rows.indices, values), tree_unflatten(structure, merged)


def _layout(inner: Optimizer, table: Any) -> list[bool]:
    """Of each array that an optimizer keeps of a table, whether it holds something for each row."""
    count, *rest = table.shape

    def shapes(rows: int) -> list[tuple[int, ...]]:
        kept = eval_shape(inner.init, ShapeDtypeStruct((rows, *rest), table.dtype))
        return [tuple(leaf.shape) for leaf in tree_flatten(kept)[0]]

    of_all, of_more = shapes(count), shapes(count + 1)
    flags = []
    for shape, other in zip(of_all, of_more):
        flags.append(shape != other)
        if len(of_all) != len(of_more) or (shape != other and (shape[:1] != (count,) or shape[1:] != other[1:])):
            raise ArgumentError(
                f"lazy: of a table of shape {table.shape} the optimizer keeps an array of shape {shape}, which has no "
                "entry for each row; use one that works element by element, such as optim.adam(0.001)"
            )
    return flags
