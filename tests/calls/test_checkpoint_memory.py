"""`checkpoint`: less memory for at most one more forward pass, in the compiled plan and un-jitted."""

from __future__ import annotations

import gc
import math
import tracemalloc
from functools import partial

import numpy as np
import pytest
from test_checkpoint import assert_close, random

import functad
import functad.numpy as jnp
from functad import checkpoint, checkpoint_policies

pytestmark = pytest.mark.generated(every=3)  # tables of shapes, dtypes and ways


def network(layers, segment):
    """The loss of a perceptron; `segment` layers at a time are checkpointed, none if 0."""

    def several(params, x):
        for w, b in params:
            x = jnp.tanh(x @ w + b)
        return x

    def loss(params, x):
        for start in range(0, layers, segment or layers):
            part = params[start : start + (segment or layers)]
            x = checkpoint(several)(part, x) if segment else several(part, x)
        return jnp.mean(x * x)

    return loss


def lowered(layers, segment, width, rows, of=functad.value_and_grad):
    f32 = partial(functad.ShapeDtypeStruct, dtype=np.float32)
    params = [(f32((width, width)), f32((width,))) for _ in range(layers)]
    return functad.jit(of(network(layers, segment))).lower(params, f32((rows, width)))


@pytest.mark.parametrize("width, rows", [(32, 16), (512, 64)], ids=["one block of rows", "products alone"])
def test_memory_grows_as_the_square_root_of_the_depth(width, rows):
    depths = [16, 64, 256]
    plain = [lowered(n, 0, width, rows).memory_plan for n in depths]
    checkpointed = [lowered(n, math.isqrt(n), width, rows).memory_plan for n in depths]
    for size in ("arena_bytes", "live_bytes"):
        linear, root = ([getattr(plan, size) for plan in plans] for plans in (plain, checkpointed))
        assert 0.95 < exponent(depths, linear) < 1.05
        assert 0.45 < exponent(depths, root) < 0.58
        assert root[-1] < linear[-1] / 6
    layer = 4 * width * rows
    assert checkpointed[-1].arena_bytes < 6 * 16 * layer


def exponent(sizes, values):
    """The slope of the values over the sizes, both as logarithms."""
    return np.polyfit(np.log(sizes), np.log(values), 1)[0]


@pytest.mark.parametrize("layers", [16, 64])
def test_the_work_is_at_most_one_more_forward_pass(layers):
    forward = lowered(layers, 0, 32, 16, of=lambda f: f).cost.flops
    plain = lowered(layers, 0, 32, 16).cost.flops
    checkpointed = lowered(layers, math.isqrt(layers), 32, 16).cost.flops
    # The last segment's forward pass is shared with nobody either.
    assert plain + 0.9 * forward < checkpointed <= plain + forward


def test_policies_trade_memory_for_work():
    def measured(policy):
        def loss(w, x):
            f = checkpoint(lambda w, x: jnp.tanh(x @ w) @ w, policy=policy)
            for _ in range(8):
                x = f(w, x)
            return jnp.sum(x**2)

        low = functad.jit(functad.grad(loss)).lower(jnp.ones((64, 64)), jnp.ones((32, 64)))
        return low.memory_plan.arena_bytes, low.cost.flops

    nothing, dots, everything = (
        measured(p) for p in (None, checkpoint_policies.dots_saveable, checkpoint_policies.everything_saveable)
    )
    assert nothing[0] < dots[0] and nothing[1] > 1.1 * dots[1]
    assert dots[0] <= everything[0] and dots[1] >= everything[1]


def test_without_prevent_cse_jit_finds_that_it_was_there_already():
    def count(**options):
        f = checkpoint(lambda x: jnp.sin(jnp.sin(x)), **options)
        program = functad.jit(functad.value_and_grad(f)).lower(2.0).optimized
        return [e.primitive.name for e in program.eqns].count("sin")

    assert count(prevent_cse=False) == 2 and count() == 3


def forward_mode(f):
    return lambda x: functad.jvp(f, (x,), (1.0,))


FORWARD_MODES = {
    "jvp": forward_mode,
    "of two": lambda f: forward_mode(lambda x: f(f(x))),
    "of nested": lambda f: forward_mode(checkpoint(lambda x: f(f(x)))),
    "mapped": lambda f: lambda x: functad.vmap(lambda t: functad.jvp(f, (x,), (t,)))(jnp.arange(3.0)),
    "of jvp": lambda f: forward_mode(lambda x: forward_mode(f)(x)[1]),
}


@pytest.mark.parametrize("name", FORWARD_MODES)
def test_compiled_forward_mode_computes_once(name):
    def operations(wrap):
        function = FORWARD_MODES[name](wrap(lambda x: jnp.exp(jnp.sin(jnp.sin(x)))))
        lowered = functad.jit(function).lower(2.0)
        assert_close(*(functad.tree_util.tree_leaves(f(2.0)) for f in (functad.jit(function), function)))
        return sorted(e.primitive.name for e in lowered.optimized.eqns)

    assert operations(checkpoint) == operations(lambda f: f)


@pytest.mark.parametrize("width, rows", [(32, 16), (256, 64)])
def test_compiled_forward_mode_has_the_work_and_memory_of_a_function_without_checkpoints(width, rows):
    def forward(loss):
        return lambda params, x: functad.jvp(lambda x: loss(params, x), (x,), (jnp.ones(x.shape),))

    plain, checkpointed = (lowered(16, segment, width, rows, of=forward) for segment in (0, 4))
    assert checkpointed.cost.flops == plain.cost.flops
    assert checkpointed.memory_plan.arena_bytes == plain.memory_plan.arena_bytes


@pytest.mark.parametrize("order", ["reverse of forward", "forward of reverse"])
def test_mixed_second_derivatives_keep_less(order):
    def mixed(loss):
        def f(x, params):
            return loss(params, x)

        def along(g):
            return lambda x, params: functad.jvp(lambda x: g(x, params), (x,), (jnp.ones(x.shape),))[1]

        derivative = functad.grad(along(f)) if order == "reverse of forward" else along(functad.grad(f))
        return lambda params, x: derivative(x, params)

    plain, checkpointed = (lowered(64, segment, 32, 16, of=mixed).memory_plan for segment in (0, 8))
    assert checkpointed.arena_bytes < 0.7 * plain.arena_bytes


@pytest.mark.parametrize("depth", [1, 2])
def test_derivatives_of_derivatives_compute_again_too(depth):
    def names(wrap):
        f = derivative = wrap(lambda x: jnp.exp(jnp.sin(jnp.sin(x))))
        for _ in range(depth):
            derivative = functad.grad(derivative)
        program = functad.jit(lambda x: (f(x), derivative(x))).lower(2.0).optimized
        return [e.primitive.name for e in program.eqns]

    assert names(checkpoint).count("sin") > names(lambda f: f).count("sin")
    assert "optimization_barrier" in names(checkpoint)


def test_unjitted_gradients_keep_less():
    layers, x = 36, random(100, 100)
    params = [(0.1 * random(100, 100, seed=i), random(100, seed=i)) for i in range(layers)]

    def peak(segment):
        gradient = functad.grad(lambda x, params: network(layers, segment)(params, x))
        gradient(x, params)
        gc.collect()
        tracemalloc.start()
        gradient(x, params)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    assert peak(6) < 0.6 * peak(0)


def test_sums_of_gradients_do_not_wait_for_all_of_them():
    def loss(w, x, layers):
        for _ in range(layers):
            x = checkpoint(lambda w, x: jnp.tanh(x @ w) @ w)(w, x)
        return jnp.sum(x)

    gradient = functad.jit(functad.grad(loss), static_argnames="layers")
    few, many = (
        gradient.lower(jnp.ones((64, 64)), jnp.ones((2, 64)), layers=n).memory_plan.arena_bytes for n in (4, 12)
    )
    assert many - few < 64 * 64 * 4  # the bytes of one gradient
