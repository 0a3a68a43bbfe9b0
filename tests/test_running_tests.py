"""`--sample` and `--share`: what `python -m tests` makes of a suite of its own, in processes of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import LONGEST, OF_THE_LONGEST

ROOT = Path(__file__).parent.parent
SUITE = {
    "tests/test_a.py": """
import pytest

@pytest.mark.generated(every=4)
@pytest.mark.parametrize("i", range(10))
def test_generated(i):
    pass

def test_written():
    pass
""",
    "tests/test_b.py": "def test_b(): assert {b}\n",
    "tests/test_c.py": "import pytest\n\ndef test_c(): pytest.skip('no need')\n",
}
INI = "[pytest]\ntestpaths = tests\naddopts = -ra\nmarkers = generated\ncache_dir = cache\n"


@pytest.fixture
def run(tmp_path):
    def run(*arguments, b=True, command=("-m", "tests"), more=None):
        files = {**SUITE, **(more or {}), "pytest.ini": INI, "conftest.py": (ROOT / "conftest.py").read_text("utf-8")}
        files["tests/__main__.py"] = (ROOT / "tests" / "__main__.py").read_text("utf-8")
        (tmp_path / "tests").mkdir(exist_ok=True)
        for name, text in files.items():
            (tmp_path / name).write_text(text.replace("{b}", str(b)), encoding="utf-8")
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
        return subprocess.run(
            [sys.executable, *command, *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
            timeout=120,
        )

    return run


def total(output, outcome):
    """What both processes say in their last lines."""
    lines = re.findall(r"^.* in [\d.]+s.*$", output, re.M)
    return sum(int(n) for line in lines for n in re.findall(rf"(\d+) {outcome}", line))


def test_two_processes_run_each_test_once_and_tell_of_each_file(run):
    done = run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("Running the tests in two processes")
    # The other process may have begun a line.
    told = re.findall(r"\d+% +[\d.]+ s  (tests/test_\w.py): (.*)$", done.stdout, re.M)
    assert dict(told) == {
        "tests/test_a.py": "11 passed",
        "tests/test_b.py": "1 passed",
        "tests/test_c.py": "1 skipped",
    }
    assert total(done.stdout, "passed") == 12 and "no need" in done.stdout and "100%" in done.stdout
    assert "Passed in" in done.stdout.splitlines()[-1]


def test_a_failure_is_told_and_decides(run):
    done = run(b=False)
    assert done.returncode == 1
    assert "FAILED tests/test_b.py::test_b" in done.stdout and "assert False" in done.stdout
    assert total(done.stdout, "passed") == 11 and "FAILED in" in done.stdout.splitlines()[-1]


def test_a_sample_is_a_fixed_part_of_what_is_generated_and_all_else(run):
    listed = [run("--sample", "--collect-only", "-q", command=("-m", "pytest")).stdout for _ in range(2)]
    ids = [re.findall(r"^tests/.*", text, re.M) for text in listed]
    names = [re.split(r"::|\[", name)[1] for name in ids[0]]
    assert ids[0] == ids[1]
    assert names.count("test_generated") == 3 and {"test_written", "test_b", "test_c"} <= set(names)
    assert total(run("--sample").stdout, "passed") == 5


def chosen(run, files):
    """The test functions of a sample, with their files."""
    listed = run("--sample", "--collect-only", "-q", command=("-m", "pytest"), more=files).stdout
    return re.findall(r"^tests/(test_\w+.py)::(\w+)", listed, re.M)


def test_of_a_file_that_takes_long_a_sample_has_the_first_test_and_a_fixed_part_of_the_others(run):
    names = [f"test_{i}" for i in range(1 + 4 * OF_THE_LONGEST)]
    text = "".join(f"def {name}(): pass\n" for name in names)
    found = chosen(run, {f"tests/{LONGEST[0]}": text, f"tests/{LONGEST[-1]}": text, "tests/test_short.py": text})
    assert found == chosen(run, {})
    parts = [[name for file, name in found if file == f] for f in (LONGEST[0], LONGEST[-1], "test_short.py")]
    assert [len(part) for part in parts] == [5, 5, len(names)]
    assert parts[0][0] == parts[1][0] == names[0]
    # By a hash of the tests' names, not by their places: a part of each file of its own.
    assert parts[0] != parts[1] and all(int(part[-1].removeprefix("test_")) > 6 for part in parts)


def test_the_files_that_take_longest_exist():
    assert sorted(LONGEST) == sorted(p.name for p in (ROOT / "tests").rglob("test_*.py") if p.name in LONGEST)


def test_nothing_to_run_is_no_success(run):
    assert run("-k", "absent").returncode == 5
