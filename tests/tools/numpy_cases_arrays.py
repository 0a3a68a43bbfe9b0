"""Cases of `numpy_cases`: creation, manipulation, selection, sorting, operators and methods."""

from __future__ import annotations

import numpy as np
from numpy_case_tools import NANS, UP, B, C, F, G, H, J, K, M, R, T, V, call, case, ints

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
case("r_", lambda n: n.r_[0:1:5j])
case("r_", lambda n, x: n.r_[1:4, x, 0, [5, 6]], V)
case("r_", lambda n, x: n.r_["1,2,0", x, x], V)
case("r_", lambda n, x: n.r_["0,3,1", [1, 2], x], V[:2])
case("c_", lambda n, x: n.c_[x, 2 * x], V)
case("c_", lambda n: n.c_[1:4, 2:5])
case("ogrid", lambda n: n.ogrid[0:3, 0:1:3j])
case("hanning", lambda n: n.hanning(5))
case("fromfunction", lambda n: n.fromfunction(lambda i, j: i + j, (2, 3)))
case("frombuffer", lambda n: n.frombuffer(V.tobytes(), dtype="float32"))
call("fill_diagonal", M, 5.0, inplace=False)
call("copy", F)

# selecting
for args in [
    (B, F, G),
    (B, F, 0.0),
    (B, 1, F),
    (B, K, 2.5),
    (B[0], F, V),
    (True, F, 0),
    (B, 1.0, 2.0),
    (F, F, 0),
    (B, K, J),
    (B[:, :1], 1, V),
]:
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

# operators and methods
OPERATORS = {
    "add": lambda x, y: x + y,
    "radd": lambda x, y: y + x,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "truediv": lambda x, y: x / y,
    "floordiv": lambda x, y: x // y,
    "mod": lambda x, y: x % y,
    "eq": lambda x, y: x == y,
    "lt": lambda x, y: x < y,
    "ge": lambda x, y: x >= y,
    "rsub": lambda x, y: y - x,
    "rtruediv": lambda x, y: y / x,
}
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
    "sum": lambda x: x.sum(axis=0),
    "mean": lambda x: x.mean(),
    "max": lambda x: x.max(axis=1),
    "min": lambda x: x.min(),
    "argmax": lambda x: x.argmax(axis=1),
    "reshape": lambda x: x.reshape(2, -1),
    "reshape-tuple": lambda x: x.reshape((12,)),
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "transpose": lambda x: x.transpose(1, 0),
    "ravel": lambda x: x.ravel(),
    "flatten": lambda x: x.flatten(),
    "astype": lambda x: x.astype("int32"),
    "astype-bool": lambda x: x.astype(bool),
    "squeeze": lambda x: x[None].squeeze(0),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "dot": lambda x: x.dot(x.T),
    "clip": lambda x: x.clip(0, 1),
    "round": lambda x: x.round(1),
    "any": lambda x: (x > 0).any(),
    "all": lambda x: (x > -9).all(),
    "std": lambda x: x.std(axis=0),
    "var": lambda x: x.var(),
    "cumsum": lambda x: x.cumsum(axis=1),
    "prod": lambda x: x.prod(),
    "sort": lambda x: x.sort(axis=0),
    "argsort": lambda x: x.argsort(),
    "take": lambda x: x.take(np.array([1, 2])),
    "repeat": lambda x: x.repeat(2, axis=0),
    "real": lambda x: x.real,
    "conj": lambda x: x.conj(),
    "copy": lambda x: x.copy(),
    "ptp": lambda x: x.ptp(),
    "trace": lambda x: x.trace(),
    "diagonal": lambda x: x.diagonal(),
    "len": lambda x: len(x),
    "iter": lambda x: list(x),
    "item": lambda x: x[0, 0].item(),
    "tolist": lambda x: x.tolist(),
    "nbytes": lambda x: x.nbytes,
    "itemsize": lambda x: x.itemsize,
    "contains": lambda x: x[0, 0] in x[0],
    "cumprod": lambda x: x.cumprod(axis=0),
    "searchsorted": lambda x: x[0].sort().searchsorted(0.1),
    "nonzero": lambda x: (x > 0).nonzero(),
}
for name, method in METHODS.items():
    case(f"method-{name}", lambda n, x, m=method: m(n.asarray(x)), F)
