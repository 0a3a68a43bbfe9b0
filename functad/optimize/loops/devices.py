"""What a GPU wants of loops: it runs all that a loop without carries does in a step as one kernel, loops included.

Knows equations of loops and products; nothing of kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

from functad import machine_model
from functad.ir import Eqn, Program
from functad.optimize.products import operations
from functad.primitives.contraction import dot_general_p

_in_map: ContextVar[bool | None] = ContextVar("in_map", default=None)  # None where a CPU is optimised for


CountLaunches = Callable[[Program], int]
_count: ContextVar[CountLaunches | None] = ContextVar("count", default=None)


@contextmanager
def counting_launches(count: CountLaunches | None) -> Iterator[None]:
    """Let passes ask how many launches a GPU takes for a Program; with None, all that may take fewer are taken to."""
    token = _count.set(count)
    try:
        yield
    finally:
        _count.reset(token)


def counts_launches() -> CountLaunches | None:
    """What tells passes how many launches a GPU takes, on which depends what they choose."""
    return _count.get()


def takes_fewer_launches(one: Callable[[], Program], other: Callable[[], Program]) -> bool:
    """Whether a GPU takes fewer launches for one Program than for another, which are made where that can be asked."""
    count = _count.get()
    return count is None or count(one()) < count(other())


@contextmanager
def optimizing_for(in_map: bool | None) -> Iterator[None]:
    """Optimise for a CPU (None), or for a GPU, which may run a step of a loop without carries as one kernel.

    in_map: for a GPU, whether it is the body of such a loop.
    """
    token = _in_map.set(in_map)
    try:
        yield
    finally:
        _in_map.reset(token)


def within(eqn: Eqn) -> AbstractContextManager[None]:
    """Optimise what runs in a loop or branch."""
    is_scan = "num_carry" in eqn.params
    return optimizing_for(eqn.params["num_carry"] == 0) if is_scan and _in_map.get() is not None else nullcontext()


def is_in_map() -> bool | None:
    """What is made of a body depends on it: whether it is that of a loop without carries; None unless for a GPU."""
    return _in_map.get()


def is_map_of_device(eqn: Eqn) -> bool:
    """Whether a scan may be one kernel, or a part of one: it, or what it is in, has no carries."""
    return bool(_in_map.get()) or _in_map.get() is False and eqn.params["num_carry"] == 0


def is_large(product: Eqn) -> bool:
    """Whether a product is worth a loop within such a kernel."""
    return operations(product) >= machine_model.CUDA_KEPT_PRODUCT


def stays_in_loop(eqn: Eqn) -> bool:
    """Whether an equation is a product that is computed step by step, as it is a part of such a kernel."""
    return bool(_in_map.get()) and eqn.primitive is dot_general_p and is_large(eqn)
