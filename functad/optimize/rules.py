"""The rules of the optimiser for single equations: what each matches, what it makes, and why the results are the same.

A table of contents: the functions stand in the files beside this one, each beside what it is about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from functad.editing.rewriting import Rule, View
from functad.ir import Atom, Eqn, Primitive
from functad.optimize import algebra, broadcasts, gathered_products, moves, pairs, products, scatters
from functad.primitives.arithmetic import add_p, copy_p, div_p, mul_p, neg_p, stop_gradient_p, sub_p
from functad.primitives.barrier import name_p
from functad.primitives.common import add_any_p, broadcast_in_dim_p, convert_element_type_p, reshape_p, transpose_p
from functad.primitives.contraction import dot_general_p
from functad.primitives.dynamic_slicing import dynamic_slice_p, dynamic_update_slice_p
from functad.primitives.gather_scatter import scatter_add_p
from functad.primitives.logic import and_p, select_n_p
from functad.primitives.structure import slice_p, squeeze_p

Make = Callable[[Eqn, View], Atom | Eqn | Sequence[Eqn] | None]


def _rule(name: str, of: Primitive | None, make: Make, because: str) -> Rule:
    return Rule(name=name, of=of, make=make, because=because)


_SAME_ELEMENTS = "the same elements in the same places"
_NOTHING = "it gives its operand"
_ONCE = "one product or sum for all uses of a row; as written where values are not moderate"

SCALAR_RULES = (
    _rule("one of each row", scatter_add_p, scatters.one_of_each_row, "each sum has one term; 0 + −0 is 0"),
    _rule("broadcast of a number", broadcast_in_dim_p, broadcasts.broadcast_of_repeated, _SAME_ELEMENTS),
    _rule("reshape of a number", reshape_p, broadcasts.reshaped_repeated, _SAME_ELEMENTS),
    _rule("squeeze of a number", squeeze_p, broadcasts.reshaped_repeated, _SAME_ELEMENTS),
    _rule("numbers for arrays", None, broadcasts.scalars_for_repeated, "each element is of the same numbers"),
    _rule("known numbers", None, algebra.fold, "computed by the primitive's own implementation"),
    _rule("x · 1", mul_p, algebra.times_one, "x · 1 = x, NaN and −0 included; complex ones are left"),
    _rule("x / 1", div_p, algebra.over_one, "x / 1 = x, NaN and −0 included; complex ones are left"),
    _rule("x / 2ⁿ", div_p, algebra.over_power_of_two, "1 / 2ⁿ is exact: the product is the quotient, rounded once"),
    _rule("x − 0", sub_p, algebra.minus_zero, "x − (+0) = x, also for x = −0"),
    _rule("x + 0", add_p, algebra.plus_zero, "x + (−0) = x; x + (+0) is not x for x = −0, except among integers"),
    _rule("ct + 0", add_any_p, algebra.plus_zero_cotangent, "loops sum up from zeros; no sign of zero matters there"),
    _rule("−(−x)", neg_p, algebra.negated_twice, "a sign that changes twice"),
    _rule("p and True", and_p, algebra.and_true, "of booleans only"),
    _rule("known case", select_n_p, algebra.known_case, "the case that is chosen, out-of-range indices clamped"),
    _rule("no conversion", convert_element_type_p, algebra.same_dtype, _NOTHING),
    _rule("stop_gradient", stop_gradient_p, algebra.operand, _NOTHING),
    _rule("copy", copy_p, algebra.operand, _NOTHING),
    _rule("name", name_p, algebra.operand, _NOTHING),
    _rule("transposed twice", transpose_p, moves.transposed_twice, _SAME_ELEMENTS),
    _rule("reshaped twice", reshape_p, moves.reshaped_twice, _SAME_ELEMENTS),
    _rule("squeezed after a reshape", squeeze_p, moves.squeezed_reshape, _SAME_ELEMENTS),
    _rule("slice of stacked arrays", slice_p, moves.slice_of_stack, _SAME_ELEMENTS),
    _rule("slice of joined arrays", slice_p, moves.slice_of_joined, _SAME_ELEMENTS),
    _rule("element of a range", slice_p, moves.element_of_range, "a range has its places as elements"),
    _rule("slice at a known place", dynamic_slice_p, moves.slice_at_known_place, "the place is clamped alike"),
    _rule("update at a known place", dynamic_update_slice_p, moves.update_at_known_place, "the place is clamped alike"),
)  # fmt: skip
"""Numbers and moves: for every Program."""

PRODUCT_RULES = (
    _rule("product of transposed arrays", dot_general_p, products.of_transposed, "the same sums of the same products"),
    _rule("transposed product", transpose_p, products.transposed, "the same sums, factors exchanged"),
    _rule("product with one number", dot_general_p, products.with_repeated_number, "the same terms in another order"),
)  # fmt: skip
"""Matrix products: after equal equations have become one, as it matters who else reads a product."""

ROW_RULES = (
    _rule("product of gathered rows", dot_general_p, gathered_products.rows_times_matrix, _ONCE),
    _rule("gradient of a table", scatter_add_p, gathered_products.rows_added_to_table, _ONCE),
)  # fmt: skip
"""Products of gathered rows: once transposes have become part of products."""

SUM_RULES = (
    _rule("product of few terms", dot_general_p, products.as_sum, "the same terms, rounded, in another order"),
    _rule("few terms of pairs", None, pairs.few_terms, "as reductions of few terms are computed"),
    _rule("part of pairs", slice_p, pairs.part_of_pairs, _SAME_ELEMENTS),
    _rule("few sums of pairs", None, pairs.few_kept, "each of the reductions apart"),
)  # fmt: skip
"""Dots and tiny products, just before fusion."""
