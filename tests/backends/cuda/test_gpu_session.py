"""The session on a GPU runs from beginning to end in Numba's simulator, and names what it leaves out."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import gpu_operators

ROOT = Path(__file__).parents[3]


def test_the_session_in_the_simulator(tmp_path: Path) -> None:
    shell = shutil.which("sh")
    if shell is None or shutil.which("timeout") is None:
        pytest.skip("no shell here, or no `timeout`")
    environment = {**os.environ, "FUNCTAD_TINY": "1", "PYTHON": sys.executable}
    command = [shell, "benchmarks/gpu_session.sh", str(tmp_path / "none"), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 checks passed, 0 failed, 0 skipped" in done.stdout and "results in" in done.stdout
    found = json.loads((tmp_path / "gpu.json").read_text("utf-8"))
    assert found["gpu"] == "Numba's simulator" and found["date"].endswith("UTC")
    operators = {
        f"operator {name}, {way}, {n}" for name in ("sum", "matmul") for way in ("forward", "both") for n in (2, 3)
    }
    assert {*operators, "overhead of a call", "W5-128, functad"} <= set(found["results"])
    assert any(text.startswith("W5-128, torch, graph: LookupError") for text in found["left out"])
    assert "<svg" in (tmp_path / "gpu-steps.svg").read_text("utf-8")
    assert {"gpu-roofline-forward.svg", "gpu-roofline-both.svg", "gpu-threads.svg"} <= set(os.listdir(tmp_path))
    assert (tmp_path / "threads-32.json").exists() and "CUDA" in (tmp_path / "doctor.txt").read_text("utf-8")


def test_shares_of_the_roofline(tmp_path: Path) -> None:
    """Of memory's operators by the floor, of products by the best rate; what was not measured leaves a gap."""
    results = {
        "operator add, forward, 64": {"µs": 4.0, "floor µs": 3.0, "operations": 0.0, "torch µs": 6.0},
        "operator matmul, forward, 64": {"µs": 2.0, "floor µs": 1.0, "operations": 100.0},
        "operator matmul, forward, 128": {"µs": 4.0, "floor µs": 1.0, "operations": 800.0, "torch µs": 2.0},
        "overhead of a call": {"host µs": 1.0},
    }
    known = gpu_operators.timed(results)
    assert list(known) == [("add", "forward", 64), ("matmul", "forward", 64), ("matmul", "forward", 128)]
    shares = [gpu_operators.share(row, key, known.values()) for row in known.values() for key in ("µs", "torch µs")]
    assert shares[:3] == [0.75, 0.5, 0.125] and math.isnan(shares[3]) and shares[4:] == [0.5, 1.0]
    (drawn,) = gpu_operators.draw(results, tmp_path)
    assert drawn.name == "gpu-roofline-forward.svg" and drawn.read_text("utf-8").count("<polyline") == 1
    assert gpu_operators.draw_threads(tmp_path) is None
    for threads, time in ((32, 8.0), (128, 2.0)):
        row = {"operator add, forward, 2048": {"µs": time, "floor µs": 1.0, "operations": 0.0}}
        (tmp_path / f"threads-{threads}.json").write_text(json.dumps({"results": row}), "utf-8")
    assert "threads a block" in (gpu_operators.draw_threads(tmp_path) or tmp_path).read_text("utf-8")
