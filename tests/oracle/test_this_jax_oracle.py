"""The JAX at hand computes right where one version is known to be wrong: otherwise it is no oracle."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")


@pytest.mark.parametrize(("dtype", "count"), [("float64", 16_385), ("float32", 32_769)])
def test_a_mapped_product_and_a_reduction_are_right(dtype, count):
    """jax 0.10.2 on a CPU mixes up rows where there are more than it computes in one block (jax issue 39103)."""
    rows = np.random.default_rng(0).uniform(1, 2, (count, 3)).astype(dtype)
    matrix = np.array([[1, 2, 0], [0, 1, 3], [2, 0, 1]], dtype)
    with jax.enable_x64(True):
        found = jax.jit(jax.vmap(lambda row: jax.numpy.sum((matrix @ row) ** 2)))(rows)
    expected = np.sum((rows @ matrix.T) ** 2, axis=1)
    assert np.allclose(found, expected, rtol=1e-4), (
        f"jax {jax.__version__} computes wrong results on this CPU, so comparing with it says nothing: install the "
        "version that pyproject.toml names (make oracle does, after make clean)"
    )


def test_all_functions_are_compiled_in_one_context():
    """What `jax_contexts` puts there for speed is what JAX of this version calls."""
    lowering = importlib.import_module("jax._src.interpreters.mlir")
    for k in range(2):
        jax.jit(lambda x: x + k)(1.0)  # noqa: B023
    made = lowering.make_ir_context.cache_info()
    assert made.misses == 1 and made.hits > 0
