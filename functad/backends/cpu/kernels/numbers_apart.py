"""Which numbers in the text of a kernel may as well be given to it, so that kernels that differ in them are one.

Only knows the text. Numbers that count and place: in indices, in the bounds of loops, in what is computed from these.
What decides how a loop becomes vectors stays in the text: divisors, steps, how far apart the elements of an innermost
loop lie, and how many these are unless they are many. Around matrix products, and two loops or more, divisors are
given, too, which take no time beside those; and in kernels of products how many elements are set without reading any.
A loop that copies elements that lie far apart is no vector: all its numbers may be given.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from functad import machine_model
from functad.backends.cpu.scalars.copies import clear, strided_copy

_NUMBER = re.compile(r"\b\d+\b")
# Not shifts and masks, by which the text hides from LLVM how many steps there are, but not that they are whole vectors.
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)
_COPIES = {clear.__name__, strided_copy.__name__}
_OF_NUMBERS = {"range", "min", "max", "minimum", "maximum"}


def numbers_of(body: str) -> list[str]:
    """All numbers in a text, in order."""
    return _NUMBER.findall(body)


def numbers_apart(body: str) -> dict[int, int]:
    """Which numbers in a text, counted from its first, may be given to the kernel, and from which value on they may."""
    tree = ast.parse("while True:\n" + "\n".join(f" {line}" for line in body.split("\n"))).body[0]
    assert isinstance(tree, ast.While)
    finder = _Finder()
    finder.statements(tree.body)
    places = [
        (line, found.start())
        for line, text in enumerate(body.split("\n"))
        for found in _NUMBER.finditer(text)
    ]  # fmt: skip
    return {k: finder.found[place] for k, place in enumerate(places) if place in finder.found}


def with_names(body: str, names: Mapping[int, str]) -> str:
    """The text with names in the place of numbers."""
    position = count()
    return _NUMBER.sub(lambda number: names.get(next(position), number.group()), body)


class _Finder:
    """Goes over statements. found: lines and columns, and the least value. words: the variables that count or place."""

    def __init__(self) -> None:
        self.found: dict[tuple[int, int], int] = {}
        self.words = {"start", "stop"}
        self.has_products = self.is_far = False
        self.is_around = False  # whether what is looked at stands in a loop around a product or two loops

    def statements(self, nodes: Sequence[ast.stmt], innermost: str = "") -> None:
        for node in nodes:
            if isinstance(node, ast.For):
                self.loop(node)
                continue
            if isinstance(node, (ast.Assign, ast.AugAssign)):
                self.assignment(node, innermost)
            for subscript in _subscripts(node):
                self.index(subscript.slice, innermost)
            if isinstance(node, (ast.If, ast.While)):
                self.comparison(node.test, innermost)
                self.statements(node.body, innermost)
                self.statements(node.orelse, innermost)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                self.product(node.value)

    def loop(self, node: ast.For) -> None:
        if not (isinstance(node.iter, ast.Call) and isinstance(node.target, ast.Name)):
            return
        inside = list(statements_inside(node))
        is_innermost = not any(isinstance(inner, (ast.For, ast.While)) for inner in inside)
        self.is_far = is_innermost and _is_far_copy(node, node.target.id)
        has_product = any(isinstance(inner, ast.Expr) and _is_product(inner.value) for inner in inside)
        self.has_products |= has_product
        is_short = self.is_far or is_innermost and self.has_products and not _reads(inside)
        least = 0 if is_short else machine_model.MANY_STEPS
        was_around, self.is_around = self.is_around, has_product or _holds_nest(inside)
        for bound in node.iter.args[:2]:
            if not is_innermost or has_product:
                self.index(bound, "")
            elif isinstance(bound, ast.Constant):
                self.index(bound, "", least)
        self.words.add(node.target.id)
        self.statements(node.body, node.target.id if is_innermost and not has_product else "")
        self.is_around = was_around

    def assignment(self, node: ast.Assign | ast.AugAssign, innermost: str) -> None:
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if isinstance(target, ast.Name) and self.is_index(node.value):
            self.words.add(target.id)
            self.index(node.value, innermost)
        elif isinstance(target, (ast.Name, ast.Tuple)):
            self.words.difference_update(name.id for name in ast.walk(target) if isinstance(name, ast.Name))
        elif self.has_products and self.is_index(node.value):
            self.index(node.value, "")

    def comparison(self, test: ast.expr, innermost: str) -> None:
        for node in ast.walk(test):
            if isinstance(node, ast.Compare) and all(map(self.is_index, (node.left, *node.comparators))):
                for side in (node.left, *node.comparators):
                    self.index(side, innermost)

    def product(self, call: ast.Call) -> None:
        if _is_product(call):
            for argument in call.args:
                if self.is_index(argument):
                    self.index(argument, "")

    def is_index(self, node: ast.expr) -> bool:
        """Whether a value is computed from numbers and words alone."""
        return all(
            isinstance(part, (ast.operator, ast.unaryop, ast.BinOp, ast.UnaryOp, ast.Call, ast.Load))
            or isinstance(part, ast.Constant)
            and type(part.value) is int
            or isinstance(part, ast.Name)
            and (part.id in self.words or part.id in _OF_NUMBERS)
            for part in ast.walk(node)
        )

    def index(self, node: ast.expr, innermost: str, least: int = 0) -> None:
        """Find the numbers of what places an element."""
        if isinstance(node, ast.Constant) and type(node.value) is int:
            self.found[node.lineno - 2, node.col_offset - 1] = least
        elif isinstance(node, ast.UnaryOp):
            self.index(node.operand, innermost)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, _OPERATORS):
            if _is_multiple(node, innermost):
                for side in (node.left, node.right) if self.is_far else ():
                    self.index(side, "", machine_model.MOST_INTERLEAVED + 1)
            else:
                self.index(node.left, innermost)
                if self.is_around or isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
                    self.index(node.right, innermost)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in _OF_NUMBERS:
            for argument in node.args:
                self.index(argument, innermost)


def _is_product(node: ast.AST) -> bool:
    """Whether this calls a function that takes long beside what its arguments take: a product, or a copy."""
    name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    return name.startswith("gemm_") or name in _COPIES


def statements_inside(node: ast.stmt) -> Iterator[ast.stmt]:
    """The statements in a statement, and in those."""
    for inner in (*getattr(node, "body", ()), *getattr(node, "orelse", ())):
        yield inner
        yield from statements_inside(inner)


def _holds_nest(inside: Sequence[ast.stmt]) -> bool:
    """Whether there is a loop with a loop in it: beside its elements a division is little."""
    loops = [node for node in inside if isinstance(node, ast.For)]
    return any(isinstance(inner, ast.For) for node in loops for inner in statements_inside(node))


def _is_far_copy(node: ast.For, name: str) -> bool:
    """Whether a loop only copies elements, to or from places further apart than vectors help with."""
    if len(node.body) != 1 or not isinstance(node.body[0], ast.Assign):
        return False
    (target, *others), value = node.body[0].targets, node.body[0].value
    return (
        not others
        and isinstance(target, ast.Subscript)
        and isinstance(value, ast.Subscript)
        and any(_is_multiple(part, name, machine_model.MOST_INTERLEAVED + 1) for part in ast.walk(node.body[0]))
    )


def _is_multiple(node: ast.AST, name: str, least: int = 0) -> bool:
    """Whether this is a variable times something else, which is a number that is no less if there is a least one."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)):
        return False
    sides = {getattr(side, "id", None): other for side, other in ((node.left, node.right), (node.right, node.left))}
    factor = getattr(sides.get(name), "value", None)
    return name in sides and (not least or type(factor) is int and factor >= least)


def _reads(statements: Sequence[ast.stmt]) -> bool:
    return any(
        isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)
        for statement in statements
        for node in ast.walk(statement)
    )


def _subscripts(node: ast.stmt) -> Iterator[ast.Subscript]:
    """The elements in a statement, but not in the statements in it."""
    parts = [node.test] if isinstance(node, (ast.If, ast.While)) else [node]
    return (inner for part in parts for inner in ast.walk(part) if isinstance(inner, ast.Subscript))
