"""Kernels translated from their text: what each statement does, as in Python, and what is left to Numba's front end."""

from __future__ import annotations

import textwrap
import weakref
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba", reason="Numba is not installed: the compiled kernels need it")

from functad import machine_model
from functad.backends.cpu.compile import frontend, machine, translation
from functad.backends.cpu.compile.loader import load_object
from functad.backends.cpu.compile.target import has_masked_vectors
from functad.errors import CompilationError
from functad.system.garbage import collection_paused
from tests.backends.cpu.test_cpu_machine import run

PREAMBLE = "from math import inf\nfrom functad.backends.cpu.scalars.elementary import f32, i64, maximum, where\n"

# Name → the body of a kernel of int64 x and out, start and stop: all of it is translated in the short way.
SIMPLE = {
    "a variable that is set again": """
        total = 0
        for i in range(start, stop):
            total = total + x[i]
            out[i] = total
    """,
    "what is set under a condition": """
        last = -1
        for i in range(start, stop):
            if x[i] > 3:
                last = i
            out[i] = last
    """,
    "a choice": """
        for i in range(start, stop):
            out[i] = x[i] if x[i] % 2 == 0 else -x[i]
    """,
    "elif, and, or, not": """
        for i in range(start, stop):
            if x[i] > 2 and x[i] < 5 or x[i] == 7:
                out[i] = 1
            elif not (x[i] > 1 or i % 3 == 0):
                out[i] = 2
            else:
                out[i] = 3
    """,
    "break and continue": """
        for i in range(start, stop):
            found = -1
            for j in range(10):
                if (x[i] + j) % 4 != 3:
                    continue
                found = j
                break
            out[i] = found
    """,
    "a loop of one step, left early": """
        for i in range(start, stop):
            out[i] = 0
            for once in range(3, 4):
                if x[i] > 4:
                    continue
                out[i] = 1
                if x[i] > 2:
                    break
                out[i] = once
    """,
    "while, and a way out": """
        for i in range(start, stop):
            n = x[i]
            steps = 0
            while n > 1:
                n = n // 2 if n % 2 == 0 else 3 * n + 1
                steps = steps + 1
            out[i] = steps
            while True:
                steps = steps + 1
                if steps > 20:
                    break
            out[i] = out[i] * 100 + steps
    """,
    "a return in the middle": """
        for i in range(start, stop):
            if i == 5:
                return
            out[i] = x[i]
    """,
    "ranges": """
        for i in range(start, stop):
            out[i] = 0
            for j in range(x[i]):
                out[i] = out[i] + 1
            for j in range(2, x[i] + 3, 2):
                out[i] = out[i] + 10 * j
            for j in range(x[i], 3):
                out[i] = out[i] + 1000
            for j in range(5, 5):
                out[i] = -1
    """,
    "updates": """
        for i in range(start, stop):
            value = x[i]
            value += 3
            out[i] = 2
            out[i] *= value
            out[i] -= i
    """,
    "known integers": """
        for i in range(start, stop):
            group = 0
            one = 1
            out[i] = group * 7 + x[i] * one + (2 * 3 - group) - 0 + 0 * x[i] + (0 - x[i]) // one + (one - 3) % 5
    """,
    "shifts and bits": """
        for i in range(start, stop):
            out[i] = (x[i] << 2 | 1) ^ (x[i] & ~6) >> 1
    """,
    "words of the vocabulary": """
        for i in range(start, stop):
            out[i] = maximum(x[i], 4) + where(x[i] > 2, x[i], -1) + min(x[i], 3, i) + max(i, 2) + abs(-x[i])
    """,
    "several results of one function": """
        rest = 0
        for i in range(start, stop):
            whole, left = divmod(x[i] + rest, 3)
            whole, rest = divmod(10 * whole + left, 7)
            out[i] = 100 * whole + rest
    """,
    "numbers from elsewhere": """
        for i in range(start, stop):
            if x[i] * 1.5 < inf and f32(0.5) * f32(x[i]) >= -1.0:
                out[i] = x[i]
    """,
}

# What is left to Numba, with the reason.
OTHERS = {
    "a variable of two types": """
        for i in range(start, stop):
            value = 1
            value = value + 0.5 * x[i]
            out[i] = i64(value)
    """,
    "no range": """
        for i, j in zip(range(start, stop), range(start, stop)):
            out[i] = x[j]
    """,
    "another range": """
        for i in range(stop - 1, start - 1, -1):
            out[i] = x[i]
    """,
    "a chain of comparisons": """
        for i in range(start, stop):
            out[i] = x[i]
            if 1 < x[i] < 5:
                out[i] = 0
    """,
    "Pow": """
        for i in range(start, stop):
            out[i] = x[i] ** 2
    """,
    "a number as a condition": """
        for i in range(start, stop):
            out[i] = 1
            if x[i]:
                out[i] = 2
    """,
    "several results, of which one is an element": """
        for i in range(start, stop):
            whole, out[i] = divmod(x[i], 3)
            out[i] = out[i] + 10 * whole
    """,
    "a swap": """
        for i in range(start, stop):
            first, second = x[i], i + 1
            first, second = second, first
            out[i] = 10 * first + second
    """,
    "two targets": """
        for i in range(start, stop):
            value = other = x[i]
            out[i] = value + other
    """,
    "else": """
        for i in range(start, stop):
            out[i] = x[i]
        else:
            out[0] = 7
    """,
}


@pytest.fixture
def left_to_numba(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions that Numba's front end translates."""
    lower = frontend.lower
    names: list[str] = []

    def seen(function: Any, *given: Any, **options: Any) -> Any:
        names.append(function.__name__)
        return lower(function, *given, **options)

    monkeypatch.setattr(frontend, "lower", seen)
    return names


def results(body: str) -> tuple[np.ndarray, np.ndarray]:
    """What a kernel makes of 0 to 8, compiled and in Python."""
    source = f"{PREAMBLE}\ndef kernel(x, out, start, stop):\n{textwrap.indent(textwrap.dedent(body), '    ')}"
    addresses = load_object(machine.compile_kernels(source, "k.py", {"kernel": [np.dtype("int64")] * 2}), ["kernel"])
    x = np.arange(9)
    compiled, plain = np.full(9, -7), np.full(9, -7)
    run(addresses, "kernel", x, compiled)
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    namespace["kernel"](x.tolist(), listed := plain.tolist(), 0, 9)
    return compiled, np.array(listed)


@pytest.mark.parametrize("name", SIMPLE)
def test_statements_do_what_they_do_in_python(name: str, left_to_numba: list[str]) -> None:
    compiled, plain = results(SIMPLE[name])
    np.testing.assert_array_equal(compiled, plain)
    assert "kernel" not in left_to_numba


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_not_simple_is_left_to_numba(name: str, left_to_numba: list[str]) -> None:
    compiled, plain = results(OTHERS[name])
    np.testing.assert_array_equal(compiled, plain)
    assert "kernel" in left_to_numba


def test_what_numba_does_not_understand_is_refused_by_name(left_to_numba: list[str]) -> None:
    with pytest.raises(CompilationError, match="kernel .*k.py"):
        results("for i in range(start, stop):\n    out[i] = x[i].unknown\n")


@pytest.mark.parametrize("dtype", ["bool", "float16", "float32", "complex64", "uint8"])
def test_elements_of_every_kind_are_read_and_written(dtype: str, left_to_numba: list[str]) -> None:
    source = """
def kernel(x, y, out, start, stop):
    for i in range(start, stop):
        out[i] = x[i] if i % 2 == 0 else y[i]
"""
    random = np.random.default_rng(0)
    x, y = (random.integers(0, 2 if dtype == "bool" else 9, 20).astype(dtype) for _ in range(2))
    addresses = load_object(machine.compile_kernels(source, "k.py", {"kernel": [np.dtype(dtype)] * 3}), ["kernel"])
    run(addresses, "kernel", x, y, out := np.zeros_like(x))
    np.testing.assert_array_equal(out, np.where(np.arange(20) % 2 == 0, x, y))
    assert not left_to_numba


def test_loops_of_one_step_are_none() -> None:
    source = """
def kernel(out, start, stop):
    for i in range(start, stop):
        for j in range(2, 3):
            out[i] = j
"""
    (lowered,) = machine._kernels(source, "k.py", {"kernel": [np.dtype("int64")]}, {}, fused=False)
    assert str(lowered.function).count("phi") == 2  # of the one loop: its number, and how many are left


@pytest.mark.skipif(not has_masked_vectors(), reason="this processor has no vectors with masks")
@pytest.mark.parametrize(
    ("element", "is_masked"),
    [("x[i]", True), ("x[i + 2] + x[0]", True), ("x[2 * i]", False), ("x[x[i]]", False), ("x[9 - i]", False)],
)
def test_only_loops_along_memory_have_masks(element: str, is_masked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # Else they would go one by one: the search of a place among sorted numbers took six times as long.
    monkeypatch.setattr(machine_model, "LONG_LOOP", 1)
    source = f"def kernel(x, out, start, stop):\n    for i in range(start, stop):\n        out[i] = {element}\n"
    (lowered,) = machine._kernels(source, "k.py", {"kernel": [np.dtype("int64")] * 2}, {}, fused=False)
    assert ("llvm.loop" in str(lowered.function)) == is_masked


def test_what_kernels_have_in_common_is_remembered_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_model, "MOST_REMEMBERED", 3)
    monkeypatch.setattr(translation, "_constants", {})
    monkeypatch.setattr(translation, "_operations", {})
    source = "def kernel(x, out, start, stop):\n    for i in range(start, stop):\n"
    source += "".join(f"        out[{k} + i] = x[i] * {float(k)} + {k}\n" for k in range(9))
    source += "        out[i] = x[i] - 0.0 + -0.0\n"
    (lowered,) = machine._kernels(source, "k.py", {"kernel": [np.dtype("float64")] * 2}, {}, fused=False)
    assert len(translation._constants) <= 3 and len(translation._operations) <= 3
    assert str(lowered.function).count("0x8000000000000000") == 1  # the zeros are not taken for one another


def test_instructions_go_with_the_text_without_a_search_for_garbage() -> None:
    source = PREAMBLE + "def kernel(x, out, start, stop):" + SIMPLE["a choice"]
    signatures = {"kernel": [np.dtype("int64")] * 2}
    with collection_paused():
        (part,) = machine._kernels(source, "kernels.py", signatures, {}, fused=False)
        instruction = weakref.ref(part.library.module.functions[0].blocks[0].instructions[0])
        text = part.library.get_llvm_str()
        assert instruction() is None and part.library.get_llvm_str() is text
