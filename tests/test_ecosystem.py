"""The runner of other libraries' tests: what it counts, and that the import hook gives functad under JAX's name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.ecosystem.__main__ import HERE, counts_of, errors_of, run

OUTPUT = """E   ValueError: one
E       functad.errors.ShapeError: two
E   ValueError: one
=== 46 failed, 865 passed, 2 skipped, 1 warning, 11 errors, 1511 subtests passed in 179.55s (0:02:59) ===
"""


def test_what_is_counted():
    assert counts_of(OUTPUT) == [865, 46, 11, 2, 1511] and counts_of("1 passed, 1 error in 1s") == [1, 0, 1, 0, 0]
    assert counts_of("nothing") == [0] * 5
    assert errors_of(OUTPUT) == [("ValueError: one", 2), ("functad.errors.ShapeError: two", 1)]


def test_a_library_written_for_jax_runs_over_functad(tmp_path: Path):
    (tmp_path / "some_test.py").write_text(
        "import jax, jax.numpy as jnp\n"
        "from jax.scipy.stats import norm\n"
        "def test_right():\n    assert jax.grad(jnp.sin)(0.) == 1 and norm.cdf(0.) == 0.5\n"
        "    assert type(jnp.ones(1)).__module__.startswith('functad')\n"
        "def test_wrong():\n    jnp.no_such_name\n"
    )
    output = run(sys.executable, tmp_path, ".", True, 120)
    assert counts_of(output)[:2] == [1, 1], output
    assert errors_of(output)[0][0].startswith("functad.errors.AbsentNameError")


def test_the_hook_is_strict():
    code = (
        "import as_jax\nas_jax.install()\ntry:\n    import jax.pallas\nexcept ModuleNotFoundError as e:\n    print(e)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=HERE, capture_output=True, text=True, check=True,
        env={"PYTHONPATH": f"{HERE}:{HERE.parents[1]}", "PATH": ""},
    )  # fmt: skip
    assert done.stdout.strip() == "No module named 'jax.pallas': functad has none"
