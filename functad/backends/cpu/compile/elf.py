"""Object files of x86-64 Linux made ready to run: laid into memory, their addresses put in.

Knows ELF; not what functions do, nor LLVM, which takes a hundred times as long to start as kernels take to load. What
LLVM writes for the large code model is known here: code, constants, two kinds of relocation. All else is left to it.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
import sys
import weakref
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from functad.records import NamedTuple

# ELF-64, System V ABI, chapters 4 and 5; the numbers of relocations are those of its supplement for AMD64.
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_BEGIN = b"\x7fELF\x02\x01\x01"
_RELOCATABLE, _X86_64 = 1, 62
_PROGBITS, _SYMBOLS, _RELOCATIONS, _UNWIND = 1, 2, 4, 0x70000001
# Sections that say nothing to whoever loads: none, strings, notes.
_PASSED_OVER = frozenset({0, 3, 7})
_WRITABLE, _LOADED, _EXECUTABLE, _THREADS = 1, 2, 4, 0x400
_UNDEFINED, _FIRST_RESERVED, _ABSOLUTE = 0, 0xFF00, 0xFFF1
_LOCAL, _THREAD_LOCAL, _CHOSEN_BY_FUNCTION = 0, 6, 10
_ADDRESS, _DISTANCE = 1, 24  # R_X86_64_64, R_X86_64_PC64
_WORD = struct.Struct("<Q")
_READ, _EXECUTE = 1, 4


class _UnknownError(Exception):
    """Something that LLVM must load."""


class ElfCode:
    """Machine code in memory, there as long as this object is; if Python ends before it, as long as the process.

    For then threads may still come back to the code, and the unwinder looks at all frames that it was told.
    """

    def __init__(self, memory: mmap.mmap, symbols: dict[str, int], frames: Sequence[int]) -> None:
        self._memory, self._symbols = memory, symbols
        register, forget = _unwinder()
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))
        for frame in frames:
            register(ctypes.c_void_p(frame))
        weakref.finalize(self, _give_back, memory, forget, frames).atexit = False

    def address(self, name: str) -> int:
        """Where a function begins; 0 if there is none of that name."""
        return self._symbols.get(name, 0)


class _Section(NamedTuple):
    kind: int
    flags: int
    content: bytes
    link: int
    info: int
    alignment: int


def linked_without_llvm(members: Sequence[bytes]) -> ElfCode | None:
    """The object files in memory, linked to one another and to this process; None if LLVM must do it."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return None
    try:
        return _linked([_sections(member) for member in members])
    except (_UnknownError, struct.error, ValueError, IndexError, OverflowError, OSError):
        return None


def _sections(data: bytes) -> list[_Section]:
    head, kind, machine, _, _, _, start, _, _, _, _, size, count, _ = _HEADER.unpack_from(data)
    if not head.startswith(_BEGIN) or kind != _RELOCATABLE or machine != _X86_64 or size != _SECTION.size:
        raise _UnknownError
    found = []
    for at in range(start, start + count * size, size):
        _, kind, flags, _, offset, length, link, info, alignment, _ = _SECTION.unpack_from(data, at)
        if kind not in (_PROGBITS, _SYMBOLS, _RELOCATIONS, _UNWIND) and kind not in _PASSED_OVER:
            raise _UnknownError
        content = data[offset : offset + length]
        if len(content) != length or (flags & _LOADED and flags & (_WRITABLE | _THREADS)):
            raise _UnknownError
        found.append(_Section(kind, flags, content, link, info, alignment))
    return found


def _linked(objects: list[list[_Section]]) -> ElfCode:
    places, executable, size = _layout(objects)
    memory = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    bases = {place: start + offset for place, offset in places.items()}
    defined: dict[str, int] = {}
    symbols = [_symbols(number, sections, bases, defined) for number, sections in enumerate(objects)]
    frames = []
    for (number, index), offset in places.items():
        section = objects[number][index]
        memory[offset : offset + len(section.content)] = section.content
        if section.kind == _UNWIND:
            frames.append(start + offset)
    for number, sections in enumerate(objects):
        for section in sections:
            if section.kind == _RELOCATIONS and (number, section.info) in places:
                offset = places[number, section.info]
                _relocate(memory, start, offset, section.content, symbols[number], defined)
    _protect(start, executable, _READ | _EXECUTE)
    _protect(start + executable, size - executable, _READ)
    return ElfCode(memory, defined, frames)


def _layout(objects: list[list[_Section]]) -> tuple[dict[tuple[int, int], int], int, int]:
    """The offset of each section, by the numbers of object and section; the ends of code and of all else, in pages."""
    places: dict[tuple[int, int], int] = {}
    ends = []
    end = 0
    for wanted in (_EXECUTABLE, 0):
        for number, sections in enumerate(objects):
            for index, section in enumerate(sections):
                if section.flags & _LOADED and section.flags & _EXECUTABLE == wanted:
                    if section.alignment > mmap.PAGESIZE:
                        raise _UnknownError
                    places[number, index] = end = _rounded(end, max(section.alignment, 1))
                    # Four zeros end the frames that the unwinder goes through.
                    end += len(section.content) + (4 if section.kind == _UNWIND else 0)
        end = _rounded(end, mmap.PAGESIZE)
        ends.append(end)
    return places, ends[0], ends[1]


def _symbols(
    number: int, sections: list[_Section], bases: dict[tuple[int, int], int], defined: dict[str, int]
) -> list[int | str | None]:
    """The symbols of an object: addresses, or the names of those of others; global ones are put among the defined."""
    found: list[int | str | None] = []
    for table in (section for section in sections if section.kind == _SYMBOLS):
        strings = sections[table.link].content
        for name_at, info, _, section, value, _ in _SYMBOL.iter_unpack(table.content):
            name = strings[name_at : strings.index(b"\0", name_at)].decode()
            if info & 15 in (_THREAD_LOCAL, _CHOSEN_BY_FUNCTION):
                raise _UnknownError
            if section == _UNDEFINED:
                found.append(name or None)
                continue
            if section >= _FIRST_RESERVED and section != _ABSOLUTE:
                raise _UnknownError
            base = 0 if section == _ABSOLUTE else bases.get((number, section))
            address = None if base is None else base + value
            if info >> 4 != _LOCAL and address is not None:
                if name in defined:
                    raise _UnknownError
                defined[name] = address
            found.append(address)
    return found


def _relocate(
    memory: mmap.mmap, start: int, offset: int, entries: bytes, symbols: list[int | str | None], defined: dict[str, int]
) -> None:
    for at, info, addend in _RELOCATION.iter_unpack(entries):
        symbol = symbols[info >> 32]
        if isinstance(symbol, str):
            symbol = defined.get(symbol) or _of_this_process(symbol)
        kind = info & 0xFFFFFFFF
        if symbol is None or kind not in (_ADDRESS, _DISTANCE):
            raise _UnknownError
        value = symbol + addend - (start + offset + at if kind == _DISTANCE else 0)
        _WORD.pack_into(memory, offset + at, value & 0xFFFFFFFFFFFFFFFF)


def _of_this_process(name: str) -> int:
    """The address of a function that a library of this process has."""
    return ctypes.cast(_function(_process(), name), ctypes.c_void_p).value or 0


def _function(library: ctypes.CDLL, name: str) -> Any:
    try:
        return library[name]
    except AttributeError as problem:
        raise _UnknownError from problem


def _protect(start: int, size: int, how: int) -> None:
    if size and _function(_process(), "mprotect")(ctypes.c_void_p(start), ctypes.c_size_t(size), how):
        raise _UnknownError


def _give_back(memory: mmap.mmap, forget: Callable[[Any], object], frames: Sequence[int]) -> None:
    """Let the unwinder forget frames, then nobody holds their memory."""
    for frame in frames:
        forget(ctypes.c_void_p(frame))
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(memory))


def _rounded(size: int, unit: int) -> int:
    return -(-size // unit) * unit


@cache
def _process() -> ctypes.CDLL:
    return ctypes.CDLL(None)


@cache
def _unwinder() -> tuple[Any, Any]:
    """What tells frames to, and lets forget them, who goes through them when a thread ends in the midst of such code.

    Python's threads do so when they come back from it after the main one has left.
    """
    library = ctypes.CDLL("libgcc_s.so.1")
    return _function(library, "__register_frame"), _function(library, "__deregister_frame")
