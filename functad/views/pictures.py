"""Small pictures in a page, grey or of few colours: PNG files inside of their `img` elements.

Knows arrays of numbers; nothing of what they show.
"""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence
from html import escape

import numpy as np


def png(pixels: np.ndarray) -> bytes:
    """A PNG file of grey pixels, uint8 of shape (rows, columns), 0 black (ISO/IEC 15948).

    >>> png(np.zeros((2, 3), np.uint8))[:4]
    b'\\x89PNG'
    """
    return _file(pixels, 0, ())


def coloured_png(pixels: np.ndarray, palette: np.ndarray) -> bytes:
    """A PNG file of coloured pixels.

    Args:
        pixels: the numbers of colours, uint8 of shape (rows, columns).
        palette: the colours, uint8 of shape (colours, 4): red, green, blue, and 0 for transparent or 255.

    >>> coloured_png(np.zeros((2, 3), np.uint8), np.array([[255, 0, 0, 255]], np.uint8))[37:41]
    b'PLTE'
    """
    return _file(pixels, 3, ((b"PLTE", palette[:, :3].tobytes()), (b"tRNS", palette[:, 3].tobytes())))


def _file(pixels: np.ndarray, kind: int, extra: Sequence[tuple[bytes, bytes]]) -> bytes:
    rows, columns = pixels.shape
    head = struct.pack(">IIBBBBB", columns, rows, 8, kind, 0, 0, 0)  # 8 bits, the only compression and filters
    lines = np.zeros((rows, columns + 1), np.uint8)  # each line begins with its filter, none
    lines[:, 1:] = pixels
    parts = (b"IHDR", head), *extra, (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, content) for name, content in parts)


def image(pixels: np.ndarray, description: str, scale: float) -> str:
    """An `img` element of grey pixels, each `scale` CSS pixels wide and high."""
    rows, columns = pixels.shape
    return image_of(png(pixels), description, round(columns * scale), round(rows * scale))


def image_of(file: bytes, description: str, width: int, height: int) -> str:
    """An `img` element of a PNG file, of so many CSS pixels; its pixels have sharp edges."""
    source = f"data:image/png;base64,{b64encode(file).decode()}"
    size = f'width="{width}" height="{height}"'
    return f'<img src="{source}" alt="{escape(description)}" {size} style="image-rendering:pixelated">'


def drawing(svg: str, description: str) -> str:
    """An SVG document for notebooks: an image, which a script puts into the page, where it takes the page's colours.

    Where a notebook is not trusted, scripts and SVG elements are taken out of HTML, and images are left.
    """
    source = f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"
    image = f'<img alt="{escape(description)}" src="{source}" style="max-width:100%;height:auto">'
    return f'<div class="fv">{image}<script>{_INTO_PAGE}</script></div>'


_INTO_PAGE = """
(() => { for (const image of document.querySelectorAll('.fv > img')) {
  const bytes = Uint8Array.from(atob(image.src.split(',')[1]), c => c.charCodeAt(0));
  const svg = new DOMParser().parseFromString(new TextDecoder().decode(bytes), 'image/svg+xml').documentElement;
  for (const style of svg.querySelectorAll('style')) style.remove();
  svg.style.maxWidth = '100%'; svg.style.height = 'auto';
  image.replaceWith(document.adoptNode(svg));
} })();
"""


def signed(values: np.ndarray) -> np.ndarray:
    """Numbers as grey pixels: 0 in the middle, the largest of either sign black if negative, white if positive.

    >>> signed(np.array([[-2., 0., 1.]]))
    array([[  0, 128, 191]], dtype=uint8)
    """
    largest = np.abs(values).max(initial=0.0) or 1.0
    return np.clip(np.rint(127.5 + 127.5 * np.nan_to_num(values / largest)), 0, 255).astype(np.uint8)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
