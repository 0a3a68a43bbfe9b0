"""Optimizers for some of the params: by a mask, by labels, by key path.

Knows pytrees and optimizers as pairs of functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from functad import numpy as jnp
from functad.errors import ArgumentError
from functad.optim.optimizer import Optimizer, check_number, check_optimizer, map_leaves, stateless
from functad.records import NamedTuple
from functad.tree_util import (
    PyTreeDef,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_map,
    tree_map_with_path,
    tree_unflatten,
)

ParamMask = Any | Callable[[Any], Any]


class MaskedState(NamedTuple):
    """The state of the inner optimizer, for a dict of the chosen leaves by their key paths."""

    inner_state: Any


class PartitionState(NamedTuple):
    """The state of each optimizer, by its label."""

    inner_states: dict[Any, Any]


def by_path(chosen: Callable[[str], bool]) -> Callable[[Any], Any]:
    """The mask that a function of key paths makes, for `masked`, `freeze` and wherever there is a `mask`.

    Args:
        chosen: takes a key path such as `"['dense']['bias']"`, and tells whether the leaf is meant.

    Raises:
        ArgumentError: the argument is no function.

    >>> by_path(lambda path: "bias" not in path)({"dense": {"bias": 0.0, "kernel": 1.0}})
    {'dense': {'bias': False, 'kernel': True}}
    """
    if not callable(chosen):
        raise ArgumentError(
            f"by_path: {chosen!r:.80} is no function of key paths; pass one, such as lambda path: 'bias' in path"
        )
    return lambda params: tree_map_with_path(lambda path, _: bool(chosen(keystr(path))), params)


def masked(inner: Optimizer, mask: ParamMask) -> Optimizer:
    """An optimizer for the params that a mask chooses; the gradients of others go through as they are.

    Args:
        inner: the optimizer.
        mask: a pytree of booleans with the structure of the params, or of a part from the root on, or a function of
            the params that makes one, such as `by_path` gives.

    Raises:
        ArgumentError: the first argument is no optimizer. TreeError: the mask has another structure than the params.

    >>> import functad.numpy as jnp
    >>> from functad import optim
    >>> optimizer = masked(optim.scale(10.), {"a": True, "b": False})
    >>> grads = {"a": jnp.array(1.), "b": jnp.array(1.)}
    >>> optimizer.update(grads, optimizer.init(grads))[0]
    {'a': Array(10., dtype=float32, weak_type=True), 'b': Array(1., dtype=float32, weak_type=True)}
    """
    check_optimizer(inner, "masked: inner")

    def chosen_of(tree: Any, like: Any, name: str) -> tuple[dict[str, Any], dict[str, Any], PyTreeDef]:
        """What stands in a tree for the chosen leaves of another, and for all of them, by key path."""
        paths_and_leaves, structure = tree_flatten_with_path(like)
        found = structure.flatten_up_to(tree, name=name)  # a leaf may be `TableRows`
        by_path = {keystr(path): each for (path, _), each in zip(paths_and_leaves, found, strict=True)}
        flags = _spread(mask(like) if callable(mask) else mask, like, "mask")
        return {path: by_path[path] for path, flag in zip(by_path, flags, strict=True) if flag}, by_path, structure

    def init(params: Any) -> MaskedState:
        return MaskedState(inner.init(chosen_of(params, params, "params")[0]))

    def update(grads: Any, state: MaskedState, params: Any = None) -> tuple[Any, MaskedState]:
        like = grads if params is None else params
        chosen, by_path, structure = chosen_of(grads, like, "gradients")
        of_params = None if params is None else chosen_of(params, like, "params")[0]
        updates, inner_state = inner.update(chosen, state.inner_state, of_params)
        return tree_unflatten(structure, [*{**by_path, **updates}.values()]), MaskedState(inner_state)

    return Optimizer(init, update)


def multi_transform(transforms: Mapping[Any, Optimizer], param_labels: Any | Callable[[Any], Any]) -> Optimizer:
    """Another optimizer for each kind of params.

    Args:
        transforms: an optimizer for each label.
        param_labels: a pytree of labels with the structure of the params, or of a part from the root on, or a function
            of the params that makes one.

    Raises:
        ArgumentError: a label without optimizer. TreeError: the labels have another structure than the params.

    >>> import functad.numpy as jnp
    >>> from functad import optim
    >>> optimizer = multi_transform({"fast": optim.sgd(1.), "slow": optim.sgd(0.125)}, {"a": "fast", "b": "slow"})
    >>> grads = {"a": jnp.array(1.), "b": jnp.array(1.)}
    >>> optimizer.update(grads, optimizer.init(grads))[0]
    {'a': Array(-1., dtype=float32, weak_type=True), 'b': Array(-0.125, dtype=float32, weak_type=True)}
    """

    def labels_of(params: Any) -> list[Any]:
        labels = _spread(param_labels(params) if callable(param_labels) else param_labels, params, "param_labels")
        for label in labels:
            if label not in transforms:
                known = ", ".join(map(repr, transforms))
                raise ArgumentError(
                    f"multi_transform: the label {label!r} has no optimizer; there are some for {known}"
                )
        return labels

    def parts(params: Any) -> dict[Any, Optimizer]:
        labels, structure = labels_of(params), tree_flatten(params)[1]
        return {
            label: masked(optimizer, tree_unflatten(structure, [label == other for other in labels]))
            for label, optimizer in transforms.items()
        }

    def init(params: Any) -> PartitionState:
        return PartitionState({label: part.init(params) for label, part in parts(params).items()})

    def update(grads: Any, state: PartitionState, params: Any = None) -> tuple[Any, PartitionState]:
        states = {}
        for label, part in parts(grads if params is None else params).items():
            grads, states[label] = part.update(grads, state.inner_states[label], params)
        return grads, PartitionState(states)

    return Optimizer(init, update)


def add_decayed_weights(weight_decay: float = 0.0, mask: ParamMask | None = None) -> Optimizer:
    """Adds `weight_decay * params`: before the learning rate in a chain, weights shrink.

    Args:
        weight_decay: the factor.
        mask: of which params; see `masked`. None: of all.

    Raises:
        ArgumentError: `update` was called without params.

    >>> add_decayed_weights(0.5).update(1., (), 4.)
    (3.0, ())
    """
    check_number(weight_decay, "add_decayed_weights: weight_decay", low=0.0)

    def add(grads: Any, params: Any) -> Any:
        if params is None:
            raise ArgumentError("add_decayed_weights needs the params: call update(grads, state, params)")
        return map_leaves(lambda p, g: g + weight_decay * p, params=params, gradients=grads)

    return stateless(add) if mask is None else masked(stateless(add), mask)


def set_to_zero() -> Optimizer:
    """Updates of zero: params stay as they are.

    >>> import functad.numpy as jnp
    >>> set_to_zero().update(jnp.array(3.), ())[0]
    Array(0., dtype=float32, weak_type=True)
    """
    return stateless(lambda grads, params: tree_map(jnp.zeros_like, grads))


def freeze(mask: ParamMask) -> Optimizer:
    """Updates of zero where a mask says so: the last link of a chain that trains the other params only.

    Args:
        mask: as that of `masked`.

    >>> import functad.numpy as jnp
    >>> from functad import optim
    >>> optimizer = optim.chain(optim.sgd(1.), freeze(by_path(lambda path: "bias" in path)))
    >>> params = {"bias": jnp.array(1.), "kernel": jnp.array(1.)}
    >>> updates, state = optimizer.update(params, optimizer.init(params), params)
    >>> optim.apply_updates(params, updates)
    {'bias': Array(1., dtype=float32), 'kernel': Array(0., dtype=float32)}
    """
    return masked(set_to_zero(), mask)


def _spread(prefix: Any, tree: Any, name: str) -> list[Any]:
    """The leaves of a prefix tree, each as often as the tree has leaves below."""
    leaves, structure = tree_flatten(prefix)
    parts = structure.flatten_up_to(tree, name=name)
    return [leaf for leaf, part in zip(leaves, parts, strict=True) for _ in tree_flatten(part)[0]]
