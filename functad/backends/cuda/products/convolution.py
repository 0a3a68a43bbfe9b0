"""Convolutions on CUDA: matrix products whose matrices are read from where their elements lie, tile by tile.

Knows what a convolution sums and where its elements lie; nothing of Programs. Both gradients of a convolution are
convolutions, with other steps and dilations, so that this is their kernel, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from functad import machine_model
from functad.backends.cuda.kernels.emit import SHARED_TYPES, CudaKernel
from functad.backends.cuda.kernels.mapping import LoopMapping, MappedLoop
from functad.backends.cuda.kernels.shared_steps import of_blocks, of_threads
from functad.backends.cuda.products.convolution_tiles import Sums, Tiling, best_tiling, is_direct, terms_of_part
from functad.backends.cuda.products.epilogues import joined_with
from functad.backends.cuda.products.kernels import COLUMN, ROW, Ending
from functad.backends.cuda.scalars.registry import HAS_ALIGNED_MEMORY
from functad.backends.cuda.scalars.words import WIDTH
from functad.dtypes import kind_of
from functad.lowering.memory.buffers import Storage, new_buffer
from functad.lowering.nests.affine import linear, loop
from functad.lowering.nests.names import words_in
from functad.lowering.nests.nest import POST, PRE, Accumulator, Load, Nest, Store
from functad.lowering.nests.printing import Parameter, kernel_parameters
from functad.lowering.steps import ConvolutionStep, GemmStep, NestStep, Step
from functad.primitives.loops.convolution_geometry import Convolution, ConvolutionAxis
from functad.primitives.loops.kernel_text import KernelText, total, write_index
from functad.primitives.loops.text import cast

_PADDED = WIDTH  # elements behind a row in shared memory: what lies in one column is in several banks


def sums_of(step: ConvolutionStep) -> Sums:
    """How many results and terms a convolution has."""
    conv = step.conv
    places, terms = conv.batch * conv.positions, conv.features * conv.taps
    return Sums(conv.groups, places, conv.outputs, terms, step.out.dtype.itemsize)


@dataclass(eq=False)
class JoinedConvolution(ConvolutionStep):
    """A convolution, and the nests that are computed of its results; is_kept: whether somebody else reads these."""

    nests: Sequence[NestStep] = ()
    is_kept: bool = True

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """With those of the nests: so steps are kept from moving past what these read and write."""
        return (*super().parameters, *(p for step in self.nests for p in kernel_parameters(step.nest).values()))


def joined_convolutions(steps: Sequence[Step], touched: Mapping[Storage, int]) -> list[Step]:
    """The steps in order, where convolutions take in the nests after them that are computed of each result.

    touched: how many places of the whole Program use each piece of memory.
    """
    found: list[Step] = []
    k = 0
    while k < len(steps):
        step = steps[k]
        k += 1
        if isinstance(step, ConvolutionStep) and step.parts == 1 and sums_of(step).results == step.out.size:
            joined = joined_with([_as_product(step)], steps[k : k + machine_model.CUDA_JOINED_NESTS], touched)
            k += len(joined.nests)
            step = JoinedConvolution(
                step.name, step.conv, step.lhs, step.rhs, step.out, step.eqns, 1, joined.nests, joined.is_kept
            )
        found.append(step)
    return found


def _as_product(step: ConvolutionStep) -> GemmStep:
    """A product with the same operands, and a row of the same results: what follows at each of them is told of it."""
    size = step.out.size
    return GemmStep(step.name, step.lhs, step.rhs, step.out, 0, 0, 1, size, 1, 1, size, size)


def in_parts(steps: Sequence[Step], threads: int) -> list[Step]:
    """The steps, where a convolution with few results of many terms is two: parts of its sums, and their sums."""
    return [part for step in steps for part in _parts_of(step, threads)]


def _parts_of(step: Step, threads: int) -> list[Step]:
    if not isinstance(step, ConvolutionStep) or step.parts > 1 or is_direct(sums_of(step), threads):
        return [step]
    parts = best_tiling(sums_of(step), threads).parts
    if parts == 1 or sums_of(step).results != step.out.size:
        return [step]
    out, dtype = step.out, step.out.dtype
    partial = new_buffer(f"parts_{out.name}", (parts, out.size), dtype)
    i, q = loop("i", out.size), loop("q", parts)
    loops = [s for index in (i, q) for s, _ in index.terms]
    nest = Nest(loops, [s.name == "q" for s in loops], eqns=step.eqns)
    nest.statements = [Load("at_part", partial, linear([q, i], partial.shape), PRE)]
    nest.accumulators = [Accumulator("total", "sum", dtype, "at_part", step.eqns[-1])]
    nest.stores = [Store(out, i, "total", POST)]
    return [replace(step, out=partial, parts=parts), NestStep(f"sum_{step.name}", nest, step.eqns)]


def emit_convolution(step: ConvolutionStep, threads: int, vocabulary: Set[str] = frozenset()) -> CudaKernel:
    """The kernel `out[place, output] = Σ_term input(place, term) · weight(term, output)`, for each group.

    A place is an image and a position in it, a term a feature and a tap. Padding is multiplied, too, as a weight may be
    infinite. vocabulary: names that those of nests are kept apart from.
    """
    sums = sums_of(step)
    nests, is_kept = (step.nests, step.is_kept) if isinstance(step, JoinedConvolution) else ((), True)
    ending = Ending(_as_product(step), [nest.nest for nest in nests], is_kept, {*vocabulary, "lhs", "rhs"})
    if step.parts == 1 and is_direct(sums, threads):
        return _direct(step, ending)
    tiling = best_tiling(sums, threads)
    if step.parts != tiling.parts:
        tiling = tiling._replace(parts=step.parts)
    return _Tiles(step, tiling, ending).kernel()


def _write_result(text: KernelText, ending: Ending, place: str, value: str) -> None:
    """What becomes of the sum of a result that lies at a place."""
    text.line(f"{ROW} = 0", f"{COLUMN} = {place}", f"value = {value}")
    ending.lines(text, words_in(str(text)))


def _with_product(step: ConvolutionStep, acc: str, x: str, y: str) -> str:
    """A sum with one more product, of floats not rounded first; short integers come back to their dtype by a cast."""
    dtype = step.out.dtype
    if kind_of(dtype) in "fc":
        return f"add_product({acc}, {x}, {y})"
    return f"{cast(dtype)}({acc} + {x} * {y})"


def _parameters(step: ConvolutionStep, ending: Ending) -> tuple[Parameter, ...]:
    return (("lhs", step.lhs, "r"), ("rhs", step.rhs, "r"), *ending.parameters)


# --- without tiles ----------------------------------------------------------------------------------------


def _direct(step: ConvolutionStep, ending: Ending) -> CudaKernel:
    """Each thread sums all outputs of a place."""
    conv, text, t = step.conv, KernelText(), cast(step.out.dtype)
    places = conv.batch * conv.positions
    outputs = range(conv.outputs)
    with of_threads("point", conv.groups * places).within(text):
        write_index(text, "point", [("g", conv.groups), *_sizes(_place_loops(conv), "")])
        text.line(*[f"acc_{o} = {t}(0)" for o in outputs])
        depth = text.depth
        for name, size, _ in _term_loops(conv):
            text.open(f"for {name} in range({size}):") if size > 1 else text.line(f"{name} = 0")
        weight = [(name, step) for name, _, step in _weight_loops(conv)]
        text.line(f"weight = {total(('g', conv.rhs_steps[0]), *weight, conv.rhs_start)}")
        if any(not axis.inside for axis in conv.axes):
            text.line(f"element = {t}(0)")
        tests, at = _input_place(text, conv)
        with text.block(*([f"if {' and '.join(tests)}:"] if tests else [])):
            text.line(f"element = lhs[{at}]")
        text.line(
            *[
                f"acc_{o} = {_with_product(step, f'acc_{o}', 'element', f'rhs[{at}]')}"
                for o, at in ((o, total("weight", o * conv.rhs_steps[1])) for o in outputs)
            ]
        )
        text.close(depth)
        text.line(f"result = {total(*_result_terms(conv, ''))}")
        for o in outputs:
            _write_result(text, ending, total("result", o * conv.out_steps[2]), f"acc_{o}")
    mapping = LoopMapping(
        grid=(MappedLoop("g", conv.groups), MappedLoop("place", places)),
        serial=(MappedLoop("term", conv.features * conv.taps),),
    )
    return CudaKernel(f"{text}\n", _parameters(step, ending), mapping)


def _input_place(text: KernelText, conv: Convolution) -> tuple[list[str], str]:
    """What must hold for the element of a place and a term to be one of the input's, and where it lies."""
    where: list[tuple[str, int]] = list(zip(("n", "g", "feature"), conv.lhs_steps, strict=True))
    tests: list[str] = []
    for a, axis in enumerate(conv.axes):
        text.line(f"j{a} = {total((f'i{a}', axis.stride), (f'k{a}', axis.dilation), -axis.low)}")
        where.append((f"j{a}" if axis.base == 1 else f"(j{a} // {axis.base})", axis.lhs_step))
        tests += _tests(axis, f"j{a}")
    return tests, total(*where)


# --- by tiles ---------------------------------------------------------------------------------------------


class _Tiles:
    """Prints the kernel of one convolution by tiles.

    Every thread reads elements of a tile that lie so many threads apart: either it has few places, and many terms of
    each, or few terms; so that what neighbouring threads read lies side by side in memory where that can be. Of its
    places it keeps where they begin.
    """

    def __init__(self, step: ConvolutionStep, tiling: Tiling, ending: Ending) -> None:
        self.ending = ending
        self.step, self.conv, self.tiling = step, step.conv, tiling
        self.text, self.t = KernelText(), cast(step.out.dtype)
        self.places, self.terms = self.conv.batch * self.conv.positions, self.conv.features * self.conv.taps
        self.rows, self.columns = -(-self.places // tiling.places), -(-self.conv.outputs // tiling.outputs)
        self.kind = SHARED_TYPES.get(step.out.dtype.name, step.out.dtype.name)
        self.part_terms = terms_of_part(self.terms, tiling)
        fits = kind_of(step.out.dtype) in "iuf" and step.out.dtype.itemsize in (4, 8)
        self.wide = HAS_ALIGNED_MEMORY and fits
        self.by_place = _run(_output_loops(self.conv)) > 1
        by_place = _run(_place_loops(self.conv)) >= _run(_term_loops(self.conv))
        by_output = _run([("o", self.conv.outputs, self.conv.rhs_steps[1])]) >= _run(_weight_loops(self.conv))
        self.inputs = _Share("m", tiling.places, tiling.depth, tiling.threads, by_place)
        self.weights = _Share("o", tiling.outputs, tiling.depth, tiling.threads, by_output)

    def kernel(self) -> CudaKernel:
        conv, tiling, text = self.conv, self.tiling, self.text
        self._shared("inputs", tiling.depth * (tiling.places + _PADDED))
        self._shared("weights", tiling.depth * (tiling.outputs + _PADDED))
        self._shared("sums", tiling.slices * self._slice)
        group = tiling.down * tiling.across
        text.line("thread = cuda.threadIdx.x")
        text.line(f"part_of_terms = thread // {group}" if tiling.slices > 1 else "part_of_terms = 0")
        text.line(f"x = thread % {tiling.across}", f"y = thread // {tiling.across} % {tiling.down}")
        for share in (self.inputs, self.weights):
            text.line(*share.lines())
        parts = [("q", tiling.parts), ("g", conv.groups), ("row", self.rows), ("column", self.columns)]
        with of_blocks("tile", math.prod(n for _, n in parts)).within(text):
            write_index(text, "tile", parts)
            self._places_of_inputs()
            self._outputs_of_weights()
            text.line(*[f"acc_{i}_{j} = {self.t}(0)" for i, j in self._results()])
            self._sum_terms()
            self._store()
        mapping = LoopMapping(
            block=tuple(MappedLoop(name, n) for name, n in parts),
            thread=(MappedLoop("slice", tiling.slices), MappedLoop("y", tiling.down), MappedLoop("x", tiling.across)),
            serial=(MappedLoop("term", self.part_terms),),
        )
        return CudaKernel(f"{text}\n", _parameters(self.step, self.ending), mapping)

    def _shared(self, name: str, elements: int) -> None:
        aligned = f", {WIDTH * self.step.out.dtype.itemsize}" if self.wide else ""
        self.text.line(f"{name} = cuda.shared.array({elements}, {self.kind}{aligned})")

    def _results(self) -> list[tuple[int, int]]:
        return [(i, j) for i in range(self.tiling.rows) for j in range(self.tiling.columns)]

    # --- where elements lie ------------------------------------------------------------------------------

    def _places_of_inputs(self) -> None:
        """Of each of a thread's places: whether there is one, where its input begins, and its positions."""
        conv, text = self.conv, self.text
        for name, value in self.inputs.own.items():
            text.line(f"place = {total(('row', self.tiling.places), value)}")
            write_index(text, "place", _sizes(_place_loops(conv), "_here"))
            where: list[tuple[str | int, int]] = list(zip(("n_here", "g"), conv.lhs_steps))
            for a, axis in enumerate(conv.axes):
                if axis.base == 1:
                    where += [(f"i{a}_here", axis.stride * axis.lhs_step), (-axis.low, axis.lhs_step)]
                if not axis.inside:
                    text.line(f"i{a}_{name} = {total((f'i{a}_here', axis.stride), -axis.low)}")
            text.line(f"at_{name} = {total(*where)}")
            if self.places % self.tiling.places:
                text.line(f"is_{name} = place < {self.places}")

    def _outputs_of_weights(self) -> None:
        conv, text = self.conv, self.text
        for name, value in self.weights.own.items():
            text.line(f"o_here = {total(('column', self.tiling.outputs), value)}")
            group, output, _ = conv.rhs_steps
            text.line(f"at_{name} = {total(('g', group), ('o_here', output), conv.rhs_start)}")
            if conv.outputs % self.tiling.outputs:
                text.line(f"is_{name} = o_here < {conv.outputs}")

    def _read(self) -> None:
        """What a thread brings of the tiles that begin with the term `first`."""
        text, conv = self.text, self.conv
        for (share, name, _), element in zip(self._shares(), (self._input, self._weight)):
            known = set()
            with text.block(*([f"if {share.guard}:"] if share.guard else [])):
                for k, (own, term) in enumerate(share.elements()):
                    if term not in known:
                        known.add(term)
                        text.line(f"term = {total('first', share.texts[term])}")
                        write_index(text, "term", _sizes(_term_loops(conv), f"_{term}"))
                        if self._is_cut:
                            text.line(f"is_{term} = term < {self._end}")
                    tests, where = element(own, term)
                    if tests := [*([f"is_{term}"] if self._is_cut else []), *tests]:
                        text.line(f"{name}_{k} = {self.t}(0)")
                    with text.block(*([f"if {' and '.join(tests)}:"] if tests else [])):
                        text.line(f"{name}_{k} = {where}")

    @property
    def _is_cut(self) -> bool:
        """Whether a step may have less terms than the tiles."""
        return self.terms % self.tiling.depth > 0 or self.part_terms * self.tiling.parts != self.terms

    @property
    def _end(self) -> str:
        return "end" if self.tiling.parts > 1 else str(self.terms)

    def _input(self, own: str, term: str) -> tuple[list[str], str]:
        conv, text = self.conv, self.text
        tests = [f"is_{own}"] if self.places % self.tiling.places else []
        where: list[str | tuple[str, int]] = [f"at_{own}", (f"feature_{term}", conv.lhs_steps[2])]
        for a, axis in enumerate(conv.axes):
            if axis.base == 1:
                where.append((f"k{a}_{term}", axis.dilation * axis.lhs_step))
            if not axis.inside:
                text.line(f"j{a} = {total(f'i{a}_{own}', (f'k{a}_{term}', axis.dilation))}")
                tests += _tests(axis, f"j{a}")
            if axis.base > 1:
                where.append((f"(j{a} // {axis.base})", axis.lhs_step))
        return tests, f"lhs[{total(*where)}]"

    def _weight(self, own: str, term: str) -> tuple[list[str], str]:
        conv = self.conv
        tests = [f"is_{own}"] if conv.outputs % self.tiling.outputs else []
        taps = [(f"k{a}_{term}", axis.rhs_step) for a, axis in enumerate(conv.axes)]
        return tests, f"rhs[{total(f'at_{own}', (f'feature_{term}', conv.rhs_steps[2]), *taps)}]"

    # --- sums --------------------------------------------------------------------------------------------

    def _sum_terms(self) -> None:
        """Step by step: what comes next is on its way from memory while that before is multiplied."""
        tiling, text = self.tiling, self.text
        if tiling.parts > 1:
            text.line(f"begin = q * {self.part_terms}", f"end = min(begin + {self.part_terms}, {self.terms})")
        begin = "begin" if tiling.parts > 1 else "0"
        names = [f"{name}_{k}" for share, name, _ in self._shares() for k in range(len(share.elements()))]
        text.line(*[f"{name} = {self.t}(0)" for name in names])
        with text.loop("first", begin, f"{self._end} + {tiling.depth}", tiling.depth):
            with text.block(f"if first < {self._end}:"):
                self._read()
            with text.block(f"if first > {begin}:"):
                self._multiply()
            text.line("cuda.syncthreads()")
            for share, name, array in self._shares():
                pitch = share.size + _PADDED
                with text.block(*([f"if {share.guard}:"] if share.guard else [])):
                    for k, (own, term) in enumerate(share.elements()):
                        text.line(f"{array}[{total((share.texts[term], pitch), share.texts[own])}] = {name}_{k}")
            text.line("cuda.syncthreads()")

    def _shares(self) -> list[tuple[_Share, str, str]]:
        return [(self.inputs, "input", "inputs"), (self.weights, "weight", "weights")]

    def _multiply(self) -> None:
        tiling, text = self.tiling, self.text
        turns = tiling.depth // tiling.slices
        with text.loop("turn", turns):
            text.line(f"k = {total(('turn', tiling.slices), 'part_of_terms')}")
            self._take("a", "inputs", "y", tiling.rows, tiling.down, tiling.places + _PADDED)
            self._take("b", "weights", "x", tiling.columns, tiling.across, tiling.outputs + _PADDED)
            for i, j in self._results():
                text.line(f"acc_{i}_{j} = {_with_product(self.step, f'acc_{i}_{j}', f'a_{i}', f'b_{j}')}")

    def _take(self, name: str, array: str, at: str, count: int, threads: int, pitch: int) -> None:
        """A thread's elements of a row in shared memory."""
        width = self._width(count)
        for first in range(0, count, width):
            place = total(("k", pitch), (at, width), self._apart(first, count, threads))
            names = ", ".join(f"{name}_{first + part}" for part in range(width))
            self.text.line(f"{names} = load4({array}, {place})" if width > 1 else f"{names} = {array}[{place}]")

    # --- results -----------------------------------------------------------------------------------------

    def _store(self) -> None:
        """The sums of all slices of terms, in their order: by way of shared memory, so that neighbours are together."""
        tiling, conv, text = self.tiling, self.conv, self.text
        near, far = (tiling.places, tiling.outputs) if self.by_place else (tiling.outputs, tiling.places)
        pitch, size = near + _PADDED, self._slice
        steps = (1, pitch) if self.by_place else (pitch, 1)  # of places and outputs
        down = [self._apart(i, tiling.rows, tiling.down) * steps[0] for i in range(tiling.rows)]
        across = [self._apart(j, tiling.columns, tiling.across) * steps[1] for j in range(tiling.columns)]
        y, x = self._width(tiling.rows) * steps[0], self._width(tiling.columns) * steps[1]
        text.line(f"at = {total(('part_of_terms', size), ('y', y), ('x', x))}")
        sums = {down[i] + across[j]: f"acc_{i}_{j}" for i, j in self._results()}
        width = self._width(tiling.rows if self.by_place else tiling.columns)
        for at in sorted(sums)[::width]:
            names, first = ", ".join(sums[at + k] for k in range(width)), total("at", at)
            text.line(f"store4(sums, {first}, {names})" if width > 1 else f"sums[{first}] = {names}")
        text.line("cuda.syncthreads()")
        with text.loop("e", "thread", near * far, tiling.threads):
            text.line(f"near, far = e % {near}, e // {near}", f"acc = sums[{total(('far', pitch), 'near')}]")
            if tiling.slices > 1:
                with text.loop("k", 1, tiling.slices):
                    text.line(f"acc = {self.t}(acc + sums[{total(('k', size), ('far', pitch), 'near')}])")
            place, output = ("near", "far") if self.by_place else ("far", "near")
            text.line(f"place = {total(('row', tiling.places), place)}")
            text.line(f"o = {total(('column', tiling.outputs), output)}")
            with text.block(f"if place < {self.places} and o < {conv.outputs}:"):
                write_index(text, "place", _sizes(_place_loops(conv), "_here"))
                part = [("q", self.step.out.size // tiling.parts)] if tiling.parts > 1 else []
                where = total(*part, *_result_terms(conv, "_here"), ("o", conv.out_steps[2]))
                _write_result(text, self.ending, where, "acc")

    @property
    def _slice(self) -> int:
        """Elements of shared memory for the sums of a slice of terms."""
        near, far = self.tiling.places, self.tiling.outputs
        return far * (near + _PADDED) if self.by_place else near * (far + _PADDED)

    def _width(self, count: int) -> int:
        """How many of a thread's places, or outputs, lie side by side."""
        return WIDTH if self.wide and count % WIDTH == 0 else 1

    def _apart(self, number: int, count: int, threads: int) -> int:
        """How far from its first place, or output, a thread's so-many-th one lies."""
        width = self._width(count)
        return number // width * width * threads + number % width


class _Share:
    """Which elements of a tile of `size` × `depth` a thread brings: of its own places, or outputs, and of which terms.

    by_own: whether neighbouring threads take neighbours of those, or terms. own, texts: names, and where they are.
    guard: what holds for the threads that bring any.
    """

    def __init__(self, name: str, size: int, depth: int, threads: int, by_own: bool) -> None:
        self.size, self.name = size, name
        self.guard = f"thread < {size * depth}" if size * depth < threads else ""
        near, far = (size, depth) if by_own else (depth, size)
        self._near = [f"{name}_near + {k * threads}" if k else f"{name}_near" for k in range(max(near // threads, 1))]
        step = max(threads // near, 1)
        self._far = [total(f"{name}_far", k * step) for k in range(max(far // step, 1))]
        self._lines = [f"{name}_near = thread % {near}", f"{name}_far = thread // {near}"]
        if near >= threads:
            self._lines = [f"{name}_near = thread", f"{name}_far = 0"]
        own, terms = (self._near, self._far) if by_own else (self._far, self._near)
        self.own = {f"{name}{k}": text for k, text in enumerate(own)}
        self._terms = {f"{name}t{k}": text for k, text in enumerate(terms)}
        self.texts = {**self.own, **self._terms}

    def lines(self) -> list[str]:
        return self._lines

    def elements(self) -> list[tuple[str, str]]:
        """The names of place, or output, and term, of each."""
        return [(own, term) for term in self._terms for own in self.own]


# --- indices ----------------------------------------------------------------------------------------------

_PlacedLoops = list[tuple[str, int, int]]  # a name, how many, and how far apart in memory


def _place_loops(conv: Convolution) -> _PlacedLoops:
    """The loops over places, what lies side by side in the input innermost."""
    loops = [("n", conv.batch, conv.lhs_steps[0])]
    loops += [(f"i{a}", axis.count, axis.stride * axis.lhs_step) for a, axis in enumerate(conv.axes)]
    return sorted(loops, key=lambda one: -one[2])


def _term_loops(conv: Convolution) -> _PlacedLoops:
    """The loops over terms, likewise."""
    loops = [("feature", conv.features, conv.lhs_steps[2])]
    loops += [(f"k{a}", axis.window, axis.dilation * axis.lhs_step) for a, axis in enumerate(conv.axes)]
    return sorted(loops, key=lambda one: -one[2])


def _output_loops(conv: Convolution) -> _PlacedLoops:
    """The loops over places, with steps in the results."""
    steps = {"n": conv.out_steps[0], **{f"i{a}": axis.out_step for a, axis in enumerate(conv.axes)}}
    return [(name, size, steps[name]) for name, size, _ in _place_loops(conv)]


def _weight_loops(conv: Convolution) -> _PlacedLoops:
    """The same loops, with steps in the weights."""
    steps = {"feature": conv.rhs_steps[2], **{f"k{a}": axis.rhs_step for a, axis in enumerate(conv.axes)}}
    return [(name, size, steps[name]) for name, size, _ in _term_loops(conv)]


def _run(loops: _PlacedLoops) -> int:
    """How many neighbours in loops are neighbours in memory."""
    run = 1
    for _, size, step in reversed(loops):
        if size > 1 and step != run:
            break
        run *= size
    return run


def _sizes(loops: _PlacedLoops, suffix: str) -> list[tuple[str, int]]:
    return [(f"{name}{suffix}", size) for name, size, _ in loops]


def _result_terms(conv: Convolution, suffix: str) -> list[tuple[str | int, int]]:
    """Where the results of a place begin."""
    n, g, _ = conv.out_steps
    positions = [(f"i{a}{suffix}", axis.out_step) for a, axis in enumerate(conv.axes)]
    return [(f"n{suffix}", n), ("g", g), *positions, (conv.out_start, 1)]


def _tests(axis: ConvolutionAxis, position: str) -> list[str]:
    """What holds for positions, holes counted, of elements of the input."""
    if axis.inside:
        return []
    within = [f"{position} >= 0", f"{position} < {(axis.size - 1) * axis.base + 1}"]
    return [*within, f"{position} % {axis.base} == 0"] if axis.base > 1 else within
