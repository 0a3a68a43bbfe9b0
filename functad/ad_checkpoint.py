"""What belongs to rematerialisation, under JAX's name: `functad.ad_checkpoint`.

Knows names only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from functad import checkpoint_policies
from functad.absent import absent
from functad.api.checkpointing import checkpoint, remat
from functad.api.residuals import Residual, checkpoint_name, print_saved_residuals, saved_residuals
from functad.checkpoint_policies import (
    checkpoint_dots,
    checkpoint_dots_with_no_batch_dims,
    dots_saveable,
    dots_with_no_batch_dims_saveable,
    everything_saveable,
    nothing_saveable,
    save_any_names_but_these,
    save_anything_except_these_names,
    save_from_both_policies,
    save_only_these_names,
)
from functad.records import NamedTuple

Saveable = True
"""What a policy of one's own returns for a value to keep; in JAX an object, here a truth value as well."""
Recompute = False
"""What it returns for one to compute again."""


class Offloadable(NamedTuple):
    """What it returns for one to keep in another memory; there is one, so the value is kept.

    >>> bool(Offloadable("device", "pinned_host"))
    True
    """

    src: str
    dst: str


__all__ = [
    "Offloadable",
    "Recompute",
    "Residual",
    "Saveable",
    "checkpoint",
    "checkpoint_dots",
    "checkpoint_dots_with_no_batch_dims",
    "checkpoint_name",
    "checkpoint_policies",
    "dots_saveable",
    "dots_with_no_batch_dims_saveable",
    "everything_saveable",
    "nothing_saveable",
    "print_saved_residuals",
    "remat",
    "save_any_names_but_these",
    "save_anything_except_these_names",
    "save_from_both_policies",
    "save_only_these_names",
    "saved_residuals",
]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
