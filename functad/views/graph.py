"""The dataflow of a Program as a drawing: SVG of its own layout, a page, and text for Mermaid and Graphviz.

Knows graphs of nodes and arrows, and where layouts put them; Programs only as `dataflow` reads them.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape

from functad.calls.common import closed
from functad.errors import ArgumentError
from functad.execution import lowered
from functad.ir import Program
from functad.lowering.steps import PlainStep
from functad.system.cache import atomic_write
from functad.views.charts import ALONE
from functad.views.dataflow import Dataflow, FlowNode, counts_of_nodes, dataflow
from functad.views.layout import Spot
from functad.views.page import page
from functad.views.placing import ROW, Drawing, PlacedNode, RoutedArrow, drawn


class Graph:
    """The dataflow of a Program, which notebooks show.

    Equations are boxes, inputs and results are rounded. Programs within equations lie in dashed frames, equations of
    one kernel in solid ones. What reverse mode does on its way back stands at the right and goes up; residuals come to
    it over dotted lines. `graph.svg`, `.mermaid()` and `.dot()` are text, `.save(path)` writes it.

    Args:
        program: what `functad.make_jaxpr` gives, for example.
        labels: the user's names of its inputs.
        kernels: by the number of an equation, the name of the kernel that computes it, of each call another.
        fold: whether chains of equations are one box each; None: if there are more than forty equations.

    >>> import functad, functad.numpy as jnp
    >>> graph = Graph(functad.make_jaxpr(lambda x, y: jnp.sin(x) * y)(1., 2.))
    >>> graph
    <Graph of <lambda>: 2 equations>
    >>> print(graph.mermaid())
    flowchart TD
      n0(["a<br/>f32[]"])
      n1(["b<br/>f32[]"])
      n2["c = sin a<br/>f32[]"]
      n3["d = mul c b<br/>f32[]"]
      n4(["result<br/>d:f32[]"])
      n0 --> n2
      n2 --> n3
      n1 --> n3
      n3 --> n4
    """

    def __init__(
        self,
        program: Program,
        labels: Sequence[str] = (),
        kernels: Mapping[int, str] | None = None,
        fold: bool | None = None,
    ) -> None:
        self.name = program.name
        self.flow = dataflow(program, labels, kernels, fold)
        self._drawing: Drawing | None = None

    @property
    def drawing(self) -> Drawing:
        """The boxes and the routes, laid out at the first use."""
        if self._drawing is None:
            self._drawing = drawn(self.flow)
        return self._drawing

    @property
    def svg(self) -> str:
        """One SVG document; its text is dark, or light where the reader prefers dark."""
        return _svg(self.drawing, str(self)[1:-1])

    def mermaid(self) -> str:
        """The graph in Mermaid's notation, which code-hosting sites and notes draw."""
        back = any(node.backward for node in self.flow.nodes)
        return "\n".join(["flowchart TD", *_mermaid(self.flow, "n", "  ", back)])

    def dot(self) -> str:
        """The graph in Graphviz's notation.

        >>> import functad
        >>> print(Graph(functad.make_jaxpr(lambda x: -x)(1.)).dot())
        digraph {
          node [shape=box fontname=monospace]
          n0 [label="a\\nf32[]" style=rounded]
          n1 [label="b = neg a\\nf32[]"]
          n2 [label="result\\nb:f32[]" style=rounded]
          n0 -> n1
          n1 -> n2
        }
        """
        lines = ["digraph {", "  node [shape=box fontname=monospace]", *_dot(self.flow, "n", "  ")]
        return "\n".join([*lines, "}"])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the graph to a file, as its ending says: .svg, .html, .mmd (Mermaid) or .dot.

        Raises:
            ArgumentError: the file's name ends otherwise.
        """
        ending = os.path.splitext(os.fspath(path))[1].lower()
        writers = {".svg": lambda: self.svg, ".html": self.html, ".mmd": self.mermaid, ".dot": self.dot}
        if ending not in writers:
            raise ArgumentError(f"Graph.save: {os.fspath(path)!r} must end in {', '.join(writers)}, to say what it is")
        with atomic_write(path) as file:
            file.write(writers[ending]().encode())

    def html(self) -> str:
        """A page of its own."""
        return page(str(self)[1:-1], [], [], top=self._repr_html_(), style="body { max-width: none; }")

    def __repr__(self) -> str:
        n = counts_of_nodes(self.flow)["equations"]
        return f"<Graph of {self.name}: {n:,} equation{'s' if n != 1 else ''}>"

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        name = escape(str(self)[1:-1])
        picture = b64encode(self.svg.encode()).decode()
        return (
            f'<div class="fg"><div class="fg-scroll" role="region" aria-label="{name}">'
            f'<img alt="{name}" src="data:image/svg+xml;base64,{picture}"></div>'
            f'<p class="fg-legend">{"; ".join(_legend(self.drawing))}</p><pre class="fg-told" aria-live="polite"></pre>'
            f"<style>{_LOOKS}</style><script>{_SCRIPT}</script></div>"
        )


def graph_of(program: Program, labels: Sequence[str], optimized: bool, fold: bool | None) -> Graph:
    """What `functad.graph` gives; optimized: of the Program as it is compiled, with the kernels that compute it."""
    if not optimized:
        return Graph(program, labels, fold=fold)
    compiled = lowered(closed(program))
    numbers = {v: number for number, eqn in enumerate(compiled.program.eqns) for v in eqn.outvars}
    kernels: dict[int, str] = {}
    calls: Counter[str] = Counter()
    for step in compiled.schedule.steps:
        if isinstance(step, PlainStep):
            calls[step.name] += 1
            name = step.name if calls[step.name] == 1 else f"{step.name}, call {calls[step.name]}"
            for v in (v for eqn in step.eqns for v in eqn.outvars if v in numbers):  # fusion makes equations of its own
                kernels.setdefault(numbers[v], name)
    return Graph(compiled.program, [*["constant"] * len(program.consts), *labels], kernels, fold)


# --- SVG ----------------------------------------------------------------------------------------------

# Tones in the middle, which stand out from white and from black; text takes the colour of the page around.
_LOOKS = """
.fg img, .fg svg { display: block; margin: 0 auto; max-width: none; }
.fg-scroll { overflow: auto; max-height: 85vh; }
.fg-live { cursor: grab; touch-action: pan-x pan-y; } .fg-live.fg-moves { cursor: grabbing; user-select: none; }
.fg-bar { display: flex; gap: .4rem; align-items: center; margin: .3rem 0; font: 13px system-ui, sans-serif; }
.fg-bar button { font: inherit; color: inherit; background: none; border: 1px solid rgba(128,128,128,.6);
  border-radius: .3rem; padding: .1rem .6rem; cursor: pointer; }
.fg-bar button:focus-visible { outline: 2px solid #2b7bd6; }
.fg-scroll:focus-visible { outline: 2px solid #2b7bd6; }
.fg-text { font: 12px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: currentColor; }
.fg-type { opacity: .68; }
.fg-head { font: 600 13px system-ui, sans-serif; fill: currentColor; }
.fg-box { fill: #2b7bd6; fill-opacity: .07; stroke: currentColor; stroke-opacity: .55; }
.fg-input .fg-box { fill-opacity: 0; } .fg-output .fg-box { fill-opacity: 0; stroke-width: 2; }
.fg-constant .fg-box { fill-opacity: 0; stroke-dasharray: 1 3; }
.fg-back .fg-box { fill: #c8641b; }
.fg-program > .fg-box { stroke-dasharray: 6 4; fill-opacity: .03; }
.fg-kernel > .fg-box { stroke: #2f8f5b; stroke-width: 2; stroke-opacity: 1; fill: #2f8f5b; fill-opacity: .05; }
.fg-edge path { fill: none; stroke: currentColor; stroke-opacity: .5; }
.fg-edge .fg-tip { fill: currentColor; fill-opacity: .7; stroke: none; }
.fg-residual path { stroke: #c8641b; stroke-opacity: .9; stroke-dasharray: 2 3; }
.fg-residual .fg-tip { fill: #c8641b; fill-opacity: 1; }
.fg-edge:hover path, .fg-on path { stroke-width: 2.5; stroke-opacity: 1; }
.fg-node { outline: none; cursor: default; }
.fg-node:hover > .fg-box, .fg-on > .fg-box { stroke-width: 2.5; stroke-opacity: 1; }
.fg-node:focus-visible > .fg-box { stroke: #2b7bd6; stroke-width: 3; stroke-opacity: 1; }
.fg-legend { font: 13px/1.6 system-ui, sans-serif; margin: .5rem 0; opacity: .8; }
.fg-told { font: 13px/1.5 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; min-height: 3em;
  width: auto; min-width: 0; margin: .5rem 0 0; padding: .5rem .7rem; border: 0; border-left: 3px solid #2b7bd6;
  border-radius: 0; background: none; color: inherit; }
"""
# Where a notebook is not trusted, scripts and SVG are taken out of HTML, and images are left. So the SVG comes as an
# image, and the script puts it into the page: then it takes the page's colours, marks what hangs together with the box
# that is pointed at or has the focus, and tells all of it; arrow keys walk, + and − zoom, and the frame can be dragged.
_SCRIPT = """
(() => { for (const root of document.querySelectorAll('.fg:not([data-live])')) {
  root.dataset.live = '1';
  const still = root.querySelector('.fg-scroll img'), told = root.querySelector('.fg-told');
  const bytes = Uint8Array.from(atob(still.src.split(',')[1]), c => c.charCodeAt(0));
  const svg = new DOMParser().parseFromString(new TextDecoder().decode(bytes), 'image/svg+xml').documentElement;
  for (const style of svg.querySelectorAll('style')) style.remove();
  still.replaceWith(document.adoptNode(svg));
  told.textContent = 'Point at a box, or go along the arrows with the arrow keys; + and − zoom, 0 shows all.';
  const frame = root.querySelector('.fg-scroll'), bar = document.createElement('div');
  const width = +svg.getAttribute('width'), height = +svg.getAttribute('height');
  const whole = () => Math.min(1, frame.clientWidth / width, .85 * innerHeight / height);
  let scale = 1;
  const zoom = (to, x = frame.clientWidth / 2, y = frame.clientHeight / 2) => {
    const next = Math.min(Math.max(to, .02), 4);
    const left = (frame.scrollLeft + x) / scale, top = (frame.scrollTop + y) / scale;
    scale = next;
    svg.setAttribute('width', width * scale); svg.setAttribute('height', height * scale);
    frame.scrollLeft = left * scale - x; frame.scrollTop = top * scale - y;
    bar.querySelector('output').textContent = `${Math.round(100 * scale)} %`;
  };
  const ways = {
    '+': ['larger', () => zoom(1.25 * scale)], '-': ['smaller', () => zoom(scale / 1.25)],
    1: ['its own size', () => zoom(1)],
    0: ['all of it', () => zoom(whole())],
  };
  bar.className = 'fg-bar';
  bar.innerHTML = '<button data-key="-">−</button><output>100 %</output><button data-key="+">+</button>' +
    '<button data-key="0">all</button><button data-key="1">1 : 1</button>';
  for (const button of bar.querySelectorAll('button')) {
    const [name, act] = ways[button.dataset.key];
    button.type = 'button'; button.title = `${name} (key ${button.dataset.key})`;
    button.setAttribute('aria-label', name); button.addEventListener('click', act);
  }
  root.prepend(bar);
  frame.classList.add('fg-live'); frame.tabIndex = 0;
  root.addEventListener('keydown', event => {
    const way = ways[event.key === '=' ? '+' : event.key];
    if (!way || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault(); event.stopPropagation(); way[1]();
  });
  frame.addEventListener('wheel', event => {
    if (!event.ctrlKey && !event.metaKey) return;  // the wheel alone scrolls
    event.preventDefault();
    const at = frame.getBoundingClientRect();
    zoom(scale * 1.002 ** -event.deltaY, event.clientX - at.left, event.clientY - at.top);
  }, { passive: false });
  let held = null;
  frame.addEventListener('pointerdown', event => {
    if (event.button === 0 && event.pointerType !== 'touch')
      held = [event.clientX + frame.scrollLeft, event.clientY + frame.scrollTop];
  });
  const move = event => {
    if (!held) return;
    frame.classList.add('fg-moves');
    frame.scrollLeft = held[0] - event.clientX; frame.scrollTop = held[1] - event.clientY;
  };
  const drop = () => { held = null; frame.classList.remove('fg-moves'); };
  frame.addEventListener('pointermove', move);
  for (const end of ['pointerup', 'pointerleave', 'pointercancel']) frame.addEventListener(end, drop);
  const edges = [...root.querySelectorAll('.fg-edge')], nodes = [...root.querySelectorAll('.fg-node')];
  const by = new Map(nodes.map(n => [n.dataset.n, n]));
  const show = node => {
    for (const e of root.querySelectorAll('.fg-on')) e.classList.remove('fg-on');
    if (!node) return;
    for (const e of edges) if (e.dataset.a === node.dataset.n || e.dataset.b === node.dataset.n) {
      e.classList.add('fg-on');
      by.get(e.dataset.a).classList.add('fg-on'); by.get(e.dataset.b).classList.add('fg-on');
    }
    told.textContent = node.getAttribute('aria-label');
  };
  const go = (node, key) => {
    const from = edges.filter(e => e.dataset.a === node.dataset.n).map(e => e.dataset.b);
    const to = edges.filter(e => e.dataset.b === node.dataset.n).map(e => e.dataset.a);
    const i = nodes.indexOf(node);
    const next = { ArrowDown: by.get(from[0]), ArrowUp: by.get(to[0]), ArrowRight: nodes[i + 1] };
    return key === 'ArrowLeft' ? nodes[i - 1] : next[key];
  };
  for (const node of nodes) {
    node.addEventListener('mouseover', event => { event.stopPropagation(); show(node); });
    node.addEventListener('focus', () => show(node));
    node.addEventListener('click', event => { event.stopPropagation(); node.focus(); });
    node.addEventListener('keydown', event => {
      const next = go(node, event.key);
      if (next) { event.preventDefault(); event.stopPropagation(); next.focus(); }
    });
  }
  if (!nodes.length) continue;
  nodes[0].setAttribute('tabindex', '0');
  // All of it where that is legible; else its width, of which a part may have to do.
  zoom(whole() > .4 ? whole() : Math.min(1, Math.max(.75, frame.clientWidth / width)), 0, 0);
  const box = nodes[0].getBoundingClientRect(), corner = frame.getBoundingClientRect();
  const below = box.top - corner.top, across = box.left - corner.left;
  if (below > frame.clientHeight / 2) frame.scrollTop = below - 60;
  if (across + box.width > frame.clientWidth) frame.scrollLeft = across + (box.width - frame.clientWidth) / 2;
} })();
"""


def _legend(drawing: Drawing) -> list[str]:
    kinds = {p.node.kind for p in drawing.placed}
    texts = []
    if "chain" in kinds:
        texts.append("a box of several lines: a chain of equations, folded")
    if "program" in kinds:
        texts.append("dashed frame: a Program within an equation")
    if "steps" in kinds:
        texts.append("double frame: equal steps of an unrolled loop, one of which is shown")
    if "kernel" in kinds:
        texts.append("thick frame: one kernel")
    if any(r.residual for r in drawing.routed):
        texts.append("dotted line: a residual, kept for the way back")
    return texts


def _svg(drawing: Drawing, name: str) -> str:
    margin = 8
    width, height = drawing.width + 2 * margin, drawing.height + 2 * margin
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-margin} {-margin} {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="group" aria-label="{escape(name)}">',
        f"{ALONE}<style>{_LOOKS}</style>",
        *(_edge(routed) for routed in drawing.routed),
        *(_node(placed) for placed in drawing.placed),
        *(
            f'<text class="fg-head" x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{escape(text)}</text>'
            for text, (x, y) in drawing.heads
        ),
    ]
    return "".join([*parts, "</svg>"])


def _name(path: tuple[int, ...]) -> str:
    return "n" + "_".join(map(str, path))


def _node(placed: PlacedNode) -> str:
    node, (x, y, w, h), path = placed
    kind = f"fg-node fg-{node.kind}" + (" fg-back" if node.backward else "")
    radius = h / 2 if node.kind in ("input", "output", "constant") else 4
    told = node.told + (f"\n{node.line}" if node.line else "")
    # A box beneath others gets no events where those are; so it is drawn first, and its text lies at its top.
    texts = []
    for i, row in enumerate(node.rows if not node.inside else [" · ".join(node.rows)]):
        soft = " fg-type" if i and i == len(node.rows) - 1 else ""
        texts.append(
            f'<text class="fg-text{soft}" x="{x + w / 2:.1f}" y="{y + 17 + i * ROW:.1f}" '
            f'text-anchor="middle">{escape(row)}</text>'
        )
    inner = ""
    if node.kind == "steps":
        inner = (
            f'<rect class="fg-box" x="{x + 3:.1f}" y="{y + 3:.1f}" width="{w - 6:.1f}" height="{h - 6:.1f}" rx="3"/>'
        )
    return (
        f'<g class="{kind}" data-n="{_name(path)}" tabindex="-1" role="img" aria-label="{escape(told)}">'
        f'<title>{escape(told)}</title><rect class="fg-box" x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" '
        f'height="{h:.1f}" rx="{radius:.1f}"/>{inner}{"".join(texts)}</g>'
    )


def _edge(routed: RoutedArrow) -> str:
    points = routed.points
    shape = _corners(points) if routed.residual else _curves(points)
    (x, y), (_, before) = points[-1], points[-2]
    up = 1 if before > y or (before == y and points[0][1] > y) else -1
    tip = f"M{x:.1f} {y:.1f}l-3.5 {6 * up}h7z"
    kind = "fg-edge fg-residual" if routed.residual else "fg-edge"
    ends = [_name((*routed.path, number)) for number in routed.arrow[:2]]
    return (
        f'<g class="{kind}" data-a="{ends[0]}" data-b="{ends[1]}"><title>{escape(routed.arrow.label)}</title>'
        f'<path d="{shape}"/><path class="fg-tip" d="{tip}"/></g>'
    )


def _curves(points: Sequence[Spot]) -> str:
    """Straight within layers, bent between them."""
    parts = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for i, (x, y) in enumerate(points[1:], 1):
        if i % 2:
            parts.append(f"V{y:.1f}")
        else:
            x0, y0 = points[i - 1]
            middle = (y0 + y) / 2
            parts.append(f"C{x0:.1f} {middle:.1f} {x:.1f} {middle:.1f} {x:.1f} {y:.1f}")
    return "".join(parts)


def _corners(points: Sequence[Spot]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


# --- text ---------------------------------------------------------------------------------------------


def _mermaid(flow: Dataflow, prefix: str, indent: str, halves: bool = False) -> list[str]:
    lines: list[str] = []
    for back in (False, True) if halves else (None,):
        inner = indent if back is None else indent + "  "
        if back is not None:
            lines.append(f"{indent}subgraph {prefix}{'backward' if back else 'forward'}")
        for i, node in enumerate(flow.nodes):
            if back is None or node.backward == back:
                lines += _mermaid_node(node, f"{prefix}{i}", inner)
        if back is not None:
            lines.append(f"{indent}end")
    for a, b, _ in flow.arrows:
        crossing = halves and flow.nodes[a].backward != flow.nodes[b].backward
        lines.append(f"{indent}{prefix}{a} {'-.->' if crossing else '-->'} {prefix}{b}")
    return lines


def _mermaid_node(node: FlowNode, name: str, indent: str) -> list[str]:
    text = "<br/>".join(_plain(row, {'"': "#quot;", "<": "#lt;", ">": "#gt;"}) for row in node.rows)
    if not node.inside:
        left, right = ("([", "])") if node.kind in ("input", "output", "constant") else ("[", "]")
        return [f'{indent}{name}{left}"{text}"{right}']
    lines = [f'{indent}subgraph {name}["{text}"]']
    for k, inner in enumerate(node.inside):
        lines += _mermaid(inner, f"{name}_{k}_", indent + "  ")
    return [*lines, f"{indent}end"]


def _dot(flow: Dataflow, prefix: str, indent: str) -> list[str]:
    lines: list[str] = []
    for i, node in enumerate(flow.nodes):
        text = "\\n".join(_plain(row, {"\\": "\\\\", '"': '\\"'}) for row in node.rows)
        name = f"{prefix}{i}"
        if not node.inside:
            rounded = " style=rounded" if node.kind in ("input", "output", "constant") else ""
            lines.append(f'{indent}{name} [label="{text}"{rounded}]')
            continue
        lines.append(f"{indent}subgraph cluster_{name} {{")
        lines.append(f'{indent}  label="{text}"; {name} [shape=point style=invis]')
        for k, inner in enumerate(node.inside):
            lines += _dot(inner, f"{name}_{k}_", indent + "  ")
        lines.append(f"{indent}}}")
    for a, b, _ in flow.arrows:
        crossing = flow.nodes[a].backward != flow.nodes[b].backward
        lines.append(f"{indent}{prefix}{a} -> {prefix}{b}{' [style=dotted]' if crossing else ''}")
    return lines


def _plain(text: str, replaced: Mapping[str, str]) -> str:
    for old, new in replaced.items():
        text = text.replace(old, new)
    return text
