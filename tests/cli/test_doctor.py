"""`python -m functad doctor`: what it shows, and that broken parts are named without hiding the others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from functad import machine_model
from functad.__main__ import main
from functad.backends.cpu.products import blas
from functad.cli import doctor, measure


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
    wide = blas.columns_of_places("float32") > 0
    assert ("set FUNCTAD_BLAS to the path of a library" in result.stdout) is not wide


def test_a_library_with_shorter_vectors_than_the_processor(monkeypatch):
    for narrow in (True, False):
        monkeypatch.setattr(blas, "is_narrow", lambda dtype, narrow=narrow: narrow)
        found = {name: text for name, text in (x for x in doctor._matrix_products() if isinstance(x, tuple))}
        assert ("OPENBLAS_CORETYPE" in found.get("kernels", "")) is narrow


@pytest.mark.parametrize("where", ["in kernels", "by address", "by NumPy"])
def test_who_factorises(monkeypatch, where):
    monkeypatch.setattr(doctor.lapack, "has", lambda name: where != "by NumPy")
    monkeypatch.setattr(blas, "has_routine", lambda name, dtype: where == "in kernels")
    found = dict(doctor._linear_algebra())
    assert [place for place, names in found.items() if "potrf" in names] == [where]
    assert ("gtsv" in found.get("by address", "")) is (where != "by NumPy")


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


def test_a_number_is_measured_beside_the_model(capsys):
    assert main(["doctor", "--measure", "VECTOR_BYTES"]) == 0
    head, line, *_ = capsys.readouterr().out.splitlines()
    assert head.split() == ["number", "model", "here", "unit", "ratio"]
    name, model, here, unit, ratio = line.replace("try it", "").split()
    assert (name, model, unit) == ("VECTOR_BYTES", "64", "bytes") and here in ("16", "32", "64")
    assert float(ratio) == int(here) / 64


def test_what_is_far_from_the_model_is_to_be_tried(capsys, monkeypatch):
    def rows():
        yield measure.Measurement("BYTES_PER_NS", "as it was", 30.0)
        yield measure.Measurement("BYTES_PER_NS", "much more", 100.0)
        yield measure.Measurement("", "beside", 7.0)
        raise OSError("of a test")

    monkeypatch.setattr(machine_model, "BYTES_PER_NS", 25.0)
    monkeypatch.setattr(measure, "MEASUREMENTS", {("BYTES_PER_NS",): rows})
    assert main(["doctor", "--measure"]) == 0
    _, near, far, beside, broken, *_ = capsys.readouterr().out.splitlines()
    assert near.split()[-2:] == ["bytes", "1.20"] and far.endswith("4.00  try it")
    assert beside.split() == ["beside", "7"]
    assert broken.split() == "BYTES_PER_NS cannot be measured here: OSError: of a test".split()


@pytest.mark.parametrize(
    ("name", "problem"), [("BYTES", "is no number of machine_model"), ("LARGEST_NEST", "is not measured")]
)
def test_what_cannot_be_measured(name, problem, capsys):
    assert main(["doctor", "--measure", name]) == 1
    assert f"{name} {problem}; these are: CACHE_LINE, FIRST_CACHE, " in capsys.readouterr().err


def test_just_what_says_so_is_measured():
    said = {name for name, text in measure.descriptions().items() if "Measured" in text}
    assert said == {name for group in measure.MEASUREMENTS for name in group}


@pytest.mark.parametrize(
    "group", [("PRODUCT_FLOPS_PER_NS", "PRODUCT_COST", "PRODUCT_CALL_NS"), ("LOCK_NS",)], ids=" ".join
)
def test_measurements_give_numbers(group):
    rows = list(measure.MEASUREMENTS[group]())
    assert {row.name for row in rows} - {""} == set(group)
    assert all(row.here > 0 for row in rows if row.name)
