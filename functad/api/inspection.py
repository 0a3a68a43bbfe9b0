"""Looking at functions as Programs: make_jaxpr, explain, graph, eval_jaxpr, parse_program, eval_shape, …

Knows how to trace a function of pytrees; runs nothing on values but `eval_jaxpr`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functad.api.arguments import (
    FlatFunction,
    LeafNames,
    P,
    R,
    ShapeDtypeStruct,
    as_value,
    check_callable,
    described_like,
    function_name,
    leaf_aval,
    of_positions,
)
from functad.errors import ArgumentError
from functad.ir import Primitive, Program
from functad.pretty import call_arguments
from functad.primitive_record import set_binder
from functad.system.once import imported
from functad.tracing import Tracer, bind, current_trace, eval_program, trace_to_program
from functad.tree_util import PyTreeDef, tree_flatten, tree_structure, tree_unflatten
from functad.user_source import named_scope


def trace_function(
    fun: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    transform: str,
    names: LeafNames | None = None,
) -> tuple[Program, PyTreeDef, PyTreeDef]:
    """The Program of a function for arguments of these types, with the structures of inputs and output."""
    leaves, in_tree = tree_flatten((args, kwargs))
    names = names or LeafNames(fun, dict(enumerate(args)), kwargs)
    avals = [leaf_aval(x, names.describe(i)) for i, x in enumerate(leaves)]
    name = function_name(names.fun)
    flat_fun = FlatFunction(fun, in_tree, transform=transform, name=name)
    program = trace_to_program(flat_fun, avals, name=name, arg_names=names.origins(len(avals)))
    assert flat_fun.out_tree is not None
    return program, in_tree, flat_fun.out_tree


def make_jaxpr(
    fun: Callable[..., Any],
    static_argnums: int | Sequence[int] = (),
    axis_env: Any = None,
    return_shape: bool = False,
) -> Callable[..., Any]:
    """A function that traces `fun` instead of running it.

    Args:
        fun: a function of pytrees of arrays.
        static_argnums: positional arguments that are Python values, not arrays.
        axis_env: accepted for JAX's sake.
        return_shape: also return the types of the output.

    Returns:
        A function of the arguments of `fun` (or `ShapeDtypeStruct`s) that gives its `Program`: printable, with
        `.eqns`, `.invars`, `.outvars`, `.constvars`, `.consts`, `.in_avals`, `.out_avals`.

    >>> import functad
    >>> functad.make_jaxpr(lambda x: 2. * x)(1.)
    { lambda ; a:f32[]. let b:f32[] = mul 2.0:f32[] a in (b,) }
    """
    check_callable(fun, "make_jaxpr")

    @described_like(fun)
    def traced(*args: Any, **kwargs: Any) -> Any:
        given = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
        statics = {n % len(args) for n in given if -len(args) <= n < len(args)}
        dynamic = {i: a for i, a in enumerate(args) if i not in statics}

        names = LeafNames(fun, dynamic, kwargs)
        of_dynamic = of_positions(fun, args, {}, dynamic)
        program, _, out_tree = trace_function(of_dynamic, tuple(dynamic.values()), kwargs, "make_jaxpr", names)
        call_arguments(program, names.all())  # at once: what is asked later would keep the arguments
        if not return_shape:
            return program
        shapes = [ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in program.out_avals]
        return program, tree_unflatten(out_tree, shapes)

    return traced


def graph(fun: Callable[..., Any], *, optimized: bool = False, fold: bool | None = None) -> Callable[..., Any]:
    """A function that draws the dataflow of `fun` instead of running it.

    Args:
        fun: a function of pytrees of arrays; a transformed one, such as `grad(loss)`, shows its derivative.
        optimized: draw the Program as it is compiled, with a frame around the equations of each kernel.
        fold: draw chains of equations, the equal steps of unrolled loops and bundles of inputs as one box each; None:
            if there are more than forty equations.

    Returns:
        A function of the arguments of `fun` (or `ShapeDtypeStruct`s) that gives a `functad.views.Graph`: a notebook
        shows it; `.save("graph.svg")` writes it as SVG, HTML, Mermaid or DOT, `.svg`, `.mermaid()` and `.dot()` are
        text. The way back of reverse mode stands at the right of the way forward. A Program, such as `make_jaxpr`
        gives, is drawn by `functad.views.Graph(program)`.

    >>> import functad
    >>> drawing = functad.graph(functad.grad(lambda x: x * x * 2.))(3.)
    >>> drawing
    <Graph of <lambda>: 6 equations>
    >>> drawing.svg[:4]
    '<svg'
    """
    check_callable(fun, "graph")

    @described_like(fun)
    def drawn(*args: Any, **kwargs: Any) -> Any:
        if hasattr(fun, "trace_anew"):  # a jitted one knows which of its arguments are static
            jitted: Any = fun
            traced = jitted.trace(*args, **kwargs)
            program, labels = traced.jaxpr, traced.leaf_names
        else:
            program, _, _ = trace_function(fun, args, kwargs, "graph")
            labels = LeafNames(fun, dict(enumerate(args)), kwargs).all()
        return imported("functad.views.graph").graph_of(program, labels, optimized, fold)

    return drawn


def eval_jaxpr(jaxpr: Program, consts: Sequence[Any], *args: Any) -> list[Any]:
    """Run a Program, equation by equation, on flat arguments; transforms see through it.

    Args:
        jaxpr: what `make_jaxpr` gave.
        consts: values for its `constvars`, usually `jaxpr.consts`.
        args: one array an input.

    Returns:
        The list of its outputs.

    >>> import functad
    >>> program = functad.make_jaxpr(lambda x: 2. * x)(1.)
    >>> functad.eval_jaxpr(program, program.consts, 4.)
    [Array(8., dtype=float32, weak_type=True)]
    """
    for what, given, wanted in (("arguments", args, jaxpr.invars), ("consts", consts, jaxpr.constvars)):
        if len(given) != len(wanted):
            raise ArgumentError(f"eval_jaxpr: the Program takes {len(wanted)} {what}, but {len(given)} were given")
    values = []
    for i, (a, v) in enumerate(zip(args, jaxpr.invars)):
        value = as_value(a, lambda i=i: f"argument {i} of eval_jaxpr")  # type: ignore[misc]
        if not value.aval.same_type(v.aval):
            raise ArgumentError(
                f"eval_jaxpr: argument {i} must have type {v.aval.str_short()}, but has {value.aval.str_short()}"
            )
        values.append(value)
    return eval_program(jaxpr, values, consts)


def _bind_operands(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    values = [as_value(a, lambda i=i: f"argument {i} of {primitive.name}.bind") for i, a in enumerate(args)]  # type: ignore[misc]
    return bind(primitive, *values, **params)


set_binder(_bind_operands)


def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The shapes and dtypes of what `fun(*args, **kwargs)` would return, without computing anything.

    What is a `ShapeDtypeStruct` already, stays so.

    >>> import functad, functad.numpy as jnp
    >>> functad.eval_shape(lambda x, y: x @ y, jnp.ones((2, 3)), jnp.ones((3, 4)))
    ShapeDtypeStruct(shape=(2, 4), dtype=float32)
    """
    check_callable(fun, "eval_shape")
    kept: dict[int, ShapeDtypeStruct] = {}

    def without_types(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = tree_flatten(fun(*args, **kwargs))
        kept.update((i, x) for i, x in enumerate(leaves) if isinstance(x, ShapeDtypeStruct))
        return tree_unflatten(tree, [0 if i in kept else x for i, x in enumerate(leaves)])

    names = LeafNames(fun, dict(enumerate(args)), kwargs)
    program, _, out_tree = trace_function(without_types, args, kwargs, "eval_shape", names)
    shapes = [ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in program.out_avals]
    return tree_unflatten(out_tree, [kept.get(i, shape) for i, shape in enumerate(shapes)])


def closure_convert(fun: Callable[..., Any], *example_args: Any) -> tuple[Callable[..., Any], list[Any]]:
    """Turn the traced values that a function closes over into arguments.

    Args:
        fun: a function of pytrees.
        example_args: arguments of the types it will be called with.

    Returns:
        `(converted, values)` such that `converted(*args, *values)` equals `fun(*args)` and closes over nothing
        that is being differentiated or mapped.

    >>> import functad
    >>> def f(x):
    ...     converted, values = functad.closure_convert(lambda y: x * y, 1.)
    ...     return converted(3., *values)
    >>> functad.grad(f)(2.)
    Array(3., dtype=float32, weak_type=True)
    """
    check_callable(fun, "closure_convert")
    program, in_tree, out_tree = trace_function(fun, example_args, {}, "closure_convert")
    hoisted = [isinstance(c, Tracer) for c in program.consts]

    def converted(*args_and_values: Any) -> Any:
        n = len(args_and_values) - sum(hoisted)
        args, given = args_and_values[:n], iter(args_and_values[n:])
        leaves, structure = tree_flatten((args, {}))
        if structure != in_tree:
            raise ArgumentError(
                f"closure_convert: the converted function was made for arguments {tree_structure(example_args)}, "
                f"but was called with {tree_structure(args)} and {sum(hoisted)} hoisted values"
            )
        consts = [next(given) if h else c for h, c in zip(hoisted, program.consts)]
        return tree_unflatten(out_tree, eval_program(program, [_array(x) for x in leaves], consts))

    return converted, [c for c, h in zip(program.consts, hoisted) if h]


def _array(x: Any) -> Any:
    return as_value(x, lambda: "an argument of the converted function")


def named_call(fun: Callable[P, R], *, name: str | None = None) -> Callable[P, R]:
    """A function whose equations carry its name with their source line (see `named_scope`).

    >>> import functad
    >>> f = functad.named_call(lambda x: x * x, name="square")
    >>> functad.make_jaxpr(f)(2.).eqns[0].source.scopes
    ('square',)
    """
    check_callable(fun, "named_call")

    @described_like(fun)
    def named(*args: Any, **kwargs: Any) -> Any:
        with named_scope(name or function_name(fun)):
            return fun(*args, **kwargs)

    return named


__all__ = [
    "closure_convert",
    "eval_jaxpr",
    "eval_shape",
    "explain",
    "graph",
    "make_jaxpr",
    "named_call",
    "trace_function",
]


def parse_program(text: str, consts: Sequence[Any] = ()) -> Program:
    """The Program that a text says, in the notation in which Programs are printed: what `make_jaxpr` shows.

    Args:
        text: the Program. Line breaks and indentation mean what any space means; `#` begins a remark. Weak types,
            which are not printed, are not read.
        consts: arrays, one for each variable before the `;` of the outermost Program behind which no value is written,
            as in `a:f32[2]=[1.0, 2.0]`; `program_to_text(constants=True)` writes all.

    What a parameter holds that no text can say, such as the function of a custom rule, is read as its name: the Program
    prints and runs, but raises where that function is called. So it is with a constant of a Program within another, of
    which the text tells the type alone. Primitives of yours are found by their names, where
    functad has none of that name.

    Raises:
        ProgramError: the text is none of a Program, with its line; a primitive or a variable is not known; a result is
            not of the type that is written.

    >>> import functad, numpy as np
    >>> program = functad.parse_program("{ lambda ; x:f32[3]. let y:f32[3] = sin x; z:f32[3] = mul y x in (z,) }")
    >>> program
    { lambda ; a:f32[3]. let b:f32[3] = sin a; c:f32[3] = mul b a in (c,) }
    >>> functad.eval_jaxpr(program, program.consts, np.ones(3, np.float32))[0].round(3)
    Array([0.841, 0.841, 0.841], dtype=float32)
    """
    imported("functad.all_primitives")
    program: Program = imported("functad.editing.parsing").program_of_text(text, consts)
    return program


def explain(fun: Callable[..., Any], *, times: bool = True, user_names: bool = False) -> Callable[..., Any]:
    """A function that shows the journey of `fun` from its source to machine code, instead of running it.

    Args:
        fun: a function of pytrees of arrays, jitted or not; `grad(f)` and `vmap(f)` are looked at like any other.
        times: whether kernels are run, on random numbers, to say how long they take. Those of functions with a `while`
            loop, or with callbacks, are not: the one might never end, the others do what you see.
        user_names: whether variables are called as you call them, through all stages: `params_w` for `params['w']`, and
            `h` for what `h = jnp.tanh(x)` gives. What you do not name has a letter.

    Returns:
        A function of the arguments of `fun` (or `ShapeDtypeStruct`s) that gives an `Explanation`: the user's lines,
        equations as traced, linearised, transposed and after each pass of the optimiser that changed something, with
        the reasons of its rules; groups of equations that share a loop, the memory plan, kernels, LLVM IR and assembly.
        It prints, shows itself in a notebook, and `.save("page.html")` writes a page in which pointing at a line marks
        what belongs to it in all other stages. Kernels are those of the CPU, whatever the backend; without Numba they
        are the last stage.

    Raises:
        ArgumentError: `fun` is no function, or is being traced just now.

    >>> import functad, functad.numpy as jnp
    >>> loss = lambda w, x: jnp.sum(jnp.tanh(w * x))
    >>> found = functad.explain(functad.grad(loss), times=False)(jnp.ones(3), jnp.ones(3))
    >>> print(found["Linearised"])
    Linearised
    Each equation's jvp rule says how a small change of its operands changes its result: names in
    _dot are tangents. What it needs of the forward pass is a constant here, a residual.
      { lambda b:f32[3] d:f32[3] f:f32[3]; a_dot:f32[3]. let
          c_dot:f32[3] = mul a_dot b  # 3 flops, 36 bytes
          g:f32[3] = mul c_dot d  # 3 flops, 36 bytes
          h:f32[3] = add c_dot g  # 3 flops, 36 bytes
          d_dot:f32[3] = mul h f  # 3 flops, 36 bytes
          e_dot:f32[] = reduce_sum[axes=(0,)] d_dot  # 3 flops, 16 bytes
        in (e_dot,) }
    """
    check_callable(fun, "explain")

    @described_like(fun)
    def explained(*args: Any, **kwargs: Any) -> Any:
        if current_trace() is not None:
            raise ArgumentError(
                f"explain looks at a function from outside, but {function_name(fun)} is part of one that is being "
                "traced now; call explain outside of jit, grad and vmap, on the whole function"
            )
        views = imported("functad.views.explanation")
        return views.Explanation(imported("functad.views.journey").journey(fun, args, kwargs, times, user_names))

    return explained
