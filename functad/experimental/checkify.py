"""`checkify`: errors as values. A function that may fail becomes one that returns what failed first, beside its result.

Knows Programs and control flow: an interpreter that runs a Program equation by equation, with an error carried along,
through loops and branches too. A check is a callback that raises; here it becomes arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np

from functad import numpy as jnp
from functad import random
from functad.absent import absent
from functad.api.mapping import vmap
from functad.array import Array, ArrayImpl
from functad.calls.checkpoint import remat_p
from functad.calls.closed_call import closed_call_p
from functad.calls.custom_rules import custom_jvp_call_p, custom_vjp_call_p
from functad.calls.jit import call_program, jit_p
from functad.control.conditional import cond, cond_p
from functad.control.scan import scan, scan_p
from functad.control.while_loop import while_, while_p
from functad.dtypes import key_fry
from functad.errors import ArgumentError, DTypeError
from functad.errors import CheckError as JaxRuntimeError
from functad.evaluation import aval_of
from functad.experimental.automatic_checks import AUTOMATIC
from functad.experimental.errors_as_values import (
    Error,
    ErrorCategory,
    RaisingCheck,
    Site,
    all_checks,
    automatic_checks,
    check_error,
    div_checks,
    first_failed,
    float_checks,
    index_checks,
    init_error,
    nan_checks,
    raise_unless_caught,
    strong,
    user_checks,
)
from functad.ir import Eqn, Literal, Program, memoised
from functad.primitives.callback import MappedCallback, debug_callback_p
from functad.tracing import Tracer, bind, trace_to_program
from functad.tree_util import keystr, tree_flatten, tree_flatten_with_path, tree_unflatten
from functad.user_source import state as lines

__all__ = [
    "Error",
    "ErrorCategory",
    "JaxRuntimeError",
    "all_checks",
    "automatic_checks",
    "check",
    "check_error",
    "checkify",
    "debug_check",
    "div_checks",
    "float_checks",
    "index_checks",
    "init_error",
    "nan_checks",
    "user_checks",
]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__


# --- asking ------------------------------------------------------------------------------------------------


def check(pred: Any, msg: str, *fmt_args: Any, debug: bool = False, **fmt_kwargs: Any) -> None:
    """Say what must hold. Where nobody makes a value of the error (`checkify`), its failure raises, jitted too.

    Args:
        pred: a boolean, what must hold.
        msg: a format string for when it does not.
        fmt_args, fmt_kwargs: pytrees of arrays for its placeholders.
        debug: whether it is only looked at under `checkify`.

    Raises:
        JaxRuntimeError: it does not hold.
        DTypeError: `pred` is no boolean, or an argument of the message no array.
        ArgumentError: the message does not fit its arguments.

    >>> import functad
    >>> from functad.experimental import checkify
    >>> def f(x):
    ...     checkify.check(x > 0, "{x} is not positive", x=x)
    ...     return functad.numpy.log(x)
    >>> error, out = functad.jit(checkify.checkify(f))(-1.)
    >>> error.get()
    '-1.0 is not positive (`check` failed)'
    """
    leaves = [(keystr(path), leaf) for path, leaf in tree_flatten_with_path((fmt_args, fmt_kwargs))[0]]
    for name, leaf in leaves:
        if not isinstance(leaf, (Array, np.ndarray, np.generic, int, float, complex)):
            raise DTypeError(f"checkify.check: the argument {name} of the message is no array, but {leaf!r}")
    pred = jnp.asarray(pred)
    if pred.shape or pred.dtype != bool:
        raise DTypeError(f"checkify.check takes a boolean of shape (), but was given {aval_of(pred).str_short()}")
    values = [jnp.asarray(leaf) for _, leaf in leaves]
    try:
        msg.format(*fmt_args, **fmt_kwargs)
    except (IndexError, KeyError, ValueError, TypeError) as problem:
        if not any(isinstance(leaf, Tracer) for leaf in values) or isinstance(problem, (IndexError, KeyError)):
            raise ArgumentError(f"checkify.check: the message {msg!r} does not fit its arguments: {problem}") from None
    tree = tree_flatten((fmt_args, fmt_kwargs))[1]
    keys = frozenset(i for i, x in enumerate(values) if x.dtype is key_fry)
    values = [random.key_data(x) if i in keys else x for i, x in enumerate(values)]
    site = Site(f"{msg} (`check` failed)", tree, tuple(map(strong, map(aval_of, values))), keys)
    raise_unless_caught((site,), jnp.logical_not(pred), np.int32(0), values, bool(debug))


def debug_check(pred: Any, msg: str, *fmt_args: Any, **fmt_kwargs: Any) -> None:
    """`check` that is only looked at under `checkify`, and costs nothing elsewhere.

    >>> from functad.experimental import checkify
    >>> checkify.debug_check(False, "nobody asks")
    """
    check(pred, msg, *fmt_args, debug=True, **fmt_kwargs)


# --- making values of errors ------------------------------------------------------------------------------


def checkify(f: Callable[..., Any], errors: frozenset[ErrorCategory] = user_checks) -> Callable[..., tuple[Error, Any]]:
    """The function as one that returns what failed first, an `Error`, and its result, whatever that is worth then.

    Loops and branches carry the error; it may be mapped, jitted and differentiated. Under custom derivative rules only
    the function itself is looked at: it is differentiated as it stands where it holds a check.

    Args:
        f: a function of pytrees of arrays.
        errors: what is looked for: `user_checks`, `nan_checks`, `div_checks`, `index_checks`, or unions of them.

    >>> import functad
    >>> from functad.experimental import checkify
    >>> def f(x, i):
    ...     return functad.numpy.sin(x[i])
    >>> error, out = functad.jit(checkify.checkify(f, errors=checkify.index_checks))(functad.numpy.ones(3), 5)
    >>> error.get()
    'out-of-bounds indexing for array of shape (3,): index 5 is out of bounds for axis 0 with size 3. '
    """
    kinds = frozenset(errors)

    @wraps(f)
    def checked(*args: Any, **kwargs: Any) -> tuple[Error, Any]:
        leaves, tree = tree_flatten((args, kwargs))
        values = [jnp.asarray(leaf) for leaf in leaves]
        found: list[Any] = []

        def flat(*tracers: Any) -> list[Any]:
            given, named = tree_unflatten(tree, tracers)
            outs, out_tree = tree_flatten(f(*given, **named))
            found.append(out_tree)
            return [jnp.asarray(out) for out in outs]

        program = trace_to_program(flat, [aval_of(v) for v in values], name=getattr(f, "__name__", "checked"))
        sites = [site for site in _sites(program, kinds)]
        payloads = [jnp.zeros(aval.shape, aval.dtype) for site in sites for aval in site.avals]
        error = [jnp.asarray(False), jnp.asarray(np.int32(0)), *payloads]
        error, outs = _Walk(kinds, sites).run(program, values, error, 0)
        return Error(error[0], error[1], error[2:], sites), tree_unflatten(found[0], outs)

    return checked


_CALLS = (jit_p, closed_call_p, remat_p, custom_jvp_call_p, custom_vjp_call_p)


def _sites(program: Program, kinds: frozenset[ErrorCategory]) -> tuple[Site, ...]:
    """The places of a Program that may fail, in the order in which the interpreter comes by."""
    key = ("places that may fail", kinds)
    return memoised(program, key, lambda: tuple(s for eqn in program.eqns for s in _sites_of(eqn, kinds)))


def _sites_of(eqn: Eqn, kinds: frozenset[ErrorCategory]) -> Iterator[Site]:
    if asked := _check_of(eqn):
        yield from asked.sites if user_checks <= kinds else ()
        return
    inner = _programs_of(eqn)
    for program in inner:
        yield from _sites(program, kinds)
    if not inner:
        for rule in AUTOMATIC:
            if rule.kind <= kinds and rule.applies(eqn):
                yield rule.site(eqn)


def _check_of(eqn: Eqn) -> RaisingCheck | None:
    if eqn.primitive is not debug_callback_p:
        return None
    callback = eqn.params["callback"]
    flat = callback.callback if isinstance(callback, MappedCallback) else callback
    return flat.fun if isinstance(flat.fun, RaisingCheck) else None


def _holds_check(eqn: Eqn) -> bool:
    def somewhere(program: Program) -> bool:
        return memoised(program, ("holds a check",), lambda: any(map(_holds_check, program.eqns)))

    return _check_of(eqn) is not None or any(map(somewhere, _programs_of(eqn)))


def _programs_of(eqn: Eqn) -> list[Program]:
    """The Programs that an equation runs, in the order in which the interpreter comes by."""
    params = eqn.params
    if eqn.primitive is while_p:
        return [params["cond_jaxpr"], params["body_jaxpr"]]
    if eqn.primitive is cond_p:
        return list(params["branches"])
    if eqn.primitive is scan_p or eqn.primitive in _CALLS:
        program = params.get("jaxpr", params.get("call_jaxpr"))
        return [] if program is None else [program]
    return []


class _Walk:
    """Runs Programs with an error: [whether anything failed, which place, the payloads of all places]."""

    def __init__(self, kinds: frozenset[ErrorCategory], sites: Sequence[Site]) -> None:
        self.kinds, self.sites = kinds, sites

    def run(self, program: Program, args: Sequence[Any], error: list[Any], first: int) -> tuple[list[Any], list[Any]]:
        """The error and the results. first: the number of the Program's first place."""
        env: dict[Any, Any] = dict(zip((*program.constvars, *program.invars), (*program.consts, *args)))

        def read(atom: Any) -> Any:
            return ArrayImpl(atom.value, atom.aval.weak_type) if isinstance(atom, Literal) else env[atom]

        outer = lines.source
        try:
            for eqn in program.eqns:
                lines.source = eqn.source
                operands = [read(a) for a in eqn.invars]
                count = sum(1 for _ in _sites_of(eqn, self.kinds))
                if count or _holds_check(eqn):
                    error, outs = self.equation(eqn, operands, error, first)
                else:
                    outs = bind(eqn.primitive, *operands, **eqn.params)
                    outs = outs if eqn.primitive.multiple_results else [outs]
                env.update(zip(eqn.outvars, outs))
                first += count
        finally:
            lines.source = outer
        return error, [read(a) for a in program.outvars]

    def equation(self, eqn: Eqn, operands: list[Any], error: list[Any], first: int) -> tuple[list[Any], list[Any]]:
        """One that may fail, or holds a check: if nobody looks for those, it is dropped."""
        if asked := _check_of(eqn):
            if not user_checks <= self.kinds:
                return error, []
            failed, number, payloads = first_failed(*_unmapped(eqn.params["callback"], operands))
            return self.failing(error, failed, first + number, dict(enumerate(payloads)), asked.sites, first), []
        special = {scan_p: self.scan, while_p: self.while_loop, cond_p: self.cond}.get(eqn.primitive)
        if special is not None:
            return special(eqn, operands, error, first)
        programs = _programs_of(eqn)
        if programs:
            return self.call(eqn, programs[0], operands, error, first)
        outs = bind(eqn.primitive, *operands, **eqn.params)
        results = list(outs) if eqn.primitive.multiple_results else [outs]
        for rule in AUTOMATIC:
            if rule.kind <= self.kinds and rule.applies(eqn):
                failed, payload = rule.test(eqn, operands, results)
                site = self.sites[first]
                error = self.failing(error, failed, np.int32(first), dict(enumerate(payload)), (site,), first)
                first += 1
        return error, results

    def failing(
        self, error: list[Any], failed: Any, number: Any, payload: dict[int, Any], sites: Sequence[Site], first: int
    ) -> list[Any]:
        """The error after a place that failed, or not; payload: of `sites`, the first of which has number `first`."""
        before = error[0]
        is_new = jnp.logical_and(failed, jnp.logical_not(before))
        start = 2 + sum(len(site.avals) for site in self.sites[:first])
        error = list(error)
        error[0] = jnp.logical_or(before, failed)
        error[1] = jnp.where(is_new, number, error[1]).astype("int32")
        for k, value in payload.items():
            error[start + k] = jnp.where(is_new, value, error[start + k])
        return error

    def traced(self, program: Program, error: list[Any], first: int, before: int = 0) -> Program:
        """The Program with the error behind its first `before` inputs, and in front of its results."""
        avals = [strong(aval_of(e)) for e in error]

        def run(*args: Any) -> list[Any]:
            given = [*args[:before], *args[before + len(avals) :]]
            after, outs = self.run(program, given, list(args[before : before + len(avals)]), first)
            return [*after, *outs]

        ins = program.in_avals
        return trace_to_program(run, [*ins[:before], *avals, *ins[before:]], name=program.name)

    def call(
        self, eqn: Eqn, program: Program, operands: list[Any], error: list[Any], first: int
    ) -> tuple[list[Any], list[Any]]:
        if eqn.primitive is not jit_p:
            return self.run(program, operands, error, first)
        outs = call_program(self.traced(program, error, first), [*error, *operands], eqn.params["name"])
        return outs[: len(error)], outs[len(error) :]

    def scan(self, eqn: Eqn, operands: list[Any], error: list[Any], first: int) -> tuple[list[Any], list[Any]]:
        p = eqn.params
        consts, rest = operands[: p["num_consts"]], operands[p["num_consts"] :]
        body = self.traced(p["jaxpr"], error, first, len(consts))
        carry, xs = [*error, *rest[: p["num_carry"]]], rest[p["num_carry"] :]
        carry, ys = scan(
            body, consts, carry, xs, length=p["length"], reverse=p["reverse"], unroll=p["unroll"], linear=p["linear"]
        )
        return carry[: len(error)], [*carry[len(error) :], *ys]

    def cond(self, eqn: Eqn, operands: list[Any], error: list[Any], first: int) -> tuple[list[Any], list[Any]]:
        branches = []
        for branch in eqn.params["branches"]:
            branches.append(self.traced(branch, error, first))
            first += len(_sites(branch, self.kinds))
        outs = cond(branches, operands[0], [*error, *operands[1:]])
        return outs[: len(error)], outs[len(error) :]

    def while_loop(self, eqn: Eqn, operands: list[Any], error: list[Any], first: int) -> tuple[list[Any], list[Any]]:
        """The condition is computed behind each step, so that its error is carried like that of the body."""
        p = eqn.params
        holds, step = p["cond_jaxpr"], p["body_jaxpr"]
        k, n = p["cond_nconsts"], p["body_nconsts"]
        cond_consts, body_consts, carry = operands[:k], operands[k : k + n], operands[k + n :]
        count, inside = len(error), first + len(_sites(holds, self.kinds))
        error, (goes_on,) = self.run(holds, [*cond_consts, *carry], error, first)

        def body(*args: Any) -> list[Any]:
            consts, (_, *state) = args[: k + n], args[k + n :]
            after, values = self.run(step, [*consts[k:], *state[count:]], list(state[:count]), inside)
            after, again = self.run(holds, [*consts[:k], *values], after, first)
            return [*again, *after, *values]

        avals = [strong(aval_of(x)) for x in (goes_on, *error)]
        ins = [*holds.in_avals[:k], *step.in_avals[:n]]
        whole = trace_to_program(body, [*ins, *avals, *step.in_avals[n:]], name=step.name)
        asks = trace_to_program(lambda flag, *rest: [flag], [*avals, *step.in_avals[n:]], name=holds.name)
        outs = while_(asks, [], whole, [*cond_consts, *body_consts], [goes_on, *error, *carry])
        return outs[1 : 1 + count], outs[1 + count :]


def _unmapped(callback: Any, operands: Sequence[Any]) -> tuple[Any, ...]:
    """The operands of a callback with all axes that were mapped in front."""
    if not isinstance(callback, MappedCallback):
        return tuple(operands)
    mapped: Callable[..., Any] = lambda *x: x  # noqa: E731
    for size, dims in callback.axes:
        mapped = vmap(mapped, in_axes=tuple(dims), axis_size=size)
    return tuple(mapped(*operands))
