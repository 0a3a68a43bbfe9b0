"""`scan`, `while_loop`, `fori_loop`, `map`, `cond`, `switch`, `associative_scan` against Python and differences."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest
from control_flow_tools import BACKENDS, ROWS, Pair, X, close, run

import functad
import functad.numpy as jnp
from functad import lax
from functad.errors import ArgumentError

# --- values ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", [None, *BACKENDS])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("unroll", [1, 2, 3, 7, 0, True])
def test_scan_is_a_loop(backend, reverse, unroll):
    def step(carry, row):
        c = carry["c"] * 0.5 + row
        return {"c": c, "n": carry["n"] + 1}, (c.sum(), None, Pair(c, carry["n"]))

    last, ys = run(lambda x: lax.scan(step, {"c": x, "n": 0}, ROWS, reverse=reverse, unroll=unroll), X, backend=backend)
    c, found = X, [None] * 4
    for n, i in enumerate(reversed(range(4)) if reverse else range(4)):
        before, c = n, c * 0.5 + ROWS[i]
        found[i] = (c.sum(), c, before)
    close(last, {"c": c, "n": 4})
    assert ys[1] is None and isinstance(ys[2], Pair)
    sums, carries, counts = (np.array(column) for column in zip(*found))
    close(ys, (sums, Pair(carries, counts)))


@pytest.mark.parametrize("backend", [None, *BACKENDS])
def test_scan_without_steps(backend):
    last, ys = run(lambda x: lax.scan(lambda c, r: (c * 2, (r, 1)), x, jnp.zeros((0, 2))), X, backend=backend)
    close(last, X)
    assert ys[0].shape == (0, 2) and ys[1].shape == (0,) and ys[1].dtype == np.int32
    close(functad.grad(lambda x: lax.scan(lambda c, r: (c * 2, None), x, None, length=0)[0].sum())(X), np.ones(3))


@pytest.mark.parametrize("backend", [None, *BACKENDS])
@pytest.mark.parametrize("start", [1, 3, 200, -5])
def test_while_loop_is_a_loop(backend, start):
    def body(state):
        n, steps = state["n"], state["steps"]
        return {"n": jnp.where(n % 2 == 0, n // 2, 3 * n + 1), "steps": steps + 1}

    def collatz(start):
        return lax.while_loop(lambda s: (s["n"] > 1) & (s["steps"] < 50), body, {"n": start, "steps": 0})

    n, steps = start, 0
    while n > 1 and steps < 50:
        n, steps = n // 2 if n % 2 == 0 else 3 * n + 1, steps + 1
    close(run(collatz, np.int32(start), backend=backend), {"n": n, "steps": steps})


@pytest.mark.parametrize("backend", [None, *BACKENDS])
@pytest.mark.parametrize("most", [0, 1, 3, 50])
def test_while_loop_ends_after_max_steps(backend, most):
    def loop(x):
        return lax.while_loop(lambda s: s["x"] < 2, lambda s: {"x": s["x"] * 1.5}, {"x": x}, max_steps=most)["x"]

    def plain(x):
        steps = 0
        while x < 2 and steps < most:
            x, steps = x * 1.5, steps + 1
        return x

    xs = np.array([0.3, 1.0, 5.0])
    close(run(functad.vmap(loop), xs, backend=backend), np.array([plain(x) for x in xs]))
    close(run(functad.vmap(functad.grad(loop)), xs, backend=backend), np.array([plain(x) / x for x in xs]))
    with functad.disable_jit():
        close(loop(np.array(xs[0])), plain(xs[0]))


BOUNDS = [(0, 5), (2, 4), (3, 3), (4, 1), (-2, 2)]


@pytest.mark.parametrize("backend", [None, *BACKENDS])
@pytest.mark.parametrize("lower, upper", BOUNDS)
@pytest.mark.parametrize("dtype", [None, "int8", "int64"])
def test_fori_loop_is_a_loop(backend, lower, upper, dtype):
    expected = X
    for i in range(lower, upper):
        expected = np.sin(expected) * i + X
    step = lambda i, c: jnp.sin(c) * i + X  # noqa: E731
    close(run(lambda x: lax.fori_loop(lower, upper, step, x), X, backend=backend), expected)
    if dtype is not None:
        bounds = np.array([lower, upper], dtype)
        close(run(lambda b, x: lax.fori_loop(b[0], b[1], step, x), bounds, X, backend=backend), expected)
        close(run(lambda b, x: lax.fori_loop(lower, b[1], step, x), bounds, X, backend=backend), expected)


def test_the_index_of_a_fori_loop_is_like_a_python_integer_unless_bounds_need_more():
    kinds = []
    body = lambda i, c: kinds.append(i.aval.str_short() + "*" * i.weak_type) or c  # noqa: E731
    trace = lambda low, high: functad.make_jaxpr(lambda a, b: lax.fori_loop(a, b, body, 0.0))(low, high)  # noqa: E731
    for low, high in (
        (0, 3),
        (0, np.int8(3)),
        (np.uint16(1), 3),
        (np.int8(1), np.uint16(3)),
        (np.int32(0), np.int32(3)),
    ):
        trace(low, high)
        lax.fori_loop(low, high, body, 0.0)
    assert set(kinds) == {"i32[]*"}
    kinds.clear()
    trace(np.int8(1), np.array(3, np.int64))
    trace(np.uint32(1), np.uint32(3))
    trace(np.uint32(1), np.int32(3))
    lax.fori_loop(np.uint32(1), np.array(3, np.int64), body, 0.0)
    functad.make_jaxpr(lambda: lax.fori_loop(np.uint32(1), np.uint32(2**32 - 1), body, 0.0))()
    assert kinds == ["i64[]", "u32[]", "i64[]", "i32[]*", "u32[]"]


ENDS = [
    (np.uint32(2**32 - 4), np.uint32(2**32 - 1)),
    (np.array(2**64 - 4, np.uint64), np.array(2**64 - 1, np.uint64)),
    (np.array(2**31, np.int64), np.array(2**31 + 3, np.int64)),
    (np.int32(2**31 - 4), np.int32(2**31 - 1)),
    (np.int32(-(2**31)), np.int32(-(2**31) + 3)),
    (np.int8(-128), np.int8(-125)),
    (np.int8(124), np.int8(127)),
    (np.uint8(252), np.uint8(255)),
    (np.int8(0), np.int16(3)),
    (np.uint8(0), np.int8(3)),
    (np.uint32(0), np.int32(3)),
    (np.uint32(9), np.uint32(3)),
    (np.int8(127), np.int8(-128)),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("lower, upper", ENDS)
def test_fori_loops_take_the_same_bounds_known_and_traced(lower, upper, backend):
    wanted = [max(int(upper) - int(lower), 0), sum(i % 7 for i in range(int(lower), int(upper)))]
    body = lambda i, c: (c[0] + 1, c[1] + (i % i.dtype.type(7)).astype("int32"))  # noqa: E731

    def loop(low, high):
        return list(lax.fori_loop(low, high, body, (0, jnp.int32(0))))

    assert loop(lower, upper) == wanted
    assert run(loop, lower, upper, backend=backend) == wanted
    assert run(lambda: loop(lower, upper), backend=backend) == wanted
    assert [x.tolist() for x in functad.vmap(loop, in_axes=(0, None))(lower[None], upper)] == [[w] for w in wanted]


@pytest.mark.parametrize(
    "low, high, steps", [(0.0, 3.0, 3), (0.0, 3.5, 4), (0.5, 3.5, 3), (-1.5, 1.0, 2), (2.0, 1.0, 0)]
)
def test_floats_bound_a_loop_while_the_index_is_less(low, high, steps):
    loop = lambda low, high: lax.fori_loop(low, high, lambda i, c: c + 1, 0)  # noqa: E731
    bounds = jnp.float32(low), jnp.float32(high)
    assert loop(low, high) == loop(*bounds) == functad.jit(loop)(*bounds) == steps
    assert functad.vmap(loop, (None, 0))(low, bounds[1][None]) == steps
    with pytest.raises(ArgumentError, match="fori_loop: upper must be finite, but is inf"):
        loop(0.0, np.inf)


def test_bounds_that_no_counter_takes_are_refused_known_and_traced():
    loop = lambda low, high: lax.fori_loop(low, high, lambda i, c: c + 1, 0)  # noqa: E731
    for use in (
        lambda: functad.jit(loop)(np.array(0, np.uint64), np.int32(3)),
        lambda: functad.jit(lambda high: loop(-1, high))(np.uint32(3)),
    ):
        with pytest.raises(ArgumentError, match="no counter of these takes all values.*convert both"):
            use()
    with pytest.raises(ArgumentError, match="lower is -1, the bounds have the dtypes int32 and uint32"):
        loop(-1, np.uint32(2**32 - 1))
    for bad in (1.0, True, np.ones(1, int)):
        with pytest.raises(ArgumentError, match="lower must be an integer scalar"):
            loop(bad, 3)
        with pytest.raises(ArgumentError, match="upper must be an integer scalar"):
            functad.jit(lambda b: loop(0, b))(bad)


@pytest.mark.parametrize("backend", [None, *BACKENDS])
@pytest.mark.parametrize("batch_size", [None, 0, 1, 2, 3, 4, 5])
def test_map_applies_a_function_to_every_slice(backend, batch_size):
    def f(row):
        return {"s": jnp.sin(row["r"]).sum(), "two": (row["r"] * row["k"], 1)}

    rows = {"r": ROWS, "k": np.arange(4)}
    got = run(lambda rows: lax.map(f, rows, batch_size=batch_size), rows, backend=backend)
    close(got, {"s": np.sin(ROWS).sum(1), "two": (ROWS * np.arange(4)[:, None], np.ones(4))})


@pytest.mark.parametrize("backend", [None, *BACKENDS])
@pytest.mark.parametrize("pred", [True, False, 1.5, 0.0, np.int32(2), np.bool_(False)])
def test_cond_is_a_branch(backend, pred):
    def f(pred, x):
        return lax.cond(pred, lambda x: (x * 2, 1), lambda x: (jnp.sin(x), 2), x)

    close(run(f, pred, X, backend=backend), (X * 2, 1) if pred else (np.sin(X), 2))


INDICES = [np.int32(i) for i in (-3, 0, 1, 2, 9)]
INDICES += [np.int8(-128), np.uint8(255), np.uint32(2**32 - 1), np.array(2**40), np.array(-(2**40))]
INDICES += [np.array(2**63, np.uint64)]


@pytest.mark.parametrize("backend", [None, *BACKENDS])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("index", INDICES, ids=lambda i: f"{i.dtype}_{i}")
def test_switch_clamps_its_index(backend, count, index):
    branches = [lambda x, k=k: x * 10**k for k in range(count)]
    expected = X * 10 ** min(max(int(index), 0), count - 1)
    close(run(lambda i, x: lax.switch(i, branches, x), index, X, backend=backend), expected)
    indices = np.stack([index, np.zeros_like(index)])
    mapped = run(functad.vmap(lambda i: lax.switch(i, branches, X)), indices, backend=backend)
    close(mapped, np.stack([expected, X]))


def test_only_the_chosen_branch_runs():
    ran = []
    note = lambda name: lambda x: functad.pure_callback(lambda v: ran.append(name) or v, x, x)  # noqa: E731
    lax.cond(True, note("yes"), note("no"), jnp.asarray(1.0))
    lax.switch(1, [note("0"), note("1"), note("2")], jnp.asarray(1.0))
    assert ran == ["yes", "1"]


def test_operand_as_a_keyword():
    assert float(lax.cond(False, lambda x: x["a"], lambda x: -x["a"], operand={"a": 2.0})) == -2
    assert float(lax.switch(1, [lambda x: x, lambda x: -x], operand=2.0)) == -2
    assert lax.cond(True, lambda x: 1, lambda x: 2, operand=None) == 1


# --- associative_scan -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", range(10))
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_associative_scan_gives_all_prefixes(size, reverse, axis):
    x = np.random.default_rng(size).standard_normal((size, 2, 3)).swapaxes(0, axis)
    flip = (lambda a: np.flip(a, axis)) if reverse else (lambda a: a)
    close(lax.associative_scan(jnp.add, x, reverse, axis), flip(np.cumsum(flip(x), axis)))
    got = lax.associative_scan(lambda p, q: {"max": jnp.maximum(p["max"], q["max"])}, {"max": x}, reverse, axis)
    close(got, {"max": flip(np.maximum.accumulate(flip(x), axis))})


@pytest.mark.parametrize("backend", [None, *BACKENDS])
def test_associative_scan_of_what_does_not_commute(backend):
    matrices = np.random.default_rng(0).standard_normal((7, 2, 2))
    expected = list(itertools.accumulate(matrices, lambda a, b: a @ b))
    fun = partial(lax.associative_scan, functad.vmap(jnp.matmul))
    close(run(fun, matrices, backend=backend), np.stack(expected))
    close(run(partial(fun, reverse=True), matrices, backend=backend)[-1], matrices[-1])
    gradient = run(functad.grad(lambda m: fun(m)[-1].sum()), matrices, backend=backend)
    plain = functad.grad(lambda m: (m[0] @ m[1] @ m[2] @ m[3] @ m[4] @ m[5] @ m[6]).sum())(matrices)
    close(gradient, plain)


def test_associative_scan_calls_its_function_rarely():
    calls = []
    lax.associative_scan(lambda a, b: calls.append(len(a)) or a + b, jnp.arange(64))
    assert len(calls) < 2 * 6 and sum(calls) < 2 * 64


def test_associative_scan_keeps_truth_values_and_minus_zero():
    assert lax.associative_scan(jnp.logical_or, jnp.array([False, True, False])).tolist() == [False, True, True]
    assert np.signbit(np.asarray(lax.associative_scan(jnp.minimum, np.float32([0.0, -0.0, 1.0]))))[1:].all()


# --- derivatives ----------------------------------------------------------------------------------------------------


def recurrent(w, x):
    def step(h, row):
        h = jnp.tanh(h * w + row)
        return h, h.sum() * w

    h, ys = lax.scan(step, x, ROWS)
    return h.sum() + (ys**2).sum()


def read_twice(w, x):
    """The arrays gone through depend on the arguments, and so does what the body closes over."""
    rows = jnp.stack([x, x * w, jnp.sin(x)])
    return lax.scan(lambda c, r: (c * r.sum() + w, (r * c * x).sum()), w, rows, reverse=True, unroll=2)[1].sum()


def by_index(w, x):
    def body(i, c):
        return lax.dynamic_update_index_in_dim(c, jnp.sin(c[i]) * w + c[i - 1], i, 0)

    return (lax.fori_loop(0, 3, body, x) ** 2).sum()


def by_data(w, x):
    """Newton's iteration for the square root of x² + w², until it is exact enough."""
    target = x * x + w * w

    def goes_on(state):
        return (jnp.abs(state["y"] ** 2 - target) > 1e-13).any() & (state["n"] < 40)

    found = lax.while_loop(
        goes_on, lambda s: {"y": 0.5 * (s["y"] + target / s["y"]), "n": s["n"] + 1}, {"y": target, "n": 0}
    )
    return found["y"].sum()


def traced_bound(w, x):
    n = (jnp.abs(x).sum() > 0).astype("int32") + 2
    return lax.fori_loop(0, n, lambda i, c: jnp.sin(c) * w + i * x, x).sum()


def branches(w, x):
    one = lax.cond(x[0] > 0, lambda: x * w, lambda: jnp.exp(x))
    two = lax.switch(jnp.sign(x[1]).astype("int32") + 1, [lambda v: v * jnp.sin(w), lambda v: v, lambda v: v**2], one)
    return (one * two).sum()


def slices(w, x):
    return (lax.map(lambda v: jnp.sin(v * w) * x, x, batch_size=2) ** 2).sum()


def prefixes(w, x):
    after = lambda p, q: (q[0] * p[0], q[0] * p[1] + q[1])  # noqa: E731
    return (lax.associative_scan(after, (jnp.sin(x) * w, x))[1] ** 2).sum()


def loop_in_branch_in_loop(w, x):
    def step(c, v):
        return lax.cond(
            v > 0, lambda: lax.while_loop(lambda c: abs(c) < 1.5, lambda c: c * 1.7 + 0.1, c * w), lambda: c * v
        ), None

    return lax.scan(step, jnp.sum(x) + 1, x)[0]


FUNCTIONS = [
    recurrent, read_twice, by_index, by_data, traced_bound, branches, slices, prefixes, loop_in_branch_in_loop
]  # fmt: skip
POINT = (np.array(0.6), X)


def differences(fun, w, x, h=1e-5):
    """Central differences of a function of (w, x), as one vector along a new last axis."""
    point = np.concatenate([[w], x])
    columns = []
    for i in range(point.size):
        step = np.zeros_like(point)
        step[i] = h
        up, down = (np.asarray(fun(np.array(p[0]), p[1:])) for p in (point + step, point - step))
        columns.append((up - down) / (2 * h))
    return np.stack(columns, -1)


def gradient(fun):
    def of_point(w, x):
        of_w, of_x = functad.grad(fun, argnums=(0, 1))(w, x)
        return jnp.concatenate([of_w[None], of_x])

    return of_point


@pytest.mark.generated(every=3)
@pytest.mark.parametrize("fun", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("backend", [None, *BACKENDS])
def test_gradients_are_differences(fun, backend):
    expected = differences(fun, *POINT)
    close(run(gradient(fun), *POINT, backend=backend), expected, 1e-6)
    direction = (np.array(0.3), np.array([1.0, -0.4, 0.2]))
    _, tangent = run(lambda *p: functad.jvp(fun, p, direction), *POINT, backend=backend)
    close(tangent, expected @ np.concatenate([[direction[0]], direction[1]]), 1e-6)


@pytest.mark.parametrize("fun", FUNCTIONS, ids=lambda f: f.__name__)
def test_second_derivatives_are_differences_of_gradients(fun):
    expected = differences(gradient(fun), *POINT)
    reverse = functad.jacrev(gradient(fun), argnums=(0, 1))(*POINT)
    close(jnp.concatenate([reverse[0][:, None], reverse[1]], axis=1), expected, 1e-5)
    over = functad.jacfwd(gradient(fun), argnums=(0, 1))(*POINT)
    close(jnp.concatenate([over[0][:, None], over[1]], axis=1), expected, 1e-5)


@pytest.mark.generated(every=3)
@pytest.mark.parametrize("fun", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("backend", [None, *BACKENDS])
def test_maps_of_gradients_are_loops(fun, backend):
    ws, xs = np.array([0.6, -0.3, 1.1]), np.stack([X, X * 0.5 - 0.2, -X], axis=1)
    mapped = run(functad.vmap(gradient(fun), in_axes=(0, 1), out_axes=1), ws, xs, backend=backend)
    close(mapped, np.stack([gradient(fun)(w, x) for w, x in zip(map(np.array, ws), xs.T)], axis=1), 1e-8)
    only_w = run(functad.vmap(fun, in_axes=(0, None)), ws, X, backend=backend)
    close(only_w, np.stack([fun(w, X) for w in map(np.array, ws)]), 1e-8)


@pytest.mark.parametrize("backend", [None, *BACKENDS])
def test_loops_that_would_not_end_do_not_run_for_examples_that_do_not_need_them(backend):
    """Under `vmap` a body runs for all examples; a doubling of −1 never comes to 10."""

    def in_branch(x):
        return lax.cond(x > 0, lambda x: lax.while_loop(lambda c: c < 10, lambda c: c * 2, x), lambda x: x, x)

    def in_loop(x):
        def body(state):
            i, c = state
            return i + 1, lax.while_loop(lambda c: c < 5, lambda c: c * 1.5, c * i + 0.1)

        return lax.while_loop(lambda s: s[0] < x, body, (0.0, x))[1]

    xs = np.array([-1.0, 1.0, 3.0])
    for fun in (in_branch, in_loop):
        both = functad.value_and_grad(fun)
        mapped = run(functad.vmap(both), xs, backend=backend)
        each = [both(x) for x in map(np.array, xs)]
        close(mapped, (np.array([v for v, _ in each]), np.array([g for _, g in each])))


def test_linear_functions_are_transposed():
    functions = {
        "scan": lambda x: lax.scan(lambda c, v: (c * 0.5 + v, c - v), x[0], x),
        "fori": lambda x: lax.fori_loop(0, 3, lambda i, c: c * i - x, x),
        "known": lambda x: lax.scan(lambda c, v: ((c[0] * 2, c[1] + c[0] * v), c[1]), (1.5, x[0]), x, reverse=True)[1],
        "cond": lambda x: lax.cond(True, lambda x: x * 2, lambda x: x * 0, x),
        "map": lambda x: lax.map(lambda v: v * 3, x),
        "prefixes": lambda x: lax.associative_scan(jnp.add, x),
    }
    for name, fun in functions.items():
        jacobian = functad.jacfwd(fun)(X)
        out = fun(X)
        cotangent = functad.tree.map(lambda leaf: jnp.sin(leaf + 1), out)
        (got,) = functad.linear_transpose(fun, X)(cotangent)
        pairs = zip(functad.tree_util.tree_leaves(cotangent), functad.tree_util.tree_leaves(jacobian))
        expected = sum(np.tensordot(np.asarray(c), np.asarray(j), np.ndim(c)) for c, j in pairs)
        np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-9, err_msg=name)


def test_integer_results_have_no_derivative():
    def fun(x):
        (n, c), ys = lax.scan(lambda s, v: ((s[0] + 1, s[1] * v), s[0]), (0, x[0]), x)
        return n, c, ys

    primals, tangents = functad.jvp(fun, (X,), (np.ones(3),))
    assert [np.asarray(t).dtype for t in tangents] == [functad.dtypes.float0, np.float64, functad.dtypes.float0]
    _, pullback = functad.vjp(fun, X)
    zeros = np.zeros((), functad.dtypes.float0), np.array(1.0), np.zeros(3, functad.dtypes.float0)
    close(pullback(zeros)[0], functad.grad(lambda x: x[0] * x.prod())(X))


@pytest.mark.parametrize("bounds", ["known", "traced"])
def test_errors_of_fori_loops_speak_of_what_the_user_called(bounds):
    def run(body, init):
        loop = functad.jit(lambda n: lax.fori_loop(0, n if bounds == "traced" else 3, body, init))
        with pytest.raises(functad.errors.FunctadError) as raised:
            loop(3)
        said = str(raised.value)
        assert "scan" not in said and "while_loop" not in said and "carry" not in said and "[1]" not in said, said
        return said

    val = jnp.zeros(2)
    assert "fori_loop: what body_fun returns has type f32[3], init_val has" in run(
        lambda i, v: jnp.zeros(3), val
    ).replace("and init_val must have the same types, but\n  what body_fun returns ", "")
    assert "what body_fun returns at `['b']` has type i32[2]" in run(
        lambda i, v: {**v, "b": v["b"].astype(int)}, {"a": val, "b": val}
    )
    assert "what body_fun returns is PyTreeDef(None)" in run(lambda i, v: None, val)
    assert "fori_loop: what body_fun returns is 'no' of type str" in run(lambda i, v: "no", val)
    assert "fori_loop: init_val is 'no' of type str" in run(lambda i, v: v, "no")
    assert "(argument `step` of fori_loop of body)" in run(body_that_indexes(), val)
    assert "(result of `gt` at " in (said := run(lambda i, v: v if v > 0 else -v, jnp.float32(1)))
    assert "traced by fori_loop of <lambda>" in said


def body_that_indexes():
    def body(step, v):
        return v * range(5)[step]

    return body


def test_errors_of_map_speak_of_map():
    for f, xs, said in (
        (lambda x: x, 1.0, "map: xs is a scalar"),
        (lambda x: x, {"a": jnp.zeros(2), "b": jnp.zeros(3)}, r"map: all arrays in xs .* xs\['a'\] has 2"),
        (lambda x: x, (), "map: xs holds no array, which would tell"),
        (lambda x: "no", jnp.zeros(2), "map: what f returns is 'no' of type str"),
        (lambda x: x if x > 0 else -x, jnp.zeros(2), "traced by map of <lambda>"),
    ):
        with pytest.raises(functad.errors.FunctadError, match=said):
            lax.map(f, xs)
