"""MNIST: its files, and the arrays that they become.

This file must not know how a file is found or downloaded, nor how the arrays are used.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from functad.data.idx import parse_idx, read_idx
from functad.data.places import Collection, DataFile
from functad.errors import DataError
from functad.records import NamedTuple

COLLECTION = Collection(
    "MNIST",
    "mnist",
    (
        DataFile("train-images-idx3-ubyte.gz", "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
        DataFile("train-labels-idx1-ubyte.gz", "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
        DataFile("t10k-images-idx3-ubyte.gz", "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
        DataFile("t10k-labels-idx1-ubyte.gz", "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
    ),
    ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
    (9_912_422, 28_881, 1_648_877, 4_542),
    "use drawn digits: functad.data.synthetic_digits(n, seed), on the command line --data synthetic",
)
_SHOWN_FILES = 8
_SHAPES = ((60_000, 28, 28), (60_000,), (10_000, 28, 28), (10_000,))


class MNIST(NamedTuple):
    """The arrays of MNIST: images float32 in [0, 1] or pixels of 0 to 255, 0 the background; labels int32, 0 to 9.

    >>> MNIST._fields
    ('train_images', 'train_labels', 'test_images', 'test_labels')
    """

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def mnist(folder: str | os.PathLike[str] | None = None, *, pixels: bool = False) -> MNIST:
    """The MNIST handwritten digits: 60,000 to train on and 10,000 to test with.

    Each file is looked for in the folder that the environment variable `FUNCTAD_DATA` names, in its
    sub-folder `mnist`, and in functad's cache folder (`functad.system.cache.cache_dir("data") / "mnist"`); what is
    in none of them is downloaded into the cache. Every file is checked against its SHA-256 each time.

    Source: Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, "Gradient-based learning applied to document
    recognition", Proc. IEEE 86(11), 1998.

    Args:
        folder: take files of the same names from this folder alone, compressed or not, whatever images they hold, such
            as those of Fashion-MNIST: of any number and size, and of any sum. Names may have `.idx` for `-idx`.
        pixels: leave the images as they are stored, uint8 of 0 to 255, which takes a quarter of the memory.

    Returns:
        `MNIST(train_images, train_labels, test_images, test_labels)`: NumPy arrays of shape (60000, 28, 28),
        (60000,), (10000, 28, 28) and (10000,); images float32 in [0, 1] unless `pixels`, labels int32.

    Raises:
        MissingDataError: a file is missing and cannot be downloaded.
        DataError: a file is damaged, or `FUNCTAD_DATA` names no folder; or `folder` lacks one of them, or they do not
            fit together.

    Examples; the first needs the files, or a network:

    >>> mnist().train_images.shape  # doctest: +SKIP
    (60000, 28, 28)
    >>> mnist("no/such/folder")
    Traceback (most recent call last):
        ...
    functad.errors.DataError: no/such/folder is no folder ...
    """
    if folder is None:
        arrays = [
            parse_idx(content, file.name, shape=shape)
            for content, file, shape in zip(COLLECTION.contents(), COLLECTION.files, _SHAPES, strict=True)
        ]
    else:
        arrays = [_found(Path(folder), file.name, len(shape)) for file, shape in zip(COLLECTION.files, _SHAPES)]
        for images, labels in (arrays[:2], arrays[2:]):
            if len(images) != len(labels):
                raise DataError(
                    f"{folder} has {len(labels):,} labels for {len(images):,} images: they do not belong together"
                )
    train_images, train_labels, test_images, test_labels = arrays
    if not pixels:
        train_images, test_images = _scaled(train_images), _scaled(test_images)
    return MNIST(train_images, _classes(train_labels), test_images, _classes(test_labels))


def _found(folder: Path, name: str, axes: int) -> np.ndarray:
    """The bytes of one of the files, with its name or without `.gz`, or with `.idx` where it has `-idx`."""
    plain = name.removesuffix(".gz")
    names = [name, plain, name.replace("-idx", ".idx"), plain.replace("-idx", ".idx")]
    path = next((folder / each for each in names if (folder / each).exists()), None)
    if path is None:
        held = sorted(each.name for each in folder.iterdir())[:_SHOWN_FILES] if folder.is_dir() else None
        there = (
            "is no folder" if held is None else f"has none of {', '.join(names)}; it has {', '.join(held) or 'nothing'}"
        )
        raise DataError(f"{folder} {there} (seen from {Path.cwd()}).")
    values = read_idx(path)
    if values.ndim != axes or values.dtype != np.uint8:
        raise DataError(f"{path} holds {values.dtype} of shape {values.shape}, expected uint8 with {axes} axes")
    return values


def _scaled(pixels: Any) -> np.ndarray:
    return np.divide(pixels, np.float32(255), dtype=np.float32)


def _classes(labels: Any) -> np.ndarray:
    return labels.astype(np.int32)
