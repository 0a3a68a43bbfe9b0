"""Solvers whose derivatives are those of what they solve: roots of functions, and linear equations.

Knows how functions become Programs that close over nothing; the equation's rules are in `functad.calls.linear_solve`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functad.api.arguments import as_value, check_callable
from functad.api.autodiff import jvp, linear_transpose, linearize
from functad.api.custom_rules import custom_jvp
from functad.api.inspection import closure_convert, trace_function
from functad.api.rule_calls import zero_from_primal
from functad.calls.linear_solve import Solver, linear_solve
from functad.dtypes import kind_of
from functad.errors import ArgumentError, ConcretizationError, ShapeError
from functad.ir import Program, Var
from functad.primitives.arithmetic import neg
from functad.tracing import Tracer, current_trace
from functad.tree_util import tree_flatten, tree_map, tree_structure, tree_unflatten

Fun = Callable[..., Any]


def custom_root(f: Fun, initial_guess: Any, solve: Fun, tangent_solve: Fun, has_aux: bool = False) -> Any:
    """A root of a function, by a solver of your own that is not differentiated: the implicit function theorem is used.

    Args:
        f: a function of one pytree, which returns one of the same structure. What it closes over, the root depends on.
        initial_guess: where to begin; the root does not depend on it.
        solve: `solve(f, initial_guess)` returns x with f(x) = 0; with `has_aux` a pair of x and anything else.
        tangent_solve: `tangent_solve(g, y)` returns x with g(x) = y for a linear function g, the derivative of f; it
            is differentiated in y, and for one number is `lambda g, y: y / g(1.0)`.
        has_aux: see `solve`.

    Both solvers may close over what is differentiated.

    Returns:
        What `solve` returns.

    >>> import functad
    >>> def root(a):
    ...     newton = lambda f, x: functad.lax.fori_loop(0, 9, lambda _, x: x - f(x) / (2 * x), x)
    ...     return custom_root(lambda x: x * x - a, 1.0, newton, lambda g, y: y / g(1.0))
    >>> root(4.0), functad.grad(root)(4.0)
    (Array(2., dtype=float32, weak_type=True), Array(0.25, dtype=float32, weak_type=True))
    """
    for fun in (f, solve, tangent_solve):
        check_callable(fun, "custom_root")
    converted, closed_over = closure_convert(f, initial_guess)
    numbers = [kind_of(x.dtype) in "fc" for x in closed_over]

    def at(x: Any, values: Sequence[Any], others: Sequence[Any]) -> Any:
        given = {True: iter(values), False: iter(others)}
        return converted(x, *(next(given[is_number]) for is_number in numbers))

    def solved(guess: Any, values: Sequence[Any], others: Sequence[Any]) -> Any:
        return solve(lambda x: at(x, values, others), guess)

    def tangent_solved(found: Any, change: Any, values: Sequence[Any], others: Sequence[Any]) -> Any:
        _, slope = linearize(lambda x: at(x, values, others), found)
        return tree_map(neg, tangent_solve(slope, change))

    values = [x for x, is_number in zip(closed_over, numbers) if is_number]
    others = [x for x, is_number in zip(closed_over, numbers) if not is_number]
    solved, solve_consts = _of_closed_over(solved, initial_guess, values, others)
    tangent_solved, tangent_consts = _of_closed_over(tangent_solved, initial_guess, initial_guess, values, others)

    @custom_jvp
    def root(values: Sequence[Any], others: Sequence[Any], guess: Any, consts: Any, tangent_consts: Any) -> Any:
        result = solved(guess, values, others, *consts)
        return _checked(result, has_aux, guess, "custom_root: solve must return a root of the structure of its guess")

    @root.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        values, others, _, _, tangent_consts = primals
        dots = tangents[0]
        result = root(*primals)
        found = result[0] if has_aux else result
        # f(x, p) = 0 stays so: ∂f/∂x ẋ = −∂f/∂p ṗ
        _, change = jvp(lambda values: at(found, values, others), (values,), (dots,))
        tangent = tangent_solved(found, change, values, others, *tangent_consts)
        return result, (tangent, zero_from_primal(result[1])) if has_aux else tangent

    return root(values, others, initial_guess, solve_consts, tangent_consts)


def _of_closed_over(fun: Fun, *examples: Any) -> tuple[Fun, list[Any]]:
    """A function of what it closes over, too, and these values; where nobody traces, it closes over known ones alone.

    One that looks at its values, which a Program cannot have, stays as it is.
    """
    if current_trace() is None:
        return fun, []
    try:
        return closure_convert(fun, *examples)
    except ConcretizationError:
        return fun, []


def custom_linear_solve(
    matvec: Fun,
    b: Any,
    solve: Fun,
    transpose_solve: Fun | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """The solution of a linear equation by a solver of your own that is not differentiated: derivatives solve again.

    Args:
        matvec: a linear function of a pytree like b, which returns another. What it closes over, x depends on.
        b: a pytree of arrays.
        solve: `solve(matvec, b)` returns x with matvec(x) = b; with `has_aux` a pair of x and anything else.
        transpose_solve: the same for the transposed function, `transpose_solve(vecmat, b)`; reverse mode needs it.
        symmetric: the function is its own transpose, and `solve` solves for both.
        has_aux: see `solve`.

    Returns:
        What `solve` returns.

    Raises:
        ArgumentError: an argument that should be a function is none.
        ShapeError: `matvec`, `solve` or `transpose_solve` returns what has other types than b.

    >>> import functad, functad.numpy as jnp
    >>> def solution(d):
    ...     divide = lambda matvec, b: b / matvec(jnp.ones_like(b))
    ...     return custom_linear_solve(lambda x: d * x, jnp.ones(2), divide, symmetric=True)
    >>> functad.grad(lambda d: solution(d).sum())(jnp.array([1.0, 2.0]))
    Array([-1.  , -0.25], dtype=float32)
    """
    for fun in (matvec, solve) if transpose_solve is None else (matvec, solve, transpose_solve):
        check_callable(fun, "custom_linear_solve")
    leaves, tree = tree_flatten(b)
    leaves = [as_value(x, lambda: "b of custom_linear_solve") for x in leaves]
    b = tree_unflatten(tree, leaves)

    def vecmat(x: Any) -> Any:
        return linear_transpose(matvec, b)(x)[0]

    def traced(fun: Fun) -> tuple[Program, Any]:
        program, _, out_tree = trace_function(fun, (b,), {}, "custom_linear_solve")
        return program, out_tree

    forward, forward_tree = traced(matvec)
    _check_types("matvec", forward, forward_tree, b)
    solved, out_tree = traced(lambda b: _solution(solve, matvec, b, has_aux))
    _check_types("solve", solved, None, b)
    programs: list[Program | None] = [forward, None, solved, None]
    if symmetric:
        programs[1], programs[3] = forward, solved
    elif transpose_solve is not None:
        programs[1] = traced(vecmat)[0]
        programs[3] = traced(lambda b: _solution(transpose_solve, vecmat, b, has_aux))[0]
    solver, consts = _of_same_constants(programs)
    return tree_unflatten(out_tree, linear_solve(solver, consts, leaves))


def _solution(solve: Fun, matvec: Fun, b: Any, has_aux: bool) -> Any:
    must = "custom_linear_solve: the solver must return a solution of the structure of b"
    return _checked(solve(matvec, b), has_aux, b, must)


def _checked(result: Any, has_aux: bool, like: Any, must: str) -> Any:
    """What a solver returned, if what it found has the structure of another tree."""
    if has_aux and (not isinstance(result, tuple) or len(result) != 2):
        name, _, _ = must.partition(":")
        raise ArgumentError(f"{name}: with has_aux=True the solver returns a pair: the solution, and more")
    found = result[0] if has_aux else result
    if tree_structure(found) != tree_structure(like):
        hint = "" if has_aux else "; is it a pair, for has_aux=True?"
        raise ArgumentError(f"{must}, {tree_structure(like)}, but returned {tree_structure(found)}{hint}")
    return result


def _check_types(name: str, program: Program, out_tree: Any, b: Any) -> None:
    given, found = program.in_avals, program.out_avals[: len(program.in_avals)]
    fits = [(x.shape, x.dtype) for x in given] == [(x.shape, x.dtype) for x in found]
    if not fits or (out_tree is not None and out_tree != tree_structure(b)):
        raise ShapeError(
            f"custom_linear_solve: {name} must return what has the types of b, ({_types(given)}), but returned "
            f"({_types(found)})"
        )


def _types(avals: Sequence[Any]) -> str:
    return ", ".join(a.str_short() for a in avals)


def _of_same_constants(programs: Sequence[Program | None]) -> tuple[Solver, list[Any]]:
    """Programs that take first, all of them, the traced values that any of them closes over, and these values."""
    distinct = {id(p): p for p in programs if p is not None}
    constants = {key: list(zip(p.constvars, p.consts)) for key, p in distinct.items()}
    hoisted = {key: [(v, c) for v, c in pairs if isinstance(c, Tracer)] for key, pairs in constants.items()}

    def made(program: Program) -> Program:
        kept = [(v, c) for v, c in zip(program.constvars, program.consts) if not isinstance(c, Tracer)]
        first = [v if key == id(program) else Var(v.aval) for key, pairs in hoisted.items() for v, _ in pairs]
        return program.replace(
            invars=[*first, *program.invars], constvars=[v for v, _ in kept], consts=[c for _, c in kept]
        )

    together = {key: made(program) for key, program in distinct.items()}
    solver = Solver(*(p if p is None else together[id(p)] for p in programs))  # type: ignore[arg-type]
    return solver, [c for pairs in hoisted.values() for _, c in pairs]
