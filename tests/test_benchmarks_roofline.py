"""The operators of W4 beside the roofline: what bounds them, the lines and pictures of that, rows that caches hold."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks import report, roofline, widths
from benchmarks.processes import Rules
from benchmarks.record import Options, Section
from benchmarks.workloads import PERCEPTRONS, ROOFLINE, ROWS, perceptron
from benchmarks.workloads.operators import OPERATORS, few_rows


def section(workload, **least):
    title = ROOFLINE[workload].title
    return Section(f"roofline {workload} 1", title, "µs", {}, least=least, notes=["cores: 1"])


def test_the_floor_is_the_larger_of_what_memory_and_instructions_take():
    assert roofline.floor({"functad": 9.0, "floor": 2.0, "computing": 3.0}) == 3
    assert roofline.floor({"functad": 9.0, "floor": 4.0, "computing": 3.0}) == 4
    assert roofline.floor({"functad": 9.0, "floor": 4.0}) == 4
    assert roofline.floor({"functad": 9.0}) is None


def test_lines_show_both_shares():
    line = roofline.line(section("exp-64-forward", functad=10.0, numpy=40.0, floor=4.0, computing=8.0))
    assert line == (
        "exp, 64², forward, cores: 1: 10.0 µs, 0.80 of the floor's speed (0.40 of memory, 0.80 of computing), "
        "/ numpy 0.25"
    )
    line = roofline.line(section("matmul-64-forward", functad=10.0, numpy=8.0))
    assert line == "matrix product, 64², forward, cores: 1: 10.0 µs, / numpy 1.25"


def test_shares_are_of_the_floor_or_of_the_best_rate_of_products(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    sections = [
        section("exp-64-forward", functad=10.0, numpy=40.0, floor=4.0, computing=8.0),
        section("matmul-64-forward", functad=10.0, numpy=20.0),
        section("relu-64-both", functad=10.0, numpy=20.0, floor=5.0, computing=1.0),
        section("matmul-128-forward", functad=100.0, numpy=80.0),
    ]
    results = json.loads(json.dumps(report.record(sections, Options(["functad", "numpy"], 1, 0.01, 1))))
    assert roofline.shares(results) == pytest.approx(
        {
            ("exp", "forward", 64, 1, "functad"): 0.8,
            ("exp", "forward", 64, 1, "numpy"): 0.2,
            ("relu", "both", 64, 1, "functad"): 0.5,
            ("relu", "both", 64, 1, "numpy"): 0.25,
            ("matmul", "forward", 64, 1, "functad"): 1.0,
            ("matmul", "forward", 64, 1, "numpy"): 0.5,
            ("matmul", "forward", 128, 1, "functad"): 0.8,
            ("matmul", "forward", 128, 1, "numpy"): 1.0,
        }
    )
    kept = report.save(results, "roofline")
    other = report.save({**results, "machine": "another"}, "roofline")
    names = [path.name for kept in (kept, other) for path in roofline.draw(results, kept)]
    assert names[:2] == ["roofline-forward.svg", "roofline-both.svg"]
    assert names[2:] == ["roofline-2-forward.svg", "roofline-2-both.svg"]


def test_speed_ups_are_of_what_was_timed_on_one_core_too(tmp_path):
    least = {
        "roofline exp-64-forward 1": {"functad": 12.0, "numpy": 8.0, "floor": 5.0},
        "roofline exp-64-forward 4": {"functad": 4.0, "numpy": 8.0, "torch": 9.0, "floor": 2.0},
        "roofline relu-64-both 4": {"functad": 3.0, "floor": 2.0},
    }
    results = {"results": {key: {"least": row} for key, row in least.items()}}
    assert roofline.speedups(results) == {
        ("exp", "forward", 64, 4, "functad"): 3.0,
        ("exp", "forward", 64, 4, "numpy"): 1.0,
    }
    drawn = [path.name for path in roofline.draw(results, tmp_path / "2026-01-01-roofline.json")]
    assert drawn == ["roofline-forward.svg", "roofline-speedup-forward.svg", "roofline-both.svg"]


def test_perceptrons_are_drawn_by_their_parameters(tmp_path):
    assert perceptron.parameters(128) == sum(x.size for x in PERCEPTRONS["W5-128"].task().params.values())
    least = {
        "widths W5-256 1": {"functad": 100.0, "torch": 250.0},
        "widths W5-128 1": {"functad": 10.0, "torch": 20.0, "jax": 30.0},
    }
    results = {"results": {key: {"least": row} for key, row in least.items()}}
    times, ratios = widths.draw(results).panels
    assert times.places == pytest.approx(np.log10([perceptron.parameters(128), perceptron.parameters(256)]))
    assert times.series["functad"] == pytest.approx([1, 2])
    assert ratios.series["beside torch"] == pytest.approx([2, 2.5])
    assert ratios.series["beside jax"] == pytest.approx([3, np.nan], nan_ok=True)
    assert widths.draw({"results": {}}) is None
    assert [path.name for path in roofline.draw(results, tmp_path / "2026-01-01-roofline.json")] == [
        "roofline-widths.svg"
    ]


def test_a_step_of_a_width_is_measured(monkeypatch):
    monkeypatch.setattr(widths, "FRAMEWORKS", ["functad"])
    (found,) = widths.measured([128], Rules(1, 0.001, 1))
    assert found.name == "widths W5-128 1" and found.least.keys() == {"functad"}
    assert roofline.line(found).startswith("W5: perceptron, h = 128, batch 100, cores: 1: ")


def test_none_leaves_operators_or_widths_out(capsys):
    none = ["--operators", "none", "--widths", "none", "--cores", "one"]
    assert roofline.main(none) == 0
    assert "W5" not in capsys.readouterr().out


@pytest.mark.parametrize("side", [64, 2048, 8192])
def test_few_rows_lie_in_caches(side):
    rows, more = few_rows(side)
    assert more == 2 * rows and 2048 <= rows * side <= 8192


def test_rows_are_those_of_the_matrix():
    assert not any(name.split("-")[2] in ("copy", "transpose", "matmul") for name in ROWS)
    task = ROWS["32-rows-divide-64-both"].task()
    assert [x.shape for x in task.arguments] == [(32, 64)] * 3
    (x, row) = OPERATORS["broadcast"].arguments(64, 32)
    assert x.shape == (32, 64) and row.shape == (64,)
    assert all((np.abs(x) > 0).all() for x in task.arguments)


def test_an_operator_is_measured_beside_both_bounds(monkeypatch):
    monkeypatch.setattr(roofline, "_FRAMEWORKS", ["numpy", "functad"])
    (found,) = roofline.measured(["exp-64-forward"], Rules(1, 0.001, 1))
    assert set(found.least) == {"numpy", "functad", roofline.MEMORY, roofline.COMPUTING}
    assert 0 < found.least[roofline.COMPUTING] < 10 * found.least["functad"]
    (moved,) = roofline.measured(["copy-64-forward"], Rules(1, 0.001, 1))
    assert roofline.COMPUTING not in moved.least
