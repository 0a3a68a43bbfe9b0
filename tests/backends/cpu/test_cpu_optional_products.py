"""functad's own matrix products are optional: without their folder all else computes the same, and it has one door."""

import ast
import importlib
import os
import shutil
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import functad
from functad.backends.cpu.products import blas

PACKAGE = Path(functad.__file__).parent
OWN = "functad.backends.cpu.products.own"

PRODUCTS = """
import numpy as np
import functad
import functad.numpy as jnp
from functad import lax
from functad.backends.cpu.products import blas

assert blas.own is None and functad.__file__.startswith({folder!r}), functad.__file__
numbers = np.random.default_rng(0).integers(-4, 5, 300_000)
def array(*shape, dtype="float32"):
    return numbers[: np.prod(shape)].reshape(shape).astype(dtype)

for dtype in ("float32", "float64", "complex64"):
    a, b = array(100, 512, dtype=dtype), array(512, 512, dtype=dtype)
    for f in (jnp.matmul, lambda a, b: jnp.matmul(a, b.T), lambda a, b: jnp.matmul(a[:, :100].T, b[:100])):
        np.testing.assert_array_equal(functad.jit(f)(a, b), f(a, b))

def loss(x, kernel):
    y = lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return jnp.sum(y * y)

gradients = functad.grad(loss, argnums=(0, 1))
x, kernel = array(2, 12, 12, 32), array(3, 3, 32, 64)
for ours, plain in zip(functad.jit(gradients)(x, kernel), gradients(x, kernel)):
    np.testing.assert_allclose(ours, plain, rtol=1e-5)
"""


@pytest.mark.parametrize("library", ["", "none"])
def test_everything_works_without_the_folder(tmp_path, library):
    shutil.copytree(PACKAGE, tmp_path / "functad", ignore=shutil.ignore_patterns("__pycache__", "own"))
    assert not (tmp_path / "functad" / "backends" / "cpu" / "products" / "own").exists()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "FUNCTAD_CACHE_DIR": str(tmp_path / "cache")}
    environment["FUNCTAD_BLAS"] = library
    program = PRODUCTS.format(folder=str(tmp_path))
    subprocess.run([sys.executable, "-W", "error", "-c", program], env=environment, cwd=tmp_path, check=True)


@pytest.mark.parametrize("left_out", [False, True])
def test_the_library_stands_for_them(monkeypatch, left_out):
    if left_out:
        monkeypatch.setattr(blas, "own", None)
    monkeypatch.setattr(blas, "_is_direct", lambda dtype: dtype.kind == "f")  # OpenBLAS knows AVX-512
    monkeypatch.setattr(blas, "is_narrow", lambda dtype: False)
    for m, k, tb in ((50, 512, False), (100, 512, True)):  # where the matrices lie, and packed
        handle, _ = blas.handle_for("float32", m, 512, k, ta=False, tb=tb, ldb=512, ldc=512)
        assert (handle == blas.handle("float32")) is left_out


def test_their_code_is_known_again_by_all_text_that_writes_it(monkeypatch):
    table = importlib.import_module(f"{OWN}.gemm_table")
    texts = []
    loaded = types.SimpleNamespace(addresses={})
    monkeypatch.setattr(table.objects, "get_functions", lambda text, *rest: texts.append(text) or loaded)
    table._vectors(np.dtype("float32"), "compile_thin", "thin_float32", ("transpose",))
    assert "class Code:" in texts[0] and "def compile_thin(" in texts[0]


def test_nobody_computes_places_or_windows_without_them(monkeypatch):
    monkeypatch.setattr(blas, "own", None)
    monkeypatch.setattr(blas, "_is_direct", lambda dtype: False)
    assert blas.columns_of_places("float32") == blas.columns_of_places("float64") == 0
    assert blas.lanes_of_windows("float32") == blas.lanes_of_windows("float64") == 0
    assert not blas.is_narrow.__wrapped__(np.dtype("float32"))  # type: ignore[attr-defined]


def imported_by(path: Path) -> set[str]:
    """The modules that a file imports, or whose members it does; and modules that it names in texts."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:
            found.add(node.value)
    return found


def test_they_have_one_door():
    room = PACKAGE / "backends" / "cpu" / "products" / "own"
    doors = {
        (path.relative_to(PACKAGE).as_posix(), name)
        for path in PACKAGE.rglob("*.py")
        if room not in path.parents and "products" in path.read_text(encoding="utf-8")
        for name in imported_by(path)
        if f"{name}.".startswith(f"{OWN}.")
    }
    assert doors == {("backends/cpu/products/blas.py", f"{OWN}.gemm_table")}
    assert any(name.startswith(OWN) for name in imported_by(room / "gemm_table.py"))  # it would be found
