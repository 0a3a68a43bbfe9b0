"""The compiled part of the direct way in: leaves of arguments come from Python, Arrays go back, with no list between.

Written in the language of `compile.integer_compiler`, and compiled together with `runtime.compiled`; nothing here runs
as Python. It must not know what a tape computes, nor how its frame is made.
"""

# ruff: noqa: F821
# mypy: ignore-errors
from __future__ import annotations

from functad import machine_model
from functad.backends.cpu.runtime import layout as w
from functad.backends.cpu.runtime.compiled import ARRAY_FLAGS, HEAD, USABLE

EXPORTS = ("call_directly",)
# An array goes on with its rank, the address of its shape, its strides, its base and its dtype.
ARRAY_RANK = HEAD + 1
ARRAY_SHAPE = HEAD + 2
ARRAY_BASE = HEAD + 4
ARRAY_DTYPE = HEAD + 5
IN_ROWS = 0x0501  # NPY_ARRAY_CARRAY
READ_ONLY = -1 - 0x0400  # all flags but NPY_ARRAY_WRITEABLE
NOT_FINITE = 0x7F800000  # the exponent of float32's infinities and NaNs


def call_directly(frame, leaves, count) -> int:
    """A C function `PyObject* call(self, PyObject* const* leaves, Py_ssize_t count)`.

    `frame` is the ndarray that a built-in function has as self. Returns the result, an Array or a tuple of several, or
    None where the long way must judge: leaves of other types, another call under way, threads to be started.
    """
    words = frame[HEAD]
    pool = words[w.FRAME_TAPE][w.TAPE_POOL]
    answer = pool[w.NONE]
    if count == words[w.DIRECT_LEAVES] and claim(words, w.DIRECT_TAKEN, 0, 1) == 1:
        answer = answer_to(pool, words, leaves)
        store(words, w.DIRECT_TAKEN, 0)
    if answer == pool[w.NONE]:
        call_word(pool[w.INCREF], answer)
    return answer


def answer_to(pool, words, leaves) -> int:
    """What to return; None without a reference."""
    tape = words[w.FRAME_TAPE]
    slots = words[w.FRAME_SLOTS]
    if tape[w.TAPE_PARALLEL] == 1 and load(pool, w.HELPERS) < load(pool, w.WANTED):
        return pool[w.NONE]
    constants = words[w.DIRECT_CONSTANTS]
    for i in range(constants):
        slots[i] = words[w.DIRECT_HEAD + i]
    entry = words + 8 * (w.DIRECT_HEAD + constants)
    count = words[w.DIRECT_LEAVES]
    answer = pool[w.NONE]
    held = take_leaves(pool, entry, count, leaves, slots + 8 * constants)
    if held == count:
        results = entry + 8 * w.LEAF_SIZE * count
        answer = results_of(pool, tape, results, words[w.DIRECT_RESULTS], slots, constants + count)
    for _ in range(held):
        call_word(pool[w.DECREF], entry[w.LEAF_ARRAY])
        entry += 8 * w.LEAF_SIZE
    return answer


def take_leaves(pool, entry, count, leaves, slots) -> int:
    """Hold the arrays of leaves, and write where they lie to the slots; how many, up to the first that is unknown."""
    for i in range(count):
        array = array_of(pool, leaves[i], entry)
        if array == 0:
            return i
        call_word(pool[w.INCREF], array)
        entry[w.LEAF_ARRAY] = array
        slots[i] = array[HEAD]
        entry += 8 * w.LEAF_SIZE
    return count


def array_of(pool, leaf, entry) -> int:
    """The ndarray with the values of a leaf, or 0 if it is not of the known type, or cannot be used as it lies."""
    kind = leaf[HEAD - 1]
    if kind == pool[w.FLOAT_TYPE]:
        return number_as_array(leaf, entry)
    array = leaf
    known = 0
    if kind == pool[w.IMPL_TYPE]:
        array = leaf[pool[w.IMPL_VALUE]]
        aval = leaf[pool[w.IMPL_AVAL]]
        if aval == entry[w.LEAF_AVAL]:
            known = 1
        elif aval == pool[w.NONE] and leaf[pool[w.IMPL_WEAK]] == entry[w.LEAF_WEAK]:
            known = has_type(array, entry)
    elif kind == pool[w.ARRAY_TYPE] and entry[w.LEAF_PLAIN] == 1:
        known = has_type(array, entry)
    if known == 1 and array != 0:
        if array[HEAD - 1] == pool[w.ARRAY_TYPE] and flags(array + 8 * ARRAY_FLAGS) & USABLE == USABLE:
            return array
    return 0


def number_as_array(number, entry) -> int:
    """An array that gets the value of a Python float, or 0 if such a one is not known, or a float32 cannot hold it."""
    array = entry[w.LEAF_NUMBER]
    if array == 0:
        return 0
    place = array[HEAD]
    if entry[w.LEAF_DOUBLE] == 1:
        place[0] = number[HEAD]
    else:
        place[0] = float_bits(number + 8 * HEAD)
        if place[0] & NOT_FINITE == NOT_FINITE:
            return 0
    return array


def has_type(array, entry) -> int:
    """Whether an array has the shape and the dtype that an entry of a leaf tells."""
    rank = entry[w.LEAF_RANK]
    if array == 0 or array[ARRAY_DTYPE] != entry[w.LEAF_DTYPE] or flags(array + 8 * ARRAY_RANK) != rank:
        return 0
    shape = array[ARRAY_SHAPE]
    wanted = entry[w.LEAF_SHAPE]
    for i in range(rank):
        if shape[i] != wanted[i]:
            return 0
    return 1


def results_of(pool, tape, entry, count, slots, first) -> int:
    """Run the tape into new arrays; what `call_directly` returns, None without a reference."""
    answer = pool[w.NONE]
    made = new_arrays(pool, entry, count, slots + 8 * first)
    status = w.OUT_OF_MEMORY
    if made == count:
        status = enter(tape, slots)
    else:
        call_nothing(pool[w.CLEAR_ERROR])
    if status == 0 or status == w.HELPERS_MISSING:
        return wrapped(pool, entry, count, w.RESULT_SIZE)
    for _ in range(made):
        call_word(pool[w.DECREF], entry[w.RESULT_VALUE])
        entry += 8 * w.RESULT_SIZE
    if status == w.RAISED:
        answer = 0
    return answer


def new_arrays(pool, entry, count, slots) -> int:
    """Make the arrays of the results; how many there was memory for."""
    for i in range(count):
        array = 0
        if entry[w.RESULT_MEMORY] == 0:
            array = new_result(pool, entry, 0, 0)
        else:
            array = new_aligned(pool, entry)
        if array == 0:
            return i
        array[ARRAY_FLAGS] = array[ARRAY_FLAGS] & READ_ONLY  # for whoever has it later
        entry[w.RESULT_VALUE] = array
        slots[i] = array[HEAD]
        entry += 8 * w.RESULT_SIZE
    return count


def new_result(pool, entry, data, flags_of_data) -> int:
    """An array of a result's type, in memory of its own if `data` is 0; 0 if there is none."""
    dtype = entry[w.RESULT_DTYPE]
    call_word(pool[w.INCREF], dtype)  # which the array takes over
    rank = entry[w.RESULT_RANK]
    shape = entry[w.RESULT_SHAPE]
    return new_array(pool[w.NEW_ARRAY], pool[w.ARRAY_TYPE], dtype, rank, shape, 0, data, flags_of_data, 0)


def new_aligned(pool, entry) -> int:
    """As `new_result`, in memory in which the array begins at a cache line: what `aligned_empty` makes."""
    dtype = pool[w.MEMORY_DTYPE]
    call_word(pool[w.INCREF], dtype)
    memory = new_array(pool[w.NEW_ARRAY], pool[w.MEMORY_TYPE], dtype, 1, entry[w.RESULT_MEMORY], 0, 0, 0, 0)
    if memory == 0:
        return 0
    line = machine_model.CACHE_LINE
    start = (memory[HEAD] + machine_model.BEFORE_A_RESULT + line - 1) // line * line
    array = new_result(pool, entry, start, IN_ROWS)
    if array == 0:
        call_word(pool[w.DECREF], memory)
        return 0
    array[ARRAY_BASE] = memory
    return array
