"""The runner of other libraries' tests, what it keeps and counts; and that its hook gives functad under JAX's name."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ecosystem.__main__ import (
    FAILED,
    FAILURES,
    HERE,
    LIBRARIES,
    README,
    RESULTS,
    Options,
    failed_tests,
    record_of,
    result_of,
    run,
    table_of,
    unexplained,
    with_table,
)
from tests.ecosystem.excluded import LIST, is_taken, patterns_of
from tests.ecosystem.recording import outcomes_of

ENVIRONMENT = {"PYTHONPATH": f"{HERE}:{HERE.parents[1]}", "PATH": ""}
UNLIMITED = Options(seconds=120, timeout=0)  # the plugin for limits of single tests may not be there


def outcomes(folder: Path, library: str = "some library", every: int = 1) -> dict[str, tuple[str, str]]:
    """What the tests of a folder give over functad."""
    run(sys.executable, folder, library, "functad", UNLIMITED._replace(every=every))
    return outcomes_of(record_of(folder, library, "functad").read_text())


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    folder = tmp_path / "library-1.0"
    (folder / "tests").mkdir(parents=True)
    return folder


def test_a_library_written_for_jax_runs_over_functad(suite: Path):
    (suite / "some_test.py").write_text(
        "import jax, jax.numpy as jnp, pytest\n"
        "from jax.scipy.stats import norm\n"
        "def test_right():\n    assert jax.grad(jnp.sin)(0.) == 1 and norm.cdf(0.) == 0.5\n"
        "    assert type(jnp.ones(1)).__module__.startswith('functad')\n"
        "def test_wrong():\n    jnp.no_such_name\n"
        "def test_left():\n    pytest.skip('why')\n"
    )
    (suite / "other_test.py").write_text("import no_such_module\n")
    found = outcomes(suite)
    assert {test: outcome for test, (outcome, _) in found.items()} == {
        "other_test.py": "failed",
        "some_test.py::test_right": "passed",
        "some_test.py::test_wrong": "failed",
        "some_test.py::test_left": "skipped",
    }
    assert found["some_test.py::test_wrong"][1].startswith("functad.errors.AbsentNameError")


def test_a_suite_that_was_stopped_goes_on(suite: Path):
    (suite / "some_test.py").write_text(
        "import os, pathlib\n"
        "def test_first():\n    assert not pathlib.Path('second').exists()\n"
        "def test_stops():\n    pathlib.Path('second').touch(); os._exit(1)\n"
        "def test_last():\n    pass\n"
    )
    for after in (["first"], ["first"], ["first", "last", "stops"]):
        found = outcomes(suite)
        ended = sorted(test.partition("::test_")[2] for test, (outcome, _) in found.items() if outcome != "stopped")
        assert ended == [name for name in after if name != "stops"]
    assert found["some_test.py::test_stops"][0] == "stopped"


def test_the_worst_of_the_phases_of_a_test_counts(suite: Path):
    (suite / "some_test.py").write_text(
        "import pytest\n"
        "@pytest.fixture\ndef thing():\n    yield\n    assert False\n"
        "def test_end(thing):\n    pass\n"
        "class TestParts:\n"
        "    def test_slow(self):\n        pytest.fail('Timeout (>40.0s) from pytest-timeout.')\n"
    )
    found = {test.rpartition("::")[2]: outcome for test, (outcome, _) in outcomes(suite).items()}
    assert found == {"test_end": "failed", "test_slow": "timeout"}


def test_tests_are_left_out_by_library_and_pattern(suite: Path):
    assert patterns_of("# why\nchex *pmap*\n\nhaiku a.py::x[1 2]\nchex b.py*\n", "chex") == ["*pmap*", "b.py*"]
    (suite / "tests/test_pmap.py").write_text("def test_left_out():\n    assert False\n")
    (suite / "tests/test_other.py").write_text("def test_kept():\n    pass\n")
    assert list(outcomes(suite, "equinox")) == ["tests/test_other.py::test_kept"]
    for text in (LIST, FAILURES):
        libraries = {line.split()[0] for line in text.read_text().splitlines() if line.strip() and line[0] != "#"}
        assert libraries <= set(LIBRARIES)


def test_a_sample_depends_on_names_alone(suite: Path):
    (suite / "some_test.py").write_text("".join(f"def test_{i}():\n    pass\n" for i in range(40)))
    taken = sum(is_taken(f"some_test.py::test_{i}", 4) for i in range(40))
    assert 5 <= taken <= 15 and len(outcomes(suite, every=4)) == taken


def test_the_table_counts_the_same_tests_on_both_sides(suite: Path):
    records = {
        "functad": {"a": "passed", "b": "failed", "c": "failed", "d": "passed", "e": "skipped", "f": "timeout"},
        "JAX": {"a": "passed", "b": "failed", "c": "passed", "f": "passed"},
    }
    for side, found in records.items():
        record = record_of(suite, "optax", side)
        record.parent.mkdir(exist_ok=True)
        lines = [json.dumps({"test": t, "outcome": o, "error": f"{t}!" * (o == "failed")}) for t, o in found.items()]
        record.write_text("\n".join(lines))
    result = result_of(suite, "optax", 1)
    assert (
        result["failed"] == {"failed": 1, "passed": 1}
        and result["failures"] == {"c": "c!"}
        and result["both"] == {"functad": 1, "JAX": 2, "tests": 3}
    )
    row = table_of({"optax": result}).splitlines()[-1]
    assert row == f"| optax 1.0 | {result['date']} | all | 2 of 4 | 1 | 0 | 1 of 3 | 2 of 3 | 1 | 0 |"
    assert unexplained({"optax": result}, "# why\noptax d\n") == ["optax c: c!"]
    assert not unexplained({"optax": result}, "# why\noptax c*\n")
    with pytest.raises(ValueError, match="has no table"):
        with_table("nothing", row)


def test_what_failed_is_run_over_jax(suite: Path):
    (suite / "some_test.py").write_text(
        "import sys\n"
        "def test_right():\n    pass\n"
        "def test_wrong():\n    assert 'functad' not in sys.modules\n"
        "def test_worse():\n    assert False\n"
    )
    assert len(outcomes(suite)) == 3
    failed = failed_tests(suite, "some library")
    assert failed == ["some_test.py::test_wrong", "some_test.py::test_worse"]
    run(sys.executable, suite, "some library", FAILED, UNLIMITED, failed)  # without JAX, as they need none
    result = result_of(suite, "some library", 1)
    assert result["failed"] == {"passed": 1, "failed": 1} and list(result["failures"]) == failed[:1]
    assert result["both"]["tests"] == 0


def test_what_was_measured_stands_in_the_readme_and_every_failure_has_a_reason():
    results = json.loads(RESULTS.read_text())
    assert set(results) <= set(LIBRARIES)
    text = README.read_text()
    assert with_table(text, table_of(results)) == text, "python -m tests.ecosystem FOLDER --save"
    assert not unexplained(results, FAILURES.read_text())


def test_names_that_are_mentioned_alone_raise_when_they_are_used():
    code = (
        "import as_jax\nas_jax.install()\nimport jax\nassert not isinstance(1, jax.pmap)\n"
        "assert jax._src.interpreters.ad.CustomVJPException\n"
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
