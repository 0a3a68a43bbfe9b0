"""Checks of the CUDA backend, for a process with NUMBA_ENABLE_CUDASIM=1: prints "ok" or "FAIL" for each.

The simulator runs every CUDA thread as a Python thread, so arrays are tiny. The interpreter is the reference.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from primitive_check_tools import to_array
from primitive_checks import cases_of
from primitive_form_tools import Together, add_forms, compare

import functad
import functad.numpy as jnp
from functad import interpreter, lax
from functad.backends.cuda import executable as cuda_backend
from functad.dtypes import as_dtype
from functad.errors import ArgumentError, NoRuleError
from functad.evaluation import aval_of
from functad.ir import Absent, registry
from functad.lowering_rules import Contraction, Indexed, Loops, Reduction, Running, Scalar, Scattered
from functad.optimize.pipeline import inline_calls
from functad.tracing import trace_to_program

KINDS = (Scalar, Indexed, Reduction, Running, Contraction, Scattered)
NAMES = sorted(n for n, p in registry.items() if isinstance(p.lower, KINDS) and not isinstance(p.examples, Absent))


class OnCuda(Together):
    """Functions of operations that the CUDA backend has; counts those that it leaves out."""

    left_out = 0

    def add(self, label: str, fun: Callable[..., Sequence[Any]], args: Sequence[Any]) -> None:
        program = trace_to_program(fun, [aval_of(to_array(np.asarray(a))) for a in args])
        if any(isinstance(e.primitive.lower, Loops) for e in inline_calls(program).eqns):
            self.left_out += 1
        else:
            super().add(label, fun, args)


def check_examples(name: str) -> str:
    """All examples of a primitive, their derivatives, and mapped, as one Program."""
    together = OnCuda()
    for case in cases_of(registry[name]):
        add_forms(together, case)
    run(together)
    itself = sum(label.endswith(", itself") for label in together.labels)
    assert itself >= len(cases_of(registry[name])), "an example was left out"
    return f"{len(together.functions)} functions, {together.left_out} left out"


def run(together: Together) -> None:
    program = together.program()
    expected = interpreter.compile_program(program)(together.args)
    got = cuda_backend.compile_program(program)(together.args)
    for label, e, g in zip(together.labels, expected, got, strict=True):
        compare(e, g, label)


# --- dtypes, and the forms of kernels ------------------------------------------------------------------

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


def check_dtypes() -> None:
    together = Together()
    brain = ["bfloat16"] if find_spec("ml_dtypes") else []  # the package that makes the dtype
    for dtype in (
        *brain,
        "float16",
        "float32",
        "float64",
        "int8",
        "uint8",
        "int32",
        "uint32",
        "int64",
        "bool",
        "complex64",
    ):
        x, y = (numbers(dtype, 3, 3).astype(as_dtype(dtype)) for _ in range(2))
        together.add(f"{dtype}, x * y + x", lambda x, y: [x * y + x], [x, y])
        together.add(f"{dtype}, sum", lambda x: [jnp.sum(x, axis=1)], [x])
        together.add(f"{dtype}, product", lambda x, y: [x @ y], [x, y])
        if dtype != "complex64":
            together.add(f"{dtype}, maximum", lambda x, y: [jnp.maximum(x, y).max(axis=0)], [x, y])
        if "float" in dtype:
            together.add(f"{dtype}, functions", lambda x: [jnp.tanh(jnp.exp(x)), jnp.where(x > 0, x, 0)], [x])
    run(together)


def check_special_values() -> None:
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0, 3e38], np.float32)
    together = Together()
    together.add("element-wise", lambda x: [jnp.exp(x), jnp.sqrt(x), jnp.maximum(x, 0), x + x, jnp.sign(x), 1 / x], [x])
    together.add("reductions with NaN", lambda x: [x.max(), x.min(), x.sum()], [x])
    together.add("reductions of infinities", lambda x: [x.max(), x.min(), x.sum()], [x[1:]])
    together.add("empty", lambda x: [x + 1, x.sum(0), x.sum(1)], [np.zeros((0, 3), np.float32)])
    run(together)


def check_forms_of_reductions() -> None:
    """By thread and by block, over rows, columns, both, and axes in the middle; several at once."""
    x = numbers("float32", 4, 3, 12).astype(np.float32)
    together = Together()
    for axes in ((0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)):
        together.add(f"sum over {axes}", lambda x, axes=axes: [jnp.sum(x, axes), jnp.max(jnp.abs(x), axes)], [x])
    together.add("mean and variance", lambda x: [x.mean(-1), x.var(-1), x.argsort(-1).shape[0] * x.any(-1)], [x])
    together.add(
        "of integers", lambda x: [x.sum(), x.prod(1), x.min(0)], [np.arange(40, dtype=np.int32).reshape(2, 20)]
    )
    together.add("half precision", lambda x: [x.sum(1)], [numbers("float16", 2, 20)])
    run(together)


def check_what_is_carried() -> None:
    """Along rows, columns and an axis between, both ways, and with what is computed before and after."""
    x = numbers("float32", 3, 5, 2).astype(np.float32)
    together = Together()
    for axis in range(3):
        together.add(f"before and after, {axis}", lambda x, a=axis: [jnp.cumsum(x * 2, a) + 1], [x])
        together.add(f"from the end, {axis}", lambda x, a=axis: [lax.cummax(x, a, reverse=True)], [x])
    together.add("complex", lambda x: [jnp.cumprod(x, 0)], [np.array([np.inf, 1, 2 - 1j], np.complex64)])
    together.add("zeros", lambda x: [1 / jnp.cumsum(x)], [np.full(3, -0.0, np.float32)])
    run(together)


def check_products() -> None:
    """Layouts, batches, scalings and sums with what is there already."""
    a, b, c = (numbers("float32", *s).astype(np.float32) for s in ((3, 5), (5, 4), (3, 4)))
    s, t = numbers("float32", 2, 3, 5).astype(np.float32), numbers("float32", 2, 5, 4).astype(np.float32)
    together = Together()
    together.add("plain", lambda a, b: [a @ b], [a, b])
    together.add("left transposed", lambda a, b: [a.T @ b], [np.ascontiguousarray(a.T), b])
    together.add("right transposed", lambda a, b: [a @ b.T], [a, np.ascontiguousarray(b.T)])
    together.add("both transposed", lambda a, b: [(b @ a).T], [np.ascontiguousarray(a.T), np.ascontiguousarray(b.T)])
    together.add("part of an array", lambda a, b: [a[1:, :3] @ b[2:]], [a, b])
    together.add("scaled, added", lambda a, b, c: [c - 0.5 * (a @ b)], [a, b, c])
    together.add("batch", lambda s, t: [s @ t, jnp.einsum("bij,bjk->ik", s, t)], [s, t])
    together.add("vectors", lambda a, b: [a[0] @ b[:, 0], a @ b[:, 1]], [a, b])
    together.add("double", lambda a, b: [a @ b], [a.astype(np.float64), b.astype(np.float64)])
    together.add("complex", lambda a, b: [(a + 1j) @ (b - 1j)], [a, b])
    together.add("whole numbers", lambda a, b: [a @ b], [a.astype(np.int32), b.astype(np.int32)])
    run(together)


# --- whole functions, through jit -----------------------------------------------------------------------


def softmax(x: Any) -> Any:
    e = jnp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale + shift


def mlp_loss(params: Any, x: Any, targets: Any) -> Any:
    (w1, b1), (w2, b2) = params
    logits = jnp.tanh(x @ w1 + b1) @ w2 + b2
    shifted = logits - logits.max(-1, keepdims=True)
    log_probabilities = shifted - jnp.log(jnp.exp(shifted).sum(-1, keepdims=True))
    return -(log_probabilities * targets).sum(-1).mean()


X = rng.normal(size=(4, 12)).astype(np.float32)
PARAMS = [(rng.normal(size=(m, n)).astype(np.float32), np.zeros(n, np.float32)) for m, n in ((12, 5), (5, 3))]
TARGETS = np.eye(3, dtype=np.float32)[[0, 2, 1, 0]]


def check_functions() -> None:
    agree(softmax, X)
    agree(layer_norm, X, X[0], X[1])
    agree(mlp_loss, PARAMS, X, TARGETS)
    agree(functad.grad(mlp_loss), PARAMS, X, TARGETS)
    agree(functad.vmap(functad.grad(lambda x: jnp.sin(x).sum())), X)
    agree(lambda x: functad.jit(softmax)(x) * 2, X)
    agree(lambda x: (jnp.argmax(jnp.sin(x), 1), jnp.argmin(x, 1)), X)


def agree(fun: Callable[..., Any], *args: Any) -> None:
    expected = functad.jit(fun, backend="interpreter")(*args)
    got = functad.jit(fun, backend="cuda")(*args)
    again = functad.jit(fun, backend="cuda")(*args)
    for e, g, h in zip(*[functad.tree_util.tree_leaves(t) for t in (expected, got, again)], strict=True):
        compare(np.asarray(e), np.asarray(g), str(fun))
        compare(np.asarray(g), np.asarray(h), f"{fun}, second call")


def check_transforms_keep_the_backend() -> None:
    calls = []
    compile_program = cuda_backend.compile_program
    cuda_backend.compile_program = lambda *args: calls.append(args) or compile_program(*args)  # type: ignore[assignment]
    try:
        f = functad.jit(lambda x: (x * x).sum(), backend="cuda")
        compare(2 * X, np.asarray(functad.grad(f)(X)), "grad of a jitted function")
        assert len(calls) >= 2, "the gradient did not run on the function's backend"
        compare(np.asarray(f(X)), np.asarray(f.lower(X).compile()(X)), "compiled ahead of time")
        with functad.config.context(default_backend="cuda"):
            count = len(calls)
            compare(X + 1, np.asarray(functad.jit(lambda x: x + 1)(X)), "the default backend")
            assert len(calls) == count + 1
    finally:
        cuda_backend.compile_program = compile_program


def check_stages() -> None:
    lowered = functad.jit(lambda x: jnp.exp(softmax(x)), backend="cuda").lower(X)
    assert "cuda.grid(1)" in str(lowered.kernels) and "cuda.syncthreads()" in str(lowered.kernels)
    assert lowered.memory_plan.arena_bytes > 0 and lowered.cost.flops > 0


def check_errors() -> None:
    message = raised(NoRuleError, lambda: functad.jit(jnp.sort, backend="cuda")(X))
    assert "`sort`" in message and "tanh" in message and "dot_general" in message, message
    message = raised(ArgumentError, lambda: functad.jit(jnp.sin, backend="gpu"))
    assert "'gpu'" in message and "'cuda'" in message, message


def raised(kind: type[Exception], call: Callable[[], Any]) -> str:
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


CHECKS: dict[str, Callable[[], str | None]] = {
    **{name.removeprefix("check_"): f for name, f in list(globals().items()) if name.startswith("check_")},
    **{f"primitive {name}": (lambda name=name: check_examples(name)) for name in NAMES},  # type: ignore[misc]
}
del CHECKS["examples"]


def main(names: Sequence[str]) -> None:
    for name in names or CHECKS:
        try:
            note = CHECKS[name]() or ""
        except Exception:
            print(f"FAIL {name}: {' | '.join(traceback.format_exc().splitlines()[-6:])}", flush=True)
        else:
            print(f"ok {name}: {note}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
