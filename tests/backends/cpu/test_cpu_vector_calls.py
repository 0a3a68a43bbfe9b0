"""Tables in registers, and instructions for the parts of numbers: in vectors, one by one, and without them."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from functad.backends.cpu.compile import frontend, loader, machine
from functad.backends.cpu.scalars import elementary_numba, vector_calls
from functad.primitives.kernels.plain_arithmetic import PLAIN, plain

TABLES = {n: tuple(np.random.default_rng(n).normal(size=n).tolist()) for n in (8, 32, 64)}
ENDS = [0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, 1.0, 0.75, 3.0]
needs_wide_registers = pytest.mark.skipif(not vector_calls.has_wide_registers(), reason="this processor has no AVX-512")


def _value_at(length: int) -> Any:
    return lambda k, x: k.value_at(TABLES[length], k.bits(x), x.dtype)


at_8, at_32, at_64 = (plain(_value_at(n), inline=True) for n in TABLES)
mantissa = plain(lambda k, x: k.frexp(x)[0], inline=True)
exponent = plain(lambda k, x: k.frexp(x)[1], inline=True)
scaled = plain(lambda k, x: k.ldexp(k.constant(1.2345678, x.dtype), x), inline=True)
log_at_ends = plain(lambda k, x: k.log_at_ends(k.constant(7, x.dtype), x), inline=True)
WORDS = {name: globals()[name] for name in ("at_8", "at_32", "at_64", "mantissa", "exponent", "scaled", "log_at_ends")}
for _word in WORDS.values():
    elementary_numba.register(_word)


def _text(word: str) -> str:
    return (
        f"from {__name__} import {word}\n\n\ndef kernel(x, out, start, stop):\n"
        f"    for i in range(start, stop):\n        out[i] = {word}(x[i])\n"
    )


def _compiled(word: str, dtype: type) -> Callable[[np.ndarray], np.ndarray]:
    code = machine.compile_kernels(_text(word), "kernels.py", {"kernel": [np.dtype(dtype)] * 2})
    library = loader.load_object(code, ["kernel"])
    kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(library["kernel"])

    def run(x: np.ndarray) -> np.ndarray:
        assert library  # the code is freed with it
        out, params = np.empty_like(x), np.arange(2)
        slots = np.array([x.ctypes.data, out.ctypes.data])
        kernel(slots.ctypes.data, params.ctypes.data, 0, x.size)
        return out

    return run


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("wide", [pytest.param(True, marks=needs_wide_registers), False])
@pytest.mark.parametrize("word", ["at_8", "at_32", "at_64"])
def test_tables(monkeypatch: pytest.MonkeyPatch, word: str, wide: bool, dtype: type) -> None:
    monkeypatch.setattr(vector_calls, "has_wide_registers", lambda: wide)
    x = np.arange(203, dtype=f"u{np.dtype(dtype).itemsize}").view(dtype)
    np.testing.assert_array_equal(_compiled(word, dtype)(x), WORDS[word](x))
    assert WORDS[word](x)[9] == dtype(TABLES[int(word[3:])][9 % int(word[3:])])


@needs_wide_registers
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("word", ["mantissa", "exponent", "scaled", "log_at_ends"])
def test_instructions_for_parts_of_numbers(word: str, dtype: type) -> None:
    info, rng = np.finfo(dtype), np.random.default_rng(0)
    if word == "scaled":  # to subnormal numbers, 0 and ∞, too
        x = np.arange(info.minexp - info.nmant - 3, info.maxexp + 3).astype(dtype)
    else:
        sizes = rng.uniform(info.minexp - info.nmant, info.maxexp - 1, 203)
        x = np.concatenate([(2.0 ** sizes.astype(np.longdouble)).astype(dtype), [info.smallest_subnormal, info.max]])
    if word == "log_at_ends":
        x = np.concatenate([-x, x, np.array(ENDS, dtype)])
    with np.errstate(all="ignore"):
        wanted = WORDS[word](x)
    run = _compiled(word, dtype)
    np.testing.assert_array_equal(run(x), wanted)
    np.testing.assert_array_equal(np.concatenate([run(v) for v in x.reshape(-1, 1)]), wanted)


@needs_wide_registers
@pytest.mark.parametrize("word", ["at_32", "mantissa", "scaled"])
def test_they_are_instructions_within_loops(word: str) -> None:
    frontend.refresh()
    lines = machine.machine_code(_text(word), {"kernel": [np.dtype(np.float32)] * 2}, fused=False).assembly["kernel"]
    text = "\n".join(line.text for line in lines)
    assert re.search({"at_32": r"vperm[it]2ps", "mantissa": "vgetmantps", "scaled": "vscalefps"}[word], text)
    assert "call" not in text


def test_plain_parts_of_numbers() -> None:
    m, e = PLAIN.frexp(np.array([6.0, 0.75, 5e-324]))
    assert m.tolist() == [1.5, 1.5, 1.0] and e.tolist() == [2, -1, -1074]
    assert PLAIN.ldexp(np.float32(1.5), np.float32(-2.75)) == 1.5 / 8
