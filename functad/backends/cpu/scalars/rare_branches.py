"""Branches that loops seldom take, as calls that LLVM can make for whole vectors: so such loops are vectorised.

The version for n lanes looks whether any of them takes the branch; if one does, another function runs over the lanes.
It must not know formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

PREFIX = "functad.rarely."  # of the names of all functions here
_REGISTER = 64  # bytes, of the widest vectors
_I32, _I64 = ir.IntType(32), ir.IntType(64)
Emit = Callable[[ir.IRBuilder, Sequence[ir.Value]], ir.Value]


def function_of(module: ir.Module, name: str, kinds: Sequence[ir.Type], emit: Emit, optimized: bool) -> ir.Function:
    """A function of flag, usual value and operands: that value, but what `emit` makes of operands if the flag is not 0.

    Args:
        kinds: the types of flag, usual value and operands: floats.
        emit: given the operands, writes the instructions for the unusual value.
        optimized: whether these are worth the time of optimising them.
    """
    if name in module.globals:
        return module.globals[name]
    widest = 8 if any(isinstance(kind, ir.DoubleType) for kind in kinds) else 4
    lanes = [n for n in (2, 4, 8, 16) if n * widest <= _REGISTER]
    # A loop over a whole register becomes its instructions: with fewer lanes the others are there for nothing.
    over_lanes = _over_lanes(module, f"{name}.lanes", kinds, emit, lanes[-1] if optimized else None)
    if not optimized:
        over_lanes.attributes.add("optnone")
    for n in lanes:
        version = _version(module, f"{name}.{n}", [ir.VectorType(kind, n) for kind in kinds], n, lanes[-1], over_lanes)
        version.attributes.add("alwaysinline")
    function = _version(module, name, kinds, 1, lanes[-1], over_lanes)
    function.attributes.add("noinline")
    # As the LLVM project's "Vector Function ABI" names them: no mask, n lanes, each argument a vector.
    versions = ",".join(f"_ZGV_LLVM_N{n}{'v' * len(kinds)}_{name}({name}.{n})" for n in lanes)
    set.add(function.attributes, f'"vector-function-abi-variant"="{versions}"')  # llvmlite knows no such attribute
    return function


def _version(
    module: ir.Module, name: str, kinds: Sequence[ir.Type], n: int, room: int, over_lanes: ir.Function
) -> ir.Function:
    function = ir.Function(module, ir.FunctionType(kinds[1], kinds), name)
    function.linkage = "weak_odr"  # so that it is there when loops become vectors, though nobody calls it before
    for attribute in ("nounwind", "readnone"):
        function.attributes.add(attribute)
    set.add(function.attributes, "willreturn")
    builder = ir.IRBuilder(function.append_basic_block())
    places = [builder.alloca(ir.VectorType(argument.type.pointee, room)) for argument in over_lanes.args[:-1]]
    flag, usual = function.args[:2]
    is_rare = builder.fcmp_unordered("!=", flag, ir.Constant(flag.type, [0.0] * n if n > 1 else 0.0))
    if n > 1:
        lanes = builder.bitcast(is_rare, ir.IntType(n))
        is_rare = builder.icmp_unsigned("!=", lanes, ir.Constant(lanes.type, 0))
    with builder.if_then(is_rare, likely=False):
        for place, value in zip(places, function.args):
            builder.store(_repeated(builder, value, room), place)
        firsts = [builder.bitcast(p, a.type) for p, a in zip(places, over_lanes.args)]
        builder.call(over_lanes, [*firsts, ir.Constant(_I64, n)])
        builder.ret(builder.load(builder.bitcast(places[1], usual.type.as_pointer())))
    builder.ret(usual)
    return function


def _repeated(builder: ir.IRBuilder, value: ir.Value, count: int) -> ir.Value:
    """A vector of so many lanes, with those of the value again and again: what memory held before is no number."""
    if not isinstance(value.type, ir.VectorType):
        undefined = ir.Constant(ir.VectorType(value.type, 1), ir.Undefined)
        value = builder.insert_element(undefined, value, ir.Constant(_I32, 0))
    mask = ir.Constant(ir.VectorType(_I32, count), [lane % value.type.count for lane in range(count)])
    return builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), mask)


def _over_lanes(module: ir.Module, name: str, kinds: Sequence[ir.Type], emit: Emit, fixed: int | None) -> ir.Function:
    """Of arrays of flags, usual values and operands: writes unusual values over usual ones where the flag says so.

    fixed: how many there are, always; otherwise the last argument says it.
    """
    arrays = [kind.as_pointer() for kind in kinds]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [*arrays, _I64]), name)
    function.linkage = "linkonce_odr"
    for attribute in ("noinline", "nounwind"):
        function.attributes.add(attribute)
    for argument in function.args[:-1]:
        argument.attributes.add("noalias")
    before = function.append_basic_block()
    body = function.append_basic_block()
    after = function.append_basic_block()
    ir.IRBuilder(before).branch(body)
    builder = ir.IRBuilder(body)
    i = builder.phi(_I64)
    i.add_incoming(ir.Constant(_I64, 0), before)
    places = [builder.gep(array, [i]) for array in function.args[:-1]]
    flag, usual, *operands = [builder.load(place) for place in places]
    is_rare = builder.fcmp_unordered("!=", flag, ir.Constant(flag.type, 0.0))
    builder.store(builder.select(is_rare, emit(builder, operands), usual), places[1])
    following = builder.add(i, ir.Constant(_I64, 1))
    i.add_incoming(following, builder.block)
    count = function.args[-1] if fixed is None else ir.Constant(_I64, fixed)
    jump = builder.cbranch(builder.icmp_unsigned("<", following, count), body, after)
    if fixed is not None:
        width = ["llvm.loop.vectorize.width", ir.Constant(_I32, fixed)]
        options = [module.add_metadata(option) for option in (width, ["llvm.loop.unroll.disable"])]
        loop = ir.MDValue(module, [], name=str(len(module.metadata)))
        loop.operands = (loop, *options)  # by naming itself it differs from all others
        jump.set_metadata("llvm.loop", loop)
    ir.IRBuilder(after).ret_void()
    return function
