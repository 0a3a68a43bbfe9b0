"""Kernels whose text a primitive's rule has written, on a GPU: the threads of the grid share the text's own range.

Knows the words of that text; neither primitives nor memory.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Mapping, Sequence

from functad.backends.cuda.kernels.emit import CudaKernel
from functad.backends.cuda.kernels.mapping import map_range
from functad.dtypes import is_narrow_float
from functad.lowering.nests.printing import Parameter
from functad.lowering.steps import KernelStep
from functad.primitives.loops.text import rounding

_RANGE = "range(start, stop)"
_BOUND = re.compile(r"\b(?:start|stop)\b")


def emit_text(step: KernelStep, threads: int) -> CudaKernel:
    """The kernel of a step with a text of its own, for blocks of `threads`.

    Any threads may run any piece of the text's range, so here each thread runs one step of it, or every so many-th.
    """
    mapping = map_range(step.n, threads)
    every = step.n if mapping.one_step else "cuda.gridsize(1)"
    body = in_vocabulary(textwrap.dedent(step.body).strip("\n"), step.parameters)
    if _RANGE in body and not _BOUND.search(body.replace(_RANGE, "")):
        body = body.replace(_RANGE, f"range(cuda.grid(1), {step.n}, {every})")
    else:
        head = f"for start in range(cuda.grid(1), {step.n}, {every}):\n"
        head += "    stop = start + 1\n" if _BOUND.search(body) else ""
        body = head + textwrap.indent(body, "    ")
    return CudaKernel(body + "\n", step.parameters, mapping)


def in_vocabulary(body: str, given: Sequence[Parameter]) -> str:
    """The text of a kernel of these parameters, in words that there are on CUDA."""
    narrow = {name: rounding(b.dtype) for name, b, _ in given if is_narrow_float(b.dtype)}
    if not narrow:
        return body
    return ast.unparse(ast.fix_missing_locations(_ForCuda(narrow).visit(ast.parse(body))))


class _ForCuda(ast.NodeTransformer):
    """Writes what the CPU's compiler knows by itself: elements of arrays of patterns.

    narrow: arrays of floats of 16 bits, and of each the cast that rounds to its dtype. Their elements are float32.
    """

    def __init__(self, narrow: Mapping[str, str]) -> None:
        self.narrow = narrow

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        dtype = self._dtype(node)
        if dtype is None or isinstance(node.ctx, ast.Store):
            return node
        return _call(f"from_bits_{dtype}", node)

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        self.generic_visit(node)
        (target,) = node.targets
        dtype = self._dtype(target)
        if dtype is not None:
            node.value = _call(f"bits_{dtype}", node.value)
        return node

    def _dtype(self, node: ast.expr) -> str | None:
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            return self.narrow.get(node.value.id)
        return None


def _call(function: str, argument: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(function, ast.Load()), [argument], [])
