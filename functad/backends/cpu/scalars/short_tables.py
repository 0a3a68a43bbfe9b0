"""Tables of a few numbers, read by calls that LLVM can make for whole vectors: where it can, a register holds a table.

The version for n lanes permutes registers on processors with AVX-512, and reads memory lane by lane on others. It must
not know formulas.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from llvmlite import ir

from functad.backends.cpu.compile.processor import processor

_REGISTER = 64  # bytes, of the widest vectors
_I32 = ir.IntType(32)


def function_of(module: ir.Module, kind: ir.Type, values: Sequence[float]) -> ir.Function:
    """A function of an integer as wide as the numbers of this kind: the value at the place that its lowest bits give.

    There are 2^k values.
    """
    size = 4 if isinstance(kind, ir.FloatType) else 8
    name = f"functad.table.{name_of(kind, values)}"
    if name in module.globals:
        return module.globals[name]
    index = ir.IntType(8 * size)
    full = _REGISTER // size
    lanes = [n for n in (2, 4, 8, 16) if n <= full]
    by_registers = "+avx512f" in processor()[1].split(",") and len(values) >= full
    for n in lanes:
        function = _function(module, f"{name}.{n}", ir.VectorType(kind, n), ir.VectorType(index, n))
        function.attributes.add("alwaysinline")
        builder = ir.IRBuilder(function.append_basic_block())
        (given,) = function.args
        if by_registers:
            wide = _resized(builder, given, full)
            builder.ret(_resized(builder, _permuted(builder, kind, values, wide, full), n))
            continue
        result: ir.Value = ir.Constant(function.ftype.return_type, ir.Undefined)
        for lane in range(n):
            value = _read(builder, name, kind, values, builder.extract_element(given, _I32(lane)))
            result = builder.insert_element(result, value, _I32(lane))
        builder.ret(result)
    function = _function(module, name, kind, index)
    function.attributes.add("noinline")
    builder = ir.IRBuilder(function.append_basic_block())
    builder.ret(_read(builder, name, kind, values, function.args[0]))
    # As the LLVM project's "Vector Function ABI" names them: no mask, n lanes, each argument a vector.
    versions = ",".join(f"_ZGV_LLVM_N{n}v_{name}({name}.{n})" for n in lanes)
    set.add(function.attributes, f'"vector-function-abi-variant"="{versions}"')  # llvmlite knows no such attribute
    return function


def name_of(kind: ir.Type, values: Sequence[float]) -> str:
    """What tells a table from all others."""
    return hashlib.sha256(f"{kind} {values}".encode()).hexdigest()[:16]


def _function(module: ir.Module, name: str, result: ir.Type, index: ir.Type) -> ir.Function:
    function = ir.Function(module, ir.FunctionType(result, [index]), name)
    function.linkage = "weak_odr"  # so that it is there when loops become vectors, though nobody calls it before
    for attribute in ("nounwind", "readnone"):
        function.attributes.add(attribute)
    set.add(function.attributes, "willreturn")
    return function


def _read(builder: ir.IRBuilder, name: str, kind: ir.Type, values: Sequence[float], index: ir.Value) -> ir.Value:
    module, array = builder.module, ir.ArrayType(kind, len(values))
    if (held := f"{name}.values") not in module.globals:
        constant = ir.GlobalVariable(module, array, held)
        constant.global_constant, constant.linkage = True, "internal"
        constant.initializer = ir.Constant(array, [ir.Constant(kind, value) for value in values])
    place = builder.and_(index, index.type(len(values) - 1))
    return builder.load(builder.gep(module.globals[held], [index.type(0), place], inbounds=True))


def _permuted(builder: ir.IRBuilder, kind: ir.Type, values: Sequence[float], index: ir.Value, full: int) -> ir.Value:
    """The values at as many places as a register has lanes: from two registers at a time, of which a bit chooses."""
    registers = [
        ir.Constant(ir.VectorType(kind, full), list(values[i : i + full])) for i in range(0, len(values), full)
    ]
    registers *= 1 if len(registers) > 1 else 2
    letter = "ps" if isinstance(kind, ir.FloatType) else "pd"
    name = f"llvm.x86.avx512.vpermi2var.{letter}.512"
    register = registers[0].type
    form = ir.FunctionType(register, [register, index.type, register])
    permute = builder.module.globals.get(name) or ir.Function(builder.module, form, name)
    found = [builder.call(permute, [low, index, high]) for low, high in zip(registers[::2], registers[1::2])]
    bit, count = 2 * full, index.type.count
    while len(found) > 1:
        asked = builder.and_(index, ir.Constant(index.type, [bit] * count))
        is_set = builder.icmp_unsigned("!=", asked, ir.Constant(index.type, [0] * count))
        found = [builder.select(is_set, high, low) for low, high in zip(found[::2], found[1::2])]
        bit *= 2
    return found[0]


def _resized(builder: ir.IRBuilder, value: ir.Value, count: int) -> ir.Value:
    """A vector of so many lanes that begins with those of the value, or is their beginning."""
    if value.type.count == count:
        return value
    mask = ir.Constant(ir.VectorType(_I32, count), [lane % value.type.count for lane in range(count)])
    return builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), mask)
