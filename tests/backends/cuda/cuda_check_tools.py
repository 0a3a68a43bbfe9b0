"""What checks of the CUDA backend share: Programs and functions compared with the interpreter, and numbers for them.

For a process with NUMBA_ENABLE_CUDASIM=1.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from inspect import signature
from typing import Any

import numpy as np
from primitive_form_tools import Together, compare

import functad
import functad.numpy as jnp
from functad import interpreter
from functad.backends.cuda import executable as cuda_backend
from functad.backends.cuda.generate import CudaKernels
from functad.dtypes import as_dtype
from functad.lowering.blocks import leaves

NARROW = ("float16", *(["bfloat16"] if find_spec("ml_dtypes") else []))
"""The floats of 16 bits that there are: bfloat16 is a package's."""


def run(together: Together, signs: bool = False) -> None:
    """Compare what functions give with what the interpreter gives; signs: of zeros, too."""
    program = together.program()
    expected = interpreter.compile_program(program)(together.args)
    executable = cuda_backend.compile_program(program)
    check_modes(executable.generated)
    got = executable(together.args)
    for label, e, g in zip(together.labels, expected, got, strict=True):
        compare(e, g, label)
        if signs:
            zeros = [np.signbit(np.real(x)[e == 0].astype(float)) for x in (e, g)]
            assert np.array_equal(*zeros), f"{label}: signs of zeros"


rng = np.random.default_rng(0)


def numbers(dtype: str, *shape: int) -> np.ndarray:
    values = rng.normal(size=shape) * 3
    return (
        (values > 0)
        if dtype == "bool"
        else values.astype(as_dtype(dtype))
        if dtype != "complex64"
        else values + 1j * values.T
    )


def softmax(x: Any) -> Any:
    e = jnp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale + shift


def agree(fun: Callable[..., Any], *args: Any) -> None:
    expected = functad.jit(fun, backend="interpreter")(*args)
    got = functad.jit(fun, backend="cuda")(*args)
    again = functad.jit(fun, backend="cuda")(*args)
    check_modes(functad.jit(fun, backend="cuda").lower(*args)._lowered.generated)
    for e, g, h in zip(*[functad.tree_util.tree_leaves(t) for t in (expected, got, again)], strict=True):
        compare(np.asarray(e), np.asarray(g), str(fun))
        compare(np.asarray(g), np.asarray(h), f"{fun}, second call")


def check_modes(generated: CudaKernels) -> None:
    """Fail where a kernel writes what it is said only to read: others that use it would not wait."""
    functions = {f.name: f for f in ast.parse(generated.source).body if isinstance(f, ast.FunctionDef)}
    for instruction in leaves(generated.instructions):
        if instruction.function in functions:
            function = functions[instruction.function]
            names, written = [a.arg for a in function.args.args], _written(function)
            for name, (_, buffer, mode) in zip(names, instruction.parameters, strict=True):
                assert mode != "r" or name not in written, f"{function.name} writes {name}, {buffer}"


def _written(function: ast.FunctionDef) -> set[str]:
    """The names of arrays that a function writes elements of."""
    found: list[ast.expr] = []
    for node in ast.walk(function):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            found.append(node.value)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).startswith(("cuda.atomic.", "store4", "stores")):
            found.append(node.args[0])
    return {node.id for node in found if isinstance(node, ast.Name)}


class LeftOut(Exception):
    """What a check raises that cannot run here; it says why."""


def second_gpu() -> Any:
    """The second device, which the simulator has, too."""
    found = functad.devices("cuda")
    if len(found) < 2:
        raise LeftOut("needs two GPUs, and here is one")
    return found[1]


def raised(kind: type[Exception], call: Callable[[], Any]) -> str:
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


def checks_of(names: Mapping[str, Any]) -> dict[str, Callable[[], str | None]]:
    """The checks of a file, by name, of which those that take arguments are none."""
    found = {name.removeprefix("check_"): f for name, f in names.items() if name.startswith("check_")}
    return {name: f for name, f in found.items() if not signature(f).parameters}
