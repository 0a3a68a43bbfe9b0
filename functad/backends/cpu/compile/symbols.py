"""Which functions an object file needs from outside: its undefined symbols, read from ELF, Mach-O and COFF.

This file must not know who made the object file or what its functions do.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from functad.errors import CompilationError

# Names that a linker or loader knows by itself.
_NOT_FUNCTIONS = frozenset({"_GLOBAL_OFFSET_TABLE_", "_fltused"})


def undefined_symbols(object_bytes: bytes) -> tuple[str, ...]:
    """The names, sorted, of what the relocatable object file refers to and does not define.

    Raises:
        CompilationError: the bytes are not an object file of a known format, or are damaged.
    """
    try:
        if object_bytes[:4] == b"\x7fELF":
            names = _elf(object_bytes)
        elif object_bytes[:4] == b"\xcf\xfa\xed\xfe":
            names = _macho(object_bytes)
        elif object_bytes[:2] in (b"\x64\x86", b"\x64\xaa"):
            names = _coff(object_bytes)
        else:
            raise CompilationError(f"not an object file: it begins with {object_bytes[:4]!r}")
        return tuple(sorted(set(names) - _NOT_FUNCTIONS))
    except (struct.error, ValueError, IndexError, OverflowError) as problem:
        raise CompilationError(f"damaged object file: {problem}") from problem


def _elf(data: bytes) -> Iterator[str]:
    # ELF-64, System V ABI chapters 4 and 5.
    symbol_table = 2
    order = "<" if data[5] == 1 else ">"
    (sections,) = struct.unpack_from(order + "Q", data, 40)
    entry_size, count = struct.unpack_from(order + "HH", data, 58)
    headers = [struct.unpack_from(order + "IIQQQQIIQQ", data, sections + i * entry_size) for i in range(count)]
    for _, kind, _, _, offset, size, link, _, _, _ in headers:
        if kind != symbol_table:
            continue
        strings = headers[link][4]
        for position in range(offset, offset + size, 24):
            name, _, _, section = struct.unpack_from(order + "IBBH", data, position)
            if section == 0 and name:
                yield _text(data, strings + name)


def _macho(data: bytes) -> Iterator[str]:
    # Mach-O, 64 bits, little endian: the LC_SYMTAB command.
    symbol_table = 2
    (commands,) = struct.unpack_from("<I", data, 16)
    position = 32
    for _ in range(commands):
        command, size = struct.unpack_from("<II", data, position)
        if command == symbol_table:
            symbols, count, strings, _ = struct.unpack_from("<IIII", data, position + 8)
            for i in range(count):
                name, kind, _, _, value = struct.unpack_from("<IBBHQ", data, symbols + 16 * i)
                # Undefined, external, and not a common symbol (which has its size as value).
                if kind & 0xE1 == 0x01 and kind & 0x0E == 0 and value == 0:
                    yield _text(data, strings + name).removeprefix("_")
        position += size


def _coff(data: bytes) -> Iterator[str]:
    # COFF of 64-bit Windows: external symbols of section 0 without a size.
    symbols, count = struct.unpack_from("<II", data, 8)
    strings = symbols + 18 * count
    i = 0
    while i < count:
        position = symbols + 18 * i
        value, section, _, storage, extra = struct.unpack_from("<IhHBB", data, position + 8)
        if section == 0 and storage == 2 and value == 0:
            zeros, offset = struct.unpack_from("<II", data, position)
            yield _text(data, strings + offset) if zeros == 0 else data[position : position + 8].rstrip(b"\0").decode()
        i += 1 + extra


def _text(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start)].decode()
