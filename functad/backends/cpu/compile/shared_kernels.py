"""The kernels of Programs by what they do: each is compiled once, however many Programs have it.

Knows that equal kernels have equal keys; not how kernels are compiled, nor (`objects`) how object files are kept. On
disk the kernels that were compiled together lie in one object file, and for each of them a note tells in which: a
Program whose kernels were all compiled together before opens one file, any other as many as it takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from weakref import WeakValueDictionary

from functad.backends.cpu.compile import objects
from functad.backends.cpu.compile.loader import Loaded
from functad.system.once import once

_KEY = rb"[0-9a-f]{40}"
_known: WeakValueDictionary[str, Loaded] = WeakValueDictionary()  # by the key of each kernel in the object


def kernels_of(source: str, texts: Mapping[str, str], make: Callable[[str, Mapping[str, str]], bytes]) -> Loaded:
    """Kernels that this process has, or that lie on disk, or that are compiled now, all in one object file.

    Args:
        source: the text of the functions, kept beside the object file for people to read.
        texts: of each kernel, by its name in `source`, a text that is equal for all kernels that do the same.
        make: compiles; is given the path of the file that holds `source`, and for each kernel that is missing the
            name that the object file shall export it under.

    Raises:
        CompilationError: the kernels cannot be compiled, or their machine code cannot be loaded.
    """
    keys = kernel_keys(texts)
    found = {key: loaded for key in keys.values() if (loaded := _known.get(key)) is not None}
    missing = {key: name for name, key in keys.items() if key not in found}
    if missing:
        found |= _from_disk(sorted(missing))
        rest = {name: key for key, name in missing.items() if key not in found}
        if rest:
            keys_of_rest = sorted(rest.values())
            found |= once(
                _object_of(keys_of_rest), lambda: _all_known(keys_of_rest), lambda: _compiled(source, rest, make)
            )
        _known.update(found)
    return _of_kernels(keys, found)


def kernel_keys(texts: Mapping[str, str]) -> dict[str, str]:
    """The key of each kernel's machine code."""
    return {name: objects.compilation_key(text) for name, text in texts.items()}


def find_kernels(keys: Mapping[str, str]) -> Loaded | None:
    """Kernels by the keys of their machine code, if this process has them all, or finds them on disk."""
    found = {key: loaded for key in keys.values() if (loaded := _known.get(key)) is not None}
    missing = sorted(set(keys.values()) - found.keys())
    if missing:
        found |= _from_disk(missing)
        _known.update(found)
    return _of_kernels(keys, found) if found.keys() == set(keys.values()) else None


def _of_kernels(keys: Mapping[str, str], found: Mapping[str, Loaded]) -> Loaded:
    """The addresses of kernels by their names."""
    return Loaded({name: found[key][key] for name, key in keys.items()}, [found[key] for key in keys.values()])


def _from_disk(keys: Sequence[str]) -> dict[str, Loaded]:
    """Those of the kernels that lie on disk: in the object file of all of them, or in several."""
    whole = objects.find_functions(_object_of(keys), keys)
    if whole is not None:
        return dict.fromkeys(keys, whole)
    groups: dict[str, list[str]] = {}
    for key in keys:
        note = objects.read_kept(f"{key}.in")
        if note is not None and re.fullmatch(_KEY, note):
            groups.setdefault(note.decode(), []).append(key)
    found = {}
    for object_key, members in groups.items():
        loaded = objects.find_functions(object_key, members)
        if loaded is not None:
            found.update(dict.fromkeys(members, loaded))
    return found


def _compiled(
    source: str, exports: Mapping[str, str], make: Callable[[str, Mapping[str, str]], bytes]
) -> dict[str, Loaded]:
    keys = sorted(exports.values())
    object_key = _object_of(keys)
    loaded = objects.compiled(object_key, source, keys, lambda path: make(path, exports))
    objects.write_alike([f"{key}.in" for key in keys], object_key.encode())
    _known.update(found := dict.fromkeys(keys, loaded))
    return found


def _all_known(keys: Sequence[str]) -> dict[str, Loaded] | None:
    """The kernels of these keys, if this process has them all: another thread may have compiled them meanwhile."""
    found = {key: _known.get(key) for key in keys}
    return {key: loaded for key, loaded in found.items() if loaded is not None} if all(found.values()) else None


def _object_of(keys: Sequence[str]) -> str:
    return objects.compilation_key(*keys)
