"""The rewrites that errors about traced values show, chosen by what stands on the user's line.

Knows Python source text, and bytecode as far as to see a result thrown away; nothing of tracers.
"""

from __future__ import annotations

import opcode
import re
from types import FrameType

_STATIC = """or, when the value is an option rather than data, mark the argument static: jit(f, static_argnames="x")."""

_UNMAPPED = """or, when the value is the same for all examples, do not map it: in_axes=None for that argument."""

_IF = """Instead of
    if x > 0: y = f(x)
    else:     y = g(x)
write
    y = functad.lax.cond(x > 0, f, g, x)              # one of both runs
    y = functad.numpy.where(x > 0, f(x), g(x))        # computes both, selects element-wise
"""

_WHILE = """Instead of
    while x < limit: x = f(x)
write
    x = functad.lax.while_loop(lambda x: x < limit, f, x)
or keep this loop out of the transformed function (un-jitted `grad` and `jvp` run it as it stands),
"""

_LOGIC = """Instead of
    a and b        a or b        not a
write
    a & b          a | b         ~a                    # functad.numpy.logical_and, logical_or, logical_not
"""

_EXTREMUM = """Instead of
    max(x, y)
write
    functad.numpy.maximum(x, y)                       # or minimum
"""

_ANY = """Instead of
    any(x > 0)        all(x > 0)
write
    (x > 0).any()     (x > 0).all()
"""

_SORTED = """Instead of
    sorted(x)
write
    functad.numpy.sort(x)
"""

_MEMBER = """Instead of
    x in [1., 2.]
write
    functad.numpy.isin(x, functad.numpy.array([1., 2.]))
"""

_ASSERT = """Instead of
    assert x > 0
write a check that runs with the function, whose error functad.experimental.checkify.checkify(f)(x) returns,
    functad.experimental.checkify.check(x > 0, "x is {}", x)
or assert outside of the transformed function,
"""

_RANGE = """Instead of
    for i in range(n): ...
where n is traced, write
    x = functad.lax.fori_loop(0, n, lambda i, x: f(x), x)
"""

_LIST = """Instead of
    y = [1., 2., 3.][i]
write
    y = functad.numpy.asarray([1., 2., 3.])[i]        # shapes and axes must be known Python integers
"""

_SLICE = """Shapes, axes and slice bounds must be known Python integers. Instead of
    y = a[:n]
write
    y = functad.numpy.where(functad.numpy.arange(len(a)) < n, a, 0)
    y = functad.lax.dynamic_slice(a, (start,), (size,))     # the size known, the start traced
"""

SCALAR = """Instead of
    y = float(x) * 2
write
    y = x * 2                      # arithmetic on the traced value itself; x.astype(dtype) converts
or compute the Python number outside of the transformed function and pass it in as an argument."""

_WRITTEN = """Elements of a NumPy array are known numbers. Instead of
    a = numpy.zeros(3); a[0] = x
write
    a = functad.numpy.zeros(3).at[0].set(x)         # or numpy.stack([x, y, z]), when all of them are computed"""

_LISTED = """Elements of a NumPy array are known numbers, and NumPy does not look for traced ones in lists. Instead of
    a = numpy.array([x, y])                         # or numpy.sum([x, y])
write
    a = functad.numpy.array([x, y])                 # or numpy.stack([x, y]), numpy.sum(numpy.stack([x, y]))"""

_FULL = """Elements of a NumPy array are known numbers. Instead of
    a = numpy.full(3, x)
write
    a = functad.numpy.full(3, x)                    # or numpy.full(3, x, like=x)"""

_AS_ARRAY = """It is an array already: leave the conversion out, or write functad.numpy.asarray(x)."""

_MATH = """Python's `math` computes with known numbers alone. Instead of
    y = math.sin(x)
write
    y = numpy.sin(x)                                # functad.numpy.sin; math.erf is functad.scipy.special.erf"""

_FUNCTION = """Use the function of the same name in `functad.numpy`, or keep this computation out of the
transformed function."""

FORMAT = """Instead of
    print(f"{x:.3f}")
write, with a plain string,
    functad.debug.print("{x:.3f}", x=x)
which prints each time the function runs; or print the tracer itself, f"{x}", to see its type."""


_NOT_CODE = r"\"[^\"]*\"|'[^']*'|#.*"
"""Texts and comments in a line."""


def truth_hint(line: str, transform: str) -> str:
    """What to write instead of a line that asks for the truth of a traced value."""
    line = re.sub(_NOT_CODE, "", line)
    if re.search(r"\bwhile\b", line):
        rewrite = _WHILE
    elif re.match(r"\s*assert\b", line):
        rewrite = _ASSERT
    elif re.search(r"(?<!\.)\b(any|all)\(", line):
        rewrite = _ANY
    elif re.search(r"(?<!\.)\bsorted\(", line):
        rewrite = _SORTED
    elif re.search(r"\b(and|or|not)\b", line):
        rewrite = _LOGIC
    elif re.search(r"(?<!\.)\b(max|min)\(", line):
        rewrite = _EXTREMUM
    elif re.search(r"\bin [\[({]", line) and not re.search(r"\bfor\b", line):
        rewrite = _MEMBER
    else:
        rewrite = _IF
    return rewrite + _ending(transform)


def index_hint(line: str, transform: str) -> str:
    """What to write instead of a line that uses a traced value as a Python integer."""
    if "range(" in line:
        rewrite = _RANGE
    elif re.search(r"\[[^\]]*:", line) or not re.search(r"\[", line):
        rewrite = _SLICE
    else:
        rewrite = _LIST
    return rewrite + _ending(transform)


def number_hint(line: str) -> str:
    """What to write instead of a line that makes a Python number of a traced value."""
    if re.search(r"\bc?math\.\w+\(", line):
        return _MATH
    return _WRITTEN if re.search(_WRITES, line) and not re.search(r"\b(float|int|complex)\(", line) else SCALAR


def array_hint(line: str) -> str:
    """What to write instead of a line that makes a NumPy array of a traced value."""
    if re.search(_WRITES, line):
        return _WRITTEN
    if re.search(r"\bfull\(", line):
        return _FULL
    if re.search(r"\b\w+\((\[|\(|list\()", line):
        return _LISTED
    if re.search(r"\b(u?int|float|complex)\d+\(", line):
        return SCALAR
    return _AS_ARRAY if re.search(r"\b(as(any|contiguous)?)?array(_chkfinite)?\(", line) else _FUNCTION


_WRITES = r"(^|[:;])\s*[\w.]+\[.*\]\s*([-+*/@%&|^]|//|\*\*|<<|>>)?=[^=]"  # a[i] = x, a[i] += x


def _ending(transform: str) -> str:
    return _UNMAPPED if transform == "vmap" else _STATIC


_POP_TOP, _CACHE = opcode.opmap["POP_TOP"], opcode.opmap.get("CACHE", 0)


def discards_result(caller: FrameType) -> bool:
    """Whether the call that a function is in the midst of stands as a statement, which drops its result."""
    code, at = caller.f_code.co_code, caller.f_lasti + 2
    while at < len(code) and code[at] == _CACHE:
        at += 2
    return at < len(code) and code[at] == _POP_TOP and "timeit" not in caller.f_code.co_filename
