"""`debug_key_reuse` against JAX: what counts as using a key twice, jitted and un-jitted."""

from __future__ import annotations

import functools

import pytest

import functad

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

from tests.tools.key_reuse_cases import REUSED, USED_ONCE  # noqa: E402

# Un-jitted, JAX does not find the first, and takes what `checkpoint` computes again for a second use.
OTHERWISE = {("unpacked_twice", False), ("recomputed", False)}


def _cases(names):
    return [(name, jitted) for name in names for jitted in (False, True) if (name, jitted) not in OTHERWISE]


def _is_found(m, case, jitted):
    fun = functools.partial(case, m)
    with m.debug_key_reuse(True):
        try:
            (m.jit(fun) if jitted else fun)(m.random.key(0), m.random.split(m.random.key(1), 3))
        except m.errors.KeyReuseError:
            return True
    return False


@pytest.mark.parametrize(("name", "jitted"), _cases(REUSED))
def test_what_is_found(name, jitted):
    assert [_is_found(m, REUSED[name], jitted) for m in (functad, jax)] == [True, True]


@pytest.mark.parametrize(("name", "jitted"), _cases(USED_ONCE))
def test_what_is_not_found(name, jitted):
    assert [_is_found(m, USED_ONCE[name], jitted) for m in (functad, jax)] == [False, False]
