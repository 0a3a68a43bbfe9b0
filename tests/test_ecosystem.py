"""The runner of other libraries' tests: what it counts, and that the import hook gives functad under JAX's name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.ecosystem.__main__ import HERE, LIBRARIES, counts_of, errors_of, run
from tests.ecosystem.excluded import LIST, is_taken, patterns_of

ENVIRONMENT = {"PYTHONPATH": f"{HERE}:{HERE.parents[1]}", "PATH": ""}

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
    output = run(sys.executable, tmp_path, "some library", True, 120)
    assert counts_of(output)[:2] == [1, 1], output
    assert errors_of(output)[0][0].startswith("functad.errors.AbsentNameError")


def test_tests_are_left_out_by_library_and_pattern(tmp_path: Path):
    assert patterns_of("# why\nchex *pmap*\n\nhaiku a.py::x[1 2]\nchex b.py*\n", "chex") == ["*pmap*", "b.py*"]
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_pmap.py").write_text("def test_left_out():\n    assert False\n")
    (tmp_path / "tests/test_other.py").write_text("def test_kept():\n    pass\n")
    assert counts_of(run(sys.executable, tmp_path, "equinox", True, 120))[:2] == [1, 0]
    libraries = {line.split()[0] for line in LIST.read_text().splitlines() if line.strip() and line[0] != "#"}
    assert libraries <= set(LIBRARIES)


def test_a_sample_depends_on_names_alone(tmp_path: Path):
    (tmp_path / "some_test.py").write_text("".join(f"def test_{i}():\n    pass\n" for i in range(40)))
    taken = sum(is_taken(f"some_test.py::test_{i}", 4) for i in range(40))
    assert 5 <= taken <= 15 and counts_of(run(sys.executable, tmp_path, "some library", True, 120, every=4))[0] == taken


def test_names_that_are_mentioned_alone_raise_when_they_are_used():
    code = (
        "import as_jax\nas_jax.install()\nimport jax, jax._src.core\nassert not isinstance(1, jax.pmap)\n"
        "assert jax._src.core.Tracer is jax.core.Tracer and jax.interpreters.xla.canonicalize_dtype_handlers\n"
        "f = jax.pmap(lambda x: x)\ntry:\n    f(1)\nexcept NotImplementedError as e:\n    print(e)\n"
        "assert not hasattr(jax.pmap, 'lower') and not hasattr(jax, 'xla_computation')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=HERE, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.stdout.startswith("jax.pmap was used: functad has one device"), done.stderr


def test_the_hook_is_strict():
    code = (
        "import as_jax\nas_jax.install()\ntry:\n    import jax.pallas\nexcept ModuleNotFoundError as e:\n    print(e)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=HERE, capture_output=True, text=True, check=True,
        env=ENVIRONMENT,
    )  # fmt: skip
    assert done.stdout.strip() == "No module named 'jax.pallas': functad has none"
