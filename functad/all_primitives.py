"""All primitives of functad: importing this fills `functad.primitive_record.registry`.

Knows where they are. Programs do with those that they use; who finds one by its name asks for all first.
"""

# ruff: noqa: F401

from __future__ import annotations

from functad.calls import checkpoint, closed_call, custom_rules, jit, linear_solve
from functad.control import conditional, scan, while_loop
from functad.primitive_record import registry as registry
from functad.primitives import (
    barrier,
    bitcast,
    callback,
    collectives,
    contraction,
    convolution,
    cumulative,
    dynamic_slicing,
    elementwise,
    fourier,
    gather_scatter,
    incomplete,
    joining,
    positions,
    random_bits,
    random_keys,
    reduction,
    slice_update,
    sorting,
    strict,
    structure,
    user_kernels,
    window,
    window_select,
)
from functad.primitives.linear_algebra import cholesky, condensed, lu, qr, spectra, triangular
