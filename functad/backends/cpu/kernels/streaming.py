"""Results of loops over more than caches hold: what no kernel reads is written in whole cache lines, past the caches.

Knows nests as data. A cache would read a line first of which all is written, and lose what others have there.
"""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import dataclass, replace

from functad import machine_model
from functad.backends.cpu.scalars import running
from functad.lowering.memory.buffers import Storage
from functad.lowering.nests.affine import Symbol, loop
from functad.lowering.nests.nest import PRE, Let, Load, Nest, Store, fresh, moved
from functad.lowering.nests.reductions import names_in_nest
from functad.primitives.loops.text import cast


@dataclass(eq=False)
class LineStore(Store):
    """`room[place] = value`; when there are `count` of them, they go to the buffer at `offset`, past the caches."""

    room: str
    place: str
    count: int


def streamed(nest: Nest, unread: Container[Storage]) -> Nest:
    """The nest, or one that runs along its last loop some cache lines at a time, and streams its results.

    unread: the results that no kernel reads.
    """
    if any(nest.reduced) or nest.accumulators or nest.carried is not None or nest.ordered or not nest.loops:
        return nest
    last, count = nest.loops[-1], machine_model.STREAMED_TOGETHER
    if _bytes_touched(nest) < machine_model.LOOP_STREAMED_BYTES:
        return nest
    read = {s.buffer.storage for s in nest.statements if isinstance(s, Load)}
    chosen = [s for s in nest.stores if s.buffer.storage in unread and s.buffer.storage not in read]
    chosen = [s for s in chosen if _fills_lines(s, nest.loops)]
    if last.extent % count or math.prod(s.extent for s in nest.loops) == count or not chosen:
        return nest
    taken = names_in_nest(nest)
    tile, within = loop(fresh(f"{last.name}_line", taken), last.extent // count), loop(last.name, count)
    first = tile * count
    parts, rooms, stores = {last: first + within}, [], list[Store]()
    for store in nest.stores:
        if store in chosen:
            rooms.append(room := fresh(f"{store.buffer.name}_lines", taken))
            offset = store.offset.substitute({last: first})
            stores.append(LineStore(store.buffer, offset, store.value, PRE, room, last.name, count))
        else:
            stores.append(replace(store, offset=store.offset.substitute(parts)))
    lets = [Let((room,), f"room_{cast(store.buffer.dtype)}()", (), PRE, None) for room, store in zip(rooms, chosen)]
    loops = [*nest.loops[:-1], *(x.terms[0][0] for x in (tile, within) if x.terms)]
    statements = [*lets, *(moved(s, parts) for s in nest.statements)]
    return replace(nest, loops=loops, reduced=[False] * len(loops), statements=statements, stores=stores)


def _bytes_touched(nest: Nest) -> int:
    """How much memory a nest reads and writes, but for what it reads again."""
    touched: dict[Storage, int] = {}
    for buffer, offset, _ in nest.accesses():
        places = math.prod(s.extent for s in offset.symbols() & set(nest.loops))
        size = min(buffer.nbytes, places * buffer.dtype.itemsize)
        touched[buffer.storage] = max(touched.get(buffer.storage, 0), size)
    return sum(touched.values())


def _fills_lines(store: Store, loops: list[Symbol]) -> bool:
    """Whether the last loop writes whole cache lines if the buffer begins with one."""
    buffer, offset, last = store.buffer, store.offset, loops[-1]
    if type(store) is not Store or buffer.dtype not in running.ROOMS:
        return False
    steps = [offset.constant, *(c for s, c in offset.terms if s is not last), machine_model.STREAMED_TOGETHER]
    are_whole = all(step * buffer.dtype.itemsize % machine_model.CACHE_LINE == 0 for step in steps)
    return are_whole and offset.coefficient(last) == 1 and offset.symbols() <= set(loops)
