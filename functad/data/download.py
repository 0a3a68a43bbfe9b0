"""Fetching a file of known size and SHA-256 from one of several mirrors, whole or not at all.

This file must not know which data sets there are: it is told names, sums and addresses.
"""

from __future__ import annotations

import hashlib
import http.client
import queue
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from functad.data.compressed import gunzip
from functad.errors import ArgumentError, DataError
from functad.records import NamedTuple
from functad.system.cache import atomic_write
from functad.system.progress import Progress

_CHUNK = 1 << 16
# Seconds for the look-up of a host's name, on top of the time-out of its connection.
_LOOK_UP_GRACE = 1.0
_RETRY_STATUS = (429, 500, 502, 503, 504)


class RemoteFile(NamedTuple):
    """A public file: its name, its size in bytes and its SHA-256 in hexadecimal.

    Where the sum is None, the size is the most that the file may have, and what is in it must be checked.
    """

    name: str
    size: int
    sha256: str | None


def fetch(
    file: RemoteFile,
    folder: Path,
    mirrors: Sequence[str],
    *,
    timeout: float = 4.0,
    attempts: int = 2,
    grace: float = 10.0,
    min_rate: float = 20_000.0,
) -> Path:
    """Download `file` into `folder` from the first mirror that gives it, and check its sum.

    The file appears under its name only once it is complete and right; nothing else is left behind. A mirror
    that cannot be reached, has no such file, gives a wrong one or is too slow is tried once; one that stalls,
    breaks off or is overloaded is tried again after the others, up to `attempts` times.

    Args:
        file: what to fetch.
        folder: where to put it; made if missing.
        mirrors: http(s) addresses of folders, in the order to try them.
        timeout: seconds to wait for a connection, and for each next piece of data.
        attempts: how often to go through the mirrors at most.
        grace: seconds that a download may take at any rate.
        min_rate: bytes a second, on average from the start, that it must reach after these.

    Returns:
        The path of the file.

    Raises:
        DataError: no mirror gave the right file; the message has one line for each try.
    """
    target = folder / file.name
    failures: list[str] = []
    left = list(mirrors)
    for _ in range(attempts):
        again = []
        for mirror in left:
            url = mirror.rstrip("/") + "/" + file.name
            try:
                _download(file, url, target, timeout, grace, min_rate)
                return target
            except _TryFailedError as failure:
                failures.append(f"{url}: {failure}")
                if failure.transient:
                    again.append(mirror)
        left = again
    raise DataError(f"{file.name} could not be downloaded:\n" + "\n".join(f"  {line}" for line in failures))


def read_verified(path: Path, sha256: str, *, unpacked: bool = False) -> bytes:
    """The content of a file whose SHA-256 is known.

    Args:
        path: the file.
        sha256: its sum in hexadecimal; that of what it holds, if the file is `unpacked`.
        unpacked: whether the file is a gzip stream, of which the content is returned.

    Returns:
        All its bytes.

    Raises:
        DataError: the sum is another one; the message names the file and both sums.
    """
    content = path.read_bytes()
    if unpacked:
        content = gunzip(content, str(path))
    actual = hashlib.sha256(content).hexdigest()
    if actual != sha256:
        raise DataError(
            f"{path} is damaged or another file ({len(content):,} bytes): its SHA-256 is\n"
            f"  {actual}, expected\n"
            f"  {sha256}.\n"
            "Delete it or put the right file in its place."
        )
    return content


class _TryFailedError(Exception):
    """One try at one mirror failed; `transient` tells whether the same mirror is worth another try."""

    def __init__(self, reason: str, *, transient: bool) -> None:
        super().__init__(reason)
        self.transient = transient


def _download(file: RemoteFile, url: str, target: Path, timeout: float, grace: float, min_rate: float) -> None:
    digest = hashlib.sha256()
    received = 0
    started = time.monotonic()
    with _open(url, timeout) as response, atomic_write(target) as output:
        with Progress(file.size, file.name, unit="B") as progress:
            for chunk in _chunks(response):
                output.write(chunk)
                digest.update(chunk)
                received += len(chunk)
                progress.update(len(chunk))
                seconds = time.monotonic() - started
                if seconds > grace and received < min_rate * seconds and received < file.size:
                    raise _TryFailedError(
                        f"too slow: {received:,} of {file.size:,} bytes in {seconds:.0f} s", transient=False
                    )
                if received > file.size:
                    raise _TryFailedError(f"sent more than the {file.size:,} bytes expected", transient=False)
        expected = received + (response.length or 0) if file.sha256 is None else file.size
        if received < expected:
            raise _TryFailedError(f"broke off after {received:,} of {expected:,} bytes", transient=True)
        if file.sha256 is not None and digest.hexdigest() != file.sha256:
            raise _TryFailedError(
                f"wrong content: SHA-256 {digest.hexdigest()}, expected {file.sha256}", transient=False
            )


def _open(url: str, timeout: float) -> http.client.HTTPResponse:
    if urlsplit(url).scheme not in ("http", "https"):
        raise ArgumentError(f"fetch: the address {url!r} of a mirror is neither http nor https.")
    try:
        return _within(timeout + _LOOK_UP_GRACE, lambda: urllib.request.urlopen(url, timeout=timeout))
    except urllib.error.HTTPError as error:
        with error:
            transient = error.code in _RETRY_STATUS
            raise _TryFailedError(f"HTTP status {error.code} ({error.reason})", transient=transient) from error
    except urllib.error.URLError as error:
        raise _TryFailedError(f"cannot be reached ({error.reason})", transient=False) from error
    except (OSError, http.client.HTTPException) as error:
        raise _TryFailedError(f"cannot be reached ({_named(error)})", transient=False) from error


def _within(seconds: float, work: Callable[[], Any]) -> Any:
    """The result of `work`, or TimeoutError: the look-up of a host's name heeds no time-out of its own."""
    results: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue()

    def run() -> None:
        try:
            results.put((work(), None))
        except BaseException as error:  # handed over and raised in the caller's thread
            results.put((None, error))

    threading.Thread(target=run, daemon=True).start()
    try:
        result, error = results.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"no answer within {seconds:g} s") from None
    if error is not None:
        raise error
    return result


def _chunks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    try:
        # What has come so far: read() would wait for a whole chunk, however slowly it comes.
        while chunk := response.read1(_CHUNK):
            yield chunk
    except (OSError, http.client.HTTPException) as error:
        raise _TryFailedError(f"broke off ({_named(error)})", transient=True) from error


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
