"""How the steps of a function behave in a browser: slider, buttons, keys and the list show one step at a time."""

from __future__ import annotations

import numpy as np
import pytest
from browser_tools import acted, needs_browser

import functad
import functad.numpy as jnp

pytestmark = needs_browser

SCRIPT = """
const root = document.querySelector('.fs'), steps = [...root.querySelectorAll('.fs-step')];
const slider = root.querySelector('input'), rows = [...root.querySelectorAll('.fs-list button')];
const shown = () => {
  const seen = steps.filter(s => s.checkVisibility()).map(s => +s.querySelector('.fs-head').textContent.split(' ')[1]);
  const marked = rows.flatMap((row, i) => row.getAttribute('aria-current') === 'step' ? [i + 1] : []);
  return seen.length === 1 && marked.length === 1 && seen[0] === marked[0] && seen[0] === +slider.value ? seen[0] : -1;
};
const key = (k, more) => {
  const event = new KeyboardEvent('keydown', { key: k, bubbles: true, cancelable: true, ...more });
  document.activeElement.dispatchEvent(event); return event.defaultPrevented; };
const to = n => { slider.value = n; slider.dispatchEvent(new Event('input', { bubbles: true })); return shown(); };
found.start = shown(); found.slid = to(3); found.last = to(steps.length);
found.range = [+slider.min, +slider.max];
const [previous, next] = root.querySelectorAll('.fs-bar button');
next.click(); found.end = shown(); previous.click(); found.previous = shown();
rows[1].click(); found.row = shown();
slider.focus(); key('n'); found.n = shown(); key('p'); key('p'); key('p'); found.p = shown();
key('End'); found.endKey = shown(); key('Home'); found.homeKey = shown();
found.browsers = key('n', { ctrlKey: true }) || shown() !== 1;
rows[0].focus(); key('ArrowDown'); found.down = shown(); found.focus = rows.indexOf(document.activeElement);
key('ArrowUp'); found.up = shown(); found.stops = rows.filter(row => row.tabIndex === 0).length;
to(steps.length); const list = root.querySelector('.fs-list').getBoundingClientRect();
const row = rows.at(-1).getBoundingClientRect();
found.inView = row.top >= list.top - 1 && row.bottom <= list.bottom + 1;
found.half = steps.at(-1).querySelector('.fs-head').textContent;
found.spoils = rows.filter(row => row.textContent.includes('first infinity')).length;
found.pictures = steps.every(s => s.querySelector('.fs-result'));
found.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
"""


@pytest.mark.parametrize("width", [500, 1400])
def test_slider_buttons_keys_and_list(tmp_path, width):
    def loss(w, x):
        for _ in range(10):
            x = jnp.tanh(x @ w)
        return jnp.sum(x / 0.0)

    steps = functad.debug.step(functad.grad(loss))(np.ones((3, 3), np.float32), np.ones((2, 3), np.float32))
    steps.save(tmp_path / "steps.html")
    found = acted((tmp_path / "steps.html").read_text(encoding="utf-8"), SCRIPT, tmp_path, width)
    count = len(steps)
    assert found["range"] == [1, count] and found["start"] == 1
    assert found["slid"] == 3 and found["last"] == found["end"] == count and found["previous"] == count - 1
    assert found["row"] == 2 and found["n"] == 3 and found["p"] == 1
    assert found["endKey"] == count and found["homeKey"] == 1 and not found["browsers"]
    assert found["down"] == 2 and found["focus"] == 1 and found["up"] == 1 and found["stops"] == 1
    assert found["inView"] and "backward" in found["half"] and found["spoils"] == 1
    assert found["pictures"] and found["overflow"] == 0


def test_one_step_and_none(tmp_path):
    script = "found.seen = [...document.querySelectorAll('.fs-step')].filter(s => s.checkVisibility()).length;"
    script += "found.slider = document.querySelectorAll('.fs input').length;"
    for fun, wanted in ((lambda x: -x, 1), (lambda x: x, 0)):
        folder = tmp_path / str(wanted)
        folder.mkdir()
        functad.debug.step(fun)(3.0).save(folder / "steps.html")
        page = (folder / "steps.html").read_text(encoding="utf-8")
        assert acted(page, script, folder) == {"seen": wanted, "slider": 0}
