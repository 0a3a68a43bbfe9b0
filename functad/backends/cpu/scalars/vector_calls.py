"""Instructions that LLVM makes of no loop, as calls that it can make for whole vectors: tables, parts of numbers.

Of each function there are versions for n lanes, which are written where the calls stand once loops are vectors. It must
not know formulas.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from llvmlite import ir

from functad.backends.cpu.compile.processor import processor

_REGISTER = 64  # bytes, of the widest vectors
_I32 = ir.IntType(32)
_CURRENT_ROUNDING = 4
# What `vfixupimm` does for each class of numbers, four bits each from the lowest on: NaN stays NaN, of 0 comes −∞, of ∞
# that, of all that is negative NaN; nothing is changed for 1 and other positive numbers.
_ENDS_OF_LOGARITHM = 0x03530422
_Instructions = Callable[[ir.IRBuilder, Sequence[ir.Value]], ir.Value]


def has_wide_registers() -> bool:
    """Whether the processor knows AVX-512."""
    return "+avx512f" in processor()[1].split(",")


def table_function(module: ir.Module, kind: ir.Type, values: Sequence[float]) -> ir.Function:
    """A function of an integer as wide as the numbers of this kind: the value at the place that its lowest bits give.

    There are 2^k values. Registers are permuted where they can be; otherwise each lane reads memory.
    """
    name = f"functad.table.{table_name(kind, values)}"
    by_registers = has_wide_registers() and len(values) >= _REGISTER // _size(kind)

    def of_vector(builder: ir.IRBuilder, operands: Sequence[ir.Value]) -> ir.Value:
        (index,) = operands
        if by_registers:
            wide = _resized(builder, index, _REGISTER // _size(kind))
            return _resized(builder, _permuted(builder, kind, values, wide), index.type.count)
        result: ir.Value = ir.Constant(ir.VectorType(kind, index.type.count), ir.Undefined)
        for lane in range(index.type.count):
            value = _read(builder, name, kind, values, builder.extract_element(index, _I32(lane)))
            result = builder.insert_element(result, value, _I32(lane))
        return result

    def of_one(builder: ir.IRBuilder, operands: Sequence[ir.Value]) -> ir.Value:
        return _read(builder, name, kind, values, operands[0])

    return _function_of(module, name, kind, [ir.IntType(8 * _size(kind))], of_vector, of_one)


def table_name(kind: ir.Type, values: Sequence[float]) -> str:
    """What tells a table from all others."""
    return hashlib.sha256(f"{kind} {values}".encode()).hexdigest()[:16]


def scaling_function(module: ir.Module, kind: ir.Type) -> ir.Function:
    """A function of x and n, of the same kind: 2^⌊n⌋ x, rounded once. It needs wide registers."""
    return _instruction(module, "scalef", kind, 2, lambda given, is_one: [*given, given[0]])


def mantissa_function(module: ir.Module, kind: ir.Type) -> ir.Function:
    """A function of x > 0: m with x = 2^e m and 1 ≤ m < 2. It needs wide registers."""
    return _instruction(module, "getmant", kind, 1, lambda x, is_one: [*x, *(x if is_one else []), _I32(0), *x])


def exponent_function(module: ir.Module, kind: ir.Type) -> ir.Function:
    """A function of x > 0: the whole number e, of the same kind, with x = 2^e m. It needs wide registers."""
    return _instruction(module, "getexp", kind, 1, lambda x, is_one: [*x, *(x if is_one else []), *x])


def logarithm_function(module: ir.Module, kind: ir.Type) -> ir.Function:
    """A function of log(x), for usual x, and x: log(x) where x is anything. It needs wide registers."""
    word = ir.IntType(8 * _size(kind))

    def arranged(given: Sequence[ir.Value], is_one: bool) -> list[ir.Value]:
        table = ir.Constant(ir.VectorType(word, given[0].type.count), [_ENDS_OF_LOGARITHM] * given[0].type.count)
        return [*given, table, _I32(0)]

    return _instruction(module, "fixupimm", kind, 2, arranged)


def _instruction(
    module: ir.Module,
    name: str,
    kind: ir.Type,
    count: int,
    arranged: Callable[[Sequence[ir.Value], bool], list[ir.Value]],
) -> ir.Function:
    """A function of so many operands that is an instruction, whose arguments but mask and rounding are `arranged`."""
    letter, full = ("s" if _size(kind) == 4 else "d"), _REGISTER // _size(kind)

    def called(builder: ir.IRBuilder, form: str, arguments: list[ir.Value], mask: ir.IntType) -> ir.Value:
        arguments = [*arguments, mask(-1), _I32(_CURRENT_ROUNDING)]
        function_type = ir.FunctionType(arguments[0].type, [argument.type for argument in arguments])
        full_name = f"llvm.x86.avx512.mask.{name}.{form}"
        return builder.call(_intrinsic(builder.module, full_name, function_type), arguments)

    def of_vector(builder: ir.IRBuilder, operands: Sequence[ir.Value]) -> ir.Value:
        wide = [_resized(builder, operand, full) for operand in operands]
        found = called(builder, f"p{letter}.512", arranged(wide, False), ir.IntType(full))
        return _resized(builder, found, operands[0].type.count)

    def of_one(builder: ir.IRBuilder, operands: Sequence[ir.Value]) -> ir.Value:
        lanes = ir.Constant(ir.VectorType(kind, 16 // _size(kind)), ir.Undefined)
        low = [builder.insert_element(lanes, operand, _I32(0)) for operand in operands]
        return builder.extract_element(called(builder, f"s{letter}", arranged(low, True), ir.IntType(8)), _I32(0))

    return _function_of(module, f"functad.{name}.p{letter}", kind, [kind] * count, of_vector, of_one)


def _function_of(
    module: ir.Module,
    name: str,
    kind: ir.Type,
    operands: Sequence[ir.Type],
    of_vector: _Instructions,
    of_one: _Instructions,
) -> ir.Function:
    """A function with versions for vectors; all of its operands are as wide as its result."""
    if name in module.globals:
        return module.globals[name]
    lanes = [n for n in (2, 4, 8, 16) if n * _size(kind) <= _REGISTER]
    for n in lanes:
        version = _declared(module, f"{name}.{n}", ir.VectorType(kind, n), [ir.VectorType(k, n) for k in operands])
        version.attributes.add("alwaysinline")
        builder = ir.IRBuilder(version.append_basic_block())
        builder.ret(of_vector(builder, version.args))
    function = _declared(module, name, kind, operands)
    function.linkage = "weak"  # no pass writes it where the calls stand: it might be another one
    builder = ir.IRBuilder(function.append_basic_block())
    builder.ret(of_one(builder, function.args))
    # As the LLVM project's "Vector Function ABI" names them: no mask, n lanes, each argument a vector.
    versions = ",".join(f"_ZGV_LLVM_N{n}{'v' * len(operands)}_{name}({name}.{n})" for n in lanes)
    set.add(function.attributes, f'"vector-function-abi-variant"="{versions}"')  # llvmlite knows no such attribute
    return function


def _declared(module: ir.Module, name: str, result: ir.Type, operands: Sequence[ir.Type]) -> ir.Function:
    function = ir.Function(module, ir.FunctionType(result, operands), name)
    function.linkage = "weak_odr"  # so that it is there when loops become vectors, though nobody calls it before
    for attribute in ("nounwind", "readnone"):
        function.attributes.add(attribute)
    set.add(function.attributes, "willreturn")
    return function


def _size(kind: ir.Type) -> int:
    return 4 if isinstance(kind, ir.FloatType) else 8


def _read(builder: ir.IRBuilder, name: str, kind: ir.Type, values: Sequence[float], index: ir.Value) -> ir.Value:
    module, array = builder.module, ir.ArrayType(kind, len(values))
    if (held := f"{name}.values") not in module.globals:
        constant = ir.GlobalVariable(module, array, held)
        constant.global_constant, constant.linkage = True, "internal"
        constant.initializer = ir.Constant(array, [ir.Constant(kind, value) for value in values])
    place = builder.and_(index, index.type(len(values) - 1))
    return builder.load(builder.gep(module.globals[held], [index.type(0), place], inbounds=True))


def _permuted(builder: ir.IRBuilder, kind: ir.Type, values: Sequence[float], index: ir.Value) -> ir.Value:
    """The values at as many places as a register has lanes: from two registers at a time, of which a bit chooses."""
    full = index.type.count
    register = ir.VectorType(kind, full)
    held = [ir.Constant(register, list(values[i : i + full])) for i in range(0, len(values), full)]
    held *= 1 if len(held) > 1 else 2
    permute = _intrinsic(
        builder.module,
        f"llvm.x86.avx512.vpermi2var.p{'s' if _size(kind) == 4 else 'd'}.512",
        ir.FunctionType(register, [register, index.type, register]),
    )
    found = [builder.call(permute, [low, index, high]) for low, high in zip(held[::2], held[1::2])]
    bit = 2 * full
    while len(found) > 1:
        asked = builder.and_(index, ir.Constant(index.type, [bit] * full))
        is_set = builder.icmp_unsigned("!=", asked, ir.Constant(index.type, [0] * full))
        found = [builder.select(is_set, high, low) for low, high in zip(found[::2], found[1::2])]
        bit *= 2
    return found[0]


def _intrinsic(module: ir.Module, name: str, kind: ir.FunctionType) -> ir.Function:
    return module.globals.get(name) or ir.Function(module, kind, name)


def _resized(builder: ir.IRBuilder, value: ir.Value, count: int) -> ir.Value:
    """A vector of so many lanes that begins with those of the value, or is their beginning."""
    if value.type.count == count:
        return value
    mask = ir.Constant(ir.VectorType(_I32, count), [lane % value.type.count for lane in range(count)])
    return builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), mask)
