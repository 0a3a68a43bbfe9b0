"""`debug.step`: a function equation by equation, with the values of each.

Knows Programs and how to run one equation; how the steps look in a notebook is in `functad.views`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TextIO, overload

import numpy as np

from functad.api.arguments import as_value, check_callable, described_like
from functad.api.inspection import trace_function
from functad.array import value_of
from functad.dtypes import kind_of
from functad.editing.inlining import inline_calls
from functad.editing.keys import without_keys
from functad.editing.placement import on_one_device
from functad.errors import ArgumentError
from functad.evaluation import implementation
from functad.ir import Atom, Program, Var
from functad.ir import Literal as Number
from functad.pretty import equation_to_text, program_to_text
from functad.records import NamedTuple
from functad.system.once import imported
from functad.tree_util import tree_flatten

_LISTED = 60
_PROMPT = "(step) "
_HELP = "n or Enter: next; p: previous; a number: that step; l: list all; q: leave"


def step(fun: Callable[..., Any]) -> Callable[..., Steps]:
    """A function that runs `fun` equation by equation and keeps the values of each.

    Args:
        fun: a function of pytrees of arrays. Calls of jitted functions are gone through; a loop (`scan`, `while_loop`)
            is one step. Of `grad(f)` the steps go forwards and then backwards.

    Returns:
        A function of the arguments of `fun` that gives `Steps`, a sequence. A terminal prints it as a list; `.walk()`
        goes through it with keys; a notebook shows it with a slider; `.save("steps.html")` writes that to a page.

    >>> import functad, functad.numpy as jnp
    >>> steps = functad.debug.step(functad.grad(lambda x: x * x))(3.)
    >>> print(steps)
    <lambda>: 4 steps; .walk() goes through them with keys, .save('steps.html') writes a page
    1 forward   _:f32[] = mul a a  9
    2 backward  b:f32[] = mul a 1.0:f32[]  3
    3 backward  c:f32[] = mul 1.0:f32[] a  3
    4 backward  d:f32[] = add_any b c  6
    """
    check_callable(fun, "debug.step")

    @described_like(fun)
    def stepped(*args: Any, **kwargs: Any) -> Steps:
        if hasattr(fun, "trace_anew"):  # a jitted one knows which of its arguments are static
            jitted: Any = fun
            program, leaves = jitted.trace(*args, **kwargs).jaxpr, jitted.leaves_of(*args, **kwargs)
        else:
            program, _, _ = trace_function(fun, args, kwargs, "debug.step")
            leaves = tree_flatten((args, kwargs))[0]
        values = [value_of(as_value(x, lambda: "an argument of debug.step")) for x in leaves]
        return Steps(program.name, _run(without_keys(on_one_device(inline_calls(program))), values))

    return stepped


class NamedValue(NamedTuple):
    """A variable of a Program, and what it holds."""

    name: str
    value: np.ndarray


class EquationStep(NamedTuple):
    """One equation that has run.

    Attributes:
        number: from 1 on.
        equation: as it prints.
        backward: whether it belongs to the way back of reverse mode.
        place: the user's file and line, and the name of the function.
        code: what stands there.
        reads, results: its operands and what it gave.
        spoils: "NaN" or "infinity" if it is the first equation that gives one.
    """

    number: int
    equation: str
    backward: bool
    place: str
    code: str
    reads: tuple[NamedValue, ...]
    results: tuple[NamedValue, ...]
    spoils: str

    @property
    def half(self) -> str:
        """Which way it goes."""
        return "backward" if self.backward else "forward"


class Steps(Sequence[EquationStep]):
    """The steps of a function, in the order in which they ran."""

    def __init__(self, name: str, steps: Iterator[EquationStep]) -> None:
        self.name = name
        self._steps = list(steps)

    def __len__(self) -> int:
        return len(self._steps)

    @overload
    def __getitem__(self, index: int) -> EquationStep: ...

    @overload
    def __getitem__(self, index: slice) -> list[EquationStep]: ...

    def __getitem__(self, index: Any) -> Any:
        return self._steps[index]

    def __repr__(self) -> str:
        n = len(self)
        head = (
            f"{self.name}: {n:,} step{'s' if n != 1 else ''}; .walk() goes through them with keys, "
            ".save('steps.html') writes a page"
        )
        width = len(str(n))
        lines = [f"{s.number:>{width}} {s.half:8}  {_row(s)}" for s in self[:_LISTED]]
        more = [f"… {n - _LISTED:,} more"] if n > _LISTED else []
        return "\n".join([head, *lines, *more])

    def _repr_html_(self) -> str:
        return str(imported("functad.views.steps").steps_html(self))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a page with the slider to an HTML file."""
        with imported("functad.system.cache").atomic_write(path) as file:
            file.write(imported("functad.views.steps").steps_page(self).encode())

    def walk(self, *, stdin: TextIO | None = None, stdout: TextIO | None = None) -> None:
        """Go through the steps with keys: n or Enter for the next, p for the previous, a number, l for all, q to leave.

        Where standard input is no terminal, all steps are printed, one after the other.

        Args:
            stdin, stdout: where keys come from and answers go to; the standard streams by default.

        >>> import functad, io
        >>> functad.debug.step(lambda x: -x)(3.).walk(stdin=io.StringIO("q\\n"))  # doctest: +ELLIPSIS
        step 1 of 1, forward
        -> ...
          b:f32[] = neg a
          a = f32[] · 3
          b = f32[] · -3
        ...
        """
        out = stdout or sys.stdout
        if stdin is None and not sys.stdin.isatty():
            for at in range(len(self)):
                out.write(self.text(at) + "\n")
            return
        if self:
            out.write(f"{self.text(0)}\n{_HELP}\n")
            self._answer(stdin or sys.stdin, out)

    def _answer(self, keys: TextIO, out: TextIO) -> None:
        """Read keys until one of them leaves."""
        at = 0
        while True:
            out.write(_PROMPT)
            out.flush()
            line = keys.readline()
            key = line.strip()
            if not line or key in ("q", "quit", "exit"):
                return
            if key == "l":
                out.write(f"{self!r}\n")
                continue
            to = {"": at + 1, "n": at + 1, "p": at - 1}.get(key, int(key) - 1 if key.isdecimal() else None)
            if to is None:
                out.write(f"{_HELP}\n")
            elif not 0 <= to < len(self):
                out.write(f"there are steps 1 to {len(self)}\n")
            else:
                at = to
                out.write(self.text(at) + "\n")

    def text(self, index: int) -> str:
        """One step with all that there is to tell, over several lines.

        Raises:
            ArgumentError: there is no such step.
        """
        if not -len(self) <= index < len(self):
            raise ArgumentError(f"Steps.text: index {index} is out of range; there are {len(self)} steps")
        s = self[index]
        arrays = imported("functad.views.arrays")
        lines = [f"step {s.number} of {len(self)}, {s.half}" + (f": the first {s.spoils}" if s.spoils else "")]
        lines += [f"-> {s.place}: {s.code}" if s.code else f"-> {s.place}"] if s.place else []
        lines += [f"  {line}" for line in s.equation.splitlines()]
        lines += [f"  {name} = {arrays.summary_of(value)}" for name, value in s.reads]
        for name, value in s.results:
            lines.append(f"  {name} = {arrays.summary_of(value)}")
            lines += [f"    {line}" for line in arrays.sketch(value)]
        return "\n".join(lines)


def _row(s: EquationStep) -> str:
    arrays = imported("functad.views.arrays")
    said = "; ".join(str(arrays.summary_of(value)).partition(" · ")[2] for _, value in s.results)
    spoils = f"  <- the first {s.spoils}" if s.spoils else ""
    equation = " ".join(s.equation.split())
    return f"{equation if len(equation) <= 80 else equation[:79] + '…'}  {said}{spoils}".rstrip()


def _run(program: Program, args: Sequence[np.ndarray]) -> Iterator[EquationStep]:
    names: dict[Var, str] = {}
    program_to_text(program, names=names)
    known: dict[Var, np.ndarray] = dict(zip(program.constvars, map(value_of, program.consts)))
    known.update(zip(program.invars, args))
    spoilt = {kind for kind, found in _SPOILS.items() if any(found(value) for value in known.values())}

    def read(atom: Atom) -> np.ndarray:
        return np.asarray(atom.value) if isinstance(atom, Number) else known[atom]

    for number, eqn in enumerate(program.eqns, 1):
        names.update((v, "_") for v in eqn.outvars if v not in names)  # nobody reads it
        run = implementation(eqn.primitive, [a.aval.dtype for a in eqn.invars])
        with np.errstate(all="ignore"):
            result = run(*[read(a) for a in eqn.invars], **eqn.params)
        results = [np.array(r) for r in (result if eqn.primitive.multiple_results else (result,))]
        known.update(zip(eqn.outvars, results))
        first = [kind for kind, found in _SPOILS.items() if kind not in spoilt and any(map(found, results))]
        spoilt.update(first)
        line = eqn.source
        reads = dict.fromkeys(a for a in eqn.invars if isinstance(a, Var))
        yield EquationStep(
            number,
            equation_to_text(eqn, names),
            line is not None and line.transposed,
            "" if line is None else str(line),
            "" if line is None else line.text,
            tuple(NamedValue(names[a], known[a]) for a in reads),
            tuple(NamedValue(names[v], r) for v, r in zip(eqn.outvars, results)),
            " and the first ".join(first),
        )


def _has_nan(value: np.ndarray) -> bool:
    return kind_of(value.dtype) in "fc" and bool(np.isnan(value).any())


def _has_infinity(value: np.ndarray) -> bool:
    return kind_of(value.dtype) in "fc" and bool(np.isinf(value).any())


_SPOILS = {"NaN": _has_nan, "infinity": _has_infinity}
