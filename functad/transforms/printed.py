"""Equations as the text of one Python function, which calls what NumPy runs for each.

Knows equations with one result each; not what the function is for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from functad.array import ArrayImpl
from functad.evaluation import implementation
from functad.ir import Atom, Eqn, Literal, Program, Var
from functad.observing import observed
from functad.tracing import is_tracer, trace_to_program


def recorded(fun: Callable[..., Sequence[Any]], avals: Sequence[Any]) -> Program | None:
    """The Program of a function that is made of operations with one result each, if all it gives are their results."""
    found: list[Any] = []

    def results(*values: Any) -> list[Any]:
        found.extend(fun(*values))
        return found if all(map(is_tracer, found)) else []

    with observed(None):
        program = trace_to_program(results, avals, name="pullback")
    plain = all(not (e.primitive.multiple_results or e.primitive.runs_functions) for e in program.eqns)
    return program if program.outvars and plain and not program.constvars else None


def printed(
    operands: Sequence[Var],
    eqns: Sequence[Eqn],
    results: Sequence[Atom],
    form: Callable[[list[str]], str],
    *,
    value: str = "",
    otherwise: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """A function of `operands`, ndarrays or NumPy scalars.

    What is read once stands where it is read, and has no name, which would keep its memory until the end.

    Args:
        form: makes what the function returns of the texts of `results`.
        value: how the elements of an Array are read, if there may be Arrays among the operands.
        otherwise: a function of the same operands that is called if there is no memory, to say what there is none for.
    """
    texts: dict[Atom, str] = {v: f"x{i}" for i, v in enumerate(operands)}
    namespace: dict[str, Any] = {"Array": ArrayImpl, "otherwise": otherwise}
    uses = Counter([*results, *(a for e in eqns for a in e.invars)])

    def text_of(atom: Atom) -> str:
        if isinstance(atom, Literal):
            name = f"number{len(namespace)}"
            namespace[name] = atom.value
            return name
        return texts[atom]

    lines = [f"if type({texts[v]}) is Array: {texts[v]} = {texts[v]}{value}" for v in operands if value and uses[v]]
    for i, eqn in enumerate(eqns):
        run, (result,) = implementation(eqn.primitive, [a.aval.dtype for a in eqn.invars]), eqn.outvars
        name = f"{eqn.primitive.name.replace('-', '_')}_{i}"
        namespace[name] = partial(run, **eqn.params) if eqn.params else run
        texts[result] = f"{name}({', '.join(map(text_of, eqn.invars))})"
        if uses[result] > 1:
            lines.append(f"y{i} = {texts[result]}")
            texts[result] = f"y{i}"
    lines.append(f"return {form([*map(text_of, results)])}")
    parameters = ", ".join(texts[v] for v in operands)
    if otherwise:
        lines = [
            "try:",
            *[f"    {line}" for line in lines],
            "except MemoryError:",
            f"    return otherwise({parameters})",
        ]
    text = "\n    ".join([f"def function({parameters}):", *lines])
    exec(compile(text, "<a printed function>", "exec"), namespace)
    function: Callable[..., Any] = namespace["function"]
    return function
