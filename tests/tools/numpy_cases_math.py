"""Cases of `numpy_cases`: element-wise functions, reductions, products, statistics."""

from __future__ import annotations

import numpy as np
from numpy_case_tools import NANS, UP, B, C, F, G, H, J, K, M, P, R, S, T, U, V, Z, call, case, floats, ints

UNARY_FLOAT = (
    "exp exp2 expm1 log log1p log2 log10 sqrt cbrt sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh "
    "arccosh arctanh deg2rad rad2deg sinc fabs rint reciprocal"
).split()
for name in UNARY_FLOAT:
    domain = floats(3, 4, low=0.1, high=0.9)
    for x in (domain + (1 if name == "arccosh" else 0), np.array([1, 1, 1], np.int32), 0.5, H, True):
        call(name, x)
for name in "negative positive absolute sign square floor ceil trunc conj real imag nan_to_num round".split():
    for x in (F, K, 2.5, -3, H, U, NANS):
        if not (name == "imag" and isinstance(x, float)):
            call(name, x)
for name in "isnan isinf isfinite signbit logical_not isposinf isneginf isreal iscomplex".split():
    for x in (NANS, K, 2.5):
        call(name, x)
for name in "bitwise_not invert".split():
    for x in (K, U, B):
        call(name, x)
for name in "exp sin sqrt absolute square conj real imag angle negative sign".split():
    call(name, Z)
call("bitwise_count", U)
call("bitwise_count", K)
call("modf", F)
call("spacing", F)
call("spacing", np.array([np.inf, 0, 1, -1, 65504, -65504], np.float16))
call("spacing", np.array([0, -0.0, -1, 2, 1e-40, -np.inf, np.nan], np.float32))
call("angle", F)
call("square", B)

PAIRS = [(F, G), (F, V), (F, 2.5), (F, 3), (2, G), (J, K + 7), (K, 2.5), (U, S), (H, F), (1.5, 2), (F, J), (H, 3)]
for name in (
    "add subtract multiply divide maximum minimum floor_divide remainder fmod arctan2 logaddexp logaddexp2 hypot "
    "copysign heaviside fmax fmin float_power nextafter equal not_equal less less_equal greater greater_equal "
    "logical_and logical_or logical_xor"
).split():
    for x, y in PAIRS:
        call(name, x, y)
for name in "add multiply bitwise_and bitwise_or bitwise_xor maximum minimum logical_xor equal less".split():
    call(name, B, C)
for name in "bitwise_and bitwise_or bitwise_xor left_shift right_shift gcd lcm".split():
    for x, y in [(J, ints(3, 4, low=0, high=4)), (J, 2), (U, U)]:
        call(name, x, y)
for name in "add multiply subtract divide equal not_equal less greater_equal maximum".split():
    call(name, Z, Z * 2)
    call(name, Z, F)
for x, y in [
    (P, 2),
    (P, 3.0),
    (P, -1),
    (P, 0),
    (P, 0.5),
    (2, P),
    (P, P),
    (J, 2),
    (J, J),
    (2.0, J),
    (J, 2.5),
    (P, J),
    (3, 2),
    (2.0, 3),
    (B, 2),
    (U, 3),
    (P, np.int32(2)),
    (H, 2),
    (Z, 2),
    (Z, 0.5),
]:
    call("power", x, y)
for x, y in [(F, G), (J, K), (F, 0.5), (7, 2)]:
    call("divmod", x, y)
call("ldexp", F, J)
call("divide", K, J)
call("divide", B, C)
call("floor_divide", NANS, np.float32(0.5))
call("remainder", -7, 3)
for low, high in [(-1, 1), (None, 0.5), (0.0, None), (V, 1.5)]:
    call("clip", F, low, high)
call("clip", K, 0, 2)
call("clip", K, 0.5, 2.5)
for decimals in (0, 1, 2, -1):
    call("round", F * 10, decimals)
call("nan_to_num", NANS, nan=1.0, posinf=9.0, neginf=-9.0)
call("nan_to_num", NANS.view(np.complex64))
call("nan_to_num", NANS.view(np.complex64), nan=1.0, posinf=9.0, neginf=-9.0)
for x, y in [(F, F + 1e-7), (NANS, NANS), (K, K), (F, 1.0)]:
    call("isclose", x, y)
    call("allclose", x, y)
    call("array_equal", x, y)
call("isclose", NANS, NANS, equal_nan=True)
call("array_equal", NANS, NANS, equal_nan=True)
call("array_equiv", F, F[None])

# reductions
for name in "sum prod max min mean var std any all ptp median count_nonzero".split():
    for x in (F, K) if name in ("median", "var", "std") else (F, K, B, U, H) if name != "ptp" else (F, K):
        call(name, x)
        call(name, x, axis=0)
    call(name, T, axis=(0, 2))
    call(name, T, axis=-1, keepdims=True)
for name in "sum prod mean var std any all".split():
    call(name, F, axis=1, where=B)
call("max", F, axis=1, where=B, initial=-1.0)
call("min", F, where=B, initial=3.0)
call("max", F, axis=0, initial=0.5)
call("sum", F, initial=2.0)
call("sum", K, dtype=np.float32)
call("sum", F, axis=())
call("sum", np.zeros((0, 3), np.float32), axis=0)
call("sum", 2.0)
call("max", 3)
call("sum", np.float32(2))
call("mean", K, dtype=np.float16)
call("var", F, ddof=1)
call("var", Z)
call("mean", Z)
call("std", F, axis=0, ddof=1, keepdims=True)
for name in "argmax argmin".split():
    for x in (F, K, NANS, B):
        call(name, x)
        call(name, x, axis=1)
    call(name, F, axis=0, keepdims=True)
    call(name, F, keepdims=True)
for name in "cumsum cumprod nancumsum nancumprod".split():
    for x in (F, K, B, S, H, 2.0):
        call(name, x)
    call(name, F, axis=1)
    call(name, F, axis=0, dtype=np.float16)
call("cumulative_sum", V, include_initial=True)
call("cumulative_prod", F, axis=1)
for name in "nansum nanprod nanmax nanmin nanmean nanvar nanstd nanargmax nanargmin nanmedian".split():
    call(name, np.where(B, np.nan, F).astype(np.float32))
    call(name, np.where(B, np.nan, F).astype(np.float32), axis=1)
    call(name, K, axis=0)
call("nanmax", np.full((2, 2), np.nan, np.float32), axis=0)
call("average", F)
call("average", F, axis=1)
call("average", F, axis=1, weights=np.abs(V))
call("average", F, weights=np.abs(G), returned=True)
call("average", K, axis=0)
for name in ("quantile", "nanquantile"):
    for method in "linear lower higher midpoint nearest".split():
        call(name, F, 0.3, axis=1, method=method)
    call(name, F, np.array([0.1, 0.5], np.float32), axis=0, keepdims=True)
    call(name, NANS, 0.5, axis=1)
call("percentile", F, 30)
call("percentile", K, np.array([25.0, 75.0], np.float32), axis=1)
call("nanpercentile", NANS, 50.0, axis=0)

# products
for x, y in [
    (F, M),
    (V, V),
    (F, V),
    (V, M),
    (T, M),
    (T, np.swapaxes(T, 1, 2)),
    (V, T.swapaxes(1, 2)),
    (T[:, None], T.swapaxes(1, 2)),
    (K, K.T),
    (K, M),
    (H, H.T),
    (T, V),
]:
    call("matmul", x, y)
for x, y in [(F, M), (V, V), (F, V), (2.0, F), (T, M), (F, np.swapaxes(T, 1, 2)), (B, M)]:
    call("dot", x, y)
call("matmul", F, M, preferred_element_type=np.float16)
call("vdot", F, G)
call("vdot", Z, Z)
call("vecdot", F, G)
call("matvec", T, V)
call("vecmat", V, M)
call("inner", F, G)
call("inner", F, V)
call("outer", V, F)
call("tensordot", T, T, axes=([0, 2], [0, 2]))
call("tensordot", T, F, axes=2)
call("tensordot", F, M, axes=1)
call("tensordot", V, V, axes=0)
call("kron", F[:2, :2], K[:2])
call("kron", V, F)
call("cross", floats(2, 3), floats(2, 3, seed=4))
call("cross", floats(2), floats(3))
call("cross", floats(3, 2), floats(3, 2, seed=4), axis=0)
call("cross", floats(2, 2), floats(2, 2, seed=4))
for subscripts, *operands in [
    ("ij,jk->ik", F, M),
    ("ij,kj", F, G),
    ("ij->ji", F),
    ("ii->i", M),
    ("ii", M),
    ("ij->", F),
    ("bij,bkj->bik", T, T),
    ("...ij,jk->...ik", T, M),
    ("i,j->ij", V, V),
    ("ij,ij->i", F, G),
    ("ij,jk,kl->il", F, M, M),
    ("i...->...", T),
    ("ij,i,j->", F, F[:, 0], V),
    ("iij->j", np.stack([M, M, M, M])),
    ("ij,kj->ki", F, G),
    ("ijk,k->ij", T, V),
    ("...,...->...", F, V),
    ("ij,jk", K, K.T @ K),
    ("ij,ji->", F, F.T),
    (" i j , j k -> i k ", F, M),
    ("i,i->", V, V),
]:
    case(f"einsum-{subscripts}", lambda n, *a, s=subscripts: n.einsum(s, *a), *operands)
case("einsum-lists", lambda n, a, b: n.einsum(a, [0, 1], b, [1, 2], [0, 2]), F, M)

# statistics and calculus
call("bincount", R)
call("bincount", R, length=3)
call("bincount", R, weights=floats(10), minlength=8)
call("histogram", F)
call("histogram", F, bins=4, range=(-1.0, 1.0))
call("histogram", K, bins=np.array([-5, 0, 2, 6]))
call("histogram", F, bins=5, density=True)
call("histogram_bin_edges", F, 4)
call("histogram2d", V, V[::-1].copy())
call("histogram2d", V, V * 2, 4, [(-1.0, 1.0), (-2.0, 2.0)])
call("histogram2d", V, V * 2, bins=np.array([-1.0, 0.0, 1.0, 2.0], np.float32), density=True)
call("histogram2d", R, R, bins=[3, np.array([0.0, 2.0, 5.0], np.float32)])
call("histogramdd", F, 3)
call("histogramdd", F, [2, 3, 4, 1], weights=np.array([1.0, 2.0, 3.0], np.float32))
call("cov", F)
call("cov", F, rowvar=False, bias=True)
call("cov", V, floats(4, seed=9))
call("corrcoef", F)
call("cov", F, fweights=np.array([1, 2, 1, 3]))
call("cov", F, aweights=np.array([1.0, 2.0, 1.0, 3.0], np.float32))
call("diff", F)
call("diff", K, n=2, axis=1)
call("diff", V, prepend=0.0, append=V[:1])
call("ediff1d", V)
call("ediff1d", V, to_begin=0.0, to_end=V[:2])
call("gradient", F)
call("gradient", V, 0.5)
call("gradient", V, np.cumsum(np.abs(V)))
call("gradient", F, axis=1)
call("trapezoid", F)
call("trapezoid", F, V, axis=1)
call("trapezoid", K)
call("unwrap", np.cumsum(np.abs(V)) * 4)
for x in (F, 0.1, K):
    call("interp", x, UP, UP**2)
call("interp", F, UP, UP**2, left=-1.0, right=7.0)
call("interp", F, UP, UP**2, period=1.5)
for mode in ("full", "same", "valid"):
    for x, y in [(UP, V), (V, UP), (UP, V[:3]), (R, R[:3])]:
        call("convolve", x, y, mode=mode)
        call("correlate", x, y, mode=mode)
call("polyval", V, F)
call("polyval", np.array([1, 2, 3], np.int32), 2)
call("polyadd", V, V[:2])
call("polysub", V, V[:2])
call("polymul", V, V[:2])
call("polyder", V)
call("polyint", V)
call("polymul", np.array([0.0, 1.0, 2.0], np.float32), np.array([0.0, 3.0], np.float32), trim_leading_zeros=True)
call("polydiv", V, V[:2])
call("polydiv", np.array([2.0, 3.0, 1.0], np.float32), np.array([1.0, 1.0], np.float32), trim_leading_zeros=True)
call("polydiv", V[:1], V[:2])
call("poly", V)
call("poly", F[:, :0].ravel())
call("polyfit", UP, UP**2 + 1, 2)
call("polyfit", UP, np.stack([UP, UP**2], 1), 1, w=UP + 1)
call("polyfit", UP, UP**3, 1, cov=True)
call("polyfit", UP, UP**3, 1, cov="unscaled")
case("polyfit-full", lambda n, x: n.polyfit(x, x**3, 1, full=True)[:4], UP)
case("roots", lambda n, p: n.sort(n.roots(p)), V)
case("roots-leading", lambda n, p: n.sort(n.roots(p)), np.array([0.0, 0.0, 2.0, -3.0, 1.0], np.float32))
case("roots-kept", lambda n, p: n.roots(p, strip_zeros=False), np.array([0.0, 2.0, -4.0], np.float32))
BYTES = np.arange(250, 262).astype(np.uint8).reshape(3, 4)
for bitorder in ("big", "little"):
    call("packbits", R, bitorder=bitorder)
    call("packbits", B, axis=0, bitorder=bitorder)
    call("unpackbits", BYTES, bitorder=bitorder)
    call("unpackbits", BYTES, axis=0, count=11, bitorder=bitorder)
    call("unpackbits", BYTES, axis=1, count=99, bitorder=bitorder)
    call("unpackbits", BYTES, axis=-1, count=-3, bitorder=bitorder)
for x in (F, K, NANS, H, 8.0):
    call("frexp", x)
    call("i0", x)
case("frompyfunc", lambda n, x, y: n.frompyfunc(lambda a, b: a * b + a, 2, 1)(x, y).astype("float32"), F, V)
case("frompyfunc-reduce", lambda n, x: n.frompyfunc(lambda a, b: a * b + a, 2, 1).reduce(x, 1).astype("float32"), F)
case("apply_along_axis", lambda n, x: n.apply_along_axis(lambda v: v.sum(), 0, x), F)
case("apply_along_axis-vector", lambda n, x: n.apply_along_axis(lambda v: n.cumsum(v), 1, x), F)
case("apply_over_axes", lambda n, x: n.apply_over_axes(n.sum, x, [0, 2]), T)
case("vectorize", lambda n, x, y: n.vectorize(lambda a, b: a * b + 1)(x, y), F, V)
case("vectorize-signature", lambda n, x, y: n.vectorize(n.dot, signature="(n,m),(m)->(n)")(x, y), T, V)
call("ix_", np.array([0, 2], np.int32), np.array([1, 3], np.int32))
call("trim_zeros", np.array([0, 0, 1, 2, 0], np.int32))
call("result_type", F, 2.5)
call("promote_types", "int8", "uint8")

# Complex numbers are ordered by their real part first: here real parts repeat.
ORDERED = np.array([[1 + 2j, 1 - 2j, -1, 0.5j], [2, 2 - 1j, -1 + 1j, 0]], np.complex64)
for name in "max min amax amin ptp nanmax nanmin".split():
    for axis in (None, 0, 1):
        call(name, ORDERED, axis=axis)
for name in "maximum minimum fmax fmin logaddexp logaddexp2".split():
    call(name, ORDERED, ORDERED[::-1].copy())
for name in "exp2 log2 log10".split():
    call(name, ORDERED)
