"""gzip streams taken apart, with errors that name the file and say what to do.

This file must not know what the files hold.
"""

from __future__ import annotations

import gzip
import zlib

from functad.errors import DataError

MAGIC = b"\x1f\x8b"


def gunzip(content: bytes, name: str) -> bytes:
    """What a gzip stream holds.

    Args:
        content: the bytes of the stream.
        name: the file's name or path, for error messages.

    Raises:
        DataError: the stream ends early or does not decode.

    >>> gunzip(gzip.compress(b"text"), "file.gz")
    b'text'
    """
    try:
        return gzip.decompress(content)
    except EOFError as error:
        raise DataError(
            f"{name} is truncated: its gzip stream ends early, after {len(content):,} bytes. Fetch it again."
        ) from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{name} is damaged: its gzip stream does not decode ({error}). Fetch it again.") from error
