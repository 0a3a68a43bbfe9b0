"""Primitives made from outside that carry values, put updates to places that are data, or have kernels of their own."""

from __future__ import annotations

import numpy as np
import pytest
from outside_primitives import made

pytest.importorskip("numba", reason="Numba is not installed: rules of kernels are looked at where there are kernels")

import functad
import functad.numpy as jnp
from functad.core import ShapedArray
from functad.errors import CustomRuleError
from functad.extend import Loops, Running, Scattered, UpdateLoops, check_primitive

X = np.linspace(-1, 2, 12, dtype=np.float32).reshape(3, 4)


def raises(p, said, *args, **params):
    with pytest.raises(CustomRuleError, match=said):
        functad.jit(lambda *args: p.bind(*args, **params))(*args)


# --- Running


def test_values_that_are_carried_agree_and_fuse():
    def run(x, *, axis, reverse=False):
        return np.flip(np.cumsum(np.flip(x, axis), axis), axis) if reverse else np.cumsum(x, axis)

    total_p = made("cumsum", run, lambda x, *, axis, reverse=False: x, Running("sum"))
    check_primitive(total_p, (X,), axis=1)
    check_primitive(total_p, (X.astype(np.float16),), axis=0, reverse=True)
    large = np.ones((64, 256), np.float32)
    own, cumsum = (
        str(functad.jit(lambda x, f=f: 1 + f(x * 2)).lower(large).kernels)
        for f in (lambda x: total_p.bind(x, axis=0), lambda x: jnp.cumsum(x, 0))
    )
    assert own == cumsum


def test_what_a_running_rule_may_not_be_is_told():
    with pytest.raises(CustomRuleError, match="the Running rule of `r` is of kind 'and'; there are 'sum'"):
        made("r", np.sum, lambda x, *, axis: x, Running("and"))
    largest_p = made("r", np.maximum.accumulate, lambda x, **_: x, Running("max"))
    raises(
        largest_p,
        r"the Running rule of `r` at .*test_kernel_rules.*: .* `axis`, .* from 0 to 1, but that is 2",
        X,
        axis=2,
    )
    raises(largest_p, "but there is no such parameter", X)
    raises(largest_p, "'max' does not combine elements of complex64", X.astype(np.complex64), axis=0)
    shorter_p = made("s", np.sum, lambda x, *, axis: ShapedArray(x.shape[1:], x.dtype), Running("sum"))
    raises(shorter_p, r"one operand to one result of the same type, but types are f32\[3,4\], f32\[4\]", X, axis=0)


# --- Scattered


def rows_put(context, index):
    i, j = index
    row = context.place(context.read(1, (i,)), context.avals[1].dtype, context.out.shape[0])
    return (row, j), f"{context.read(1, (i,))} >= 0", context.read(2, index)


def rows_loops(x, rows, updates):
    return UpdateLoops(updates.shape, (True, False))


def put_p(kind, combine, accumulator=None, rule=rows_put, loops=rows_loops):
    def run(x, rows, updates):
        out = np.array(x)
        for row, update in zip(rows, updates):
            if row >= 0:
                out[min(row, len(x) - 1)] = combine(out[min(row, len(x) - 1)], update)
        return out

    return made(f"put_{kind}", run, lambda x, rows, updates: x, Scattered(loops, rule, kind, accumulator))


@pytest.mark.parametrize(
    ("kind", "combine", "dtype"),
    [
        ("set", lambda a, b: b, np.complex64),
        ("add", np.add, np.float16),
        ("mul", np.multiply, np.int32),
        ("min", np.minimum, np.float32),
        ("max", np.maximum, np.uint8),
    ],
)
def test_updates_agree(kind, combine, dtype):
    rows, updates = np.array([0, 2, -1, 2, 7, 0]), np.arange(24).reshape(6, 4).astype(dtype)
    p = put_p(kind, combine)
    check_primitive(p, ((X + 2).astype(dtype), rows, updates))


def test_updates_are_combined_in_the_accumulator_in_their_order_and_fuse():
    p = put_p("add", np.add, lambda x, rows, updates: "float64")
    rng = np.random.default_rng(0)
    rows, updates = rng.integers(0, 3, 2000), rng.normal(size=(2000, 4)).astype(np.float32)
    wide = np.zeros((3, 4))
    np.add.at(wide, rows, updates.astype(np.float64) * 2)
    lowered = functad.jit(lambda x, rows, updates: p.bind(x, rows, updates * 2)).lower(X * 0, rows, updates)
    np.testing.assert_array_equal(lowered.compile()(X * 0, rows, updates), wide.astype(np.float32))
    assert str(lowered.kernels).count("mul_") and "updates" not in str(lowered.memory_plan)


SCATTERED = {
    r"puts an update along axis 0 from 0 to 5, but there it has 3 elements; context.clamp": lambda c, i: (i, "", "1"),
    "puts an update at 1 indices, but it has 2 axes": lambda c, i: ((0,), "", "1"),
    "puts an update at 0, but an index is a tuple": lambda c, i: (0, "", "1"),
    r"gives 3, but must give \(place, condition, update\)": lambda c, i: 3,
    r"gives 'sine\(1\)', but kernels do not know `sine`": lambda c, i: ((0, 0), "", "sine(1)"),
    "gives 'small', but kernels do not know `small`": lambda c, i: ((0, 0), "small", "1"),
    "of float32, as an index; an index is a whole number, such as i64": lambda c, i: (
        (c.place(c.read(2, i), np.float32, 3), 0),
        "",
        "1",
    ),
}


@pytest.mark.parametrize("said", SCATTERED)
def test_what_a_scattered_rule_may_not_say_is_told(said):
    p = put_p("add", np.add, rule=SCATTERED[said])
    raises(
        p, f"the Scattered rule of `put_add` at .*test_kernel_rules.*: it .*{said}", X, np.arange(6), np.ones((6, 4))
    )


def test_loops_and_types_that_are_none_of_updates_are_told():
    with pytest.raises(CustomRuleError, match="the Scattered rule of `put_sum` is of kind 'sum'; there are 'set'"):
        put_p("sum", np.add)
    operands = X, np.arange(6), np.ones((6, 4))
    for wrong in (3, UpdateLoops((3,), ()), ((-1,), (True,)), ((), (), ())):
        raises(
            put_p("add", np.add, loops=lambda *_, w=wrong: w), r"but must be UpdateLoops\(shape, ordered\)", *operands
        )
    raises(
        put_p("max", np.maximum), "'max' does not combine elements of complex64", X.astype(np.complex64), *operands[1:]
    )
    p = made("put", np.add, lambda x, rows, updates: ShapedArray((4,), x.dtype), Scattered(rows_loops, rows_put))
    raises(p, r"its result is its first operand, updated, but they are f32\[4\] and f32\[3,4\]", *operands)


# --- Loops


def doubled(target, ins, outs):
    """In three kernels, by way of memory between them."""
    (x,), (out,) = ins, outs
    wide, zeros = target.scratch(x.shape, np.float64), target.scratch(x.shape, np.float32)
    target.fill(zeros, 0)
    body = "for i in range(start, stop):\n    {}"
    target.kernel("widen", body.format("w[i] = f64(x[i]) * 2"), {"x": (x, "r"), "w": (wide, "w")}, x.size)
    target.kernel("add", body.format("w[i] += 1"), {"w": (wide, "rw")}, x.size, flops=x.size)
    buffers = {"w": (wide, "r"), "z": (zeros, "r"), "out": (out, "w")}
    target.kernel("round", body.format("out[i] = f32(w[i]) + z[i]"), buffers, x.size)


def test_kernels_agree_with_what_stands_around_them():
    p = made("doubled", lambda x: x * 2 + 1, lambda x: x, Loops(doubled))
    check_primitive(p, (X,))
    np.testing.assert_allclose(functad.jit(lambda x: p.bind(jnp.sin(p.bind(x))))(X), np.sin(X * 2 + 1) * 2 + 1, 1e-6)
    cuda = str(functad.jit(p.bind, backend="cuda").lower(X).kernels)
    assert all(f"def {name}(" in cuda for name in ("widen", "add", "round"))


def test_kernels_may_copy_call_and_take_the_operands_memory():
    def rule(target, ins, outs):
        target.call(lambda x: [np.sort(x)], ins, [outs[0]])
        target.copy(ins[0], outs[1])
        target.kernel("negate", "for i in range(start, stop): y[i] = -y[i]", {"y": (outs[1], "rw")}, ins[0].size)

    p = made("pair", lambda x: [np.sort(x), -x], lambda x: [x, x], Loops(rule, in_place=((0, 1),)))
    p.multiple_results = True
    check_primitive(p, (X,))


def test_no_two_results_take_the_memory_of_one_operand():
    body = "for i in range(start, stop):\n    v = x[i]\n    b[i] = -v\n    a[i] = 2 * v"

    def rule(target, ins, outs):
        target.kernel("two", body, {"x": (ins[0], "r"), "a": (outs[0], "w"), "b": (outs[1], "w")}, ins[0].size)

    p = made("two", lambda x: [2 * x, -x], lambda x: [x, x], Loops(rule, in_place=((0, 0), (0, 1))))
    p.multiple_results = True
    for used in (0, 1):
        compiled = functad.jit(lambda x, used=used: p.bind(jnp.sin(x))[used])(X)
        np.testing.assert_allclose(compiled, np.sin(X) * (2, -1)[used], rtol=1e-6)


def one_kernel(body, modes=("r", "w")):
    return lambda target, ins, outs: target.kernel(
        "k", body, {"x": (ins[0], modes[0]), "out": (outs[0], modes[1])}, ins[0].size
    )


def steps(count, name="k", out="out"):
    return lambda target, ins, outs: target.kernel(name, f"{out}[0] = 1.0", {out: (outs[0], "w")}, count)


KERNELS = {
    "writes kernel `k`, but kernels do not know `sine`; did you mean `sin`": one_kernel("out[0] = sine(x[0])"),
    r"writes kernel `k`, but kernels do not know `np.sin`": one_kernel("out[0] = np.sin(x[0])"),
    "gives kernel `k` a text that is no Python": one_kernel("for i in"),
    "writes `import os` in kernel `k`, but kernels have loops": one_kernel("import os"),
    r"writes `def f\(\):` in kernel `k`": one_kernel("def f(): pass"),
    'says "w" for `out` of kernel `k`, but there it is not written': one_kernel("x[0]"),
    'says "r" for `x` of kernel `k`, but there it is written': one_kernel("x[0] = out[0] = 1.0"),
    "writes to an operand, which others may read": one_kernel("x[0] = out[0] = 1.0", ("rw", "w")),
    r'gives .* for `x` of kernel `k`, but takes \(buffer, "r", "w" or "rw"\)': one_kernel("out[0] = x[0]", ("in", "w")),
    r"writes `\[2.0\]` in kernel `k`, but kernels have numbers only": one_kernel("out[0] = [2.0][0]"),
    "writes `'a'` in kernel `k`, but kernels have numbers only": one_kernel("out[0] = 'a'"),
    "assigns to `x` in kernel `k`, but buffers, `start`, `stop`": one_kernel("x = out\nout[0] = x[0]"),
    "assigns to `start` in kernel `k`": one_kernel("for start in range(3): out[0] = x[0]"),
    "says that kernel `k` has -1 steps, but that is an integer, 0 or more": steps(-1),
    "says that kernel `k` has 2.0 steps": steps(2.0),
    "names 'a k', but kernels and buffers take names": steps(2, "a k"),
    "names 'stop', but": steps(2, "k", "stop"),
    "writes nothing to result 0": lambda target, ins, outs: None,
}


@pytest.mark.parametrize("said", KERNELS)
def test_what_kernels_may_not_be_is_told(said):
    p = made("own", lambda x: x, lambda x: x, Loops(KERNELS[said]))
    raises(p, f"the Loops rule of `own` at .*test_kernel_rules.*: it {said}", X)


def test_functads_own_promises_of_kernels_are_refused():
    for rule in (Loops(doubled, joins="axis"), Loops(doubled, keys=True)):
        with pytest.raises(CustomRuleError, match="leave `joins`, `indexed` and `keys` out"):
            made("own", np.sum, lambda x: x, rule)
