"""The journey of a function: its stages, what belongs to what, and the page that shows it."""

from __future__ import annotations

import functools
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from kernel_ir import optimized_kernels

import functad
import functad.numpy as jnp
from functad.__main__ import main
from functad.backends.cpu.compile.target import target_machine
from functad.cli.explain import find_function, parse_arguments
from functad.errors import ArgumentError
from functad.ir import program_has_effects
from functad.observing import Observer, observed
from functad.views import explanation
from functad.views.explanation import Explanation, ShownStage
from functad.views.journey import Stage
from functad.views.kernel_lines import Line

W, X = np.ones((64, 16), np.float32), np.ones((32, 64), np.float32)


def loss(w, x):
    h = jnp.tanh(x @ w)
    return jnp.sum(h**2)


@pytest.fixture(scope="module")
def found():
    return functad.explain(functad.grad(loss))(W, X)


def texts(stage):
    return [line.text.strip() for line in stage.lines]


def test_the_stages_of_a_gradient(found):
    assert isinstance(found, Explanation)
    assert [stage.title for stage in found.stages] == [
        "Source",
        "Traced",
        "Linearised",
        "Transposed",
        "Eliminate dead code",
        "Simplify numbers",
        "Simplify products",
        "Eliminate dead code",
        "Fused into groups",
        "Memory plan",
        "Kernels",
        "LLVM IR",
        "Assembly",
    ]
    assert all(stage.does.endswith(".") for stage in found.stages)


def test_variables_keep_their_letters_and_tangents_are_named_after_them(found):
    assert "d:f32[32,16] = tanh c" in texts(found["Traced"])
    assert "d:f32[32,16] = tanh c" in texts(found["Transposed"])
    assert "c_dot:f32[32,16] = dot_general[dimension_numbers=(([1], [0]), ([], []))] b a_dot" in texts(
        found["Linearised"]
    )
    assert any(text.startswith("a_bar:f32[64,16] = ") for text in texts(found["Transposed"]))
    assert any(text == "# d:f32[32,16] = tanh c" for text in texts(found["Kernels"]))
    assert found["Traced"].notes == ("a is w, b is x.",)


def test_variables_are_called_as_the_user_calls_them_in_all_stages():
    def loss(params, x):
        hidden = jnp.tanh(x @ params["w"])
        exp = jnp.exp(hidden)
        i = jnp.sum(exp * hidden)
        hidden = i * 2
        return hidden

    found = functad.explain(functad.grad(loss), times=False, user_names=True)({"w": W}, X)
    traced, linear, kernels = (texts(found[title]) for title in ("Traced", "Linearised", "Kernels"))
    assert "hidden:f32[32,16] = tanh a" in traced and "exp:f32[32,16] = exp hidden" in traced
    assert any("params_w:f32[64,16]" in text for text in traced)
    assert any(text.startswith("hidden_dot:f32[32,16] = ") for text in linear)
    assert any(text.startswith("hidden_bar:f32[32,16] = ") for text in texts(found["Transposed"]))
    assert found["Traced"].notes == ("params_w is params['w'].",)
    (tanh,) = (line for line in found["Kernels"].lines if "tanh_hidden = tanh(" in line.text)
    assert tanh.about == ("hidden",) and any("exp_exp = exp(tanh_hidden)" in text for text in kernels)
    plain = functad.explain(functad.grad(loss), times=False)({"w": W}, X)
    assert [stage.title for stage in plain.stages] == [stage.title for stage in found.stages]
    assert len(found["Kernels"].lines) == len(plain["Kernels"].lines)


def test_every_equation_belongs_to_a_line_of_the_users(found):
    lines = {line.sources[0]: line.text for line in found["Source"].lines if line.sources}
    for stage in found.stages[1:9]:
        for line in stage.lines:
            if line.about:
                assert line.sources and all(source in lines for source in line.sources), line
    (tanh,) = [line for line in found["Traced"].lines if "tanh" in line.text]
    assert "h = jnp.tanh(x @ w)" in lines[tanh.sources[0]]


def test_stages_mark_what_changed_and_say_why(found):
    marks = {stage.title: "".join(line.mark for line in stage.lines) for stage in found.stages}
    assert "+" in marks["Transposed"] and "-" not in marks["Transposed"]
    assert "-" in marks["Eliminate dead code"]
    headings = [line.text for line in found["Transposed"].lines if line.mark == "#"]
    assert headings == ["backward"]
    assert any("neutral number" in note and "NaN and −0 stay" in note for note in found["Simplify numbers"].notes)


def test_kernels_have_costs_and_times_and_their_lines_belong_to_equations(found):
    kernels = found["Kernels"]
    definitions = [line for line in kernels.lines if line.text.startswith("def ")]
    assert definitions and all(re.search(r"flops, .* bytes, .* µs", line.note) for line in definitions)
    (computed,) = [line for line in kernels.lines if re.match(r" +tanh_d = ", line.text)]
    assert computed.about == ("d",) and not computed.whole
    assert any("matrix product, called from a library" in note for note in kernels.notes)


def test_machine_code_knows_the_lines_of_kernels(found):
    (computed,) = [line for line in found["Kernels"].lines if re.match(r" +tanh_d = ", line.text)]
    for title in ("LLVM IR", "Assembly"):
        lines = found[title].lines
        assert [line for line in lines if line.kernel == computed.kernel and line.about == ("d",)]
        instructions = [line for line in lines if line.text.startswith(("  ", "\t")) and "declare" not in line.text]
        assert sum(bool(line.kernel) for line in instructions) > 0.5 * len(instructions)
        assert not any("!dbg" in line.text or ".loc" in line.text for line in lines)


def test_machine_code_for_people_is_the_code_that_runs():
    program = functad.make_jaxpr(lambda x: jnp.tanh(x) * 2.0)(np.ones(100, np.float32))
    lowering = functad.backends.cpu.lowering.CpuLowering(program)
    generated = lowering.generated
    machine = functad.backends.cpu.compile.machine
    named = lowering.machine_code()
    module = optimized_kernels(generated.source, "kernels.py", generated.signatures)
    machine._keep_apart(module)
    plain = machine.lines_of_assembly(
        target_machine().emit_assembly(module), {f"{machine.PREFIX}{name}" for name in generated.signatures}
    )
    assert [line.text for lines in plain.values() for line in lines] == [
        line.text for lines in named.assembly.values() for line in lines
    ]


class Model:
    scale = 2.0

    def apply(self, x):
        return x * self.scale


@functad.jit
def step(params, rate):
    return functad.tree.map(lambda p, g: p - rate * g, params, functad.grad(lambda p: loss(p["w"], X))(params))


@pytest.mark.parametrize(
    "fun, args, wanted",
    [
        (lambda x: x * 2, (1.0,), ["Traced"]),
        (Model().apply, (1.0,), ["Traced"]),
        (step, ({"w": W}, 0.1), ["Linearised", "Transposed"]),
        (functad.vmap(lambda x: jnp.sin(x).sum()), (X,), ["Traced for one example", "Batched"]),
        (lambda x: functad.jvp(jnp.sin, (x,), (x,)), (1.0,), ["Traced"]),
        (lambda x: functad.linearize(jnp.sin, x)[1](1.0), (1.0,), ["Linearised", "Differentiated"]),
        (lambda x: x, (functad.ShapeDtypeStruct((3,), "int32"),), ["Traced"]),
        (lambda k: functad.random.normal(k, (3,)), (functad.random.key(0),), ["Traced"]),
        (lambda x: functad.lax.fori_loop(0, 40, lambda i, c: c * x, x), (1.0,), ["Traced"]),
    ],
    ids=[
        "lambda",
        "method",
        "jitted step of a tree",
        "vmap",
        "jvp",
        "linearize",
        "identity of a type",
        "random key",
        "loop",
    ],
)
def test_any_function_is_explained(fun, args, wanted):
    found = functad.explain(fun, times=False)(*args)
    titles = [stage.title for stage in found.stages]
    assert all(title in titles for title in wanted) and titles[-3:] == ["Kernels", "LLVM IR", "Assembly"]


def test_new_variables_get_no_name_of_an_earlier_stage():
    def rnn(w, xs):
        h, _ = functad.lax.scan(lambda h, x: (jnp.tanh(h @ w + x), None), jnp.zeros(4), xs)
        return jnp.sum(h)

    found = functad.explain(functad.grad(rnn), times=False)(np.ones((4, 4), np.float32), np.ones((12, 4), np.float32))
    groups = [stage.title for stage in found.stages].index("Fused into groups")
    *earlier, last = [{name for line in stage.lines for name in line.about} for stage in found.stages[:groups]]
    new = {name for line in found.stages[groups].lines for name in line.about} - last
    assert new and not new & set().union(*earlier)


def test_constants_keep_their_letters_and_it_is_said_what_is_one():
    weights = jnp.arange(8.0)
    found = functad.explain(functad.grad(lambda x: (jnp.sin(x) * weights).sum()), times=False)(np.ones(8, np.float32))
    binders = [
        re.match(r"{ lambda (.*); ", texts(found[title])[0])[1] for title in ("Traced", "Linearised", "Transposed")
    ]
    assert binders[0] == binders[2] == "a:f32[8]" and "a:f32[8]" in binders[1]
    assert "on what is differentiated" in found["Traced"].does
    assert "differentiated" not in functad.explain(jnp.sin, times=False)(1.0)["Traced"].does


def test_lines_of_text_that_is_gone_are_numbers():
    names = {"jnp": jnp}
    exec(compile("def f(x):\n    return jnp.sin(x)\n", "<a cell that is gone>", "exec"), names)
    found = functad.explain(names["f"], times=False)(1.0)
    assert texts(found["Source"]) == ["<a cell that is gone> (its text is not known)", "1", "2"]
    assert "1 equation, 1 step." in found["Fused into groups"].does


def test_a_pass_of_the_users_shows_up(monkeypatch):
    def count_twice(program):
        """Nothing is counted, but equations go round."""
        assert not program_has_effects(program)
        return program.replace(eqns=program.eqns[::-1]) if len(program.eqns) == 2 else program

    pipeline = functad.optimize.pipeline
    monkeypatch.setattr(pipeline, "PASSES", (*pipeline.PASSES, count_twice))
    found = functad.explain(lambda x: (jnp.sin(x), jnp.cos(x)), times=False)(1.0)
    assert found["Count twice"].does.startswith("Nothing is counted, but equations go round.")


def test_functions_with_rules_show_what_they_call_and_what_their_rules_are_called():
    @functad.custom_vjp
    def clipped(x):
        return x * x

    def clipped_bwd(x, ct):
        return (jnp.clip(ct * 2 * x, -1, 1),)

    clipped.defvjp(lambda x: (clipped(x), x), clipped_bwd)
    found = functad.explain(functad.grad(lambda x: clipped(jnp.sin(x)).sum()), times=False)(np.ones(3, np.float32))
    assert "call_jaxpr={ … 1 equations }" in str(found["Traced"]) and "mul" in str(found["Traced"])
    linearised = str(found["Linearised"])
    assert "custom_lin[name=clipped" in linearised and "bwd=clipped_bwd" in linearised and " at 0x" not in str(found)


def test_a_function_with_a_rule_that_branches_on_values_runs_as_it_does_unobserved():
    @functad.custom_vjp
    def branching(x):
        return jnp.sin(x) if x > 0 else x

    branching.defvjp(lambda x: (jnp.sin(x), x), lambda x, ct: (ct * jnp.cos(x),))
    found = functad.explain(functad.grad(branching), times=False)(1.0)
    assert "custom_lin[name=branching" in str(found["Linearised"])


def test_random_keys_become_words():
    found = functad.explain(lambda key: functad.random.uniform(key, (4,)), times=False)(functad.random.key(0))
    text = str(found["Keys on words"])
    assert "-     b:u32[4] = random_bits" in text and "threefry2x32" in text
    assert found["Keys on words"].does.endswith("5 equations became 10.")


def test_observers_end_with_their_context():
    told = []

    class Watcher(Observer):
        def traced(self, program, variables):
            told.append(program)

    with observed(Watcher()):
        program = functad.make_jaxpr(jnp.sin)(1.0)
    functad.make_jaxpr(jnp.sin)(1.0)
    assert told == [program]


def test_mistakes_are_named():
    with pytest.raises(ArgumentError, match="explain expects a function"):
        functad.explain(3)
    with pytest.raises(ArgumentError, match="call explain outside of jit"):
        functad.jit(lambda x: functad.explain(jnp.sin)(x) or x)(1.0)


# --- shown -----------------------------------------------------------------------------------------------------


class Reader(HTMLParser):
    """The elements of a page; raises where one is not closed."""

    VOID = ("meta", "rect", "path", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.elements = [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_the_page_needs_nothing_besides_itself(found, tmp_path):
    path = tmp_path / "page.html"
    found.save(path)
    text = path.read_text(encoding="utf-8")
    elements = Reader(text).elements
    assert not [a for _, a in elements if "src" in a or a.get("href", "#")[0] != "#"]
    assert "http" not in re.sub("[\"'>][^\"'<]*\\.py", "", text)
    options = [a for tag, a in elements if a.get("role") == "option"]
    assert len(options) == sum(len(stage.lines) for stage in found.stages)
    links = [a["href"][1:] for tag, a in elements if tag == "a"]
    assert links == [a["id"] for tag, a in elements if tag == "section"]


def test_removed_and_added_lines_are_told_by_more_than_colour(found):
    text = found.html()
    assert '<span class="mark" aria-hidden="true">+</span><span class="hidden">added: </span>' in text
    assert '<span class="mark" aria-hidden="true">-</span><span class="hidden">removed: </span>' in text


def test_notebooks_get_a_frame_of_its_own(found):
    html = found._repr_html_()
    assert html.startswith('<iframe title="The journey of loss"')
    text = html.partition("</iframe>")[2]  # which viewers show that take frames out
    assert "<summary>as text</summary>" in text and "1. Source\n" in text


def test_text_shows_what_changed_of_long_stages(found):
    text = str(found)
    assert text.startswith("The journey of loss(w: f32[64,16], x: f32[32,64])\n\n1. Source\n")
    assert ".save('page.html') shows more" in text
    assert max(map(len, str(found["Transposed"]).split("\n"))) < 140
    with pytest.raises(KeyError, match="no stage is called 'Nothing'; there are Source, Traced"):
        found["Nothing"]


def test_of_many_equations_a_page_stays_small_and_says_what_it_leaves_out(monkeypatch):
    def many(w, x):
        for _ in range(25):
            x = jnp.sin(x * w + x)
        return jnp.sum(x)

    monkeypatch.setattr(explanation, "_ON_PAGE", 100)
    found = functad.explain(functad.grad(many), times=False)(np.ones(5, np.float32), np.ones(5, np.float32))
    assert len(found["Transposed"].lines) > 200 and len(found["Assembly"].lines) > 200
    for stage in found.stages:
        assert stage.html(1).count('role="option"') <= 110
    page = found.html()
    assert " lines more: explanation[&#x27;Assembly&#x27;].lines has them" in page
    # What belongs to the whole of a kernel does not repeat all its variables.
    assert len(page) < 250_000 and sum(line.whole != "" for line in found["Assembly"].lines) > 50


def test_of_many_functions_each_is_shown():
    lines = [line for i in range(5) for line in (Line(f"f{i}", "#"), *[Line(f"{i}.{n}") for n in range(1_000)])]
    stage = ShownStage(Stage("Assembly", "All.", tuple(lines), long=True))
    text = str(stage)
    assert [name for name in ("f0", "f1", "f2", "f3", "f4") if name in text] == ["f0", "f1", "f2", "f3", "f4"]
    assert "… 999 lines\n" in text and "… 999 lines more: .save('page.html') shows more" in text
    assert stage.html(1).count("… 401 lines") == 5


def test_many_notes_are_folded():
    stage = ShownStage(Stage("Kernels", "All.", (), tuple(f"product {i}" for i in range(40))))
    assert "* … 28 more" in str(stage) and "product 12" not in str(stage)
    assert "<summary>28 more notes</summary>" in stage.html(1) and "product 39" in stage.html(1)


# --- the command line ------------------------------------------------------------------------------------------------


def test_arguments_of_the_command_line():
    one, tree, number = parse_arguments("f32[], {'w': (i8[2], float64[1,2])}, -0.5")
    assert (one.shape, str(one.dtype), number) == ((), "float32", -0.5)
    assert [leaf.shape for leaf in tree["w"]] == [(2,), (1, 2)]
    assert parse_arguments("") == []
    for text, problem in (
        ("f33[2]", "no dtype is written 'f33'; there is f32"),
        ("f32[2", "cannot be read"),
        ("x", "x is no type and no number"),
        ("f32[n]", r"\[n\] is no shape"),
        ("f32[-1]", r"\[-1\] is no shape"),
        ("f32[2,'a']", r"\(2, 'a'\)\] is no shape"),
        ("{w: f32[3]}", "w is no type and no number"),
        ("{[1]: f32[3]}", r"\[1\] is no type and no number"),
        ("{**x}", "x is no type and no number"),
    ):
        with pytest.raises(ArgumentError, match=problem):
            parse_arguments(text)


def test_functions_of_the_command_line(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def square(x):\n    return x * x\nlimit = 3\n")
    assert find_function(f"{file}:square")(3) == 9
    of_classes = tmp_path / "classes.py"
    of_classes.write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass, KW_ONLY\n\n@dataclass\nclass Size:\n"
        "    x: float\n    _: KW_ONLY\n    y: float = 1.0\n\ndef double(x):\n    return Size(x).x * 2\n"
    )
    assert find_function(f"{of_classes}:double")(3) == 6
    for name, problem in (
        ("square", "names no function"),
        (f"{file}:squar", "did you mean square"),
        (f"{file}:limit", "which cannot be called"),
        (f"{tmp_path}/other.py:f", "there is no file"),
        ("no_such_module:f", "there is no module 'no_such_module'"),
    ):
        with pytest.raises(ArgumentError, match=problem):
            find_function(name)
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        find_function(f"{broken}:f")
    assert str(file) in sys.modules and str(broken) not in sys.modules


def test_the_command_writes_text_or_a_page(tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text(
        "import functools\n\ndef square(x):\n    return x * x\n\n"
        "@functools.wraps(lambda x, y: None)\ndef decorated(x):\n    return x * x\n"
    )
    command = ["explain", f"{file}:square", "--args", "f32[3]", "--no-times"]
    assert main(command) == 0
    assert "2. Traced" in capsys.readouterr().out
    page = tmp_path / "page.html"
    assert main([*command, "--vmap", "--grad", "--html", str(page)]) == 0
    assert "b:f32[3] = mul 1.0:f32[] a" in page.read_text() or "mul" in page.read_text()
    assert "stages of square" in capsys.readouterr().out
    assert main(["explain", f"{file}:cube"]) == 1
    assert "has no 'cube'" in capsys.readouterr().err
    assert main(["explain", f"{file}:square"]) == 1
    assert "missing a required argument: 'x' in --args; write their types" in capsys.readouterr().err
    assert main([*command[:3], "f32[3], f32[3]"]) == 1
    assert "square(x): too many positional arguments in --args" in capsys.readouterr().err
    assert main(["explain", f"{file}:decorated", *command[2:]]) == 0


def test_a_custom_rule_of_reverse_mode_is_gone_through():
    @functad.custom_vjp
    def sine(x):
        return jnp.sin(x)

    sine.defvjp(lambda x: (jnp.sin(x), x), lambda x, ct: (ct * jnp.cos(x),))
    found = functad.explain(functad.grad(lambda x: sine(x).sum()), times=False)(np.ones(3, np.float32))
    assert any("custom_lin" in text for text in texts(found["Linearised"]))
    assert any("cos" in text for text in texts(found["Transposed"]))


def test_loops_that_might_not_end_and_callbacks_are_not_run_on_random_numbers():
    def endless(n):  # of any n but those that the user gives
        return functad.lax.while_loop(lambda s: s[1] > 0, lambda s: (s[0] * 2, s[1] - n), (1.0, 10))[0]

    def told(x):
        functad.debug.callback(seen.append, x)
        return x * 2

    seen = []
    notes = functad.explain(endless)(3)["Kernels"].notes
    assert "The kernels were not run" in notes[-1] and "might never end" in notes[-1]
    assert "calls Python" in functad.explain(told)(1.0)["Kernels"].notes[-1] and not seen


class Scaled:
    def __init__(self, factor):
        self.factor = factor

    @functools.partial(functad.jit, static_argnums=(0, 2))
    def loss(self, x, power):
        return jnp.sum(self.factor * x**power)


def test_transforms_of_jitted_methods_are_explained_as_transforms():
    gradient = functad.grad(functools.partial(Scaled(2.0).loss, power=3))
    assert "Transposed" in [stage.title for stage in functad.explain(gradient, times=False)(np.ones(3)).stages]
    of_method = functad.grad(Scaled(2.0).loss)
    assert not hasattr(of_method, "lower") and not hasattr(of_method, "trace_anew")


def test_the_way_back_of_a_jacobian_is_transposed():
    titles = [stage.title for stage in functad.explain(functad.jacrev(jnp.sin), times=False)(np.ones(3)).stages]
    assert "Transposed" in titles and "Differentiated" not in titles
