"""functad in an archive, from which Python imports it: nothing asks for a folder of its files."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import functad

PROGRAM = """
import numpy as np
import functad, functad.numpy as jnp
from functad.backends.cpu.compile import objects

x = jnp.ones((40, 30))
step = functad.jit(lambda w: w - functad.grad(lambda w: jnp.tanh(x @ w).sum())(w))
assert ".zip" in functad.__file__ and step(jnp.ones((30, 20))).shape == (30, 20)
assert np.allclose(functad.jit(jnp.sort)(x[0] * jnp.arange(30.0)[::-1]), np.arange(30))
print(*objects._environment()[-1:])
"""


def test_functions_are_compiled_and_kept_and_made_anew_when_the_archive_changes(tmp_path: Path) -> None:
    package, archive = Path(functad.__file__).parent, tmp_path / "functad.zip"
    with zipfile.ZipFile(archive, "w") as made:
        for path in package.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                made.write(path, path.relative_to(package.parent))
    environment = {**os.environ, "PYTHONPATH": str(archive), "FUNCTAD_CACHE_DIR": str(tmp_path / "kept")}
    found = []
    for _ in range(3):
        run = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stderr[-2000:]
        found.append((run.stdout, len([*(tmp_path / "kept").rglob("*.o")])))
        if len(found) == 2:
            with zipfile.ZipFile(archive, "a") as made:
                made.writestr("note", "another archive")
    (first, kept), (again, still), (changed, more) = found
    assert first == again != changed and 0 < kept == still < more
