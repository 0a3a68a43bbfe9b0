"""What a network is made of, as a table: its layers, their outputs, params and operations.

Knows layers by the calls of their parts; computes shapes alone.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from html import escape
from typing import Any

from functad import random
from functad.api import eval_shape, jit
from functad.dtypes import short_name
from functad.errors import check_int
from functad.nn.layer import Buffered, Layer, PartCall, apply_part, check_layers, struct_of, watching
from functad.records import NamedTuple
from functad.tree_util import DictKey, SequenceKey, keystr, tree_flatten, tree_leaves, tree_unflatten

_HEADINGS = ("layer", "output", "params", "bytes", "operations")
_LEAST = 12  # characters of a column that is cut
_GAP = "  "
_PREFIXES = "kMGTPE"


class LayerSummary(NamedTuple):
    """A layer within a network.

    Attributes:
        path: the key path of its params within those of the network.
        part: the last key of it, "" where the layer around has no other params.
        depth: how many layers there are around it.
        name: that of the layer.
        output: the shapes and dtypes of its output, a pytree.
        params: how many numbers its params are, those of its parts included.
        nbytes: the bytes that these take.
        flops: the floating-point operations of its kernels, those of its parts included:
            `jit(apply).lower(…).cost.flops`.

    >>> import functad, functad.numpy as jnp
    >>> (whole, *_) = functad.nn.summary(functad.nn.Dense(4), jnp.ones((2, 3))).layers
    >>> whole.params, whole.nbytes, whole.output.shape
    (16, 64, (2, 4))
    """

    path: str
    part: str
    depth: int
    name: str
    output: Any
    params: int
    nbytes: int
    flops: float


class NetworkSummary:
    """The table that `summary` makes; `str` of it is as wide as the terminal at most, and notebooks show it.

    Attributes:
        layers: a `LayerSummary` for the network itself, and then for its layers in the order in which they are applied,
            each before its parts.

    >>> import functad, functad.numpy as jnp
    >>> functad.nn.summary(functad.nn.Dense(4), jnp.ones((2, 3))).total.params
    16
    """

    def __init__(self, layers: Sequence[LayerSummary]) -> None:
        self.layers = tuple(layers)

    @property
    def total(self) -> LayerSummary:
        """The network as a whole."""
        return self.layers[0]

    def cells(self) -> list[tuple[str, ...]]:
        """The cells of the table: its headings, a row for each layer, and the sum of all."""
        return [_HEADINGS, *map(_cells, self._rows), _total_cells(self.total)]

    def text(self, width: int) -> str:
        """The table in lines of so many characters: shapes and names are cut, and then the last columns left out."""
        rows = self.cells()
        widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADINGS))]
        least = [min(_LEAST, widths[0]), min(_LEAST, widths[1]), *widths[2:]]
        while len(least) > 3 and _length(least) > width:
            least.pop()
        widths = widths[: len(least)]
        for column in (1, 0):
            widths[column] = max(least[column], widths[column] - max(_length(widths) - width, 0))
        lines = [_line(row, widths) for row in rows]
        rule = "─" * _length(widths)
        return "\n".join([lines[0], rule, *lines[1:-1], rule, lines[-1]])

    def __str__(self) -> str:
        return self.text(shutil.get_terminal_size().columns)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = "".join(f"<th style='{_style(i)}'>{name}</th>" for i, name in enumerate(_HEADINGS))
        body = [_html_row(_cells(layer), layer) for layer in self._rows]
        foot = _html_row(_total_cells(self.total), self.total, "border-top:1px solid;font-weight:bold")
        # Colours are those around, so that it is read on light and on dark.
        return (
            "<table style='border-collapse:collapse;color:inherit;background:transparent'>"
            f"<thead><tr style='border-bottom:1px solid'>{head}</tr></thead><tbody>{''.join(body)}</tbody>"
            f"<tfoot>{foot}</tfoot></table>"
        )

    @property
    def _rows(self) -> tuple[LayerSummary, ...]:
        """All but the network itself, unless there is nothing else."""
        return self.layers[1:] or self.layers


def summary(layer: Layer, x: Any, *, depth: int | None = None, train: bool = False, **options: Any) -> NetworkSummary:
    """A table of the layers of a network: where their params are, outputs, params, bytes, operations.

    Nothing is computed: neither params nor outputs are made. Operations are those of the kernels of each layer by
    itself; a loop of unknown length counts once.

    Args:
        layer: the network.
        x: an input, an array or a `ShapeDtypeStruct`, or a pytree of them.
        depth: how many layers deep the table goes; None for all of them.
        train: whether it is that of training.
        options: what else `apply` takes, such as the `context` of attention.

    Returns:
        A `NetworkSummary`, which prints as a table.

    Raises:
        ArgumentError: the first argument is no layer. What `init` and `apply` raise for such an input.

    >>> import functad
    >>> from functad import nn
    >>> network = nn.serial(nn.Dense(84), nn.Relu(), nn.Dense(10))
    >>> print(nn.summary(network, functad.ShapeDtypeStruct((8, 1014), "float32")).text(80))
    layer          output     params   bytes  operations
    ────────────────────────────────────────────────────
    [0] Dense(84)  f32[8,84]  85,260  341 kB      1.36 M
    [1] Relu       f32[8,84]       0     0 B      1.34 k
    [2] Dense(10)  f32[8,10]     850  3.4 kB      13.5 k
    ────────────────────────────────────────────────────
    all            f32[8,10]  86,110  344 kB      1.38 M
    """
    check_layers((layer,), "summary")
    if depth is not None:
        depth = check_int(depth, "summary: depth", low=1)
    x = struct_of(x)
    params = eval_shape(lambda x: layer.init(random.key(0), x), x)
    if isinstance(layer, Buffered):
        options["buffers"] = eval_shape(layer.buffers, x)
    arrays, others = _parted(options)
    seen = _Seen(depth)

    def applied(params: Any, x: Any, arrays: Any) -> Any:
        with watching(seen.watch):
            return apply_part(layer, None, params, x, key=random.key(0), train=train, **_joined(arrays, others))

    eval_shape(applied, params, x, arrays)
    return NetworkSummary(seen.summaries())


class _SeenPart(NamedTuple):
    """What was seen of a layer: its path, the types of its arguments, and of its output."""

    path: tuple[Any, ...]
    keys: tuple[Any, ...]  # those of the path that the layer around does not have
    depth: int
    layer: Layer
    arguments: tuple[Any, ...]  # params, input, the options that are arrays
    others: list[Any]
    output: Any


class _Seen:
    """The calls of layers within one of a network, in their order."""

    def __init__(self, depth: int | None) -> None:
        self.parts: list[_SeenPart | None] = []
        self.path: tuple[Any, ...] = ()
        self.depth = 0
        self.deepest = depth

    def watch(self, called: PartCall) -> Any:
        at, path, depth = len(self.parts), self.path, self.depth
        keys: tuple[Any, ...] = ()
        if called.part is not None:
            keys = (SequenceKey(called.part) if isinstance(called.part, int) else DictKey(called.part),)
        self.path = (*path, *keys)
        self.depth += 1
        self.parts.append(None)
        y = called.run()
        arrays, others = _parted(called.options)
        arguments = struct_of((called.params, called.x, arrays))
        if self.deepest is None or depth <= self.deepest:
            output = struct_of(_output(called, y))
            self.parts[at] = _SeenPart(self.path, keys, depth, called.layer, arguments, others, output)
        self.path, self.depth = path, depth
        return y

    def summaries(self) -> list[LayerSummary]:
        known: dict[str, float] = {}
        return [_summary_of(part, known) for part in self.parts if part is not None]


def _summary_of(part: _SeenPart, known: dict[str, float]) -> LayerSummary:
    """The figures of a layer; operations are counted once for all that do the same."""

    def apply(params: Any, x: Any, arrays: Any) -> Any:
        return part.layer.apply(params, x, **_joined(arrays, part.others))

    traced = jit(apply).trace(*part.arguments)
    text = str(traced.jaxpr)
    if text not in known:
        known[text] = traced.lower().cost.flops
    leaves = tree_leaves(part.arguments[0])
    return LayerSummary(
        path=keystr(part.path),
        part=keystr(part.keys),
        depth=part.depth,
        name=part.layer.name,
        output=part.output,
        params=sum(leaf.size for leaf in leaves),
        nbytes=sum(leaf.size * leaf.dtype.itemsize for leaf in leaves),
        flops=known[text],
    )


def _output(called: PartCall, y: Any) -> Any:
    """The output alone, where buffers or a state come with it."""
    options = called.options
    with_more = isinstance(called.layer, Buffered) or options.get("return_state") or options.get("cache") is not None
    return y[0] if with_more else y


def _parted(options: dict[str, Any]) -> tuple[list[Any], Any]:
    """The arrays among options, and all else: a pytree with a place for each of them."""
    leaves, structure = tree_flatten(options)
    is_array = [hasattr(leaf, "shape") and hasattr(leaf, "dtype") for leaf in leaves]
    arrays = [leaf for leaf, flag in zip(leaves, is_array) if flag]
    return arrays, (structure, [_PLACE if flag else leaf for leaf, flag in zip(leaves, is_array)])


def _joined(arrays: list[Any], others: Any) -> dict[str, Any]:
    structure, leaves = others
    each = iter(arrays)
    options: dict[str, Any] = tree_unflatten(structure, [next(each) if leaf is _PLACE else leaf for leaf in leaves])
    return options


_PLACE = object()


def _cells(layer: LayerSummary) -> tuple[str, ...]:
    indented = "  " * (max(layer.depth, 1) - 1) + f"{layer.part} {layer.name}".strip()
    return (indented, _types(layer.output), *_figures(layer))


def _total_cells(layer: LayerSummary) -> tuple[str, ...]:
    return ("all", _types(layer.output), *_figures(layer))


def _figures(layer: LayerSummary) -> tuple[str, str, str]:
    return f"{layer.params:,}", _short(layer.nbytes, "B"), _short(layer.flops)


def _types(tree: Any) -> str:
    return ", ".join(f"{short_name(leaf.dtype)}[{','.join(map(str, leaf.shape))}]" for leaf in tree_leaves(tree))


def _short(number: float, unit: str = "") -> str:
    """Three digits: 85,260 bytes are 85.3 kB."""
    if number < 999.5:
        return f"{number:.0f} {unit}".strip()
    power = min(int(math.log10(number * 1.0005)) // 3, len(_PREFIXES))
    return f"{number / 1000**power:.3g} {_PREFIXES[power - 1]}{unit}"


def _length(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    cut = [cell if len(cell) <= width else cell[: width - 1] + "…" for cell, width in zip(cells, widths)]
    return _GAP.join(
        f"{cell:<{w}}" if i < 2 else f"{cell:>{w}}" for i, (cell, w) in enumerate(zip(cut, widths))
    ).rstrip()


def _html_row(cells: Sequence[str], layer: LayerSummary, style: str = "") -> str:
    indent = f";padding-left:{max(layer.depth, 1) - 0.5}em"
    columns = (
        f"<td style='{_style(i)}{indent * (i == 0)}'>{escape(cell.strip())}</td>" for i, cell in enumerate(cells)
    )
    return f"<tr style='{style}'>{''.join(columns)}</tr>"


def _style(column: int) -> str:
    return f"text-align:{'left' if column < 2 else 'right'};padding:2px 0.5em;white-space:nowrap"
