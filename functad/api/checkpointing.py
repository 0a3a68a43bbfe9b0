"""`checkpoint` for users: functions whose intermediate values are computed again when they are differentiated.

Knows pytrees, static arguments and the tracing of functions; the equation `remat_p` and its rules are in
`functad.calls.checkpoint`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from functad.api.arguments import (
    FlatFunction,
    LeafNames,
    P,
    R,
    as_value,
    check_callable,
    described_like,
    function_name,
    of_positions,
)
from functad.api.bodies import remembered
from functad.api.jit_options import marked_parameters
from functad.calls.checkpoint import Policy
from functad.calls.checkpoint import remat as bind_remat
from functad.config import config
from functad.errors import ArgumentError, ConcretizationError
from functad.exact import exact_key
from functad.ir import Aval, Program, surroundings
from functad.system.recent import Recent
from functad.tracing import Trace, Tracer, program_from_ops
from functad.tree_util import PyTreeDef, tree_flatten, tree_unflatten


def checkpoint(
    fun: Callable[P, R],
    *,
    prevent_cse: bool = True,
    policy: Policy | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Iterable[str] = (),
) -> Callable[P, R]:
    """The same function, but differentiating it keeps its arguments only, and computes the rest again.

    A derivative needs the values between the operations of a function. Usually they are kept from the forward pass
    until the backward pass reads them, so memory grows with the number of operations. Here the backward pass starts
    from the arguments once more: less memory, for the time of at most one more forward pass. With n layers in √n
    checkpointed groups of √n layers, memory grows as √n. `jvp` has nothing to keep: compiled in
    one `jit` with the function, it computes everything once.

    Args:
        fun: a function of pytrees of arrays. It is traced: no Python control flow on the values of its arguments.
            What it closes over and is being differentiated counts as an argument.
        prevent_cse: keep `jit` from finding that what is computed again was there already. Leave it True, except
            within a loop of `functad.lax`, where nothing else can be found the same.
        policy: which intermediate values to keep nevertheless, one of `functad.checkpoint_policies` or a function
            `policy(primitive, *avals, **params) -> bool`. By default none. It also decides for checkpointed functions
            that `fun` calls: their own policies say what is kept while they are differentiated after that.
        static_argnums: positions of arguments that are Python values, not arrays.
        static_argnames: names of such arguments, given by position or by keyword.

    Returns:
        A function of the same arguments with the same results.

    Raises:
        ArgumentError: `static_argnums` or `static_argnames` that do not fit the call.
        ConcretizationError: `fun` looks at the value of an argument that is not static.

    >>> import functad, functad.numpy as jnp
    >>> f = functad.checkpoint(lambda x: jnp.sin(jnp.sin(x)))
    >>> functad.grad(f)(2.) == functad.grad(lambda x: jnp.sin(jnp.sin(x)))(2.)
    Array(True, dtype=bool)
    >>> print(functad.make_jaxpr(functad.grad(f))(2.))
    { lambda ; a:f32[]. let
        b:f32[] = sin a
        _:f32[] = sin b
        c:f32[] = remat2[
          differentiated=True
          jaxpr={ lambda ; d:f32[] e:f32[]. let
              f:f32[] = sin d
              g:f32[] = cos d
              h:f32[] = cos f
              i:f32[] = mul e h
              j:f32[] = mul i g
            in (j,) }
          policy=None
          prevent_cse=True
        ] a 1.0:f32[]
      in (c,) }
    """
    check_callable(fun, "checkpoint")
    if not isinstance(prevent_cse, bool):
        raise ArgumentError(f"checkpoint: prevent_cse must be True or False, got {prevent_cse!r}")
    if policy is not None:
        check_callable(policy, "checkpoint: policy")
    static = (static_argnums,) if isinstance(static_argnums, (int, np.integer)) else tuple(static_argnums)
    named_positions, static_names = marked_parameters(fun, None, static_argnames, "static", "checkpoint")

    @described_like(fun)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        statics = _static_positions(static, len(args), fun) | {i for i in named_positions if i < len(args)}
        dynamic = {i: a for i, a in enumerate(args) if i not in statics}
        options = {name: kwargs.pop(name) for name in sorted(static_names & kwargs.keys())}
        names = LeafNames(fun, dynamic, kwargs)
        leaves, in_tree = tree_flatten((tuple(dynamic.values()), kwargs))
        values = [as_value(x, names.describe(i)) for i, x in enumerate(leaves)]
        program, out_tree = _traced(fun, args, options, statics, names, in_tree, [v.aval for v in values])
        outs = bind_remat(program, values, prevent_cse=prevent_cse, policy=policy, differentiated=False)
        return tree_unflatten(out_tree, outs)

    return checkpointed


remat = checkpoint


def _static_positions(static: Sequence[int], count: int, fun: Callable[..., Any]) -> frozenset[int]:
    if not all(isinstance(n, (int, np.integer)) and -count <= n < count for n in static):
        raise ArgumentError(
            f"checkpoint: static_argnums={tuple(static)} does not fit a call of {function_name(fun)} with {count} "
            "positional arguments; pass static arguments by position"
        )
    return frozenset(n % count for n in static)


_TracedFunction = tuple[Program, PyTreeDef]

known_functions: weakref.WeakKeyDictionary[Any, Recent[_TracedFunction]] = weakref.WeakKeyDictionary()


def _traced(
    fun: Callable[..., Any],
    args: tuple[Any, ...],
    options: dict[str, Any],
    statics: frozenset[int],
    names: LeafNames,
    in_tree: PyTreeDef,
    avals: list[Aval],
) -> _TracedFunction:
    """The Program of a function for arguments of these types, the same object at every call where that is possible."""
    found = remembered(known_functions, fun)
    try:
        fixed = {i: args[i] for i in sorted(statics)} | options
        signature = tuple([(where, exact_key(value)) for where, value in fixed.items()])
    except TypeError:  # a static argument has no hash
        found, signature = Recent(1), ()
    key = (in_tree.exact_key(), tuple(avals), signature, config.trace_settings, surroundings.axes)
    known = found.find(key)
    if known is not None:
        return known
    of_dynamic = of_positions(fun, args, options, names.args)
    flat_fun = FlatFunction(of_dynamic, in_tree, transform="checkpoint", name=function_name(fun))
    with Trace(f"checkpoint of {function_name(fun)}", records_all=True) as trace:
        inputs = [trace.new_input(a, o) for a, o in zip(avals, names.origins(len(avals)))]
        try:
            outs = flat_fun(*inputs)
        except ConcretizationError as error:
            if trace.name not in str(error):
                raise
            raise ConcretizationError(
                f"{error}\nOr, if it is a Python value and no array, mark it: `checkpoint(f, static_argnums=…)`"
            ) from error
    program = program_from_ops(trace, trace.take_ops(), inputs, outs, function_name(fun))
    assert flat_fun.out_tree is not None
    if not trace.depends_on_values and not any(isinstance(c, Tracer) for c in program.consts):
        found.add(key, (program, flat_fun.out_tree))
    return program, flat_fun.out_tree
