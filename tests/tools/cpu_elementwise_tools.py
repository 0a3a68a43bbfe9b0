"""Kernels of one element-wise primitive each, compiled and as plain Python, and the values that they are tried on."""

from __future__ import annotations

import ctypes
import itertools
import re
import tokenize
from collections.abc import Sequence
from io import StringIO
from typing import Any

import numpy as np

from functad.backends.cpu.compile import loader, machine
from functad.backends.cpu.scalars import complex as complex_scalars
from functad.backends.cpu.scalars import elementary as scalars
from functad.backends.cpu.scalars import exact as exact_scalars
from functad.backends.cpu.scalars import special as special_scalars
from functad.backends.cpu.scalars import special_numba as special_numba
from functad.evaluation import implementation
from functad.ir import Aval, Primitive
from functad.lowering_rules import Scalar
from functad.primitives.loops.text import CASTS

INTRINSICS = {
    name: module.__name__
    for module in (scalars, exact_scalars, complex_scalars, special_scalars)
    for name, word in vars(module).items()
    if hasattr(word, "formula") or hasattr(word, "routine") or name in ("accumulate", "inf", "nan")
}
DTYPES = [np.dtype(t) for t in "? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16".split()]


class Case:
    """One primitive for one list of operand dtypes and parameters."""

    def __init__(self, primitive: Primitive, operands: Sequence[np.dtype], **params: Any) -> None:
        self.primitive = primitive
        self.operands = tuple(operands)
        self.params = params
        results = primitive.abstract_eval(*[Aval((3,), d) for d in operands], **params)
        self.results = [a.dtype for a in (results if primitive.multiple_results else [results])]
        described = "_".join(str(v) for v in params.values()).replace("-", "minus")
        self.name = re.sub(r"\W", "_", "_".join([primitive.name, *(d.name for d in operands), described]))

    def expression(self) -> str:
        rule = self.primitive.lower
        assert isinstance(rule, Scalar), f"{self.primitive.name} has no rule for loops"
        text = rule.expression
        if callable(text):
            text = text(self.operands if rule.all_dtypes else self.operands[0], **self.params)
        values = [f"a{i}" for i in range(len(self.operands))]
        return text.format(*values, T=CASTS[self.operands[0].name], R=CASTS[self.results[0].name])

    def expected(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        with np.errstate(all="ignore"):
            results = implementation(self.primitive, self.operands)(*arrays, **self.params)
        return list(results) if self.primitive.multiple_results else [results]


class Kernel:
    """One loop for several cases of the same operands' dtypes, which compiles faster than a loop for each."""

    def __init__(self, cases: Sequence[Case], operands: Sequence[np.ndarray]) -> None:
        self.cases = list(cases)
        self.operands = list(operands)
        self.name = "kernel_" + cases[0].name
        self.results = [dtype for case in cases for dtype in case.results]

    def text(self) -> str:
        """The text of the kernel, as the compiler's emitter would write it."""
        names = [f"x{i}" for i in range(len(self.operands))]
        outs = [f"y{i}" for i in range(len(self.results))]
        lines = [f"def {self.name}({', '.join([*names, *outs])}, start, stop):", "    for i in range(start, stop):"]
        for i, x in enumerate(self.operands):
            lines.append(f"        a{i} = " + (f"f32(x{i}[i])" if x.dtype == np.float16 else f"x{i}[i]"))
        remaining = iter(range(len(outs)))
        for case in self.cases:
            numbers = [next(remaining) for _ in case.results]
            lines.append(f"        {', '.join(f'r{n}' for n in numbers)} = {case.expression()}")
            for n, dtype in zip(numbers, case.results):
                cast = CASTS[dtype.name] if dtype.kind in "iu" else "f16" if dtype == np.float16 else ""
                lines.append(f"        y{n}[i] = " + (f"{cast}(r{n})" if cast else f"r{n}"))
        return "\n".join(lines) + "\n"

    def outputs(self) -> list[np.ndarray]:
        return [np.empty(self.operands[0].size, dtype) for dtype in self.results]

    def by_case(self, outs: Sequence[np.ndarray]) -> dict[str, list[np.ndarray]]:
        remaining = iter(outs)
        return {case.name: [next(remaining) for _ in case.results] for case in self.cases}


def module_text(kernels: Sequence[Kernel]) -> str:
    body = "\n\n".join(kernel.text() for kernel in kernels)
    used = {token.string for token in tokenize.generate_tokens(StringIO(body).readline)}
    imports = [f"from {module} import {name}" for name, module in INTRINSICS.items() if name in used]
    return "\n".join(imports) + "\n\n\n" + body


def run_plain(kernels: Sequence[Kernel]) -> dict[str, list[np.ndarray]]:
    """The results of every case, its text run by Python."""
    namespace: dict[str, Any] = {}
    exec(module_text(kernels), namespace)
    results = {}
    for kernel in kernels:
        outs = kernel.outputs()
        with np.errstate(all="ignore"):
            namespace[kernel.name](*kernel.operands, *outs, 0, outs[0].size)
        results.update(kernel.by_case(outs))
    return results


def run_compiled(kernels: Sequence[Kernel]) -> dict[str, list[np.ndarray]]:
    """The results of every case, compiled to machine code."""
    signatures = {k.name: (*[x.dtype for x in k.operands], *k.results) for k in kernels}
    code = machine.compile_kernels(module_text(kernels), "elementwise.py", signatures)
    library = loader.load_object(code, list(signatures))
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    results = {}
    for kernel in kernels:
        outs = kernel.outputs()
        slots = np.array([a.ctypes.data for a in (*kernel.operands, *outs)], np.int64)
        call(library[kernel.name])(slots.ctypes.data, np.arange(slots.size).ctypes.data, 0, outs[0].size)
        results.update(kernel.by_case(outs))
    return results


# --- values -----------------------------------------------------------------------------------------


def values(dtypes: Sequence[np.dtype], n: int, seed: int = 0) -> list[np.ndarray]:
    """Operands that meet each other in all combinations of special values (of two), then at random."""
    rng = np.random.default_rng(seed)
    pools = [pool(d, rng) for d in dtypes]
    rows = list(itertools.product(*[p[0] for p in pools])) if len(dtypes) == 2 else []
    columns = []
    for i, (special, usual) in enumerate(pools):
        random = np.where(rng.random(n) < 0.4, rng.choice(special, n), rng.choice(usual, n)).astype(dtypes[i])
        start = special if len(dtypes) == 1 else np.array([row[i] for row in rows], dtypes[i])
        columns.append(np.concatenate([start, random]))
    return columns


def pool(dtype: np.dtype, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Special values of a dtype, and usual ones."""
    if dtype.kind == "b":
        return np.array([False, True]), rng.random(10) < 0.5
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        special = {
            0,
            1,
            2,
            3,
            7,
            8,
            31,
            32,
            63,
            64,
            info.max,
            info.max - 1,
            info.max // 2,
            -1,
            -2,
            -8,
            info.min,
            info.min + 1,
        }
        usual = rng.integers(info.min, info.max, 300, dtype, endpoint=True)
        usual[::3] >>= usual.dtype.type(4 * dtype.itemsize)
        return np.array([v for v in special if info.min <= v <= info.max], dtype), usual
    if dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        few = np.array([0, -0.0, 1, -1, 0.5, 3, -20, np.inf, -np.inf, np.nan], part)
        special, usual = np.empty(few.size**2, dtype), np.empty(600, dtype)
        special.real, special.imag = (g.ravel() for g in np.meshgrid(few, few))
        usual.real, usual.imag = rng.normal(size=600) * 3, rng.normal(size=600) * 3
        return special, usual
    info = np.finfo(dtype)
    above = [0, info.smallest_subnormal, info.tiny, info.max, 0.5, 1, 1.5, 2, 2.5, 3, 100, np.inf]
    above += [np.nextafter(dtype.type(0.5), dtype.type(0)), np.nextafter(dtype.type(1), dtype.type(0)), info.eps]
    with np.errstate(all="ignore"):
        spread = rng.choice([-1.0, 1], 300) * 10 ** rng.uniform(-10, 10, 300)
        usual = np.concatenate([rng.uniform(-3, 3, 300), rng.uniform(-1, 1, 300), rng.normal(size=300) * 20, spread])
        return np.array([*above, *(-v for v in above), np.nan]).astype(dtype), usual.astype(dtype)
