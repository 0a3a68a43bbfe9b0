"""The stages of compiling, each a value that prints: traced, lowered to kernels, compiled.

Knows Programs and executables for one signature; which signature a call has is decided in `compilation`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from functad.api.arguments import ShapeDtypeStruct, as_value
from functad.api.device_dispatch import CallPlace, backend_of, call_place, make_call_at, place_of_call
from functad.api.dispatch import MISS, Arguments, FastCall, Results
from functad.array import ArrayImpl, value_of
from functad.calls.common import closed
from functad.calls.jit import jit_p
from functad.config import config
from functad.device_arrays import DeviceArray, memory_of, on_device, to_device
from functad.errors import ArgumentError, ShapeError
from functad.execution import executable, held_or_host, lowered, optimized
from functad.ir import Aval, Program
from functad.layouts import Device
from functad.pretty import call_arguments
from functad.tracing import bind, current_trace
from functad.tree_util import PyTreeDef, tree_flatten, tree_unflatten


class Traced:
    """A function traced for one signature: `.jaxpr`, `.out_info`, `.lower()`.

    >>> import functad, functad.numpy as jnp
    >>> traced = functad.jit(lambda x: jnp.sin(x)).trace(jnp.zeros(2))
    >>> traced.jaxpr
    { lambda ; a:f32[2]. let b:f32[2] = sin a in (b,) }
    >>> traced.out_info.shape, traced.lower().compile()(jnp.zeros(2))
    ((2,), Array([0., 0.], dtype=float32))
    """

    def __init__(
        self,
        fun_name: str,
        program: Program,
        in_tree: PyTreeDef,
        out_tree: PyTreeDef,
        donated: tuple[bool, ...],
        leaf_names: Sequence[str],
        backend: str | None = None,
        device: Device | None = None,
    ) -> None:
        self.fun_name = fun_name
        self.donated = donated
        self.leaf_names = leaf_names
        self.backend = backend
        self.device = device  # as given to `jit`
        call_arguments(program, leaf_names)
        self.jaxpr = program
        self.in_tree = in_tree
        self.out_tree = out_tree

    def __repr__(self) -> str:
        return f"{self.fun_name}, traced\n{self.jaxpr}"

    @property
    def out_info(self) -> Any:
        """The output's structure with a `ShapeDtypeStruct` for each array."""
        shapes = [ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in self.jaxpr.out_avals]
        return tree_unflatten(self.out_tree, shapes)

    def donated_inputs(self) -> tuple[bool, ...]:
        """Which inputs of the closed Program are donated; empty if none is."""
        return (False,) * len(self.jaxpr.consts) + self.donated if any(self.donated) else ()

    def lower(self) -> Lowered:
        """The same, optimised and written as kernels."""
        return Lowered(self)


class Lowered:
    """A traced function, optimised and written as kernels. Every stage is a value that prints.

    jaxpr: the Program as traced. optimized: as it is compiled. kernels: the generated Python source.
    memory_plan: where temporaries lie. cost: operations and bytes by kernel.

    >>> import functad, functad.numpy as jnp
    >>> lowered = functad.jit(lambda x: x * 1. + 2.).lower(jnp.ones(3))
    >>> lowered.optimized
    { lambda ; a:f32[3]. let b:f32[3] = add a 2.0:f32[] in (b,) }
    >>> lowered.compile()(jnp.ones(3))
    Array([3., 3., 3.], dtype=float32)
    """

    def __init__(self, traced: Traced) -> None:
        self._traced = traced
        self.jaxpr = traced.jaxpr
        self.in_tree = traced.in_tree
        self.out_tree = traced.out_tree
        self.out_info = traced.out_info

    def __repr__(self) -> str:
        return f"{self._traced.fun_name}, lowered to kernels, of\n{self.optimized}"

    @property
    def optimized(self) -> Program:
        """The Program that runs: calls inlined, constants folded, common subexpressions shared."""
        return optimized(closed(self.jaxpr), self._traced.backend)

    @property
    def kernels(self) -> Any:
        """The generated kernels, as Python source.

        >>> import functad, functad.numpy as jnp
        >>> lowered = functad.jit(lambda x: jnp.sin(x) * 2.).lower(jnp.ones(1000))
        >>> print(lowered.kernels)  # doctest: +ELLIPSIS
        \"\"\"Kernels of `<lambda>`, written by functad. Shapes are fixed.\"\"\"
        ...
        def mul_c(input_a, out_c, start, stop):
            # c:f32[1000] = mul b 2.0:f32[]
            # b:f32[1000] = sin a
            for i in range(start, stop):
                at_a = input_a[i]
                sin_b = sin(at_a)
                mul_c = sin_b * f32(2.0)
                out_c[i] = mul_c
        <BLANKLINE>
        """
        return self._lowered.kernels

    @property
    def memory_plan(self) -> Any:
        """Where the temporaries lie in the arena: its bytes, the peak of what is alive, and what shares memory."""
        return self._lowered.memory_plan

    @property
    def cost(self) -> Any:
        """Floating-point operations and bytes, in all and by kernel."""
        return self._lowered.cost

    def cost_analysis(self) -> dict[str, float]:
        """The same under JAX's name, as a dict."""
        return {"flops": self.cost.flops, "bytes accessed": self.cost.bytes}

    @property
    def _lowered(self) -> Any:
        return lowered(closed(self.jaxpr), self._traced.donated_inputs(), self._traced.backend)

    @property
    def ptx(self) -> dict[str, str]:
        """The kernels by name in the assembly language of GPUs of compute capability `config.cuda_capability`.

        None need be there, nor its driver; that of a GPU that is there shows `.compile().ptx`.

        Raises:
            ArgumentError: they are for the CPU. CompilationError: the compiler is missing, or this is the simulator.
        """
        made = self._lowered
        if not hasattr(type(made), "ptx"):
            raise ArgumentError("only kernels for GPUs have PTX: functad.jit(f, backend='cuda').lower(*args).ptx")
        found: dict[str, str] = made.ptx
        return found

    def as_text(self) -> str:
        """The Program that runs."""
        return str(self.optimized)

    def compile(self, compiler_options: Mapping[str, Any] | None = None) -> Compiled:
        """The executable; compiler_options are accepted for JAX's sake."""
        return Compiled(self._traced)


class Compiled:
    """An executable for one signature; called like the function, without its static arguments.

    >>> import functad, functad.numpy as jnp
    >>> compiled = functad.jit(lambda x: x * 2).lower(jnp.ones(3)).compile()
    >>> compiled(jnp.arange(3.))
    Array([0., 2., 4.], dtype=float32)
    """

    def __init__(self, traced: Traced) -> None:
        self._traced = traced
        self._executables: dict[str | None, Any] = {}  # by backends: options are those at the time of compiling
        self._executable = self._executable_on(self._place(()))
        self._fast_call: FastCall | None = None  # the one used last
        self._calls: dict[Any, FastCall] = {}

    def __repr__(self) -> str:
        return f"{self._traced.fun_name}, compiled from\n{optimized(closed(self._traced.jaxpr), self._traced.backend)}"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if current_trace() is None and not (config.debug_nans or config.debug_infs or config.debug_key_reuse):
            result = MISS if self._fast_call is None else self._fast_call(args, kwargs)
            if result is MISS:
                values = self._values(args, kwargs)
                place, call = self._call_for(values)
                if place.comes_again:
                    self._fast_call = call
                result = call(*tree_unflatten(self._traced.in_tree, place.moved(values)))
            return result
        values = self._values(args, kwargs)
        constants, backend = self._traced.jaxpr.consts, self._traced.backend
        params: dict[str, Any] = {"name": self._traced.fun_name, "jaxpr": closed(self._traced.jaxpr)}
        if backend is not None:
            params["backend"] = backend
        outs = bind(jit_p, *constants, *values, **params)
        return tree_unflatten(self._traced.out_tree, outs)

    def _call_for(self, values: Sequence[Any]) -> tuple[CallPlace, FastCall]:
        """Where a call with these arguments runs, and the short way for those that lie where these do."""
        place = call_place(values, self._traced.jaxpr.consts, self._place(values), self._traced.device)
        known = place, tuple([isinstance(v, DeviceArray) for v in values])
        if known not in self._calls:
            self._calls[known] = self._make_call(place, [type(v) for v in values])
        return place, self._calls[known]

    def _place(self, values: Sequence[Any]) -> Device | None:
        traced = self._traced
        backend, device = traced.backend, traced.device
        return place_of_call(values, traced.jaxpr.consts, self._describe, traced.fun_name, backend, device)

    def _make_call(self, place: CallPlace, classes: Sequence[type]) -> FastCall:
        traced = self._traced
        arguments = Arguments(
            traced.in_tree,
            [],
            traced.jaxpr.in_avals,
            classes,
            [
                f"argument `{name}` of {traced.fun_name}" if donated else None
                for name, donated in zip(traced.leaf_names, traced.donated)
            ],
        )
        results = Results(traced.out_tree, traced.jaxpr.out_avals)
        run = self._executable_on(place.device)
        return make_call_at(place, traced.fun_name, arguments, traced.jaxpr.consts, run, results)

    def _executable_on(self, place: Device | None) -> Any:
        traced, backend = self._traced, backend_of(place, self._traced.backend)
        if backend not in self._executables:
            self._executables[backend] = executable(closed(traced.jaxpr), traced.donated_inputs(), backend)
        return self._executables[backend]

    def profile(self, *args: Any, **kwargs: Any) -> Any:
        """How long each kernel takes with these arguments, in µs, beside what the machine needs for it at least.

        Each kernel is run on its own, on all threads, several times; the least time counts.
        """
        given = self._values(args, kwargs)
        place = self._place(given)
        if place is not None:
            values = [*self._traced.jaxpr.consts, *given]
            return self._executable_on(place).profile_on([held_or_host(v) for v in values], place)
        if not hasattr(self._executable, "profile"):
            backend = self._traced.backend or config.default_backend
            if backend == "cpu":
                raise ArgumentError("only compiled kernels are measured, and nothing is compiled here without Numba")
            raise ArgumentError(f"the backend {backend!r} has no kernels to measure; use the backend 'cpu'")
        return self._executable.profile([value_of(v) for v in (*self._traced.jaxpr.consts, *given)])

    @property
    def ptx(self) -> dict[str, str]:
        """The kernels by name in the assembly language of the GPU for which they were compiled.

        Raises:
            ArgumentError: they were compiled for the CPU. CompilationError: the GPU is a simulated one.
        """
        place = self._place(())
        if place is None:
            raise ArgumentError(
                "only kernels for GPUs have PTX: functad.jit(f, backend='cuda').lower(*args).compile().ptx, or a "
                "default device that is a GPU"
            )
        found: dict[str, str] = self._executable_on(place).ptx_on(place)
        return found

    def as_text(self) -> str:
        """The Program that runs."""
        return Lowered(self._traced).as_text()

    def memory_analysis(self) -> Any:
        """The memory plan (JAX's name for it)."""
        return Lowered(self._traced).memory_plan

    def cost_analysis(self) -> dict[str, float]:
        """Operations and bytes of a call, under JAX's names."""
        return Lowered(self._traced).cost_analysis()

    def _values(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        leaves, in_tree = tree_flatten((args, kwargs))
        if in_tree != self._traced.in_tree:
            raise ArgumentError(
                f"the compiled {self._traced.fun_name} takes arguments of structure {self._traced.in_tree}, but was "
                f"called with {in_tree}"
            )
        values = [as_value(x, self._describe(i), current_trace() is not None) for i, x in enumerate(leaves)]
        for i, (value, aval) in enumerate(zip(values, self._traced.jaxpr.in_avals)):
            if not value.aval.same_type(aval):
                raise ShapeError(
                    f"the compiled {self._traced.fun_name} takes {aval.str_short()} as array {i}, but was given "
                    f"{value.aval.str_short()} for {self._describe(i)()}; call the jitted function itself, which "
                    "compiles for every type"
                )
            if value.weak_type != aval.weak_type and isinstance(value, ArrayImpl):
                values[i] = _with_type(value, aval)
        device = self._traced.device
        return values if device is None else [to_device(v, device) if isinstance(v, DeviceArray) else v for v in values]

    def _describe(self, i: int) -> Callable[[], str]:
        return lambda: f"argument `{self._traced.leaf_names[i]}`"


def _with_type(x: ArrayImpl, aval: Aval) -> ArrayImpl:
    """The same elements, where they lie, as an Array of a type that differs in being weak."""
    return on_device(memory_of(x), aval) if isinstance(x, DeviceArray) else ArrayImpl(x._value.view(), aval.weak_type)
