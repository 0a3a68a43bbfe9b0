"""What is told of a process: its versions, and the arrays that are alive."""

from __future__ import annotations

import weakref

import functad
import functad.numpy as jnp


def test_arrays_are_found_among_objects_of_all_kinds():
    class Thing:
        pass

    kept, thing = jnp.arange(7), Thing()
    dead = [weakref.proxy(thing)]  # whose class nobody can ask for
    del thing
    for platform in (None, "cpu"):
        assert any(x is kept for x in functad.live_arrays(platform))
    assert functad.live_arrays("gpu") == []
    given = functad.jit(lambda x: x + 1, donate_argnums=0)
    found = [given(kept)]
    (alive,) = (x for x in functad.live_arrays() if x.shape == (7,))  # not the donated one
    assert alive is found[0]
    del kept, dead, found, alive
    assert not any(x.shape == (7,) for x in functad.live_arrays())


def test_the_environment_is_printed(capsys):
    assert functad.print_environment_info() is None
    assert capsys.readouterr().out == functad.print_environment_info(return_string=True)
