"""Calls of `functad.numpy` functions: run by the oracle tests beside JAX, and by the transform tests under `jit`.

Each case is a function of the module (functad's or JAX's) and of NumPy arrays, and those arrays.
"""

from __future__ import annotations

import numpy as np
import pytest

# --- inputs -----------------------------------------------------------------------------------------


def floats(*shape, low=-2.0, high=2.0, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).uniform(low, high, shape).astype(dtype)


def ints(*shape, low=-5, high=6, dtype=np.int32, seed=0):
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def bools(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 2, shape).astype(bool)


F, G, V = floats(3, 4), floats(3, 4, seed=1), floats(4, seed=2)
K, J = ints(3, 4), ints(3, 4, low=1, seed=1)
B, C = bools(3, 4), bools(3, 4, seed=1)
H = floats(3, 4, dtype=np.float16)
U, S = ints(3, 4, low=0, dtype=np.uint8), ints(3, 4, dtype=np.int8)
Z = (floats(3, 4) + 1j * floats(3, 4, seed=1)).astype(np.complex64)
T = floats(2, 3, 4)
M = floats(4, 4, seed=3)
NANS = np.array([[1.0, np.nan, -np.inf, 2.5], [np.inf, 0.0, -0.0, -3.5]], np.float32)
UP = np.sort(floats(6, seed=5))

# --- cases: (name, function of the module and the arguments, arguments) -----------------------------

CASES = []


def case(name, function, *args):
    CASES.append(pytest.param(function, args, id=f"{len(CASES)}-{name}"))


def call(name, *args, **kwargs):
    """A case that calls one function of the module."""
    shown = "-".join([name, *map(_shown, args), *(f"{k}={v}" for k, v in kwargs.items())])
    case(shown, lambda n, *a: getattr(n, name)(*a, **kwargs), *args)


def _shown(x):
    return f"{x.dtype.name}{list(x.shape)}" if isinstance(x, np.ndarray) else type(x).__name__


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
P = floats(3, 4, low=0.1, high=2)
for x, y in [(P, 2), (P, 3.0), (P, -1), (P, 0), (P, 0.5), (2, P), (P, P), (J, 2), (J, J), (2.0, J), (J, 2.5), (P, J), (3, 2),
             (2.0, 3), (B, 2), (U, 3), (P, np.int32(2)), (H, 2), (Z, 2), (Z, 0.5)]:  # fmt: skip
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

# manipulation
case("reshape", lambda n, x: n.reshape(n.asarray(x), (2, -1)), F)
case("reshape-int", lambda n, x: n.reshape(n.asarray(x), 12), F)
case("reshape-F", lambda n, x: n.reshape(n.asarray(x), (6, 2), order="F"), F)
call("ravel", F)
call("ravel", F, order="F")
for axes in (None, (2, 0, 1), (-1, 0, 1)):
    call("transpose", T, axes)
call("matrix_transpose", T)
call("swapaxes", T, 0, -1)
call("moveaxis", T, 0, -1)
call("moveaxis", T, (0, 1), (2, 0))
call("rollaxis", T, 2)
call("rollaxis", T, 0, 3)
call("expand_dims", F, 0)
call("expand_dims", F, (0, -1))
call("squeeze", T[:1])
call("squeeze", T[:1, :1], axis=1)
for name in "atleast_1d atleast_2d atleast_3d".split():
    for x in (2.0, V, F, T):
        call(name, x)
call("atleast_1d", 1.0, V)
call("broadcast_to", V, (3, 4))
call("broadcast_to", 2.0, (2,))
call("broadcast_arrays", F, V, 2)
case("concatenate", lambda n, a, b: n.concatenate([a, b]), F, K)
case("concatenate-axis", lambda n, a, b: n.concatenate([a, b], axis=1), F, G)
case("concatenate-None", lambda n, a, b: n.concatenate([a, b], axis=None), F, V)
case("concatenate-dtype", lambda n, a: n.concatenate([a, a], dtype="float16"), F)
case("concatenate-weak", lambda n: n.concatenate([n.asarray(1.0)[None], n.asarray(2)[None]]))
for name in "stack vstack hstack dstack column_stack".split():
    case(name, lambda n, a, b, name=name: getattr(n, name)([a, b]), F, G)
    case(f"{name}-vectors", lambda n, a, b, name=name: getattr(n, name)((a, b)), V, K[0])
case("stack-scalars", lambda n: n.stack([1.0, 2]))
case("stack-axis", lambda n, a: n.stack([a, a], axis=-1), F)
case("stack-array", lambda n, a: n.stack(a, axis=1), T)
call("append", F, V)
call("append", F, G, axis=0)
case("block", lambda n, a, b: n.block([[a, b], [b, a]]), F, G)
case("block-mixed", lambda n, a: n.block([a, 2.0]), V)
for parts in (2, [1, 3], [2]):
    call("split", F, parts, axis=1)
    call("array_split", F, parts, axis=0)
call("array_split", F, 5, axis=1)
call("vsplit", M, 2)
call("hsplit", F, 2)
call("hsplit", V, 2)
call("dsplit", T, 2)
call("unstack", F)
call("unstack", T, axis=1)
for reps in (2, (2, 1), (2, 1, 3), ()):
    call("tile", F, reps)
call("tile", 1.0, 3)
call("repeat", F, 2)
call("repeat", F, 2, axis=1)
call("repeat", F, np.array([0, 2, 1]), axis=0)
call("repeat", V, np.array([0, 2, 1, 3]), total_repeat_length=8)
call("repeat", 1.5, 3)
for axis in (None, 0, (0, 1)):
    call("flip", F, axis)
call("flipud", F)
call("fliplr", F)
for k in range(-1, 4):
    call("rot90", F, k)
call("rot90", T, axes=(1, 2))
call("roll", F, 5)
call("roll", F, -1, axis=1)
call("roll", F, (1, 2), axis=(0, 1))
call("roll", F, 1, axis=(0, 1))
call("resize", V, (3, 3))
for mode in "edge reflect symmetric wrap maximum minimum mean empty".split():
    if mode != "empty":
        call("pad", F, ((1, 2), (2, 1)), mode=mode)
        call("pad", V, 6, mode=mode)
        call("pad", K, 1, mode=mode)
call("pad", F, 1)
call("pad", F, (1, 2), constant_values=5)
call("pad", F, ((1, 0), (0, 2)), mode="constant", constant_values=((1, 2), (3, 4)))
call("pad", V, 3, mode="linear_ramp", end_values=(5, -4))
call("pad", 1.0 * np.ones(2, np.float16), (0, 1))

# creation
call("array", [[1, 2], [3, 4]])
call("array", [1.5, 2])
call("array", [])
call("array", (True, False))
call("array", 3.0)
call("array", 3)
call("array", True)
call("array", [1, 2], dtype="float16")
call("array", V, ndmin=3)
call("array", [V, V])
call("array", range(3))
case("array-nested-weak", lambda n: n.array([n.asarray(1.0), 2]))
for name in "zeros ones".split():
    for shape in (3, (2, 3), ()):
        call(name, shape)
    call(name, (2,), dtype="int32")
    call(f"{name}_like", F)
    call(f"{name}_like", K, dtype=bool)
    call(f"{name}_like", 2.0)
    call(f"{name}_like", F, shape=(2,))
call("full", (2, 2), 3)
call("full", (2, 4), V)
call("full", 2, 1.5, dtype="int32")
call("full_like", F, 3)
call("full_like", K, 2.7)
call("full_like", F, 1, shape=(3,))
for args in [(5,), (2, 5), (0, 1, 0.25), (5, 0, -2), (3.0,), (2.5, 5), (0,), (-1,)]:
    call("arange", *args)
call("arange", 5, dtype="float32")
call("arange", 4, dtype="uint8")
for args in [(0, 1), (0, 1, 5), (2.0, -3.0, 7), (0, 10, 1), (0, 1, 0)]:
    call("linspace", *args)
call("linspace", 0, 1, 5, endpoint=False)
call("linspace", 0, 10, 5, retstep=True)
call("linspace", 0, 10, 6, dtype="int32")
call("linspace", V, V + 1, 3)
call("linspace", V, 2.0, 3, axis=1)
call("logspace", 0, 2, 5)
call("logspace", 0, 2, 5, base=2, endpoint=False)
call("geomspace", 1, 1000, 4)
call("geomspace", 2.0, 32.0, 5)
for args in [(3,), (2, 4), (3, 3, 1), (3, 3, -1)]:
    call("eye", *args)
    call("tri", *args)
call("identity", 3, dtype="int32")
for k in (-1, 0, 1):
    call("tril", F, k)
    call("triu", T, k)
    call("diag", V, k)
    call("diag", M, k)
    call("diagonal", F, k)
    call("trace", F, k)
    call("tril_indices", 3, k)
    call("triu_indices", 3, k, 4)
call("diagonal", T, 0, 1, 2)
call("trace", K)
call("diagflat", F[:2, :2])
call("diag_indices", 3)
call("tril_indices_from", F)
call("meshgrid", V, V[:2])
call("meshgrid", V, V[:2], indexing="ij")
call("meshgrid", V, V[:2], V[:3], sparse=True)
call("indices", (2, 3))
call("indices", (2, 3), sparse=True)
call("vander", V)
call("vander", V, 3, increasing=True)
case("mgrid", lambda n: n.mgrid[0:3, 0:2])
case("ogrid", lambda n: n.ogrid[0:3, 0:1:3j])
case("hanning", lambda n: n.hanning(5))
case("fromfunction", lambda n: n.fromfunction(lambda i, j: i + j, (2, 3)))
case("frombuffer", lambda n: n.frombuffer(V.tobytes(), dtype="float32"))
call("fill_diagonal", M, 5.0, inplace=False)
call("copy", F)

# products
for x, y in [(F, M), (V, V), (F, V), (V, M), (T, M), (T, np.swapaxes(T, 1, 2)), (V, T.swapaxes(1, 2)), (T[:, None], T.swapaxes(1, 2)),
             (K, K.T), (K, M), (H, H.T), (T, V)]:  # fmt: skip
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
    ("ij,jk->ik", F, M), ("ij,kj", F, G), ("ij->ji", F), ("ii->i", M), ("ii", M), ("ij->", F), ("bij,bkj->bik", T, T),
    ("...ij,jk->...ik", T, M), ("i,j->ij", V, V), ("ij,ij->i", F, G), ("ij,jk,kl->il", F, M, M), ("i...->...", T),
    ("ij,i,j->", F, F[:, 0], V), ("iij->j", np.stack([M, M, M, M])), ("ij,kj->ki", F, G), ("ijk,k->ij", T, V),
    ("...,...->...", F, V), ("ij,jk", K, K.T @ K), ("ij,ji->", F, F.T), (" i j , j k -> i k ", F, M), ("i,i->", V, V),
]:  # fmt: skip
    case(f"einsum-{subscripts}", lambda n, *a, s=subscripts: n.einsum(s, *a), *operands)
case("einsum-lists", lambda n, a, b: n.einsum(a, [0, 1], b, [1, 2], [0, 2]), F, M)

# indexing
INDICES = {
    "int": 1, "negative": -1, "slice": slice(1, 3), "step": slice(None, None, 2), "reverse": slice(None, None, -1),
    "reverse-step": slice(3, 0, -2), "pair": (1, 2), "mixed": (slice(None), 1), "ellipsis": (..., 0),
    "ellipsis-mid": (0, ..., 1), "new": (None, 1, None), "new-slice": (slice(1, None), None), "empty": slice(2, 2),
    "past": slice(1, 100), "array": np.array([0, 2]), "array-neg": np.array([-1, 0]), "array-2d": np.array([[0, 1], [2, 0]]),
    "arrays": (np.array([0, 2]), np.array([1, 3])), "array-col": (slice(None), np.array([0, 3, 3])),
    "array-int": (np.array([0, 2]), 1), "int-array": (1, np.array([0, 3])), "broadcast": (np.array([[0], [2]]), np.array([1, 3])),
    "array-new": (np.array([0, 2]), None), "array-new-col": (slice(None), None, np.array([0, 2])),
    "array-slice": (np.array([0, 2]), slice(1, 3)), "array-strided": (np.array([2, 0]), slice(None, None, -2)),
    "mask": np.array([True, False, True]), "mask-2d": B, "mask-col": (slice(None), np.array([True, False, True, True])),
    "all": (), "ell": ..., "list": (np.array([1, 1]), slice(None)), "npint": np.int32(2),
}  # fmt: skip
for name, index in INDICES.items():
    case(f"getitem-{name}", lambda n, x, i=index: n.asarray(x)[i], F)
    if name not in ("empty", "array", "ell"):
        for method in ("set", "add", "multiply", "min", "max"):
            case(f"at-{method}-{name}", lambda n, x, i=index, m=method: getattr(n.asarray(x).at[i], m)(1.5), F)
INDICES3 = {
    "apart": (np.array([0, 1]), slice(None), np.array([1, 3])), "apart-int": (0, slice(None), np.array([1, 3])),
    "together": (slice(None), np.array([0, 2]), np.array([1, 3])), "mid": (slice(None), np.array([[0, 2]])),
    "mask": (slice(None), B), "new-apart": (np.array([0, 1]), None, np.array([1, 2])),
    "slices": (slice(None), slice(0, 3, 2), slice(1, 4)), "strided-array": (slice(None), slice(2, None, -2), np.array([0, 3])),
    "last": (..., np.array([1, 1, 0])), "int-first": (1, np.array([0, 2]), slice(None)),
}  # fmt: skip
for name, index in INDICES3.items():
    case(f"getitem3-{name}", lambda n, x, i=index: n.asarray(x)[i], T)
    case(f"at3-set-{name}", lambda n, x, i=index: n.asarray(x).at[i].set(2.5), T)
    case(
        f"at3-add-{name}",
        lambda n, x, i=index: n.asarray(x).at[i].add(n.arange(float(T[i].size)).reshape(T[i].shape)),
        T,
    )
for method in ("set", "add", "multiply", "divide", "power", "min", "max", "subtract"):
    case(f"at-{method}", lambda n, x, m=method: getattr(n.asarray(x).at[1:, ::2], m)(n.asarray([2.0, 3.0])), P)
case("at-apply", lambda n, x: n.asarray(x).at[1].apply(n.sin), F)
case("at-int", lambda n, x: n.asarray(x).at[0].set(7), K)
case("at-row", lambda n, x, v: n.asarray(x).at[1].set(v), F, V)
case("at-repeated", lambda n, x: n.asarray(x).at[np.array([0, 0, 1])].add(1), F)
case("at-weak", lambda n: n.asarray([1.0]).at[0].set(2))
for mode in ("fill", "clip"):
    case(f"at-get-{mode}", lambda n, x, m=mode: n.asarray(x).at[np.array([0, 7])].get(mode=m), F)
case("at-get-fill-value", lambda n, x: n.asarray(x).at[np.array([0, 7])].get(mode="fill", fill_value=-1), F)
case("at-set-drop", lambda n, x: n.asarray(x).at[np.array([0, 7])].set(1.0, mode="drop"), F)
case("at-set-clip", lambda n, x: n.asarray(x).at[np.array([0, 7])].set(1.0, mode="clip"), F)
case("at-get-int-fill", lambda n, x: n.asarray(x).at[9].get(mode="fill", fill_value=0), F)

# selecting
for args in [(B, F, G), (B, F, 0.0), (B, 1, F), (B, K, 2.5), (B[0], F, V), (True, F, 0), (B, 1.0, 2.0), (F, F, 0), (B, K, J), (B[:, :1], 1, V)]:  # fmt: skip
    call("where", *args)
call("where", B)
call("nonzero", B)
call("nonzero", B, size=4)
call("nonzero", K, size=14, fill_value=-1)
call("flatnonzero", B)
call("argwhere", B)
call("argwhere", F > 0, size=3)
for index in (np.array([0, 3]), 1, np.array([[0, -1]])):
    call("take", F, index)
    call("take", F, index, axis=1)
for mode in ("clip", "wrap", "fill"):
    call("take", F, np.array([0, 5, -1]), axis=1, mode=mode)
    call("take", K, np.array([0, 15]), mode=mode)
ORDER = np.argsort(F, axis=1).astype(np.int32)
call("take_along_axis", F, ORDER, axis=1)
call("take_along_axis", F, ORDER[:, :2], axis=1)
call("take_along_axis", F, ORDER[:1, :1], axis=1)
call("take_along_axis", F, np.array([3, 1]), axis=None)
call("take_along_axis", T, np.zeros((2, 1, 4), np.int32), axis=1)
case("put_along_axis", lambda n, x, i: n.put_along_axis(n.asarray(x), i, 9.0, axis=1, inplace=False), F, ORDER[:, :1])
case("put", lambda n, x: n.put(n.asarray(x), n.asarray([0, 5]), n.asarray([1.0, 2.0]), inplace=False), F)
case("select", lambda n, a, b: n.select([a > 1, a > 0], [a, b], 0), F, G)
case("piecewise", lambda n, a: n.piecewise(a, [a < 0, a >= 1], [lambda v: -v, 2.0, lambda v: v * 3]), F)
case("choose", lambda n, a: n.choose(n.asarray([0, 1, 0, 1]), [a, -a]), V)
call("compress", np.array([True, False, True]), F, axis=0)
call("extract", B, F)
call("delete", F, 1, axis=0)
call("delete", V, np.array([0, 2]))
call("delete", V, slice(0, 2))
call("insert", V, 1, 9.0)
call("insert", V, np.array([0, 2]), np.array([1.0, 2.0], np.float32))
call("insert", F, 1, 5.0, axis=1)
call("unravel_index", np.array([3, 7], np.int32), (3, 4))
case("ravel_multi_index", lambda n: n.ravel_multi_index((n.asarray([0, 2]), n.asarray([1, 3])), (3, 4)))

# sorting
for name in "sort argsort".split():
    for x in (F, K, NANS, B, H):
        call(name, x)
    call(name, F, axis=0)
    call(name, F, axis=None)
    call(name, ints(12, low=0, high=3), descending=True)
case("lexsort", lambda n, a, b: n.lexsort((a, b)), ints(6, high=3), ints(6, low=0, high=2, seed=4))
call("partition", V, 2)
for side in ("left", "right"):
    call("searchsorted", UP, F, side=side)
    call("searchsorted", np.array([1, 2, 2, 3]), np.array([2, 0, 5]), side=side)
call("searchsorted", UP, 0.3)
call("digitize", F, UP)
call("digitize", F, UP, right=True)
call("digitize", F, UP[::-1])
R = ints(10, low=0, high=4)
call("unique", R)
call("unique", R, return_index=True, return_inverse=True, return_counts=True)
call("unique", R, size=6)
call("unique", R, size=6, fill_value=9, return_counts=True, return_inverse=True, return_index=True)
call("unique", R, size=2)
call("unique", F > 0)
call("unique_values", R)
call("unique_counts", R)
call("isin", R, np.array([1, 2]))
call("isin", R, np.array([1, 2]), invert=True)
for name in "union1d intersect1d setdiff1d setxor1d".split():
    call(name, R, np.array([1, 7, 2], np.int32))

# statistics and calculus
call("bincount", R)
call("bincount", R, length=3)
call("bincount", R, weights=floats(10), minlength=8)
call("histogram", F)
call("histogram", F, bins=4, range=(-1.0, 1.0))
call("histogram", K, bins=np.array([-5, 0, 2, 6]))
call("histogram", F, bins=5, density=True)
call("histogram_bin_edges", F, 4)
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
case("apply_along_axis", lambda n, x: n.apply_along_axis(lambda v: v.sum(), 0, x), F)
case("apply_along_axis-vector", lambda n, x: n.apply_along_axis(lambda v: n.cumsum(v), 1, x), F)
case("apply_over_axes", lambda n, x: n.apply_over_axes(n.sum, x, [0, 2]), T)
case("vectorize", lambda n, x, y: n.vectorize(lambda a, b: a * b + 1)(x, y), F, V)
case("vectorize-signature", lambda n, x, y: n.vectorize(n.dot, signature="(n,m),(m)->(n)")(x, y), T, V)
call("ix_", np.array([0, 2], np.int32), np.array([1, 3], np.int32))
call("trim_zeros", np.array([0, 0, 1, 2, 0], np.int32))
call("result_type", F, 2.5)
call("promote_types", "int8", "uint8")

# operators and methods
OPERATORS = {
    "add": lambda x, y: x + y, "radd": lambda x, y: y + x, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y,
    "truediv": lambda x, y: x / y, "floordiv": lambda x, y: x // y, "mod": lambda x, y: x % y, "eq": lambda x, y: x == y,
    "lt": lambda x, y: x < y, "ge": lambda x, y: x >= y, "rsub": lambda x, y: y - x, "rtruediv": lambda x, y: y / x,
}  # fmt: skip
for name, operator in OPERATORS.items():
    for x, y in [(F, G), (F, 2.5), (F, 3), (J, 2), (J, 2.5), (2.0, 3), (F, V)]:
        case(f"operator-{name}", lambda n, a, b, o=operator: o(n.asarray(a), b), x, y)
case("operator-pow", lambda n, x: n.asarray(x) ** 2, F)
case("operator-rpow", lambda n, x: 2 ** n.asarray(x), F)
case("operator-matmul", lambda n, x: n.asarray(x) @ n.asarray(x).T, F)
case("operator-and", lambda n, x, y: n.asarray(x) & y, B, C)
case("operator-or", lambda n, x: n.asarray(x) | 3, K)
case("operator-xor", lambda n, x: n.asarray(x) ^ 1, K)
case("operator-invert", lambda n, x: ~n.asarray(x), B)
case("operator-shift", lambda n, x: (n.asarray(x) << 2) >> 1, K)
case("operator-neg", lambda n, x: -n.asarray(x), F)
case("operator-abs", lambda n, x: abs(n.asarray(x)), F)
case("operator-divmod", lambda n, x: divmod(n.asarray(x), 2), J)
case("operator-round", lambda n, x: round(n.asarray(x), 1), F)
METHODS = {
    "sum": lambda x: x.sum(axis=0), "mean": lambda x: x.mean(), "max": lambda x: x.max(axis=1), "min": lambda x: x.min(),
    "argmax": lambda x: x.argmax(axis=1), "reshape": lambda x: x.reshape(2, -1), "reshape-tuple": lambda x: x.reshape((12,)),
    "T": lambda x: x.T, "mT": lambda x: x.mT, "transpose": lambda x: x.transpose(1, 0), "ravel": lambda x: x.ravel(),
    "flatten": lambda x: x.flatten(), "astype": lambda x: x.astype("int32"), "astype-bool": lambda x: x.astype(bool),
    "squeeze": lambda x: x[None].squeeze(0), "swapaxes": lambda x: x.swapaxes(0, 1), "dot": lambda x: x.dot(x.T),
    "clip": lambda x: x.clip(0, 1), "round": lambda x: x.round(1), "any": lambda x: (x > 0).any(), "all": lambda x: (x > -9).all(),
    "std": lambda x: x.std(axis=0), "var": lambda x: x.var(), "cumsum": lambda x: x.cumsum(axis=1), "prod": lambda x: x.prod(),
    "sort": lambda x: x.sort(axis=0), "argsort": lambda x: x.argsort(), "take": lambda x: x.take(np.array([1, 2])),
    "repeat": lambda x: x.repeat(2, axis=0), "real": lambda x: x.real, "conj": lambda x: x.conj(), "copy": lambda x: x.copy(),
    "ptp": lambda x: x.ptp(), "trace": lambda x: x.trace(), "diagonal": lambda x: x.diagonal(), "len": lambda x: len(x),
    "iter": lambda x: list(x), "item": lambda x: x[0, 0].item(), "tolist": lambda x: x.tolist(), "nbytes": lambda x: x.nbytes,
    "itemsize": lambda x: x.itemsize, "contains": lambda x: x[0, 0] in x[0], "cumprod": lambda x: x.cumprod(axis=0),
    "searchsorted": lambda x: x[0].sort().searchsorted(0.1), "nonzero": lambda x: (x > 0).nonzero(),
}  # fmt: skip
for name, method in METHODS.items():
    case(f"method-{name}", lambda n, x, m=method: m(n.asarray(x)), F)
