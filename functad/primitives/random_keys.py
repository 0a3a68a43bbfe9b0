"""Operations on random keys: made of words and taken apart, split, folded, and turned into random bits.

Knows the generator, Threefry-2x32, and no distribution. A key is one word of 64 bits where values are stored, whose
lower half is the first of its two words of 32 bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad import dtypes
from functad.errors import DTypeError, ShapeError
from functad.ir import Absent, Aval, Primitive, ZeroDerivative
from functad.lowering_rules import OnWords
from functad.primitives import elementwise as el
from functad.primitives.builders import elementwise_batch
from functad.primitives.common import (
    NOT_LINEAR,
    broadcast_in_dim,
    convert_element_type,
    move_axis,
    reshape,
)
from functad.primitives.joining import stack, unstack
from functad.primitives.kernels import threefry as kernels
from functad.primitives.random_bits import threefry2x32
from functad.primitives.structure import iota
from functad.tracing import bind

_FRY = "fry"  # the generator, as JAX calls it
_DISCRETE = ZeroDerivative("keys and bits are discrete")
_UNSIGNED: dict[int, np.dtype] = {8: dtypes.uint8, 16: dtypes.uint16, 32: dtypes.uint32, 64: dtypes.uint64}


def random_wrap(words: Any) -> Any:
    """The keys of words, uint32 of shape (..., 2)."""
    (keys,) = bind(random_wrap_p, words, impl=_FRY)
    return keys


def random_unwrap(keys: Any) -> Any:
    """The words of keys, uint32 of shape (..., 2)."""
    return bind(random_unwrap_p, keys)


def random_clone(keys: Any) -> Any:
    """The same keys, which may be used once more."""
    return bind(random_clone_p, keys)


def random_split(keys: Any, shape: Sequence[int]) -> Any:
    """New keys of this shape from each key."""
    return bind(random_split_p, keys, shape=tuple(shape))


def random_fold_in(keys: Any, data: Any) -> Any:
    """A new key from each key and a uint32; shapes are equal, or one is ()."""
    return bind(random_fold_in_p, keys, data)


def random_bits(keys: Any, bit_width: int, shape: Sequence[int]) -> Any:
    """Random unsigned integers of 8, 16, 32 or 64 bits, of this shape for each key."""
    return bind(random_bits_p, keys, bit_width=bit_width, shape=tuple(shape))


# --- shape rules ------------------------------------------------------------------------------------


def _check_keys(name: str, x: Aval) -> None:
    if x.dtype is not dtypes.key_fry:
        raise DTypeError(f"{name} takes random keys, but was given {x.str_short()}; random_wrap makes keys of words")


def _wrap_aval(x: Aval, *, impl: str) -> list[Aval]:
    if x.dtype != dtypes.uint32:
        raise DTypeError(f"random_wrap: the words of keys have the dtype uint32, but were given as {x.str_short()}")
    if x.shape[-1:] != (2,):
        raise ShapeError(f"random_wrap: words come in pairs, so their shape must end with 2, but is {x.shape}")
    return [Aval(x.shape[:-1], dtypes.key_fry)]


def _unwrap_aval(x: Aval) -> Aval:
    _check_keys("random_unwrap", x)
    return Aval((*x.shape, 2), dtypes.uint32)


def _clone_aval(x: Aval) -> Aval:
    _check_keys("random_clone", x)
    return x


def _split_aval(x: Aval, *, shape: tuple[int, ...]) -> Aval:
    _check_keys("random_split", x)
    return Aval((*x.shape, *shape), x.dtype)


def _fold_in_aval(x: Aval, data: Aval) -> Aval:
    _check_keys("random_fold_in", x)
    if data.dtype != dtypes.uint32:
        raise DTypeError(f"random_fold_in takes data of dtype uint32, but was given {data.str_short()}")
    if x.shape != data.shape and x.shape and data.shape:
        raise ShapeError(f"random_fold_in takes operands of equal shape, or (), but {x.shape} and {data.shape} differ")
    return Aval(x.shape or data.shape, x.dtype)


def _bits_aval(x: Aval, *, bit_width: int, shape: tuple[int, ...]) -> Aval:
    _check_keys("random_bits", x)
    return Aval((*x.shape, *shape), _UNSIGNED[bit_width])


# --- on stored words, by NumPy ----------------------------------------------------------------------


def _halves(words: np.ndarray) -> np.ndarray:
    """Both halves of each word, along a new last axis."""
    return np.ascontiguousarray(words).reshape(*words.shape, 1).view(np.uint32)


def _joined(halves: np.ndarray) -> np.ndarray:
    words: np.ndarray = np.ascontiguousarray(halves).view(np.uint64).reshape(halves.shape[:-1])
    return words if words.flags.aligned else words.copy()


def _word_impl(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    halves = np.empty((*first.shape, 2), np.uint32)
    halves[..., 0], halves[..., 1] = first, second
    return _joined(halves)


def _encrypted_impl(words: np.ndarray, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    if not words.shape:
        return kernels.encrypted_counters(int(words), shape)
    halves = _halves(words).reshape(*words.shape, *[1] * len(shape), 2)
    counters = np.arange(math.prod(shape), dtype=np.uint32).reshape(shape)
    return kernels.threefry2x32(halves[..., 0], halves[..., 1], _ZERO, counters)


def _split_impl(words: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
    return _word_impl(*_encrypted_impl(words, shape))


def _fold_in_impl(words: np.ndarray, data: np.ndarray) -> np.ndarray:
    halves = _halves(words)
    return _word_impl(*kernels.threefry2x32(halves[..., 0], halves[..., 1], _ZERO, data))


def _bits_impl(words: np.ndarray, *, bit_width: int, shape: tuple[int, ...]) -> np.ndarray:
    first, second = _encrypted_impl(words, shape)
    if bit_width == 64:
        return np.asarray(first.astype(np.uint64) << _SHIFT | second)
    return np.asarray(first ^ second, _UNSIGNED[bit_width])


# --- on words, by other primitives ------------------------------------------------------------------

_ZERO = np.array(0, np.uint32)
_SHIFT = np.uint64(32)


def _parts(word: Any) -> tuple[Any, Any]:
    upper = el.shift_right_logical(word, _SHIFT)
    return convert_element_type(word, "uint32"), convert_element_type(upper, "uint32")


def _word(first: Any, second: Any) -> Any:
    upper = el.shift_left(convert_element_type(second, "uint64"), _SHIFT)
    return el.or_(convert_element_type(first, "uint64"), upper)


def _encrypted(words: Any, shape: tuple[int, ...]) -> list[Any]:
    """The two encrypted halves for each of the counters 0, 1, 2, … in row-major order, for each key."""
    counters = reshape(iota(dtypes.uint32, (math.prod(shape),), 0), shape)
    first, second = _parts(words)
    if words.shape:
        whole, own = (*words.shape, *shape), range(words.ndim)
        first, second = (broadcast_in_dim(w, shape=whole, broadcast_dimensions=own) for w in (first, second))
        counters = broadcast_in_dim(counters, shape=whole, broadcast_dimensions=range(words.ndim, len(whole)))
    return threefry2x32(first, second, _ZERO, counters)


def _wrap_words(x: Any, *, impl: str) -> list[Any]:
    return [_word(*unstack(x, x.ndim - 1))]


def _unwrap_words(words: Any) -> list[Any]:
    return [stack(_parts(words), words.ndim)]


def _split_words(words: Any, *, shape: tuple[int, ...]) -> list[Any]:
    return [_word(*_encrypted(words, shape))]


def _fold_in_words(words: Any, data: Any) -> list[Any]:
    first, second = _parts(words)
    return [_word(*threefry2x32(first, second, _ZERO, data))]


def _bits_words(words: Any, *, bit_width: int, shape: tuple[int, ...]) -> list[Any]:
    first, second = _encrypted(words, shape)
    dtype = _UNSIGNED[bit_width]
    if bit_width == 64:
        upper = el.shift_left(convert_element_type(first, dtype), _SHIFT)
        return [el.or_(upper, convert_element_type(second, dtype))]
    return [convert_element_type(el.xor(first, second), dtype)]


# --- batching ---------------------------------------------------------------------------------------


def _wrap_batch(axis_size: int, args: Sequence[Any], dims: Sequence[int], *, impl: str) -> tuple[list[Any], list[int]]:
    return [random_wrap(move_axis(args[0], dims[0], 0))], [0]


def _batch_of(primitive: str) -> Any:
    """The batch rule of an operation whose results of each key lie behind the axes of the keys."""

    def batch(axis_size: int, args: Sequence[Any], dims: Sequence[int], **params: Any) -> tuple[Any, int]:
        return bind(_PRIMITIVES[primitive], move_axis(args[0], dims[0], 0), **params), 0

    return batch


def _fold_in_batch(axis_size: int, args: Sequence[Any], dims: Sequence[int | None]) -> tuple[Any, int]:
    return elementwise_batch(lambda: random_fold_in_p, axis_size, args, dims)


# --- the records ------------------------------------------------------------------------------------


_EXAMPLES = Absent("keys are no numbers; tests/random/test_typed_keys.py tests them under all transforms")

random_wrap_p = Primitive(
    name="random_wrap",
    doc="The keys of pairs of words.",
    multiple_results=True,  # it has one; but of several, `evaluate` asks for the types, which the words do not tell
    abstract_eval=_wrap_aval,
    impl=lambda x, *, impl: [_joined(x)],
    jvp=_DISCRETE,
    transpose=NOT_LINEAR,
    batch=_wrap_batch,
    lower=OnWords(_wrap_words),
    examples=_EXAMPLES,
)

random_unwrap_p = Primitive(
    name="random_unwrap",
    doc="The pairs of words of keys.",
    multiple_results=False,
    abstract_eval=_unwrap_aval,
    impl=_halves,
    jvp=_DISCRETE,
    transpose=NOT_LINEAR,
    batch=_batch_of("unwrap"),
    lower=OnWords(_unwrap_words),
    examples=_EXAMPLES,
)

random_clone_p = Primitive(
    name="random_clone",
    doc="The same keys, which the check of key reuse takes for new ones.",
    multiple_results=False,
    abstract_eval=_clone_aval,
    impl=lambda words: words.copy(),
    jvp=_DISCRETE,
    transpose=NOT_LINEAR,
    batch=_batch_of("clone"),
    lower=OnWords(lambda words: [el.copy(words)]),
    examples=_EXAMPLES,
)

random_split_p = Primitive(
    name="random_split",
    doc="New keys from each key.",
    multiple_results=False,
    abstract_eval=_split_aval,
    impl=_split_impl,
    jvp=_DISCRETE,
    transpose=NOT_LINEAR,
    batch=_batch_of("split"),
    lower=OnWords(_split_words, uses=True),
    examples=_EXAMPLES,
)

random_fold_in_p = Primitive(
    name="random_fold_in",
    doc="A new key from each key and a number.",
    multiple_results=False,
    abstract_eval=_fold_in_aval,
    impl=_fold_in_impl,
    jvp=_DISCRETE,
    transpose=NOT_LINEAR,
    batch=_fold_in_batch,
    lower=OnWords(_fold_in_words),
    examples=_EXAMPLES,
)

random_bits_p = Primitive(
    name="random_bits",
    doc="Random unsigned integers from each key.",
    multiple_results=False,
    abstract_eval=_bits_aval,
    impl=_bits_impl,
    jvp=_DISCRETE,
    transpose=NOT_LINEAR,
    batch=_batch_of("bits"),
    lower=OnWords(_bits_words, uses=True),
    examples=_EXAMPLES,
)

_PRIMITIVES = {"unwrap": random_unwrap_p, "clone": random_clone_p, "split": random_split_p, "bits": random_bits_p}
