"""What of the compiler can be left out, one at a time: rules, moves of loops, and passes, by the names they have there.

Knows where the passes are called. What is left out must change no result, only how it is computed.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

from functad import machine_model
from functad.backends.cpu import kept_plans, lowering
from functad.backends.cpu.kernels import emit, generate
from functad.lowering import control, matrices, schedule, target
from functad.lowering.fusion import fuse, order, products
from functad.optimize import pipeline, rules
from functad.optimize.loops import moves

TABLES = [name for name in vars(rules) if name.endswith("_RULES")]


class Switch(NamedTuple):
    """Off where the attribute of the module has this value."""

    name: str
    module: ModuleType
    attribute: str
    off: Any

    def turn_off(self) -> None:
        """In this process, which no longer finds what was compiled with it."""
        assert hasattr(self.module, self.attribute), f"{self.module.__name__} has no {self.attribute}"
        setattr(self.module, self.attribute, self.off)
        kept_plans.plan_key = lambda program, donated: None


def _without_each(kind: str, module: ModuleType, table: str) -> list[Switch]:
    entries = getattr(module, table)
    return [Switch(f"{kind}: {e.name}", module, table, tuple(x for x in entries if x is not e)) for e in entries]


def _same(x: Any) -> Any:
    return x


_without_sharing = tuple(p for p in pipeline.PASSES if p is not pipeline.share_common_subexpressions)

SWITCHES = [
    *(switch for table in TABLES for switch in _without_each("rule", pipeline, table)),
    Switch("pass: share_common_subexpressions", pipeline, "PASSES", _without_sharing),
    *_without_each("loop", moves, "MOVES"),
    Switch("fusion: readers first", fuse, "let_readers_go_first", lambda *_: None),
    Switch("fusion: parts of joined arrays", schedule, "find_places", lambda fusion: {}),
    Switch("fusion: joins within nests", machine_model, "SMALLEST_JOINED_IN_NEST", 1 << 60),
    Switch("fusion: rows and columns in one nest", fuse, "may_cross", lambda one, two: False),
    Switch("fusion: rematerialisation", fuse, "rematerialised", lambda *_: frozenset()),
    Switch("fusion: values of inputs, on GPUs", fuse, "computed_of_inputs", lambda *_: frozenset()),
    Switch("fusion: rematerialisation of values of few numbers", machine_model, "SMALLEST_RECOMPUTED", 1 << 60),
    Switch("fusion: sums within products", products, "_take_sum", lambda *_: None),
    Switch("fusion: scalings within products", products, "_factor", lambda *_: None),
    Switch("fusion: composites taken apart", schedule, "take_composites_apart", _same),
    Switch("fusion: units over the same rows", order, "_rows", lambda *_: 0),
    Switch("fusion: sums by columns last", schedule, "with_waiting", list),
    Switch("nests: rows from vectors on", machine_model, "SHORTEST_FROM_VECTORS", 1 << 60),
    Switch("memory: shifted stacks", machine_model, "SMALLEST_SHIFTED_SLICE", 1 << 60),
    Switch("nests: loops merged", target, "collapse_loops", lambda nest: None),
    Switch("nests: loops parted", target, "part", lambda nest: None),
    Switch("nests: updates shared by threads", target, "shared_updates", lambda nest, *_: [("", nest)]),
    Switch("nests: extrema as integers", emit, "by_whole_numbers", _same),
    Switch("nests: counts as integers", emit, "ones_counted", _same),
    Switch("nests: carried columns in registers", emit, "columns_written_out", _same),
    Switch("nests: reading before an update", emit, "_reading_first", _same),
    Switch("nests: short reductions written out", emit, "unrolled", _same),
    Switch("nests: short rows written out", emit, "rows_written_out", _same),
    Switch("nests: rows instead of columns", emit, "interchanged", _same),
    Switch("nests: reductions in memory order", target, "put_in_memory_order", lambda nest: None),
    Switch("nests: split reductions", target, "split_reduction", lambda nest, *_: [("", nest)]),
    Switch("kernels: squares of rows and columns", emit, "tiled", _same),
    Switch("kernels: ranges of few steps", machine_model, "FEW_STEPS", 0),
    Switch("kernels: numbers apart", generate, "numbers_apart", lambda body: {}),
    Switch("kernels: steps that are known to come", control, "counters_of", lambda *_: []),
    Switch("kernels: small products", generate, "without_small_products", _same),
    Switch("kernels: loops of small steps", machine_model, "LONGEST_SMALL_STEP", -1.0),
    Switch("blocks: kernels over the same rows", machine_model, "FEWEST_ROWS", 1 << 60),
    Switch("blocks: loops over rows of a thread's own", machine_model, "LONGEST_STEP", -1.0),
    Switch("products: operands packed once", matrices, "_packed_before", lambda *_: None),
    Switch("products: order of summed axes", matrices, "_contract_order", lambda values, contract, *_: contract),
    Switch("products: plain weights", lowering, "with_plain_weights", list),
    Switch("products: weights of loops", lowering, "with_weights_of_loops", list),
]
BY_NAME = {switch.name: switch for switch in SWITCHES}
