"""`einsum`: index notation read into labels, and contracted pair by pair.

Knows sums, diagonals, transpositions and `dot_general`; in which order, `contraction_paths` says.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from functad.array import Array
from functad.calls.compound import compound
from functad.errors import ArgumentError, ShapeError
from functad.numpy import linear
from functad.numpy.building import refuse_out
from functad.numpy.contraction_paths import multiplications, path_of
from functad.numpy.promotion import asarray, canonical_dtype, convert, operand, promote_dtypes
from functad.primitives.common import broadcast_in_dim, reduce_sum
from functad.primitives.common import transpose as permute

__all__ = ["einsum", "einsum_path"]


def _product(lhs: Any, rhs: Any, dimension_numbers: Any, precision: Any, preferred_element_type: Any) -> Array:
    """What `lax.dot_general` does."""
    contract, batch = dimension_numbers
    return linear.dot_general(lhs, rhs, contract, batch, preferred_element_type, precision)


@compound
def einsum(
    subscripts: Any,
    /,
    *operands: Any,
    out: None = None,
    optimize: Any = "auto",
    precision: Any = None,
    preferred_element_type: Any = None,
    _dot_general: Callable[..., Any] = _product,
) -> Array:
    """Sums of products written in index notation.

    Args:
        subscripts: such as `"ij,jk->ik"`; without `->` the labels that occur once, sorted, are kept. `...` stands
            for any axes. Lists of integers after each operand are accepted too.
        operands: one array for each group of labels, of so many axes; the result's shape is that of its labels.
        optimize: in which order three operands or more are multiplied: "auto" or "optimal" (the fewest
            multiplications), "greedy", False (from left to right), or what `einsum_path` gives.
        preferred_element_type: the dtype of the result.
        _dot_general: what multiplies pairs of operands, called as `lax.dot_general`.

    Raises:
        ArgumentError, ShapeError: the labels do not fit the arrays.

    >>> import functad.numpy as jnp
    >>> jnp.einsum("ij,j->i", jnp.ones((2, 3)), jnp.arange(3.))
    Array([3., 3.], dtype=float32)
    """
    text, given = _text_and_operands(subscripts, operands)
    arrays = [asarray(x) for x in promote_dtypes(*[operand("einsum", x) for x in given])]
    refuse_out("einsum", out)
    inputs, output = _read(text, arrays)
    sizes = _sizes(text, inputs, arrays)
    path = path_of(inputs, output, sizes, optimize)
    terms = [
        _reduced(x, labels, sizes, inputs[:i] + inputs[i + 1 :], output)
        for i, (x, labels) in enumerate(zip(arrays, inputs))
    ]
    for step in path:
        product, *more = [terms[place] for place in step]
        rest = [term for place, term in enumerate(terms) if place not in step]
        for number, other in enumerate(more):
            later = [*rest, *more[number + 1 :]]
            kept = set(output).union(*(labels for _, labels in later))
            multiply = partial(_dot_general, precision=precision, preferred_element_type=preferred_element_type)
            product = _contract(*product, *other, kept, "" if later else output, multiply)
        terms = [*rest, product]
    result, labels = terms[0]
    result = permute(result, [labels.index(c) for c in output])
    wanted = canonical_dtype(preferred_element_type)
    return result if wanted is None else convert(result, wanted)


def einsum_path(subscripts: Any, /, *operands: Any, optimize: Any = "auto") -> tuple[list[tuple[int, ...]], str]:
    """The order in which `einsum` multiplies its operands, and a text that says what it costs.

    Returns:
        a list of the positions that each product takes, whose result is put behind the operands that are left; and a
        text. Operands have the shapes that `einsum` takes.

    Raises:
        ArgumentError, ShapeError: the labels do not fit the arrays.

    >>> import functad.numpy as jnp
    >>> x, y, z = jnp.ones((2, 100)), jnp.ones((100, 100)), jnp.ones((100, 2))
    >>> jnp.einsum_path("ij,jk,kl->il", x, y, z)[0]
    [(0, 1), (0, 1)]
    """
    text, given = _text_and_operands(subscripts, operands)
    arrays = [asarray(operand("einsum_path", x)) for x in given]
    inputs, output = _read(text, arrays)
    sizes = _sizes(text, inputs, arrays)
    path = path_of(inputs, output, sizes, optimize)
    at_once = math.prod(sizes.values()) * max(len(inputs) - 1, 1)
    lines = [f"{','.join(inputs)}->{output}", f"multiplications, all at once: {at_once:,}"]
    lines.append(f"multiplications, in this order: {multiplications(inputs, output, sizes, path):,}")
    return list(path), "\n".join(lines)


# --- reading the notation ---------------------------------------------------------------------------


def _text_and_operands(subscripts: Any, operands: Sequence[Any]) -> tuple[str, Sequence[Any]]:
    if isinstance(subscripts, str):
        return subscripts.replace(" ", ""), operands
    return _text_of_lists((subscripts, *operands))


def _text_of_lists(arguments: Sequence[Any]) -> tuple[str, list[Any]]:
    """The form `einsum(x, [0, 1], y, [1, 2], [0, 2])` as text."""
    letters = iter("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    names: dict[Any, str] = {Ellipsis: "..."}
    pairs = list(arguments)
    result = pairs.pop() if len(pairs) % 2 else None

    def text(labels: Sequence[Any]) -> str:
        for label in sorted((c for c in labels if c is not Ellipsis), key=str):
            if label not in names:
                names[label] = next(letters)
        return "".join(names[label] for label in labels)

    everything = sorted({c for labels in pairs[1::2] for c in labels if c is not Ellipsis})
    text(everything)
    written = ",".join(text(labels) for labels in pairs[1::2])
    return (written if result is None else f"{written}->{text(result)}"), pairs[0::2]


def _read(text: str, arrays: Sequence[Any]) -> tuple[list[str], str]:
    """The labels of each operand and of the result, with those of `...` spelled out."""
    left, arrow, right = text.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(arrays):
        raise ArgumentError(f"einsum: {text!r} names {len(inputs)} operands, but {len(arrays)} were given")
    unused = _unused_letters(text)
    ranks = [x.ndim - len(s.replace("...", "")) for s, x in zip(inputs, arrays) if "..." in s]
    spelled = "".join(next(unused) for _ in range(max(ranks, default=0)))
    labels = []
    for s, x in zip(inputs, arrays):
        if "..." in s:
            count = x.ndim - len(s.replace("...", ""))
            s = s.replace("...", spelled[len(spelled) - count :] if count > 0 else "")
        if len(s) != x.ndim:
            raise ArgumentError(f"einsum: the labels {s!r} in {text!r} do not fit an array of shape {x.shape}")
        labels.append(s)
    if not arrow:
        counts = Counter("".join(s.replace("...", "") for s in inputs))
        right = ("..." if "..." in left else "") + "".join(sorted(c for c, n in counts.items() if n == 1))
    output = right.replace("...", spelled)
    for c in output:
        if output.count(c) > 1 or not any(c in s for s in labels):
            raise ArgumentError(f"einsum: label {c!r} of the result in {text!r} must occur once, and in an operand")
    return labels, output


def _unused_letters(text: str) -> Iterator[str]:
    return (c for c in map(chr, range(ord("A"), ord("A") + 500)) if c.isalpha() and c not in text)


def _sizes(text: str, inputs: Sequence[str], arrays: Sequence[Any]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for labels, x in zip(inputs, arrays):
        for c, n in zip(labels, x.shape):
            if sizes.get(c, n) != n and 1 not in (sizes[c], n):
                shapes = ", ".join(str(a.shape) for a in arrays)
                raise ShapeError(f"einsum: label {c!r} in {text!r} has the sizes {sizes[c]} and {n} (shapes {shapes})")
            sizes[c] = n if sizes.get(c, 1) == 1 else sizes[c]
    return sizes


# --- contracting ------------------------------------------------------------------------------------


def _reduced(x: Any, labels: str, sizes: dict[str, int], others: Sequence[str], output: str) -> tuple[Any, str]:
    """One operand with diagonals taken, and summed over labels that nobody else has."""
    for c in sorted({c for c in labels if labels.count(c) > 1}):
        while labels.count(c) > 1:
            first = labels.index(c)
            second = labels.index(c, first + 1)
            x = linear.diagonal(x, 0, first, second)
            labels = labels[:first] + labels[first + 1 : second] + labels[second + 1 :] + c
    wanted = set(output).union(*others)
    alone = [i for i, c in enumerate(labels) if c not in wanted]
    x = reduce_sum(x, axes=alone)
    labels = "".join(c for c in labels if c in wanted)
    shape = tuple(sizes[c] for c in labels)  # a size of 1 is repeated where another operand has more
    return broadcast_in_dim(x, shape=shape, broadcast_dimensions=range(len(shape))), labels


def _contract(
    x: Array, x_labels: str, y: Array, y_labels: str, kept: set[str], output: str, multiply: Callable[..., Any]
) -> tuple[Any, str]:
    """The product of two operands, summed over the labels that nobody wants any more."""
    x, x_labels = _sum_alone(x, x_labels, y_labels, kept)
    y, y_labels = _sum_alone(y, y_labels, x_labels, kept)
    shared = [c for c in x_labels if c in y_labels]
    batch = [c for c in shared if c in kept]
    summed = [c for c in shared if c not in kept]
    x_free = [c for c in x_labels if c not in shared]
    y_free = [c for c in y_labels if c not in shared]
    if output and "".join(batch + y_free + x_free) == output:
        x, x_labels, x_free, y, y_labels, y_free = y, y_labels, y_free, x, x_labels, x_free
    contracting, paired = (
        (tuple(map(x_labels.index, labels)), tuple(map(y_labels.index, labels))) for labels in (summed, batch)
    )
    result = multiply(x, y, (contracting, paired))
    return result, "".join(batch + x_free + y_free)


def _sum_alone(x: Any, labels: str, others: str, kept: set[str]) -> tuple[Any, str]:
    alone = [i for i, c in enumerate(labels) if c not in kept and c not in others]
    return reduce_sum(x, axes=alone), "".join(c for i, c in enumerate(labels) if i not in alone)
