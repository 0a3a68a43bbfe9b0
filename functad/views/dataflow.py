"""A Program as a graph of what flows where: nodes with text, arrows, and graphs within nodes. Long chains fold.

Knows Programs; not where things lie on a drawing, or what draws them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from functad.editing.repetition import RepeatedSteps, repeated_steps
from functad.ir import Atom, Eqn, Program, Source, Var, equation_count, subprograms
from functad.ir import Literal as Number
from functad.lowering_rules import Call
from functad.pretty import equation_to_text, literal_text, program_to_text
from functad.records import NamedTuple

BoxKind = Literal["input", "constant", "equation", "chain", "steps", "program", "kernel", "output"]

FOLDED_FROM = 40
"""Of how many equations on chains are folded, unless the caller decides."""
_INSIDE = 60
"""How many equations a Program within an equation has at most to be drawn."""
_ROWS = 8
_LONGEST = 34


class Arrow(NamedTuple):
    """What flows from one node to another: the variables, with their types."""

    start: int
    end: int
    label: str


@dataclass(eq=False)
class FlowNode:
    """A node: what it is, its rows of text, all that there is to tell, and what is drawn inside of it.

    backward: whether it belongs to the way back of reverse mode. line: the user's, with its place.
    """

    kind: BoxKind
    rows: list[str]
    told: str
    line: str = ""
    backward: bool = False
    inside: list[Dataflow] = field(default_factory=list)
    equations: int = 0


@dataclass(eq=False)
class Dataflow:
    """Nodes, and arrows between them by their numbers. title: what it is within a node."""

    nodes: list[FlowNode]
    arrows: list[Arrow]
    title: str = ""


def dataflow(
    program: Program,
    labels: Sequence[str] = (),
    kernels: Mapping[int, str] | None = None,
    folded: bool | None = None,
) -> Dataflow:
    """The graph of a Program.

    Args:
        program: one that is a single call is shown as what it calls.
        labels: the user's names of its inputs.
        kernels: by the number of an equation, the kernel that computes it, in the order in which kernels run: the
            equations of one lie within one node.
        folded: whether chains of equations are one node each; if there are many of them, by default.

    >>> import functad, functad.numpy as jnp
    >>> flow = dataflow(functad.make_jaxpr(lambda x: jnp.sin(x) * 2)(1.))
    >>> [node.rows[0] for node in flow.nodes]
    ['a', 'b = sin a', 'c = mul b 2.0', 'result']
    >>> [(arrow.start, arrow.end) for arrow in flow.arrows]
    [(0, 1), (1, 2), (2, 3)]
    """
    program = called(program)
    if folded is None:
        folded = equation_count(program) > FOLDED_FROM
    names: dict[Var, str] = {}
    program_to_text(program, names=names)
    flow = _FlowBuilder(names, folded).flow(program, labels)
    if kernels:
        flow = _clustered(flow, kernels)
    elif folded:
        flow = _with_steps(flow, repeated_steps(program))
    return _with_bundles(_with_chains(flow)) if folded else flow


def called(program: Program) -> Program:
    """What a Program calls, if that is all it does."""
    while len(program.eqns) == 1 and not program.consts:
        (eqn,) = program.eqns
        rule = eqn.primitive.lower
        if not isinstance(rule, Call) or program.outvars != eqn.outvars or program.invars != eqn.invars:
            break
        program = eqn.params[rule.parameter]
    return program


def line_of(source: Source | None) -> str:
    """The user's line: its place and what stands there.

    >>> line_of(None)
    ''
    """
    if source is None:
        return ""
    return f"{source.code.co_filename}:{source.line}" + (f": {source.text}" if source.text else "")


class _FlowBuilder:
    def __init__(self, names: Mapping[Var, str], folded: bool) -> None:
        self.names = names
        self.folded = folded

    def flow(self, program: Program, labels: Sequence[str] = (), title: str = "") -> Dataflow:
        """One node for each input, constant, equation and result, in this order."""
        nodes = [self._variable("input", v, label) for v, label in _paired(program.invars, labels)]
        nodes += [self._variable("constant", v, "") for v in program.constvars]
        makers: dict[Var, int] = {v: i for i, v in enumerate((*program.invars, *program.constvars))}
        flowing: dict[tuple[int, int], list[Var]] = {}
        for eqn in program.eqns:
            here = len(nodes)
            nodes.append(self._equation(eqn))
            self._reads(eqn.invars, here, makers, flowing)
            makers.update((v, here) for v in eqn.outvars)
        for number, atom in enumerate(program.outvars):
            here = len(nodes)
            row = "result" if len(program.outvars) == 1 else f"result {number}"
            nodes.append(FlowNode("output", [row, self._typed(atom)], f"{row}: {self._typed(atom)}"))
            self._reads([atom], here, makers, flowing)
        arrows = [Arrow(a, b, ", ".join(map(self._typed, found))) for (a, b), found in flowing.items()]
        return _without_unused(Dataflow(nodes, arrows, title))

    def _reads(
        self,
        atoms: Iterable[Atom],
        here: int,
        makers: Mapping[Var, int],
        flowing: dict[tuple[int, int], list[Var]],
    ) -> None:
        """Note the arrows to a node."""
        for atom in dict.fromkeys(a for a in atoms if isinstance(a, Var)):
            flowing.setdefault((makers[atom], here), []).append(atom)

    def _variable(self, kind: BoxKind, var: Var, label: str) -> FlowNode:
        rows = [f"{label}: {self.names[var]}" if label else self.names[var], var.aval.str_short()]
        what = "input" if kind == "input" else "constant"
        return FlowNode(kind, rows, f"{what} {label + ', ' if label else ''}{self._typed(var)}")

    def _equation(self, eqn: Eqn) -> FlowNode:
        operands = " ".join(map(self._atom, eqn.invars))
        results = " ".join(self.names.get(v, "_") for v in eqn.outvars)
        left = f"{results} = " if results else ""
        types = " ".join(dict.fromkeys(v.aval.str_short() for v in eqn.outvars))
        rows = [_short(f"{left}{eqn.primitive.name} {operands}"), _short(types)]
        told = equation_to_text(eqn, self.names)
        back = eqn.source is not None and eqn.source.transposed
        node = FlowNode("equation", rows, told, line_of(eqn.source), back, equations=1)
        self._look_inside(eqn, node)
        return node

    def _look_inside(self, eqn: Eqn, node: FlowNode) -> None:
        programs = [(key, p) for key, value in eqn.params.items() for p in subprograms({key: value})]
        if not programs:
            return
        node.kind = "program"
        node.equations = sum(equation_count(p) for _, p in programs)
        name = str(eqn.params.get("name", "")).strip("<>")
        node.rows[0] = _short(f"{eqn.primitive.name} {name}".rstrip() + self._how_often(eqn))
        if node.equations > _INSIDE:
            node.rows[1] = f"{node.equations:,} equations"
            return
        for number, (key, program) in enumerate(programs):
            several = len([k for k, _ in programs if k == key]) > 1
            title = f"{key} {number}" if several else key
            inner = self.flow(program, title=title if len(programs) > 1 else "")
            node.inside.append(_with_chains(inner) if self.folded else inner)

    def _how_often(self, eqn: Eqn) -> str:
        return f", {eqn.params['length']} steps" if "length" in eqn.params else ""

    def _atom(self, atom: Atom) -> str:
        return literal_text(atom.value) if isinstance(atom, Number) else self.names[atom]

    def _typed(self, atom: Atom) -> str:
        return f"{self._atom(atom)}:{atom.aval.str_short()}"


def _paired(variables: Sequence[Var], labels: Sequence[str]) -> list[tuple[Var, str]]:
    return list(zip(variables, labels if len(labels) == len(variables) else [""] * len(variables)))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _without_unused(flow: Dataflow) -> Dataflow:
    """Without the constants that nothing reads."""
    read = {arrow.start for arrow in flow.arrows}
    kept = [i for i, node in enumerate(flow.nodes) if node.kind != "constant" or i in read]
    return _renumbered(flow, {old: new for new, old in enumerate(kept)}, [flow.nodes[i] for i in kept])


def _renumbered(flow: Dataflow, numbers: Mapping[int, int], nodes: list[FlowNode]) -> Dataflow:
    """Other nodes in the place of a graph's: arrows within one are left out, those between the same two are one."""
    found: dict[tuple[int, int], list[str]] = {}
    for a, b, label in flow.arrows:
        start, end = numbers[a], numbers[b]
        labels = found.setdefault((start, end), []) if start != end else []
        if label not in labels:
            labels.append(label)
    made = Dataflow(nodes, [Arrow(a, b, ", ".join(labels)) for (a, b), labels in found.items()], flow.title)
    _carry_backward(made)
    return made


def _carry_backward(flow: Dataflow) -> None:
    """What reads something of the way back belongs to it."""
    waiting = [i for i, node in enumerate(flow.nodes) if node.backward]
    readers: dict[int, list[int]] = {}
    for a, b, _ in flow.arrows:
        readers.setdefault(a, []).append(b)
    while waiting:
        for b in readers.get(waiting.pop(), ()):
            if not flow.nodes[b].backward:
                flow.nodes[b].backward = True
                waiting.append(b)


# --- kernels ------------------------------------------------------------------------------------------


def _clustered(flow: Dataflow, kernels: Mapping[int, str]) -> Dataflow:
    """The equations of each kernel within a node of its own."""
    first = _variables(flow)
    owners = _owners(flow, {first + number: name for number, name in kernels.items()})
    members: dict[str, list[int]] = {}
    for i, name in sorted(owners.items()):
        members.setdefault(name, []).append(i)
    nodes: list[FlowNode] = []
    numbers: dict[int, int] = {}
    for i, node in enumerate(flow.nodes):
        owner = owners.get(i)
        if owner is None or members[owner][0] == i:
            numbers[i] = len(nodes)
            nodes.append(node if owner is None else _kernel(flow, owner, members[owner]))
        else:
            numbers[i] = numbers[members[owner][0]]
    return _renumbered(flow, numbers, nodes)


def _variables(flow: Dataflow) -> int:
    """How many inputs and constants stand before the equations."""
    return sum(node.kind in ("input", "constant") for node in flow.nodes)


def _owners(flow: Dataflow, kernels: Mapping[int, str]) -> dict[int, str]:
    """The kernel of each node, those included that cost nothing and lie between equations of one kernel."""
    order = {name: i for i, name in enumerate(dict.fromkeys(kernels.values()))}
    after, before = [-1] * len(flow.nodes), [len(order)] * len(flow.nodes)
    for a, b, _ in sorted(flow.arrows, key=lambda arrow: arrow.start):
        after[b] = max(after[b], order[kernels[a]] if a in kernels else after[a])
    for a, b, _ in sorted(flow.arrows, key=lambda arrow: -arrow.end):
        before[a] = min(before[a], order[kernels[b]] if b in kernels else before[b])
    names = list(order)
    owners = dict(kernels)
    for i, node in enumerate(flow.nodes):
        if i not in kernels and node.equations and after[i] >= before[i]:
            owners[i] = names[before[i]]
    return owners


def _kernel(flow: Dataflow, name: str, members: Sequence[int]) -> FlowNode:
    inside = _part(flow, members)
    count = sum(node.equations for node in inside.nodes)
    told = f"kernel {name}: {count} equation{'s' if count != 1 else ''} in one pass"
    back = any(node.backward for node in inside.nodes)
    return FlowNode("kernel", [f"kernel {name}"], told, backward=back, inside=[inside], equations=count)


def _part(flow: Dataflow, members: Sequence[int]) -> Dataflow:
    """Some of the nodes, and the arrows between them."""
    places = {old: new for new, old in enumerate(members)}
    arrows = [Arrow(places[a], places[b], label) for a, b, label in flow.arrows if a in places and b in places]
    return Dataflow([flow.nodes[i] for i in members], arrows)


# --- equal steps, chains, bundles ------------------------------------------------------------------


def _with_steps(flow: Dataflow, runs: Sequence[RepeatedSteps]) -> Dataflow:
    """Each loop that Python has unrolled as one node, within which its second step stands for all."""
    first = _variables(flow)
    heads = {first + run.start: run for run in runs}
    nodes: list[FlowNode] = []
    numbers: dict[int, int] = {}
    for i, node in enumerate(flow.nodes):
        if i in numbers:
            continue
        run = heads.get(i)
        if run is not None:
            node = _steps(flow, run, first)
        numbers.update((j, len(nodes)) for j in (range(i, first + run.stop) if run else (i,)))
        nodes.append(node)
    return _renumbered(flow, numbers, nodes)


def _steps(flow: Dataflow, run: RepeatedSteps, first: int) -> FlowNode:
    members = flow.nodes[first + run.start : first + run.stop]
    begin = first + run.start + run.length
    inside = _part(flow, range(begin, begin + run.length))
    each = f"{run.length} equation{'s' if run.length != 1 else ''}"
    node = FlowNode("steps", [f"{run.steps} equal steps, {each} each"], "", inside=[inside])
    node.told = f"{node.rows[0]}: a loop that Python has unrolled; this is the second of them"
    node.line = "\n".join(dict.fromkeys(n.line for n in inside.nodes if n.line))
    node.backward = any(n.backward for n in members)
    node.equations = sum(n.equations for n in members)
    return node


def _with_chains(flow: Dataflow) -> Dataflow:
    """Each chain of equations of which one alone reads the one before, and it no other equation's, as one node."""
    for node in flow.nodes:
        if node.kind in ("kernel", "steps"):
            node.inside = [_with_chains(inner) for inner in node.inside]
    readers: dict[int, set[int]] = {}
    operands: dict[int, set[int]] = {}
    for a, b, _ in flow.arrows:
        readers.setdefault(a, set()).add(b)
        if flow.nodes[a].kind not in ("input", "constant"):
            operands.setdefault(b, set()).add(a)
    nodes: list[FlowNode] = []
    numbers: dict[int, int] = {}
    chains: list[list[FlowNode]] = []
    for i, node in enumerate(flow.nodes):
        (before,) = operands[i] if len(operands.get(i, ())) == 1 else (None,)
        if before is not None and len(readers[before]) == 1 and _are_alike(flow.nodes[before], node):
            numbers[i] = numbers[before]
            chains[numbers[i]].append(node)
            continue
        numbers[i] = len(nodes)
        nodes.append(node)
        chains.append([node])
    for i, chain in enumerate(chains):
        if len(chain) > 1:
            nodes[i] = _chain(chain)
    return _renumbered(flow, numbers, nodes)


_BUNDLED_FROM = 4


def _with_bundles(flow: Dataflow) -> Dataflow:
    """Inputs that the same nodes read, and results of the same node, as one node where there are many of a type."""
    ends: dict[int, set[int]] = {}
    for a, b, _ in flow.arrows:
        ends.setdefault(a, set()).add(b)
        ends.setdefault(b, set()).add(a)
    bundles: dict[object, list[int]] = {}
    for i, node in enumerate(flow.nodes):
        if node.kind in ("input", "constant", "output"):
            kind = node.rows[-1].rpartition(":")[2]
            bundles.setdefault((node.kind, kind, frozenset(ends.get(i, ()))), []).append(i)
    nodes: list[FlowNode] = []
    numbers: dict[int, int] = {}
    many = {i: numbered for numbered in bundles.values() if len(numbered) >= _BUNDLED_FROM for i in numbered}
    for i, node in enumerate(flow.nodes):
        together = many.get(i, [i])
        if together[0] == i:
            nodes.append(node if i not in many else _bundle([flow.nodes[j] for j in together]))
            numbers.update((j, len(nodes) - 1) for j in together)
    return _renumbered(flow, numbers, nodes)


def _bundle(nodes: Sequence[FlowNode]) -> FlowNode:
    first, last = (node.rows[0].rpartition(" ")[2] for node in (nodes[0], nodes[-1]))
    what = f"{nodes[0].kind}s" if nodes[0].kind != "output" else "results"
    kind = nodes[0].rows[-1].rpartition(":")[2]
    told = "\n".join(node.told for node in nodes)
    return FlowNode(nodes[0].kind, [f"{len(nodes)} {what} {first} … {last}", kind], told, backward=nodes[0].backward)


def _are_alike(a: FlowNode, b: FlowNode) -> bool:
    return a.kind == b.kind == "equation" and a.backward == b.backward


def _chain(chain: Sequence[FlowNode]) -> FlowNode:
    rows = [node.rows[0] for node in chain]
    if len(rows) > _ROWS:
        rows = [*rows[: _ROWS // 2], f"… {len(rows) - _ROWS + 1} more", *rows[len(rows) - _ROWS // 2 + 1 :]]
    rows.append(chain[-1].rows[1])
    lines = list(dict.fromkeys(node.line for node in chain if node.line))
    told = "\n".join(node.told for node in chain)
    return FlowNode("chain", rows, told, "\n".join(lines), chain[0].backward, equations=len(chain))


def counts_of_nodes(flow: Dataflow) -> dict[str, Any]:
    """How many equations and nodes there are, for a heading."""
    return {
        "equations": sum(node.equations for node in flow.nodes),
        "nodes": len(flow.nodes),
        "backward": any(n.backward for n in flow.nodes) and any(not n.backward for n in flow.nodes),
    }
