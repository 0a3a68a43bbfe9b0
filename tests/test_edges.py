"""Arguments at the edges: sizes that no memory holds, empty axes, endless pytrees, odd callables, types as operands."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax, random, tree_util
from functad.errors import (
    ArgumentError,
    BodyError,
    DifferentiationError,
    OutOfBoundsError,
    ShapeError,
    TooLargeError,
    TreeError,
)

pytestmark = pytest.mark.generated(every=3)  # tables of shapes, dtypes and ways

jit, grad, vmap = functad.jit, functad.grad, functad.vmap
KEY = random.key(0)

# --- sizes ------------------------------------------------------------------------------------------

HUGE = {
    "zeros": lambda: jnp.zeros((1 << 33, 1 << 33)),
    "full": lambda: jnp.full((1 << 33, 1 << 33), 1.0),
    "jit": lambda: jit(lambda: jnp.ones((1 << 33, 1 << 33)))(),
    "broadcast_to": lambda: jnp.broadcast_to(1.0, (1 << 31, 1 << 31)),
    "one axis": lambda: jnp.zeros(1 << 62),
    "arange": lambda: jnp.arange(1 << 45),
    "arange beyond": lambda: jnp.arange(1 << 65),
    "eye": lambda: jnp.eye(1 << 40),
    "linspace": lambda: jnp.linspace(0, 1, 1 << 45),
    "tile": lambda: jnp.tile(jnp.ones(2), 1 << 62),
    "repeat": lambda: jnp.repeat(jnp.ones(2), 1 << 62),
    "pad": lambda: jnp.pad(jnp.ones(2), 1 << 62),
    "normal": lambda: random.normal(KEY, (1 << 45,)),
    "split": lambda: random.split(KEY, 1 << 45),
    "iota": lambda: lax.iota(np.int32, 1 << 45),
    "broadcast of operands": lambda: jnp.ones((1 << 20, 1)) + jnp.ones((1, 1 << 40)),
    "outer": lambda: jnp.outer(jnp.ones(1 << 20), jnp.ones(1 << 28)),
    "one_hot": lambda: functad.nn.one_hot(jnp.arange(3), 1 << 60),
}


@pytest.mark.parametrize("make", HUGE.values(), ids=HUGE)
def test_arrays_that_no_memory_holds_are_refused_by_name_and_size(make):
    with pytest.raises(
        TooLargeError, match=r"(more (numbers )?than any array can have|GiB, for which there is no memory)"
    ) as found:
        make()
    assert isinstance(found.value, (MemoryError, ValueError))


LARGE = {  # what a jitted function would have to keep
    "result": lambda x, n: jnp.sin(jnp.broadcast_to(x, (n, n))),
    "stacked": lambda x, n: lax.scan(lambda c, _: (c + 1, jnp.zeros(n) + c), x, None, length=n)[1],
    "temporary": lambda x, n: jnp.sort(jnp.broadcast_to(x, (n, n)) * 2)[0, 0],
    "both": lambda x, n: (jnp.sort(jnp.broadcast_to(x, (n, n)) * 2)[0], jnp.broadcast_to(x, (n, n))),
}


@pytest.mark.parametrize("n", [1 << 26, 1 << 31])  # more than can be addressed, and more than can be counted
@pytest.mark.parametrize("name", LARGE)
def test_jitted_functions_that_need_more_memory_than_there_is_say_so(name, n):
    x = jnp.float32(1)
    with pytest.raises(TooLargeError, match=r"needs .* GiB for its results and .* GiB for temporary arrays"):
        functad.jit(lambda x: LARGE[name](x, n), donate_argnums=0)(x)
    with pytest.raises(TooLargeError, match="GiB"):
        functad.jit(lambda x: functad.vmap(functad.jit(lambda x: LARGE[name](x, n)))(x[None]))(jnp.float32(1))


NEGATIVE = {
    "permutation": lambda: random.permutation(KEY, -3),
    "choice": lambda: random.choice(KEY, -3),
    "ShapeDtypeStruct": lambda: functad.ShapeDtypeStruct((2, -1), "float32"),
    "pure_callback": lambda: functad.pure_callback(
        lambda x: x, type("T", (), {"shape": (-1,), "dtype": np.dtype("float32")})(), 1.0
    ),
    "broadcast": lambda: lax.broadcast(1.0, (-1,)),
    "normal": lambda: random.normal(KEY, (-2,)),
    "zeros": lambda: jnp.zeros((2, -1)),
}


@pytest.mark.parametrize("make", NEGATIVE.values(), ids=NEGATIVE)
def test_negative_sizes_are_refused(make):
    with pytest.raises((ArgumentError, ShapeError), match=r"negative|-3 elements"):
        make()


NOTHING = {
    "categorical": lambda: random.categorical(KEY, jnp.ones((3, 0))),
    "choice": lambda: random.choice(KEY, jnp.ones(0)),
    "interp": lambda: jnp.interp(1.0, jnp.ones(0), jnp.ones(0)),
    "argmax": lambda: jnp.argmax(jnp.ones((0, 3)), axis=0),
    "take, clip": lambda: jnp.take(jnp.ones(0), jnp.array([0]), mode="clip"),
    "take, fill": lambda: jnp.take(jnp.ones((0, 2)), jnp.array([0]), axis=0, mode="fill"),
    "get, clip": lambda: jnp.ones(0).at[0].get(mode="clip"),
    "traced scalar": lambda: jit(lambda i: jnp.ones(0)[i])(0),
    "traced array": lambda: jit(lambda i: jnp.ones((0, 3))[i])(jnp.array([0, 1])),
    "traced take": lambda: jit(lambda i: jnp.take(jnp.ones((0, 3)), i, axis=0))(0),
    "element": lambda: jnp.ones(0)[-1],
}


@pytest.mark.parametrize("use", NOTHING.values(), ids=NOTHING)
def test_nothing_is_found_where_there_is_nothing(use):
    with pytest.raises(
        (ArgumentError, OutOfBoundsError, ShapeError), match=r"nothing to draw from|no elements|axis . .*empty"
    ):
        use()


def test_asking_for_nothing_where_there_is_nothing_gives_nothing():
    none = jnp.zeros(0, int)
    assert jnp.ones(0)[none].shape == jnp.take(jnp.ones(0), none, mode="clip").shape == (0,)
    assert jit(lambda i: jnp.ones((0, 3))[i])(none).shape == (0, 3)
    assert random.categorical(KEY, jnp.ones((0, 3))).shape == (0,) == random.permutation(KEY, 0).shape
    assert jit(lambda i: jnp.ones(0).at[i].set(1.0))(0).shape == (0,)


ONES, KERNEL = jnp.ones((1, 1, 4, 4)), jnp.ones((1, 1, 2, 2))


@pytest.mark.parametrize(
    "use, text",
    [
        (lambda: lax.conv_general_dilated(ONES, KERNEL, (0, 1), "SAME"), r"window_strides=\(0, 1\).*at least 1"),
        (lambda: lax.conv_general_dilated(ONES, KERNEL, (0, 1), ((0, 0),) * 2), r"window_strides=\(0, 1\).*at least 1"),
        (lambda: lax.conv(ONES, KERNEL, (1,), "VALID"), r"window_strides=\(1,\).*one for each of the 2 axes"),
        (
            lambda: lax.conv(ONES, KERNEL, (1.5, 1), "VALID"),
            "must be at least 1, in whole numbers",
        ),
        (lambda: lax.conv_general_dilated(ONES, KERNEL, (1, 1), ((-3, -3), (0, 0))), r"cuts off more than there is"),
        (
            lambda: lax.conv(ONES, KERNEL[:, :, :0], (1, 1), "VALID"),
            r"the kernel, of shape \(1, 1, 0, 2\), has no element",
        ),
        (
            lambda: lax.conv_transpose(ONES, KERNEL, (0, 0), "VALID", dimension_numbers=("NCHW", "OIHW", "NCHW")),
            "at least 1",
        ),
        (lambda: lax.reduce_window(ONES[0, 0], 0.0, lax.add, (2, 2), (0, 1), "SAME"), r"window_strides=\(0, 1\)"),
        (lambda: lax.reduce_window(ONES[0, 0], 0.0, lax.add, (0, 2), (1, 1), "VALID"), r"window_dimensions=\(0, 2\)"),
        (lambda: lax.slice(jnp.ones(4), (3,), (0,), (-1,)), r"from 3 to 0 in steps of -1.*positive stride"),
    ],
)
def test_strides_dilations_and_paddings_that_do_not_fit_are_named(use, text):
    with pytest.raises((ArgumentError, ShapeError), match=text):
        use()


# --- pytrees ----------------------------------------------------------------------------------------


def endless(kind):
    if kind == "dict":
        tree = {"a": (1, [])}
        tree["a"][1].append(tree)
    else:
        tree = []
        tree.append(tree)
    return tree


@pytest.mark.parametrize("kind", ["list", "dict"])
@pytest.mark.parametrize(
    "use",
    [
        tree_util.tree_leaves,
        partial(tree_util.tree_map, lambda x: x),
        tree_util.tree_flatten_with_path,
        jit(lambda x: x),
        vmap(lambda x: x),
    ],
)
def test_a_pytree_that_contains_itself_is_named(use, kind):
    with pytest.raises(TreeError, match=r"contains itself: what stands at .*\[.*again, a (list|dict)"):
        use(endless(kind))
    with pytest.raises(ShapeError, match="contains itself"):
        jnp.asarray(endless("list"))


def test_a_pytree_that_is_too_deep_says_so_and_shared_parts_are_no_cycle():
    tree = 1.0
    for _ in range(50_000):
        tree = [tree]
    with pytest.raises(TreeError, match="more than 5000 levels"):
        tree_util.tree_leaves(tree)
    part = [1, 2]
    assert tree_util.tree_leaves([part, part]) == [1, 2, 1, 2]


# --- callables --------------------------------------------------------------------------------------


class Odd:
    __name__ = 5

    def __call__(self, x):
        return x * 2.0


class Scale:
    def method(self, x):
        return x * 2.0

    __call__ = method

    @staticmethod
    def static(x):
        return x * 2.0

    @classmethod
    def of_class(cls, x):
        return x * 2.0


CALLABLES = {
    "no name": Odd(),
    "partial": partial(lambda by, x: x * by, 2.0),
    "object": Scale(),
    "method": Scale().method,
    "static": Scale.static,
    "class method": Scale.of_class,
    "jitted": jit(Scale().method),
    "lambda": lambda x: x * 2.0,
}
TRANSFORMS = {
    "jit": lambda f: jit(f)(1.0),
    "vmap": lambda f: vmap(f)(jnp.ones(1))[0],
    "grad": lambda f: grad(f)(1.0),
    "value_and_grad": lambda f: functad.value_and_grad(f)(1.0)[0],
    "jvp": lambda f: functad.jvp(f, (1.0,), (1.0,))[1],
    "vjp": lambda f: functad.vjp(f, 1.0)[0],
    "linearize": lambda f: functad.linearize(f, 1.0)[0],
    "linear_transpose": lambda f: functad.linear_transpose(f, 1.0)(1.0)[0],
    "jacfwd": lambda f: functad.jacfwd(f)(1.0),
    "jacrev": lambda f: functad.jacrev(f)(1.0),
    "hessian": lambda f: 2 + functad.hessian(f)(1.0),
    "checkpoint": lambda f: functad.checkpoint(f)(1.0),
    "make_jaxpr": lambda f: functad.eval_jaxpr(functad.make_jaxpr(f)(1.0), [], 1.0)[0],
    "eval_shape": lambda f: 2 + functad.eval_shape(f, 1.0).ndim,
    "named_call": lambda f: functad.named_call(f, name="part")(1.0),
    "closure_convert": lambda f: functad.closure_convert(f, 1.0)[0](1.0),
    "vectorize": lambda f: jnp.vectorize(f)(jnp.ones(1))[0],
    "cond": lambda f: lax.cond(True, f, f, 1.0),
    "switch": lambda f: lax.switch(1, [f, f], 1.0),
    "scan": lambda f: lax.scan(lambda c, x: (f(c), None), 1.0, None, length=1)[0],
    "while_loop": lambda f: lax.while_loop(lambda x: x < 2, f, 1.0),
    "map": lambda f: lax.map(f, jnp.ones(1))[0],
    "custom_vjp": lambda f: functad.custom_vjp(f) and 2,
    "custom_gradient": lambda f: functad.custom_gradient(lambda x: (f(x), f))(1.0),
}


@pytest.mark.parametrize("fun", CALLABLES.values(), ids=CALLABLES)
@pytest.mark.parametrize("use", TRANSFORMS.values(), ids=TRANSFORMS)
def test_every_transform_takes_every_callable(use, fun):
    assert use(fun) == 2


# --- forms of calls ---------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda f: f, jit])
def test_cond_takes_an_operand_for_each_function(wrap):
    f = wrap(lambda p: lax.cond(p, 3.0, lambda x: x + 1, (4.0, 1.0), lambda x: x[0] + x[1] + 2))
    assert f(True) == 4 and f(False) == 7
    with pytest.raises(ArgumentError, match=r"true_fun must be a function.*cond\(pred, x, true_fun, y, false_fun\)"):
        lax.cond(True, 1.0, lambda x: x, 2.0)
    with pytest.raises(BodyError):
        lax.cond(True, 3.0, lambda x: x, 4.0, lambda x: (x, x))


def test_types_are_operands_where_only_the_type_matters():
    s = functad.ShapeDtypeStruct((2, 3), np.float32)
    assert (jnp.shape(s), jnp.ndim(s), jnp.size(s), jnp.size(s, 1), len(s)) == ((2, 3), 2, 6, 3, 2)
    assert jnp.result_type(s, np.int8) == np.float32 and jnp.zeros_like(s).shape == (2, 3)
    assert s.update(shape=(4,)) == functad.ShapeDtypeStruct((4,), np.float32) and s.sharding is None
    assert functad.ShapeDtypeStruct.like(1.0).weak_type and functad.ShapeDtypeStruct.like(s) == s
    assert functad.ShapeDtypeStruct((2,), "int8", sharding=None).dtype == np.int8
    with pytest.raises(ArgumentError, match="not.*colour"):
        s.update(colour=1)
    with pytest.raises(ShapeError, match="tuple of integers"):
        functad.ShapeDtypeStruct(3, "int8")
    for kind, wanted in ((np.complex64, True), ("float32", False), (s, False), (1j, True), ([1j], True), (int, False)):
        assert jnp.iscomplexobj(kind) is wanted and jnp.isrealobj(kind) is not wanted
    assert functad.dtypes.canonicalize_dtype(None) == np.float32
    with functad.enable_x64():
        assert functad.dtypes.canonicalize_dtype(None) == np.float64


@pytest.mark.parametrize("low, high, wanted", [(0.0, 5.7, [4, 0, 2]), (0.5, 2.7, [1, 0, 0]), (0, np.nan, [0, 0, 0])])
def test_bounds_of_randint_may_be_floats(low, high, wanted):
    assert random.randint(KEY, (3,), low, high).tolist() == wanted
    assert jit(lambda a, b: random.randint(KEY, (3,), a, b))(low, high).tolist() == wanted


def test_integer_outputs_take_cotangents_of_their_own_type_or_float0():
    value, pull = functad.vjp(lambda x, n: (x * 2.0, n), 1.0, jnp.arange(3))
    for ct in (np.zeros(3, functad.dtypes.float0), jnp.zeros(3, int), np.ones(3, np.int32)):
        assert pull((1.0, ct))[0] == 2
    assert functad.vjp(lambda x: (x * 2.0, 3), 1.0)[1]((1.0, 0))[0] == 2
    assert jit(lambda x: functad.vjp(lambda x: (x * 2.0, 3), x)[1]((1.0, 0)))(1.0)[0] == 2
    for wrong in (jnp.zeros(4, int), 0.0, np.zeros(4, functad.dtypes.float0)):
        with pytest.raises(DifferentiationError, match="output 1 belongs to a value of type i32"):
            pull((1.0, wrong))
