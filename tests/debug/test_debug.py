"""debug.callback, debug.print, debug.breakpoint, and progress bars of loops: wherever a function runs, and in order."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax
from functad.errors import ArgumentError, CallbackError
from functad.lax import loop_progress

jit, vmap, grad = functad.jit, functad.vmap, functad.grad
show = functad.debug.print

RUNS = {
    "un-jitted": lambda f: f,
    "interpreter": lambda f: jit(f, backend="interpreter"),
    "cpu": lambda f: jit(f, backend="cpu"),
}


@pytest.fixture(params=RUNS)
def run(request):
    """How a function runs: as it stands, or jitted for a backend."""
    return RUNS[request.param]


@pytest.fixture
def lines(capsys):
    """The lines printed since the last call."""
    return lambda: capsys.readouterr().out.splitlines()


# --- print --------------------------------------------------------------------------------------------------


def test_values_are_formatted_as_str_format_does(run, lines):
    def f(x, y):
        show("{} {:.2f} {named:>6} {tree}", x, y, named=y, tree={"a": x, "s": None})
        show("{1} {0} {2[0]} {{}} {3}", x, "text", y.reshape(1), [y])
        show("nothing")

    run(f)(np.array([1, 2], np.int32), np.float32(0.125))
    first, second, third = lines()
    assert first == "[1 2] 0.12  0.125 {'a': Array([1, 2], dtype=int32), 's': None}"
    assert second == "text [1 2] 0.125 {} [Array(0.125, dtype=float32)]"
    assert third == "nothing"


def test_a_jitted_function_prints_each_time_it_runs(lines):
    f = jit(lambda x: (show("x {}", x), x + 1)[1])
    f(1), f(2), f.lower(3)
    assert lines() == ["x 1", "x 2"]


def test_lines_come_in_the_order_in_which_they_are_written(run, lines):
    def f(x):
        show("first {}", x)
        y = lax.fori_loop(0, 3, lambda i, c: (show("step {} {}", i, c), c * 2)[1], x)
        show("then {}", x)  # its value was there before the loop
        jit(lambda y: show("inner {}", y))(y)
        lax.cond(y > 1, lambda: show("yes"), lambda: show("no"))
        show("last")
        return y

    run(f)(1)
    assert lines() == ["first 1", "step 0 1", "step 1 2", "step 2 4", "then 1", "inner 8", "yes", "last"]


def test_equal_lines_are_all_printed(run, lines):
    run(lambda x: [show("same {}", x) for _ in range(3)] and None)(1)
    assert lines() == ["same 1"] * 3


def test_conditions_of_loops_print(run, lines):
    run(lambda: lax.while_loop(lambda c: (show("test {}", c), c < 2)[1], lambda c: c + 1, 0))()
    assert lines() == ["test 0", "test 1", "test 2"]


@pytest.mark.parametrize("length", [1, 5, 40])
def test_scans_print_at_each_step_forwards_and_backwards(run, lines, length):
    for reverse in (False, True):
        run(lambda xs: lax.scan(lambda c, x: (show("{}", x), (c, c))[1], 0, xs, reverse=reverse))(np.arange(length))  # noqa: B023
        assert lines() == [str(i) for i in range(length)][:: -1 if reverse else 1]


def test_a_loop_of_which_nothing_is_used_prints(run, lines):
    run(lambda x: (lax.scan(lambda c, _: (show("{}", x), (c, c))[1], 0, None, length=30), x)[1])(7)
    assert lines() == ["7"] * 30


# --- under transforms ---------------------------------------------------------------------------------------


def test_vmap_prints_for_one_example_after_another_and_in_order(run, lines):
    def f(x):
        show("a {}", x)
        show("b")
        show("c {x}", x=x)
        return x

    run(vmap(f))(np.arange(3))
    assert lines() == ["a 0", "a 1", "a 2", "b", "c 0", "c 1", "c 2"]
    run(vmap(vmap(lambda x: show("{}", x))))(np.arange(6).reshape(2, 3))
    assert lines() == ["0", "3", "1", "4", "2", "5"]


def test_vmapped_branches_and_loops_print_for_all_examples(run, lines):
    def branch(p, x):
        return lax.cond(p, lambda x: (show("T {}", x), x)[1], lambda x: (show("F {}", x), x)[1], x)

    run(vmap(branch))(np.array([True, False]), np.arange(2))
    assert lines() == ["F 0", "F 1", "T 0", "T 1"]
    run(vmap(branch, (None, 0)))(np.bool_(True), np.arange(2))
    assert lines() == ["T 0", "T 1"]


@pytest.mark.parametrize(
    "transform",
    [
        grad,
        functad.value_and_grad,
        lambda f: lambda x: functad.jvp(f, (x,), (x,)),
        lambda f: lambda x: functad.vjp(f, x)[1](x),
        lambda f: lambda x: functad.linearize(f, x)[1](x),
        lambda f: grad(jit(f)),
        lambda f: grad(grad(f)),
        functad.hessian,
    ],
    ids=["grad", "value_and_grad", "jvp", "vjp", "linearize", "grad of jit", "grad of grad", "hessian"],
)
def test_derivatives_print_the_values_of_the_forward_pass_once(run, lines, transform):
    run(transform(lambda x: (show("x {}", x), jnp.sin(x))[1]))(jnp.float32(3.0))
    assert lines() == ["x 3.0"]


@pytest.mark.parametrize("loop", ["scan", "fori_loop", "while_loop"])
def test_derivatives_of_loops_print_each_step_once(loop, lines):
    def f(x):
        if loop == "scan":
            return lax.scan(lambda c, i: (show("{} {}", i, c), (c * 2, None))[1], x, jnp.arange(12))[0]
        if loop == "fori_loop":
            return lax.fori_loop(0, 12, lambda i, c: (show("{} {}", i, c), c * 2)[1], x)
        return lax.while_loop(lambda c: c[0] < 12, lambda c: (show("{} {}", *c), (c[0] + 1, c[1] * 2))[1], (0, x))[1]

    want = [f"{i} {2.0**i}" for i in range(12)]
    for derivative in (
        grad(f),
        lambda x: functad.jvp(f, (x,), (x,))[1],
        jit(grad(f), backend="interpreter"),
        jit(grad(f)),
    ):
        assert derivative(1.0) == 2.0**12
        assert lines() == want


def test_checkpoint_prints_where_it_computes_again(run, lines):
    run(grad(functad.checkpoint(lambda x: (show("x {}", x), jnp.sin(x))[1])))(3.0)
    assert lines() == ["x 3.0"] * 2


def test_custom_rules_print(run, lines):
    @functad.custom_jvp
    def f(x):
        show("f {}", x)
        return x * x

    @f.defjvp
    def _(primals, tangents):
        show("rule {}", primals[0])
        return f(*primals), 2 * primals[0] * tangents[0]

    assert run(grad(f))(3.0) == 6.0
    assert lines() == ["rule 3.0", "f 3.0"]


# --- the format string --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        (("{} {}", 1), {}, "placeholder number 1, but there are only 1 positional"),
        (("{x}",), {"y": 1}, "placeholder {x}, but there is no keyword argument x"),
        (("{}", 1, 2), {}, "no placeholder for the arguments number 1.*f-string"),
        (("{x}",), {"x": 1, "y": 2}, "no placeholder for the arguments y"),
        (("{",), {}, "is no format string"),
        (("{0} {}", 1), {}, "is no format string: cannot switch"),
        ((3,), {}, "must be a format string, but is 3"),
    ],
)
def test_placeholders_that_do_not_fit_raise_while_tracing(args, kwargs, words):
    with pytest.raises(ArgumentError, match=words):
        functad.make_jaxpr(lambda: show(*args, **kwargs))()


def test_the_check_can_be_skipped(lines):
    show("{}", 1, 2, skip_format_check=True)
    assert lines() == ["1"]


def test_a_specification_that_does_not_fit_names_the_line(run):
    with pytest.raises(CallbackError, match=r"debug.print at .*test_debug.py.* raised ValueError") as info:
        run(lambda x: show("{:d}", x))(np.float32(1))
    assert isinstance(info.value.__cause__, ValueError)


def test_an_equation_prints_without_results():
    assert "debug_callback[callback=print('{}') ordered=False] a" in str(functad.make_jaxpr(lambda x: show("{}", x))(1))
    assert " = debug_callback" not in str(functad.make_jaxpr(lambda x: show("{}", x))(1))


# --- callback -----------------------------------------------------------------------------------------------


def test_functions_get_arrays_and_keep_what_is_no_array(run):
    seen = []

    def f(x):
        functad.debug.callback(lambda *args, **kwargs: seen.append((args, kwargs)), x, "text", pair=(x, None))
        return x

    run(f)(np.float32(2))
    (((x, text), kwargs),) = seen
    assert isinstance(x, functad.Array) and x == 2 and text == "text" and kwargs["pair"] == (x, None)


def test_callback_without_a_function_is_a_decorator(run):
    seen = []

    @functad.debug.callback(ordered=True)
    def nothing():
        seen.append("called")

    assert nothing is None and seen == ["called"]
    run(lambda x: functad.debug.callback(ordered=True)(seen.append, x))(1)
    assert seen == ["called", 1]


def test_its_exception_is_chained(run):
    def fails(x):
        raise OSError("no disk")

    with pytest.raises(CallbackError, match="debug.callback at .*: the function fails raised OSError: no disk") as info:
        run(lambda x: functad.debug.callback(fails, x))(1)
    assert isinstance(info.value.__cause__, OSError)


# --- breakpoint ---------------------------------------------------------------------------------------------


def stop(commands, out, **options):
    functad.debug.breakpoint(stdin=io.StringIO("\n".join(commands) + "\n"), stdout=out, **options)


def test_the_prompt_knows_the_values_of_the_frames(run):
    out = io.StringIO()

    def f(x):
        y = {"twice": x * 2}
        stop(["p x + 10", "y['twice']", "[x * k for k in range(2)]", "unknown", "vars", "c"], out)
        return y

    def stop(commands, out):
        functad.debug.breakpoint(stdin=io.StringIO("u\n" + "\n".join(commands) + "\n"), stdout=out, num_frames=2)

    assert run(f)(jnp.float32(3))["twice"] == 6
    answers = [line.rsplit("(fdb) ", 1)[-1] for line in out.getvalue().splitlines()]
    assert "Array(13., dtype=float32)" in answers and "Array(6., dtype=float32)" in answers
    assert "[Array(0., dtype=float32), Array(3., dtype=float32)]" in answers
    assert "*** NameError: name 'unknown' is not defined" in answers
    assert "x = Array(3., dtype=float32)" in answers and "y = {'twice': Array(6., dtype=float32)}" in answers


def test_it_stops_at_each_step_of_a_loop(run):
    out = io.StringIO()
    commands = io.StringIO("p c\nc\n" * 3)

    def step(i, c):
        functad.debug.breakpoint(stdin=commands, stdout=out)
        return c + 5

    assert run(lambda: lax.fori_loop(0, 3, step, 0))() == 15
    values = [line for line in out.getvalue().splitlines() if line.startswith("(fdb) Array")]
    assert values == [f"(fdb) Array({v}, dtype=int32)" for v in (0, 5, 10)]


def test_it_stops_for_each_example_and_in_the_forward_pass():
    out = io.StringIO()

    def f(x):
        y = x * 3
        stop(["u", "p x, y", "c"] * 2, out)
        return y

    vmap(grad(f))(jnp.arange(2.0))
    text = out.getvalue()
    assert text.count("(Array(") == 2
    assert "(Array(1., dtype=float32), Array(3., dtype=float32))" in text


def test_commands_that_move_and_show():
    out = io.StringIO()

    def inner(x):
        stop(["", "w", "l", "u", "u", "d", "pp x", "d", "d", "c"], out, num_frames=3)

    def outer():
        inner(jnp.float32(1))

    outer()
    text = out.getvalue()
    assert "stop()" in text and "inner()" in text and "outer()" in text
    assert "*** there is no frame further on" in text and "->" in text and "Array(1., dtype=float32)" in text


@pytest.mark.parametrize("commands", [["q"], []], ids=["q", "end of input"])
def test_quitting_ends_the_program(run, commands):
    with pytest.raises(SystemExit):
        run(lambda x: stop(commands, io.StringIO()))(1)


def test_values_of_traces_that_have_ended_are_not_shown():
    kept = []
    jit(kept.append)(1)

    def f(x):
        leaked = kept[0]
        out = io.StringIO()
        stop(["u", "p leaked", "c"], out)
        del leaked
        return out

    assert "whose function has returned" in f(1).getvalue()


def test_standard_streams_are_the_default(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO("p 1 + 1\nc\n"))
    functad.debug.breakpoint()
    assert "(fdb) 2" in capsys.readouterr().out


def test_unknown_debuggers_are_refused():
    with pytest.raises(ArgumentError, match="backend must be None"):
        functad.debug.breakpoint(backend="web")


# --- progress -----------------------------------------------------------------------------------------------


@pytest.fixture
def counts(monkeypatch):
    """What progress bars were told, instead of showing it."""
    found = []
    monkeypatch.setattr(loop_progress._Bar, "__call__", lambda self, done: found.append(int(done)))
    return found


def body(c, x):
    return c + jnp.sin(x), c * x


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [1, 5, 100, 101, 250])
def test_a_bar_changes_no_result_and_moves_a_hundred_times_at_most(run, counts, length, reverse):
    xs = np.linspace(0, 1, length, dtype=np.float32)
    found = run(lambda xs: lax.scan(body, 1.0, xs, reverse=reverse, progress="epoch"))(xs)
    want = lax.scan(body, 1.0, xs, reverse=reverse)
    for f, w in zip(found, want):
        np.testing.assert_allclose(f, w, rtol=1e-5)
        assert f.dtype == w.dtype
    assert counts[0] == 0 and counts[-1] == length and counts == sorted(set(counts)) and len(counts) <= 101


def test_an_empty_loop_has_no_bar(run, counts):
    carry, ys = run(lambda xs: lax.scan(body, 1.0, xs, progress="epoch"))(np.zeros(0, np.float32))
    assert carry == 1 and ys.shape == (0,) and not counts


def test_the_bar_moves_in_the_forward_pass_and_once_for_all_examples(counts):
    def f(xs):
        carry, ys = lax.scan(body, 1.0, xs, progress="epoch")
        return carry + ys.sum()

    def plain(xs):
        carry, ys = lax.scan(body, 1.0, xs)
        return carry + ys.sum()

    xs = np.linspace(0, 1, 150, dtype=np.float32)
    many = np.stack([xs, 2 * xs])
    for transform, given in ((grad, xs), (lambda f: jit(grad(f)), xs), (vmap, many), (lambda f: jit(vmap(f)), many)):
        counts.clear()
        np.testing.assert_allclose(transform(f)(given), transform(plain)(given), rtol=1e-4)
        assert counts == [0, *range(2, 151, 2)]


def test_fori_loop_has_a_bar_where_its_length_is_known(run, counts):
    assert run(lambda: lax.fori_loop(0, 20, lambda i, c: c + i, 0, progress="sum"))() == 190
    assert counts == list(range(21))
    with pytest.raises(ArgumentError, match="progress needs bounds that are known"):
        jit(lambda n: lax.fori_loop(0, n, lambda i, c: c + i, 0, progress="sum"))(3)


def test_the_bar_is_shown(run, capsys):
    run(lambda xs: lax.scan(body, 1.0, xs, progress="epoch 1"))(np.linspace(0, 1, 150, dtype=np.float32))
    assert capsys.readouterr().err.startswith("epoch 1: 100 % 150/150, ")


def test_the_bar_is_shown_without_jit(capsys):
    with functad.disable_jit():
        lax.scan(body, 1.0, np.linspace(0, 1, 15, dtype=np.float32), progress="slow")
    assert "slow: 100 % 15/15" in capsys.readouterr().err


def test_formatting_a_traced_value_points_here():
    with pytest.raises(functad.errors.ConcretizationError, match=r'functad\.debug\.print\("\{x:\.3f\}", x=x\)'):
        jit(lambda x: f"{x:.3f}")(1.0)


def test_log_writes_by_pythons_logger(caplog):
    with caplog.at_level("INFO", logger="functad.debug"):
        functad.jit(lambda x: functad.debug.log("x is {x:.1f}", x=x))(2.0)
        functad.debug.log(ordered=True)("then {}", 3)
    assert [record.message for record in caplog.records] == ["x is 2.0", "then 3"]
    with pytest.raises(ArgumentError, match="debug.log: the first argument must be a format string"):
        functad.debug.log(1.0)
    for fmt, args in (("{} {}", (1.0,)), ("{x}", ()), ("{}", (1.0, 2.0)), ("{", ())):
        with pytest.raises(ArgumentError, match="^debug.log: (?!.*debug.print)"):
            functad.debug.log(fmt, *args)


def test_options_may_come_first(capsys):
    for name in ("ordered", "fmt", "write"):
        functad.jit(lambda x, n=name: functad.debug.print(ordered=True)(f"it is {{{n}}}", **{n: x}))(2.0)
        assert capsys.readouterr().out == "it is 2.0\n"
