"""Ctrl-C and other signals stop compiled functions, wherever they are, and leave everything as it should be."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from functad.backends.cpu.kernels.polls import with_polls
from functad.machine_model import POLL_BUDGET, POLL_WORK
from tests.tools.interrupted_program import FUNCTIONS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


def run(part: str) -> list[str]:
    """The lines that a part of the program prints; it must say nothing on stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.tools.interrupted_program", part], capture_output=True, text=True, timeout=240
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("part", ["loops", "threads"])
def test_whatever_runs_for_ever_is_stopped(part: str) -> None:
    assert run(part) == [f"stopped {name}" for name in FUNCTIONS]


def test_what_a_handler_raises_comes_through() -> None:
    assert run("handler") == ["stopped by a handler"]


def test_sums_without_jit_are_stopped() -> None:
    assert run("unjitted") == ["stopped a sum without jit"]


def test_no_interrupt_is_lost_in_callbacks() -> None:
    assert run("callback") == ["stopped a loop of callbacks"]


def test_donated_arrays_are_intact_or_say_that_they_are_gone() -> None:
    assert run("donation") in (["stopped a donating loop", end] for end in ("intact", "gone"))


def test_the_process_ends_at_once_and_in_silence() -> None:
    # A second Ctrl-C may come when Python is gone already: then the process dies of it.
    arguments = [sys.executable, "-m", "tests.tools.interrupted_program", "at_exit"]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == ["stopped the main thread", "ends"], done.stdout
    assert "functad" not in done.stderr and "threading" not in done.stderr, done.stderr


# --- the text of kernels ------------------------------------------------------------------------------------

SHORT = """for i in range(start, stop):
    for j in range(100):
        out[i] = out[i] + x[j]
"""
LONG = f"""# a comment
for i in range(start, stop):
    total = 0
    for j in range({POLL_WORK}):
        total = total + j % 7
    out[i] = total
"""
BY_BLOCKS = f"""for i in range(start, stop):
    total = 0
    for k in range(2, {POLL_WORK}, 64):
        for j in range(minimum(64, {POLL_WORK} - k)):
            total = total + (j + k) % 7
    out[i] = total
"""
WITHOUT_END = """k = 0
while True:
    if not k < n[0]:
        break
    for i in range(2):
        k = k + 1
out[0] = k
"""


SELDOM = f"""for i in range(start, stop):
    total = 0
    for j in range(16):
        if n[0] > 4:
            for k in range({POLL_BUDGET}):
                total = total + k % 7
    out[i] = total
"""


def interpreted(body: str, token: str, asked: Any, **given: Any) -> None:
    text = f"def kernel({', '.join([*given, *([token] if token else [])])}, start, stop):\n"
    text += "".join(f"    {line}\n" for line in body.splitlines())
    namespace: dict[str, Any] = {"interrupted": asked, "minimum": min}
    exec(text, namespace)
    namespace["kernel"](*given.values(), *([None] if token else []), 0, 1)


def test_short_kernels_are_left_as_they_are() -> None:
    polled = with_polls(SHORT, ["x", "out"])
    assert polled.body == SHORT and not polled.token and polled.work == 302


def test_steps_of_the_range_that_are_many_elements_are_counted() -> None:
    text = "for k in range(128 * start, min(128 * stop, 1000)):\n    out[k] = x[k]\n"
    assert with_polls(text, ["x", "out"]).work > 128


def test_what_may_never_be_done_is_counted_where_it_is() -> None:
    assert with_polls(SELDOM, ["n", "out"]).work < 100
    assert with_polls("out[0] = sqrt(x[0])\n", ["x", "out"]).work == 2


CASES: list[tuple[str, dict[str, Any]]] = [
    (LONG, {}),
    (BY_BLOCKS, {}),
    (WITHOUT_END, {"n": [8 * POLL_BUDGET]}),
    (SELDOM, {"n": [5]}),
]


@pytest.mark.parametrize(("text", "given"), CASES)
def test_long_kernels_ask_now_and_then_and_compute_the_same(text: str, given: dict[str, Any]) -> None:
    polled = with_polls(text, ["n", "out"])
    found, wanted, questions = [0], [0], []

    def never(_: Any) -> bool:
        questions.append(1)
        return False

    interpreted(text, "", never, out=wanted, **given)
    assert not questions
    interpreted(polled.body, polled.token, never, out=found, **given)
    assert found == wanted and 2 <= len(questions) <= 64
    left = [-1]
    interpreted(polled.body, polled.token, lambda _: True, out=left, **given)
    assert left == [-1]


PRODUCTS = """for task in range(start, stop):
    for v in range(task * n // 4, (task + 1) * n // 4):
        for u in range(v * 8 // 2, (v + 1) * 8 // 2):
            rows = minimum(13, 64 - u)
            last = minimum(66, 64 - u)
            for d in range(0, last):
                copy[d] = x[d]
            for r in range(rows):
                gemm_f32(blas, 0, 0, r, 16, 16, copy, x, out)
"""


def test_shares_of_products_ask_at_each_step_whatever_the_sizes() -> None:
    names = ["blas", "n", "x", "copy", "out"]
    polled = with_polls(PRODUCTS, names)
    lines = polled.body.splitlines()
    assert polled.token and sum(f"interrupted({polled.token})" in line for line in lines) == 1
    assert f"interrupted({polled.token})" in lines[3] and "for u in" in lines[2]
    larger = PRODUCTS.replace("66", "76").replace("13", "53")
    assert with_polls(larger, names).body == polled.body.replace("66", "76").replace("13", "53")
    assert with_polls(larger, names, is_long=True).body == with_polls(larger, names).body


def test_copies_beside_products_ask_if_they_are_long() -> None:
    long = PRODUCTS.replace("66", str(POLL_WORK))
    assert "for d_piece in range(0, last, " in with_polls(long, ["blas", "n", "x", "copy", "out"]).body


def test_names_in_a_kernel_are_not_taken_twice() -> None:
    polled = with_polls(LONG.replace("total", "token").replace("j", "i_piece"), ["budget", "out"])
    assert polled.token == "token_2"
