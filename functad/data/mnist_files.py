"""MNIST: its files, the places where they may lie, and the arrays that they become.

This file must not know how a file is downloaded, nor how the arrays are used.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from functad.data.download import RemoteFile, fetch, read_verified
from functad.data.idx import parse_idx
from functad.errors import DataError
from functad.system.cache import cache_dir

MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)

TRAIN_IMAGES = RemoteFile(
    "train-images-idx3-ubyte.gz",
    9_912_422,
    "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
)
TRAIN_LABELS = RemoteFile(
    "train-labels-idx1-ubyte.gz", 28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"
)
TEST_IMAGES = RemoteFile(
    "t10k-images-idx3-ubyte.gz", 1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"
)
TEST_LABELS = RemoteFile(
    "t10k-labels-idx1-ubyte.gz", 4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"
)
FILES = (TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS)


class MissingMNISTError(DataError):
    """Files of MNIST are neither on this machine nor could they be downloaded; those that are here are sound."""


class MNIST(NamedTuple):
    """The arrays of MNIST: images float32 in [0, 1] or pixels of 0 to 255, 0 the background; labels int32, 0 to 9.

    >>> MNIST._fields
    ('train_images', 'train_labels', 'test_images', 'test_labels')
    """

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def mnist(*, pixels: bool = False) -> MNIST:
    """The MNIST handwritten digits: 60,000 to train on and 10,000 to test with.

    Each file is looked for in the folder that the environment variable `FUNCTAD_DATA` names, in its
    sub-folder `mnist`, and in functad's cache folder (`functad.system.cache.cache_dir("data") / "mnist"`); what is
    in none of them is downloaded into the cache. Every file is checked against its SHA-256 each time.

    Source: Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, "Gradient-based learning applied to document
    recognition", Proc. IEEE 86(11), 1998.

    Args:
        pixels: leave the images as they are stored, uint8 of 0 to 255, which takes a quarter of the memory.

    Returns:
        `MNIST(train_images, train_labels, test_images, test_labels)`: NumPy arrays of shape (60000, 28, 28),
        (60000,), (10000, 28, 28) and (10000,); images float32 in [0, 1] unless `pixels`, labels int32.

    Raises:
        MissingMNISTError: a file is missing and cannot be downloaded.
        DataError: a file is damaged, or `FUNCTAD_DATA` names no folder.

    Example (which needs the files or a network)::

        data = mnist()
        data.train_images.shape    # (60000, 28, 28)
    """
    folders = _local_folders()
    wanted = (
        (TRAIN_IMAGES, (60_000, 28, 28)),
        (TRAIN_LABELS, (60_000,)),
        (TEST_IMAGES, (10_000, 28, 28)),
        (TEST_LABELS, (10_000,)),
    )
    # What is here is read before anything is fetched: a damaged file is an error even where another is missing.
    arrays: list[Any] = [_read_local(file, shape, folders) for file, shape in wanted]
    for i, (file, shape) in enumerate(wanted):
        if arrays[i] is None:
            arrays[i] = _read(_fetched(file, folders), file, shape)
    train_images, train_labels, test_images, test_labels = arrays
    if not pixels:
        train_images, test_images = _scaled(train_images), _scaled(test_images)
    return MNIST(train_images, _classes(train_labels), test_images, _classes(test_labels))


def _scaled(pixels: Any) -> np.ndarray:
    return np.divide(pixels, np.float32(255), dtype=np.float32)


def _classes(labels: Any) -> np.ndarray:
    return labels.astype(np.int32)


def _read_local(file: RemoteFile, shape: tuple[int, ...], folders: list[Path]) -> np.ndarray | None:
    for folder in folders:
        path = folder / file.name
        if path.is_file():
            return _read(path, file, shape)
    return None


def _read(path: Path, file: RemoteFile, shape: tuple[int, ...]) -> np.ndarray:
    return parse_idx(read_verified(path, file.sha256), str(path), shape=shape)


def _fetched(file: RemoteFile, folders: list[Path]) -> Path:
    try:
        return fetch(file, _cache_folder(), MIRRORS)
    except OSError as error:
        raise MissingMNISTError(_ways_out(folders, error)) from error


def _local_folders() -> list[Path]:
    """The folders to look in, the first one that has a file wins."""
    chosen = os.environ.get("FUNCTAD_DATA")
    if not chosen:
        return [_cache_folder()]
    folder = Path(chosen).expanduser()
    if not folder.is_dir():
        raise DataError(
            f"The environment variable FUNCTAD_DATA is {chosen!r}, which is no folder (from {Path.cwd()}). "
            "Set it to the folder that holds the data files, or unset it to use the cache and the download."
        )
    return [folder / "mnist", folder, _cache_folder()]


def _cache_folder() -> Path:
    return cache_dir("data") / "mnist"


def _ways_out(folders: list[Path], error: OSError) -> str:
    looked = "\n".join(f"  {folder}" for folder in folders)
    names = "\n".join(f"      {file.name}" for file in FILES)
    return (
        f"MNIST is not on this machine, and {error}\n"
        f"Looked in:\n{looked}\n"
        "Ways out:\n"
        "  - set the environment variable FUNCTAD_DATA to a folder that holds these four files:\n"
        f"{names}\n"
        f"  - copy them into {_cache_folder()}\n"
        "  - connect to the network, and run again\n"
        "  - use drawn digits: functad.data.synthetic_digits(n, seed), on the command line --data synthetic"
    )
