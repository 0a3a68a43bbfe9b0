"""How the page of an explanation behaves in a browser: pointing, clicking and keys mark what belongs together."""

from __future__ import annotations

import html
import json
import re
import subprocess

import numpy as np
import pytest
from browser_tools import BROWSER, acted

import functad
import functad.numpy as jnp

if BROWSER is None:
    pytest.skip("no Chromium is installed: how pages behave in a browser is not tested", allow_module_level=True)

# Runs after the page's own script, and leaves what it finds where the test can read it.
STEPS = """
const all = [...document.querySelectorAll('.line')], found = {};
const line = text => all.find(one => one.textContent.includes(text));
const on = () => all.filter(one => one.classList.contains('on'));
const stages = () => [...new Set(on().map(one => one.closest('section').id))];
const send = (target, kind, more) => target.dispatchEvent(new (kind.startsWith('key') ? KeyboardEvent : MouseEvent)(
  kind, { bubbles: true, cancelable: true, ...more }));
const say = name => { found[name] = { stages: stages(), texts: on().map(one => one.textContent),
  said: document.getElementById('said').textContent, focus: document.activeElement.textContent }; };
const tanh = line('= tanh'), source = line('return jnp.sum');
send(tanh, 'mouseover'); say('equation');
send(source, 'mouseover'); say('source');
send(line('a_bar:'), 'mouseover'); say('cotangent');
send(document.body, 'mouseover'); say('away');
send(tanh, 'click'); send(source, 'mouseover'); say('pinned');
send(document.body, 'keydown', { key: 'Escape' }); say('escaped');
const list = tanh.closest('.listing'), first = list.querySelector('[tabindex="0"]');
first.focus(); send(first, 'keydown', { key: 'ArrowDown' }); say('arrow');
send(document.activeElement, 'keydown', { key: 'Enter' }); send(source, 'mouseover'); say('entered');
found.stops = list.querySelectorAll('[tabindex="0"]').length;
found.selected = document.querySelectorAll('[aria-selected="true"]').length === on().length;
found.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
document.body.innerHTML = '<pre id="found"></pre>';
document.getElementById('found').textContent = JSON.stringify(found);
"""


@pytest.fixture(scope="module")
def behaved(tmp_path_factory):
    def loss(w, x):
        h = jnp.tanh(w * x)
        return jnp.sum(h**2)

    page = functad.explain(functad.grad(loss), times=False)(np.ones(5, np.float32), np.ones(5, np.float32)).html()
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(page.replace("</body>", f"<script>{STEPS}</script></body>"), encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=400,800", "--dump-dom"]
    run = subprocess.run([BROWSER, *options, path.as_uri()], capture_output=True, text=True, timeout=120)
    dumped = re.search(r'<pre id="found">(.*?)</pre>', run.stdout, re.DOTALL)
    assert dumped is not None, run.stdout[-2000:] + run.stderr[-2000:]
    return json.loads(html.unescape(dumped[1]))


def test_pointing_at_an_equation_marks_its_line_its_kernel_and_its_instructions(behaved):
    found = behaved["equation"]
    assert any("h = jnp.tanh(w * x)" in text for text in found["texts"])
    assert not any("return jnp.sum" in text for text in found["texts"])
    assert any("tanh_d = tanh(" in text for text in found["texts"])
    assert len(found["stages"]) >= 7  # all but the linear map and the memory plan
    assert re.fullmatch(r"d: \d+ lines in \d+ stages", found["said"])


def test_pointing_at_a_line_of_the_users_marks_all_that_came_from_it(behaved):
    texts = behaved["source"]["texts"]
    assert any("integer_pow" in text for text in texts) and any("reduce_sum" in text for text in texts)
    assert not any("= tanh c" in text for text in texts)


def test_pointing_elsewhere_marks_nothing(behaved):
    assert behaved["away"]["texts"] == [] and behaved["away"]["said"] == "Nothing is marked."


def test_a_cotangent_leads_to_the_line_it_is_a_derivative_of(behaved):
    assert any("h = jnp.tanh(w * x)" in text for text in behaved["cotangent"]["texts"])


def test_a_click_keeps_what_is_marked_until_escape(behaved):
    assert behaved["pinned"]["texts"] == behaved["equation"]["texts"]
    assert behaved["escaped"]["texts"] == []


def test_keys_go_from_line_to_line_and_keep_one(behaved):
    assert "tanh" in behaved["arrow"]["focus"] and behaved["arrow"]["texts"] == behaved["equation"]["texts"]
    assert behaved["entered"]["texts"] == behaved["arrow"]["texts"]
    assert behaved["stops"] == 1 and behaved["selected"]


def test_costs_are_in_sight_and_what_is_long_is_folded(tmp_path):
    def loss(parameters, data):
        hidden = jnp.tanh(data["first input"] @ parameters["some layer"])
        return jnp.sum(hidden**2)

    args = {"some layer": np.ones((3, 4), np.float32)}, {"first input": np.ones((2, 3), np.float32)}
    page = functad.explain(functad.grad(loss), times=False)(*args).html()
    script = """
    const all = [...document.querySelectorAll('details')], notes = [...document.querySelectorAll('.note')];
    found.folded = all.every(one => !one.open && !one.querySelector('.line').checkVisibility());
    all[0].querySelector('summary').click(); found.opened = all[0].querySelector('.line').checkVisibility();
    found.cut = notes.filter(one => one.checkVisibility()).filter(one => {
      const [own, list] = [one.getBoundingClientRect(), one.closest('.listing').getBoundingClientRect()];
      return own.right > list.right + 1 || own.left < list.left;
    }).map(one => one.parentElement.textContent);
    found.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    """
    for width in (800, 1400):
        found = acted(page, script, tmp_path, width)
        assert found == {"folded": True, "opened": True, "cut": [], "overflow": 0}, (width, found)


def test_nothing_is_wider_than_a_narrow_window(behaved):
    assert behaved["overflow"] <= 0
