"""Where the nodes of a directed acyclic graph lie on a drawing: in layers, with few crossings and straight edges.

Knows boxes and edges; not what they stand for. The method is Sugiyama's (1981): layers by longest paths, an order
within layers by barycentres, and places within that order by isotonic regression.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

from functad.records import NamedTuple

Spot = tuple[float, float]

SPACE = 18.0
"""Between neighbours of a layer, and an edge's distance from the box that it passes."""
GAP = 30.0
"""Between layers at least."""
_SWEEPS = 12


class GraphLayout(NamedTuple):
    """What lies where. `y` grows downwards, and edges go down.

    Attributes:
        boxes: left, top, width and height of each node.
        routes: for each edge the places that it goes through; straight within layers, bent between them.
        layers: the top and the bottom of each layer, and between them the gaps, in which no box lies.
        ranks: the number of the layer of each node.
        width, height: of the whole.
        crossings: how many pairs of edges cross, as the order within layers makes them.
    """

    boxes: list[tuple[float, float, float, float]]
    routes: list[list[Spot]]
    layers: list[Spot]
    ranks: list[int]
    width: float
    height: float
    crossings: int


def layered(
    sizes: Sequence[Spot], edges: Sequence[tuple[int, int]], tracks: Sequence[Sequence[int]] = ((), ())
) -> GraphLayout:
    """Lay out a graph.

    Args:
        sizes: width and height of each node.
        edges: from node to node, without cycles.
        tracks: numbers of nodes beneath whose layer, and of nodes above whose layer, room is left for a line each.

    >>> made = layered([(20, 10)] * 3, [(0, 1), (0, 2)])
    >>> made.ranks, made.crossings
    ([0, 1, 1], 0)
    >>> left, right = made.boxes[1:]
    >>> left[0] + left[2] <= right[0]
    True
    """
    if not sizes:
        return GraphLayout([], [], [], [], 0.0, 0.0, 0)
    ranks = _ranks(len(sizes), edges)
    items = _LayerItems(sizes, edges, ranks)
    crossings = items.order()
    centres = items.centres()
    layers = _bands(items, centres, tracks)
    boxes = []
    for node, (width, height) in enumerate(sizes):
        top, bottom = layers[ranks[node]]
        boxes.append((centres[node] - width / 2, (top + bottom - height) / 2, width, height))
    routes = _routes(items, edges, centres, boxes, layers)
    below = sum(1 for node in tracks[0] if ranks[node] == len(layers) - 1)
    height = layers[-1][1] + (TRACK * (below + 1) if below else 0.0)
    return GraphLayout(boxes, routes, layers, ranks, items.width(centres), height, crossings)


TRACK = 6.0
"""Between lines that run side by side."""


def _ranks(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The length of the longest path to each node; what only sources lead to lies just above its first use."""
    after: list[list[int]] = [[] for _ in range(count)]
    before: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        after[a].append(b)
        before[b].append(a)
    waiting = [len(found) for found in before]
    is_source = [n == 0 for n in waiting]
    ready = [v for v in range(count) if is_source[v]]
    ranks = [0] * count
    for v in ready:  # grows
        for w in after[v]:
            ranks[w] = max(ranks[w], ranks[v] + 1)
            waiting[w] -= 1
            if not waiting[w]:
                ready.append(w)
    assert len(ready) == count, "the graph has a cycle"
    for v in reversed(ready):
        if after[v] and all(is_source[u] for u in before[v]):
            ranks[v] = min(ranks[w] for w in after[v]) - 1
    return ranks


class _LayerItems:
    """What lies in layers: nodes, and of each edge that passes layers a place in each of them.

    The edges of one node share their places, so that they leave it as one line.
    """

    def __init__(self, sizes: Sequence[Spot], edges: Sequence[tuple[int, int]], ranks: Sequence[int]) -> None:
        self.nodes = len(sizes)
        self.widths = [width for width, _ in sizes]
        self.heights = [height for _, height in sizes]
        self.passing: dict[tuple[int, int], int] = {}  # by node and layer
        self.layers: list[list[int]] = [[] for _ in range(max(ranks) + 1)]
        for node, rank in enumerate(ranks):
            self.layers[rank].append(node)
        segments: dict[tuple[int, int], None] = {}
        for a, b in edges:
            last = a
            for rank in range(ranks[a] + 1, ranks[b]):
                last = self._passes(last, a, rank, segments)
            segments[last, b] = None
        self.above: list[list[int]] = [[] for _ in self.widths]
        self.below: list[list[int]] = [[] for _ in self.widths]
        for a, b in segments:
            self.below[a].append(b)
            self.above[b].append(a)

    def _passes(self, last: int, node: int, rank: int, segments: dict[tuple[int, int], None]) -> int:
        item = self.passing.get((node, rank))
        if item is None:
            item = self.passing[node, rank] = len(self.widths)
            self.widths.append(0.0)
            self.heights.append(0.0)
            self.layers[rank].append(item)
        segments[last, item] = None
        return item

    def order(self) -> int:
        """Sort each layer by the barycentres of its neighbours', to and fro; keep the best order that occurs."""
        best, fewest = [list(layer) for layer in self.layers], self.crossings()
        for sweep in range(_SWEEPS):
            if not fewest:
                break
            down = sweep % 2 == 0
            neighbours = self.above if down else self.below
            walk = range(1, len(self.layers)) if down else range(len(self.layers) - 2, -1, -1)
            for rank in walk:
                fixed = self.layers[rank - 1 if down else rank + 1]
                place = {item: i for i, item in enumerate(fixed)}
                own = {item: float(i) for i, item in enumerate(self.layers[rank])}
                keys = {
                    item: sum(place[n] for n in neighbours[item]) / len(neighbours[item]) if neighbours[item] else at
                    for item, at in own.items()
                }
                self.layers[rank].sort(key=keys.__getitem__)
            found = self.crossings()
            if found < fewest:
                best, fewest = [list(layer) for layer in self.layers], found
        self.layers = best
        return fewest

    def crossings(self) -> int:
        """How many pairs of edges cross between neighbouring layers: inversions of the order of their ends."""
        count = 0
        for upper, lower in zip(self.layers, self.layers[1:]):
            place = {item: i for i, item in enumerate(lower)}
            seen: list[int] = []
            for item in upper:
                ends = sorted(place[n] for n in self.below[item])
                count += sum(len(seen) - bisect_left(seen, end + 1) for end in ends)
                for end in ends:
                    insort(seen, end)
        return count

    def centres(self) -> list[float]:
        """The middle of each item: near those of its neighbours, in the order of its layer, with space between."""
        x = [0.0] * len(self.widths)
        for layer in self.layers:
            at = 0.0
            for item in layer:
                x[item] = at + self.widths[item] / 2
                at += self.widths[item] + SPACE
        downwards, upwards = range(len(self.layers)), range(len(self.layers) - 1, -1, -1)
        for _ in range(_SWEEPS // 2):
            for walk, neighbours in ((downwards, self.above), (upwards, self.below)):
                for rank in walk:
                    self._settle(self.layers[rank], [neighbours], x)
        for walk in (downwards, upwards) * (_SWEEPS // 3):
            for rank in walk:
                self._settle(self.layers[rank], [self.above, self.below], x)
        self._bring_together(x)
        left = min(x[i] - self.widths[i] / 2 for i in range(len(x)))
        return [at - left for at in x]

    def _bring_together(self, x: list[float]) -> None:
        """Move parts of the graph that no edge joins to the left, as far as what lies there allows."""
        before = {b: a for layer in self.layers for a, b in zip(layer, layer[1:])}
        parts = self._connected()
        for part in sorted(parts, key=lambda part: min(x[item] - self.widths[item] / 2 for item in part)):
            members = set(part)
            beside = [(before[item], item) for item in part if item in before and before[item] not in members]
            free = [x[b] - x[a] - (self.widths[a] + self.widths[b]) / 2 - SPACE for a, b in beside]
            for item in part if free else ():
                x[item] -= max(0.0, min(free))

    def _connected(self) -> list[list[int]]:
        """The items, those that edges join together."""
        parts: list[list[int]] = []
        found: set[int] = set()
        for start in range(len(self.widths)):
            if start in found:
                continue
            found.add(start)
            part = [start]
            for item in part:  # grows
                more = [n for n in (*self.above[item], *self.below[item]) if n not in found]
                found.update(more)
                part += dict.fromkeys(more)
            parts.append(part)
        return parts

    def _settle(self, layer: Sequence[int], sides: Sequence[list[list[int]]], x: list[float]) -> None:
        wanted, weights = [], []
        for item in layer:
            pulls = [(x[n], self._weight(item, n)) for side in sides for n in side[item]] or [(x[item], 0.1)]
            weight = sum(w for _, w in pulls)
            wanted.append(sum(at * w for at, w in pulls) / weight)
            weights.append(weight)
        room = [(self.widths[a] + self.widths[b]) / 2 + SPACE for a, b in zip(layer, layer[1:])]
        for item, at in zip(layer, placed_apart(wanted, weights, room)):
            x[item] = at

    def _weight(self, a: int, b: int) -> float:
        """How straight an edge is to be: most of all where it passes layers."""
        return (1.0, 2.0, 16.0)[(a >= self.nodes) + (b >= self.nodes)]

    def width(self, centres: Sequence[float]) -> float:
        return max(at + width / 2 for at, width in zip(centres, self.widths))


def placed_apart(wanted: Sequence[float], weights: Sequence[float], room: Sequence[float]) -> list[float]:
    """The places nearest to those wanted, by weighted squares, of which each lies `room` after the one before.

    Isotonic regression by pooling adjacent violators: what would be too near moves as one from then on.

    >>> placed_apart([0, 0, 9], [1, 1, 1], [2, 2])
    [-1.0, 1.0, 9.0]
    """
    shifts = [0.0]
    for space in room:
        shifts.append(shifts[-1] + space)
    pools: list[list[float]] = []  # mean, weight, count
    for at, weight, shift in zip(wanted, weights, shifts):
        pools.append([at - shift, weight, 1])
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            mean, heavy, count = pools.pop()
            last = pools[-1]
            last[0] = (last[0] * last[1] + mean * heavy) / (last[1] + heavy)
            last[1] += heavy
            last[2] += count
    means = [mean for mean, _, count in pools for _ in range(int(count))]
    return [mean + shift for mean, shift in zip(means, shifts)]


def _bands(items: _LayerItems, centres: Sequence[float], tracks: Sequence[Sequence[int]]) -> list[Spot]:
    """The top and the bottom of each layer: gaps are higher where edges go far to a side, or lines are to run."""
    ranks = {item: rank for rank, layer in enumerate(items.layers) for item in layer}
    beneath, above = ([ranks[node] for node in side] for side in tracks)
    y = TRACK * (above.count(0) + 1) if above.count(0) else 0.0
    bands = []
    for rank, layer in enumerate(items.layers):
        height = max(items.heights[item] for item in layer)
        bands.append((y, y + height))
        far = max((abs(centres[a] - centres[b]) for a in layer for b in items.below[a]), default=0.0)
        lines = beneath.count(rank) + above.count(rank + 1)
        y += height + GAP + min(48.0, 0.06 * far) + TRACK * lines
    return bands


def _routes(
    items: _LayerItems,
    edges: Sequence[tuple[int, int]],
    centres: Sequence[float],
    boxes: Sequence[tuple[float, float, float, float]],
    layers: Sequence[Spot],
) -> list[list[Spot]]:
    ranks = {item: rank for rank, layer in enumerate(items.layers) for item in layer}
    paths = []
    for a, b in edges:
        paths.append([a, *(items.passing[a, rank] for rank in range(ranks[a] + 1, ranks[b])), b])
    entries = _entries(edges, paths, centres, boxes)
    routes = []
    for (a, b), path, entry in zip(edges, paths, entries):
        _, top, _, height = boxes[a]
        points = [(centres[a], top + height), (centres[a], layers[ranks[a]][1])]
        for item in path[1:-1]:
            points += [(centres[item], edge) for edge in layers[ranks[item]]]
        points += [(entry, layers[ranks[b]][0]), (entry, boxes[b][1])]
        routes.append(points)
    return routes


def _entries(
    edges: Sequence[tuple[int, int]],
    paths: Sequence[Sequence[int]],
    centres: Sequence[float],
    boxes: Sequence[tuple[float, float, float, float]],
) -> list[float]:
    """Where each edge enters its node: side by side, in the order in which they come."""
    arriving: dict[int, list[int]] = {}
    for number, (_, b) in enumerate(edges):
        arriving.setdefault(b, []).append(number)
    entries = [0.0] * len(edges)
    for b, numbers in arriving.items():
        numbers.sort(key=lambda n: centres[paths[n][-2]])
        step = min(14.0, 0.8 * boxes[b][2] / len(numbers))
        for i, number in enumerate(numbers):
            entries[number] = centres[b] + (i - (len(numbers) - 1) / 2) * step
    return entries
