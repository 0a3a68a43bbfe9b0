"""The checks that every primitive passes: its rules against its implementation, on its own examples.

Knows the fields of a `Primitive` and the flat transforms; no primitive by name.

`cases()` lists all examples of all primitives. `checks_for(case)` names the checks that apply to one of
them, `CHECKS[name](case)` runs one, and raises an AssertionError that names the primitive, the example and
the rule. `check_complete(primitive)` demands that each of its rules is reached by some check.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from derivative_tools import MODES, WAYS, assert_agreed, derivatives, scalar_valued
from primitive_check_tools import (
    BATCH,
    OUTER_BATCH,
    Case,
    as_list,
    assert_close,
    assert_equal_products,
    assert_raises,
    assert_same,
    differences,
    dim_choices,
    float_positions,
    function_of,
    inexact,
    nested_stack,
    pick_from_nested,
    random_directions,
    select_row,
    stacks_of,
    to_array,
    to_arrays,
    wide_params,
    widened,
    with_zeros,
)

from functad import dtypes
from functad.all_primitives import registry
from functad.dtypes import kind_of
from functad.errors import DifferentiationError, FunctadError, NoRuleError
from functad.evaluation import aval_of, implementation
from functad.ir import (
    Absent,
    Example,
    Primitive,
    UndefinedPrimal,
    Zero,
    ZeroDerivative,
    check_program,
)
from functad.primitives.common import instantiate, uniform
from functad.tracing import eval_program, trace_to_program
from functad.transforms.backward import linearize_once
from functad.transforms.batching import batch_flat, place_batch_axis
from functad.transforms.forward import jvp_flat
from functad.transforms.reverse import linearize_flat


def cases() -> list[Case]:
    """Every example of every registered primitive."""
    return [case for name in sorted(registry) for case in cases_of(registry[name])]


def cases_of(primitive: Primitive) -> list[Case]:
    if isinstance(primitive.examples, Absent):
        return []
    examples = primitive.examples()
    return [
        Case(primitive, i, example) for i, example in enumerate([*examples, *_complex_example(primitive, examples)])
    ]


# Their complex vectors have a phase that nothing determines, which differences see, and derivatives leave as it is.
WITH_PHASES = {"eigh", "svd"}


def _complex_example(primitive: Primitive, examples: Sequence[Example]) -> list[Example]:
    """The first example whose derivative differences give, with complex numbers where the primitive takes them."""
    for example in examples if primitive.name not in WITH_PHASES else ():
        real = [i for i in float_positions(example.args) if kind_of(example.args[i].dtype) == "f"]
        elements = all(a.size for a in example.args)
        if not real or not elements or not example.differentiable or example.agreed is not None:
            continue
        args = list(example.args)
        for i in real:
            args[i] = (args[i] + 1j * uniform(*args[i].shape, low=0.1, high=0.9, seed=i)).astype(np.complex64)
        try:
            primitive.abstract_eval(*[aval_of(a) for a in args], **example.params)
        except FunctadError:
            continue
        return [replace(example, args=tuple(args))]
    return []


def mutant(primitive: Primitive, **rules: Any) -> Primitive:
    """A copy with other rules that is not registered: what negative controls feed to the checks."""
    copy = object.__new__(Primitive)
    for field in Primitive.__dataclass_fields__:
        object.__setattr__(copy, field, rules.get(field, getattr(primitive, field)))
    return copy


def checks_for(case: Case) -> list[str]:
    """The names of the checks that apply to a case."""
    if case.example.agreed is not None:
        return ["types", "agreed", "backward"]
    names = ["types", "program"]
    rule = case.primitive.jvp
    if float_positions(case.example.args):
        if isinstance(rule, Absent):
            names.append("jvp_absent")
        elif isinstance(rule, ZeroDerivative):
            names.append("zero_derivative")
        elif case.example.differentiable:
            names += ["jvp", "vjp", "jvp_of_jvp", "vjp_of_vjp"]
            if any(kind_of(a.dtype) == "c" for a in case.example.args):
                names.append("third_derivative")
        else:
            names.append("tangent_types")
        if not isinstance(rule, (Absent, ZeroDerivative)):
            names.append("backward")
        if not isinstance(case.primitive.transpose, Absent) and _linear_subsets(case):
            names.append("transpose")
    if case.example.args:
        names += (
            ["batch_absent"] if isinstance(case.primitive.batch, Absent) else ["batch", "empty_batch", "nested_batch"]
        )
    return names


def check_complete(primitive: Primitive) -> None:
    """Every rule is reached by a check of some example, or says why it does not exist."""
    label = f"primitive `{primitive.name}`"
    for field in ("jvp", "transpose", "batch", "examples"):
        rule = getattr(primitive, field)
        if isinstance(rule, (Absent, ZeroDerivative)):
            assert rule.why.strip(), f"{label}: {field} gives no reason for being {type(rule).__name__}"
        if isinstance(rule, Absent):
            assert_raises(rule, NoRuleError, rule.why, f"{label}, rule {field}")
    assert primitive.doc.strip(), f"{label}: has no doc"
    if isinstance(primitive.examples, Absent):
        return
    reached = {name for case in cases_of(primitive) for name in checks_for(case)}
    assert reached, f"{label}: examples() is empty"
    if isinstance(primitive.transpose, Absent) and not isinstance(primitive.jvp, (Absent, ZeroDerivative)):
        assert "agreed" in reached, (
            f"{label}: it is not linear, and no example says which derivatives are agreed on at 0, at a tie, a kink or "
            f"an end of its domain; add one with `along` and `agreed`"
        )
    demanded = {"jvp": "jvp", "transpose": "transpose", "batch": "batch"}
    for field, check in demanded.items():
        if isinstance(getattr(primitive, field), (Absent, ZeroDerivative)):
            continue
        assert check in reached, (
            f"{label}: no example reaches its {field} rule; add one (differentiable, with float arguments, "
            f"not empty), or declare the rule Absent"
        )


def _checker(rule: str) -> Callable[[Callable[[Case, str], None]], Callable[[Case], None]]:
    """Make a failure of a check, or an exception in a rule, name the primitive, the example and the rule."""

    def decorate(check: Callable[[Case, str], None]) -> Callable[[Case], None]:
        @functools.wraps(check)
        def checked(case: Case) -> None:
            label = f"{case.describe()}, rule {rule}"
            try:
                check(case, label)
            except AssertionError:
                raise
            except Exception as error:
                raise AssertionError(f"{label}: raised {type(error).__name__}: {error}") from error

        return checked

    return decorate


# --- types and evaluation -----------------------------------------------------------------------------


@_checker("abstract_eval")
def check_types(case: Case, label: str) -> None:
    """The shape rule agrees with the implementation, for every dtype it accepts in place of the floats."""
    primitive, args, params = case.primitive, case.example.args, case.example.params
    _check_types_of(primitive, args, params, label)
    for dtype in dtypes.SUPPORTED if float_positions(args) else ():
        converted = [_as_dtype(a, dtype) if i in float_positions(args) else a for i, a in enumerate(args)]
        try:
            primitive.abstract_eval(*[aval_of(a) for a in converted], **params)
        except FunctadError:
            continue  # the primitive does not take this dtype
        _check_types_of(primitive, converted, params, f"{label} with {dtype} arguments")


def _check_types_of(primitive: Primitive, args: Sequence[Any], params: dict[str, Any], label: str) -> None:
    values = [np.array(a) for a in args]
    kept = [v.copy() for v in values]
    for v in values:
        v.flags.writeable = False
    avals = as_list(primitive, primitive.abstract_eval(*[aval_of(v) for v in values], **params))
    with np.errstate(all="ignore"):
        results = as_list(primitive, implementation(primitive, [v.dtype for v in values])(*values, **params))
    assert len(avals) == len(results), f"{label}: gives {len(avals)} results, impl {len(results)}"
    for i, (aval, result) in enumerate(zip(avals, results)):
        assert isinstance(result, (np.ndarray, np.generic)), f"{label}: impl returned a {type(result).__name__}"
        found = f"{result.dtype}{list(result.shape)}"
        assert aval.shape == result.shape and aval.dtype == result.dtype, (
            f"{label}: result {i} should be {aval.str_short()}, impl gave {found}"
        )
    for i, (value, before) in enumerate(zip(values, kept)):
        assert np.array_equal(value, before, equal_nan=kind_of(value.dtype) in "fc"), (
            f"{label}: impl changed argument {i}"
        )


def _as_dtype(x: Any, dtype: np.dtype) -> np.ndarray:
    with np.errstate(all="ignore"):
        x = np.asarray(x) if kind_of(dtype) == "c" else np.real(x)
        return np.asarray(np.abs(x) if kind_of(dtype) in "ub" else x).astype(dtype)


@_checker("impl")
def check_program_evaluation(case: Case, label: str) -> None:
    """Traced into a Program, the operation passes `check_program` and gives what it gives directly."""
    fun, args = function_of(case.primitive, case.example), to_arrays(case.example.args)
    direct = fun(*args)
    program = trace_to_program(fun, [aval_of(a) for a in args])
    check_program(program)
    for i, (a, b) in enumerate(zip(direct, eval_program(program, args), strict=True)):
        a, b = np.asarray(a), np.asarray(b)
        assert a.dtype == b.dtype and np.array_equal(a, b, equal_nan=kind_of(a.dtype) in "fc"), (
            f"{label}: result {i} is {a} when run directly, but {b} through a Program"
        )


# --- derivatives --------------------------------------------------------------------------------------


@_checker("jvp")
def check_jvp(case: Case, label: str) -> None:
    """Tangents equal central differences: along all float arguments at once, and along each alone."""
    fun, args = widened(case)
    for active in _activations(fun, args):
        _compare_jvp(fun, args, active, case.example.tolerance, f"{label}, tangents of arguments {active}")


@_checker("jvp, then transpose (vjp)")
def check_vjp(case: Case, label: str) -> None:
    """Cotangents and tangents agree in the inner product, for all float arguments and for each alone."""
    fun, args = widened(case)
    for active in _activations(fun, args):
        _compare_vjp(fun, args, active, case.example.tolerance, f"{label}, cotangents of arguments {active}")


@_checker("jvp, of the jvp")
def check_jvp_of_jvp(case: Case, label: str) -> None:
    """Second derivatives forward over forward: the jvp of the jvp equals differences of the jvp."""
    fun, args = widened(case)
    active = differentiable_arguments(fun, args)
    _compare_jvp(*_pushed(fun, args, active), case.example.tolerance, label)


@_checker("jvp, then transpose (vjp), of the jvp of the jvp")
def check_third_derivative(case: Case, label: str) -> None:
    """Third derivatives of complex functions: the vjp of the jvp of the jvp agrees with differences of that."""
    fun, args = widened(case)
    pushed = _pushed(fun, args, differentiable_arguments(fun, args))
    _compare_vjp(*_pushed(*pushed), case.example.tolerance, label)


def _pushed(
    fun: Callable[..., Any], args: Sequence[Any], active: Sequence[int]
) -> tuple[Callable[..., list[Any]], list[Any], list[int]]:
    """The jvp as a function of all arguments and of random tangents; the point; and the places of what is active."""
    tangents = random_directions(args, active, seed=3)

    def pushed(*values: Any) -> list[Any]:
        primals, given = values[: len(args)], iter(values[len(args) :])
        full = [next(given) if i in active else Zero(aval_of(a)) for i, a in enumerate(args)]
        return inexact([instantiate(t) for t in jvp_flat(fun, primals, full)[1]])

    inputs = [*args, *[to_array(tangents[i]) for i in active]]
    return pushed, inputs, [*active, *range(len(args), len(inputs))]


@_checker("jvp, then transpose (vjp), of the vjp")
def check_vjp_of_vjp(case: Case, label: str) -> None:
    """Second derivatives reverse over reverse: the vjp of the vjp agrees with differences of the vjp."""
    fun, args = widened(case)
    active = differentiable_arguments(fun, args)
    outs = fun(*args)
    cotangents = random_directions(outs, float_positions(outs), seed=4)

    def pulled(*values: Any) -> list[Any]:
        primals, given = values[: len(args)], iter(values[len(args) :])
        full = [next(given) if i in cotangents else Zero(aval_of(o)) for i, o in enumerate(outs)]
        _, linear = linearize_flat(fun, primals, [i in active for i in range(len(args))])
        return [instantiate(ct) for ct in linear.transpose(full)]

    inputs = [*args, *cotangents.values()]
    _compare_vjp(pulled, inputs, [*active, *range(len(args), len(inputs))], case.example.tolerance, label)


# Their rules apply several factors to a tangent, which the transposed rule applies in reverse order.
REORDERED = {"atanh", "erf", "erf_inv", "erfc", "exp2", "strict_erf", "tanh"}


@_checker("jvp, in the backward pass")
def check_backward(case: Case, label: str) -> None:
    """The backward pass gives the cotangents that the transposed linear map gives, to the bit or but for rounding."""
    fun, args = function_of(case.primitive, case.example), to_arrays(case.example.args)
    for active in _activations(fun, args):
        flags = [i in active for i in range(len(args))]
        outs, linear = linearize_flat(fun, args, flags)
        names = [f"x{i}" for i in range(len(args))]
        _, backward = linearize_once(fun, args, flags, names, lambda outs=outs: len(outs))
        directions = random_directions(outs, float_positions(outs), seed=4)
        cotangents = [directions[i] if i in directions else Zero(aval_of(o)) for i, o in enumerate(outs)]
        pairs = zip(active, backward.transpose(cotangents), linear.transpose(cotangents), strict=True)
        for i, found, expected in pairs:
            here = f"{label}: the cotangent of argument {i} of {active}"
            assert isinstance(found, Zero) == isinstance(expected, Zero), f"{here}: {found}, transposed {expected}"
            assert aval_of(instantiate(found)) == aval_of(instantiate(expected)), here
            found, expected = np.asarray(instantiate(found)), np.asarray(instantiate(expected))
            if case.primitive.name in REORDERED:
                assert_same(found, expected, here)
            else:
                assert found.tobytes() == expected.tobytes(), f"{here}: found\n{found}\ntransposed\n{expected}"


@_checker("jvp")
def check_zero_derivative(case: Case, label: str) -> None:
    """A derivative declared zero: no tangent comes out, and differences vanish where there is no kink."""
    fun, args = widened(case)
    active = float_positions(args)
    tangents = random_directions(args, active)
    for i, t in enumerate(jvp_flat(fun, args, with_zeros(args, tangents))[1]):
        assert isinstance(t, Zero), f"{label}: declared ZeroDerivative, but result {i} has a tangent"
    if case.example.differentiable:
        for i, difference in enumerate(differences(fun, args, tangents)):
            if difference is not None:
                assert not np.any(difference), (
                    f"{label}: declared ZeroDerivative, but differences of result {i} are {difference}; "
                    "if the example lies on a kink, mark it differentiable=False"
                )


@_checker("jvp")
def check_tangent_types(case: Case, label: str) -> None:
    """Where no derivative can be compared, tangents still have the type of the results, or are Zero."""
    fun, args = function_of(case.primitive, case.example), to_arrays(case.example.args)
    outs, tangents = jvp_flat(fun, args, with_zeros(args, random_directions(args, float_positions(args))))
    for i, (out, t) in enumerate(zip(outs, tangents)):
        _check_tangent(out, t, f"{label}, result {i}")


@_checker("jvp")
def check_jvp_absent(case: Case, label: str) -> None:
    """A derivative declared absent raises, with its reason."""
    fun, args = function_of(case.primitive, case.example), to_arrays(case.example.args)
    tangents = with_zeros(args, random_directions(args, float_positions(args)))
    assert_raises(lambda: jvp_flat(fun, args, tangents), DifferentiationError, case.primitive.jvp.why, label)


def _activations(fun: Any, args: Sequence[Any]) -> list[tuple[int, ...]]:
    active = differentiable_arguments(fun, args)
    return [active] if len(active) == 1 else [active, *[(i,) for i in active]]


def differentiable_arguments(fun: Callable[..., Any], args: Sequence[Any]) -> tuple[int, ...]:
    """The float arguments but those in which the jvp rule says that it has no derivative."""
    return tuple(i for i in float_positions(args) if not _refuses(fun, args, i))


def refused_arguments(case: Case) -> tuple[int, ...]:
    """The float arguments in which the jvp rule says that it has no derivative."""
    fun, args = widened(case)
    return tuple(i for i in float_positions(args) if _refuses(fun, args, i))


def _refuses(fun: Callable[..., Any], args: Sequence[Any], i: int) -> bool:
    try:
        jvp_flat(fun, args, with_zeros(args, random_directions(args, (i,))))
    except DifferentiationError:
        return True
    return False


def _compare_jvp(fun: Any, args: Sequence[Any], active: Sequence[int], tolerance: float, label: str) -> None:
    directions = random_directions(args, active)
    outs, tangents = jvp_flat(fun, args, with_zeros(args, directions))
    for i, (out, t, expected) in enumerate(zip(outs, tangents, differences(fun, args, directions), strict=True)):
        _check_tangent(out, t, f"{label}, result {i}")
        if expected is not None:
            found = np.asarray(instantiate(t))
            assert_close(found, expected, tolerance, f"{label}: tangent of result {i} against differences")


def _compare_vjp(fun: Any, args: Sequence[Any], active: Sequence[int], tolerance: float, label: str) -> None:
    directions = random_directions(args, active)
    outs, linear = linearize_flat(fun, args, [i in directions for i in range(len(args))])
    outs = [np.asarray(o) for o in outs]
    cotangents = random_directions(outs, float_positions(outs), seed=2)
    arriving = [cotangents.get(i, Zero(aval_of(o))) for i, o in enumerate(outs)]
    leaving = linear.transpose(arriving)
    for i, ct in zip(active, leaving, strict=True):
        _check_tangent(args[i], ct, f"{label}, argument {i}")
    moved = differences(fun, args, directions)
    left = [(cotangents[i], moved[i]) for i in cotangents]
    right = [(instantiate(ct), directions[i]) for i, ct in zip(active, leaving)]
    assert_equal_products(left, right, tolerance, f"{label}: <ct, differences> against <vjp(ct), t>")


def _check_tangent(primal: Any, tangent: Any, label: str) -> None:
    if isinstance(tangent, Zero):
        return
    assert kind_of(primal.dtype) in "fc", f"{label}: {primal.dtype} has a tangent that is not Zero"
    found, wanted = aval_of(tangent), aval_of(primal)
    assert found.same_type(wanted), f"{label}: tangent of type {found.str_short()}, should be {wanted.str_short()}"


# --- derivatives that are agreed on -------------------------------------------------------------------


@_checker("jvp, and transpose (vjp), to order 3")
def check_agreed(case: Case, label: str) -> None:
    """At a tie, a kink or an end of the domain: derivatives to third order in every mode, mapped or not."""
    fun, args = widened(case)
    agreed = case.example.agreed
    assert agreed is not None
    along = [v if v is None else np.asarray(v, aval_of(a).dtype) for v, a in zip(case.example.along, args, strict=True)]
    for modes, way in itertools.product(MODES, ("un-jitted", "mapped")):
        with np.errstate(all="ignore"):
            found = WAYS[way](derivatives(scalar_valued(fun), along, modes), *args)
        assert_agreed(found, agreed, f"{label}, {way}, modes {modes}", case.example.tolerance)


# --- transposition ------------------------------------------------------------------------------------


@_checker("transpose")
def check_transpose(case: Case, label: str) -> None:
    """<ct, f(t) - f(0)> = <transpose(ct), t> for every set of arguments in which f is affine."""
    fun, args = widened(case)
    params = wide_params(case.example.params)
    for linear in _linear_subsets(case):
        here = f"{label}, linear in arguments {linear}"
        directions = random_directions(args, linear, seed=5)
        base, there = (
            _at(fun, args, {i: np.zeros_like(d) for i, d in directions.items()}),
            _at(fun, args, directions),
        )
        all_cotangents = random_directions(there, float_positions(there), seed=6)
        known = [UndefinedPrimal(aval_of(a)) if i in linear else a for i, a in enumerate(args)]
        for cotangents in _some_zero(all_cotangents):
            arriving = [to_array(cotangents[i]) if i in cotangents else Zero(aval_of(o)) for i, o in enumerate(there)]
            ct = arriving if case.primitive.multiple_results else arriving[0]
            leaving = case.primitive.transpose(ct, *known, **params)
            assert len(leaving) == len(args), f"{here}: gave {len(leaving)} cotangents for {len(args)} arguments"
            right = []
            for i in linear:
                if leaving[i] is not None:
                    _check_tangent(args[i], leaving[i], f"{here}, argument {i}")
                    right.append((instantiate(leaving[i]), directions[i]))
            left = [(c, there[i] - base[i]) for i, c in cotangents.items()]
            assert_equal_products(left, right, case.example.tolerance, f"{here}: <ct, f(t)> against <transpose(ct), t>")


def _linear_subsets(case: Case) -> list[tuple[int, ...]]:
    """The sets of arguments in which the operation is affine, found by trial; none where there is no element.

    Affine, not linear: `select_n(which, t, 0)` is transposed with one of two cases known.
    """
    fun, args = widened(case)
    active = float_positions(args)
    sets = [s for n in range(1, len(active) + 1) for s in itertools.combinations(active, n)]
    return [s for s in sets if all(np.size(args[i]) for i in s) and _is_affine(fun, args, s)]


def _is_affine(fun: Any, args: Sequence[Any], subset: tuple[int, ...]) -> bool:
    a, b = random_directions(args, subset, seed=7), random_directions(args, subset, seed=8)
    total = {i: a[i] - 3 * b[i] for i in subset}
    zero = {i: np.zeros_like(a[i]) for i in subset}
    fa, fb, ftotal, f0 = (_at(fun, args, values) for values in (a, b, total, zero))
    results = [r for r in zip(fa, fb, ftotal, f0) if kind_of(r[0].dtype) in "fc"]
    if not any(r[0].size for r in results) or not all(np.all(np.isfinite(x)) for r in results for x in r):
        return False
    return all(np.allclose(t - z, (x - z) - 3 * (y - z), rtol=1e-9, atol=1e-9) for x, y, t, z in results)


def _at(fun: Any, args: Sequence[Any], values: dict[int, Any]) -> list[np.ndarray]:
    return [np.asarray(o) for o in fun(*[to_array(values[i]) if i in values else a for i, a in enumerate(args)])]


def _some_zero(cotangents: dict[int, Any]) -> Iterator[dict[int, Any]]:
    """All cotangents, and with several of them, each alone."""
    yield cotangents
    if len(cotangents) > 1:
        for i, ct in cotangents.items():
            yield {i: ct}


# --- batching -----------------------------------------------------------------------------------------


@_checker("batch")
def check_batch(case: Case, label: str) -> None:
    """The batch rule equals a loop, for every combination of arguments mapped in front or at the end."""
    primitive, example = case.primitive, case.example
    fun, args = function_of(primitive, example), [np.asarray(a) for a in example.args]
    stacks = stacks_of(primitive, args, example.params, BATCH)
    for dims in dim_choices(args):
        here = f"{label}, mapped axes {dims}"
        batched = [to_array(a if d is None else np.moveaxis(s, 0, d)) for a, s, d in zip(args, stacks, dims)]
        results, out_dims = primitive.batch(BATCH, batched, dims, **example.params)
        if not primitive.multiple_results:
            results, out_dims = [results], [out_dims]
        rows = [fun(*select_row(args, stacks, dims, k)) for k in range(BATCH)]
        for i, (result, dim) in enumerate(zip(results, out_dims, strict=True)):
            expected = np.stack([np.asarray(row[i]) for row in rows])
            found = np.asarray(place_batch_axis(result, dim, 0, BATCH))
            assert_same(found, expected, f"{here}: result {i} (axis {dim}) against a loop")


@_checker("batch of no examples")
def check_empty_batch(case: Case, label: str) -> None:
    """Mapped over an axis of size 0, the results are those for one example without it."""
    primitive, example = case.primitive, case.example
    fun, args = function_of(primitive, example), [np.asarray(a) for a in example.args]
    avals = [aval_of(one) for one in fun(*map(to_array, args))]
    for dims in dim_choices(args):
        batched = [to_array(a if d is None else np.repeat(np.expand_dims(a, d), 0, d)) for a, d in zip(args, dims)]
        results, out_dims = primitive.batch(0, batched, dims, **example.params)
        if not primitive.multiple_results:
            results, out_dims = [results], [out_dims]
        for i, (result, dim, one) in enumerate(zip(results, out_dims, avals, strict=True)):
            found = aval_of(place_batch_axis(result, dim, 0, 0))
            here = (
                f"{label}, mapped axes {dims}: result {i} is {found.str_short()}, but {one.str_short()} of one example"
            )
            assert (found.shape, found.dtype) == ((0, *one.shape), one.dtype), here


@_checker("batch, nested")
def check_nested_batch(case: Case, label: str) -> None:
    """A vmap of a vmap equals two loops: each maps all, or one argument, or all but the other's."""
    primitive, example = case.primitive, case.example
    fun, args = function_of(primitive, example), [np.asarray(a) for a in example.args]
    stacks = stacks_of(primitive, args, example.params, OUTER_BATCH * 2)
    everything = tuple(range(len(args)))
    choices = {(everything, everything)}
    for i in everything:
        others = tuple(j for j in everything if j != i)
        choices |= {((i,), everything), (everything, (i,)), ((i,), others or everything)}
    for outer, inner in sorted(choices):
        here = f"{label}, outer vmap of arguments {outer}, inner of {inner}"
        inputs = [nested_stack(s, i in outer, i in inner) for i, s in enumerate(stacks)]
        inner_dims = [0 if i in inner else None for i in everything]
        outer_dims = [0 if i in outer else None for i in everything]

        def mapped(*values: Any, inner_dims: Any = inner_dims) -> list[Any]:
            results, dims = batch_flat(fun, 2, values, inner_dims)
            return [place_batch_axis(r, d, 0, 2) for r, d in zip(results, dims)]

        results, dims = batch_flat(mapped, OUTER_BATCH, [to_array(x) for x in inputs], outer_dims)
        for i, (result, dim) in enumerate(zip(results, dims, strict=True)):
            found = np.asarray(place_batch_axis(result, dim, 0, OUTER_BATCH))
            for o, n in itertools.product(range(OUTER_BATCH), range(2)):
                chosen = [pick_from_nested(x, o, n, j in outer, j in inner) for j, x in enumerate(inputs)]
                expected = np.asarray(fun(*chosen)[i])
                assert_same(found[o, n], expected, f"{here}: result {i} at [{o}, {n}] against a loop")


@_checker("batch")
def check_batch_absent(case: Case, label: str) -> None:
    """A batch rule declared absent raises, with its reason."""
    fun, args = function_of(case.primitive, case.example), [np.asarray(a) for a in case.example.args]
    mapped = [to_array(np.stack([a] * BATCH)) for a in args]
    assert_raises(
        lambda: batch_flat(fun, BATCH, mapped, [0] * len(mapped)),
        NoRuleError,
        case.primitive.batch.why,
        label,
    )


CHECKS: dict[str, Callable[[Case], None]] = {
    "types": check_types,
    "program": check_program_evaluation,
    "jvp": check_jvp,
    "vjp": check_vjp,
    "jvp_of_jvp": check_jvp_of_jvp,
    "vjp_of_vjp": check_vjp_of_vjp,
    "third_derivative": check_third_derivative,
    "backward": check_backward,
    "zero_derivative": check_zero_derivative,
    "tangent_types": check_tangent_types,
    "jvp_absent": check_jvp_absent,
    "agreed": check_agreed,
    "transpose": check_transpose,
    "batch": check_batch,
    "empty_batch": check_empty_batch,
    "nested_batch": check_nested_batch,
    "batch_absent": check_batch_absent,
}
