"""Copies between arrays of any layout: the one function that all kernels call, its word as plain Python, and zeros."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import functad
from functad import lax
from functad.backends.cpu import lowering
from functad.backends.cpu.compile import machine
from functad.backends.cpu.lowering import CpuLowering
from functad.backends.cpu.products import blas
from functad.backends.cpu.scalars.copies import clear, strided_copy
from functad.primitives.loops.text import AXES_OF_A_COPY

pytestmark = pytest.mark.generated(every=3)

# How many elements, how far apart in the copy and in the source, for each axis.
ROWS = [((3, 2 * n, n), (n, 1, 1)) for n in (1, 7, 8, 16, 26, 32, 64, 100, 128, 300)]
APART = [((4, 5, 1), (5, 1, 4)), ((2, 90, 45), (3, 30, 15), (5, 6, 3), (3, 2, 1)), ((6, -1, 2),)]
EMPTY = [((3, 1, 1), (0, 1, 1)), ((-2, 1, 1), (4, 1, 1)), ((2, 4, 4), (-1, 1, 1))]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("axes", [*ROWS, *APART, *EMPTY])
def test_machine_code_copies_what_plain_python_does(dtype, axes):
    source = np.random.default_rng(0).standard_normal(3000).astype(dtype)
    plain, compiled = (np.full(3000, 7, dtype) for _ in range(2))
    strided_copy(None, plain, 10, source, 20, *(number for axis in axes for number in axis))
    words = [number for axis in [(1, 0, 0)] * (AXES_OF_A_COPY - len(axes)) + list(axes) for number in axis]
    copy = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * (3 + 3 * AXES_OF_A_COPY))(int(blas.copier()[0]))
    item = source.itemsize
    copy(item, compiled.ctypes.data + 10 * item, source.ctypes.data + 20 * item, *words)
    np.testing.assert_array_equal(compiled, plain)
    assert np.count_nonzero(plain != 7) == np.prod([max(count, 0) for count, _, _ in axes])


def test_zeros():
    x = np.ones(9, np.float32)
    clear(x, 2, 3)
    np.testing.assert_array_equal(x, [1, 1, 0, 0, 0, 1, 1, 1, 1])


def convolved(x, w):
    return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def test_convolutions_of_several_sizes_share_a_kernel_of_calls(monkeypatch):
    """Copies and products are calls, so all numbers can be given: one kernel, on which LLVM works briefly."""
    monkeypatch.setattr(lowering, "columns_of_places", lambda dtype: 0)  # where there are such, nothing is copied
    rng = np.random.default_rng(1)
    xs = [rng.standard_normal((2, n, n, c), np.float32) for n, c in ((16, 32), (12, 48))]
    ws = [rng.standard_normal((3, 3, c, 32), np.float32) for c in (32, 48)]
    program = functad.make_jaxpr(lambda xs, ws: [convolved(x, w) for x, w in zip(xs, ws)])(xs, ws)
    generated = CpuLowering(program).generated
    (name,) = generated.signatures
    assert "strided_copy(" in generated.source and "clear(" in generated.source
    parts = list(machine._kernels(generated.source, "kernels.py", generated.signatures, {}, fused=False))
    assert [batch.effort for batch in machine._batches(parts)] == [0]
    results = functad.jit(lambda xs, ws: [convolved(x, w) for x, w in zip(xs, ws)])(xs, ws)
    for k, result in enumerate(results):
        np.testing.assert_allclose(result, convolved(xs[k], ws[k]), rtol=0, atol=1e-4)


def test_kernels_that_touch_elements_are_optimised_at_length():
    program = functad.make_jaxpr(lambda x: x * 2.0)(np.ones(100, np.float32))
    generated = CpuLowering(program).generated
    parts = list(machine._kernels(generated.source, "kernels.py", generated.signatures, {}, fused=False))
    assert [batch.effort for batch in machine._batches(parts)] == [3]
