"""Kernels whose text a primitive's rule has written, on a GPU: the threads of the grid share the text's own range.

Knows the words of that text; neither primitives nor memory.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping, Sequence

from functad.backends.cuda.kernels.emit import CudaKernel
from functad.backends.cuda.kernels.mapping import map_range
from functad.backends.cuda.kernels.shared_steps import of_threads
from functad.dtypes import is_narrow_float
from functad.lowering.nests.printing import Parameter
from functad.lowering.steps import KernelStep
from functad.primitives.loops.text import indented, rounding


def emit_text(step: KernelStep, threads: int) -> CudaKernel:
    """The kernel of a step with a text of its own, for blocks of `threads`.

    Any threads may run any piece of the text's range, so here each thread runs one step of it, or every so many-th.
    """
    mapping = map_range(step.n, threads)
    steps = of_threads("start", step.n)
    begin = steps.one if mapping.one_step else steps.begin
    body = ["stop = start + 1", *in_vocabulary(textwrap.dedent(step.body).strip("\n"), step.parameters).split("\n")]
    body += [] if mapping.one_step else [steps.end]
    return CudaKernel("\n".join([begin[0], *indented(begin[1], body)]) + "\n", step.parameters, mapping)


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
