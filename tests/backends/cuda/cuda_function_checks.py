"""Checks of whole functions through `jit` on CUDA: networks, transforms, stages, errors.

The interpreter is the reference.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from cuda_check_tools import agree, checks_of, layer_norm, raised, rng, softmax
from primitive_form_tools import compare

import functad
import functad.numpy as jnp
from functad.backends.cuda import executable as cuda_backend
from functad.backends.cuda.lowering import THREADS
from functad.errors import ArgumentError


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
    wide = np.tile(X, (1, THREADS // 4))  # rows that a block shares
    lowered = functad.jit(lambda x: jnp.exp(softmax(x)), backend="cuda").lower(wide)
    assert "cuda.blockIdx.x" in str(lowered.kernels) and "cuda.syncthreads()" in str(lowered.kernels)
    assert lowered.memory_plan.arena_bytes > 0 and lowered.cost.flops > 0


def check_errors() -> None:
    message = raised(ArgumentError, lambda: functad.jit(jnp.sin, backend="gpu"))
    assert "'gpu'" in message and "'cuda'" in message, message


CHECKS = checks_of(globals())
