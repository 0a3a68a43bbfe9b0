"""The recurrent layers over whole sequences: RNN, LSTM, GRU.

Knows how a cell is looped over steps, and how its params begin; the equations are in `cells.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from functad import lax, random
from functad import numpy as jnp
from functad.errors import ArgumentError, DTypeError, ShapeError, check_int
from functad.nn.cells import gru_step, lstm_step, projected, rnn_step
from functad.nn.functions import tanh
from functad.nn.initializers import Initializer, glorot_uniform, zeros
from functad.nn.layer import Layer, check_floats, check_params, struct_of
from functad.nn.ragged import Ragged, check_lengths, length_mask, values_of, with_values
from functad.records import NamedTuple
from functad.tree_util import tree_map

_GLOROT = glorot_uniform()


class RecurrentApply(Protocol):
    """The second half of a recurrent layer."""

    def __call__(
        self,
        params: Any,
        x: Any,
        *,
        state: Any = None,
        reverse: bool = False,
        return_sequences: bool | None = None,
        return_state: bool = False,
        key: Any = None,
        train: bool = False,
    ) -> Any: ...


class Recurrent(Layer):
    """A layer that goes over the steps of sequences: what `RNN`, `LSTM`, `GRU`, `Bidirectional` and `stacked` make.

    Inputs have shape (batch, steps, inputs), or are `Ragged`; more or no batch axes will do. `apply` is that of every
    layer, with four keywords more:

        apply(params, x, *, state=None, reverse=False, return_sequences=None, return_state=False, key=None, train=False)

    - state: what the first step starts with: a state that the layer returned, or zeros of that form. None: zeros, or
      what was learned.
    - reverse: go from the last step to the first (of a `Ragged` sequence: from the last that counts). Outputs stay in
      the order of the inputs.
    - return_sequences: give the output of every step, (batch, steps, features), or that of the last step,
      (batch, features). None: as the layer was made.
    - return_state: give the pair (output, state after the last step).

    The state of `RNN` and `GRU` is an array h of shape (batch, features); that of `LSTM` a pair (h, c) of such arrays.

    >>> import functad, functad.numpy as jnp
    >>> from functad import nn
    >>> layer = nn.LSTM(4)
    >>> x = jnp.ones((2, 6, 3))
    >>> params = layer.init(functad.random.key(0), x)
    >>> whole = layer.apply(params, x)
    >>> _, state = layer.apply(params, x[:, :4], return_state=True)
    >>> bool(abs(layer.apply(params, x[:, 4:], state=state) - whole).max() < 1e-6)
    True
    """

    __slots__ = ()
    apply: RecurrentApply


def recurrent_layer(name: str, init: Callable[[Any, Any], Any], run: Callable[..., tuple[Any, Any]]) -> Recurrent:
    """The layer of `run(params, x, state, reverse, return_sequences, key, train)`, which gives (output, last state)."""

    def apply(
        params: Any,
        x: Any,
        *,
        state: Any = None,
        reverse: bool = False,
        return_sequences: bool | None = None,
        return_state: bool = False,
        key: Any = None,
        train: bool = False,
    ) -> Any:
        y, last = run(params, x, state, reverse, return_sequences, key, train)
        return (y, last) if return_state else y

    return Recurrent(init, apply, name)


def RNN(
    features: int,
    nonlinearity: Callable[[Any], Any] = tanh,
    return_sequences: bool = False,
    learned_state: bool = False,
    use_bias: bool = True,
    kernel_init: Initializer = _GLOROT,
    recurrent_init: Initializer = _GLOROT,
    bias_init: Initializer = zeros,
    unroll: int | bool = 1,
) -> Recurrent:
    """The simple recurrent network (Elman 1990): h' = f(x @ kernel + bias + h @ recurrent_kernel) at each step.

    Args:
        features: the size of the state and of the output.
        nonlinearity: f, such as `nn.tanh`, `nn.relu` or `nn.identity`.
        return_sequences: whether the output is that of every step, (batch, steps, features), or of the last one.
        learned_state: make the state before the first step a parameter; without, it is zero.
        use_bias: whether to add a bias.
        kernel_init, recurrent_init, bias_init: called as `init(key, shape, dtype)`. For long sequences
            `initializers.orthogonal()` is a good choice for `recurrent_init`.
        unroll: as in `lax.scan`.

    Returns:
        A layer (see `Recurrent`) from (batch, steps, inputs). Its params are a dict: "kernel" of shape
        (inputs, features), "recurrent_kernel" (features, features), with `use_bias` "bias" (features,), and with
        `learned_state` "initial_state" (features,).

    Raises:
        ArgumentError: an argument is not what it should be. ShapeError: an input or a state does not fit.
        DTypeError: the input holds no floats. TreeError: the params are not those of such a layer.

    >>> import functad, functad.numpy as jnp
    >>> layer = RNN(64)
    >>> x = jnp.ones((8, 4, 196))
    >>> params = layer.init(functad.random.key(0), x)
    >>> layer.apply(params, x).shape
    (8, 64)
    """
    if not callable(nonlinearity):
        raise ArgumentError(f"RNN({features}): nonlinearity must be a function such as nn.tanh, got {nonlinearity!r}")
    cell = _Cell(partial(rnn_step, nonlinearity=nonlinearity), blocks=1)
    inits = _Inits(kernel_init, recurrent_init, bias_init)
    return _recurrent("RNN", features, cell, inits, return_sequences, learned_state, use_bias, unroll)


def LSTM(
    features: int,
    return_sequences: bool = False,
    learned_state: bool = False,
    use_bias: bool = True,
    forget_bias: float = 1.0,
    kernel_init: Initializer = _GLOROT,
    recurrent_init: Initializer = _GLOROT,
    bias_init: Initializer = zeros,
    unroll: int | bool = 1,
) -> Recurrent:
    """The LSTM (Hochreiter and Schmidhuber 1997), by the equations of `lstm_cell`, which are PyTorch's.

    Args:
        features: the size of h, c and the output, which is h.
        forget_bias: what `init` adds to the bias of the forget gate; 1 makes it remember at first (Jozefowicz 2015).
        return_sequences, learned_state, use_bias, kernel_init, recurrent_init, bias_init, unroll: as in `RNN`. The
            initializers make one block of `features` columns for each gate.

    Returns:
        A layer (see `Recurrent`) from (batch, steps, inputs). Its params are a dict: "kernel" of shape
        (inputs, 4 features), "recurrent_kernel" (features, 4 features), with `use_bias` "bias" (4 features,), and with
        `learned_state` "initial_state" (2, features), h before c. The columns are the gates i, f, g, o.

    Raises:
        ArgumentError, ShapeError, DTypeError, TreeError: as in `RNN`.

    >>> import functad, functad.numpy as jnp
    >>> layer = LSTM(64, return_sequences=True)
    >>> x = jnp.ones((8, 28, 28))
    >>> params = layer.init(functad.random.key(0), x)
    >>> params["kernel"].shape, layer.apply(params, x).shape
    ((28, 256), (8, 28, 64))
    """

    def gates_bias(key: Any, shape: Any, dtype: Any = None) -> Any:
        start = bias_init(key, shape, dtype)
        return start.at[features : 2 * features].add(forget_bias) if forget_bias else start

    cell = _Cell(lstm_step, blocks=4, states=2)
    inits = _Inits(kernel_init, recurrent_init, gates_bias)
    return _recurrent("LSTM", features, cell, inits, return_sequences, learned_state, use_bias, unroll)


def GRU(
    features: int,
    return_sequences: bool = False,
    learned_state: bool = False,
    use_bias: bool = True,
    kernel_init: Initializer = _GLOROT,
    recurrent_init: Initializer = _GLOROT,
    bias_init: Initializer = zeros,
    unroll: int | bool = 1,
) -> Recurrent:
    """The GRU (Cho et al. 2014), by the equations of `gru_cell`, which are PyTorch's.

    Args:
        features: the size of the state and of the output.
        return_sequences, learned_state, use_bias, kernel_init, recurrent_init, bias_init, unroll: as in `RNN`. The
            initializers make one block of `features` columns for each gate.

    Returns:
        A layer (see `Recurrent`) from (batch, steps, inputs). Its params are a dict: "kernel" of shape
        (inputs, 3 features), "recurrent_kernel" (features, 3 features), with `use_bias` "bias" (3 features,) and
        "recurrent_bias" (features,), and with `learned_state` "initial_state" (features,). The columns are r, z, n.

    Raises:
        ArgumentError, ShapeError, DTypeError, TreeError: as in `RNN`.

    >>> import functad, functad.numpy as jnp
    >>> layer = GRU(64)
    >>> x = jnp.ones((8, 28, 28))
    >>> params = layer.init(functad.random.key(0), x)
    >>> params["kernel"].shape, layer.apply(params, x).shape
    ((28, 192), (8, 64))
    """
    cell = _Cell(gru_step, blocks=3, recurrent_bias=True)
    inits = _Inits(kernel_init, recurrent_init, bias_init)
    return _recurrent("GRU", features, cell, inits, return_sequences, learned_state, use_bias, unroll)


# --- what the three have in common --------------------------------------------------------------------


class _Cell(NamedTuple):
    step: Callable[[Any, Any, Any], tuple[Any, Any]]  # (params, state, projected input) → (state, output)
    blocks: int  # of columns in the kernels: one for each gate
    states: int = 1  # arrays in the state; the first is the output
    recurrent_bias: bool = False  # whether a bias is added to the product of the state


class _Inits(NamedTuple):
    kernel: Initializer
    recurrent: Initializer
    bias: Initializer


def _recurrent(
    kind: str,
    features: int,
    cell: _Cell,
    inits: _Inits,
    return_sequences: bool,
    learned_state: bool,
    use_bias: bool,
    unroll: int | bool,
) -> Recurrent:
    features = check_int(features, f"{kind}: features", low=1)
    name, as_made = f"{kind}({features})", return_sequences
    columns = cell.blocks * features
    wanted: dict[str, tuple[int | None, ...]] = {"kernel": (None, columns), "recurrent_kernel": (features, columns)}
    if use_bias:
        wanted["bias"] = (columns,)
        if cell.recurrent_bias:
            wanted["recurrent_bias"] = (features,)
    state_shape = (features,) if cell.states == 1 else (cell.states, features)
    if learned_state:
        wanted["initial_state"] = state_shape

    def init(key: Any, x: Any) -> dict[str, Any]:
        x = values_of(struct_of(x))
        _check_sequences(x, None, name)
        kernel_key, recurrent_key, bias_key, recurrent_bias_key = random.split(key, 4)
        params = {
            "kernel": _blocks(inits.kernel, kernel_key, (x.shape[-1], features), cell.blocks, x.dtype),
            "recurrent_kernel": _blocks(inits.recurrent, recurrent_key, (features, features), cell.blocks, x.dtype),
        }
        if "bias" in wanted:
            params["bias"] = inits.bias(bias_key, (columns,), x.dtype)
        if "recurrent_bias" in wanted:
            params["recurrent_bias"] = inits.bias(recurrent_bias_key, (features,), x.dtype)
        if learned_state:
            params["initial_state"] = zeros(None, state_shape, x.dtype)
        return params

    def run(
        params: Any, x: Any, state: Any, reverse: bool, return_sequences: bool | None, key: Any, train: bool
    ) -> tuple[Any, Any]:
        check_params(params, wanted, name)
        x = with_values(x, jnp.asarray(x.values)) if isinstance(x, Ragged) else _one_array(x, name)
        _check_sequences(values_of(x), params["kernel"].shape, name)
        sequences = as_made if return_sequences is None else return_sequences
        # One product for all steps; the loop is left with the product of the state.
        from_inputs = jnp.moveaxis(projected(params, values_of(x)), -2, 0)
        start = _start(params, state, from_inputs, cell.states, features, name)
        valid = None
        if isinstance(x, Ragged):
            check_lengths(x, name)
            valid = jnp.moveaxis(length_mask(x.lengths, from_inputs.shape[0]), -1, 0)[..., None]
        state, ys = _loop(cell, params, start, from_inputs, valid, reverse, sequences, unroll)
        if sequences:
            return with_values(x, jnp.moveaxis(ys, 0, -2)), state
        return state[0] if cell.states > 1 else state, state

    return recurrent_layer(name, init, run)


def _loop(
    cell: _Cell,
    params: Any,
    start: Any,
    from_inputs: Any,
    valid: Any,
    reverse: bool,
    sequences: bool,
    unroll: int | bool,
) -> Any:
    """The last state, and all outputs if asked for; where a step is not valid, the state stays and the output is 0."""

    def body(state: Any, step: Any) -> Any:
        from_input, valid = step
        new, y = cell.step(params, state, from_input)
        if valid is not None:
            new = tree_map(lambda a, b: jnp.where(valid, a, b), new, state)
            y = jnp.where(valid, y, jnp.zeros_like(y))
        return new, y if sequences else None

    return lax.scan(body, start, (from_inputs, valid), reverse=reverse, unroll=unroll)


def _start(params: Any, state: Any, from_inputs: Any, states: int, features: int, name: str) -> Any:
    """The state before the first step: what was given, else what was learned, else zero."""
    shape, dtype = (*from_inputs.shape[1:-1], features), from_inputs.dtype
    if state is None and "initial_state" in params:
        learned = jnp.asarray(params["initial_state"], dtype)
        if states == 1:
            return jnp.broadcast_to(learned, shape)
        return tuple(jnp.broadcast_to(learned[i], shape) for i in range(states))
    if state is None:
        return jnp.zeros(shape, dtype) if states == 1 else (jnp.zeros(shape, dtype),) * states
    if states == 1:
        return _checked_state(state, "state", shape, dtype, name)
    if not isinstance(state, (tuple, list)) or len(state) != states:
        raise ArgumentError(
            f"{name}: state must be a pair (h, c) of arrays of shape {shape}, got {type(state).__name__}"
        )
    return tuple(_checked_state(part, f"state[{i}]", shape, dtype, name) for i, part in enumerate(state))


def _checked_state(state: Any, what: str, shape: tuple[int, ...], dtype: Any, name: str) -> Any:
    state = _one_array(state, name, what)
    if state.shape != shape:
        raise ShapeError(
            f"{name}: {what} has shape {state.shape}, but inputs of this shape need {shape}; a state belongs to one "
            "batch, and is what apply(…, return_state=True) returned"
        )
    if state.dtype != dtype:
        raise DTypeError(f"{name}: {what} has dtype {state.dtype.name}, but the layer computes in {dtype.name}")
    return state


def _blocks(init: Initializer, key: Any, shape: tuple[int, int], count: int, dtype: Any) -> Any:
    """Matrices side by side, each with the fans of its own."""
    if count == 1:
        return init(key, shape, dtype)
    return jnp.concatenate([init(k, shape, dtype) for k in random.split(key, count)], -1)


def _one_array(x: Any, name: str, what: str = "the input") -> Any:
    if isinstance(x, (tuple, list, dict)):
        raise ArgumentError(
            f"{name}: {what} is of type {type(x).__name__}, but must be one array"
            + ("; sequences of unequal length are nn.Ragged(values, lengths)" if what == "the input" else "")
        )
    return jnp.asarray(x)


def _check_sequences(x: Any, kernel_shape: tuple[int, ...] | None, name: str) -> None:
    """Raise unless the input, or its shape and dtype, is (…, steps, inputs) of floats and fits the kernel."""
    check_floats(x, name)
    if x.ndim < 2:
        raise ShapeError(
            f"{name}: the input must have shape (batch, steps, inputs), but has {x.shape}; give each step an axis of "
            "inputs"
        )
    if kernel_shape is not None and x.shape[-1] != kernel_shape[0]:
        raise ShapeError(
            f"{name}: the input has shape {x.shape}, but the kernel of shape {kernel_shape} takes (batch, steps, "
            f"{kernel_shape[0]}); were the params made for other inputs?"
        )
