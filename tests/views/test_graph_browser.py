"""How a graph behaves in a browser: pointing marks what hangs together, arrow keys go along arrows."""

from __future__ import annotations

import numpy as np
from browser_tools import acted, needs_browser

import functad
import functad.numpy as jnp
from functad.views import tree

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
