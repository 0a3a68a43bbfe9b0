"""`jit` for users: signatures, static arguments, the cache of traced Programs, and looking at each stage.

Knows when a Program can be used again; the equation `jit_p` and its rules are in `functad.calls.jit`.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import copy as copy_of
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, overload

from functad.api.arguments import (
    FlatFunction,
    LeafNames,
    P,
    R,
    as_value,
    check_callable,
    description_of,
    function_name,
    leaf_aval,
    of_positions,
    positional_names,
    without_float0,
)
from functad.api.cache_misses import CallExplanation, Signature, closure_of, explain_miss, forget, remember
from functad.api.device_dispatch import CallPlace, backend_of, call_place, make_call_at, place_of_call
from functad.api.dispatch import MISS, Arguments, FastCall, Results, passed_on
from functad.api.jit_options import Shardings, check_hashable, marked_parameters
from functad.api.meshes import device_put
from functad.api.traced_calls import CacheEntry, SortedCall, TracedCalls, traced_calls_of
from functad.array import ArrayImpl
from functad.backends import check_backend
from functad.calls.common import closed
from functad.calls.jit import jit_p, of_moderate_depth
from functad.config import Config, config, current_settings, exceptional
from functad.device_arrays import DeviceArray, common_device, device_of_new_arrays, to_device
from functad.editing.placement import on_one_device
from functad.errors import ArgumentError, NestingError, WideningWarning
from functad.execution import executable
from functad.ir import Aval
from functad.layouts import CPU, Device, device_named
from functad.system.log import logger
from functad.system.once import Turn, imported
from functad.tracing import Trace, Tracer, bind, current_trace, eval_program, program_from_ops
from functad.tree_util import tree_flatten, tree_unflatten
from functad.widening import Meeting, watching_meetings

if TYPE_CHECKING:
    from functad.api.stages import Lowered, Traced


@overload
def jit(
    fun: Callable[P, R],
    *,
    static_argnums: int | Sequence[int] | None = ...,
    static_argnames: str | Sequence[str] | None = ...,
    donate_argnums: int | Sequence[int] | None = ...,
    donate_argnames: str | Sequence[str] | None = ...,
    keep_unused: bool = ...,
    inline: bool = ...,
    backend: str | None = ...,
    device: Any = ...,
    in_shardings: Any = ...,
    out_shardings: Any = ...,
    abstracted_axes: None = ...,
    compiler_options: Mapping[str, Any] | None = ...,
) -> JitFunction[P, R]: ...


@overload
def jit(
    fun: None = ...,
    *,
    static_argnums: int | Sequence[int] | None = ...,
    static_argnames: str | Sequence[str] | None = ...,
    donate_argnums: int | Sequence[int] | None = ...,
    donate_argnames: str | Sequence[str] | None = ...,
    keep_unused: bool = ...,
    inline: bool = ...,
    backend: str | None = ...,
    device: Any = ...,
    in_shardings: Any = ...,
    out_shardings: Any = ...,
    abstracted_axes: None = ...,
    compiler_options: Mapping[str, Any] | None = ...,
) -> Callable[[Callable[P, R]], JitFunction[P, R]]: ...


def jit(
    fun: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    keep_unused: bool = False,
    inline: bool = False,
    backend: str | None = None,
    device: Any = None,
    in_shardings: Any = None,
    out_shardings: Any = None,
    abstracted_axes: None = None,
    compiler_options: Mapping[str, Any] | None = None,
) -> Any:
    """Trace a function once for each signature, optimise it, and run the result from then on.

    Args:
        fun: a pure function of pytrees of arrays. Without it, `jit(**options)` is a decorator.
        static_argnums, static_argnames: arguments that are Python values and part of the signature; they must
            be hashable. Naming one by position also names it by keyword.
        donate_argnums, donate_argnames: arguments that the caller will not use again, so that results may take their
            memory, where nobody else sees it (NumPy arrays are copied). Using such an Array afterwards raises.
        keep_unused: accepted for JAX's sake; unused inputs are always kept.
        inline: put the equations of the function into the caller's Program, instead of one `jit` equation.
        backend: what runs the function, "cpu", "cuda" or "interpreter"; by default `config.default_backend`. Arrays
            that were put on a device are computed there whatever it says.
        device: where the function runs, a device or its name: arguments are copied there, results stay there. None:
            where its arguments lie. Its gradients go to where these lie. Within another jitted function, that one's
            backend and device run both.
        in_shardings, out_shardings: shardings on it, or pytrees of these that reach less deep than the positional
            arguments and the results; they change nothing, but must fit.
        abstracted_axes, compiler_options: accepted for JAX's sake; shapes are never abstract, and XLA's options say
            nothing here.

    Returns:
        A callable with the same arguments, and with `.trace(*args)`, `.lower(*args)`, `.explain(*args)`,
        `.clear_cache()`.

    What was traced belongs to the function and the options: `jit(f)(x)` in a loop traces once, as long as `f` is the
    same object (a lambda written there is another one each time). Of a function 1,024 signatures are kept, those
    used last.

    >>> import functad, functad.numpy as jnp
    >>> step = functad.jit(lambda x: x * 2. + 1.)
    >>> step(jnp.arange(3.))
    Array([1., 3., 5.], dtype=float32)
    """
    placed_on = device_named(device, "jit")
    shardings = None if in_shardings is None and out_shardings is None else Shardings(in_shardings, out_shardings)
    if abstracted_axes is not None:
        raise ArgumentError("jit: abstracted_axes must be None; a function is compiled once for each shape")
    options: dict[str, Any] = {
        "static_argnums": static_argnums,
        "static_argnames": static_argnames,
        "donate_argnums": donate_argnums,
        "donate_argnames": donate_argnames,
        "inline": inline,
        "backend": backend,
        "shardings": shardings,
        "device": placed_on,
    }
    if fun is None:
        return lambda f: JitFunction(f, **options)
    return JitFunction(fun, **options)


_REMEMBERED = 8  # signatures with a short way, most recently compiled first
_MANY_NESTED = 20  # jitted functions within each other, when these are to blame for a full stack


class JitFunction(Generic[P, R]):
    """A jitted function: what `jit` returns.

    >>> import functad, functad.numpy as jnp
    >>> doubled = functad.jit(lambda x: 2 * x)
    >>> isinstance(doubled, functad.stages.Wrapped), doubled(jnp.ones(2))
    (True, Array([2., 2.], dtype=float32))
    >>> doubled.lower(jnp.ones(2)).jaxpr
    { lambda ; a:f32[2]. let b:f32[2] = mul 2.0:f32[] a in (b,) }
    """

    def __init__(
        self,
        fun: Callable[P, R],
        static_argnums: Any = None,
        static_argnames: Any = None,
        donate_argnums: Any = None,
        donate_argnames: Any = None,
        inline: bool = False,
        backend: str | None = None,
        shardings: Shardings | None = None,
        device: Device | None = None,
    ) -> None:
        check_callable(fun, "jit")
        self.__wrapped__: Callable[..., Any]
        update_wrapper(self, fun, assigned=description_of(fun))
        self._fun = fun
        self._inline = inline
        if backend is not None:
            check_backend(backend)
        self._backend = backend
        self._device = device
        static = marked_parameters(fun, static_argnums, static_argnames, "static")
        donate = marked_parameters(fun, donate_argnums, donate_argnames, "donate")
        self._static_argnums, self._static_argnames = static
        self._donate_argnums, self._donate_argnames = donate
        both = (self._static_argnums & self._donate_argnums) | (self._static_argnames & self._donate_argnames)
        if both:
            raise ArgumentError(f"jit: {sorted(map(str, both))} cannot be both static and donated")
        self._shardings = shardings
        if shardings is None:
            self._known = traced_calls_of(
                fun, (*(frozenset(marked) for marked in (*static, *donate)), inline, backend, device)
            )
        else:
            shardings.check()
            self._known = TracedCalls()
        self._fast = self._known.fast  # the same list, for speed

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if not exceptional:
            settings = Config.jit_settings
        elif current_trace() is None:
            settings = current_settings()
        else:
            return self._long_call(args, kwargs)
        for known, fast_call in self._fast:
            if known is settings or known == settings:
                result = fast_call(args, kwargs)
                if result is not MISS:
                    return result
        return self._long_call(args, kwargs)

    def _long_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call with arguments of new types, within a trace, or of a kind that the short way does not know."""
        if config.disable_jit:
            return self._fun(*args, **kwargs)
        call = self._sort(args, kwargs)
        names = self._names(call)
        # Without a trace around, nothing can keep an ndarray beyond this call, so it need not be copied.
        outermost = current_trace() is None
        copy = self._inline or not outermost
        values = [as_value(x, names.describe(i), copy) for i, x in enumerate(call.leaves)]
        entry, reusable = self._entry(call, [v.aval for v in values])
        program = entry.program
        place = place_of_call(values, program.consts, names.describe, self._name(), self._backend, self._device)
        where = call_place(values, program.consts, place, self._device)
        values = where.moved(values)
        if outermost and reusable and not (config.debug_nans or config.debug_infs or config.debug_key_reuse):
            arguments, fast_call = self._fast_call(call, entry, values, where)
            passed = passed_on(program, entry.donated)[1] if place is None else None
            for i in {~k for k in passed or () if k < 0}:
                if not isinstance(call.leaves[i], ArrayImpl):  # its memory may be another's
                    values[i] = copy_of(values[i])
            result = fast_call(*arguments.with_leaves(values))
            if result is not MISS:
                return result
        consts = program.consts
        if where.given:  # by equations where this is traced, so that derivatives come back to where arguments lie
            consts, values = device_put((consts, values), self._device)
        elif place is not None:
            values = [to_device(v, place) if isinstance(v, ArrayImpl) else v for v in values]
        if self._inline:
            outs = eval_program(on_one_device(program), values, consts)
        else:
            params: dict[str, Any] = {"name": self._name(), "jaxpr": closed(program)}
            if any(entry.donated):
                params["donated_invars"] = (False,) * len(program.consts) + entry.donated
            backend = backend_of(None, self._backend) if where.held else self._backend
            if backend is not None:
                params["backend"] = backend
            outs = bind(jit_p, *consts, *values, **params)
        if where.given:
            outs = [device_put(o, self._device) if isinstance(o, ArrayImpl) else o for o in outs]
        result = tree_unflatten(entry.out_tree, outs)
        return result if self._shardings is None else self._shardings.laid_out(result)

    def _fast_call(
        self, call: SortedCall, entry: CacheEntry, values: Sequence[Any], place: CallPlace
    ) -> tuple[Arguments, FastCall]:
        """The short way for arguments of these types; made at the first call, which compiles."""
        settings = current_settings()
        known = settings, place, tuple([isinstance(v, DeviceArray) for v in values])
        if known not in entry.calls:
            names = self._names(call)
            arguments = Arguments(
                call.in_tree,
                call.statics,
                [v.aval for v in values],
                [type(leaf) for leaf in call.leaves],
                [names.describe(i)() if d else None for i, d in enumerate(entry.donated)],
            )
            on_cpu = place.device is None
            program, passed = passed_on(entry.program, entry.donated) if on_cpu else (entry.program, None)
            results = Results(entry.out_tree, entry.program.out_avals, passed)
            count = len(entry.program.consts)
            donated = (False,) * count + entry.donated if any(entry.donated) else ()
            backend = backend_of(place.device, self._backend)
            run = executable(closed(program), donated, backend)
            entry.backends.add(backend or config.default_backend)
            fast_call = make_call_at(place, self._name(), arguments, entry.program.consts, run, results)
            if self._shardings is not None:
                fast_call = self._shardings.of_call(fast_call)
            entry.calls[known] = arguments, fast_call
        arguments, fast_call = entry.calls[known]
        if not place.comes_again:
            return arguments, fast_call
        others = [known for known in self._fast if known[1] is not fast_call]
        self._fast[:] = [(settings, fast_call), *others[: _REMEMBERED - 1]]
        return arguments, fast_call

    @overload
    def __get__(self, instance: None, owner: Any = None) -> JitFunction[P, R]: ...

    @overload
    def __get__(self, instance: object, owner: Any = None) -> BoundJitFunction[R]: ...

    def __get__(self, instance: Any, owner: Any = None) -> JitFunction[P, R] | BoundJitFunction[R]:
        """As a method: `self` is the first argument. Mark it static, or register its class as a pytree."""
        return self if instance is None else BoundJitFunction(self, instance)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self._fun)

    def __repr__(self) -> str:
        return f"<jit of {self._name()}>"

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Trace for arguments of these types (arrays or `ShapeDtypeStruct`s), without running."""
        call = self._sort(args, kwargs)
        names = self._names(call)
        avals = [leaf_aval(x, names.describe(i)) for i, x in enumerate(call.leaves)]
        return self._traced(call, names, self._entry(call, avals)[0])

    def trace_anew(self, *args: Any, **kwargs: Any) -> Traced:
        """As `trace`, though the function may have been traced before: who watches sees all of it."""
        call = self._sort(args, kwargs)
        names = self._names(call)
        avals = [leaf_aval(x, names.describe(i)) for i, x in enumerate(call.leaves)]
        return self._traced(call, names, self._trace(call, avals)[0])

    def leaves_of(self, *args: Any, **kwargs: Any) -> list[Any]:
        """What the inputs of the Program that `trace` gives are in a call: its leaves, without static arguments."""
        return list(self._sort(args, kwargs).leaves)

    def _traced(self, call: SortedCall, names: LeafNames, entry: CacheEntry) -> Traced:
        backend = self._backend
        if backend is None and (place := self._explicit_place(names, call.leaves)) is not None:
            backend = backend_of(None if place is CPU else place, None)
        program, tree = entry.program, entry.out_tree
        traced: Traced = imported("functad.api.stages").Traced(
            self._name(), program, call.in_tree, tree, entry.donated, names.all(), backend, self._device
        )
        return traced

    def _explicit_place(self, names: LeafNames, leaves: Sequence[Any]) -> Device | None:
        """Where somebody has said that a call shall run: `jit`, its arguments, or the default device."""
        if self._device is not None:
            return self._device
        return common_device(leaves, lambda i: names.describe(i)(), self._name()) or device_of_new_arrays()

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Trace and optimise for arguments of these types, without running."""
        return self.trace(*args, **kwargs).lower()

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The shapes and dtypes of the result."""
        return self.trace(*args, **kwargs).out_info

    def clear_cache(self) -> None:
        """Forget all Programs traced of the function with these options."""
        self._known.clear()
        forget(self._fun, self._known.number)

    def _cache_size(self) -> int:
        return len(self._known.entries)

    def _name(self) -> str:
        return function_name(self._fun)

    def _names(self, call: SortedCall) -> LeafNames:
        return LeafNames(self._fun, call.dynamic_args, call.dynamic_kwargs)

    def _sort(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SortedCall:
        if not self._static_argnums and not self._static_argnames:
            leaves, in_tree = tree_flatten((args, kwargs))
            return SortedCall(args, kwargs, dict(enumerate(args)), kwargs, leaves, in_tree, ())
        static_numbers = {n % len(args) for n in self._static_argnums if -len(args) <= n < len(args)}
        dynamic_args = {i: a for i, a in enumerate(args) if i not in static_numbers}
        dynamic_kwargs = {k: v for k, v in kwargs.items() if k not in self._static_argnames}
        statics: list[tuple[int | str, Any]] = [(i, args[i]) for i in sorted(static_numbers)]
        statics += [(k, kwargs[k]) for k in sorted(kwargs) if k in self._static_argnames]
        for where, value in statics:
            check_hashable(where, value, self._fun)
        leaves, in_tree = tree_flatten((tuple(dynamic_args.values()), dynamic_kwargs))
        return SortedCall(args, kwargs, dynamic_args, dynamic_kwargs, leaves, in_tree, statics)

    def _entry(self, call: SortedCall, avals: Sequence[Aval]) -> tuple[CacheEntry, bool]:
        """What was traced for these types, and whether it serves further calls."""
        signature = call.signature(avals)

        def known() -> tuple[CacheEntry, bool] | None:
            entry = self._known.entries.find(signature)
            return None if entry is None else (entry, True)

        found = known()
        if found is not None:
            return found
        with Turn((self._known.number, signature), known) as found:
            if found is not None:
                return found
            entry, reusable = self._trace(call, avals)
            if reusable:
                self._known.entries.add(signature, entry)
                remember(self._fun, self._known.number, self._described(call, avals))
            return entry, reusable

    def _described(self, call: SortedCall, avals: Sequence[Aval]) -> Signature:
        """The signature of a call with names for people."""
        paths = self._names(call).all()
        statics = tuple((self._static_name(where), repr(value)) for where, value in call.statics)
        return Signature(
            call.in_tree,
            tuple(zip(paths, avals)),
            statics,
            config.trace_settings,
            self._backend or config.default_backend,
            closure_of(self._fun),
        )

    def _static_name(self, where: int | str) -> str:
        return where if isinstance(where, str) else positional_names(self._fun, where + 1)[where]

    def explain(self, *args: Any, **kwargs: Any) -> CallExplanation:
        """Whether a call with these arguments would be compiled anew, and because of what; nothing is run.

        >>> import functad, numpy as np
        >>> f = functad.jit(lambda x: x + 1)
        >>> _ = f(np.ones(3, np.float32))
        >>> f.explain(np.ones(3, np.float32)).hit
        True
        >>> f.explain(np.ones(3, np.int32))
        miss: <lambda> is compiled again
          `x` has dtype int32, before it was float32
        """
        call = self._sort(args, kwargs)
        names = self._names(call)
        avals = [leaf_aval(x, names.describe(i)) for i, x in enumerate(call.leaves)]
        entry = self._known.entries.find(call.signature(avals))
        known = entry is not None and (
            not entry.backends or (self._backend or config.default_backend) in entry.backends
        )
        return explain_miss(self._name(), self._fun, self._known.number, self._described(call, avals), known)

    def _trace(self, call: SortedCall, avals: Sequence[Aval]) -> tuple[CacheEntry, bool]:
        fun = self._fun
        if call.statics:
            fun = of_positions(fun, call.args, call.kwargs, call.dynamic_args)
        flat_fun = FlatFunction(fun, call.in_tree, transform="jit", name=self._name())
        origins = self._names(call).origins(len(avals))
        with watching_meetings() as meetings, Trace(f"jit of {self._name()}", records_all=True) as trace:
            inputs = [trace.new_input(a, o) for a, o in zip(avals, origins)]
            try:
                outs = flat_fun(*inputs)
            except RecursionError as problem:
                raise _too_deep(trace, problem) from None
        if meetings and not self._known.warned and not config.enable_x64:
            self._known.warned = True
            _warn_of_widening(meetings[0])
        if config.log_compiles:
            types = ", ".join(a.str_short() for a in avals)
            logger().warning("traced %s for arguments of types %s", self._name(), types or "(none)")
        assert flat_fun.out_tree is not None
        out_tree, outs = without_float0(flat_fun.out_tree, outs)
        if self._shardings is not None:
            self._shardings.check_fit(tuple(call.dynamic_args.values()), avals, out_tree, outs)
        program = of_moderate_depth(program_from_ops(trace, trace.take_ops(), inputs, outs, self._name()))
        # A Program that holds, or depends on, values of an enclosing trace is good for this call only.
        reusable = not trace.depends_on_values and not any(isinstance(c, Tracer) for c in program.consts)
        return CacheEntry(program, out_tree, self._donated(call), {}, set()), reusable

    def _donated(self, call: SortedCall) -> tuple[bool, ...]:
        donated: list[bool] = []
        numbers = {n % len(call.args) for n in self._donate_argnums if -len(call.args) <= n < len(call.args)}
        for i, arg in call.dynamic_args.items():
            donated += [i in numbers] * len(tree_flatten(arg)[0])
        for key in sorted(call.dynamic_kwargs):
            donated += [key in self._donate_argnames] * len(tree_flatten(call.dynamic_kwargs[key])[0])
        return tuple(donated)


def _too_deep(trace: Trace, problem: RecursionError) -> RecursionError:
    """What to say of a stack that jitted functions have filled; the error as it is if something else has."""
    depth, around = 1, trace.parent
    while around is not None:
        depth, around = depth + 1, around.parent
    if depth < _MANY_NESTED or isinstance(problem, NestingError):
        return problem
    return NestingError(
        f"functions jitted within each other, {depth} deep, do not fit into Python's stack: jit the outermost one "
        "only; what it calls is compiled with it"
    )


class BoundJitFunction(Generic[R]):
    """A jitted method of an object."""

    def __init__(self, function: JitFunction[..., R], instance: Any) -> None:
        self.__wrapped__: Callable[..., Any]
        update_wrapper(self, function)
        self.__self__ = instance
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> R:
        return self._function(self.__self__, *args, **kwargs)

    # Methods, for whatever wraps the object, such as `grad`, gets its attributes.

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """As `JitFunction.trace`."""
        return self._function.trace(self.__self__, *args, **kwargs)

    def trace_anew(self, *args: Any, **kwargs: Any) -> Traced:
        """As `JitFunction.trace_anew`."""
        return self._function.trace_anew(self.__self__, *args, **kwargs)

    def leaves_of(self, *args: Any, **kwargs: Any) -> list[Any]:
        """As `JitFunction.leaves_of`."""
        return self._function.leaves_of(self.__self__, *args, **kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """As `JitFunction.lower`."""
        return self._function.lower(self.__self__, *args, **kwargs)

    def explain(self, *args: Any, **kwargs: Any) -> CallExplanation:
        """As `JitFunction.explain`."""
        return self._function.explain(self.__self__, *args, **kwargs)

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """As `JitFunction.eval_shape`."""
        return self._function.eval_shape(self.__self__, *args, **kwargs)


def _warn_of_widening(meeting: Meeting) -> None:
    """Say once, at the user's line, that 64-bit data makes what it meets 64 bits wide."""
    wide, narrow = meeting.wide_dtype.name, meeting.narrow_dtype.name
    text = (
        f"{meeting.wide} has the dtype {wide} and meets {narrow} values here, so all that is computed from both is "
        f"{wide}: slower, and parameters updated with it become {wide}. Convert it first, .astype('{narrow}'); or say "
        "that 64 bits are meant, functad.config.update('enable_x64', True)"
    )
    if meeting.source is None:
        warnings.warn(text, WideningWarning, stacklevel=2)
    else:
        warnings.warn_explicit(text, WideningWarning, meeting.source.code.co_filename, meeting.source.line)
