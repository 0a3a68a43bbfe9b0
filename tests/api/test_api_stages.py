"""trace, lower, compile, profile: every stage of a jitted function can be looked at."""

from __future__ import annotations

import numpy as np
import pytest
from compiler_tools import needs_numba

import functad
import functad.numpy as jnp
from functad.backends.cpu import report
from functad.config import config
from functad.errors import ArgumentError, DTypeError, ShapeError

jit = functad.jit


def loss(params, x):
    return jnp.tanh(x @ params["w"] + params["b"]).sum()


PARAMS = {"w": np.ones((4, 3), np.float32), "b": np.ones(3, np.float32)}
X = np.linspace(0, 1, 8, dtype=np.float32).reshape(2, 4)


def test_the_stages_of_a_function():
    traced = jit(loss).trace(PARAMS, X)
    assert traced.fun_name == "loss" and traced.out_info == functad.ShapeDtypeStruct((), np.float32)
    lowered = traced.lower()
    assert [e.primitive.name for e in lowered.jaxpr.eqns][0] == "dot_general"
    assert "dot_general" in str(lowered.optimized) and "def " in str(lowered.kernels) and "tanh" in lowered.kernels
    assert lowered.cost.flops >= 2 * 2 * 4 * 3 and lowered.cost.bytes > 0
    assert sum(k.flops for k in lowered.cost.kernels) == lowered.cost.flops
    assert lowered.memory_plan.arena_bytes >= 2 * 3 * 4 and "arena" in str(lowered.memory_plan)
    assert lowered.cost_analysis() == {"flops": lowered.cost.flops, "bytes accessed": lowered.cost.bytes}
    assert lowered.as_text() == str(lowered.optimized) and lowered.out_info == traced.out_info
    compiled = lowered.compile()
    for _ in range(2):
        assert compiled(PARAMS, X) == jit(loss)(PARAMS, X)
    assert str(compiled.memory_analysis()) == str(lowered.memory_plan)
    assert compiled.cost_analysis() == lowered.cost_analysis()


def test_lowering_needs_types_alone():
    shapes = functad.tree_util.tree_map(lambda a: functad.ShapeDtypeStruct(a.shape, a.dtype), PARAMS)
    lowered = jit(loss).lower(shapes, functad.ShapeDtypeStruct(X.shape, X.dtype))
    assert lowered.compile()(PARAMS, X) == jit(loss)(PARAMS, X)
    assert lowered.compile()(functad.tree_util.tree_map(jnp.asarray, PARAMS), jnp.asarray(X)) == jit(loss)(PARAMS, X)


@needs_numba
def test_the_profile_names_every_kernel_with_its_floor():
    compiled = jit(loss).lower(PARAMS, X).compile()
    profile = compiled.profile(PARAMS, X)
    assert len(profile.kernels) == len(compiled._traced.lower().cost.kernels)
    assert all(k.time > 0 and k.floor >= 0 for k in profile.kernels) and profile.step > 0
    assert "floor" in str(profile) and all(k.kernel in str(profile) for k in profile.kernels)


@needs_numba
def test_no_floor_is_above_the_time_that_a_kernel_took(monkeypatch):
    monkeypatch.setattr(report, "copy_speed", lambda: 1e-9)  # of a machine that was busy with other things
    profile = jit(loss).lower(PARAMS, X).compile().profile(PARAMS, X)
    assert all(k.floor == k.time for k in profile.kernels)


@needs_numba
def test_profiling_changes_no_donated_argument():
    x = jnp.ones(10)
    compiled = jit(lambda x: x + 1, donate_argnums=0).lower(x).compile()
    compiled.profile(x)
    assert x.tolist() == [1] * 10


def test_static_arguments_are_left_out_of_the_compiled_call():
    compiled = jit(lambda x, n, *, mode="a": x * n, static_argnums=1, static_argnames="mode").lower(2.0, 3).compile()
    assert compiled(2.0) == 6 and compiled(np.float32(4)) == 12
    with pytest.raises(ArgumentError, match="takes arguments of structure"):
        compiled(2.0, 3)


def test_wrong_arguments_of_a_compiled_function_are_named():
    compiled = jit(loss).lower(PARAMS, X).compile()
    with pytest.raises(
        ShapeError, match=r"takes f32\[4,3\] as array 1, but was given f32\[3,3\] for argument `params\['w'\]`"
    ):
        compiled({**PARAMS, "w": np.ones((3, 3), np.float32)}, X)
    with pytest.raises(DTypeError, match="argument `x` is 'text'"):
        compiled(PARAMS, "text")
    with pytest.raises(ArgumentError, match="structure"):
        compiled({"w": PARAMS["w"]}, X)


def test_compiled_functions_take_weak_and_strong_arguments():
    compiled = jit(lambda x: x + 1).lower(2.0).compile()
    assert compiled(2.0) == compiled(np.float32(2)) == compiled(jnp.float32(2)) == 3
    strong = jit(lambda x: x + 1).lower(np.float32(2)).compile()
    assert strong(2.0) == strong(np.float32(2)) == 3 and strong(2.0).weak_type is False


def test_compiled_functions_within_transforms():
    compiled = jit(lambda x: x * x).lower(2.0).compile()
    assert functad.grad(compiled)(np.float32(3)) == 6 and jit(lambda x: compiled(x) + 1)(3.0) == 10


def test_compiled_functions_under_debug_nans():
    compiled = jit(jnp.log).lower(np.float32(1)).compile()
    assert np.isnan(compiled(np.float32(-1)))
    with config.context(debug_nans=True), pytest.raises(FloatingPointError, match="`log` made a NaN"):
        compiled(np.float32(-1))


def test_constants_and_results_of_compiled_functions():
    table = np.arange(3.0)
    compiled = jit(lambda x: (table, x, x + table)).lower(table).compile()
    for _ in range(2):
        a, b, c = compiled(table)
        assert a.tolist() == b.tolist() == [0, 1, 2] and c.tolist() == [0, 2, 4]
        assert not np.shares_memory(np.asarray(a), table) and not np.shares_memory(np.asarray(b), table)


def test_other_backends_say_what_they_lack():
    with config.context(default_backend="interpreter"):
        lowered = jit(lambda x: x + 1).lower(1.0)
        with pytest.raises(ArgumentError, match="writes no kernels"):
            lowered.kernels  # noqa: B018
        assert lowered.compile()(1.0) == 2
        with pytest.raises(ArgumentError, match="'interpreter' has no kernels to measure"):
            lowered.compile().profile(1.0)


def test_empty_programs():
    lowered = jit(lambda x: x).lower(1.0)
    assert lowered.compile()(1.0) == 1 and lowered.cost.flops == 0
    nothing = jit(lambda: None).lower()
    assert nothing.compile()() is None and nothing.memory_plan.arena_bytes == 0


@needs_numba
def test_no_ratio_to_a_floor_of_nothing():
    profile = jit(lambda x: x + 1).lower(np.float32(1)).compile().profile(np.float32(1))
    (line,) = [line for line in str(profile).splitlines() if profile.kernels[0].kernel in line]
    assert profile.kernels[0].floor < 0.05 and line.split()[-1] == "0.0"
