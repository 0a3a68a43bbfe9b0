"""From the text of a kernel to LLVM IR in one go: statement by statement, each value with its type as Numba gives it.

Numba's own front end goes by bytecode, finds the types of all variables at once and rewrites: six times the work. What
kernels seldom have (a variable of two types, a tuple that is no function's result, other ranges) raises `NotSimple`,
and is Numba's. What an operation is, in types and instructions, is asked of Numba's tables (`contexts`); this file must
not know, nor what is computed.
"""

from __future__ import annotations

import ast
import builtins
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.callconv import RETCODE_OK

from functad import machine_model
from functad.backends.cpu.compile.masked_loops import Loop, end_loop, is_wide
from functad.backends.cpu.kernels.numbers_apart import statements_inside
from functad.records import NamedTuple

_WORD = ir.IntType(64)
_DONE = ir.Constant(ir.IntType(32), RETCODE_OK.constant)
_OPERATORS: dict[type[ast.AST], Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne, ast.USub: operator.neg, ast.Invert: operator.invert, ast.Not: operator.not_,
}  # fmt: skip


Locate = Callable[[int], ir.DIValue]


class NotSimple(Exception):
    """The kernel has something that only Numba's own front end translates."""


class Value(NamedTuple):
    """A number or pointer: its Numba type, and what it is in LLVM."""

    type: types.Type
    value: ir.Value


class _Operation(NamedTuple):
    """What Numba says of a function for arguments of the given types."""

    found: Any
    code: Any  # what writes its instructions, for any target
    given: tuple[types.Type, ...]  # kept, so that no other type has the identity of one of them


# What all kernels of a process have in common.
_constants: dict[tuple[type, Any], Value] = {}
_operations: dict[tuple[Any, ...], _Operation] = {}


def _remember(memo: dict[Any, Any], key: object, value: Any) -> Any:
    if len(memo) >= machine_model.MOST_REMEMBERED:
        memo.clear()
    memo[key] = value
    return value


class KernelTranslation:
    """Writes one function into a basic block of its own.

    Args:
        target: Numba's target: what operations are in instructions.
        names: what the names mean that are not the function's own.
        locate: what instructions bear that come from a line of the text; None if they bear nothing.
    """

    def __init__(
        self, target: Any, names: Mapping[str, Any], node: ast.FunctionDef, locate: Locate | None = None
    ) -> None:
        self.target, self.typing = target, target.typing_context
        self.names, self.node, self.locate = names, node, locate
        self.usage = _Usage(node)
        self.values: dict[str, Value] = {}
        self.places: dict[str, Value] = {}  # of the variables that are set more than once: where they lie
        self.loops: list[tuple[ir.Block, ir.Block]] = []  # where `continue` and `break` go
        self.has_wide_loop = False
        self.only_calls = (
            True  # no element of an array is read or written, nor by loops that stand in the place of a call
        )

    def write(self, function: ir.Function, arguments: Sequence[types.Type]) -> None:
        """Write the body of a function of Numba's kind that is given these arguments and returns nothing."""
        entry = function.append_basic_block("entry")
        self.builder = ir.IRBuilder(function.append_basic_block("body"))
        self.builder.debug_metadata = None if self.locate is None else self.locate(self.node.lineno)
        for parameter, kind, value in zip(self.node.args.args, arguments, function.args[2:]):
            self.set(parameter.arg, Value(kind, value))
        self.statements(self.node.body)
        if not self.builder.block.is_terminated:
            self.builder.ret(_DONE)
        start = ir.IRBuilder(entry)
        start.debug_metadata = None if self.locate is None else self.locate(self.node.lineno)
        start.branch(function.blocks[1])

    # --- statements --------------------------------------------------------------------------------------

    def statements(self, nodes: Sequence[ast.stmt]) -> None:
        for node in nodes:
            if self.builder.block.is_terminated:
                return  # what follows is never reached
            method = _METHODS.get(type(node))
            if method is None:
                raise NotSimple(type(node).__name__)
            if self.locate is None:
                method(self, node)
                continue
            outer, self.builder.debug_metadata = self.builder.debug_metadata, self.locate(node.lineno)
            method(self, node)
            self.builder.debug_metadata = outer

    def do_Assign(self, node: ast.Assign) -> None:
        if len(node.targets) != 1:
            raise NotSimple("two targets")
        (target,) = node.targets
        if isinstance(target, ast.Name):
            self.set(target.id, self.value(node.value))
        elif isinstance(target, ast.Subscript):
            value = self.value(node.value)
            self.call(operator.setitem, [*self.element(target), value])
        elif isinstance(target, ast.Tuple) and len(_names(target)) == len(target.elts):
            self.set_all(_names(target), self.value(node.value))
        else:
            raise NotSimple(type(target).__name__)

    def do_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self.set(node.target.id, self.operation(node.op, self.of_Name(node.target), self.value(node.value)))
        elif isinstance(node.target, ast.Subscript):
            element = self.element(node.target)
            new = self.operation(node.op, self.call(operator.getitem, element), self.value(node.value))
            self.call(operator.setitem, [*element, new])
        else:
            raise NotSimple("an attribute")

    def do_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.value(node.value)

    def do_Pass(self, node: ast.Pass) -> None:
        pass

    def do_Return(self, node: ast.Return) -> None:
        if node.value is not None:
            raise NotSimple("a result")
        self.builder.ret(_DONE)

    def do_Break(self, node: ast.Break) -> None:
        self.builder.branch(self.loops[-1][1])

    def do_Continue(self, node: ast.Continue) -> None:
        self.builder.branch(self.loops[-1][0])

    def do_If(self, node: ast.If) -> None:
        then, after = self.block("then"), self.block("after")
        otherwise = self.block("else") if node.orelse else after
        self.branch(node.test, then, otherwise)
        for block, body in ((then, node.body), (otherwise, node.orelse)):
            if body:
                self.builder.position_at_end(block)
                self.statements(body)
                if not self.builder.block.is_terminated:
                    self.builder.branch(after)
        self.builder.position_at_end(after)

    def do_While(self, node: ast.While) -> None:
        head, body, after = self.block("while"), self.block("do"), self.block("after")
        self.builder.branch(head)
        self.builder.position_at_end(head)
        self.branch(node.test, body, after)
        self.builder.position_at_end(body)
        self.repeated(node, head, after)
        if not self.builder.block.is_terminated:
            self.builder.branch(head)
        self.builder.position_at_end(after)

    def do_For(self, node: ast.For) -> None:
        first, last, step = self.bounds(node)
        assert isinstance(node.target, ast.Name)
        low, high = (getattr(bound.type, "literal_value", None) for bound in (first, last))
        steps = None if low is None or high is None else len(range(low, high, step))
        if steps == 1:
            self.once(node, node.target.id, first)
            return
        start, stop = (self.cast(bound, types.int64) for bound in (first, last))
        count = stop if low == 0 else self.builder.sub(stop, start)
        if step > 1:
            count = self.builder.sdiv(self.builder.add(count, ir.Constant(_WORD, step - 1)), ir.Constant(_WORD, step))
        before = self.builder.block
        head, body, following, after = (self.block(name) for name in ("for", "do", "next", "after"))
        self.builder.branch(head)
        self.builder.position_at_end(head)
        number, left = (self.builder.phi(_WORD) for _ in range(2))
        # How many are left, so that LLVM sees that `range(i, i + 8)` are 8.
        self.builder.cbranch(self.builder.icmp_signed(">", left, ir.Constant(_WORD, 0)), body, after)
        self.builder.position_at_end(body)
        self.set(node.target.id, Value(types.int64, number))
        self.repeated(node, following, after)
        end = self.builder.block
        if not end.is_terminated:
            self.builder.branch(following)
        self.builder.position_at_end(following)
        for phi, initial, change, flags in ((number, start, step, ()), (left, count, -1, ("nsw",))):
            phi.add_incoming(initial, before)
            phi.add_incoming(self.builder.add(phi, ir.Constant(_WORD, change), flags=flags), following)
        loop = Loop(head, end, number, steps, is_inner=bool(self.loops))
        end_loop(self.builder, loop)
        self.has_wide_loop |= is_wide(self.builder.function, loop)
        self.builder.position_at_end(after)

    def once(self, node: ast.For, name: str, number: Value) -> None:
        """A loop with one step, which LLVM would look at as one in all its passes."""
        self.set(name, number)
        if (
            not any(isinstance(inner, (ast.Break, ast.Continue)) for inner in statements_inside(node))
            and not node.orelse
        ):
            self.statements(node.body)
            return
        after = self.block("after")
        self.repeated(node, after, after)
        if not self.builder.block.is_terminated:
            self.builder.branch(after)
        self.builder.position_at_end(after)

    def repeated(self, node: ast.For | ast.While, following: ir.Block, after: ir.Block) -> None:
        if node.orelse:
            raise NotSimple("else")
        self.loops.append((following, after))
        self.statements(node.body)
        self.loops.pop()

    def bounds(self, node: ast.For) -> tuple[Value, Value, int]:
        """Where a `range` of int64 starts and stops, and its step, if it counts upwards."""
        call = node.iter
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and isinstance(node.target, ast.Name)):
            raise NotSimple("no range")
        if self.function(call.func.id) is not range or call.keywords:
            raise NotSimple("no range")
        given = [self.value(argument) for argument in call.args]
        step = getattr(given[2].type, "literal_value", 0) if len(given) == 3 else 1
        if step <= 0 or any(types.unliteral(bound.type) != types.int64 for bound in given):
            raise NotSimple("another range")
        return (self.constant(0), given[0], step) if len(given) == 1 else (given[0], given[1], step)

    def branch(self, test: ast.expr, then: ir.Block, otherwise: ir.Block) -> None:
        """Go to one block or the other; `and` and `or` look at no more than they must."""
        if isinstance(test, ast.BoolOp):
            for part in test.values[:-1]:
                following = self.block("next")
                if isinstance(test.op, ast.And):
                    self.branch(part, following, otherwise)
                else:
                    self.branch(part, then, following)
                self.builder.position_at_end(following)
            self.branch(test.values[-1], then, otherwise)
        elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self.branch(test.operand, otherwise, then)
        elif isinstance(test, ast.Constant) and test.value is True:
            self.builder.branch(then)
        else:
            self.builder.cbranch(self.truth(test), then, otherwise)

    def truth(self, test: ast.expr) -> ir.Value:
        found = self.value(test)
        if found.type != types.boolean:
            raise NotSimple("a number as a condition")
        return found.value

    # --- expressions -------------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Value:
        method = _METHODS.get(type(node))
        if method is None:
            raise NotSimple(type(node).__name__)
        found: Value = method(self, node)
        return found

    def of_Constant(self, node: ast.Constant) -> Value:
        return self.constant(node.value)

    def constant(self, value: object) -> Value:
        if type(value) not in (bool, int, float):
            raise NotSimple("another constant")
        key = (type(value), repr(value) if type(value) is float else value)  # which tells zeros apart
        if key not in _constants:
            kind = types.maybe_literal(value) or self.typing.resolve_value_type(value)
            _remember(_constants, key, Value(kind, self.target.get_constant(types.unliteral(kind), value)))
        return _constants[key]

    def of_Name(self, node: ast.Name) -> Value:
        if node.id in self.values:
            return self.values[node.id]
        if node.id in self.places:
            kind, place = self.places[node.id]
            return Value(kind, self.builder.load(place))
        if node.id in self.usage.own or node.id not in self.names:
            raise NotSimple("a name that is set later")
        return self.constant(self.names[node.id])

    def of_BinOp(self, node: ast.BinOp) -> Value:
        return self.operation(node.op, self.value(node.left), self.value(node.right))

    def of_Compare(self, node: ast.Compare) -> Value:
        if len(node.ops) != 1:
            raise NotSimple("a chain of comparisons")
        return self.operation(node.ops[0], self.value(node.left), self.value(node.comparators[0]))

    def of_UnaryOp(self, node: ast.UnaryOp) -> Value:
        number: Any = getattr(node.operand, "value", None)
        if isinstance(node.op, ast.USub) and type(number) in (int, float):
            return self.constant(-number)
        return self.operation(node.op, self.value(node.operand))

    def operation(self, kind: ast.AST, *operands: Value) -> Value:
        if type(kind) not in _OPERATORS:
            raise NotSimple(type(kind).__name__)
        known = _known(kind, operands)
        if known is not None:
            return known if isinstance(known, Value) else self.constant(known)
        plain = [Value(types.unliteral(operand.type), operand.value) for operand in operands]
        return self.call(_OPERATORS[type(kind)], plain)

    def of_IfExp(self, node: ast.IfExp) -> Value:
        then, otherwise, after = self.block("then"), self.block("else"), self.block("after")
        self.branch(node.test, then, otherwise)
        found = []
        for block, expression in ((then, node.body), (otherwise, node.orelse)):
            self.builder.position_at_end(block)
            kind, value = self.value(expression)
            found.append((types.unliteral(kind), value, self.builder.block))
            self.builder.branch(after)
        self.builder.position_at_end(after)
        kind = found[0][0]
        if found[1][0] != kind:
            raise NotSimple("a value of two types")
        phi = self.builder.phi(found[0][1].type)
        for _, value, block in found:
            phi.add_incoming(value, block)
        return Value(kind, phi)

    def of_Subscript(self, node: ast.Subscript) -> Value:
        return self.call(operator.getitem, self.element(node))

    def element(self, node: ast.Subscript) -> list[Value]:
        self.only_calls = False
        pointer, index = self.value(node.value), self.value(node.slice)
        plain = types.unliteral(index.type)
        if isinstance(pointer.type, types.BaseTuple) or not isinstance(plain, types.Integer):
            raise NotSimple("no element of an array")
        return [pointer, Value(plain, index.value)]

    def of_Attribute(self, node: ast.Attribute) -> Value:
        kind, value = self.value(node.value)
        wanted = self.typing.resolve_getattr(kind, node.attr) if isinstance(kind, types.Number) else None
        if wanted is None:
            raise NotSimple("another attribute")
        found = self.target.get_getattr(kind, node.attr)
        return Value(wanted, found(self.target, self.builder, kind, value, node.attr))

    def of_Call(self, node: ast.Call) -> Value:
        if not isinstance(node.func, ast.Name) or node.keywords:
            raise NotSimple("another call")
        function = self.function(node.func.id)
        self.only_calls &= not getattr(function, "is_loop", False)
        return self.call(function, [self.value(argument) for argument in node.args])

    def function(self, name: str) -> Any:
        found = self.names.get(name, getattr(builtins, name, None))
        if not callable(found) or name in self.usage.own:
            raise NotSimple("another call")
        return found

    def call(self, function: Any, arguments: Sequence[Value]) -> Value:
        """The result of an operation, which Numba finds by the types of its arguments."""
        # Numba's types are the same objects where they are equal; to compare them takes longer.
        key = (function, *[id(argument.type) for argument in arguments])
        known = _operations.get(key)
        if known is None:
            kind = self.typing.resolve_value_type(function)
            given = tuple(argument.type for argument in arguments)
            found = self.typing.resolve_function_type(kind, given, {})
            if found is None or found.recvr is not None or len(found.args) != len(arguments):
                raise NotSimple("an operation that is not declared")
            code = self.target.get_function(kind, found).of(None)
            known = _remember(_operations, key, _Operation(found, code, given))
        values = [
            argument.value if argument.type is wanted else self.cast(argument, wanted)
            for argument, wanted in zip(arguments, known.found.args)
        ]
        return Value(known.found.return_type, known.code.write(self.target, self.builder, values))

    def cast(self, given: Value, wanted: types.Type) -> ir.Value:
        if types.unliteral(given.type) == wanted:
            return given.value
        return self.target.cast(self.builder, given.value, given.type, wanted)

    # --- variables ---------------------------------------------------------------------------------------

    def set(self, name: str, given: Value) -> None:
        if not self.usage.is_set_again(name):
            self.values[name] = given
            return
        kind = types.unliteral(given.type)
        if name not in self.places:
            self.places[name] = Value(kind, self.place(name, given.value.type))
        if self.places[name].type != kind:
            raise NotSimple("a variable of two types")
        self.builder.store(given.value, self.places[name].value)

    def set_all(self, names: Sequence[str], given: Value) -> None:
        """Several results of one function, each with a name."""
        kinds: Any = given.type if isinstance(given.type, types.BaseTuple) else ()
        if len(kinds) != len(names):
            raise NotSimple("no tuple of so many")
        for k, (name, kind) in enumerate(zip(names, kinds)):
            self.set(name, Value(kind, self.builder.extract_value(given.value, k)))

    def place(self, name: str, kind: ir.Type) -> ir.Value:
        with self.builder.goto_entry_block():
            return self.builder.alloca(kind, name=name)

    def block(self, name: str) -> ir.Block:
        return self.builder.append_basic_block(name)


# What translates statements and expressions, by their types.
_METHODS: dict[type[ast.AST], Callable[[KernelTranslation, Any], Any]] = {
    getattr(ast, name[3:]): method
    for name, method in vars(KernelTranslation).items()
    if name.startswith(("do_", "of_"))
}


def _known(kind: ast.AST, operands: Sequence[Value]) -> int | Value | None:
    """A sum, difference or product of integers that needs no instruction, if it is known or one of the operands."""
    if type(kind) not in (ast.Add, ast.Sub, ast.Mult):
        return None
    for operand in operands:
        if types.unliteral(operand.type) is not types.int64:
            return None
    left, right = (getattr(operand.type, "literal_value", None) for operand in operands)
    if left is not None and right is not None:
        result: int = _OPERATORS[type(kind)](left, right)
        return result if -(1 << 63) <= result < 1 << 63 else None
    neutral = 1 if isinstance(kind, ast.Mult) else 0
    if right == neutral:
        return operands[0]
    return operands[1] if left == neutral and not isinstance(kind, ast.Sub) else None


class _Usage:
    """The variables of a function, and which of them are no single value: set twice, or read where that may not be."""

    def __init__(self, node: ast.FunctionDef) -> None:
        self.own: set[str] = {parameter.arg for parameter in node.args.args}
        self._again: set[str] = set()
        self._seen = set(self.own)  # those set by what runs before
        self._body(node.body)

    def is_set_again(self, name: str) -> bool:
        return name in self._again

    def _body(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            self._reads(statement)
            for name in _targets(statement):
                if name in self.own:
                    self._again.add(name)
                self.own.add(name)
                self._seen.add(name)
            for inner in (getattr(statement, "body", ()), getattr(statement, "orelse", ())):
                if inner:
                    before = set(self._seen)
                    self._body(inner)
                    self._seen = before
            if isinstance(statement, ast.For):
                self._seen.difference_update(_targets(statement))

    def _reads(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.AugAssign):
            self._again.update(_targets(statement))
        for node in _own_expressions(statement):
            self._again.update(_read(node).difference(self._seen))  # or not variables at all


def _read(node: ast.AST) -> set[str]:
    """The names that are read. With `ast.walk` all of `_Usage` would take twice as long."""
    names, pending = set(), [node]
    for node in pending:
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                names.add(node.id)
            continue
        for inner in vars(node).values():
            if isinstance(inner, ast.AST):
                pending.append(inner)
            elif type(inner) is list:
                pending += [part for part in inner if isinstance(part, ast.AST)]
    return names


def _targets(statement: ast.stmt) -> list[str]:
    targets = getattr(statement, "targets", [getattr(statement, "target", None)])
    return [name for target in targets for name in _names(target)]


def _names(target: ast.AST | None) -> list[str]:
    """The variables that an assignment to a target sets."""
    inner = target.elts if isinstance(target, ast.Tuple) else [target]
    return [node.id for node in inner if isinstance(node, ast.Name)]


def _own_expressions(statement: ast.stmt) -> list[ast.AST]:
    """The expressions of a statement, but not of the statements in it."""
    if isinstance(statement, ast.For):
        return [statement.iter]
    if isinstance(statement, (ast.If, ast.While)):
        return [statement.test]
    return [statement]
