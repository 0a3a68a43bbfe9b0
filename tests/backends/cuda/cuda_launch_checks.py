"""Checks of what takes fewer launches on CUDA: rows behind products, products of vectors, values of inputs.

The interpreter is the reference.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from cuda_check_tools import agree, checks_of, numbers, run, softmax
from fuzz.check import changed
from primitive_form_tools import Together

import functad
import functad.numpy as jnp
from functad.backends.cuda.products.tiles import tile_for, tile_of_whole_rows


def names_of(fun: Any, *args: Any, **options: Any) -> list[str]:
    """The names of a function's launches on CUDA, in order."""
    lowered = functad.jit(fun, backend="cuda", **options).lower(*args)._lowered
    return [i.function for i in lowered.generated.instructions]


def cross_entropy(w: Any, b: Any, x: Any, labels: Any) -> Any:
    logits = x @ w + b
    chosen = jnp.take_along_axis(logits, labels[:, None], 1)[:, 0]
    return (jnp.log(jnp.exp(logits - logits.max(1, keepdims=True)).sum(1)) + logits.max(1) - chosen).mean()


def _choose_tiles_anew() -> None:
    for choice in (tile_for, tile_of_whole_rows):
        choice.cache_clear()


def check_rows_behind_products() -> None:
    """A softmax of logits is the kernel that computes these, in parts, too, where a block has whole rows; else not."""
    x, w, b = (numbers("float32", *s).astype(np.float32) for s in ((7, 11), (11, 4), (4,)))
    wide, stack = numbers("float32", 11, 9).astype(np.float32), numbers("float32", 2, 7, 11).astype(np.float32)
    labels = np.array([3, 0, 1, -1, 2, 0, 3])
    loss = functad.value_and_grad(cross_entropy, (0, 1))

    def places(x: Any, w: Any, b: Any) -> Any:
        y = jnp.tanh(x @ w + b)
        return y, jnp.argmax(y, -1), (y - y.mean(-1, keepdims=True)).max(-1), y.sum(-1) * 2

    def changed_operand(x: Any, w: Any) -> Any:
        y = softmax(x @ w)
        return y, x * y[:, :1]

    for costs in ({}, {"CUDA_GATHER_CLOCKS": -1e9}):
        _choose_tiles_anew()
        with changed({"LARGEST_SMALL_PRODUCT": 0, **costs}):
            for fun, args, count in (
                (lambda x, w: softmax(x @ w), (x, w), 1),
                (lambda x, w: softmax(x @ w), (stack, w), 1),
                (lambda x, w: softmax(jnp.einsum("bij,bkj->bik", x, w)), (stack, stack[:, :3]), 1),
                (places, (x, w, b), 1),
                (lambda x, w: softmax(x @ w), (x, wide), 2),
                (changed_operand, (x, w), 1),
                (lambda x, w: softmax((x @ w)[::-1]), (x, w), 2),
            ):
                agree(fun, *args)
                assert len(names_of(fun, *args)) == count, (fun, args[1].shape, names_of(fun, *args))
            agree(loss, w, b, x, labels)
            assert "rows_" not in str(names_of(loss, w, b, x, labels))
            step = functad.jit(changed_operand, backend="cuda", donate_argnums=0)
            assert len(names_of(changed_operand, x, w, donate_argnums=0)) == 2  # other blocks read x
            agree(lambda x, w, step=step: step(x * 1, w), x, w)
    _choose_tiles_anew()


def check_products_of_vectors() -> None:
    """They are sums like others, and share their kernels; a product of one term is added to +0."""
    a, v, u = (numbers("float32", *s).astype(np.float32) for s in ((6, 9), (9, 1), (1, 6)))
    s, zeros = numbers("float32", 2, 6, 9).astype(np.float32), np.array([[0.0], [-0.0], [1]], np.float32)
    whole = numbers("int32", 6, 9)
    together = Together()
    together.add("a column", lambda a, v: [a @ v, a @ v[:, 0], jnp.tanh(a @ v) + 1], [a, v])
    together.add("a row", lambda a, u: [u @ a, u[0] @ a, (a.T @ u.T) * 2], [a, u])
    together.add("batches", lambda s, v: [s @ v, jnp.einsum("bij,bi->bj", s, s[:, :, 0])], [s, v])
    together.add("one term", lambda a, u: [u.T @ a[:1], u.T @ u], [a, u])
    together.add("whole numbers", lambda a: [a @ a[0], a[:, :1] @ a[:1]], [whole])
    together.add("floats of 16 bits", lambda a, v: [a @ v], [a.astype(np.float16), v.astype(np.float16)])
    with changed({"LARGEST_SMALL_PRODUCT": 0}):
        run(together)
        signs = Together()
        signs.add("signs", lambda x: [x @ x.T, x @ -x.T, (x * -1) @ x[:2].T], [zeros])
        run(signs, signs=True)
        assert len(names_of(lambda a, v: jnp.tanh(jnp.exp(a) @ v[:, 0]) * 2, a, v)) == 1
        assert len(names_of(lambda a, u: jnp.tanh(u.T @ a[:1] + a), a, u)) == 1


def check_small_values_of_inputs_have_no_kernel() -> None:
    """Indices are computed by who reads them, twice; not of what is donated, nor where more is read than they are."""
    x, at = numbers("float32", 9, 5).astype(np.float32), np.array([3, 0, -1, 8, 20], np.int32)
    r = numbers("float32", 5, 5).astype(np.float32)

    def embedding(x: Any, at: Any, r: Any) -> Any:
        return functad.grad(lambda x: jnp.sum(jnp.sin(x[at]) * r))(x)

    agree(embedding, x, at, r)
    assert [name.split("_")[0] for name in names_of(embedding, x, at, r)] == ["mul", "scatter"]
    assert len(names_of(embedding, x, at, r, donate_argnums=1)) == 3


CHECKS = checks_of(globals())
