"""Cases of `numpy_cases`: indexing and indexed updates."""

from __future__ import annotations

import numpy as np
from numpy_case_tools import B, F, K, P, T, V, case

# indexing
INDICES = {
    "int": 1,
    "negative": -1,
    "slice": slice(1, 3),
    "step": slice(None, None, 2),
    "reverse": slice(None, None, -1),
    "reverse-step": slice(3, 0, -2),
    "pair": (1, 2),
    "mixed": (slice(None), 1),
    "ellipsis": (..., 0),
    "ellipsis-mid": (0, ..., 1),
    "new": (None, 1, None),
    "new-slice": (slice(1, None), None),
    "empty": slice(2, 2),
    "past": slice(1, 100),
    "array": np.array([0, 2]),
    "array-neg": np.array([-1, 0]),
    "array-2d": np.array([[0, 1], [2, 0]]),
    "arrays": (np.array([0, 2]), np.array([1, 3])),
    "array-col": (slice(None), np.array([0, 3, 3])),
    "array-int": (np.array([0, 2]), 1),
    "int-array": (1, np.array([0, 3])),
    "broadcast": (np.array([[0], [2]]), np.array([1, 3])),
    "array-new": (np.array([0, 2]), None),
    "array-new-col": (slice(None), None, np.array([0, 2])),
    "array-slice": (np.array([0, 2]), slice(1, 3)),
    "array-strided": (np.array([2, 0]), slice(None, None, -2)),
    "mask": np.array([True, False, True]),
    "mask-2d": B,
    "mask-col": (slice(None), np.array([True, False, True, True])),
    "all": (),
    "ell": ...,
    "list": (np.array([1, 1]), slice(None)),
    "npint": np.int32(2),
}
for name, index in INDICES.items():
    case(f"getitem-{name}", lambda n, x, i=index: n.asarray(x)[i], F)
    if name not in ("empty", "array", "ell"):
        for method in ("set", "add", "multiply", "min", "max"):
            case(f"at-{method}-{name}", lambda n, x, i=index, m=method: getattr(n.asarray(x).at[i], m)(1.5), F)
INDICES3 = {
    "apart": (np.array([0, 1]), slice(None), np.array([1, 3])),
    "apart-int": (0, slice(None), np.array([1, 3])),
    "together": (slice(None), np.array([0, 2]), np.array([1, 3])),
    "mid": (slice(None), np.array([[0, 2]])),
    "mask": (slice(None), B),
    "new-apart": (np.array([0, 1]), None, np.array([1, 2])),
    "slices": (slice(None), slice(0, 3, 2), slice(1, 4)),
    "strided-array": (slice(None), slice(2, None, -2), np.array([0, 3])),
    "last": (..., np.array([1, 1, 0])),
    "int-first": (1, np.array([0, 2]), slice(None)),
}
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
