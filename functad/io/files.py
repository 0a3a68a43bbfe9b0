"""A pytree of arrays in one file, written whole or not at all; the suffix says in which format.

This file must not know what the arrays are for, nor how a format is made.
"""

from __future__ import annotations

import os
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from functad.errors import ArgumentError, DataError, DTypeError
from functad.io import npz, safetensors
from functad.io.trees import fitted
from functad.system.cache import atomic_write, part_of

# What zipfile, NumPy and json raise for content that they cannot read.
_DAMAGES = (
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError, SyntaxError, EOFError),
    *(ValueError, KeyError, TypeError, OverflowError, RuntimeError),
)


def save(path: str | os.PathLike[str], tree: Any) -> None:
    """Write a pytree of arrays to a file, which appears whole or not at all.

    A file whose name ends in `.safetensors` has that format, any other one is an `.npz` file, which is like those of
    NumPy. There each array has its key path for a name, so that other programs read it with
    `numpy.load(path)["['dense']['kernel']"]`; a lone array is `"array"`. In a safetensors file the names are
    `"dense.kernel"`, as others write them; two arrays of one such name get their full key paths instead.

    Args:
        path: the file to write, used as it is; missing folders are made.
        tree: dicts (with str keys or with int keys), lists, tuples, named tuples and None around arrays and
            Python scalars, which are stored with functad's default dtypes. Of typed random keys the words are stored,
            as uint32. Of named tuples, such as the states of optimizers, the class is not stored: `load` gives tuples,
            or with `like` the class again. A safetensors file holds no complex128.

    Raises:
        ArgumentError: the tree has another kind of node, or a leaf that is no array of numbers; its key path
            is named.
        OSError: the file cannot be written.

    >>> import tempfile
    >>> import numpy as np
    >>> folder = Path(tempfile.mkdtemp())
    >>> for path in (folder / "params.npz", folder / "params.safetensors"):
    ...     save(path, {"w": np.ones((2, 1), np.float32), "layers": [1, None]})
    ...     load(path)
    {'layers': [array(1, dtype=int32), None], 'w': array([[1.],
           [1.]], dtype=float32)}
    {'layers': [array(1, dtype=int32), None], 'w': array([[1.],
           [1.]], dtype=float32)}
    """
    write = _format(path).prepare(tree)
    with _naming(path), atomic_write(path) as file:
        write(file)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise if `save` could not write this file; missing folders are made, the file is left as it is.

    Raises:
        ArgumentError: the path names no file. OSError: the file cannot be written.

    >>> check_writable("")
    Traceback (most recent call last):
    functad.errors.ArgumentError: '' cannot be a file to write; give the path of a file, such as 'params.npz'
    """
    target = Path(name := _name(path))
    if not target.name or name.endswith(os.sep) or (target.exists() and not target.is_file()):
        example = os.path.join(name, "params.npz")
        what = "is a folder" if target.is_dir() and name else "cannot be a file to write"
        raise ArgumentError(f"{name!r} {what}; give the path of a file, such as {example!r}")
    with _naming(path):
        with part_of(target):
            return


def load(path: str | os.PathLike[str], *, like: Any = None) -> Any:
    """Read a pytree of arrays that `save` wrote, or the arrays of a safetensors file of another program.

    Args:
        path: the file to read.
        like: a pytree of the structure, shapes and dtypes that the file must have, such as fresh params or
            `optimizer.init(params)`; its named tuples are made again. Its leaves may be `ShapeDtypeStruct`s; where it
            has `...`, anything fits.

    Returns:
        The pytree, its leaves NumPy arrays of the shapes and dtypes they were saved with, and typed random keys. A
        safetensors file that says nothing of a structure gives a dict of arrays by their names.

    Raises:
        ArgumentError: the path is none, or `like` holds a node that cannot be rebuilt.
        DataError: the file is missing, damaged, in no such format, has a dtype that functad has not (such as floats of
            8 bits; bfloat16 needs the package ml_dtypes), or does not fit `like`.

    >>> import functad.optim, tempfile
    >>> folder, optimizer = tempfile.mkdtemp(), functad.optim.sgd(0.1, momentum=0.9)
    >>> save(folder + "/state.npz", optimizer.init([1.0]))
    >>> load(folder + "/state.npz")
    (([array(0., dtype=float32)],), ())
    >>> load(folder + "/state.npz", like=optimizer.init([1.0]))
    (TraceState(trace=[array(0., dtype=float32)]), ())
    """
    name, form = _name(path), _format(path)
    try:
        with open(path, "rb") as file:
            tree = form.read(file)
    except FileNotFoundError as error:
        raise DataError(f"{name} does not exist (seen from {Path.cwd()}).") from error
    except DTypeError as error:
        raise DataError(f"{name} cannot be loaded: {error}") from error
    except _DAMAGES as error:
        kind = "is no safetensors file" if form is safetensors else "was not written by functad.io.save"
        raise DataError(f"{name} is damaged, or {kind}: {error}") from error
    if like is None:
        return tree
    return fitted(safetensors.arranged(tree, like, name) if form is safetensors else tree, like, (), name)


def _name(path: str | os.PathLike[str]) -> str:
    if not isinstance(path, (str, os.PathLike)):
        raise ArgumentError(f"{path!r:.80} is no path of a file; give one, such as 'params.npz'")
    return os.fspath(path)


def _format(path: str | os.PathLike[str]) -> Any:
    return safetensors if _name(path).lower().endswith(".safetensors") else npz


@contextmanager
def _naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Errors of the file system name the file that the user named, not the one that is written before."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(error.errno or 0, f"cannot be written: {reason}", os.fspath(path)) from error
