"""Each tuned number that was compared has a program that it changes, and times of it that are kept."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import numpy as np
import pytest

from benchmarks import report, tuning, tuning_table
from benchmarks.tuning_cases import APART, AVX512, CASES, JITTED, Case
from functad import machine_model
from functad.backends.cpu.compile import masked_loops
from functad.backends.cpu.compile.target import host
from functad.backends.cpu.products import blas
from functad.backends.cpu.products.own import gemm_table

KEPT = report.RESULTS / "tuning" / "zen3.json"
_AVX2 = ["+avx", "+avx2", "+fma"]
pytestmark = pytest.mark.skipif("+avx2" not in host()[1].split(","), reason="the numbers are those of x86-64 with AVX2")


def numbers_of(cases: list[Case]) -> set[str]:
    return {number for case in cases for number in case.numbers.split()}


def test_each_number_that_was_compared_has_a_program():
    assert {*tuning.compared()} == numbers_of([*CASES, *AVX512])


def test_each_number_was_timed_as_it_is():
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    for row in kept["rows"]:
        assert next(iter(row["microseconds"])) == str(getattr(machine_model, row["number"])), row["number"]
    assert {row["number"] for row in kept["rows"]} == numbers_of(CASES)
    assert KEPT.with_suffix(".md").read_text(encoding="utf-8") == tuning.table(kept)


@contextmanager
def two_cores(features: list[str], *, is_direct: bool) -> Iterator[None]:
    """A machine with two cores of these features. is_direct: whether OpenBLAS reads matrices where they lie."""
    with ExitStack() as stack:
        for module in [m for name, m in sys.modules.items() if name.startswith("functad.") and m is not None]:
            if "available_cores" in vars(module):
                stack.enter_context(patch.object(module, "available_cores", lambda: (2, "")))
        stack.enter_context(patch.object(gemm_table, "processor", lambda: ("", ",".join(features))))
        stack.enter_context(patch.object(masked_loops, "has_masked_vectors", lambda: "+avx512f" in features))
        for function in (blas.has_thin_products, blas.is_narrow, blas._is_direct):
            function.cache_clear()
        stack.callback(blas.has_thin_products.cache_clear)
        stack.callback(blas.is_narrow.cache_clear)
        stack.enter_context(patch.object(blas, "_is_direct", lambda dtype: is_direct))
        for name in ("_handle_of_panels", "_handle_of_direct"):  # their machine code need not be made
            handle = np.zeros(1, np.int64)
            stack.enter_context(patch.object(blas, name, lambda dtype, handle=handle: handle))
        yield


def pairs(cases: list[Case]) -> list[tuple[str, Case]]:
    return [pytest.param(n, c, id=f"{n}-{c.title}") for c in cases if c.way != APART for n in c.numbers.split()]


@pytest.mark.parametrize(("number", "case"), pairs(CASES))
def test_another_value_changes_the_program(number, case):
    with two_cores(_AVX2, is_direct=False):
        assert any(True for _ in tuning_table.changing(case, number))


@pytest.mark.parametrize(("number", "case"), pairs(AVX512))
def test_another_value_changes_the_program_with_avx512(number, case):
    with two_cores([*_AVX2, "+avx512f"], is_direct=True):
        assert any(True for _ in tuning_table.changing(case, number))


def test_what_decides_nothing_is_seen():
    case = Case("RUNNING_BLOCK", "sines", np.sin, "f32[10]", JITTED)
    assert [*tuning_table.changing(case, "RUNNING_BLOCK")] == []
