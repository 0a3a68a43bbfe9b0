"""How far two ways of computing a Program may differ: what its own rounding errors do to each element of its results.

A noisy copy of a Program errs in every operation as another order of sums, or another implementation of a function,
would: by parts of the last bit of what is summed. Elements may differ as far as noisy runs do; NaN, infinities and
signs of zeros may differ only where they do there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from functad import interpreter
from functad.ir import Eqn, Primitive, Program, subprograms
from functad.lowering_rules import Indexed
from functad.optimize.pipeline import inline_calls
from functad.primitive_record import takes_narrow

Results = list[np.ndarray]

# Their results are among their operands, or exact.
EXACT = frozenset(
    "neg abs sign floor ceil round max min clamp select_n copy stop_gradient name optimization_barrier real imag "
    "complex conj sort top_k cummax cummin reduce_max reduce_min reduce_window_max reduce_window_min "
    "scatter scatter-max scatter-min update_slice "
    "concatenate stack dynamic_update_slice select_and_gather_add nextafter bitcast_convert_type".split()
)
# They round once, as IEEE 754 says, in every mode.
ARITHMETIC = frozenset("add sub mul div sqrt square integer_pow convert_element_type add_to_slice".split())
# They sum many numbers, in an order of their own.
REDUCTIONS = frozenset(
    "reduce_sum cumsum dot_general conv_general_dilated scatter-add reduce_window_sum select_and_scatter_add".split()
)
PRODUCTS = frozenset(("dot_general", "conv_general_dilated"))
# Sums: their rounding errors are parts of the sum of magnitudes.
SUMS = REDUCTIONS | frozenset("add sub add_any add_to_slice".split())
# They may begin with +0, or not: sums of products in a library, and of cotangents, of which some are known to be zero.
FROM_ZERO = frozenset(("dot_general", "conv_general_dilated", "add_any"))
# The errors of functions in units of the last place; other ones have some.
ULPS = {
    "mul": 1.0,
    "div": 1.0,
    "add": 1.0,
    "sub": 1.0,
    "add_any": 1.0,
    "add_to_slice": 1.0,
    "sqrt": 1.0,
    "convert_element_type": 1.0,
}
OTHER_ULPS = 4.0
ULPS_OF_TERM = 1 / 16  # equal numbers one behind another: their errors add up
SPECIAL_ULPS = dict.fromkeys(
    "lgamma digamma igamma igammac regularized_incomplete_beta zeta polygamma erf_inv bessel_i0e bessel_i1e".split(),
    64.0,
)
# Their results are differences of larger numbers where they are near 0.
OF_SIZE_ONE = frozenset(("logaddexp", "logaddexp2", "cumlogsumexp"))
TIGHT = 2.0  # units in the last place within which nobody asks why
FEW, MANY = 6, 90  # noisy runs
KINDS = 3  # of noisy runs, in turn: noise everywhere hides differences that are exactly zero, so not all have it
MARGIN = 4.0  # times what the noisy runs spread


def expanded(program: Program, twin: Callable[[Primitive], Primitive] = lambda p: p) -> Program:
    """The Program with all calls inlined, those in loops too, each primitive replaced by its twin."""
    program = inline_calls(program)
    return program.replace(eqns=[_with_twin(e, twin) for e in program.eqns])


def _with_twin(eqn: Eqn, twin: Callable[[Primitive], Primitive]) -> Eqn:
    def changed(x: Any) -> Any:
        if isinstance(x, Program):
            return expanded(x, twin)
        if isinstance(x, (tuple, list)) and any(isinstance(v, Program) for v in x):
            return type(x)(changed(v) for v in x)
        return x

    params = {k: changed(v) for k, v in eqn.params.items()}
    return eqn.replace(primitive=twin(eqn.primitive), params=params)


def every_equation(eqns: Sequence[Eqn]) -> Iterator[Eqn]:
    """Equations, and those of the Programs that they hold."""
    for eqn in eqns:
        yield eqn
        for inner in subprograms(eqn.params):
            yield from every_equation(inner.eqns)


def interpreted(program: Program) -> Callable[[Sequence[np.ndarray]], Results]:
    """The Program run equation by equation, un-jitted, whatever calls it holds."""
    run = interpreter.compile_program(expanded(program))
    return lambda args: [np.array(x) for x in run([np.array(a) for a in args])]


def noisy(program: Program, rng: np.random.Generator) -> Callable[[Sequence[np.ndarray]], Results]:
    """The Program with rounding errors drawn anew at each run."""
    twins: dict[str, Primitive] = {}
    noise = Noise(rng)

    def twin(p: Primitive) -> Primitive:
        if p.name in EXACT or _moves(p) or p.name in ("scan", "while", "cond"):
            return p
        if p.name not in twins:
            twins[p.name] = _copy(p, impl=_noisy_impl(p, noise))
        return twins[p.name]

    run = interpreter.compile_program(expanded(program, twin))

    def noisy_run(args: Sequence[np.ndarray]) -> Results:
        noise.runs += 1
        return [np.array(x) for x in run([np.array(a) for a in args])]

    return noisy_run


@dataclass
class Noise:
    """Where errors come from. runs: begun so far."""

    rng: np.random.Generator
    runs: int = 0

    @property
    def quiet(self) -> bool:
        """Whether a run errs in the signs of zeros alone."""
        return self.runs % KINDS == 0

    @property
    def only_reductions(self) -> bool:
        """Whether it errs in the order of some sums alone, by whole units in the last place: they may be exact."""
        return self.runs % KINDS == 2


def _copy(primitive: Primitive, **rules: Any) -> Primitive:
    """A copy with other rules that is not registered."""
    made = object.__new__(Primitive)
    for name in Primitive.__dataclass_fields__:
        object.__setattr__(made, name, rules.get(name, getattr(primitive, name)))
    return made


def _noisy_impl(p: Primitive, noise: Noise) -> Callable[..., Any]:
    rng = noise.rng
    own_ulps = SPECIAL_ULPS.get(p.name, ULPS.get(p.name, OTHER_ULPS))

    def impl(*args: Any, **params: Any) -> Any:
        out = p.impl(*args, **params)
        ulps = own_ulps + (_terms(p, args, out) * ULPS_OF_TERM if p.name in REDUCTIONS else 0)
        if p.multiple_results:
            still = noise.quiet or noise.only_reductions
            return out if still else [_perturbed(np.asarray(x), ulps, rng) for x in out]
        out = np.asarray(out)
        if out.dtype.kind not in "fc":
            return out
        if noise.only_reductions:
            if p.name in REDUCTIONS and rng.integers(2):
                out = _stepped(out, rng)
        elif not noise.quiet:
            size = np.maximum(np.abs(out), 1) if p.name in OF_SIZE_ONE else magnitude(out, args, params)
            out = _perturbed(out, ulps, rng, size)
            if size is not None and p.name in SUMS and np.isinf(size).any():
                finite = [np.where(np.isfinite(a), a, np.zeros((), np.asarray(a).dtype)) for a in args]
                out = _overflown(out, np.isinf(magnitude(out, finite, params)) & ~np.isnan(size), rng)
        sign = rng.choice([-1, 1]).astype(out.dtype)
        if out.dtype.kind == "f":  # which bits a NaN has differs from one implementation to the next
            out = np.where(np.isnan(out), np.copysign(out, sign), out)
        return np.where(out == 0, out * sign, out) if p.name in FROM_ZERO else out

    def magnitude(out: np.ndarray, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """The sum of the magnitudes of what is summed; None for what is no sum."""
        if p.name == "fft":
            axes = tuple(range(-len(params["fft_lengths"]), 0))
            return np.broadcast_to(np.abs(args[0]).sum(axes, keepdims=True), out.shape)
        if p.name in SUMS and all(np.asarray(a).dtype == out.dtype or np.asarray(a).dtype.kind in "iu" for a in args):
            sizes = [_size(np.asarray(a), out.dtype, p.name in PRODUCTS) for a in args]
            if p.name == "select_and_scatter_add":
                sizes[1:] = args[1:]  # they say where to, and are not summed
            if p.name in ("add", "sub", "add_any"):
                return np.asarray(np.add(*sizes))
            return np.asarray(p.impl(*sizes, **_real(params)))
        return None

    return takes_narrow(impl) if p.takes_narrow else impl


def _terms(p: Primitive, args: Sequence[Any], out: Any) -> float:
    """How many numbers an element of a sum is made of."""
    sizes = [np.size(a) for a in (args if p.name in PRODUCTS else args[:1])]
    return float((np.prod(sizes, dtype=float) / max(np.size(out), 1)) ** (1 / len(sizes)))


def _size(x: np.ndarray, dtype: np.dtype, counts: bool) -> np.ndarray:
    """The magnitudes of an operand of a sum of this dtype. counts: integers are summed, too; else they are indices."""
    if x.dtype.kind in "iu":
        return np.abs(x.astype(dtype)) if counts else x
    size = np.abs(x)
    return np.asarray(size, size.real.dtype)


def _real(params: dict[str, Any]) -> dict[str, Any]:
    wanted = params.get("preferred_element_type")
    return {**params, "preferred_element_type": None} if wanted is not None else params


def _perturbed(x: np.ndarray, ulps: float, rng: np.random.Generator, size: np.ndarray | None = None) -> np.ndarray:
    """x with errors that are parts of the last bit, of the sizes where they are given."""
    if x.dtype.kind not in "fc":
        return x
    limit = np.finfo(x.dtype)
    magnitude = np.abs(x if size is None else size).astype(limit.dtype)
    scale = np.minimum(magnitude, limit.max) * limit.eps + limit.smallest_subnormal
    noise = rng.uniform(-ulps, ulps, x.shape).astype(limit.dtype) * scale
    noise = np.where(np.abs(x) + np.abs(noise) == 0, 0, noise)
    if x.dtype.kind == "c":
        noise = noise + 1j * rng.uniform(-ulps, ulps, x.shape).astype(limit.dtype) * scale
    moved = (x + np.where(np.isfinite(noise), noise, 0)).astype(x.dtype)
    return np.where((x == 0) if size is None else (x == 0) & (size == 0), x, moved)


def _stepped(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """x with errors of whole units in the last place, where it is finite and not 0."""
    units = rng.integers(-2, 3, x.shape) * np.spacing(np.abs(x).astype(x.real.dtype))
    return np.where(np.isfinite(x) & (x != 0), x + units, x).astype(x.dtype)


def _overflown(x: np.ndarray, where: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Sums that in another order may overflow on their way, or no more do so."""
    other = rng.choice([np.inf, -np.inf, np.nan, 0])
    return np.where(where & (np.isfinite(x) | (other != 0)), other, x).astype(x.dtype)


def is_plain_arithmetic(program: Program) -> bool:
    """Whether it does nothing but what has one result, to the bit: no sums, no functions, no narrow floats."""
    return all(_is_exact(eqn) for eqn in every_equation(expanded(program).eqns))


def _moves(p: Primitive) -> bool:
    return isinstance(p.lower, Indexed) and p.name not in ARITHMETIC


def _is_exact(eqn: Eqn) -> bool:
    dtypes = {v.aval.dtype for v in (*eqn.invars, *eqn.outvars)}
    if not any(d.kind in "fc" for d in dtypes):
        return True
    name = eqn.primitive.name
    known = name in ARITHMETIC | EXACT or _moves(eqn.primitive) or name in ("scan", "while", "cond")
    return (
        known
        and name not in ("select_and_gather_add", "scatter")
        and not (
            name in ("sqrt", "abs", "sign") and any(d.kind == "c" for d in dtypes)
        )  # functions, of complex numbers
        and not any(d.itemsize < 4 for d in dtypes if d.kind == "f")
    )


def same_bits(wanted: np.ndarray, found: np.ndarray) -> bool:
    """Whether numbers are the same, signs of zeros and places of NaN included."""
    equal = np.array_equal(wanted, found, equal_nan=wanted.dtype.kind in "fc")
    if not equal or wanted.dtype.kind not in "fc":
        return equal
    return all(
        bool(np.all((np.signbit(w) == np.signbit(f)) | np.isnan(w))) for w, f in zip(_parts(wanted), _parts(found))
    )


# --- comparing ---------------------------------------------------------------------------------------------


class Expected:
    """The results of a Program with what its rounding errors may make of them.

    noisy: further runs that err otherwise, asked for only where results differ.
    """

    def __init__(self, results: Results, run_noisy: Callable[[], Results]) -> None:
        self.results = results
        self._run = run_noisy
        self._runs: list[Results] = []

    def runs(self, number: int) -> list[Results]:
        while len(self._runs) < number:
            self._runs.append(self._run())
        return self._runs[:number]

    def mismatch(self, got: Sequence[Any], others: Expected | None = None, signs: bool = True) -> str | None:
        """What is wrong with other results; None if nothing.

        others: how far those may err themselves. signs: of zeros must agree.
        """
        if len(got) != len(self.results):
            return f"{len(got)} results instead of {len(self.results)}"
        for k, (wanted, found) in enumerate(zip(self.results, got)):
            found = np.asarray(found)
            if (found.dtype, found.shape) != (wanted.dtype, wanted.shape):
                return f"result {k} is {found.dtype}{found.shape} instead of {wanted.dtype}{wanted.shape}"
            if not signs and wanted.dtype.kind in "fc":
                wanted, found = wanted + 0, found + 0
            wrong = _far(wanted, found)
            for number in (FEW, MANY):
                if not wrong.any():
                    break
                theirs = [run[k] for run in others.runs(number)] if others else []
                wrong &= _outside(wanted, found, [run[k] for run in self.runs(number)], theirs)
            if wrong.any():
                at = tuple(int(i) for i in np.argwhere(wrong)[0])
                return f"result {k}{list(at)} is {found[at]!r} instead of {wanted[at]!r} ({wrong.sum()} such elements)"
        return None


def _parts(x: np.ndarray) -> list[np.ndarray]:
    return [x.real, x.imag] if x.dtype.kind == "c" else [x]


def _far(wanted: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Where results differ at all, but for a few units in the last place."""
    if wanted.dtype.kind not in "fc":
        return np.asarray(wanted != found)
    with np.errstate(all="ignore"):
        wrong = np.zeros(wanted.shape, bool)
        for w, f in zip(_parts(wanted), _parts(found)):
            limit = np.finfo(w.dtype)
            near = np.abs(w - f) <= TIGHT * (np.abs(w) * limit.eps + limit.smallest_subnormal)
            same = (w == f) | (np.isnan(w) & np.isnan(f)) | (near & (w != 0) & (f != 0))
            wrong |= ~same | ((w == 0) & (f == 0) & (np.signbit(w) != np.signbit(f)))
        return wrong


def _outside(
    wanted: np.ndarray, found: np.ndarray, runs: Sequence[np.ndarray], others: Sequence[np.ndarray]
) -> np.ndarray:
    """Where an element is none that noisy runs give, nor lies about as far away as they spread.

    others: noisy runs of what gave `found`. They widen the spread; where it lies, they have no say.
    """
    if wanted.dtype.kind not in "fc":
        unstable = np.any([others[0] != r for r in others], axis=0) if others else np.False_
        if wanted.dtype.kind in "iu":  # the bits of floats, or floats that were converted
            between = (np.min(runs, axis=0) <= found) & (found <= np.max(runs, axis=0))
            return np.asarray(~between & ~unstable)
        return np.asarray(~np.any([found == r for r in runs], axis=0) & ~unstable)
    outside = np.zeros(wanted.shape, bool)
    with np.errstate(all="ignore"):
        for k, (w, f) in enumerate(zip(_parts(wanted), _parts(found))):
            seen = np.stack([w, *(_parts(r)[k] for r in runs)]).astype(np.float64)
            low, high = _range(seen)
            room = high - low
            unstable = np.zeros(w.shape, bool)
            crossed = np.zeros(w.shape, bool)
            if others:
                theirs = np.stack([_parts(r)[k] for r in others]).astype(np.float64)
                low_of_theirs, high_of_theirs = _range(theirs)
                room, crossed = room + high_of_theirs - low_of_theirs, (low_of_theirs < 0) & (high_of_theirs > 0)
                unstable = np.any(_classes(theirs) != _classes(theirs)[0], axis=0)
            room = MARGIN * np.where(room > 0, room, 0)
            # Runs that are all NaN, as powers of negative numbers become, do not tell how far is too far.
            untold = np.isfinite(w) & np.any(~np.isfinite(seen), axis=0) & (low == high)
            room = np.where(untold, np.sqrt(np.finfo(w.dtype).eps) * np.abs(w), room)
            among = np.isfinite(f) & (f >= low - room) & (f <= high + room)
            signs = np.any((seen == 0) & (np.signbit(seen) == np.signbit(f)), axis=0) | (low < 0) & (high > 0)
            signs |= np.where(np.signbit(f), high < 0, low > 0) | crossed
            odd = ~np.isfinite(f) & np.any(_classes(seen) == _classes(f.astype(np.float64)), axis=0)
            # Of a complex number that is NaN, which part is NaN and which infinite is a matter of the formula.
            odd |= ~np.isfinite(f) & ~np.isfinite(w) & np.isnan(wanted) & np.isnan(found)
            outside |= ~(among & ((f != 0) | signs) | odd | unstable)
    return outside


def _range(runs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    finite = np.isfinite(runs)
    return np.min(np.where(finite, runs, np.inf), axis=0), np.max(np.where(finite, runs, -np.inf), axis=0)


def _classes(x: np.ndarray) -> np.ndarray:
    """0 for finite numbers; NaN and either infinity are 3, 1 and 2."""
    return np.select([np.isnan(x), x == np.inf, x == -np.inf], [3, 1, 2])
