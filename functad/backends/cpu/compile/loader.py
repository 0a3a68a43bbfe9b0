"""How an object file becomes addresses of functions.

This file must not know who made it, nor import Numba or LLVM: with a warm cache a process seldom needs them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from functad.backends.cpu.compile import elf
from functad.errors import CompilationError
from functad.system.once import imported

# The first bytes of an archive of object files, and the head of each: name, time, owner, group, mode, size, an end.
_ARCHIVE = b"!<arch>\n"
_HEAD = struct.Struct("16s12s6s6s8s10s2s")

# Before the name of every function that an object exports: so none can be taken for one of the C library.
PREFIX = "functad_"


class MachineCode(Protocol):
    """Machine code in memory, there as long as this object is."""

    def address(self, name: str) -> int:
        """Where a function begins; 0 if there is none of that name."""


class Loaded(Mapping[str, int]):
    """Functions of loaded object files: name -> address. Their code, which is kept, is there as long as this object."""

    def __init__(self, addresses: Mapping[str, int], kept: object) -> None:
        self._addresses, self._kept = addresses, kept

    def __getitem__(self, name: str) -> int:
        return self._addresses[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._addresses)

    def __len__(self) -> int:
        return len(self._addresses)


def load_object(object_bytes: bytes, names: Sequence[str]) -> Loaded:
    """Load an object file, or an archive of some, and look up the functions `names`, which it must export.

    Raises:
        CompilationError: the object needs functions that this process does not have, or is damaged.
    """
    members = _members(object_bytes)
    return functions_of(
        elf.linked_without_llvm(members) or imported("functad.backends.cpu.compile.target").linked(members), names
    )


def functions_of(code: MachineCode, names: Sequence[str]) -> Loaded:
    """The functions `names` of machine code.

    Raises:
        CompilationError: it has none of such a name.
    """
    addresses = {name: code.address(PREFIX + name) for name in names}
    missing = [name for name, address in addresses.items() if not address]
    if missing:
        raise CompilationError(f"the object file does not define {', '.join(missing)}")
    return Loaded(addresses, code)


def archive(members: Sequence[bytes]) -> bytes:
    """Object files as one: a single one as it is, others as an archive, which `objdump` reads."""
    if len(members) == 1:
        return members[0]
    parts = [_ARCHIVE]
    for number, member in enumerate(members):
        fields = (f"{number}.o/", "0", "0", "0", "644", str(len(member)), "`\n")
        head = _HEAD.pack(*(field.encode() for field in fields)).replace(b"\0", b" ")
        parts += [head, member, b"\n" * (len(member) % 2)]
    return b"".join(parts)


def _members(content: bytes) -> list[bytes]:
    if not content.startswith(_ARCHIVE):
        return [content]
    members = []
    at = len(_ARCHIVE)
    try:
        while at < len(content):
            size = int(_HEAD.unpack_from(content, at)[-2])
            at += _HEAD.size
            members.append(content[at : at + size])
            at += size + size % 2
    except (struct.error, ValueError) as problem:
        raise CompilationError(f"damaged archive of object files: {problem}") from problem
    return members
