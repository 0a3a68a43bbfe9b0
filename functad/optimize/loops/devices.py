"""What a GPU wants of loops: it runs all that a loop without carries does in a step as one kernel, loops included.

Knows equations of loops and products; nothing of kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

from functad import machine_model
from functad.ir import Eqn
from functad.optimize.products import operations

_in_map: ContextVar[bool | None] = ContextVar("in_map", default=None)  # None where a CPU is optimised for


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
    """Optimise the body of a scan."""
    return nullcontext() if _in_map.get() is None else optimizing_for(eqn.params["num_carry"] == 0)


def is_in_map() -> bool | None:
    """What is made of a body depends on it: whether it is that of a loop without carries; None unless for a GPU."""
    return _in_map.get()


def is_map_of_device(eqn: Eqn) -> bool:
    """Whether a scan may be one kernel, or a part of one: it, or what it is in, has no carries."""
    return bool(_in_map.get()) or _in_map.get() is False and eqn.params["num_carry"] == 0


def is_large(product: Eqn) -> bool:
    """Whether a product is worth a loop within such a kernel."""
    return operations(product) >= machine_model.CUDA_KEPT_PRODUCT


def stays_in_loop(product: Eqn) -> bool:
    """Whether a product is computed step by step, as it is a part of such a kernel."""
    return bool(_in_map.get()) and is_large(product)
