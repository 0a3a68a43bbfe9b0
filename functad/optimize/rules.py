"""The rules of the optimiser for single equations: what each matches, what it makes, and why the results are the same.

A table of contents: the functions stand in the files beside this one, each beside what it is about.
"""

from __future__ import annotations

from functad.editing.rewriting import Rule
from functad.optimize import algebra, broadcasts, gathered_products, moving, pairs, products, scatters, spectra, stacks
from functad.primitives.arithmetic import div_p, neg_p
from functad.primitives.common import add_any_p, broadcast_in_dim_p, convert_element_type_p, reshape_p, transpose_p
from functad.primitives.contraction import dot_general_p
from functad.primitives.dynamic_slicing import dynamic_slice_p
from functad.primitives.fourier import fft_p
from functad.primitives.gather_scatter import scatter_add_p
from functad.primitives.joining import unstack_p
from functad.primitives.logic import select_n_p
from functad.primitives.structure import slice_p, squeeze_p

_SAME_ELEMENTS = "the same elements in the same places"
_ONCE = "one product or sum for all uses of a row; as written where values are not moderate"

SCALAR_RULES = (
    Rule("one of each row", (scatter_add_p,), scatters.one_of_each_row, "each sum has one term; 0 + −0 is 0"),
    Rule("broadcast of a number", (broadcast_in_dim_p,), broadcasts.broadcast_of_repeated, _SAME_ELEMENTS),
    Rule("reshape of a number", (reshape_p, squeeze_p), broadcasts.reshaped_repeated, _SAME_ELEMENTS),
    Rule("numbers for arrays", None, broadcasts.scalars_for_repeated, "each element is of the same numbers"),
    Rule("known numbers", None, algebra.folded_constants, "computed by the primitive's own implementation"),
    Rule("neutral number", (*algebra.NEUTRAL,), algebra.beside_identity, "NaN and −0 stay: x + 0 is not x for x = −0"),
    Rule("x / 2ⁿ", (div_p,), algebra.over_power_of_two, "1 / 2ⁿ is exact: the product is the quotient, rounded once"),
    Rule("ct + 0", (add_any_p,), algebra.plus_zero_cotangent, "loops sum up from zeros; no sign of zero matters there"),
    Rule("−(−x)", (neg_p,), algebra.negated_twice, "a sign that changes twice"),
    Rule("known case", (select_n_p,), algebra.known_case, "the case that is chosen, indices clamped, or the only one"),
    Rule("update of some rows", (select_n_p,), scatters.made_for_some_rows, "what is dropped, or written back, stays"),
    Rule("the same value", None, algebra.same_value, "`stop_gradient` gives it, and a sum of one"),
    Rule("the same dtype", (convert_element_type_p,), algebra.unconverted, "nothing is converted"),
    Rule("transposed twice", (transpose_p,), moving.transposed_twice, _SAME_ELEMENTS),
    Rule("reshaped twice", (reshape_p, squeeze_p), moving.reshaped_twice, _SAME_ELEMENTS),
    Rule("slice of stacked arrays", (slice_p,), stacks.slice_of_stack, _SAME_ELEMENTS),
    Rule("stacked arrays apart", (unstack_p,), stacks.unstacked, _SAME_ELEMENTS),
    Rule("each of stacked arrays", None, stacks.each_of_stack, "each element is of the same numbers"),
    Rule("element of a range", (slice_p,), moving.element_of_range, "a range has its places as elements"),
    Rule("slice at a known place", (dynamic_slice_p,), moving.slice_at_known_place, "the place is clamped alike"),
)  # fmt: skip
"""Numbers and moves: for every Program."""

PRODUCT_RULES = (
    Rule("product of narrow floats", (dot_general_p,), products.of_narrow_floats, "float32 is what they are summed in"),
    Rule("product of transposed arrays", (dot_general_p,), products.of_transposed, "the same sums of products"),
    Rule("transposed product", (transpose_p,), products.transposed_product, "the same sums, factors exchanged"),
    Rule("product with one number", (dot_general_p,), products.with_repeated_number, "the same terms in another order"),
)  # fmt: skip
"""Matrix products: after equal equations have become one, as it matters who else reads a product."""

ROW_RULES = (
    Rule("moved rows", (transpose_p, reshape_p, scatter_add_p), gathered_products.moved_rows, _SAME_ELEMENTS),
    Rule("product of gathered rows", (dot_general_p,), gathered_products.rows_times_matrix, _ONCE),
    Rule("gradient of a table", (scatter_add_p,), gathered_products.rows_added_to_table, _ONCE),
)  # fmt: skip
"""Products of gathered rows: once transposes have become part of products."""

SUM_RULES = (
    Rule("product of few terms", (dot_general_p,), products.as_sum, "the same terms, rounded, in another order"),
    Rule("few terms of pairs", None, pairs.few_terms, "as reductions of few terms are computed"),
    Rule("part of pairs", (slice_p,), pairs.part_of_pairs, _SAME_ELEMENTS),
    Rule("few sums of pairs", None, pairs.few_kept, "each of the reductions apart"),
    Rule("spectrum of real numbers", (fft_p,), spectra.of_real, "the other half is conjugate; one NaN fills all"),
)  # fmt: skip
"""Dots, tiny products and spectra, just before fusion."""

VECTOR_RULES = (
    Rule("product of a vector", (dot_general_p,), products.of_vectors, "the same terms, rounded, in another order"),
)  # fmt: skip
"""For GPUs, before the last ones: what a matrix meets one vector in is a sum like others there."""
