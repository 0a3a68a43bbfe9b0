"""How compiled code makes Arrays around what holds their elements, for the entries of both kinds of device.

Written in the language of `compile.integer_compiler`; nothing here runs as Python. It must not know what holds
elements.
"""

# ruff: noqa: F821
# mypy: ignore-errors
from __future__ import annotations

from functad.backends.cpu.runtime import layout as w

EXPORTS = ()


def wrapped(pool, entry, count, size) -> int:
    """Results as an Array or a tuple of Arrays, which takes over all references; 0 if there is no memory.

    entry: the first of their entries, each of so many words, which begin with what `layout` says of results.
    """
    if count == 1:
        return new_impl(pool, entry)
    together = new_object(pool[w.NEW_TUPLE], count)
    missing = 0
    for i in range(count):
        array = new_impl(pool, entry)
        entry += 8 * size
        if array == 0:
            missing = 1
        elif together != 0:
            set_item(pool[w.SET_ITEM], together, i, array)
        else:
            call_word(pool[w.DECREF], array)
    if missing == 1 and together != 0:
        call_word(pool[w.DECREF], together)
        together = 0
    return together


def new_impl(pool, entry) -> int:
    """An Array around a value, whose reference it takes over."""
    made = new_instance(pool[w.NEW_INSTANCE], entry[w.RESULT_TYPE], 0)
    if made == 0:
        call_word(pool[w.DECREF], entry[w.RESULT_VALUE])
        return 0
    call_word(pool[w.INCREF], entry[w.RESULT_AVAL])
    call_word(pool[w.INCREF], entry[w.RESULT_WEAK])
    made[pool[w.IMPL_VALUE]] = entry[w.RESULT_VALUE]
    made[pool[w.IMPL_AVAL]] = entry[w.RESULT_AVAL]
    made[pool[w.IMPL_WEAK]] = entry[w.RESULT_WEAK]
    return made
