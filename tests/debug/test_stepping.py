"""`debug.step`: values of each equation, keys, pages."""

from __future__ import annotations

import functools
import io
import sys

import numpy as np
import pytest
from browser_tools import acted, needs_browser

import functad
import functad.numpy as jnp
from functad import lax
from functad.debug import step
from functad.errors import ArgumentError


def loss(w, x):
    h = jnp.tanh(w * x)
    return jnp.sum(h**2)


W, X = np.linspace(-1, 1, 5).astype(np.float32), np.ones(5, np.float32)


def test_the_last_values_are_the_results():
    steps = step(functad.grad(loss))(W, X)
    np.testing.assert_allclose(steps[-1].results[0].value, functad.grad(loss)(W, X), rtol=1e-5)
    assert [s.number for s in steps] == list(range(1, len(steps) + 1))


def test_forwards_and_backwards():
    ways = [s.half for s in step(functad.value_and_grad(loss))(W, X)]
    assert ways == sorted(ways, reverse=True) and {*ways} == {"forward", "backward"}
    assert {s.half for s in step(functad.vmap(jnp.sin))(W)} == {"forward"}


def test_each_step_shows_the_users_line_and_what_it_reads():
    steps = step(functad.jit(functad.grad(loss)))(W, X)  # through the jitted function
    tanh = next(s for s in steps if "= tanh" in s.equation)
    assert tanh.code == "h = jnp.tanh(w * x)" and "test_stepping.py" in tanh.place
    (read,) = tanh.reads
    np.testing.assert_array_equal(read.value, W * X)
    names = {name for s in steps for name, _ in s.results}
    printed = str(functad.make_jaxpr(functad.grad(loss))(W, X))
    assert all(f"{name}:f32" in printed for name in names)


def test_loops_keys_and_integers():
    steps = step(lambda xs: lax.scan(lambda c, x: (c + x, c), 0.0, xs))(X)
    assert len(steps) == 1 and steps[0].results[0].value == 5
    key = functad.random.key(3)
    (_, value) = step(lambda k: functad.random.normal(k, (3,)))(key)[-1].results[0]
    np.testing.assert_array_equal(value, np.asarray(functad.random.normal(key, (3,))))
    assert len(step(lambda x: x)(1)) == 0 and repr(step(lambda x: x)(1)).startswith("<lambda>: 0 steps;")


def test_the_first_nan_and_the_first_infinity_are_named():
    steps = step(lambda x: jnp.log(x) - jnp.log(x) + x)(np.array([0.0, 1.0]))
    assert [s.spoils for s in steps] == ["infinity", "", "NaN", ""]
    assert "<- the first NaN" in repr(steps) and "first NaN" in steps._repr_html_()
    given = step(lambda x: x + 1)(np.array([np.nan]))
    assert given[0].spoils == ""  # it came in


def test_a_long_function_is_listed_in_part():
    def long(x):
        for _ in range(80):
            x = jnp.sin(x)
        return x

    lines = repr(step(long)(1.0)).splitlines()
    assert len(lines) == 62 and lines[-1] == "… 20 more"


def test_keys():
    out = io.StringIO()
    step(loss)(W, X).walk(stdin=io.StringIO("n\n\np\n4\n9\nhm\nl\nq\nn\n"), stdout=out)
    text = out.getvalue()
    heads = [line for line in text.splitlines() if "step " in line and " of 4" in line]
    assert [head.removeprefix("(step) ")[5] for head in heads] == ["1", "2", "3", "2", "4"]
    assert "there are steps 1 to 4" in text and text.count("n or Enter: next") == 2 and "loss: 4 steps" in text
    step(loss)(W, X).walk(stdin=io.StringIO(""), stdout=out)  # ends with its keys


def test_without_a_terminal_all_steps_are_printed(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO("q\n"))
    step(loss)(W, X).walk()
    text = capsys.readouterr().out
    assert [f"step {i} of 4, forward" in text for i in range(1, 5)] == [True] * 4 and "(step)" not in text
    assert "-> " in text and "b = f32[5] · all 1" in text and "▏" in text


def test_a_step_that_is_not_there():
    with pytest.raises(ArgumentError, match="index 7 is out of range; there are 4 steps"):
        step(loss)(W, X).text(7)


def test_changing_an_array_later_changes_no_step():
    x = np.ones(3)
    steps = step(lambda x: x * 2)(x)
    x[:] = 7
    assert steps[0].reads[0].value.sum() == 3


@needs_browser
def test_the_slider_the_list_and_the_keys(tmp_path):
    steps = step(functad.grad(loss))(W, X)
    steps.save(tmp_path / "steps.html")
    page = (tmp_path / "steps.html").read_text(encoding="utf-8")
    assert "http" not in page
    script = """
    const shown = () => [...document.querySelectorAll('.fs-step')].filter(s => !s.hidden)
      .map(s => s.querySelector('.fs-head').textContent.split(' ')[1]).join();
    const slider = document.querySelector('.fs input'), rows = document.querySelectorAll('.fs-list button');
    found.first = shown();
    slider.value = 4; slider.dispatchEvent(new Event('input', { bubbles: true })); found.slid = shown();
    document.querySelector('[data-by="1"]').click(); found.next = shown();
    rows[1].click(); found.row = shown(); found.slider = slider.value;
    found.current = document.querySelectorAll('[aria-current]').length;
    slider.dispatchEvent(new KeyboardEvent('keydown', { key: 'p', bubbles: true })); found.key = shown();
    document.querySelector('[data-by="-1"]').click(); found.start = shown();
    found.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    """
    assert acted(page, script, tmp_path) == {
        "first": "1",
        "slid": "4",
        "next": "5",
        "row": "2",
        "slider": "2",
        "current": 1,
        "key": "1",
        "start": "1",
        "overflow": 0,
    }


def test_static_arguments_of_jitted_functions_stay_what_they_are():
    @functools.partial(functad.jit, static_argnames="kind", donate_argnums=0)
    def applied(x, scale, kind):
        return scale * getattr(jnp, kind)(x)

    x = jnp.zeros(3)
    steps = functad.debug.step(applied)(x, kind="cos", scale=2.0)
    assert steps.name == "applied" and any("cos a" in step.equation for step in steps)
    assert steps[-1].results[0].value.tolist() == [2, 2, 2] and x.tolist() == [0, 0, 0]
    assert [n.rows[0] for n in functad.graph(applied)(x, 2.0, kind="cos").flow.nodes][:2] == ["x: a", "scale: b"]
