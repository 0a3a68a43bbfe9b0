"""What a GPU wants of loops: it runs all that a loop without carries does in a step as one kernel, loops included.

Knows equations of loops and products; nothing of kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, Literal

from functad import machine_model
from functad.ir import Eqn, Program
from functad.optimize.products import operations
from functad.primitives.contraction import dot_general_p
from functad.records import NamedTuple


class DeviceCost(NamedTuple):
    """What a GPU takes for a Program: how many launches, and bytes of temporaries that are alive at one time."""

    launches: int
    temporaries: int = 0


CostOnDevice = Callable[[Program], DeviceCost]


class OptimizedFor(NamedTuple):
    """What passes optimise for, on which depends what they choose.

    runs: on a CPU; as launches of a GPU; or, as the body of a loop without carries, perhaps as one kernel of it.
    cost: tells what a GPU takes for a Program.
    """

    runs: Literal["on a CPU", "as launches", "as a kernel"] = "on a CPU"
    cost: CostOnDevice | None = None


_CPU = OptimizedFor()
_optimized_for: ContextVar[OptimizedFor] = ContextVar("optimized_for", default=_CPU)
optimized_for = _optimized_for.get


def is_for_gpu() -> bool:
    """Whether a Program is for a GPU."""
    return optimized_for().runs != "on a CPU"


@contextmanager
def optimizing_for(**changes: Any) -> Iterator[None]:
    """Optimise for something else, by the names of `OptimizedFor`."""
    token = _optimized_for.set(optimized_for()._replace(**changes))
    try:
        yield
    finally:
        _optimized_for.reset(token)


def takes_fewer_launches(one: Callable[[], Program], other: Callable[[], Program], most: float = math.inf) -> bool:
    """Whether a GPU takes fewer launches for one Program than for another, and no more than `most` bytes beyond.

    They are made where that can be asked. Where it cannot, all that may take fewer are taken to.
    """
    cost = optimized_for().cost
    if cost is None:
        return True
    second = cost(other())
    if second.launches <= 1:
        return False
    first = cost(one())
    more = first.temporaries - second.temporaries
    return first.launches < second.launches and more <= most


def within(eqn: Eqn) -> AbstractContextManager[None]:
    """Optimise what runs in a loop or branch."""
    if "num_carry" not in eqn.params or not is_for_gpu():
        return nullcontext()
    return optimizing_for(runs="as launches" if eqn.params["num_carry"] else "as a kernel")


def is_map_of_device(eqn: Eqn) -> bool:
    """Whether a scan may be one kernel, or a part of one: it, or what it is in, has no carries."""
    runs = optimized_for().runs
    return runs == "as a kernel" or runs == "as launches" and eqn.params["num_carry"] == 0


def is_large(product: Eqn) -> bool:
    """Whether a product is worth a loop within such a kernel."""
    return operations(product) >= machine_model.CUDA_KEPT_PRODUCT


def stays_in_loop(eqn: Eqn) -> bool:
    """Whether an equation is a product that is computed step by step, as it is a part of such a kernel."""
    return optimized_for().runs == "as a kernel" and eqn.primitive is dot_general_p and is_large(eqn)
