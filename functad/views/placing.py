"""Where the boxes and the arrows of a dataflow lie: graphs within nodes, and the two halves of reverse mode.

Knows nodes and layouts of layers; not how boxes and arrows look.
"""

from __future__ import annotations

from collections.abc import Sequence

from functad.records import NamedTuple
from functad.views.dataflow import Arrow, Dataflow, FlowNode
from functad.views.layout import TRACK, GraphLayout, Spot, layered

Rectangle = tuple[float, float, float, float]

ROW = 16.0
"""The height of a line of text in a box."""
_LETTER = 7.25
_PAD, _HEAD = 14.0, 22.0


class PlacedNode(NamedTuple):
    """A node with its box: left, top, width, height. path: the numbers of the nodes that it lies in, and its own."""

    node: FlowNode
    box: Rectangle
    path: tuple[int, ...]


class RoutedArrow(NamedTuple):
    """An arrow with the places it goes through. residual: whether it goes from the way forward to the way back."""

    arrow: Arrow
    points: list[Spot]
    path: tuple[int, ...]
    residual: bool


class Drawing(NamedTuple):
    """What lies where, all in the coordinates of the whole. heads: texts above the two halves, with their places."""

    placed: list[PlacedNode]
    routed: list[RoutedArrow]
    heads: list[tuple[str, Spot]]
    width: float
    height: float


def drawn(flow: Dataflow, path: tuple[int, ...] = (), halved: bool = True, up: bool = False) -> Drawing:
    """A graph on its own, with what lies within its nodes.

    halved: whether the way back may stand at the right. up: whether all of it goes up, as what lies in a node of the
    way back does.
    """
    back = [node.backward for node in flow.nodes]
    insides = [
        [
            drawn(inner, (*path, i, k), halved and node.kind == "program" and not node.backward, up or node.backward)
            for k, inner in enumerate(node.inside)
        ]
        for i, node in enumerate(flow.nodes)
    ]
    sizes = [_size(node, inner) for node, inner in zip(flow.nodes, insides)]
    two = halved and any(back) and not all(back)
    boxes, routes, heads, width, height = _two_halves(flow, sizes) if two else _one_half(flow, sizes, up)
    placed: list[PlacedNode] = []
    routed = [RoutedArrow(arrow, points, path, residual) for arrow, points, residual in routes]
    titles = list(heads)
    for i, (node, box, inner) in enumerate(zip(flow.nodes, boxes, insides)):
        placed.append(PlacedNode(node, box, (*path, i)))
        left = box[0] + _PAD
        for drawing, part in zip(inner, node.inside):
            top = box[1] + _HEAD + (ROW if part.title else 0.0) + _PAD / 2
            if part.title:
                titles.append((part.title, (left + drawing.width / 2, top - 6)))
            moved = _moved(drawing, left, top)
            placed += moved.placed
            routed += moved.routed
            titles += moved.heads
            left += drawing.width + 2 * _PAD
    return Drawing(placed, routed, titles, width, height)


def _size(node: FlowNode, inside: Sequence[Drawing]) -> Spot:
    width = max(len(row) for row in node.rows) * _LETTER + 20
    if not inside:
        return width, len(node.rows) * ROW + 10
    within = sum(d.width for d in inside) + 2 * _PAD * len(inside)
    titled = ROW if any(part.title for part in node.inside) else 0.0
    return max(width, within), max(d.height for d in inside) + _HEAD + titled + 1.5 * _PAD


def _moved(drawing: Drawing, x: float, y: float) -> Drawing:
    return Drawing(
        [p._replace(box=(p.box[0] + x, p.box[1] + y, *p.box[2:])) for p in drawing.placed],
        [r._replace(points=[(a + x, b + y) for a, b in r.points]) for r in drawing.routed],
        [(text, (a + x, b + y)) for text, (a, b) in drawing.heads],
        drawing.width,
        drawing.height,
    )


_Halves = tuple[list[Rectangle], list[tuple[Arrow, list[Spot], bool]], list[tuple[str, Spot]], float, float]


def _one_half(flow: Dataflow, sizes: Sequence[Spot], up: bool) -> _Halves:
    made = layered(sizes, [(a, b) for a, b, _ in flow.arrows])
    boxes, routes = made.boxes, made.routes
    if up:
        boxes = [(x, made.height - y - h, w, h) for x, y, w, h in boxes]
        routes = [[(x, made.height - y) for x, y in route] for route in routes]
    return boxes, [(a, r, False) for a, r in zip(flow.arrows, routes)], [], made.width, made.height


_HEADS = 26.0
_GUTTER = 30.0


def _two_halves(flow: Dataflow, sizes: Sequence[Spot]) -> _Halves:
    """The way forward at the left, going down; the way back at the right, going up; residuals between them."""
    sides: list[list[int]] = [[], []]
    for i, node in enumerate(flow.nodes):
        sides[node.backward].append(i)
    within = {i: k for side in sides for k, i in enumerate(side)}
    across = [arrow for arrow in flow.arrows if flow.nodes[arrow.start].backward != flow.nodes[arrow.end].backward]
    sources = list(dict.fromkeys(arrow.start for arrow in across))
    made: list[GraphLayout] = []
    for back, side in enumerate(sides):
        arrows = [a for a in flow.arrows if flow.nodes[a.start].backward == flow.nodes[a.end].backward == bool(back)]
        ends = [within[a.end] for a in across] if back else []
        begins = [] if back else [within[i] for i in sources]
        made.append(layered([sizes[i] for i in side], [(within[a], within[b]) for a, b, _ in arrows], (begins, ends)))
    forward, backward = made
    height = max(forward.height, backward.height)
    down = height - forward.height + _HEADS
    right = forward.width + 2 * _GUTTER + TRACK * len(sources)
    boxes: list[Rectangle] = [(0.0, 0.0, 0.0, 0.0)] * len(sizes)
    for i in sides[0]:
        x, y, w, h = forward.boxes[within[i]]
        boxes[i] = (x, y + down, w, h)
    for i in sides[1]:
        x, y, w, h = backward.boxes[within[i]]
        boxes[i] = (x + right, height - y - h + _HEADS, w, h)
    routes: list[tuple[Arrow, list[Spot], bool]] = []
    for back, layout in enumerate(made):
        own = [a for a in flow.arrows if flow.nodes[a.start].backward == flow.nodes[a.end].backward == bool(back)]
        for arrow, points in zip(own, layout.routes):
            turned = [(x + right, height - y + _HEADS) if back else (x, y + down) for x, y in points]
            routes.append((arrow, turned, False))
    lanes = _ResidualWays(forward, backward, down, right, height + _HEADS)
    routes += [(a, lanes.route(a, within[a.start], within[a.end], boxes), True) for a in across]
    heads = [
        ("forward", (forward.width / 2, down - 10)),
        ("backward", (right + backward.width / 2, height - backward.height + _HEADS - 10)),
    ]
    return boxes, routes, heads, right + backward.width, height + _HEADS


class _ResidualWays:
    """The ways of residuals: along the gap beneath their node, the gutter, and the gap beneath who takes them."""

    def __init__(self, forward: GraphLayout, backward: GraphLayout, down: float, right: float, bottom: float) -> None:
        self.forward, self.backward = forward, backward
        self.down, self.right, self.bottom = down, right, bottom
        self.leaving: dict[int, tuple[float, float]] = {}  # by source: the height in its gap, the place in the gutter
        self.used: dict[tuple[bool, int], int] = {}
        self.entered: dict[int, int] = {}

    def route(self, arrow: Arrow, source: int, target: int, boxes: Sequence[Rectangle]) -> list[Spot]:
        left, top, width, height = boxes[arrow.start]
        if source not in self.leaving:
            rank = self.forward.ranks[source]
            lane = self.forward.layers[rank][1] + self.down + self._next(False, rank)
            self.leaving[source] = (lane, self.forward.width + _GUTTER + TRACK * len(self.leaving))
        lane, gutter = self.leaving[source]
        rank = self.backward.ranks[target]
        arriving = self.bottom - self.backward.layers[rank][0] + self._next(True, rank)
        x, y, w, h = boxes[arrow.end]
        nth = self.entered[target] = self.entered.get(target, -1) + 1
        entry = x + 7 + min(TRACK * nth, w - 14)
        middle = left + width / 2
        return [
            (middle, top + height),
            (middle, lane),
            (gutter, lane),
            (gutter, arriving),
            (entry, arriving),
            (entry, y + h),
        ]

    def _next(self, back: bool, rank: int) -> float:
        number = self.used[back, rank] = self.used.get((back, rank), 0) + 1
        return TRACK * number
