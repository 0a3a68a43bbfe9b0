"""PTX as functions of basic blocks of instructions, and what lies in memory beside them.

Knows the syntax; no instruction's meaning.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

DTYPES: dict[str, np.dtype[Any]] = {
    **{f"{kind}{8 * n}": np.dtype(f"u{n}") for kind in "ub" for n in (1, 2, 4, 8)},
    **{f"s{8 * n}": np.dtype(f"i{n}") for n in (1, 2, 4, 8)},
    **{f"f{8 * n}": np.dtype(f"f{n}") for n in (2, 4, 8)},
    "pred": np.dtype(np.bool_),
}
_ENDS = ("bra", "ret", "exit", "bar", "barrier", "brx", "trap")
_VARIABLE = r"\.(param|shared|local|global|const)\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+([\w$]+)(?:\[(\d*)\])?"


class Operation(NamedTuple):
    """One instruction; guard: a predicate, and whether it runs where that does not hold."""

    word: str
    modifiers: tuple[str, ...]
    operands: tuple[str, ...]
    guard: tuple[str, bool] | None
    text: str

    def kinds(self) -> list[str]:
        return [m for m in self.modifiers if m in DTYPES]

    def first(self, *modifiers: str) -> str | None:
        return next((m for m in self.modifiers if m in modifiers), None)


class Variable(NamedTuple):
    """Memory with a name: bytes, and what is in it at first."""

    space: str
    nbytes: int
    values: np.ndarray | None


class Function:
    """An entry, or a function that is called.

    parameters, results: their names. registers: their dtypes. blocks: of instructions, of which only the last jumps.
    labels: which block begins with one. tables: the labels that a jump by a table may go to. variables: of each block
    of threads, or each thread.
    """

    def __init__(self, result: str, parameters: str, body: str) -> None:
        self.parameters = [found[2] for found in re.findall(_VARIABLE, parameters)]
        self.results = [found[2] for found in re.findall(_VARIABLE, result)]
        self.registers: dict[str, np.dtype[Any]] = {}
        self.variables: dict[str, Variable] = {}
        self.blocks: list[list[Operation]] = [[]]
        self.labels: dict[str, int] = {}
        self.tables: dict[str, list[str]] = {}
        for statement in body.split(";"):
            self._read(_without_braces(re.sub(r"\s+", " ", statement).strip()))

    def _read(self, line: str) -> None:
        while label := re.match(r"(\$?[\w$]+): ?", line):
            if line[label.end() :].startswith(".branchtargets"):
                self.tables[label[1]] = [x.strip() for x in line.split(".branchtargets")[1].split(",")]
                return
            if self.blocks[-1]:
                self.blocks.append([])
            self.labels[label[1]] = len(self.blocks) - 1
            line = _without_braces(line[label.end() :])
        if line.startswith(".reg"):
            self._declare(*line.split(" ", 2)[1:])
        elif line.startswith((".shared", ".local")):
            name, variable = _variable(line)
            self.variables[name] = variable
        elif line and not line.startswith("."):
            operation = _operation(line)
            self.blocks[-1].append(operation)
            if operation.word in _ENDS:
                self.blocks.append([])

    def _declare(self, kind: str, names: str) -> None:
        for name in (x.strip() for x in names.split(",")):
            several = re.fullmatch(r"(.+)<(\d+)>", name)
            each = [f"{several[1]}{k}" for k in range(int(several[2]))] if several else [name]
            self.registers |= dict.fromkeys(each, DTYPES[kind[1:]])


class Module:
    """What one text holds: functions and variables, by name."""

    def __init__(self, text: str) -> None:
        text = re.sub(r"//[^\n]*", "", text)
        self.functions: dict[str, Function] = {}
        outside, at = "", 0
        for head in re.finditer(r"\.(?:entry|func)\s+(\([^)]*\))?\s*([\w$]+)\s*(\([^)]*\))?[^{;]*\{", text):
            end = _closing(text, head.end())
            self.functions[head[2]] = Function(head[1] or "", head[3] or "", text[head.end() : end - 1])
            outside, at = outside + text[at : head.start()], end
        statements = [s.strip() for s in (outside + text[at:]).split(";")]
        self.variables = dict(_variable(s) for s in statements if re.search(r"\.(global|const|shared)\s", s))


def _variable(text: str) -> tuple[str, Variable]:
    found = re.search(_VARIABLE, text)
    assert found, text
    space, kind, name, count = found.groups()
    dtype = DTYPES[kind]
    values = re.findall(r"-?\b\d+\b", text.split("=")[1]) if "=" in text else None
    kept = None if values is None else np.array([int(v) % (1 << 8 * dtype.itemsize) for v in values], dtype)
    return name, Variable(space, dtype.itemsize * int(count or 1) if count != "" else 0, kept)


def _closing(text: str, at: int) -> int:
    """Where the brace is closed that was opened before."""
    depth = 1
    while depth:
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
    return at


def _without_braces(line: str) -> str:
    """Without those of scopes, which may stand before an instruction; those of vectors stay."""
    while line.startswith("}") or line.startswith("{") and not re.match(r"\{[^}]*\} ?,", line):
        line = line[1:].strip()
    return line


def _operation(line: str) -> Operation:
    guard = re.match(r"@(!?)([%\w]+) ", line)
    rest = line[guard.end() :] if guard else line
    word, _, operands = rest.partition(" ")
    name, *modifiers = word.split(".")
    parts = tuple(x.strip() for x in re.findall(r"(?:\{[^}]*\}|\[[^\]]*\]|\([^)]*\)|[^,])+", operands))
    return Operation(name, tuple(modifiers), parts, (guard[2], bool(guard[1])) if guard else None, line)
