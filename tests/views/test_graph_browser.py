"""How a graph behaves in a browser: pointing marks what hangs together, arrow keys go along arrows."""

from __future__ import annotations

import numpy as np
from browser_tools import acted, needs_browser

import functad
import functad.numpy as jnp
from functad.views import tree
from functad.views.charts import Chart, Panel

pytestmark = needs_browser


def test_pointing_and_keys(tmp_path):
    graph = functad.graph(functad.grad(lambda w: jnp.sum(jnp.tanh(w * w))))(np.ones(3, np.float32))
    script = """
    const nodes = [...document.querySelectorAll('.fg-node')], told = document.querySelector('.fg-told');
    const named = text => nodes.find(n => n.querySelector('text').textContent.includes(text));
    const on = kind => document.querySelectorAll(kind + '.fg-on').length;
    const key = k => document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: k, bubbles: true }));
    named('tanh').dispatchEvent(new MouseEvent('mouseover', { bubbles: true }));
    found.edges = on('.fg-edge'); found.told = told.textContent;
    found.tab = nodes.filter(n => n.getAttribute('tabindex') === '0').length;
    nodes[0].focus(); found.start = told.textContent;
    key('ArrowDown'); found.down = told.textContent.includes('= mul');
    key('ArrowDown'); found.further = told.textContent.includes('= tanh');
    key('ArrowUp'); found.up = told.textContent.includes('= mul');
    found.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    """
    found = acted(graph.html(), script, tmp_path)
    assert found["edges"] == sum(1 for a in graph.flow.arrows if 2 in a[:2])
    assert "= tanh" in found["told"] and "test_graph_browser.py" in found["told"]
    assert found["start"].startswith("input w, a:f32[3]") and found["tab"] == 1
    assert found["down"] and found["further"] and found["up"] and found["overflow"] == 0


def test_zooming_and_moving(tmp_path):
    def deep(w):
        for _ in range(60):
            w = jnp.tanh(w * 1.5)
        return jnp.sum(w)

    graph = functad.graph(functad.grad(deep), fold=False)(np.ones(3, np.float32))
    script = """
    const svg = document.querySelector('.fg-scroll svg'), frame = document.querySelector('.fg-scroll');
    const bar = document.querySelector('.fg-bar'), zoomed = () => bar.querySelector('output').textContent;
    const key = (k, more) => frame.dispatchEvent(new KeyboardEvent('keydown', { key: k, bubbles: true, ...more }));
    const at = frame.getBoundingClientRect(), size = () => Math.round(svg.getBoundingClientRect().width);
    key('1'); found.own = size(); found.steps = [zoomed()];
    for (const k of ['+', '+', '-', '1', '0']) { key(k); found.steps.push(zoomed()); }
    found.all = frame.scrollWidth <= frame.clientWidth && frame.scrollHeight <= frame.clientHeight + 1;
    key('+', { ctrlKey: true }); found.browsers = zoomed() === found.steps.at(-1);
    bar.querySelector('[data-key="1"]').click(); found.back = size() === found.own;
    frame.scrollTop = 300; frame.scrollLeft = 0;
    const place = y => (y - svg.getBoundingClientRect().top) / size(), y = at.top + 100, before = place(y);
    frame.dispatchEvent(new WheelEvent('wheel', { ctrlKey: true, deltaY: -200, clientX: at.left, clientY: y,
      bubbles: true, cancelable: true }));
    found.wheel = zoomed(); found.stays = Math.abs(place(y) - before) < .02;
    const scrolled = frame.scrollTop, point = (kind, y) => frame.dispatchEvent(
      new PointerEvent(kind, { clientX: 50, clientY: y, bubbles: true, pointerType: 'mouse' }));
    point('pointerdown', 200); point('pointermove', 150); found.moved = frame.scrollTop - scrolled;
    point('pointerup', 150); point('pointermove', 100); found.dropped = frame.scrollTop - scrolled;
    found.stop = frame.tabIndex; found.names = [...bar.querySelectorAll('button')].map(b => b.ariaLabel);
    found.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    """
    found = acted(graph.html(), script, tmp_path)
    assert found["steps"][:5] == ["100 %", "125 %", "156 %", "125 %", "100 %"] and found["steps"][5] != "100 %"
    assert found["all"] and found["browsers"] and found["back"]
    assert found["wheel"] == "149 %" and found["stays"]
    assert found["moved"] == found["dropped"] == 50 and found["stop"] == 0 and found["overflow"] == 0
    assert found["names"] == ["smaller", "larger", "all of it", "its own size"]


def test_drawings_become_parts_of_the_page(tmp_path):
    chart = Chart([Panel("loss", "epoch", [1, 2], {"train": [0.7, 0.5]})])
    script = "found.svgs = document.querySelectorAll('.fv > svg polyline').length;"
    script += "found.images = document.images.length;"
    page = f"<!DOCTYPE html><html><body>{chart._repr_html_()}</body></html>"
    assert acted(page, script, tmp_path) == {"svgs": 1, "images": 0}


def test_a_tree_folds(tmp_path):
    view = tree({"a": {"b": {"c": np.ones(3)}}})
    script = """
    const rows = [...document.querySelectorAll('.ft-row')], seen = () => rows.filter(r => r.checkVisibility()).length;
    found.before = seen();
    document.querySelectorAll('summary')[2].click(); found.opened = seen();
    document.querySelectorAll('summary')[0].click(); found.closed = seen();
    document.querySelectorAll('button')[1].click(); found.said = document.querySelectorAll('button')[1].textContent;
    found.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    """
    page = f"<!DOCTYPE html><html><body>{view._repr_html_()}</body></html>"
    assert acted(page, script, tmp_path) == {"before": 3, "opened": 4, "closed": 1, "said": "copied", "overflow": 0}


def test_the_first_box_of_a_wide_drawing_is_in_view(tmp_path):
    def wide(x, *others):
        for i, other in enumerate(others):
            x = jnp.sin(x * (1.5 + i)) + jnp.cos(x) * other
        return jnp.sum(x)

    graph = functad.graph(functad.grad(wide), fold=False)(np.ones(3, np.float32), *range(1, 31))
    script = """
    const box = document.querySelector('.fg-node').getBoundingClientRect();
    const frame = document.querySelector('.fg-scroll').getBoundingClientRect();
    found.wide = document.querySelector('.fg-scroll').scrollWidth > 2 * frame.width;
    found.seen = box.left >= frame.left && box.right <= frame.right && box.bottom <= frame.bottom;
    """
    assert acted(graph.html(), script, tmp_path) == {"wide": True, "seen": True}
