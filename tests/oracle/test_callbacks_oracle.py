"""Callbacks against JAX: the same lines in the same order, the same arguments, results and refusals."""

from __future__ import annotations

import io
import re
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

import jax.numpy as jax_numpy  # noqa: E402
from jax.experimental import io_callback as jax_io_callback  # noqa: E402

import functad  # noqa: E402
import functad.numpy as functad_numpy  # noqa: E402
from functad import lax as functad_lax  # noqa: E402

JAX = SimpleNamespace(
    **{name: getattr(jax, name) for name in ("grad", "jvp", "jit", "vmap", "checkpoint", "lax", "debug")},
    linearize=jax.linearize, numpy=jax_numpy, pure_callback=jax.pure_callback, io_callback=jax_io_callback,
    struct=jax.ShapeDtypeStruct,
)  # fmt: skip
FUNCTAD = SimpleNamespace(
    **{name: getattr(functad, name) for name in ("grad", "jvp", "vmap", "checkpoint", "debug", "linearize")},
    jit=partial(functad.jit, backend="interpreter"), lax=functad_lax, numpy=functad_numpy,
    pure_callback=functad.pure_callback, io_callback=functad.io_callback, struct=functad.ShapeDtypeStruct,
)  # fmt: skip


def show_and(lib, fmt, x, result):
    lib.debug.print(fmt, x)
    return result


def prints(lib):
    """Functions that print, by name; each is called without arguments."""
    jnp, lax, show = lib.numpy, lib.lax, lib.debug.print

    def square(x):
        return show_and(lib, "x {}", x, x * x)

    def three(x):
        show("a {}", x)
        show("b")
        show("c {x}", x=x)
        return x

    def step(c, x):
        return show_and(lib, "step {}", c, (c * 2 + x, c))

    def while_(n):
        return lax.while_loop(lambda c: c[0] < n, lambda c: show_and(lib, "w {}", c[0], (c[0] + 1, c[1] * 2)), (0, 1.0))

    def branch(p, x):
        return lax.cond(p, lambda x: show_and(lib, "T {}", x, x), lambda x: show_and(lib, "F {}", x, -x), x)

    xs = jnp.arange(4.0)
    return {
        "formats": lambda: show("{:.3f} {0[1]} {{}} {x:>8} {y}".replace("{0[1]} ", ""), 2.0, x=jnp.float32(3), y=xs),
        "items": lambda: show("{0[1]} {0}", xs),
        "static": lambda: show("{} {} {}", "text", None, 3),
        "double": lambda: show("{}", jnp.sin(jnp.float32(3))),
        "matrix": lambda: show("{}", xs.reshape(2, 2)),
        "bools": lambda: show("{} {}", xs > 1, True),
        "vmap": lambda: lib.vmap(three)(xs),
        "vmap of vmap": lambda: lib.vmap(lib.vmap(partial(show, "{}")))(xs.reshape(2, 2)),
        "vmap with one for all": lambda: lib.vmap(lambda y: lib.vmap(lambda x: show("{} {}", x, y))(xs))(xs[:2]),
        "grad": lambda: lib.grad(square)(3.0),
        "grad of jit": lambda: lib.grad(lib.jit(square))(3.0),
        "grad of checkpoint": lambda: lib.grad(lib.checkpoint(square))(3.0),
        "jvp": lambda: lib.jvp(square, (3.0,), (1.0,)),
        "linearize": lambda: lib.linearize(square, 3.0)[1](1.0),
        "vmap of grad": lambda: lib.vmap(lib.grad(square))(xs),
        "scan": lambda: lax.scan(step, 1.0, xs),
        "scan backwards": lambda: lax.scan(step, 1.0, xs, reverse=True),
        "grad of scan": lambda: lib.grad(lambda c: lax.scan(step, c, xs)[0])(1.0),
        "vmap of scan": lambda: lib.vmap(lambda c: lax.scan(step, c, xs)[0])(xs),
        "while": lambda: while_(3),
        "jvp of while": lambda: lib.jvp(
            lambda x: lax.while_loop(
                lambda c: c[0] < 3, lambda c: show_and(lib, "{}", c[1], (c[0] + 1, c[1] * 2)), (0, x)
            ),
            (1.0,), (1.0,),
        ),
        "vmap of while": lambda: lib.vmap(while_)(jnp.array([1, 3])),
        "condition": lambda: lax.while_loop(lambda c: show_and(lib, "test {}", c, c < 2), lambda c: c + 1, 0),
        "cond": lambda: (branch(True, 1.0), branch(False, 2.0)),
        "vmap of cond": lambda: lib.vmap(branch)(jnp.array([True, False]), xs[:2]),
        "vmap of cond by one": lambda: lib.vmap(branch, (None, 0))(True, xs[:2]),
        "unused scan": lambda: lib.jit(lambda x: (lax.scan(step, x, xs), x)[1])(1.0),
    }  # fmt: skip


@pytest.mark.parametrize("name", prints(FUNCTAD))
def test_the_same_lines(name, capsys):
    found = []
    for lib in (JAX, FUNCTAD):
        prints(lib)[name]()
        jax.effects_barrier()
        found.append(capsys.readouterr().out)
    assert found[0] == found[1]
    assert found[0].strip()


def calls(lib, scalar):
    """Functions that call Python and return, by name."""
    jnp = lib.numpy

    def plus(x, y):
        return np.asarray(x + y, np.float32)

    def mapped(method, x, y):
        return lib.vmap(lambda x, y: lib.pure_callback(plus, scalar, x, y, vmap_method=method), in_axes=(0, None))(x, y)

    tree = {"a": scalar, "b": (lib.struct((2,), np.int32),)}
    found = {
        method: partial(mapped, method, jnp.arange(3.0), 2.0)
        for method in ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized")
    }
    return found | {
        "tree": lambda: lib.jit(lambda x: lib.pure_callback(
            lambda d, k: {"a": plus(d[0], k), "b": (np.array([1, 2], np.int32),)}, tree, [x], k=x
        ))(2.0),
        "a wider float": lambda: lib.jit(lambda x: lib.pure_callback(lambda x: np.float64(1) / 3, scalar, x))(3.0),
        "a Python float": lambda: lib.jit(lambda x: lib.pure_callback(lambda x: 1.5, scalar, x))(3.0),
        "io": lambda: lib.vmap(lambda x: lib.io_callback(lambda x: plus(x, 1), scalar, x))(jnp.arange(3.0)),
        "in a scan": lambda: lib.lax.scan(
            lambda c, x: (lib.pure_callback(plus, scalar, c, x), c), jnp.float32(1), jnp.arange(4.0)
        ),
        "vmap of a scan": lambda: lib.vmap(lambda c: lib.lax.scan(
            lambda c, x: (lib.pure_callback(plus, scalar, c, x, vmap_method="sequential"), c), c, jnp.arange(4.0)
        ))(jnp.arange(3.0)),
    }  # fmt: skip


@pytest.mark.parametrize("name", calls(FUNCTAD, None))
def test_the_same_results(name):
    found = []
    for lib in (JAX, FUNCTAD):
        result = calls(lib, lib.struct((), np.float32))[name]()
        found.append([np.asarray(x) for x in jax.tree.leaves(jax.tree.map(np.asarray, _as_dicts(result)))])
    assert len(found[0]) == len(found[1])
    for ours, theirs in zip(found[1], found[0]):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape


def _as_dicts(tree):
    """A pytree whose leaves are ndarrays, so that either library may walk it."""
    if isinstance(tree, dict):
        return {k: _as_dicts(v) for k, v in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [_as_dicts(v) for v in tree]
    return np.asarray(tree)


def refused(lib, scalar):
    """What raises in both libraries, by name."""
    show, jnp = lib.debug.print, lib.numpy
    return {
        "missing": lambda: show("{} {}", 1),
        "missing name": lambda: show("{x}", y=1),
        "too many": lambda: show("{}", 1, 2),
        "unused name": lambda: show("{x}", x=1, y=2),
        "no string": lambda: show(3),
        "grad of pure": lambda: lib.grad(lambda x: lib.pure_callback(np.sin, scalar, x))(3.0),
        "grad of io": lambda: lib.grad(lambda x: lib.io_callback(np.sin, scalar, x))(3.0),
        "vmap of pure": lambda: lib.vmap(lambda x: lib.pure_callback(np.sin, scalar, x))(jnp.arange(3.0)),
        "vmap of ordered": lambda: lib.vmap(lambda x: lib.io_callback(np.sin, scalar, x, ordered=True))(
            jnp.arange(3.0)
        ),
        "unknown method": lambda: lib.pure_callback(np.sin, scalar, 3.0, vmap_method="all"),
        "another shape": lambda: lib.jit(lambda x: lib.pure_callback(lambda x: np.ones(2, "f4"), scalar, x))(3.0),
        "another dtype": lambda: lib.jit(lambda x: lib.pure_callback(lambda x: np.int32(1), scalar, x))(3.0),
        "raising": lambda: lib.jit(lambda x: lib.pure_callback(lambda x: {}["gone"], scalar, x))(3.0),
    }


@pytest.mark.parametrize("name", refused(FUNCTAD, None))
def test_the_same_refusals(name):
    with pytest.raises(Exception):  # noqa: B017  (JAX's classes differ from case to case)
        refused(JAX, JAX.struct((), np.float32))[name]()
    with pytest.raises(functad.errors.FunctadError):
        refused(FUNCTAD, FUNCTAD.struct((), np.float32))[name]()


def test_debuggers_show_the_same_values():
    answers = []
    for lib in (JAX, FUNCTAD):
        out = io.StringIO()

        def f(x, lib=lib, out=out):
            y = x * 2
            lib.debug.breakpoint(stdin=io.StringIO("p y + x\nc\n"), stdout=out)
            return y

        lib.jit(f)(jax_numpy.float32(3) if lib is JAX else functad_numpy.float32(3))
        jax.effects_barrier()
        answers.append(re.findall(r"Array\((\d+)", out.getvalue()))
    assert answers == [["9"], ["9"]]
