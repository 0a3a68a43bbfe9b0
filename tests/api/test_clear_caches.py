"""`clear_caches` forgets what was traced."""

from __future__ import annotations

import functad
from functad import lax


def test_everything_is_traced_again():
    traced = []

    def body(c, x):
        traced.append("body")
        return c + x, c

    @functad.jit
    def f(x):
        traced.append("f")
        return x + 1

    def run():
        f(1.0)
        lax.scan(body, 0.0, functad.numpy.ones(2))

    run(), run()
    before = list(traced)
    assert sorted(set(before)) == ["body", "f"] and before.count("f") == 1
    functad.clear_caches()
    run()
    assert traced.count("f") == 2 and traced.count("body") == 2 * before.count("body")
