"""Layouts of random graphs: boxes that do not overlap, edges that pass between them, fewer crossings."""

from __future__ import annotations

import random

import pytest

from functad.views.layout import SPACE, layered, placed_apart


def random_graph(seed):
    rng = random.Random(seed)
    n = rng.randint(1, 40)
    sizes = [(rng.uniform(20, 200), rng.uniform(15, 60)) for _ in range(n)]
    numbers = list(range(n))
    rng.shuffle(numbers)  # edges need not go from low numbers to high ones
    pairs = {tuple(sorted(rng.sample(range(n), 2))) for _ in range(rng.randint(0, 2 * n))} if n > 1 else set()
    return sizes, [(numbers[a], numbers[b]) for a, b in sorted(pairs)]


def overlap(a, b):
    return a[0] < b[0] + b[2] and b[0] < a[0] + a[2] and a[1] < b[1] + b[3] and b[1] < a[1] + a[3]


def along(points):
    """Places on a route: straight within layers, bent between them."""
    for i, (start, end) in enumerate(zip(points, points[1:])):
        for step in range(9):
            t = step / 8
            bent = 3 * t**2 - 2 * t**3 if i % 2 else t
            y = start[1] + (1.5 * t - 1.5 * t**2 + t**3 if i % 2 else t) * (end[1] - start[1])
            yield start[0] + bent * (end[0] - start[0]), y


def inside(point, box, margin=0.5):
    x, y, w, h = box
    return x + margin < point[0] < x + w - margin and y + margin < point[1] < y + h - margin


@pytest.mark.parametrize("seed", range(30))
def test_boxes_keep_apart_and_edges_pass_between_them(seed):
    sizes, edges = random_graph(seed)
    made = layered(sizes, edges)
    for i, box in enumerate(made.boxes):
        assert (box[2], box[3]) == sizes[i]
        assert -1e-6 <= box[0] and box[0] + box[2] <= made.width + 1e-6 and box[1] + box[3] <= made.height + 1e-6
        assert not any(overlap(box, other) for other in made.boxes[:i])
    for (a, b), route in zip(edges, made.routes, strict=True):
        assert made.ranks[a] < made.ranks[b]
        assert route[0][1] == pytest.approx(made.boxes[a][1] + made.boxes[a][3])
        assert route[-1][1] == pytest.approx(made.boxes[b][1])
        for point in along(route):
            assert not any(inside(point, box) for box in made.boxes)


def test_neighbours_have_space_between_them():
    made = layered([(50, 20)] * 5, [(0, i) for i in range(1, 5)])
    lefts = sorted(box[0] for box in made.boxes[1:])
    assert all(b - a >= 50 + SPACE - 1e-6 for a, b in zip(lefts, lefts[1:]))


def test_crossings_that_can_be_avoided_are():
    # Two paths whose nodes are numbered crosswise, and a complete bipartite graph, which has one crossing at least.
    assert layered([(20, 10)] * 4, [(0, 3), (1, 2)]).crossings == 0
    assert layered([(20, 10)] * 4, [(0, 2), (0, 3), (1, 2), (1, 3)]).crossings == 1


def test_what_no_edge_joins_lies_side_by_side():
    made = layered([(40, 10)] * 9, [(0, 1), (0, 2), (1, 5), (2, 3), (2, 4), (2, 6), (7, 8)])
    beside = [(made.boxes[k], made.boxes[7 + made.ranks[k]]) for k in (0, 1, 2)]  # of the layers of 7 and 8
    assert min(apart[0] - box[0] - 40 for box, apart in beside) == pytest.approx(SPACE)


def test_a_chain_is_straight():
    made = layered([(60, 20), (20, 20), (90, 20)], [(0, 1), (1, 2)])
    assert len({round(box[0] + box[2] / 2, 3) for box in made.boxes}) == 1


def test_a_source_stands_above_its_first_reader():
    made = layered([(20, 10)] * 4, [(0, 1), (1, 2), (3, 2)])
    assert made.ranks == [0, 1, 2, 1]


def test_a_cycle_is_noticed():
    with pytest.raises(AssertionError, match="cycle"):
        layered([(20, 10)] * 2, [(0, 1), (1, 0)])


@pytest.mark.parametrize("seed", range(10))
def test_places_are_the_nearest_that_keep_apart(seed):
    rng = random.Random(seed)
    wanted = [rng.uniform(0, 9) for _ in range(5)]
    weights = [rng.uniform(0.5, 3) for _ in range(5)]
    room = [rng.uniform(0.5, 3) for _ in range(4)]
    found = placed_apart(wanted, weights, room)
    assert all(b - a >= r - 1e-9 for a, b, r in zip(found, found[1:], room))

    def cost(places):
        return sum(w * (x - at) ** 2 for w, x, at in zip(weights, places, wanted))

    for _ in range(300):  # no other places near by that keep apart are better
        other = [x + rng.gauss(0, 0.1) for x in found]
        if all(b - a >= r for a, b, r in zip(other, other[1:], room)):
            assert cost(other) >= cost(found) - 1e-9
