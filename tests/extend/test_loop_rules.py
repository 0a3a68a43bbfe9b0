"""Primitives made from outside by what their loops do: elements from other places, and combinations along axes."""

from __future__ import annotations

import numpy as np
import pytest
from outside_primitives import made

pytest.importorskip("numba", reason="Numba is not installed: rules of kernels are looked at where there are kernels")

import functad
import functad.numpy as jnp
from functad.core import ShapedArray
from functad.errors import CustomRuleError
from functad.extend import Indexed, Reduction, check_primitive
from functad.interpreters import ad, batching

X = np.linspace(-1, 2, 12, dtype=np.float32).reshape(3, 4)


def rolled(context, index, *, shift):
    """The last axis, moved around."""
    size = context.avals[0].shape[-1]
    return context.read(0, (*index[:-1], (index[-1] - shift) % size))


def made_roll():
    roll_p = made("roll", lambda x, *, shift: np.roll(x, shift, -1), lambda x, *, shift: x, Indexed(rolled))
    ad.deflinear(roll_p, lambda ct, *, shift: [roll_p.bind(ct, shift=-shift)])

    def batch(args, dims, *, shift):
        return roll_p.bind(jnp.moveaxis(args[0], dims[0], 0), shift=shift), 0

    batching.primitive_batchers[roll_p] = batch
    return roll_p


def test_moved_elements_agree_in_all_transforms_and_fuse():
    roll_p = made_roll()
    check_primitive(roll_p, (X,), shift=1)
    check_primitive(roll_p, (X[0],), shift=-2)

    def difference(x):
        return jnp.sin(roll_p.bind(x, shift=1)) - x

    lowered = functad.jit(difference).lower(X)
    assert str(lowered.kernels).count("def ") == 1
    np.testing.assert_allclose(functad.jit(difference)(X), np.sin(np.roll(X, 1, -1)) - X, rtol=1e-6, atol=1e-6)
    assert "sin" in str(functad.jit(difference, backend="cuda").lower(X).kernels)
    halves = X.astype(np.float16)
    np.testing.assert_array_equal(functad.jit(lambda x: roll_p.bind(x, shift=1))(halves), np.roll(halves, 1, -1))
    for empty in (np.zeros((0, 4), np.float32), np.zeros((2, 0), np.float32)):
        if empty.shape[-1]:
            assert functad.jit(lambda x: roll_p.bind(x, shift=1))(empty).shape == empty.shape


def test_indices_that_are_data_numbers_and_words_of_kernels():
    def picked(context, index):
        row = context.place(context.read(1, index), context.avals[1].dtype, context.avals[0].shape[0])
        found = context.let(context.read(0, (row, *index)))
        return f"where({found} > {context.text(index[0])}, {found}, -{found})"

    def run(x, rows):
        found = x[np.clip(rows, 0, len(x) - 1), np.arange(x.shape[1])]
        return np.where(found > np.arange(x.shape[1]), found, -found)

    pick_p = made("pick", run, lambda x, rows: ShapedArray(rows.shape, x.dtype), Indexed(picked))
    for dtype in (np.int32, np.uint8, np.int64):
        rows = np.array([0, 2, 1, 200]).astype(dtype)  # the last one lies outside, and is moved inside
        np.testing.assert_array_equal(functad.jit(pick_p.bind)(X, rows), run(X, rows))
        double = functad.jit(lambda x, rows: 2 * pick_p.bind(x * 1.5, rows))
        np.testing.assert_allclose(double(X, rows), 2 * run(np.float32(1.5) * X, rows), rtol=1e-6)


def test_no_operands_and_a_result_of_another_dtype():
    ramp_p = made(
        "ramp",
        lambda *, n: np.arange(n, dtype=np.float32) / 2,
        lambda *, n: ShapedArray((n,), np.float32),
        Indexed(lambda context, index, *, n: f"{context.text(index[0])} / 2.0"),
    )
    found = functad.jit(lambda x: ramp_p.bind(n=4) + x)(X)
    np.testing.assert_array_equal(found, np.arange(4, dtype=np.float32) / 2 + X)


def test_an_element_that_is_cast_is_what_the_implementation_gives():
    floor_p = made(
        "flipped_floor",
        lambda x: np.floor(x[::-1]).astype(np.int32),
        lambda x: ShapedArray(x.shape, np.int32),
        Indexed(lambda context, index: f"floor({context.read(0, (context.out.shape[0] - 1 - index[0],))})"),
    )
    np.testing.assert_array_equal(functad.jit(floor_p.bind)(X[1]), np.floor(X[1][::-1]).astype(np.int32))
    check_primitive(floor_p, (X[1],))


INDEXED = {
    "it reads operand 0 along axis 0 from 1 to 4, but there it has 4 elements; context.clamp": lambda c, i: c.read(
        0, (i[0] + 1,)
    ),
    r"it reads operand 0 at 2 indices, but it has 1 axes": lambda c, i: c.read(0, (i[0], 0)),
    r"it reads operand 1, but there are 1, from 0 on": lambda c, i: c.read(1, i),
    r"it gives 'sine\(at_a\)', but kernels do not know `sine`; did you mean `sin`": lambda c, i: (
        f"sine({c.read(0, i)})"
    ),
    r"kernels do not know `at_z`": lambda c, i: "at_z",
    r"it gives None, but must give the text of one expression": lambda c, i: None,
    r"it gives 'x \+', but must give the text": lambda c, i: "x +",
    r"it uses 0.5 as an index; an index is made of `index` and of whole numbers": lambda c, i: c.read(0, (0.5,)),
    r"it uses .* as an index": lambda c, i: c.read(0, (i[0] * 0.5,)),
    r"it uses 'at_a' as an index; .* context.place": lambda c, i: c.read(0, (c.read(0, i),)),
}


@pytest.mark.parametrize("said", INDEXED)
def test_what_an_indexed_rule_may_not_say_is_told(said):
    p = made("moved", lambda x: x, lambda x: x, Indexed(INDEXED[said]))
    with pytest.raises(CustomRuleError, match=f"the Indexed rule of `moved` at .*test_loop_rules.py.*: .*{said}"):
        functad.jit(lambda x: p.bind(x))(X[0])


def made_total(kind="sum", run=np.sum):
    def types(x, *, axes):
        return ShapedArray([n for d, n in enumerate(x.shape) if d not in axes], x.dtype)

    total_p = made(f"total_{kind}", lambda x, *, axes: run(x, axes), types, Reduction(kind))
    batching.defreducer(total_p)
    return total_p


@pytest.mark.parametrize(("kind", "run"), [("sum", np.sum), ("prod", np.prod), ("max", np.max), ("min", np.min)])
def test_combined_elements_agree_and_fuse(kind, run):
    total_p = made_total(kind, run)
    for axes in ((0,), (1,), (0, 1)):
        found = functad.jit(lambda x, axes=axes: total_p.bind(x * 2, axes=axes))(X)
        np.testing.assert_allclose(found, run(X * 2, axes), rtol=1e-5)
    text = str(functad.jit(lambda x: total_p.bind(jnp.sin(x), axes=(1,)) + 1).lower(X).kernels)
    assert text.count("def ") == 1
    check_primitive(total_p, (X,), axes=(1,))


def test_what_a_reduction_may_not_be_is_told():
    with pytest.raises(CustomRuleError, match="the Reduction rule of `total_mean` is of kind 'mean'; there are 'sum'"):
        made_total("mean")
    with pytest.raises(CustomRuleError, match="'xor' does not combine elements of float32"):
        functad.jit(lambda x: made_total("xor").bind(x, axes=(0,)))(X)
    for axes in ((2,), 0, (0.0,)):
        p = made("total", np.sum, lambda x, *, axes: ShapedArray((4,), x.dtype), Reduction("sum"))
        with pytest.raises(CustomRuleError, match=r"`total` at .*the parameter `axes`, .* 0 to 1, but that is"):
            functad.jit(lambda x, axes=axes, p=p: p.bind(x, axes=axes))(X)
    p = made("total", np.sum, lambda x: ShapedArray((4,), x.dtype), Reduction("sum"))
    with pytest.raises(CustomRuleError, match=r"but there is no such parameter"):
        functad.jit(lambda x: p.bind(x))(X)
    p = made("total", np.sum, lambda x, *, axes: ShapedArray((3,), x.dtype), Reduction("sum"))
    with pytest.raises(CustomRuleError, match=r"over axes \(0,\) it makes f32\[4\] of f32\[3,4\], but .* f32\[3\]"):
        functad.jit(lambda x: p.bind(x, axes=(0,)))(X)


def test_functads_own_promises_are_refused():
    for rule in (Indexed(rolled, free=True), Indexed(rolled, same_memory=True)):
        with pytest.raises(CustomRuleError, match="leave `free` and `same_memory` out"):
            made("moved", np.sum, lambda x: x, rule)
    p = made("pair", lambda x: [x, x], lambda x: [x, x], Indexed(lambda c, i: c.read(0, i)))
    p.multiple_results = True
    with pytest.raises(CustomRuleError, match="it says what one result is, but there are 2"):
        functad.jit(lambda x: p.bind(x))(X)


def test_a_reduction_is_asked_for_the_types_of_operands_that_were_given():
    def types(x, *, axes):
        assert x.ndim == 3
        return ShapedArray(x.shape[:1] + x.shape[2:], x.dtype)

    sum_p = made("sum_of_middle", lambda x, *, axes: x.sum(axes), types, Reduction("sum"))
    points = np.linspace(-1, 1, 3000, dtype=np.float32).reshape(1000, 3)

    def forces(x):
        return sum_p.bind((x[:, None] - x[None]) ** 2, axes=(1,))

    np.testing.assert_allclose(functad.jit(forces)(points), forces(points), rtol=1e-4)
