"""A small compiler from Python text to LLVM: functions of 64-bit words, for the runtime, without Numba's start-up time.

It must not know what the functions do. Its language: all values are words, which serve as integers and addresses;
`p[i]` is the i-th word at address p; assignments, `if`, `while`, `for … in range(…)`, `return`, calls of the functions
of the same module and of the intrinsics defined at the end of this file.
"""

from __future__ import annotations

import ast
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from functad.backends.cpu.compile.loader import PREFIX, emitted, run_passes, target_machine

_WORD = ir.IntType(64)
_INT = ir.IntType(32)
_VOID = ir.VoidType()


def compile_words(source: str, names: Mapping[str, Any], exports: Iterable[str]) -> bytes:
    """Compile all functions of a module's text into one object file.

    Args:
        source: the text of the module. A function annotated `-> None` is a C function without result.
        names: what its global names mean: integers, or modules that hold integers.
        exports: the functions that the object file shall export, as C functions of int64.
    """
    definitions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    module = ir.Module()
    for node in definitions:
        returns = _VOID if isinstance(node.returns, ast.Constant) else _WORD
        function = ir.Function(module, ir.FunctionType(returns, [_WORD] * len(node.args.args)), PREFIX + node.name)
        if node.name not in exports:
            function.linkage = "internal"
    for node in definitions:
        _Translation(module.globals[PREFIX + node.name], node, names).run()
    machine = target_machine(effort=0)
    parsed = llvm.parse_assembly(str(module))
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    # Variables are kept in registers, and that is all: these functions leave the work to others, ran no faster after
    # all of LLVM's passes, nor with instructions chosen at length (six times the time), and the very first call waits.
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    run_passes(passes, parsed, builder)
    return emitted(machine, parsed)


class _Translation:
    """One function: a Python variable becomes a word on the stack, which LLVM then keeps in a register."""

    def __init__(self, function: ir.Function, node: ast.FunctionDef, names: Mapping[str, Any]) -> None:
        self.function = function
        self.node = node
        self.names = names
        self.entry = function.append_basic_block("entry")
        self.builder = ir.IRBuilder(function.append_basic_block("body"))
        self.variables: dict[str, ir.Value] = {}

    def run(self) -> None:
        for parameter, value in zip(self.node.args.args, self.function.args):
            self.builder.store(value, self.variable(parameter.arg))
        self.statements(self.node.body)
        if not self.builder.block.is_terminated:
            if self.function.function_type.return_type == _VOID:
                self.builder.ret_void()
            else:
                self.builder.unreachable()
        ir.IRBuilder(self.entry).branch(self.function.blocks[1])

    def variable(self, name: str) -> ir.Value:
        if name not in self.variables:
            self.variables[name] = ir.IRBuilder(self.entry).alloca(_WORD, name=name)
        return self.variables[name]

    def statements(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            getattr(self, "do_" + type(statement).__name__)(statement)

    def do_Expr(self, statement: ast.Expr) -> None:
        if isinstance(statement.value, ast.Call):
            self.call(statement.value)

    def do_Assign(self, statement: ast.Assign) -> None:
        self.assign(statement.targets[0], self.word(statement.value))

    def do_AugAssign(self, statement: ast.AugAssign) -> None:
        old = ast.parse(ast.unparse(statement.target), mode="eval").body
        self.assign(statement.target, self.binary(statement.op, self.word(old), self.word(statement.value)))

    def assign(self, target: ast.expr, value: ir.Value) -> None:
        if isinstance(target, ast.Subscript):
            self.builder.store(value, self.place(self.word(target.value), self.word(target.slice)))
        else:
            assert isinstance(target, ast.Name)
            self.builder.store(value, self.variable(target.id))

    def do_Return(self, statement: ast.Return) -> None:
        if statement.value is None:
            self.builder.ret_void()
        else:
            self.builder.ret(self.word(statement.value))

    def do_If(self, statement: ast.If) -> None:
        with self.builder.if_else(self.truth(statement.test)) as (then, otherwise):
            with then:
                self.statements(statement.body)
            with otherwise:
                self.statements(statement.orelse)

    def do_While(self, statement: ast.While) -> None:
        self.loop(lambda: self.truth(statement.test), lambda: self.statements(statement.body))

    def do_For(self, statement: ast.For) -> None:
        assert isinstance(statement.iter, ast.Call) and isinstance(statement.target, ast.Name)
        end = self.word(statement.iter.args[0])
        counter = self.variable(statement.target.id)
        self.builder.store(_constant(0), counter)

        def body() -> None:
            self.statements(statement.body)
            self.builder.store(self.builder.add(self.builder.load(counter), _constant(1)), counter)

        self.loop(lambda: self.builder.icmp_signed("<", self.builder.load(counter), end), body)

    def loop(self, test: Callable[[], ir.Value], body: Callable[[], None]) -> None:
        head, inside, after = (self.function.append_basic_block() for _ in range(3))
        self.builder.branch(head)
        self.builder.position_at_end(head)
        self.builder.cbranch(test(), inside, after)
        self.builder.position_at_end(inside)
        body()
        self.builder.branch(head)
        self.builder.position_at_end(after)

    def truth(self, test: ast.expr) -> ir.Value:
        if isinstance(test, ast.BoolOp):
            return self.both_or_either(test)
        assert isinstance(test, ast.Compare)
        operator = _COMPARISONS[type(test.ops[0])]
        return self.builder.icmp_signed(operator, self.word(test.left), self.word(test.comparators[0]))

    def both_or_either(self, test: ast.BoolOp) -> ir.Value:
        # As in Python, an operand is only looked at when those before it leave the answer open.
        left = self.truth(test.values[0])
        for operand in test.values[1:]:
            before = self.builder.block
            more, after = (self.function.append_basic_block() for _ in range(2))
            self.builder.cbranch(left, *((more, after) if isinstance(test.op, ast.And) else (after, more)))
            self.builder.position_at_end(more)
            right = self.truth(operand)
            end_of_more = self.builder.block
            self.builder.branch(after)
            self.builder.position_at_end(after)
            answer = self.builder.phi(left.type)
            answer.add_incoming(left, before)
            answer.add_incoming(right, end_of_more)
            left = answer
        return left

    def word(self, node: ast.expr) -> ir.Value:
        return getattr(self, "word_" + type(node).__name__)(node)

    def word_Constant(self, node: ast.Constant) -> ir.Value:
        assert isinstance(node.value, int)
        return _constant(node.value)

    def word_UnaryOp(self, node: ast.UnaryOp) -> ir.Value:
        assert isinstance(node.op, ast.USub)
        return self.builder.neg(self.word(node.operand))

    def word_Name(self, node: ast.Name) -> ir.Value:
        if node.id in self.variables:
            return self.builder.load(self.variables[node.id])
        return _constant(self.names[node.id])

    def word_Attribute(self, node: ast.Attribute) -> ir.Value:
        assert isinstance(node.value, ast.Name)
        return _constant(getattr(self.names[node.value.id], node.attr))

    def word_BinOp(self, node: ast.BinOp) -> ir.Value:
        return self.binary(node.op, self.word(node.left), self.word(node.right))

    def binary(self, operator: ast.operator, left: ir.Value, right: ir.Value) -> ir.Value:
        return getattr(self.builder, _OPERATORS[type(operator)])(left, right)

    def word_IfExp(self, node: ast.IfExp) -> ir.Value:
        return self.builder.select(self.truth(node.test), self.word(node.body), self.word(node.orelse))

    def word_Subscript(self, node: ast.Subscript) -> ir.Value:
        return self.builder.load(self.place(self.word(node.value), self.word(node.slice)))

    def word_Call(self, node: ast.Call) -> ir.Value:
        return self.call(node)

    def call(self, node: ast.Call) -> ir.Value:
        assert isinstance(node.func, ast.Name)
        name = node.func.id
        if name in C_FUNCTIONS:
            return self.call_c(*C_FUNCTIONS[name], [self.word(a) for a in node.args])
        sibling = self.function.module.globals.get(PREFIX + name)
        if sibling is not None:
            return self.builder.call(sibling, [self.word(a) for a in node.args])
        return INTRINSICS[name](self, *(self.word(a) for a in node.args))

    def call_c(self, result: str, parameters: str, words: Sequence[ir.Value]) -> ir.Value:
        """Call the C function at address `words[0]`; the letters are explained at `C_FUNCTIONS`."""
        types = [_C_TYPES[letter] for letter in parameters]
        address = self.builder.inttoptr(words[0], ir.FunctionType(_C_TYPES[result], types).as_pointer())
        arguments = []
        for word, wanted in zip(words[1:], types):
            if wanted == _INT:
                word = self.builder.trunc(word, _INT)
            elif wanted != _WORD:
                word = self.builder.load(self.builder.inttoptr(word, wanted.as_pointer()))
            arguments.append(word)
        value = self.builder.call(address, arguments)
        return self.builder.sext(value, _WORD) if result == "i" else value

    def place(self, address: ir.Value, index: ir.Value) -> ir.Value:
        return self.builder.gep(self.builder.inttoptr(address, _WORD.as_pointer()), [index])


def _constant(value: int) -> ir.Value:
    return ir.Constant(_WORD, value)


# A quotient is rounded towards zero.
_OPERATORS = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.FloorDiv: "sdiv",
    ast.BitAnd: "and_",
    ast.BitOr: "or_",
}
_COMPARISONS = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


def _minimum(t: _Translation, x: ir.Value, y: ir.Value) -> ir.Value:
    return t.builder.select(t.builder.icmp_signed("<", x, y), x, y)


def _maximum(t: _Translation, x: ir.Value, y: ir.Value) -> ir.Value:
    return t.builder.select(t.builder.icmp_signed(">", x, y), x, y)


def _load(t: _Translation, address: ir.Value, index: ir.Value) -> ir.Value:
    return t.builder.load_atomic(t.place(address, index), "seq_cst", 8)


def _store(t: _Translation, address: ir.Value, index: ir.Value, value: ir.Value) -> None:
    t.builder.store_atomic(value, t.place(address, index), "release", 8)


def _publish(t: _Translation, address: ir.Value, index: ir.Value, value: ir.Value) -> None:
    t.builder.store_atomic(value, t.place(address, index), "seq_cst", 8)


def _add(t: _Translation, address: ir.Value, index: ir.Value, value: ir.Value) -> None:
    t.builder.atomic_rmw("add", t.place(address, index), value, "seq_cst")


def _claim(t: _Translation, address: ir.Value, index: ir.Value, expected: ir.Value, new: ir.Value) -> ir.Value:
    result = t.builder.cmpxchg(t.place(address, index), expected, new, "seq_cst", "seq_cst")
    return t.builder.zext(t.builder.extract_value(result, 1), _WORD)


def _pause(t: _Translation) -> None:
    machine = platform.machine().lower()
    if machine in ("x86_64", "amd64"):
        name, arguments = "llvm.x86.sse2.pause", []
    elif machine in ("aarch64", "arm64"):
        name, arguments = "llvm.aarch64.hint", [ir.Constant(_INT, 1)]
    else:
        t.builder.fence("seq_cst")
        return
    function_type = ir.FunctionType(_VOID, [a.type for a in arguments])
    module = t.function.module
    function = module.globals.get(name) or ir.Function(module, function_type, name)
    t.builder.call(function, arguments)


def _flags(t: _Translation, address: ir.Value) -> ir.Value:
    return t.builder.sext(t.builder.load(t.builder.inttoptr(address, _INT.as_pointer())), _WORD)


def _byte(t: _Translation, address: ir.Value) -> ir.Value:
    return t.builder.zext(t.builder.load(t.builder.inttoptr(address, ir.IntType(8).as_pointer())), _WORD)


def _float_bits(t: _Translation, address: ir.Value) -> ir.Value:
    double = t.builder.load(t.builder.inttoptr(address, ir.DoubleType().as_pointer()))
    return t.builder.zext(t.builder.bitcast(t.builder.fptrunc(double, ir.FloatType()), _INT), _WORD)


def _room(t: _Translation, size: ir.Value) -> ir.Value:
    return t.builder.ptrtoint(ir.IRBuilder(t.entry).alloca(_WORD, size=size), _WORD)


def _product(scalar: ir.Type) -> Callable[..., None]:
    def build(t: _Translation, result: ir.Value, x: ir.Value, y: ir.Value) -> None:
        result, x, y = (t.builder.inttoptr(address, scalar.as_pointer()) for address in (result, x, y))
        t.builder.store(t.builder.fmul(t.builder.load(x), t.builder.load(y)), result)

    return build


def _complex_product(scalar: ir.Type) -> Callable[..., None]:
    def build(t: _Translation, result: ir.Value, x: ir.Value, y: ir.Value) -> None:
        b = t.builder
        places = [b.inttoptr(address, scalar.as_pointer()) for address in (result, x, y)]
        parts = [[b.gep(place, [ir.Constant(_INT, i)]) for i in (0, 1)] for place in places]
        (x_real, x_imag), (y_real, y_imag) = ([b.load(part) for part in pair] for pair in parts[1:])
        b.store(b.fsub(b.fmul(x_real, y_real), b.fmul(x_imag, y_imag)), parts[0][0])
        b.store(b.fadd(b.fmul(x_real, y_imag), b.fmul(x_imag, y_real)), parts[0][1])

    return build


# The intrinsics of the language; addresses first, and an index that counts words.
INTRINSICS: dict[str, Callable[..., Any]] = {
    "min": _minimum,
    "max": _maximum,
    "load": _load,  # the word, and everything that its writer had written before it
    "store": _store,  # whoever reads the word also sees what was written before it,
    "publish": _publish,  # and what this thread reads later is no older than the word
    "add": _add,  # atomically
    "claim": _claim,  # (address, index, expected, new): replace the expected word atomically; 1 if it was there
    "pause": _pause,  # tell the processor that this thread waits for another one
    "flags": _flags,  # the C int at an address
    "byte": _byte,  # the byte at an address
    "float_bits": _float_bits,  # those of the float nearest to the double at an address
    "room": _room,  # the address of so many (a constant) words on the stack
    "product_float": _product(ir.FloatType()),  # (result, x, y): result[0] = x[0] y[0]
    "product_double": _product(ir.DoubleType()),
    "product_complex_float": _complex_product(ir.FloatType()),
    "product_complex_double": _complex_product(ir.DoubleType()),
}

# C functions called by address: letters of the result and the parameters. v: nothing, w: 64 bits, i: an int,
# f and d: the float or double that lies at the address given.
_C_TYPES = {"v": _VOID, "w": _WORD, "i": _INT, "f": ir.FloatType(), "d": ir.DoubleType()}
C_FUNCTIONS = {
    "call_nothing": ("v", ""),
    "call_word": ("v", "w"),
    "call_int": ("v", "i"),
    "get_word": ("w", ""),
    "get_memory": ("w", "ww"),
    "get_int": ("i", ""),
    "acquire_lock": ("i", "wi"),
    "get_time": ("i", "iw"),
    "new_object": ("w", "w"),
    "new_instance": ("w", "ww"),
    "new_array": ("w", "wwiwwwiw"),
    "set_item": ("i", "www"),
    "call_object": ("w", "www"),
    "call_kernel": ("v", "wwww"),
    "call_five": ("v", "w" * 5),
    "call_six": ("v", "w" * 6),
    "call_eight": ("v", "w" * 8),
    "call_ten": ("v", "w" * 10),
    "call_twelve": ("v", "w" * 12),
    "call_gemm": ("v", "w" * 14),
    # order, transA, transB, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc. Libraries with 32-bit integers read the
    # lower halves: the calling conventions of 64-bit systems leave the upper half of an int unspecified.
    "cblas_float": ("v", "wwwwwwfwwwwfww"),
    "cblas_double": ("v", "wwwwwwdwwwwdww"),
    "cblas_complex": ("v", "w" * 14),
}
