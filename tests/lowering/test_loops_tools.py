"""The checker of kernels objects to what it should: each of its checks is shown a kernel that breaks it.

Knows `loops_tools` only.
"""

from __future__ import annotations

import numpy as np
import pytest
from loops_tools import Buffer, Recorded, run_plain


def run(body, mode="w", n=4, pieces=4, **promises):
    """A kernel from x, the numbers 0 to 7, to out, which is not set."""
    target = Recorded()
    x, out = Buffer((8,), "float32", "x"), Buffer((8,), "float32", "out")
    target.ins, target.outs = [x], [out]
    target.kernel("k", body, {"x": (x, "r"), "out": (out, mode)}, n, **promises)
    values = target.values([np.arange(8, dtype=np.float32)])
    run_plain(target, values, pieces=pieces)
    return values[out]


COPY = "for i in range(2 * start, 2 * stop):\n    out[i] = x[i]"


def test_a_correct_kernel_passes():
    np.testing.assert_array_equal(run(COPY, rows=True, row_reads=("x",)), np.arange(8))


@pytest.mark.parametrize(
    "body, message",
    [
        ("for i in range(start, stop):\n    out[i] = x[i]", "not wholly written"),
        ("for i in range(8):\n    out[i] = x[i]", "written by one piece of the range and used by another"),
        ("for i in range(2 * start, 2 * stop):\n    out[i] = x[i + 1]", "index 8 is not in 0..7"),
        ("for i in range(2 * start, 2 * stop):\n    out[i] = x[i - 1]", "index -1 is not in 0..7"),
        ("for i in range(2 * start, 2 * stop):\n    out[i] = out[i] + x[i]", "read before anything was written"),
        ("for i in range(2 * start, 2 * stop):\n    x[i] = f32(1.0)", "announced as read-only"),
        ("for i in range(2 * start, 2 * stop):\n    out[i] = 0.5 * x[i]", "bare literal 0.5"),
        ("for i in range(2 * start, 2 * stop):\n    out[i] = float(x[i])", "unknown name float"),
        ("for i in range(2 * start, 2 * stop):\n    out[i] = [x[i]][0]", "List in line"),
        ("for i in range(2 * start, 2 * stop):\n    out[i] = c64(x[i])", "stored without a cast"),
    ],
)
def test_a_wrong_kernel_is_found(body, message):
    with pytest.raises(AssertionError, match=message):
        run(body)


def test_broken_promises_of_rows_are_found():
    body = "for i in range(2 * start, 2 * stop):\n    out[i] = x[7 - i]"
    with pytest.raises(AssertionError, match="touched by another row"):
        run(body, rows=True, row_reads=("x",))
    np.testing.assert_array_equal(run(body, rows=True), np.arange(8)[::-1])
