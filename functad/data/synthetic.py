"""Handwriting-like digits drawn by NumPy alone: what to train on where there is no MNIST.

This file must not know of files, networks or models. A digit is a few pen strokes, bent.
"""

from __future__ import annotations

import numpy as np

from functad.errors import check_int

_SIZE = 28
_POINTS = 40
_CHUNK = 500

# Pen strokes in a box of [-1, 1] x [-1, 1], y down. A stroke is a list of corners, or an arc:
# (centre x, centre y, radius x, radius y, first and last angle in degrees, clockwise from the right).
_Stroke = list[tuple[float, float]] | tuple[float, float, float, float, float, float]
# The two forms of each digit.
_GLYPHS: tuple[tuple[list[_Stroke], list[_Stroke]], ...] = (
    ([(0, 0, 0.6, 0.95, -90, 270)], [(0, 0, 0.75, 0.8, -60, 290)]),
    ([[(0, -0.95), (0, 0.95)]], [[(-0.4, -0.5), (0.1, -0.95), (0.1, 0.95)]]),
    (
        [(0, -0.45, 0.55, 0.5, -180, 40), [(0.42, -0.13), (-0.6, 0.95), (0.65, 0.95)]],
        [
            (0, -0.5, 0.5, 0.45, -160, 60),
            [(0.25, -0.11), (-0.5, 0.75)],
            (-0.35, 0.75, 0.15, 0.15, 180, 400),
            [(-0.25, 0.85), (0.65, 0.9)],
        ],
    ),
    (
        [(-0.05, -0.48, 0.5, 0.46, -160, 90), (-0.05, 0.45, 0.58, 0.48, -90, 160)],
        [[(-0.55, -0.9), (0.5, -0.9), (-0.05, -0.15)], (-0.08, 0.4, 0.6, 0.55, -85, 150)],
    ),
    (
        [[(0.1, -0.95), (-0.65, 0.3), (0.65, 0.3)], [(0.3, -0.3), (0.3, 0.95)]],
        [[(-0.5, -0.9), (-0.5, 0.0), (0.45, 0.0)], [(0.45, -0.9), (0.45, 0.95)]],
    ),
    (
        [[(0.55, -0.9), (-0.45, -0.9), (-0.5, -0.1)], (-0.08, 0.38, 0.6, 0.55, -125, 150)],
        [[(0.6, -0.85), (-0.3, -0.9), (-0.35, -0.2), (0.1, -0.2)], (0.0, 0.35, 0.5, 0.55, -75, 140)],
    ),
    (
        [[(0.35, -0.95), (-0.25, -0.3), (-0.5, 0.35)], (0, 0.42, 0.52, 0.5, 180, 540)],
        [(0.25, 0.1, 0.75, 1.0, -100, -185), (0, 0.5, 0.5, 0.42, -180, 180)],
    ),
    (
        [[(-0.6, -0.9), (0.6, -0.9), (-0.15, 0.95)]],
        [[(-0.6, -0.85), (0.55, -0.9), (0.0, 0.95)], [(-0.3, 0.0), (0.5, 0.0)]],
    ),
    (
        [(0, -0.48, 0.45, 0.44, 90, 450), (0, 0.46, 0.55, 0.48, -90, 270)],
        [
            [(0.45, -0.8), (-0.45, -0.4), (0.45, 0.4)],
            (0, 0.55, 0.45, 0.4, -20, 200),
            [(-0.45, 0.5), (0.5, -0.75)],
        ],
    ),
    (
        [(-0.02, -0.42, 0.5, 0.5, 0, 360), [(0.48, -0.42), (0.4, 0.95)]],
        [(0, -0.45, 0.52, 0.45, -30, 330), (-0.25, -0.1, 0.75, 1.0, -10, 80)],
    ),
)


def synthetic_digits(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw `n` digits like handwritten ones; the same arguments always give the same digits.

    Every digit has two forms, whose strokes are turned, slanted, scaled, shifted, bent, drawn with a pen of
    random width and pressure, and joined by stray marks and noise. A linear classifier stays well below a
    small network.

    Args:
        n: how many digits, at least 0.
        seed: a non-negative int. Digits of two seeds are independent: one for training, another for testing.

    Returns:
        `(images, labels)`: images float32 of shape (n, 28, 28) in [0, 1] with 0 the background; labels int32
        of shape (n,), the digits 0 to 9.

    Raises:
        ArgumentError: `n` or `seed` is negative or no int.

    >>> images, labels = synthetic_digits(100, seed=0)
    >>> images.shape, images.dtype, labels.dtype
    ((100, 28, 28), dtype('float32'), dtype('int32'))
    """
    n, seed = check_int(n, "synthetic_digits: n", low=0), check_int(seed, "synthetic_digits: seed", low=0)
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 10, n, dtype=np.int32)
    images = np.empty((n, _SIZE, _SIZE), np.float32)
    for start in range(0, n, _CHUNK):
        part = slice(start, start + _CHUNK)
        images[part] = _draw(labels[part], rng)
    return images, labels


def _draw(labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    count = len(labels)
    forms = rng.integers(0, _OUTLINES.shape[1], count)
    points = _pixels(_bend(_OUTLINES[labels, forms], rng), rng)
    marks = _stray_marks(count, rng)
    width = _uniform(rng, 0.55, 1.0, (count, 1))
    pressure = _uniform(rng, 0.75, 1.5, (count, 1))
    ink = _splat(points, width, pressure) + _splat(marks, width * 0.8, pressure)
    ink = np.clip(ink, 0, 1) * _uniform(rng, 0.7, 1.0, (count, 1, 1))
    ink += _uniform(rng, 0.0, 0.18, (count, 1, 1)) * rng.standard_normal(ink.shape, np.float32)
    # Whole grey levels, as in a scan; they also hide the last bits, in which processors differ.
    return np.round(np.clip(ink, 0, 1) * 255) / np.float32(255)


def _bend(points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Shake the strokes by two slow waves, then turn, slant and stretch the whole digit."""
    count = len(points)
    for _ in range(2):
        waves = _uniform(rng, -2.2, 2.2, (count, 2, 2))
        phase = _uniform(rng, 0, 2 * np.pi, (count, 1, 2))
        reach = _uniform(rng, 0.0, 0.14, (count, 1, 2))
        points = points + reach * np.sin(points @ waves + phase)
    angle = _uniform(rng, -0.3, 0.3, count)
    slant = _uniform(rng, -0.3, 0.3, count)
    scale = _uniform(rng, 0.75, 1.1, (count, 1, 2))
    cos, sin = np.cos(angle), np.sin(angle)
    turn = np.stack([np.stack([cos, sin], -1), np.stack([-sin - slant * cos, cos - slant * sin], -1)], 1)
    return (points * scale) @ turn


def _pixels(points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """From the box to pixel coordinates: centred by the extent of the strokes, then shifted a little."""
    centre = (points.max(1, keepdims=True) + points.min(1, keepdims=True)) / 2
    shift = _uniform(rng, -2.2, 2.2, (len(points), 1, 2))
    return (points - centre) * np.float32(9.5) + shift + np.float32((_SIZE - 1) / 2)


def _stray_marks(count: int, rng: np.random.Generator) -> np.ndarray:
    """One short line an image, anywhere; for half of the images it lies outside of the paper."""
    middle = _uniform(rng, 1, _SIZE - 1, (count, 1, 2))
    direction = _uniform(rng, -3.5, 3.5, (count, 1, 2))
    outside = rng.integers(0, 2, (count, 1, 1)) * np.float32(10 * _SIZE)
    along = np.linspace(-1, 1, 7, dtype=np.float32).reshape(1, -1, 1)
    return middle + direction * along + outside


def _splat(points: np.ndarray, width: np.ndarray, pressure: np.ndarray) -> np.ndarray:
    """Ink of soft round dots: each is a Gaussian in x times one in y, so their sum is a matrix product."""
    grid = np.arange(_SIZE, dtype=np.float32)
    sharpness = (0.5 / width**2)[:, :, None]
    in_x = np.exp(-sharpness * (points[:, :, 0, None] - grid) ** 2)
    in_y = np.exp(-sharpness * (points[:, :, 1, None] - grid) ** 2)
    return pressure[:, :, None] * (in_y.swapaxes(1, 2) @ in_x)


def _uniform(rng: np.random.Generator, low: float, high: float, shape: int | tuple[int, ...]) -> np.ndarray:
    return rng.random(shape, np.float32) * np.float32(high - low) + np.float32(low)


def _outline(strokes: list[_Stroke]) -> np.ndarray:
    """`_POINTS` points along the strokes of a digit, evenly spaced over their whole length."""
    fine = [_fine_points(stroke) for stroke in strokes]
    # A segment between two strokes has length 0: the pen is up.
    steps = [np.r_[0.0, np.hypot(*np.diff(stroke, axis=0).T)] for stroke in fine]
    distance = np.cumsum(np.concatenate(steps))
    nodes = np.concatenate(fine)
    at = np.linspace(0, distance[-1], _POINTS)
    return np.stack([np.interp(at, distance, nodes[:, 0]), np.interp(at, distance, nodes[:, 1])], 1)


def _fine_points(stroke: _Stroke) -> np.ndarray:
    if isinstance(stroke, list):
        return np.array(stroke, np.float64)
    x, y, radius_x, radius_y, first, last = stroke
    angle = np.radians(np.linspace(first, last, 60))
    return np.stack([x + radius_x * np.cos(angle), y + radius_y * np.sin(angle)], 1)


_OUTLINES = np.array([[_outline(form) for form in forms] for forms in _GLYPHS], np.float32)
