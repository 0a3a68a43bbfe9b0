"""The compiled part of a call on a device: Arrays come from Python, and go back, and Python is asked to start kernels.

Written in the language of the CPU's `compile.integer_compiler`; nothing here runs as Python. It must not know what is
started, nor where memory lies. Who else comes while a call is under way, even the garbage collector's, is sent away.
"""

# ruff: noqa: F821
# mypy: ignore-errors
from __future__ import annotations

from functad.backends.cpu.runtime import layout as w
from functad.backends.cpu.runtime.compiled import HEAD

EXPORTS = ("call_on_device",)
# The frame: a head, then entries of leaves, then of results.
(
    TAKEN,  # 1: a call is under way
    POOL,  # address of the CPU's pool, where addresses are of what Python offers
    NEW_LIST,  # PyObject* list(size),
    CALL_ONE,  # PyObject* call(callable, argument),
    START,  # of what starts kernels: a function of a list that gives a list of new memories,
    DEVICE,  # of the device,
    TRUE,  # of True, False,
    FALSE,
    DONATED,  # and of the class of donated Arrays
    COMMITS,  # 1: results are committed, wherever the arguments are; else if one of these is
    MEMORY_TYPE,  # address of the class of memories, and which words of its instances are
    MEMORY_DEVICE,  # the device,
    MEMORY_BLOCK,  # the piece of the pool,
    MEMORY_COMMITTED,  # whether it is committed,
    MEMORY_KEPT,  # the copy in the host's memory, or None,
    MEMORY_LISTED,  # and what is listed for whoever starts kernels;
    BLOCK_SHARED,  # which word of a piece says whether others know it
    LEAVES,  # numbers of each
    RESULTS,
    FRAME_HEAD,
) = range(20)
LEAF_TYPE = 0  # address of the class of the Array,
LEAF_AVAL = 1  # of its type,
LEAF_NAME = 2  # and of the argument's name if it is donated, else 0
LEAF_MEMORY = 3  # during a call: the memory, which it holds
LEAF_SIZE = 4
RESULT_LEAF = w.RESULT_HEAD  # which leaf's memory it has, or -1 for the next of the new ones
RESULT_SIZE = w.RESULT_HEAD + 1


def call_on_device(frame, leaves, count) -> int:
    """A C function `PyObject* call(self, PyObject* const* leaves, Py_ssize_t count)`.

    `frame` is the ndarray that a built-in function has as self. Returns the result, an Array or a tuple of several, or
    None where the long way must judge: leaves of other types, or of other devices; donated ones whose memory is known
    to others; no memory.
    """
    words = frame[HEAD]
    pool = words[POOL]
    answer = pool[w.NONE]
    if count == words[LEAVES] and claim(words, TAKEN, 0, 1) == 1:
        held = take_memories(pool, words, leaves)
        if held == count:
            answer = device_answer(pool, words, leaves)
        entry = words + 8 * FRAME_HEAD
        for _ in range(held):
            call_word(pool[w.DECREF], entry[LEAF_MEMORY])
            entry += 8 * LEAF_SIZE
        store(words, TAKEN, 0)
    if answer == pool[w.NONE]:
        call_word(pool[w.INCREF], answer)
    return answer


def take_memories(pool, words, leaves) -> int:
    """Hold the memories of the leaves; how many, up to the first leaf that is unknown."""
    entry = words + 8 * FRAME_HEAD
    for i in range(words[LEAVES]):
        leaf = leaves[i]
        if leaf[HEAD - 1] != entry[LEAF_TYPE] or leaf[pool[w.IMPL_AVAL]] != entry[LEAF_AVAL]:
            return i
        memory = leaf[pool[w.IMPL_VALUE]]
        if memory[HEAD - 1] != words[MEMORY_TYPE] or memory[words[MEMORY_DEVICE]] != words[DEVICE]:
            return i
        call_word(pool[w.INCREF], memory)
        entry[LEAF_MEMORY] = memory
        entry += 8 * LEAF_SIZE
    return words[LEAVES]


def device_answer(pool, words, leaves) -> int:
    """What to return, where the memories of all leaves are known; None without a reference."""
    if may_be_given(words) == 0:
        return pool[w.NONE]
    listed = list_of(pool, words)
    if listed == 0:
        return 0
    committed = committed_of(words)
    give_away(pool, words, leaves)  # before Python runs, and with it other threads: none of them comes by them any more
    new = new_instance(words[CALL_ONE], words[START], listed)
    call_word(pool[w.DECREF], listed)
    if new == 0:
        return 0
    answer = pool[w.NONE]
    if new == answer:
        take_back(pool, words, leaves)
    else:
        answer = device_results(pool, words, new[HEAD + 1], committed)
    call_word(pool[w.DECREF], new)
    return answer


def committed_of(words) -> int:
    """True if results are committed, else False."""
    entry = words + 8 * FRAME_HEAD
    if words[COMMITS] == 1:
        return words[TRUE]
    for _ in range(words[LEAVES]):
        memory = entry[LEAF_MEMORY]
        if memory[words[MEMORY_COMMITTED]] == words[TRUE]:
            return words[TRUE]
        entry += 8 * LEAF_SIZE
    return words[FALSE]


def may_be_given(words) -> int:
    """Whether the memories of donated leaves may be results': only an Array, and this call, hold and know each."""
    entry = words + 8 * FRAME_HEAD
    for _ in range(words[LEAVES]):
        if entry[LEAF_NAME] != 0:
            memory = entry[LEAF_MEMORY]
            block = memory[words[MEMORY_BLOCK]]
            if flags(memory + 8 * (HEAD - 2)) != 2 or block[words[BLOCK_SHARED]] != words[FALSE]:
                return 0
        entry += 8 * LEAF_SIZE
    return 1


def list_of(pool, words) -> int:
    """A list with what is wanted of each leaf's memory; 0 if there is no memory."""
    listed = new_object(words[NEW_LIST], words[LEAVES])
    if listed != 0:
        items = listed[HEAD + 1]
        entry = words + 8 * FRAME_HEAD
        for i in range(words[LEAVES]):
            memory = entry[LEAF_MEMORY]
            item = memory[words[MEMORY_LISTED]]
            call_word(pool[w.INCREF], item)
            items[i] = item
            entry += 8 * LEAF_SIZE
    return listed


def give_away(pool, words, leaves) -> None:
    """Let donated leaves tell their names in place of their memories, which this call holds."""
    entry = words + 8 * FRAME_HEAD
    for i in range(words[LEAVES]):
        leaf = leaves[i]
        if entry[LEAF_NAME] != 0:
            put_word(pool, leaf, pool[w.IMPL_VALUE], entry[LEAF_NAME])
            put_word(pool, leaf, HEAD - 1, words[DONATED])
        entry += 8 * LEAF_SIZE


def take_back(pool, words, leaves) -> None:
    """Let donated leaves have their memories again."""
    entry = words + 8 * FRAME_HEAD
    for i in range(words[LEAVES]):
        leaf = leaves[i]
        if entry[LEAF_NAME] != 0:
            put_word(pool, leaf, pool[w.IMPL_VALUE], entry[LEAF_MEMORY])
            put_word(pool, leaf, HEAD - 1, entry[LEAF_TYPE])
        entry += 8 * LEAF_SIZE


def device_results(pool, words, new, committed) -> int:
    """The results as an Array or a tuple of Arrays; 0 if there is no memory. new: memories that are no leaf's."""
    leaves = words + 8 * FRAME_HEAD
    first = leaves + 8 * LEAF_SIZE * words[LEAVES]
    entry = first
    for _ in range(words[RESULTS]):
        memory = 0
        if entry[RESULT_LEAF] >= 0:
            memory = leaves[LEAF_SIZE * entry[RESULT_LEAF] + LEAF_MEMORY]
            put_word(pool, memory, words[MEMORY_KEPT], pool[w.NONE])  # whoever has looked has seen the argument
        else:
            memory = new[0]
            new += 8
        put_word(pool, memory, words[MEMORY_COMMITTED], committed)
        call_word(pool[w.INCREF], memory)
        entry[w.RESULT_VALUE] = memory
        entry += 8 * RESULT_SIZE
    return wrapped(pool, first, words[RESULTS], RESULT_SIZE)


def put_word(pool, thing, place, value) -> None:
    """Let a word of an object be another object."""
    before = thing[place]
    call_word(pool[w.INCREF], value)
    thing[place] = value
    call_word(pool[w.DECREF], before)
