"""Ties, kinks and ends of domains of public functions: where derivatives are compared with JAX's.

Knows names and points; a function takes the modules `numpy`, `lax` and `nn` as attributes of its first argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

INF, NAN = np.inf, np.nan


class KinkCase(NamedTuple):
    """A function at some points: arrays with the points along the first axis. None in `along`: not differentiated."""

    name: str
    function: Callable[..., Any]
    args: tuple[np.ndarray, ...]
    along: tuple[np.ndarray | None, ...]


CASES: list[KinkCase] = []


def unary(module: str, names: str, points: list[float], **options: Any) -> None:
    """Element-wise functions of one operand, at each of the points."""
    x = np.array(points)
    for name in names.split():
        CASES.append(
            KinkCase(
                ".".join([module, name, *(f"{k}={v}" for k, v in options.items())]),
                lambda m, x, name=name: getattr(getattr(m, module), name)(x, **options),
                (x,),
                (np.ones_like(x),),
            )
        )


def binary(module: str, names: str, points: list[tuple[float, float]], only_second: bool = False) -> None:
    """Element-wise functions of two operands, at each of the points: along the first, the second, and both."""
    x, y = (np.array(c) for c in zip(*points))
    one = np.ones_like(x)
    for name in names.split():
        for along in [(None, one)] if only_second else [(one, None), (None, one), (one, 0.5 * one)]:
            shown = "".join("x" if v is not None else "-" for v in along)
            CASES.append(
                KinkCase(
                    f"{module}.{name}-{shown}",
                    lambda m, x, y, name=name: getattr(getattr(m, module), name)(x, y),
                    (x, y),
                    along,
                )
            )


def of_array(name: str, function: Callable[..., Any], rows: list[Any]) -> None:
    """A function of one array, at each of the rows: along the first unit vector, and along another direction."""
    x = np.array(rows, np.float64)
    unit, other = np.zeros_like(x), np.zeros_like(x)
    unit.reshape(len(x), -1)[:, 0] = 1
    other[:] = np.cos(1 + np.arange(x[0].size)).reshape(x[0].shape)
    for shown, along in (("first", unit), ("all", other)):
        CASES.append(KinkCase(f"{name}-{shown}", function, (x,), (along,)))


# --- element-wise -------------------------------------------------------------------------------------

POINTS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 6.0, 0.25, 1e-3, -1e-3, 40.0, -40.0, INF, -INF, NAN]
POINTS += [1e-30, 1e-200, 1e30, 1e200]
PAIRS = [(0.0, 0.0), (-0.0, 0.0), (0.0, -0.0), (1.0, 1.0), (-1.0, -1.0), (2.5, 2.5), (0.0, 1.0), (0.0, 2.0), (0.0, 3.0)]
PAIRS += [
    (0.0, 0.5),
    (0.0, -1.0),
    (1.0, 0.0),
    (-1.0, 0.0),
    (1.0, -1.0),
    (2.0, 1.0),
    (3.0, 2.0),
    (-3.0, 2.0),
    (-2.0, 3.0),
]
PAIRS += [
    (INF, 0.0),
    (INF, INF),
    (-INF, INF),
    (-INF, -INF),
    (0.0, INF),
    (1.0, INF),
    (1.0, -INF),
    (INF, 1.0),
    (-INF, 1.0),
]
PAIRS += [(NAN, 0.0), (0.0, NAN), (0.0, -0.5), (0.0, 1.5), (0.0, 2.5), (0.0, 4.0), (-2.0, 0.5), (2.0, 0.0), (0.5, INF)]

unary(
    "lax",
    "abs acos acosh asin asinh atan atanh bessel_i0e bessel_i1e cbrt ceil cos cosh digamma erf erf_inv erfc exp exp2 "
    "expm1 floor lgamma log log1p logistic neg reciprocal round rsqrt sign sin sinh sqrt square stop_gradient tan tanh",
    POINTS,
)
for exponent in (-2, -1, 0, 1, 2, 3, 4):
    unary("lax", "integer_pow", POINTS, y=exponent)
unary(
    "numpy",
    "absolute arccos arccosh arcsin arcsinh arctan arctanh cbrt ceil cos cosh deg2rad exp exp2 expm1 fabs floor modf "
    "log log10 log1p log2 nan_to_num negative positive rad2deg real reciprocal rint round sign sin sinc sinh sqrt "
    "square tan tanh trunc angle conj imag",
    POINTS,
)
unary(
    "nn",
    "celu elu gelu hard_sigmoid hard_silu hard_swish hard_tanh identity leaky_relu log_sigmoid mish relu relu6 selu "
    "sigmoid silu soft_sign softplus sparse_plus sparse_sigmoid squareplus swish tanh",
    POINTS,
)
unary("nn", "gelu", POINTS, approximate=False)
unary("nn", "elu", POINTS, alpha=0.5)
unary("nn", "celu", POINTS, alpha=0.5)
unary("nn", "leaky_relu", POINTS, negative_slope=0.2)
unary("nn", "squareplus", POINTS[:19], b=0)
unary("nn", "log1mexp", [x for x in POINTS if not x < 0 and x != 1e-200])
binary("lax", "add atan2 div max min mul pow rem sub", PAIRS)
binary(
    "lax", "igamma igammac", [(1.0, 0.0), (2.0, 0.0), (0.5, 0.0), (2.0, INF), (1.0, 1.0), (3.0, 0.0)], only_second=True
)
binary("lax", "polygamma", [(1.0, 1.0), (0.0, 1.0), (1.0, 0.0), (1.0, INF)], only_second=True)
binary(
    "numpy",
    "add arctan2 copysign divide divmod float_power floor_divide fmax fmin fmod heaviside hypot logaddexp logaddexp2 "
    "maximum minimum multiply power remainder subtract",
    PAIRS,
)
for exponent in (0, 1, 2, 3, -1, 0.5, 1.5, 2.0):
    CASES.append(
        KinkCase(
            f"numpy.power-static-{exponent}",
            lambda m, x, e=exponent: m.numpy.power(x, e),
            (np.array(POINTS),),
            (np.ones(len(POINTS)),),
        )
    )
for name, low, high in [("01", 0.0, 1.0), ("-11", -1.0, 1.0), ("11", 1.0, 1.0), ("10", 1.0, -1.0), ("none", None, 0.5)]:
    CASES.append(
        KinkCase(
            f"numpy.clip-{name}",
            lambda m, x, a=low, b=high: m.numpy.clip(x, a, b),
            (np.array(POINTS),),
            (np.ones(len(POINTS)),),
        )
    )
    if low is not None:
        CASES.append(
            KinkCase(
                f"lax.clamp-{name}",
                lambda m, x, a=low, b=high: m.lax.clamp(np.float64(a), x, np.float64(b)),
                (np.array(POINTS),),
                (np.ones(len(POINTS)),),
            )
        )
_one = np.ones(4)
for which in range(3):
    CASES.append(
        KinkCase(
            f"numpy.clip-operand{which}",
            lambda m, x, a, b: m.numpy.clip(x, a, b),
            (np.array([0.0, 1.0, 0.5, 2.0]), np.array([0.0, 0.0, 0.5, 0.0]), np.array([1.0, 1.0, 0.5, 1.0])),
            tuple(_one if i == which else None for i in range(3)),
        )
    )
    CASES.append(
        KinkCase(
            f"lax.clamp-operand{which}",
            lambda m, a, x, b: m.lax.clamp(a, x, b),
            (np.array([0.0, 0.0, 0.5, 0.0]), np.array([0.0, 1.0, 0.5, 2.0]), np.array([1.0, 1.0, 0.5, 1.0])),
            tuple(_one if i == which else None for i in range(3)),
        )
    )


CASES.append(
    KinkCase(
        "lax.betainc",
        lambda m, a, b, x: m.lax.betainc(a, b, x),
        (np.array([1.0, 2.0, 2.0, 3.0]), np.array([1.0, 2.0, 1.0, 3.0]), np.array([0.0, 0.0, 1.0, 1.0])),
        (None, None, np.ones(4)),
    )
)

# --- reductions, scans, sorting -----------------------------------------------------------------------

ROWS = [
    [0.0, 0.0, 0.0, 0.0],
    [1.0, 1.0, 1.0, 1.0],
    [2.0, 2.0, 1.0, 1.0],
    [1.0, 2.0, 2.0, 1.0],
    [-1.0, 0.0, 1.0, 0.0],
    [0.0, 2.0, 3.0, 4.0],
    [0.0, 0.0, 3.0, 4.0],
    [0.0, -0.0, -0.0, 0.0],
    [INF, 1.0, 2.0, INF],
    [-INF, -INF, -INF, -INF],
    [-INF, 0.0, -INF, 1.0],
    [NAN, 1.0, 1.0, 2.0],
]
FINITE = ROWS[:8]
for name in (
    "amax amin average cumprod cumsum max mean median min nanmax nanmean nanmedian nanmin nanprod nanstd nansum nanvar "
    "prod ptp std sum var nancumprod nancumsum sort diff ediff1d trapezoid gradient cumulative_prod cumulative_sum "
    "unwrap"
).split():
    of_array(f"numpy.{name}", lambda m, x, name=name: getattr(m.numpy, name)(x), ROWS)
for name in "std var nanstd nanvar".split():
    of_array(f"numpy.{name}-ddof", lambda m, x, name=name: getattr(m.numpy, name)(x, ddof=1), ROWS)
for q, method in [(0.0, "linear"), (0.5, "linear"), (1.0, "linear")] + [
    (0.3, method) for method in ("linear", "lower", "higher", "nearest", "midpoint")
]:
    of_array(
        f"numpy.quantile-{q}-{method}", lambda m, x, q=q, method=method: m.numpy.quantile(x, q, method=method), ROWS
    )
of_array("numpy.nanquantile", lambda m, x: m.numpy.nanquantile(x, 0.3), ROWS)
of_array("numpy.percentile", lambda m, x: m.numpy.percentile(x, 50.0), ROWS)
of_array("numpy.where", lambda m, x: m.numpy.where(x > 0, x * x, 3 * x), ROWS)
of_array("numpy.partition", lambda m, x: m.numpy.partition(x, 1)[1], FINITE[:7])
of_array(
    "numpy.interp",
    lambda m, x: m.numpy.interp(x, np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.0, 2.0, 2.0, 5.0])),
    FINITE,
)
of_array("numpy.interp-fp", lambda m, y: m.numpy.interp(1.0, np.array([0.0, 1.0, 2.0, 3.0]), y), FINITE)
of_array(
    "numpy.interp-xp",
    lambda m, x: m.numpy.interp(1.0, x, np.array([0.0, 2.0, 2.0, 5.0])),
    [[0.0, 1.0, 2.0, 3.0], [0.0, 0.5, 1.0, 4.0]],
)
of_array("numpy.corrcoef", lambda m, x: m.numpy.corrcoef(x.reshape(2, 2)), ROWS[2:7])
of_array("numpy.cov", lambda m, x: m.numpy.cov(x.reshape(2, 2)), FINITE)
of_array("numpy.max-initial", lambda m, x: m.numpy.max(x, initial=1.0), ROWS)
of_array("numpy.min-where", lambda m, x: m.numpy.min(x, where=np.array([True, False, True, True]), initial=1.0), ROWS)
of_array("numpy.max-axes", lambda m, x: m.numpy.max(x.reshape(2, 2), axis=0), ROWS)
of_array(
    "numpy.piecewise", lambda m, x: m.numpy.piecewise(x, [x < 0, x >= 1], [lambda v: -v, lambda v: v * v, 0.0]), FINITE
)
of_array("numpy.select", lambda m, x: m.numpy.select([x <= 0, x > 1], [x, x * x], 1.0), FINITE)
of_array("numpy.polyval", lambda m, x: m.numpy.polyval(x, 0.0), FINITE)
of_array("numpy.polyval-x", lambda m, x: m.numpy.polyval(np.array([1.0, 2.0, 3.0]), x), FINITE)
of_array("numpy.vander", lambda m, x: m.numpy.vander(x), FINITE)
of_array("numpy.convolve", lambda m, x: m.numpy.convolve(x, x), FINITE)
of_array("numpy.ufunc-maximum", lambda m, x: m.numpy.maximum.reduce(x), FINITE)
of_array("numpy.ufunc-multiply", lambda m, x: m.numpy.multiply.reduce(x), FINITE)
of_array("numpy.ufunc-logaddexp", lambda m, x: m.numpy.logaddexp.reduce(x), FINITE)
of_array("numpy.take", lambda m, x: m.numpy.take(x, np.array([0, 0, 3])), FINITE)
of_array("numpy.at-max", lambda m, x: x.at[np.array([0, 0, 1])].max(m.numpy.array([1.0, 1.0, 0.0])), FINITE)
of_array("numpy.at-min", lambda m, x: x.at[np.array([0, 0, 1])].min(m.numpy.array([1.0, 1.0, 0.0])), FINITE)
of_array("numpy.at-power", lambda m, x: x.at[np.array([0, 2, 1])].power(2.0), FINITE)
of_array("numpy.at-divide", lambda m, x: x.at[np.array([0, 2, 1])].divide(2.0), FINITE)
of_array("numpy.at-mul", lambda m, x: x.at[np.array([0, 2, 1])].multiply(x[:3], unique_indices=True), FINITE)
of_array("numpy.at-max-updates", lambda m, x: m.numpy.ones(4).at[np.array([0, 0, 1, 1])].max(x), FINITE)
for order in (None, 1, 2, 3, 0, INF, -INF, 0.5):
    of_array(f"linalg.norm-{order}", lambda m, x, order=order: m.numpy.linalg.norm(x, order), FINITE)
for order in ("fro", 1, -1, INF, -INF):
    of_array(
        f"linalg.matrix_norm-{order}", lambda m, x, o=order: m.numpy.linalg.matrix_norm(x.reshape(2, 2), ord=o), FINITE
    )
of_array("linalg.vector_norm", lambda m, x: m.numpy.linalg.vector_norm(x), FINITE)
of_array("linalg.matrix_power", lambda m, x: m.numpy.linalg.matrix_power(x.reshape(2, 2), 3), FINITE)
of_array("numpy.nanpercentile", lambda m, x: m.numpy.nanpercentile(x, 25.0), ROWS)
of_array("numpy.percentile-vector", lambda m, x: m.numpy.percentile(x, np.array([0.0, 100.0])), FINITE)
of_array("numpy.geomspace", lambda m, x: m.numpy.geomspace(x[0], x[1], 4), [[1.0, 1.0], [1.0, 2.0], [2.0, 1.0]])
of_array("numpy.logspace", lambda m, x: m.numpy.logspace(x[0], x[1], 4), [[0.0, 0.0], [0.0, 1.0]])
of_array("numpy.linspace", lambda m, x: m.numpy.linspace(x[0], x[1], 4), [[0.0, 0.0], [0.0, 1.0]])
of_array("numpy.choose", lambda m, x: m.numpy.choose(np.array([0, 1, 1, 0]), [x, x * x], mode="clip"), FINITE)
of_array("numpy.cross", lambda m, x: m.numpy.cross(x[:3], x[1:]), FINITE)
of_array("numpy.cumulative_prod", lambda m, x: m.numpy.cumulative_prod(x, include_initial=True), FINITE)
of_array("numpy.square-int", lambda m, x: x**2 + x**3 + x**0 + x**1, ROWS)
of_array("numpy.power-array", lambda m, x: x ** np.array([0, 1, 2, 3]), FINITE)
of_array("numpy.rpower", lambda m, x: 2.0**x + m.numpy.power(0.0, x + 2), FINITE)
for name in "cumlogsumexp cummax cummin cumprod cumsum sort".split():
    of_array(f"lax.{name}", lambda m, x, name=name: getattr(m.lax, name)(x), ROWS)
for name in "cumlogsumexp cummax cummin cumprod".split():
    of_array(f"lax.{name}-reverse", lambda m, x, name=name: getattr(m.lax, name)(x, reverse=True), ROWS)
for name in "reduce_max reduce_min reduce_prod reduce_sum".split():
    of_array(f"lax.{name}", lambda m, x, name=name: getattr(m.lax, name)(x, (0,)), ROWS)
of_array("lax.reduce-max", lambda m, x: m.lax.reduce(x, np.float64(-INF), m.lax.max, (0,)), FINITE)
of_array("lax.top_k", lambda m, x: m.lax.top_k(x, 2)[0], ROWS)
of_array("lax.sort_key_val", lambda m, x: m.lax.sort_key_val(np.array([1, 1, 0, 0]), x)[1], FINITE)
of_array("lax.reduce_window-max", lambda m, x: m.lax.reduce_window(x, -INF, m.lax.max, (2,), (1,), "SAME"), ROWS[:8])
of_array("lax.reduce_window-min", lambda m, x: m.lax.reduce_window(x, INF, m.lax.min, (2,), (1,), "VALID"), ROWS[:8])
of_array("lax.associative_scan-max", lambda m, x: m.lax.associative_scan(m.lax.max, x), FINITE)

# --- networks -----------------------------------------------------------------------------------------

for name in "softmax log_softmax logmeanexp logsumexp standardize glu".split():
    of_array(f"nn.{name}", lambda m, x, name=name: getattr(m.nn, name)(x), ROWS)
MASK = np.array([True, False, True, True])
for name in "softmax log_softmax logsumexp standardize".split():
    of_array(
        f"nn.{name}-where", lambda m, x, name=name: m.numpy.where(MASK, getattr(m.nn, name)(x, where=MASK), 0.0), FINITE
    )
of_array("nn.logsumexp-b", lambda m, x: m.nn.logsumexp(x, b=np.array([0.0, 1.0, 2.0, 3.0])), ROWS)
of_array("nn.logsumexp-b-negative", lambda m, x: m.nn.logsumexp(x, b=np.array([-1.0, 1.0, 1.0, 3.0])), FINITE)
of_array("nn.logsumexp-b-moves", lambda m, b: m.nn.logsumexp(np.array([0.0, 1.0, 2.0, 3.0]), b=b), FINITE)
of_array(
    "nn.logsumexp-sign", lambda m, x: m.nn.logsumexp(x, b=np.array([-1.0, 1.0, 1.0, 3.0]), return_sign=True)[0], FINITE
)

# --- functions of which there is nothing to compare ---------------------------------------------------

# Linear and bilinear ones, moves of elements, discrete results, control flow (which has tests of its own); and what JAX
# lacks, or its derivative: the losses of `nn` are in `test_kinks.py`, its layers are made of the functions above.
WITHOUT_KINKS = {
    "lax": """
    after_all create_token custom_linear_solve custom_root dce_sink rng_bit_generator rng_uniform
    all_gather all_to_all axis_index axis_size pmax pmean pmin ppermute pshuffle psum psum_scatter pswapaxes
    DotDimensionNumbers approx_max_k approx_min_k composite conv_general_dilated_local conv_general_dilated_patches
    conv_general_permutations conv_general_shape_tuple conv_shape_tuple conv_transpose_shape_tuple dtype igamma_grad_a
    with_sharding_constraint
    index_take platform_dependent ragged_dot ragged_dot_general random_gamma_grad reduce_window_shape_tuple
    scatter_apply shape_as_value stage
    argmax argmin batch_matmul bitcast_convert_type bitwise_and bitwise_not bitwise_or bitwise_xor broadcast
    broadcast_in_dim broadcast_like broadcast_shapes broadcast_to_rank broadcasted_iota clz collapse complex
    concatenate cond conj conv conv_dimension_numbers conv_general_dilated conv_transpose conv_with_general_padding
    convert_element_type dot dot_general dynamic_index_in_dim dynamic_slice dynamic_slice_in_dim
    dynamic_update_index_in_dim dynamic_update_slice dynamic_update_slice_in_dim empty eq expand_dims fft fori_loop
    full full_like gather ge gt imag index_in_dim iota is_finite le lt map mulhi ne nextafter optimization_barrier pad
    padtype_to_pads population_count real reduce_and reduce_or reduce_precision reduce_xor reshape rev scan scatter
    scatter_add scatter_max scatter_min scatter_mul scatter_sub select select_n shift_left shift_right_arithmetic
    shift_right_logical slice slice_in_dim split squeeze stack switch tile transpose unstack while_loop zeta
    """.split(),
    "numpy": """
    argmax argmin finfo iinfo all allclose any append apply_along_axis apply_over_axes arange argpartition argsort
    argwhere array array_equal
    array_equiv array_repr array_split array_str asarray astype atleast_1d atleast_2d atleast_3d bartlett bincount
    bitwise_and bitwise_count bitwise_invert bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift
    bitwise_xor blackman block broadcast_arrays broadcast_shapes broadcast_to can_cast column_stack compress concat
    concatenate copy correlate count_nonzero delete diag diag_indices diag_indices_from diagflat diagonal digitize
    dot dsplit dstack einsum einsum_path empty empty_like equal expand_dims extract eye fill_diagonal fix
    frexp histogram2d frompyfunc histogramdd i0 packbits poly polydiv polyfit roots unpackbits
    flatnonzero flip fliplr flipud from_dlpack frombuffer fromfile fromfunction fromiter fromstring full full_like
    gcd get_printoptions greater greater_equal hamming hanning histogram histogram_bin_edges hsplit hstack identity
    indices inner insert intersect1d invert isclose iscomplex iscomplexobj isdtype isfinite isin isinf isnan
    isneginf isposinf isreal isrealobj isscalar issubdtype iterable ix_ kaiser kron lcm ldexp left_shift less
    less_equal lexsort load logical_and logical_not logical_or logical_xor mask_indices matmul matrix_transpose
    matvec meshgrid moveaxis nanargmax nanargmin ndim nextafter nonzero not_equal ones ones_like outer pad
    permute_dims place polyadd polyder polyint polymul polysub printoptions promote_types put put_along_axis ravel
    real_if_close
    ravel_multi_index repeat reshape resize result_type right_shift roll rollaxis rot90 save savez searchsorted
    set_printoptions setdiff1d setxor1d shape signbit size sort_complex spacing split squeeze stack swapaxes
    take_along_axis tensordot tile trace transpose tri tril tril_indices tril_indices_from trim_zeros triu
    triu_indices triu_indices_from union1d unique unique_all unique_counts unique_inverse unique_values
    unravel_index unstack vdot vecdot vecmat vectorize vsplit vstack zeros zeros_like
    """.split(),
    "nn": """
    BatchNorm ConvTranspose GroupNorm InstanceNorm LayerNorm LearnedPositions MultiHeadAttention RMSNorm
    MixedPrecision SinusoidalPositions SpectralNorm TransformerBlock WeightNorm summary
    confusion_matrix empty_cache f1_score perplexity precision recall
    rotary_embedding sinusoidal_positions top_k_accuracy
    accuracy dot_product_attention each_step gru_cell huber_loss l2_loss length_mask lstm_cell one_hot parallel
    residual rnn_cell serial
    sigmoid_binary_cross_entropy softmax_cross_entropy softmax_cross_entropy_with_integer_labels squared_error
    stacked truncated_bptt windows Activation AvgPool Bidirectional Celu Conv Dense Dropout Elu Embedding Flatten
    GRU Gelu Identity LSTM LeakyRelu LogSoftmax MaxPool Mish RNN Relu Relu6 Selu Sigmoid Silu Softmax Softplus Tanh
    """.split(),
}
