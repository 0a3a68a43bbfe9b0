"""Backends, optimiser rules and passes of one's own, under names: registering a name anew replaces what it meant.

Knows where they are noted; not who runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from functad.backends import BACKENDS
from functad.config import config, extensions_of, set_extension
from functad.editing.rewriting import Rule, View
from functad.errors import ArgumentError, close_names
from functad.extend.rewrites import checked_pass, checked_rule
from functad.ir import Atom, Eqn, Primitive, Program
from functad.optimize.pipeline import PASSES, OwnPass


class Registration:
    """That something of a user's is registered: until `unregister()`, or until the end of a `with` block."""

    def __init__(self, kind: str, name: str, value: Any) -> None:
        self.kind, self.name, self._value = kind, name, value
        set_extension(kind, name, value)

    def unregister(self) -> None:
        """Forget it, unless another one has taken its name."""
        if extensions_of(self.kind).get(self.name) is not self._value:
            return
        if self.kind == "backend" and config.default_backend == self.name:
            raise ArgumentError(
                f"the backend {self.name!r} is config.default_backend; first choose another, such as "
                "functad.config.update('default_backend', 'cpu')"
            )
        set_extension(self.kind, self.name, None)

    def __enter__(self) -> Registration:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.unregister()

    def __repr__(self) -> str:
        return f"<the {self.kind} {self.name!r} of the user's>"


def register_backend(
    name: str, compile_program: Callable[[Program], Callable[[Sequence[np.ndarray]], Sequence[Any]]]
) -> Registration:
    """Let `jit(f, backend=name)`, and `config.default_backend`, run Programs by a backend of yours.

    Args:
        name: of the backend; a name of yours that is taken gets the new meaning.
        compile_program: makes of an optimised Program a function of the list of its inputs, ndarrays, which must not
            be changed, to the list of its results, of the Program's shapes and dtypes. It is called once for a
            Program. Calls are inlined; loops and branches hold Programs in their parameters.

    Returns:
        What forgets the backend: `.unregister()`, or the end of a `with` block.

    Raises:
        ArgumentError: the name is one of functad's own backends', or `compile_program` cannot be called.
        CustomRuleError: at a call: results do not have the types that the Program has.

    >>> import functad, functad.numpy as jnp
    >>> from collections import Counter
    >>> from functad.extend import register_backend
    >>> counts = Counter()
    >>> def counting(program):
    ...     run = functad.extend.core.jaxpr_as_fun(program)  # operation by operation, by NumPy
    ...     def run_counting(args):
    ...         counts.update(eqn.primitive.name for eqn in program.eqns)
    ...         return run(*args)
    ...     return run_counting
    >>> with register_backend("counting", counting):
    ...     f = functad.jit(lambda x: jnp.sin(x) * x + x, backend="counting")
    ...     print(f(jnp.float32(0)), f(jnp.float32(0)), dict(counts))
    0.0 0.0 {'sin': 2, 'mul': 2, 'add': 2}
    """
    if name in BACKENDS:
        raise ArgumentError(f"register_backend: {name!r} is functad's own backend; take another name")
    _check_callable("register_backend", "compile_program", compile_program)
    return Registration("backend", name, compile_program)


def register_rule(
    name: str,
    of: Primitive | Sequence[Primitive] | None,
    make: Callable[[Eqn, View], Atom | Eqn | Sequence[Eqn] | None],
    because: str,
) -> Registration:
    """Let the optimiser rewrite equations by a rule of yours, before its own.

    It is asked about every equation of these primitives, in Programs of loops too, once what stands before is
    simplified, and again about what it makes. `functad.explain` shows where it acts, and why results are the same.
    Functions that are compiled already are compiled anew at their next call.

    Args:
        name: what it does, in a few words; a name of yours that is taken gets the new rule.
        of: the primitive, or primitives, whose equations it is asked about; None for all.
        make: `(equation, view)`. Gives what is to stand for the one result of the equation, an atom: an operand, or
            what `view.compute(function, operands, equation)` gives, which appends the equations of a function of
            arrays that returns a list; or equations that define `equation.outvars`; or None, where the rule does not
            apply. `view.definition(operand, *primitives)` is the equation that an operand comes from, or None.
        because: why results are the same, NaN, infinities and signed zeros included.

    Returns:
        What forgets the rule: `.unregister()`, or the end of a `with` block.

    Raises:
        ArgumentError: `because` is empty, `of` is no primitive, or `make` cannot be called.
        CustomRuleError: at a compilation: what the rule made does not have the type of the equation's result.

    >>> import functad, functad.numpy as jnp
    >>> from functad import lax
    >>> from functad.extend import register_rule
    >>> def log_of_exp(eqn, view):
    ...     inner = view.definition(eqn.invars[0], lax.exp_p)
    ...     return None if inner is None else inner.invars[0]
    >>> f = functad.jit(lambda x: jnp.log(jnp.exp(x)))
    >>> with register_rule("log of exp", lax.log_p, log_of_exp, "but for rounding, and where exp overflows"):
    ...     print(f.lower(2.).optimized)
    { lambda ; a:f32[]. let in (a,) }
    >>> print(f.lower(2.).optimized)
    { lambda ; a:f32[]. let b:f32[] = exp a; c:f32[] = log b in (c,) }
    """
    primitives = of if of is None else tuple(of) if isinstance(of, Sequence) else (of,)
    if primitives == () or not all(isinstance(p, Primitive) for p in primitives or ()):
        raise ArgumentError(
            f"register_rule({name!r}): of must be a primitive, several, or None for all, such as functad.lax.log_p; "
            f"got {of!r}"
        )
    if not because.strip():
        raise ArgumentError(f"register_rule({name!r}): because must say why results are the same")
    _check_callable(f"register_rule({name!r})", "make", make)
    return Registration("rule", name, checked_rule(Rule(name, primitives, make, because)))


def register_pass(
    name: str, run: Callable[[Program], Program], because: str, after: str = "inline_calls"
) -> Registration:
    """Let the optimiser run a pass of yours among its own.

    It is given the whole Program, and that of each loop and branch, in which calls are inlined. What it makes is held
    to the contracts of passes; what is of no use in it is dropped later. `functad.explain` shows it as a stage, where
    it changes something. Functions that are compiled already are compiled anew at their next call.

    Args:
        name: what it does, in a few words; a name of yours that is taken gets the new pass.
        run: from Program to Program, of the same inputs and results: `program.replace(eqns=…)`, for example, or the
            Program itself where there is nothing to do. Programs are not changed in place.
        because: why results are the same, NaN, infinities and signed zeros included.
        after: the pass of functad's own behind which it runs, the first by default: "inline_calls",
            "eliminate_dead_code", "optimize_control", "simplify_numbers", "share_common_subexpressions",
            "merge_whiles", "simplify_products" or "multiply_before_gathering".

    Returns:
        What forgets the pass: `.unregister()`, or the end of a `with` block.

    Raises:
        ArgumentError: `because` is empty, `after` is no pass, or `run` cannot be called.
        CustomRuleError: at a compilation: what the pass made is no Program, is not well formed, or has other types.

    >>> import functad, functad.numpy as jnp
    >>> from functad import lax
    >>> from functad.extend import register_pass
    >>> def cosines_as_sines(program):
    ...     return program.replace(eqns=[
    ...         eqn.replace(primitive=lax.sin_p) if eqn.primitive is lax.cos_p else eqn for eqn in program.eqns])
    >>> f = functad.jit(lambda x: jnp.cos(x) * 2.)
    >>> with register_pass("cosines as sines", cosines_as_sines, "they are not: this is an example"):
    ...     print(f.lower(1.).optimized)
    { lambda ; a:f32[]. let b:f32[] = sin a; c:f32[] = mul b 2.0:f32[] in (c,) }
    """
    places = list(dict.fromkeys(a_pass.__name__ for a_pass in PASSES))
    if after not in places:
        close = close_names(after, places)
        meant = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
        raise ArgumentError(f"register_pass({name!r}): after must be one of {', '.join(places)}; got {after!r}{meant}")
    if not because.strip():
        raise ArgumentError(f"register_pass({name!r}): because must say why results are the same")
    _check_callable(f"register_pass({name!r})", "run", run)
    return Registration("pass", name, OwnPass(name, checked_pass(name, run), after, because))


def _check_callable(function: str, argument: str, value: Any) -> None:
    if not callable(value):
        raise ArgumentError(f"{function}: {argument} must be a function, got {value!r}")
