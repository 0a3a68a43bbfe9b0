"""Rules for what only moves elements: transposes, reshapes and slices one behind another are one, or none."""

from __future__ import annotations

import numpy as np

from functad.editing.rewriting import View
from functad.ir import Atom, Aval, Eqn, Literal
from functad.optimize.broadcasts import repeats
from functad.primitives.common import reshape_p, transpose_p
from functad.primitives.structure import iota_p, slice_p


def transposed_twice(eqn: Eqn, view: View) -> Atom | Eqn | None:
    permutation = eqn.params["permutation"]
    inner = view.definition(eqn.invars[0], transpose_p)
    if inner:
        permutation = tuple(inner.params["permutation"][i] for i in permutation)
        eqn = eqn.replace(invars=inner.invars, params={"permutation": permutation})
    return eqn.invars[0] if permutation == tuple(range(len(permutation))) else eqn


def reshaped_twice(eqn: Eqn, view: View) -> Atom | Eqn | None:
    inner = view.definition(eqn.invars[0], reshape_p)
    operand, shape = (inner or eqn).invars[0], eqn.outvars[0].aval.shape
    if operand.aval.shape == shape:
        return operand
    return eqn.replace(primitive=reshape_p, invars=[operand], params={"new_sizes": shape}) if inner else None


def element_of_range(eqn: Eqn, view: View) -> Eqn | None:
    """The number that stands at one place of a range: the index in a step of an unrolled loop."""
    found = view.definition(eqn.invars[0], iota_p)
    out = eqn.outvars[0].aval
    if not found or out.size != 1:
        return None
    place = eqn.params["start_indices"][found.params["dimension"]]
    number = Literal(np.asarray(place).astype(out.dtype)[()], Aval((), out.dtype, out.weak_type))
    return repeats(number, eqn)


def slice_at_known_place(eqn: Eqn, view: View) -> Atom | Eqn | None:
    """A slice instead of a dynamic one, as in the steps of an unrolled loop."""
    operand, *places = eqn.invars
    if not all(isinstance(a, Literal) for a in places):
        return None
    sizes = eqn.params["slice_sizes"]
    if sizes == operand.aval.shape:
        return operand
    lasts = [n - size for n, size in zip(operand.aval.shape, sizes)]
    starts = [min(max(int(a.value), 0), last) for a, last in zip(places, lasts) if isinstance(a, Literal)]
    limits = tuple([start + size for start, size in zip(starts, sizes)])
    params = {"start_indices": tuple(starts), "limit_indices": limits, "strides": None}
    return eqn.replace(primitive=slice_p, invars=[operand], params=params)
