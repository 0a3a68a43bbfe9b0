"""A GPU that runs PTX on the processor: blocks one after the other, and the threads of a block in step.

A register is an array of what it holds in all threads. Addresses are those of the host's memory, and only what a
launch was given may be read or written. It must not know functad. What it cannot tell: times, what threads of a real
GPU do to one another, and how its assembler contracts products and sums that have no rounding in their names.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import ptx_arithmetic as arithmetic
from ptx_text import DTYPES, Function, Module, Operation, Variable

Instruction = Callable[["Threads", np.ndarray], None]
Value = Callable[["Threads"], Any]
Spans = Iterable[tuple[int, int]]
FRESH = 0xA7  # in memory to which nobody has written


class Fault(Exception):
    """What a real GPU would stop at."""


class Memory:
    """Bytes of the host, from which pieces are taken, at addresses of their own."""

    def __init__(self, nbytes: int) -> None:
        raw = np.zeros(nbytes + 4096, np.uint8)
        begin = -raw.ctypes.data % 4096
        self.bytes = raw[begin : begin + nbytes]
        self.base = self.bytes.ctypes.data
        self._next = self.base
        self._free: dict[int, list[int]] = {}

    def take(self, nbytes: int) -> int:
        """A piece aligned to 256 bytes, with as many behind it that belong to nobody."""
        size = -(-max(nbytes, 1) // 256) * 256
        if self._free.get(size):
            address = self._free[size].pop()
        else:
            address, self._next = self._next, self._next + size + 256
            if self._next > self.base + self.bytes.size:
                raise MemoryError
        self.bytes[address - self.base : address - self.base + size] = FRESH
        return address

    def give_back(self, address: int, nbytes: int) -> None:
        self._free.setdefault(-(-max(nbytes, 1) // 256) * 256, []).append(address)

    def of(self, dtype: np.dtype[Any]) -> np.ndarray:
        return self.bytes.view(dtype)


class LoadedModule:
    """A text whose variables lie in memory.

    seen: the instructions that were run.
    """

    def __init__(self, text: str, memory: Memory) -> None:
        self.module, self.memory, self.seen = Module(text), memory, set[str]()
        self.places: dict[str, int] = {}
        self._codes: dict[str, list[list[tuple[Operation, Instruction | None]]]] = {}
        for name, variable in self.module.variables.items():
            if variable.nbytes:
                self.places[name] = memory.take(variable.nbytes)
                begin = self.places[name] - memory.base
                memory.bytes[begin : begin + variable.nbytes] = 0
                if variable.values is not None:
                    memory.bytes[begin : begin + variable.values.nbytes] = variable.values.view(np.uint8)

    def spans(self) -> list[tuple[int, int]]:
        return [(place, place + self.module.variables[name].nbytes) for name, place in self.places.items()]

    def code(self, name: str) -> list[list[tuple[Operation, Instruction | None]]]:
        if name not in self._codes:
            function = self.module.functions[name]
            self.seen |= {".".join([o.word, *o.modifiers]) for block in function.blocks for o in block}
            self._codes[name] = [[(o, instruction_of(function, o)) for o in block] for block in function.blocks]
        return self._codes[name]

    def launch(
        self,
        name: str,
        grid: Sequence[int],
        block: Sequence[int],
        shared: int,
        words: Sequence[int],
        given: Spans,
        choose: random.Random,
    ) -> None:
        """Run a kernel: blocks in any order. given: the memory that it may use."""
        blocks = [(x, y, z) for z in range(grid[2]) for y in range(grid[1]) for x in range(grid[0])]
        choose.shuffle(blocks)
        given = [*given, *self.spans()]
        with np.errstate(all="ignore"):
            for at in blocks:
                Threads(self, name, (grid, block, at), shared, words, given, choose).run()


class Threads:
    """The threads of one block. registers, variables, parameters: those of the function that runs now."""

    def __init__(
        self,
        loaded: LoadedModule,
        name: str,
        place: tuple[Sequence[int], Sequence[int], Sequence[int]],
        shared: int,
        words: Sequence[int],
        given: Spans,
        choose: random.Random,
    ) -> None:
        grid, block, at = place
        self.loaded, self.name, self.choose, self.memory = loaded, name, choose, loaded.memory
        self.count = block[0] * block[1] * block[2]
        number = np.arange(self.count)
        own = number % block[0], number // block[0] % block[1], number // (block[0] * block[1])
        self.special = {"%laneid": number % 32, "%warpid": number // 32}
        for k, axis in enumerate("xyz"):
            for which, value in (("tid", own[k]), ("ntid", block[k]), ("ctaid", at[k]), ("nctaid", grid[k])):
                self.special[f"%{which}.{axis}"] = np.full(self.count, value)
        self.carry = np.zeros(self.count, bool)
        self.parameters: dict[str, np.ndarray] = {}
        for parameter, word in zip(loaded.module.functions[name].parameters, words, strict=True):
            self.set_parameter(parameter, 0, np.uint64(word), np.ones(self.count, bool))
        self._taken: list[tuple[int, int]] = []
        self._spans = list(given)
        self.places = {n: np.full(self.count, place, np.uint64) for n, place in loaded.places.items()}
        for variable in [n for n, v in loaded.module.variables.items() if not v.nbytes]:  # as large as the launch says
            self.places[variable] = self._room(Variable("shared", shared, None))

    def _room(self, variable: Variable) -> np.ndarray:
        """Where a variable lies for each thread."""
        own = variable.space == "local"
        each = -(-variable.nbytes // 16) * 16
        address = self.memory.take(each * self.count if own else each)
        self._taken.append((address, each * self.count if own else each))
        self._spans.append((address, address + self._taken[-1][1]))
        self._bounds = None
        steps = np.arange(self.count, dtype=np.uint64) * np.uint64(each if own else 0)
        return np.uint64(address) + steps

    _bounds: tuple[np.ndarray, np.ndarray] | None = None

    def run(self) -> None:
        try:
            self.go(self.name, np.ones(self.count, bool))
        finally:
            for address, nbytes in self._taken:
                self.memory.give_back(address, nbytes)

    # --- memory -----------------------------------------------------------------------------------------

    def elements(self, base: Any, offset: int, mask: np.ndarray, nbytes: int, width: int) -> np.ndarray:
        """Which elements of memory addresses are; they must be aligned, and lie in what was given."""
        addresses = np.broadcast_to(base, self.count)[mask].astype(np.uint64) + np.uint64(offset % (1 << 64))
        if self._bounds is None:
            self._bounds = _joined(self._spans)
        begins, ends = self._bounds
        before = np.searchsorted(begins, addresses, "right")
        if (addresses % np.uint64(nbytes * width)).any():
            raise Fault(f"misaligned address in {self.name}")
        if (before == 0).any() or (addresses + np.uint64(nbytes * width) > ends[before - 1]).any():
            raise Fault(f"illegal address in {self.name}")
        return ((addresses - np.uint64(self.memory.base)) // np.uint64(nbytes)).astype(np.int64)

    def parameter(self, name: str, offset: int, dtype: np.dtype[Any]) -> np.ndarray:
        return self.parameters[name][:, offset : offset + dtype.itemsize].copy().view(dtype)[:, 0]

    def set_parameter(self, name: str, offset: int, value: Any, mask: np.ndarray) -> None:
        room = self.parameters.setdefault(name, np.zeros((self.count, 16), np.uint8))
        each = np.ascontiguousarray(np.broadcast_to(value, self.count)).view(np.uint8).reshape(self.count, -1)
        room[mask, offset : offset + each.shape[1]] = each[mask]

    # --- control ----------------------------------------------------------------------------------------

    def go(self, name: str, mask: np.ndarray) -> None:
        """Run a function in some threads to its end: first those that have come least far."""
        function, code = self.loaded.module.functions[name], self.loaded.code(name)
        self.registers = {register: np.zeros(self.count, dtype) for register, dtype in function.registers.items()}
        self.places = {**self.places, **{n: self._room(v) for n, v in function.variables.items()}}
        at, alive, waits = np.zeros(self.count, np.int64), mask.copy(), np.zeros(self.count, bool)
        votes: list[tuple[Operation, np.ndarray]] = []
        while alive.any():
            ready = alive & ~waits
            if not ready.any():
                self._count_votes(votes)
                waits[:], votes = False, []
                continue
            block = int(at[ready].min())
            group = ready & (at == block)
            at[group] = block + 1
            jump = self._run_block(code[block], group)
            if jump is not None:
                self._jump(function, jump, group, at, alive, waits, votes)
            alive &= at < len(code)

    def _run_block(self, block: list[tuple[Operation, Instruction | None]], group: np.ndarray) -> Operation | None:
        """Run the instructions of a block; the one at its end, if it jumps."""
        for operation, instruction in block:
            if instruction is None:
                return operation
            instruction(self, self.guarded(operation, group))
        return None

    def guarded(self, operation: Operation, group: np.ndarray) -> np.ndarray:
        if operation.guard is None:
            return group
        register, inverted = operation.guard
        return group & (self.registers[register] != inverted)

    def _jump(
        self,
        function: Function,
        o: Operation,
        group: np.ndarray,
        at: np.ndarray,
        alive: np.ndarray,
        waits: np.ndarray,
        votes: list[tuple[Operation, np.ndarray]],
    ) -> None:
        taken = self.guarded(o, group)
        if o.word == "bra":
            at[taken] = function.labels[o.operands[0]]
        elif o.word == "brx":
            labels = np.array([function.labels[label] for label in function.tables[o.operands[1]]])
            at[taken] = labels[self.registers[o.operands[0]][taken]]
        elif o.word in ("ret", "exit"):
            alive &= ~taken
        elif o.word == "trap" and taken.any():
            raise Fault(f"a trap in {self.name}")
        elif o.word in ("bar", "barrier") and "warp" not in o.modifiers:
            waits |= taken
            if "red" in o.modifiers:
                votes.append((o, taken))

    def _count_votes(self, votes: list[tuple[Operation, np.ndarray]]) -> None:
        """What all threads say that have come to a barrier; each barrier may stand at several places."""
        yes = sum((self._vote(o) & taken).sum() for o, taken in votes)
        of = sum(taken.sum() for _, taken in votes)
        for o, taken in votes:
            result = {"popc": yes, "and": yes == of, "or": yes > 0}[o.first("popc", "and", "or") or ""]
            np.copyto(self.registers[o.operands[0]], result, where=taken, casting="unsafe")

    def _vote(self, o: Operation) -> np.ndarray:
        name = o.operands[-1]
        return ~self.registers[name[1:]] if name.startswith("!") else self.registers[name]

    def call(self, o: Operation, mask: np.ndarray) -> None:
        results = _names(o.operands[0]) if o.operands[0].startswith("(") else []
        name, *given = o.operands[1:] if results else o.operands
        function = self.loaded.module.functions[name]
        for own, outside in zip(function.parameters, _names(given[0]) if given else []):
            self.parameters[own] = self.parameters[outside].copy()
        registers, places = self.registers, self.places
        self.go(name, mask)
        self.registers, self.places = registers, places
        for own, outside in zip(function.results, results):
            self.parameters[outside] = self.parameters[own].copy()


def _joined(spans: Spans) -> tuple[np.ndarray, np.ndarray]:
    found: list[list[int]] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1][1] = max(end, found[-1][1])
        else:
            found.append([begin, end])
    return np.array([b for b, _ in found], np.uint64), np.array([e for _, e in found], np.uint64)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.strip("(){} ").split(",")]


# --- operands ---------------------------------------------------------------------------------------


def reader(function: Function, name: str, kind: str) -> Value:
    """What an operand is in all threads, as numbers of a kind."""
    dtype = DTYPES[kind]
    if name in function.registers:
        own = function.registers[name]
        if own.itemsize == dtype.itemsize:
            return lambda threads: threads.registers[name].view(dtype)
        assert own.itemsize > dtype.itemsize, f"{name} has fewer bits than {kind}"
        return lambda threads: threads.registers[name].astype(f"u{dtype.itemsize}").view(dtype)
    if name.startswith("!"):
        return lambda threads: ~threads.registers[name[1:]]
    if name.startswith("%"):
        return lambda threads: threads.special[name].astype(dtype)
    if name[:2].lower() in ("0f", "0d"):
        number = np.array(int(name[2:], 16), np.uint32 if name[1] in "fF" else np.uint64).view(dtype)
        return lambda threads: np.full(threads.count, number)
    if name.lstrip("-")[0].isdigit():
        bits = np.array(int(name.rstrip("U"), 0) % (1 << 8 * dtype.itemsize), f"u{dtype.itemsize}")
        return lambda threads: np.full(threads.count, bits.astype(bool) if kind == "pred" else bits.view(dtype))
    return lambda threads: threads.places[name].astype(dtype)


def write(function: Function, threads: Threads, name: str, value: Any, mask: np.ndarray) -> None:
    """Set a register, of which a smaller number takes the lower bits, and its sign the others."""
    if name == "_":
        return
    register, value = threads.registers[name], np.asarray(value)
    if value.dtype.itemsize < register.dtype.itemsize:
        if value.dtype.kind == "f":
            value = value.view(f"u{value.dtype.itemsize}")
        value = value.astype(f"{value.dtype.kind if value.dtype.kind == 'i' else 'u'}{register.dtype.itemsize}")
    np.copyto(register.view(value.dtype), value, where=mask)


def instruction_of(function: Function, o: Operation) -> Instruction | None:
    """What an instruction does in threads of a mask; None for one that jumps."""
    if o.word in ("bra", "brx", "ret", "exit", "trap", "bar", "barrier"):
        return None
    if o.word in ("membar", "fence"):
        return lambda threads, mask: None
    if o.word == "call":
        return lambda threads, mask: threads.call(o, mask)
    if o.word in ("ld", "ldu", "st"):
        return _transfer(function, o)
    if o.word in ("atom", "red"):
        return _atomic(function, o)
    if o.word == "mov" and any(x.startswith("{") for x in o.operands):
        return _move_of_parts(function, o)
    if {"cc"} & {*o.modifiers} or o.word in ("addc", "subc", "madc"):
        return _carried(function, o)
    if o.word == "setp":
        return _comparison(function, o)
    compute, kinds = FORMS[o.word](o) if o.word in FORMS else _plain(o)
    operands = [reader(function, x, kind) for x, kind in zip(o.operands[1:], kinds)]

    def instruction(threads: Threads, mask: np.ndarray) -> None:
        write(function, threads, o.operands[0], compute(*[x(threads) for x in operands]), mask)

    return instruction


# --- memory -----------------------------------------------------------------------------------------


def _place(function: Function, text: str) -> tuple[str, Value, int]:
    name, _, offset = text.strip("[] ").partition("+")
    return name.strip(), reader(function, name.strip(), "u64"), int(offset or "0", 0)


def _transfer(function: Function, o: Operation) -> Instruction:
    kind, loads = o.kinds()[-1], o.word != "st"
    dtype = DTYPES[kind]
    name, base, offset = _place(function, o.operands[1 if loads else 0])
    registers = _names(o.operands[0 if loads else 1])
    values = [reader(function, x, kind) for x in registers] if not loads else []

    def places(threads: Threads, mask: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        first = threads.elements(base(threads), offset, mask, dtype.itemsize, len(registers))
        return ((k, first + k) for k in range(len(registers)))

    def load(threads: Threads, mask: np.ndarray) -> None:
        for k, place in places(threads, mask):
            found = np.zeros(threads.count, dtype)
            found[mask] = threads.memory.of(dtype)[place]
            write(function, threads, registers[k], found, mask)

    def store(threads: Threads, mask: np.ndarray) -> None:
        for k, place in places(threads, mask):
            threads.memory.of(dtype)[place] = values[k](threads)[mask]

    def load_parameter(threads: Threads, mask: np.ndarray) -> None:
        for k, register in enumerate(registers):
            write(function, threads, register, threads.parameter(name, offset + k * dtype.itemsize, dtype), mask)

    def store_parameter(threads: Threads, mask: np.ndarray) -> None:
        for k, value in enumerate(values):
            threads.set_parameter(name, offset + k * dtype.itemsize, value(threads), mask)

    if "param" in o.modifiers:
        return load_parameter if loads else store_parameter
    return load if loads else store


def _atomic(function: Function, o: Operation) -> Instruction:
    to, *rest = o.operands if o.word == "atom" else ("_", *o.operands)
    kind = o.kinds()[-1]
    dtype = DTYPES[kind]
    _, base, offset = _place(function, rest[0])
    values = [reader(function, x, kind) for x in rest[1:]]
    change = ATOMIC[o.first(*ATOMIC) or ""]

    def atomic(threads: Threads, mask: np.ndarray) -> None:
        memory, found = threads.memory.of(dtype), np.zeros(threads.count, dtype)
        places = threads.elements(base(threads), offset, mask, dtype.itemsize, 1)
        turns = list(zip(np.flatnonzero(mask), places, *[x(threads)[mask] for x in values]))
        threads.choose.shuffle(turns)
        for thread, place, *given in turns:
            found[thread] = memory[place]
            memory[place] = change(memory[place], *given)
        write(function, threads, to, found, mask)

    return atomic


ATOMIC: dict[str, Callable[..., Any]] = {
    "add": lambda old, x: old + x,
    "inc": lambda old, x: 0 if old >= x else old + 1,
    "dec": lambda old, x: x if old == 0 or old > x else old - 1,
    "cas": lambda old, x, y: y if old == x else old,
    "exch": lambda old, x: x,
    "min": lambda old, x: arithmetic.extremum(old, x, False),
    "max": lambda old, x: arithmetic.extremum(old, x, True),
    "and": lambda old, x: old & x,
    "or": lambda old, x: old | x,
    "xor": lambda old, x: old ^ x,
}


# --- instructions of a form of their own ------------------------------------------------------------


def _move_of_parts(function: Function, o: Operation) -> Instruction:
    """A word from its parts, or parts of a word."""
    dtype = DTYPES[o.kinds()[-1]]
    joins = o.operands[1].startswith("{")
    names = _names(o.operands[1 if joins else 0])
    bits = 8 * dtype.itemsize // len(names)
    parts = [reader(function, x, f"u{bits}") for x in names] if joins else []
    whole = None if joins else reader(function, o.operands[1], f"u{8 * dtype.itemsize}")

    def move(threads: Threads, mask: np.ndarray) -> None:
        if whole is None:
            each = [part(threads) for part in parts]
            write(function, threads, o.operands[0], np.stack(each, 1).view(f"u{dtype.itemsize}")[:, 0], mask)
            return
        each = np.ascontiguousarray(whole(threads)).view(f"u{bits // 8}").reshape(threads.count, -1)
        for k, name in enumerate(names):
            write(function, threads, name, each[:, k], mask)

    return move


def _carried(function: Function, o: Operation) -> Instruction:
    kind = f"u{8 * DTYPES[o.kinds()[-1]].itemsize}"
    operands = [reader(function, x, kind) for x in o.operands[1:]]
    takes, sign = o.word in ("addc", "subc", "madc"), -1 if o.word.startswith("sub") else 1

    def add(threads: Threads, mask: np.ndarray) -> None:
        x, y, *rest = [operand(threads) for operand in operands]
        if rest:
            x, y = (x * y if "lo" in o.modifiers else arithmetic.upper_half(x, y)), rest[0]
        carry = threads.carry if takes else np.zeros(threads.count, bool)
        value, over = arithmetic.with_carry(x, y, carry, sign)
        write(function, threads, o.operands[0], value, mask)
        if "cc" in o.modifiers:
            np.copyto(threads.carry, over, where=mask)

    return add


_ORDERED = {
    **{"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater},
    **{"ge": np.greater_equal, "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal},
}
_TOGETHER = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def _comparison(function: Function, o: Operation) -> Instruction:
    compare, kind = o.modifiers[0], o.kinds()[-1]
    operands = [reader(function, x, kind) for x in o.operands[1:3]]
    join = o.first(*_TOGETHER)
    other = reader(function, o.operands[3], "pred") if join else None
    names = [x.strip() for x in o.operands[0].split("|")]

    def holds(x: Any, y: Any) -> Any:
        known = ~(np.isnan(x) | np.isnan(y)) if DTYPES[kind].kind == "f" else np.ones(x.shape, bool)
        if compare in ("num", "nan"):
            return known == (compare == "num")
        return known & _ORDERED[compare](x, y) if compare in _ORDERED else ~known | _ORDERED[compare[:-1]](x, y)

    def instruction(threads: Threads, mask: np.ndarray) -> None:
        found = holds(*[x(threads) for x in operands])
        both = [found, ~found]
        if other is not None and join is not None:
            both = [_TOGETHER[join](x, other(threads)) for x in both]
        for name, value in zip(names, both):
            write(function, threads, name, value, mask)

    return instruction


# --- instructions that compute a value of others ----------------------------------------------------

Form = tuple[Callable[..., Any], Sequence[str]]


def _plain(o: Operation) -> Form:
    kind = o.kinds()[-1]
    is_float, direction = DTYPES[kind].kind == "f", o.first("rz", "rm", "rp")
    if is_float and direction:
        return lambda *x: arithmetic.rounded(o.word, direction, *x), [kind] * 3
    if o.word in arithmetic.APPROXIMATE and o.first("approx"):
        return lambda x: arithmetic.approximate(o.word, x, "ftz" in o.modifiers), [kind]
    if is_float and o.word in arithmetic.NEAREST:
        return arithmetic.NEAREST[o.word], [kind] * 3
    if o.word not in PLAIN:
        raise NotImplementedError(f"the instruction `{o.text}`")
    return PLAIN[o.word], [kind] * 3


PLAIN: dict[str, Callable[..., Any]] = {
    **{"add": np.add, "sub": np.subtract, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor},
    **{"not": np.invert, "neg": np.negative, "abs": np.abs, "popc": np.bitwise_count, "cvta": np.copy, "mov": np.copy},
    "div": arithmetic.quotient,
    "rem": arithmetic.remainder,
    "clz": arithmetic.leading_zeros,
    "brev": arithmetic.reversed_bits,
    "copysign": lambda sign, size: np.copysign(size, sign),
}


def _conversion(o: Operation) -> Form:
    to, source = o.kinds()
    dtype = DTYPES[to]
    if "sat" in o.modifiers:
        raise NotImplementedError(f"the instruction `{o.text}`")
    if DTYPES[source].kind != "f":
        direction = o.first("rz", "rm", "rp") if dtype.kind == "f" else None
        return lambda x: arithmetic.to_float(x, dtype, direction), [source]
    whole = o.first(*arithmetic.TO_WHOLE)
    if dtype.kind == "f":
        return lambda x: (arithmetic.TO_WHOLE[whole](x) if whole else x).astype(dtype), [source]
    return lambda x: arithmetic.to_integer(x, dtype, whole or "rzi"), [source]


def _multiplication(o: Operation) -> Form:
    kind = o.kinds()[-1]
    if DTYPES[kind].kind == "f":
        return _plain(o._replace(word="fma") if o.word == "mad" else o)
    wide = f"{kind[0]}{2 * int(kind[1:])}" if "wide" in o.modifiers else kind

    def product(x: Any, y: Any, total: Any = 0) -> Any:
        if "wide" in o.modifiers:
            found = x.astype(DTYPES[wide]) * y.astype(DTYPES[wide])
        else:
            found = arithmetic.upper_half(x, y) if "hi" in o.modifiers else x * y
        return found + total if o.word == "mad" else found

    return product, (kind, kind, wide)


def _dot(o: Operation) -> Form:
    signs = "".join(kind[0] for kind in o.kinds())
    words = 4 if o.word == "dp4a" else 2
    return lambda x, y, z: arithmetic.dot(x, y, z, signs, words, "hi" in o.modifiers), ["u32"] * 3


def _extremum(o: Operation) -> Form:
    return lambda x, y: arithmetic.extremum(x, y, o.word == "max", "NaN" in o.modifiers), [o.kinds()[-1]] * 2


def _choice(o: Operation) -> Form:
    return lambda x, y, holds: np.where(holds, x, y), (o.kinds()[-1], o.kinds()[-1], "pred")


def _bits(compute: Callable[..., Any], *words: int) -> Callable[[Operation], Form]:
    """An instruction of so many numbers, and of words that say which bits."""
    return lambda o: (compute, [o.kinds()[-1]] * words[0] + ["u32"] * 2)


FORMS: dict[str, Callable[[Operation], Form]] = {
    **{"cvt": _conversion, "mul": _multiplication, "mad": _multiplication, "selp": _choice},
    **{"min": _extremum, "max": _extremum, "dp4a": _dot, "dp2a": _dot},
    **{"shl": _bits(arithmetic.shift_left, 1), "shr": _bits(arithmetic.shift_right, 1)},
    **{"bfe": _bits(arithmetic.extracted, 1), "bfi": _bits(arithmetic.inserted, 2)},
    "prmt": lambda o: (arithmetic.chosen_bytes, ["u32"] * 3),
    "lop3": lambda o: (lambda x, y, z: arithmetic.of_three(x, y, z, int(o.operands[4], 0)), ["u32"] * 3),
    "shf": lambda o: (
        lambda x, y, n: arithmetic.funnel(x, y, n, "r" in o.modifiers, "wrap" in o.modifiers),
        ["u32"] * 3,
    ),
}
