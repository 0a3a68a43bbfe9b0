"""The session on a GPU runs from beginning to end in Numba's simulator, and names what it leaves out."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def test_the_session_in_the_simulator(tmp_path: Path) -> None:
    shell = shutil.which("sh")
    if shell is None or shutil.which("timeout") is None:
        pytest.skip("no shell here, or no `timeout`")
    environment = {**os.environ, "FUNCTAD_TINY": "1", "PYTHON": sys.executable}
    command = [shell, "benchmarks/gpu_session.sh", str(tmp_path / "none"), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 checks passed, 0 failed" in done.stdout and "results in" in done.stdout
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
