"""A random program is a few lines of Python over `lax` and `numpy`: here they are data that can be cut down.

Knows how lines become a function, and which names they use; nothing of what is random, nor of oracles.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

import functad
import functad.numpy as jnp
from functad import lax, nn, tracing
from functad.all_primitives import registry

_PLACE = re.compile(r"\$(f?)(\d+)")

HEADER = """\
import numpy as np

import functad
import functad.numpy as jnp
from functad import checkpoint, custom_jvp, custom_vjp, grad, jit, jvp, lax, nn, tracing, vjp, vmap
from functad.all_primitives import registry
from functad.lax import ConvDimensionNumbers, GatherDimensionNumbers, ScatterDimensionNumbers
"""
BIND = """\

def bind(name, /, *args, **params):
    return tracing.bind(registry[name], *args, **params)
"""


def bind(name: str, /, *args: Any, **params: Any) -> Any:
    """A primitive by its name, as a random program calls it."""
    return tracing.bind(registry[name], *args, **params)


NAMES: dict[str, Any] = {
    **{name: getattr(functad, name) for name in "checkpoint custom_jvp custom_vjp grad jit jvp vjp vmap".split()},
    **{name: getattr(lax, name) for name in dir(lax) if name.endswith("DimensionNumbers")},
    "functad": functad, "np": np, "jnp": jnp, "lax": lax, "nn": nn, "bind": bind, "dtype": np.dtype,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Step:
    """A statement. In `text`, `$0` is the first operand, and `$f0` the first of the functions defined before it.

    setup: lines between the functions and the statement.
    """

    results: tuple[str, ...]
    text: str
    operands: tuple[str, ...] = ()
    bodies: tuple[Function, ...] = ()
    setup: tuple[str, ...] = ()

    @cached_property
    def uses(self) -> frozenset[str]:
        return frozenset(self.operands).union(*[b.free for b in self.bodies])

    def line(self, text: str) -> str:
        names = [b.name for b in self.bodies]
        return _PLACE.sub(lambda m: (names if m[1] else self.operands)[int(m[2])], text)

    def renamed(self, old: str, new: str) -> Step:
        names = tuple(new if v == old else v for v in self.operands)
        return replace(self, operands=names, bodies=tuple(b.renamed(old, new) for b in self.bodies))

    def lines(self, indent: str = "") -> Iterator[str]:
        for body in self.bodies:
            yield from body.lines(indent)
        yield from (indent + self.line(text) for text in self.setup)
        yield f"{indent}{', '.join(self.results)} = {self.line(self.text)}"


@dataclass(frozen=True, eq=False)
class Function:
    """A `def`: parameters, statements, and what it returns: `$0` of `returns` is the first of its results."""

    name: str
    params: tuple[str, ...]
    steps: tuple[Step, ...]
    results: tuple[str, ...]
    returns: str
    signature: str = ""  # if its parameters are not plain names

    def renamed(self, old: str, new: str) -> Function:
        """With another name in the place of one that it uses."""
        names = tuple(new if r == old else r for r in self.results)
        return replace(self, results=names, steps=tuple(s.renamed(old, new) for s in self.steps))

    @cached_property
    def free(self) -> frozenset[str]:
        """The names it uses of what surrounds it."""
        defined = {*self.params, *(r for s in self.steps for r in s.results)}
        return frozenset({*self.results}.union(*[s.uses for s in self.steps]) - defined)

    def lines(self, indent: str = "") -> Iterator[str]:
        yield f"{indent}def {self.name}({self.signature or ', '.join(self.params)}):"
        for step in self.steps:
            yield from step.lines(indent + "    ")
        returned = _PLACE.sub(lambda m: self.results[int(m[2])], self.returns)
        yield f"{indent}    return {returned}"

    def source(self) -> str:
        return "\n".join(self.lines()) + "\n"

    def without_dead_steps(self) -> Function:
        wanted, kept = set(self.results), []
        for step in reversed(self.steps):
            if wanted.intersection(step.results):
                wanted |= step.uses
                kept.append(step)
        return replace(self, steps=tuple(reversed(kept)))

    def compiled(self, names: dict[str, Any] = NAMES) -> Callable[..., Any]:
        scope = dict(names)
        exec(compile(self.source(), f"<random program {self.name}>", "exec"), scope)
        return scope[self.name]


@dataclass(frozen=True, eq=False)
class RandomProgram:
    """A function of arrays that returns a list of arrays, and arguments for it.

    label: the seed and the number that make it again. traits: what the generator knows that oracles must heed.
    """

    function: Function
    args: tuple[np.ndarray, ...]
    label: str = ""
    traits: frozenset[str] = frozenset()

    @cached_property
    def run(self) -> Callable[..., list[Any]]:
        return self.function.compiled()

    def __call__(self, *args: Any) -> list[Any]:
        return self.run(*args)

    def __repr__(self) -> str:
        return f"RandomProgram({self.label})"

    def but(self, function: Function, args: Sequence[np.ndarray] | None = None) -> RandomProgram:
        """Another function, without what nobody uses: dead statements, arguments."""
        function = function.without_dead_steps()
        given = dict(zip(function.params, self.args if args is None else args, strict=True))
        used = set(function.results).union(*[s.uses for s in function.steps])
        kept = tuple(p for p in function.params if p in used) or function.params[:1]
        function = replace(function, params=kept)
        return replace(self, function=function, args=tuple(given[p] for p in kept))
