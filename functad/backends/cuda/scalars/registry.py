"""The intrinsics of kernel text on CUDA: what kernels import.

Numba's simulator runs the plain functions of the CPU's intrinsics; for a GPU `intrinsics` gives each one machine code.
Where there is no Numba their names are all that is needed, to write kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from functad.backends.cpu.scalars import complex as complex_scalars
from functad.backends.cpu.scalars import elementary as scalars
from functad.backends.cpu.scalars import exact as exact_scalars
from functad.backends.cpu.scalars import special as special_scalars
from functad.backends.cuda.scalars import numba_package, words
from functad.system import numba_here

SIMULATED = numba_here.is_installed() and bool(import_module("numba").config.ENABLE_CUDASIM)

NO_PTX = "Numba's simulator runs kernels as Python, so they have no PTX: ask without NUMBA_ENABLE_CUDASIM"

HAS_ALIGNED_MEMORY = SIMULATED or bool(find_spec("numba_cuda"))
"""Whether kernels can say at which addresses their shared memory begins: not by Numba's own compiler for CUDA."""

INTRINSICS: dict[str, Callable[..., Any]] = {
    name: value
    for module in (complex_scalars, exact_scalars, special_scalars, scalars)
    for name, value in vars(module).items()
    if not name.startswith("_") and (hasattr(value, "formula") or hasattr(value, "routine"))
}
INTRINSICS |= {"accumulate": scalars.accumulate, "load4": words.load4, "store4": words.store4}
if numba_here.is_installed() and not SIMULATED:
    numba_package.require()
    INTRINSICS = import_module("functad.backends.cuda.scalars.intrinsics").on_cuda(INTRINSICS)
    INTRINSICS |= import_module("functad.backends.cuda.scalars.product_intrinsics").WORDS
else:
    INTRINSICS |= words.WORDS

globals().update(INTRINSICS)  # kernels are files that import their intrinsics by name
