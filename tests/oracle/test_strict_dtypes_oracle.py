"""Dtypes of what signals and statistics give where dtypes may not be mixed: JAX's, for all that JAX takes then."""

from __future__ import annotations

import numpy as np
import pytest

import functad

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")
from jax.scipy import signal as _, stats as _  # noqa: E402, F401, F811, I001

CASES = {
    "stft": lambda m, x: m.scipy.signal.stft(x, nperseg=8),
    "stft, trend": lambda m, x: m.scipy.signal.stft(x, nperseg=8, detrend="linear", boundary="odd"),
    "istft": lambda m, x: m.scipy.signal.istft(m.scipy.signal.stft(x, nperseg=8)[2], nperseg=8),
    "welch": lambda m, x: m.scipy.signal.welch(x, nperseg=8),
    "welch, spectrum": lambda m, x: m.scipy.signal.welch(x, nperseg=8, scaling="spectrum", fs=2.0),
    "welch, median": lambda m, x: m.scipy.signal.welch(x, nperseg=8, average="median"),
    "csd": lambda m, x: m.scipy.signal.csd(x, x[::-1], nperseg=8),
    "csd, median": lambda m, x: m.scipy.signal.csd(x, x[::-1], nperseg=8, average="median"),
    "detrend": lambda m, x: m.scipy.signal.detrend(x),
    "mode": lambda m, x: tuple(m.scipy.stats.mode(x)),
    "sem": lambda m, x: m.scipy.stats.sem(x),
    "rankdata along an axis": lambda m, x: m.scipy.stats.rankdata(x.reshape(4, 8), axis=1),
    "percentile": lambda m, x: m.numpy.percentile(x, 25.0),
    "percentiles": lambda m, x: m.numpy.percentile(x, m.numpy.array([25, 50])),
    "percentiles, bfloat16": lambda m, x: m.numpy.percentile(x, m.numpy.array([25, 50], "bfloat16")),
    "quantiles, float16": lambda m, x: m.numpy.quantile(x, m.numpy.array([0.25], "float16"), method="nearest"),
    "median": lambda m, x: m.numpy.median(x),
    "nanquantile": lambda m, x: m.numpy.nanquantile(x, m.numpy.array([0.5], "bfloat16")),
} | {
    f"rankdata, {method}": lambda m, x, method=method: m.scipy.stats.rankdata(x, method)
    for method in ("average", "min", "max", "dense", "ordinal")
}
COMPLEX = {"stft", "istft", "welch", "csd", "csd, median"}
# JAX transforms no bfloat16.
TAKEN = [
    (name, dtype)
    for name in CASES
    for dtype in ("float32", "int32", "bfloat16", "complex64")
    if dtype != "complex64" or name in COMPLEX
    if dtype != "bfloat16" or name in ("percentile", "percentiles, bfloat16", "mode", "sem", "rankdata, min")
]


@pytest.mark.parametrize("promotion", ["standard", "strict"])
@pytest.mark.parametrize(("name", "dtype"), TAKEN)
@pytest.mark.filterwarnings("ignore")
def test_dtypes_are_jaxs(name, dtype, promotion):
    def types(m):
        with m.numpy_dtype_promotion(promotion):
            found = m.eval_shape(lambda x: CASES[name](m, x), m.ShapeDtypeStruct((32,), m.numpy.dtype(dtype)))
        return [(leaf.shape, leaf.dtype) for leaf in m.tree.leaves(found)]

    try:
        expected = types(jax)
    except Exception:  # of JAX, which mixes dtypes there itself
        assert promotion == "strict"
        types(functad)
        return
    assert types(functad) == expected


def test_ranks_and_quantiles_are_the_same_where_dtypes_are_strict():
    x = np.int32([3, 1, 3, 2])
    with functad.numpy_dtype_promotion("strict"):
        assert functad.scipy.stats.rankdata(x).tolist() == [3.5, 1, 3.5, 2]
        assert functad.numpy.percentile(x, functad.numpy.array([50], "bfloat16")).tolist() == [2.5]
