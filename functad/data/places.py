"""Where the files of a public data set may lie: the user's folder, the cache, the network.

This file must not know which data sets there are, nor what their files hold.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from functad.data.download import RemoteFile, fetch, read_verified
from functad.errors import DataError
from functad.records import NamedTuple
from functad.system.cache import cache_dir


class MissingDataError(DataError):
    """Files of a data set are neither on this machine nor could they be downloaded; those that are here are sound.

    The message lists where they were looked for, and the ways out.

    >>> from functad.errors import DataError
    >>> issubclass(MissingDataError, DataError) and issubclass(MissingDataError, OSError)
    True
    """


class DataFile(NamedTuple):
    """A file of a data set: its name and the SHA-256, in hexadecimal, of it, or of what its gzip stream holds."""

    name: str
    sha256: str
    unpacked: bool = False


class Archive(NamedTuple):
    """A public archive, and how the files of a data set are made of it: `unpack(archive, folder)`."""

    file: RemoteFile
    unpack: Callable[[Path, Path], None]


@dataclass(frozen=True)
class Collection:
    """A public data set.

    Attributes:
        name: as users know it.
        folder: the folder of its files, in the user's folder of data and in the cache.
        files: what it consists of.
        mirrors: http(s) addresses of folders that hold its files, or its archive.
        source: the sizes of the files in bytes, in their order, or the archive that holds them.
        instead: what else there is to use, for the message that tells of missing files.
    """

    name: str
    folder: str
    files: tuple[DataFile, ...]
    mirrors: tuple[str, ...]
    source: tuple[int, ...] | Archive
    instead: str

    def contents(self) -> list[bytes]:
        """What the files hold, each checked against its sum.

        Each is looked for in the folder that the environment variable `FUNCTAD_DATA` names, in its sub-folder of the
        collection, and in functad's cache; what is in none of them is downloaded into the cache.

        Raises:
            MissingDataError: a file is missing and cannot be downloaded.
            DataError: a file is damaged, or `FUNCTAD_DATA` names no folder.
        """
        folders = self._folders()
        # What is here is read before anything is fetched: a damaged file is an error even where another is missing.
        found = [self._local(file, folders) for file in self.files]
        if any(content is None for content in found):
            try:
                self._fetch([i for i, content in enumerate(found) if content is None])
            except OSError as error:
                raise MissingDataError(self._ways_out(folders, error)) from error
        return [
            _content(self._cache() / file.name, file) if content is None else content
            for file, content in zip(self.files, found, strict=True)
        ]

    def _local(self, file: DataFile, folders: list[Path]) -> bytes | None:
        for folder in folders:
            if (folder / file.name).is_file():
                return _content(folder / file.name, file)
        return None

    def _fetch(self, missing: list[int]) -> None:
        folder = self._cache()
        if isinstance(self.source, Archive):
            archive = fetch(self.source.file, folder, self.mirrors)
            try:
                self.source.unpack(archive, folder)
            finally:
                archive.unlink(missing_ok=True)  # another process may have been here
            return
        for i in missing:
            name, sha256, _ = self.files[i]
            fetch(RemoteFile(name, self.source[i], sha256), folder, self.mirrors)

    def _folders(self) -> list[Path]:
        """The folders to look in, the first one that has a file wins."""
        chosen = os.environ.get("FUNCTAD_DATA")
        if not chosen:
            return [self._cache()]
        folder = Path(chosen).expanduser()
        if not folder.is_dir():
            raise DataError(
                f"The environment variable FUNCTAD_DATA is {chosen!r}, which is no folder (from {Path.cwd()}). "
                "Set it to the folder that holds the data files, or unset it to use the cache and the download."
            )
        return [folder / self.folder, folder, self._cache()]

    def _cache(self) -> Path:
        return cache_dir("data") / self.folder

    def _ways_out(self, folders: list[Path], error: OSError) -> str:
        looked = "\n".join(f"  {folder}" for folder in folders)
        names = "\n".join(f"      {file.name}" for file in self.files)
        return (
            f"{self.name} is not on this machine, and {error}\n"
            f"Looked in:\n{looked}\n"
            "Ways out:\n"
            "  - set the environment variable FUNCTAD_DATA to a folder that holds these files:\n"
            f"{names}\n"
            f"  - copy them into {self._cache()}\n"
            "  - connect to the network, and run again\n"
            f"  - {self.instead}"
        )


def _content(path: Path, file: DataFile) -> bytes:
    return read_verified(path, file.sha256, unpacked=file.unpacked)
