"""Instructions that name the line of a kernel's text they come from, for those who look at machine code.

Knows LLVM's debugging metadata (DWARF); no kernels. What is compiled to run has none.
"""

from __future__ import annotations

import re

from llvmlite import ir

from functad.records import NamedTuple

_WORD = ir.IntType(32)


class DebugLines:
    """The lines of one file, in one LLVM module."""

    def __init__(self, module: ir.Module, filename: str) -> None:
        self._module = module
        self._file = module.add_debug_info("DIFile", {"filename": filename, "directory": ""})
        unit = {
            "language": ir.DIToken("DW_LANG_Python"),
            "file": self._file,
            "producer": "functad",
            "isOptimized": True,
            "runtimeVersion": 0,
            "emissionKind": ir.DIToken("LineTablesOnly"),
        }
        self._unit = module.add_debug_info("DICompileUnit", unit, is_distinct=True)
        module.add_named_metadata("llvm.dbg.cu", self._unit)
        version = module.add_metadata([ir.Constant(_WORD, 2), "Debug Info Version", ir.Constant(_WORD, 3)])
        module.add_named_metadata("llvm.module.flags", version)

    def scope(self, function: ir.Function, line: int) -> ir.DIValue:
        """Say at which line a function begins."""
        kind = self._module.add_debug_info("DISubroutineType", {"types": self._module.add_metadata([])})
        about = {
            "name": function.name,
            "scope": self._file,
            "file": self._file,
            "line": line,
            "type": kind,
            "scopeLine": line,
            "unit": self._unit,
            "spFlags": ir.DIToken("DISPFlagDefinition | DISPFlagOptimized"),
        }
        scope = self._module.add_debug_info("DISubprogram", about, is_distinct=True)
        function.set_metadata("dbg", scope)
        return scope

    def location(self, scope: ir.DIValue, line: int) -> ir.DIValue:
        """What instructions of a line bear."""
        return self._module.add_debug_info("DILocation", {"line": line, "column": 1, "scope": scope})


class CodeLine(NamedTuple):
    """A line of LLVM IR or assembly. line: of the kernels' text that it comes from; 0 if that is not known."""

    text: str
    line: int


_DEFINE = re.compile(r'^define .*@"?([^"(]+)"?\(')
_LOCATION = re.compile(r"^(!\d+) = (?:distinct )?!DILocation\(line: (\d+)", re.MULTILINE)
_DBG = re.compile(r",? !dbg (!\d+)")
_LOC = re.compile(r"^\s*\.loc\s+\d+\s+(\d+)")
_LABEL = re.compile(r"^([\w.$\"]+):")


def lines_of_ir(text: str) -> dict[str, list[CodeLine]]:
    """The functions of a module's text, by their names, without metadata."""
    known = {name: int(line) for name, line in _LOCATION.findall(text)}
    found: dict[str, list[CodeLine]] = {}
    inside: list[CodeLine] | None = None
    for line in text.split("\n"):
        head = _DEFINE.match(line)
        if head is not None:
            inside = found.setdefault(head[1], [])
            inside.append(CodeLine(_DBG.sub("", line), 0))
        elif inside is not None:
            place = _DBG.search(line)
            inside.append(CodeLine(_DBG.sub("", line).rstrip(), known.get(place[1], 0) if place else 0))
            if line.startswith("}"):
                inside = None
    return found


def lines_of_assembly(text: str, names: set[str]) -> dict[str, list[CodeLine]]:
    """The instructions and labels of some functions in assembly, without directives."""
    found: dict[str, list[CodeLine]] = {}
    inside: list[CodeLine] | None = None
    current = 0
    for line in text.split("\n"):
        label = _LABEL.match(line)
        name = label[1].strip('"') if label else ""
        if name in names:
            inside, current = found.setdefault(name, []), 0
        place = _LOC.match(line)
        if place is not None:
            current = int(place[1])
        elif re.match(r"\s*\.(size|section|cfi_endproc)", line):
            inside = None if ".cfi" not in line else inside
        elif inside is not None and line.strip() and not line.strip().startswith((".", "#")) or _is_jump_label(line):
            if inside is not None and not _is_noise(line):
                inside.append(CodeLine(line.partition("\t#")[0].rstrip(), 0 if label else current))
    return found


def _is_jump_label(line: str) -> bool:
    return line.startswith(".LBB")


def _is_noise(line: str) -> bool:
    return line.startswith((".Lfunc", ".Ltmp", ".Lcfi")) or line.strip().startswith("#")
