"""Convolutions on CUDA: matrix products whose matrices are read from where their elements lie, tile by tile.

Knows what a convolution sums and where its elements lie; nothing of Programs. Both gradients of a convolution are
convolutions, with other steps and dilations, so that this is their kernel, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from functad.backends.cuda.emit import SHARED_TYPES, CudaKernel
from functad.backends.cuda.mapping import LoopMapping, MappedLoop
from functad.lowering.steps import ConvolutionStep
from functad.primitives.loops.convolution_geometry import Convolution
from functad.primitives.loops.kernel_text import KernelText, total
from functad.primitives.loops.text import cast


def emit_convolution(step: ConvolutionStep, tile: int) -> CudaKernel:
    """The kernel `out[place, output] = Σ_term input(place, term) · weight(term, output)`, for each group.

    A place is an image and a position in it, a term a feature and a tap. A block sums a tile of tile × tile results
    from tiles in shared memory, for which its threads find the elements. Padding is multiplied, too, as a weight may be
    infinite.
    """
    conv, text, t = step.conv, KernelText(), cast(step.out.dtype)
    places, terms = conv.batch * conv.positions, conv.features * conv.taps
    rows, columns = -(-places // tile), -(-conv.outputs // tile)
    kind = SHARED_TYPES.get(step.out.dtype.name, step.out.dtype.name)
    for name in ("inputs", "weights"):
        text.line(f"{name} = cuda.shared.array((TILE, TILE), {kind})")
    text.line("x = cuda.threadIdx.x % TILE", "y = cuda.threadIdx.x // TILE")
    with text.loop("part", "cuda.blockIdx.x", conv.groups * rows * columns, "cuda.gridDim.x"):
        _write_index(text, "part", [("g", conv.groups), ("row", rows), ("column", columns)])
        text.line("place = row * TILE + y", "o = column * TILE + x", f"acc = {t}(0)")
        _write_index(text, "place", [("n", conv.batch), *((f"i{a}", s.count) for a, s in enumerate(conv.axes))])
        with text.loop("first", 0, terms, "TILE"):
            text.line(f"inputs[y, x] = {t}(0)", f"weights[y, x] = {t}(0)")
            with text.block(f"if place < {places} and first + x < {terms}:"):
                _write_index(text, "first + x", _terms(conv))
                _write_input(text, conv)
            with text.block(f"if o < {conv.outputs} and first + y < {terms}:"):
                _write_index(text, "first + y", _terms(conv))
                taps = [(f"k{a}", axis.rhs_step) for a, axis in enumerate(conv.axes)]
                weight = total(*zip(("g", "o", "c"), conv.rhs_steps, strict=True), *taps, conv.rhs_start)
                text.line(f"weights[y, x] = rhs[{weight}]")
            text.line("cuda.syncthreads()")
            with text.loop("k", "TILE"):
                text.line(f"acc = {t}(acc + inputs[y, k] * weights[k, x])")
            text.line("cuda.syncthreads()")
        with text.block(f"if place < {places} and o < {conv.outputs}:"):
            positions = [(f"i{a}", axis.out_step) for a, axis in enumerate(conv.axes)]
            result = total(*zip(("n", "g", "o"), conv.out_steps, strict=True), *positions, conv.out_start)
            text.line(f"out[{result}] = acc")
    mapping = LoopMapping(
        block=(MappedLoop("g", conv.groups), MappedLoop("row", rows), MappedLoop("column", columns)),
        thread=(MappedLoop("y", tile), MappedLoop("x", tile)),
        serial=(MappedLoop("term", terms),),
    )
    return CudaKernel(f"{text}\n", step.parameters, mapping)


def _terms(conv: Convolution) -> list[tuple[str, int]]:
    return [("c", conv.features), *((f"k{a}", axis.window) for a, axis in enumerate(conv.axes))]


def _write_index(text: KernelText, number: str, sizes: Sequence[tuple[str, int]]) -> None:
    """Assign to each name its share of a row-major number."""
    step = math.prod(size for _, size in sizes)
    for name, size in sizes:
        step //= size
        quotient = f"({number}) // {step}" if step > 1 else f"({number})"
        text.line(f"{name} = {quotient} % {size}" if size > 1 else f"{name} = 0")


def _write_input(text: KernelText, conv: Convolution) -> None:
    """The input of a place and a term, unless it lies in the padding, or between elements of a dilated input."""
    where: list[tuple[str, int]] = list(zip(("n", "g", "c"), conv.lhs_steps, strict=True))
    tests = []
    for a, axis in enumerate(conv.axes):
        text.line(f"j{a} = {total((f'i{a}', axis.stride), (f'k{a}', axis.dilation), -axis.low)}")
        where.append((f"j{a}" if axis.base == 1 else f"(j{a} // {axis.base})", axis.lhs_step))
        if not axis.inside:
            tests += [f"j{a} >= 0", f"j{a} < {(axis.size - 1) * axis.base + 1}"]
            tests += [f"j{a} % {axis.base} == 0"] if axis.base > 1 else []
    with text.block(*([f"if {' and '.join(tests)}:"] if tests else [])):
        text.line(f"inputs[y, x] = lhs[{total(*where)}]")
