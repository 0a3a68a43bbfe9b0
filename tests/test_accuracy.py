"""The errors of all functions stay within `accuracy.functions.BOUNDS`, un-jitted and compiled; and their measuring."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba", reason="Numba is not installed: half of what is measured is compiled")

from accuracy import functions, measure
from accuracy.__main__ import measured

import functad.numpy as jnp

pytestmark = pytest.mark.generated(every=4)  # tables of kinds and ways

ENTRIES = {entry.name: entry for entry in functions.entries(with_jax=False)}
DTYPES = [np.dtype(np.float32), np.dtype(np.float64)]
SAMPLE = 3000  # of each kind, besides the hard cases


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ENTRIES)
def test_errors_are_within_their_bounds(name: str, dtype: np.dtype) -> None:
    if dtype == np.float64 and np.finfo(np.longdouble).nmant <= 52:
        pytest.skip("long double is float64 on this platform: there is nothing to compare with")
    row, exceeds = measured(ENTRIES[name], dtype, SAMPLE)
    assert exceeds == []
    assert row.startswith(f"| `{name}`") and "!" not in row


def test_every_function_has_bounds() -> None:
    assert ENTRIES.keys() <= functions.BOUNDS.keys()


def test_a_wrong_function_is_found() -> None:
    sine = ENTRIES["sin"]
    almost = sine._replace(ours=lambda x: sine.ours(x) * np.float32(1 + 3e-7))
    for dtype in DTYPES:
        row, exceeds = measured(almost, dtype, SAMPLE)
        assert row.count("!") == 2 and len(exceeds) == 2 and "ulp at" in exceeds[0]
    without_nan = sine._replace(ours=lambda x: jnp.nan_to_num(sine.ours(x)))
    assert measured(without_nan, DTYPES[0], SAMPLE)[1]


def test_ulps_are_those_of_the_truth() -> None:
    one, tiny = np.float32([1]), np.finfo(np.float32).smallest_subnormal
    assert measure.ulps(np.nextafter(one, np.float32(2)), np.float64([1])) == 1
    assert measure.ulps(one, np.float64([1 + 2.0**-24])) == 0.5
    assert measure.ulps(np.float32([tiny]), np.float64([0])) == 1  # subnormal numbers count
    assert measure.ulps(np.float32([np.inf]), np.float64([2.0**128 * (1 - 2.0**-25)])) == 0.5
    for got, truth, error in [(np.nan, np.nan, 0), (np.nan, 1, np.inf), (1, np.nan, np.inf), (-np.inf, np.inf, np.inf)]:
        assert measure.ulps(np.float32([got]), np.float64([truth])) == error
    assert measure.ulps(np.float64([2.0**-60]), np.longdouble([0]), least=1.0) == 2.0**-8


def test_compiled_distances_are_the_same() -> None:
    (x,) = next(measure.single_operands(SAMPLE))
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        truths = [wide, np.roll(wide, 1), wide * (1 + 2.0**-25), wide * 2.0**100]
    for truth in truths:
        for least in (0.0, 1.0):
            with np.errstate(all="ignore"):
                wanted = measure.ulps(x, truth, least)
            np.testing.assert_array_equal(measure.ulps_of_singles(x, truth, least), wanted)


def test_a_wrong_quick_reference_is_not_believed() -> None:
    chunks = list(measure.single_operands(SAMPLE))
    right, wrong = (
        measure.worst_errors([lambda x: np.sin(x.astype(np.float64)).astype(np.float32)], np.sin, iter(chunks), quick=q)
        for q in (None, lambda x: np.sin(x) * (1 + 1e-5))
    )
    assert right == wrong


def test_all_float32_numbers_are_tried_unless_a_sample_is_asked_for() -> None:
    chunks = measure.single_operands(1 << 32)
    first, second = (next(chunks)[0].view(np.uint32) for _ in range(2))
    assert first[0] == 0 and np.all(np.diff(first.astype(np.int64)) == 1) and second[0] == first[-1] + 1
    assert first.size * 4096 == 2**32
    hard = measure.hard_cases(DTYPES[0])
    sampled = np.concatenate([x for (x,) in measure.single_operands(SAMPLE)])
    assert np.isin(hard[np.isfinite(hard)], sampled).all() and np.isnan(sampled).any()


def test_the_command_prints_a_table_and_writes_it(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    command = [sys.executable, "-m", "tests.accuracy", "--sample", "500", "--only", "exp", "atan2", "--no-jax"]
    root = Path(__file__).parents[1]
    run = subprocess.run([*command, "--output", str(page)], cwd=root, capture_output=True, text=True, check=True)
    assert "| `exp` | " in run.stdout and "| `atan2` | " in run.stdout
    text = page.read_text(encoding="utf-8")
    assert text.count("| `exp` | ") == 2 and text.count("| 500 |") == 4 and "## float64" in text
    again = [*command[:4], "400", "--resume", "--only", "exp", "--no-jax", "--output", str(page)]
    subprocess.run(again, cwd=root, capture_output=True, check=True)
    assert page.read_text(encoding="utf-8") == text  # rows of more operands stay
