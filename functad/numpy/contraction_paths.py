"""In which order `einsum` multiplies its operands, pair by pair.

Knows labels and sizes; no arrays. Source: dynamic programming over sets of operands, as for chains of matrix products:
Cormen et al., "Introduction to Algorithms", 15.2; for many operands greedily, as opt_einsum and NumPy do.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from functad import machine_model
from functad.errors import ArgumentError

Path = tuple[tuple[int, ...], ...]

_OPTIMAL = ("auto", "auto-hq", "optimal", "dp", "dynamic-programming", "branch-all", "branch-2", "branch-1")
_GREEDY = ("greedy", "eager", "opportunistic", "random-greedy", "random-greedy-128")


def path_of(inputs: Sequence[str], output: str, sizes: dict[str, int], optimize: Any) -> Path:
    """The positions of the operands of each product; its result is put behind those that are left.

    optimize: "auto" or "optimal" (the fewest multiplications, of few operands), "greedy", False (from left to right),
        or a path.

    Raises:
        ArgumentError: none of these, or a path that does not fit.
    """
    count = len(inputs)
    if isinstance(optimize, (list, tuple)):
        return _checked([step for step in optimize if step != "einsum_path"], count)
    if optimize is False or optimize is None:
        return tuple((0, 1) if k == 0 else (0, count - k - 1) for k in range(count - 1))
    if optimize is not True and optimize not in (*_OPTIMAL, *_GREEDY):
        raise ArgumentError(
            f"einsum: optimize={optimize!r} must be 'auto', 'optimal', 'greedy', True, False, or a path: a list of the "
            "positions that each product takes, such as einsum_path gives"
        )
    if count <= 2:
        return ((0, 1),) if count == 2 else ()
    needed = tuple(sorted(sizes.items()))
    if optimize in _GREEDY or count > machine_model.EINSUM_OPTIMAL:
        return _greedy(tuple(inputs), output, needed)
    return _optimal(tuple(inputs), output, needed)


def _checked(steps: Sequence[Any], count: int) -> Path:
    left = count
    for step in steps:
        places = set(step) if isinstance(step, (tuple, list)) else set()
        if not places or len(places) != len(step) or not all(isinstance(p, int) and 0 <= p < left for p in places):
            raise ArgumentError(f"einsum: the path {list(steps)} does not fit {count} operands: {step!r} of {left}")
        left -= len(places) - 1
    rest = ((tuple(range(left))),) if left > 1 else ()
    return (*(tuple(step) for step in steps), *rest)


# --- costs ----------------------------------------------------------------------------------------------


def _labels(chosen: frozenset[int], inputs: Sequence[str], output: str) -> frozenset[str]:
    """The labels of the product of some operands: those that the result or another operand has."""
    others = set(output).union(*(inputs[i] for i in range(len(inputs)) if i not in chosen))
    return frozenset(c for i in chosen for c in inputs[i] if c in others)


@lru_cache(maxsize=1024)
def _optimal(inputs: tuple[str, ...], output: str, sizes: tuple[tuple[str, int], ...]) -> Path:
    """The order of the fewest multiplications: best ways for all sets of operands, the small ones first."""
    size, everything = dict(sizes), range(len(inputs))
    labels = {
        frozenset(s): _labels(frozenset(s), inputs, output)
        for k in everything
        for s in itertools.combinations(everything, k + 1)
    }
    best: dict[frozenset[int], tuple[int, Any]] = {frozenset([i]): (0, i) for i in everything}
    for chosen in labels:  # by their number
        if len(chosen) == 1:
            continue
        first, *others = sorted(chosen)
        found: tuple[int, Any] | None = None
        for k in range(len(others)):
            for more in itertools.combinations(others, k):
                one = frozenset((first, *more))
                two = chosen - one
                cost = best[one][0] + best[two][0] + math.prod(size[c] for c in labels[one] | labels[two])
                if found is None or cost <= found[0]:  # of equals the one from left to right
                    found = cost, (best[one][1], best[two][1])
        assert found is not None
        best[chosen] = found
    return _steps(best[frozenset(everything)][1], len(inputs))


def _steps(tree: Any, count: int) -> Path:
    """Nested pairs of operands as positions among those that are left."""
    terms: list[Any] = list(range(count))
    steps: list[tuple[int, ...]] = []

    def multiply(node: Any) -> Any:
        if isinstance(node, int):
            return node
        pair = [multiply(part) for part in node]
        places = tuple(sorted(terms.index(part) for part in pair))
        for place in reversed(places):
            del terms[place]
        terms.append(node)
        steps.append(places)
        return node

    multiply(tree)
    return tuple(steps)


@lru_cache(maxsize=1024)
def _greedy(inputs: tuple[str, ...], output: str, sizes: tuple[tuple[str, int], ...]) -> Path:
    """Again and again the pair whose product is smallest, less what it takes the place of."""
    size = dict(sizes)
    terms = [frozenset([i]) for i in range(len(inputs))]
    steps: list[tuple[int, ...]] = []

    def numbers(chosen: frozenset[int]) -> int:
        return math.prod(size[c] for c in _labels(chosen, inputs, output))

    while len(terms) > 1:
        known = [numbers(t) for t in terms]
        pairs = itertools.combinations(range(len(terms)), 2)
        i, j = min(pairs, key=lambda p: numbers(terms[p[0]] | terms[p[1]]) - known[p[0]] - known[p[1]])
        product = terms[i] | terms[j]
        terms = [t for k, t in enumerate(terms) if k not in (i, j)] + [product]
        steps.append((i, j))
    return tuple(steps)


def multiplications(inputs: Sequence[str], output: str, sizes: dict[str, int], path: Path) -> int:
    """How many numbers are multiplied along a path."""
    terms, total = [frozenset([i]) for i in range(len(inputs))], 0
    for step in path:
        product = terms[step[0]]
        for place in step[1:]:
            other = terms[place]
            total += math.prod(sizes[c] for c in _labels(product, inputs, output) | _labels(other, inputs, output))
            product = product | other
        terms = [t for k, t in enumerate(terms) if k not in step] + [product]
    return total
