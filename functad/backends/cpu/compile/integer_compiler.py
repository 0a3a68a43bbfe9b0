"""A small compiler from Python text to LLVM: functions of 64-bit words, for the runtime, without Numba's start-up time.

It must not know what the functions do. Its language: all values are words, which serve as integers and addresses;
`p[i]` is the i-th word at address p; assignments, `if`, `while`, `for … in range(…)`, `return`, calls of the functions
of the same module and of the intrinsics defined at the end of this file. It writes LLVM's text itself: objects for
instructions, as llvmlite has them, take four times as long, and the very first call of a user waits.
"""

from __future__ import annotations

import ast
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import llvmlite.binding as llvm

from functad.backends.cpu.compile.loader import PREFIX
from functad.backends.cpu.compile.target import emitted, run_passes, target_machine

_ValueText = str  # as it stands in LLVM's text: a number, or the name of a value


def compile_words(source: str, names: Mapping[str, Any], exports: Iterable[str], *, effort: int = 0) -> bytes:
    """Compile all functions of a module's text into one object file.

    Args:
        source: the text of the module. A function annotated `-> None` is a C function without result.
        names: what its global names mean: integers, or modules that hold integers.
        exports: the functions that the object file shall export, as C functions of int64.
        effort: what LLVM spends on choosing instructions and registers, for loops that do the work themselves: 3.
    """
    definitions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    results = {node.name: "void" if isinstance(node.returns, ast.Constant) else "i64" for node in definitions}
    declared: set[str] = set()
    texts = [_Translation(node, results, names, declared).text(node.name in exports) for node in definitions]
    machine = target_machine(effort)
    parsed = llvm.parse_assembly("\n".join([*texts, *sorted(declared)]))
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    # Variables are kept in registers, and that is all: these functions leave the work to others, ran no faster after
    # all of LLVM's passes, nor with instructions chosen at length (six times the time), and the very first call waits.
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    run_passes(passes, parsed, builder)
    return emitted(machine, parsed)


class _BasicBlock:
    """Instructions that run one after the other; the last one says where it goes on."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.lines: list[str] = []
        self.is_terminated = False


class _Translation:
    """One function: a Python variable becomes a word on the stack, which LLVM then keeps in a register.

    results: the LLVM type of the result of each function of the module. declared: gets LLVM's own functions.
    """

    def __init__(
        self, node: ast.FunctionDef, results: Mapping[str, str], names: Mapping[str, Any], declared: set[str]
    ) -> None:
        self.node, self.results, self.names, self.declared = node, results, names, declared
        self.blocks: list[_BasicBlock] = []
        self.count = 0  # of values
        self.entry = self.block()
        self.here = self.block()
        self.variables: dict[str, _ValueText] = {}

    def text(self, exported: bool) -> str:
        """The function in LLVM's text."""
        parameters = [f"%{parameter.arg}" for parameter in self.node.args.args]
        body = self.here
        for parameter, value in zip(self.node.args.args, parameters):
            self.do(f"store i64 {value}, ptr {self.variable(parameter.arg)}")
        self.statements(self.node.body)
        if not self.here.is_terminated:
            self.end("ret void" if self.results[self.node.name] == "void" else "unreachable")
        self.entry.lines.append(f"br label %{body.label}")
        lines = [f"{self.head(exported, parameters)} {{"]
        for block in self.blocks:
            lines += [f"{block.label}:", *block.lines]
        return "\n".join([*lines, "}"])

    def head(self, exported: bool, parameters: Sequence[_ValueText]) -> str:
        result = self.results[self.node.name]
        linkage = "" if exported else "internal "
        return f"define {linkage}{result} @{PREFIX}{self.node.name}({', '.join(f'i64 {p}' for p in parameters)})"

    # --- instructions ------------------------------------------------------------------------------------

    def block(self) -> _BasicBlock:
        """A block behind all others."""
        made = _BasicBlock(f"b{len(self.blocks)}")
        self.blocks.append(made)
        return made

    def do(self, instruction: str) -> None:
        self.here.lines.append(instruction)

    def end(self, instruction: str) -> None:
        """Leave the block."""
        self.do(instruction)
        self.here.is_terminated = True

    def make(self, instruction: str) -> _ValueText:
        """The value of an instruction."""
        name = self.new()
        self.do(f"{name} = {instruction}")
        return name

    def new(self) -> _ValueText:
        self.count += 1
        return f"%v.{self.count}"

    def pointer(self, address: _ValueText) -> _ValueText:
        return self.make(f"inttoptr i64 {address} to ptr")

    def place(self, address: _ValueText, index: _ValueText) -> _ValueText:
        return self.make(f"getelementptr i64, ptr {self.pointer(address)}, i64 {index}")

    def variable(self, name: str) -> _ValueText:
        if name not in self.variables:
            self.variables[name] = f"%{name}.place"
            self.entry.lines.append(f"{self.variables[name]} = alloca i64")
        return self.variables[name]

    def set(self, name: str, value: _ValueText) -> None:
        self.do(f"store i64 {value}, ptr {self.variable(name)}")

    # --- statements --------------------------------------------------------------------------------------

    def statements(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            getattr(self, "do_" + type(statement).__name__)(statement)

    def do_Expr(self, statement: ast.Expr) -> None:
        if isinstance(statement.value, ast.Call):
            self.call(statement.value)

    def do_Assign(self, statement: ast.Assign) -> None:
        self.assign(statement.targets[0], self.word(statement.value))

    def do_AugAssign(self, statement: ast.AugAssign) -> None:
        old = self.word(statement.target)
        self.assign(statement.target, self.binary(statement.op, old, self.word(statement.value)))

    def assign(self, target: ast.expr, value: _ValueText) -> None:
        if isinstance(target, ast.Subscript):
            self.do(f"store i64 {value}, ptr {self.place(self.word(target.value), self.word(target.slice))}")
        else:
            assert isinstance(target, ast.Name)
            self.set(target.id, value)

    def do_Return(self, statement: ast.Return) -> None:
        self.end("ret void" if statement.value is None else f"ret i64 {self.word(statement.value)}")

    def do_If(self, statement: ast.If) -> None:
        test = self.truth(statement.test)
        then, otherwise, after = (self.block() for _ in range(3))
        self.branch(test, then, otherwise)
        for block, body in ((then, statement.body), (otherwise, statement.orelse)):
            self.here = block
            self.statements(body)
            if not self.here.is_terminated:
                self.go(after)
        self.here = after

    def go(self, block: _BasicBlock) -> None:
        self.end(f"br label %{block.label}")

    def branch(self, test: _ValueText, then: _BasicBlock, otherwise: _BasicBlock) -> None:
        self.end(f"br i1 {test}, label %{then.label}, label %{otherwise.label}")

    def do_While(self, statement: ast.While) -> None:
        self.loop(lambda: self.truth(statement.test), lambda: self.statements(statement.body))

    def do_For(self, statement: ast.For) -> None:
        assert isinstance(statement.iter, ast.Call) and isinstance(statement.target, ast.Name)
        end = self.word(statement.iter.args[0])
        counter = self.variable(statement.target.id)
        self.do(f"store i64 0, ptr {counter}")

        def body() -> None:
            self.statements(statement.body)
            next_one = self.make(f"add i64 {self.make(f'load i64, ptr {counter}')}, 1")
            self.do(f"store i64 {next_one}, ptr {counter}")

        self.loop(lambda: self.make(f"icmp slt i64 {self.make(f'load i64, ptr {counter}')}, {end}"), body)

    def loop(self, test: Callable[[], _ValueText], body: Callable[[], None]) -> None:
        head, inside, after = (self.block() for _ in range(3))
        self.go(head)
        self.here = head
        self.branch(test(), inside, after)
        self.here = inside
        body()
        self.go(head)
        self.here = after

    # --- expressions -------------------------------------------------------------------------------------

    def truth(self, test: ast.expr) -> _ValueText:
        if isinstance(test, ast.BoolOp):
            return self.both_or_either(test)
        assert isinstance(test, ast.Compare)
        left, right = self.word(test.left), self.word(test.comparators[0])
        return self.make(f"icmp {_COMPARISONS[type(test.ops[0])]} i64 {left}, {right}")

    def both_or_either(self, test: ast.BoolOp) -> _ValueText:
        # As in Python, an operand is only looked at when those before it leave the answer open.
        left = self.truth(test.values[0])
        for operand in test.values[1:]:
            before = self.here
            more, after = (self.block() for _ in range(2))
            self.branch(left, *((more, after) if isinstance(test.op, ast.And) else (after, more)))
            self.here = more
            right = self.truth(operand)
            end_of_more = self.here
            self.go(after)
            self.here = after
            left = self.make(f"phi i1 [{left}, %{before.label}], [{right}, %{end_of_more.label}]")
        return left

    def word(self, node: ast.expr) -> _ValueText:
        found: _ValueText = getattr(self, "word_" + type(node).__name__)(node)
        return found

    def word_Constant(self, node: ast.Constant) -> _ValueText:
        assert isinstance(node.value, int)
        return str(node.value)

    def word_UnaryOp(self, node: ast.UnaryOp) -> _ValueText:
        assert isinstance(node.op, ast.USub)
        return self.make(f"sub i64 0, {self.word(node.operand)}")

    def word_Name(self, node: ast.Name) -> _ValueText:
        if node.id in self.variables:
            return self.make(f"load i64, ptr {self.variables[node.id]}")
        return str(self.names[node.id])

    def word_Attribute(self, node: ast.Attribute) -> _ValueText:
        assert isinstance(node.value, ast.Name)
        return str(getattr(self.names[node.value.id], node.attr))

    def word_BinOp(self, node: ast.BinOp) -> _ValueText:
        return self.binary(node.op, self.word(node.left), self.word(node.right))

    def binary(self, operator: ast.operator, left: _ValueText, right: _ValueText) -> _ValueText:
        return self.make(f"{_OPERATORS[type(operator)]} i64 {left}, {right}")

    def word_IfExp(self, node: ast.IfExp) -> _ValueText:
        return self.select(self.truth(node.test), self.word(node.body), self.word(node.orelse))

    def select(self, test: _ValueText, then: _ValueText, otherwise: _ValueText) -> _ValueText:
        return self.make(f"select i1 {test}, i64 {then}, i64 {otherwise}")

    def word_Subscript(self, node: ast.Subscript) -> _ValueText:
        return self.make(f"load i64, ptr {self.place(self.word(node.value), self.word(node.slice))}")

    def word_Call(self, node: ast.Call) -> _ValueText:
        return self.call(node)

    def call(self, node: ast.Call) -> _ValueText:
        """The result of a call; an empty text if it has none."""
        assert isinstance(node.func, ast.Name)
        name = node.func.id
        words = [self.word(argument) for argument in node.args]
        if name in C_FUNCTIONS:
            return self.call_c(*C_FUNCTIONS[name], words)
        if name in self.results:
            return self.called(self.results[name], f"@{PREFIX}{name}", [f"i64 {word}" for word in words])
        found: _ValueText = INTRINSICS[name](self, *words)
        return found

    def call_c(self, result: str, parameters: str, words: Sequence[_ValueText]) -> _ValueText:
        """Call the C function at address `words[0]`; the letters are explained at `C_FUNCTIONS`."""
        function = self.pointer(words[0])
        arguments = []
        for word, letter in zip(words[1:], parameters):
            kind = _C_TYPES[letter]
            if kind == "i32":
                word = self.make(f"trunc i64 {word} to i32")
            elif kind != "i64":
                word = self.make(f"load {kind}, ptr {self.pointer(word)}")
            arguments.append(f"{kind} {word}")
        value = self.called(_C_TYPES[result], function, arguments)
        return self.make(f"sext i32 {value} to i64") if result == "i" else value

    def called(self, result: str, function: _ValueText, arguments: Sequence[str]) -> _ValueText:
        instruction = f"call {result} {function}({', '.join(arguments)})"
        if result != "void":
            return self.make(instruction)
        self.do(instruction)
        return ""


# A quotient is rounded towards zero.
_OPERATORS = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.FloorDiv: "sdiv",
    ast.BitAnd: "and",
    ast.BitOr: "or",
}
_COMPARISONS = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "slt", ast.LtE: "sle", ast.Gt: "sgt", ast.GtE: "sge"}


def _minimum(t: _Translation, x: _ValueText, y: _ValueText) -> _ValueText:
    return t.select(t.make(f"icmp slt i64 {x}, {y}"), x, y)


def _maximum(t: _Translation, x: _ValueText, y: _ValueText) -> _ValueText:
    return t.select(t.make(f"icmp sgt i64 {x}, {y}"), x, y)


def _load(t: _Translation, address: _ValueText, index: _ValueText) -> _ValueText:
    return t.make(f"load atomic i64, ptr {t.place(address, index)} seq_cst, align 8")


def _store(t: _Translation, address: _ValueText, index: _ValueText, value: _ValueText) -> None:
    t.do(f"store atomic i64 {value}, ptr {t.place(address, index)} release, align 8")


def _publish(t: _Translation, address: _ValueText, index: _ValueText, value: _ValueText) -> None:
    t.do(f"store atomic i64 {value}, ptr {t.place(address, index)} seq_cst, align 8")


def _add(t: _Translation, address: _ValueText, index: _ValueText, value: _ValueText) -> None:
    t.make(f"atomicrmw add ptr {t.place(address, index)}, i64 {value} seq_cst")


def _claim(
    t: _Translation, address: _ValueText, index: _ValueText, expected: _ValueText, new: _ValueText
) -> _ValueText:
    place = t.place(address, index)
    result = t.make(f"cmpxchg ptr {place}, i64 {expected}, i64 {new} seq_cst seq_cst")
    return t.make(f"zext i1 {t.make(f'extractvalue {{i64, i1}} {result}, 1')} to i64")


def _pause(t: _Translation) -> None:
    machine = platform.machine().lower()
    if machine in ("x86_64", "amd64"):
        t.declared.add("declare void @llvm.x86.sse2.pause()")
        t.do("call void @llvm.x86.sse2.pause()")
    elif machine in ("aarch64", "arm64"):
        t.declared.add("declare void @llvm.aarch64.hint(i32)")
        t.do("call void @llvm.aarch64.hint(i32 1)")
    else:
        t.do("fence seq_cst")


def _flags(t: _Translation, address: _ValueText) -> _ValueText:
    return t.make(f"sext i32 {t.make(f'load i32, ptr {t.pointer(address)}')} to i64")


def _byte(t: _Translation, address: _ValueText) -> _ValueText:
    return t.make(f"zext i8 {t.make(f'load i8, ptr {t.pointer(address)}')} to i64")


def _float_bits(t: _Translation, address: _ValueText) -> _ValueText:
    single = t.make(f"fptrunc double {t.make(f'load double, ptr {t.pointer(address)}')} to float")
    return t.make(f"zext i32 {t.make(f'bitcast float {single} to i32')} to i64")


def _copy(t: _Translation, to: _ValueText, source: _ValueText, count: _ValueText) -> None:
    t.declared.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
    places = f"ptr {t.pointer(to)}, ptr {t.pointer(source)}"
    t.do(f"call void @llvm.memcpy.p0.p0.i64({places}, i64 {count}, i1 false)")


def _room(t: _Translation, size: _ValueText) -> _ValueText:
    place = t.new()
    t.entry.lines.append(f"{place} = alloca i64, i64 {size}")
    return t.make(f"ptrtoint ptr {place} to i64")


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
    "copy": _copy,  # (to, from, bytes): without a call if so many are written out, and few
    "room": _room,  # the address of so many (a constant) words on the stack
}

# C functions called by address: letters of the result and the parameters. v: nothing, w: 64 bits, i: an int,
# f and d: the float or double that lies at the address given.
_C_TYPES = {"v": "void", "w": "i64", "i": "i32", "f": "float", "d": "double"}
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
    "call_eleven": ("v", "w" * 11),
    "call_twelve": ("v", "w" * 12),
    "call_gemm": ("v", "w" * 14),
    # order, transA, transB, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc. Libraries with 32-bit integers read the
    # lower halves: the calling conventions of 64-bit systems leave the upper half of an int unspecified.
    "cblas_float": ("v", "wwwwwwfwwwwfww"),
    "cblas_double": ("v", "wwwwwwdwwwwdww"),
    "cblas_complex": ("v", "w" * 14),
}
