"""Models of text, character by character: an LSTM, a transformer, their loss, and text drawn from them.

Knows nothing of where texts come from or how a model is trained.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad import lax, nn, random
from functad import numpy as jnp
from functad.api import jit
from functad.errors import ArgumentError
from functad.nn.initializers import normal


class Alphabet:
    """The characters of a text, numbered in the order of their code points.

    >>> alphabet = Alphabet("abba!")
    >>> alphabet.encode("ba"), alphabet.decode([0, 1])
    (array([2, 1], dtype=int32), '!a')
    """

    def __init__(self, text: str) -> None:
        self.characters = "".join(sorted(set(text)))
        self._numbers = {character: i for i, character in enumerate(self.characters)}

    def __len__(self) -> int:
        return len(self.characters)

    def encode(self, text: str) -> np.ndarray:
        """The numbers of characters, int32.

        Raises:
            ArgumentError: a character that the text has not.
        """
        try:
            return np.fromiter(map(self._numbers.__getitem__, text), np.int32, len(text))
        except KeyError as error:
            raise ArgumentError(f"the character {error.args[0]!r} does not occur in the text to train on") from None

    def decode(self, numbers: Any) -> str:
        """The characters of numbers."""
        return "".join(self.characters[int(i)] for i in numbers)


def text_windows(numbers: np.ndarray, length: int) -> np.ndarray:
    """Pieces of a text, each of `length` characters and the one that follows: int32 of shape (n, length + 1).

    Raises:
        ArgumentError: the text is shorter than one piece.

    >>> text_windows(np.arange(8), 3)
    array([[0, 1, 2, 3],
           [3, 4, 5, 6]])
    """
    count = (len(numbers) - 1) // length
    if count < 1:
        raise ArgumentError(f"the text has {len(numbers)} characters, fewer than one piece of {length + 1}")
    return np.lib.stride_tricks.sliding_window_view(numbers, length + 1)[: count * length : length]


def lstm_model(characters: int, hidden: int = 256, layers: int = 1, dropout: float = 0.0) -> nn.Recurrent:
    """Embedding, LSTM layers, dense: the scores of the next character after each one.

    Returns:
        A recurrent layer from int32 of shape (n, steps) to (n, steps, characters).

    >>> import functad
    >>> model = lstm_model(65, hidden=8)
    >>> text = functad.numpy.zeros((2, 5), "int32")
    >>> model.apply(model.init(functad.random.key(0), text), text).shape
    (2, 5, 65)
    """
    inside = [part for _ in range(layers) for part in (nn.LSTM(hidden, return_sequences=True), nn.Dropout(dropout))]
    return nn.stacked(nn.Embedding(characters, min(hidden, 64)), *inside, nn.Dense(characters))


def transformer_model(
    characters: int, features: int = 128, layers: int = 4, heads: int = 4, dropout: float = 0.0
) -> nn.Layer:
    """Embedding, blocks of a transformer that look back only, dense.

    Returns:
        A layer from int32 of shape (n, steps) to (n, steps, characters). Positions are rotary: any number of steps will
        do.

    >>> import functad
    >>> model = transformer_model(65, features=8, layers=2)
    >>> text = functad.numpy.zeros((2, 5), "int32")
    >>> model.apply(model.init(functad.random.key(0), text), text).shape
    (2, 5, 65)
    """
    blocks = {
        f"block{i}": nn.TransformerBlock(heads, is_causal=True, rotary=True, dropout=dropout) for i in range(layers)
    }
    embedding = nn.Embedding(characters, features, normal(0.02 * features**0.5))
    return nn.serial(embedding=embedding, **blocks, norm=nn.LayerNorm(), out=nn.Dense(characters))


def language_model(model: nn.Layer) -> Callable[..., Any]:
    """The loss of a model of text, in nats a character; batches are pieces of text as `text_windows` makes them.

    >>> import numpy as np
    >>> uniform = nn.Activation(lambda text: jnp.zeros((*text.shape, 10)))
    >>> language_model(uniform)((), np.zeros((2, 4), np.int32), None).round(4)  # the logarithm of 10
    Array(2.3026, dtype=float32)
    """

    def loss(params: Any, batch: Any, key: Any) -> Any:
        scores = model.apply(params, batch[:, :-1], key=key, train=key is not None)
        return nn.softmax_cross_entropy_with_integer_labels(scores, batch[:, 1:]).mean()

    return loss


def drawn_text(
    model: nn.Layer, params: Any, key: Any, prompt: Any, length: int, window: int = 64, temperature: float = 1.0
) -> Any:
    """Characters drawn one after another, each from the scores that the model gives it after those before.

    Args:
        model: a layer such as `lstm_model` and `transformer_model` make.
        params: of the model.
        key: a random key.
        prompt: the numbers of the characters to begin with, at least one.
        length: how many to draw.
        window: how many characters before it a character is drawn from: as many as a piece to train on had.
        temperature: what scores are divided by; near 0 the likeliest character is taken.

    Returns:
        int32 of shape (length,).

    Raises:
        ArgumentError: the prompt is empty.

    >>> import functad
    >>> model = lstm_model(5, hidden=4)
    >>> params = model.init(functad.random.key(0), jnp.zeros((1, 1), "int32"))
    >>> drawn_text(model, params, functad.random.key(1), [0, 1], 7).shape
    (7,)
    """
    prompt = np.asarray(prompt, np.int32)[-window:]
    if not len(prompt):
        raise ArgumentError("drawn_text: the prompt is empty; give at least one character to begin with")

    @jit
    def draw(params: Any, key: Any, seen: Any, count: Any, temperature: Any) -> Any:
        def step(carry: Any, key: Any) -> Any:
            seen, count = carry
            scores = model.apply(params, seen[None])[0, count - 1]
            character = random.categorical(key, scores / temperature).astype("int32")
            full = count == window
            seen = jnp.where(full, jnp.roll(seen, -1), seen).at[jnp.where(full, window - 1, count)].set(character)
            return (seen, jnp.minimum(count + 1, window)), character

        return lax.scan(step, (seen, count), random.split(key, length))[1]

    seen = np.zeros(window, np.int32)
    seen[: len(prompt)] = prompt
    return draw(params, key, seen, np.int32(len(prompt)), np.float32(temperature))
