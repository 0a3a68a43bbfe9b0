"""`python -m functad doctor`: what it shows, and that broken parts are named without hiding the others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from functad.__main__ import main
from functad.cli import doctor


def test_a_healthy_machine(capsys):
    code = main(["doctor"])
    shown = capsys.readouterr().out
    for title in doctor.PARTS:
        assert f"{title}\n" in shown
    assert "200 of 200, cut into chunks, agree with NumPy" in shown
    assert ("no problems found" in shown) == (code == 0)


def test_a_part_that_fails_is_a_problem_and_the_others_follow(capsys, monkeypatch):
    def broken():
        yield "first", "fine"
        raise ZeroDivisionError("of a test")

    def warns():
        yield doctor.Problem("do this")
        yield "last", "seen"

    monkeypatch.setattr(doctor, "PARTS", {"Broken": broken, "Other": warns})
    assert main(["doctor"]) == 1
    assert capsys.readouterr().out == (
        "Broken\n  first         fine\n  PROBLEM: ZeroDivisionError: of a test\n"
        "Other\n  PROBLEM: do this\n  last          seen\n\n2 problems found\n"
    )


@pytest.mark.parametrize(
    ("package", "advice", "works"),
    [
        ("numba", "Numba cannot be imported (ImportError: broken for a test)", "200 of 200"),
        ("llvmlite", "the compiler cannot be loaded (ImportError: broken for a test)", "the cores"),
    ],
)
def test_broken_packages(tmp_path: Path, package: str, advice: str, works: str):
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").write_text("raise ImportError('broken for a test')")
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path}
    environment.pop("FUNCTAD_NUM_THREADS", None)
    program = "import sys; from functad.__main__ import main; sys.exit(main(['doctor']))"
    result = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (1, "")
    assert advice in result.stdout
    assert works in result.stdout


def test_too_many_threads_and_a_missing_blas_library(capsys):
    environment = {**os.environ, "FUNCTAD_NUM_THREADS": "1000", "FUNCTAD_BLAS": "none"}
    program = "from functad.cli import doctor\nfor part in (doctor._threads, doctor._matrix_products): print(*part())"
    result = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert "1000 threads on" in result.stdout
    assert "set FUNCTAD_BLAS to the path of a library" in result.stdout


def test_a_cache_that_cannot_be_used(tmp_path, monkeypatch):
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    assert ("others" in doctor._why_not_writable(folder)) == hasattr(os, "geteuid")
    file = tmp_path / "file"
    file.write_text("")
    assert "cannot be made" in doctor._why_not_writable(file / "folder")


def test_vector_bits():
    assert doctor._vector_bits(["+avx", "+avx2", "+avx512f"]) == 512
    assert doctor._vector_bits(["+avx2", "+avx", "-avx512f"]) == 256
    assert doctor._vector_bits(["+neon"]) == 128
