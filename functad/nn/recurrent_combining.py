"""Recurrent layers in both directions and one after another: `Bidirectional` and `stacked`.

Knows recurrent layers by their `apply` only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functad import numpy as jnp
from functad.api import eval_shape
from functad.errors import ArgumentError
from functad.nn.combining import check_entries, split_key
from functad.nn.layer import Layer, apply_part, check_keys, check_layers, struct_of
from functad.nn.ragged import each_step, values_of, with_values
from functad.nn.recurrent import Recurrent, recurrent_layer
from functad.random import split


def _concatenated(outputs: tuple[Any, Any]) -> Any:
    return jnp.concatenate(outputs, axis=-1)


def Bidirectional(layer: Recurrent, join: Callable[[tuple[Any, Any]], Any] = _concatenated) -> Recurrent:
    """A recurrent layer twice: one goes over the steps forwards, another backwards (Schuster and Paliwal 1997).

    Over `Ragged` sequences the second one starts at the last step that counts of each. Where only the last output is
    asked for, that is the last of each direction: the second has seen all steps, too.

    Args:
        layer: made by `RNN`, `LSTM`, `GRU` or `stacked`.
        join: makes the output of the pair (forward, backward); by default concatenates along the last axis.

    Returns:
        A layer whose params are a dict, "forward" and "backward", of those of both directions, and whose state is a
        pair.

    Raises:
        ArgumentError: the argument is no recurrent layer.
        TreeError: when it is applied, params are no such dict as `init` gives.

    >>> import functad, functad.numpy as jnp
    >>> from functad import nn
    >>> layer = nn.Bidirectional(nn.LSTM(32, return_sequences=True))
    >>> x = jnp.ones((8, 28, 28))
    >>> layer.apply(layer.init(functad.random.key(0), x), x).shape
    (8, 28, 64)
    """
    name = "Bidirectional"
    if not isinstance(layer, Recurrent):
        raise ArgumentError(f"{name}: {layer!r:.80} is no recurrent layer; pass one such as nn.LSTM(64)")

    def init(key: Any, x: Any) -> dict[str, Any]:
        forward_key, backward_key = split(key)
        return {"forward": layer.init(forward_key, x), "backward": layer.init(backward_key, x)}

    def run(
        params: Any, x: Any, state: Any, reverse: bool, return_sequences: bool | None, key: Any, train: bool
    ) -> tuple[Any, Any]:
        check_keys(params, ("forward", "backward"), name)
        states, keys = _states(state, 2, name), split_key(key, 2)
        options: dict[str, Any] = {"return_sequences": return_sequences, "return_state": True, "train": train}
        forward, forward_state = apply_part(
            layer, "forward", params["forward"], x, state=states[0], reverse=reverse, key=keys[0], **options
        )
        backward, backward_state = apply_part(
            layer, "backward", params["backward"], x, state=states[1], reverse=not reverse, key=keys[1], **options
        )
        y = join((values_of(forward), values_of(backward)))
        return with_values(forward, y), (forward_state, backward_state)

    return recurrent_layer(name, init, run)


def stacked(*layers: Layer) -> Recurrent:
    """Layers one after another, as in `serial`, that are one recurrent layer: its `state` holds that of each.

    All recurrent layers but the last give the next one their output of every step, however they were made. The others
    work on each step by itself (`each_step`).

    Args:
        layers: at least one of them recurrent.

    Returns:
        A layer whose params and whose state are tuples, one entry a layer; the state of a layer without one is ().

    Raises:
        ArgumentError: an argument is no layer, or none is recurrent.

    >>> import functad, functad.numpy as jnp
    >>> from functad import nn
    >>> network = nn.stacked(nn.Embedding(50, 16), nn.LSTM(32), nn.Dropout(0.2), nn.LSTM(32), nn.Dense(2))
    >>> words = jnp.ones((8, 20), dtype="int32")
    >>> params = network.init(functad.random.key(0), words)
    >>> network.apply(params, words).shape
    (8, 2)
    >>> scores, state = network.apply(params, words, return_sequences=True, return_state=True)
    >>> scores.shape, [len(part) for part in state]
    ((8, 20, 2), [0, 2, 0, 2, 0])
    """
    name = "stacked"
    check_layers(layers, name)
    recurrent = [i for i, layer in enumerate(layers) if isinstance(layer, Recurrent)]
    if not recurrent:
        raise ArgumentError(f"{name}: none of the {len(layers)} layers is recurrent; use serial")
    last = recurrent[-1]

    def run_one(
        i: int, params: Any, x: Any, state: Any, reverse: bool, return_sequences: bool | None, key: Any, train: bool
    ) -> tuple[Any, Any]:
        layer = layers[i]
        if not isinstance(layer, Recurrent):
            return apply_part(each_step(layer), i, params, x, key=key, train=train), ()
        return apply_part(
            layer,
            i,
            params,
            x,
            state=state,
            reverse=reverse,
            return_sequences=return_sequences if i == last else True,
            return_state=True,
            key=key,
            train=train,
        )

    def init(key: Any, x: Any) -> tuple[Any, ...]:
        x = struct_of(x)
        params = []
        for i, layer_key in enumerate(split_key(key, len(layers))):
            params.append(
                each_step(layers[i]).init(layer_key, x) if i not in recurrent else layers[i].init(layer_key, x)
            )
            x, _ = eval_shape(lambda p, x, i=i: run_one(i, p, x, None, False, None, None, False), params[-1], x)
        return tuple(params)

    def run(
        params: Any, x: Any, state: Any, reverse: bool, return_sequences: bool | None, key: Any, train: bool
    ) -> tuple[Any, Any]:
        check_entries(params, layers, name)
        states = []
        old, keys = _states(state, len(layers), name), split_key(key, len(layers))
        for i in range(len(layers)):
            x, new = run_one(i, params[i], x, old[i], reverse, return_sequences, keys[i], train)
            states.append(new)
        return x, tuple(states)

    return recurrent_layer(name, init, run)


def _states(state: Any, count: int, name: str) -> Any:
    if state is None:
        return (None,) * count
    if not isinstance(state, (tuple, list)) or len(state) != count:
        raise ArgumentError(
            f"{name}: state must be a tuple of {count}, as apply(…, return_state=True) returned it, "
            f"but is of type {type(state).__name__}"
        )
    return state
