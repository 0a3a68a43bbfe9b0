"""Graphs of Programs: what they hold, where boxes and arrows lie, and their texts."""

from __future__ import annotations

import re
from base64 import b64decode
from xml.etree import ElementTree

import numpy as np
import pytest
from test_layout import along

import functad
import functad.numpy as jnp
from functad import lax, nn
from functad.errors import ArgumentError
from functad.views import Graph
from functad.views.dataflow import dataflow


def mlp(params, x):
    for w, b in params:
        x = jnp.tanh(x @ w + b)
    return jnp.sum(x**2)


PARAMS = [(np.ones((8, 16), np.float32), np.ones(16, np.float32)), (np.ones((16, 4), np.float32), np.ones(4))]
X = np.ones((5, 8), np.float32)


def step(params, x):
    return functad.tree_util.tree_map(lambda p, g: p - 0.1 * g, params, functad.grad(mlp)(params, x))


def rnn(w, xs):
    def body(h, x):
        return jnp.tanh(h @ w + x), h.sum()

    return lax.scan(body, jnp.zeros(4), xs)[1].sum()


def deep(ws, x):
    for w in ws:
        h = jnp.tanh(x @ w)
        x = x + h * jnp.exp(-h)
    return x.sum()


def branches(x):
    return lax.cond(x.sum() > 0, lambda x: jnp.sin(x) * 2, jnp.cos, x)


def two_pools(x):
    pool = nn.MaxPool((2, 2), strides=1)
    return pool.apply((), jnp.sin(pool.apply((), x)))


def drawings():
    w, xs = np.ones((4, 4), np.float32), np.ones((6, 4), np.float32)
    yield "mlp", functad.graph(mlp)(PARAMS, X)
    yield "grad", functad.graph(functad.grad(mlp))(PARAMS, X)
    yield "step", functad.graph(functad.jit(step))(PARAMS, X)
    yield "step unfolded", functad.graph(step, fold=False)(PARAMS, X)
    yield "kernels", functad.graph(step, optimized=True)(PARAMS, X)
    yield "a kernel twice", functad.graph(two_pools, optimized=True)(jnp.ones((1, 1, 6, 6)))
    yield "scan", functad.graph(functad.grad(rnn))(w, xs)
    yield "branches", functad.graph(functad.value_and_grad(lambda x: branches(x).sum()))(xs)
    yield "deep", functad.graph(functad.grad(deep))([w] * 18, xs)
    yield "deep unfolded", functad.graph(functad.grad(deep), fold=False)([w] * 18, xs)
    yield "twice", functad.graph(functad.grad(functad.grad(lambda x: jnp.sin(x) * x)))(1.0)
    yield "nothing", functad.graph(lambda x: x)(1.0)


DRAWINGS = dict(drawings())


@pytest.mark.parametrize("name", DRAWINGS)
def test_nothing_overlaps(name):
    drawing = DRAWINGS[name].drawing
    boxes = {placed.path: placed.box for placed in drawing.placed}
    groups = {}
    for path, box in boxes.items():
        groups.setdefault(path[:-1], []).append(box)
        if len(path) > 2:  # within the box around it
            x, y, w, h = boxes[path[:-2]]
            assert x < box[0] and y < box[1] and box[0] + box[2] < x + w and box[1] + box[3] < y + h
        assert -1e-6 <= box[0] and box[0] + box[2] <= drawing.width + 1e-6
        assert -1e-6 <= box[1] and box[1] + box[3] <= drawing.height + 1e-6
    for together in groups.values():
        x, y, w, h = np.array(together).T
        beside = (x[:, None] + w[:, None] <= x) | (x + w <= x[:, None])
        apart = beside | (y[:, None] + h[:, None] <= y) | (y + h <= y[:, None])
        assert apart.sum() == len(together) * (len(together) - 1)  # all pairs, but none with itself
    for routed in drawing.routed:
        x, y, w, h = np.array(groups[routed.path]).T[..., None]
        px, py = np.array([*(corners if routed.residual else along)(routed.points)]).T
        within = (x + 0.5 < px) & (px < x + w - 0.5) & (y + 0.5 < py) & (py < y + h - 0.5)
        assert not within.any(), routed


def corners(points):
    for (x0, y0), (x1, y1) in zip(points, points[1:]):
        yield from ((x0 + (x1 - x0) * k / 8, y0 + (y1 - y0) * k / 8) for k in range(9))


@pytest.mark.parametrize("name", DRAWINGS)
def test_the_svg_is_well_formed_and_needs_nothing_else(name):
    graph = DRAWINGS[name]
    root = ElementTree.fromstring(graph.svg)
    assert root.tag.endswith("svg")
    html = graph.html()
    assert "http" not in html.replace("http://www.w3.org/2000/svg", "")
    # Text fits its box: letters of one width, as the layout takes them.
    for placed in graph.drawing.placed:
        assert all(len(row) * 7.25 <= placed.box[2] for row in placed.node.rows)


def test_arrows_are_what_equations_read():
    program = functad.make_jaxpr(functad.grad(mlp))(PARAMS, X)
    flow = dataflow(program, folded=False)
    places = {v: i for i, v in enumerate(program.invars)}
    wanted = set()
    for i, eqn in enumerate(program.eqns, len(program.invars)):
        wanted |= {(places[v], i) for v in eqn.invars if v in places}
        places.update((v, i) for v in eqn.outvars)
    first = len(program.invars) + len(program.eqns)
    wanted |= {(places[v], first + i) for i, v in enumerate(program.outvars)}
    assert {(a, b) for a, b, _ in flow.arrows} == wanted


def test_the_way_back_is_what_carries_cotangents():
    program = functad.make_jaxpr(functad.grad(lambda w, x: jnp.sum(jnp.tanh(w * x))))(np.ones(3), np.ones(3))
    ways = [(eqn.primitive.name, eqn.source.transposed) for eqn in program.eqns]
    assert ways[:3] == [("mul", False), ("tanh", False), ("reduce_sum", False)]
    assert [name for name, back in ways if back][0] == "broadcast_in_dim"
    assert ways[-1] == ("mul", True)
    lines = {eqn.source.line for eqn in program.eqns}
    assert len(lines) == 1  # that of the lambda


@pytest.mark.parametrize("transform", [functad.vmap, lambda f: lambda x: functad.jvp(f, (x,), (x,)), functad.jit])
def test_other_transforms_have_no_way_back(transform):
    graph = functad.graph(transform(lambda x: jnp.sin(x) * jnp.exp(x)))(np.ones(3, np.float32))
    assert not any(node.backward for node in graph.flow.nodes) and not graph.drawing.heads


def test_residuals_join_the_two_ways():
    drawing = DRAWINGS["grad"].drawing
    assert [text for text, _ in drawing.heads] == ["forward", "backward"]
    nodes = {placed.path: placed.node for placed in drawing.placed}
    for routed in drawing.routed:
        ends = [nodes[(*routed.path, end)].backward for end in routed.arrow[:2]]
        assert routed.residual == (ends == [False, True]) and ends != [True, False]
    assert sum(routed.residual for routed in drawing.routed) >= 4


def test_what_follows_the_gradient_stands_with_it():
    graph = functad.graph(lambda x: x - 0.1 * functad.grad(lambda x: jnp.sum(x * x))(x))(np.ones(3, np.float32))
    assert all(node.backward for node in graph.flow.nodes if node.kind == "output")


def test_many_equations_are_folded():
    graph = DRAWINGS["deep"]
    assert re.fullmatch(r"<Graph of deep: 3\d\d equations>", repr(graph))
    assert len(graph.flow.nodes) < 40 and graph.drawing.width < 1500 and graph.drawing.height < 2000
    steps = [node for node in graph.flow.nodes if node.kind == "steps"]
    assert steps[0].rows == ["18 equal steps, 6 equations each"] and "deep" not in steps[0].told
    assert "x = x + h * jnp.exp(-h)" in steps[0].line
    assert any("17 inputs" in node.rows[0] or "18 inputs" in node.rows[0] for node in graph.flow.nodes)
    assert len(DRAWINGS["deep unfolded"].flow.nodes) > 300


def test_a_chain_is_one_box_that_tells_all():
    def f(x):
        for _ in range(3):
            x = jnp.sin(jnp.exp(x))
        return x * x

    graph = functad.graph(f, fold=True)(1.0)
    (chain,) = [node for node in graph.flow.nodes if node.kind == "chain"]
    assert chain.equations == 7 and chain.told.count("\n") == 6
    long = functad.graph(lambda x: many(x, 20), fold=True)(1.0)
    assert any("more" in row for node in long.flow.nodes for row in node.rows)


def many(x, n):
    for i in range(n):
        x = (jnp.sin, jnp.cos, jnp.exp)[i % 3](x) + i
    return x


def test_each_kernel_has_a_frame():
    graph = DRAWINGS["kernels"]
    lowered = functad.jit(step).lower(PARAMS, X)
    frames = [node for node in graph.flow.nodes if node.kind == "kernel"]
    assert frames and all(node.rows[0].removeprefix("kernel ") in str(lowered.cost) for node in frames)
    assert sum(node.equations for node in graph.flow.nodes) == len(lowered._lowered.program.eqns)


@pytest.mark.parametrize(
    "fun",
    [
        lambda w: jnp.einsum("ij,jk->ik", w[:2, :3], w[:3]),  # a small product is a sum in a kernel
        functad.vmap(lambda w: jnp.dot(w, w + 1)),
        functad.grad(lambda w: functad.checkpoint(lambda w: jnp.sin(jnp.sin(w)).sum())(w)),  # barriers are removed
    ],
)
def test_equations_that_kernels_take_apart_lie_in_their_frames(fun):
    flow = functad.graph(fun, optimized=True)(np.ones((4, 4), np.float32)).flow
    nodes = [node for node in flow.nodes if node.equations and "optimization_barrier" not in node.rows[0]]
    assert [node.kind for node in nodes] == ["kernel"]


def test_inputs_are_called_as_the_user_calls_them():
    rows = [node.rows[0] for node in DRAWINGS["mlp"].flow.nodes if node.kind == "input"]
    assert rows[0] == "params[0][0]: a" and rows[-1].startswith("x: ")


def test_a_box_tells_the_equation_and_the_users_line():
    node = next(n for n in DRAWINGS["mlp"].flow.nodes if "tanh" in n.rows[0])
    assert "tanh" in node.told and node.line.endswith("x = jnp.tanh(x @ w + b)")
    assert node.line.replace('"', "&quot;") in DRAWINGS["mlp"].svg


def test_programs_within_equations_are_drawn_or_counted():
    (scan,) = [n for n in functad.graph(rnn)(jnp.ones((4, 4)), jnp.ones((6, 4))).flow.nodes if n.kind == "program"]
    assert scan.rows[0] == "scan, 6 steps" and scan.inside

    def long(x, _):
        return many(x, 70), None

    (scan,) = [n for n in functad.graph(lambda x: lax.scan(long, x, None, 3))(1.0).flow.nodes if n.kind == "program"]
    assert not scan.inside and scan.rows[1].endswith("equations")
    cond = DRAWINGS["branches"].flow.nodes
    assert any(inner.title.startswith("branches") for node in cond for inner in node.inside)


def test_mermaid_and_dot_name_every_box_and_arrow():
    graph = DRAWINGS["grad"]
    mermaid, dot = graph.mermaid(), graph.dot()
    assert mermaid.startswith("flowchart TD") and "subgraph nforward" in mermaid and "subgraph nbackward" in mermaid
    assert mermaid.count("-->") + mermaid.count("-.->") == len(graph.flow.arrows) == dot.count(" -> ")
    assert dot.count("label=") == len(graph.flow.nodes) and dot.count("{") == dot.count("}")
    within = DRAWINGS["scan"]
    assert within.dot().count("subgraph cluster_") == within.mermaid().count('["scan')
    assert within.mermaid().count("subgraph") == within.mermaid().count("\n  end") + within.mermaid().count("    end")


def test_quotation_marks_are_escaped():
    def f(x):
        return x

    f.__name__ = 'a "quoted" <name>'
    graph = functad.graph(lambda x: functad.jit(f)(x) + functad.jit(f)(x * 2))(1.0)
    ElementTree.fromstring(graph.svg)
    assert '"a "' not in graph.mermaid() and '\\"quoted\\"' in graph.dot()


def test_a_graph_is_saved_as_its_name_ends(tmp_path):
    graph = Graph(functad.make_jaxpr(lambda x: x * 2)(1.0))
    for ending, begin in ((".svg", "<svg"), (".html", "<!DOCTYPE"), (".mmd", "flowchart"), (".dot", "digraph")):
        graph.save(tmp_path / f"g{ending}")
        assert (tmp_path / f"g{ending}").read_text(encoding="utf-8").startswith(begin)
    with pytest.raises(ArgumentError, match=r"g\.png' must end in \.svg, \.html, \.mmd, \.dot"):
        graph.save("g.png")


def test_notebooks_get_an_image_that_brings_its_ground():
    graph = Graph(functad.make_jaxpr(lambda x: x * 2)(1.0))
    html = graph._repr_html_()
    image = re.search(r'<img alt="Graph of <?[^"]*" src="data:image/svg\+xml;base64,([^"]*)">', html)
    assert b64decode(image[1]).decode() == graph.svg
    assert "<svg" not in html and "background:#fff" in graph.svg


def test_equations_that_fusion_makes_are_in_kernels_too():
    def loss(params, batch):
        x, y = batch
        return jnp.mean((jnp.tanh(x @ params["w"] + params["b"]) - y) ** 2)

    params = {"w": jnp.ones((3, 1)), "b": jnp.zeros(1)}
    drawn = functad.graph(functad.grad(loss), optimized=True)(params, (jnp.ones((8, 3)), jnp.zeros((8, 1))))
    names = re.findall(
        r"def (\w+)\(", functad.jit(functad.grad(loss)).lower(params, (jnp.ones((8, 3)), jnp.zeros((8, 1)))).kernels
    )
    assert names and all(name in drawn.svg for name in names)


def test_each_call_of_a_kernel_has_its_frame():
    frames = [node.rows for node in DRAWINGS["a kernel twice"].flow.nodes if node.kind == "kernel"]
    assert ["kernel window_max"] in frames and ["kernel window_max, call 2"] in frames
