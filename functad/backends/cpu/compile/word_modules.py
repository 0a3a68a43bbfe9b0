"""Modules in the language of `integer_compiler`, loaded: found on disk, or compiled at the first call and kept there.

It must not know what their functions do.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from functad.backends.cpu.compile import objects
from functad.backends.cpu.compile.loader import Loaded
from functad.system.once import imported


def word_functions(module: ModuleType, *, effort: int = 0) -> Loaded:
    """The functions that a module exports. effort: see `integer_compiler.compile_words`."""
    source = Path(str(module.__file__)).read_text(encoding="utf-8")

    def make(_: str) -> bytes:
        # Loading the compiler takes time that a warm cache saves.
        compiler = imported("functad.backends.cpu.compile.integer_compiler")
        return bytes(compiler.compile_words(source, vars(module), module.EXPORTS, effort=effort))

    return objects.get_functions(source, module.__name__.rpartition(".")[2], module.EXPORTS, make).addresses
