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

from benchmarks import gpu_operators, gpu_others, gpu_table
from benchmarks.gpu_measurer import Measurer, MeasuringError

ROOT = Path(__file__).parents[3]


_SERVED = """
import os, time
from benchmarks.gpu_measurer import serve

seen = []

def fault():
    raise RuntimeError("CUDA error: an illegal memory access was encountered")

def count():
    seen.append(0)
    print("words of a library")
    return {"calls": float(len(seen))}

serve({"count": count, "crash": lambda: os._exit(3), "hang": lambda: time.sleep(600), "fault": fault,
       "fail": lambda: {}["missing"]})
"""


def test_what_crashes_hangs_or_faults_takes_its_process_only(capfd: pytest.CaptureFixture[str]) -> None:
    measurer = Measurer([sys.executable, "-c", _SERVED])
    assert [measurer.ask("count", 60.0) for _ in range(2)] == [{"calls": 1.0}, {"calls": 2.0}]
    assert "words of a library" in capfd.readouterr().out
    with pytest.raises(MeasuringError, match="KeyError: 'missing'"):
        measurer.ask("fail", 60.0)
    assert measurer.ask("count", 60.0) == {"calls": 3.0}  # the same process
    for name, seconds, said in (("crash", 60.0, "ended: 3"), ("hang", 3.0, "after 3 s"), ("fault", 60.0, "illegal")):
        with pytest.raises(MeasuringError, match=said):
            measurer.ask(name, seconds)
        assert measurer.ask("count", 60.0) == {"calls": 1.0}, name
    measurer.close()


def test_without_a_gpu_the_session_says_so_and_ends(tmp_path: Path) -> None:
    shell = shutil.which("sh")
    if shell is None or shutil.which("timeout") is None:
        pytest.skip("no shell here, or no `timeout`")
    environment = {**os.environ, "PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": ""}
    environment.pop("NUMBA_ENABLE_CUDASIM", None)
    command = [shell, "benchmarks/gpu_session.sh", str(tmp_path / "none"), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 1 and "nothing can be measured: there is no" in done.stderr, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr and os.listdir(tmp_path) == ["doctor.txt"]


def test_tables_of_a_session(tmp_path: Path) -> None:
    """Figures come into a page from the results alone; what was not measured is a dash."""
    results = {
        "overhead of a call": {"host µs": 9.96, "all µs": 10.0},
        "operator add, forward, 4096": {"µs": 50.0, "floor µs": 45.0, "operations": 0.0, "torch µs": 60.0},
        "operator matmul, both, 8192": {"µs": 4.0, "floor µs": 1.0, "operations": 100.0},
        "W5-512, functad": {"µs": 30.0},
        "W5-512, jax": {"µs": 60.0},
        "W5-512, functad, TF32": {"µs": 25.0},
        "W5-512, jax, TF32": {"µs": 50.0},
        "W1, functad": {"µs": 123.4},
        "operation softmax": {"µs": 10.0, "floor µs": 9.0, "torch µs": 20.0},
    }
    session = {"date": "2026-11-27 08:00:00 UTC", "gpu": "X", "versions": {"torch": "2.11"}, "copy bytes a µs": 4.06e6}
    text = gpu_table.text({**session, "results": results})
    assert "on 2026-11-27 on one X (copies read and write 4.06 TB/s), with torch 2.11." in text
    assert "| W5: perceptron, h = 512, batch 100 | 30.0 | – | – | 60.0 | 25.0 | 50.0 | 0.50 | 0.50 |" in text
    assert "| 123 | – | – | – | – | – | – | – |" in text and "takes 10.0 µs of the host" in text
    assert "| x + y | 0.90 (0.75) | – | – | – |" in text and "| matrix product | – | – | – | 1.00 |" in text
    assert "| softmax | 10.0 | 20.0 | 0.50 | 0.90 |" in text
    page = f"before\n{gpu_table.BEGIN}\nold\n{gpu_table.END}\nafter\n"
    assert gpu_table.placed(page, "new") == page.replace("old", "new")
    (tmp_path / "gpu.json").write_text(json.dumps({**session, "results": results}), "utf-8")
    (tmp_path / "page.md").write_text(page, "utf-8")
    assert gpu_table.main([str(tmp_path), "--into", str(tmp_path / "page.md")]) == 0
    assert "0.90 (0.75)" in (tmp_path / "page.md").read_text("utf-8")


def test_what_is_documented_is_what_was_measured() -> None:
    kept = ROOT / "benchmarks" / "results" / "gpu" / "gpu.json"
    if not kept.exists():
        pytest.skip("no session on a GPU is kept")
    page = (ROOT / "docs" / "gpus.md").read_text("utf-8")
    found = gpu_table.text(json.loads(kept.read_text("utf-8")))
    assert gpu_table.placed(page, found) == page, (
        "python -m benchmarks.gpu_table benchmarks/results/gpu --into docs/gpus.md"
    )


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


def test_the_whole_session_in_the_simulator(tmp_path: Path) -> None:
    shell = shutil.which("sh")
    if shell is None or shutil.which("timeout") is None:
        pytest.skip("no shell here, or no `timeout`")
    environment = {**os.environ, "FUNCTAD_TINY": "1", "PYTHON": sys.executable}
    command = [shell, "benchmarks/gpu_session.sh", str(tmp_path / "none"), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 checks passed, 0 failed, 0 skipped" in done.stdout and "results in" in done.stdout
    parts = [done.stdout.index(text) for text in ("that tell most", "W5-128, functad: µs", "correctness", "all other")]
    assert parts == sorted(parts) and done.stdout.count("W5-128, functad: µs") == 1
    found = json.loads((tmp_path / "gpu.json").read_text("utf-8"))
    assert found["gpu"] == "Numba's simulator" and found["date"].endswith("UTC")
    operators = {
        f"operator {name}, {way}, {n}" for name in ("sum", "matmul") for way in ("forward", "both") for n in (2, 3)
    }
    others = {f"operation {name}" for name in gpu_others.OPERATIONS}
    assert {*operators, *others, "overhead of a call", "W5-128, functad"} <= set(found["results"])
    order = list(found["results"])
    assert order[:2] == ["overhead of a call", "W5-128, functad"]
    assert order.index("operation attention, forward and backward") < order.index("operation softmax")
    assert any(text.startswith("W5-128, torch, graph: LookupError") for text in found["left out"])
    assert "<svg" in (tmp_path / "gpu-steps.svg").read_text("utf-8")
    assert {"gpu-roofline-forward.svg", "gpu-roofline-both.svg", "gpu-threads.svg"} <= set(os.listdir(tmp_path))
    assert (tmp_path / "threads-32.json").exists() and "CUDA" in (tmp_path / "doctor.txt").read_text("utf-8")
