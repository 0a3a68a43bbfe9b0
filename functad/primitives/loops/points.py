"""What a rule says of a loop nest that computes one element at each point, for targets that fuse it with others.

Knows no nests: positions are distances in memory by loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from functad.records import NamedTuple

Distances = Mapping[str, int]


class Points(NamedTuple):
    """The loops by name, and what is done at a point.

    loads: names, buffers, and where elements lie, from a first one on. indices: numbers computed from the loops.
    values: names, texts, and the names that these use. result: a buffer, the element's position, the name of its value.
    """

    name: str
    loops: Sequence[tuple[str, int]]
    loads: Sequence[tuple[str, Any, Distances, int]]
    indices: Sequence[tuple[str, Distances]]
    values: Sequence[tuple[str, str, Sequence[str]]]
    result: tuple[Any, Distances, str]
