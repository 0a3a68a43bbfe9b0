"""`debug_key_reuse`: a random key that is used twice is found, in every mode, and no other is."""

from __future__ import annotations

import functools
import gc

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import key_reuse, nn, random
from functad.errors import KeyReuseError
from tests.random.test_random_modes import CLOSE, DISTRIBUTIONS
from tests.tools.key_reuse_cases import FOLLOWED, REUSED, USED_ONCE


def run(case, jitted, watched=True):
    key = random.key(0)
    fun = functools.partial(case, functad)
    with functad.debug_key_reuse(watched):
        return (functad.jit(fun) if jitted else fun)(key, random.split(random.key(1), 3))


def check_runs(case, jitted):
    """A case runs while its keys are watched, and gives what it gives when nobody looks."""
    for got, wanted in zip(
        *map(functad.tree.leaves, (run(case, jitted), run(case, False, watched=False))), strict=True
    ):
        if jnp.issubdtype(wanted.dtype, functad.dtypes.prng_key):
            got, wanted = random.key_data(got), random.key_data(wanted)
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("name", [*REUSED, *FOLLOWED])
def test_reuse_is_found(name, jitted):
    case = {**REUSED, **FOLLOWED}[name]
    with pytest.raises(KeyReuseError, match="(?s)is used for the second time.*First used by .*Used again by"):
        run(case, jitted)


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("name", USED_ONCE)
def test_nothing_else_is_found(name, jitted):
    check_runs(USED_ONCE[name], jitted)


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("name", [*DISTRIBUTIONS, *CLOSE])
def test_distributions_use_their_key_once(name, jitted):
    check_runs(lambda m, k, ks: {**DISTRIBUTIONS, **CLOSE}[name](k, (4,)), jitted)


def test_layers_use_their_keys_once():
    net = nn.serial(nn.Dense(4), nn.Dropout(0.5), nn.Dense(2))
    with functad.debug_key_reuse(True):
        first, (), second = net.init(random.key(0), jnp.ones((2, 3)))
    assert first["kernel"].shape == (3, 4) and second["kernel"].shape == (4, 2)


def test_both_places_are_named():
    key = random.key(0)
    with functad.debug_key_reuse(True):
        random.split(key)
        with pytest.raises(KeyReuseError) as error:
            random.normal(key)
    first, second = error.traceback[0].lineno - 1, error.traceback[0].lineno + 1
    text = str(error.value)
    assert f"First used by `random_split` at: {__file__}:{first}" in text
    assert f"Used again by `random_bits` at: {__file__}:{second}" in text
    assert "functad.random.split(key)" in text and "functad.random.clone(key)" in text


def test_calls_of_a_function_that_was_compiled_before():
    draw = functad.jit(lambda k: random.normal(k))
    key = random.key(0)
    for _ in range(3):
        draw(key)
    with functad.debug_key_reuse(True):
        draw(key)
        with pytest.raises(KeyReuseError):
            draw(key)
    assert draw(key) == draw(key)


@pytest.mark.parametrize("draw", [random.bits, random.uniform, random.normal, random.split, random.exponential])
def test_the_option_has_jaxs_name_and_holds_for_all_threads(draw):
    functad.config.update("jax_debug_key_reuse", True)
    try:
        key = random.key(0)
        draw(key)
        with pytest.raises(KeyReuseError):
            draw(key)
    finally:
        functad.config.update("jax_debug_key_reuse", False)
    random.bits(key)


def test_what_is_known_of_a_key_goes_with_it():
    with functad.debug_key_reuse(True):
        random.bits(random.key(0))
        keys = random.split(random.key(1))
        del keys
    gc.collect()
    assert not key_reuse._lives
