"""Modules in the language of `integer_compiler`, loaded: found on disk, or compiled at the first call and kept there.

It must not know what their functions do.
"""

from __future__ import annotations

from types import ModuleType

from functad.backends.cpu.compile import objects
from functad.backends.cpu.compile.loader import Loaded
from functad.system.once import imported
from functad.system.source_files import text_of


def load_words(*modules: ModuleType, identity: str, effort: int = 0) -> objects.LoadedObject:
    """The functions that modules export, compiled together. effort: see `integer_compiler.compile_words`."""
    source = "\n".join(map(text_of, modules))
    exports = tuple([name for module in modules for name in module.EXPORTS])
    names = {name: value for module in modules for name, value in vars(module).items()}

    def make(_: str) -> bytes:
        # Loading the compiler takes time that a warm cache saves.
        compiler = imported("functad.backends.cpu.compile.integer_compiler")
        return bytes(compiler.compile_words(source, names, exports, effort=effort))

    return objects.get_functions(source, identity, exports, make)


def word_functions(module: ModuleType, *, effort: int = 0) -> Loaded:
    """The functions that one module exports. effort: as of `load_words`."""
    return load_words(module, identity=module.__name__.rpartition(".")[2], effort=effort).addresses
