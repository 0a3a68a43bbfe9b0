"""Keys, typed and raw, and raw random bits: Threefry-2x32 run on counters.

Knows no distributions. The numbers are those of JAX with its default options (`threefry_partitionable`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad import dtypes
from functad.array import Array, ArrayImpl, KeyArray
from functad.config import config
from functad.device_arrays import put_by_default
from functad.dtypes import kind_of
from functad.eager import composed
from functad.errors import ArgumentError, DTypeError, ShapeError
from functad.evaluation import aval_of
from functad.numpy.promotion import asarray, canonical_shape
from functad.primitives import elementwise as el
from functad.primitives import random_keys as primitives
from functad.primitives.common import convert_element_type
from functad.primitives.joining import stack

_ZERO = np.uint32(0)
_IMPL = "threefry2x32"
_NOT_HERE = {
    "rbg": "its numbers depend on the compiler, and on what is mapped",
    "unsafe_rbg": "its numbers depend on the compiler, and on what is mapped",
}


def key(seed: Any, *, impl: Any = None, dtype: Any = None) -> Array:
    """Make a typed key from a seed.

    Args:
        seed: an integer of at most 64 bits, or an integer array of shape (); it may be traced.
        impl: None or "threefry2x32", the only generator; or the dtype of its keys.
        dtype: the same.

    Returns:
        A key of shape () and dtype `key<fry>`, which takes part in no arithmetic. `key_data` gives its two words.

    Raises:
        ArgumentError: the seed is no integer, has too many bits, or `impl` is another generator.

    >>> import functad
    >>> functad.random.key(42)
    Array((), dtype=key<fry>) overlaying:
    [ 0 42]
    """
    _check_impl(impl, dtype)
    if type(seed) is int:
        first, second = _words_of_int(seed)
        return put_by_default(KeyArray(np.array(second << 32 | first, np.uint64)))
    return primitives.random_wrap(_words_of_seed("key", seed))


def PRNGKey(seed: Any, *, impl: Any = None) -> Array:
    """Make a raw key from a seed, an integer: its two words, a uint32 array of shape (2,).

    All functions that take keys take raw ones, too; those that return keys return them in the kind they were given.

    >>> import functad
    >>> functad.random.PRNGKey(0)
    Array([0, 0], dtype=uint32)
    """
    _check_impl(impl)
    return _words_of_seed("PRNGKey", seed)


def key_data(keys: Any) -> Array:
    """The words of a key or of an array of keys: uint32, with a last axis of size 2. Raw keys are returned as they are.

    >>> import functad
    >>> functad.random.key_data(functad.random.key(42))
    Array([ 0, 42], dtype=uint32)
    """
    keys = _checked("key_data", keys)
    return primitives.random_unwrap(keys) if is_typed(keys) else keys


def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> Array:
    """The typed keys of words: a uint32 array whose last axis has size 2.

    >>> import functad, numpy as np
    >>> functad.random.wrap_key_data(np.zeros((3, 2), np.uint32)).shape
    (3,)
    """
    _check_impl(impl, dtype)
    words = _checked("wrap_key_data", key_bits_array)
    if is_typed(words):
        raise DTypeError(f"wrap_key_data makes keys of their words, but was given keys, {aval_of(words).str_short()}")
    return primitives.random_wrap(words)


def key_impl(keys: Any) -> str:
    """The name of the generator that keys are for: there is one.

    >>> import functad
    >>> functad.random.key_impl(functad.random.key(0))
    'threefry2x32'
    """
    _checked("key_impl", keys)
    return _IMPL


def key_dtype(impl: Any = None) -> Any:
    """The dtype of typed keys, as a generator has them: there is one.

    >>> import functad
    >>> functad.random.key_dtype()
    key<fry>
    """
    _check_impl(impl)
    return dtypes.key_fry


def clone(key: Any) -> Array:
    """The same key or keys, which the check of key reuse (`functad.debug_key_reuse`) takes for new ones.

    >>> import functad
    >>> key = functad.random.key(0)
    >>> bool(functad.random.clone(key) == key)
    True
    """
    keys = _checked("clone", key)
    return primitives.random_clone(keys) if is_typed(keys) else keys


def split(key: Any, num: int | Sequence[int] = 2) -> Array:
    """Make new, independent keys from one, which should not be used again.

    Args:
        key: a key, typed or raw.
        num: how many, an integer or a shape.

    Returns:
        Keys of shape (num,), or `num`; raw ones, which have a last axis of size 2, of a raw key.

    >>> import functad
    >>> functad.random.split(functad.random.key(0))
    Array((2,), dtype=key<fry>) overlaying:
    [[1797259609 2579123966]
     [ 928981903 3453687069]]
    """
    shape = canonical_shape("split", num)
    return _as_given(key, primitives.random_split(typed_key("split", key), shape))


def fold_in(key: Any, data: Any) -> Array:
    """Make a new key from a key and an integer, such as the number of a training step.

    Args:
        key: a key, typed or raw.
        data: an integer in 0 … 2**32 - 1, or an integer array of shape (); it may be traced.

    Returns:
        A key, raw of a raw one.

    >>> import functad
    >>> functad.random.fold_in(functad.random.PRNGKey(0), 1)
    Array([ 928981903, 3453687069], dtype=uint32)
    """
    typed = typed_key("fold_in", key)
    if type(data) is int:
        if not 0 <= data < 2**32:
            raise ArgumentError(f"fold_in: data={data} must lie in 0 … 2**32 - 1")
        word: Any = np.uint32(data)
    else:
        aval = aval_of(data)
        if kind_of(aval.dtype) not in "iu" or aval.shape != ():
            raise ArgumentError(f"fold_in: data must be one integer, but is {aval.str_short()}")
        word = convert_element_type(data, "uint32")
    return _as_given(key, primitives.random_fold_in(typed, word))


def bits(key: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Uniform random bits.

    Args:
        key: a key, typed or raw.
        shape: the shape of the result.
        dtype: an unsigned integer dtype; by default uint32, uint64 with `enable_x64`.

    >>> import functad
    >>> functad.random.bits(functad.random.key(0), (2,))
    Array([4070199207, 4202968722], dtype=uint32)
    """
    if dtype is None:
        dtype = dtypes.uint64 if config.enable_x64 else dtypes.uint32
    dtype = dtypes.requested_dtype(dtype)
    if kind_of(dtype) != "u":
        raise DTypeError(f"bits: dtype must be an unsigned integer dtype, got {dtype}; try 'uint32'")
    return random_bits("bits", key, dtype, canonical_shape("bits", shape))


@composed
def random_bits(name: str, key: Any, dtype: np.dtype, shape: tuple[int, ...]) -> Array:
    """Random bits for the function `name`, whose arguments but the key are checked."""
    return primitives.random_bits(typed_key(name, key), 8 * dtype.itemsize, shape)


def is_typed(keys: Any) -> bool:
    """Whether keys are typed, and not raw words."""
    return keys.dtype is dtypes.key_fry


def typed_key(name: str, key: Any) -> Any:
    """One key for the function `name`, a typed one of the words of a raw one."""
    keys = _checked(name, key)
    typed = is_typed(keys)
    if keys.ndim != (0 if typed else 1):
        kind = "typed keys of shape" if typed else "raw keys of shape"
        raise ShapeError(f"{name} needs one key, but was given {kind} {keys.shape}; map over them with functad.vmap")
    return keys if typed else primitives.random_wrap(keys)


def _as_given(key: Any, keys: Any) -> Any:
    """Typed keys, or their words where the key that they come from was raw."""
    return keys if is_typed(key) else primitives.random_unwrap(keys)


def _checked(name: str, keys: Any) -> Any:
    """Keys of any shape, typed or raw."""
    if not isinstance(keys, (Array, np.ndarray)):
        raise ArgumentError(
            f"{name} needs a key, but was given {keys!r:.80} of type {type(keys).__name__}; make one of an integer "
            "with functad.random.key(seed)"
        )
    if keys.dtype is dtypes.key_fry:
        return keys
    if keys.dtype != dtypes.uint32:
        raise DTypeError(
            f"{name} needs a key, typed or raw (uint32 of shape (2,)), but was given {aval_of(keys).str_short()}; "
            "make one of an integer with functad.random.key(seed)"
        )
    if keys.shape[-1:] != (2,):
        raise ShapeError(f"{name} needs raw keys of shape (..., 2), but was given {keys.shape}; split makes such keys")
    return asarray(keys)


def _check_impl(impl: Any, dtype: Any = None) -> None:
    if impl is not None and dtype is not None:
        raise ArgumentError(f"impl={impl!r} and dtype={dtype!r} say the same: give one of them")
    impl = dtype if impl is None else impl
    if impl is None or impl is dtypes.key_fry or impl == _IMPL:
        return
    why = f" ({_NOT_HERE[impl]})" if impl in tuple(_NOT_HERE) else ""
    raise ArgumentError(f"impl={impl!r} is {'absent' if why else 'unknown'}{why}: the only generator is {_IMPL!r}")


def _words_of_seed(name: str, seed: Any) -> Any:
    if type(seed) is int:
        return ArrayImpl(np.array(_words_of_int(seed), np.uint32))
    aval = aval_of(seed) if isinstance(seed, (Array, np.ndarray, np.generic)) else None
    if aval is None or kind_of(aval.dtype) not in "iu" or aval.shape != ():
        what = repr(seed) if aval is None else aval.str_short()
        raise ArgumentError(f"the seed of {name} must be an integer, but is {what}; vmap makes keys of many seeds")
    high: Any = _ZERO
    if aval.dtype.itemsize == 8:
        high = convert_element_type(el.shift_right_logical(seed, aval.dtype.type(32)), "uint32")
        if kind_of(aval.dtype) == "i" and not config.enable_x64:
            small = el.and_(el.ge(seed, aval.dtype.type(-(2**31))), el.lt(seed, aval.dtype.type(0)))
            high = el.select_n(small, high, _ZERO)  # as `_words_of_int`
    return stack([high, convert_element_type(seed, "uint32")])


def _words_of_int(seed: int) -> tuple[int, int]:
    if not -(2**63) <= seed < 2**63:
        raise ArgumentError(f"the seed of a key must fit in 64 bits, but is {seed}")
    if -(2**31) <= seed < 0 and not config.enable_x64:
        return 0, seed % 2**32  # JAX's number: its seed has 32 bits then
    return (seed >> 32) % 2**32, seed % 2**32
